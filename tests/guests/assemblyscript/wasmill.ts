/**
 * Version 1 of the Wasmill ABI in AssemblyScript: frames, arrays, memory. Copy this file and
 * `manifest.mjs` beside your guest.
 *
 * `docs/abi.md` is the contract; `guest.ts` uses everything here. Build with `--runtime minimal`,
 * `--use abort=wasmill/leaveText` (the path of this file without its ending) and
 * `--exportStart _initialize`. A guest's root file must pass the exports on:
 *
 *     export { wasmill_alloc, wasmill_free, wasmill_reset, wasmill_panic } from "./wasmill";
 */

/** What a function answers: the result is there. */
export const OK: i32 = 0;
/** What a function answers: the call failed as a whole. */
export const ERROR: i32 = 2;

/** The message for calls that find no memory. */
export const OUT_OF_MEMORY: string = "out of memory";

/** An array: `ArrowArray` of the Arrow C Data Interface. */
@unmanaged
export class ArrowArray {
    length: i64;
    null_count: i64;
    offset: i64;
    n_buffers: i64;
    n_children: i64;
    buffers: usize;
    children: usize;
    dictionary: usize;
    release: usize;
    private_data: usize;

    /** The address of a buffer; 0 when it is not there. */
    @inline
    buffer(index: usize): usize {
        return load<usize>(this.buffers + index * sizeof<usize>());
    }

    /** The value of a row of fixed width. Values under nulls are arbitrary. */
    @inline
    value<T>(row: usize): T {
        return load<T>(this.buffer(1) + row * sizeof<T>());
    }

    /** Where the bytes of a row of a utf8 or binary argument begin. */
    @inline
    textBegin(row: usize): usize {
        return this.buffer(2) + load<i32>(this.buffer(1) + row * 4);
    }

    /** Where the bytes of a row of a utf8 or binary argument end. */
    @inline
    textEnd(row: usize): usize {
        return this.textBegin(row + 1);
    }

    /** Whether a row of an argument is not null. */
    @inline
    isValid(row: usize): bool {
        const validity = this.buffer(0);
        return !validity || ((load<u8>(validity + (row >> 3)) >> <u8>(row & 7)) & 1) != 0;
    }

    /** Makes this an array over buffers, all missing yet, without children. False when there is no memory. */
    begin(length: usize, buffers: usize): bool {
        const list = resultMemory(buffers * sizeof<usize>());
        if (!list) return false;
        memory.fill(list, 0, buffers * sizeof<usize>());
        memory.fill(changetype<usize>(this), 0, offsetof<ArrowArray>());
        this.length = length;
        this.n_buffers = buffers;
        this.buffers = list;
        return true;
    }

    /** Puts a buffer in its place. */
    @inline
    setBuffer(index: usize, address: usize): void {
        store<usize>(this.buffers + index * sizeof<usize>(), address);
    }
}

/** The frame of a call: one batch. */
@unmanaged
export class Call {
    size: u32;
    flags: u32;
    binding: u32;
    state: usize;
    rows: u64;
    n_args: u32;
    args: usize;
    result: ArrowArray;
    row_errors: ArrowArray;
    message: usize;
    message_len: u32;

    /** The array of an argument. */
    @inline
    argument(index: usize): ArrowArray {
        return changetype<ArrowArray>(load<usize>(this.args + index * 8));
    }

    /** Where in an argument the value for `row` stands: at 0 for a constant. */
    @inline
    rowOf(index: usize, row: usize): usize {
        return load<u32>(this.args + index * 8, 4) & 1 ? 0 : row;
    }

    /**
     * Makes the result an array of fixed-width values without nulls, which the caller fills, and returns
     * their address; 0 when there is no memory.
     */
    makeResult<T>(): usize {
        const values = resultMemory(<usize>this.rows * sizeof<T>());
        if (!values || !this.result.begin(<usize>this.rows, 2)) return 0;
        this.result.setBuffer(1, values);
        return values;
    }

    /** Makes a row of the result null, once. False when there is no memory. */
    setNull(row: usize): bool {
        let validity = this.result.buffer(0);
        if (!validity) {
            const bytes = (<usize>this.rows + 7) >> 3;
            validity = resultMemory(bytes);
            if (!validity) return false;
            memory.fill(validity, 0xff, bytes);
            this.result.setBuffer(0, validity);
        }
        const byte = validity + (row >> 3);
        store<u8>(byte, load<u8>(byte) & ~(1 << <u8>(row & 7)));
        this.result.null_count += 1;
        return true;
    }

    /** Fails the call as a whole. */
    fail(why: string): i32 {
        this.message_len = <u32>String.UTF8.byteLength(why);
        this.message = encoded(why);
        if (!this.message) this.message_len = 0;
        return ERROR;
    }

    /**
     * Fails one row: rows in increasing order, each at most once. `code` is the guest's own number. False
     * when there is no memory.
     */
    failRow(row: usize, code: i32, message: string): bool {
        const errors = rowErrorsOf(this);
        return errors != null && errors.add(this.row_errors, row, code, message);
    }
}

/** The frame of an `init`. */
@unmanaged
export class Init {
    size: u32;
    flags: u32;
    args: usize;
    args_len: u32;
    state: usize;
    message: usize;
    message_len: u32;

    /** Fails the `init`. */
    fail(why: string): i32 {
        this.message_len = <u32>String.UTF8.byteLength(why);
        this.message = encoded(why);
        if (!this.message) this.message_len = 0;
        return ERROR;
    }

    /**
     * Reads a whole number of the init arguments into `wholeNumber`. False when it is missing, not whole,
     * or does not fit.
     */
    readInt64(name: string): bool {
        const len = <usize>String.UTF8.byteLength(name);
        const wanted = encoded(name);
        const end = this.args + this.args_len;
        let at = this.args;
        let depth = 0;
        while (at < end) {
            const c = load<u8>(at);
            if (c == 0x22) {
                // A text; at depth 1 and before a colon it is the name of a member.
                const begin = at + 1;
                at = begin;
                while (at < end && load<u8>(at) != 0x22) at += load<u8>(at) == 0x5c ? 2 : 1;
                const same = at - begin == len && !memory.compare(begin, wanted, len);
                at = afterSpace(at + 1, end);
                if (same && depth == 1 && at < end && load<u8>(at) == 0x3a) {
                    return parseInt64(afterSpace(at + 1, end), end);
                }
            } else {
                if (c == 0x7b || c == 0x5b) depth++;
                if (c == 0x7d || c == 0x5d) depth--;
                at++;
            }
        }
        return false;
    }
}

/** What `Init.readInt64` read. */
export let wholeNumber: i64 = 0;

function afterSpace(at: usize, end: usize): usize {
    while (at < end && load<u8>(at) <= 0x20) at++;
    return at;
}

function parseInt64(at: usize, end: usize): bool {
    const negative = at < end && load<u8>(at) == 0x2d;
    if (negative) at++;
    const begin = at;
    let magnitude: u64 = 0;
    for (; at < end; at++) {
        const digit = <u64>load<u8>(at) - 0x30;
        if (digit > 9) break;
        if (magnitude > (u64.MAX_VALUE - digit) / 10) return false;
        magnitude = magnitude * 10 + digit;
    }
    if (at == begin) return false;
    if (at < end) {
        // A fraction, or an exponent.
        const next = load<u8>(at);
        if (next == 0x2e || next == 0x65 || next == 0x45) return false;
    }
    if (magnitude > <u64>i64.MAX_VALUE + u64(negative)) return false;
    wholeNumber = <i64>(negative ? 0 - magnitude : magnitude);
    return true;
}

/** Row errors while they are collected, in result memory. */
@unmanaged
class RowErrors {
    rows: usize;
    codes: usize;
    offsets: usize;
    text: usize;
    capacity: usize;
    textCapacity: usize;
    row: ArrowArray;
    code: ArrowArray;
    message: ArrowArray;

    add(all: ArrowArray, row: usize, code: i32, message: string): bool {
        const count = <usize>all.length;
        if (count == this.capacity) {
            const capacity = count ? count * 2 : 16;
            const rows = grown(this.rows, count * 4, capacity * 4);
            const codes = grown(this.codes, count * 4, capacity * 4);
            const offsets = grown(this.offsets, count ? (count + 1) * 4 : 0, (capacity + 1) * 4);
            if (!rows || !codes || !offsets) return false;
            if (!count) store<i32>(offsets, 0);
            this.rows = rows;
            this.codes = codes;
            this.offsets = offsets;
            this.capacity = capacity;
        }
        const from = <usize>load<i32>(this.offsets + count * 4);
        const len = <usize>String.UTF8.byteLength(message);
        if (len > <usize>i32.MAX_VALUE - from) return false;
        if (!this.text || from + len > this.textCapacity) {
            const capacity = (from + len) * 2 + 64;
            const text = grown(this.text, from, capacity);
            if (!text) return false;
            this.text = text;
            this.textCapacity = capacity;
        }
        String.UTF8.encodeUnsafe(changetype<usize>(message), message.length, this.text + from);
        store<u32>(this.rows + count * 4, <u32>row);
        store<i32>(this.codes + count * 4, code);
        store<i32>(this.offsets + (count + 1) * 4, <i32>(from + len));
        this.row.setBuffer(1, this.rows);
        this.code.setBuffer(1, this.codes);
        this.message.setBuffer(1, this.offsets);
        this.message.setBuffer(2, this.text);
        const length = <i64>count + 1;
        this.row.length = length;
        this.code.length = length;
        this.message.length = length;
        all.length = length;
        return true;
    }
}

function rowErrorsOf(call: Call): RowErrors | null {
    const all = call.row_errors;
    // The host ignores `private_data`: it is where the collection is found again.
    if (all.private_data) return changetype<RowErrors>(all.private_data);
    const size = offsetof<RowErrors>();
    const children = 3 * sizeof<usize>();
    const block = resultMemory(size + children + 3 * offsetof<ArrowArray>() + 8);
    if (!block) return null;
    memory.fill(block, 0, size);
    const errors = changetype<RowErrors>(block);
    const list = block + size;
    const arrays = (list + children + 7) & ~7;
    errors.row = changetype<ArrowArray>(arrays);
    errors.code = changetype<ArrowArray>(arrays + offsetof<ArrowArray>());
    errors.message = changetype<ArrowArray>(arrays + 2 * offsetof<ArrowArray>());
    store<ArrowArray>(list, errors.row);
    store<ArrowArray>(list, errors.code, 4);
    store<ArrowArray>(list, errors.message, 8);
    if (!errors.row.begin(0, 2) || !errors.code.begin(0, 2) || !errors.message.begin(0, 3)) return null;
    if (!all.begin(0, 1)) return null;
    all.n_children = 3;
    all.children = list;
    all.private_data = block;
    return errors;
}

/** A larger block of result memory that begins with what the old one held; 0 when there is none. */
export function grown(old: usize, used: usize, size: usize): usize {
    const larger = resultMemory(size);
    if (larger && used) memory.copy(larger, old, used);
    return larger;
}

/** A text as UTF-8 in result memory; 0 when there is none. */
function encoded(text: string): usize {
    const place = resultMemory(<usize>String.UTF8.byteLength(text));
    if (place) String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, place);
    return place;
}

// ---- Panics ----------------------------------------------------------------------------------------

const PANIC_BYTES: i32 = 1020;

/** Where the text of a panic is: its length, then its bytes. */
export const wasmill_panic: usize = memory.data(1024, 8);

/** What `abort` and failed assertions do: leave the text for the host, and end the instance. */
export function leaveText(message: string | null, file: string | null, line: u32, column: u32): void {
    const text = message ? message : "abort";
    // At most three bytes for each unit of UTF-16.
    const units = min(text.length, PANIC_BYTES / 3);
    const len = String.UTF8.encodeUnsafe(changetype<usize>(text), units, wasmill_panic + 4);
    store<u32>(wasmill_panic, <u32>len);
    unreachable();
}

// ---- Memory -----------------------------------------------------------------------------------------
//
// The language's own allocator ends the instance when memory runs out, while a host wants to be told 0.
// So blocks for the host and for results come from here: free lists by size, four sizes from one power of
// two to the next, every block aligned to 64 bytes. Strings and objects stay with the language.

const CLASSES: usize = 112;
const PAGE: usize = 65536;
const freeLists: usize = memory.data(448, 8);
let fresh: usize = 0;
let freshEnd: usize = 0;

// The language's allocator takes all memory that is there when it is used first: that is now.
heap.free(heap.alloc(1));

/** The size of the blocks for `size` bytes, at most 2 GiB: a multiple of 64. */
function sizeOfClass(size: usize): usize {
    if (size <= 64) return 64;
    const power: usize = 31 - clz<u32>(<u32>size - 1);
    const step = max<usize>(<usize>1 << (power - 2), 64);
    return (size + step - 1) & ~(step - 1);
}

/** The free list of blocks of this size, which `sizeOfClass` gave. */
function listOf(size: usize): usize {
    if (size <= 64) return freeLists;
    const power: usize = 31 - clz<u32>(<u32>size - 1);
    const step = max<usize>(<usize>1 << (power - 2), 64);
    return freeLists + ((power - 6) * 4 + (size - (<usize>1 << power)) / step) * sizeof<usize>();
}

/** A block of `size` bytes, aligned to at most 64; 0 when there is none. */
export function wasmill_alloc(size: usize, align: usize): usize {
    if (align > 64 || size > 0x80000000) return 0;
    size = sizeOfClass(size);
    const list = listOf(size);
    let block = load<usize>(list);
    if (block) {
        store<usize>(list, load<usize>(block));
        return block;
    }
    if (freshEnd - fresh < size) {
        const before = <usize>memory.size() * PAGE;
        const adjacent = fresh != 0 && before == freshEnd;
        const missing = adjacent ? size - (freshEnd - fresh) : size;
        if (memory.grow(<i32>((missing + PAGE - 1) / PAGE)) < 0) return 0;
        if (!adjacent) fresh = before;
        freshEnd = <usize>memory.size() * PAGE;
        // The end of 4 GiB would be 0.
        if (freshEnd < fresh) freshEnd = 0xffffffc0;
    }
    block = fresh;
    fresh += size;
    return block;
}

/** Takes a block back, with the numbers it was asked for. */
export function wasmill_free(block: usize, size: usize, align: usize): void {
    if (!block || size > 0x80000000) return;
    const list = listOf(sizeOfClass(size));
    store<usize>(block, load<usize>(list));
    store<usize>(list, block);
}

/** Blocks of results, each with 64 bytes before it: the next block and its own size. */
let resultBlocks: usize = 0;

/** Memory that is valid until the host has read the results, aligned to 64 bytes; 0 when there is none. */
export function resultMemory(size: usize): usize {
    if (size > 0x7fffff00) return 0;
    const block = wasmill_alloc(size + 64, 64);
    if (!block) return 0;
    store<usize>(block, resultBlocks);
    store<usize>(block, size + 64, 4);
    resultBlocks = block;
    return block + 64;
}

/** Ends the life of all results, and of strings and objects that nothing refers to. */
export function wasmill_reset(): void {
    while (resultBlocks) {
        const block = resultBlocks;
        resultBlocks = load<usize>(block);
        wasmill_free(block, load<usize>(block, 4), 64);
    }
    __collect();
}

// ---- The log ---------------------------------------------------------------------------------------

// @ts-ignore: decorators of functions are the language's own
@external("wasmill_v1", "log")
declare function hostLog(level: i32, line: usize, len: usize): void;

/** Writes a line to the host's log: 1 error, 2 warn, 3 info, 4 debug, 5 trace. */
export function log(level: i32, line: string): void {
    const text = encoded(line);
    if (text) hostLog(level, text, <usize>String.UTF8.byteLength(line));
}
