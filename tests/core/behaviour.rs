//! Behaviour that a user of pools relies on, one test for each case that went wrong elsewhere.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use serde_json::json;
use wasmill::{
    Argument, ArgumentType, BindError, Call, Error, ErrorClass, Fault, LogSink, Module, Policy,
    Pool, Rows, Stage, StageCall, StartError, StateKind, Volatility,
};

use crate::guests::{bind, load, pool, record, through, wat};
use crate::udfs::module;

fn int64() -> Field {
    Field::new("x", DataType::Int64, true)
}

fn slots(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("not zero")
}

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn values(array: &ArrayRef) -> Vec<i64> {
    array.as_primitive::<Int64Type>().values().to_vec()
}

/// A pool for one function of the probe, and the function bound to int64 columns.
fn probe(name: &str, columns: usize, init: serde_json::Value) -> (Pool, Call) {
    let module = module("probe");
    let call = bind(&module, name, &vec![int64(); columns]);
    let pool = Pool::builder(&module)
        .state_for(&call)
        .init_args(init)
        .start()
        .unwrap_or_else(|e| panic!("{e}"));
    (pool, call)
}

/// A sink that keeps lines.
fn lines() -> (LogSink, Arc<Mutex<Vec<String>>>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&kept);
    (
        Arc::new(move |line| {
            sink.lock()
                .expect("not poisoned")
                .push(line.text.to_owned())
        }),
        kept,
    )
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(n, c)| Field::new(*n, c.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.into_iter().map(|(_, c)| c).collect(),
    )
    .expect("a batch")
}

#[test]
fn c1_a_function_without_arguments_is_given_its_row_count() {
    let (pool, call) = probe("seven", 0, json!({}));
    for rows in [0, 1, 5] {
        let array = pool
            .call(&call, Rows::new(vec![], rows))
            .expect("rows")
            .array;
        assert_eq!(
            array.as_primitive::<Int32Type>().values(),
            &vec![7; rows][..]
        );
    }
    assert_eq!(pool.metrics().calls, 2, "no call for 0 rows");
}

#[test]
fn c6_the_wrong_number_of_rows_is_an_error_that_says_both() {
    let (pool, call) = probe("wrong_rows", 1, json!({}));
    for delta in [-1, 1, -7, -6, 7] {
        let error =
            through(&pool, &call, &longs([delta; 7])).expect_err("the wrong number of rows");
        let text = error.to_string();
        assert!(
            text.contains(&format!("has {} rows, expected 7", 7 + delta))
                && text.contains("`wrong_rows`"),
            "{text}"
        );
    }
    assert!(through(&pool, &call, &longs([0; 7])).is_ok());
}

#[test]
fn c7_constants_give_a_row_for_each_row() {
    let module = module("probe");
    let add = module.manifest().overloads("add").next().expect("add");
    let pool = pool(&module);
    let constant = |n| Argument::constant(longs([n]));
    let call = module
        .bind(add, vec![constant(1), constant(2)])
        .expect("binds");
    assert_eq!(
        values(&pool.call(&call, Rows::new(vec![], 4)).expect("rows").array),
        [3; 4]
    );
    let x = longs(0..5);
    for arguments in [
        vec![Argument::column(int64()), constant(2)],
        vec![constant(2), Argument::column(int64())],
    ] {
        let call = module.bind(add, arguments).expect("binds");
        assert_eq!(
            values(&through(&pool, &call, &x).expect("rows")),
            [2, 3, 4, 5, 6]
        );
        for n in [1, 2, 3, 5, 8192] {
            let input = batch(vec![("x", Arc::clone(&x))]);
            let stage = Stage::new(&input.schema())
                .call(&pool, &call, &["x"], "y")
                .expect("a stage")
                .batch_size(slots(n));
            let out: Vec<i64> = stage
                .run([Ok(input)])
                .flat_map(|b| values(b.expect("rows").column(1)))
                .collect();
            assert_eq!(out, [2, 3, 4, 5, 6], "batches of {n}");
        }
    }
    let null = Argument::constant(new_null_array(&DataType::Int64, 1));
    let call = module
        .bind(add, vec![Argument::column(int64()), null])
        .expect("binds");
    assert_eq!(through(&pool, &call, &x).expect("rows").null_count(), 5);
}

#[test]
fn c8_sizes_that_do_not_divide_the_rows() {
    let (pool, call) = probe("scale", 1, json!({"k": 2}));
    for (rows, size) in [(3, 2), (8193, 8192), (1, 8192), (0, 5)] {
        let input = batch(vec![("x", longs(0..rows))]);
        let stage = Stage::new(&input.schema())
            .call(&pool, &call, &["x"], "y")
            .expect("a stage")
            .batch_size(slots(size));
        let out: Vec<i64> = stage
            .run([Ok(input)])
            .flat_map(|b| values(b.expect("rows").column(1)))
            .collect();
        assert_eq!(out, (0..rows).map(|x| 2 * x).collect::<Vec<_>>());
    }
}

#[test]
fn c8_the_guest_sees_exactly_the_batch_size() {
    let (pool, call) = probe("max_batch", 0, json!({}));
    let pieces = [1, 4, 0, 9, 2, 1].map(|n| Ok(batch(vec![("x", longs(0..n))])));
    let schema = batch(vec![("x", longs([]))]).schema();
    let stage = Stage::new(&schema)
        .call(&pool, &call, &[], "y")
        .expect("a stage")
        .batch_size(slots(5));
    let sizes: Vec<usize> = stage
        .run(pieces)
        .map(|b| b.expect("rows").num_rows())
        .collect();
    assert_eq!(sizes, [5, 5, 5, 2]);
    assert_eq!(pool.metrics().calls, 4);
    let largest = pool.call(&call, Rows::new(vec![], 1)).expect("rows").array;
    assert_eq!(values(&largest), [5]);
}

#[test]
fn batches_that_cannot_be_joined_go_on_as_they_are() {
    let module = module("identity");
    let t = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let call = bind(&module, "identity", &[Field::new("x", t, true)]);
    let part = |n: i32| {
        let words = StringArray::from_iter_values((0..100).map(|i| format!("{n}/{i}")));
        let keys = Int8Array::from_iter_values(0..100);
        batch(vec![(
            "x",
            Arc::new(DictionaryArray::new(keys, Arc::new(words))),
        )])
    };
    let schema = part(0).schema();
    let stage = Stage::new(&schema)
        .call(&pool(&module), &call, &["x"], "y")
        .expect("a stage");
    let out: Vec<RecordBatch> = stage
        .run((0..3).map(|n| Ok(part(n))))
        .map(|b| b.expect("rows"))
        .collect();
    assert_eq!(
        out.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(),
        [100, 100, 100]
    );
    assert!(out.iter().all(|b| b.column(0) == b.column(1)));
}

#[test]
fn c9_untyped_nulls_pass_through() {
    let module = module("identity");
    let call = bind(
        &module,
        "identity",
        &[Field::new("x", DataType::Null, true)],
    );
    let column: ArrayRef = Arc::new(NullArray::new(3));
    assert_eq!(
        through(&pool(&module), &call, &column)
            .expect("rows")
            .data_type(),
        &DataType::Null
    );
}

/// A guest whose `bind` answers large utf8.
fn binding_guest(result: serde_json::Value) -> Module {
    let mut r = record("f");
    r["args"] = json!([{ "name": "x", "any": true }]);
    r["result"] = result;
    r["bind"] = json!("b");
    let body = r#"
      (data (i32.const 16) "U\00+l\00no thanks")
      (func (export "b") (param $frame i32) (result i32)
        (local $result i32) (local $format i32)
        (local.set $format (i32.load8_u (i32.load (i32.load (i32.load offset=12 (local.get $frame))))))
        (if (i32.eq (local.get $format) (i32.const 0x62)) (then
          (i32.store offset=32 (local.get $frame) (i32.const 21))
          (i32.store offset=36 (local.get $frame) (i32.const 9))
          (return (i32.const 2))))
        (if (i32.eq (local.get $format) (i32.const 0x67)) (then (loop $l (br $l))))
        (local.set $result (i32.load offset=24 (local.get $frame)))
        (i32.store (local.get $result) (i32.const 16))
        (if (i32.eq (local.get $format) (i32.const 0x66)) (then (i32.store (local.get $result) (i32.const 18))))
        (i64.store offset=16 (local.get $result) (i64.const 2))
        (i32.store offset=28 (local.get $frame) (i32.const 42))
        (i32.const 0))
      (func (export "f") (param i32) (result i32) (i32.const 0))"#;
    load("binder", &wat(&[r], body))
}

#[test]
fn c10_bind_answers_the_type_or_refuses_and_the_manifest_must_agree() {
    let ask = |module: &Module, t: DataType| {
        let function = Arc::clone(&module.manifest().functions()[0]);
        module.bind(&function, vec![Argument::column(Field::new("x", t, true))])
    };
    let bound = binding_guest(json!({"bound": true}));
    assert_eq!(
        ask(&bound, DataType::Int64)
            .expect("binds")
            .result()
            .data_type(),
        &DataType::LargeUtf8
    );
    let refused = ask(&bound, DataType::Boolean).expect_err("refused");
    assert!(
        matches!(&refused, BindError::Refused { message, .. } if message == "no thanks"),
        "{refused}"
    );
    assert_eq!(refused.class(), ErrorClass::Usage);
    let broken = ask(&bound, DataType::Float32).expect_err("a list without a child");
    assert!(broken.to_string().contains("takes 1 children"), "{broken}");
    let begun = Instant::now();
    let endless = ask(&bound, DataType::Float64).expect_err("endless");
    assert_eq!(endless.class(), ErrorClass::Limit, "{endless}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    let lying =
        ask(&binding_guest(json!({"format": "u"})), DataType::Int64).expect_err("another type");
    assert!(
        lying.to_string().contains("LargeUtf8") && lying.to_string().contains("Utf8"),
        "{lying}"
    );
}

#[test]
fn c11_nulls_of_a_result_without_nulls_are_found() {
    // `not_null` is honest; its nullability reaches the plan.
    let (pool, call) = probe("not_null", 1, json!({}));
    assert!(!call.result().is_nullable());
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    assert_eq!(
        values(&through(&pool, &call, &column).expect("rows")),
        [1, -1]
    );
}

#[test]
fn c12_masked_rows_never_reach_the_guest() {
    let (pool, call) = probe("div", 1, json!({}));
    let y = longs([1, 0, 2]);
    let mask = BooleanArray::from(vec![true, false, true]);
    let out = pool
        .call(&call, Rows::new(vec![Arc::clone(&y)], 3).masked(mask))
        .expect("rows");
    assert_eq!(
        out.array.as_primitive::<Int64Type>(),
        &Int64Array::from(vec![Some(100), None, Some(50)])
    );
    assert!(out.row_errors.is_empty());
    assert_eq!(pool.metrics().rows, 2);
    let all = pool
        .call(&call, Rows::new(vec![Arc::clone(&y)], 3))
        .expect("rows");
    assert_eq!(all.row_errors.len(), 1);
    assert_eq!(
        (all.row_errors[0].row, all.row_errors[0].message.as_str()),
        (1, "division by zero")
    );
    assert!(all.array.is_null(1));
    // COALESCE(1, boom()): no row needs the call, so there is none.
    let (pool, boom) = probe("boom", 1, json!({}));
    let none = BooleanArray::from(vec![Some(false), None, Some(false)]);
    assert_eq!(
        pool.call(&boom, Rows::new(vec![longs([3; 3])], 3).masked(none))
            .expect("rows")
            .array
            .null_count(),
        3
    );
    assert_eq!(pool.metrics().calls, 0);
    // The stage: a mask column, and results at their places.
    let input = batch(vec![
        ("y", y),
        ("m", Arc::new(BooleanArray::from(vec![true, false, true]))),
    ]);
    let (pool, call) = probe("div", 1, json!({}));
    let output = Arc::clone(call.result());
    let stage = Stage::new(&input.schema()).push(StageCall {
        pool,
        call,
        columns: vec![0],
        mask: Some(1),
        output,
    });
    let out = stage
        .run([Ok(input)])
        .next()
        .expect("a batch")
        .expect("rows");
    assert_eq!(
        out.column(2).as_primitive::<Int64Type>(),
        &Int64Array::from(vec![Some(100), None, Some(50)])
    );
}

#[test]
fn row_errors_of_null_rows_are_ignored_and_the_first_is_reported() {
    let (pool, call) = probe("div", 1, json!({}));
    let y: ArrayRef = Arc::new(Int64Array::from(vec![
        Some(1),
        None,
        Some(2),
        Some(5),
        Some(0),
    ]));
    for size in [1, 2, 3, 8192] {
        let input = batch(vec![("y", Arc::clone(&y))]);
        let stage = Stage::new(&input.schema())
            .call(&pool, &call, &["y"], "q")
            .expect("a stage")
            .batch_size(slots(size));
        let error = stage
            .run([Ok(input)])
            .find_map(Result::err)
            .expect("row 4 fails");
        assert!(
            error.to_string().contains("row 4") && error.to_string().contains("division by zero"),
            "{error}"
        );
    }
}

#[test]
fn an_error_of_the_input_comes_after_the_batches_before_it() {
    let (pool, call) = probe("scale", 1, json!({"k": 2}));
    let schema = batch(vec![("x", longs([]))]).schema();
    let stage = Stage::new(&schema)
        .call(&pool, &call, &["x"], "y")
        .expect("a stage")
        .batch_size(slots(2));
    let lost = || Err(arrow::error::ArrowError::ParseError("lost".to_owned()));
    let mut run = stage.run([
        Ok(batch(vec![("x", longs(0..4))])),
        lost(),
        Ok(batch(vec![("x", longs(0..4))])),
    ]);
    assert_eq!(
        values(run.next().expect("a batch").expect("rows").column(1)),
        [0, 2]
    );
    assert_eq!(
        values(run.next().expect("a batch").expect("rows").column(1)),
        [4, 6]
    );
    assert!(
        run.next()
            .expect("the error")
            .expect_err("lost")
            .to_string()
            .contains("lost")
    );
    assert!(run.next().is_none());
}

#[test]
fn c20_empty_batches_make_typed_empty_output_and_no_call() {
    let (pool, call) = probe("scale", 1, json!({"k": 2}));
    let schema = batch(vec![("x", longs([]))]).schema();
    let stage = Stage::new(&schema)
        .call(&pool, &call, &["x"], "y")
        .expect("a stage");
    assert_eq!(stage.schema().field(1).data_type(), &DataType::Int64);
    let empty = || Ok(RecordBatch::new_empty(Arc::clone(&schema)));
    let batches = [
        empty(),
        empty(),
        Ok(batch(vec![("x", longs([4]))])),
        empty(),
    ];
    let out: Vec<_> = stage
        .run(batches)
        .map(|b| values(b.expect("rows").column(1)))
        .collect();
    assert_eq!(out, [[8]]);
    let array = pool
        .call(&call, Rows::new(vec![longs([])], 0))
        .expect("rows")
        .array;
    assert_eq!((array.len(), array.data_type()), (0, &DataType::Int64));
    assert_eq!(pool.metrics().calls, 1);
}

#[test]
fn c23_modules_load_run_and_go_a_hundred_times() {
    let (probe, math) = (module("probe"), module("math"));
    let wat = crate::guests::identity();
    for _ in 0..100 {
        for m in [&probe, &math] {
            let call = bind(
                m,
                "add",
                &[
                    Field::new(
                        "a",
                        m.manifest()
                            .overloads("add")
                            .next()
                            .map_or(DataType::Int64, first_type),
                        true,
                    ),
                    Field::new(
                        "b",
                        m.manifest()
                            .overloads("add")
                            .next()
                            .map_or(DataType::Int64, first_type),
                        true,
                    ),
                ],
            );
            let t = call.arguments()[0].data_type().clone();
            let one = arrow::compute::cast(&longs([1, 2]), &t).expect("a cast");
            let out = pool(m)
                .call(&call, Rows::new(vec![Arc::clone(&one), one], 2))
                .expect("rows")
                .array;
            assert_eq!(
                values(&arrow::compute::cast(&out, &DataType::Int64).expect("a cast")),
                [2, 4]
            );
        }
        let call = bind(&wat, "identity", &[int64()]);
        assert_eq!(
            values(&through(&pool(&wat), &call, &longs([5])).expect("rows")),
            [5]
        );
    }
}

fn first_type(f: &Arc<wasmill::Function>) -> DataType {
    match &f.parameters[0].accepts {
        wasmill::ParameterType::Exact(field) => field.data_type().clone(),
        wasmill::ParameterType::Any => DataType::Int64,
    }
}

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
    let run = pool.next_run();
    let of_run = |mut rows: Rows| {
        rows.run = run;
        rows
    };
    assert!(pool.call(&ctr, of_run(Rows::new(vec![], 2))).is_ok());
    assert!(
        pool.call(&boom, of_run(Rows::new(vec![longs([3])], 1)))
            .is_err()
    );
    let error = pool
        .call(&ctr, of_run(Rows::new(vec![], 1)))
        .expect_err("the state is lost");
    assert!(matches!(*error.fault, Fault::StateLost), "{error}");
    assert_eq!(
        values(
            &pool
                .call(&ctr, Rows::new(vec![], 1))
                .expect("another run")
                .array
        ),
        [1]
    );
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

#[test]
fn a_tokenizer_takes_its_vocabulary_once_and_gives_lists() {
    let module = module("tokenize");
    let encode = bind(
        &module,
        "encode",
        &[Field::new("text", DataType::Utf8, true)],
    );
    let decode = bind(&module, "decode", &[encode.result().as_ref().clone()]);
    let init = json!({"vocabulary": ["[UNK]", "air", "##port", "regional"]});
    let pool = Pool::builder(&module)
        .state_for(&encode)
        .init_args(init)
        .start()
        .expect("a pool");
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        Some("Regional Airport"),
        None,
        Some(""),
        Some("Zürich air"),
    ]));
    let tokens = through(&pool, &encode, &texts).expect("tokens");
    assert_eq!(
        tokens
            .as_list::<i32>()
            .value(0)
            .as_primitive::<Int32Type>()
            .values(),
        &[3, 1, 2]
    );
    assert!(tokens.is_null(1) && tokens.as_list::<i32>().value_length(2) == 0);
    let back = through(&pool, &decode, &tokens.slice(1, 3)).expect("pieces");
    assert_eq!(
        back.as_string::<i32>(),
        &StringArray::from(vec![None, Some(""), Some("[UNK] air")])
    );
    assert_eq!(pool.metrics().inits, 1);
}

#[test]
fn batches_may_come_and_go_through_channels() {
    let (pool, call) = probe("scale", 1, json!({"k": 2}));
    let schema = batch(vec![("x", longs([]))]).schema();
    let stage = Stage::new(&schema)
        .call(&pool, &call, &["x"], "y")
        .expect("a stage")
        .batch_size(slots(3));
    let (send, receive) = std::sync::mpsc::channel();
    let out = stage.run_channel(receive, 2).expect("a thread");
    for n in 0..10 {
        send.send(Ok(batch(vec![("x", longs([n]))])))
            .expect("a receiver");
    }
    drop(send);
    let all: Vec<i64> = out
        .iter()
        .flat_map(|b| values(b.expect("rows").column(1)))
        .collect();
    assert_eq!(all, (0..10).map(|x| 2 * x).collect::<Vec<_>>());
}

#[test]
fn a_dictionary_stays_encoded_and_crosses_once() {
    let module = module("identity");
    let t = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let call = bind(&module, "identity", &[Field::new("x", t, true)]);
    let pool = pool(&module);
    let words: Vec<String> = (0..1000)
        .map(|i| format!("a rather long word, number {i}"))
        .collect();
    let values: ArrayRef = Arc::new(StringArray::from(words));
    let before = |n: i32| {
        let keys = Int32Array::from_iter_values((0..100).map(|i| (i * n) % 1000));
        let column: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::clone(&values)));
        let already = pool.metrics().bytes_in;
        assert_eq!(&through(&pool, &call, &column).expect("rows"), &column);
        pool.metrics().bytes_in - already
    };
    before(1);
    assert!(before(7) < 2000, "the values did not cross again");
}
