//! `cargo xtask`: the project's chores, one file per command. Needs nothing but a Rust toolchain.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its terminal"
)]

mod artefacts;
mod csv;
mod demo;
mod failure;
mod licences;
mod other_languages;
mod process;
mod slt;
mod table;
mod test;
mod udfs;
mod wasm;
mod workspace;

use std::process::ExitCode;

use failure::{Failure, Result};
use workspace::Workspace;

const HELP: &str = "\
Chores of the Wasmill repository.

Usage: cargo xtask <COMMAND> [OPTIONS]

Commands:
  demo       Build the tool and the example UDFs, run both kinds over real data, show the results
  test       Everything that CI tests: format, lints, tests, documentation, licences
  udfs       Build the example UDFs and the test guests to target/udfs/NAME.wasm
  languages  Install the compilers for guests in C, Zig and AssemblyScript to target/languages
  slt        Fetch DataFusion's own SQL tests, which ours run with UDFs in them
  help       Print this text

`cargo xtask <COMMAND> --help` says more about one command.

Exit codes: 0 done, 1 something failed, 2 wrong usage.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn dispatch(args: &[String]) -> Result<()> {
    let Some((command, options)) = args.split_first() else {
        eprint!("{HELP}");
        return Err(Failure::Usage("no command given".to_owned()));
    };
    type Execute = fn(&Workspace, &[String]) -> Result<()>;
    let (help, execute): (&str, Execute) = match command.as_str() {
        "demo" => (demo::HELP, demo::execute),
        "test" => (test::HELP, test::execute),
        "udfs" => (udfs::HELP, udfs::execute),
        "languages" => (other_languages::HELP, other_languages::execute),
        "slt" => (slt::HELP, slt::execute),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        other => {
            return Err(Failure::Usage(format!(
                "there is no command '{other}'; `cargo xtask help` lists them"
            )));
        }
    };
    if options
        .iter()
        .any(|option| option == "--help" || option == "-h")
    {
        print!("{help}");
        return Ok(());
    }
    execute(&Workspace::locate()?, options)
}
