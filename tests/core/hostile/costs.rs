//! Answers that cost the host more than their bytes.

use super::*;

// 8,192 × 16 KB; with `w:2147483647` the same lines abort the process.
#[test]
fn nulls_for_rows_that_are_not_computed_count_towards_the_limit() {
    too_large(masked_call(
        &guest_of(json!({"format":"w:16000"}), QUIET),
        8_192,
        |_| false,
    ));
    let huge = json!({"format":"+w:2147483647","children":[{"format":"+w:2147483647","children":[{"format":"l"}]}]});
    too_large(masked_call(&guest_of(huge, QUIET), 2_000, |_| false));
    let one = r#"(func (export "f") (param $frame i32) (result i32) (local $r i32)
      (local.set $r (i32.load offset=32 (local.get $frame)))
      (i64.store (local.get $r) (i64.load offset=16 (local.get $frame)))
      (i64.store offset=24 (local.get $r) (i64.const 2))
      (i32.store offset=40 (local.get $r) (i32.const 4000))
      (i32.store (i32.const 4004) (i32.const 8192))
      (i32.const 0))"#;
    too_large(masked_call(
        &guest_of(json!({"format":"w:16000"}), one),
        8_192,
        |i| i == 7,
    ));
}

/// Says of each row that it failed.
const ALL_FAIL: &str = r#"(func (export "f") (param $frame i32) (result i32) (local $rows i32) (local $i i32) (local $e i32)
  (local.set $rows (i32.load offset=16 (local.get $frame)))
  (local.set $e (i32.load offset=36 (local.get $frame)))
  (drop (memory.grow (i32.const 64)))
  (loop $l
    (i32.store (i32.add (i32.const 2000000) (i32.shl (local.get $i) (i32.const 2))) (local.get $i))
    (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $rows))))
  (i64.store (local.get $e) (i64.extend_i32_u (local.get $rows)))
  (i64.store offset=24 (local.get $e) (i64.const 1)) (i64.store offset=32 (local.get $e) (i64.const 3))
  (i32.store offset=40 (local.get $e) (i32.const 4000)) (i32.store offset=44 (local.get $e) (i32.const 4016))
  (i32.store (i32.const 4016) (i32.const 4100)) (i32.store (i32.const 4020) (i32.const 4200)) (i32.store (i32.const 4024) (i32.const 4300))
  (i64.store (i32.const 4100) (i64.extend_i32_u (local.get $rows))) (i64.store (i32.const 4124) (i64.const 2)) (i32.store (i32.const 4140) (i32.const 4400))
  (i64.store (i32.const 4200) (i64.extend_i32_u (local.get $rows))) (i64.store (i32.const 4224) (i64.const 2)) (i32.store (i32.const 4240) (i32.const 4416))
  (i64.store (i32.const 4300) (i64.extend_i32_u (local.get $rows))) (i64.store (i32.const 4324) (i64.const 3)) (i32.store (i32.const 4340) (i32.const 4432))
  (i32.store (i32.const 4404) (i32.const 2000000)) (i32.store (i32.const 4420) (i32.const 3000000))
  (i32.store (i32.const 4436) (i32.const 3000000)) (i32.store (i32.const 4440) (i32.const 8))
  (i32.const 0))"#;

// With `w:2147483647` the first aborts the process.
#[test]
fn a_result_in_which_all_rows_failed_is_no_larger_than_the_limit_and_no_panic() {
    let run = |result: Value, rows: usize| {
        let module = guest_of(result, ALL_FAIL);
        let call = bind(&module, "f", &[Field::new("x", DataType::Int64, true)]);
        through(&strict_pool(&module), &call, &column(rows))
    };
    too_large(run(
        json!({"format":"+us:0","children":[{"format":"w:16000"}]}),
        8_192,
    ));
    let runs = json!({"format":"+r","children":[{"name":"run_ends","format":"s","nullable":false},{"name":"values","format":"l"}]});
    if let Err(error) = run(runs, 40_000) {
        assert!(!matches!(*error.fault, Fault::Host { .. }), "{error}");
    }
}

// No byte is copied, but each of 64 × 65,536 empty buffers takes about 90 bytes of the host.
#[test]
fn view_buffers_without_bytes_count_towards_the_limit() {
    let children: Vec<Value> = (0..64)
        .map(|i| json!({"format":"vu","name":format!("c{i}")}))
        .collect();
    let lie = Lie {
        n_buffers: 1,
        n_children: 64,
        children: 5000,
        ..HONEST
    };
    let child = Lie {
        n_buffers: 65_539,
        buffers: 131_072,
        ..HONEST
    };
    let body = format!(
        r#"(data (i32.const {AT}) "{}") (data (i32.const 2200) "{}") (data (i32.const 5000) "{}")
        (func (export "f") (param $frame i32) (result i32)
          (drop (memory.grow (i32.const 32)))
          (i32.store (i32.const 131076) (i32.const 4096))
          (i32.store (i32.const 393224) (i32.const 524288))
          (memory.copy (i32.load offset=32 (local.get $frame)) (i32.const {AT}) (i32.const 64))
          (i32.const 0))"#,
        escape(&lie.bytes()),
        escape(&child.bytes()),
        escape(&words(&[2200; 64])),
    );
    too_large(call(
        &guest_of(json!({"format":"+s","children":children}), &body),
        3,
    ));
}

// 40,000 views of the same 4 MiB: 160 GB of text to be checked, after the guest's time is over.
#[test]
fn views_that_overlap_cannot_make_the_host_check_forever() {
    let child = Lie {
        length: 40_000,
        n_buffers: 4,
        buffers: 2100,
        ..HONEST
    };
    let body = format!(
        r#"(data (i32.const 2200) "{}") (data (i32.const 2300) "{}") (data (i32.const 2048) "{}") (data (i32.const 2100) "{}") (data (i32.const 3000) "{}") (data (i32.const 3100) "{}")
        (func (export "f") (param $frame i32) (result i32) (local $i i32) (local $r i32)
          (local.set $r (i32.load offset=32 (local.get $frame)))
          (drop (memory.grow (i32.const 100)))
          (memory.fill (i32.const 1048576) (i32.const 97) (i32.const 4194304))
          (loop $l
            (i32.store offset=131072 (i32.shl (local.get $i) (i32.const 4)) (i32.const 4194304))
            (i32.store offset=131076 (i32.shl (local.get $i) (i32.const 4)) (i32.const 0x61616161))
            (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 40000))))
          (i64.store (local.get $r) (i64.const 3)) (i64.store offset=24 (local.get $r) (i64.const 2))
          (i64.store offset=32 (local.get $r) (i64.const 1))
          (i32.store offset=40 (local.get $r) (i32.const 2048)) (i32.store offset=44 (local.get $r) (i32.const 2300))
          (i32.const 0))"#,
        escape(&child.bytes()),
        escape(&words(&[2200])),
        escape(&words(&[0, 3000])),
        escape(&words(&[0, 131_072, 1_048_576, 3100])),
        escape(&words(&[0, 0, 0, 40_000])),
        escape(&4_194_304_u64.to_le_bytes()),
    );
    let begun = Instant::now();
    let _ = call(
        &guest_of(json!({"format":"+l","children":[{"format":"vu"}]}), &body),
        3,
    );
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

// Nulls of list views, unions and dictionary values that the type does not allow.
#[test]
fn nulls_are_found_at_every_level() {
    let child = Lie {
        null_count: -1,
        buffers: 2100,
        ..HONEST
    };
    let nulls = [
        (2100, words(&[3500, 4096])),
        (3500, vec![0b101]),
        (2200, child.bytes()),
        (2300, words(&[2200])),
    ];
    let with = |result: Value, lie: Lie, more: &[(u32, Vec<u8>)]| {
        let mut data = nulls.to_vec();
        data.extend_from_slice(more);
        tell(result, lie, &data)
    };
    let strict = json!([{"format":"l","nullable":false}]);
    let one = Lie {
        n_children: 1,
        children: 2300,
        ..HONEST
    };
    contract(with(
        json!({"format":"+vl","children":strict}),
        Lie {
            n_buffers: 3,
            ..one
        },
        &[
            (2048, words(&[0, 3000, 3100])),
            (3000, words(&[0, 1, 2])),
            (3100, words(&[1, 1, 1])),
        ],
    ));
    contract(with(
        json!({"format":"+us:5","children":strict}),
        Lie {
            n_buffers: 1,
            ..one
        },
        &[(2048, words(&[3000])), (3000, vec![5; 3])],
    ));
    contract(with(
        json!({"format":"+ud:5","children":strict}),
        one,
        &[
            (2048, words(&[3000, 3100])),
            (3000, vec![5; 3]),
            (3100, words(&[0, 1, 2])),
        ],
    ));
    // A list of keys without nulls, one of which names a value that is null.
    let keys = Lie {
        buffers: 2150,
        dictionary: 2200,
        ..HONEST
    };
    contract(with(
        json!({"format":"+l","children":[{"format":"c","nullable":false,"dictionary":{"format":"l"}}]}),
        one,
        &[
            (2048, words(&[0, 3000])),
            (3000, words(&[0, 1, 2, 3])),
            (2150, words(&[0, 3100])),
            (3100, vec![0, 1, 2]),
            (2300, words(&[2400])),
            (2400, keys.bytes()),
        ],
    ));
}
