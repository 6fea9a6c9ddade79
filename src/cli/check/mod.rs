//! `wasmill check`: every function of a module on batches that are hard to get right.

mod batches;
mod compare;
mod report;
mod reproduce;
mod shapes;
mod states;
mod trial;
pub(crate) mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

pub(crate) use reproduce::quoted;
pub(crate) use shapes::plain_types;

use self::report::{FunctionReport, Problem, Report, Summary, Verdict};
use self::reproduce::Commands;
use self::trial::Settings;
use super::failure::{Exit, Failure};
use super::loading::load;
use super::options::{bytes, duration, init_args};
use super::terminal::without_panic_output;
use super::{json_text, print};
use crate::{Function, Module, Policy};

const EXAMPLES: &str = "\
Examples:
  All functions of a module:
    wasmill check math.wasm

  Two of them, with arguments for the state of one; batches of failures are kept:
    wasmill check tokenize.wasm encode decode --init @vocabulary.json --save failures

  In a script:
    wasmill check math.wasm --json | jq '.functions[] | select(.verdict == \"failed\")'

Each function and overload is called with batches of everyday values, extremes, nulls, long
values, slices, single rows and constants. Rows that the function fails are counted, and are no
failure of the check. --init goes to every state that takes it; functions whose state cannot be
made without it are skipped. The exit code is 0 when nothing failed, 1 when something did, 4 when
the module is refused.";

/// Limits that `wasmill run` has by default.
const RUN_MEMORY: u64 = 256 << 20;
const RUN_TIMEOUT: Duration = Duration::from_secs(10);

/// Tries the functions of a module on batches that are hard to get right
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// The module, a .wasm file
    module: PathBuf,

    /// The UDFs to check [default: all]
    udf: Vec<String>,

    /// Arguments of init, for every state whose schema takes them: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    init: Option<String>,

    /// Most memory of a slot, with its unit
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes)]
    memory: u64,

    /// Most time of one call; all calls of a function may take five times as long
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    timeout: Duration,

    /// Most time that a slot takes to start, its init included
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    init_timeout: Duration,

    /// Folder for the batches of failures, as Arrow files for `wasmill run`
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
}

pub(crate) fn execute(args: &CheckArgs, json: bool) -> Result<(), Failure> {
    let init = init_args(args.init.as_deref())?;
    let module = load(&args.module, false)?;
    let functions = chosen(&module, &args.udf)?;
    let settings = Settings {
        policy: Policy {
            memory: args.memory,
            call_time: args.timeout,
            init_time: args.init_timeout,
            close_time: args.timeout,
            output_bytes: 64 << 20,
            ..Policy::default()
        },
        init,
        commands: Commands {
            module: args.module.display().to_string(),
            init: args.init.clone(),
            limits: run_limits(args),
        },
        save: args.save.clone(),
        budget: args.timeout.saturating_mul(5),
    };
    // Guests may use as much stack as the engine allows, beyond what the host uses.
    let stack = module.engine().thread_stack().saturating_add(4 << 20);
    let reports = std::thread::scope(|scope| {
        let work = || -> Result<Vec<FunctionReport>, Failure> {
            let mut reports = Vec::with_capacity(functions.len());
            for function in &functions {
                let report = check_one(&settings, &module, function);
                if !json {
                    print(&report.text())?;
                }
                reports.push(report);
            }
            Ok(reports)
        };
        let thread = std::thread::Builder::new()
            .name("wasmill-check".to_owned())
            .stack_size(stack)
            .spawn_scoped(scope, work)
            .map_err(|e| internal(format!("there is no thread to run in: {e}")))?;
        thread
            .join()
            .unwrap_or_else(|_| Err(internal("the check stopped".to_owned())))
    })?;
    let summary = Summary::of(&reports);
    if json {
        let report = Report::new(module.name(), module.digest().to_string(), &reports);
        let text = json_text(&report)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&summary.text())?;
    }
    match summary.failed {
        0 => Ok(()),
        // The report says it all.
        _ => Err(Failure {
            exit: Exit::Failed,
            message: String::new(),
            hint: None,
        }),
    }
}

fn internal(message: String) -> Failure {
    Failure {
        exit: Exit::Failed,
        message,
        hint: None,
    }
}

/// The functions to check, overloads included, in the manifest's order.
fn chosen(module: &Module, names: &[String]) -> Result<Vec<Arc<Function>>, Failure> {
    let manifest = module.manifest();
    for name in names {
        if manifest.overloads(name).next().is_none() {
            // For its message, which knows the names that exist.
            module.resolve(name, &[])?;
        }
    }
    let functions = manifest.functions().iter();
    Ok(functions
        .filter(|f| names.is_empty() || names.contains(&f.name))
        .cloned()
        .collect())
}

/// One function; a failure of the host's own code is told like one of the guest's.
fn check_one(settings: &Settings, module: &Module, function: &Arc<Function>) -> FunctionReport {
    without_panic_output(|| trial::check(settings, module, function)).unwrap_or_else(|message| {
        let mut report = FunctionReport::new(&function.name, function.signature());
        report.verdict = Verdict::Failed;
        report.fail(report::Found {
            problem: Problem::Host,
            message: format!("{message}; this is a bug in Wasmill, please report it"),
            batch: None,
            reproduce: None,
        });
        report
    })
}

/// The options of `wasmill run` that make it work under the limits of this check.
fn run_limits(args: &CheckArgs) -> String {
    let mut options = String::new();
    if args.memory != RUN_MEMORY {
        options.push_str(&format!(" --memory {}B", args.memory));
    }
    if args.timeout != RUN_TIMEOUT {
        let timeout = humantime::format_duration(args.timeout).to_string();
        options.push_str(&format!(" --timeout {}", quoted(&timeout)));
    }
    options
}
