//! What a module is: manifests, imports, limits, debug information, compile time.

use super::*;

// Point 8: manifests.
#[test]
fn bad_manifests_are_refused_and_say_why() {
    let f = r#"(func (export "f") (param i32) (result i32) (i32.const 0)) (func (export "g") (result i32) (i32.const 0))"#;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut r = record("f");
        change(&mut r);
        refused(&wat(&[r], f)).to_string()
    };
    assert!(with(&|r| r["abi"] = json!(2)).contains("ABI version 2"));
    assert!(with(&|r| r["symbol"] = json!("h")).contains("`h`, which does not exist"));
    assert!(with(&|r| r["symbol"] = json!("g")).contains("must be a function of type"));
    assert!(with(&|r| r["symbol"] = json!("memory")).contains("must be a function of type"));
    assert!(with(&|r| r["name"] = json!("x".repeat(1 << 20))).len() < 1000);
    assert!(with(&|r| r["name"] = json!("a b")).contains("is not a name"));
    assert!(with(&|r| r["kind"] = json!("table")).contains("not supported"));
    assert!(with(&|r| r["result"] = json!({"bound":true})).contains("bind"));
    assert!(with(&|r| r["result"] = json!({"same_as":1})).contains("argument 1 of 1"));
    assert!(with(&|r| r["volatility"] = json!("sometimes")).contains("sometimes"));
    assert!(with(&|r| r["batch_size"] = json!(0)).contains("batch_size"));
    assert!(
        with(&|r| r["state"] = json!({"name":"S","kind":"resource","init":"nope"}))
            .contains("nope")
    );
    let same = refused(&wat(&[record("f"), record("f")], f)).to_string();
    assert!(same.contains("two records declare f(Int64)"), "{same}");
    let many: Vec<Value> = (0..10_000)
        .map(|i| {
            let mut r = record("f");
            r["name"] = json!(format!("f{i}"));
            r
        })
        .collect();
    assert!(refused(&wat(&many, f)).to_string().contains("4096 records"));
    let nested = format!(
        "{}{}{}",
        r#"{"format":"+l","children":["#.repeat(10_000),
        r#"{"format":"l"}"#,
        "]}".repeat(10_000)
    );
    let text = record("f").to_string().replace(
        r#"{"format":"l"},"symbol""#,
        &format!(r#"{nested},"symbol""#),
    );
    assert!(text.len() > 100_000);
    let bytes = wat(&[], f);
    assert!(matches!(
        refused(&with_manifest(&bytes, text.as_bytes())),
        ModuleError::Manifest { .. }
    ));
    assert!(matches!(
        refused(&with_manifest(&bytes, b"{\"abi\":1")),
        ModuleError::Manifest { .. }
    ));
    assert!(matches!(
        refused(&with_manifest(&bytes, b"\xff\xfe")),
        ModuleError::Manifest { .. }
    ));
    assert!(matches!(refused(&bytes), ModuleError::Manifest { .. }));
    // Several sections are one stream.
    let two = with_manifest(
        &with_manifest(&bytes, format!("{}\n", record("f")).as_bytes()),
        format!("{}\n", {
            let mut r = record("f");
            r["name"] = json!("f2");
            r
        })
        .as_bytes(),
    );
    assert_eq!(load("two", &two).manifest().names(), ["f", "f2"]);
}

// Point 9: modules.
#[test]
fn modules_that_ask_for_what_is_not_offered_are_refused() {
    let module = |fields: &str| {
        let record = record("f").to_string().replace('"', "\\\"");
        wat::parse_str(format!(
            r#"(module {fields}
              (func (export "wasmill_alloc") (param i32 i32) (result i32) (i32.const 0))
              (func (export "wasmill_free") (param i32 i32 i32))
              (func (export "f") (param i32) (result i32) (i32.const 0))
              (@custom "wasmill.manifest" "{record}\n"))"#
        ))
        .expect("a module")
    };
    assert!(Module::from_bytes(engine(), "m", &module(r#"(memory (export "memory") 1)"#)).is_ok());
    for (fields, says) in [
        (
            r#"(import "env" "memory" (memory 1)) (export "memory" (memory 0))"#,
            "env.memory",
        ),
        (
            r#"(import "env" "f" (func)) (memory (export "memory") 1)"#,
            "env.f",
        ),
        (
            r#"(import "wasmill_v1" "nope" (func)) (memory (export "memory") 1)"#,
            "wasmill_v1.nope",
        ),
        (
            r#"(import "wasmill_v1" "log" (func)) (memory (export "memory") 1)"#,
            "log",
        ),
        (
            r#"(import "wasi_snapshot_preview1" "nope" (func)) (memory (export "memory") 1)"#,
            "nope",
        ),
        ("", "exactly one memory"),
        ("(memory 1)", "does not export its memory"),
        (
            r#"(memory (export "memory") 1) (memory 1)"#,
            "memories is 2",
        ),
        (r#"(memory (export "memory") 1 1 shared)"#, "threads"),
        (r#"(memory (export "memory") i64 1)"#, "memory64"),
        (r#"(memory (export "memory") 1) (tag)"#, "exception"),
        (r#"(memory (export "memory") 1) (type (struct))"#, "gc"),
    ] {
        let error = refused(&module(fields)).to_string();
        assert!(error.contains(says), "{fields}: {error}");
    }
    assert!(refused(b"").to_string().contains("does not begin"));
    assert!(
        refused(b"\0asm\x0d\0\x01\0")
            .to_string()
            .contains("component")
    );
    assert!(matches!(
        refused(b"\0asm\x01\0\0\0\x01\xff\xff\xff\xff\x0f"),
        ModuleError::Invalid { .. }
    ));
}

#[test]
fn modules_that_are_too_much_are_refused_before_they_are_compiled() {
    let small = ModuleLimits {
        module_bytes: 100_000,
        types: 50,
        functions: 60,
        function_bytes: 500,
        globals: 5,
        imports: 5,
        exports: 20,
        segments: 5,
        custom_bytes: 2_000,
        ..ModuleLimits::default()
    };
    let engine = Engine::new(&EngineConfig {
        limits: small,
        ..EngineConfig::default()
    })
    .expect("an engine");
    let f = r#"(func (export "f") (param i32) (result i32) (i32.const 0))"#;
    let over = [
        (
            "types",
            (0..60)
                .map(|i| format!("(type (func (param {})))", "i32 ".repeat(i + 4)))
                .collect::<String>(),
        ),
        ("functions", "(func)".repeat(60)),
        (
            "bytes of one function",
            format!("(func {})", "nop ".repeat(600)),
        ),
        ("globals", "(global i32 (i32.const 0))".repeat(10)),
        (
            "exports",
            (0..30)
                .map(|i| format!("(export \"e{i}\" (memory 0))"))
                .collect(),
        ),
        (
            "element and data segments",
            "(data (i32.const 0) \"x\")".repeat(10),
        ),
        (
            "bytes of custom sections",
            format!("(@custom \"c\" \"{}\")", "x".repeat(3_000)),
        ),
        (
            "bytes of the file",
            format!("(data (i32.const 0) \"{}\")", "x".repeat(100_001)),
        ),
    ];
    assert!(Module::from_bytes(&engine, "m", &wat(&[record("f")], f)).is_ok());
    for (what, fields) in over {
        let error =
            Module::from_bytes(&engine, "m", &wat(&[record("f")], &format!("{f} {fields}")))
                .expect_err(what);
        assert!(
            matches!(&error, ModuleError::Limit { what: w, .. } if *w == what),
            "{what}: {error}"
        );
    }
}

#[test]
fn heavy_functions_compile_in_bounded_time_or_are_refused() {
    let f = r#"(func (export "f") (param i32) (result i32) (i32.const 0))"#;
    let engine = Engine::new(&EngineConfig {
        limits: ModuleLimits {
            compile_time: Duration::from_secs(5),
            ..ModuleLimits::default()
        },
        ..EngineConfig::default()
    })
    .expect("an engine");
    let loops = format!(
        "(func (param i32) {} )",
        "(loop $l (br_if $l (local.get 0)))".repeat(20_000)
    );
    let table = format!(
        "(func (param i32) (block $b (br_table {} $b (local.get 0))))",
        "$b ".repeat(100_000)
    );
    let nested = format!("(func {} {})", "block ".repeat(5_000), "end ".repeat(5_000));
    for body in [loops, table, nested] {
        let begun = Instant::now();
        let result = Module::from_bytes(&engine, "m", &wat(&[record("f")], &format!("{f} {body}")));
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            result.err()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    // Whatever bytes stand where a result should be: an error or a valid array, never a panic.
    #[test]
    fn random_memory_is_never_undefined_behaviour(
        longs in prop::array::uniform5(prop_oneof![Just(0_i64), Just(3), Just(2), Just(1), Just(-1), any::<i64>()]),
        pointers in prop::array::uniform3(prop_oneof![Just(2048_u32), Just(0), 1024_u32..9000, any::<u32>()]),
        noise in prop::collection::vec(any::<u8>(), 2048),
        kind in 0_usize..8,
    ) {
        let kinds = [
            json!({"format":"l"}), json!({"format":"u"}), json!({"format":"vz"}), json!({"format":"+l","children":[{"format":"u"}]}),
            json!({"format":"c","dictionary":{"format":"u"}}), json!({"format":"+vl","children":[{"format":"b"}]}),
            json!({"format":"+s","children":[{"format":"s"},{"format":"b"}]}), json!({"format":"+us:0,1","children":[{"format":"n"},{"format":"c"}]}),
        ];
        let [length, null_count, offset, n_buffers, n_children] = longs;
        let [buffers, children, dictionary] = pointers;
        let lie = Lie { length, null_count, offset, n_buffers, n_children, buffers, children, dictionary };
        match tell(kinds[kind].clone(), lie, &[(2048, noise)]) {
            Ok(array) => array.to_data().validate_full().expect("a valid array"),
            Err(error) => prop_assert!(!matches!(*error.fault, Fault::Host { .. }), "{}", error),
        }
    }
}

// Aborts the process while it fails: the parser of debug information recurses once per level.
#[test]
fn nested_debug_information_cannot_overflow_the_stack() {
    let error = call(&load("liar", &with_nested_debug_info(1_000_000)), 3).expect_err("a trap");
    assert!(matches!(*error.fault, Fault::Trap { .. }), "{error}");
}

// Each of the units has abbreviations of its own, which are all the rest of the table.
#[test]
fn debug_information_cannot_outlast_the_time_limit() {
    let (mut abbreviations, mut info) = (Vec::new(), Vec::new());
    for i in 0..3_000 {
        let at = abbreviations.len() as u32;
        leb128(&mut abbreviations, i + 1);
        abbreviations.extend([0x11, 0, 0, 0]);
        let mut unit = vec![4_u8, 0];
        unit.extend(at.to_le_bytes());
        unit.push(4);
        leb128(&mut unit, i + 1);
        info.extend((unit.len() as u32).to_le_bytes());
        info.extend(unit);
    }
    abbreviations.push(0);
    let module = wat(&[record("f")], TRAPS);
    let module = with_section(
        &with_section(&module, ".debug_abbrev", &abbreviations),
        ".debug_info",
        &info,
    );
    let module = load("liar", &module);
    let begun = Instant::now();
    call(&module, 3).expect_err("a trap");
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_module_that_is_slow_to_compile_does_not_hold_up_others() {
    let engine = Engine::new(&EngineConfig {
        limits: ModuleLimits {
            compile_time: Duration::from_secs(2),
            ..ModuleLimits::default()
        },
        ..EngineConfig::default()
    })
    .expect("an engine");
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let slow = format!("{QUIET} {}", slow_to_compile(1_500).repeat(cores.max(4)));
    Module::from_bytes(&engine, "slow", &wat(&[record("f")], &slow)).expect_err("too slow");
    Module::from_bytes(&engine, "quick", &wat(&[record("f")], QUIET)).expect("an honest module");
}

// 1,998 values to be moved for each function that a table or `ref.func` names.
#[test]
fn small_functions_of_large_types_compile_in_time_or_are_refused() {
    let types = format!(
        "(type $t (func (param {0}) (result {0})))",
        "i64 ".repeat(999)
    );
    let functions = "(func (type $t) unreachable)".repeat(500);
    let named: String = (4..504).map(|i| format!("{i} ")).collect();
    let begun = Instant::now();
    let module = wat(
        &[record("f")],
        &format!("{QUIET} {types} {functions} (elem declare func {named})"),
    );
    let _ = Module::from_bytes(engine(), "m", &module);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}
