//! Modules that mean harm: each attempt ends in a typed error, in time, and the next run is right.

mod answers;
mod costs;
mod entries;
mod modules;
mod planning;

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

fn contract_status(result: Result<ArrayRef, CallError>) {
    let error = result.expect_err("a status that does not exist");
    assert!(error.to_string().contains("status"), "{error}");
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

fn refused(bytes: &[u8]) -> ModuleError {
    let begun = Instant::now();
    let error =
        Module::from_bytes(engine(), "m", bytes).expect_err("a module that should be refused");
    assert!(begun.elapsed() < Duration::from_secs(40), "{error}");
    error
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
