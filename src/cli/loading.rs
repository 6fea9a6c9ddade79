//! Loads modules with the settings of the command line.

use std::path::Path;

use super::failure::{Exit, Failure};
use crate::{Engine, EngineConfig, Module};

/// An engine that keeps compiled code in the user's cache.
pub(crate) fn engine(debug_lines: bool) -> Result<Engine, Failure> {
    Ok(Engine::new(&EngineConfig {
        cache_dir: EngineConfig::default_cache_dir(),
        debug_lines,
        ..EngineConfig::default()
    })?)
}

/// Loads a module; what is wrong with it is told with its path.
pub(crate) fn load(path: &Path, debug_lines: bool) -> Result<Module, Failure> {
    load_as(&engine(debug_lines)?, None, path)
}

/// Loads a module under a name, or that of its file.
pub(crate) fn load_as(engine: &Engine, name: Option<&str>, path: &Path) -> Result<Module, Failure> {
    let module = match name {
        Some(name) => Module::from_file_as(engine, name, path),
        None => Module::from_file(engine, path),
    };
    module.map_err(|e| {
        let failure = Failure::from(e);
        match failure.exit {
            Exit::Module => failure.hint(format!("the module is {}", path.display())),
            _ => failure,
        }
    })
}
