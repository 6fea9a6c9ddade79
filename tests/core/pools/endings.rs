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
