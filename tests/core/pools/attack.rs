//! Many things at once: nothing deadlocks, nothing is left, no budget is exceeded.

use super::*;

#[test]
fn warm_pools_that_are_reset_while_runs_come_and_go_stay_right() {
    let ledger = machine();
    let warm = WarmPools::new(WarmLimits {
        idle: Duration::MAX,
        age: Duration::MAX,
        ..WarmLimits::default()
    });
    let call = bind(&module("probe"), "scale", &[int64()]);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let resetting = scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                warm.reset();
                std::thread::yield_now();
            }
        });
        let runs: Vec<_> = (0..12)
            .map(|n| {
                let (ledger, warm, call) = (&ledger, &warm, &call);
                scope.spawn(move || {
                    for k in 0..30_i64 {
                        let config = RunConfig {
                            warm: Some(warm.clone()),
                            admission: Admission::Wait(Duration::MAX),
                            ..on(ledger)
                        };
                        // Every third promises a pool that others wait for, and cannot start it.
                        if (n + k) % 3 == 0 {
                            let pools = vec![
                                probe("Scale", json!({ "k": k % 4 })),
                                probe("InitFails", json!({})),
                            ];
                            assert!(Run::start(config, pools).is_err());
                            continue;
                        }
                        let run = run(config, vec![probe("Scale", json!({ "k": k % 4 }))]);
                        let out = through(&run.pools()[0], call, &longs([7])).expect("a row");
                        assert_eq!(values(&out), [7 * (k % 4)]);
                    }
                })
            })
            .collect();
        for run in runs {
            run.join().expect("no panic");
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        resetting.join().expect("no panic");
    });
    warm.reset();
    assert!(warm.is_empty());
    assert_clean(&ledger);
}

#[test]
fn a_run_that_is_ended_by_many_at_once_ends_once() {
    let ledger = machine();
    let lines = Lines::default();
    for _ in 0..50 {
        let (pool, call) = faulty(json!({ "turns": 10_000 }));
        let run = run(on(&ledger), vec![pool.slots(slots(2)).on_log(lines.sink())]);
        let (send, receive) = mpsc::channel();
        for n in 0..10 {
            let (send, kept) = (send.clone(), run.clone());
            run.pools()[0].submit(&call, Rows::new(vec![longs([n])], 1), move |answer| {
                drop(kept);
                let _ = send.send(answer.is_ok());
            });
        }
        std::thread::scope(|scope| {
            for n in 0..4 {
                let run = run.clone();
                scope.spawn(move || match n {
                    0 => run.cancel(),
                    1 => drop(run),
                    _ => drop(run.finish()),
                });
            }
        });
        drop(run);
        for _ in 0..10 {
            soon(&receive);
        }
        until(|| ledger.usage().holders.is_empty());
        assert_clean(&ledger);
    }
    let closes = lines.count("faulty close");
    assert!(closes <= lines.count("faulty init"));
}

#[test]
fn a_thread_that_is_stuck_in_init_or_close_holds_nobody_up() {
    for stuck_at in ["faulty init", "faulty close"] {
        let ledger = machine();
        let (release, stuck) = mpsc::channel::<()>();
        let stuck = Mutex::new(stuck);
        let (pool, _) = faulty(json!({}));
        let pool = pool.on_log(Arc::new(move |line| {
            if line.text == stuck_at {
                let _ = stuck.lock().expect("a lock").recv();
            }
        }));
        let begun = Instant::now();
        match Run::start(on(&ledger), vec![pool]) {
            Ok(run) => drop(run.finish()),
            Err(error) => {
                assert!(
                    matches!(&error, StartError::Slot { fault, .. } if matches!(**fault, Fault::Lost)),
                    "{error}"
                );
            }
        }
        assert!(
            begun.elapsed() < Duration::from_secs(15),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(ledger.usage().holders[0].lost_slots, 1);
        drop(release);
        until(|| ledger.usage().holders.is_empty());
        assert_clean(&ledger);
    }
}

#[test]
fn slots_that_race_for_the_last_restart_never_exceed_the_budget() {
    let ledger = machine();
    for trap_restarts in [0, 1, 5] {
        let (pool, call) = faulty(json!({ "trap_at": 1 }));
        let budgets = Budgets {
            trap_restarts,
            backoff: Duration::ZERO,
            ..Budgets::default()
        };
        let run = run(on(&ledger), vec![pool.slots(slots(4)).budgets(budgets)]);
        let (send, receive) = mpsc::channel();
        for n in 0..40 {
            let send = send.clone();
            run.pools()[0].submit(&call, Rows::new(vec![longs([n])], 1), move |answer| {
                let _ = send.send(answer.is_err());
            });
        }
        for _ in 0..40 {
            assert!(soon(&receive));
        }
        let metrics = run.finish();
        assert_eq!(metrics.pools[0].restarts, u64::from(trap_restarts));
        assert_eq!(metrics.pools[0].starts, 4 + u64::from(trap_restarts));
        assert_clean(&ledger);
    }
}

#[test]
fn extremes_are_refused_or_work() {
    let ledger = machine();
    let error = Run::start(
        on(&ledger),
        vec![
            probe("Scale", json!({ "k": 1 }))
                .queue_bytes(u64::MAX)
                .slots(slots(1_024)),
        ],
    )
    .expect_err("too much");
    assert!(
        matches!(error, StartError::Admission(AdmissionError::Never { .. })),
        "{error}"
    );
    let budgets = Budgets {
        init_retries: u32::MAX,
        call_retries: u32::MAX,
        trap_restarts: u32::MAX,
        slot_restarts: u32::MAX,
        backoff: Duration::MAX,
    };
    let policy = Policy {
        memory: 64 << 20,
        call_time: Duration::MAX,
        init_time: Duration::MAX,
        close_time: Duration::MAX,
        ..Policy::default()
    };
    let name = "a\u{1b}[31m\n\0".repeat(1_000);
    let pool = probe("Scale", json!({ "k": 2 }));
    let run = run(
        on(&ledger),
        vec![pool.budgets(budgets).policy(policy).name(&name)],
    );
    let scale = bind(&module("probe"), "scale", &[int64()]);
    assert_eq!(
        values(&through(&run.pools()[0], &scale, &longs([4])).expect("a row")),
        [8]
    );
    drop(run);
    let empty = super::run(on(&ledger), vec![]);
    assert!(empty.pools().is_empty() && empty.finish().pools.is_empty());
    assert_clean(&ledger);
}

#[test]
fn runs_of_all_kinds_at_once_leave_nothing_and_never_stop() {
    let ledger = machine();
    let warm = [
        WarmLimits {
            pools: 2,
            idle: Duration::from_millis(1),
            calls: Some(5),
            ..WarmLimits::default()
        },
        WarmLimits {
            idle: Duration::MAX,
            ..WarmLimits::default()
        },
    ]
    .map(WarmPools::new);
    let faults = [
        json!({}),
        json!({ "trap_at": 2 }),
        json!({ "spin_at": 3 }),
        json!({ "init": "trap" }),
        json!({ "close": "trap" }),
        json!({ "turns": 1_000 }),
    ];
    let (_, call) = faulty(json!({}));
    let (ended, all) = mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (ledger, warm, faults, call, ended) =
                (&ledger, &warm, &faults, &call, ended.clone());
            scope.spawn(move || {
                let mut random = thread;
                let mut pick = move |n: u64| {
                    random = random
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    (random >> 33) % n
                };
                for _ in 0..60 {
                    let pools = (0..1 + pick(3)).map(|_| {
                        let (pool, _) = faulty(faults[pick(6) as usize].clone());
                        let pool = pool.slots(slots(1 + pick(2) as usize));
                        let policy = Policy {
                            memory: [64 << 20, 600 << 20][pick(2) as usize],
                            call_time: Duration::from_millis(20),
                            init_time: Duration::from_secs(5),
                            close_time: Duration::from_millis(50),
                            ..Policy::default()
                        };
                        let pool = pool.policy(policy);
                        if pick(4) == 0 { pool.lazy() } else { pool }
                    });
                    let pools: Vec<_> = pools.collect();
                    let cancel = Cancel::default();
                    let config = RunConfig {
                        tenant: ["", "a"][pick(2) as usize].to_owned(),
                        warm: warm.get(pick(3) as usize).cloned(),
                        admission: [Admission::Fail, Admission::Wait(Duration::MAX)]
                            [usize::from(pick(5) > 0)],
                        cancel: cancel.clone(),
                        ..on(ledger)
                    };
                    if pick(10) == 0 {
                        cancel.cancel();
                    }
                    let Ok(run) = Run::start(config, pools) else {
                        continue;
                    };
                    for pool in run.pools() {
                        for n in 0..pick(6) as i64 {
                            let kept = run.clone();
                            let rows = Rows::new(vec![longs([n])], 1);
                            pool.submit(call, rows, move |_| drop(kept));
                        }
                    }
                    match pick(5) {
                        0 => run.cancel(),
                        1 => drop(run.finish()),
                        2 => warm[0].reset(),
                        _ => {}
                    }
                }
                let _ = ended.send(());
            });
        }
        for _ in 0..8 {
            let in_time = all.recv_timeout(Duration::from_secs(120));
            // The threads that hang would hold up a panic.
            #[allow(clippy::print_stderr)]
            in_time.unwrap_or_else(|_| {
                eprintln!("some threads hang: {:?}", ledger.usage());
                std::process::abort()
            });
        }
    });
    drop(warm);
    until(|| ledger.usage().holders.is_empty());
    assert_clean(&ledger);
}
