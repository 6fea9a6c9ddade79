//! `wasmill bench`: how fast a UDF is, and where the time goes.

mod data;
mod measure;
mod report;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{BinaryBytes, HumanCount};

use self::data::{batches, made_up, read};
use self::measure::measure;
use self::report::Report;
use super::arguments::ArgOption;
use super::ending::{RunKeeper, blocking, supervised};
use super::failure::Failure;
use super::io::{Format, Uploads};
use super::loading::load;
use super::options::{at_least_one, bytes, duration, init_args};
use super::run::session;
use super::runtime::runtime;
use super::terminal::progress;
use super::{json_text, print, say};
use crate::{LogSink, Policy, Pool, Run, RunConfig};

const EXAMPLES: &str = "\
Examples:
  With made-up values, at three batch sizes:
    wasmill bench math.wasm gcd

  With the columns of a file, on two slots, for longer:
    wasmill bench math.wasm haversine -i flights.parquet \\
      --arg lat1=from_lat --arg lon1=from_lon --arg lat2=to_lat --arg lon2=to_lon \\
      --slots 2 --duration 10s

  A stateful UDF at one batch size, for a program:
    wasmill bench tokenize.wasm encode -i texts.csv --init @vocabulary.json \\
      --batch-size 8192 --json | jq '.results[0].rows_per_second'

The input is read before the clock starts, at most 100 MiB of it. MB/s counts the bytes of the
arguments, in millions. p50 to p99 are percentiles of the time of one call; the shares say where
that time went, and the rest is the host's own.";

/// Longest time for one batch size: every call's time is kept.
const LONGEST: Duration = Duration::from_secs(60);

/// Measures how fast a UDF is, and where the time goes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// The module, a .wasm file
    module: PathBuf,

    /// The UDF's name
    udf: String,

    /// Input: a file, a folder, a pattern in quotes, an address, or - for the standard input [default: made-up values]
    #[arg(short, long = "input", value_name = "FILE")]
    input: Vec<PathBuf>,

    /// Format of the input [default: by content, then extension]
    #[arg(long, value_parser = Format::input_parser(), value_name = "FORMAT")]
    input_format: Option<Format>,

    /// Argument of a parameter: a column, or lit:VALUE for a constant [default: the column named like the parameter]
    ///
    /// COLUMN::TYPE converts the column's values to an Arrow type, as in a=alt::Int64. A value that
    /// cannot be converted ends the run with its row. Constants are read as the parameter's type.
    #[arg(long, value_name = "NAME=COLUMN")]
    arg: Vec<ArgOption>,

    /// Arguments of a stateful UDF's init: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    init: Option<String>,

    /// Number of slots: instances that run at once
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN, value_parser = at_least_one, allow_negative_numbers = true)]
    slots: NonZeroUsize,

    /// Rows per call; several are measured one after the other
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1024,8192,65536", value_parser = at_least_one, allow_negative_numbers = true)]
    batch_size: Vec<NonZeroUsize>,

    /// Time for each batch size, at most 60s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = bench_duration)]
    duration: Duration,

    /// Most memory of a slot, with its unit
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes)]
    memory: u64,

    /// Most time of one call
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    timeout: Duration,

    /// Most time that a slot takes to start, its init included
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    init_timeout: Duration,

    /// No progress bar, no notes
    #[arg(short, long)]
    quiet: bool,
}

fn bench_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time > LONGEST => Err(format!(
            "at most {}s for each batch size",
            LONGEST.as_secs()
        )),
        time => Ok(time),
    }
}

pub(crate) fn execute(args: BenchArgs, json: bool) -> Result<(), Failure> {
    let runtime = runtime(None)?;
    let keeper = RunKeeper::default();
    let work = bench(args, json, keeper.clone());
    supervised(runtime, &keeper, &Uploads::default(), work)
}

async fn bench(args: BenchArgs, json: bool, keeper: RunKeeper) -> Result<(), Failure> {
    let init = init_args(args.init.as_deref())?;
    let path = args.module.clone();
    let module = blocking(move || load(&path, false)).await?;
    let most = args
        .batch_size
        .iter()
        .max()
        .copied()
        .unwrap_or(NonZeroUsize::MIN);
    let planning = session(most);
    let (bound, data) = match args.input.is_empty() {
        true => made_up(&module, &args, most.get(), &planning)?,
        false => read(&module, &args, &planning).await?,
    };
    if data.rows == 0 {
        return Err(Failure::io(
            "the input has no rows, so there is nothing to measure",
        ));
    }
    let silent: LogSink = Arc::new(|_| {});
    let builder = Pool::builder(&module)
        .name(&args.udf)
        .slots(args.slots)
        .policy(Policy {
            memory: args.memory,
            call_time: args.timeout,
            init_time: args.init_timeout,
            ..Policy::default()
        })
        .state_for(&bound.call)
        .on_log(silent);
    let builder = match init {
        Some(init) => builder.init_args(init),
        None => builder,
    };
    let config = RunConfig {
        cancel: keeper.cancel().clone(),
        ..RunConfig::default()
    };
    let run = blocking(move || Ok(Run::start(config, vec![builder])?)).await?;
    keeper.keep(&run);
    let [pool] = run.pools() else {
        unreachable!("a pool for each builder");
    };
    let note = |text: &str| {
        if !args.quiet {
            say(&format!("note: {text}"));
        }
    };
    pool.notices().iter().for_each(|notice| note(notice));
    if data.cut {
        note(&format!(
            "only the first {} rows of the input are used, {}",
            HumanCount(data.rows as u64),
            BinaryBytes(data.bytes as u64)
        ));
    }
    let bar = progress(None, args.quiet);
    let mut results = Vec::new();
    for size in &args.batch_size {
        let rows = batches(&data, *size);
        let longest = rows.iter().map(|r| r.rows).max().unwrap_or(0);
        if longest < size.get() {
            let (size, longest) = (HumanCount(size.get() as u64), HumanCount(longest as u64));
            note(&format!(
                "batches of {size} rows have {longest}, which is all there is"
            ));
        }
        let (pool, call) = (pool.clone(), bound.call.clone());
        let (time, bar) = (args.duration, bar.clone());
        results.push(blocking(move || measure(&pool, &call, &rows, time, &bar)).await?);
    }
    bar.finish_and_clear();
    let types = bound
        .call
        .arguments()
        .iter()
        .map(|f| f.data_type().to_string());
    let report = Report {
        schema_version: 1,
        module: module.name().to_owned(),
        digest: module.digest().to_string(),
        udf: args.udf.clone(),
        signature: types.collect::<Vec<_>>().join(", "),
        slots: pool.slots(),
        source: data.source,
        rows: data.rows,
        bytes: data.bytes,
        cut: data.cut,
        results,
    };
    let text = match json {
        true => format!("{}\n", json_text(&report)?),
        false => report.text(),
    };
    print(&text)
}
