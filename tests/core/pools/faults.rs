//! Whatever fails, a run ends in time, with an error that says why, and leaves nothing behind.

use super::*;

fn failing(error: CallError) -> Fault {
    *error.fault
}

#[test]
fn an_init_that_fails_rolls_the_whole_run_back() {
    let ledger = machine();
    let lines = Lines::default();
    let pools = vec![
        probe("Scale", json!({ "k": 1 }))
            .slots(slots(3))
            .on_log(lines.sink()),
        probe("InitFails", json!({})),
    ];
    let error = Run::start(on(&ledger), pools).expect_err("init fails");
    assert!(matches!(error, StartError::Init { .. }), "{error}");
    assert_eq!(lines.count("scale init"), lines.count("scale close"));
    assert_clean(&ledger);
}

#[test]
fn an_init_that_hangs_or_traps_ends_in_time() {
    let ledger = machine();
    for (how, part) in [("spin", "init took longer than"), ("trap", "on purpose")] {
        let begun = Instant::now();
        let pool = faulty(json!({ "init": how })).0.slots(slots(3));
        let error = Run::start(on(&ledger), vec![pool]).expect_err("no slot");
        assert!(error.to_string().contains(part), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_clean(&ledger);
    }
}

#[test]
fn the_failure_of_one_init_ends_the_others() {
    let ledger = machine();
    let policy = Policy {
        memory: 64 << 20,
        init_time: Duration::from_secs(600),
        ..Policy::default()
    };
    let pools = vec![
        probe("Slow", json!({ "spin": 1_u64 << 50 })).policy(policy),
        probe("InitFails", json!({})),
    ];
    let begun = Instant::now();
    let error = Run::start(on(&ledger), pools).expect_err("one fails");
    assert!(matches!(error, StartError::Init { .. }), "{error}");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert_clean(&ledger);
}

/// Fails to start until it has been tried three times: it leaves a file in a granted folder each time.
fn third_time_lucky() -> Module {
    let imports = r#"(module
      (import "wasi_snapshot_preview1" "path_open" (func $open
        (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))"#;
    let body = r#"
      (data (i32.const 16) "ab")
      ;; 0 when the file is new.
      (func $create (param $name i32) (result i32)
        (call $open (i32.const 3) (i32.const 0) (local.get $name) (i32.const 1) (i32.const 5)
          (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 48)))
      (func (export "init") (param $frame i32) (result i32)
        (if (i32.eqz (call $create (i32.const 16))) (then (unreachable)))
        (if (i32.eqz (call $create (i32.const 17))) (then (unreachable)))
        (i32.const 0))
      (func (export "f") (param $frame i32) (result i32)
        (memory.copy
          (i32.load offset=32 (local.get $frame))
          (i32.load (i32.load offset=28 (local.get $frame)))
          (i32.const 64))
        (i32.const 0))"#;
    let mut f = record("f");
    f["state"] = json!({ "name": "Lucky", "kind": "resource", "init": "init" });
    load("lucky", &crate::guests::wat_with(imports, &[f], body))
}

#[test]
fn c30_an_init_that_fails_twice_works_within_its_budget() {
    let ledger = machine();
    let module = third_time_lucky();
    let pool = |folder: &std::path::Path, init_retries| {
        Pool::builder(&module)
            .state("Lucky")
            .policy(Policy {
                memory: 64 << 20,
                grants: vec![wasmill::Grant {
                    host: folder.to_owned(),
                    guest: "/data".to_owned(),
                    writable: true,
                }],
                ..Policy::default()
            })
            .budgets(Budgets {
                init_retries,
                ..Budgets::default()
            })
            .queue_bytes(0)
    };
    for init_retries in [0, 1] {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Run::start(on(&ledger), vec![pool(folder.path(), init_retries)])
            .expect_err("not tried often enough");
        match &error {
            StartError::GaveUp { attempts: 2, .. } if init_retries == 1 => {
                assert!(error.to_string().contains("--init-retries"), "{error}");
            }
            StartError::Slot { .. } if init_retries == 0 => {}
            other => panic!("{other}"),
        }
        assert_clean(&ledger);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let run = run(on(&ledger), vec![pool(folder.path(), 3)]);
    let f = bind(&module, "f", &[int64()]);
    assert_eq!(
        values(&through(&run.pools()[0], &f, &longs([7])).expect("a row")),
        [7]
    );
    let metrics = run.finish();
    let pool = &metrics.pools[0];
    assert_eq!((pool.starts, pool.inits, pool.init_retries), (3, 3, 2));
    assert_clean(&ledger);
}

/// What `calls` calls of one row give, one after the other.
fn one_by_one(pool: &Pool, call: &Call, calls: i64) -> Vec<Result<i64, Fault>> {
    (0..calls)
        .map(|n| {
            through(pool, call, &longs([n]))
                .map(|out| values(&out)[0])
                .map_err(failing)
        })
        .collect()
}

#[test]
fn traps_cost_restarts_up_to_the_budget_and_then_the_run() {
    let ledger = machine();
    for (trap_restarts, good) in [(0, 2), (1, 4), (100, 20)] {
        let lines = Lines::default();
        let (pool, call) = faulty(json!({ "trap_at": 3 }));
        let budgets = Budgets {
            trap_restarts,
            ..Budgets::default()
        };
        let run = run(
            on(&ledger),
            vec![pool.budgets(budgets).on_log(lines.sink())],
        );
        let answers = one_by_one(&run.pools()[0], &call, 30);
        assert_eq!(answers.iter().flatten().count(), good);
        if trap_restarts < 10 {
            let Err(Fault::GaveUp {
                budget,
                limit,
                cause,
            }) = &answers[29]
            else {
                panic!("{:?}", answers[29])
            };
            assert_eq!((*budget, *limit), (Budget::TrapRestarts, trap_restarts));
            assert!(cause.to_string().contains("on purpose"), "{cause}");
        }
        let metrics = run.finish();
        let pool = &metrics.pools[0];
        assert_eq!(pool.restarts, u64::from(trap_restarts.min(9)));
        assert_eq!(pool.inits, pool.restarts + 1);
        assert_eq!(pool.inits, lines.count("faulty init"));
        // No slot lived to the end, and those that trapped are not closed.
        assert_eq!((pool.closes, lines.count("faulty close")), (0, 0));
        assert_clean(&ledger);
    }
}

#[test]
fn a_call_is_made_again_on_a_fresh_slot_where_that_is_allowed() {
    let ledger = machine();
    let (pool, call) = faulty(json!({ "trap_at": 3 }));
    let budgets = Budgets {
        call_retries: 1,
        ..Budgets::default()
    };
    let run = run(on(&ledger), vec![pool.budgets(budgets)]);
    let answers = one_by_one(&run.pools()[0], &call, 10);
    let expected: Vec<i64> = (1..=10).collect();
    assert_eq!(
        answers.into_iter().collect::<Result<Vec<_>, _>>().ok(),
        Some(expected)
    );
    let metrics = run.finish();
    assert_eq!(
        (metrics.pools[0].restarts, metrics.pools[0].call_retries),
        (4, 4)
    );
    assert_clean(&ledger);
}

#[test]
fn c21_an_always_trapping_module_ends_within_its_budget_and_in_seconds() {
    let ledger = machine();
    let (pool, call) = faulty(json!({ "trap_at": 1 }));
    let budgets = Budgets {
        call_retries: 1000,
        trap_restarts: 6,
        ..Budgets::default()
    };
    let begun = Instant::now();
    let run = run(on(&ledger), vec![pool.budgets(budgets).slots(slots(2))]);
    let stage = Stage::new(&batch(longs([])).schema())
        .call(&run.pools()[0], &call, &["x"], "y")
        .expect("a stage")
        .batch_size(slots(1));
    let mut out = stage.run((0..100).map(|n| Ok(batch(longs([n])))));
    let error = out.next().expect("an answer").expect_err("a trap");
    assert!(error.to_string().contains("on purpose"), "{error}");
    assert!(out.next().is_none());
    drop((out, stage));
    let metrics = run.finish();
    assert_eq!(metrics.pools[0].restarts, 6);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert_clean(&ledger);
}

#[test]
fn a_call_that_never_ends_costs_its_slot_only() {
    let ledger = machine();
    let lines = Lines::default();
    let (pool, call) = faulty(json!({ "spin_at": 2 }));
    let run = run(on(&ledger), vec![pool.on_log(lines.sink())]);
    let answers = one_by_one(&run.pools()[0], &call, 3);
    assert!(
        matches!(answers[..], [Ok(1), Err(Fault::Time { .. }), Ok(3)]),
        "{answers:?}"
    );
    let metrics = run.finish();
    assert_eq!((metrics.pools[0].inits, metrics.pools[0].closes), (2, 1));
    assert_eq!(
        (lines.count("faulty init"), lines.count("faulty close")),
        (2, 1)
    );
    assert_clean(&ledger);
}

#[test]
fn a_close_that_fails_or_hangs_ends_in_time() {
    let ledger = machine();
    for how in ["trap", "spin"] {
        let (pool, call) = faulty(json!({ "close": how }));
        let run = run(on(&ledger), vec![pool.slots(slots(2))]);
        through(&run.pools()[0], &call, &longs([1])).expect("a row");
        let begun = Instant::now();
        assert_eq!(run.finish().pools[0].closes, 2);
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_clean(&ledger);
    }
}

#[test]
fn a_sink_that_panics_costs_its_slot_only() {
    let ledger = machine();
    let panics = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&panics);
    let (pool, call) = faulty(json!({}));
    let chatty = bind(&module("probe"), "chatty", &[int64()]);
    let pool = pool.on_log(Arc::new(move |line| {
        if line.text == "line 3" {
            *counted.lock().expect("a lock") += 1;
            std::panic::panic_any("the sink fails");
        }
    }));
    let run = run(on(&ledger), vec![pool]);
    let pool = &run.pools()[0];
    let fault = through(pool, &chatty, &longs([10]))
        .map_err(failing)
        .expect_err("a panic");
    assert!(matches!(fault, Fault::Host { .. }), "{fault}");
    assert_eq!(
        values(&through(pool, &call, &longs([1])).expect("a row")),
        [2]
    );
    // A receiver that panics harms nobody either.
    let (send, receive) = mpsc::channel();
    pool.submit(&call, Rows::new(vec![longs([1])], 1), move |_| {
        let _ = send.send(());
        std::panic::panic_any("the receiver fails");
    });
    soon(&receive);
    assert_eq!(
        values(&through(pool, &call, &longs([5])).expect("a row")),
        [6]
    );
    assert_eq!(run.finish().pools[0].restarts, 1);
    assert_clean(&ledger);
}

#[test]
fn a_thread_that_does_not_come_back_is_lost_until_it_does() {
    let ledger = machine();
    let (release, stuck) = mpsc::channel::<()>();
    let stuck = Mutex::new(stuck);
    let (pool, call) = faulty(json!({}));
    let chatty = bind(&module("probe"), "chatty", &[int64()]);
    let pool = pool.slots(slots(2)).on_log(Arc::new(move |line| {
        if line.text.starts_with("line") {
            let _ = stuck.lock().expect("a lock").recv();
        }
    }));
    let run = run(on(&ledger), vec![pool]);
    let pool = run.pools()[0].clone();
    let begun = Instant::now();
    let fault = through(&pool, &chatty, &longs([1]))
        .map_err(failing)
        .expect_err("lost");
    assert!(matches!(fault, Fault::Lost), "{fault}");
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(pool.metrics().lost_slots, 1);
    // The other slot goes on.
    assert_eq!(
        values(&through(&pool, &call, &longs([1])).expect("a row")),
        [2]
    );
    drop(pool);
    let metrics = run.finish();
    assert_eq!(metrics.pools[0].closes, 1);
    let usage = ledger.usage();
    assert_eq!(
        usage.holders.iter().map(|h| h.lost_slots).sum::<usize>(),
        1,
        "{usage:?}"
    );
    assert_eq!(usage.cpus_in_use, Share::ZERO);
    drop(release);
    until(|| ledger.usage().holders.is_empty());
    assert_clean(&ledger);
}

#[test]
fn cancelling_does_not_wait_for_the_time_of_a_stuck_thread() {
    let ledger = machine();
    let (release, stuck) = mpsc::channel::<()>();
    let stuck = Mutex::new(stuck);
    let policy = Policy {
        memory: 64 << 20,
        call_time: Duration::MAX,
        ..Policy::default()
    };
    let chatty = bind(&module("probe"), "chatty", &[int64()]);
    let (reached, at) = mpsc::channel();
    let (pool, _) = faulty(json!({}));
    let pool = pool.policy(policy).on_log(Arc::new(move |line| {
        if line.text.starts_with("line") {
            let _ = reached.send(());
            let _ = stuck.lock().expect("a lock").recv();
        }
    }));
    let run = run(on(&ledger), vec![pool]);
    let (send, receive) = mpsc::channel();
    run.pools()[0].submit(&chatty, Rows::new(vec![longs([1])], 1), move |answer| {
        let _ = send.send(answer.map(|_| ()));
    });
    soon(&at);
    run.cancel();
    let fault = soon(&receive).map_err(failing).expect_err("lost");
    assert!(matches!(fault, Fault::Lost), "{fault}");
    run.finish();
    drop(release);
    until(|| ledger.usage().holders.is_empty());
    assert_clean(&ledger);
}

#[test]
fn cancelling_interrupts_guests_and_answers_what_waits() {
    let ledger = machine();
    let lines = Lines::default();
    let (pool, call) = faulty(json!({ "spin_at": 1 }));
    let patient = Policy {
        memory: 64 << 20,
        call_time: Duration::from_secs(600),
        ..Policy::default()
    };
    let pool = pool.policy(patient).slots(slots(2)).on_log(lines.sink());
    let run = run(on(&ledger), vec![pool]);
    let (send, receive) = mpsc::channel();
    for n in 0..20 {
        let send = send.clone();
        run.pools()[0].submit(&call, Rows::new(vec![longs([n])], 1), move |answer| {
            let _ = send.send(answer.map(|_| ()));
        });
    }
    until(|| ledger.usage().cpus_in_use == Share::whole(2));
    let cancelled = Instant::now();
    run.cancel();
    for _ in 0..20 {
        let fault = soon(&receive).map_err(failing).expect_err("cancelled");
        assert!(matches!(fault, Fault::Cancelled), "{fault}");
    }
    assert!(
        cancelled.elapsed() < Duration::from_secs(10),
        "{:?}",
        cancelled.elapsed()
    );
    let fault = through(&run.pools()[0], &call, &longs([1]))
        .map_err(failing)
        .expect_err("over");
    assert!(matches!(fault, Fault::Cancelled), "{fault}");
    run.finish();
    assert_clean(&ledger);
}

#[test]
fn cancelling_at_any_moment_leaves_nothing() {
    let ledger = machine();
    let lines = Lines::default();
    let sink = lines.sink();
    let mut moment = 1_u64;
    for _ in 0..1_000 {
        // A fixed sequence of moments, from nothing to a few milliseconds.
        moment = moment
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let after = Duration::from_micros((moment >> 33) % 3_000);
        let cancel = Cancel::default();
        let config = RunConfig {
            cancel: cancel.clone(),
            ..on(&ledger)
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(after);
                cancel.cancel();
            });
            let (pool, call) = faulty(json!({ "turns": 100 }));
            let pools = vec![pool.slots(slots(2)).on_log(Arc::clone(&sink))];
            let Ok(run) = Run::start(config, pools) else {
                return;
            };
            let stage = Stage::new(&batch(longs([])).schema())
                .call(&run.pools()[0], &call, &["x"], "y")
                .expect("a stage")
                .batch_size(slots(10));
            for (n, out) in stage
                .run((0..200).map(|n| Ok(batch(longs([n; 10])))))
                .enumerate()
            {
                match out {
                    Ok(out) => assert_eq!(values(out.column(1)), [n as i64 + 1; 10]),
                    Err(Error::Call(e)) => assert!(matches!(*e.fault, Fault::Cancelled), "{e}"),
                    Err(e) => panic!("{e}"),
                }
            }
        });
        assert_clean(&ledger);
    }
}

#[test]
fn handles_that_are_dropped_in_any_order_leave_nothing() {
    let ledger = machine();
    let (pool, call) = faulty(json!({ "turns": 1_000 }));
    for order in 0..4 {
        let run = run(on(&ledger), vec![pool.clone().slots(slots(2))]);
        let handle = run.pools()[0].clone();
        let stage = Stage::new(&batch(longs([])).schema())
            .call(&handle, &call, &["x"], "y")
            .expect("a stage")
            .batch_size(slots(1));
        let mut out = stage.run((0..100).map(|n| Ok(batch(longs([n])))));
        out.next().expect("a batch").expect("rows");
        match order {
            0 => drop((run, handle, out, stage)),
            1 => drop((out, stage, handle, run)),
            2 => drop((handle, stage, run, out)),
            _ => {
                run.finish();
                let ended = out.find_map(Result::err).expect("the run is over");
                assert!(ended.to_string().contains("closed"), "{ended}");
                drop((out, stage, handle));
            }
        }
        assert_clean(&ledger);
    }
    // The last handle may go in a receiver, on the slot's own thread.
    let run = run(on(&ledger), vec![pool]);
    let handle = run.pools()[0].clone();
    let last = handle.clone();
    let (send, receive) = mpsc::channel();
    handle.submit(&call, Rows::new(vec![longs([1])], 1), move |_| {
        let _: Result<(), _> = receive.recv();
        drop(last);
    });
    drop((run, handle));
    drop(send);
    until(|| ledger.usage().holders.is_empty());
    assert_clean(&ledger);
}

/// Memory of the process is short where each slot takes 4 GiB of addresses.
#[test]
#[cfg(target_os = "linux")]
fn a_system_without_memory_for_a_slot_is_not_the_guests_fault() {
    if std::env::var_os("WASMILL_SHORT_OF_ADDRESSES").is_none() {
        let this = std::env::current_exe().expect("this program");
        let test = "pools::faults::a_system_without_memory_for_a_slot_is_not_the_guests_fault";
        let status = std::process::Command::new("sh")
            .args(["-c", r#"ulimit -v 30000000 && exec "$@""#, "sh"])
            .arg(this)
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env("WASMILL_SHORT_OF_ADDRESSES", "1")
            .status()
            .expect("a process");
        assert!(status.success());
        return;
    }
    let ledger = machine();
    let pool = || probe("Scale", json!({ "k": 1 }));
    let error = Run::start(on(&ledger), vec![pool().slots(slots(30))]).expect_err("too many");
    assert!(
        matches!(&error, StartError::Slot { fault, .. } if matches!(**fault, Fault::System { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("--slots"), "{error}");
    assert_clean(&ledger);
    run(on(&ledger), vec![pool()]).finish();
    assert_clean(&ledger);
}
