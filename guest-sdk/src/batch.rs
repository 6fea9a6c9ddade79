//! Batch functions: one Rust call per batch, over whole columns.

use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

use crate::abi::{ArrowArray, CallFrame, Frame, OK};
use crate::column::{AnyColumn, Inputs};
use crate::errors::{Failure, RowErrors, fail};
use crate::manifest::{ResultType, Schema};
use crate::memory::Pool;
use crate::rows::ResultSlot;
use crate::types::{ArrowType, BinaryBuilder, Builder, Nulls, Output, TextBuilder};

/// What a [`Writer`] can collect: every result type, and `str` and `[u8]`.
pub trait Written {
    /// What collects the column.
    type Builder: Builder;
    /// The type of the column.
    const SCHEMA: Schema;
}

impl<T: Output> Written for T {
    type Builder = T::Builder;
    const SCHEMA: Schema = <T as ArrowType>::SCHEMA;
}

impl Written for str {
    type Builder = TextBuilder;
    const SCHEMA: Schema = <String as ArrowType>::SCHEMA;
}

impl Written for [u8] {
    type Builder = BinaryBuilder;
    const SCHEMA: Schema = <u8 as ArrowType>::VEC_SCHEMA;
}

/// Collects the result of a batch function. Its memory is used again by later calls.
///
/// Through the builder inside it offers more: `extend_from_slice` and `values` for numbers, `push`,
/// `row` and `end_row` for `Writer<str>`, `items` and `end_row` for lists.
pub struct Writer<T: Written + ?Sized> {
    builder: T::Builder,
}

impl<T: Written + ?Sized> Default for Writer<T> {
    /// An empty column, as native tests need it.
    fn default() -> Self {
        let mut builder = T::Builder::default();
        builder.begin(0);
        Self { builder }
    }
}

impl<T: Output> Writer<T> {
    /// Appends a row.
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        value.push(&mut self.builder);
    }

    /// Appends `count` rows, in loops that are wide where the type allows it; `value` gets their
    /// numbers from 0.
    #[inline(always)]
    pub fn fill(&mut self, count: usize, mut value: impl FnMut(usize) -> T) {
        T::fill(&mut self.builder, count, |place| value(place.row()));
    }
}

impl<T: Output> Extend<T> for Writer<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            self.push(value);
        }
    }
}

impl<T: Written + ?Sized> Deref for Writer<T> {
    type Target = T::Builder;

    fn deref(&self) -> &T::Builder {
        &self.builder
    }
}

impl<T: Written + ?Sized> DerefMut for Writer<T> {
    fn deref_mut(&mut self) -> &mut T::Builder {
        &mut self.builder
    }
}

impl<T: Written + ?Sized> Builder for Writer<T> {
    fn begin(&mut self, rows: usize) {
        self.builder.begin(rows);
    }

    fn len(&self) -> usize {
        self.builder.len()
    }

    fn finish(&mut self, nulls: Nulls) -> ArrowArray {
        self.builder.finish(nulls)
    }
}

/// What a batch function with a [`Writer`] returns: nothing or the failure of the whole call.
#[diagnostic::on_unimplemented(
    message = "a batch function with a `Writer` cannot return `{Self}`",
    label = "return nothing or `Result<(), E>`",
    note = "what was written is the result"
)]
pub trait Outcome {
    /// The status.
    fn settle(self, frame: Frame<'_, CallFrame>) -> i32;
}

impl Outcome for () {
    fn settle(self, _frame: Frame<'_, CallFrame>) -> i32 {
        OK
    }
}

impl<E: Failure> Outcome for Result<(), E> {
    fn settle(self, frame: Frame<'_, CallFrame>) -> i32 {
        match self {
            Ok(()) => OK,
            Err(failure) => fail(frame, &failure),
        }
    }
}

/// What a batch function without a [`Writer`] returns.
#[diagnostic::on_unimplemented(
    message = "a batch function cannot return `{Self}`",
    label = "not a result of a batch function",
    note = "take `out: &mut Writer<T>` as the last parameter and return nothing or `Result<(), E>`; or return `SameAs<'_, N>` or `Bound<'_>`"
)]
pub trait BatchResult<'f> {
    /// What the manifest says of it.
    const RESULT: ResultType;
    /// Hands it to the host; the answer is the status.
    fn settle(self, frame: Frame<'f, CallFrame>) -> i32;
}

/// A column of the type of argument `N`, counted from 0.
///
/// ```
/// use wasmill_guest::{AnyColumn, SameAs, udf};
///
/// /// What came in.
/// #[udf(batch)]
/// fn identity(x: AnyColumn<'_>) -> SameAs<'_, 0> {
///     x.into()
/// }
/// ```
pub struct SameAs<'f, const N: u32>(AnyColumn<'f>);

impl<'f, const N: u32> From<AnyColumn<'f>> for SameAs<'f, N> {
    fn from(column: AnyColumn<'f>) -> Self {
        Self(column)
    }
}

/// A column of the type that `bind` answered.
pub struct Bound<'f>(AnyColumn<'f>);

impl<'f> From<AnyColumn<'f>> for Bound<'f> {
    fn from(column: AnyColumn<'f>) -> Self {
        Self(column)
    }
}

fn pass_on(column: AnyColumn<'_>, frame: Frame<'_, CallFrame>) -> i32 {
    // SAFETY: the frame is valid, and its `result` points to a struct of the host's. Results may be
    // what the arguments are.
    unsafe { (*frame.as_ptr()).result.write(*column.array()) };
    OK
}

impl<'f, const N: u32> BatchResult<'f> for SameAs<'f, N> {
    const RESULT: ResultType = ResultType::SameAs(N);

    fn settle(self, frame: Frame<'f, CallFrame>) -> i32 {
        pass_on(self.0, frame)
    }
}

impl<'f> BatchResult<'f> for Bound<'f> {
    const RESULT: ResultType = ResultType::Bound;

    fn settle(self, frame: Frame<'f, CallFrame>) -> i32 {
        pass_on(self.0, frame)
    }
}

impl<'f, T: BatchResult<'f>, E: Failure> BatchResult<'f> for Result<T, E> {
    const RESULT: ResultType = T::RESULT;

    fn settle(self, frame: Frame<'f, CallFrame>) -> i32 {
        match self {
            Ok(result) => result.settle(frame),
            Err(failure) => fail(frame, &failure),
        }
    }
}

/// Runs a batch function that passes a column on.
#[inline(always)]
pub fn batch<'f, R: BatchResult<'f>>(
    frame: Frame<'f, CallFrame>,
    parameters: u32,
    function: impl FnOnce(&mut Inputs<'f>, &mut RowErrors) -> R,
) -> i32 {
    let mut inputs = match Inputs::open(frame, parameters) {
        Ok(inputs) => inputs,
        Err(status) => return status,
    };
    let mut errors = RowErrors::new();
    let status = function(&mut inputs, &mut errors).settle(frame);
    if status == OK {
        errors.finish(frame);
    }
    status
}

/// Runs a batch function that writes a column.
#[inline(always)]
pub fn batch_written<'f, T: Written + ?Sized, R: Outcome>(
    frame: Frame<'f, CallFrame>,
    parameters: u32,
    results: &'static LocalKey<Pool<ResultSlot<Writer<T>>>>,
    function: impl FnOnce(&mut Inputs<'f>, &mut Writer<T>, &mut RowErrors) -> R,
) -> i32 {
    let mut inputs = match Inputs::open(frame, parameters) {
        Ok(inputs) => inputs,
        Err(status) => return status,
    };
    let mut slot = results.with(Pool::lease);
    slot.builder.begin(inputs.rows());
    let mut errors = RowErrors::new();
    let status = function(&mut inputs, &mut slot.builder, &mut errors).settle(frame);
    if status == OK {
        slot.finish(frame);
        errors.finish(frame);
    }
    status
}
