//! `wasmill doctor`: whether this machine has what Wasmill needs.

use std::path::Path;
use std::process::Command;

use clap::Args;
use indicatif::BinaryBytes;
use serde::Serialize;

use super::failure::{Exit, Failure};
use super::loading::engine;
use super::{json_text, print};
use crate::{EngineConfig, Module};

const EXAMPLES: &str = "\
Examples:
  wasmill doctor
  wasmill doctor --json

Ends with 1 when something that running modules needs is missing.";

/// Looks whether everything is in place: engine, cache, memory, tools for building modules
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Only needed for some things.
    Missing,
    Broken,
}

#[derive(Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    detail: String,
}

#[derive(Serialize)]
struct Findings {
    schema_version: u32,
    version: &'static str,
    findings: Vec<Finding>,
}

pub(crate) fn execute(_args: &DoctorArgs, json: bool) -> Result<(), Failure> {
    let findings = vec![
        engine_works(),
        cache(),
        processors(),
        memory(),
        object_stores(),
        tool(
            "rust compiler",
            "rustc",
            &["--version"],
            "to build UDFs in Rust; see rustup.rs",
        ),
        wasm_target(),
    ];
    let broken = findings.iter().any(|f| f.state == State::Broken);
    let text = if json {
        let all = Findings {
            schema_version: 1,
            version: env!("CARGO_PKG_VERSION"),
            findings,
        };
        json_text(&all)?
    } else {
        let lines: Vec<String> = findings
            .iter()
            .map(|f| {
                let state = match f.state {
                    State::Ok => "ok",
                    State::Missing => "missing",
                    State::Broken => "BROKEN",
                };
                format!("{state:<8}{:<15}{}", f.what, f.detail)
            })
            .collect();
        lines.join("\n")
    };
    print(&format!("{text}\n"))?;
    if broken {
        return Err(Failure::stopped(Exit::Failed));
    }
    Ok(())
}

/// The smallest module with a manifest: one function over int32 that is never called.
const SMALLEST: &str = r#"{"abi":1,"functions":[]}"#;

fn engine_works() -> Finding {
    let detail = match engine(false) {
        Ok(engine) => {
            let mut bytes = b"\0asm\x01\0\0\0".to_vec();
            bytes.extend(section(SMALLEST));
            // It is refused for what it lacks, which shows that the engine is there to look at it.
            match Module::from_bytes(&engine, "doctor", &bytes) {
                Ok(_)
                | Err(crate::ModuleError::Abi { .. } | crate::ModuleError::Manifest { .. }) => {
                    return found("engine", State::Ok, "wasmtime compiles for this processor");
                }
                Err(e) => e.to_string(),
            }
        }
        Err(failure) => failure.message,
    };
    found("engine", State::Broken, detail)
}

fn section(manifest: &str) -> Vec<u8> {
    const NAME: &str = "wasmill.manifest";
    let size = NAME.len().saturating_add(manifest.len()).saturating_add(1);
    let mut bytes = vec![0, u8::try_from(size).unwrap_or(0)];
    bytes.push(u8::try_from(NAME.len()).unwrap_or(0));
    bytes.extend_from_slice(NAME.as_bytes());
    bytes.extend_from_slice(manifest.as_bytes());
    bytes
}

fn cache() -> Finding {
    let Some(folder) = EngineConfig::default_cache_dir() else {
        return found(
            "cache",
            State::Missing,
            "there is no home folder; modules are compiled each time",
        );
    };
    match writable(&folder) {
        Ok(()) => found("cache", State::Ok, folder.display().to_string()),
        Err(e) => found(
            "cache",
            State::Missing,
            format!(
                "{} cannot be written: {e}; modules are compiled each time",
                folder.display()
            ),
        ),
    }
}

fn writable(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    tempfile::Builder::new()
        .prefix(".doctor-")
        .tempfile_in(folder)
        .map(drop)
}

fn processors() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) => found("processors", State::Ok, format!("{count} for this process")),
        Err(e) => found("processors", State::Missing, format!("not known: {e}")),
    }
}

/// What the kernel says; systems without these files are not asked.
fn memory() -> Finding {
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else {
        return found("memory", State::Missing, "not known on this system");
    };
    let field = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(name))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(BinaryBytes(kib.saturating_mul(1024)))
    };
    match (field("MemAvailable:"), field("MemTotal:")) {
        (Some(free), Some(all)) => found("memory", State::Ok, format!("{free} of {all} available")),
        _ => found("memory", State::Missing, "not known"),
    }
}

fn object_stores() -> Finding {
    match cfg!(feature = "object-store") {
        true => found("object stores", State::Ok, "s3, gs, az, abfs, https, http"),
        false => found(
            "object stores",
            State::Missing,
            "for s3:// and the like: build with --features object-store",
        ),
    }
}

fn tool(what: &'static str, name: &str, arguments: &[&str], purpose: &str) -> Finding {
    match Command::new(name).args(arguments).output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            found(what, State::Ok, text.lines().next().unwrap_or_default())
        }
        _ => found(what, State::Missing, format!("{name} is needed {purpose}")),
    }
}

fn wasm_target() -> Finding {
    const TARGET: &str = "wasm32-unknown-unknown";
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let there = sysroot.is_ok_and(|output| {
        let root = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Path::new(&root).join("lib/rustlib").join(TARGET).is_dir()
    });
    match there {
        true => found("wasm target", State::Ok, TARGET),
        false => found(
            "wasm target",
            State::Missing,
            format!("to build UDFs in Rust: rustup target add {TARGET}"),
        ),
    }
}

fn found(what: &'static str, state: State, detail: impl Into<String>) -> Finding {
    Finding {
        what,
        state,
        detail: detail.into(),
    }
}
