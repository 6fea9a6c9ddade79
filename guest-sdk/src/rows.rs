//! Row functions: one Rust call per row, in loops that the SDK writes.

use std::thread::LocalKey;

use crate::abi::{ArgRef, CallFrame, Frame, OK};
use crate::buffer::{Bitmap, bit_at, word_at};
use crate::errors::{Failure, RowErrors, fail};
use crate::memory::Pool;
use crate::types::{Builder, Input, Nulls, Output, Place, StrWriter, TextBuilder, validity};

/// What a row function returns: a value or the failure of the row.
#[diagnostic::on_unimplemented(
    message = "a UDF cannot return `{Self}`",
    label = "not a result type",
    note = "use bool, i8 to i64, u8 to u64, f32, f64, &str, String, &[u8], Vec<u8>, [u8; N], Vec<T>, Option<T>, Result<T, E>, Date, Time, Timestamp, Duration or Decimal",
    note = "for a struct of your own, add `#[derive(wasmill_guest::ArrowType)]`; text can also be written through a last argument `out: &mut StrWriter`"
)]
pub trait RowResult: Sized {
    /// The value.
    type Value: Output;
    /// The value, or a placeholder after the failure was noted.
    fn settle(self, row: usize, errors: &mut RowErrors) -> Self::Value;
}

impl<T: Output> RowResult for T {
    type Value = T;

    #[inline(always)]
    fn settle(self, _row: usize, _errors: &mut RowErrors) -> T {
        self
    }
}

impl<T: Output, E: Failure> RowResult for Result<T, E> {
    type Value = T;

    #[inline(always)]
    fn settle(self, row: usize, errors: &mut RowErrors) -> T {
        self.unwrap_or_else(|failure| {
            errors.fail(row, &failure);
            T::placeholder()
        })
    }
}

/// What a row function that writes text returns: nothing or the failure of the row.
#[diagnostic::on_unimplemented(
    message = "a row function with `&mut StrWriter` cannot return `{Self}`",
    label = "return nothing or `Result<(), E>`",
    note = "the text that was written is the result"
)]
pub trait TextResult {
    /// Whether the text stands; notes the failure otherwise.
    fn settle(self, row: usize, errors: &mut RowErrors) -> bool;
}

impl TextResult for () {
    #[inline(always)]
    fn settle(self, _row: usize, _errors: &mut RowErrors) -> bool {
        true
    }
}

impl<E: Failure> TextResult for Result<(), E> {
    #[inline(always)]
    fn settle(self, row: usize, errors: &mut RowErrors) -> bool {
        match self {
            Ok(()) => true,
            Err(failure) => {
                errors.fail(row, &failure);
                false
            }
        }
    }
}

/// An argument column as the loops read it.
#[derive(Clone, Copy)]
pub struct ArgColumn<C> {
    column: C,
    /// Null when no row is, or when the argument takes nulls itself.
    validity: *const u8,
    /// 0 for a constant, so that every row is row 0; else all ones.
    row_mask: usize,
}

/// The arguments of a row function, as nested pairs: `(first, (second, ()))`.
pub trait Args<'a>: Sized {
    /// Where the columns are.
    type Columns: Copy;
    /// Number of arguments.
    const COUNT: u32;
    /// Whether an argument takes nulls: then the function answers for all nulls.
    const TAKES_NULLS: bool;
    /// Whether an argument takes no nulls.
    const HAS_PLAIN: bool;

    /// Finds the columns.
    ///
    /// # Safety
    /// `args` must point to `COUNT` valid arguments that live for `'a`, of the types of `Self`.
    unsafe fn columns(args: *const ArgRef) -> Self::Columns;

    /// Reads a row.
    ///
    /// # Safety
    /// All columns that are not constant must have more rows than that; without `CONSTANTS` none is.
    unsafe fn get<const CONSTANTS: bool>(columns: Self::Columns, place: Place) -> Self;

    /// Whether a plain argument has nulls.
    fn has_nulls(columns: Self::Columns) -> bool;

    /// A bit for each of the 32 rows from `32 * chunk`: whether all plain arguments have values.
    ///
    /// # Safety
    /// All columns that are not constant must have more than `32 * chunk` rows.
    unsafe fn valid_word(columns: Self::Columns, chunk: usize) -> u32;
}

impl<'a> Args<'a> for () {
    type Columns = ();
    const COUNT: u32 = 0;
    const TAKES_NULLS: bool = false;
    const HAS_PLAIN: bool = false;

    #[inline(always)]
    unsafe fn columns(_args: *const ArgRef) {}

    #[inline(always)]
    unsafe fn get<const CONSTANTS: bool>((): (), _place: Place) {}

    #[inline(always)]
    fn has_nulls((): ()) -> bool {
        false
    }

    #[inline(always)]
    unsafe fn valid_word((): (), _chunk: usize) -> u32 {
        u32::MAX
    }
}

impl<'a, T: Input<'a>, Rest: Args<'a>> Args<'a> for (T, Rest) {
    type Columns = (ArgColumn<T::Column>, Rest::Columns);
    const COUNT: u32 = 1 + Rest::COUNT;
    const TAKES_NULLS: bool = T::TAKES_NULLS || Rest::TAKES_NULLS;
    const HAS_PLAIN: bool = !T::TAKES_NULLS || Rest::HAS_PLAIN;

    #[inline(always)]
    unsafe fn columns(args: *const ArgRef) -> Self::Columns {
        // SAFETY: the caller vouches for `COUNT` valid arguments, of which this is the first.
        unsafe {
            let array = &*(*args).array;
            let column = ArgColumn {
                column: T::column(array),
                validity: if T::TAKES_NULLS {
                    std::ptr::null()
                } else {
                    validity(array)
                },
                row_mask: if (*args).flags & 1 == 1 {
                    0
                } else {
                    usize::MAX
                },
            };
            (column, Rest::columns(args.add(1)))
        }
    }

    #[inline(always)]
    unsafe fn get<const CONSTANTS: bool>((first, rest): Self::Columns, place: Place) -> Self {
        // SAFETY: the caller vouches for the row; a constant has row 0.
        unsafe {
            let own = if CONSTANTS {
                T::get(first.column, place.row() & first.row_mask)
            } else {
                T::get_at(first.column, place)
            };
            (own, Rest::get::<CONSTANTS>(rest, place))
        }
    }

    #[inline(always)]
    fn has_nulls((first, rest): Self::Columns) -> bool {
        !first.validity.is_null() || Rest::has_nulls(rest)
    }

    #[inline(always)]
    unsafe fn valid_word((first, rest): Self::Columns, chunk: usize) -> u32 {
        // SAFETY: the caller vouches for the chunk; a constant has bit 0.
        unsafe {
            let own = if first.validity.is_null() {
                u32::MAX
            } else if first.row_mask == 0 {
                if bit_at(first.validity, 0) {
                    u32::MAX
                } else {
                    0
                }
            } else {
                word_at(first.validity, chunk)
            };
            own & Rest::valid_word(rest, chunk)
        }
    }
}

/// A result column, and the nulls of functions that take some arguments with and some without nulls.
#[derive(Default)]
pub struct ResultSlot<B> {
    pub(crate) builder: B,
    nulls: Bitmap,
}

/// The pool of results that each function has.
pub type Results<B> = LocalKey<Pool<ResultSlot<B>>>;

impl<B: Builder> ResultSlot<B> {
    /// Hands the column to the host.
    #[inline]
    pub(crate) fn finish(&mut self, frame: Frame<'_, CallFrame>) {
        let nulls = match self.nulls.zeros() {
            0 => Nulls::NONE,
            count => Nulls {
                bits: self.nulls.as_host_ptr(),
                count,
            },
        };
        let array = self.builder.finish(nulls);
        // SAFETY: the frame is valid, and its `result` points to a struct of the host's.
        unsafe { (*frame.as_ptr()).result.write(array) };
    }

    /// Makes the rows null in which a plain argument is.
    ///
    /// # Safety
    /// `columns` must have `rows` rows.
    #[inline(never)]
    unsafe fn mark_nulls<'a, A: Args<'a>>(&mut self, columns: A::Columns, rows: usize) {
        self.nulls.begin(rows);
        for chunk in 0..rows.div_ceil(32) {
            // SAFETY: the chunk has at least one row.
            let word = unsafe { A::valid_word(columns, chunk) };
            let past_end = match rows - 32 * chunk {
                left @ 0..32 => u32::MAX << left,
                _ => 0,
            };
            self.nulls.push_word(word | past_end);
        }
    }
}

/// The columns of a call, checked.
struct Call<'f, A: Args<'f>> {
    columns: A::Columns,
    rows: usize,
}

impl<'f, A: Args<'f>> Call<'f, A> {
    #[inline(always)]
    fn open(frame: Frame<'f, CallFrame>) -> Result<Self, i32> {
        crate::panics::install();
        // SAFETY: a frame is valid, and so are its arguments.
        unsafe {
            let call = frame.as_ptr();
            if (*call).n_args != A::COUNT {
                return Err(wrong_arguments(frame));
            }
            Ok(Self {
                columns: A::columns((*call).args),
                rows: (*call).rows as usize,
            })
        }
    }

    /// Whether nulls do not matter: there are none, or the function says it can run on what lies there.
    #[inline(always)]
    fn is_dense(&self, total: bool) -> bool {
        (total && !A::TAKES_NULLS) || !A::has_nulls(self.columns)
    }

    /// Arguments of a row.
    ///
    /// # Safety
    /// The row must be less than `rows`.
    #[inline(always)]
    unsafe fn get<const CONSTANTS: bool>(&self, place: Place) -> A {
        // SAFETY: the caller vouches for the row.
        unsafe { A::get::<CONSTANTS>(self.columns, place) }
    }

    /// Whether all plain arguments of a row have values. Rows must be visited in order: the bits of 32
    /// rows are kept in `word`.
    ///
    /// # Safety
    /// `row` must be less than `rows`.
    #[inline(always)]
    unsafe fn is_valid(&self, row: usize, word: &mut u32) -> bool {
        if row.is_multiple_of(32) {
            // SAFETY: the caller vouches for the row, which is the first of its chunk.
            *word = unsafe { A::valid_word(self.columns, row / 32) };
        }
        *word >> (row % 32) & 1 == 1
    }
}

/// Refuses a call whose number of arguments is not the one in the manifest.
#[cold]
pub(crate) fn wrong_arguments(frame: Frame<'_, CallFrame>) -> i32 {
    fail(
        frame,
        &"the number of arguments is not the one in the manifest",
    )
}

/// Runs a row function over a batch.
#[inline(always)]
pub fn rows<'f, A: Args<'f>, R: RowResult, const TOTAL: bool, const CONSTANTS: bool>(
    frame: Frame<'f, CallFrame>,
    results: &'static Results<<R::Value as Output>::Builder>,
    mut function: impl FnMut(A) -> R,
) -> i32 {
    let call = match Call::<A>::open(frame) {
        Ok(call) => call,
        Err(status) => return status,
    };
    let mut slot = results.with(Pool::lease);
    let mut errors = RowErrors::new();
    slot.builder.begin(call.rows);
    if call.is_dense(TOTAL) {
        R::Value::fill(&mut slot.builder, call.rows, |place| {
            // SAFETY: `fill` asks for rows below `rows`.
            function(unsafe { call.get::<CONSTANTS>(place) }).settle(place.row(), &mut errors)
        });
        if A::TAKES_NULLS && A::HAS_PLAIN {
            slot.nulls.begin(0);
        }
    } else {
        let mut word = 0;
        R::Value::fill(&mut slot.builder, call.rows, |place| {
            // SAFETY: `fill` asks for rows below `rows`, in order.
            unsafe {
                if call.is_valid(place.row(), &mut word) {
                    function(call.get::<CONSTANTS>(place)).settle(place.row(), &mut errors)
                } else {
                    R::Value::placeholder()
                }
            }
        });
        if A::TAKES_NULLS {
            // SAFETY: the columns have that many rows.
            unsafe { slot.mark_nulls::<A>(call.columns, call.rows) };
        }
    }
    slot.finish(frame);
    errors.finish(frame);
    OK
}

/// Runs a row function that writes its text over a batch.
#[inline(always)]
pub fn rows_of_text<'f, A: Args<'f>, R: TextResult, const TOTAL: bool, const CONSTANTS: bool>(
    frame: Frame<'f, CallFrame>,
    results: &'static Results<TextBuilder>,
    mut function: impl FnMut(A, &mut StrWriter) -> R,
) -> i32 {
    let call = match Call::<A>::open(frame) {
        Ok(call) => call,
        Err(status) => return status,
    };
    let mut slot = results.with(Pool::lease);
    let mut errors = RowErrors::new();
    slot.builder.begin(call.rows);
    let dense = call.is_dense(TOTAL);
    let mut word = 0;
    for row in 0..call.rows {
        // SAFETY: the row is below `rows`, and rows come in order.
        if dense || unsafe { call.is_valid(row, &mut word) } {
            // SAFETY: the row is below `rows`.
            let args = unsafe { call.get::<CONSTANTS>(Place::of(row)) };
            if !function(args, slot.builder.row()).settle(row, &mut errors) {
                slot.builder.row().clear();
            }
        }
        slot.builder.end_row();
    }
    if A::TAKES_NULLS && A::HAS_PLAIN {
        slot.nulls.begin(0);
        if !dense {
            // SAFETY: the columns have that many rows.
            unsafe { slot.mark_nulls::<A>(call.columns, call.rows) };
        }
    }
    slot.finish(frame);
    errors.finish(frame);
    OK
}
