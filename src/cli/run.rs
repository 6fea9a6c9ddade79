//! `wasmill run`: one UDF over files.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::Schema;
use clap::Args;
use datafusion::common::{Column, Result as PlanResult, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::SessionConfig;

use super::arguments::{ArgOption, BoundCall, bind};
use super::columns::{OutputColumn, choose};
use super::condition;
use super::ending::{RunKeeper, TO_FINISH, blocking, supervised};
use super::failure::{Exit, Failure};
use super::guests::{GuestOptions, log_to_stderr};
use super::io::{self, Encoding, Format, Input, Output, ReadOptions, Uploads};
use super::loading::load;
use super::options::{duration, init_args, threads};
use super::report::{Done, MetricsForm, report};
use super::row_errors::{OnError, RowErrors};
use super::runtime::runtime;
use super::say;
use super::tables::{InputOptions, OutputOptions};
use super::terminal::{CurrentBar, progress};
use super::writing::{self, Written};
use crate::plan::{ErrorLimit, Patience, PoolCall, PoolRef, PoolStage, prepared};
use crate::{Module, Pool, PoolBuilder};

const EXAMPLES: &str = "\
Examples:
  Add a column `gcd` computed from the columns `a` and `b`:
    wasmill run math.wasm gcd -i in.parquet -o out.parquet

  From other columns, under another name, with a constant:
    wasmill run math.wasm add -i in.csv -o out.arrow --arg a=price --arg b=lit:2 --as total

  Two slots of a stateful UDF, and only its result:
    wasmill run tokenize.wasm encode -i texts.arrow -o tokens.arrow \\
      --init @vocabulary.json --slots 2 --arg text=body --as tokens --select tokens

  Rows that fail are set aside, up to one in a hundred:
    wasmill run math.wasm div -i in.csv -o out.csv \\
      --on-error dead-letter=failed.csv --max-errors 1%

  From one store to another, with credentials from the environment:
    wasmill run math.wasm gcd -i 's3://bucket/day-*.parquet' -o gs://other/gcd.parquet

  In a pipe:
    cat in.csv | wasmill run math.wasm gcd --format jsonl | head

Formats: parquet, csv, json (one array), jsonl (one object a line), arrow (an IPC file),
arrow-stream; by content or extension. Tables are for output only.
An output file or object appears when it is complete, or not at all.";

/// Runs one UDF over files and writes the input's columns and its result
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The module, a .wasm file
    module: PathBuf,

    /// The UDF's name
    udf: String,

    /// Input: a file, a folder, a pattern in quotes, an address, or - for the standard input [default: -]
    ///
    /// Give it several times for several inputs, which are read in that order. The files of a folder
    /// or pattern are read in the order of their names. Addresses are s3://, gs://, az://, abfss://,
    /// https:// and http://, in builds with object stores; those that end in / are folders.
    #[arg(short, long = "input", value_name = "FILE")]
    input: Vec<PathBuf>,

    #[command(flatten)]
    reading: InputOptions,

    #[command(flatten)]
    pub(crate) writing: OutputOptions,

    /// Argument of a parameter: a column, or lit:VALUE for a constant [default: the column named like the parameter]
    ///
    /// COLUMN::TYPE converts the column's values to an Arrow type, as in a=alt::Int64. A value that
    /// cannot be converted ends the run with its row. Constants are read as the parameter's type.
    #[arg(long, value_name = "NAME=COLUMN")]
    arg: Vec<ArgOption>,

    /// Name of the result column [default: the UDF's name]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,

    /// Columns of the output, in this order; names with commas in double quotes [default: all, then the result]
    ///
    /// The UDF runs also when its result is left out.
    #[arg(long, value_name = "COL,…")]
    select: Vec<String>,

    /// Only rows for which an SQL condition over the input's columns holds, e.g. "delay > 0"
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,

    /// Only the first rows, after --where
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Rows that the UDF cannot compute: fail, null, or dead-letter=FILE
    ///
    /// fail ends the run with the lowest such row. null goes on with a null as its result.
    /// dead-letter does too, and writes the row's number, the UDF's message and the arguments to
    /// FILE, whose format is known from its extension.
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "fail",
        verbatim_doc_comment
    )]
    on_error: OnError,

    /// Most rows that may fail before the run does: a number, or a share like 0.5%
    #[arg(long, value_name = "N|P%", value_parser = ErrorLimit::from_str)]
    max_errors: Option<ErrorLimit>,

    /// Columns that dead letters have beside the arguments; names with commas in double quotes
    #[arg(long, value_name = "COL,…")]
    dead_letter_columns: Vec<String>,

    /// For a pipe that somebody is still writing to: rows wait this long at most for others
    ///
    /// For csv and jsonl input. The types of columns are those of the first rows.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    flush: Option<Duration>,

    /// Arguments of a stateful UDF's init: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    init: Option<String>,

    #[command(flatten)]
    guests: GuestOptions,

    /// Threads that read, plan and write; slots have threads of their own [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    threads: Option<NonZeroUsize>,

    /// Report what the run did: text to stderr, json or prometheus to stdout (stderr where the rows go to stdout)
    #[arg(long, value_enum, value_name = "FORM")]
    metrics: Option<MetricsForm>,

    /// Show lines of source in backtraces, where the module has them; only for modules that you trust
    #[arg(long)]
    debug_lines: bool,

    /// No progress bar, no summary
    #[arg(short, long)]
    quiet: bool,
}

/// Qualifiers that keep the input's columns apart from the result.
const INPUT: &str = "input";
const RESULT: &str = "result";

/// Rows that a reader makes at a time at most; larger batches are joined from these.
const LARGEST_SCAN: usize = 1 << 16;

/// Rows per call where neither the user nor the UDF says.
const DEFAULT_BATCH: NonZeroUsize = NonZeroUsize::new(8_192).unwrap();

pub(crate) fn execute(args: RunArgs) -> Result<(), Failure> {
    let runtime = runtime(args.threads)?;
    let keeper = RunKeeper::default();
    let uploads = Uploads::default();
    let work = run(Arc::new(args), keeper.clone(), uploads.clone());
    supervised(runtime, &keeper, &uploads, work)
}

async fn run(args: Arc<RunArgs>, keeper: RunKeeper, uploads: Uploads) -> Result<(), Failure> {
    let started = Instant::now();
    let encoding = Encoding {
        live: args.flush.is_some(),
        ..args.writing.encoding()?
    };
    args.guests.check()?;
    let inputs = inputs(&args)?;
    let init = init_args(args.init.as_deref())?;
    let path = args.module.clone();
    let debug_lines = args.debug_lines;
    let module = blocking(move || load(&path, debug_lines)).await?;
    args.guests.check_wasi(std::slice::from_ref(&module))?;

    // All that can be wrong with the command is found out before a slot is started.
    let planning = session(DEFAULT_BATCH);
    let options = ReadOptions {
        patience: args.flush,
        ..args.reading.read()
    };
    let input = io::open(&planning, &inputs, options).await?;
    args.reading.check(input.format)?;
    let schema = input.table.schema();
    let separator = args
        .reading
        .delimiter
        .is_none()
        .then(|| io::other_delimiter(input.format, &schema))
        .flatten();
    let bound =
        bind(&module, &args.udf, &args.arg, &schema, INPUT, &planning).map_err(|failure| {
            match &separator {
                Some(hint) => failure.hint(hint),
                None => explain_text(failure, input.format),
            }
        })?;
    if let Some(hint) = separator.filter(|_| !args.quiet) {
        say(&format!("note: {hint}"));
    }
    let name = args.name.clone().unwrap_or_else(|| args.udf.clone());
    let columns = choose(&args.select, &name, &schema)?;
    let output = Arc::new(bound.call.result().as_ref().clone().with_name(&name));
    let others: Vec<&Path> = inputs
        .iter()
        .chain(&args.writing.output)
        .map(PathBuf::as_path)
        .collect();
    let row_errors = RowErrors::new(
        &args.on_error,
        args.max_errors,
        &args.dead_letter_columns,
        &bound.call,
        &schema,
        INPUT,
        &others,
    )?;
    let rows = scan(&input, &args, &planning)?;
    let place = Output::create(args.writing.output.as_deref(), encoding.format, &uploads).await?;
    let columns_out = output_schema(&columns, &output, &schema);
    io::check_columns(&columns_out, &encoding, place.name())?;

    let expected = match (&args.condition, args.limit) {
        (None, None) => input.rows,
        (None, Some(limit)) => input.rows.map(|rows| rows.min(limit)),
        (Some(_), _) => None,
    };
    let bar = progress(expected, args.quiet);
    let lines = CurrentBar::default();
    lines.set(&bar);
    let pool = pool_builder(&args, &module, &bound, init, &lines);
    let batch_size = args
        .guests
        .batch_size
        .or_else(|| bound.call.function().batch_size.and_then(NonZeroUsize::new))
        .unwrap_or(DEFAULT_BATCH);
    let call = PoolCall {
        pool: PoolRef::planned(pool)?,
        call: bound.call,
        arguments: bound.arguments,
        mask: None,
        on_error: row_errors.policy,
        qualifier: Some(TableReference::bare(RESULT)),
        output,
    };
    let mut session = session(batch_size);
    let config = session.config_mut();
    config.set_extension(Arc::new(args.guests.pools.run_config(keeper.cancel())));
    config.set_extension(Arc::new(keeper.observer()));
    if let Some(letters) = &row_errors.letters {
        config.set_extension(Arc::new(letters.sink()));
    }
    if let Some(time) = args.flush {
        config.set_extension(Arc::new(Patience(time)));
    }
    let plan = logical_plan(rows, call, batch_size, &columns, args.guests.unordered)?;
    let planned = session.create_physical_plan(&plan).await;
    let plan = match (planned, &args.condition) {
        (Ok(plan), _) => plan,
        // The rest of the plan is of our own making.
        (Err(error), Some(text)) => return Err(condition::unplannable(text, &error)),
        (Err(error), None) => return Err(error.into()),
    };
    let written = writing::write(plan, session.task_ctx(), &place, encoding, &bar).await;
    let rows = match written {
        Ok(Written::Rows(rows)) => rows,
        Ok(Written::Closed) => return Ok(()),
        Err(error) => return Err(condition::explain(args.condition.as_deref(), error)),
    };
    let name = place.name().to_owned();
    // There are no dead letters without their output.
    if let Some(letters) = &row_errors.letters {
        letters.finish()?;
    }
    let bytes = place.commit().await?;
    if let Some(letters) = row_errors.letters {
        letters.commit(&name)?;
    }
    drop(session);
    let finishing = keeper.clone();
    let metrics = blocking(move || Ok(finishing.finish(TO_FINISH))).await?;
    let done = Done {
        rows,
        output: &name,
        bytes,
        time: started.elapsed(),
        run: metrics,
    };
    report(done, args.metrics, args.quiet)
}

/// The inputs that are meant. Nobody types data into a terminal, so help is better there.
fn inputs(args: &RunArgs) -> Result<Vec<PathBuf>, Failure> {
    if !args.input.is_empty() {
        return Ok(args.input.clone());
    }
    if std::io::stdin().is_terminal() {
        return Err(Failure::usage("there is no input")
            .hint("name a file with -i FILE, or send data into the standard input"));
    }
    Ok(vec![PathBuf::from(io::STANDARD)])
}

/// A number with a placeholder among its values looks like text.
fn explain_text(failure: Failure, format: Format) -> Failure {
    let about_text = failure.exit == Exit::Usage && failure.message.contains(": Utf8");
    if format != Format::Csv || !about_text {
        return failure;
    }
    let text = "a column of a CSV file is text when one of its values is not a number; name what stands for nothing with --null, as in --null NA";
    let hint = match &failure.hint {
        Some(conversion) => format!("{text}; or {conversion}"),
        None => text.to_owned(),
    };
    failure.hint(hint)
}

/// A session for one pool stage over tables that are read in order.
pub(super) fn session(batch_size: NonZeroUsize) -> SessionState {
    // Batches of the scan hold a whole number of calls where that is not wasteful, so that cutting
    // them to size copies nothing.
    let scan = match DEFAULT_BATCH.get().checked_div(batch_size.get()) {
        Some(calls) if calls > 1 => batch_size.get().saturating_mul(calls),
        _ => batch_size.get(),
    };
    // Readers make room for a whole batch at once, whatever the file holds.
    let scan = scan.min(LARGEST_SCAN);
    // One partition keeps the order of the rows.
    let mut config = SessionConfig::new()
        .with_target_partitions(1)
        .with_batch_size(scan);
    let parquet = &mut config.options_mut().execution.parquet;
    parquet.schema_force_view_types = false;
    parquet.skip_metadata = false;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .build();
    prepared(state)
}

fn output_schema(
    columns: &[OutputColumn],
    output: &Arc<arrow::datatypes::Field>,
    schema: &Schema,
) -> Schema {
    let fields = columns.iter().filter_map(|column| match column {
        OutputColumn::Result => Some(Arc::clone(output)),
        OutputColumn::Input(name) => schema.fields().iter().find(|f| f.name() == name).cloned(),
    });
    Schema::new(fields.collect::<Vec<_>>())
}

fn pool_builder(
    args: &RunArgs,
    module: &Module,
    bound: &BoundCall,
    init: Option<serde_json::Value>,
    lines: &CurrentBar,
) -> PoolBuilder {
    let builder = Pool::builder(module)
        .name(&args.udf)
        .slots(args.guests.slots)
        .policy(args.guests.policy())
        .state_for(&bound.call)
        .on_log(log_to_stderr(lines));
    let builder = args.guests.pools.apply(builder);
    match init {
        Some(init) => builder.init_args(init),
        None => builder,
    }
}

/// The rows of the input that are asked for.
fn scan(input: &Input, args: &RunArgs, state: &SessionState) -> Result<LogicalPlan, Failure> {
    let table = provider_as_source(Arc::clone(&input.table));
    let mut rows = LogicalPlanBuilder::scan(INPUT, table, None)?;
    if let Some(text) = &args.condition {
        rows = condition::filter(rows, text, &input.table.schema(), state)?;
    }
    if let Some(limit) = args.limit {
        // Larger numbers do not fit a plan, nor rows a file.
        rows = rows.limit(0, Some(limit.min(i64::MAX as usize)))?;
    }
    Ok(rows.build()?)
}

fn logical_plan(
    rows: LogicalPlan,
    call: PoolCall,
    batch_size: NonZeroUsize,
    columns: &[OutputColumn],
    unordered: bool,
) -> PlanResult<LogicalPlan> {
    let result = call.output.name().clone();
    let stage = PoolStage::try_new(rows, vec![call], batch_size)?;
    let stage = match unordered {
        true => stage.unordered(),
        false => stage,
    };
    let stage = stage.into_plan();
    let chosen = columns.iter().map(|column| match column {
        OutputColumn::Input(name) => Expr::Column(Column::new(Some(INPUT), name)),
        OutputColumn::Result => Expr::Column(Column::new(Some(RESULT), &result)),
    });
    LogicalPlanBuilder::from(stage).project(chosen)?.build()
}
