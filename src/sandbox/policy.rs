//! What a guest may use: limits of every entry point and granted folders.

use std::time::Duration;

pub use super::wasi::Grant;

/// Limits and grants of the slots of one pool. The default grants nothing.
///
/// ```
/// use std::time::Duration;
/// use wasmill::Policy;
///
/// let policy = Policy { memory: 64 << 20, call_time: Duration::from_secs(1), ..Policy::default() };
/// assert!(policy.grants.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Linear memory of a slot, in bytes. Default 256 MiB.
    pub memory: u64,
    /// Elements of all tables of a slot. Default 100,000.
    pub table_elements: u64,
    /// Wall time of one call, in which the guest computes one batch. Default 10 s.
    pub call_time: Duration,
    /// Wall time of starting a slot: the start function, `_initialize` and `init` together. Default 60 s.
    pub init_time: Duration,
    /// Wall time of `close`. Default 5 s.
    pub close_time: Duration,
    /// Bytes copied out of the guest per call. Default 256 MiB.
    pub output_bytes: u64,
    /// Bytes of log lines per entry into the guest, 16 more for each line; a line that is over is dropped
    /// and counted. Default 64 KiB.
    pub log_bytes: u64,
    /// Folders that the guest may see through WASI preview 1. Default none.
    pub grants: Vec<Grant>,
    /// Environment variables that the guest sees through WASI preview 1, as names and values. None of
    /// the host's are among them. Default none.
    pub environment: Vec<(String, String)>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            memory: 256 << 20,
            table_elements: 100_000,
            call_time: Duration::from_secs(10),
            init_time: Duration::from_secs(60),
            close_time: Duration::from_secs(5),
            output_bytes: 256 << 20,
            log_bytes: 64 << 10,
            grants: Vec::new(),
            environment: Vec::new(),
        }
    }
}

impl Policy {
    /// The policy under which `bind` runs while a plan is made: nothing granted, little of anything.
    pub(crate) fn planning() -> Self {
        let time = Duration::from_millis(100);
        Policy {
            memory: 16 << 20,
            table_elements: 10_000,
            call_time: time,
            init_time: time,
            close_time: time,
            output_bytes: 1 << 20,
            log_bytes: 4 << 10,
            grants: Vec::new(),
            environment: Vec::new(),
        }
    }
}
