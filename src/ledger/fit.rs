//! Whether the pools of a run fit beside what others hold, and if not, all that is missing.

use super::books::{Books, DeviceAssignment};
use super::pack::{Item, Room, pack};
use super::request::PoolRequest;
use super::shortage::{Amount, Held, Requested, Resource, Shortage, ShortageCause};
use super::usage::LedgerHolder;
use super::{Share, SlotResources};

/// The devices of each slot of each pool, in the order of the requests.
pub(super) type Placement = Vec<Vec<Vec<DeviceAssignment>>>;

impl Books {
    /// Where everything would lie, or all that is missing. `never` is whether these books are those of
    /// an empty machine.
    pub(super) fn fit(
        &self,
        requests: &[PoolRequest],
        never: bool,
    ) -> Result<Placement, Vec<Shortage>> {
        let check = Check { books: self, never };
        let mut shortages = Vec::new();
        shortages.extend(check.cpus(requests));
        shortages.extend(check.memory(requests));
        let placement = check.devices(requests, &mut shortages);
        match placement {
            Some(placement) if shortages.is_empty() => Ok(placement),
            _ => Err(shortages),
        }
    }
}

struct Check<'b> {
    books: &'b Books,
    never: bool,
}

impl Check<'_> {
    /// CPU is not reserved, but a single call has to fit the machine.
    fn cpus(&self, requests: &[PoolRequest]) -> Option<Shortage> {
        let most = self.books.machine.cpus;
        let hungry: Vec<&PoolRequest> = requests
            .iter()
            .filter(|request| request.slots > 0 && request.resources.cpus > most)
            .collect();
        let needed = hungry.iter().map(|request| request.resources.cpus).max()?;
        Some(Shortage {
            resource: Resource::Cpu,
            cause: ShortageCause::TooMuch,
            never: self.never,
            requests: requested(&hungry, |request| Amount::Share(request.resources.cpus)),
            needed: Amount::Share(needed),
            free: Amount::Share(most),
            total: Amount::Share(most),
            held_by: Vec::new(),
        })
    }

    fn memory(&self, requests: &[PoolRequest]) -> Option<Shortage> {
        let needed = sum(requests.iter().map(|request| {
            product(request.slots, request.memory)?.checked_add(request.queue_bytes)
        }));
        if needed.is_some_and(|needed| needed <= self.books.free_memory) {
            return None;
        }
        let asking: Vec<&PoolRequest> = requests
            .iter()
            .filter(|r| (r.slots > 0 && r.memory > 0) || r.queue_bytes > 0)
            .collect();
        let mut requests = requested(&asking, |request| Amount::Bytes(request.memory));
        for (requested, request) in requests.iter_mut().zip(&asking) {
            requested.queue_bytes = request.queue_bytes;
        }
        Some(Shortage {
            resource: Resource::Memory,
            cause: ShortageCause::TooMuch,
            never: self.never,
            requests,
            needed: Amount::Bytes(needed.unwrap_or(u64::MAX)),
            free: Amount::Bytes(self.books.free_memory),
            total: Amount::Bytes(self.books.machine.memory),
            held_by: self.held(Resource::Memory),
        })
    }

    /// Finds devices for all slots that want some; adds what is missing to `shortages`.
    fn devices(
        &self,
        requests: &[PoolRequest],
        shortages: &mut Vec<Shortage>,
    ) -> Option<Placement> {
        let mut asking = Vec::new();
        let mut fractions = Vec::new();
        let mut homeless = Vec::new();
        for request in requests.iter().filter(|request| request.slots > 0) {
            let SlotResources {
                gpus,
                device_memory,
                ..
            } = request.resources;
            if gpus > Share::ONE && !gpus.is_whole() {
                fractions.push(request);
            } else if gpus > Share::ZERO {
                asking.push(request);
            } else if device_memory > 0 {
                homeless.push(request);
            }
        }
        if !fractions.is_empty() {
            shortages.push(self.gpu_shortage(ShortageCause::NotWhole, &fractions));
        }
        if !homeless.is_empty() {
            shortages.push(self.device_memory_shortage(ShortageCause::NoDevice, &homeless));
        }
        let placed = self.place(&asking, shortages)?;

        let mut placed = placed.into_iter();
        let placement = requests.iter().map(|request| {
            (0..request.slots)
                .map(|_| {
                    let parts = parts_of(request);
                    placed.by_ref().take(parts).collect()
                })
                .collect()
        });
        Some(placement.collect())
    }

    /// A place for each part of each slot, one after the other; adds what is missing to `shortages`.
    fn place(
        &self,
        asking: &[&PoolRequest],
        shortages: &mut Vec<Shortage>,
    ) -> Option<Vec<DeviceAssignment>> {
        let rooms = &self.books.rooms;
        let (free_gpus, free_memory) = (self.free_gpus(), self.free_device_memory());
        let needed = needed_gpus(asking);
        let needed_memory = needed_device_memory(asking);

        // Only now is the number of parts known to be small.
        let items = needed
            .filter(|needed| *needed <= u64::from(free_gpus.as_thousandths()))
            .map(|_| items(asking));
        let without_memory: Option<Vec<Item>> = items.as_ref().map(|items| {
            items
                .iter()
                .map(|item| Item { memory: 0, ..*item })
                .collect()
        });
        let gpu_cause = match &without_memory {
            None => Some(ShortageCause::TooMuch),
            Some(items) => pack(rooms, items)
                .is_none()
                .then_some(ShortageCause::Scattered),
        };
        let roomiest = rooms.iter().map(|room| room.memory).max().unwrap_or(0);
        let memory_cause = if needed_memory.is_none_or(|needed| needed > free_memory) {
            Some(ShortageCause::TooMuch)
        } else if asking.iter().any(|r| r.resources.device_memory > roomiest) {
            Some(ShortageCause::Scattered)
        } else {
            None
        };
        if let Some(cause) = gpu_cause {
            shortages.push(self.gpu_shortage(cause, asking));
        }
        if let Some(cause) = memory_cause {
            shortages.push(self.device_memory_shortage(cause, asking));
        }
        if gpu_cause.is_some() || memory_cause.is_some() {
            return None;
        }

        let items = items?;
        let Some(devices) = pack(rooms, &items) else {
            // There is enough of either, but not of both in one place. Who holds one of them is to blame.
            let cause = ShortageCause::Scattered;
            let memory_is_held = self.books.holders().any(|holder| holder.device_memory > 0);
            shortages.push(if self.never || memory_is_held {
                self.device_memory_shortage(cause, asking)
            } else {
                self.gpu_shortage(cause, asking)
            });
            return None;
        };
        let assign = |(device, item): (usize, Item)| {
            Some(DeviceAssignment {
                device,
                name: self.books.names.get(device)?.clone(),
                share: Share::thousandths(item.share),
                memory: item.memory,
            })
        };
        devices.into_iter().zip(items).map(assign).collect()
    }

    fn gpu_shortage(&self, cause: ShortageCause, asking: &[&PoolRequest]) -> Shortage {
        let total = Share::ONE.times(self.books.machine.devices.len());
        let needed = needed_gpus(asking).and_then(|needed| u32::try_from(needed).ok());
        Shortage {
            resource: Resource::Gpu,
            cause,
            never: self.never,
            requests: requested(asking, |request| Amount::Share(request.resources.gpus)),
            needed: Amount::Share(Share::thousandths(needed.unwrap_or(u32::MAX))),
            free: Amount::Share(self.free_gpus()),
            total: Amount::Share(total),
            held_by: self.held(Resource::Gpu),
        }
    }

    fn device_memory_shortage(&self, cause: ShortageCause, asking: &[&PoolRequest]) -> Shortage {
        let asking: Vec<&PoolRequest> = asking
            .iter()
            .copied()
            .filter(|request| request.resources.device_memory > 0)
            .collect();
        let needed = match cause {
            ShortageCause::NoDevice => sum(asking
                .iter()
                .map(|r| product(r.slots, r.resources.device_memory))),
            _ => needed_device_memory(&asking),
        };
        let devices = &self.books.machine.devices;
        let total = sum(devices.iter().map(|device| Some(device.memory)));
        Shortage {
            resource: Resource::DeviceMemory,
            cause,
            never: self.never,
            requests: requested(&asking, |request| {
                Amount::Bytes(request.resources.device_memory)
            }),
            needed: Amount::Bytes(needed.unwrap_or(u64::MAX)),
            free: Amount::Bytes(self.free_device_memory()),
            total: Amount::Bytes(total.unwrap_or(u64::MAX)),
            held_by: self.held(Resource::DeviceMemory),
        }
    }

    fn free_gpus(&self) -> Share {
        let shares = self
            .books
            .rooms
            .iter()
            .map(|room| Share::thousandths(room.share));
        shares.fold(Share::ZERO, Share::plus)
    }

    fn free_device_memory(&self) -> u64 {
        let free = self.books.rooms.iter().map(|room| Some(room.memory));
        sum(free).unwrap_or(u64::MAX)
    }

    /// Who has some of a resource.
    fn held(&self, resource: Resource) -> Vec<Held> {
        let amount = |holder: &LedgerHolder| match resource {
            Resource::Cpu => None,
            Resource::Memory => Some(holder.memory).filter(|n| *n > 0).map(Amount::Bytes),
            Resource::Gpu => Some(holder.gpus)
                .filter(|n| *n > Share::ZERO)
                .map(Amount::Share),
            Resource::DeviceMemory => Some(holder.device_memory)
                .filter(|n| *n > 0)
                .map(Amount::Bytes),
        };
        let held = |holder: &LedgerHolder| {
            Some(Held {
                run: holder.run.clone(),
                pool: holder.pool.clone(),
                amount: amount(holder)?,
                lost_slots: holder.lost_slots,
            })
        };
        self.books.holders().filter_map(held).collect()
    }
}

fn requested(asking: &[&PoolRequest], each: impl Fn(&PoolRequest) -> Amount) -> Vec<Requested> {
    let one = |request: &&PoolRequest| Requested {
        pool: request.pool.clone(),
        slots: request.slots,
        each: each(request),
        queue_bytes: 0,
    };
    asking.iter().map(one).collect()
}

/// On how many devices each slot lies.
fn parts_of(request: &PoolRequest) -> usize {
    let thousandths = request.resources.gpus.as_thousandths();
    let parts = thousandths.div_ceil(Share::ONE.as_thousandths());
    usize::try_from(parts).unwrap_or(usize::MAX)
}

/// The parts of all slots: a share of one device, or a number of whole devices.
fn items(asking: &[&PoolRequest]) -> Vec<Item> {
    let mut items = Vec::new();
    for request in asking {
        let SlotResources {
            gpus,
            device_memory,
            ..
        } = request.resources;
        let part = Room {
            share: gpus.min(Share::ONE).as_thousandths(),
            memory: device_memory,
        };
        let parts = request.slots.saturating_mul(parts_of(request));
        items.extend(std::iter::repeat_n(part, parts));
    }
    items
}

/// Thousandths of devices; `None` when they cannot be counted.
fn needed_gpus(asking: &[&PoolRequest]) -> Option<u64> {
    sum(asking.iter().map(|request| {
        product(
            request.slots,
            u64::from(request.resources.gpus.as_thousandths()),
        )
    }))
}

/// Bytes; `None` when they cannot be counted.
fn needed_device_memory(asking: &[&PoolRequest]) -> Option<u64> {
    sum(asking.iter().map(|request| {
        let parts = request.slots.checked_mul(parts_of(request))?;
        product(parts, request.resources.device_memory)
    }))
}

fn product(count: usize, each: u64) -> Option<u64> {
    u64::try_from(count).ok()?.checked_mul(each)
}

fn sum(mut parts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    parts.try_fold(0u64, |sum, part| sum.checked_add(part?))
}
