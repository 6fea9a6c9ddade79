//! Guests for tests, written in the text format on a common frame.

use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use wasmill::{Argument, ArgumentType, Call, Engine, EngineConfig, Module, Policy, Pool, Rows};

/// One engine for all tests of a process.
pub fn engine() -> &'static Engine {
    static ENGINE: LazyLock<Engine> =
        LazyLock::new(|| Engine::new(&EngineConfig::default()).expect("an engine"));
    &ENGINE
}

/// Memory, a bump allocator that starts over when the host resets, and what the test adds.
pub fn wat(manifest: &[serde_json::Value], body: &str) -> Vec<u8> {
    wat_with("(module", manifest, body)
}

/// As [`wat`], with more imports: the text begins with `(module` and these.
pub fn wat_with(imports: &str, manifest: &[serde_json::Value], body: &str) -> Vec<u8> {
    let records: String = manifest.iter().map(|r| format!("{r}\n")).collect();
    let records = records
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    let text = format!(
        r#"{imports}
  (import "wasmill_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 2)
  (global $next (mut i32) (i32.const 65536))
  (func $alloc (export "wasmill_alloc") (param $size i32) (param $align i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and
      (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
      (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (block $fits
      (loop $grow
        (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
        (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then
          (global.set $next (local.get $at))
          (return (i32.const 0))))
        (br $grow)))
    (local.get $at))
  (func (export "wasmill_free") (param i32 i32 i32))
  {body}
  (@custom "wasmill.manifest" "{records}"))"#
    );
    wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A record of a function over one `int64`, to be changed as a test needs.
pub fn record(name: &str) -> serde_json::Value {
    serde_json::json!({
        "abi": 1, "kind": "scalar", "name": name, "symbol": name,
        "args": [{ "name": "x", "format": "l" }],
        "result": { "format": "l" },
        "volatility": "immutable", "nulls": "handle"
    })
}

/// Loads a module for a test.
pub fn load(name: &str, bytes: &[u8]) -> Module {
    Module::from_bytes(engine(), name, bytes).unwrap_or_else(|e| panic!("{e}"))
}

/// `identity(x)`: any type in, the argument's own struct out.
pub const IDENTITY: &str = r#"
  (func (export "identity") (param $frame i32) (result i32)
    (memory.copy
      (i32.load offset=32 (local.get $frame))
      (i32.load (i32.load offset=28 (local.get $frame)))
      (i32.const 64))
    (i32.const 0))"#;

/// The identity guest.
pub fn identity() -> Module {
    let record = serde_json::json!({
        "abi": 1, "kind": "scalar", "name": "identity", "symbol": "identity",
        "args": [{ "name": "x", "any": true }], "result": { "same_as": 0 },
        "volatility": "immutable", "nulls": "handle"
    });
    load("identity", &wat(&[record], IDENTITY))
}

/// Binds the first overload of a function to fields.
pub fn bind(module: &Module, name: &str, fields: &[Field]) -> Call {
    let types: Vec<ArgumentType> = fields
        .iter()
        .map(|field| ArgumentType::Typed(field.data_type().clone()))
        .collect();
    let resolved = module
        .resolve(name, &types)
        .unwrap_or_else(|e| panic!("{e}"));
    module
        .bind(
            &resolved.function,
            fields.iter().cloned().map(Argument::column).collect(),
        )
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A pool of one slot for a stateless module.
pub fn pool(module: &Module) -> Pool {
    Pool::builder(module)
        .start()
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A pool of one slot with little time and memory, for modules that mean harm.
pub fn strict_pool(module: &Module) -> Pool {
    let policy = Policy {
        memory: 16 << 20,
        call_time: std::time::Duration::from_millis(200),
        init_time: std::time::Duration::from_millis(500),
        close_time: std::time::Duration::from_millis(200),
        output_bytes: 16 << 20,
        ..Policy::default()
    };
    Pool::builder(module)
        .policy(policy)
        .start()
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Sends one column through a function of one argument.
pub fn through(
    pool: &Pool,
    call: &Call,
    column: &ArrayRef,
) -> Result<ArrayRef, wasmill::CallError> {
    pool.call(call, Rows::new(vec![Arc::clone(column)], column.len()))
        .map(|o| o.array)
}
