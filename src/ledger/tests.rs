//! Admission through the ledger's own face: what fits, what does not and how it is said, waiting.

mod model;
mod refusals;
mod waiting;

use std::time::Duration;

use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn never() -> bool {
    false
}

/// A machine of 4 CPUs, with memory in GiB and devices of 80 GiB each.
fn machine(memory: u64, devices: usize) -> Machine {
    let device = |number| DeviceTotal {
        name: format!("gpu{number}"),
        memory: 80 * GIB,
    };
    Machine {
        cpus: Share::whole(4),
        memory: memory * GIB,
        devices: (0..devices).map(device).collect(),
    }
}

fn ledger(memory: u64, devices: usize) -> Ledger {
    Ledger::new(machine(memory, devices))
}

/// A pool without devices, with GiB of memory for each slot and no queue.
fn pool(name: &str, slots: usize, memory: u64) -> PoolRequest {
    PoolRequest {
        pool: name.to_owned(),
        slots,
        memory: memory * GIB,
        resources: SlotResources::default(),
        queue_bytes: 0,
    }
}

/// A pool of which each slot has thousandths of devices and GiB of device memory, and no other memory.
fn gpu_pool(name: &str, slots: usize, gpus: u32, device_memory: u64) -> PoolRequest {
    let mut request = pool(name, slots, 0);
    request.resources.gpus = Share::thousandths(gpus);
    request.resources.device_memory = device_memory * GIB;
    request
}

/// Admits at once or fails.
fn admit(
    ledger: &Ledger,
    run: &str,
    requests: &[PoolRequest],
) -> Result<Vec<PoolReservation>, AdmissionError> {
    ledger.admit(run, requests, Admission::Fail, &never, &never)
}

/// The devices of each slot, by number.
fn devices(reservation: &PoolReservation) -> Vec<Vec<usize>> {
    let numbers = |slot: &SlotReservation| slot.devices().iter().map(|d| d.device).collect();
    reservation.slots.iter().map(numbers).collect()
}

#[test]
fn what_is_admitted_is_held_until_its_guards_are_dropped() {
    let ledger = ledger(16, 0);
    let mut score = pool("score", 2, 4);
    score.queue_bytes = 64 * MIB;
    let mut held = admit(&ledger, "r1", &[score]).unwrap();

    let usage = ledger.usage();
    assert_eq!(usage.memory, 8 * GIB + 64 * MIB);
    assert_eq!(usage.holders.len(), 1);
    let holder = &usage.holders[0];
    assert_eq!((holder.run.as_str(), holder.pool.as_str()), ("r1", "score"));
    assert_eq!((holder.slots, holder.cpus_per_slot), (2, Share::ONE));

    let PoolReservation { mut slots, queue } = held.remove(0);
    slots.pop();
    assert_eq!(ledger.usage().memory, 4 * GIB + 64 * MIB);
    drop(queue);
    assert_eq!(ledger.usage().memory, 4 * GIB);
    drop(slots);
    assert_eq!(ledger.usage(), Ledger::new(machine(16, 0)).usage());
}

#[test]
fn all_pools_of_a_run_are_admitted_or_none() {
    let ledger = ledger(16, 1);
    let first = admit(&ledger, "r1", &[pool("a", 2, 4)]).unwrap();
    let before = ledger.usage();
    // The first fits, the second does not, and the third would.
    let requests = [pool("b", 1, 4), pool("c", 1, 6), gpu_pool("d", 1, 500, 1)];
    admit(&ledger, "r2", &requests).unwrap_err();
    assert_eq!(ledger.usage(), before);

    drop(first);
    let held = admit(&ledger, "r2", &requests).unwrap();
    assert_eq!(held.len(), 3);
    assert_eq!(ledger.usage().memory, 10 * GIB);
}

#[test]
fn slots_may_outnumber_cpus() {
    admit(&ledger(16, 0), "r1", &[pool("a", 64, 0)]).unwrap();
}

#[test]
fn shares_of_a_device_are_packed_and_whole_devices_stay_whole() {
    let ledger = ledger(1, 3);
    let held = admit(
        &ledger,
        "r1",
        &[
            gpu_pool("half", 2, 500, 8),
            gpu_pool("most", 1, 600, 8),
            gpu_pool("one", 1, 1_000, 8),
        ],
    )
    .unwrap();
    let half = devices(&held[0]);
    assert_eq!(half[0], half[1]);
    let mut all = [
        half[0].clone(),
        devices(&held[1])[0].clone(),
        devices(&held[2])[0].clone(),
    ];
    all.sort();
    assert_eq!(all, [[0], [1], [2]]);

    let usage = ledger.usage();
    let shares: Vec<u32> = usage
        .devices
        .iter()
        .map(|d| d.share.as_thousandths())
        .collect();
    assert_eq!(shares.iter().sum::<u32>(), 2_600);
    assert_eq!(
        usage.devices.iter().map(|d| d.memory).sum::<u64>(),
        32 * GIB
    );
    assert_eq!(usage.holders[0].gpus, Share::ONE);
    assert_eq!(usage.holders[0].device_memory, 16 * GIB);
}

#[test]
fn a_slot_of_several_devices_has_each_of_them_to_itself() {
    let ledger = ledger(1, 3);
    let small = admit(&ledger, "r1", &[gpu_pool("small", 1, 1, 0)]).unwrap();
    let large = admit(&ledger, "r2", &[gpu_pool("large", 1, 2_000, 40)]).unwrap();
    let part = large[0].slots[0].devices();
    assert_eq!(part.len(), 2);
    assert!(
        part.iter()
            .all(|d| d.share == Share::ONE && d.memory == 40 * GIB)
    );
    assert!(!devices(&large[0])[0].contains(&devices(&small[0])[0][0]));
    assert_eq!(&*part[0].name, format!("gpu{}", part[0].device));
}

#[test]
fn a_lost_slot_is_shown_as_lost_until_it_is_given_back() {
    let ledger = ledger(16, 0);
    let mut held = admit(&ledger, "r1", &[pool("score", 2, 4)]).unwrap();
    let slot = held[0].slots.pop().unwrap();
    slot.mark_lost();
    slot.mark_lost();
    drop(held);

    let usage = ledger.usage();
    assert_eq!(usage.holders.len(), 1);
    assert_eq!(
        (usage.holders[0].slots, usage.holders[0].lost_slots),
        (1, 1)
    );
    assert_eq!(usage.memory, 4 * GIB);
    drop(slot);
    assert!(ledger.usage().holders.is_empty());
    assert_eq!(ledger.usage().memory, 0);
}

#[test]
fn cpus_of_running_calls_are_in_the_usage() {
    let ledger = ledger(1, 0);
    let permit = ledger.permit(Share::thousandths(1_500), &never).unwrap();
    assert_eq!(ledger.usage().cpus_in_use, Share::thousandths(1_500));
    drop(permit);
    assert_eq!(ledger.usage().cpus_in_use, Share::ZERO);
}

#[test]
fn the_ledger_of_the_process_is_one() {
    let process = Ledger::process();
    assert_eq!(process.machine(), Ledger::process().machine());
    assert!(Arc::ptr_eq(&process.0, &Ledger::process().0));
}

#[test]
fn the_usage_can_be_serialised() {
    let ledger = ledger(16, 1);
    let _held = admit(&ledger, "r1", &[gpu_pool("score", 1, 500, 1)]).unwrap();
    let json = serde_json::to_value(ledger.usage()).unwrap();
    assert_eq!(json["machine"]["cpus"], 4);
    assert_eq!(json["devices"][0]["share"], 0.5);
    assert_eq!(json["holders"][0]["device_memory"], GIB);
}
