//! The `wasmill` command line: one file a verb.

mod arguments;
mod bench;
mod cache;
mod check;
mod columns;
mod condition;
mod config;
mod conversion;
mod doctor;
mod embed;
mod ending;
mod failure;
mod guests;
mod inspect;
mod io;
mod loading;
mod new;
mod options;
mod pools;
mod report;
mod resources;
mod row_errors;
mod run;
mod runtime;
mod shell;
mod sql;
mod sql_size;
mod suggest;
mod tables;
mod terminal;
mod without_effect;
mod writing;

use std::io::Write;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde::Serialize;

use config::Settings;
use failure::{Exit, Failure};
use terminal::{Color, printable, printable_json};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    rows failed, or the run did
  2    the command line is wrong
  3    an input or output file cannot be used
  4    the module was refused
  5    a limit was reached: time, memory, output size, what the machine has
  6    the guest trapped
  129, 130, 143  the terminal is gone, interrupted, asked to end";

/// Runs user-defined functions, compiled to WebAssembly, over Apache Arrow data.
#[derive(Debug, Parser)]
#[command(name = "wasmill", version, after_help = EXIT_CODES, disable_help_subcommand = false)]
struct Cli {
    #[command(flatten)]
    shared: Shared,

    #[command(subcommand)]
    verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Clone, Copy, Args)]
struct Shared {
    /// Colours in messages
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,

    /// JSON for programs: listings on stdout, errors on stderr
    #[arg(long, global = true)]
    json: bool,

    /// Say more; twice for details (WASMILL_LOG chooses by module)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Box<run::RunArgs>),
    Sql(Box<sql::SqlArgs>),
    Explain(Box<sql::ExplainArgs>),
    Inspect(inspect::InspectArgs),
    Check(check::CheckArgs),
    Bench(Box<bench::BenchArgs>),
    New(new::NewArgs),
    Embed(embed::EmbedArgs),
    Compile(cache::CompileArgs),
    Cache(cache::CacheArgs),
    Resources(resources::ResourcesArgs),
    Config(config::ConfigArgs),
    Doctor(doctor::DoctorArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    terminal::install_panic_hook();
    // Wrong settings must not keep help and versions from being shown, nor usage from being explained.
    let (settings, unreadable) = match Settings::load() {
        Ok(settings) => (settings, None),
        Err(failure) => (Settings::none(), Some(failure)),
    };
    let command = settings.apply(Cli::command());
    let parsed = command
        .clone()
        .try_get_matches()
        .and_then(|matches| parsed(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(message) => return refuse(&message, &settings),
    };
    cli.shared.color.apply();
    let result = match unreadable {
        Some(failure) => Err(failure),
        None => terminal::start_logging(cli.shared.verbose)
            .and_then(|()| execute(cli.verb, cli.shared, &settings, command)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure, cli.shared.json);
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// The command line as a value. Of options that are settings too it notes whether they were given.
fn parsed(matches: &ArgMatches) -> Result<Cli, clap::Error> {
    let mut cli = Cli::from_arg_matches(matches)?;
    if let Some((_, verb)) = matches.subcommand() {
        let writing = match &mut cli.verb {
            Verb::Run(args) => Some(&mut args.writing),
            Verb::Sql(args) => Some(&mut args.writing),
            _ => None,
        };
        if let Some(writing) = writing {
            writing.compression_asked =
                verb.value_source("compression") == Some(ValueSource::CommandLine);
        }
    }
    Ok(cli)
}

fn execute(
    verb: Verb,
    shared: Shared,
    settings: &Settings,
    command: clap::Command,
) -> Result<(), Failure> {
    match verb {
        Verb::Run(args) => run::execute(*args),
        Verb::Sql(args) => sql::execute(*args, shared.json),
        Verb::Explain(args) => sql::explain(*args, shared.verbose > 0, shared.json),
        Verb::Inspect(args) => inspect::execute(&args, shared.json),
        Verb::Check(args) => check::execute(&args, shared.json),
        Verb::Bench(args) => bench::execute(*args, shared.json),
        Verb::New(args) => new::execute(&args),
        Verb::Embed(args) => embed::execute(&args),
        Verb::Compile(args) => cache::compile(&args),
        Verb::Cache(args) => cache::execute(&args, shared.json),
        Verb::Resources(args) => resources::execute(&args, shared.json),
        Verb::Config(args) => config::execute(&args, settings, &command, shared.json),
        Verb::Doctor(args) => doctor::execute(&args, shared.json),
        // Without what this machine's settings say.
        Verb::Completions(args) => shell::completions(&args, Cli::command()),
        Verb::Man(args) => shell::man(&args, Cli::command()),
    }
}

/// Says what is wrong with the command line. Also `--help` and `--version`, which are no errors: clap
/// knows the stream and the code.
fn refuse(message: &clap::Error, settings: &Settings) -> ExitCode {
    let json = std::env::args_os().any(|argument| argument == "--json");
    if message.use_stderr() && json {
        let text = message.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        report(&Failure::usage(text.trim_end()), true);
    } else {
        let _ = message.print();
        let files = settings.files();
        if message.use_stderr() && !files.is_empty() {
            say(&format!("note: {} sets defaults", files.join(" and ")));
        }
    }
    ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(Exit::Usage as u8))
}

#[derive(Serialize)]
struct ErrorReport<'a> {
    schema_version: u32,
    error: &'a str,
    hint: Option<&'a str>,
    exit_code: u8,
}

fn report(failure: &Failure, json: bool) {
    if failure.message.is_empty() {
        return;
    }
    let mut stderr = anstream::stderr().lock();
    if json {
        let report = ErrorReport {
            schema_version: 1,
            error: &failure.message,
            hint: failure.hint.as_deref(),
            exit_code: failure.exit as u8,
        };
        let text = serde_json::to_string(&report).unwrap_or_default();
        // Nothing is left to be told when stderr is closed.
        let _ = writeln!(stderr, "{}", printable_json(&text));
        return;
    }
    let styles = Cli::command().get_styles().clone();
    let (error, hint) = (styles.get_error(), styles.get_valid());
    let _ = writeln!(
        stderr,
        "{error}error:{error:#} {}",
        one_message(&failure.message)
    );
    if let Some(text) = &failure.hint {
        let _ = writeln!(stderr, "{hint}hint:{hint:#} {}", one_message(text));
    }
}

/// A message of which only the first line begins at the margin: what comes from guests and files may hold
/// line ends, and must not look like a message of its own.
fn one_message(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (i, line) in printable(text).split('\n').enumerate() {
        if i > 0 {
            shown.push('\n');
            if !line.is_empty() && !line.starts_with(' ') {
                shown.push_str("  ");
            }
        }
        shown.push_str(line);
    }
    shown
}

/// A listing as JSON for programs.
fn json_text(listing: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(listing).map_err(|e| Failure::io(e.to_string()))?;
    Ok(printable_json(&text).into_owned())
}

/// Writes to stdout; a closed pipe ends the command without complaint.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout
        .write_all(printable(text).as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if failure::is_broken_pipe(&error) => Ok(()),
        Err(error) => Err(Failure::io(format!(
            "cannot write to the standard output: {error}"
        ))),
        Ok(()) => Ok(()),
    }
}

/// Writes a line to stderr, where nobody may listen.
fn say(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", printable(line));
}
