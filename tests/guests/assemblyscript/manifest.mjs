// A transform for asc (`--transform ./manifest.mjs`): writes the records of manifest.json, a list that
// lies beside this file, into the module's custom section.

import { readFileSync } from "node:fs";

// Numbers are kept as they are written, for JavaScript rounds large ones: as texts that begin with NUL.
const NUMBER_OR_TEXT = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const KEPT_NUMBER = /"\\u0000(-?\d[\d.eE+-]*)"/g;

function parse(json) {
    const keep = (token) => (token.startsWith('"') ? token : JSON.stringify("\0" + token));
    return JSON.parse(json.replace(NUMBER_OR_TEXT, keep));
}

function line(record) {
    return JSON.stringify(record).replace(KEPT_NUMBER, "$1") + "\n";
}

export default class Manifest {
    afterCompile(module) {
        const records = parse(readFileSync(new URL("manifest.json", import.meta.url), "utf8"));
        const lines = records.map(line).join("");
        module.addCustomSection("wasmill.manifest", new TextEncoder().encode(lines));
    }
}
