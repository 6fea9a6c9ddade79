//! Failures: of single rows, and of whole calls.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{Display, Write};

use crate::abi::{ArrowArray, CallFrame, ERROR, Frame, MessageFrame};
use crate::memory::{Lease, Pool};
use crate::types::{Builder, FixedBuilder, Output, StructBuilder, TextBuilder};

/// Something that can be the `E` of a UDF's `Result`: everything with [`Display`], and [`RowError`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a UDF",
    label = "this error has no text",
    note = "implement `std::fmt::Display` for it, or use `RowError` or `String`"
)]
pub trait Failure {
    /// A number for programs; 1 unless there is a better one.
    fn code(&self) -> i32 {
        1
    }

    /// Appends the text for people, which should be UTF-8.
    fn write_message(&self, out: &mut Vec<u8>);
}

impl<E: Display> Failure for E {
    fn write_message(&self, out: &mut Vec<u8>) {
        let mut text = String::new();
        if write!(text, "{self}").is_ok() {
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Why a row has no value: a number of the function's own and a text.
///
/// ```
/// use wasmill_guest::{RowError, udf};
///
/// /// Square root.
/// #[udf]
/// fn root(x: f64) -> Result<f64, RowError> {
///     if x < 0.0 {
///         return Err(RowError::new(7, "negative"));
///     }
///     Ok(x.sqrt())
/// }
///
/// assert_eq!(root(-1.0).unwrap_err().code, 7);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError {
    /// A number for programs.
    pub code: i32,
    /// A text for people.
    pub message: Cow<'static, str>,
}

impl RowError {
    /// An error with a number and a text.
    pub fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// So that `?` works in functions that return `Result<T, RowError>`: the number is 1.
impl<E: std::error::Error> From<E> for RowError {
    fn from(error: E) -> Self {
        Self::new(1, error.to_string())
    }
}

impl Failure for RowError {
    fn code(&self) -> i32 {
        self.code
    }

    fn write_message(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.message.as_bytes());
    }
}

thread_local! {
    /// The text of the last call that failed: the host reads it after the call.
    static MESSAGE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static ERRORS: Pool<ErrorColumns> = const { Pool::new() };
}

/// Leaves the text of a failure in a frame; the answer is the status to return.
#[cold]
pub(crate) fn fail<T: MessageFrame>(frame: Frame<'_, T>, failure: &impl Failure) -> i32 {
    let mut text = Vec::new();
    failure.write_message(&mut text);
    // SAFETY: the frame is valid, and no reference to it is alive: `Frame` is a pointer.
    unsafe { (*frame.as_ptr()).set_message(text.as_ptr(), text.len() as u32) };
    MESSAGE.set(text);
    ERROR
}

type RowCodeMessage = (FixedBuilder<u32>, (FixedBuilder<i32>, (TextBuilder, ())));

#[derive(Default)]
struct ErrorColumns {
    columns: StructBuilder<RowCodeMessage>,
    text: Vec<u8>,
    last_row: Option<usize>,
}

/// Collects the rows of a batch that failed. A batch function takes it as `&mut RowErrors`.
///
/// ```
/// use wasmill_guest::{Column, RowErrors, Writer, udf};
///
/// /// One hundred over y.
/// #[udf(batch)]
/// fn share(y: Column<'_, i64>, out: &mut Writer<i64>, errors: &mut RowErrors) {
///     for (row, y) in y.iter().enumerate() {
///         out.push(100_i64.checked_div(y).unwrap_or_else(|| {
///             errors.fail(row, &"division by zero");
///             0
///         }));
///     }
/// }
/// ```
#[derive(Default)]
pub struct RowErrors {
    failed: Option<Lease<ErrorColumns>>,
}

impl RowErrors {
    /// No failed rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Marks a row as failed. Rows must come in increasing order; a second failure of one row, or of
    /// a row before the last, is left out. The result still needs a value for the row.
    #[cold]
    pub fn fail(&mut self, row: usize, failure: &impl Failure) {
        let errors = self.failed.get_or_insert_with(|| {
            let mut errors = ERRORS.with(Pool::lease);
            errors.columns.begin(8);
            errors.last_row = None;
            errors
        });
        if errors.last_row.is_some_and(|last| last >= row) {
            return;
        }
        errors.last_row = Some(row);
        errors.text.clear();
        let ErrorColumns { columns, text, .. } = &mut **errors;
        failure.write_message(text);
        columns.count_row();
        let (rows, (codes, (messages, ()))) = columns.fields();
        (row as u32).push(rows);
        failure.code().push(codes);
        messages.push_bytes(text);
    }

    /// Number of failed rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.failed
            .as_ref()
            .map_or(0, |errors| errors.columns.len())
    }

    /// Whether no row has failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.failed.is_none()
    }

    /// Hands the failed rows to the host.
    #[inline]
    pub(crate) fn finish(self, frame: Frame<'_, CallFrame>) {
        if let Some(mut errors) = self.failed {
            let array: ArrowArray = errors.columns.finish(crate::types::Nulls::NONE);
            // SAFETY: the frame is valid, and its `row_errors` points to a struct of the host's.
            unsafe { (*frame.as_ptr()).row_errors.write(array) };
        }
    }
}

impl TextBuilder {
    /// Appends a message, which is text unless a [`Failure`] writes something else.
    fn push_bytes(&mut self, bytes: &[u8]) {
        self.text_mut().extend_from_bytes(bytes);
        self.end_row();
    }
}
