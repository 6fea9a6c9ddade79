// A transform for asc (`--transform ./manifest.mjs`): writes the records of manifest.json, a list that
// lies beside this file, into the module's custom section.

import { readFileSync } from "node:fs";

export default class Manifest {
    afterCompile(module) {
        const records = JSON.parse(readFileSync(new URL("manifest.json", import.meta.url), "utf8"));
        const lines = records.map((record) => JSON.stringify(record) + "\n").join("");
        module.addCustomSection("wasmill.manifest", new TextEncoder().encode(lines));
    }
}
