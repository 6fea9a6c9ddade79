//! Version 1 of the Wasmill ABI in Zig: frames, arrays, memory. Copy this file beside your guest.
//!
//! `docs/abi.md` is the contract; `guest.zig` uses everything here. A guest's root file must refer to
//! this file's exports and panic handler:
//!
//! ```zig
//! const wasmill = @import("wasmill.zig");
//! pub const panic = wasmill.panic;
//! comptime {
//!     _ = wasmill.exports;
//! }
//! ```

const std = @import("std");

/// What a function answers.
pub const Status = enum(i32) {
    /// The result is there.
    ok = 0,
    /// The call failed as a whole; its frame says why.
    failed = 2,
};

/// An array: `ArrowArray` of the Arrow C Data Interface.
pub const Array = extern struct {
    length: i64 = 0,
    null_count: i64 = 0,
    offset: i64 = 0,
    n_buffers: i64 = 0,
    n_children: i64 = 0,
    buffers: ?[*]?*anyopaque = null,
    children: ?[*]*Array = null,
    dictionary: ?*Array = null,
    release: ?*anyopaque = null,
    private_data: ?*anyopaque = null,

    /// An array over buffers, without children. The list of buffers must live as long as the array.
    fn over(length: usize, all: []?*anyopaque) Array {
        return .{ .length = @intCast(length), .n_buffers = @intCast(all.len), .buffers = all.ptr };
    }

    fn buffer(array: *const Array, index: usize) ?*anyopaque {
        return array.buffers.?[index];
    }

    /// The values of an argument of fixed width. Values under nulls are arbitrary.
    pub fn values(array: *const Array, T: type) []const T {
        const first: [*]const T = @ptrCast(@alignCast(array.buffer(1).?));
        return first[0..@intCast(array.length)];
    }

    /// The value of a row of a utf8 or binary argument.
    pub fn text(array: *const Array, row: usize) []const u8 {
        const offsets: [*]const i32 = @ptrCast(@alignCast(array.buffer(1).?));
        const bytes: [*]const u8 = @ptrCast(array.buffer(2).?);
        return bytes[@intCast(offsets[row])..@intCast(offsets[row + 1])];
    }

    /// Whether a row of an argument is not null.
    pub fn isValid(array: *const Array, row: usize) bool {
        const validity: [*]const u8 = @ptrCast(array.buffer(0) orelse return true);
        return validity[row / 8] >> @intCast(row % 8) & 1 != 0;
    }
};

/// An argument of a call.
pub const Argument = extern struct {
    array: *Array,
    /// Bit 0: constant, an array of one row that stands for all rows.
    flags: u32,
};

/// The frame of a call: one batch.
pub const Call = extern struct {
    size: u32,
    flags: u32,
    binding: u32,
    state: u32,
    rows: u64,
    n_args: u32,
    args: [*]Argument,
    result: *Array,
    row_errors: *Array,
    message: ?[*]const u8,
    message_len: u32,

    /// Rows in this batch, at least 1.
    pub fn len(call: *const Call) usize {
        return @intCast(call.rows);
    }

    /// The array of an argument.
    pub fn argument(call: *const Call, index: usize) *Array {
        return call.args[index].array;
    }

    /// Where in an argument the value for `row` stands: at 0 for a constant.
    pub fn rowOf(call: *const Call, index: usize, row: usize) usize {
        return if (call.args[index].flags & 1 != 0) 0 else row;
    }

    /// The state that `init` made.
    pub fn stateAs(call: *const Call, T: type) *T {
        return @ptrFromInt(call.state);
    }

    /// Makes the result an array of fixed-width values without nulls, which the caller fills.
    pub fn makeResult(call: *Call, T: type) error{OutOfMemory}![]T {
        const out = try results.alloc(T, call.len());
        const all = try results.alloc(?*anyopaque, 2);
        all[0] = null;
        all[1] = out.ptr;
        call.result.* = .over(call.len(), all);
        return out;
    }

    /// Makes rows of the result null.
    pub fn setNull(call: *Call, row: usize) error{OutOfMemory}!void {
        const buffers = call.result.buffers.?;
        if (buffers[0] == null) {
            const all = try results.alloc(u8, (call.len() + 7) / 8);
            @memset(all, 0xff);
            buffers[0] = all.ptr;
        }
        const validity: [*]u8 = @ptrCast(buffers[0].?);
        validity[row / 8] &= ~(@as(u8, 1) << @intCast(row % 8));
        call.result.null_count += 1;
    }

    /// Makes the result of texts: the bytes of all rows, and for each row where its bytes begin, with one
    /// more number for the end.
    pub fn makeTexts(call: *Call, bytes: []u8, offsets: []i32) error{OutOfMemory}!void {
        const all = try results.alloc(?*anyopaque, 3);
        all[0] = null;
        all[1] = offsets.ptr;
        all[2] = bytes.ptr;
        call.result.* = .over(call.len(), all);
    }

    /// Fails the call as a whole. The message must stay where it is until the next call.
    pub fn fail(call: *Call, message: []const u8) Status {
        call.message = message.ptr;
        call.message_len = message.len;
        return .failed;
    }

    /// The status for what a function answered; an error's name is the message.
    pub fn finish(call: *Call, outcome: anyerror!void) Status {
        outcome catch |why| return call.fail(@errorName(why));
        return .ok;
    }
};

/// The frame of an `init`.
pub const Init = extern struct {
    size: u32,
    flags: u32,
    args: [*]const u8,
    args_len: u32,
    state: u32,
    message: ?[*]const u8,
    message_len: u32,

    /// Reads the init arguments, a struct. Its texts and lists are valid until the first call.
    pub fn read(frame: *const Init, T: type) !T {
        return std.json.parseFromSliceLeaky(T, results, frame.args[0..frame.args_len], .{});
    }

    /// Makes `state` the state that calls are given.
    pub fn keep(frame: *Init, T: type, state: T) error{OutOfMemory}!void {
        const place = try heap.create(T);
        place.* = state;
        frame.state = @intFromPtr(place);
    }

    /// Fails the `init`. The message must stay where it is until the next call.
    pub fn fail(frame: *Init, message: []const u8) Status {
        frame.message = message.ptr;
        frame.message_len = message.len;
        return .failed;
    }

    /// The status for what an `init` answered; an error's name is the message.
    pub fn finish(frame: *Init, outcome: anyerror!void) Status {
        outcome catch |why| return frame.fail(@errorName(why));
        return .ok;
    }
};

comptime {
    std.debug.assert(@sizeOf(Array) == 64 and @offsetOf(Array, "buffers") == 40);
    std.debug.assert(@sizeOf(Call) == 48 and @offsetOf(Call, "args") == 28);
    std.debug.assert(@sizeOf(Init) == 28);
}

/// Row errors of a call: rows in increasing order.
pub const RowErrors = struct {
    rows: std.ArrayList(u32) = .empty,
    codes: std.ArrayList(i32) = .empty,
    offsets: std.ArrayList(i32) = .empty,
    text: std.ArrayList(u8) = .empty,

    /// Fails a row with a number of the guest's choice and a message.
    pub fn add(errors: *RowErrors, row: usize, code: i32, message: []const u8) error{OutOfMemory}!void {
        if (errors.rows.items.len == 0) try errors.offsets.append(results, 0);
        try errors.rows.append(results, @intCast(row));
        try errors.codes.append(results, code);
        try errors.text.appendSlice(results, message);
        const end = std.math.cast(i32, errors.text.items.len) orelse return error.OutOfMemory;
        try errors.offsets.append(results, end);
    }

    /// Tells the host, if any row failed.
    pub fn report(errors: *RowErrors, call: *Call) error{OutOfMemory}!void {
        const count = errors.rows.items.len;
        if (count == 0) return;
        const columns = [3][]const ?*anyopaque{
            &.{ null, errors.rows.items.ptr },
            &.{ null, errors.codes.items.ptr },
            &.{ null, errors.offsets.items.ptr, errors.text.items.ptr },
        };
        const children = try results.alloc(*Array, columns.len);
        for (children, columns) |*child, column| {
            child.* = try results.create(Array);
            child.*.* = .over(count, try results.dupe(?*anyopaque, column));
        }
        const none = try results.dupe(?*anyopaque, &.{null});
        call.row_errors.* = .over(count, none);
        call.row_errors.n_children = children.len;
        call.row_errors.children = children.ptr;
    }
};

/// Memory that lives until it is given back: for states.
pub const heap: std.mem.Allocator = std.heap.wasm_allocator;

var result_arena: std.heap.ArenaAllocator = .init(heap);

/// Memory that lives until the host has read the results of the call. Nothing has to be given back.
pub const results: std.mem.Allocator = result_arena.allocator();

/// What the host calls to place arguments and to end the life of results.
pub const exports = struct {
    export fn wasmill_alloc(size: usize, alignment: usize) ?[*]u8 {
        if (!std.math.isPowerOfTwo(alignment)) return null;
        return heap.rawAlloc(@max(size, 1), .fromByteUnits(alignment), @returnAddress());
    }

    export fn wasmill_free(pointer: ?[*]u8, size: usize, alignment: usize) void {
        const block = (pointer orelse return)[0..@max(size, 1)];
        if (std.math.isPowerOfTwo(alignment))
            heap.rawFree(block, .fromByteUnits(alignment), @returnAddress());
    }

    export fn wasmill_reset() void {
        _ = result_arena.reset(.retain_capacity);
    }

    /// The text of a panic; the linker exports its address.
    export var wasmill_panic: extern struct { len: u32, bytes: [1020]u8 } = .{ .len = 0, .bytes = @splat(0) };
};

/// Leaves the text of a panic for the host.
pub const panic = std.debug.FullPanic(leaveText);

fn leaveText(text: []const u8, _: ?usize) noreturn {
    const place = &exports.wasmill_panic;
    const len = @min(text.len, place.bytes.len);
    @memcpy(place.bytes[0..len], text[0..len]);
    place.len = @intCast(len);
    @trap();
}

const Level = enum(i32) { err = 1, warn, info, debug, trace };

extern "wasmill_v1" fn log(level: Level, pointer: [*]const u8, len: usize) void;

/// Writes a line to the host's log. A guest that never logs does not import it.
pub fn logLine(level: Level, line: []const u8) void {
    log(level, line.ptr, line.len);
}

/// One record of the manifest, as JSON: call it at comptime. Backslashes and quotes are escaped for the
/// assembler, which puts the record into the module's custom section.
pub fn manifest(comptime record: []const u8) []const u8 {
    @setEvalBranchQuota(100_000);
    comptime var escaped: []const u8 = "";
    inline for (record) |c| escaped = escaped ++ switch (c) {
        '"', '\\' => "\\" ++ [_]u8{c},
        '\n' => " ",
        else => [_]u8{c},
    };
    return ".section .custom_section.wasmill.manifest,\"\",@\n.ascii \"" ++ escaped ++ "\\n\"\n.text\n";
}
