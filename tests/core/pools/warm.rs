//! Pools that outlive runs.

use super::*;

fn warm(limits: WarmLimits) -> (Ledger, WarmPools) {
    (machine(), WarmPools::new(limits))
}

fn with(ledger: &Ledger, warm: &WarmPools) -> RunConfig {
    RunConfig {
        warm: Some(warm.clone()),
        ..on(ledger)
    }
}

/// One call of a state that counts its rows.
fn bump(run: &Run) -> i64 {
    let call = bind(&module("probe"), "bump", &[]);
    let out = run.pools()[0]
        .call(&call, Rows::new(vec![], 1))
        .expect("a row");
    values(&out.array)[0]
}

fn bumps() -> Vec<PoolBuilder> {
    vec![probe("Bump", json!({}))]
}

#[test]
fn a_second_run_starts_nothing_and_finds_the_state() {
    let (ledger, warm) = warm(WarmLimits::default());
    for expected in 1..=5 {
        let run = run(with(&ledger, &warm), bumps());
        assert_eq!(bump(&run), expected);
        let metrics = run.finish();
        assert_eq!((metrics.pools[0].starts, metrics.pools[0].inits), (1, 1));
        assert_eq!(metrics.pools[0].closes, 0);
    }
    assert_eq!(warm.len(), 1);
    assert!(ledger.usage().memory > 0, "it keeps what it reserved");
    drop(warm);
    assert_clean(&ledger);
}

#[test]
fn tenants_never_share() {
    let (ledger, warm) = warm(WarmLimits::default());
    for tenant in ["a", "b"] {
        let config = RunConfig {
            tenant: tenant.to_owned(),
            ..with(&ledger, &warm)
        };
        assert_eq!(bump(&run(config, bumps())), 1);
    }
    assert_eq!(warm.len(), 2);
}

#[test]
fn reset_means_fresh_instances() {
    let (ledger, warm) = warm(WarmLimits::default());
    let first = run(with(&ledger, &warm), bumps());
    assert_eq!((bump(&first), bump(&first)), (1, 2));
    warm.reset();
    // Whoever uses the old one goes on with it; the next gets a new one.
    let second = run(with(&ledger, &warm), bumps());
    assert_eq!((bump(&second), bump(&first)), (1, 3));
    drop(first);
    drop(second);
    warm.reset();
    assert!(warm.is_empty());
    assert_clean(&ledger);
}

#[test]
fn a_pool_that_starts_during_a_reset_is_not_kept() {
    let (ledger, warm) = warm(WarmLimits::default());
    let reset = warm.clone();
    let sink: LogSink = Arc::new(move |line| {
        if line.text.starts_with("scale init") {
            reset.reset();
        }
    });
    let pool = probe("Scale", json!({ "k": 2 })).on_log(sink);
    for _ in 0..2 {
        let run = run(with(&ledger, &warm), vec![pool.clone()]);
        assert_eq!(run.finish().pools[0].closes, 1);
        assert!(warm.is_empty());
        assert_clean(&ledger);
    }
}

#[test]
fn a_run_on_a_warm_pool_with_a_stuck_slot_waits_for_its_other_calls() {
    let (ledger, warm) = warm(WarmLimits::default());
    let (release, stuck) = mpsc::channel::<()>();
    let stuck = Mutex::new(stuck);
    let (pool, call) = faulty(json!({ "turns": 50_000_000 }));
    let chatty = bind(&module("probe"), "chatty", &[int64()]);
    let pool = pool.slots(slots(2)).on_log(Arc::new(move |line| {
        if line.text.starts_with("line") {
            let _ = stuck.lock().expect("a lock").recv();
        }
    }));
    let pool = pool.policy(Policy {
        memory: 64 << 20,
        call_time: Duration::from_secs(1),
        ..Policy::default()
    });
    let (one, two) = (
        run(with(&ledger, &warm), vec![pool.clone()]),
        run(with(&ledger, &warm), vec![pool]),
    );
    let error = through(&one.pools()[0], &chatty, &longs([1])).expect_err("lost");
    assert!(matches!(*error.fault, Fault::Lost), "{error}");
    let (send, receive) = mpsc::channel();
    two.pools()[0].submit(&call, Rows::new(vec![longs([1])], 1), move |answer| {
        let _ = send.send(answer.map(|_| ()));
    });
    until(|| ledger.usage().cpus_in_use > Share::ZERO);
    two.finish();
    assert!(receive.try_recv().is_ok(), "the call has come to its end");
    one.finish();
    assert!(warm.is_empty());
    drop(release);
    until(|| ledger.usage().holders.is_empty());
    assert_clean(&ledger);
}

#[test]
fn a_sequence_never_stays() {
    let (ledger, warm) = warm(WarmLimits::default());
    let call = bind(&module("probe"), "ctr", &[]);
    for _ in 0..2 {
        let run = run(with(&ledger, &warm), vec![probe("Counter", json!({}))]);
        let out = run.pools()[0]
            .call(&call, Rows::new(vec![], 1))
            .expect("a row");
        assert_eq!(values(&out.array), [1]);
        drop(run);
        assert!(warm.is_empty());
    }
    assert_clean(&ledger);
}

#[test]
fn pools_that_have_served_enough_are_closed() {
    let limits = [
        WarmLimits {
            calls: Some(2),
            ..WarmLimits::default()
        },
        WarmLimits {
            age: Duration::ZERO,
            ..WarmLimits::default()
        },
        WarmLimits {
            memory: Some(1),
            ..WarmLimits::default()
        },
        WarmLimits {
            pools: 0,
            ..WarmLimits::default()
        },
    ];
    for limits in limits {
        let (ledger, warm) = warm(limits.clone());
        for _ in 0..2 {
            let run = run(with(&ledger, &warm), bumps());
            assert_eq!((bump(&run), bump(&run)), (1, 2), "{limits:?}");
            drop(run);
            assert!(warm.is_empty(), "{limits:?}");
            assert_clean(&ledger);
        }
    }
}

#[test]
fn idle_pools_are_closed_after_a_while() {
    let (ledger, warm) = warm(WarmLimits {
        idle: Duration::from_millis(50),
        ..WarmLimits::default()
    });
    let lines = Lines::default();
    let pool = probe("Scale", json!({ "k": 1 })).on_log(lines.sink());
    drop(run(with(&ledger, &warm), vec![pool]));
    until(|| warm.is_empty() && ledger.usage().holders.is_empty());
    assert_eq!(lines.count("scale close"), 1);
    assert_clean(&ledger);
}

#[test]
fn idle_pools_make_room() {
    let (ledger, warm) = warm(WarmLimits::default());
    let sized = |k, memory| {
        probe("Scale", json!({ "k": k })).policy(Policy {
            memory,
            ..Policy::default()
        })
    };
    for k in 0..3 {
        drop(run(with(&ledger, &warm), vec![sized(k, 900 << 20)]));
    }
    assert_eq!(warm.len(), 3);
    let config = RunConfig {
        admission: Admission::Fail,
        ..with(&ledger, &warm)
    };
    let large = run(config, vec![sized(9, 2000 << 20)]);
    // The longest idle went: as many as had to.
    assert_eq!(warm.len(), 3 - 1 + 1);
    let k1 = run(with(&ledger, &warm), vec![sized(1, 900 << 20)]);
    assert_eq!(warm.len(), 3, "this one was still there");
    drop((large, k1));
    warm.reset();
    assert_clean(&ledger);
}

#[test]
fn a_pool_that_has_died_is_not_kept() {
    let (ledger, warm) = warm(WarmLimits::default());
    let (pool, call) = faulty(json!({ "trap_at": 1 }));
    let pool = pool.budgets(Budgets {
        trap_restarts: 0,
        ..Budgets::default()
    });
    for _ in 0..2 {
        let run = run(with(&ledger, &warm), vec![pool.clone()]);
        let error = through(&run.pools()[0], &call, &longs([1])).expect_err("a trap");
        assert!(matches!(*error.fault, Fault::Trap { .. }), "{error}");
        drop(run);
        assert!(warm.is_empty());
    }
    assert_clean(&ledger);
}

#[test]
fn a_failed_start_takes_no_warm_pool_along() {
    let (ledger, warm) = warm(WarmLimits::default());
    let first = run(with(&ledger, &warm), bumps());
    assert_eq!(bump(&first), 1);
    let pools = vec![probe("Bump", json!({})), probe("InitFails", json!({}))];
    Run::start(with(&ledger, &warm), pools).expect_err("init fails");
    assert_eq!(bump(&first), 2);
    drop(first);
    assert_eq!(bump(&run(with(&ledger, &warm), bumps())), 3);
    assert_eq!(warm.len(), 1);
}

#[test]
fn runs_at_the_same_time_share_one_pool() {
    let (ledger, warm) = warm(WarmLimits::default());
    let lines = Lines::default();
    let sink = lines.sink();
    let call = bind(&module("probe"), "scale", &[int64()]);
    std::thread::scope(|scope| {
        for n in 0..50_i64 {
            let (ledger, warm, sink, call) = (&ledger, &warm, Arc::clone(&sink), &call);
            scope.spawn(move || {
                let pool = probe("Scale", json!({ "k": 2 }))
                    .slots(slots(2))
                    .on_log(sink);
                let run = run(with(ledger, warm), vec![pool]);
                for x in 0..10 {
                    let out = through(&run.pools()[0], call, &longs([n, x])).expect("rows");
                    assert_eq!(values(&out), [2 * n, 2 * x]);
                }
            });
        }
    });
    assert_eq!(lines.count("scale init"), 2);
    drop(warm);
    assert_eq!(lines.count("scale close"), 2);
    assert_clean(&ledger);
}

#[test]
fn cancelling_one_run_leaves_the_pool_to_the_other() {
    let (ledger, warm) = warm(WarmLimits::default());
    let (pool, call) = faulty(json!({ "turns": 20_000_000 }));
    let pool = pool.policy(Policy {
        memory: 64 << 20,
        call_time: Duration::from_secs(60),
        ..Policy::default()
    });
    let one = run(with(&ledger, &warm), vec![pool.clone()]);
    let two = run(with(&ledger, &warm), vec![pool]);
    let (send, receive) = mpsc::channel();
    for run in [&one, &two] {
        let send = send.clone();
        run.pools()[0].submit(&call, Rows::new(vec![longs([1])], 1), move |answer| {
            let _ = send.send(answer.is_ok());
        });
    }
    one.cancel();
    let answers = [soon(&receive), soon(&receive)];
    assert_eq!(answers.iter().filter(|ok| **ok).count(), 1, "{answers:?}");
    drop((one, two));
    assert_eq!(warm.len(), 1);
}

/// Says each time that it is asked to bind.
fn binding() -> Module {
    let mut record = record("f");
    record["bind"] = json!("b");
    let body = format!(
        r#"
      (data (i32.const 0) "bind")
      (func (export "b") (param i32) (result i32)
        (call $log (i32.const 3) (i32.const 0) (i32.const 4))
        (i32.const 0))
      {}"#,
        crate::guests::IDENTITY.replace("identity", "f")
    );
    load("binding", &crate::guests::wat(&[record], &body))
}

#[test]
fn a_slot_binds_what_each_run_binds_anew_only_once() {
    let (ledger, warm) = warm(WarmLimits::default());
    let module = binding();
    let lines = Lines::default();
    let sink = lines.sink();
    for _ in 0..10 {
        let pool = Pool::builder(&module).on_log(Arc::clone(&sink));
        let run = run(with(&ledger, &warm), vec![pool]);
        let call = bind(&module, "f", &[int64()]);
        through(&run.pools()[0], &call, &longs([1])).expect("a row");
        assert_eq!(lines.count("bind"), 1);
    }
}

#[test]
fn a_warm_slot_forgets_calls_that_nobody_makes_any_more() {
    let (ledger, warm) = warm(WarmLimits::default());
    let module = crate::udfs::module("identity");
    for n in 0..3_000 {
        let policy = Policy {
            memory: 16 << 20,
            ..Policy::default()
        };
        let pool = Pool::builder(&module).policy(policy);
        let run = run(with(&ledger, &warm), vec![pool]);
        let texts = StringArray::from(vec![format!("{n:016000}")]);
        let constant: ArrayRef = Arc::new(DictionaryArray::<arrow::datatypes::Int32Type>::new(
            Int32Array::from(vec![0]),
            Arc::new(texts),
        ));
        let function = module.manifest().overloads("identity").next().expect("it");
        let argument = wasmill::Argument::constant(Arc::clone(&constant));
        let call = module.bind(function, vec![argument]).expect("a call");
        let out = run.pools()[0].call(&call, Rows::new(vec![], 1));
        let out = out.unwrap_or_else(|e| panic!("{n}: {e}")).array;
        assert_eq!(&out, &constant);
        assert_eq!(run.metrics().pools[0].starts, 1);
    }
}
