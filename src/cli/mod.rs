//! The `wasmill` command line: one file a verb.

mod arguments;
mod columns;
mod ending;
mod failure;
mod inspect;
mod io;
mod report;
mod row_errors;
mod run;
mod suggest;
mod terminal;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use failure::{Exit, Failure};
use terminal::{Color, printable};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    rows failed, or the run did
  2    the command line is wrong
  3    an input or output file cannot be used
  4    the module was refused
  5    a limit was reached: time, memory, output size
  6    the guest trapped
  129, 130, 143  the terminal is gone, interrupted, asked to end";

/// Runs user-defined functions, compiled to WebAssembly, over Apache Arrow data.
#[derive(Debug, Parser)]
#[command(name = "wasmill", version, after_help = EXIT_CODES, disable_help_subcommand = false)]
struct Cli {
    /// Colours in messages
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Box<run::RunArgs>),
    Inspect(inspect::InspectArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    terminal::install_panic_hook();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Also `--help` and `--version`, which are no errors; clap knows the stream and the code.
        Err(message) => {
            let _ = message.print();
            return ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(Exit::Usage as u8));
        }
    };
    cli.color.apply();
    let result = match cli.verb {
        Verb::Run(args) => run::execute(*args),
        Verb::Inspect(args) => inspect::execute(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn report(failure: &Failure) {
    if failure.message.is_empty() {
        return;
    }
    let styles = Cli::command().get_styles().clone();
    let (error, hint) = (styles.get_error(), styles.get_valid());
    let mut stderr = anstream::stderr().lock();
    // Nothing is left to be told when stderr is closed.
    let _ = writeln!(
        stderr,
        "{error}error:{error:#} {}",
        printable(&failure.message)
    );
    if let Some(text) = &failure.hint {
        let _ = writeln!(stderr, "{hint}hint:{hint:#} {}", printable(text));
    }
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
