//! Which objects an address names: one, those of a prefix, or those of a pattern.

use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path as StorePath;
use object_store::{ObjectMeta, ObjectStore};

use super::failure::StoreFailure;
use super::{Store, unreadable};
use crate::cli::io::address::{Service, StoreAddress};
use crate::cli::io::{Format, InputError};

/// What an address names.
pub(super) enum Wanted {
    One,
    Prefix,
    Pattern(Pattern),
}

/// As for files: a star does not go beyond a slash.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// What the address names, by its looks.
pub(super) fn wanted(address: &StoreAddress) -> Result<Wanted, InputError> {
    let name = address.name();
    let prefix = address.key.is_empty() || address.key.ends_with('/');
    let pattern = address.key.contains(['*', '?', '[']);
    if (prefix || pattern) && address.service == Service::Http {
        return Err(InputError::unsupported(
            &name,
            "web servers do not list their files, so there are no folders and patterns; name each file",
        ));
    }
    if pattern {
        let pattern = Pattern::new(&address.key).map_err(|e| {
            InputError::unsupported(&name, format!("the pattern is malformed: {e}"))
        })?;
        return Ok(Wanted::Pattern(pattern));
    }
    Ok(match prefix {
        true => Wanted::Prefix,
        false => Wanted::One,
    })
}

/// The objects directly under a prefix whose names say that they are data, by name.
pub(super) async fn of_prefix(
    store: &Store,
    address: &StoreAddress,
) -> Result<Vec<ObjectMeta>, InputError> {
    let name = address.name();
    let prefix = key_prefix(&name, &address.key)?;
    let listed = store
        .objects
        .list_with_delimiter(prefix.as_ref())
        .await
        .map_err(|e| unreadable(&name, StoreFailure::of(store.service, &e)))?;
    let data = listed.objects.into_iter().filter(|about| {
        let hidden = about
            .location
            .filename()
            .is_none_or(|name| name.starts_with(['.', '_']));
        !hidden && Format::of_name(Path::new(about.location.as_ref())).is_some()
    });
    by_name(data.collect(), || {
        InputError::unsupported(
            &name,
            "it holds no data files; their extensions are .parquet, .csv, .json, .jsonl, .arrow and .arrows",
        )
    })
}

/// The objects whose keys match a pattern, by name.
pub(super) async fn of_pattern(
    store: &Store,
    address: &StoreAddress,
    pattern: &Pattern,
) -> Result<Vec<ObjectMeta>, InputError> {
    let name = address.name();
    let prefix = key_prefix(&name, literal_folder(&address.key))?;
    let listed: Vec<ObjectMeta> = store
        .objects
        .list(prefix.as_ref())
        .try_filter(|about| {
            let matches = pattern.matches_with(about.location.as_ref(), OPTIONS);
            std::future::ready(matches)
        })
        .try_collect()
        .await
        .map_err(|e| unreadable(&name, StoreFailure::of(store.service, &e)))?;
    by_name(listed, || {
        InputError::unsupported(&name, "no object matches the pattern")
    })
}

/// The folder that everything a pattern matches lies in.
fn literal_folder(pattern: &str) -> &str {
    let literal = pattern.split(['*', '?', '[']).next().unwrap_or_default();
    literal.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn key_prefix(name: &Path, key: &str) -> Result<Option<StorePath>, InputError> {
    let prefix =
        StorePath::parse(key).map_err(|e| unreadable(name, StoreFailure::Key(e.to_string())))?;
    Ok((!prefix.is_root()).then_some(prefix))
}

fn by_name(
    mut found: Vec<ObjectMeta>,
    none: impl FnOnce() -> InputError,
) -> Result<Vec<ObjectMeta>, InputError> {
    if found.is_empty() {
        return Err(none());
    }
    found.sort_by_cached_key(|about| PathBuf::from(about.location.as_ref()));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folder_before_a_pattern_is_listed() {
        assert_eq!(literal_folder("a/b/part-*.csv"), "a/b");
        assert_eq!(literal_folder("a/*/b.csv"), "a");
        assert_eq!(literal_folder("part-?.csv"), "");
    }

    #[test]
    fn stars_stay_within_a_folder() {
        let pattern = Pattern::new("a/*.csv").unwrap();
        assert!(pattern.matches_with("a/x.csv", OPTIONS));
        assert!(!pattern.matches_with("a/b/x.csv", OPTIONS));
    }
}
