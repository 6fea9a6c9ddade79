//! Guest memory that a result is read from.
//!
//! The guest copies the bytes that it is given to a fixed place, and the first of them over the two
//! structs of its answer: the result and the row errors. The first byte chooses the type of the result.

#![no_main]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, BinaryArray};
use arrow::datatypes::{DataType, Field};
use libfuzzer_sys::fuzz_target;
use wasmill::{
    Argument, ArgumentType, Call, Engine, EngineConfig, LocalSlot, Module, Policy, Pool, Rows,
};

/// Result types as the manifest has them.
const TYPES: [&str; 12] = [
    r#"{"format":"l"}"#,
    r#"{"format":"b"}"#,
    r#"{"format":"u"}"#,
    r#"{"format":"U"}"#,
    r#"{"format":"vu"}"#,
    r#"{"format":"d:10,2"}"#,
    r#"{"format":"ttm"}"#,
    r#"{"format":"+l","children":[{"name":"item","format":"u"}]}"#,
    r#"{"format":"+vl","children":[{"name":"item","format":"i"}]}"#,
    r#"{"format":"+s","children":[{"name":"a","format":"i"},{"name":"b","format":"+w:2","children":[{"name":"item","format":"g"}]}]}"#,
    r#"{"format":"+ud:0,1","children":[{"name":"a","format":"i"},{"name":"b","format":"u"}]}"#,
    r#"{"format":"i","dictionary":{"format":"u"}}"#,
];

/// Rows of each call; the argument's bytes are in the first.
const ROWS: usize = 3;

fn module() -> Module {
    let records: String = TYPES
        .iter()
        .enumerate()
        .map(|(i, result)| {
            let record = format!(
                r#"{{"abi":1,"kind":"scalar","name":"f{i}","symbol":"f","args":[{{"name":"x","format":"z"}}],"result":{result},"volatility":"volatile","nulls":"handle"}}"#
            );
            format!("{}\\n", record.replace('"', "\\\""))
        })
        .collect();
    let text = format!(
        r#"(module
  (memory (export "memory") 4)
  (global $next (mut i32) (i32.const 131072))
  (func (export "wasmill_alloc") (param $size i32) (param $align i32) (result i32) (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 63)) (i32.const -64)))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (if (i32.gt_u (global.get $next) (i32.const 262144)) (then (return (i32.const 0))))
    (local.get $at))
  (func (export "wasmill_free") (param i32 i32 i32))
  (func (export "f") (param $frame i32) (result i32) (local $array i32) (local $bytes i32) (local $len i32)
    ;; args[0].array, its buffers 1 (offsets) and 2 (bytes)
    (local.set $array (i32.load (i32.load offset=28 (local.get $frame))))
    (local.set $bytes (i32.load offset=8 (i32.load offset=40 (local.get $array))))
    (local.set $len (i32.load offset=4 (i32.load offset=4 (i32.load offset=40 (local.get $array)))))
    (if (i32.gt_u (local.get $len) (i32.const 65536)) (then (local.set $len (i32.const 65536))))
    (memory.copy (i32.const 1024) (local.get $bytes) (local.get $len))
    (memory.copy (i32.load offset=32 (local.get $frame)) (i32.const 1024) (i32.const 64))
    (memory.copy (i32.load offset=36 (local.get $frame)) (i32.const 1088) (i32.const 64))
    (i32.const 0))
  (@custom "wasmill.manifest" "{records}"))"#
    );
    let bytes = wat::parse_str(text).expect("a module");
    let engine = Engine::new(&EngineConfig::default()).expect("an engine");
    Module::from_bytes(&engine, "fuzz", &bytes).expect("a sound module")
}

fn calls(module: &Module) -> Vec<Call> {
    let argument = ArgumentType::Typed(DataType::Binary);
    (0..TYPES.len())
        .map(|i| {
            let function = module
                .resolve(&format!("f{i}"), std::slice::from_ref(&argument))
                .expect("an overload")
                .function;
            let field = Field::new("x", DataType::Binary, true);
            module
                .bind(&function, vec![Argument::column(field)])
                .expect("binds")
        })
        .collect()
}

thread_local! {
    static GUEST: RefCell<(LocalSlot, Vec<Call>)> = {
        let module = module();
        let policy = Policy {
            memory: 4 << 16,
            call_time: Duration::from_secs(1),
            output_bytes: 1 << 20,
            ..Policy::default()
        };
        let slot = Pool::builder(&module).policy(policy).start_local().expect("a slot");
        RefCell::new((slot, calls(&module)))
    };
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, memory)) = bytes.split_first() else {
        return;
    };
    let first: &[u8] = memory;
    let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(
        [first, b"".as_slice(), b"".as_slice()],
    ));
    GUEST.with_borrow_mut(|(slot, calls)| {
        let call = &calls[usize::from(*choice) % calls.len()];
        if let Ok(output) = slot.call(call, &Rows::new(vec![column], ROWS)) {
            // What was accepted is sound: printing it visits every value.
            assert_eq!(output.array.len(), ROWS);
            output.array.to_data().validate_full().expect("sound");
        }
    });
});
