//! What pools ask for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Share;

/// What each slot of a pool needs beside its memory, which is [`Policy::memory`](crate::Policy::memory).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct SlotResources {
    /// CPUs that a call keeps busy while it runs; not reserved, so slots may outnumber CPUs. Default 1.
    pub cpus: Share,
    /// Devices: up to 1 a share of one device, above it a whole number of whole devices. Default 0.
    pub gpus: Share,
    /// Bytes of memory on each device that the slot has a share of. Default 0.
    pub device_memory: u64,
}

impl Default for SlotResources {
    fn default() -> Self {
        SlotResources {
            cpus: Share::ONE,
            gpus: Share::ZERO,
            device_memory: 0,
        }
    }
}

/// What becomes of a run for which there is no room at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It fails at once.
    Fail,
    /// It waits in line, for so long at the most.
    Wait(Duration),
}

impl Default for Admission {
    /// Waits for 30 seconds.
    fn default() -> Self {
        Admission::Wait(Duration::from_secs(30))
    }
}

/// What one pool of a run asks for.
#[derive(Debug, Clone)]
pub(crate) struct PoolRequest {
    /// The pool's name.
    pub pool: String,
    /// How many slots.
    pub slots: usize,
    /// Bytes of memory of each slot.
    pub memory: u64,
    /// What each slot needs beside memory.
    pub resources: SlotResources,
    /// Bytes of the pool's queues, all slots together.
    pub queue_bytes: u64,
}
