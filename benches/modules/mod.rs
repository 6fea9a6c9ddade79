//! The modules that benchmarks load.

use std::path::PathBuf;
use std::process::Command;

/// A module that `cargo xtask udfs` builds, which is run where it is missing.
pub fn path(name: &str) -> PathBuf {
    let executable = std::env::current_exe().expect("a path");
    // target/release/deps/NAME-…
    let target = executable.ancestors().nth(3).expect("a target folder");
    let path = target.join("udfs").join(name).with_extension("wasm");
    if !path.exists() {
        let status = Command::new("cargo")
            .args(["xtask", "udfs", "--quiet"])
            .env("CARGO_TARGET_DIR", target)
            .status();
        assert!(
            status.is_ok_and(|s| s.success()),
            "`cargo xtask udfs` failed"
        );
    }
    path
}
