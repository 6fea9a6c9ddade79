//! A UDF with a state, in Zig. `wasmill.zig` says what there is.

const wasmill = @import("wasmill.zig");

pub const panic = wasmill.panic;

comptime {
    _ = wasmill.exports;
    asm (wasmill.manifest(
            \\{"abi": 1, "kind": "scalar", "name": "apply", "symbol": "apply",
            \\ "doc": "x times scale, plus offset.",
            \\ "args": [{"name": "x", "format": "l"}], "result": {"format": "l", "nullable": false},
            \\ "volatility": "immutable", "nulls": "propagate",
            \\ "state": {"name": "Affine", "kind": "resource", "init": "affine_init",
            \\   "init_args": {"type": "object", "required": ["scale", "offset"], "properties": {
            \\     "scale": {"type": "integer"}, "offset": {"type": "integer"}}}}}
        ));
}

const Affine = struct { scale: i64, offset: i64 };

export fn affine_init(frame: *wasmill.Init) wasmill.Status {
    const state = frame.read(Affine) catch
        return frame.fail("scale and offset must fit 64-bit integers");
    return frame.finish(frame.keep(Affine, state));
}

export fn apply(call: *wasmill.Call) wasmill.Status {
    return call.finish(applyAffine(call));
}

fn applyAffine(call: *wasmill.Call) !void {
    const state = call.stateAs(Affine);
    for (try call.makeResult(i64), call.argument(0).values(i64)) |*out, x|
        out.* = x *% state.scale +% state.offset;
}
