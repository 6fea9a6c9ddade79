//! Guests in every language behave alike: the same functions, the same inputs, the same outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use serde_json::{Value, json};
use wasmill::{Argument, Call, Fault, LogSink, Module, Policy, Pool, Rows, Stage, StartError};

use crate::arrays::{Dice, all_types, random};
use crate::guests::{bind, pool, through};
use crate::udfs::{module, module_if_built};

/// Makes a test of each promise for each language. A language without a module is skipped aloud.
macro_rules! in_every_language {
    ($($promise:ident)*) => {
        in_every_language! { @language rust $($promise)* }
        in_every_language! { @language c $($promise)* }
        in_every_language! { @language zig $($promise)* }
        in_every_language! { @language assemblyscript $($promise)* }
    };
    (@language $language:ident $($promise:ident)*) => {
        mod $language {
            $(
                #[test]
                fn $promise() {
                    if let Some(guest) = super::guest(stringify!($language)) {
                        super::$promise(&guest);
                    }
                }
            )*
        }
    };
}

in_every_language! {
    the_manifest_is_that_of_the_rust_guest
    nothing_but_the_log_is_imported
    numbers_meet_nulls_slices_and_the_ends_of_their_range
    failed_rows_carry_code_and_message
    many_failed_rows_are_all_told
    constants_stand_for_all_rows
    texts_keep_their_bytes_nulls_and_slices
    any_type_comes_back_unchanged
    empty_batches_make_no_call
    a_state_is_made_from_its_arguments
    init_arguments_that_do_not_fit_are_refused
    each_slot_says_when_it_begins_and_ends
    a_sequence_goes_on_over_batches
    large_batches_reuse_their_memory
    texts_above_the_memory_are_split
    memory_that_runs_out_is_an_error_of_the_call
    calls_of_one_batch_do_not_disturb_each_other
    a_panic_says_why_and_costs_the_slot
    what_fails_or_is_bound_anew_leaves_memory_flat
}

/// The module of a language; `None` where its compiler was missing.
fn guest(language: &str) -> Option<Module> {
    if language == "rust" {
        return Some(module("rust"));
    }
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let built = module_if_built(language);
    if built.is_none()
        && TOLD
            .lock()
            .expect("not poisoned")
            .insert(language.to_owned())
    {
        let line = format!("skipped: there is no {language}.wasm; `cargo xtask udfs` says why\n");
        // Not captured, as the output of `eprintln!` in a test that passes would be.
        drop(std::io::stderr().write_all(line.as_bytes()));
    }
    built
}

fn column(name: &str, t: DataType) -> Field {
    Field::new(name, t, true)
}

/// A function over int64 columns.
fn over_int64(module: &Module, name: &str, columns: usize) -> Call {
    bind(module, name, &vec![column("x", DataType::Int64); columns])
}

fn int64(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn values(array: &ArrayRef) -> Vec<Option<i64>> {
    array.as_primitive::<Int64Type>().iter().collect()
}

fn run(pool: &Pool, call: &Call, columns: &[&ArrayRef]) -> wasmill::Output {
    let rows = columns[0].len();
    let columns = columns.iter().map(|c| Arc::clone(c)).collect();
    pool.call(call, Rows::new(columns, rows))
        .unwrap_or_else(|e| panic!("{e}"))
}

fn stateful(module: &Module, call: &Call, init: Value) -> Pool {
    Pool::builder(module)
        .state_for(call)
        .init_args(init)
        .start()
        .unwrap_or_else(|e| panic!("{e}"))
}

fn divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}

fn the_manifest_is_that_of_the_rust_guest(guest: &Module) {
    let described = |module: &Module| -> BTreeMap<String, String> {
        let functions = module.manifest().functions();
        functions
            .iter()
            .map(|f| {
                let state = f.state.as_ref().map(|s| {
                    let args = s.init_args["properties"].clone();
                    (s.name.clone(), s.kind, s.closes, args)
                });
                let all = (&f.doc, f.signature(), f.volatility, f.nulls, state);
                (f.name.clone(), format!("{all:?}"))
            })
            .collect()
    };
    assert_eq!(described(guest), described(&module("rust")));
}

fn nothing_but_the_log_is_imported(guest: &Module) {
    assert_eq!(guest.info().imports, ["wasmill_v1.log"]);
}

fn numbers_meet_nulls_slices_and_the_ends_of_their_range(guest: &Module) {
    let (pool, gcd) = (pool(guest), over_int64(guest, "gcd", 2));
    let interesting = [0, 1, -1, 12, -18, 1 << 40, i64::MAX, i64::MIN];
    let pairs = || {
        let pairs = interesting
            .iter()
            .flat_map(|a| interesting.map(|b| (*a, b)));
        pairs.enumerate()
    };
    let side = |of: fn((i64, i64)) -> i64, every: usize| {
        let side = pairs().map(|(i, pair)| (i % every != 0).then(|| of(pair)));
        int64(side.collect())
    };
    let (a, b) = (side(|p| p.0, 5), side(|p| p.1, 7));
    let expected: Vec<Option<i64>> = pairs()
        .map(|(i, (a, b))| (i % 5 != 0 && i % 7 != 0).then(|| divisor(a, b)))
        .collect();
    for (from, len) in [(0, 64), (3, 61), (5, 1), (9, 40)] {
        let out = run(&pool, &gcd, &[&a.slice(from, len), &b.slice(from, len)]);
        assert_eq!(values(&out.array), expected[from..from + len]);
        assert!(out.row_errors.is_empty());
    }
}

fn failed_rows_carry_code_and_message(guest: &Module) {
    let (pool, div) = (pool(guest), over_int64(guest, "div", 2));
    let a = int64(vec![
        Some(7),
        Some(7),
        None,
        Some(i64::MIN),
        Some(i64::MIN),
        Some(-7),
    ]);
    let b = int64(vec![Some(-2), Some(0), Some(0), Some(-1), Some(1), None]);
    let out = run(&pool, &div, &[&a, &b]);
    assert_eq!(
        values(&out.array),
        [Some(-3), None, None, None, Some(i64::MIN), None]
    );
    let told: Vec<_> = out
        .row_errors
        .iter()
        .map(|e| (e.row, e.code, e.message.as_str()))
        .collect();
    assert_eq!(told, [(1, 1, "division by zero"), (3, 2, "overflow")]);
    // The next call knows nothing of it.
    let out = run(&pool, &div, &[&longs([9]), &longs([2])]);
    assert_eq!(
        (values(&out.array), out.row_errors.len()),
        (vec![Some(4)], 0)
    );
    assert_eq!(pool.metrics().restarts, 0);
}

fn many_failed_rows_are_all_told(guest: &Module) {
    let (pool, div) = (pool(guest), over_int64(guest, "div", 2));
    for rows in [1_i64, 16, 17, 5000] {
        let out = run(
            &pool,
            &div,
            &[&longs(0..rows), &longs((0..rows).map(|n| n % 3))],
        );
        let failed: Vec<usize> = out.row_errors.iter().map(|e| e.row).collect();
        assert_eq!(failed, (0..rows as usize).step_by(3).collect::<Vec<_>>());
        let all = out.row_errors.iter();
        assert!(
            all.clone()
                .all(|e| e.message == "division by zero" && e.code == 1)
        );
        assert_eq!(out.array.null_count(), failed.len());
    }
}

fn constants_stand_for_all_rows(guest: &Module) {
    let pool = pool(guest);
    let x = int64(vec![Some(100), None, Some(-7), Some(0)]);
    let constant = |n| Argument::constant(longs([n]));
    let from_column = || Argument::column(column("x", DataType::Int64));
    // `div` takes constants as one row in some languages, `gcd` has them expanded in all.
    type Expected = fn(i64, i64) -> i64;
    let functions: [(&str, Expected); 2] = [("div", |a, b| a / b), ("gcd", divisor)];
    for (name, expected) in functions {
        let overload = guest.manifest().overloads(name).next().expect(name);
        let call = |arguments| guest.bind(overload, arguments).expect("binds");
        let out = run(&pool, &call(vec![from_column(), constant(7)]), &[&x]);
        let all: Vec<Option<i64>> = values(&x)
            .iter()
            .map(|x| x.map(|x| expected(x, 7)))
            .collect();
        assert_eq!(values(&out.array), all, "{name}");
        let y = longs([1, 2, 3]);
        let out = run(&pool, &call(vec![constant(100), from_column()]), &[&y]);
        assert_eq!(
            values(&out.array),
            [1, 2, 3].map(|y| Some(expected(100, y))),
            "{name}"
        );
        let both = call(vec![constant(12), constant(4)]);
        let out = pool.call(&both, Rows::new(vec![], 3)).expect("rows");
        assert_eq!(values(&out.array), [Some(expected(12, 4)); 3], "{name}");
        let null = Argument::constant(new_null_array(&DataType::Int64, 1));
        let out = run(&pool, &call(vec![from_column(), null]), &[&x]);
        assert_eq!(out.array.null_count(), 4, "{name}");
        assert!(out.row_errors.is_empty(), "{name}");
    }
    let div = guest.manifest().overloads("div").next().expect("div");
    let by_zero = guest
        .bind(div, vec![from_column(), constant(0)])
        .expect("binds");
    let failed: Vec<usize> = run(&pool, &by_zero, &[&x])
        .row_errors
        .iter()
        .map(|e| e.row)
        .collect();
    assert_eq!(failed, [0, 2, 3], "not the row that is null");
}

fn texts_keep_their_bytes_nulls_and_slices(guest: &Module) {
    let pool = pool(guest);
    let upper = bind(guest, "upper", &[column("t", DataType::Utf8)]);
    let length = bind(guest, "char_length", &[column("t", DataType::Utf8)]);
    let long = "xyz é ".repeat(3000);
    let texts = [
        Some(""),
        Some("abc XYZ 09 `az{"),
        None,
        Some("naïve straße 日本語 🦀"),
        Some("\0 a \u{7f}"),
        Some(long.as_str()),
        None,
        Some(""),
    ];
    let x: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    for (from, len) in [(0, 8), (1, 4), (2, 1), (3, 5), (7, 1)] {
        let (slice, expected) = (x.slice(from, len), &texts[from..from + len]);
        let out = through(&pool, &upper, &slice).expect("rows");
        let upper_case: StringArray = expected
            .iter()
            .map(|t| t.map(str::to_ascii_uppercase))
            .collect();
        assert_eq!(out.as_string::<i32>(), &upper_case, "from {from}");
        let out = through(&pool, &length, &slice).expect("rows");
        let lengths: Vec<_> = expected
            .iter()
            .map(|t| t.map(|t| t.chars().count() as i64))
            .collect();
        assert_eq!(values(&out), lengths, "from {from}");
    }
}

fn any_type_comes_back_unchanged(guest: &Module) {
    let pool = pool(guest);
    let mut dice = Dice::new(3);
    for t in all_types() {
        let call = bind(guest, "identity", &[column("x", t.clone())]);
        for len in [1, 9, 100] {
            let array = random(&mut dice, &t, len);
            for array in [array.slice(0, len), array.slice(len / 3, len - len / 2)] {
                let back = through(&pool, &call, &array).unwrap_or_else(|e| panic!("{t}: {e}"));
                assert_eq!(&back, &array, "{t}");
            }
        }
    }
}

fn empty_batches_make_no_call(guest: &Module) {
    let pool = pool(guest);
    let gcd = over_int64(guest, "gcd", 2);
    let out = run(&pool, &gcd, &[&longs([]), &longs([])]).array;
    assert_eq!((out.len(), out.data_type()), (0, &DataType::Int64));
    let upper = bind(guest, "upper", &[column("t", DataType::Utf8)]);
    let out = through(&pool, &upper, &new_empty_array(&DataType::Utf8)).expect("no rows");
    assert_eq!((out.len(), out.data_type()), (0, &DataType::Utf8));
    assert_eq!(pool.metrics().calls, 0);
}

fn a_state_is_made_from_its_arguments(guest: &Module) {
    let apply = over_int64(guest, "apply", 1);
    let x = int64(vec![Some(5), None, Some(i64::MAX), Some(-1)]);
    for (init, scale, offset) in [
        (json!({"scale": 3}), 3, 0),
        (json!({"offset": -4, "scale": -2}), -2, -4),
        (
            json!({"scale": i64::MAX, "offset": i64::MIN}),
            i64::MAX,
            i64::MIN,
        ),
    ] {
        let line = |x: i64| x.wrapping_mul(scale).wrapping_add(offset);
        let pool = stateful(guest, &apply, init);
        for _ in 0..3 {
            let out = run(&pool, &apply, &[&x]);
            let expected: Vec<_> = values(&x).iter().map(|x| x.map(line)).collect();
            assert_eq!(values(&out.array), expected);
        }
        assert_eq!(pool.metrics().inits, 1);
    }
}

fn init_arguments_that_do_not_fit_are_refused(guest: &Module) {
    let start = |init: Value| {
        Pool::builder(guest)
            .state("Affine")
            .init_args(init)
            .start()
            .expect_err("refused")
    };
    for init in [
        json!({}),
        json!({"scale": "3"}),
        json!({"scale": 1, "factor": 2}),
    ] {
        let error = start(init);
        assert!(matches!(error, StartError::InitArgs { .. }), "{error}");
    }
    // The schema of the SDK for Rust knows the limits; in the others the guest finds out.
    let error = start(json!({"scale": u64::MAX}));
    assert!(
        matches!(error, StartError::InitArgs { .. } | StartError::Init { .. }),
        "{error}"
    );
}

fn each_slot_says_when_it_begins_and_ends(guest: &Module) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    let sink: LogSink = Arc::new(move |line| {
        let line = format!("{} {}", line.level, line.text);
        kept.lock().expect("not poisoned").push(line);
    });
    let pool = Pool::builder(guest)
        .state("Affine")
        .init_args(json!({"scale": 1}))
        .slots(NonZeroUsize::new(2).expect("not zero"))
        .on_log(sink)
        .start()
        .expect("a pool");
    let begun = lines.lock().expect("not poisoned").clone();
    assert_eq!(begun, ["info affine begins"; 2]);
    pool.close();
    let all = lines.lock().expect("not poisoned").clone();
    assert_eq!(all[2..], ["info affine ends"; 2]);
}

fn a_sequence_goes_on_over_batches(guest: &Module) {
    let call = over_int64(guest, "running_sum", 1);
    let input = int64(
        (0..100_i64)
            .map(|n| (n % 7 != 3).then_some(n * n - 40 * n))
            .collect(),
    );
    let mut sum = 0;
    let expected: Vec<Option<i64>> = values(&input)
        .iter()
        .map(|x| {
            sum += x.unwrap_or(0);
            x.map(|_| sum)
        })
        .collect();
    let batch = RecordBatch::try_from_iter_with_nullable([("x", input, true)]).expect("a batch");
    for size in [1, 3, 64, 8192] {
        // Each pool begins at 0, and has one slot whatever is asked for.
        let pool = Pool::builder(guest)
            .state_for(&call)
            .slots(NonZeroUsize::new(3).expect("not zero"))
            .start()
            .expect("a pool");
        assert_eq!(pool.slots(), 1);
        let stage = Stage::new(&batch.schema())
            .call(&pool, &call, &["x"], "sum")
            .expect("a stage")
            .batch_size(NonZeroUsize::new(size).expect("not zero"));
        let pieces = [batch.slice(0, 33), batch.slice(33, 0), batch.slice(33, 67)];
        let out: Result<Vec<_>, _> = stage.run(pieces.map(Ok)).collect();
        let out = concat_batches(&stage.schema(), &out.expect("rows")).expect("one batch");
        assert_eq!(values(out.column(1)), expected, "batches of {size}");
    }
}

fn large_batches_reuse_their_memory(guest: &Module) {
    let pool = pool(guest);
    let gcd = over_int64(guest, "gcd", 2);
    let upper = bind(guest, "upper", &[column("t", DataType::Utf8)]);
    // Sizes that go up slowly, so that no piece of memory fits twice by chance.
    for rows in (1..30).map(|n| n * 7001_i64) {
        let (a, b) = (longs(0..rows), longs((0..rows).map(|n| 3 * n)));
        assert_eq!(&run(&pool, &gcd, &[&a, &b]).array, &a);
        let words = StringArray::from_iter_values((0..rows).map(|n| format!("row {n}")));
        let out = through(&pool, &upper, &(Arc::new(words) as ArrayRef)).expect("rows");
        let last = out.as_string::<i32>().value(rows as usize - 1).to_owned();
        assert_eq!(last, format!("ROW {}", rows - 1));
    }
    // The largest call has 3.3 MB of arguments and 1.6 MB of results.
    let peak = pool.metrics().peak_memory_bytes;
    assert!(peak < 32 << 20, "{peak} bytes");
}

fn texts_above_the_memory_are_split(guest: &Module) {
    let policy = Policy {
        memory: 16 << 20,
        ..Policy::default()
    };
    let pool = Pool::builder(guest).policy(policy).start().expect("a pool");
    let upper = bind(guest, "upper", &[column("t", DataType::Utf8)]);
    let text = "a".repeat(8 << 10);
    let x: ArrayRef = Arc::new(StringArray::from(vec![text.as_str(); 8192]));
    let out = through(&pool, &upper, &x).expect("64 MiB");
    let out = out.as_string::<i32>();
    let expected = text.to_ascii_uppercase();
    assert!(out.len() == 8192 && out.iter().all(|t| t == Some(&expected)));
    let metrics = pool.metrics();
    assert!(metrics.splits > 8 && metrics.restarts == 0, "{metrics}");
}

fn memory_that_runs_out_is_an_error_of_the_call(guest: &Module) {
    let policy = Policy {
        memory: 16 << 20,
        ..Policy::default()
    };
    let pool = Pool::builder(guest).policy(policy).start().expect("a pool");
    let upper = bind(guest, "upper", &[column("t", DataType::Utf8)]);
    let row = |bytes: usize| Arc::new(StringArray::from(vec!["a".repeat(bytes)])) as ArrayRef;
    // 20 MiB do not even reach the guest. Nearly 8 MiB do, but not once more as the result.
    let error = through(&pool, &upper, &row(20 << 20)).expect_err("20 MiB in one row");
    assert!(matches!(*error.fault, Fault::RowTooLarge { .. }), "{error}");
    let error = through(&pool, &upper, &row((8 << 20) - 4096)).expect_err("twice 8 MiB");
    if guest.name() == "rust" {
        // Rust ends the instance when an allocation fails.
        assert!(!matches!(*error.fault, Fault::Guest { .. }), "{error}");
    } else {
        assert!(matches!(*error.fault, Fault::Guest { .. }), "{error}");
        assert_eq!(pool.metrics().restarts, 0);
    }
    assert!(through(&pool, &upper, &row(1 << 20)).is_ok());
}

fn calls_of_one_batch_do_not_disturb_each_other(guest: &Module) {
    let pool = pool(guest);
    let (gcd, div) = (over_int64(guest, "gcd", 2), over_int64(guest, "div", 2));
    let (a, b) = (
        longs((1..=1000).map(|n| n * 6)),
        longs((1..=1000).map(|n| n * 4)),
    );
    let batch = RecordBatch::try_from_iter_with_nullable([("a", a, true), ("b", b, true)]);
    let batch = batch.expect("a batch");
    let stage = Stage::new(&batch.schema())
        .call(&pool, &gcd, &["a", "b"], "common")
        .and_then(|stage| stage.call(&pool, &div, &["a", "b"], "parts"))
        .and_then(|stage| stage.call(&pool, &gcd, &["b", "b"], "itself"))
        .expect("a stage");
    let out: Result<Vec<_>, _> = stage.run([Ok(batch)]).collect();
    let out = concat_batches(&stage.schema(), &out.expect("rows")).expect("one batch");
    let every = |of: fn(i64) -> i64| (1..=1000).map(|n| Some(of(n))).collect::<Vec<_>>();
    assert_eq!(values(out.column(2)), every(|n| 2 * n));
    assert_eq!(values(out.column(3)), every(|_| 1));
    assert_eq!(values(out.column(4)), every(|n| 4 * n));
}

fn a_panic_says_why_and_costs_the_slot(guest: &Module) {
    let (pool, boom) = (pool(guest), over_int64(guest, "boom", 1));
    assert_eq!(
        values(&run(&pool, &boom, &[&longs([1, 2])]).array),
        [Some(1), Some(2)]
    );
    let error = through(&pool, &boom, &longs([2, 3])).expect_err("a panic");
    assert!(matches!(*error.fault, Fault::Trap { .. }), "{error}");
    assert!(error.to_string().contains("boom at 3"), "{error}");
    assert_eq!(values(&run(&pool, &boom, &[&longs([4])]).array), [Some(4)]);
    assert_eq!(pool.metrics().restarts, 1);
}

fn what_fails_or_is_bound_anew_leaves_memory_flat(guest: &Module) {
    let policy = Policy {
        memory: 32 << 20,
        output_bytes: 1 << 20,
        ..Policy::default()
    };
    let pool = Pool::builder(guest).policy(policy).start().expect("a pool");
    let upper = bind(guest, "upper", &[column("t", DataType::Utf8)]);
    let large: ArrayRef = Arc::new(StringArray::from(vec!["a".repeat(2 << 20)]));
    let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::from_iter([
        "a".repeat(4 << 10).as_str(),
        "b",
    ]));
    let round = |rounds: u64| {
        for _ in 0..rounds {
            let error = through(&pool, &upper, &large).expect_err("too much");
            assert!(
                matches!(*error.fault, Fault::OutputTooLarge { .. }),
                "{error}"
            );
            // Every run of a plan binds its calls anew.
            let identity = bind(
                guest,
                "identity",
                &[column("x", dictionary.data_type().clone())],
            );
            let back = through(&pool, &identity, &dictionary).expect("rows");
            assert_eq!(&back, &dictionary);
        }
        pool.metrics().peak_memory_bytes
    };
    let warm = round(20);
    assert_eq!(round(500), warm);
    assert_eq!(pool.metrics().starts, 1);
}
