//! Booleans: one bit each.

use super::{ArrowType, Builder, Input, Nulls, Output, Place, buffer, leaf, vec_is_list};
use crate::abi::ArrowArray;
use crate::buffer::{Bitmap, bit_at};
use crate::manifest::{FormatPart, Schema};

/// Collects booleans.
#[derive(Default)]
pub struct BooleanBuilder {
    bits: Bitmap,
    buffers: [*const u8; 2],
}

impl Builder for BooleanBuilder {
    #[inline]
    fn begin(&mut self, rows: usize) {
        self.bits.begin(rows);
    }

    #[inline]
    fn len(&self) -> usize {
        self.bits.len()
    }

    #[inline]
    fn finish(&mut self, nulls: Nulls) -> ArrowArray {
        self.buffers = [nulls.bits, self.bits.as_host_ptr()];
        leaf(self.bits.len(), nulls, &self.buffers)
    }
}

impl ArrowType for bool {
    const SCHEMA: Schema = Schema::new(&[FormatPart::Text("b")]);
    vec_is_list!(schema);
}

impl<'a> Input<'a> for bool {
    type Column = *const u8;

    #[inline(always)]
    unsafe fn column(array: &'a ArrowArray) -> *const u8 {
        // SAFETY: the caller vouches for the array: booleans have their bits in buffer 1.
        unsafe { buffer(array, 1) }
    }

    #[inline(always)]
    unsafe fn get(column: *const u8, row: usize) -> bool {
        // SAFETY: the caller vouches for the row.
        unsafe { bit_at(column, row) }
    }

    vec_is_list!(input 'a);
}

impl Output for bool {
    type Builder = BooleanBuilder;

    fn placeholder() -> bool {
        false
    }

    #[inline(always)]
    fn push(self, builder: &mut BooleanBuilder) {
        builder.bits.push(self);
    }

    #[inline(always)]
    fn fill(builder: &mut BooleanBuilder, count: usize, mut value: impl FnMut(Place) -> bool) {
        builder.bits.fill_places(count, &mut value);
    }

    vec_is_list!(output);
}
