//! The `wasmill` binary. Everything it does is in [`wasmill::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    wasmill::cli::main()
}
