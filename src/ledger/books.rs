//! The account itself: who holds what. Nothing in here waits or locks.
//!
//! Sums cannot overflow, since no more is reserved than the machine has; the arithmetic saturates so
//! that a mistake shows in [`Ledger::usage`](super::Ledger::usage) and not as a panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pack::Room;
use super::request::PoolRequest;
use super::usage::{DeviceUsage, LedgerHolder};
use super::{Machine, Share};

/// A slot's part of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceAssignment {
    /// Which of the machine's devices, counted from 0.
    pub device: usize,
    /// The device's name.
    pub name: Arc<str>,
    /// How much of it.
    pub share: Share,
    /// Bytes of its memory.
    pub memory: u64,
}

/// Which pool holds something; given out once and never again.
pub(super) type HolderId = u64;

pub(super) struct Books {
    pub(super) machine: Arc<Machine>,
    /// The devices' names, to be shared by assignments.
    pub(super) names: Vec<Arc<str>>,
    /// Bytes that nobody holds.
    pub(super) free_memory: u64,
    /// What nobody holds of each device.
    pub(super) rooms: Vec<Room>,
    holders: BTreeMap<HolderId, Entry>,
    next: HolderId,
}

struct Entry {
    holder: LedgerHolder,
    /// Reservations that are still there: slots and the queue.
    parts: usize,
}

impl Books {
    /// Nothing is held.
    pub(super) fn new(machine: Arc<Machine>) -> Books {
        let whole = |memory| Room {
            share: Share::ONE.as_thousandths(),
            memory,
        };
        Books {
            names: machine
                .devices
                .iter()
                .map(|d| d.name.as_str().into())
                .collect(),
            free_memory: machine.memory,
            rooms: machine.devices.iter().map(|d| whole(d.memory)).collect(),
            machine,
            holders: BTreeMap::new(),
            next: 0,
        }
    }

    /// Enters what one pool holds; `placement` is where its slots lie and has been found to fit.
    pub(super) fn enter(
        &mut self,
        run: &str,
        request: &PoolRequest,
        placement: &[Vec<DeviceAssignment>],
    ) -> HolderId {
        let slots = u64::try_from(request.slots).unwrap_or(u64::MAX);
        let memory = request
            .memory
            .saturating_mul(slots)
            .saturating_add(request.queue_bytes);
        self.free_memory = self.free_memory.saturating_sub(memory);
        let mut holder = LedgerHolder {
            run: run.to_owned(),
            pool: request.pool.clone(),
            slots: request.slots,
            lost_slots: 0,
            memory,
            gpus: Share::ZERO,
            device_memory: 0,
            cpus_per_slot: request.resources.cpus,
        };
        for part in placement.iter().flatten() {
            if let Some(room) = self.rooms.get_mut(part.device) {
                room.share = room.share.saturating_sub(part.share.as_thousandths());
                room.memory = room.memory.saturating_sub(part.memory);
            }
            holder.gpus = holder.gpus.plus(part.share);
            holder.device_memory = holder.device_memory.saturating_add(part.memory);
        }
        let id = self.next;
        self.next = id.saturating_add(1);
        let parts = request.slots.saturating_add(1);
        self.holders.insert(id, Entry { holder, parts });
        id
    }

    /// Takes back what a slot had.
    pub(super) fn take_back_slot(
        &mut self,
        id: HolderId,
        memory: u64,
        devices: &[DeviceAssignment],
        lost: bool,
    ) {
        for part in devices {
            if let Some(room) = self.rooms.get_mut(part.device) {
                room.share = room.share.saturating_add(part.share.as_thousandths());
                room.memory = room.memory.saturating_add(part.memory);
            }
        }
        self.take_back(id, memory, |holder| {
            holder.slots = holder.slots.saturating_sub(1);
            holder.lost_slots = holder.lost_slots.saturating_sub(lost.into());
            for part in devices {
                holder.gpus = holder.gpus.minus(part.share);
                holder.device_memory = holder.device_memory.saturating_sub(part.memory);
            }
        });
    }

    /// Takes back what a pool's queues had.
    pub(super) fn take_back_queue(&mut self, id: HolderId, memory: u64) {
        self.take_back(id, memory, |_| ());
    }

    fn take_back(&mut self, id: HolderId, memory: u64, change: impl FnOnce(&mut LedgerHolder)) {
        self.free_memory = self.free_memory.saturating_add(memory);
        if let Some(entry) = self.holders.get_mut(&id) {
            entry.holder.memory = entry.holder.memory.saturating_sub(memory);
            change(&mut entry.holder);
            entry.parts = entry.parts.saturating_sub(1);
            if entry.parts == 0 {
                self.holders.remove(&id);
            }
        }
    }

    /// Counts one of a pool's slots as lost.
    pub(super) fn mark_lost(&mut self, id: HolderId) {
        if let Some(entry) = self.holders.get_mut(&id) {
            entry.holder.lost_slots = entry.holder.lost_slots.saturating_add(1);
        }
    }

    /// Bytes that are held.
    pub(super) fn held_memory(&self) -> u64 {
        self.machine.memory.saturating_sub(self.free_memory)
    }

    /// What is held of each device.
    pub(super) fn held_devices(&self) -> Vec<DeviceUsage> {
        let held = |(device, room): (&super::DeviceTotal, &Room)| DeviceUsage {
            name: device.name.clone(),
            share: Share::ONE.minus(Share::thousandths(room.share)),
            memory: device.memory.saturating_sub(room.memory),
        };
        self.machine
            .devices
            .iter()
            .zip(&self.rooms)
            .map(held)
            .collect()
    }

    /// Who holds something, in the order of admission.
    pub(super) fn holders(&self) -> impl Iterator<Item = &LedgerHolder> {
        self.holders.values().map(|entry| &entry.holder)
    }
}
