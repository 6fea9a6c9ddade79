//! Slots, states, sequences and limits.

use super::*;

#[test]
fn sixty_four_partitions_through_two_slots_start_them_twice() {
    let module = module("probe");
    let (sink, lines) = lines();
    let pool = Pool::builder(&module)
        .state("Slow")
        .init_args(json!({"spin": 1_000_000}))
        .slots(slots(2))
        .on_log(sink)
        .start()
        .expect("a pool");
    let call = bind(&module, "slow", &[int64()]);
    std::thread::scope(|scope| {
        for partition in 0..64_i64 {
            let (pool, call) = (&pool, &call);
            scope.spawn(move || {
                let out = through(pool, call, &longs([partition; 100])).expect("rows");
                assert_eq!(values(&out), [partition + 1; 100]);
            });
        }
    });
    let metrics = pool.metrics();
    assert_eq!(
        (metrics.starts, metrics.inits, metrics.calls, metrics.rows),
        (2, 2, 64, 6400)
    );
    assert_eq!(
        *lines.lock().expect("not poisoned"),
        ["slow init", "slow init"]
    );
}

#[test]
fn a_sequence_is_held_to_one_slot_and_input_order_and_says_so() {
    let module = module("probe");
    let call = bind(&module, "ctr", &[]);
    assert_eq!(call.function().volatility, Volatility::Volatile);
    assert_eq!(
        call.function().state.as_ref().expect("a state").kind,
        StateKind::Sequence
    );
    let pool = Pool::builder(&module)
        .state_for(&call)
        .init_args(json!({"start": 100}))
        .slots(slots(4))
        .start()
        .expect("a pool");
    assert_eq!(pool.slots(), 1);
    assert!(
        pool.notices()[0].contains("runs in 1 slot") && pool.notices()[0].contains("4 slots"),
        "{:?}",
        pool.notices()
    );
    let schema = batch(vec![("x", longs([]))]).schema();
    let batches = (0..10).map(|n| Ok(batch(vec![("x", longs(0..n))])));
    let stage = Stage::new(&schema)
        .call(&pool, &call, &[], "n")
        .expect("a stage")
        .batch_size(slots(4));
    let out: Vec<i64> = stage
        .run(batches)
        .flat_map(|b| values(b.expect("rows").column(1)))
        .collect();
    assert_eq!(out, (101..146).collect::<Vec<_>>());
}

#[test]
fn a_lost_sequence_ends_its_run() {
    let module = module("probe");
    let (ctr, boom) = (bind(&module, "ctr", &[]), bind(&module, "boom", &[int64()]));
    let pool = Pool::builder(&module)
        .state_for(&ctr)
        .start()
        .expect("a pool");
    assert!(pool.call(&ctr, Rows::new(vec![], 2)).is_ok());
    assert!(pool.call(&boom, Rows::new(vec![longs([3])], 1)).is_err());
    let error = pool
        .call(&ctr, Rows::new(vec![], 1))
        .expect_err("the state is lost");
    assert!(matches!(*error.fault, Fault::StateLost { .. }), "{error}");
    assert!(error.to_string().contains("boom at 3"), "{error}");
    let again = Pool::builder(&module)
        .state_for(&ctr)
        .start()
        .expect("a pool");
    let out = again.call(&ctr, Rows::new(vec![], 1)).expect("another run");
    assert_eq!(values(&out.array), [1]);
}

#[test]
fn a_failing_init_names_everything_and_leaves_nothing() {
    let module = module("probe");
    let error = Pool::builder(&module)
        .name("p7")
        .state("InitFails")
        .slots(slots(3))
        .start()
        .expect_err("init fails");
    let StartError::Init {
        place,
        message,
        args_digest,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (place.pool.as_str(), place.udf.as_str(), args_digest.len()),
        ("p7", "InitFails", 12)
    );
    assert!(message.contains("init failed on purpose"));
    let text = Pool::builder(&module)
        .state("Scale")
        .start()
        .expect_err("k is missing")
        .to_string();
    assert!(text.contains("$.k") && text.contains("missing"), "{text}");
    let text = Pool::builder(&module)
        .state("Scale")
        .init_args(json!({"k": 1, "kk": 2}))
        .start()
        .expect_err("kk")
        .to_string();
    assert!(text.contains("did you mean `k`"), "{text}");
    let error = Pool::builder(&module)
        .slots(slots(100_000))
        .start()
        .expect_err("too many slots");
    assert!(
        matches!(error, StartError::TooManySlots { most: 1024, .. }),
        "{error}"
    );
    let text = Pool::builder(&module)
        .state("Nope")
        .start()
        .expect_err("no such state")
        .to_string();
    assert!(text.contains("Scale"), "{text}");
    let policy = Policy {
        init_time: Duration::from_millis(50),
        ..Policy::default()
    };
    let error = Pool::builder(&module)
        .state("Slow")
        .init_args(json!({"spin": 1_u64 << 50}))
        .policy(policy)
        .start()
        .expect_err("slow");
    assert_eq!(error.class(), ErrorClass::Limit, "{error}");
}

#[test]
fn limits_hold_for_sdk_guests() {
    let module = module("probe");
    let policy = Policy {
        memory: 32 << 20,
        call_time: Duration::from_millis(500),
        log_bytes: 1000,
        ..Policy::default()
    };
    let (sink, lines) = lines();
    let pool = Pool::builder(&module)
        .policy(policy)
        .on_log(sink)
        .start()
        .expect("a pool");
    let fails = |name: &str, x: i64| {
        through(&pool, &bind(&module, name, &[int64()]), &longs([x])).expect_err(name)
    };
    assert!(matches!(*fails("spin", 1).fault, Fault::Time { .. }));
    assert!(matches!(
        *fails("hog", 64 << 20).fault,
        Fault::Memory { .. }
    ));
    assert_eq!(fails("recurse", 1).class(), ErrorClass::Trap);
    assert_eq!(
        pool.metrics().restarts,
        2,
        "each failed slot was replaced when it was needed again"
    );
    let hog = bind(&module, "hog", &[int64()]);
    assert!(through(&pool, &hog, &longs([1 << 20])).is_ok());
    let chatty = bind(&module, "chatty", &[int64()]);
    assert!(through(&pool, &chatty, &longs([10_000])).is_ok());
    assert!(through(&pool, &chatty, &longs([1])).is_ok());
    let lines = lines.lock().expect("not poisoned");
    assert!(
        lines.len() < 60 && lines.iter().any(|l| l.contains("dropped")),
        "{}",
        lines.len()
    );
}

#[test]
fn overloads_are_resolved_with_the_fewest_casts() {
    let module = module("math");
    let resolve = |udf: &str, types: &[DataType]| {
        module.resolve(
            udf,
            &types
                .iter()
                .cloned()
                .map(ArgumentType::Typed)
                .collect::<Vec<_>>(),
        )
    };
    let types = |r: Result<wasmill::Resolved, BindError>| {
        r.expect("resolves")
            .types
            .into_iter()
            .map(|t| t.expect("a type"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        types(resolve("gcd", &[DataType::Int16, DataType::Int32])),
        vec![DataType::Int32; 2]
    );
    assert_eq!(
        types(resolve("gcd", &[DataType::Int16, DataType::UInt32])),
        vec![DataType::Int64; 2]
    );
    assert_eq!(
        types(resolve("upper", &[DataType::Utf8View])),
        vec![DataType::Utf8]
    );
    let literal = |t: DataType| {
        let arguments = [
            ArgumentType::Typed(t),
            ArgumentType::Literal("7".to_owned()),
        ];
        module.resolve("add", &arguments).expect("resolves").types[0]
            .clone()
            .expect("a type")
    };
    assert_eq!(
        literal(DataType::Int16),
        DataType::Int32,
        "columns decide before literals"
    );
    assert_eq!(literal(DataType::Int64), DataType::Int64);
    assert_eq!(literal(DataType::Float64), DataType::Float64);
    assert!(
        resolve("gcd", &[DataType::Utf8, DataType::Int32])
            .expect_err("text")
            .to_string()
            .contains("gcd(Int32, Int32) or gcd(Int64, Int64)")
    );
    assert!(
        resolve("gdc", &[DataType::Int32])
            .expect_err("a typo")
            .to_string()
            .contains("did you mean `gcd`")
    );
}
