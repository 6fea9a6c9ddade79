//! What crossing the boundary costs: a batch into a slot, through a function, and back, beside the same
//! function in native Rust over the same arrays.
//!
//! `cargo bench --bench crossing --no-default-features` prints Criterion's figures and then one table of
//! ratios, for which the variants take turns in short rounds, so that a busy machine disturbs them alike.
//! The native side is safe Rust that the compiler vectorises, and writes into a buffer that is reused.
//! Deadlines are armed and memory is limited, as in any pool.

#![allow(clippy::print_stdout, reason = "the table is what this is for")]

mod modules;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{Field, Int32Type, Int64Type};
use criterion::{BenchmarkId, Criterion, Throughput};
use wasmill::{Argument, ArgumentType, Call, Engine, EngineConfig, LocalSlot, Module, Pool, Rows};

const SIZES: [usize; 4] = [1, 1_024, 8_192, 65_536];

fn main() {
    let module = Module::from_file(
        &Engine::new(&EngineConfig::default()).expect("an engine"),
        modules::path("math"),
    )
    .expect("the module `math`");
    let mut cases: Vec<Case> = Vec::new();
    for rows in SIZES {
        cases.push(Case::new(
            &module,
            "add",
            "add int64",
            integers64(rows),
            Native::add(),
        ));
        cases.push(Case::new(
            &module,
            "gcd",
            "gcd int32",
            integers32(rows),
            Native::gcd(),
        ));
        cases.push(Case::new(
            &module,
            "char_length",
            "char_length utf8",
            texts(rows),
            Native::char_length(),
        ));
        cases.push(Case::new(
            &module,
            "upper",
            "upper utf8",
            texts(rows),
            Native::upper(),
        ));
    }
    cases.iter_mut().for_each(Case::verify);
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20)
        .configure_from_args();
    for case in &mut cases {
        let mut group = criterion.benchmark_group(case.title);
        group.throughput(Throughput::Elements(case.rows.rows as u64));
        group.bench_function(BenchmarkId::new("slot", case.rows.rows), |b| {
            b.iter(|| black_box(case.slot.call(&case.call, &case.rows).expect("a result")))
        });
        group.bench_function(BenchmarkId::new("native", case.rows.rows), |b| {
            b.iter(|| case.native.run(&case.rows.columns))
        });
        group.finish();
    }
    criterion.final_summary();
    // A profiler wants one case alone.
    if !std::env::args().any(|argument| argument == "--profile-time") {
        table(&mut cases);
    }
}

/// One function at one size.
struct Case {
    title: &'static str,
    slot: LocalSlot,
    call: Call,
    rows: Rows,
    native: Native,
}

impl Case {
    fn new(
        module: &Module,
        udf: &str,
        title: &'static str,
        columns: Vec<ArrayRef>,
        native: Native,
    ) -> Self {
        let types: Vec<_> = columns
            .iter()
            .map(|c| ArgumentType::Typed(c.data_type().clone()))
            .collect();
        let function = module.resolve(udf, &types).expect("an overload").function;
        let fields = columns
            .iter()
            .map(|c| Argument::column(Field::new("x", c.data_type().clone(), true)))
            .collect();
        let call = module.bind(&function, fields).expect("binds");
        let slot = Pool::builder(module).start_local().expect("a slot");
        let rows = columns.first().map_or(0, |c| c.len());
        Case {
            title,
            slot,
            call,
            rows: Rows::new(columns, rows),
            native,
        }
    }

    /// Both sides must agree before either is timed.
    fn verify(&mut self) {
        let ours = self
            .slot
            .call(&self.call, &self.rows)
            .expect("a result")
            .array;
        self.native.run(&self.rows.columns);
        assert_eq!(
            ours.as_ref(),
            self.native.result().as_ref(),
            "{} at {} rows",
            self.title,
            self.rows.rows
        );
    }
}

/// The native function, with the buffers that it writes into.
struct Native {
    run: fn(&mut Native, &[ArrayRef]),
    long: Vec<i64>,
    int: Vec<i32>,
    bytes: Vec<u8>,
    offsets: Vec<i32>,
}

impl Native {
    fn new(run: fn(&mut Native, &[ArrayRef])) -> Self {
        Native {
            run,
            long: Vec::new(),
            int: Vec::new(),
            bytes: Vec::new(),
            offsets: Vec::new(),
        }
    }

    fn run(&mut self, columns: &[ArrayRef]) {
        (self.run)(self, black_box(columns));
        black_box((&self.long, &self.int, &self.bytes, &self.offsets));
    }

    fn add() -> Self {
        Native::new(|native, columns| {
            let (a, b) = (
                columns[0].as_primitive::<Int64Type>(),
                columns[1].as_primitive::<Int64Type>(),
            );
            native.long.clear();
            native.long.extend(
                a.values()
                    .iter()
                    .zip(b.values())
                    .map(|(a, b)| a.wrapping_add(*b)),
            );
        })
    }

    fn gcd() -> Self {
        Native::new(|native, columns| {
            let (a, b) = (
                columns[0].as_primitive::<Int32Type>(),
                columns[1].as_primitive::<Int32Type>(),
            );
            native.int.clear();
            native.int.extend(
                a.values()
                    .iter()
                    .zip(b.values())
                    .map(|(a, b)| math::gcd(*a, *b)),
            );
        })
    }

    fn char_length() -> Self {
        Native::new(|native, columns| {
            native.int.clear();
            native.int.extend(
                columns[0]
                    .as_string::<i32>()
                    .iter()
                    .map(|text| text.unwrap_or_default().chars().count() as i32),
            );
        })
    }

    fn upper() -> Self {
        Native::new(|native, columns| {
            native.bytes.clear();
            native.offsets.clear();
            native.offsets.push(0);
            for text in columns[0].as_string::<i32>() {
                let text = text.unwrap_or_default();
                if text.is_ascii() {
                    native
                        .bytes
                        .extend(text.bytes().map(|b| b.to_ascii_uppercase()));
                } else {
                    for c in text.chars().flat_map(char::to_uppercase) {
                        native
                            .bytes
                            .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                }
                native.offsets.push(native.bytes.len() as i32);
            }
        })
    }

    fn result(&self) -> ArrayRef {
        if !self.long.is_empty() {
            Arc::new(Int64Array::from(self.long.clone()))
        } else if !self.int.is_empty() {
            Arc::new(Int32Array::from(self.int.clone()))
        } else {
            let texts: StringArray = self
                .offsets
                .windows(2)
                .map(|w| {
                    Some(
                        std::str::from_utf8(&self.bytes[w[0] as usize..w[1] as usize])
                            .expect("text"),
                    )
                })
                .collect();
            Arc::new(texts)
        }
    }
}

/// Times ours and native in turns and prints medians and their ratio.
fn table(cases: &mut [Case]) {
    println!(
        "\nCrossing included, medians of rounds in turns (native is autovectorised safe Rust into a reused buffer)"
    );
    println!(
        "{:<18} {:>8} {:>12} {:>12} {:>8} {:>12}",
        "function", "rows", "slot", "native", "ratio", "M rows/s"
    );
    for case in cases {
        let (mut ours, mut native) = (Vec::new(), Vec::new());
        let calls = calls_in(Duration::from_micros(400), || {
            black_box(case.slot.call(&case.call, &case.rows).expect("a result"));
        });
        let begun = Instant::now();
        while ours.len() < 15 || begun.elapsed() < Duration::from_millis(400) {
            ours.push(per_call(calls, || {
                black_box(case.slot.call(&case.call, &case.rows).expect("a result"));
            }));
            native.push(per_call(calls, || case.native.run(&case.rows.columns)));
        }
        let (ours, native) = (median(&mut ours), median(&mut native));
        println!(
            "{:<18} {:>8} {:>9.2} µs {:>9.2} µs {:>8.2} {:>12.1}",
            case.title,
            case.rows.rows,
            ours * 1e6,
            native * 1e6,
            ours / native,
            case.rows.rows as f64 / ours / 1e6
        );
    }
}

fn calls_in(time: Duration, mut f: impl FnMut()) -> u32 {
    let mut calls = 0;
    let begun = Instant::now();
    while begun.elapsed() < time {
        f();
        calls += 1;
    }
    calls
}

fn per_call(calls: u32, mut f: impl FnMut()) -> f64 {
    let begun = Instant::now();
    (0..calls).for_each(|_| f());
    begun.elapsed().as_secs_f64() / f64::from(calls)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn integers64(rows: usize) -> Vec<ArrayRef> {
    let column = |salt: i64| {
        Arc::new(Int64Array::from_iter_values(
            (0..rows as i64).map(|i| i.wrapping_mul(0x9e37_79b9).wrapping_add(salt)),
        )) as ArrayRef
    };
    vec![column(1), column(7)]
}

/// Independent numbers of 24 bits, so that Euclid's algorithm takes its usual number of steps.
fn integers32(rows: usize) -> Vec<ArrayRef> {
    let column = |seed: u64| {
        let mut state = seed;
        let mut next = || {
            // A linear congruential generator with Knuth's constants for MMIX; its high bits are good.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as i32
        };
        Arc::new(Int32Array::from_iter_values((0..rows).map(|_| next()))) as ArrayRef
    };
    vec![column(1), column(2)]
}

/// Names of 24 bytes or so, one in sixteen with letters beyond ASCII, the first not.
fn texts(rows: usize) -> Vec<ArrayRef> {
    let text = |i: usize| match i % 16 {
        15 => format!("são paulo guarulhos {i:>4}"),
        _ => format!("regional airport no. {i:>4}"),
    };
    vec![Arc::new(StringArray::from_iter_values(
        (0..rows).map(|i| text(i % 10_000)),
    ))]
}
