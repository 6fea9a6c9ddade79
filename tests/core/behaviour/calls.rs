//! What a call gives: row counts, constants, batch sizes, nulls, masks.

use super::*;

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
