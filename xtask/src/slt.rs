//! `cargo xtask slt`: DataFusion's own SQL tests, which ours run with UDFs in them.

use std::fs;

use crate::failure::{Failure, Result, io};
use crate::process;
use crate::workspace::Workspace;

pub const HELP: &str = "\
Fetch the crate with DataFusion's own SQL tests to cargo's registry, where our tests find it.

Usage: cargo xtask slt

Options:
  -h, --help  Print this text

It is a dependency of nothing here: a scratch package under target/slt asks for it. Without it the tests
that need it say that they are skipped.
";

/// The release whose answers we are compared with: that of the dependency `datafusion`.
const CRATE: &str = "datafusion-sqllogictest";
const VERSION: &str = "55.2.0";

pub fn execute(workspace: &Workspace, options: &[String]) -> Result<()> {
    if let Some(option) = options.first() {
        return Err(Failure::Usage(format!(
            "slt: there is no option '{option}'"
        )));
    }
    let folder = workspace.target.join("slt");
    fs::create_dir_all(&folder).map_err(io("make", &folder))?;
    let manifest = folder.join("Cargo.toml");
    let text = format!(
        "[workspace]\n\n[package]\nname = \"slt\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [lib]\npath = \"lib.rs\"\n\n[dependencies]\n{CRATE} = \"={VERSION}\"\n"
    );
    fs::write(&manifest, text).map_err(io("write", &manifest))?;
    let library = folder.join("lib.rs");
    fs::write(&library, "").map_err(io("write", &library))?;
    process::run(
        workspace
            .cargo()
            .args(["fetch", "--quiet", "--manifest-path"])
            .arg(&manifest),
    )
}
