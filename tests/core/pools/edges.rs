//! Limits: a call, a line, a pool exactly at each, and just over it.

use super::*;

fn policy() -> Policy {
    Policy {
        memory: 64 << 20,
        ..Policy::default()
    }
}

#[test]
fn c35_an_answer_may_have_exactly_as_many_bytes_as_the_policy_allows() {
    let scale = bind(
        &module("probe"),
        "scale",
        &[Field::new("x", DataType::Int64, false)],
    );
    let text = Field::new("x", DataType::Utf8, false);
    let count = Field::new("n", DataType::Int64, false);
    let repeat = bind(&module("probe"), "repeat", &[text, count]);
    let with = |output_bytes| {
        let policy = Policy {
            output_bytes,
            ..policy()
        };
        let run = run(
            on(&machine()),
            vec![probe("Scale", json!({ "k": 2 })).policy(policy)],
        );
        let pool = &run.pools()[0];
        let numbers = through(pool, &scale, &longs(0..1_000));
        let words: ArrayRef = Arc::new(StringArray::from(vec!["x"; 10]));
        let texts = pool.call(&repeat, Rows::new(vec![words, longs([100; 10])], 10));
        let fault = |e: CallError| *e.fault;
        let out = (
            numbers.map(|_| ()).map_err(fault),
            texts.map(|_| ()).map_err(fault),
        );
        assert_eq!(run.finish().pools[0].starts, 1);
        out
    };
    // 1,000 numbers of 8 bytes; 10 texts of 100 bytes and 11 offsets of 4.
    assert!(matches!(with(8_000), (Ok(()), Ok(()))));
    assert!(matches!(
        with(7_999),
        (Err(Fault::OutputTooLarge { limit: 7_999 }), Ok(()))
    ));
    assert!(matches!(with(1_044), (Err(_), Ok(()))));
    assert!(matches!(
        with(1_043),
        (Err(_), Err(Fault::OutputTooLarge { limit: 1_043 }))
    ));
}

#[test]
fn c35_a_call_may_log_exactly_as_many_bytes_as_the_policy_allows() {
    let body = r#"
      (data (i32.const 0) "ten bytes.")
      (func (export "f") (param $frame i32) (result i32)
        (call $log (i32.const 3) (i32.const 0) (i32.const 10))
        (call $log (i32.const 3) (i32.const 0) (i32.const 10))
        (i32.const 2))"#;
    let module = load("logging", &crate::guests::wat(&[record("f")], body));
    let f = bind(&module, "f", &[int64()]);
    // Each line counts 16 bytes more.
    for (log_bytes, kept) in [(52, 2), (51, 1), (26, 1), (25, 0), (0, 0)] {
        let lines = Lines::default();
        let policy = Policy {
            log_bytes,
            ..policy()
        };
        let pool = Pool::builder(&module).policy(policy).on_log(lines.sink());
        let run = run(on(&machine()), vec![pool]);
        for call in 1..4 {
            let error = through(&run.pools()[0], &f, &longs([1])).expect_err("it fails");
            assert!(matches!(*error.fault, Fault::Guest { .. }), "{error}");
            // The next call may say as much again.
            assert_eq!(lines.count("ten bytes."), call * kept, "{log_bytes}");
        }
        drop(run);
        let dropped = format!(
            "{} more bytes of log were dropped (limit {log_bytes}",
            20 - 10 * kept
        );
        assert_eq!(lines.count(&dropped), if kept < 2 { 3 } else { 0 });
    }
}

#[test]
fn c35_times_end_what_takes_longer_and_nothing_else() {
    let (_, call) = faulty(json!({}));
    let slow = bind(&module("probe"), "slow", &[int64()]);
    // At least 50 ms on any machine.
    let turns = 200_000_000_u64;
    let minute = Duration::from_secs(60);
    let work = |call_time, init_time| {
        let with = |call_time, init_time| Policy {
            call_time,
            init_time,
            ..policy()
        };
        let pools = vec![
            probe("Faulty", json!({ "turns": turns })).policy(with(call_time, minute)),
            probe("Slow", json!({ "spin": turns }))
                .policy(with(minute, init_time))
                .lazy(),
        ];
        let run = run(on(&machine()), pools);
        let called = through(&run.pools()[0], &call, &longs([1])).map(drop);
        let started = through(&run.pools()[1], &slow, &longs([1])).map(drop);
        let text = |e: CallError| e.to_string();
        let taken = run.finish().pools[0].guest_seconds;
        (called.map_err(text), started.map_err(text), taken)
    };
    let short = Duration::from_millis(10);
    let (called, started, _) = work(minute, minute);
    assert_eq!((called, started), (Ok(()), Ok(())));
    let (called, started, taken) = work(short, short);
    let text = called.expect_err("a slow call");
    assert!(text.contains("the call took longer than 10ms"), "{text}");
    let text = started.expect_err("a slow init");
    assert!(text.contains("init took longer than 10ms"), "{text}");
    assert!(
        taken >= 0.01,
        "the time of a call that failed counts: {taken}"
    );
}

#[test]
fn c35_slots_start_again_for_other_reasons_as_often_as_the_budget_says() {
    for slot_restarts in [0, 1, 3] {
        let (pool, call) = faulty(json!({}));
        let chatty = bind(&module("probe"), "chatty", &[int64()]);
        let budgets = Budgets {
            slot_restarts,
            trap_restarts: 0,
            backoff: Duration::ZERO,
            ..Budgets::default()
        };
        let pool = pool.budgets(budgets).on_log(Arc::new(|line| {
            if line.text.starts_with("line") {
                std::panic::panic_any("the sink fails");
            }
        }));
        let run = run(on(&machine()), vec![pool]);
        let pool = &run.pools()[0];
        for _ in 0..slot_restarts {
            let error = through(pool, &chatty, &longs([1])).expect_err("a panic");
            assert!(matches!(*error.fault, Fault::Host { .. }), "{error}");
            through(pool, &call, &longs([1])).expect("a row, on a new slot");
        }
        through(pool, &chatty, &longs([1])).expect_err("a panic");
        let error = through(pool, &call, &longs([1])).expect_err("given up");
        assert!(
            matches!(*error.fault, Fault::GaveUp { budget: Budget::SlotRestarts, limit, .. } if limit == slot_restarts),
            "{error}"
        );
        assert_eq!(run.finish().pools[0].restarts, u64::from(slot_restarts));
    }
}

#[test]
fn c35_warm_pools_stay_up_to_their_limits() {
    let scale = bind(&module("probe"), "scale", &[int64()]);
    let kept = |limits: WarmLimits, ks: &[i64], calls: usize| {
        let warm = WarmPools::new(limits);
        let ledger = machine();
        let mut peak = 0;
        for k in ks {
            let config = RunConfig {
                warm: Some(warm.clone()),
                ..on(&ledger)
            };
            let run = run(config, vec![probe("Scale", json!({ "k": k }))]);
            for _ in 0..calls {
                through(&run.pools()[0], &scale, &longs([1])).expect("a row");
            }
            peak = run.finish().pools[0].peak_memory_bytes;
        }
        (warm.len(), peak)
    };
    let calls = |calls| WarmLimits {
        calls: Some(calls),
        ..WarmLimits::default()
    };
    assert_eq!(kept(calls(3), &[1], 2).0, 1);
    assert_eq!(kept(calls(3), &[1], 3).0, 0);
    let memory = |memory| WarmLimits {
        memory: Some(memory),
        ..WarmLimits::default()
    };
    let (_, peak) = kept(WarmLimits::default(), &[1], 1);
    assert_eq!(kept(memory(peak), &[1], 1).0, 1);
    assert_eq!(kept(memory(peak - 1), &[1], 1).0, 0);
    let pools = |pools| WarmLimits {
        pools,
        ..WarmLimits::default()
    };
    assert_eq!(kept(pools(2), &[1, 2], 1).0, 2);
    assert_eq!(kept(pools(2), &[1, 2, 3], 1).0, 2);
}

#[test]
fn extremely_short_times_end_calls_and_nothing_else() {
    for time in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(1),
    ] {
        let ledger = machine();
        for lazy in [false, true] {
            let policy = Policy {
                call_time: time,
                init_time: time,
                close_time: time,
                ..policy()
            };
            let (pool, call) = faulty(json!({ "turns": 100_000_000 }));
            let pool = pool.policy(policy).slots(slots(2));
            match Run::start(on(&ledger), vec![if lazy { pool.lazy() } else { pool }]) {
                Err(error) => assert!(error.to_string().contains("took longer"), "{error}"),
                Ok(run) => {
                    let error = through(&run.pools()[0], &call, &longs([1])).expect_err("late");
                    assert!(error.to_string().contains("took longer"), "{error}");
                }
            }
            assert_clean(&ledger);
        }
    }
}

#[test]
fn machines_with_next_to_nothing_refuse_or_work() {
    let with = |cpus, memory| {
        Ledger::new(Machine {
            cpus,
            memory,
            devices: vec![DeviceTotal {
                name: "small".to_owned(),
                memory: 0,
            }],
        })
    };
    let thousandth = Share::thousandths(1);
    let scale = bind(&module("probe"), "scale", &[int64()]);
    let pool = |cpus, gpus, device_memory| {
        let resources = SlotResources {
            cpus,
            gpus,
            device_memory,
        };
        let pool = probe("Scale", json!({ "k": 2 }));
        pool.resources(resources).queue_bytes(0).slots(slots(2))
    };
    let room = 128 << 20;
    for (ledger, pool, fits) in [
        (
            with(thousandth, room),
            pool(thousandth, thousandth, 0),
            true,
        ),
        (
            with(thousandth, room),
            pool(Share::ZERO, Share::thousandths(500), 0),
            true,
        ),
        (
            with(thousandth, room),
            pool(thousandth, Share::thousandths(501), 0),
            false,
        ),
        (
            with(thousandth, room),
            pool(thousandth, thousandth, 1),
            false,
        ),
        (
            with(thousandth, room),
            pool(Share::thousandths(2), Share::ZERO, 0),
            false,
        ),
        (
            with(thousandth, room - 1),
            pool(thousandth, Share::ZERO, 0),
            false,
        ),
        (
            with(Share::ZERO, room),
            pool(Share::ZERO, Share::ZERO, 0),
            true,
        ),
        (
            with(Share::ZERO, 0),
            pool(Share::ZERO, Share::ZERO, 0),
            false,
        ),
    ] {
        match Run::start(on(&ledger), vec![pool]) {
            Ok(run) => {
                let out = through(&run.pools()[0], &scale, &longs([4])).expect("a row");
                assert!(fits && values(&out) == [8]);
            }
            Err(StartError::Admission(AdmissionError::Never { .. })) => assert!(!fits),
            Err(other) => panic!("{other}"),
        }
        assert_clean(&ledger);
    }
}
