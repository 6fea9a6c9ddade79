//! What a store says when it does not do what it is asked, in a line, and what to do about it.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use indicatif::BinaryBytes;
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use crate::cli::io::address::Service;

/// Most characters of what a store says.
const LONGEST: usize = 200;

/// Something that a store did not do. Never holds credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoreFailure {
    #[error("it names no object; add its key after the slash")]
    NoKey,
    #[error("its key cannot be used: {0}")]
    Key(String),
    #[error("there is no such object: {said}; check the address")]
    Missing { said: String },
    #[error("access is refused: {said}; {}", credentials(*.service))]
    Denied { service: Service, said: String },
    #[error("there are no credentials; {}", credentials(*.service))]
    NoCredentials { service: Service },
    #[error("the store cannot be reached: {0}; check the address, its variables and the network")]
    Unreachable(String),
    #[error("the store has sent nothing for {} seconds; try again, or copy the object to a file first", .0.as_secs())]
    Stalled(Duration),
    #[error(
        "the server cannot send a part of a file, which Parquet needs; copy it to a file first"
    )]
    NoRanges,
    #[error("plain http is not allowed; {0}")]
    PlainHttp(&'static str),
    #[error("the bucket is in another region; set AWS_REGION to its own")]
    Region,
    #[error("it is larger than {} and a web server takes it in one request; write to a file, or to a store that takes parts", BinaryBytes(*.most as u64))]
    TooLarge { most: usize },
    #[error("{0}")]
    Other(String),
}

impl StoreFailure {
    /// What an error of the crate comes to.
    pub(super) fn of(service: Service, error: &Error) -> Self {
        let text = whole(error);
        let said = said(error);
        let metadata_service =
            text.contains("169.254.169.254") || text.contains("metadata.google.internal");
        match error {
            _ if metadata_service => StoreFailure::NoCredentials { service },
            _ if text.contains("Account must be specified") => {
                StoreFailure::NoCredentials { service }
            }
            Error::NotFound { .. } => StoreFailure::Missing { said },
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                StoreFailure::Denied { service, said }
            }
            _ if text.contains("Received redirect without LOCATION") => StoreFailure::Region,
            _ if text.contains("non-partial response") || text.contains("Range request not") => {
                StoreFailure::NoRanges
            }
            _ if text.contains("URL scheme is not allowed") => {
                StoreFailure::PlainHttp(match service {
                    Service::S3 => "set AWS_ALLOW_HTTP=true if you mean it",
                    Service::Google => "set GOOGLE_ALLOW_HTTP=true if you mean it",
                    Service::Azure => "set AZURE_ALLOW_HTTP=true if you mean it",
                    Service::Http => "the server sends on from https:// to http://",
                })
            }
            _ => match find::<HttpError>(error).map(HttpError::kind) {
                Some(HttpErrorKind::Connect | HttpErrorKind::Timeout) => {
                    StoreFailure::Unreachable(said)
                }
                _ => StoreFailure::Other(said),
            },
        }
    }
}

impl From<StoreFailure> for io::Error {
    fn from(failure: StoreFailure) -> Self {
        io::Error::other(failure)
    }
}

/// The variables that credentials come from.
fn credentials(service: Service) -> &'static str {
    match service {
        Service::S3 => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT as needed, or AWS_SKIP_SIGNATURE=true for what is public"
        }
        Service::Google => {
            "set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials, or GOOGLE_SKIP_SIGNATURE=true for what is public"
        }
        Service::Azure => {
            "set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY, or AZURE_SKIP_SIGNATURE=true for what is public"
        }
        Service::Http => {
            "web addresses are read without credentials; a signed address may have run out"
        }
    }
}

/// The error and what it comes from.
fn chain(error: &Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    // A chain this long can only be a cycle.
    std::iter::from_fn(move || {
        let current = next?;
        next = current.source();
        Some(current)
    })
    .take(32)
}

fn find<T: StdError + 'static>(error: &Error) -> Option<&T> {
    chain(error).find_map(|error| error.downcast_ref::<T>())
}

/// All that is said, for a look at it; it may hold secrets.
fn whole(error: &Error) -> String {
    chain(error)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// The last word on the matter, in one line: what the errors before it add is the request, whose address
/// may hold a signature.
fn said(error: &Error) -> String {
    let last = chain(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default();
    let answer = last
        .strip_prefix("Server returned non-2xx status code: ")
        .map(|answer| match answer.split_once(": ") {
            Some((status, body)) => match in_body(body) {
                Some(text) => format!("{status} ({text})"),
                None => status.to_owned(),
            },
            None => answer.to_owned(),
        });
    shortened(&without_queries(&answer.unwrap_or(last)))
}

/// The code and message in the XML that stores answer with. Other bodies are pages for people.
fn in_body(body: &str) -> Option<String> {
    let element = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        let (text, _) = rest.split_once(&format!("</{name}>"))?;
        Some(text.to_owned())
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => Some(format!("{code}: {message}")),
        (code, message) => code.or(message),
    }
}

/// Leaves out what stands behind a question mark in an address.
fn without_queries(text: &str) -> String {
    let words = text.split_whitespace().map(|word| match word.find('?') {
        Some(at) if word.contains("://") => word.get(..at).unwrap_or_default(),
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn shortened(text: &str) -> String {
    let text = text.trim_end_matches([' ', ':', '.']);
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Error {
        Error::Generic {
            store: "S3",
            source: text.to_owned().into(),
        }
    }

    #[test]
    fn answers_of_stores_become_a_line() {
        let error = generic(
            "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>No way</Message></Error>",
        );
        assert_eq!(said(&error), "403 Forbidden (AccessDenied: No way)");
        let page =
            generic("Server returned non-2xx status code: 500 Internal Server Error: <html>…");
        assert_eq!(said(&page), "500 Internal Server Error");
    }

    #[test]
    fn signatures_are_left_out() {
        let error = generic("error for\nhttps://example.org/a?sig=secret of today");
        assert_eq!(said(&error), "error for https://example.org/a of today");
        let long = said(&generic(&"x".repeat(1000)));
        assert_eq!(long.chars().count(), LONGEST + 1);
    }

    #[test]
    fn a_look_for_credentials_of_a_machine_says_that_there_are_none() {
        let error = generic("Error performing PUT http://169.254.169.254/latest/api/token");
        let failure = StoreFailure::of(Service::S3, &error);
        assert!(
            failure.to_string().contains("AWS_ACCESS_KEY_ID"),
            "{failure}"
        );
    }
}
