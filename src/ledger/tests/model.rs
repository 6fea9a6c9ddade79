//! Random reserving and giving back, beside a list of what is there.

use proptest::prelude::*;

use super::*;

/// What a test does next; numbers choose among what is there.
#[derive(Debug, Clone)]
enum Step {
    Admit(Vec<PoolRequest>),
    DropSlot(usize),
    DropQueue(usize),
    LoseSlot(usize),
    DropAll,
}

fn request() -> impl Strategy<Value = PoolRequest> {
    let gpus = prop_oneof![Just(0u32), 1..=1_000u32, (1..=2u32).prop_map(|n| n * 1_000)];
    (0..4usize, 0..4u64, gpus, 0..30u64, 0..3u64).prop_map(
        |(slots, memory, gpus, device_memory, queue)| {
            let device_memory = if gpus == 0 { 0 } else { device_memory };
            let mut request = gpu_pool("p", slots, gpus, device_memory);
            request.memory = memory * GIB;
            request.queue_bytes = queue * MIB;
            request
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec(request(), 1..4).prop_map(Step::Admit),
        4 => any::<usize>().prop_map(Step::DropSlot),
        1 => any::<usize>().prop_map(Step::DropQueue),
        1 => any::<usize>().prop_map(Step::LoseSlot),
        1 => Just(Step::DropAll),
    ]
}

/// A slot, what it was given, and whether it is lost.
struct SlotThere {
    guard: SlotReservation,
    memory: u64,
    lost: bool,
}

/// A queue and its bytes.
struct QueueThere {
    _guard: QueueReservation,
    memory: u64,
}

#[derive(Default)]
struct Model {
    slots: Vec<SlotThere>,
    queues: Vec<QueueThere>,
}

impl Model {
    fn add(&mut self, requests: &[PoolRequest], held: Vec<PoolReservation>) {
        for (request, held) in requests.iter().zip(held) {
            assert_eq!(held.slots.len(), request.slots);
            self.slots
                .extend(held.slots.into_iter().map(|guard| SlotThere {
                    guard,
                    memory: request.memory,
                    lost: false,
                }));
            self.queues.push(QueueThere {
                _guard: held.queue,
                memory: request.queue_bytes,
            });
        }
    }

    fn check(&self, ledger: &Ledger) -> Result<(), TestCaseError> {
        let usage = ledger.usage();
        let memory = self.slots.iter().map(|s| s.memory).sum::<u64>()
            + self.queues.iter().map(|q| q.memory).sum::<u64>();
        prop_assert_eq!(usage.memory, memory);
        prop_assert!(memory <= usage.machine.memory);
        let sum = |of: fn(&LedgerHolder) -> u64| usage.holders.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|h| h.memory), memory);
        prop_assert_eq!(sum(|h| h.slots as u64), self.slots.len() as u64);
        let lost = self.slots.iter().filter(|s| s.lost).count();
        prop_assert_eq!(sum(|h| h.lost_slots as u64), lost as u64);

        let parts = || self.slots.iter().flat_map(|s| s.guard.devices());
        for (number, device) in usage.devices.iter().enumerate() {
            let here = || parts().filter(|part| part.device == number);
            let share: u32 = here().map(|part| part.share.as_thousandths()).sum();
            let memory: u64 = here().map(|part| part.memory).sum();
            prop_assert_eq!(device.share.as_thousandths(), share);
            prop_assert_eq!(device.memory, memory);
            prop_assert!(share <= 1_000 && memory <= usage.machine.devices[number].memory);
        }
        let shares: u64 = parts()
            .map(|part| u64::from(part.share.as_thousandths()))
            .sum();
        prop_assert_eq!(sum(|h| h.gpus.as_thousandths().into()), shares);
        prop_assert_eq!(
            sum(|h| h.device_memory),
            parts().map(|part| part.memory).sum::<u64>()
        );
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_account_is_the_sum_of_what_is_there(steps in prop::collection::vec(step(), 1..60)) {
        let ledger = ledger(16, 2);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Admit(requests) => {
                    let before = ledger.usage();
                    match admit(&ledger, "r", &requests) {
                        Ok(held) => model.add(&requests, held),
                        Err(_) => prop_assert_eq!(ledger.usage(), before),
                    }
                }
                Step::DropSlot(n) if !model.slots.is_empty() => {
                    let n = n % model.slots.len();
                    model.slots.swap_remove(n);
                }
                Step::DropQueue(n) if !model.queues.is_empty() => {
                    let n = n % model.queues.len();
                    model.queues.swap_remove(n);
                }
                Step::LoseSlot(n) if !model.slots.is_empty() => {
                    let n = n % model.slots.len();
                    model.slots[n].guard.mark_lost();
                    model.slots[n].lost = true;
                }
                Step::DropAll => model = Model::default(),
                Step::DropSlot(_) | Step::DropQueue(_) | Step::LoseSlot(_) => {}
            }
            model.check(&ledger)?;
        }
        drop(model);
        prop_assert_eq!(ledger.usage(), super::ledger(16, 2).usage());
    }
}
