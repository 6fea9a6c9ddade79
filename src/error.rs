//! Errors, one enum per operation, all converting into [`Error`].
//!
//! Every message says what happened, where, why, and what to do next. Text that came from a guest has
//! been bounded and cleaned before it gets here.

mod fault;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use arrow::datatypes::DataType;

pub use fault::{Fault, Violation};

use crate::ledger::AdmissionError;

/// Any error of the core, for callers that do several operations in one function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A module was refused.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// A function could not be bound to argument types.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A pool did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Input batches could not be produced or cut.
    #[error("the input failed: {0}")]
    Input(#[source] arrow::error::ArrowError),
}

/// What kind of thing went wrong; decides the exit code of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The request itself does not make sense: unknown function, wrong types, bad init arguments.
    Usage,
    /// A file could not be read or written.
    Io,
    /// The module breaks the ABI or a load limit, or imports what is not offered.
    ModuleRefused,
    /// A limit of the policy was reached.
    Limit,
    /// The guest trapped.
    Trap,
    /// Rows, a call or `init` failed.
    Failed,
}

impl Error {
    /// What kind of thing went wrong.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Module(e) => e.class(),
            Error::Bind(e) => e.class(),
            Error::Start(e) => e.class(),
            Error::Call(e) => e.class(),
            Error::Input(_) => ErrorClass::Io,
        }
    }
}

/// Why a module was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// The file could not be read.
    #[error("cannot read the module {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a valid WebAssembly module, or one that uses a proposal that is switched off.
    #[error("{module} is not a module that can be loaded: {reason}")]
    Invalid {
        /// The module's name.
        module: String,
        /// What is wrong, with the byte offset where there is one.
        reason: String,
    },
    /// A load limit.
    #[error(
        "{module} exceeds a load limit: {what} is {found}, at most {limit} are accepted; raise it in `ModuleLimits` if the module is trusted with more"
    )]
    Limit {
        /// The module's name.
        module: String,
        /// What was counted.
        what: &'static str,
        /// How much of it there is.
        found: u64,
        /// How much is accepted.
        limit: u64,
    },
    /// The manifest is missing or wrong.
    #[error("the manifest of {module} is refused: {reason}")]
    Manifest {
        /// The module's name.
        module: String,
        /// Which record and what is wrong with it.
        reason: String,
    },
    /// An import that no host offers.
    #[error("{module} imports {import}, which is not offered; {hint}")]
    Import {
        /// The module's name.
        module: String,
        /// `module.name` of the import.
        import: String,
        /// What to do.
        hint: &'static str,
    },
    /// The memory or an export is missing or has the wrong type.
    #[error("{module} does not follow the ABI: {reason}")]
    Abi {
        /// The module's name.
        module: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// The compiler refused the module or failed.
    #[error("{module} cannot be compiled: {reason}")]
    Compile {
        /// The module's name.
        module: String,
        /// What the compiler said.
        reason: String,
    },
    /// Compiling took too long.
    #[error(
        "compiling {module} took longer than {limit:?}; make it smaller, or raise `ModuleLimits::compile_time`"
    )]
    CompileTime {
        /// The module's name.
        module: String,
        /// The limit.
        limit: Duration,
    },
    /// The engine itself could not be made.
    #[error("the WebAssembly engine cannot be set up: {reason}")]
    Engine {
        /// What wasmtime said.
        reason: String,
    },
}

impl ModuleError {
    /// What kind of thing went wrong.
    pub fn class(&self) -> ErrorClass {
        match self {
            ModuleError::Read { .. } => ErrorClass::Io,
            _ => ErrorClass::ModuleRefused,
        }
    }
}

/// Why a function could not be bound to argument types.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// No such UDF.
    #[error("{module} has no UDF `{udf}`; {hint}")]
    UnknownUdf {
        /// The module's name.
        module: String,
        /// The name asked for.
        udf: String,
        /// The nearest name, or the list of names.
        hint: String,
    },
    /// No overload takes these arguments.
    #[error("`{udf}` of {module} cannot take ({found}): {reason}")]
    Arguments {
        /// The module's name.
        module: String,
        /// The UDF.
        udf: String,
        /// The types offered.
        found: String,
        /// What each overload takes, and why it does not fit.
        reason: String,
    },
    /// A type that cannot cross the boundary.
    #[error(
        "`{udf}` of {module}: the type {data_type} of {place} cannot cross the boundary: {reason}"
    )]
    Type {
        /// The module's name.
        module: String,
        /// The UDF.
        udf: String,
        /// Which argument, or the result.
        place: String,
        /// The type.
        data_type: DataType,
        /// Why not.
        reason: String,
    },
    /// The function's own `bind` refused the types.
    #[error("`{udf}` of {module} refuses ({found}): {message}")]
    Refused {
        /// The module's name.
        module: String,
        /// The UDF.
        udf: String,
        /// The types offered.
        found: String,
        /// What the guest said.
        message: String,
    },
    /// The function's `bind` failed, or answered another type than the manifest declares.
    #[error("`{udf}` of {module}: its `bind` export failed: {reason}")]
    Bind {
        /// The module's name.
        module: String,
        /// The UDF.
        udf: String,
        /// What went wrong.
        reason: String,
        /// What kind of thing went wrong.
        class: ErrorClass,
    },
}

impl BindError {
    /// What kind of thing went wrong.
    pub fn class(&self) -> ErrorClass {
        match self {
            BindError::Bind { class, .. } => *class,
            _ => ErrorClass::Usage,
        }
    }
}

/// Why a pool did not start. Nothing of it is left running.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The module has no such state.
    #[error("{module} has no state `{state}`; it has {known}")]
    UnknownState {
        /// The module's name.
        module: String,
        /// The state asked for.
        state: String,
        /// The states it has.
        known: String,
    },
    /// The init arguments do not fit the schema.
    #[error("the init arguments of `{state}` of {module} are refused: {path} {reason}")]
    InitArgs {
        /// The module's name.
        module: String,
        /// The state.
        state: String,
        /// Where in the arguments, e.g. `$.vocabulary[3]`.
        path: String,
        /// What is wrong there.
        reason: String,
    },
    /// Init arguments for a UDF without a state.
    #[error(
        "`{udf}` of {module} has no state, so there is nothing to give init arguments to; leave them out"
    )]
    NoState {
        /// The module's name.
        module: String,
        /// The pool's name, which is the UDF's unless it was given another.
        udf: String,
    },
    /// `init` answered an error.
    #[error("{place}: init failed: {message} (init arguments {args_digest})")]
    Init {
        /// Where.
        place: Box<Place>,
        /// What the guest said.
        message: String,
        /// First digits of the SHA-256 of the init arguments.
        args_digest: String,
    },
    /// A slot could not be made, or trapped or ran out of a limit before it was ready.
    #[error("{place}: the slot did not start: {fault}")]
    Slot {
        /// Where.
        place: Box<Place>,
        /// What went wrong.
        fault: Box<Fault>,
    },
    /// A granted folder cannot be opened.
    #[error("{place}: {reason}")]
    Grant {
        /// Where.
        place: Box<Place>,
        /// Which folder and why.
        reason: String,
    },
    /// More slots than a pool may have.
    #[error(
        "the pool {pool} cannot have {asked} slots, at most {most}; a slot for each CPU is usually best"
    )]
    TooManySlots {
        /// The pool.
        pool: String,
        /// How many were asked for.
        asked: usize,
        /// How many there may be.
        most: usize,
    },
    /// The pools of the run do not fit the ledger.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The run was cancelled before it had started.
    #[error("the run {run} was cancelled before it had started")]
    Cancelled {
        /// The run.
        run: String,
    },
    /// A slot did not start, however often it was tried.
    #[error(
        "{last}; given up after {attempts} attempts (`Budgets::init_retries`, `--init-retries`)"
    )]
    GaveUp {
        /// How often it was tried.
        attempts: u32,
        /// What went wrong the last time.
        last: Box<StartError>,
    },
    /// The system gave no threads.
    #[error("the pool {pool} cannot start its threads: {reason}")]
    Threads {
        /// The pool.
        pool: String,
        /// What the system said.
        reason: String,
    },
}

impl StartError {
    /// What kind of thing went wrong.
    pub fn class(&self) -> ErrorClass {
        match self {
            StartError::UnknownState { .. }
            | StartError::InitArgs { .. }
            | StartError::NoState { .. }
            | StartError::TooManySlots { .. } => ErrorClass::Usage,
            StartError::Grant { .. } => ErrorClass::Io,
            StartError::Slot { fault, .. } => fault.class(),
            StartError::Init { .. } | StartError::Threads { .. } | StartError::Cancelled { .. } => {
                ErrorClass::Failed
            }
            StartError::Admission(e) => e.class(),
            StartError::GaveUp { last, .. } => last.class(),
        }
    }
}

/// What is only done so many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Budget {
    /// Slots started again after their guest trapped, ran out of a limit or broke the ABI.
    TrapRestarts,
    /// Slots started again for any other reason.
    SlotRestarts,
    /// Attempts at a call after the first.
    CallRetries,
}

impl Budget {
    /// What raises it.
    fn advice(self) -> &'static str {
        match self {
            Budget::TrapRestarts => "`Budgets::trap_restarts`, `--restarts`",
            Budget::SlotRestarts => "`Budgets::slot_restarts`, `--restarts`",
            Budget::CallRetries => "`Budgets::call_retries`, `--restarts`",
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Budget::TrapRestarts => "restarts after traps",
            Budget::SlotRestarts => "restarts of slots",
            Budget::CallRetries => "retries of a call",
        })
    }
}

/// Where in a run something happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The module's name.
    pub module: String,
    /// The UDF or state.
    pub udf: String,
    /// The run's name, where it was given one.
    pub run: Option<String>,
    /// The pool's name.
    pub pool: String,
    /// The slot's number, where one was involved.
    pub slot: Option<usize>,
    /// The input partition, where there is one.
    pub partition: Option<usize>,
    /// The rows of that partition, counted from 0, where there are any.
    pub rows: Option<Range<u64>>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {} (", self.udf, self.module)?;
        if let Some(run) = &self.run {
            write!(f, "run {run}, ")?;
        }
        write!(f, "pool {}", self.pool)?;
        if let Some(slot) = self.slot {
            write!(f, ", slot {slot}")?;
        }
        if let Some(partition) = self.partition {
            write!(f, ", partition {partition}")?;
        }
        if let Some(rows) = &self.rows {
            match rows.end.saturating_sub(rows.start) {
                1 => write!(f, ", row {}", rows.start)?,
                _ => write!(f, ", rows {} to {}", rows.start, rows.end.saturating_sub(1))?,
            }
        }
        f.write_str(")")
    }
}

/// A call that failed, and where.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct CallError {
    /// Where.
    pub place: Box<Place>,
    /// What went wrong.
    #[source]
    pub fault: Box<Fault>,
}

impl CallError {
    /// What kind of thing went wrong.
    pub fn class(&self) -> ErrorClass {
        self.fault.class()
    }
}
