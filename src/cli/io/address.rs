//! Addresses of objects on the command line: `s3://bucket/key` and the like.

use std::fmt;
use std::path::{Path, PathBuf};

/// Whose protocol an address names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    /// Amazon S3 and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
    /// Any web server.
    Http,
}

/// The address of an object, or of several: its key may be a prefix or a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreAddress {
    /// Whose protocol is spoken.
    pub(super) service: Service,
    /// What comes before the key, without a slash at its end: `s3://bucket`.
    pub(super) root: String,
    /// What comes after it: as it is, and percent-encoded for `https`.
    pub(super) key: String,
    /// Of web addresses. It may hold signatures and is never shown.
    pub(super) query: Option<String>,
}

/// An address that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    /// No such protocol is spoken.
    #[error(
        "`{scheme}://` is not known; there are s3://, gs://, az://, abfs://, abfss://, https:// and http://, and files are named by their path"
    )]
    Scheme {
        /// What stands before `://`.
        scheme: String,
    },
    /// The build lacks the feature.
    #[error("this build has no object stores; build with --features object-store")]
    NoStores,
    /// There is no bucket, container or host.
    #[error("it names no bucket or host; write it as in {example}")]
    Root {
        /// An address that would do.
        example: &'static str,
    },
    /// A user or password stands in it.
    #[error("names and passwords in addresses are not used; leave out what stands before the @")]
    Password,
}

impl StoreAddress {
    /// The address in an argument, if this build can use it; `None` where it is the path of a file.
    pub(crate) fn parse(argument: &Path) -> Result<Option<Self>, AddressError> {
        match Self::read(argument)? {
            Some(_) if !cfg!(feature = "object-store") => Err(AddressError::NoStores),
            read => Ok(read),
        }
    }

    fn read(argument: &Path) -> Result<Option<Self>, AddressError> {
        let Some((scheme, rest)) = argument.to_str().and_then(split_scheme) else {
            return Ok(None);
        };
        let lower = scheme.to_ascii_lowercase();
        let (service, example) = match lower.as_str() {
            "s3" => (Service::S3, "s3://bucket/key.parquet"),
            "gs" => (Service::Google, "gs://bucket/key.parquet"),
            "az" | "abfs" | "abfss" => (Service::Azure, "az://container/key.parquet"),
            "http" | "https" => (Service::Http, "https://example.org/data.parquet"),
            _ if argument.exists() => return Ok(None),
            _ => return Err(AddressError::Scheme { scheme: lower }),
        };
        let (rest, query) = match service {
            Service::Http => split_query(rest),
            // Elsewhere these characters belong to the key, or to a pattern.
            _ => (rest, None),
        };
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() {
            return Err(AddressError::Root { example });
        }
        // In abfss://container@account.dfs.core.windows.net it separates two names.
        if authority.contains('@') && service != Service::Azure {
            return Err(AddressError::Password);
        }
        Ok(Some(StoreAddress {
            service,
            root: format!("{lower}://{authority}"),
            key: key.to_owned(),
            query: query.map(str::to_owned),
        }))
    }

    /// The name in messages.
    pub(crate) fn name(&self) -> PathBuf {
        PathBuf::from(self.to_string())
    }

    /// The name of another key of the same store.
    #[cfg_attr(not(feature = "object-store"), allow(dead_code))]
    pub(super) fn name_of(&self, key: &str) -> PathBuf {
        PathBuf::from(format!("{}/{key}", self.root))
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.root, self.key)
    }
}

/// An argument as it may be shown: without what may be a password or a signature.
pub(crate) fn shown(argument: &Path) -> PathBuf {
    if let Ok(Some(address)) = StoreAddress::read(argument) {
        return address.name();
    }
    match argument.to_str().and_then(split_scheme) {
        Some((scheme, rest)) if !argument.exists() => {
            let rest = split_query(rest).0;
            let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
            let host = authority.rsplit('@').next().unwrap_or_default();
            PathBuf::from(format!("{scheme}://{host}/{key}"))
        }
        _ => argument.to_owned(),
    }
}

/// What stands before and after `://`, where the former is the name of a protocol.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+.-".contains(&b));
    named.then_some((scheme, rest))
}

/// What comes before a query, and the query. A fragment belongs to neither.
fn split_query(text: &str) -> (&str, Option<&str>) {
    let text = text.split('#').next().unwrap_or(text);
    match text.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> StoreAddress {
        StoreAddress::read(Path::new(text)).unwrap().unwrap()
    }

    #[test]
    fn keys_are_taken_as_they_are() {
        let address = parse("s3://bucket/a b/part-?.csv");
        assert_eq!(address.service, Service::S3);
        assert_eq!(
            (address.root.as_str(), address.key.as_str()),
            ("s3://bucket", "a b/part-?.csv")
        );
        assert_eq!(parse("GS://bucket").root, "gs://bucket");
        let azure = parse("abfss://box@account.dfs.core.windows.net/k.csv");
        assert_eq!(azure.root, "abfss://box@account.dfs.core.windows.net");
    }

    #[test]
    fn what_may_be_secret_is_not_shown() {
        let address = parse("https://example.org/x.csv?X-Signature=abc#top");
        assert_eq!(address.to_string(), "https://example.org/x.csv");
        assert_eq!(address.query.as_deref(), Some("X-Signature=abc"));
        let with_password = Path::new("https://me:secret@example.org/x.csv?s=1");
        assert_eq!(
            StoreAddress::read(with_password),
            Err(AddressError::Password)
        );
        assert_eq!(shown(with_password), Path::new("https://example.org/x.csv"));
    }

    #[test]
    fn paths_of_files_are_no_addresses() {
        for path in ["a.csv", "-", "folder/s3:/x", "1s3://x", "./s3://bucket/x"] {
            assert_eq!(StoreAddress::read(Path::new(path)), Ok(None), "{path}");
            assert_eq!(shown(Path::new(path)), Path::new(path));
        }
        assert!(StoreAddress::read(Path::new("ftp://x/y")).is_err());
        assert!(StoreAddress::read(Path::new("s3:///y")).is_err());
    }
}
