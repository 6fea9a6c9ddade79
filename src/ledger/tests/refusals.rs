use super::*;

/// The lines of a refusal that no waiting would change.
fn never_fits(ledger: &Ledger, requests: &[PoolRequest]) -> String {
    // Whatever admission says, it is told at once.
    let long = Admission::Wait(Duration::from_secs(3_600));
    let error = ledger
        .admit("r1", requests, long, &never, &never)
        .unwrap_err();
    assert!(matches!(error, AdmissionError::Never { .. }), "{error}");
    let text = error.to_string();
    let lines = text
        .strip_prefix("run r1 can never fit this machine\n  ")
        .unwrap();
    lines.to_owned()
}

fn not_now(ledger: &Ledger, requests: &[PoolRequest]) -> String {
    let error = admit(ledger, "r9", requests).unwrap_err();
    assert!(matches!(error, AdmissionError::NotNow { .. }), "{error}");
    assert_eq!(error.class(), crate::ErrorClass::Limit);
    let text = error.to_string();
    let lines = text.strip_prefix("run r9 does not fit now\n  ").unwrap();
    lines.to_owned()
}

#[test]
fn more_memory_than_the_machine_has_never_fits() {
    let ledger = Ledger::new(Machine {
        memory: 25_125_558_681,
        ..machine(0, 0)
    });
    assert_eq!(
        never_fits(&ledger, &[pool("score", 8, 4)]),
        "memory: 8 slots of 4 GiB of pool score need 32 GiB, the machine has 23.4 GiB; \
         lower --memory or --slots (Policy::memory, PoolBuilder::slots)"
    );
}

#[test]
fn queues_count_and_each_pool_is_named() {
    let mut embed = pool("embed", 1, 4);
    embed.queue_bytes = 512 * MIB;
    assert_eq!(
        never_fits(&ledger(16, 0), &[pool("score", 3, 4), embed]),
        "memory: 3 slots of 4 GiB of pool score and 1 slot of 4 GiB and 512 MiB of queue of pool \
         embed need 16.5 GiB, the machine has 16 GiB; \
         lower --memory or --slots (Policy::memory, PoolBuilder::slots)"
    );
}

#[test]
fn a_sum_of_memory_that_cannot_be_counted_never_fits() {
    let ledger = Ledger::new(Machine {
        memory: u64::MAX,
        ..machine(0, 0)
    });
    let mut huge = pool("huge", 3, 0);
    huge.memory = u64::MAX / 2;
    assert!(never_fits(&ledger, &[huge]).contains("need 16 EiB"));
    let mut queue = pool("queue", 1, 0);
    queue.memory = u64::MAX;
    queue.queue_bytes = 1;
    never_fits(&ledger, &[queue]);
}

#[test]
fn a_slot_of_more_cpus_than_the_machine_has_never_fits() {
    let mut wide = pool("wide", 1, 1);
    wide.resources.cpus = Share::thousandths(4_500);
    assert_eq!(
        never_fits(&ledger(16, 0), &[wide]),
        "CPU: 1 slot of 4.5 of pool wide needs up to 4.5 for each call, the machine has 4; \
         lower --cpus (SlotResources::cpus)"
    );
}

#[test]
fn devices_that_are_not_there_never_fit() {
    assert_eq!(
        never_fits(&ledger(16, 0), &[gpu_pool("net", 1, 500, 0)]),
        "GPU: 1 slot of 0.5 of pool net needs 0.5, the machine has none; \
         lower --gpus or --slots (SlotResources::gpus, PoolBuilder::slots)"
    );
    assert_eq!(
        never_fits(&ledger(16, 2), &[gpu_pool("net", 3, 1_000, 0)]),
        "GPU: 3 slots of 1 of pool net need 3, the machine has 2; \
         lower --gpus or --slots (SlotResources::gpus, PoolBuilder::slots)"
    );
}

#[test]
fn shares_that_cannot_be_laid_on_single_devices_never_fit() {
    assert_eq!(
        never_fits(&ledger(16, 2), &[gpu_pool("net", 3, 600, 0)]),
        "GPU: 3 slots of 0.6 of pool net need 1.8, the machine has 2, but not where each slot finds \
         its part on one device; lower --gpus or --slots (SlotResources::gpus, PoolBuilder::slots)"
    );
}

#[test]
fn more_than_one_device_and_not_a_whole_number_never_fits() {
    assert_eq!(
        never_fits(&ledger(16, 4), &[gpu_pool("net", 1, 1_500, 0)]),
        "GPU: 1 slot of 1.5 of pool net needs more than one device, which have to be whole ones; \
         ask for a share up to 1 or for a whole number (--gpus, SlotResources::gpus)"
    );
}

#[test]
fn device_memory_without_a_device_never_fits() {
    assert_eq!(
        never_fits(&ledger(16, 1), &[gpu_pool("net", 2, 0, 1)]),
        "device memory: 2 slots of 1 GiB of pool net need device memory, but no device; \
         ask for a share of a device as well (--gpus, SlotResources::gpus), or for no device memory"
    );
}

#[test]
fn more_device_memory_than_the_devices_have_never_fits() {
    assert_eq!(
        never_fits(&ledger(16, 2), &[gpu_pool("net", 5, 100, 40)]),
        "device memory: 5 slots of 40 GiB of pool net need 200 GiB, the machine has 160 GiB; \
         lower --device-memory or --slots (SlotResources::device_memory, PoolBuilder::slots)"
    );
    let both = never_fits(&ledger(16, 2), &[gpu_pool("net", 1, 2_000, 81)]);
    assert!(
        both.contains("needs 162 GiB, the machine has 160 GiB"),
        "{both}"
    );
    let scattered = "the machine has 160 GiB, but not where each slot finds its part on one device";
    assert!(never_fits(&ledger(16, 2), &[gpu_pool("net", 1, 100, 81)]).contains(scattered));
    // Enough of either for all, but two times 50 GiB do not go on one device.
    let three = [gpu_pool("net", 3, 100, 50)];
    assert!(never_fits(&ledger(16, 2), &three).contains(scattered));
}

#[test]
fn everything_that_is_missing_is_listed() {
    let mut net = gpu_pool("net", 2, 2_000, 100);
    net.memory = 10 * GIB;
    net.resources.cpus = Share::whole(8);
    let lines = never_fits(
        &ledger(16, 1),
        &[net, gpu_pool("odd", 1, 1_001, 0), gpu_pool("bare", 1, 0, 1)],
    );
    let starts: Vec<&str> = lines
        .lines()
        .map(|line| line.trim_start().split(" of ").next().unwrap())
        .collect();
    assert_eq!(
        starts,
        [
            "CPU: 2 slots",
            "memory: 2 slots",
            "GPU: 1 slot",
            "device memory: 1 slot",
            "GPU: 2 slots",
            "device memory: 2 slots",
        ]
    );
}

#[test]
fn requests_beyond_all_bounds_are_refused_without_being_laid_out() {
    let mut mad = gpu_pool("mad", usize::MAX, 4_000_000_000, 0);
    mad.resources.device_memory = u64::MAX;
    mad.memory = u64::MAX;
    let lines = never_fits(&ledger(16, 2), &[mad]);
    assert_eq!(lines.lines().count(), 3);
}

#[test]
fn memory_that_others_hold_names_them() {
    let ledger = ledger(16, 0);
    let score = admit(&ledger, "r1", &[pool("score", 2, 4)]).unwrap();
    let _embed = admit(&ledger, "r2", &[pool("embed", 1, 5)]).unwrap();
    score[0].slots[0].mark_lost();
    assert_eq!(
        not_now(&ledger, &[pool("late", 2, 2)]),
        "memory: 2 slots of 2 GiB of pool late need 4 GiB, 3 GiB of 16 GiB is free, held by \
         r1/score: 8 GiB (lost slots: 1) and r2/embed: 5 GiB; \
         wait longer (--admission wait=…, Admission::Wait) or end a run that holds it"
    );
}

#[test]
fn devices_that_others_hold_name_them() {
    let ledger = ledger(16, 2);
    let _a = admit(&ledger, "r1", &[gpu_pool("a", 2, 600, 10)]).unwrap();
    assert_eq!(
        not_now(&ledger, &[gpu_pool("b", 1, 500, 0)]),
        "GPU: 1 slot of 0.5 of pool b needs 0.5, 0.8 of 2 is free, but not where each slot finds its \
         part on one device, held by r1/a: 1.2; \
         wait longer (--admission wait=…, Admission::Wait) or end a run that holds it"
    );
    let lines = not_now(&ledger, &[gpu_pool("b", 1, 1_000, 75)]);
    assert!(
        lines.contains("GPU: 1 slot of 1 of pool b needs 1, 0.8 of 2 is free"),
        "{lines}"
    );
    let lines = not_now(&ledger, &[gpu_pool("b", 1, 100, 75)]);
    assert!(lines.starts_with("device memory: "), "{lines}");
    assert!(lines.contains("held by r1/a: 20 GiB"), "{lines}");
}

/// The devices that have the memory are taken, and the free one has too little: whoever holds the
/// shares is named, although nobody holds device memory.
#[test]
fn whoever_holds_the_only_device_with_enough_memory_is_named() {
    let mut two = machine(16, 2);
    two.devices[1].memory = 10 * GIB;
    let ledger = Ledger::new(two);
    let small = admit(&ledger, "r1", &[gpu_pool("small", 1, 1_000, 0)]).unwrap();
    let _large = admit(&ledger, "r2", &[gpu_pool("large", 1, 1_000, 0)]).unwrap();
    drop(small);
    let lines = not_now(&ledger, &[gpu_pool("b", 1, 500, 40)]);
    assert!(lines.starts_with("GPU: "), "{lines}");
    assert!(lines.contains("held by r2/large: 1"), "{lines}");
}

#[test]
fn parts_of_a_refusal_can_be_read_by_programs() {
    let error = admit(&ledger(16, 0), "r1", &[pool("score", 8, 4)]).unwrap_err();
    let AdmissionError::Never { shortages, .. } = error else {
        panic!("{error}");
    };
    let json = serde_json::to_value(&shortages).unwrap();
    assert_eq!(json[0]["resource"], "memory");
    assert_eq!(json[0]["cause"], "too_much");
    assert_eq!(json[0]["needed"], 32 * GIB);
    assert_eq!(json[0]["requests"][0]["slots"], 8);
}
