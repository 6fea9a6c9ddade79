//! `wasmill compile` and `wasmill cache`: the cache of compiled code.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use indicatif::{BinaryBytes, ProgressBar};
use serde::Serialize;

use super::failure::Failure;
use super::loading::load;
use super::terminal::{counted, progress};
use super::{json_text, print, say};
use crate::EngineConfig;
use crate::module::cached_module;

const COMPILE_EXAMPLES: &str = "\
Examples:
  wasmill compile target/udfs/*.wasm

Modules are compiled when they are first used; this does it ahead, for example while an image is
built. The cache is $XDG_CACHE_HOME/wasmill/code, else ~/.cache/wasmill/code.";

/// Compiles modules ahead of their first use
#[derive(Debug, Args)]
#[command(after_help = COMPILE_EXAMPLES)]
pub(crate) struct CompileArgs {
    /// The modules, .wasm files
    #[arg(required = true)]
    modules: Vec<PathBuf>,

    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn compile(args: &CompileArgs) -> Result<(), Failure> {
    let bar: ProgressBar = progress(Some(args.modules.len()), args.quiet);
    for path in &args.modules {
        let begun = Instant::now();
        let module = load(path, false)?;
        bar.inc(1);
        if !args.quiet {
            let (name, digest) = (module.name(), module.digest().short());
            let seconds = begun.elapsed().as_secs_f64();
            bar.suspend(|| say(&format!("{name} {digest} in {seconds:.2} s")));
        }
    }
    bar.finish_and_clear();
    Ok(())
}

const CACHE_EXAMPLES: &str = "\
Examples:
  wasmill cache ls
  wasmill cache clear";

/// Shows or empties the cache of compiled code
#[derive(Debug, Args)]
#[command(after_help = CACHE_EXAMPLES)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    verb: CacheVerb,
}

#[derive(Debug, Subcommand)]
enum CacheVerb {
    /// Lists what is in it
    Ls,
    /// Removes all compiled code; modules are compiled again when they are used
    Clear,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    /// The name of the module, where it can be read.
    module: Option<String>,
    bytes: u64,
}

#[derive(Serialize)]
struct Listing {
    schema_version: u32,
    folder: Option<PathBuf>,
    bytes: u64,
    entries: Vec<Entry>,
}

pub(crate) fn execute(args: &CacheArgs, json: bool) -> Result<(), Failure> {
    let listing = list()?;
    match args.verb {
        CacheVerb::Ls if json => {
            let text = json_text(&listing)?;
            print(&format!("{text}\n"))
        }
        CacheVerb::Ls => {
            let mut text = String::new();
            let module = |entry: &Entry| entry.module.clone().unwrap_or_else(|| "?".to_owned());
            let width = listing.entries.iter().map(|e| module(e).chars().count());
            let width = width.max().unwrap_or(0).min(40);
            for entry in &listing.entries {
                let (size, name) = (BinaryBytes(entry.bytes).to_string(), module(entry));
                text.push_str(&format!("{size:>12}  {name:<width$}  {}\n", entry.name));
            }
            let folder = listing
                .folder
                .as_ref()
                .map_or_else(|| "nowhere".to_owned(), |f| f.display().to_string());
            let (count, bytes) = (entries(&listing), BinaryBytes(listing.bytes));
            text.push_str(&format!("{bytes} in {count}, in {folder}\n"));
            print(&text)
        }
        CacheVerb::Clear => {
            let Some(folder) = &listing.folder else {
                return Ok(());
            };
            for entry in &listing.entries {
                let path = folder.join(&entry.name);
                fs::remove_file(&path)
                    .map_err(|e| Failure::io(format!("cannot remove {}: {e}", path.display())))?;
            }
            let (count, bytes) = (entries(&listing), BinaryBytes(listing.bytes));
            say(&format!("removed {count}, {bytes}"));
            Ok(())
        }
    }
}

fn entries(listing: &Listing) -> String {
    counted(listing.entries.len() as u64, "entry", "entries")
}

/// The entries; the key beside them stays.
fn list() -> Result<Listing, Failure> {
    let folder = EngineConfig::default_cache_dir();
    let mut listing = Listing {
        schema_version: 1,
        folder: folder.clone(),
        bytes: 0,
        entries: Vec::new(),
    };
    let Some(folder) = folder else {
        return Ok(listing);
    };
    let failed = |e: std::io::Error| Failure::io(format!("cannot list {}: {e}", folder.display()));
    let found = match fs::read_dir(&folder) {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(listing),
        Err(e) => return Err(failed(e)),
    };
    for entry in found {
        let entry = entry.map_err(failed)?;
        let about = entry.metadata().map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if about.is_file() && name != "key" {
            listing.bytes = listing.bytes.saturating_add(about.len());
            listing.entries.push(Entry {
                module: cached_module(&entry.path()),
                name,
                bytes: about.len(),
            });
        }
    }
    let key = |entry: &Entry| (entry.module.clone(), entry.name.clone());
    listing.entries.sort_by_key(key);
    Ok(listing)
}
