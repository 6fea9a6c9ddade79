//! Structs: one child column per field.

use super::{Builder, Nulls, leaf};
use crate::abi::ArrowArray;

/// The builders of a struct's fields, as nested pairs: `(first, (second, ()))`.
pub trait Fields: Default {
    /// Prepares all builders.
    fn begin(&mut self, rows: usize);
    /// Finishes all builders, in order.
    fn finish(&mut self, arrays: &mut Vec<ArrowArray>);
}

impl Fields for () {
    fn begin(&mut self, _rows: usize) {}
    fn finish(&mut self, _arrays: &mut Vec<ArrowArray>) {}
}

impl<B: Builder, F: Fields> Fields for (B, F) {
    fn begin(&mut self, rows: usize) {
        self.0.begin(rows);
        self.1.begin(rows);
    }

    fn finish(&mut self, arrays: &mut Vec<ArrowArray>) {
        arrays.push(self.0.finish(Nulls::NONE));
        self.1.finish(arrays);
    }
}

/// Collects structs.
#[derive(Default)]
pub struct StructBuilder<F> {
    fields: F,
    len: usize,
    buffers: [*const u8; 1],
    arrays: Vec<ArrowArray>,
    children: Vec<*const ArrowArray>,
}

impl<F: Fields> StructBuilder<F> {
    /// The builders of the fields: each must get one value per row.
    #[inline]
    pub fn fields(&mut self) -> &mut F {
        &mut self.fields
    }

    /// Counts the row whose fields are being written.
    #[inline]
    pub fn count_row(&mut self) {
        self.len += 1;
    }
}

impl<F: Fields> Builder for StructBuilder<F> {
    fn begin(&mut self, rows: usize) {
        self.fields.begin(rows);
        self.len = 0;
    }

    fn len(&self) -> usize {
        self.len
    }

    fn finish(&mut self, nulls: Nulls) -> ArrowArray {
        self.arrays.clear();
        self.fields.finish(&mut self.arrays);
        self.children.clear();
        self.children
            .extend(self.arrays.iter().map(std::ptr::from_ref));
        self.buffers = [nulls.bits];
        ArrowArray {
            n_children: self.children.len() as i64,
            children: self.children.as_ptr(),
            ..leaf(self.len, nulls, &self.buffers)
        }
    }
}
