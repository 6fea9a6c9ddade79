//! What is asked of a guest while a plan is made, and what its texts may say.

use super::*;

/// A `bind` with 16 MiB of memory answers metadata that its 64 fields share: 8 MB each.
#[test]
fn what_bind_answers_is_limited_in_total() {
    let schema = |format: u32, metadata: u32, n_children: u64, children: u32| {
        let mut bytes = words(&[format, 0, metadata, 0]);
        bytes.extend(2_u64.to_le_bytes());
        bytes.extend(n_children.to_le_bytes());
        bytes.extend(words(&[children, 0, 0, 0]));
        bytes
    };
    let mut record = record("f");
    record["args"] = json!([{"name":"x","any":true}]);
    record["result"] = json!({"bound":true});
    record["bind"] = json!("b");
    let body = format!(
        r#"(data (i32.const 1000) "+s\00\00n\00") (data (i32.const 2000) "{}") (data (i32.const 2100) "{}") (data (i32.const 8192) "{}") {QUIET}
        (func (export "b") (param $frame i32) (result i32) (local $i i32) (local $at i32)
          (drop (memory.grow (i32.const 160)))
          (i32.store (i32.const 131072) (i32.const 4000))
          (local.set $at (i32.const 131076))
          (loop $l
            (i32.store (local.get $at) (i32.const 2048))
            (i32.store offset=4 (local.get $at) (i32.or (i32.const 0x01010101) (i32.shl (i32.and (local.get $i) (i32.const 63)) (i32.const 1))))
            (i32.store offset=8 (local.get $at) (i32.or (i32.const 0x01010101) (i32.shr_u (local.get $i) (i32.const 6))))
            (local.set $at (i32.add (local.get $at) (i32.const 2056)))
            (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 4000))))
          (memory.copy (i32.load offset=24 (local.get $frame)) (i32.const 2000) (i32.const 48))
          (i32.const 0))"#,
        escape(&schema(1000, 0, 64, 8192)),
        escape(&schema(1004, 131_072, 0, 0)),
        escape(&words(&[2100; 64])),
    );
    let module = load("binder", &wat(&[record], &body));
    let function = module.manifest().overloads("f").next().expect("f");
    let x = wasmill::Argument::column(Field::new("x", DataType::Int64, true));
    let error = module
        .bind(function, vec![x])
        .expect_err("500 MB of metadata");
    assert!(error.to_string().contains("malformed"), "{error}");
}

// Aborts the process while it fails: the guest may use more stack than the thread has.
#[test]
fn bind_does_not_depend_on_the_stack_of_whoever_asks() {
    let mut record = record("f");
    record["args"] = json!([{"name":"x","any":true}]);
    record["result"] = json!({"bound":true});
    record["bind"] = json!("b");
    let body = format!(
        r#"{QUIET} (func $r (param i32 i64) (call $r (local.get 0) (local.get 1)))
        (func (export "b") (param i32) (result i32) (call $r (i32.const 0) (i64.const 0)) (i32.const 0))"#
    );
    let module = load("binder", &wat(&[record], &body));
    let asked = std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(move || {
            let function = module.manifest().overloads("f").next().expect("f");
            let x = wasmill::Argument::column(Field::new("x", DataType::Int64, true));
            module
                .bind(function, vec![x])
                .map(drop)
                .expect_err("recursion")
                .to_string()
        });
    let error = asked.expect("a thread").join().expect("no panic");
    assert!(error.contains("stack"), "{error}");
}

// The allocator has only small blocks, so the batch is split; each part takes nearly all the time.
#[test]
fn the_parts_of_a_batch_share_its_time() {
    let record = record("f").to_string().replace('"', "\\\"");
    let module = wat::parse_str(format!(
        r#"(module (memory (export "memory") 2)
          (func (export "wasmill_alloc") (param $size i32) (param i32) (result i32)
            (if (i32.gt_u (local.get $size) (i32.const 4096)) (then (return (i32.const 0))))
            (i32.const 65536))
          (func (export "wasmill_free") (param i32 i32 i32))
          (func (export "f") (param $frame i32) (result i32) (local $i i32)
            (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 60000000))))
            (memory.copy (i32.load offset=32 (local.get $frame)) (i32.load (i32.load offset=28 (local.get $frame))) (i32.const 64))
            (i32.const 0))
          (@custom "wasmill.manifest" "{record}\n"))"#
    ))
    .expect("a module");
    let begun = Instant::now();
    let error = call(&load("slow", &module), 8_192).expect_err("32 times the limit");
    assert!(matches!(*error.fault, Fault::Time { .. }), "{error}");
    assert!(
        begun.elapsed() < Duration::from_millis(600),
        "{:?}",
        begun.elapsed()
    );
}

// Whatever a module's author wrote: no control characters, one line, bounded.
#[test]
fn texts_of_modules_cannot_forge_lines_in_errors() {
    let odd = "\u{1b}[2J\u{9b}\nforged\u{202e}";
    let clean = |what: &str, text: String| {
        assert!(
            !text.contains(['\u{1b}', '\u{9b}', '\u{202e}']) && !text.contains("\nforged"),
            "{what}: {text:?}"
        );
        assert!(text.len() < 10_000, "{what}: {} bytes", text.len());
    };
    let empty = wat(&[], QUIET);
    let long = "x".repeat(1 << 20);
    for text in [odd, &long] {
        for key in [
            "abi",
            "kind",
            "name",
            "symbol",
            "volatility",
            "nulls",
            "bind",
        ] {
            let mut r = record("f");
            r[key] = json!(text);
            clean(
                key,
                refused(&with_manifest(&empty, format!("{r}\n").as_bytes())).to_string(),
            );
        }
        let mut r = record("f");
        r["state"] = json!({"name":"S","kind":text,"init":"f"});
        clean(
            "state",
            refused(&with_manifest(&empty, format!("{r}\n").as_bytes())).to_string(),
        );
    }
    clean(
        "import",
        refused(
            &wat::parse_str(r#"(module (import "\1b[2J" "\c2\9b\0aforged" (func)))"#)
                .map(|m| with_manifest(&m, format!("{}\n", record("f")).as_bytes()))
                .expect("a module"),
        )
        .to_string(),
    );
    let fields =
        json!({"format":"+s","children":[{"name":"\u{1b}[2J\u{9b}\nforged","format":"l"}]});
    let lie = Lie {
        n_buffers: 1,
        n_children: 1,
        children: 2300,
        ..HONEST
    };
    let error =
        tell(fields, lie, &[honest_buffers(), (2300, words(&[u32::MAX]))]).expect_err("a lie");
    clean("path", error.to_string());
    for (schema, args) in [
        (json!({"required":[odd]}), json!({})),
        (json!({"type":vec!["null"; 100_000]}), json!({})),
        (json!({"properties":{"a":{"enum":[long]}}}), json!({"a":1})),
        (json!({"properties":{"a":{"enum":[odd]}}}), json!({"a":1})),
        (
            json!({"additionalProperties":false,"properties":{"\u{1b}ab":{}}}),
            json!({"ab":1}),
        ),
    ] {
        let mut r = record("f");
        r["state"] = json!({"name":"S","kind":"resource","init":"f","init_args":schema});
        let module = load("state", &with_manifest(&empty, format!("{r}\n").as_bytes()));
        let error = Pool::builder(&module)
            .state("S")
            .init_args(args)
            .start()
            .expect_err("refused");
        clean("init arguments", error.to_string());
    }
}

#[test]
fn a_schema_of_many_properties_is_checked_in_time() {
    let properties: serde_json::Map<String, Value> = (0..40_000)
        .map(|i| (format!("p{i}"), json!({"default":1})))
        .collect();
    let mut r = record("f");
    r["state"] = json!({"name":"S","kind":"resource","init":"f","init_args":{"additionalProperties":false,"properties":properties}});
    let module = load(
        "state",
        &with_manifest(&wat(&[], QUIET), format!("{r}\n").as_bytes()),
    );
    let begun = Instant::now();
    let _ = Pool::builder(&module).state("S").start();
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_guest_cannot_make_the_host_gather_all_of_its_input() {
    let with = |rows: u32| {
        let mut r = record("f");
        r["batch_size"] = json!(rows);
        Module::from_bytes(engine(), "greedy", &wat(&[r], QUIET))
    };
    assert!(with(1 << 20).is_ok());
    let error = with((1 << 20) + 1).expect_err("a batch of all there is");
    assert!(
        error.to_string().contains("`batch_size` is 1048577"),
        "{error}"
    );
}
