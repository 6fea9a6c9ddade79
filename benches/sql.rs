//! What a stateful UDF costs in SQL, beside the same function as a native one of DataFusion.
//!
//! `cargo bench --bench sql -- FLIGHTS.parquet` runs
//! `SELECT origin, avg(score(delay, distance)) … GROUP BY origin ORDER BY 2 DESC LIMIT 10`
//! over a file with the columns `origin`, `delay` and `distance`; without a file over three million rows
//! that it makes itself. Both sides take turns; it prints times, their ratio, and the peak of the process's
//! memory after each side's first query.

#![allow(clippy::print_stdout, reason = "the table is what this is for")]

mod modules;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;
use wasmill::plan::{RunObserver, UdfOptions, register};
use wasmill::{Engine, EngineConfig, Module, Run};

const ROUNDS: usize = 15;

fn main() {
    let file = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let made = tempfile::tempdir().expect("a folder");
    let file = match file {
        Some(file) => PathBuf::from(file),
        None => make(&made.path().join("flights.parquet"), 3_000_000),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(compare(&file));
}

async fn compare(file: &Path) {
    let runs = Arc::new(Mutex::new(Vec::new()));
    let sandboxed = context(file, Some(Arc::clone(&runs))).await;
    let module = Module::from_file(
        &Engine::new(&EngineConfig::default()).expect("an engine"),
        modules::path("probe"),
    )
    .expect("the module `probe`");
    let two = NonZeroUsize::new(2).expect("two");
    register(&sandboxed, &module, UdfOptions::default().slots(two)).expect("functions");
    let native = context(file, None).await;
    native.register_udf(create_udf(
        "score",
        vec![DataType::Int64, DataType::Int64],
        DataType::Float64,
        Volatility::Immutable,
        Arc::new(score),
    ));

    let expected = query(&native).await;
    println!("native: peak memory {}", peak_memory());
    let found = query(&sandboxed).await;
    println!("in a sandbox: peak memory {}", peak_memory());
    assert_eq!(found, expected, "both sides agree");
    for run in runs.lock().expect("not poisoned").iter() {
        for pool in run.metrics().pools {
            println!(
                "pool {}: {} slots, {} inits, {} calls, {} rows",
                pool.pool, pool.slots, pool.inits, pool.calls, pool.rows
            );
        }
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(timed(&native).await);
        ours.push(timed(&sandboxed).await);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("native UDF    {:>8.1} ms", theirs.as_secs_f64() * 1e3);
    println!("in a sandbox  {:>8.1} ms", ours.as_secs_f64() * 1e3);
    println!(
        "ratio         {:>8.2}",
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
}

/// A session of two partitions with the file as `flights`.
async fn context(file: &Path, runs: Option<Arc<Mutex<Vec<Run>>>>) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(2);
    if let Some(runs) = runs {
        let keep = move |run: &Run| {
            let mut runs = runs.lock().expect("not poisoned");
            if runs.is_empty() {
                runs.push(run.clone());
            }
        };
        config = config.with_extension(Arc::new(RunObserver(Arc::new(keep))));
    }
    let context = SessionContext::new_with_config(config);
    let path = file.to_str().expect("a path");
    context
        .register_parquet("flights", path, ParquetReadOptions::default())
        .await
        .expect("a table");
    context
}

async fn query(context: &SessionContext) -> String {
    let sql = "SELECT origin, avg(score(delay, distance)) AS s FROM flights GROUP BY origin ORDER BY 2 DESC LIMIT 10";
    let rows = async { context.sql(sql).await?.collect().await };
    let rows = rows.await.expect("an answer");
    // The last digits of a sum depend on its order.
    let rounded = rows.iter().flat_map(|batch| {
        let names = arrow::compute::cast(batch.column(0), &DataType::Utf8).expect("a text");
        let names = names.as_string::<i32>().clone();
        let scores = batch
            .column(1)
            .as_primitive::<arrow::datatypes::Float64Type>()
            .clone();
        (0..batch.num_rows())
            .map(|row| format!("{} {:.9}", names.value(row), scores.value(row)))
            .collect::<Vec<_>>()
    });
    rounded.collect::<Vec<_>>().join("\n")
}

async fn timed(context: &SessionContext) -> Duration {
    let start = Instant::now();
    query(context).await;
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The native twin of the guest's `score`.
fn score(args: &[ColumnarValue]) -> datafusion::error::Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(args)?;
    let (delay, distance) = (
        arrays[0].as_primitive::<Int64Type>(),
        arrays[1].as_primitive::<Int64Type>(),
    );
    let scores: Float64Array = arrow::compute::binary(delay, distance, |delay, distance| {
        let sum = delay as f64 * 0.5 - distance as f64 * 0.01;
        1.0 / (1.0 + sum.abs()) * sum
    })?;
    Ok(ColumnarValue::Array(Arc::new(scores)))
}

/// A file of flights between 300 airports.
fn make(path: &Path, rows: i64) -> PathBuf {
    let batch = |from: i64| {
        let numbers = from..(from + 100_000).min(rows);
        let origin = numbers.clone().map(|n| format!("A{:03}", n * 7_919 % 300));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("origin", Arc::new(StringArray::from_iter_values(origin))),
            (
                "delay",
                Arc::new(Int64Array::from_iter_values(
                    numbers.clone().map(|n| n * 31 % 240 - 20),
                )),
            ),
            (
                "distance",
                Arc::new(Int64Array::from_iter_values(
                    numbers.map(|n| 100 + n * 17 % 2_500),
                )),
            ),
        ];
        RecordBatch::try_from_iter(columns).expect("a batch")
    };
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch(0).schema(), None).expect("a writer");
    for from in (0..rows).step_by(100_000) {
        writer.write(&batch(from)).expect("written");
    }
    writer.close().expect("closed");
    path.to_owned()
}

/// The peak of this process's memory, where the system tells it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.map_or("unknown".to_owned(), |l| l.trim().to_owned())
}
