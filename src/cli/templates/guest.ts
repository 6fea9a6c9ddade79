// A UDF over text, in AssemblyScript. `wasmill.ts` says what there is; `manifest.json` lists the UDFs.

import { Call, OK, OUT_OF_MEMORY } from "./wasmill";

export { wasmill_alloc, wasmill_free, wasmill_reset, wasmill_panic } from "./wasmill";

export function count_words(call: Call): i32 {
    const texts = call.argument(0);
    const out = call.makeResult<i64>();
    if (!out) return call.fail(OUT_OF_MEMORY);
    for (let row: usize = 0; row < <usize>call.rows; row++) {
        const end = texts.textEnd(row);
        let words: i64 = 0;
        let inside = false;
        for (let at = texts.textBegin(row); at < end; at++) {
            const blank = load<u8>(at) <= 0x20;
            if (!blank && !inside) words++;
            inside = !blank;
        }
        store<i64>(out + row * 8, words);
    }
    return OK;
}
