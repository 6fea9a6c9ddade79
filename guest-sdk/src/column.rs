//! Columns as batch functions see them: whole, and where they lie.

use std::marker::PhantomData;

use crate::abi::{ArrowArray, CallFrame, Frame};
use crate::manifest::Param;
use crate::rows::wrong_arguments;
use crate::types::{ArrowType, Fixed, FixedColumn, Input, Readable, validity};

/// A parameter of a batch function.
#[diagnostic::on_unimplemented(
    message = "a batch function cannot take `{Self}`",
    label = "not a parameter of a batch function",
    note = "use `Column<'_, T>` for a column of `T`, `AnyColumn<'_>` for a column of any type, `Rows` for the number of rows, `Binding` for what `bind` fixed, and `&mut Writer<T>` and `&mut RowErrors` for what comes back",
    note = "a function that takes one row at a time has no `batch` in its attribute"
)]
pub trait BatchParam<'f>: Sized {
    /// What the manifest says of it.
    const PARAM: Param;
    /// Whether it takes nulls.
    const TAKES_NULLS: bool;
    /// Takes it from the call.
    fn take(inputs: &mut Inputs<'f>) -> Self;
}

/// The arguments of a call that have not been taken yet.
pub struct Inputs<'f> {
    frame: Frame<'f, CallFrame>,
    rows: usize,
    next: usize,
}

impl<'f> Inputs<'f> {
    /// Checks a call.
    pub(crate) fn open(frame: Frame<'f, CallFrame>, parameters: u32) -> Result<Self, i32> {
        crate::panics::install();
        // SAFETY: the frame is valid.
        let (n_args, rows) = unsafe { ((*frame.as_ptr()).n_args, (*frame.as_ptr()).rows) };
        if n_args != parameters {
            return Err(wrong_arguments(frame));
        }
        Ok(Self {
            frame,
            rows: rows as usize,
            next: 0,
        })
    }

    /// Number of rows in the batch.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    fn next_argument(&mut self) -> AnyColumn<'f> {
        let at = self.next;
        self.next += 1;
        // SAFETY: the frame is valid; `open` compared the number of arguments with the parameters.
        unsafe {
            let argument = *(*self.frame.as_ptr()).args.add(at);
            AnyColumn {
                array: &*argument.array,
                rows: self.rows,
                constant: argument.flags & 1 == 1,
            }
        }
    }

    pub(crate) fn binding_id(&self) -> u32 {
        // SAFETY: the frame is valid.
        unsafe { (*self.frame.as_ptr()).binding }
    }
}

/// The number of rows of a batch.
///
/// ```
/// use wasmill_guest::{Rows, Writer, udf};
///
/// /// The answer.
/// #[udf(batch)]
/// fn answer(rows: Rows, out: &mut Writer<i32>) {
///     out.fill(rows.0, |_| 42);
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rows(
    /// How many.
    pub usize,
);

impl<'f> BatchParam<'f> for Rows {
    const PARAM: Param = Param::None;
    const TAKES_NULLS: bool = false;

    fn take(inputs: &mut Inputs<'f>) -> Self {
        Self(inputs.rows)
    }
}

/// A column of any type.
#[derive(Clone, Copy)]
pub struct AnyColumn<'f> {
    array: &'f ArrowArray,
    rows: usize,
    constant: bool,
}

impl<'f> AnyColumn<'f> {
    /// Number of rows in the batch, also for a constant.
    #[must_use]
    pub fn len(self) -> usize {
        self.rows
    }

    /// Whether there are no rows, which does not happen in calls.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.rows == 0
    }

    /// Whether one row stands for all; only functions with `#[udf(constants)]` meet constants.
    #[must_use]
    pub fn is_constant(self) -> bool {
        self.constant
    }

    /// Number of nulls, as the array says.
    #[must_use]
    pub fn null_count(self) -> usize {
        self.array.null_count as usize
    }

    /// The array as it crossed.
    #[must_use]
    pub fn array(self) -> &'f ArrowArray {
        self.array
    }

    /// A child column. Its rows are those of the child: for a struct as many as its own.
    #[must_use]
    pub fn child(self, at: usize) -> Option<Self> {
        if at >= self.array.n_children as usize {
            return None;
        }
        // SAFETY: the array is valid and has that child.
        let array = unsafe { crate::types::child(self.array, at) };
        Some(Self {
            array,
            rows: array.length as usize,
            constant: self.constant,
        })
    }
}

impl<'f> BatchParam<'f> for AnyColumn<'f> {
    const PARAM: Param = Param::Any;
    const TAKES_NULLS: bool = true;

    fn take(inputs: &mut Inputs<'f>) -> Self {
        inputs.next_argument()
    }
}

/// A column of `T`, read where it is. `Column<'_, Option<T>>` sees nulls; a plain `T` under a null is
/// arbitrary, and the host makes the result null there.
///
/// ```
/// use wasmill_guest::{Column, Writer, udf};
///
/// /// Characters of a text.
/// #[udf(batch)]
/// fn char_length(text: Column<'_, str>, out: &mut Writer<i32>) {
///     out.fill(text.len(), |row| text.get(row).chars().count() as i32);
/// }
/// ```
pub struct Column<'f, T: Readable<'f> + ?Sized> {
    column: <T::Item as Input<'f>>::Column,
    rows: usize,
    validity: *const u8,
    constant: bool,
    life: PhantomData<&'f T>,
}

impl<'f, T: Readable<'f> + ?Sized> Clone for Column<'f, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'f, T: Readable<'f> + ?Sized> Copy for Column<'f, T> {}

impl<'f, T: Readable<'f> + ?Sized> Column<'f, T> {
    /// Number of rows in the batch, also for a constant.
    #[inline(always)]
    #[must_use]
    pub fn len(self) -> usize {
        self.rows
    }

    /// Whether there are no rows, which does not happen in calls.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.rows == 0
    }

    /// A row.
    ///
    /// # Panics
    /// When there are not that many.
    #[inline(always)]
    #[must_use]
    pub fn get(self, row: usize) -> T::Item {
        assert!(row < self.rows, "no such row");
        let row = if self.constant { 0 } else { row };
        // SAFETY: the row is there: a constant has row 0.
        unsafe { T::Item::get(self.column, row) }
    }

    /// The value of a constant; only functions with `#[udf(constants)]` meet constants.
    #[must_use]
    pub fn constant(self) -> Option<T::Item> {
        self.constant.then(|| self.get(0))
    }

    /// Whether a row is null.
    #[must_use]
    pub fn is_null(self, row: usize) -> bool {
        assert!(row < self.rows, "no such row");
        let row = if self.constant { 0 } else { row };
        // SAFETY: the row is there.
        !self.validity.is_null() && !unsafe { crate::buffer::bit_at(self.validity, row) }
    }

    /// All rows.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = T::Item> {
        (0..self.rows).map(move |row| self.get(row))
    }
}

impl<'f, T: Fixed + Input<'f, Column = FixedColumn<T>>> Column<'f, T> {
    /// The values as a slice: one for a constant.
    #[inline]
    #[must_use]
    pub fn values(self) -> &'f [T] {
        let len = if self.constant { 1 } else { self.rows };
        // SAFETY: the column has that many values, which are aligned and live for `'f`.
        unsafe { std::slice::from_raw_parts(self.column.0, len) }
    }
}

impl<'f, T: Readable<'f> + ?Sized> BatchParam<'f> for Column<'f, T> {
    const PARAM: Param = Param::Column {
        schema: <T::Item as ArrowType>::SCHEMA,
        nullable: true,
    };
    const TAKES_NULLS: bool = <T::Item as Input<'f>>::TAKES_NULLS;

    #[inline]
    fn take(inputs: &mut Inputs<'f>) -> Self {
        let any = inputs.next_argument();
        // SAFETY: the host passes valid columns of the types in the manifest.
        unsafe {
            Self {
                column: T::Item::column(any.array),
                rows: any.rows,
                validity: validity(any.array),
                constant: any.constant,
                life: PhantomData,
            }
        }
    }
}
