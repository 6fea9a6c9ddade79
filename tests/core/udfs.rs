//! Guests written with the SDK, built once when they are not there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use wasmill::Module;

use crate::guests::engine;

/// The folder of built modules: `udfs` in the target folder that this test runs from.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let executable = std::env::current_exe().expect("a path");
        // target/debug/deps/core-…
        let target = executable.ancestors().nth(3).expect("a target folder");
        let udfs = target.join("udfs");
        if !["probe.wasm", "rust.wasm"]
            .iter()
            .all(|m| udfs.join(m).exists())
        {
            let status = Command::new(env!("CARGO"))
                .args(["xtask", "udfs", "--quiet"])
                .env("CARGO_TARGET_DIR", target)
                .status();
            assert!(
                status.is_ok_and(|s| s.success()),
                "`cargo xtask udfs` failed"
            );
        }
        udfs
    })
}

/// A module that `cargo xtask udfs` builds.
pub fn module(name: &str) -> Module {
    Module::from_file(engine(), folder().join(format!("{name}.wasm")))
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A module that `cargo xtask udfs` builds where it finds the compiler for it.
pub fn module_if_built(name: &str) -> Option<Module> {
    let file = folder().join(format!("{name}.wasm"));
    file.exists()
        .then(|| Module::from_file(engine(), file).unwrap_or_else(|e| panic!("{e}")))
}
