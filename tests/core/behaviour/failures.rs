//! What goes wrong, and what it says.

use super::*;

#[test]
fn c24_a_panic_says_what_where_and_on_which_rows() {
    let (pool, call) = probe("boom", 1, json!({}));
    let batches = [
        longs([0, 1, 2, 4]),
        longs([5, 6, 7, 8]),
        longs([9, 9, 9, 3]),
    ]
    .map(|c| Ok(batch(vec![("x", c)])));
    let schema = batch(vec![("x", longs([]))]).schema();
    let stage = Stage::new(&schema)
        .call(&pool, &call, &["x"], "y")
        .expect("a stage")
        .batch_size(slots(4))
        .partition(5);
    let mut run = stage.run(batches);
    assert!(run.next().expect("batch 0").is_ok() && run.next().expect("batch 1").is_ok());
    let error = run.next().expect("batch 2").expect_err("a panic");
    let text = error.to_string();
    for part in [
        "boom at 3",
        "`boom`",
        "probe",
        "partition 5",
        "rows 8 to 11",
        "slot 0",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let Error::Call(error) = error else {
        panic!("{text}")
    };
    let Fault::Trap { backtrace, .. } = &*error.fault else {
        panic!("{text}")
    };
    assert!(
        backtrace.iter().any(|f| f.contains("boom")),
        "{backtrace:?}"
    );
    assert_eq!(error.class(), ErrorClass::Trap);
    assert!(run.next().is_none(), "nothing after an error");
}

#[test]
fn c25_decimals_are_exact_to_their_last_digit() {
    let module = module("identity");
    let t = DataType::Decimal128(38, 10);
    let call = bind(&module, "identity", &[Field::new("x", t.clone(), true)]);
    let most = 10_i128.pow(38) - 1;
    let column: ArrayRef = Arc::new(
        Decimal128Array::from(vec![12_300_000_000, -1, most, -most]).with_data_type(t.clone()),
    );
    assert_eq!(
        &through(&pool(&module), &call, &column).expect("rows"),
        &column
    );
    // What comes in wrong goes out unchanged; a guest that overflows is found out.
    let over: ArrayRef = Arc::new(Decimal128Array::from(vec![most + 1]).with_data_type(t.clone()));
    let out = through(&pool(&module), &call, &over).expect("rows");
    assert_eq!(&out, &over);
    let mut overflows = record("overflows");
    overflows["args"] = json!([{ "name": "x", "format": "d:38,10" }]);
    overflows["result"] = json!({ "format": "d:38,10" });
    let body = r#"(func (export "overflows") (param $frame i32) (result i32)
      (local $array i32)
      (local.set $array (i32.load (i32.load offset=28 (local.get $frame))))
      (i64.store offset=8 (i32.load offset=4 (i32.load offset=40 (local.get $array))) (i64.const 9223372036854775807))
      (memory.copy (i32.load offset=32 (local.get $frame)) (local.get $array) (i32.const 64))
      (i32.const 0))"#;
    let guest = load("overflows", &wat(&[overflows], body));
    let call = bind(&guest, "overflows", &[Field::new("x", t, true)]);
    let error = through(&pool(&guest), &call, &column).expect_err("39 digits");
    assert!(error.to_string().contains("38 digits"), "{error}");
}

#[test]
fn c26_results_may_be_larger_than_arguments_up_to_the_limit() {
    let module = module("probe");
    let call = bind(
        &module,
        "repeat",
        &[Field::new("x", DataType::Utf8, true), int64()],
    );
    let x: ArrayRef = Arc::new(StringArray::from(vec!["twenty characters...."; 8192]));
    let rows = || Rows::new(vec![Arc::clone(&x), longs([100; 8192])], 8192);
    let out = pool(&module).call(&call, rows()).expect("rows").array;
    assert!(
        out.as_string::<i32>()
            .iter()
            .all(|s| s.is_some_and(|s| s.len() == 2100))
    );
    let small = Pool::builder(&module)
        .policy(Policy {
            output_bytes: 16 << 20,
            ..Policy::default()
        })
        .start()
        .expect("a pool");
    let error = small.call(&call, rows()).expect_err("17 MB");
    assert!(
        matches!(*error.fault, Fault::OutputTooLarge { limit } if limit == 16 << 20),
        "{error}"
    );
    // The slot is still good.
    assert!(
        small
            .call(&call, Rows::new(vec![x.slice(0, 1), longs([1])], 1))
            .is_ok()
    );
    assert_eq!(small.metrics().restarts, 0);
}

#[test]
fn c27_a_batch_too_large_for_the_guest_is_split_by_bytes() {
    let module = module("math");
    let call = bind(&module, "upper", &[Field::new("x", DataType::Utf8, true)]);
    let policy = Policy {
        memory: 16 << 20,
        ..Policy::default()
    };
    let pool = Pool::builder(&module)
        .policy(policy)
        .start()
        .expect("a pool");
    let text = "a".repeat(8 << 10);
    let x: ArrayRef = Arc::new(StringArray::from(vec![text.as_str(); 8192]));
    let out = through(&pool, &call, &x)
        .expect("64 MiB")
        .as_string::<i32>()
        .clone();
    assert!(out.len() == 8192 && out.iter().all(|s| s == Some(&text.to_ascii_uppercase())));
    let metrics = pool.metrics();
    assert!(
        metrics.splits > 8 && metrics.calls == metrics.splits + 1,
        "{metrics}"
    );
    assert!(metrics.peak_memory_bytes <= 16 << 20);
    let huge: ArrayRef = Arc::new(StringArray::from(vec!["a".repeat(20 << 20)]));
    let error = through(&pool, &call, &huge).expect_err("20 MiB in one row");
    assert!(matches!(*error.fault, Fault::RowTooLarge { .. }), "{error}");
    assert_eq!(error.class(), ErrorClass::Limit);
    assert_eq!(
        through(&pool, &call, &x.slice(0, 1)).expect("a row").len(),
        1
    );
}

#[test]
fn c28_init_arguments_and_batch_size_hold_over_partitions() {
    let module = module("probe");
    let scale = bind(&module, "scale", &[int64()]);
    let pool = Pool::builder(&module)
        .state("Scale")
        .init_args(json!({"k": 3}))
        .slots(slots(2))
        .start()
        .expect("a pool");
    let schema = batch(vec![("x", longs([]))]).schema();
    for partition in 0..8 {
        let input = batch(vec![("x", longs(0..5))]);
        let stage = Stage::new(&schema)
            .call(&pool, &scale, &["x"], "y")
            .expect("a stage")
            .batch_size(slots(2))
            .partition(partition);
        let out: Vec<i64> = stage
            .run([Ok(input)])
            .flat_map(|b| values(b.expect("rows").column(1)))
            .collect();
        assert_eq!(out, [0, 3, 6, 9, 12]);
    }
    let metrics = pool.metrics();
    assert_eq!(
        (
            metrics.starts,
            metrics.inits,
            metrics.restarts,
            metrics.calls
        ),
        (2, 2, 0, 24)
    );
}

#[test]
fn c29_error_texts_arrive_cleaned_and_bounded() {
    let module = module("probe");
    let pool = pool(&module);
    let call = bind(
        &module,
        "fail_call_raw",
        &[Field::new("x", DataType::Utf8, true)],
    );
    let x: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let error = through(&pool, &call, &x).expect_err("an error");
    let Fault::Guest { message } = &*error.fault else {
        panic!("{error}")
    };
    assert!(
        message.contains("raw \u{fffd}\\u{0}\\u{1b}[31m end"),
        "{message}"
    );
    let call = bind(&module, "fail_call_long", &[int64()]);
    let error = through(&pool, &call, &longs([1 << 20])).expect_err("an error");
    assert!(
        error.to_string().len() < 10_000 && error.to_string().contains("1048576 bytes in all"),
        "{}",
        error.to_string().len()
    );
    let call = bind(&module, "fail_row_raw", &[int64()]);
    let out = pool
        .call(&call, Rows::new(vec![longs([1])], 1))
        .expect("a row error");
    assert_eq!(out.row_errors[0].code, -7);
    assert!(!out.row_errors[0].message.contains('\0'));
    assert_eq!(
        pool.metrics().restarts,
        0,
        "an error of the guest costs no slot"
    );
}

#[test]
fn c32_a_slot_that_trapped_is_replaced_and_others_keep_their_state() {
    let module = module("probe");
    let (bump, boom) = (
        bind(&module, "bump", &[]),
        bind(&module, "boom", &[int64()]),
    );
    let pool = Pool::builder(&module)
        .state("Bump")
        .start()
        .expect("a pool");
    let next =
        |pool: &Pool| values(&pool.call(&bump, Rows::new(vec![], 1)).expect("a row").array)[0];
    assert_eq!([next(&pool), next(&pool), next(&pool)], [1, 2, 3]);
    let other = Pool::builder(&module)
        .state("Bump")
        .start()
        .expect("a pool");
    assert_eq!(next(&other), 1);
    assert!(pool.call(&boom, Rows::new(vec![longs([3])], 1)).is_err());
    assert_eq!(next(&pool), 1);
    assert_eq!(next(&other), 2);
    let metrics = pool.metrics();
    assert_eq!((metrics.starts, metrics.inits, metrics.restarts), (2, 2, 1));
}

#[test]
fn init_runs_once_per_slot_and_close_once_per_live_slot() {
    let module = module("probe");
    let (sink, lines) = lines();
    let pool = Pool::builder(&module)
        .state("Scale")
        .init_args(json!({"k": 5}))
        .slots(slots(3))
        .on_log(sink)
        .start()
        .expect("a pool");
    let call = bind(&module, "scale", &[int64()]);
    for _ in 0..20 {
        assert_eq!(
            values(&through(&pool, &call, &longs([2])).expect("rows")),
            [10]
        );
    }
    pool.close();
    let lines = lines.lock().expect("not poisoned");
    let count = |text: &str| lines.iter().filter(|l| l.as_str() == text).count();
    assert_eq!(
        (count("scale init k=5"), count("scale close k=5")),
        (3, 3),
        "{lines:?}"
    );
}
