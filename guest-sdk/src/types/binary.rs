//! Binary values: bytes that need not be text.

use super::text::OffsetsColumn;
use super::{ArrowType, Builder, Input, Nulls, Output, TextBuilder, fixed, vec_is_list};
use crate::abi::ArrowArray;
use crate::manifest::{FormatPart, Schema};

const BINARY: Schema = Schema::new(&[FormatPart::Text("z")]);

/// Collects binary values.
#[derive(Default)]
pub struct BinaryBuilder(TextBuilder);

impl BinaryBuilder {
    /// Appends one row.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.text_mut().extend_from_bytes(bytes);
        self.0.end_row();
    }
}

impl Builder for BinaryBuilder {
    #[inline]
    fn begin(&mut self, rows: usize) {
        self.0.begin(rows);
    }

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn finish(&mut self, nulls: Nulls) -> ArrowArray {
        // The layout of text and binary is the same.
        self.0.finish(nulls)
    }
}

impl ArrowType for &[u8] {
    const SCHEMA: Schema = BINARY;
    vec_is_list!(schema);
}

impl<'a> Input<'a> for &'a [u8] {
    type Column = OffsetsColumn;

    #[inline(always)]
    unsafe fn column(array: &'a ArrowArray) -> OffsetsColumn {
        // SAFETY: the caller vouches for the array.
        unsafe { OffsetsColumn::of(array) }
    }

    #[inline(always)]
    unsafe fn get(column: OffsetsColumn, row: usize) -> Self {
        // SAFETY: the caller vouches for the row.
        unsafe { column.row(row) }
    }

    vec_is_list!(input 'a);
}

impl Output for &[u8] {
    type Builder = BinaryBuilder;

    fn placeholder() -> Self {
        &[]
    }

    #[inline(always)]
    fn push(self, builder: &mut BinaryBuilder) {
        builder.push(self);
    }

    vec_is_list!(output);
}

impl ArrowType for u8 {
    const SCHEMA: Schema = Schema::new(&[FormatPart::Text("C")]);
    const VEC_SCHEMA: Schema = BINARY;
}

// SAFETY: a byte; Arrow stores it alike.
unsafe impl fixed::Fixed for u8 {
    const ZERO: Self = 0;
}

impl<'a> Input<'a> for u8 {
    fixed::fixed_column!(input);

    type VecColumn = OffsetsColumn;

    #[inline(always)]
    unsafe fn vec_column(array: &'a ArrowArray) -> OffsetsColumn {
        // SAFETY: the caller vouches for the array.
        unsafe { OffsetsColumn::of(array) }
    }

    unsafe fn get_vec(column: OffsetsColumn, row: usize) -> Vec<u8> {
        // SAFETY: the caller vouches for the row.
        unsafe { column.row(row) }.to_vec()
    }
}

impl Output for u8 {
    fixed::fixed_column!(output);

    type VecBuilder = BinaryBuilder;

    fn push_vec(items: Vec<u8>, builder: &mut BinaryBuilder) {
        builder.push(&items);
    }
}
