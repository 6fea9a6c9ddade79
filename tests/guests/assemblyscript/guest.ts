/** The functions that tests/core/languages.rs runs in every language, in AssemblyScript. */

import {
    ArrowArray, Call, Init, OK, OUT_OF_MEMORY, log, resultMemory, wasmill_alloc, wasmill_free,
    wholeNumber,
} from "./wasmill";

export { wasmill_alloc, wasmill_free, wasmill_reset, wasmill_panic } from "./wasmill";

function magnitude(x: i64): u64 {
    return x < 0 ? 0 - <u64>x : <u64>x;
}

export function gcd(call: Call): i32 {
    const a = call.argument(0);
    const b = call.argument(1);
    const out = call.makeResult<i64>();
    if (!out) return call.fail(OUT_OF_MEMORY);
    for (let row: usize = 0; row < <usize>call.rows; row++) {
        let x = magnitude(a.value<i64>(row));
        let y = magnitude(b.value<i64>(row));
        while (y) {
            const rest = x % y;
            x = y;
            y = rest;
        }
        store<i64>(out + row * 8, <i64>x);
    }
    return OK;
}

export function div(call: Call): i32 {
    const a = call.argument(0);
    const b = call.argument(1);
    const out = call.makeResult<i64>();
    if (!out) return call.fail(OUT_OF_MEMORY);
    for (let row: usize = 0; row < <usize>call.rows; row++) {
        const x = a.value<i64>(call.rowOf(0, row));
        const y = b.value<i64>(call.rowOf(1, row));
        let told = true;
        let quotient: i64 = 0;
        if (y == 0) {
            told = call.failRow(row, 1, "division by zero");
        } else if (x == i64.MIN_VALUE && y == -1) {
            told = call.failRow(row, 2, "overflow");
        } else {
            quotient = x / y;
        }
        if (!told) return call.fail(OUT_OF_MEMORY);
        store<i64>(out + row * 8, quotient);
    }
    return OK;
}

export function upper(call: Call): i32 {
    const texts = call.argument(0);
    const rows = <usize>call.rows;
    const from = texts.textBegin(0);
    const len = texts.textEnd(rows - 1) - from;
    // As many bytes come out as go in, so the offsets can stay.
    const bytes = resultMemory(len);
    if (!bytes || !call.result.begin(rows, 3)) return call.fail(OUT_OF_MEMORY);
    for (let i: usize = 0; i < len; i++) {
        const c = load<u8>(from + i);
        store<u8>(bytes + i, c - 0x61 < 26 ? c - 0x20 : c);
    }
    call.result.setBuffer(1, texts.buffer(1));
    call.result.setBuffer(2, bytes);
    return OK;
}

export function char_length(call: Call): i32 {
    const texts = call.argument(0);
    const out = call.makeResult<i64>();
    if (!out) return call.fail(OUT_OF_MEMORY);
    for (let row: usize = 0; row < <usize>call.rows; row++) {
        const end = texts.textEnd(row);
        let characters: i64 = 0;
        // Bytes of the form 10xxxxxx go on with a character.
        for (let at = texts.textBegin(row); at < end; at++) {
            characters += i64((load<u8>(at) & 0xc0) != 0x80);
        }
        store<i64>(out + row * 8, characters);
    }
    return OK;
}

export function identity(call: Call): i32 {
    const result = changetype<usize>(call.result);
    memory.copy(result, changetype<usize>(call.argument(0)), offsetof<ArrowArray>());
    return OK;
}

@unmanaged
class Affine {
    scale: i64;
    offset: i64;
}

export function affine_init(init: Init): i32 {
    const why = "scale and offset must fit 64-bit integers";
    if (!init.readInt64("scale")) return init.fail(why);
    const scale = wholeNumber;
    if (!init.readInt64("offset")) return init.fail(why);
    const offset = wholeNumber;
    const block = wasmill_alloc(offsetof<Affine>(), 8);
    if (!block) return init.fail(OUT_OF_MEMORY);
    const state = changetype<Affine>(block);
    state.scale = scale;
    state.offset = offset;
    init.state = block;
    log(3, "affine begins");
    return OK;
}

export function affine_close(state: usize): void {
    wasmill_free(state, offsetof<Affine>(), 8);
    log(3, "affine ends");
}

export function apply(call: Call): i32 {
    const state = changetype<Affine>(call.state);
    const column = call.argument(0);
    const out = call.makeResult<i64>();
    if (!out) return call.fail(OUT_OF_MEMORY);
    for (let row: usize = 0; row < <usize>call.rows; row++) {
        store<i64>(out + row * 8, column.value<i64>(row) * state.scale + state.offset);
    }
    return OK;
}

export function running_sum_init(init: Init): i32 {
    const block = wasmill_alloc(sizeof<i64>(), 8);
    if (!block) return init.fail(OUT_OF_MEMORY);
    store<i64>(block, 0);
    init.state = block;
    return OK;
}

export function running_sum(call: Call): i32 {
    const column = call.argument(0);
    const out = call.makeResult<i64>();
    if (!out) return call.fail(OUT_OF_MEMORY);
    let sum = load<i64>(call.state);
    for (let row: usize = 0; row < <usize>call.rows; row++) {
        if (column.isValid(row)) {
            sum += column.value<i64>(row);
        } else if (!call.setNull(row)) {
            return call.fail(OUT_OF_MEMORY);
        }
        store<i64>(out + row * 8, sum);
    }
    store<i64>(call.state, sum);
    return OK;
}

export function boom(call: Call): i32 {
    const column = call.argument(0);
    for (let row: usize = 0; row < <usize>call.rows; row++) {
        assert(column.value<i64>(row) != 3, "boom at 3");
    }
    return identity(call);
}
