//! Which Rust types stand for which Arrow types, how they are read and how they are written.

use crate::abi::ArrowArray;
use crate::manifest::Schema;

mod ascii;
mod binary;
mod boolean;
mod decimal;
mod fixed;
mod list;
mod nullable;
mod structs;
mod temporal;
mod text;

pub use binary::BinaryBuilder;
pub use decimal::Decimal;
pub use fixed::{Fixed, FixedBuilder, FixedColumn};
pub use list::{ListBuilder, ListColumn, ListRef};
#[cfg(not(target_family = "wasm"))]
pub use nullable::NullableBuilder;
pub use structs::{Fields, StructBuilder};
pub use temporal::{
    Date, Date64, Duration, Microsecond, Millisecond, Nanosecond, NoZone, Second, Time, TimeUnit,
    Timestamp, Utc, Zone,
};
pub use text::{StrWriter, TextBuilder};

/// A Rust type that stands for an Arrow type.
///
/// Derive it for structs with named fields: they become Arrow structs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not stand for an Arrow type",
    label = "not usable as an argument, a result or a field of a UDF",
    note = "use bool, i8 to i64, u8 to u64, f32, f64, &str, String, &[u8], Vec<u8>, [u8; N], Vec<T>, Option<T>, Date, Time, Timestamp, Duration or Decimal",
    note = "for a struct of your own, add `#[derive(wasmill_guest::ArrowType)]`"
)]
pub trait ArrowType {
    /// The Arrow type.
    const SCHEMA: Schema;
    /// The Arrow type of `Vec<Self>`: a list, except that `Vec<u8>` is binary.
    const VEC_SCHEMA: Schema;
}

/// A type that a UDF can take: how one row is read from a column.
#[diagnostic::on_unimplemented(
    message = "a UDF cannot take `{Self}`",
    label = "not an argument type",
    note = "use bool, i8 to i64, u8 to u64, f32, f64, &str, String, &[u8], Vec<u8>, [u8; N], Vec<T>, ListRef<'_, T>, Option<T>, Date, Time, Timestamp, Duration or Decimal",
    note = "columns as a whole (`Column`, `AnyColumn`) are for functions with `#[udf(batch)]`"
)]
pub trait Input<'a>: ArrowType + Sized {
    /// Where the rows of a column are.
    type Column: Copy;
    /// Where the rows of a column of `Vec<Self>` are.
    type VecColumn: Copy;
    /// Whether the type takes nulls, as only `Option` does.
    const TAKES_NULLS: bool = false;

    /// Finds the buffers of a column.
    ///
    /// # Safety
    /// `array` must be valid for `'a`, as the ABI describes arguments, and of the type
    /// [`ArrowType::SCHEMA`].
    unsafe fn column(array: &'a ArrowArray) -> Self::Column;

    /// Reads a row.
    ///
    /// # Safety
    /// `column` must come from [`Input::column`], with more than `row` rows.
    unsafe fn get(column: Self::Column, row: usize) -> Self;

    /// Reads a row of a loop with long turns.
    ///
    /// # Safety
    /// As for [`Input::get`].
    #[inline(always)]
    unsafe fn get_at(column: Self::Column, place: Place) -> Self {
        // SAFETY: the caller vouches for the row.
        unsafe { Self::get(column, place.row()) }
    }

    /// Finds the buffers of a column of `Vec<Self>`.
    ///
    /// # Safety
    /// As for [`Input::column`], for the type [`ArrowType::VEC_SCHEMA`].
    unsafe fn vec_column(array: &'a ArrowArray) -> Self::VecColumn;

    /// Reads a row of `Vec<Self>`.
    ///
    /// # Safety
    /// `column` must come from [`Input::vec_column`], with more than `row` rows.
    unsafe fn get_vec(column: Self::VecColumn, row: usize) -> Vec<Self>;
}

/// What a `Column` or [`ListRef`] can be made of: every [`Input`], and `str` and `[u8]`, which stand for
/// `&'a str` and `&'a [u8]` without naming the lifetime.
#[diagnostic::on_unimplemented(
    message = "there are no columns of `{Self}`",
    label = "not an item of a column",
    note = "use bool, i8 to i64, u8 to u64, f32, f64, str, [u8], [u8; N], Vec<T>, Option<T>, Date, Time, Timestamp, Duration or Decimal"
)]
pub trait Readable<'a> {
    /// What a row is.
    type Item: Input<'a>;
}

impl<'a, T: Input<'a>> Readable<'a> for T {
    type Item = T;
}

impl<'a> Readable<'a> for str {
    type Item = &'a str;
}

impl<'a> Readable<'a> for [u8] {
    type Item = &'a [u8];
}

/// A type that a UDF can return: how one row is written into a column.
#[diagnostic::on_unimplemented(
    message = "a UDF cannot return `{Self}`",
    label = "not a result type",
    note = "use bool, i8 to i64, u8 to u64, f32, f64, &str, String, &[u8], Vec<u8>, [u8; N], Vec<T>, Option<T>, Result<T, E>, Date, Time, Timestamp, Duration or Decimal",
    note = "for a struct of your own, add `#[derive(wasmill_guest::ArrowType)]`; text can also be written through a last argument `out: &mut StrWriter`"
)]
pub trait Output: ArrowType + Sized {
    /// What collects a column.
    type Builder: Builder;
    /// What collects a column of `Vec<Self>`.
    type VecBuilder: Builder;

    /// What stands where there is no value.
    fn placeholder() -> Self;

    /// Appends a row.
    fn push(self, builder: &mut Self::Builder);

    /// Appends a row of `Vec<Self>`.
    fn push_vec(items: Vec<Self>, builder: &mut Self::VecBuilder);

    /// Appends `count` rows; `value` gets their places from 0.
    #[inline(always)]
    fn fill(builder: &mut Self::Builder, count: usize, mut value: impl FnMut(Place) -> Self) {
        for at in 0..count {
            value(Place::of(at)).push(builder);
        }
    }
}

/// A row in a loop whose turns do many rows: where its turn begins, and how far into it the row is.
///
/// Kept apart, the second is a constant of the unrolled turn and ends up as the offset of a load. Added
/// up, each load would wait for an addition of its own.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    turn: usize,
    at: usize,
}

impl Place {
    /// A row of a loop that does one a turn.
    #[inline(always)]
    pub(crate) fn of(row: usize) -> Self {
        Self { turn: row, at: 0 }
    }

    /// The row `at` of the turn that begins with the row `turn`.
    #[inline(always)]
    pub(crate) fn within(turn: usize, at: usize) -> Self {
        Self { turn, at }
    }

    /// The first row of the turn.
    #[inline(always)]
    pub(crate) fn turn(self) -> usize {
        self.turn
    }

    /// How far into the turn.
    #[inline(always)]
    pub(crate) fn at(self) -> usize {
        self.at
    }

    /// The same place so many rows further on.
    #[inline(always)]
    pub(crate) fn after(self, rows: usize) -> Self {
        Self {
            turn: rows + self.turn,
            at: self.at,
        }
    }

    /// The row.
    #[inline(always)]
    pub(crate) fn row(self) -> usize {
        self.turn + self.at
    }
}

/// What collects a column of one layout.
pub trait Builder: Default {
    /// Forgets the rows, keeps the memory and makes room for `rows`.
    fn begin(&mut self, rows: usize);

    /// Number of rows so far.
    fn len(&self) -> usize;

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column. It points into the builder and lives until the next [`Builder::begin`].
    fn finish(&mut self, nulls: Nulls) -> ArrowArray;
}

/// The top-level nulls of a finished column.
#[derive(Clone, Copy, Debug)]
pub struct Nulls {
    /// Validity bitmap, or null.
    pub bits: *const u8,
    /// How many rows are null.
    pub count: usize,
}

impl Nulls {
    /// No nulls.
    pub const NONE: Self = Self {
        bits: std::ptr::null(),
        count: 0,
    };
}

/// An array without children, for builders.
pub(crate) fn leaf(len: usize, nulls: Nulls, buffers: &[*const u8]) -> ArrowArray {
    ArrowArray {
        length: len as i64,
        null_count: nulls.count as i64,
        n_buffers: buffers.len() as i64,
        buffers: buffers.as_ptr(),
        ..ArrowArray::EMPTY
    }
}

/// Buffer `index` of an argument.
///
/// # Safety
/// `array` must be valid and have more than `index` buffers.
#[inline(always)]
pub(crate) unsafe fn buffer(array: &ArrowArray, index: usize) -> *const u8 {
    // SAFETY: the caller vouches for it.
    unsafe { *array.buffers.add(index) }
}

/// Child `index` of an argument.
///
/// # Safety
/// `array` must be valid for `'a` and have more than `index` children.
#[must_use]
pub unsafe fn child(array: &ArrowArray, index: usize) -> &ArrowArray {
    // SAFETY: the caller vouches for it.
    unsafe { &**array.children.add(index) }
}

/// The validity bitmap of an argument: null when there are no nulls.
///
/// # Safety
/// `array` must be valid and of a type that has a validity bitmap.
#[inline(always)]
pub(crate) unsafe fn validity(array: &ArrowArray) -> *const u8 {
    if array.null_count == 0 {
        return std::ptr::null();
    }
    // SAFETY: every such type has the bitmap as its first buffer.
    unsafe { buffer(array, 0) }
}

/// The parts of the traits that say how `Vec<Self>` behaves: as a list.
macro_rules! vec_is_list {
    (schema) => {
        const VEC_SCHEMA: $crate::manifest::Schema = $crate::manifest::Schema::nested(
            &[$crate::manifest::FormatPart::Text("+l")],
            &[$crate::manifest::Child {
                name: "item",
                schema: &Self::SCHEMA,
            }],
        );
    };
    (input $life:lifetime) => {
        type VecColumn = $crate::types::ListColumn<Self::Column>;

        unsafe fn vec_column(array: &$life $crate::abi::ArrowArray) -> Self::VecColumn {
            // SAFETY: the caller vouches that the array is a list of this type.
            unsafe { $crate::types::ListColumn::of::<Self>(array) }
        }

        unsafe fn get_vec(column: Self::VecColumn, row: usize) -> Vec<Self> {
            // SAFETY: the caller vouches for column and row.
            unsafe { column.collect::<Self>(row) }
        }
    };
    (output) => {
        type VecBuilder = $crate::types::ListBuilder<Self::Builder>;

        fn push_vec(items: Vec<Self>, builder: &mut Self::VecBuilder) {
            builder.push_items(items);
        }
    };
}
pub(crate) use vec_is_list;
