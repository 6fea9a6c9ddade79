//! Errors, one enum per operation, all converting into [`Error`].
//!
//! Every message says what happened, where, why, and what to do next. Text that came from a guest has
//! been bounded and cleaned before it gets here.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use arrow::datatypes::DataType;

use crate::call::Call;

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
#[derive(Debug, thiserror::Error)]
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
            StartError::Init { .. } | StartError::Threads { .. } => ErrorClass::Failed,
        }
    }
}

/// Where in a run something happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The module's name.
    pub module: String,
    /// The UDF or state.
    pub udf: String,
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
        write!(f, "`{}` of {} (pool {}", self.udf, self.module, self.pool)?;
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
    /// The failure of one row of a partition.
    pub(crate) fn of_row(
        call: &Call,
        pool: &str,
        partition: Option<usize>,
        row: u64,
        fault: Fault,
    ) -> Self {
        CallError {
            place: Box::new(Place {
                module: call.module().name().to_owned(),
                udf: call.function().name.clone(),
                pool: pool.to_owned(),
                slot: None,
                partition,
                rows: Some(row..row.saturating_add(1)),
            }),
            fault: Box::new(fault),
        }
    }

    /// What kind of thing went wrong.
    pub fn class(&self) -> ErrorClass {
        self.fault.class()
    }
}

/// What went wrong while guest code ran, or with what it gave back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The guest trapped.
    #[error("the guest trapped: {reason}{}", backtrace_lines(backtrace))]
    Trap {
        /// The panic's own text where the guest left one, else the trap's name.
        reason: String,
        /// Guest frames, innermost first; bounded and demangled.
        backtrace: Vec<String>,
    },
    /// The guest called `proc_exit`.
    #[error("the guest called exit({code}); a UDF returns, it does not exit")]
    Exit {
        /// The code it gave.
        code: i32,
    },
    /// Wall time.
    #[error("{entry} took longer than {limit:?}; {}", time_advice(entry))]
    Time {
        /// Which entry point.
        entry: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// Linear memory.
    #[error(
        "the guest needed more memory than its limit of {} ({} asked for); raise it (`Policy::memory`, `--memory`) or send fewer rows per call",
        size(limit),
        size(requested)
    )]
    Memory {
        /// The limit in bytes.
        limit: u64,
        /// What was asked for, in bytes.
        requested: u64,
    },
    /// Table elements.
    #[error(
        "the guest needed a table of more than {limit} elements; raise `Policy::table_elements`"
    )]
    Table {
        /// The limit.
        limit: u64,
    },
    /// One row does not fit the guest's memory.
    #[error(
        "a single row needs {} of arguments, which the guest could not allocate within its limit of {}; raise it (`Policy::memory`, `--memory`)",
        size(bytes),
        size(limit)
    )]
    RowTooLarge {
        /// Bytes of the row's arguments.
        bytes: u64,
        /// The memory limit in bytes.
        limit: u64,
    },
    /// The result is larger than the policy allows.
    #[error(
        "the result is larger than {}; send fewer rows per call (`--batch-size`) or raise `Policy::output_bytes`",
        size(limit)
    )]
    OutputTooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The guest answered "error" for the whole call.
    #[error("the guest reports: {message}")]
    Guest {
        /// What it said.
        message: String,
    },
    /// What the guest returned is not what it promised.
    #[error("the guest broke the ABI: {0}")]
    Contract(#[from] Violation),
    /// The rows offered do not fit the call.
    #[error("the rows do not fit the call: {reason}")]
    Arguments {
        /// What does not fit.
        reason: String,
    },
    /// The state of a sequence was lost with its slot, and cannot be rebuilt.
    #[error(
        "the sequence's slot was lost by an earlier failure, and its state with it; start the run again"
    )]
    StateLost,
    /// The slot could not be restarted.
    #[error("the slot was lost and could not be started again: {0}")]
    Restart(#[source] Box<StartError>),
    /// The pool has been closed.
    #[error("the pool is closed")]
    Closed,
    /// A row failed and the policy is to fail.
    #[error("the row failed: {message} (code {code})")]
    Row {
        /// The guest's number.
        code: i32,
        /// What it said.
        message: String,
    },
    /// More rows failed than the policy allows.
    #[error("{failed} rows failed, and at most {limit} may{}", message.as_ref().map_or_else(String::new, |m| format!("; this one: {m}")))]
    TooManyRows {
        /// How many may fail.
        limit: String,
        /// How many had failed, this one included.
        failed: u64,
        /// What the guest said about the row that was one too many.
        message: Option<String>,
    },
    /// The host's own code panicked while it handled the call.
    #[error(
        "the host failed while handling the call: {message}; this is a bug in Wasmill, please report it"
    )]
    Host {
        /// The panic's text.
        message: String,
    },
}

impl Fault {
    /// What kind of thing went wrong.
    pub fn class(&self) -> ErrorClass {
        match self {
            Fault::Trap { .. } | Fault::Exit { .. } => ErrorClass::Trap,
            Fault::Time { .. }
            | Fault::Memory { .. }
            | Fault::Table { .. }
            | Fault::RowTooLarge { .. }
            | Fault::OutputTooLarge { .. } => ErrorClass::Limit,
            Fault::Restart(e) => e.class(),
            Fault::Arguments { .. } => ErrorClass::Usage,
            Fault::Guest { .. }
            | Fault::Contract(_)
            | Fault::StateLost
            | Fault::Closed
            | Fault::Row { .. }
            | Fault::TooManyRows { .. }
            | Fault::Host { .. } => ErrorClass::Failed,
        }
    }

    /// Whether the instance may be entered again after this.
    pub(crate) fn spares_the_slot(&self) -> bool {
        matches!(
            self,
            Fault::Guest { .. }
                | Fault::Arguments { .. }
                | Fault::OutputTooLarge { .. }
                | Fault::RowTooLarge { .. }
                | Fault::Row { .. }
                | Fault::Closed
        )
    }
}

/// What to do about an entry that took too long.
fn time_advice(entry: &str) -> &'static str {
    match entry {
        "init" | "_initialize" | "starting the instance" => {
            "raise the limit (`Policy::init_time`, `--init-timeout`), or give `init` less to do"
        }
        _ => "raise the limit (`Policy::call_time`, `--timeout`) or send fewer rows per call",
    }
}

/// Bytes in the largest binary unit that leaves a whole number.
fn size(bytes: &u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let whole = |(_, unit): &&(&str, u64)| bytes.is_multiple_of(*unit) && *bytes > 0;
    match UNITS.iter().find(whole) {
        Some((name, unit)) => format!("{} {name}", bytes.checked_div(*unit).unwrap_or(*bytes)),
        None => format!("{bytes} bytes"),
    }
}

fn backtrace_lines(frames: &[String]) -> String {
    let mut text = String::new();
    for (i, frame) in frames.iter().enumerate() {
        text.push_str(&format!("\n  {i:>2}: {frame}"));
    }
    text
}

/// How something in guest memory breaks the ABI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The result has the wrong number of rows.
    #[error("the result has {found} rows, expected {expected}")]
    Rows {
        /// Rows in the call.
        expected: u64,
        /// Rows in the result.
        found: i64,
    },
    /// A pointer and length outside memory.
    #[error(
        "{what} of the result {path}: {bytes} bytes at {pointer:#x} lie outside the memory of {memory} bytes"
    )]
    Bounds {
        /// Which buffer or struct.
        what: &'static str,
        /// Which part of the result type.
        path: String,
        /// The pointer.
        pointer: u32,
        /// The length.
        bytes: u64,
        /// The size of memory.
        memory: u64,
    },
    /// Anything else about an array.
    #[error("the result {path} is not valid {data_type}: {reason}")]
    Array {
        /// Which part of the result type.
        path: String,
        /// Its type.
        data_type: DataType,
        /// What is wrong.
        reason: String,
    },
    /// A value that means nothing in its type: too many digits, a time outside the day.
    #[error("the result {path} is not valid {data_type}: {reason}")]
    Value {
        /// Which part of the result type.
        path: String,
        /// Its type.
        data_type: DataType,
        /// What is wrong.
        reason: String,
    },
    /// A null where the type has none.
    #[error("the result {path} is declared without nulls and has {nulls}")]
    Nulls {
        /// Which part of the result type.
        path: String,
        /// How many there are.
        nulls: usize,
    },
    /// A status that does not exist.
    #[error("{entry} answered the status {status}, which does not exist for it")]
    Status {
        /// Which entry point.
        entry: &'static str,
        /// What it answered.
        status: i32,
    },
    /// The allocator answered a block that cannot be.
    #[error(
        "wasmill_alloc({size}, {align}) answered {pointer:#x}, which is not an aligned block inside the memory of {memory} bytes"
    )]
    Allocator {
        /// The size asked for.
        size: u32,
        /// The alignment asked for.
        align: u32,
        /// The answer.
        pointer: u32,
        /// The size of memory.
        memory: u64,
    },
    /// The row errors are malformed.
    #[error("the row errors are malformed: {reason}")]
    RowErrors {
        /// What is wrong.
        reason: String,
    },
    /// The types that `bind` answered.
    #[error("the type that bind answered is malformed: {reason}")]
    Schema {
        /// What is wrong.
        reason: String,
    },
    /// `bind` in the slot answered otherwise than `bind` did when the plan was made.
    #[error("bind answered {found} in the slot and {planned} when the plan was made")]
    Rebound {
        /// What the plan has.
        planned: DataType,
        /// What the slot has.
        found: DataType,
    },
}
