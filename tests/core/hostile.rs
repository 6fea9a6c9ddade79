//! Modules that mean harm: each attempt ends in a typed error, in time, and the next run is right.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field};
use proptest::prelude::*;
use serde_json::{Value, json};
use wasmill::{
    CallError, Engine, EngineConfig, ErrorClass, Fault, Module, ModuleError, ModuleLimits, Pool,
    StartError,
};

use crate::guests::{bind, engine, load, record, strict_pool, through, wat};

/// Where lies are put: in the first page, which the allocator never gives out.
const AT: u32 = 1024;
const MEMORY: u64 = 2 * 65536;

/// An `ArrowArray` to be returned.
#[derive(Clone, Copy, Debug)]
struct Lie {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: u32,
    children: u32,
    dictionary: u32,
}

impl Lie {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for long in [
            self.length,
            self.null_count,
            self.offset,
            self.n_buffers,
            self.n_children,
        ] {
            bytes.extend(long.to_le_bytes());
        }
        for word in [self.buffers, self.children, self.dictionary, 0, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A module whose `f` returns a struct that lies at [`AT`], over memory filled by `data`.
fn liar(result: Value, data: &[(u32, Vec<u8>)]) -> Module {
    let mut record = record("f");
    record["result"] = result;
    let segments: String = data
        .iter()
        .map(|(at, bytes)| {
            let text: String = bytes.iter().map(|b| format!("\\{b:02x}")).collect();
            format!("(data (i32.const {at}) \"{text}\")\n")
        })
        .collect();
    let body = format!(
        r#"{segments}
        (func (export "f") (param $frame i32) (result i32)
          (memory.copy (i32.load offset=32 (local.get $frame)) (i32.const {AT}) (i32.const 64))
          (i32.const 0))"#
    );
    load("liar", &wat(&[record], &body))
}

fn column(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..rows as i64))
}

fn call(module: &Module, rows: usize) -> Result<ArrayRef, CallError> {
    let pool = strict_pool(module);
    let call = bind(module, "f", &[Field::new("x", DataType::Int64, true)]);
    through(&pool, &call, &column(rows))
}

/// Returns `lie` for three rows, with the table of buffers at 2048 and what else `data` holds.
fn tell(result: Value, lie: Lie, data: &[(u32, Vec<u8>)]) -> Result<ArrayRef, CallError> {
    let mut all = vec![(AT, lie.bytes())];
    all.extend_from_slice(data);
    call(&liar(result, &all), 3)
}

/// The honest answer for three int64 rows.
const HONEST: Lie = Lie {
    length: 3,
    null_count: 0,
    offset: 0,
    n_buffers: 2,
    n_children: 0,
    buffers: 2048,
    children: 0,
    dictionary: 0,
};

fn honest_buffers() -> (u32, Vec<u8>) {
    (2048, words(&[0, 4096]))
}

fn contract(result: Result<ArrayRef, CallError>) {
    let error = result.expect_err("a lie was believed");
    assert!(
        matches!(
            *error.fault,
            Fault::Contract(_) | Fault::OutputTooLarge { .. }
        ),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("`f`") && text.contains("liar") && text.contains("rows 0 to 2"),
        "{text}"
    );
}

#[test]
fn the_honest_answer_is_believed() {
    let array =
        tell(json!({"format":"l"}), HONEST, &[honest_buffers()]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        array.as_ref(),
        &Int64Array::from(vec![0, 0, 0]) as &dyn Array
    );
}

// Points 10 and 12: lengths, offsets, pointers, null counts.
#[test]
fn lies_about_the_struct_are_found() {
    let l = || json!({"format":"l"});
    for length in [-1, 0, 1, 2, 4, 6, 1 << 61, i64::MAX, i64::MIN] {
        contract(tell(l(), Lie { length, ..HONEST }, &[honest_buffers()]));
    }
    for offset in [-1, 1 << 61, i64::MAX, i64::MAX - 2, 1 << 20, i64::MIN] {
        contract(tell(l(), Lie { offset, ..HONEST }, &[honest_buffers()]));
    }
    for null_count in [-2, 1, 3, 4, i64::MAX, i64::MIN] {
        contract(tell(
            l(),
            Lie {
                null_count,
                ..HONEST
            },
            &[honest_buffers()],
        ));
    }
    for n_buffers in [-1, 0, 1, 3, i64::MAX] {
        contract(tell(
            l(),
            Lie {
                n_buffers,
                ..HONEST
            },
            &[honest_buffers()],
        ));
    }
    for n_children in [-1, 1, i64::MAX] {
        contract(tell(
            l(),
            Lie {
                n_children,
                ..HONEST
            },
            &[honest_buffers()],
        ));
    }
    let end = MEMORY as u32;
    for pointer in [end, end - 1, end - 23, u32::MAX, u32::MAX - 7] {
        contract(tell(l(), HONEST, &[(2048, words(&[0, pointer]))]));
        contract(tell(
            l(),
            Lie {
                buffers: pointer,
                ..HONEST
            },
            &[],
        ));
    }
    // An unaligned pointer is only odd.
    assert!(tell(l(), HONEST, &[(2048, words(&[0, 4097]))]).is_ok());
    // Bits say one null, the count says none, or the other way about.
    for (null_count, bits) in [(0, 0b101_u8), (2, 0b101), (1, 0b111)] {
        contract(tell(
            l(),
            Lie {
                null_count,
                ..HONEST
            },
            &[(2048, words(&[3000, 4096])), (3000, vec![bits])],
        ));
    }
    assert!(
        tell(
            l(),
            Lie {
                null_count: -1,
                ..HONEST
            },
            &[(2048, words(&[3000, 4096])), (3000, vec![0b101])]
        )
        .is_ok()
    );
    let error = tell(
        json!({"format":"l","nullable":false}),
        Lie {
            null_count: -1,
            ..HONEST
        },
        &[(2048, words(&[3000, 4096])), (3000, vec![0b101])],
    );
    assert!(
        error
            .expect_err("a null in a type without")
            .to_string()
            .contains("declared without nulls and has 1")
    );
}

// Point 11: offsets, text, views, keys, unions, runs, children. Point 12: digits and times.
#[test]
fn lies_about_values_are_found() {
    let text = |offsets: &[u32], bytes: &[u8]| {
        tell(
            json!({"format":"u"}),
            Lie {
                n_buffers: 3,
                ..HONEST
            },
            &[
                (2048, words(&[0, 3000, 4000])),
                (3000, words(offsets)),
                (4000, bytes.to_vec()),
            ],
        )
    };
    assert!(text(&[0, 1, 1, 3], b"abc").is_ok());
    assert!(
        text(&[1, 1, 2, 3], b"abc").is_ok(),
        "offsets may begin anywhere"
    );
    for offsets in [
        [0, 2, 1, 3],
        [0, 1, 2, u32::MAX],
        [u32::MAX, 0, 1, 2],
        [0, 0, 0, 1 << 30],
        [3, 2, 1, 0],
        [0, 9, 9, 3],
    ] {
        contract(text(&offsets, b"abc"));
    }
    contract(text(&[0, 1, 2, 3], &[0xff, b'a', b'b']));
    contract(text(&[0, 1, 2, 2], "é".as_bytes()));

    let view = |view: [u32; 4], lengths: &[i64], extra: u32| {
        let mut views = words(&view);
        views.extend([0; 32]);
        let table = if lengths.is_empty() {
            vec![0, 3000, 3200]
        } else {
            vec![0, 3000, extra, 3200]
        };
        let lengths: Vec<u8> = lengths.iter().flat_map(|l| l.to_le_bytes()).collect();
        let n_buffers = table.len() as i64;
        tell(
            json!({"format":"vu"}),
            Lie {
                n_buffers,
                ..HONEST
            },
            &[
                (2048, words(&table)),
                (3000, views),
                (3200, lengths),
                (4000, b"thirteen byte".to_vec()),
            ],
        )
    };
    let prefix = u32::from_le_bytes(*b"thir");
    assert!(view([13, prefix, 0, 0], &[13], 4000).is_ok());
    contract(view([13, prefix, 1, 0], &[13], 4000));
    contract(view([13, prefix, 0, 1], &[13], 4000));
    contract(view([13, prefix + 1, 0, 0], &[13], 4000));
    contract(view([13, prefix, 0, 0], &[12], 4000));
    contract(view([13, prefix, 0, 0], &[-1], 4000));
    contract(view([13, prefix, 0, 0], &[i64::MAX], 4000));
    contract(view([13, prefix, 0, 0], &[13], MEMORY as u32 - 4));
    contract(view([u32::MAX, 0, 0, 0], &[13], 4000));
    contract(view([1, 0x0100_0061, 0, 0], &[], 0));
    contract(view([1, 0xff, 0, 0], &[], 0));
    contract(tell(
        json!({"format":"vu"}),
        Lie {
            n_buffers: i64::MAX,
            ..HONEST
        },
        &[honest_buffers()],
    ));

    let keys = |keys: [i8; 3], values: i64| {
        let dictionary = Lie {
            length: values,
            buffers: 2100,
            ..HONEST
        };
        let bytes: Vec<u8> = keys.iter().map(|k| *k as u8).collect();
        let mut data = vec![
            (2048, words(&[0, 3000])),
            (3000, bytes),
            (2100, words(&[0, 4096])),
            (2200, dictionary.bytes()),
        ];
        data.push((5000, vec![0]));
        tell(
            json!({"format":"c","dictionary":{"format":"l"}}),
            Lie {
                dictionary: 2200,
                ..HONEST
            },
            &data,
        )
    };
    assert!(keys([0, 1, 1], 2).is_ok());
    contract(keys([0, 2, 1], 2));
    contract(keys([0, -1, 1], 2));
    contract(keys([0, 0, 0], 0));
    contract(keys([0, 0, 0], 1 << 50));

    let union = |ids: [u8; 3], offsets: [u32; 3], child: i64| {
        let child = Lie {
            length: child,
            buffers: 2100,
            ..HONEST
        };
        let data = [
            (2048, words(&[3000, 3100])),
            (3000, ids.to_vec()),
            (3100, words(&offsets)),
            (2100, words(&[0, 4096])),
            (2200, child.bytes()),
            (2300, words(&[2200])),
        ];
        tell(
            json!({"format":"+ud:5","children":[{"format":"l"}]}),
            Lie {
                n_children: 1,
                children: 2300,
                ..HONEST
            },
            &data,
        )
    };
    assert!(union([5, 5, 5], [0, 1, 2], 3).is_ok());
    contract(union([5, 5, 4], [0, 1, 2], 3));
    contract(union([5, 5, 0xff], [0, 1, 2], 3));
    contract(union([5, 5, 5], [0, 1, 3], 3));
    contract(union([5, 5, 5], [0, 1, u32::MAX], 3));

    let runs = |ends: [u32; 2], lengths: (i64, i64)| {
        let ends_array = Lie {
            length: lengths.0,
            buffers: 2100,
            ..HONEST
        };
        let values = Lie {
            length: lengths.1,
            buffers: 2150,
            ..HONEST
        };
        let data = [
            (2100, words(&[0, 3000])),
            (2150, words(&[0, 4096])),
            (2200, ends_array.bytes()),
            (2300, values.bytes()),
            (2400, words(&[2200, 2300])),
            (3000, words(&ends)),
        ];
        let result = json!({"format":"+r","children":[{"name":"run_ends","format":"i","nullable":false},{"name":"values","format":"l"}]});
        tell(
            result,
            Lie {
                n_buffers: 0,
                n_children: 2,
                children: 2400,
                buffers: 0,
                ..HONEST
            },
            &data,
        )
    };
    assert!(runs([1, 3], (2, 2)).is_ok());
    contract(runs([3, 1], (2, 2)));
    contract(runs([0, 3], (2, 2)));
    contract(runs([1, 2], (2, 2)));
    contract(runs([u32::MAX, 3], (2, 2)));
    contract(runs([1, 3], (2, 1)));

    let list = |offsets: [u32; 4], child: i64| {
        let child = Lie {
            length: child,
            buffers: 2100,
            ..HONEST
        };
        let data = [
            (2048, words(&[0, 3000])),
            (3000, words(&offsets)),
            (2100, words(&[0, 4096])),
            (2200, child.bytes()),
            (2300, words(&[2200])),
        ];
        tell(
            json!({"format":"+l","children":[{"format":"l"}]}),
            Lie {
                n_children: 1,
                children: 2300,
                ..HONEST
            },
            &data,
        )
    };
    assert!(list([0, 1, 2, 3], 3).is_ok());
    contract(list([0, 1, 2, 4], 3));
    contract(list([0, 2, 1, 3], 3));
    contract(list([0, 1, 2, 3], -1));
    // A struct that is its own child: the walk follows the type.
    contract(tell(
        json!({"format":"+s","children":[{"format":"+s","children":[{"format":"l"}]}]}),
        Lie {
            n_buffers: 1,
            n_children: 1,
            buffers: 2048,
            children: 2300,
            ..HONEST
        },
        &[honest_buffers(), (2300, words(&[AT]))],
    ));
    // Elements without bytes cost nothing to claim.
    let huge = Lie {
        length: i64::from(i32::MAX),
        n_buffers: 0,
        buffers: 0,
        ..HONEST
    };
    contract(tell(
        json!({"format":"+l","children":[{"format":"n"}]}),
        Lie {
            n_children: 1,
            children: 2300,
            ..HONEST
        },
        &[
            (2048, words(&[0, 3000])),
            (3000, words(&[0, 1, 2, i32::MAX as u32])),
            (2200, huge.bytes()),
            (2300, words(&[2200])),
        ],
    ));

    contract(tell(
        json!({"format":"d:3,0"}),
        HONEST,
        &[honest_buffers(), (4096, 1000_i128.to_le_bytes().to_vec())],
    ));
    contract(tell(
        json!({"format":"d:3,0"}),
        HONEST,
        &[honest_buffers(), (4096, i128::MIN.to_le_bytes().to_vec())],
    ));
    contract(tell(
        json!({"format":"tts"}),
        HONEST,
        &[honest_buffers(), (4096, 86_400_i32.to_le_bytes().to_vec())],
    ));
    contract(tell(
        json!({"format":"ttn"}),
        HONEST,
        &[honest_buffers(), (4096, (-1_i64).to_le_bytes().to_vec())],
    ));
}

#[test]
fn the_total_that_is_copied_out_is_limited() {
    // Each of 256 children is the same megabyte.
    let field = json!({"format":"w:300000"});
    let children: Vec<Value> = (0..256)
        .map(|i| {
            let mut f = field.clone();
            f["name"] = json!(format!("c{i}"));
            f
        })
        .collect();
    let mut record = record("f");
    record["result"] = json!({"format":"+s","children":children});
    let lie = Lie {
        n_buffers: 1,
        n_children: 256,
        children: 5000,
        ..HONEST
    };
    let child = Lie {
        buffers: 2048,
        ..HONEST
    };
    let body = format!(
        r#"(data (i32.const {AT}) "{}") (data (i32.const 2200) "{}") (data (i32.const 2048) "{}") (data (i32.const 5000) "{}")
        (func (export "f") (param $frame i32) (result i32)
          (drop (memory.grow (i32.const 32)))
          (memory.copy (i32.load offset=32 (local.get $frame)) (i32.const {AT}) (i32.const 64))
          (i32.const 0))"#,
        escape(&lie.bytes()),
        escape(&child.bytes()),
        escape(&words(&[0, 8192])),
        escape(&words(&[2200; 256])),
    );
    let error = call(&load("liar", &wat(&[record], &body)), 3).expect_err("230 MB were copied");
    assert!(
        matches!(*error.fault, Fault::OutputTooLarge { .. }),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Limit);
}

fn escape(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("\\{b:02x}")).collect()
}

fn run_body(body: &str) -> Result<ArrayRef, CallError> {
    call(
        &load(
            "guest",
            &wat(&[record("f")], &format!("(table 1 funcref) {body}")),
        ),
        3,
    )
}

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

fn contract_status(result: Result<ArrayRef, CallError>) {
    let error = result.expect_err("a status that does not exist");
    assert!(error.to_string().contains("status"), "{error}");
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

/// A guest that imports `proc_exit`; [`wat`] has no place for another import.
fn exiting(code: i32) -> Vec<u8> {
    let record = record("f").to_string().replace('"', "\\\"");
    wat::parse_str(format!(
        r#"(module
          (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (memory (export "memory") 2)
          (func (export "wasmill_alloc") (param i32 i32) (result i32) (i32.const 65536))
          (func (export "wasmill_free") (param i32 i32 i32))
          (func (export "f") (param i32) (result i32) (call $exit (i32.const {code})) (i32.const 0))
          (@custom "wasmill.manifest" "{record}\n"))"#
    ))
    .expect("a module")
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

fn refused(bytes: &[u8]) -> ModuleError {
    let begun = Instant::now();
    let error =
        Module::from_bytes(engine(), "m", bytes).expect_err("a module that should be refused");
    assert!(begun.elapsed() < Duration::from_secs(40), "{error}");
    error
}

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

/// Adds a custom section.
fn with_manifest(module: &[u8], content: &[u8]) -> Vec<u8> {
    let name = b"wasmill.manifest";
    let mut section = vec![name.len() as u8];
    section.extend_from_slice(name);
    section.extend_from_slice(content);
    let mut bytes = module.to_vec();
    bytes.push(0);
    let mut len = section.len();
    loop {
        let byte = (len & 0x7f) as u8;
        len >>= 7;
        bytes.push(if len > 0 { byte | 0x80 } else { byte });
        if len == 0 {
            break;
        }
    }
    bytes.extend_from_slice(&section);
    bytes
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

/// Adds a custom section of any name.
fn with_section(module: &[u8], name: &str, content: &[u8]) -> Vec<u8> {
    let mut section = vec![name.len() as u8];
    section.extend_from_slice(name.as_bytes());
    section.extend_from_slice(content);
    let mut bytes = module.to_vec();
    bytes.push(0);
    leb128(&mut bytes, section.len());
    bytes.extend_from_slice(&section);
    bytes
}

fn leb128(bytes: &mut Vec<u8>, mut n: usize) {
    loop {
        let byte = (n & 0x7f) as u8;
        n >>= 7;
        bytes.push(if n > 0 { byte | 0x80 } else { byte });
        if n == 0 {
            break;
        }
    }
}

const TRAPS: &str = r#"(func (export "f") (param i32) (result i32) unreachable)"#;
const QUIET: &str = r#"(func (export "f") (param i32) (result i32) (i32.const 0))"#;

/// One function that covers all code, with `depth` inlined calls inside each other.
fn with_nested_debug_info(depth: usize) -> Vec<u8> {
    let abbreviations = [
        1_u8, 0x11, 1, 0x11, 1, 0x12, 6, 0, 0, // unit: low_pc addr, high_pc data4
        2, 0x2e, 1, 0x11, 1, 0x12, 6, 0, 0, // subprogram, likewise
        3, 0x1d, 1, 0, 0, 0, // inlined subroutine without attributes
    ];
    let mut unit = vec![4_u8, 0, 0, 0, 0, 0, 4];
    for code in [1_u8, 2] {
        unit.push(code);
        unit.extend(0_u32.to_le_bytes());
        unit.extend(u32::MAX.to_le_bytes());
    }
    unit.extend(std::iter::repeat_n(3_u8, depth));
    unit.extend(std::iter::repeat_n(0_u8, depth + 2));
    let mut info = (unit.len() as u32).to_le_bytes().to_vec();
    info.extend(unit);
    let module = wat(&[record("f")], TRAPS);
    with_section(
        &with_section(&module, ".debug_abbrev", &abbreviations),
        ".debug_info",
        &info,
    )
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

/// A function whose loops nest and keep many locals alive: few bytes that take minutes to compile.
fn slow_to_compile(n: usize) -> String {
    let sets: String = (1..=n)
        .map(|i| format!("(local.set {i} (i32.load (local.get 0)))"))
        .collect();
    let gets: String = (1..=n)
        .map(|i| format!("(drop (i32.div_u (local.get 0) (local.get {i})))"))
        .collect();
    format!(
        "(func (param i32) (local {}) {} {gets} {sets} {})",
        "i32 ".repeat(n),
        "(loop ".repeat(n),
        "(br_if 0 (local.get 0)))".repeat(n)
    )
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

// ---- results that the host itself makes large ----

fn guest_of(result: Value, body: &str) -> Module {
    let mut record = record("f");
    record["result"] = result;
    load("liar", &wat(&[record], body))
}

fn masked_call(
    module: &Module,
    rows: usize,
    mask: impl Fn(usize) -> bool,
) -> Result<ArrayRef, CallError> {
    let pool = strict_pool(module);
    let call = bind(module, "f", &[Field::new("x", DataType::Int64, true)]);
    let mask: arrow::array::BooleanArray = (0..rows).map(|i| Some(mask(i))).collect();
    pool.call(
        &call,
        wasmill::Rows::new(vec![column(rows)], rows).masked(mask),
    )
    .map(|o| o.array)
}

fn too_large(result: Result<ArrayRef, CallError>) {
    let error = result.expect_err("more than the limit");
    assert!(
        matches!(*error.fault, Fault::OutputTooLarge { .. }),
        "{error}"
    );
}

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

// ---- results that cost more than their bytes ----

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

// ---- bind ----

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

// ---- time ----

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

// ---- manifests ----

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
