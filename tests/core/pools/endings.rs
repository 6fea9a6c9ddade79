//! How runs and pools end when those who use them behave oddly.

use super::*;

/// What is done on a thread of its own, so that a test that hangs fails.
#[track_caller]
fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = send.send(what());
    });
    receive
        .recv_timeout(Duration::from_secs(20))
        .expect("it ends in time, without a panic")
}

#[test]
fn the_last_handle_of_a_run_of_several_pools_may_go_in_a_receiver() {
    let ledger = machine();
    for (at, warm) in [(0, false), (1, false), (0, true), (1, true)] {
        let warm = warm.then(|| WarmPools::new(WarmLimits::default()));
        let config = RunConfig {
            warm: warm.clone(),
            ..on(&ledger)
        };
        let (faulty, call) = faulty(json!({}));
        let mut pools = vec![probe("Scale", json!({ "k": 2 }))];
        pools.insert(at, faulty);
        let run = run(config, pools);
        let pool = run.pools()[at].clone();
        let last = run.clone();
        let (go, wait) = mpsc::channel::<()>();
        let (told, ended) = mpsc::channel();
        pool.submit(&call, Rows::new(vec![longs([1])], 1), move |_| {
            let _ = wait.recv();
            drop(last);
            let _ = told.send(());
        });
        drop((run, pool));
        drop(go);
        soon(&ended);
        in_time(move || drop(warm));
        until(|| ledger.usage().holders.is_empty());
        assert_clean(&ledger);
    }
}

#[test]
fn receivers_may_finish_their_run() {
    let ledger = machine();
    for warm in [false, true] {
        let warm = warm.then(|| WarmPools::new(WarmLimits::default()));
        let config = RunConfig {
            warm: warm.clone(),
            ..on(&ledger)
        };
        let (pool, call) = faulty(json!({}));
        let run = run(config, vec![pool.slots(slots(2))]);
        let barrier = Arc::new(std::sync::Barrier::new(2));
        let (told, ended) = mpsc::channel();
        for _ in 0..2 {
            let (run, barrier, told) = (run.clone(), Arc::clone(&barrier), told.clone());
            let pool = run.pools()[0].clone();
            pool.submit(&call, Rows::new(vec![longs([1])], 1), move |_| {
                barrier.wait();
                run.finish();
                let _ = told.send(());
            });
        }
        soon(&ended);
        soon(&ended);
        in_time(move || drop((run, warm)));
        until(|| ledger.usage().holders.is_empty());
        assert_clean(&ledger);
    }
}

#[test]
fn a_run_that_has_ended_no_longer_uses_its_warm_pool() {
    let ledger = machine();
    let warm = WarmPools::new(WarmLimits::default());
    let config = || RunConfig {
        warm: Some(warm.clone()),
        ..on(&ledger)
    };
    let first = run(config(), vec![probe("Scale", json!({ "k": 2 }))]);
    let scale = bind(&module("probe"), "scale", &[int64()]);
    let pool = first.pools()[0].clone();
    let stage = Stage::new(&batch(longs([])).schema())
        .call(&pool, &scale, &["x"], "y")
        .expect("a stage")
        .batch_size(slots(1));
    first.finish();
    let error = through(&pool, &scale, &longs([1])).expect_err("the run is over");
    assert!(matches!(*error.fault, Fault::Closed), "{error}");
    let error = stage
        .run([Ok(batch(longs([1])))])
        .find_map(Result::err)
        .expect("the run is over");
    assert!(error.to_string().contains("closed"), "{error}");
    let second = run(config(), vec![probe("Scale", json!({ "k": 2 }))]);
    assert_eq!(second.metrics().pools[0].calls, 0);
    through(&second.pools()[0], &scale, &longs([1])).expect("a row");
}

#[test]
fn a_sink_that_panics_while_a_lost_slot_is_dropped_harms_nobody() {
    let ledger = machine();
    let body = r#"
      (func (export "loud") (param $frame i32) (result i32)
        (call $log (i32.const 3) (i32.const 0) (i32.const 100))
        unreachable)"#;
    let module = load("loud", &crate::guests::wat(&[record("loud")], body));
    let policy = Policy {
        memory: 64 << 20,
        log_bytes: 40,
        ..Policy::default()
    };
    let pool = Pool::builder(&module)
        .policy(policy)
        .on_log(Arc::new(|line| {
            if line.text.contains("dropped") {
                std::panic::panic_any("the sink fails");
            }
        }));
    let loud = bind(&module, "loud", &[int64()]);
    let run = run(on(&ledger), vec![pool]);
    let pool = run.pools()[0].clone();
    let error = through(&pool, &loud, &longs([100])).expect_err("a trap");
    assert!(matches!(*error.fault, Fault::Trap { .. }), "{error}");
    drop(pool);
    in_time(move || run.finish());
    assert_clean(&ledger);
}

#[test]
fn dropping_the_warm_pools_closes_them_before_it_returns() {
    let ledger = machine();
    for n in 0..3_000 {
        let warm = WarmPools::new(WarmLimits::default());
        let config = RunConfig {
            warm: Some(warm.clone()),
            ..on(&ledger)
        };
        let run = run(config, vec![probe("Scale", json!({ "k": 2 })).lazy()]);
        run.finish();
        for _ in 0..n % 50 {
            std::hint::spin_loop();
        }
        drop(warm);
        assert!(ledger.usage().holders.is_empty(), "round {n}");
    }
}

#[test]
fn a_call_that_is_cancelled_while_its_slot_starts_again_is_cancelled() {
    let ledger = machine();
    let (pool, call) = faulty(json!({ "trap_at": 1 }));
    for lazy in [false, true] {
        let cancel = Cancel::default();
        let inits = std::sync::atomic::AtomicU64::new(u64::from(lazy));
        let stop = cancel.clone();
        // Its second `init` is cancelled while it runs; a lazy slot's first.
        let sink: LogSink = Arc::new(move |line| {
            let count = inits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if line.text == "faulty init" && count == 1 {
                stop.cancel();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let budgets = Budgets {
            call_retries: 1,
            ..Budgets::default()
        };
        let pool = pool.clone().budgets(budgets).on_log(sink);
        let config = RunConfig {
            cancel,
            ..on(&ledger)
        };
        let run = run(config, vec![if lazy { pool.lazy() } else { pool }]);
        let error = through(&run.pools()[0], &call, &longs([1])).expect_err("cancelled");
        assert!(matches!(*error.fault, Fault::Cancelled), "{error}");
    }
}

#[test]
fn a_sequence_is_never_retried_and_its_call_says_what_happened() {
    let ledger = machine();
    for call_retries in [0, 3] {
        let pool = probe("Counter", json!({})).budgets(Budgets {
            call_retries,
            ..Budgets::default()
        });
        let run = run(on(&ledger), vec![pool]);
        let boom = bind(&module("probe"), "boom", &[int64()]);
        let ctr = bind(&module("probe"), "ctr", &[]);
        let pool = &run.pools()[0];
        let error = through(pool, &boom, &longs([3])).expect_err("a panic");
        assert!(matches!(*error.fault, Fault::Trap { .. }), "{error}");
        let error = pool.call(&ctr, Rows::new(vec![], 1)).expect_err("lost");
        assert!(matches!(*error.fault, Fault::StateLost { .. }), "{error}");
        assert_eq!(run.finish().pools[0].starts, 1);
        assert_clean(&ledger);
    }
}

#[test]
fn pools_of_a_run_have_names_of_their_own() {
    let pools = [("a", 1), ("a", 2), ("a#2", 3), ("a", 4)];
    let pools = pools.map(|(name, k)| probe("Scale", json!({ "k": k })).name(name).lazy());
    let run = run(on(&machine()), pools.into());
    let mut names: Vec<_> = run.pools().iter().map(|p| p.name().to_owned()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn answers_that_are_too_large_do_not_grow_their_guest() {
    let ledger = machine();
    let policy = Policy {
        memory: 64 << 20,
        output_bytes: 1 << 20,
        ..Policy::default()
    };
    let run = run(
        on(&ledger),
        vec![Pool::builder(&module("probe")).policy(policy)],
    );
    let text = Field::new("x", DataType::Utf8, true);
    let repeat = bind(&module("probe"), "repeat", &[text, int64()]);
    let pool = &run.pools()[0];
    let words: ArrayRef = Arc::new(StringArray::from(vec!["sixteen letters."]));
    for _ in 0..200 {
        let rows = Rows::new(vec![Arc::clone(&words), longs([(2 << 20) / 16])], 1);
        let error = pool.call(&repeat, rows).expect_err("too large");
        assert!(
            matches!(*error.fault, Fault::OutputTooLarge { .. }),
            "{error}"
        );
    }
    assert_eq!(pool.metrics().starts, 1);
}

/// An array whose memory cannot be given back without a panic.
fn sticky() -> ArrayRef {
    struct Sticky;
    impl Drop for Sticky {
        fn drop(&mut self) {
            std::panic::panic_any("memory that sticks");
        }
    }
    static VALUES: [i64; 1] = [1];
    let at = std::ptr::NonNull::from(&VALUES).cast();
    // SAFETY: the values live for ever, and nobody writes to them.
    let buffer = unsafe {
        arrow::buffer::Buffer::from_custom_allocation(at, size_of_val(&VALUES), Arc::new(Sticky))
    };
    Arc::new(Int64Array::new(buffer.into(), None))
}

#[test]
fn a_panic_on_the_thread_of_a_slot_ends_the_slot_and_not_the_run() {
    let ledger = machine();
    for warm in [false, true] {
        let warm = warm.then(|| WarmPools::new(WarmLimits::default()));
        let config = RunConfig {
            warm: warm.clone(),
            ..on(&ledger)
        };
        let (pool, call) = faulty(json!({}));
        let run = run(config, vec![pool.slots(slots(2))]);
        let pool = run.pools()[0].clone();
        let error = pool
            .call(&call, Rows::new(vec![sticky()], 1))
            .expect_err("no answer");
        assert!(matches!(*error.fault, Fault::Closed), "{error}");
        // The other slot goes on.
        until(|| through(&pool, &call, &longs([1])).is_ok());
        drop(pool);
        in_time(move || drop((run.finish(), warm)));
        assert_clean(&ledger);
    }
}

#[test]
fn results_end_also_after_a_call_that_failed() {
    let body = r#"
      (data (i32.const 0) "reset")
      (func (export "wasmill_reset") (call $log (i32.const 3) (i32.const 0) (i32.const 5)))
      (func (export "failing") (param $frame i32) (result i32) (i32.const 2))"#;
    let module = load("failing", &crate::guests::wat(&[record("failing")], body));
    let lines = Lines::default();
    let pool = Pool::builder(&module).on_log(lines.sink());
    let run = run(on(&machine()), vec![pool]);
    let failing = bind(&module, "failing", &[int64()]);
    for n in 1..4 {
        let error = through(&run.pools()[0], &failing, &longs([1])).expect_err("it fails");
        assert!(matches!(*error.fault, Fault::Guest { .. }), "{error}");
        assert_eq!(lines.count("reset"), n);
    }
}
