// UDFs over int64, in C11. `wasmill.h` says what there is.

#define WASMILL_IMPLEMENTATION
#include "wasmill.h"

WASMILL_MANIFEST({
    "abi": 1, "kind": "scalar", "name": "percent", "symbol": "percent",
    "doc": "Part of a whole in percent, rounded towards zero. The row fails when the whole is zero.",
    "args": [{"name": "part", "format": "l"}, {"name": "whole", "format": "l"}],
    "result": {"format": "l", "nullable": false},
    "volatility": "immutable", "nulls": "propagate"
})

WASMILL_EXPORT(percent)
wasmill_status percent(wasmill_call *call) {
    const int64_t *part = WASMILL_VALUES(int64_t, wasmill_argument(call, 0));
    const int64_t *whole = WASMILL_VALUES(int64_t, wasmill_argument(call, 1));
    int64_t *out = WASMILL_RESULT(int64_t, call);
    if (!out) return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
    for (size_t row = 0; row < call->rows; row++) {
        bool told = true;
        out[row] = 0;
        // Under a null there may be anything: nothing here may trap.
        if (whole[row] == 0)
            told = wasmill_row_error(call, row, 1, "the whole is zero");
        else if (part[row] > INT64_MAX / 100 || part[row] < INT64_MIN / 100)
            told = wasmill_row_error(call, row, 2, "the part is out of range");
        else
            out[row] = part[row] * 100 / whole[row];
        if (!told) return wasmill_fail(call, WASMILL_OUT_OF_MEMORY);
    }
    return WASMILL_OK;
}
