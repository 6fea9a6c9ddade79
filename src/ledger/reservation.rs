//! What an admitted pool holds: guards that give back when they are dropped, in any order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::books::{DeviceAssignment, HolderId};
use super::{Inner, PoolRequest};

/// What one pool holds.
#[derive(Debug)]
pub(crate) struct PoolReservation {
    /// One for each slot.
    pub slots: Vec<SlotReservation>,
    /// The pool's queues.
    pub queue: QueueReservation,
}

impl PoolReservation {
    /// What has just been entered into the books as `holder`'s.
    pub(super) fn new(
        ledger: &Arc<Inner>,
        holder: HolderId,
        request: &PoolRequest,
        placement: Vec<Vec<DeviceAssignment>>,
    ) -> PoolReservation {
        let slot = |devices| SlotReservation {
            ledger: Arc::clone(ledger),
            holder,
            memory: request.memory,
            devices,
            lost: AtomicBool::new(false),
        };
        PoolReservation {
            slots: placement.into_iter().map(slot).collect(),
            queue: QueueReservation {
                ledger: Arc::clone(ledger),
                holder,
                memory: request.queue_bytes,
            },
        }
    }
}

/// Memory and devices of one slot.
#[derive(Debug)]
pub(crate) struct SlotReservation {
    ledger: Arc<Inner>,
    holder: HolderId,
    /// Bytes.
    memory: u64,
    devices: Vec<DeviceAssignment>,
    lost: AtomicBool,
}

impl SlotReservation {
    /// The devices that the slot may use, and how much of each.
    #[cfg(test)]
    pub(crate) fn devices(&self) -> &[DeviceAssignment] {
        &self.devices
    }

    /// Shows the slot as lost until the reservation is dropped: its thread has not returned, so that
    /// what it has cannot be given back.
    pub(crate) fn mark_lost(&self) {
        if !self.lost.swap(true, Ordering::Relaxed) {
            self.ledger.lock().books.mark_lost(self.holder);
        }
    }
}

impl Drop for SlotReservation {
    fn drop(&mut self) {
        let lost = self.lost.load(Ordering::Relaxed);
        self.ledger.change(|state| {
            let books = &mut state.books;
            books.take_back_slot(self.holder, self.memory, &self.devices, lost);
        });
    }
}

/// Memory of a pool's queues.
#[derive(Debug)]
pub(crate) struct QueueReservation {
    ledger: Arc<Inner>,
    holder: HolderId,
    /// Bytes.
    memory: u64,
}

impl Drop for QueueReservation {
    fn drop(&mut self) {
        self.ledger
            .change(|state| state.books.take_back_queue(self.holder, self.memory));
    }
}
