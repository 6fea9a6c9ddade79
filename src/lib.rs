//! WebAssembly-sandboxed user-defined functions on Apache Arrow.
//!
//! A module is compiled once, started once per pool slot, keeps its state, and computes Arrow batches
//! that are copied once in and once out of its linear memory. It cannot escape, cannot run for ever and
//! cannot take more memory than it was given.
//!
//! ```no_run
//! use arrow::array::{Int64Array, RecordBatch};
//! use std::sync::Arc;
//! use wasmill::{Argument, ArgumentType, Engine, EngineConfig, Module, Pool, Stage};
//!
//! let engine = Engine::new(&EngineConfig::default())?;
//! let module = Module::from_file(&engine, "target/udfs/math.wasm")?;
//!
//! let a = Arc::new(Int64Array::from(vec![12, 18]));
//! let b = Arc::new(Int64Array::from(vec![8, 27]));
//! let batch = RecordBatch::try_from_iter([("a", a as _), ("b", b as _)]).unwrap();
//! let schema = batch.schema();
//!
//! let types: Vec<_> = schema.fields().iter().map(|f| ArgumentType::Typed(f.data_type().clone())).collect();
//! let gcd = module.resolve("gcd", &types)?.function;
//! let call = module.bind(&gcd, schema.fields().iter().cloned().map(Argument::column).collect())?;
//! let pool = Pool::builder(&module).start()?;
//!
//! let stage = Stage::new(&schema).call(&pool, &call, &["a", "b"], "gcd")?;
//! for batch in stage.run([Ok(batch)]) {
//!     println!("{:?}", batch?.column_by_name("gcd"));
//! }
//! # Ok::<(), wasmill::Error>(())
//! ```
//!
//! # Features
//! - `datafusion` (default): pool stages in DataFusion plans.
//! - `cli` (default): the `wasmill` binary.
//!
//! Without features this is the embeddable core.

#![deny(missing_docs, unsafe_code)]
// Guest values flow through most of this crate: nothing may panic or wrap on them.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod abi;
mod call;
mod error;
mod ledger;
mod module;
mod pool;
mod sandbox;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "datafusion")]
pub mod plan;

pub use call::{Argument, Call};
pub use error::{
    BindError, Budget, CallError, Error, ErrorClass, Fault, ModuleError, Place, StartError,
    Violation,
};
pub use ledger::{
    Admission, AdmissionError, Amount, DeviceTotal, DeviceUsage, Held, Ledger, LedgerHolder,
    LedgerUsage, Machine, Requested, Resource, Share, ShareError, Shortage, ShortageCause,
    SlotResources,
};
pub use module::{
    ABI_VERSION, ArgumentType, Digest, Function, Manifest, MemoryInfo, Module, ModuleInfo,
    ModuleLimits, NullHandling, Parameter, ParameterType, Resolved, ResultType, State, StateKind,
    Volatility, is_lossless,
};
pub use pool::{
    Budgets, LocalSlot, Output, Pool, PoolBuilder, PoolMetrics, Rebatcher, RowError, Rows, Run,
    RunConfig, RunMetrics, SlotMetrics, Stage, StageBatches, StageCall, WarmLimits, WarmPools,
};
pub use sandbox::{Cancel, Engine, EngineConfig, Grant, LogLevel, LogLine, LogSink, Policy};
