//! Text: offsets and bytes.

use super::{ArrowType, Builder, Input, Nulls, Output, ascii, buffer, leaf, vec_is_list};
use crate::abi::ArrowArray;
use crate::buffer::Buffer;
use crate::manifest::{FormatPart, Schema};

/// Where the offsets and bytes of a column of text or binary are.
#[derive(Clone, Copy)]
pub struct OffsetsColumn {
    pub(crate) offsets: *const i32,
    pub(crate) bytes: *const u8,
}

impl OffsetsColumn {
    /// # Safety
    /// `array` must be a valid column of type utf8 or binary.
    #[inline(always)]
    pub(crate) unsafe fn of(array: &ArrowArray) -> Self {
        // SAFETY: such a column has its offsets in buffer 1 and its bytes in buffer 2.
        unsafe {
            Self {
                offsets: buffer(array, 1).cast(),
                bytes: buffer(array, 2),
            }
        }
    }

    /// The bytes of a row.
    ///
    /// # Safety
    /// The column must be alive for `'a` and have more than `row` rows.
    #[inline(always)]
    pub(crate) unsafe fn row<'a>(self, row: usize) -> &'a [u8] {
        // SAFETY: there is one offset more than rows; offsets do not decrease and lie within the bytes.
        unsafe {
            let start = self.offsets.add(row).read_unaligned() as usize;
            let end = self.offsets.add(row + 1).read_unaligned() as usize;
            if start == end {
                return &[];
            }
            std::slice::from_raw_parts(self.bytes.add(start), end - start)
        }
    }
}

/// The text of the current row. A row function that takes `out: &mut StrWriter` as its last argument
/// returns text without allocating a `String` for each row.
///
/// ```
/// use wasmill_guest::{StrWriter, udf};
///
/// /// Text in brackets.
/// #[udf]
/// fn bracket(text: &str, out: &mut StrWriter) {
///     out.push('[');
///     out.push_str(text);
///     out.push(']');
/// }
///
/// let mut out = StrWriter::default();
/// bracket("x", &mut out);
/// assert_eq!(out.as_str(), "[x]");
/// ```
#[derive(Default)]
pub struct StrWriter {
    bytes: Buffer<u8>,
    row: usize,
}

impl StrWriter {
    /// Appends text to the row.
    #[inline(always)]
    pub fn push_str(&mut self, text: &str) {
        self.bytes.extend_from_bytes(text.as_bytes());
    }

    /// Appends ASCII text with each character mapped; appends nothing and answers `false` when the text
    /// is not ASCII. The eighth bit of what `map` returns is not used.
    ///
    /// ```
    /// use wasmill_guest::StrWriter;
    ///
    /// let mut out = StrWriter::default();
    /// assert!(out.push_ascii("shout", |byte| byte.to_ascii_uppercase()));
    /// assert!(!out.push_ascii("é", |byte| byte));
    /// assert_eq!(out.as_str(), "SHOUT");
    /// ```
    #[inline(always)]
    pub fn push_ascii(&mut self, text: &str, map: impl Fn(u8) -> u8) -> bool {
        if !ascii::is_ascii(text.as_bytes()) {
            return false;
        }
        // SAFETY: `map_into` writes as many bytes as the text has.
        unsafe {
            self.bytes.append_with(text.len(), |room| {
                ascii::map_into(text.as_bytes(), room, |byte| map(byte) & 0x7f);
            });
        }
        true
    }

    /// Appends a character to the row.
    #[inline]
    pub fn push(&mut self, character: char) {
        self.push_str(character.encode_utf8(&mut [0; 4]));
    }

    /// The row so far.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = &self.bytes.as_slice()[self.row..];
        // SAFETY: all that was appended since the row began is text.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }

    /// The row so far, to be changed.
    #[inline]
    pub fn as_mut_str(&mut self) -> &mut str {
        let bytes = &mut self.bytes.as_mut_slice()[self.row..];
        // SAFETY: as in `as_str`; a `str` can only be changed into a `str`.
        unsafe { std::str::from_utf8_unchecked_mut(bytes) }
    }

    /// Empties the row.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.row);
    }
}

impl std::fmt::Write for StrWriter {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

/// Collects rows of bytes with their offsets: text, and under it binary.
#[derive(Default)]
pub struct TextBuilder {
    offsets: Buffer<i32>,
    text: StrWriter,
    buffers: [*const u8; 3],
}

impl TextBuilder {
    /// The row that is being written.
    #[inline(always)]
    pub fn row(&mut self) -> &mut StrWriter {
        &mut self.text
    }

    /// The bytes of the row that is being written.
    #[inline(always)]
    pub(crate) fn text_mut(&mut self) -> &mut Buffer<u8> {
        &mut self.text.bytes
    }

    /// Ends the row that is being written.
    ///
    /// # Panics
    /// When the column has reached 2 GiB.
    #[inline(always)]
    pub fn end_row(&mut self) {
        let end = self.text.bytes.len();
        self.text.row = end;
        // On wasm32 no block is larger than that.
        if size_of::<usize>() > 4 {
            assert!(
                i32::try_from(end).is_ok(),
                "a column of text holds at most 2 GiB"
            );
        }
        self.offsets.push(end as i32);
    }

    /// Appends one row.
    #[inline(always)]
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.end_row();
    }
}

impl Builder for TextBuilder {
    #[inline]
    fn begin(&mut self, rows: usize) {
        self.text.bytes.clear();
        self.text.row = 0;
        self.offsets.clear();
        self.offsets.reserve(rows + 1);
        self.offsets.push(0);
    }

    #[inline]
    fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    #[inline]
    fn finish(&mut self, nulls: Nulls) -> ArrowArray {
        self.buffers = [
            nulls.bits,
            self.offsets.as_host_ptr(),
            self.text.bytes.as_host_ptr(),
        ];
        leaf(self.len(), nulls, &self.buffers)
    }
}

macro_rules! text {
    ([$($life:lifetime)?] $type:ty, $from:expr) => {
        impl$(<$life>)? ArrowType for $type {
            const SCHEMA: Schema = Schema::new(&[FormatPart::Text("u")]);
            vec_is_list!(schema);
        }

        impl<'a> Input<'a> for $type {
            type Column = OffsetsColumn;

            #[inline(always)]
            unsafe fn column(array: &'a ArrowArray) -> OffsetsColumn {
                // SAFETY: the caller vouches for the array.
                unsafe { OffsetsColumn::of(array) }
            }

            #[inline(always)]
            unsafe fn get(column: OffsetsColumn, row: usize) -> Self {
                // SAFETY: the caller vouches for the row; the host passes valid UTF-8.
                let text: &'a str = unsafe { std::str::from_utf8_unchecked(column.row(row)) };
                $from(text)
            }

            vec_is_list!(input 'a);
        }

        impl$(<$life>)? Output for $type {
            type Builder = TextBuilder;

            fn placeholder() -> Self {
                Self::default()
            }

            #[inline(always)]
            fn push(self, builder: &mut TextBuilder) {
                builder.push(self.as_ref());
            }

            vec_is_list!(output);
        }
    };
}
text!(['a] &'a str, std::convert::identity);
text!([] String, str::to_owned);
