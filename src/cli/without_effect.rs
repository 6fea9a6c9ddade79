//! Options that would have no effect are refused, since whoever gave them expects one.

use super::failure::Failure;
use super::io::Format;
use crate::Module;

/// Options, and whether they were given.
type Given<'a, const N: usize> = [(&'a str, bool); N];

fn first<'a, const N: usize>(options: Given<'a, N>) -> Option<&'a str> {
    let given = options.into_iter().find(|(_, given)| *given)?;
    Some(given.0)
}

/// Refuses what says how CSV is written, where the input is something else.
pub(crate) fn check_dialect<const N: usize>(
    options: Given<'_, N>,
    input: Format,
) -> Result<(), Failure> {
    match first(options) {
        Some(option) if input != Format::Csv => Err(Failure::usage(format!(
            "{option} is for CSV, and the input is {}",
            input.name()
        ))
        .hint("leave it out, or name the format with --input-format csv")),
        _ => Ok(()),
    }
}

/// Refuses a codec of Parquet, where the output is something else.
pub(crate) fn check_compression(output: Format) -> Result<(), Failure> {
    match output {
        Format::Parquet => Ok(()),
        other => Err(Failure::usage(format!(
            "--compression is for Parquet, and the output is {}",
            other.name()
        ))
        .hint("leave it out, or name the format with --format parquet")),
    }
}

/// Refuses what a guest would see through WASI, where it imports nothing of that.
pub(crate) fn check_wasi<const N: usize>(
    options: Given<'_, N>,
    module: &Module,
) -> Result<(), Failure> {
    let imports = &module.info().imports;
    match first(options) {
        Some(option) if !imports.iter().any(|import| import.starts_with("wasi_")) => {
            Err(Failure::usage(format!(
                "{option} is for modules that use WASI, and {} imports nothing of it",
                module.name()
            ))
            .hint("leave it out, or build the module for wasm32-wasip1"))
        }
        _ => Ok(()),
    }
}
