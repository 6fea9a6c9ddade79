/*
 * wasmill.h: write functions over Apache Arrow in C, for hosts of the Wasmill ABI, version 1.
 *
 * One header, C11, no libc needed. Include it where you need it; in exactly one source file define
 * WASMILL_IMPLEMENTATION first. docs/languages.md shows a complete guest and how to build it;
 * docs/abi.md is the contract that this header puts into C.
 *
 *     #define WASMILL_IMPLEMENTATION
 *     #include "wasmill.h"
 *
 *     WASMILL_MANIFEST({
 *         "abi": 1, "kind": "scalar", "name": "twice", "symbol": "twice",
 *         "args": [{"name": "x", "format": "l"}], "result": {"format": "l"},
 *         "volatility": "immutable", "nulls": "propagate"
 *     })
 *
 *     WASMILL_EXPORT(twice)
 *     wasmill_status twice(wasmill_call *call) {
 *         const int64_t *x = WASMILL_VALUES(int64_t, wasmill_argument(call, 0));
 *         int64_t *out = WASMILL_RESULT(int64_t, call);
 *         if (!out) return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
 *         for (size_t row = 0; row < call->rows; row++)
 *             out[row] = (int64_t)((uint64_t)x[row] * 2);
 *         return WASMILL_OK;
 *     }
 *
 * Memory. Three kinds, by how long they live:
 *   - arguments: until the function returns; they may be written to;
 *   - wasmill_result_memory(): until the host has read the results; never given back by the guest;
 *   - wasmill_alloc() and wasmill_free(): until given back. States live here.
 * The allocator is a small one of its own. A guest that links a libc must use that of the libc instead,
 * since both would take the memory behind __heap_base: define WASMILL_USE_LIBC.
 *
 * Natively (not for WebAssembly) the header compiles as well, on the allocator of the libc, so that
 * functions can be tested with ordinary tools: without manifest and exports, and wasmill_log() writes to
 * standard error.
 *
 * Licence: MIT OR Apache-2.0, like the rest of Wasmill.
 */
#ifndef WASMILL_H
#define WASMILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Declarations for the host ------------------------------------------------------------------ */

/* The quotes and backslashes of a string literal, escaped once more: for the assembler. */
#define WASMILL_QUOTE_(literal) #literal

/*
 * WASMILL_MANIFEST({...}): one record of the manifest, as plain JSON (docs/abi.md, section 2). It may
 * span lines. No semicolon follows. The JSON must consist of C tokens, which JSON does, and `//` or
 * `/ *` outside of strings would start a comment.
 *
 * WASMILL_EXPORT(symbol): stands before the definition of a function that the manifest names.
 */
#ifdef __wasm__
#define WASMILL_MANIFEST(...)                                                                         \
    __asm__(".section .custom_section.wasmill.manifest,\"\",@\n"                                      \
            ".ascii " WASMILL_QUOTE_(#__VA_ARGS__) "\n"                                              \
            ".ascii \"\\n\"\n"                                                                        \
            ".text\n");
#define WASMILL_EXPORT(symbol) __attribute__((export_name(#symbol)))
#else
#define WASMILL_MANIFEST(...)
#define WASMILL_EXPORT(symbol)
#endif

/* ---- The structs of the ABI --------------------------------------------------------------------- */

/* An array: `ArrowArray` of the Arrow C Data Interface. */
typedef struct wasmill_array {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct wasmill_array **children;
    struct wasmill_array *dictionary;
    void *release;
    void *private_data;
} wasmill_array;

/* A type: `ArrowSchema` of the Arrow C Data Interface. */
typedef struct wasmill_schema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct wasmill_schema **children;
    struct wasmill_schema *dictionary;
    void *release;
    void *private_data;
} wasmill_schema;

/* Bit of `wasmill_schema.flags`: there may be nulls. */
#define WASMILL_NULLABLE 2

/* What a function answers. */
typedef int32_t wasmill_status;
/* The result is there. */
#define WASMILL_OK 0
/* The whole call failed; see wasmill_fail(). */
#define WASMILL_ERROR 2

/* An argument of a call. */
typedef struct wasmill_argument_slot {
    wasmill_array *array;
    /* Bit 0: constant, an array of one row that stands for all rows. */
    uint32_t flags;
} wasmill_argument_slot;

/* The frame of a call: one batch. */
typedef struct wasmill_call {
    uint32_t size;
    uint32_t flags;
    /* What `bind` answered; 0 without. */
    uint32_t binding;
    /* What `init` answered; 0 without. See wasmill_state(). */
    uintptr_t state;
    /* Rows in this batch: at least 1, less than 2^31. */
    uint64_t rows;
    uint32_t n_args;
    wasmill_argument_slot *args;
    wasmill_array *result;
    wasmill_array *row_errors;
    const char *message;
    uint32_t message_len;
} wasmill_call;

/* The frame of an `init`. */
typedef struct wasmill_init {
    uint32_t size;
    uint32_t flags;
    /* The init arguments as JSON; see wasmill_init_args(). */
    const char *args;
    uint32_t args_len;
    /* Out: the state, any number or pointer. */
    uintptr_t state;
    const char *message;
    uint32_t message_len;
} wasmill_init;

/* The frame of a `bind`. */
typedef struct wasmill_bind {
    uint32_t size;
    uint32_t flags;
    uint32_t n_args;
    const wasmill_schema *const *fields;
    /* The value of each argument that is constant, as an array of one row; NULL for the others. */
    const wasmill_array *const *constants;
    uint32_t reserved;
    /* Out, where the result is declared `bound`: its type. */
    wasmill_schema *result;
    /* Out: a number that comes back in each call. */
    uint32_t binding;
    const char *message;
    uint32_t message_len;
} wasmill_bind;

#ifdef __wasm__
_Static_assert(sizeof(wasmill_array) == 64 && offsetof(wasmill_array, buffers) == 40, "ArrowArray");
_Static_assert(sizeof(wasmill_schema) == 48 && offsetof(wasmill_schema, flags) == 16, "ArrowSchema");
_Static_assert(sizeof(wasmill_call) == 48 && offsetof(wasmill_call, args) == 28, "the frame of calls");
_Static_assert(sizeof(wasmill_init) == 28, "the frame of init");
_Static_assert(sizeof(wasmill_bind) == 40, "the frame of bind");
#endif

/* ---- Memory ------------------------------------------------------------------------------------- */

/* A block of `size` bytes, aligned to `align` (a power of two, at most 64); NULL when there is none. The
   bytes are undefined. */
void *wasmill_alloc(size_t size, size_t align);

/* Takes a block back, with the numbers it was asked for. NULL is fine. */
void wasmill_free(void *block, size_t size, size_t align);

/* Memory for results, aligned to 64 bytes: valid until the host has read them. NULL when there is none.
   The bytes are undefined. */
void *wasmill_result_memory(size_t size);

/* Ends the life of all results. The host calls it; tests do so natively. */
void wasmill_reset(void);

/* ---- Failing and logging ------------------------------------------------------------------------ */

/* The message for calls that find no memory. */
#define WASMILL_OUT_OF_MEMORY "out of memory"

/*
 * wasmill_fail(frame, message): what to return when a call, an init or a bind fails as a whole. `frame`
 * is the frame's pointer, `message` a NUL-terminated UTF-8 text that stays where it is until the next
 * call: a literal, or in result memory.
 */
#define wasmill_fail(frame, why)                                                                      \
    ((frame)->message = (why), (frame)->message_len = (uint32_t)wasmill_length((frame)->message),    \
     WASMILL_ERROR)

/* Fails one row: rows in increasing order, each at most once. The row's value in the result does not
   count, but must be there. `code` is yours to choose, `message` is copied. False when there is no
   memory: fail the call then. */
bool wasmill_row_error(wasmill_call *call, uint64_t row, int32_t code, const char *message);

/* Ends the instance with a message for the host: for what must never happen. */
_Noreturn void wasmill_abort(const char *message);

/* How important a line of the log is. */
enum { WASMILL_LOG_ERROR = 1, WASMILL_LOG_WARN, WASMILL_LOG_INFO, WASMILL_LOG_DEBUG, WASMILL_LOG_TRACE };

/* Writes a line of `len` bytes to the host's log. A guest that never logs does not import it. */
#ifdef __wasm__
__attribute__((import_module("wasmill_v1"), import_name("log")))
#endif
void wasmill_log(int32_t level, const char *line, size_t len);

/* Bytes of a NUL-terminated text, without the NUL. */
static inline size_t wasmill_length(const char *text) {
    size_t length = 0;
    while (text[length]) length++;
    return length;
}

/* ---- Arguments ---------------------------------------------------------------------------------- */

/* The array of argument `index`, counted from 0. Its `offset` is 0, its `null_count` exact. */
static inline const wasmill_array *wasmill_argument(const wasmill_call *call, uint32_t index) {
    return call->args[index].array;
}

/* Whether the argument is one row that stands for all; only where the record says "constants": true. */
static inline bool wasmill_is_constant(const wasmill_call *call, uint32_t index) {
    return (call->args[index].flags & 1) != 0;
}

/* Where in the array of argument `index` the value for `row` stands: 0 for a constant. */
static inline size_t wasmill_row_of(const wasmill_call *call, uint32_t index, size_t row) {
    return wasmill_is_constant(call, index) ? 0 : row;
}

/* Bit number `index` of a bitmap. */
static inline bool wasmill_bit(const void *bitmap, size_t index) {
    return (((const uint8_t *)bitmap)[index / 8] >> (index % 8) & 1) != 0;
}

/* Whether a row of an argument is not null. Not for unions, run-end encoded and null arrays. */
static inline bool wasmill_is_valid(const wasmill_array *array, size_t row) {
    return !array->buffers[0] || wasmill_bit(array->buffers[0], row);
}

/* The values of an argument of fixed width, as a pointer to `type`: int64 is int64_t, float64 is double,
   date32 is int32_t, a timestamp is int64_t, and so on. Values under nulls are arbitrary. */
#define WASMILL_VALUES(type, array) ((const type *)(array)->buffers[1])

/* The value of a row of a boolean argument. */
static inline bool wasmill_bool_at(const wasmill_array *array, size_t row) {
    return wasmill_bit(array->buffers[1], row);
}

/* Bytes of a text or binary value; not NUL-terminated. */
typedef struct wasmill_text {
    const char *bytes;
    size_t len;
} wasmill_text;

/* The value of a row of a utf8 or binary argument (formats "u" and "z"). */
static inline wasmill_text wasmill_text_at(const wasmill_array *array, size_t row) {
    const int32_t *offsets = (const int32_t *)array->buffers[1];
    const char *bytes = (const char *)array->buffers[2];
    wasmill_text text = {bytes + offsets[row], (size_t)(offsets[row + 1] - offsets[row])};
    return text;
}

/* ---- Results ------------------------------------------------------------------------------------ */

/* Makes the result an array of fixed-width values without nulls; the caller fills `call->rows` of them.
   NULL when there is no memory. */
#define WASMILL_RESULT(type, call) ((type *)wasmill_result_values((call), sizeof(type)))

/* What WASMILL_RESULT does, for values of `width` bytes. */
void *wasmill_result_values(wasmill_call *call, size_t width);

/* Makes the result a boolean array of false values without nulls: set bits with wasmill_set_bit(). NULL
   when there is no memory. */
uint8_t *wasmill_result_bools(wasmill_call *call);

/* Sets bit number `index` of a bitmap. */
static inline void wasmill_set_bit(uint8_t *bitmap, size_t index) {
    bitmap[index / 8] |= (uint8_t)(1 << (index % 8));
}

/* Makes a row of the result null: once per row, after the result was made. False when there is no
   memory. */
bool wasmill_set_null(wasmill_call *call, size_t row);

/* Gives argument `index` back as the result: type, values and nulls. Not for constants. */
static inline wasmill_status wasmill_return_argument(wasmill_call *call, uint32_t index) {
    *call->result = *call->args[index].array;
    return WASMILL_OK;
}

/* Builds a result of texts, row by row. Running out of memory, or above the 2 GiB that utf8 can hold,
   is remembered and told at the end. */
typedef struct wasmill_text_writer {
    wasmill_call *call;
    char *bytes;
    size_t len;
    size_t capacity;
    int32_t *offsets;
    size_t rows;
    const char *failed;
} wasmill_text_writer;

/* Begins a result of texts or binaries. `bytes` is about how many bytes all rows take together; a wrong
   guess costs time, nothing else. */
void wasmill_text_begin(wasmill_text_writer *writer, wasmill_call *call, size_t bytes);

/* Adds `len` bytes to the row and returns where to write them; NULL when there is no memory. */
char *wasmill_text_reserve(wasmill_text_writer *writer, size_t len);

/* Adds bytes to the row. */
void wasmill_text_append(wasmill_text_writer *writer, const char *bytes, size_t len);

/* Ends the row: also one that failed, or is null (see wasmill_set_null(), after wasmill_text_finish()). */
void wasmill_text_end_row(wasmill_text_writer *writer);

/* Makes the result of what was written; the status is that of the call. */
wasmill_status wasmill_text_finish(wasmill_text_writer *writer);

/* ---- States ------------------------------------------------------------------------------------- */

/* The state that `init` made, as a pointer. */
static inline void *wasmill_state(const wasmill_call *call) {
    return (void *)call->state;
}

/* ---- Init arguments: a reader of JSON ----------------------------------------------------------- */

/* A value in a JSON text that somebody else keeps. */
typedef struct wasmill_json {
    const char *at;
    const char *end;
} wasmill_json;

/* The init arguments: an object, checked against the schema in the manifest, with defaults filled in.
   Valid during `init`. */
static inline wasmill_json wasmill_init_args(const wasmill_init *init) {
    wasmill_json json = {init->args, init->args + init->args_len};
    return json;
}

/* Finds a member of an object. `name` is compared byte by byte with the name as it is written: it must
   not need escapes. */
bool wasmill_json_member(wasmill_json object, const char *name, wasmill_json *value);

/* Takes the next item of a list, or the next value of an object. `rest` begins as the list itself and
   then stands for what is left of it. False at the end. */
bool wasmill_json_next(wasmill_json *rest, wasmill_json *item);

/* Whether the value is null. */
bool wasmill_json_is_null(wasmill_json json);

/* Reads true or false. */
bool wasmill_json_bool(wasmill_json json, bool *value);

/* Reads a number that is whole and fits. */
bool wasmill_json_int64(wasmill_json json, int64_t *value);

/* Reads a number, rounded to the nearest double (of more than 19 digits the first 19 count). False also
   for numbers above the range. */
bool wasmill_json_float64(wasmill_json json, double *value);

/* Reads a string into memory of its own, as UTF-8 with a NUL behind `*len` bytes. Give it back with
   wasmill_free(*text, *len + 1, 1). False for other values and when there is no memory. */
bool wasmill_json_text(wasmill_json json, char **text, size_t *len);

#endif /* WASMILL_H */

/* ==== Implementation ============================================================================= */

#if defined(WASMILL_IMPLEMENTATION) && !defined(WASMILL_IMPLEMENTED)
#define WASMILL_IMPLEMENTED

/* ---- The allocator ------------------------------------------------------------------------------ */

#if defined(WASMILL_USE_LIBC) || !defined(__wasm__)

#include <stdlib.h>

WASMILL_EXPORT(wasmill_alloc)
void *wasmill_alloc(size_t size, size_t align) {
    /* aligned_alloc() wants a size that is a multiple, and no alignment below a pointer's. */
    if (align < sizeof(void *)) align = sizeof(void *);
    if (size > SIZE_MAX - align) return NULL;
    size = size ? (size + align - 1) & ~(align - 1) : align;
    return aligned_alloc(align, size);
}

WASMILL_EXPORT(wasmill_free)
void wasmill_free(void *block, size_t size, size_t align) {
    (void)size;
    (void)align;
    free(block);
}

#else

/*
 * Free lists by size. Sizes are multiples of 64 bytes with four steps from one power of two to the next,
 * so at most a fifth of a block is unused from 512 bytes on. Every block is aligned to 64 bytes. Blocks
 * are neither split nor joined: a guest's blocks are few, and come again in the same sizes.
 */
#define WASMILL_PAGE ((size_t)65536)
#define WASMILL_CLASSES 112

extern unsigned char __heap_base;

typedef struct wasmill_free_block {
    struct wasmill_free_block *next;
} wasmill_free_block;

static wasmill_free_block *wasmill_free_lists[WASMILL_CLASSES];
/* Memory that was never handed out. */
static uintptr_t wasmill_fresh, wasmill_fresh_end;

/* Rounds `size` up to that of its class. False above 2 GiB. */
static bool wasmill_class_of(size_t *size, size_t *class) {
    size_t bytes = *size;
    if (bytes > (size_t)1 << 31) return false;
    if (bytes <= 64) {
        *size = 64;
        *class = 0;
        return true;
    }
    /* 2^power < bytes <= 2^(power + 1) */
    size_t power = 31 - (size_t)__builtin_clz((unsigned)(bytes - 1));
    size_t step = (size_t)1 << (power - 2);
    if (step < 64) step = 64;
    bytes = (bytes + step - 1) & ~(step - 1);
    *size = bytes;
    /* 1 to 4 steps above 2^power */
    *class = (power - 6) * 4 + ((bytes - ((size_t)1 << power)) / step);
    return true;
}

WASMILL_EXPORT(wasmill_alloc)
void *wasmill_alloc(size_t size, size_t align) {
    size_t class;
    if (align > 64 || !wasmill_class_of(&size, &class)) return NULL;
    wasmill_free_block *block = wasmill_free_lists[class];
    if (block) {
        wasmill_free_lists[class] = block->next;
        return block;
    }
    if (!wasmill_fresh) {
        wasmill_fresh = ((uintptr_t)&__heap_base + 63) & ~(uintptr_t)63;
        wasmill_fresh_end = __builtin_wasm_memory_size(0) * WASMILL_PAGE;
        /* Of the very last page of 4 GiB the end would be 0. */
        if (wasmill_fresh_end < wasmill_fresh) wasmill_fresh_end = wasmill_fresh;
    }
    if (wasmill_fresh_end - wasmill_fresh < size) {
        size_t missing = size - (wasmill_fresh_end - wasmill_fresh);
        size_t before = __builtin_wasm_memory_size(0) * WASMILL_PAGE;
        bool adjacent = before == wasmill_fresh_end;
        size_t pages = ((adjacent ? missing : size) + WASMILL_PAGE - 1) / WASMILL_PAGE;
        if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) return NULL;
        if (!adjacent) wasmill_fresh = before;
        wasmill_fresh_end = before + pages * WASMILL_PAGE;
        if (wasmill_fresh_end < before) wasmill_fresh_end = (uintptr_t)-64;
    }
    block = (wasmill_free_block *)wasmill_fresh;
    wasmill_fresh += size;
    return block;
}

WASMILL_EXPORT(wasmill_free)
void wasmill_free(void *pointer, size_t size, size_t align) {
    (void)align;
    size_t class;
    if (!pointer || !wasmill_class_of(&size, &class)) return;
    wasmill_free_block *block = (wasmill_free_block *)pointer;
    block->next = wasmill_free_lists[class];
    wasmill_free_lists[class] = block;
}

#endif

static void wasmill_copy(void *to, const void *from, size_t len) {
    for (size_t i = 0; i < len; i++) ((char *)to)[i] = ((const char *)from)[i];
}

static void wasmill_fill(void *to, uint8_t byte, size_t len) {
    for (size_t i = 0; i < len; i++) ((uint8_t *)to)[i] = byte;
}

/* ---- Memory of results -------------------------------------------------------------------------- */

/* A piece of memory that results are cut from. 64 bytes, so that what follows is aligned. */
typedef struct wasmill_chunk {
    _Alignas(64) struct wasmill_chunk *next;
    /* With this header. */
    size_t size;
    size_t used;
} wasmill_chunk;

static wasmill_chunk *wasmill_chunks;
/* So much the results between two resets needed: one chunk of that size serves the next ones. */
static size_t wasmill_chunk_size = 64 << 10;

void *wasmill_result_memory(size_t size) {
    if (size > (size_t)1 << 31) return NULL;
    size = (size + 63) & ~(size_t)63;
    wasmill_chunk *chunk = wasmill_chunks;
    while (chunk && chunk->size - chunk->used < size) chunk = chunk->next;
    if (!chunk) {
        size_t exact = size + sizeof(wasmill_chunk);
        size_t roomy = wasmill_chunk_size;
        while (roomy < exact) roomy *= 2;
        size_t taken = roomy;
        chunk = (wasmill_chunk *)wasmill_alloc(roomy, 64);
        if (!chunk) {
            taken = exact;
            chunk = (wasmill_chunk *)wasmill_alloc(exact, 64);
        }
        if (!chunk) return NULL;
        chunk->size = taken;
        chunk->used = sizeof(wasmill_chunk);
        chunk->next = wasmill_chunks;
        wasmill_chunks = chunk;
    }
    char *memory = (char *)chunk + chunk->used;
    chunk->used += size;
    return memory;
}

WASMILL_EXPORT(wasmill_reset)
void wasmill_reset(void) {
    if (wasmill_chunks && !wasmill_chunks->next) {
        wasmill_chunks->used = sizeof(wasmill_chunk);
        return;
    }
    size_t used = 0;
    while (wasmill_chunks) {
        wasmill_chunk *chunk = wasmill_chunks;
        wasmill_chunks = chunk->next;
        used += chunk->used;
        wasmill_free(chunk, chunk->size, 64);
    }
    while (wasmill_chunk_size < used && wasmill_chunk_size < (size_t)1 << 30) wasmill_chunk_size *= 2;
}

/* ---- Failing and logging ------------------------------------------------------------------------ */

#ifdef __wasm__

/* The text of a panic, where the host finds it. Exported by the linker:
   -Wl,--export=wasmill_panic */
struct wasmill_panic_text {
    uint32_t len;
    char bytes[1020];
};
__attribute__((used)) struct wasmill_panic_text wasmill_panic;

_Noreturn void wasmill_abort(const char *message) {
    size_t len = wasmill_length(message);
    if (len > sizeof(wasmill_panic.bytes)) len = sizeof(wasmill_panic.bytes);
    wasmill_copy(wasmill_panic.bytes, message, len);
    wasmill_panic.len = (uint32_t)len;
    __builtin_trap();
}

#else

#include <stdio.h>

_Noreturn void wasmill_abort(const char *message) {
    fprintf(stderr, "%s\n", message);
    abort();
}

void wasmill_log(int32_t level, const char *line, size_t len) {
    fprintf(stderr, "%d: %.*s\n", (int)level, (int)len, line);
}

#endif

/* Row errors while they are collected: in result memory, found again through `private_data`. */
typedef struct wasmill_row_errors {
    wasmill_array row, code, message;
    wasmill_array *children[3];
    const void *buffers[1];
    const void *row_buffers[2];
    const void *code_buffers[2];
    const void *message_buffers[3];
    uint32_t *rows;
    int32_t *codes;
    int32_t *offsets;
    char *text;
    size_t capacity;
    size_t text_capacity;
} wasmill_row_errors;

static void wasmill_plain_array(wasmill_array *array, const void **buffers, int64_t n_buffers) {
    array->length = 0;
    array->null_count = 0;
    array->offset = 0;
    array->n_buffers = n_buffers;
    array->n_children = 0;
    array->buffers = buffers;
    array->children = NULL;
    array->dictionary = NULL;
    array->release = NULL;
    array->private_data = NULL;
    for (int64_t i = 0; i < n_buffers; i++) buffers[i] = NULL;
}

static wasmill_row_errors *wasmill_row_errors_of(wasmill_call *call) {
    wasmill_array *all = call->row_errors;
    if (all->private_data) return (wasmill_row_errors *)all->private_data;
    wasmill_row_errors *errors = (wasmill_row_errors *)wasmill_result_memory(sizeof *errors);
    if (!errors) return NULL;
    wasmill_plain_array(&errors->row, errors->row_buffers, 2);
    wasmill_plain_array(&errors->code, errors->code_buffers, 2);
    wasmill_plain_array(&errors->message, errors->message_buffers, 3);
    errors->children[0] = &errors->row;
    errors->children[1] = &errors->code;
    errors->children[2] = &errors->message;
    errors->rows = NULL;
    errors->codes = NULL;
    errors->offsets = NULL;
    errors->text = NULL;
    errors->capacity = 0;
    errors->text_capacity = 0;
    wasmill_plain_array(all, errors->buffers, 1);
    all->n_children = 3;
    all->children = errors->children;
    all->private_data = errors;
    return errors;
}

/* A larger block of result memory that begins with what the old one held; NULL when there is none. */
static void *wasmill_grown(const void *old, size_t used, size_t size) {
    void *larger = wasmill_result_memory(size);
    if (larger) wasmill_copy(larger, old, used);
    return larger;
}

bool wasmill_row_error(wasmill_call *call, uint64_t row, int32_t code, const char *message) {
    wasmill_row_errors *errors = wasmill_row_errors_of(call);
    if (!errors) return false;
    size_t count = (size_t)errors->row.length;
    if (count == errors->capacity) {
        size_t capacity = count ? 2 * count : 16;
        uint32_t *rows = (uint32_t *)wasmill_grown(errors->rows, count * 4, capacity * 4);
        int32_t *codes = (int32_t *)wasmill_grown(errors->codes, count * 4, capacity * 4);
        int32_t *offsets = (int32_t *)wasmill_grown(
            errors->offsets, errors->offsets ? (count + 1) * 4 : 0, (capacity + 1) * 4);
        if (!rows || !codes || !offsets) return false;
        if (!count) offsets[0] = 0;
        errors->rows = rows;
        errors->codes = codes;
        errors->offsets = offsets;
        errors->capacity = capacity;
    }
    size_t from = (size_t)errors->offsets[count], len = wasmill_length(message);
    if (len > INT32_MAX - from) return false;
    if (from + len > errors->text_capacity || !errors->text) {
        size_t capacity = 2 * (from + len) + 64;
        char *text = (char *)wasmill_grown(errors->text, from, capacity);
        if (!text) return false;
        errors->text = text;
        errors->text_capacity = capacity;
    }
    wasmill_copy(errors->text + from, message, len);
    errors->rows[count] = (uint32_t)row;
    errors->codes[count] = code;
    errors->offsets[count + 1] = (int32_t)(from + len);
    errors->row_buffers[1] = errors->rows;
    errors->code_buffers[1] = errors->codes;
    errors->message_buffers[1] = errors->offsets;
    errors->message_buffers[2] = errors->text;
    int64_t length = (int64_t)count + 1;
    errors->row.length = errors->code.length = errors->message.length = length;
    call->row_errors->length = length;
    return true;
}

/* ---- Results ------------------------------------------------------------------------------------ */

/* Makes the result an array of `n_buffers` buffers, all NULL; false when there is no memory. */
static bool wasmill_result_begin(wasmill_call *call, int64_t n_buffers) {
    const void **buffers = (const void **)wasmill_result_memory((size_t)n_buffers * sizeof *buffers);
    if (!buffers) return false;
    wasmill_plain_array(call->result, buffers, n_buffers);
    call->result->length = (int64_t)call->rows;
    return true;
}

void *wasmill_result_values(wasmill_call *call, size_t width) {
    if (width && call->rows > ((size_t)1 << 31) / width) return NULL;
    void *values = wasmill_result_memory((size_t)call->rows * width);
    if (!values || !wasmill_result_begin(call, 2)) return NULL;
    call->result->buffers[1] = values;
    return values;
}

uint8_t *wasmill_result_bools(wasmill_call *call) {
    size_t bytes = ((size_t)call->rows + 7) / 8;
    uint8_t *bits = (uint8_t *)wasmill_result_memory(bytes);
    if (!bits || !wasmill_result_begin(call, 2)) return NULL;
    wasmill_fill(bits, 0, bytes);
    call->result->buffers[1] = bits;
    return bits;
}

bool wasmill_set_null(wasmill_call *call, size_t row) {
    uint8_t *validity = (uint8_t *)call->result->buffers[0];
    if (!validity) {
        size_t bytes = ((size_t)call->rows + 7) / 8;
        validity = (uint8_t *)wasmill_result_memory(bytes);
        if (!validity) return false;
        wasmill_fill(validity, 0xff, bytes);
        call->result->buffers[0] = validity;
    }
    validity[row / 8] &= (uint8_t)~(1 << (row % 8));
    call->result->null_count++;
    return true;
}

void wasmill_text_begin(wasmill_text_writer *writer, wasmill_call *call, size_t bytes) {
    writer->call = call;
    writer->len = 0;
    writer->capacity = bytes ? bytes : 64;
    writer->rows = 0;
    writer->failed = NULL;
    writer->bytes = (char *)wasmill_result_memory(writer->capacity);
    bool countable = call->rows < (uint64_t)1 << 29;
    writer->offsets =
        countable ? (int32_t *)wasmill_result_memory(((size_t)call->rows + 1) * 4) : NULL;
    if (writer->bytes && writer->offsets)
        writer->offsets[0] = 0;
    else
        writer->failed = WASMILL_OUT_OF_MEMORY;
}

char *wasmill_text_reserve(wasmill_text_writer *writer, size_t len) {
    if (writer->failed) return NULL;
    if (len > INT32_MAX - writer->len) {
        writer->failed = "the texts of this batch are longer than 2 GiB together";
        return NULL;
    }
    size_t needed = writer->len + len;
    if (needed > writer->capacity) {
        size_t capacity = writer->capacity;
        while (capacity < needed) capacity *= 2;
        char *larger = (char *)wasmill_grown(writer->bytes, writer->len, capacity);
        if (!larger) {
            capacity = needed;
            larger = (char *)wasmill_grown(writer->bytes, writer->len, capacity);
        }
        if (!larger) {
            writer->failed = WASMILL_OUT_OF_MEMORY;
            return NULL;
        }
        writer->bytes = larger;
        writer->capacity = capacity;
    }
    char *place = writer->bytes + writer->len;
    writer->len = needed;
    return place;
}

void wasmill_text_append(wasmill_text_writer *writer, const char *bytes, size_t len) {
    char *place = wasmill_text_reserve(writer, len);
    if (place) wasmill_copy(place, bytes, len);
}

void wasmill_text_end_row(wasmill_text_writer *writer) {
    if (writer->failed) return;
    if (writer->rows == writer->call->rows) {
        writer->failed = "more rows were written than the batch has";
        return;
    }
    writer->rows++;
    writer->offsets[writer->rows] = (int32_t)writer->len;
}

wasmill_status wasmill_text_finish(wasmill_text_writer *writer) {
    wasmill_call *call = writer->call;
    if (!writer->failed && writer->rows < call->rows)
        writer->failed = "fewer rows were written than the batch has";
    if (!writer->failed && !wasmill_result_begin(call, 3)) writer->failed = WASMILL_OUT_OF_MEMORY;
    if (writer->failed) return wasmill_fail(call, writer->failed);
    call->result->buffers[1] = writer->offsets;
    call->result->buffers[2] = writer->bytes;
    return WASMILL_OK;
}

/* ---- JSON --------------------------------------------------------------------------------------- */

static const char *wasmill_json_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

/* The end of the value that begins at `at`: of a string, of what brackets hold, or of a word. */
static const char *wasmill_json_end(const char *at, const char *end) {
    size_t depth = 0;
    while (at < end) {
        char c = *at;
        if (c == '"') {
            at++;
            while (at < end && *at != '"') at += *at == '\\' && end - at > 1 ? 2 : 1;
            if (at < end) at++;
            if (!depth) return at;
        } else if (c == '{' || c == '[') {
            depth++;
            at++;
        } else if (c == '}' || c == ']') {
            if (!depth) return at;
            depth--;
            at++;
            if (!depth) return at;
        } else if (!depth && (c == ',' || c == ':' || c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
            return at;
        } else {
            at++;
        }
    }
    return end;
}

/* Takes the next item; of an object, also its name. */
static bool wasmill_json_step(wasmill_json *rest, wasmill_json *name, wasmill_json *item) {
    const char *end = rest->end, *at = wasmill_json_space(rest->at, end);
    /* The opening bracket, or the comma before an item that is not the first. */
    if (at == end || (*at != '[' && *at != '{' && *at != ',')) return false;
    at = wasmill_json_space(at + 1, end);
    if (at == end || *at == ']' || *at == '}') return false;
    name->at = name->end = at;
    item->at = at;
    item->end = wasmill_json_end(at, end);
    at = wasmill_json_space(item->end, end);
    if (at < end && *at == ':') {
        *name = *item;
        item->at = wasmill_json_space(at + 1, end);
        item->end = wasmill_json_end(item->at, end);
        at = wasmill_json_space(item->end, end);
    }
    rest->at = at;
    return true;
}

bool wasmill_json_next(wasmill_json *rest, wasmill_json *item) {
    wasmill_json name;
    return wasmill_json_step(rest, &name, item);
}

static bool wasmill_json_is(wasmill_json json, const char *text) {
    size_t len = wasmill_length(text);
    if ((size_t)(json.end - json.at) != len) return false;
    for (size_t i = 0; i < len; i++)
        if (json.at[i] != text[i]) return false;
    return true;
}

bool wasmill_json_member(wasmill_json object, const char *name, wasmill_json *value) {
    wasmill_json rest = object, written, item;
    while (wasmill_json_step(&rest, &written, &item)) {
        if (written.end - written.at < 2) continue;
        written.at++;
        written.end--;
        if (wasmill_json_is(written, name)) {
            *value = item;
            return true;
        }
    }
    return false;
}

bool wasmill_json_is_null(wasmill_json json) {
    return wasmill_json_is(json, "null");
}

bool wasmill_json_bool(wasmill_json json, bool *value) {
    bool yes = wasmill_json_is(json, "true");
    if (!yes && !wasmill_json_is(json, "false")) return false;
    *value = yes;
    return true;
}

/* A decimal number, taken apart: digits * 10^exponent. */
typedef struct wasmill_decimal {
    bool negative;
    /* Digits other than 0 were left out, since 19 fit. */
    bool cut;
    uint64_t digits;
    int32_t exponent;
} wasmill_decimal;

static bool wasmill_json_decimal(wasmill_json json, wasmill_decimal *number) {
    const char *at = json.at, *end = json.end;
    wasmill_decimal n = {false, false, 0, 0};
    if (at < end && *at == '-') {
        n.negative = true;
        at++;
    }
    bool any = false, fraction = false;
    for (; at < end; at++) {
        if (*at == '.' && any && !fraction) {
            fraction = true;
            continue;
        }
        if (*at < '0' || *at > '9') break;
        any = true;
        uint64_t digit = (uint64_t)(*at - '0');
        if (n.exponent > 100000 || n.exponent < -100000) return false;
        if (n.digits < 1000000000000000000u) {
            n.digits = n.digits * 10 + digit;
            n.exponent -= fraction;
        } else {
            n.cut |= digit != 0;
            n.exponent += !fraction;
        }
    }
    if (!any) return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        bool down = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        int32_t exponent = 0;
        if (at == end) return false;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            if (exponent < 100000) exponent = exponent * 10 + (*at - '0');
        n.exponent += down ? -exponent : exponent;
    }
    *number = n;
    return at == end;
}

bool wasmill_json_int64(wasmill_json json, int64_t *value) {
    wasmill_decimal n;
    if (!wasmill_json_decimal(json, &n) || n.cut) return false;
    uint64_t digits = n.digits;
    int32_t exponent = digits ? n.exponent : 0;
    for (; exponent < 0; exponent++) {
        if (digits % 10) return false;
        digits /= 10;
    }
    for (; exponent > 0; exponent--) {
        if (digits > UINT64_MAX / 10) return false;
        digits *= 10;
    }
    if (digits > (uint64_t)INT64_MAX + n.negative) return false;
    *value = n.negative ? (int64_t)(0 - digits) : (int64_t)digits;
    return true;
}

/* A whole number of up to 1,408 bits, the lowest first: more than doubles of any size need here. */
#define WASMILL_LIMBS 44

static void wasmill_multiply(uint32_t *number, uint32_t factor) {
    uint64_t carry = 0;
    for (size_t i = 0; i < WASMILL_LIMBS; i++) {
        carry += (uint64_t)number[i] * factor;
        number[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static uint32_t wasmill_divide(uint32_t *number, uint32_t divisor) {
    uint64_t remainder = 0;
    for (size_t i = WASMILL_LIMBS; i-- > 0;) {
        remainder = remainder << 32 | number[i];
        number[i] = (uint32_t)(remainder / divisor);
        remainder %= divisor;
    }
    return (uint32_t)remainder;
}

/* The bits of the double nearest to digits * 10^exponent, which is not 0; all ones when there is none. */
static uint64_t wasmill_nearest(uint64_t digits, int32_t exponent, bool more) {
    /* Below half of the least double, and above the greatest, for any count of digits up to 19. */
    if (exponent < -343) return 0;
    if (exponent > 309) return UINT64_MAX;
    uint32_t number[WASMILL_LIMBS] = {0};
    /* The value is number * 2^-shift; a quotient keeps more than 64 bits. */
    int32_t shift = 0;
    if (exponent < 0) shift = (64 - exponent * 10 / 3 + 32) / 32 * 32;
    number[shift / 32] = (uint32_t)digits;
    number[shift / 32 + 1] = (uint32_t)(digits >> 32);
    for (; exponent > 0; exponent--) wasmill_multiply(number, 10);
    for (; exponent < 0; exponent++) more |= wasmill_divide(number, 10) != 0;

    /* The highest 64 bits, the first of them set; `more` says whether anything follows. */
    size_t last = WASMILL_LIMBS - 1;
    while (last > 0 && !number[last]) last--;
    int32_t free = __builtin_clz(number[last]);
    int32_t length = (int32_t)last * 32 + 32 - free;
    uint64_t top = 0;
    for (int32_t i = 0; i < 3; i++) {
        uint64_t limb = (int32_t)last >= i ? number[last - (size_t)i] : 0;
        int32_t left = 32 - 32 * i + free;
        if (left >= 0) {
            top |= limb << left;
        } else {
            top |= limb >> -left;
            more |= (limb & (((uint64_t)1 << -left) - 1)) != 0;
        }
    }
    for (size_t i = 3; i <= last; i++) more |= number[last - i] != 0;

    /* The value is 1.xxx * 2^power; below 2^-1022 doubles have fewer bits. */
    int32_t power = length - 1 - shift;
    if (power > 1023) return UINT64_MAX;
    int32_t bits = power >= -1022 ? 53 : 53 - (-1022 - power);
    if (bits < 0) return 0;
    uint64_t kept = bits ? top >> (64 - bits) : 0;
    uint64_t rest = top << bits, half = (uint64_t)1 << 63;
    if (rest > half || (rest == half && (more || (kept & 1)))) kept++;
    if (power < -1022) return kept;
    kept += ((uint64_t)(power + 1023) - 1) << 52;
    return kept >= (uint64_t)0x7ff << 52 ? UINT64_MAX : kept;
}

bool wasmill_json_float64(wasmill_json json, double *value) {
    wasmill_decimal n;
    if (!wasmill_json_decimal(json, &n)) return false;
    union {
        uint64_t bits;
        double value;
    } number = {n.digits ? wasmill_nearest(n.digits, n.exponent, n.cut) : 0};
    if (number.bits == UINT64_MAX) return false;
    number.bits |= (uint64_t)n.negative << 63;
    *value = number.value;
    return true;
}

/* Four hexadecimal digits; -1 for anything else. */
static int32_t wasmill_hex4(const char *at, const char *end) {
    int32_t value = 0;
    if (end - at < 4) return -1;
    for (size_t i = 0; i < 4; i++) {
        char c = at[i];
        int32_t digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *wasmill_put_utf8(char *out, uint32_t c) {
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* Writes the text between the quotes to `out`, which has room for as many bytes; NULL for a bad escape. */
static char *wasmill_unescape(const char *at, const char *end, char *out) {
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        if (end - at < 2) return NULL;
        char escape = at[1];
        at += 2;
        switch (escape) {
            case 'b': *out++ = '\b'; continue;
            case 'f': *out++ = '\f'; continue;
            case 'n': *out++ = '\n'; continue;
            case 'r': *out++ = '\r'; continue;
            case 't': *out++ = '\t'; continue;
            case '"': case '\\': case '/': *out++ = escape; continue;
            case 'u': break;
            default: return NULL;
        }
        int32_t unit = wasmill_hex4(at, end);
        if (unit < 0) return NULL;
        at += 4;
        uint32_t c = (uint32_t)unit;
        if (c >= 0xd800 && c < 0xe000) {
            /* A pair of surrogates stands for one character; half a pair stands for none. */
            int32_t low = end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? wasmill_hex4(at + 2, end) : -1;
            if (c >= 0xdc00 || low < 0xdc00 || low >= 0xe000) return NULL;
            at += 6;
            c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        }
        out = wasmill_put_utf8(out, c);
    }
    return out;
}

bool wasmill_json_text(wasmill_json json, char **text, size_t *len) {
    size_t size = (size_t)(json.end - json.at);
    if (size < 2 || json.at[0] != '"' || json.end[-1] != '"') return false;
    /* No escape is shorter than what it stands for. */
    char *raw = (char *)wasmill_alloc(size, 1);
    if (!raw) return false;
    char *end = wasmill_unescape(json.at + 1, json.end - 1, raw);
    char *exact = NULL;
    if (end) {
        *len = (size_t)(end - raw);
        exact = (char *)wasmill_alloc(*len + 1, 1);
    }
    if (exact) {
        wasmill_copy(exact, raw, *len);
        exact[*len] = 0;
        *text = exact;
    }
    wasmill_free(raw, size, 1);
    return exact != NULL;
}

#endif /* WASMILL_IMPLEMENTATION */
