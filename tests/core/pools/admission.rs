//! Whole runs are admitted, or refused before anything starts.

use super::*;

/// A pool of so many slots of so much memory.
fn sized(name: &str, count: usize, memory: u64) -> PoolBuilder {
    Pool::builder(&module("probe"))
        .name(name)
        .slots(slots(count))
        .policy(Policy {
            memory,
            ..Policy::default()
        })
        .queue_bytes(0)
}

const GIB: u64 = 1 << 30;

#[test]
fn what_can_never_fit_is_refused_at_once_with_all_that_is_missing() {
    let ledger = machine();
    let lines = Lines::default();
    let needy = SlotResources {
        cpus: Share::whole(3),
        gpus: Share::whole(5),
        ..SlotResources::default()
    };
    let pools = vec![
        sized("large", 8, 4 * GIB)
            .resources(needy)
            .on_log(lines.sink()),
        probe("Scale", json!({ "k": 1 })).on_log(lines.sink()),
    ];
    let begun = Instant::now();
    let error = Run::start(on(&ledger), pools).expect_err("too much");
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let StartError::Admission(AdmissionError::Never { shortages, .. }) = &error else {
        panic!("{error}")
    };
    let missing: Vec<Resource> = shortages.iter().map(|s| s.resource).collect();
    for resource in [Resource::Cpu, Resource::Memory, Resource::Gpu] {
        assert!(missing.contains(&resource), "{error}");
    }
    assert!(error.to_string().contains("--memory"), "{error}");
    assert_eq!(lines.count(""), 0, "nothing was started");
    assert_clean(&ledger);
}

#[test]
fn slots_may_outnumber_cpus() {
    let ledger = machine();
    let run = run(on(&ledger), vec![sized("many", 30, 64 << 20)]);
    assert_eq!(run.metrics().pools[0].starts, 30);
    drop(run);
    assert_clean(&ledger);
}

#[test]
fn a_run_that_does_not_fit_now_waits_and_then_succeeds() {
    let ledger = machine();
    let first = run(on(&ledger), vec![sized("first", 3, GIB)]);
    let (started, waiting) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let second = run(on(&ledger), vec![sized("second", 2, GIB)]);
            started
                .send(second.metrics().pools[0].starts)
                .expect("a listener");
        });
        until(|| ledger.usage().waiting == 1);
        assert!(waiting.try_recv().is_err(), "it waits");
        drop(first);
        assert_eq!(soon(&waiting), 2);
    });
    assert_clean(&ledger);
}

#[test]
fn a_run_that_does_not_wait_hears_who_holds_what_it_needs() {
    let ledger = machine();
    let config = RunConfig {
        name: Some("reports".to_owned()),
        ..on(&ledger)
    };
    let first = run(config, vec![sized("holder", 3, GIB)]);
    for admission in [Admission::Fail, Admission::Wait(Duration::from_millis(50))] {
        let config = RunConfig {
            admission,
            ..on(&ledger)
        };
        let error = Run::start(config, vec![sized("second", 2, GIB)]).expect_err("no room");
        assert!(
            matches!(&error, StartError::Admission(AdmissionError::NotNow { .. })),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("reports") && text.contains("holder"),
            "{text}"
        );
    }
    drop(first);
    assert_clean(&ledger);
}

#[test]
fn all_pools_of_a_run_are_admitted_or_none() {
    let ledger = machine();
    let lines = Lines::default();
    let _holder = run(on(&ledger), vec![sized("holder", 2, GIB)]);
    let held = ledger.usage().memory;
    let pools = vec![
        sized("fits", 1, GIB).on_log(lines.sink()),
        sized("does not", 2, GIB).on_log(lines.sink()),
    ];
    let config = RunConfig {
        admission: Admission::Fail,
        ..on(&ledger)
    };
    Run::start(config, pools).expect_err("no room for both");
    assert_eq!(ledger.usage().memory, held);
    assert_eq!(lines.count(""), 0);
}

#[test]
fn a_wait_for_room_can_be_cancelled() {
    let ledger = machine();
    let _first = run(on(&ledger), vec![sized("first", 4, GIB)]);
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let config = RunConfig {
            cancel: cancel.clone(),
            admission: Admission::Wait(Duration::from_secs(600)),
            ..on(&ledger)
        };
        let waiting = scope.spawn(|| Run::start(config, vec![sized("second", 1, GIB)]));
        until(|| ledger.usage().waiting == 1);
        let cancelled = Instant::now();
        cancel.cancel();
        let error = waiting.join().expect("no panic").expect_err("cancelled");
        assert!(cancelled.elapsed() < Duration::from_secs(5));
        assert!(
            matches!(
                error,
                StartError::Admission(AdmissionError::Cancelled { .. })
            ),
            "{error}"
        );
    });
    assert_eq!(ledger.usage().waiting, 0);
}

#[test]
fn devices_are_shared_out_and_given_back() {
    let ledger = machine();
    let half = SlotResources {
        gpus: Share::thousandths(500),
        device_memory: 4 << 30,
        ..SlotResources::default()
    };
    let first = run(
        on(&ledger),
        vec![sized("halves", 3, 64 << 20).resources(half)],
    );
    let config = RunConfig {
        admission: Admission::Fail,
        ..on(&ledger)
    };
    let second = sized("more", 2, 64 << 20).resources(half);
    let error = Run::start(config, vec![second]).expect_err("one half is left");
    assert!(error.to_string().contains("halves"), "{error}");
    drop(first);
    assert_clean(&ledger);
}

#[test]
fn the_queues_count_too() {
    let ledger = machine();
    let pool = sized("queue", 1, GIB).queue_bytes(4 * GIB);
    let error = Run::start(on(&ledger), vec![pool]).expect_err("5 GiB of 4");
    assert!(
        matches!(error, StartError::Admission(AdmissionError::Never { .. })),
        "{error}"
    );
}

#[test]
fn a_local_slot_is_on_the_ledger_of_the_process() {
    let ledger = Ledger::process();
    let slot = sized("a local slot", 1, 3 << 20)
        .start_local()
        .expect("a slot");
    let held = |usage: wasmill::LedgerUsage| usage.holders.iter().any(|h| h.pool == "a local slot");
    assert!(held(ledger.usage()));
    drop(slot);
    assert!(!held(ledger.usage()));
}
