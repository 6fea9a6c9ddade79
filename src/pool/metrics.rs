//! What a pool counted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

/// Counters of a pool, as they stood when [`Pool::metrics`](super::Pool::metrics) was called.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// The pool's name.
    pub pool: String,
    /// The module's name.
    pub module: String,
    /// Slots that the pool has.
    pub slots: usize,
    /// Slots that were started, restarts included.
    pub starts: u64,
    /// Calls of `init`, restarts included.
    pub inits: u64,
    /// Slots that were started again after a failure.
    pub restarts: u64,
    /// Calls of UDFs.
    pub calls: u64,
    /// Rows in those calls.
    pub rows: u64,
    /// Rows that the guest could not compute.
    pub failed_rows: u64,
    /// Calls that were made because a batch was too large for the guest's memory.
    pub splits: u64,
    /// Bytes of arguments copied in.
    pub bytes_in: u64,
    /// Bytes of results copied out.
    pub bytes_out: u64,
    /// Time that tasks waited for a slot.
    pub wait_seconds: f64,
    /// Time spent copying arguments in.
    pub copy_in_seconds: f64,
    /// Time spent in guest code.
    pub guest_seconds: f64,
    /// Time spent copying results out and checking them.
    pub copy_out_seconds: f64,
    /// Time spent starting slots, `init` included.
    pub init_seconds: f64,
    /// Largest linear memory of any slot, in bytes.
    pub peak_memory_bytes: u64,
}

impl fmt::Display for PoolMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "pool {} of {}: {} slot(s), {} starts, {} inits, {} restarts",
            self.pool, self.module, self.slots, self.starts, self.inits, self.restarts
        )?;
        writeln!(
            f,
            "  {} calls, {} rows, {} of them failed, {} splits, {} in, {} out, peak memory of a slot {}",
            self.calls,
            self.rows,
            self.failed_rows,
            self.splits,
            Size(self.bytes_in),
            Size(self.bytes_out),
            Size(self.peak_memory_bytes)
        )?;
        write!(
            f,
            "  init {:.3} s, wait {:.3} s, copy in {:.3} s, guest {:.3} s, copy out {:.3} s",
            self.init_seconds,
            self.wait_seconds,
            self.copy_in_seconds,
            self.guest_seconds,
            self.copy_out_seconds
        )
    }
}

/// A number of bytes for people.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_024 => write!(f, "{} B", self.0),
            1_024..1_048_576 => write!(f, "{:.1} KiB", bytes / 1_024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
            _ => write!(f, "{:.1} GiB", bytes / 1_073_741_824.0),
        }
    }
}

/// The counters of one slot while it runs; times in nanoseconds. Only whoever serves the slot writes to
/// them, so that counting needs no locked instructions.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) starts: AtomicU64,
    pub(crate) inits: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) failed_rows: AtomicU64,
    pub(crate) splits: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) wait: AtomicU64,
    pub(crate) copy_in: AtomicU64,
    pub(crate) guest: AtomicU64,
    pub(crate) copy_out: AtomicU64,
    pub(crate) init: AtomicU64,
    pub(crate) peak_memory: AtomicU64,
}

/// Adds to a counter of the slot that is being served.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(n);
    counter.store(sum, Ordering::Relaxed);
}

/// Raises a counter of the slot that is being served.
pub(crate) fn raise(counter: &AtomicU64, n: u64) {
    if counter.load(Ordering::Relaxed) < n {
        counter.store(n, Ordering::Relaxed);
    }
}

/// Adds to a time.
pub(crate) fn add_time(counter: &AtomicU64, time: Duration) {
    add(counter, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// What the slots of a pool counted together.
pub(crate) fn snapshot(slots: &[Counters], pool: &str, module: &str) -> PoolMetrics {
    let each = |of: fn(&Counters) -> &AtomicU64| {
        slots
            .iter()
            .map(move |counters| of(counters).load(Ordering::Relaxed))
    };
    let sum = |of: fn(&Counters) -> &AtomicU64| each(of).fold(0, u64::wrapping_add);
    let seconds = |of: fn(&Counters) -> &AtomicU64| Duration::from_nanos(sum(of)).as_secs_f64();
    PoolMetrics {
        pool: pool.to_owned(),
        module: module.to_owned(),
        slots: slots.len(),
        starts: sum(|c| &c.starts),
        inits: sum(|c| &c.inits),
        restarts: sum(|c| &c.restarts),
        calls: sum(|c| &c.calls),
        rows: sum(|c| &c.rows),
        failed_rows: sum(|c| &c.failed_rows),
        splits: sum(|c| &c.splits),
        bytes_in: sum(|c| &c.bytes_in),
        bytes_out: sum(|c| &c.bytes_out),
        wait_seconds: seconds(|c| &c.wait),
        copy_in_seconds: seconds(|c| &c.copy_in),
        guest_seconds: seconds(|c| &c.guest),
        copy_out_seconds: seconds(|c| &c.copy_out),
        init_seconds: seconds(|c| &c.init),
        peak_memory_bytes: each(|c| &c.peak_memory).max().unwrap_or(0),
    }
}
