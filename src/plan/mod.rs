//! The pool stage as a node of Apache DataFusion plans.
//!
//! A pool stage sends columns of its input through the calls of one or more pools and appends one
//! result column per call; every other column passes by outside the guest, untouched.
//!
//! ```text
//! scan ─▶ pool stage ─▶ projection ─▶ sink
//! ```
//!
//! - [`PoolStage`] is the logical node, [`PoolStageExec`] the physical one, [`PoolStagePlanner`]
//!   turns the first into the second and [`query_planner`] installs it in a session.
//! - A plan names its pools ([`PoolRef`]: a name, a module digest, a number of slots) and never holds
//!   one: whoever runs the plan owns its pools. They meet when the plan is executed, through
//!   [`Pools`], which the session's configuration carries as an extension. A plan can thus be copied,
//!   printed, compared and dropped without any slot being started or kept alive by it, and executed
//!   again with other pools.
//!
//! What becomes of rows that a guest could not compute is said per call ([`RowErrorPolicy`]).
//!
//! Errors of the core cross DataFusion's error type unharmed: [`core_error`] finds them again.

mod admit;
mod bounded;
mod coerce;
mod create_function;
mod error;
mod function;
mod in_place;
mod in_sequence;
mod install;
mod logical;
mod options;
mod physical;
mod planner;
mod registry;
mod row_errors;
mod split;
mod stream;

pub use admit::{AdmitExec, AdmitPools, RunObserver};
pub use create_function::{CreateFunctionError, WasmFunctions};
#[cfg(feature = "cli")]
pub(crate) use error::find_error;
pub use error::{core_error, to_datafusion};
#[cfg(feature = "cli")]
pub(crate) use install::{SqlFunction, functions};
pub use install::{install, prepared, register, register_as};
pub use logical::{InnerCall, PoolArgument, PoolCall, PoolStage};
pub use options::{SqlSettings, UdfOptions};
pub use physical::PoolStageExec;
pub use planner::{PoolStagePlanner, query_planner};
pub use registry::{Patience, PoolRef, Pools};
pub use row_errors::{
    DeadLetterSink, DeadLetters, ErrorLimit, RowErrorAction, RowErrorPolicy, dead_letter_schema,
};
pub use split::{FuseCalls, PruneCalls, SplitCalls};
