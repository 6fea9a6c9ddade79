//! The structs of the ABI that are not arrays, and typed access to guest memory.

/// Bytes of `ArrowArray` as a compiler for wasm32 lays it out.
pub(crate) const ARRAY_BYTES: usize = 64;
/// Bytes of `ArrowSchema`.
pub(crate) const SCHEMA_BYTES: usize = 48;
/// Alignment of structs.
pub(crate) const STRUCT_ALIGN: usize = 8;
/// Alignment of argument buffers, and of the arena they lie in.
pub(crate) const BUFFER_ALIGN: usize = 64;

/// Answers of `bind`, `init` and `call`.
pub(crate) const STATUS_OK: i32 = 0;
/// The answer that a message goes with.
pub(crate) const STATUS_ERROR: i32 = 2;

/// Set in an argument's flags when its array holds one row that stands for all.
pub(crate) const ARGUMENT_CONSTANT: u32 = 1;

/// Where fields lie in the frame of a call.
pub(crate) mod call {
    /// As the frame itself says it.
    pub(crate) const SIZE_FIELD: u32 = 48;
    pub(crate) const BYTES: usize = SIZE_FIELD as usize;
    pub(crate) const SIZE: usize = 0;
    pub(crate) const BINDING: usize = 8;
    pub(crate) const STATE: usize = 12;
    pub(crate) const ROWS: usize = 16;
    pub(crate) const ARG_COUNT: usize = 24;
    pub(crate) const ARGS: usize = 28;
    pub(crate) const RESULT: usize = 32;
    pub(crate) const ROW_ERRORS: usize = 36;
    pub(crate) const MESSAGE: usize = 40;
    pub(crate) const MESSAGE_LEN: usize = 44;
}

/// Where fields lie in the frame of `init`.
pub(crate) mod init {
    pub(crate) const BYTES: usize = 28;
    pub(crate) const SIZE: usize = 0;
    pub(crate) const ARGS: usize = 8;
    pub(crate) const ARGS_LEN: usize = 12;
    pub(crate) const STATE: usize = 16;
    pub(crate) const MESSAGE: usize = 20;
    pub(crate) const MESSAGE_LEN: usize = 24;
}

/// Where fields lie in the frame of `bind`.
pub(crate) mod bind {
    pub(crate) const BYTES: usize = 40;
    pub(crate) const SIZE: usize = 0;
    pub(crate) const ARG_COUNT: usize = 8;
    pub(crate) const FIELDS: usize = 12;
    pub(crate) const CONSTANTS: usize = 16;
    pub(crate) const RESULT: usize = 24;
    pub(crate) const BINDING: usize = 28;
    pub(crate) const MESSAGE: usize = 32;
    pub(crate) const MESSAGE_LEN: usize = 36;
}

/// Bytes of guest text that are kept.
pub(crate) const TEXT_BYTES: u32 = 4 << 10;

/// A `u32` of guest memory.
pub(crate) fn read_u32(memory: &[u8], at: u64) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes_at(memory, at, 4)?.try_into().ok()?,
    ))
}

/// An `i64` of guest memory.
pub(crate) fn read_i64(memory: &[u8], at: u64) -> Option<i64> {
    Some(i64::from_le_bytes(
        bytes_at(memory, at, 8)?.try_into().ok()?,
    ))
}

/// So many bytes of guest memory; `None` where they do not lie inside it.
pub(crate) fn bytes_at(memory: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let end = at.checked_add(len)?;
    memory.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?)
}

/// A guest's text for people: bounded, made valid, without control characters but for line ends.
pub(crate) fn text_at(memory: &[u8], pointer: u32, len: u32) -> String {
    let Some(bytes) = bytes_at(memory, u64::from(pointer), u64::from(len.min(TEXT_BYTES))) else {
        return format!("(a message of {len} bytes at {pointer:#x}, outside its memory)");
    };
    let mut text = clean_text(bytes);
    if len > TEXT_BYTES {
        text.push_str(&format!("… ({len} bytes in all)"));
    }
    if text.trim().is_empty() {
        text = "(no message)".to_owned();
    }
    text
}

/// Characters of a name or a reason from a guest that are shown.
const LINE_CHARS: usize = 300;

/// A guest's text as part of a message of one line: cut, and nothing in it that moves a cursor.
pub(crate) fn clean_line(text: &str) -> String {
    let start = text
        .char_indices()
        .nth(LINE_CHARS)
        .map_or(text, |(end, _)| text.get(..end).unwrap_or(text));
    let mut line = clean_text(start.as_bytes())
        .replace('\n', "\\n")
        .replace('\t', "\\t");
    if start.len() < text.len() {
        line.push('…');
    }
    line
}

/// Makes bytes of a guest fit for a terminal: invalid UTF-8 replaced, characters that mislead escaped.
pub(crate) fn clean_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '\n' | '\t' => text.push(c),
            c if misleads(c) => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    text
}

/// Whether a character moves the cursor or changes how others are shown: control characters, line
/// separators, and marks of direction, which can make a line read as another.
pub(crate) fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
