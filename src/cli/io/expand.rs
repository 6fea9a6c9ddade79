//! From what stands on the command line to inputs: files, the files of a folder or of a pattern, objects.

use std::fs;
use std::path::{Path, PathBuf};

use super::address::{StoreAddress, shown};
use super::source::STANDARD;
use super::stores::Stores;
use super::{Format, InputError, Source};

/// The inputs, in the order given; those of a folder or pattern by name.
pub(super) async fn sources(given: &[PathBuf]) -> Result<Vec<Source>, InputError> {
    let mut sources = Vec::with_capacity(given.len());
    let mut stdin = false;
    let mut stores = Stores::default();
    for path in given {
        if path == Path::new(STANDARD) {
            if stdin {
                return Err(InputError::unsupported(path, "it can be read once only"));
            }
            stdin = true;
            sources.push(Source::stdin());
        } else if let Some(address) = address_of(path)? {
            sources.extend(stores.sources(&address).await?);
        } else if path.is_dir() {
            sources.extend(files_of(path)?.into_iter().map(Source::file));
        } else if path.exists() || !is_pattern(path) {
            sources.push(Source::file(path.clone()));
        } else {
            sources.extend(matches_of(path)?.into_iter().map(Source::file));
        }
    }
    Ok(sources)
}

fn address_of(path: &Path) -> Result<Option<StoreAddress>, InputError> {
    StoreAddress::parse(path).map_err(|reason| InputError::Address {
        path: shown(path),
        reason,
    })
}

/// The files of a folder whose names say that they are data. Those that begin with a dot or an
/// underscore are other programs' notes.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, InputError> {
    let failed = || InputError::read(folder);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let hidden = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_none_or(|name| name.starts_with(['.', '_']));
        if !hidden && path.is_file() && Format::of_name(&path).is_some() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(InputError::unsupported(
            folder,
            "it is a folder without data files; their extensions are .parquet, .csv, .json, .jsonl, .arrow and .arrows",
        ));
    }
    files.sort();
    Ok(files)
}

fn is_pattern(path: &Path) -> bool {
    path.to_str()
        .is_some_and(|text| text.contains(['*', '?', '[']))
}

fn matches_of(pattern: &Path) -> Result<Vec<PathBuf>, InputError> {
    let text = pattern.to_string_lossy();
    let found = glob::glob(&text)
        .map_err(|e| InputError::unsupported(pattern, format!("the pattern is malformed: {e}")))?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|e| InputError::Read {
            path: e.path().to_owned(),
            source: e.into(),
        })?;
        if path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(InputError::unsupported(
            pattern,
            "no file matches the pattern",
        ));
    }
    // The crate gives them in alphabetical order.
    Ok(files)
}
