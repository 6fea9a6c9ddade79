//! `cargo xtask languages`, and the test guests that other compilers than Rust's build: C, Zig and
//! AssemblyScript, each where its compiler is found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result, io};
use crate::process;
use crate::workspace::Workspace;

pub const HELP: &str = "\
Install the compilers that the guests in C, Zig and AssemblyScript are built with, to target/languages.

Usage: cargo xtask languages

Options:
  -h, --help  Print this text

Needs Python with venv and pip for Zig, which compiles C as well, and npm for AssemblyScript. Nothing
outside of the target folder changes. Without these compilers everything else builds and is tested;
`cargo xtask udfs` says which guests it left out.
";

/// The versions that the guests are written for.
const ZIG: &str = "0.17.1";
const ASSEMBLYSCRIPT: &str = "0.28.20";

/// What became of a guest.
pub enum Outcome {
    Built(Vec<u8>),
    /// Its compiler is missing; what would help.
    Skipped(String),
}

pub fn execute(workspace: &Workspace, options: &[String]) -> Result<()> {
    if let Some(option) = options.first() {
        return Err(Failure::Usage(format!(
            "languages: there is no option '{option}'"
        )));
    }
    let folder = folder(workspace);
    fs::create_dir_all(&folder).map_err(io("make", &folder))?;
    // One may be had without the other.
    let zig = install_zig(workspace, &folder);
    let assemblyscript = install_assemblyscript(workspace, &folder);
    zig.and(assemblyscript)
}

fn install_zig(workspace: &Workspace, folder: &Path) -> Result<()> {
    if zig(workspace).is_some() {
        return Ok(());
    }
    process::run(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(folder.join("python")),
    )?;
    process::run(
        Command::new(python(workspace))
            .args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"])
            .arg(format!("ziglang=={ZIG}")),
    )
}

fn install_assemblyscript(workspace: &Workspace, folder: &Path) -> Result<()> {
    if asc(workspace).is_some() {
        return Ok(());
    }
    process::run(
        Command::new("npm")
            .args(["install", "--ignore-scripts", "--no-audit", "--no-fund"])
            .arg("--prefix")
            .arg(folder)
            .arg(format!("assemblyscript@{ASSEMBLYSCRIPT}")),
    )
}

/// The guests by module name.
pub fn build(workspace: &Workspace) -> Result<Vec<(&'static str, Outcome)>> {
    let (zig, asc) = (zig(workspace), asc(workspace));
    let guests: [(&'static str, &Option<Compiler>, &str, Arguments); 3] = [
        ("c", &zig, "Zig", c_arguments),
        ("zig", &zig, "Zig", zig_arguments),
        (
            "assemblyscript",
            &asc,
            "AssemblyScript",
            assemblyscript_arguments,
        ),
    ];
    guests
        .into_iter()
        .map(|(name, compiler, from, arguments)| {
            let outcome = match compiler {
                Some(compiler) => Outcome::Built(compile(workspace, compiler, name, &arguments)?),
                None => Outcome::Skipped(missing(from)),
            };
            Ok((name, outcome))
        })
        .collect()
}

/// Runs the tests of the C header, natively.
pub fn test_header(workspace: &Workspace) -> Result<()> {
    let Some(zig) = zig(workspace) else {
        println!("skipped: {}", missing("Zig"));
        return Ok(());
    };
    let folder = folder(workspace);
    fs::create_dir_all(&folder).map_err(io("make", &folder))?;
    let program = folder.join(format!("c-header-tests{}", std::env::consts::EXE_SUFFIX));
    // A debug build of this compiler ends the program at undefined behaviour.
    let mut command = zig.command(workspace);
    command.args(["cc", "-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-o"]);
    process::run(command.arg(&program).arg("guest-sdk/c/tests.c"))?;
    process::run(&mut Command::new(&program))
}

type Arguments = fn(&Path) -> Vec<String>;

fn c_arguments(output: &Path) -> Vec<String> {
    words(
        "cc --target=wasm32-freestanding -std=c11 -O2 -g0 -msimd128 -ffreestanding -nostdlib \
         -Wall -Wextra -Werror -Iguest-sdk/c -Wl,--no-entry -Wl,-z,stack-size=65536 \
         -Wl,--export=wasmill_panic tests/guests/c/guest.c -o",
        output,
        "",
    )
}

fn zig_arguments(output: &Path) -> Vec<String> {
    words(
        "build-exe tests/guests/zig/guest.zig -target wasm32-freestanding -mcpu=generic+simd128 \
         -O ReleaseSmall -fno-entry -rdynamic --stack 65536",
        output,
        "-femit-bin=",
    )
}

fn assemblyscript_arguments(output: &Path) -> Vec<String> {
    words(
        "tests/guests/assemblyscript/guest.ts -O3 --enable simd --runtime minimal \
         --exportStart _initialize --use abort=tests/guests/assemblyscript/wasmill/leaveText \
         --transform ./tests/guests/assemblyscript/manifest.mjs --outFile",
        output,
        "",
    )
}

/// The words of a command line, and last the output with what stands before it.
fn words(line: &str, output: &Path, before: &str) -> Vec<String> {
    let output = format!("{before}{}", output.display());
    line.split_whitespace()
        .map(str::to_owned)
        .chain([output])
        .collect()
}

fn compile(
    workspace: &Workspace,
    compiler: &Compiler,
    name: &str,
    arguments: &Arguments,
) -> Result<Vec<u8>> {
    let folder = folder(workspace).join("modules");
    fs::create_dir_all(&folder).map_err(io("make", &folder))?;
    let output = folder.join(format!("{name}.wasm"));
    process::run(compiler.command(workspace).args(arguments(&output)))?;
    fs::read(&output).map_err(io("read", &output))
}

/// How a compiler is started.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Compiler {
    program: PathBuf,
    first: Vec<&'static str>,
}

impl Compiler {
    fn new(program: impl Into<PathBuf>, first: &[&'static str]) -> Compiler {
        Compiler {
            program: program.into(),
            first: first.to_vec(),
        }
    }

    fn command(&self, workspace: &Workspace) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.first).current_dir(&workspace.root);
        // What Zig keeps stays in the target folder.
        let cache = folder(workspace).join("zig-cache");
        command
            .env("ZIG_LOCAL_CACHE_DIR", &cache)
            .env("ZIG_GLOBAL_CACHE_DIR", &cache);
        command
    }

    /// What it prints when it is asked for its version; `None` when it cannot be started.
    fn version(&self, workspace: &Workspace, question: &str) -> Option<String> {
        let output = self
            .command(workspace)
            .arg(question)
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        output.status.success().then(|| text.trim().to_owned())
    }
}

/// A Zig of the version that the guest is written for: the language still changes.
fn zig(workspace: &Workspace) -> Option<Compiler> {
    let candidates = [
        Compiler::new("zig", &[]),
        Compiler::new("python3", &["-m", "ziglang"]),
        Compiler::new(python(workspace), &["-m", "ziglang"]),
    ];
    candidates.into_iter().find(|candidate| {
        let version = candidate.version(workspace, "version");
        version.is_some_and(|version| same_series(&version, ZIG))
    })
}

fn asc(workspace: &Workspace) -> Option<Compiler> {
    let binaries = folder(workspace).join("node_modules").join(".bin");
    let candidates = [
        Compiler::new("asc", &[]),
        Compiler::new(binaries.join("asc"), &[]),
        Compiler::new(workspace.root.join("node_modules/.bin/asc"), &[]),
    ];
    candidates.into_iter().find(|candidate| {
        // "Version 0.28.20"
        let version = candidate.version(workspace, "--version");
        version.is_some_and(|text| {
            let version = text.rsplit(' ').next().unwrap_or_default();
            same_series(version, ASSEMBLYSCRIPT)
        })
    })
}

/// Whether two versions differ in their last number at most: 0.17.0 and 0.17.1.
fn same_series(found: &str, wanted: &str) -> bool {
    let series = |version: &str| {
        let mut numbers = version.splitn(3, '.');
        Some((numbers.next()?.to_owned(), numbers.next()?.to_owned()))
    };
    series(found).is_some() && series(found) == series(wanted)
}

fn missing(compiler: &str) -> String {
    let version = if compiler == "Zig" {
        ZIG
    } else {
        ASSEMBLYSCRIPT
    };
    let series = version
        .rsplit_once('.')
        .map_or(version, |(series, _)| series);
    format!(
        "{compiler} {series} is not here; `cargo xtask languages` installs it to target/languages"
    )
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("languages")
}

/// The Python into whose packages Zig is installed.
fn python(workspace: &Workspace) -> PathBuf {
    let environment = folder(workspace).join("python");
    if cfg!(windows) {
        environment.join("Scripts").join("python.exe")
    } else {
        environment.join("bin").join("python")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_one_series_differ_in_their_last_number() {
        assert!(same_series("0.17.0", "0.17.1"));
        assert!(same_series("0.17.1-dev.3+abc", "0.17.1"));
        assert!(!same_series("0.16.1", "0.17.1"));
        assert!(!same_series("0.1", "0.17.1"));
        assert!(!same_series("", ""));
    }

    #[test]
    fn the_output_is_the_last_word() {
        let output = Path::new("out dir/m.wasm");
        for arguments in [c_arguments, zig_arguments, assemblyscript_arguments] {
            let arguments = arguments(output);
            let last = arguments.last().unwrap();
            assert!(last.ends_with("out dir/m.wasm"), "{last}");
            assert!(
                arguments[..arguments.len() - 1]
                    .iter()
                    .all(|word| !word.is_empty())
            );
        }
    }

    #[test]
    fn what_is_missing_is_named_with_the_remedy() {
        let text = missing("Zig");
        assert!(
            text.contains("Zig 0.17 ") && text.contains("cargo xtask languages"),
            "{text}"
        );
        assert!(missing("AssemblyScript").contains("0.28 "));
    }

    #[test]
    fn a_compiler_that_cannot_be_started_is_none() {
        let workspace = Workspace {
            root: std::env::temp_dir(),
            target: std::env::temp_dir(),
            packages: Vec::new(),
        };
        let nothing = Compiler::new("no-such-program-anywhere", &[]);
        assert_eq!(nothing.version(&workspace, "version"), None);
    }
}
