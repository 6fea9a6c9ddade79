//! What a guest does while it runs: traps, exits, endless loops, error texts, its allocator.

use super::*;

// Point 5: every way to stop.
#[test]
fn every_trap_is_an_error_that_names_it() {
    for (body, says) in [
        ("unreachable", "unreachable"),
        ("(i32.div_s (i32.const 1) (i32.const 0))", "divide by zero"),
        (
            "(call_indirect (result i32) (i32.const 0))",
            "uninitialized",
        ),
        ("(i32.load (i32.const -1))", "out of bounds"),
        ("(i32.trunc_f32_s (f32.const 1e30))", "overflow"),
    ] {
        let error = run_body(&format!(r#"(func $inner (result i32) {body}) (func (export "f") (param i32) (result i32) (call $inner))"#)).expect_err(body);
        let Fault::Trap { reason, backtrace } = &*error.fault else {
            panic!("{error}")
        };
        assert!(reason.contains(says), "{body}: {reason}");
        assert!(
            backtrace.len() >= 2 && backtrace[0].contains("inner"),
            "{backtrace:?}"
        );
    }
    let error =
        run_body(r#"(func $f (export "f") (param i32) (result i32) (call $f (local.get 0)))"#)
            .expect_err("recursion");
    assert!(error.to_string().contains("stack"), "{error}");
    assert_eq!(error.class(), ErrorClass::Trap);
    for status in [-1, 1, 3, i32::MAX] {
        contract_status(run_body(&format!(
            r#"(func (export "f") (param i32) (result i32) (i32.const {status}))"#
        )));
    }
}

#[test]
fn exit_is_an_error_whatever_its_code() {
    for code in [0, 1] {
        let error = call(&load("guest", &exiting(code)), 3).expect_err("exit");
        assert!(
            matches!(*error.fault, Fault::Exit { code: c } if c == code),
            "{error}"
        );
    }
}

// Points 1 and 3: time and memory.
#[test]
fn endless_loops_end_in_time_and_greed_is_refused() {
    let begun = Instant::now();
    let error =
        run_body(r#"(func (export "f") (param i32) (result i32) (loop $l (br $l)) (i32.const 0))"#)
            .expect_err("endless");
    assert!(matches!(*error.fault, Fault::Time { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    let grow = r#"(func (export "f") (param i32) (result i32)
      (if (i32.eq (memory.grow (i32.const 60000)) (i32.const -1)) (then unreachable)) (i32.const 0))"#;
    let error = run_body(grow).expect_err("greedy");
    assert!(matches!(*error.fault, Fault::Memory { .. }), "{error}");
    let fill = r#"(func (export "f") (param i32) (result i32)
      (loop $l (memory.fill (i32.const 0) (i32.const 0) (i32.const 131072)) (br $l)) (i32.const 0))"#;
    assert!(matches!(
        *run_body(fill).expect_err("endless").fault,
        Fault::Time { .. }
    ));
}

#[test]
fn a_start_function_that_never_ends_is_stopped() {
    let module = load(
        "guest",
        &wat(
            &[record("f")],
            r#"(func $s (loop $l (br $l))) (start $s) (func (export "f") (param i32) (result i32) (i32.const 0))"#,
        ),
    );
    let policy = wasmill::Policy {
        init_time: Duration::from_millis(100),
        ..wasmill::Policy::default()
    };
    let error = Pool::builder(&module)
        .policy(policy)
        .start()
        .expect_err("endless start");
    assert!(
        matches!(&error, StartError::Slot { fault, .. } if matches!(**fault, Fault::Time { .. })),
        "{error}"
    );
}

// Point 7: error texts.
#[test]
fn error_texts_are_bounded_and_cleaned() {
    let say = |at: u32, len: u32, data: &str| {
        run_body(&format!(
            r#"(data (i32.const 4096) "{data}")
            (func (export "f") (param $frame i32) (result i32)
              (i32.store offset=40 (local.get $frame) (i32.const {at}))
              (i32.store offset=44 (local.get $frame) (i32.const {len}))
              (i32.const 2))"#
        ))
        .expect_err("an error")
    };
    let error = say(4096, 8, "bad\\00\\1b[2J");
    assert!(
        error
            .to_string()
            .contains("the guest reports: bad\\u{0}\\u{1b}[2J"),
        "{error}"
    );
    assert!(say(4096, 1 << 30, "x").to_string().len() < 40_000);
    assert!(
        say(u32::MAX - 3, 100, "x")
            .to_string()
            .contains("outside its memory")
    );
    assert!(say(4096, 3, "\\ff\\fea").to_string().contains('\u{fffd}'));
    assert_eq!(say(4096, 3, "abc").class(), ErrorClass::Failed);
}

// Point 14: the allocator.
#[test]
fn an_allocator_cannot_hurt_the_host() {
    let with_alloc = |alloc: &str| {
        let record = record("f").to_string().replace('"', "\\\"");
        let bytes = wat::parse_str(format!(
            r#"(module
              (memory (export "memory") 2)
              (func (export "wasmill_alloc") (param $size i32) (param $align i32) (result i32) {alloc})
              (func (export "wasmill_free") (param i32 i32 i32))
              (func (export "f") (param $frame i32) (result i32)
                (memory.copy (i32.load offset=32 (local.get $frame)) (i32.load (i32.load offset=28 (local.get $frame))) (i32.const 64))
                (i32.const 0))
              (@custom "wasmill.manifest" "{record}\n"))"#
        ))
        .expect("a module");
        call(&load("liar", &bytes), 3)
    };
    assert!(with_alloc("(i32.const 1024)").is_ok());
    let none = with_alloc("(i32.const 0)").expect_err("no memory");
    assert!(matches!(*none.fault, Fault::RowTooLarge { .. }), "{none}");
    for bad in [
        "(i32.const 1)",
        "(i32.const -64)",
        "(i32.const 131008)",
        "(i32.const 4194304)",
    ] {
        contract(with_alloc(bad));
    }
    assert!(matches!(
        *with_alloc("unreachable").expect_err("a trap").fault,
        Fault::Trap { .. }
    ));
    assert!(matches!(
        *with_alloc("(loop $l (br $l)) (i32.const 0)")
            .expect_err("endless")
            .fault,
        Fault::Time { .. }
    ));
}
