//! `cargo xtask udfs`: the example UDFs and the test guests, as modules in `target/udfs`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, io};
use crate::other_languages::{self, Outcome};
use crate::process;
use crate::table::{Align, Table};
use crate::wasm::Summary;
use crate::workspace::Workspace;

pub const HELP: &str = "\
Build every crate under udfs/ and the test guests to target/udfs/NAME.wasm.

Usage: cargo xtask udfs [--quiet]

Options:
  -q, --quiet  No table, and nothing from cargo but its errors
  -h, --help   Print this text

Guests in C, Zig and AssemblyScript are built where their compilers are found; others are named as
skipped. `cargo xtask languages` installs the compilers.

Adds the Wasm target to the toolchain when it is missing. A module that did not change keeps its
file untouched. CARGO_TARGET_DIR is honoured: the modules are in its folder udfs. RUSTFLAGS are
meant for the host and are not used here.
";

pub const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "udf";
/// Guests that only the tests need.
const TEST_GUESTS: [&str; 3] = [
    "tests/guests/identity",
    "tests/guests/probe",
    "tests/guests/rust",
];

pub fn execute(workspace: &Workspace, options: &[String]) -> Result<()> {
    let mut quiet = false;
    for option in options {
        match option.as_str() {
            "-q" | "--quiet" => quiet = true,
            other => {
                return Err(Failure::Usage(format!(
                    "udfs: there is no option '{other}'"
                )));
            }
        }
    }
    let table = build(workspace, quiet)?;
    if !quiet {
        print!("{table}");
    }
    Ok(())
}

/// Builds all modules, and says in a table what came out.
pub fn build(workspace: &Workspace, quiet: bool) -> Result<Table> {
    add_target()?;
    let guests = guests(workspace)?;
    let mut cargo = guest_cargo(workspace, "build");
    cargo.args(["--profile", PROFILE]);
    cargo.args(guests.iter().flat_map(|guest| ["-p", &guest.package]));
    if quiet {
        cargo.arg("--quiet");
    }
    process::run(&mut cargo)?;

    let built = workspace.target.join(TARGET).join(PROFILE);
    let folder = workspace.udfs();
    fs::create_dir_all(&folder).map_err(io("make", &folder))?;
    let mut table = Table::new([
        ("module", Align::Left),
        ("KiB", Align::Right),
        ("UDFs", Align::Right),
        ("imports", Align::Right),
    ]);
    let mut add = |module: &str, bytes: &[u8]| {
        let place = folder.join(format!("{module}.wasm"));
        let summary = Summary::of(bytes)
            .map_err(|why| Failure::Failed(format!("{}: {why}", place.display())))?;
        put(&place, bytes)?;
        table.row([
            workspace.relative(&place).display().to_string(),
            kib(bytes.len()),
            summary.records.to_string(),
            summary.imports.to_string(),
        ]);
        Ok(())
    };
    for guest in &guests {
        let source = built.join(format!("{}.wasm", guest.module));
        add(
            &guest.module,
            &fs::read(&source).map_err(io("read", &source))?,
        )?;
    }
    for (module, outcome) in other_languages::build(workspace)? {
        match outcome {
            Outcome::Built(bytes) => add(module, &bytes)?,
            Outcome::Skipped(why) => {
                eprintln!("skipped: the guest {module}: {why}");
                // One of an earlier build would be tested as if it were this source's.
                remove(&folder.join(format!("{module}.wasm")))?;
            }
        }
    }
    Ok(table)
}

/// `cargo clippy` over the guests as they are built: the code that only the Wasm target sees.
pub fn clippy(workspace: &Workspace) -> Result<()> {
    add_target()?;
    let mut cargo = guest_cargo(workspace, "clippy");
    for guest in guests(workspace)? {
        cargo.args(["-p", &guest.package]);
    }
    process::run(cargo.args(["-p", "wasmill-guest", "--", "-D", "warnings"]))
}

/// A crate that becomes a module.
#[derive(Debug)]
struct Guest {
    package: String,
    module: String,
}

/// The crates under `udfs/`, by name, then the test guests.
fn guests(workspace: &Workspace) -> Result<Vec<Guest>> {
    let udfs = workspace.root.join("udfs");
    let mut folders: Vec<PathBuf> = fs::read_dir(&udfs)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(io("list", &udfs))?;
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    folders.sort();
    folders.extend(TEST_GUESTS.iter().map(|folder| workspace.root.join(folder)));
    folders
        .iter()
        .map(|folder| guest(workspace, folder))
        .collect()
}

fn guest(workspace: &Workspace, folder: &Path) -> Result<Guest> {
    let shown = workspace.relative(folder).display();
    let package = workspace
        .packages
        .iter()
        .find(|package| package.folder == folder);
    let package = package.ok_or_else(|| {
        Failure::Failed(format!(
            "{shown} is not in the workspace: add it to `members` in the root's Cargo.toml"
        ))
    })?;
    let module = package.cdylib.clone().ok_or_else(|| {
        Failure::Failed(format!(
            "{shown} builds no module: its Cargo.toml needs \
             [lib] crate-type = [\"cdylib\", \"rlib\"]"
        ))
    })?;
    Ok(Guest {
        package: package.name.clone(),
        module,
    })
}

fn guest_cargo(workspace: &Workspace, verb: &str) -> Command {
    let mut cargo = workspace.cargo();
    // Flags of the host's toolchain; they would also replace the ones of .cargo/config.toml.
    cargo
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.args([verb, "--target", TARGET]);
    cargo
}

/// Adds the Wasm target to the toolchain in use, unless it is there.
fn add_target() -> Result<()> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let libraries = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    let present = libraries.is_ok_and(|output| {
        let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end());
        output.status.success()
            && fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
    });
    if present {
        return Ok(());
    }
    if !process::succeeds(Command::new("rustup").arg("--version")) {
        return Err(Failure::Failed(format!(
            "this toolchain has no standard library for {TARGET}, and rustup, which could add it, \
             is not installed. Install Rust with rustup, or your distribution's package of the \
             standard library for WebAssembly"
        )));
    }
    process::run(Command::new("rustup").args(["target", "add", TARGET]))
}

/// Makes `place` hold `bytes`: whole or not at all, and untouched if it holds them already.
fn put(place: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(place).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let temporary = place.with_extension(format!("tmp{}", std::process::id()));
    fs::write(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, place))
        .inspect_err(|_| drop(fs::remove_file(&temporary)))
        .map_err(io("write", place))
}

/// Removes a file, if it is there.
fn remove(place: &Path) -> Result<()> {
    match fs::remove_file(place) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io("remove", place)(error)),
        _ => Ok(()),
    }
}

/// Bytes as KiB with one decimal, rounded to nearest.
fn kib(bytes: usize) -> String {
    let tenths = (bytes * 10 + 512) / 1024;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn sizes_are_rounded_to_a_tenth() {
        assert_eq!(kib(0), "0.0");
        assert_eq!(kib(1024), "1.0");
        assert_eq!(kib(100 * 1024 - 1), "100.0");
        assert_eq!(kib(1536), "1.5");
    }

    #[test]
    fn an_unchanged_module_keeps_its_file_and_a_changed_one_is_replaced() {
        let folder = folder("put");
        let place = folder.join("m.wasm");
        put(&place, b"one").unwrap();
        let made = fs::metadata(&place).unwrap().modified().unwrap();
        put(&place, b"one").unwrap();
        assert_eq!(fs::metadata(&place).unwrap().modified().unwrap(), made);
        put(&place, b"two").unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"two");
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            1,
            "no temporary file stays"
        );
        remove(&place).unwrap();
        remove(&place).unwrap();
        assert!(!place.exists());
        assert!(put(&folder.join("missing/m.wasm"), b"").is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_crate_that_cannot_become_a_module_is_named_with_the_remedy() {
        let root = PathBuf::from("/w");
        let package = |name: &str, cdylib: Option<&str>| Package {
            name: format!("wasmill-udf-{name}"),
            folder: root.join("udfs").join(name),
            cdylib: cdylib.map(str::to_owned),
        };
        let packages = vec![package("math", Some("math")), package("plain", None)];
        let workspace = Workspace {
            root: root.clone(),
            target: root.join("target"),
            packages,
        };
        let guest = |name| guest(&workspace, &root.join("udfs").join(name));
        assert_eq!(guest("math").unwrap().package, "wasmill-udf-math");
        let error = guest("plain").unwrap_err().to_string();
        assert!(
            error.contains("udfs/plain") && error.contains("cdylib"),
            "{error}"
        );
        let error = guest("new").unwrap_err().to_string();
        assert!(
            error.contains("udfs/new") && error.contains("members"),
            "{error}"
        );
    }
}
