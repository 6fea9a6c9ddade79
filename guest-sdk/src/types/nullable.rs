//! `Option<T>`: a validity bitmap beside the values.

use super::{ArrowType, Builder, Input, Nulls, Output, Place, validity, vec_is_list};
use crate::abi::ArrowArray;
use crate::buffer::{Bitmap, bit_at};
use crate::manifest::Schema;

/// A column and its validity bitmap.
#[derive(Clone, Copy)]
pub struct NullableColumn<C> {
    values: C,
    /// Null when no row is.
    validity: *const u8,
}

/// Collects values and which of them are null.
#[derive(Default)]
pub struct NullableBuilder<B> {
    values: B,
    validity: Bitmap,
}

impl<B: Builder> Builder for NullableBuilder<B> {
    #[inline]
    fn begin(&mut self, rows: usize) {
        self.values.begin(rows);
        self.validity.begin(rows);
    }

    #[inline]
    fn len(&self) -> usize {
        self.values.len()
    }

    #[inline]
    fn finish(&mut self, _nulls: Nulls) -> ArrowArray {
        // The builder knows its nulls: whoever wants one appends `None`.
        let count = self.validity.zeros();
        self.values.finish(if count == 0 {
            Nulls::NONE
        } else {
            Nulls {
                bits: self.validity.as_host_ptr(),
                count,
            }
        })
    }
}

impl<T: ArrowType> ArrowType for Option<T> {
    const SCHEMA: Schema = T::SCHEMA.nullable();
    vec_is_list!(schema);
}

impl<'a, T: Input<'a>> Input<'a> for Option<T> {
    type Column = NullableColumn<T::Column>;
    const TAKES_NULLS: bool = true;

    #[inline(always)]
    unsafe fn column(array: &'a ArrowArray) -> Self::Column {
        // SAFETY: the caller vouches for the array; every type of `T` has a validity bitmap.
        unsafe {
            NullableColumn {
                values: T::column(array),
                validity: validity(array),
            }
        }
    }

    #[inline(always)]
    unsafe fn get(column: Self::Column, row: usize) -> Self {
        // SAFETY: the caller vouches for the row.
        unsafe {
            if column.validity.is_null() || bit_at(column.validity, row) {
                Some(T::get(column.values, row))
            } else {
                None
            }
        }
    }

    vec_is_list!(input 'a);
}

impl<T: Output> Output for Option<T> {
    type Builder = NullableBuilder<T::Builder>;

    #[inline(always)]
    fn placeholder() -> Self {
        None
    }

    #[inline(always)]
    fn push(self, builder: &mut Self::Builder) {
        builder.validity.push(self.is_some());
        self.unwrap_or_else(T::placeholder)
            .push(&mut builder.values);
    }

    #[inline(always)]
    fn fill(builder: &mut Self::Builder, count: usize, mut value: impl FnMut(Place) -> Self) {
        let NullableBuilder { values, validity } = builder;
        let whole = count - count % 32;
        for base in (0..whole).step_by(32) {
            let mut word = 0;
            T::fill(values, 32, |place| {
                let value = value(place.after(base));
                word |= u32::from(value.is_some()) << place.row();
                value.unwrap_or_else(T::placeholder)
            });
            validity.push_word(word);
        }
        T::fill(values, count - whole, |place| {
            let value = value(place.after(whole));
            validity.push(value.is_some());
            value.unwrap_or_else(T::placeholder)
        });
    }

    vec_is_list!(output);
}
