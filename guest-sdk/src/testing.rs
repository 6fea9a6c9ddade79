//! Whole calls without a host: what a native unit test needs to see a UDF as the host does, nulls, row
//! errors and states included.
//!
//! ```
//! use wasmill_guest::testing::{Instance, column, handle};
//!
//! /// One hundred over y.
//! #[wasmill_guest::udf]
//! fn share(y: i64) -> Result<i64, &'static str> {
//!     100_i64.checked_div(y).ok_or("division by zero")
//! }
//!
//! let answer = Instance::new()
//!     .call(&handle!(share)[0], 3, &[column([Some(50_i64), None, Some(0)])])
//!     .expect("the call works");
//! assert_eq!(answer.rows::<i64>()[0], 2);
//! assert_eq!(answer.errors()[0].row, 2);
//! ```
//!
//! Natively an instance of a guest is a thread.

use std::any::Any;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::rc::Rc;

use crate::Field;
use crate::abi::{ArgRef, ArrowArray, ArrowSchema, BindFrame, CallFrame, Frame, InitFrame, OK};
use crate::bind::Exported;
use crate::memory::generation;
use crate::types::Input;

mod columns;

pub use crate::entry::{Entry, StateEntry};
use columns::check_types;
pub use columns::{TestColumn, column, constant};
/// The handle of a UDF (a slice of its overloads) or of a state, by the path of the function or type.
pub use wasmill_guest_macros::handle_of as handle;

/// A guest instance, which is the current thread.
#[derive(Default)]
pub struct Instance {
    thread: PhantomData<*const ()>,
}

/// Handle of a state in an [`Instance`].
#[derive(Clone, Copy, Debug)]
pub struct StateHandle(u32);

/// What a call answered. It lives until the next reset.
pub struct Answer {
    field: Option<Field>,
    generation: u32,
    /// The result may point into the arguments.
    _arguments: Vec<Rc<dyn Any>>,
    result: ArrowArray,
    row_errors: ArrowArray,
}

/// A row that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRow {
    /// Row within the batch.
    pub row: u32,
    /// The function's number.
    pub code: i32,
    /// The function's text.
    pub message: String,
}

impl Instance {
    /// The instance.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a state.
    ///
    /// # Errors
    /// What `init` said.
    pub fn init(&self, state: &StateEntry, args: &str) -> Result<StateHandle, String> {
        let mut frame = InitFrame {
            size: size_of::<InitFrame>() as u32,
            flags: 0,
            args: args.as_ptr(),
            args_len: args.len() as u32,
            state: 0,
            message: std::ptr::null(),
            message_len: 0,
        };
        // SAFETY: the frame is as the ABI describes it, and lives longer than the call.
        let status = (state.init)(unsafe { Frame::new(&mut frame) });
        if status == OK {
            return Ok(StateHandle(frame.state));
        }
        // SAFETY: the guest left a message that lives until its next.
        Err(unsafe { message(frame.message, frame.message_len) })
    }

    /// Ends a state.
    pub fn close(&self, state: &StateEntry, handle: StateHandle) {
        if let Some(close) = state.close {
            close(handle.0);
        }
    }

    /// Runs a stateless UDF over a batch.
    ///
    /// # Panics
    /// When the columns are not of the types of the UDF.
    ///
    /// # Errors
    /// The message of a call that failed as a whole.
    pub fn call(&self, udf: &Entry, rows: usize, args: &[TestColumn]) -> Result<Answer, String> {
        self.call_on(StateHandle(0), udf, rows, args)
    }

    /// Runs a method of a state over a batch.
    ///
    /// # Panics
    /// When the columns are not of the types of the UDF.
    ///
    /// # Errors
    /// The message of a call that failed as a whole.
    pub fn call_on(
        &self,
        state: StateHandle,
        udf: &Entry,
        rows: usize,
        args: &[TestColumn],
    ) -> Result<Answer, String> {
        let field = check_types(udf.record, rows, args);
        run(state.0, 0, field, udf, rows, args)
    }

    /// Fixes the types of a UDF.
    ///
    /// # Errors
    /// Why the types are refused.
    ///
    /// # Panics
    /// When the UDF has no `bind`.
    pub fn bind(&self, udf: &Entry, fields: &[Field]) -> Result<BoundTypes, String> {
        let bind = udf.bind.expect("the UDF has a `bind`");
        let exported: Vec<_> = fields.iter().map(Exported::new).collect();
        let pointers: Vec<_> = exported
            .iter()
            .map(|field| &raw const field.schema)
            .collect();
        let constants = vec![std::ptr::null(); fields.len()];
        let mut result = MaybeUninit::<ArrowSchema>::zeroed();
        let mut frame = BindFrame {
            size: size_of::<BindFrame>() as u32,
            flags: 0,
            n_args: fields.len() as u32,
            fields: pointers.as_ptr(),
            constants: constants.as_ptr(),
            reserved: 0,
            result: result.as_mut_ptr(),
            binding: 0,
            message: std::ptr::null(),
            message_len: 0,
        };
        // SAFETY: the frame is as the ABI describes it, and lives longer than the call.
        if bind(unsafe { Frame::new(&mut frame) }) != OK {
            // SAFETY: the guest left a message that lives until its next.
            return Err(unsafe { message(frame.message, frame.message_len) });
        }
        // SAFETY: all zeros is a schema without anything; the guest wrote a valid one where the format is
        // not null.
        let result = unsafe {
            let schema = result.assume_init();
            (!schema.format.is_null()).then(|| Field::read(&schema))
        };
        Ok(BoundTypes {
            id: frame.binding,
            arguments: fields.to_vec(),
            result,
        })
    }

    /// Runs a UDF whose types were fixed.
    ///
    /// # Errors
    /// The message of a call that failed as a whole.
    ///
    /// # Panics
    /// When the columns are not of the types that were fixed.
    pub fn call_bound(
        &self,
        types: &BoundTypes,
        udf: &Entry,
        rows: usize,
        args: &[TestColumn],
    ) -> Result<Answer, String> {
        let field = check_types(udf.record, rows, args);
        for (wanted, column) in types.arguments.iter().zip(args) {
            assert!(wanted.is_like(&column.field), "argument {}", wanted.name);
        }
        run(
            0,
            types.id,
            field.or_else(|| types.result.clone()),
            udf,
            rows,
            args,
        )
    }

    /// Ends the life of all answers so far.
    pub fn reset(&self) {
        // SAFETY: no call is running in this thread: those of this module return before, and nothing else
        // starts any. Answers check their generation before they read.
        unsafe { crate::memory::wasmill_reset() };
    }
}

/// Types that `bind` fixed.
#[derive(Clone, Debug)]
pub struct BoundTypes {
    id: u32,
    arguments: Vec<Field>,
    /// The field of the result, if `bind` answered one.
    pub result: Option<Field>,
}

/// Runs a call whose arguments fit.
fn run(
    state: u32,
    binding: u32,
    field: Option<Field>,
    udf: &Entry,
    rows: usize,
    args: &[TestColumn],
) -> Result<Answer, String> {
    let columns: Vec<_> = args
        .iter()
        .map(|column| ArgRef {
            array: &raw const column.array,
            flags: u32::from(column.constant),
        })
        .collect();
    let mut answer = Answer {
        field,
        generation: generation(),
        _arguments: args
            .iter()
            .map(|column| Rc::clone(&column.builder))
            .collect(),
        result: ArrowArray::EMPTY,
        row_errors: ArrowArray::EMPTY,
    };
    let mut frame = CallFrame {
        size: size_of::<CallFrame>() as u32,
        flags: 0,
        binding,
        state,
        rows: rows as u64,
        n_args: columns.len() as u32,
        args: columns.as_ptr(),
        result: &raw mut answer.result,
        row_errors: &raw mut answer.row_errors,
        message: std::ptr::null(),
        message_len: 0,
    };
    // SAFETY: the frame is as the ABI describes it, and lives longer than the call; `check_types` has
    // found the columns to fit.
    let status = (udf.call)(unsafe { Frame::new(&mut frame) });
    if status == OK {
        return Ok(answer);
    }
    // SAFETY: the guest left a message that lives until its next.
    Err(unsafe { message(frame.message, frame.message_len) })
}

/// # Safety
/// `pointer` must point to `len` bytes, or `len` be 0.
unsafe fn message(pointer: *const u8, len: u32) -> String {
    if len == 0 {
        return String::new();
    }
    // SAFETY: the caller vouches for it.
    let bytes = unsafe { std::slice::from_raw_parts(pointer, len as usize) };
    String::from_utf8_lossy(bytes).into_owned()
}

impl Answer {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.result.length as usize
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of nulls, as the guest says.
    #[must_use]
    pub fn null_count(&self) -> usize {
        self.result.null_count as usize
    }

    /// The array as it crossed.
    #[must_use]
    pub fn array(&self) -> &ArrowArray {
        &self.result
    }

    /// The rows.
    ///
    /// # Panics
    /// When `T` is not the UDF's result type, or an `Option` of it, or after a reset.
    #[must_use]
    pub fn rows<'a, T: Input<'a>>(&'a self) -> Vec<T> {
        self.check_life();
        let fits = self.field.as_ref().is_some_and(Field::is::<T>);
        assert!(fits, "the result is {:?}", self.field);
        // SAFETY: the result was just found to be of this type, and lives until the reset.
        let column = unsafe { T::column(&self.result) };
        (0..self.len())
            // SAFETY: the column has that many rows.
            .map(|row| unsafe { T::get(column, row) })
            .collect()
    }

    fn check_life(&self) {
        assert_eq!(
            self.generation,
            generation(),
            "the answer ended with a reset"
        );
    }

    /// The rows that failed.
    ///
    /// # Panics
    /// After a reset.
    #[must_use]
    pub fn errors(&self) -> Vec<FailedRow> {
        self.check_life();
        if self.row_errors.length == 0 {
            return Vec::new();
        }
        // SAFETY: the SDK made the array with these three columns, of equal length.
        unsafe {
            let rows = u32::column(crate::types::child(&self.row_errors, 0));
            let codes = i32::column(crate::types::child(&self.row_errors, 1));
            let messages = <&str>::column(crate::types::child(&self.row_errors, 2));
            (0..self.row_errors.length as usize)
                .map(|at| FailedRow {
                    row: u32::get(rows, at),
                    code: i32::get(codes, at),
                    message: <&str>::get(messages, at).to_owned(),
                })
                .collect()
        }
    }
}
