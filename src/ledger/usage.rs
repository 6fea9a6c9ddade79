//! What a ledger looks like at a moment.

use serde::Serialize;

use super::{Machine, Share};

/// What is reserved and by whom, at the moment when [`Ledger::usage`](super::Ledger::usage) was called.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LedgerUsage {
    /// What there is.
    pub machine: Machine,
    /// Bytes of memory that are reserved.
    pub memory: u64,
    /// What is reserved of each device, in the machine's order.
    pub devices: Vec<DeviceUsage>,
    /// CPUs that running calls keep busy.
    pub cpus_in_use: Share,
    /// The pools that hold something, in the order in which they were admitted.
    pub holders: Vec<LedgerHolder>,
    /// Runs that wait for room.
    pub waiting: usize,
}

/// What is reserved of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeviceUsage {
    /// The device's name.
    pub name: String,
    /// How much of it.
    pub share: Share,
    /// Bytes of its memory.
    pub memory: u64,
}

/// What a pool holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LedgerHolder {
    /// The run that the pool was admitted for.
    pub run: String,
    /// The pool's name.
    pub pool: String,
    /// Slots that are there, lost ones included.
    pub slots: usize,
    /// Slots whose thread has not returned, although nobody uses them any more.
    pub lost_slots: usize,
    /// Bytes of memory, of slots and queues.
    pub memory: u64,
    /// Devices, all slots together.
    pub gpus: Share,
    /// Bytes of device memory, all slots together.
    pub device_memory: u64,
    /// CPUs that each slot's call keeps busy while it runs.
    pub cpus_per_slot: Share,
}
