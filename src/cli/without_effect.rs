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

/// Refuses what a guest would see through WASI, where there are modules and none imports any of it.
pub(crate) fn check_wasi<const N: usize>(
    options: Given<'_, N>,
    modules: &[Module],
) -> Result<(), Failure> {
    let uses_wasi = |module: &Module| {
        let mut imports = module.info().imports.iter();
        imports.any(|import| import.starts_with("wasi_"))
    };
    let names: Vec<&str> = modules.iter().map(Module::name).collect();
    match first(options) {
        Some(option) if !names.is_empty() && !modules.iter().any(uses_wasi) => {
            let imports = if names.len() == 1 {
                "imports"
            } else {
                "import"
            };
            Err(Failure::usage(format!(
                "{option} is for modules that use WASI, and {} {imports} nothing of it",
                names.join(", ")
            ))
            .hint("leave it out, or build the module for wasm32-wasip1"))
        }
        _ => Ok(()),
    }
}
