/* The functions that tests/core/languages.rs runs in every language, in C. */

#define WASMILL_IMPLEMENTATION
#include "wasmill.h"

WASMILL_MANIFEST({
    "abi": 1, "kind": "scalar", "name": "gcd", "symbol": "gcd",
    "doc": "Greatest common divisor: never negative, unless it does not fit.",
    "args": [{"name": "a", "format": "l"}, {"name": "b", "format": "l"}],
    "result": {"format": "l", "nullable": false},
    "volatility": "immutable", "nulls": "propagate"
})

static uint64_t magnitude(int64_t x) {
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

WASMILL_EXPORT(gcd)
wasmill_status gcd(wasmill_call *call) {
    const int64_t *a = WASMILL_VALUES(int64_t, wasmill_argument(call, 0));
    const int64_t *b = WASMILL_VALUES(int64_t, wasmill_argument(call, 1));
    int64_t *out = WASMILL_RESULT(int64_t, call);
    if (!out) return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
    for (size_t row = 0; row < call->rows; row++) {
        uint64_t x = magnitude(a[row]), y = magnitude(b[row]);
        while (y) {
            uint64_t rest = x % y;
            x = y;
            y = rest;
        }
        out[row] = (int64_t)x;
    }
    return WASMILL_OK;
}

WASMILL_MANIFEST({
    "abi": 1, "kind": "scalar", "name": "div", "symbol": "div",
    "doc": "Integer division, towards zero. Fails the row for a divisor of 0 and for overflow.",
    "args": [{"name": "a", "format": "l"}, {"name": "b", "format": "l"}],
    "result": {"format": "l", "nullable": false},
    "volatility": "immutable", "nulls": "propagate", "constants": true
})

WASMILL_EXPORT(div)
wasmill_status divide(wasmill_call *call) {
    const int64_t *a = WASMILL_VALUES(int64_t, wasmill_argument(call, 0));
    const int64_t *b = WASMILL_VALUES(int64_t, wasmill_argument(call, 1));
    int64_t *out = WASMILL_RESULT(int64_t, call);
    if (!out) return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
    for (size_t row = 0; row < call->rows; row++) {
        int64_t x = a[wasmill_row_of(call, 0, row)], y = b[wasmill_row_of(call, 1, row)];
        bool told = true;
        out[row] = 0;
        if (y == 0)
            told = wasmill_row_error(call, row, 1, "division by zero");
        else if (x == INT64_MIN && y == -1)
            told = wasmill_row_error(call, row, 2, "overflow");
        else
            out[row] = x / y;
        if (!told) return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
    }
    return WASMILL_OK;
}

WASMILL_MANIFEST({
    "abi": 1, "kind": "scalar", "name": "upper", "symbol": "upper",
    "doc": "Text with the letters a to z in upper case.",
    "args": [{"name": "text", "format": "u"}],
    "result": {"format": "u", "nullable": false},
    "volatility": "immutable", "nulls": "propagate"
})

WASMILL_EXPORT(upper)
wasmill_status upper(wasmill_call *call) {
    const wasmill_array *texts = wasmill_argument(call, 0);
    size_t bytes = (size_t)WASMILL_VALUES(int32_t, texts)[call->rows];
    wasmill_text_writer writer;
    wasmill_text_begin(&writer, call, bytes);
    for (size_t row = 0; row < call->rows; row++) {
        wasmill_text text = wasmill_text_at(texts, row);
        char *out = wasmill_text_reserve(&writer, text.len);
        if (!out) break;
        for (size_t i = 0; i < text.len; i++) {
            char c = text.bytes[i];
            out[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        }
        wasmill_text_end_row(&writer);
    }
    return wasmill_text_finish(&writer);
}

WASMILL_MANIFEST({
    "abi": 1, "kind": "scalar", "name": "char_length", "symbol": "char_length",
    "doc": "Number of characters (Unicode scalar values) of a text.",
    "args": [{"name": "text", "format": "u"}],
    "result": {"format": "l", "nullable": false},
    "volatility": "immutable", "nulls": "propagate"
})

WASMILL_EXPORT(char_length)
wasmill_status char_length(wasmill_call *call) {
    const wasmill_array *texts = wasmill_argument(call, 0);
    int64_t *out = WASMILL_RESULT(int64_t, call);
    if (!out) return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
    for (size_t row = 0; row < call->rows; row++) {
        wasmill_text text = wasmill_text_at(texts, row);
        int64_t characters = 0;
        /* Bytes of the form 10xxxxxx go on with a character. */
        for (size_t i = 0; i < text.len; i++) characters += (text.bytes[i] & 0xc0) != 0x80;
        out[row] = characters;
    }
    return WASMILL_OK;
}

WASMILL_MANIFEST({
    "abi": 1, "kind": "scalar", "name": "identity", "symbol": "identity",
    "doc": "The argument, unchanged.",
    "args": [{"name": "x", "any": true}], "result": {"same_as": 0},
    "volatility": "immutable", "nulls": "handle"
})

WASMILL_EXPORT(identity)
wasmill_status identity(wasmill_call *call) {
    return wasmill_return_argument(call, 0);
}

WASMILL_MANIFEST({
    "abi": 1, "kind": "scalar", "name": "apply", "symbol": "apply",
    "doc": "x * scale + offset; wraps around.",
    "args": [{"name": "x", "format": "l"}],
    "result": {"format": "l", "nullable": false},
    "volatility": "immutable", "nulls": "propagate",
    "state": {
        "name": "Affine", "kind": "resource", "init": "affine_init", "close": "affine_close",
        "init_args": {
            "type": "object", "required": ["scale"], "additionalProperties": false,
            "properties": {
                "scale": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807, "description": "What to multiply by."},
                "offset": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807, "description": "What to add.", "default": 0}
            }
        }
    }
})

typedef struct affine {
    int64_t scale;
    int64_t offset;
} affine;

/* Reads a member of the init arguments. */
static bool int64_of(wasmill_json args, const char *name, int64_t *value) {
    wasmill_json member;
    return wasmill_json_member(args, name, &member) && wasmill_json_int64(member, value);
}

WASMILL_EXPORT(affine_init)
wasmill_status affine_init(wasmill_init *init) {
    affine *state = (affine *)wasmill_alloc(sizeof *state, _Alignof(affine));
    if (!state) return wasmill_fail(init, WASMILL_OUT_OF_MEMORY);
    wasmill_json args = wasmill_init_args(init);
    if (!int64_of(args, "scale", &state->scale) || !int64_of(args, "offset", &state->offset)) {
        wasmill_free(state, sizeof *state, _Alignof(affine));
        return wasmill_fail(init, "scale and offset must fit 64-bit integers");
    }
    init->state = (uintptr_t)state;
    static const char line[] = "affine begins";
    wasmill_log(WASMILL_LOG_INFO, line, sizeof line - 1);
    return WASMILL_OK;
}

WASMILL_EXPORT(affine_close)
void affine_close(void *state) {
    wasmill_free(state, sizeof(affine), _Alignof(affine));
    static const char line[] = "affine ends";
    wasmill_log(WASMILL_LOG_INFO, line, sizeof line - 1);
}

WASMILL_EXPORT(apply)
wasmill_status apply(wasmill_call *call) {
    const affine *state = (const affine *)wasmill_state(call);
    const int64_t *x = WASMILL_VALUES(int64_t, wasmill_argument(call, 0));
    int64_t *out = WASMILL_RESULT(int64_t, call);
    if (!out) return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
    for (size_t row = 0; row < call->rows; row++)
        out[row] = (int64_t)((uint64_t)x[row] * (uint64_t)state->scale + (uint64_t)state->offset);
    return WASMILL_OK;
}

WASMILL_MANIFEST({
    "abi": 1, "kind": "scalar", "name": "running_sum", "symbol": "running_sum",
    "doc": "Sum of this value and all before it; wraps around. A null gives null and adds nothing.",
    "args": [{"name": "x", "format": "l"}], "result": {"format": "l"},
    "volatility": "volatile", "nulls": "handle",
    "state": {
        "name": "RunningSum", "kind": "sequence", "init": "running_sum_init",
        "init_args": {"type": "object", "properties": {}, "additionalProperties": false}
    }
})

WASMILL_EXPORT(running_sum_init)
wasmill_status running_sum_init(wasmill_init *init) {
    uint64_t *sum = (uint64_t *)wasmill_alloc(sizeof *sum, _Alignof(uint64_t));
    if (!sum) return wasmill_fail(init, WASMILL_OUT_OF_MEMORY);
    *sum = 0;
    init->state = (uintptr_t)sum;
    return WASMILL_OK;
}

WASMILL_EXPORT(running_sum)
wasmill_status running_sum(wasmill_call *call) {
    uint64_t *sum = (uint64_t *)wasmill_state(call);
    const wasmill_array *column = wasmill_argument(call, 0);
    const int64_t *x = WASMILL_VALUES(int64_t, column);
    int64_t *out = WASMILL_RESULT(int64_t, call);
    if (!out) return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
    for (size_t row = 0; row < call->rows; row++) {
        if (wasmill_is_valid(column, row))
            *sum += (uint64_t)x[row];
        else if (!wasmill_set_null(call, row))
            return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
        out[row] = (int64_t)*sum;
    }
    return WASMILL_OK;
}

WASMILL_MANIFEST({
    "abi": 1, "kind": "scalar", "name": "boom", "symbol": "boom",
    "doc": "x, but panics at 3.",
    "args": [{"name": "x", "format": "l"}],
    "result": {"format": "l", "nullable": false},
    "volatility": "immutable", "nulls": "propagate"
})

WASMILL_EXPORT(boom)
wasmill_status boom(wasmill_call *call) {
    const int64_t *x = WASMILL_VALUES(int64_t, wasmill_argument(call, 0));
    for (size_t row = 0; row < call->rows; row++)
        if (x[row] == 3) wasmill_abort("boom at 3");
    return wasmill_return_argument(call, 0);
}
