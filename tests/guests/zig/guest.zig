//! The functions that tests/core/languages.rs runs in every language, in Zig.

const std = @import("std");
const wasmill = @import("wasmill.zig");

const Call = wasmill.Call;
const Init = wasmill.Init;
const Status = wasmill.Status;

pub const panic = wasmill.panic;

comptime {
    _ = wasmill.exports;

    asm (wasmill.manifest(
            \\{"abi": 1, "kind": "scalar", "name": "gcd", "symbol": "gcd",
            \\ "doc": "Greatest common divisor: never negative, unless it does not fit.",
            \\ "args": [{"name": "a", "format": "l"}, {"name": "b", "format": "l"}],
            \\ "result": {"format": "l", "nullable": false},
            \\ "volatility": "immutable", "nulls": "propagate"}
        ));
    asm (wasmill.manifest(
            \\{"abi": 1, "kind": "scalar", "name": "div", "symbol": "div",
            \\ "doc": "Integer division, towards zero. Fails the row for a divisor of 0 and for overflow.",
            \\ "args": [{"name": "a", "format": "l"}, {"name": "b", "format": "l"}],
            \\ "result": {"format": "l", "nullable": false},
            \\ "volatility": "immutable", "nulls": "propagate", "constants": true}
        ));
    asm (wasmill.manifest(
            \\{"abi": 1, "kind": "scalar", "name": "upper", "symbol": "upper",
            \\ "doc": "Text with the letters a to z in upper case.",
            \\ "args": [{"name": "text", "format": "u"}],
            \\ "result": {"format": "u", "nullable": false},
            \\ "volatility": "immutable", "nulls": "propagate"}
        ));
    asm (wasmill.manifest(
            \\{"abi": 1, "kind": "scalar", "name": "char_length", "symbol": "char_length",
            \\ "doc": "Number of characters (Unicode scalar values) of a text.",
            \\ "args": [{"name": "text", "format": "u"}],
            \\ "result": {"format": "l", "nullable": false},
            \\ "volatility": "immutable", "nulls": "propagate"}
        ));
    asm (wasmill.manifest(
            \\{"abi": 1, "kind": "scalar", "name": "identity", "symbol": "identity",
            \\ "doc": "The argument, unchanged.",
            \\ "args": [{"name": "x", "any": true}], "result": {"same_as": 0},
            \\ "volatility": "immutable", "nulls": "handle"}
        ));
    asm (wasmill.manifest(
            \\{"abi": 1, "kind": "scalar", "name": "apply", "symbol": "apply",
            \\ "doc": "x * scale + offset; wraps around.",
            \\ "args": [{"name": "x", "format": "l"}],
            \\ "result": {"format": "l", "nullable": false},
            \\ "volatility": "immutable", "nulls": "propagate",
            \\ "state": {
            \\   "name": "Affine", "kind": "resource", "init": "affine_init", "close": "affine_close",
            \\   "init_args": {
            \\     "type": "object", "required": ["scale"], "additionalProperties": false,
            \\     "properties": {
            \\       "scale": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807,
            \\          "description": "What to multiply by."},
            \\       "offset": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807,
            \\          "description": "What to add.", "default": 0}}}}}
        ));
    asm (wasmill.manifest(
            \\{"abi": 1, "kind": "scalar", "name": "running_sum", "symbol": "running_sum",
            \\ "doc": "Sum of this value and all before it; wraps around. A null gives null and adds nothing.",
            \\ "args": [{"name": "x", "format": "l"}], "result": {"format": "l"},
            \\ "volatility": "volatile", "nulls": "handle",
            \\ "state": {
            \\   "name": "RunningSum", "kind": "sequence", "init": "running_sum_init",
            \\   "init_args": {"type": "object", "properties": {}, "additionalProperties": false}}}
        ));
    asm (wasmill.manifest(
            \\{"abi": 1, "kind": "scalar", "name": "boom", "symbol": "boom",
            \\ "doc": "x, but panics at 3.",
            \\ "args": [{"name": "x", "format": "l"}],
            \\ "result": {"format": "l", "nullable": false},
            \\ "volatility": "immutable", "nulls": "propagate"}
        ));
}

export fn gcd(call: *Call) Status {
    return call.finish(divisors(call));
}

fn divisors(call: *Call) !void {
    const a = call.argument(0).values(i64);
    const b = call.argument(1).values(i64);
    for (try call.makeResult(i64), a, b) |*out, x, y|
        out.* = @bitCast(std.math.gcd(@abs(x), @abs(y)));
}

export fn div(call: *Call) Status {
    return call.finish(divide(call));
}

fn divide(call: *Call) !void {
    const a = call.argument(0).values(i64);
    const b = call.argument(1).values(i64);
    var errors: wasmill.RowErrors = .{};
    for (try call.makeResult(i64), 0..) |*out, row| {
        out.* = std.math.divTrunc(i64, a[call.rowOf(0, row)], b[call.rowOf(1, row)]) catch |why| failed: {
            switch (why) {
                error.DivisionByZero => try errors.add(row, 1, "division by zero"),
                error.Overflow => try errors.add(row, 2, "overflow"),
            }
            break :failed 0;
        };
    }
    try errors.report(call);
}

export fn upper(call: *Call) Status {
    return call.finish(upperCase(call));
}

fn upperCase(call: *Call) !void {
    const texts = call.argument(0);
    const offsets = try wasmill.results.alloc(i32, call.len() + 1);
    var bytes: std.ArrayList(u8) = .empty;
    offsets[0] = 0;
    for (offsets[1..], 0..) |*end, row| {
        const text = texts.text(row);
        for (try bytes.addManyAsSlice(wasmill.results, text.len), text) |*out, c|
            out.* = std.ascii.toUpper(c);
        end.* = std.math.cast(i32, bytes.items.len) orelse return error.TextsAbove2GiB;
    }
    try call.makeTexts(bytes.items, offsets);
}

export fn char_length(call: *Call) Status {
    return call.finish(characters(call));
}

fn characters(call: *Call) !void {
    const texts = call.argument(0);
    for (try call.makeResult(i64), 0..) |*out, row| {
        out.* = 0;
        // Bytes of the form 10xxxxxx go on with a character.
        for (texts.text(row)) |c| out.* += @intFromBool(c & 0xc0 != 0x80);
    }
}

export fn identity(call: *Call) Status {
    call.result.* = call.argument(0).*;
    return .ok;
}

const Affine = struct {
    scale: i64,
    offset: i64,
};

export fn affine_init(frame: *Init) Status {
    const state = frame.read(Affine) catch
        return frame.fail("scale and offset must fit 64-bit integers");
    wasmill.logLine(.info, "affine begins");
    return frame.finish(frame.keep(Affine, state));
}

export fn affine_close(state: *Affine) void {
    wasmill.heap.destroy(state);
    wasmill.logLine(.info, "affine ends");
}

export fn apply(call: *Call) Status {
    return call.finish(applyAffine(call));
}

fn applyAffine(call: *Call) !void {
    const state = call.stateAs(Affine);
    for (try call.makeResult(i64), call.argument(0).values(i64)) |*out, x|
        out.* = x *% state.scale +% state.offset;
}

const RunningSum = struct {
    sum: i64 = 0,
};

export fn running_sum_init(frame: *Init) Status {
    return frame.finish(frame.keep(RunningSum, .{}));
}

export fn running_sum(call: *Call) Status {
    return call.finish(addUp(call));
}

fn addUp(call: *Call) !void {
    const state = call.stateAs(RunningSum);
    const column = call.argument(0);
    for (try call.makeResult(i64), column.values(i64), 0..) |*out, x, row| {
        if (column.isValid(row)) state.sum +%= x else try call.setNull(row);
        out.* = state.sum;
    }
}

export fn boom(call: *Call) Status {
    for (call.argument(0).values(i64)) |x|
        if (x == 3) @panic("boom at 3");
    return identity(call);
}
