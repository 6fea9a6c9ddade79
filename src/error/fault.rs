//! What goes wrong while guest code runs, and how what it gives back breaks the ABI.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::DataType;

use super::{Budget, ErrorClass, StartError};

/// What went wrong while guest code ran, or with what it gave back.
#[derive(Debug, Clone, thiserror::Error)]
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
        "the sequence's slot was lost by an earlier failure, and its state with it; start the run again; that failure: {cause}"
    )]
    StateLost {
        /// The failure that lost it.
        cause: Arc<Fault>,
    },
    /// The slot could not be restarted.
    #[error("the slot was lost and could not be started again: {0}")]
    Restart(#[source] Box<StartError>),
    /// The slot could not be started when its first call came.
    #[error("{0}")]
    Start(#[source] Box<StartError>),
    /// The pool has been closed.
    #[error("the pool is closed, since its run has ended; start another run")]
    Closed,
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The slot's thread did not come back.
    #[error(
        "the slot did not come back long after its time was over: its thread is stuck outside the guest, in a log sink or in the kernel; what it reserved is given back when it returns"
    )]
    Lost,
    /// The system gave no memory for an instance.
    #[error(
        "the system gave no memory for the instance: {reason}; each slot takes 4 GiB of addresses, so have fewer slots (`--slots`, `PoolBuilder::slots`) or raise the limit of this process (`ulimit -v`)"
    )]
    System {
        /// What it said.
        reason: String,
    },
    /// A budget is spent.
    #[error("given up: {} ({}); the last failure: {cause}", spent(budget, limit), budget.advice())]
    GaveUp {
        /// Which budget.
        budget: Budget,
        /// How many it had.
        limit: u32,
        /// The last failure.
        cause: Arc<Fault>,
    },
    /// A row failed and the policy is to fail.
    #[error("the row failed: {message} (code {code})")]
    Row {
        /// The guest's number.
        code: i32,
        /// What it said.
        message: String,
    },
    /// More rows failed than the policy allows.
    #[error("{} failed, and at most {limit} may{}", rows(failed), message.as_ref().map_or_else(String::new, |m| format!("; this one: {m}")))]
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
            | Fault::OutputTooLarge { .. }
            | Fault::Lost => ErrorClass::Limit,
            Fault::Restart(e) | Fault::Start(e) => e.class(),
            Fault::GaveUp { cause, .. } => cause.class(),
            Fault::Arguments { .. } => ErrorClass::Usage,
            Fault::Guest { .. }
            | Fault::Contract(_)
            | Fault::StateLost { .. }
            | Fault::Closed
            | Fault::Cancelled
            | Fault::System { .. }
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

/// How much of which budget was spent.
fn spent(budget: &Budget, limit: &u32) -> String {
    match limit {
        0 => format!("no {budget} are allowed"),
        1 => format!("the only one of the {budget} is spent"),
        n => format!("all {n} {budget} are spent"),
    }
}

fn rows(number: &u64) -> String {
    match number {
        1 => "1 row".to_owned(),
        n => format!("{n} rows"),
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
