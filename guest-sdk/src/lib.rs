//! Write a Rust function, run it sandboxed over Apache Arrow.
//!
//! ```
//! use wasmill_guest::udf;
//!
//! /// Greatest common divisor.
//! #[udf]
//! fn gcd(a: i64, b: i64) -> i64 {
//!     if b == 0 { a } else { gcd(b, a % b) }
//! }
//!
//! // It is still an ordinary function.
//! assert_eq!(gcd(12, 18), 6);
//! ```
//!
//! [`udf`] explains everything the attribute can do. In short:
//!
//! - **Row functions** take and return values; [`Option`] arguments receive nulls, [`Result`] fails a row
//!   ([`RowError`] with a number), [`StrWriter`] writes text without a `String` per row.
//! - **Batch functions** take a [`Column`] or [`AnyColumn`], and fill a [`Writer`] or pass a column on
//!   ([`SameAs`], [`Bound`]).
//! - **Stateful functions** are methods; their `init` takes a struct with [`InitArgs`].
//! - Structs with [`ArrowType`] stand for Arrow structs; [`Timestamp`], [`Decimal`] and others for the
//!   types that Rust lacks.
//! - [`log`] writes to the host's log, and `testing` runs whole batches natively.
//!
//! Compiled for WebAssembly, the crate exports what the ABI asks for (`wasmill_alloc`, `wasmill_free`,
//! `wasmill_reset`, `wasmill_panic`), and every UDF adds its export and its record of the manifest.
#![deny(missing_docs)]

/// The C header of the SDK, `c/wasmill.h`.
#[cfg(feature = "c-header")]
pub const C_HEADER: &str = include_str!("../c/wasmill.h");

/// The examples of the README are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod abi;
mod batch;
mod bind;
mod buffer;
mod column;
mod entry;
mod errors;
mod init;
mod json;
pub mod log;
mod manifest;
mod memory;
mod panics;
mod rows;
mod state;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod types;

pub use batch::{Bound, SameAs, Writer, Written};
pub use bind::{BindArgs, Binding, Field};
pub use column::{AnyColumn, Column, Rows};
pub use errors::{Failure, RowError, RowErrors};
pub use init::InitArgs;
pub use types::{
    ArrowType, Date, Date64, Decimal, Duration, Input, ListRef, Microsecond, Millisecond,
    Nanosecond, NoZone, Output, Readable, Second, StrWriter, Time, TimeUnit, Timestamp, Utc, Zone,
};
pub use wasmill_guest_macros::{ArrowType, InitArgs, udf};

/// What the macros' output refers to. Not for direct use: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use serde;

    pub use crate::abi::{ArrowArray, BindFrame, CallFrame, Frame, InitFrame};
    pub use crate::batch::{BatchResult, Outcome, batch, batch_written};
    pub use crate::bind::bind;
    pub use crate::column::BatchParam;
    pub use crate::entry::{
        Entry, StateEntry, argument_count, batch_param, nulls, row_param, row_result,
    };
    pub use crate::init::{InitKind, InitSchema, NO_ARGS};
    pub use crate::manifest::{Child, FormatPart, Param, Record, ResultType, Schema, State};
    pub use crate::memory::Pool;
    pub use crate::rows::{Args, ResultSlot, RowResult, TextResult, rows, rows_of_text};
    pub use crate::state::{IntoState, States, close, init, init_with, with_state};
    pub use crate::types::{
        Builder, Fields, ListBuilder, ListColumn, Nulls, StructBuilder, TextBuilder, child,
    };
}
