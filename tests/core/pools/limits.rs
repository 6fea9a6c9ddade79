//! Long lives and limits: nothing leaks, and each limit holds at its edge.

use super::*;

/// Grows its memory or a table by x, and opens a file; says what came of it.
fn greedy() -> Module {
    let imports = r#"(module
      (import "wasi_snapshot_preview1" "path_open" (func $open
        (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))"#;
    let body = r#"
      (table $t 1 funcref)
      (data (i32.const 16) "a")
      (func $x (param $frame i32) (result i32)
        (i32.wrap_i64 (i64.load (i32.load offset=4
          (i32.load offset=40 (i32.load (i32.load offset=28 (local.get $frame))))))))
      (func $answer (param $frame i32) (param $value i32) (result i32)
        (local $array i32)
        (local.set $array (i32.load (i32.load offset=28 (local.get $frame))))
        (i64.store (i32.load offset=4 (i32.load offset=40 (local.get $array)))
          (i64.extend_i32_s (local.get $value)))
        (memory.copy (i32.load offset=32 (local.get $frame)) (local.get $array) (i32.const 64))
        (i32.const 0))
      (func (export "memory_by") (param $frame i32) (result i32)
        (call $answer (local.get $frame) (memory.grow (call $x (local.get $frame)))))
      (func (export "table_by") (param $frame i32) (result i32)
        (call $answer (local.get $frame) (table.grow $t (ref.null func) (call $x (local.get $frame)))))
      (func (export "open") (param $frame i32) (result i32)
        (local $errno i32)
        (local.set $errno (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 1)
          (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 48)))
        (if (call $x (local.get $frame)) (then (return (i32.const 2))))
        (call $answer (local.get $frame) (local.get $errno)))"#;
    let records = ["memory_by", "table_by", "open"].map(record);
    load("greedy", &crate::guests::wat_with(imports, &records, body))
}

fn one(pool: &Pool, call: &Call, x: i64) -> Result<i64, CallError> {
    through(pool, call, &longs([x])).map(|out| values(&out)[0])
}

#[test]
fn c35_memory_and_tables_end_exactly_at_their_limits() {
    let module = greedy();
    const PAGE: u64 = 64 << 10;
    let policy = Policy {
        memory: 10 * PAGE,
        table_elements: 10,
        ..Policy::default()
    };
    let pool = Pool::builder(&module)
        .policy(policy)
        .start()
        .expect("a pool");
    let memory = bind(&module, "memory_by", &[int64()]);
    let table = bind(&module, "table_by", &[int64()]);
    assert_eq!(one(&pool, &memory, 9).expect("refused, not trapped"), -1);
    // Two pages at first; the arguments may have taken some more.
    let now = one(&pool, &memory, 0).expect("pages");
    assert_eq!(one(&pool, &memory, 10 - now).expect("the last pages"), now);
    assert_eq!(one(&pool, &memory, 1).expect("refused"), -1);
    assert_eq!(pool.metrics().peak_memory_bytes, 10 * PAGE);
    assert_eq!(one(&pool, &table, 10).expect("refused"), -1);
    assert_eq!(one(&pool, &table, 9).expect("the last elements"), 1);
    assert_eq!(one(&pool, &table, 1).expect("refused"), -1);
}

#[test]
fn c35_a_pool_has_1024_slots_at_most() {
    let ledger = Ledger::new(Machine {
        memory: u64::MAX,
        ..machine().machine().clone()
    });
    let of = |n| probe("Scale", json!({ "k": 1 })).slots(slots(n)).lazy();
    let run = run(on(&ledger), vec![of(1_024)]);
    assert_eq!(run.pools()[0].slots(), 1_024);
    drop(run);
    let error = Run::start(on(&ledger), vec![of(1_025)]).expect_err("too many");
    assert!(matches!(error, StartError::TooManySlots { .. }), "{error}");
    assert_clean(&ledger);
}

#[test]
fn c33_what_a_failed_call_opened_is_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a"), "").expect("a file");
    let module = greedy();
    let policy = Policy {
        grants: vec![wasmill::Grant {
            host: folder.path().to_owned(),
            guest: "/data".to_owned(),
            writable: true,
        }],
        ..Policy::default()
    };
    let pool = Pool::builder(&module)
        .policy(policy)
        .start()
        .expect("a pool");
    let open = bind(&module, "open", &[int64()]);
    for _ in 0..200 {
        let fault = *one(&pool, &open, 1).expect_err("it fails").fault;
        assert!(matches!(fault, Fault::Guest { .. }), "{fault}");
    }
    assert_eq!(one(&pool, &open, 0).expect("a descriptor"), 0);
    assert_eq!(pool.metrics().starts, 1);
}

#[test]
fn c34_a_million_rows_through_a_guest_that_grows_start_each_slot_once() {
    let ledger = machine();
    let run = run(
        on(&ledger),
        vec![probe("Scale", json!({ "k": 3 })).slots(slots(2))],
    );
    let hog = bind(&module("probe"), "hog", &[int64()]);
    let scale = bind(&module("probe"), "scale", &[int64()]);
    let pool = &run.pools()[0];
    through(pool, &hog, &longs([2 << 20])).expect("2 MiB");
    let stage = Stage::new(&batch(longs([])).schema())
        .call(pool, &scale, &["x"], "y")
        .expect("a stage");
    let input = (0..100).map(|n| Ok(batch(longs(n * 10_000..(n + 1) * 10_000))));
    let mut next = 0;
    for out in stage.run(input) {
        for y in values(out.expect("rows").column(1)) {
            assert_eq!(y, 3 * next);
            next += 1;
        }
    }
    assert_eq!(next, 1_000_000);
    let metrics = run.finish();
    assert_eq!((metrics.pools[0].starts, metrics.pools[0].inits), (2, 2));
    assert!(metrics.pools[0].peak_memory_bytes > 2 << 20);
}

#[test]
fn c31_a_million_answers_of_a_kibibyte_leave_memory_flat() {
    let ledger = machine();
    let run = run(on(&ledger), vec![probe("Scale", json!({ "k": 3 }))]);
    let text = Field::new("x", DataType::Utf8, true);
    let repeat = bind(&module("probe"), "repeat", &[text, int64()]);
    let pool = &run.pools()[0];
    let words: ArrayRef = Arc::new(StringArray::from(vec!["sixteen letters."; 1_000]));
    let calls = |n: usize| {
        for _ in 0..n {
            let rows = Rows::new(vec![Arc::clone(&words), longs([64; 1_000])], 1_000);
            assert_eq!(pool.call(&repeat, rows).expect("rows").array.len(), 1_000);
        }
        pool.metrics().peak_memory_bytes
    };
    let after_warm_up = calls(10);
    assert_eq!(calls(1_000), after_warm_up);
}
