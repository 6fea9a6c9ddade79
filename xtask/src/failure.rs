//! Why a command ended early, and the exit code that says so.

use std::fmt;
use std::path::Path;

pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub enum Failure {
    /// The command line was wrong.
    Usage(String),
    /// A step failed.
    Failed(String),
}

impl Failure {
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Failed(text) => f.write_str(text),
        }
    }
}

/// For `map_err`: what could not be done to `path`.
pub fn io<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Failure + 'a {
    move |error| Failure::Failed(format!("cannot {what} {}: {error}", path.display()))
}
