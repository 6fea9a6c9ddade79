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
