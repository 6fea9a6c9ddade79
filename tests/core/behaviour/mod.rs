//! Behaviour that a user of pools relies on, one test for each case that went wrong elsewhere.

mod calls;
mod failures;
mod pools;
mod udfs;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use serde_json::json;
use wasmill::{
    Argument, ArgumentType, BindError, Call, Error, ErrorClass, Fault, LogSink, Module, Policy,
    Pool, Rows, Stage, StageCall, StartError, StateKind, Volatility,
};

use crate::guests::{bind, load, pool, record, through, wat};
use crate::udfs::module;

fn int64() -> Field {
    Field::new("x", DataType::Int64, true)
}

fn slots(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("not zero")
}

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn values(array: &ArrayRef) -> Vec<i64> {
    array.as_primitive::<Int64Type>().values().to_vec()
}

/// A pool for one function of the probe, and the function bound to int64 columns.
fn probe(name: &str, columns: usize, init: serde_json::Value) -> (Pool, Call) {
    let module = module("probe");
    let call = bind(&module, name, &vec![int64(); columns]);
    let pool = Pool::builder(&module)
        .state_for(&call)
        .init_args(init)
        .start()
        .unwrap_or_else(|e| panic!("{e}"));
    (pool, call)
}

/// A sink that keeps lines.
fn lines() -> (LogSink, Arc<Mutex<Vec<String>>>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&kept);
    (
        Arc::new(move |line| {
            sink.lock()
                .expect("not poisoned")
                .push(line.text.to_owned())
        }),
        kept,
    )
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(n, c)| Field::new(*n, c.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.into_iter().map(|(_, c)| c).collect(),
    )
    .expect("a batch")
}

/// A guest whose `bind` answers large utf8.
fn binding_guest(result: serde_json::Value) -> Module {
    let mut r = record("f");
    r["args"] = json!([{ "name": "x", "any": true }]);
    r["result"] = result;
    r["bind"] = json!("b");
    let body = r#"
      (data (i32.const 16) "U\00+l\00no thanks")
      (func (export "b") (param $frame i32) (result i32)
        (local $result i32) (local $format i32)
        (local.set $format (i32.load8_u (i32.load (i32.load (i32.load offset=12 (local.get $frame))))))
        (if (i32.eq (local.get $format) (i32.const 0x62)) (then
          (i32.store offset=32 (local.get $frame) (i32.const 21))
          (i32.store offset=36 (local.get $frame) (i32.const 9))
          (return (i32.const 2))))
        (if (i32.eq (local.get $format) (i32.const 0x67)) (then (loop $l (br $l))))
        (local.set $result (i32.load offset=24 (local.get $frame)))
        (i32.store (local.get $result) (i32.const 16))
        (if (i32.eq (local.get $format) (i32.const 0x66)) (then (i32.store (local.get $result) (i32.const 18))))
        (i64.store offset=16 (local.get $result) (i64.const 2))
        (i32.store offset=28 (local.get $frame) (i32.const 42))
        (i32.const 0))
      (func (export "f") (param i32) (result i32) (i32.const 0))"#;
    load("binder", &wat(&[r], body))
}

fn first_type(f: &Arc<wasmill::Function>) -> DataType {
    match &f.parameters[0].accepts {
        wasmill::ParameterType::Exact(field) => field.data_type().clone(),
        wasmill::ParameterType::Any => DataType::Int64,
    }
}
