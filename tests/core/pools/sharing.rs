//! Warm pools where room is short.

use super::*;

fn with(ledger: &Ledger, warm: &WarmPools) -> RunConfig {
    RunConfig {
        warm: Some(warm.clone()),
        admission: Admission::Wait(Duration::from_secs(10)),
        ..on(ledger)
    }
}

/// A pool of 1 GiB; four fit the machine.
fn large(k: i64) -> PoolBuilder {
    probe("Scale", json!({ "k": k }))
        .queue_bytes(0)
        .policy(Policy {
            memory: 1 << 30,
            ..Policy::default()
        })
}

#[test]
fn a_run_that_needs_nothing_new_does_not_wait_behind_others() {
    let ledger = machine();
    let warm = WarmPools::new(WarmLimits::default());
    let user = run(with(&ledger, &warm), vec![large(1)]);
    let rest = run(on(&ledger), vec![large(7), large(8), large(9)]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run(on(&ledger), vec![large(10), large(11)]));
        until(|| ledger.usage().waiting == 1);
        let begun = Instant::now();
        let config = RunConfig {
            admission: Admission::Fail,
            ..with(&ledger, &warm)
        };
        let second = run(config, vec![large(1)]);
        assert_eq!(second.metrics().pools[0].starts, 1);
        assert!(begun.elapsed() < Duration::from_secs(5));
        drop((second, user, rest));
        waiting.join().expect("no panic");
    });
}

#[test]
fn runs_that_have_some_of_their_pools_never_wait_for_each_other() {
    let ledger = machine();
    let warm = WarmPools::new(WarmLimits::default());
    let keep = run(on(&ledger), vec![large(100), large(101)]);
    for round in 0..5_i64 {
        for k in [1, 2] {
            drop(run(with(&ledger, &warm), vec![large(k)]));
        }
        // Each finds one pool, and needs the room of the other's for its second.
        std::thread::scope(|scope| {
            for k in [1, 2] {
                let (ledger, warm) = (&ledger, &warm);
                scope.spawn(move || {
                    let begun = Instant::now();
                    let run = run(
                        with(ledger, warm),
                        vec![large(k), large(10 * k + 100 * round)],
                    );
                    assert!(
                        begun.elapsed() < Duration::from_secs(5),
                        "{:?}",
                        begun.elapsed()
                    );
                    std::thread::sleep(Duration::from_millis(20));
                    drop(run);
                });
            }
        });
    }
    drop(keep);
    warm.reset();
    assert_clean(&ledger);
}

#[test]
fn pools_that_are_there_count_for_what_can_never_fit() {
    let ledger = machine();
    let warm = WarmPools::new(WarmLimits::default());
    let sized = |k, gib: u64| {
        large(k).policy(Policy {
            memory: gib << 30,
            ..Policy::default()
        })
    };
    drop(run(with(&ledger, &warm), vec![sized(1, 3)]));
    let begun = Instant::now();
    let error = Run::start(with(&ledger, &warm), vec![sized(1, 3), sized(2, 2)]);
    let error = error.expect_err("5 GiB of 4");
    assert!(
        matches!(error, StartError::Admission(AdmissionError::Never { .. })),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_pool_that_becomes_warm_while_a_run_waits_for_its_like_is_no_obstacle() {
    let ledger = machine();
    let warm = WarmPools::new(WarmLimits::default());
    let keep = run(on(&ledger), vec![large(6)]);
    let rest = run(on(&ledger), vec![large(7), large(8), large(9)]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| drop(run(with(&ledger, &warm), vec![large(1)])));
        until(|| ledger.usage().waiting == 1);
        // It needs all three, since none is warm when it asks.
        let second = scope.spawn(|| {
            let three = vec![large(1), large(2), large(3)];
            drop(run(with(&ledger, &warm), three));
        });
        until(|| ledger.usage().waiting == 2);
        drop(rest);
        first.join().expect("in time");
        second.join().expect("in time");
    });
    drop((keep, warm));
    assert_clean(&ledger);
}

#[test]
fn idle_pools_make_room_for_any_run() {
    let ledger = machine();
    let warm = WarmPools::new(WarmLimits::default());
    let three = || vec![large(1), large(2), large(3)];
    drop(run(with(&ledger, &warm), three()));
    assert_eq!(warm.len(), 3);
    let config = RunConfig {
        admission: Admission::Fail,
        ..on(&ledger)
    };
    let other = run(config.clone(), vec![large(4), large(5)]);
    assert_eq!(warm.len(), 2);
    let elsewhere = RunConfig {
        warm: Some(WarmPools::new(WarmLimits::default())),
        ..config
    };
    drop(run(elsewhere, vec![large(6)]));
    assert_eq!(warm.len(), 1);
    drop((other, warm));
    assert_clean(&ledger);
}

#[test]
fn ledgers_never_share() {
    let warm = WarmPools::new(WarmLimits::default());
    let ledgers = [machine(), machine()];
    for ledger in &ledgers {
        let run = run(with(ledger, &warm), vec![large(1)]);
        assert_eq!(run.finish().pools[0].starts, 1);
        assert!(ledger.usage().memory > 0);
    }
    assert_eq!(warm.len(), 2);
}
