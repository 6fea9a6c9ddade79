//! Fixed-width values: a buffer of values, one after the other.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{ArrowType, Builder, Input, Nulls, Output, Place, buffer, leaf, vec_is_list};
use crate::abi::ArrowArray;
use crate::buffer::Buffer;
use crate::manifest::{FormatPart, Schema};

/// A type whose column is a buffer of its values.
///
/// # Safety
/// Every pattern of bits must be a value, the type must have no padding and no zero size, and Arrow
/// must store it as Rust does.
pub unsafe trait Fixed: Copy + ArrowType {
    /// The zero.
    const ZERO: Self;
}

/// Where the values of a column are.
pub struct FixedColumn<T>(pub(crate) *const T);

impl<T> Clone for FixedColumn<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for FixedColumn<T> {}

impl<T> FixedColumn<T> {
    /// # Safety
    /// `array` must be a valid column of `T`.
    #[inline(always)]
    pub(crate) unsafe fn of(array: &ArrowArray) -> Self {
        // SAFETY: a column of fixed-width values has its values in buffer 1.
        Self(unsafe { buffer(array, 1) }.cast())
    }
}

/// Collects fixed-width values.
pub struct FixedBuilder<T: Copy> {
    values: Buffer<T>,
    buffers: [*const u8; 2],
    kind: PhantomData<T>,
}

impl<T: Copy> Default for FixedBuilder<T> {
    fn default() -> Self {
        Self {
            values: Buffer::default(),
            buffers: [std::ptr::null(); 2],
            kind: PhantomData,
        }
    }
}

impl<T: Fixed> FixedBuilder<T> {
    /// The values so far.
    pub fn values(&self) -> &[T] {
        self.values.as_slice()
    }

    /// Appends one value.
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        self.values.push(value);
    }

    /// Appends all of `values`.
    pub fn extend_from_slice(&mut self, values: &[T]) {
        self.values.extend_from_slice(values);
    }

    /// Appends `count` values, 32 in each turn of the loop: the host interrupts guests at the end of
    /// a turn, and short turns would make that check cost as much as the work.
    #[inline(always)]
    pub(crate) fn fill_places(&mut self, count: usize, mut value: impl FnMut(Place) -> T) {
        let write = |room: &mut [MaybeUninit<T>]| {
            let (chunks, rest) = room.as_chunks_mut::<32>();
            let mut turn = 0;
            for chunk in chunks {
                for (at, slot) in chunk.iter_mut().enumerate() {
                    slot.write(value(Place::within(turn, at)));
                }
                turn += 32;
            }
            for (at, slot) in rest.iter_mut().enumerate() {
                slot.write(value(Place::of(turn + at)));
            }
        };
        // SAFETY: `write` visits all chunks and the rest.
        unsafe { self.values.append_with(count, write) };
    }
}

impl<T: Copy> Builder for FixedBuilder<T> {
    #[inline]
    fn begin(&mut self, rows: usize) {
        self.values.clear();
        self.values.reserve(rows);
    }

    #[inline]
    fn len(&self) -> usize {
        self.values.len()
    }

    #[inline]
    fn finish(&mut self, nulls: Nulls) -> ArrowArray {
        self.buffers = [nulls.bits, self.values.as_host_ptr()];
        leaf(self.values.len(), nulls, &self.buffers)
    }
}

/// `Input` and `Output` of a [`Fixed`] type, all but how `Vec` of it behaves.
macro_rules! fixed_column {
    (input) => {
        type Column = $crate::types::FixedColumn<Self>;

        #[inline(always)]
        unsafe fn column(array: &'a $crate::abi::ArrowArray) -> Self::Column {
            // SAFETY: the caller vouches that the array is a column of this type.
            unsafe { $crate::types::FixedColumn::of(array) }
        }

        #[inline(always)]
        unsafe fn get(column: Self::Column, row: usize) -> Self {
            // SAFETY: the caller vouches for the row; every pattern of bits is a value.
            unsafe { column.0.add(row).read_unaligned() }
        }

        #[inline(always)]
        unsafe fn get_at(column: Self::Column, place: $crate::types::Place) -> Self {
            // SAFETY: as above.
            unsafe { column.0.add(place.turn()).add(place.at()).read_unaligned() }
        }
    };
    (output) => {
        type Builder = $crate::types::FixedBuilder<Self>;

        #[inline(always)]
        fn placeholder() -> Self {
            <Self as $crate::types::Fixed>::ZERO
        }

        #[inline(always)]
        fn push(self, builder: &mut Self::Builder) {
            builder.push(self);
        }

        #[inline(always)]
        fn fill(
            builder: &mut Self::Builder,
            count: usize,
            value: impl FnMut($crate::types::Place) -> Self,
        ) {
            builder.fill_places(count, value);
        }
    };
}
pub(crate) use fixed_column;

/// Everything for one [`Fixed`] type whose `Vec` is a list.
macro_rules! fixed_type {
    ([$($generics:tt)*] $type:ty, $format:expr, $zero:expr) => {
        impl<$($generics)*> $crate::types::ArrowType for $type {
            const SCHEMA: $crate::manifest::Schema = $crate::manifest::Schema::new($format);
            $crate::types::vec_is_list!(schema);
        }

        // SAFETY: integers, floats and transparent wrappers around them; Arrow stores them alike.
        unsafe impl<$($generics)*> $crate::types::Fixed for $type {
            const ZERO: Self = $zero;
        }

        impl<'a, $($generics)*> $crate::types::Input<'a> for $type {
            $crate::types::fixed::fixed_column!(input);
            $crate::types::vec_is_list!(input 'a);
        }

        impl<$($generics)*> $crate::types::Output for $type {
            $crate::types::fixed::fixed_column!(output);
            $crate::types::vec_is_list!(output);
        }
    };
}
pub(crate) use fixed_type;

macro_rules! numbers {
    ($($type:ty => $format:literal),*) => {$(
        fixed_type!([] $type, &[FormatPart::Text($format)], 0 as $type);
    )*};
}
numbers!(
    i8 => "c", i16 => "s", i32 => "i", i64 => "l",
    u16 => "S", u32 => "I", u64 => "L", f32 => "f", f64 => "g"
);

impl<const N: usize> ArrowType for [u8; N] {
    const SCHEMA: Schema = Schema::new(
        const {
            assert!(N > 0, "a fixed-size binary value has at least one byte");
            &[FormatPart::Text("w:"), FormatPart::Number(N as i64)]
        },
    );
    vec_is_list!(schema);
}

// SAFETY: bytes have no padding; a size of 0 does not get past `SCHEMA`.
unsafe impl<const N: usize> Fixed for [u8; N] {
    const ZERO: Self = [0; N];
}

impl<'a, const N: usize> Input<'a> for [u8; N] {
    fixed_column!(input);
    vec_is_list!(input 'a);
}

impl<const N: usize> Output for [u8; N] {
    fixed_column!(output);
    vec_is_list!(output);
}
