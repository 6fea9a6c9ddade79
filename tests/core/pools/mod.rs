//! Runs and their pools: admission, sharing, budgets, fairness, teardown.

mod admission;
mod attack;
mod edges;
mod endings;
mod faults;
mod limits;
mod runs;
mod scheduling;
mod sharing;
mod soak;
mod warm;

use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::time::{Duration, Instant};

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use serde_json::{Value, json};
use wasmill::{
    Admission, AdmissionError, Budget, Budgets, Call, CallError, Cancel, DeviceTotal, Error, Fault,
    Ledger, LogSink, Machine, Module, Policy, Pool, PoolBuilder, Resource, Rows, Run, RunConfig,
    Share, SlotResources, Stage, StartError, WarmLimits, WarmPools,
};

use crate::guests::{bind, load, record, through};

/// The probe, compiled once for all tests of a process.
fn module(name: &str) -> Module {
    static PROBE: LazyLock<Module> = LazyLock::new(|| crate::udfs::module("probe"));
    assert_eq!(name, "probe");
    PROBE.clone()
}

/// A machine of two CPUs, 4 GiB and two devices of 16 GiB.
fn machine() -> Ledger {
    let device = |n| DeviceTotal {
        name: format!("gpu{n}"),
        memory: 16 << 30,
    };
    Ledger::new(Machine {
        cpus: Share::whole(2),
        memory: 4 << 30,
        devices: vec![device(0), device(1)],
    })
}

fn on(ledger: &Ledger) -> RunConfig {
    RunConfig {
        ledger: Some(ledger.clone()),
        ..RunConfig::default()
    }
}

/// Nothing is reserved, nothing runs, nobody waits.
#[track_caller]
fn assert_clean(ledger: &Ledger) {
    let usage = ledger.usage();
    assert_eq!(usage.memory, 0, "{usage:?}");
    assert_eq!(usage.cpus_in_use, Share::ZERO, "{usage:?}");
    assert!(usage.holders.is_empty() && usage.waiting == 0, "{usage:?}");
    assert!(
        usage.devices.iter().all(|d| d.share == Share::ZERO),
        "{usage:?}"
    );
}

fn slots(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("not zero")
}

fn int64() -> Field {
    Field::new("x", DataType::Int64, true)
}

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn values(array: &ArrayRef) -> Vec<i64> {
    array.as_primitive::<Int64Type>().values().to_vec()
}

fn batch(column: ArrayRef) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![int64()]));
    RecordBatch::try_new(schema, vec![column]).expect("a batch")
}

/// A pool of the probe, 64 MiB a slot.
fn probe(state: &str, init: Value) -> PoolBuilder {
    Pool::builder(&module("probe"))
        .name(&state.to_lowercase())
        .state(state)
        .init_args(init)
        .policy(Policy {
            memory: 64 << 20,
            ..Policy::default()
        })
        .queue_bytes(1 << 20)
}

/// A pool of the state that fails as it is told, and its call.
fn faulty(init: Value) -> (PoolBuilder, Call) {
    let policy = Policy {
        memory: 64 << 20,
        call_time: Duration::from_millis(150),
        init_time: Duration::from_millis(300),
        close_time: Duration::from_millis(150),
        ..Policy::default()
    };
    let call = bind(&module("probe"), "faulty", &[int64()]);
    (probe("Faulty", init).policy(policy), call)
}

/// A sink that counts lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn sink(&self) -> LogSink {
        let lines = Arc::clone(&self.0);
        Arc::new(move |line| lines.lock().expect("a lock").push(line.text.to_owned()))
    }

    fn count(&self, text: &str) -> u64 {
        let lines = self.0.lock().expect("a lock");
        lines.iter().filter(|line| line.contains(text)).count() as u64
    }
}

fn run(config: RunConfig, pools: Vec<PoolBuilder>) -> Run {
    Run::start(config, pools).unwrap_or_else(|e| panic!("{e}"))
}

/// Answers come within so much time, or the test fails.
fn soon<T>(receive: &mpsc::Receiver<T>) -> T {
    receive
        .recv_timeout(Duration::from_secs(20))
        .expect("an answer in time")
}

/// Waits until something is so.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it never happened"
        );
        std::thread::yield_now();
    }
}
