//! What can be wrong with a file.

use std::io;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use parquet::errors::ParquetError;

use super::Source;
use super::address::AddressError;

/// An input that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// The operating system says no.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is the address of nothing.
    #[error("cannot read {}: {reason}", path.display())]
    Address {
        /// What was given, without secrets.
        path: PathBuf,
        /// What is wrong.
        reason: AddressError,
    },
    /// Its bytes contradict themselves or its format.
    #[error("{} cannot be decoded: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// It is sound, and not something that can be read here.
    #[error("{} cannot be used: {reason}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl InputError {
    /// For `map_err` on operating system calls.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| InputError::Read {
            path: path.to_owned(),
            source,
        }
    }

    /// A file whose bytes are wrong.
    pub(crate) fn corrupt(path: &Path, reason: impl Into<String>) -> Self {
        InputError::Corrupt {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    /// A file on which its reader panicked. What the panic says is about the reader's code.
    pub(crate) fn contradictory(path: &Path) -> Self {
        Self::corrupt(path, "its contents contradict themselves")
    }

    /// What DataFusion's reader says of a source.
    pub(super) fn of_reader(source: &Source, error: &DataFusionError) -> Self {
        match source.object().and_then(|object| object.failure(error)) {
            Some(failure) => Self::read(source.name())(failure),
            None => Self::corrupt(source.name(), error.strip_backtrace()),
        }
    }

    /// A file that is not supported.
    pub(crate) fn unsupported(path: &Path, reason: impl Into<String>) -> Self {
        InputError::Unsupported {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

/// An output that cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The operating system says no.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is the address of nothing.
    #[error("cannot write {}: {reason}", path.display())]
    Address {
        /// What was given, without secrets.
        path: PathBuf,
        /// What is wrong.
        reason: AddressError,
    },
    /// The format has no place for a column.
    #[error("{} cannot hold the column `{column}` of type {data_type}: {reason}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type.
        data_type: String,
        /// What the format's writer says.
        reason: String,
    },
    /// The writer failed.
    #[error("cannot write {}: {reason}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the format's writer says.
        reason: String,
    },
}

impl OutputError {
    /// For `map_err` on operating system calls.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| OutputError::Write {
            path: path.to_owned(),
            source,
        }
    }
}

/// What went wrong; it does not know the name of the output.
pub(crate) enum EncodeError {
    Io(io::Error),
    Other(String),
}

impl EncodeError {
    /// For the output `target`.
    pub(crate) fn at(self, target: &Path) -> OutputError {
        let path = target.to_owned();
        match self {
            EncodeError::Io(source) => OutputError::Write { path, source },
            EncodeError::Other(reason) => OutputError::Encode { path, reason },
        }
    }
}

impl From<io::Error> for EncodeError {
    fn from(error: io::Error) -> Self {
        EncodeError::Io(error)
    }
}

impl From<ArrowError> for EncodeError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, source) => EncodeError::Io(source),
            ArrowError::CsvError(text) => EncodeError::Other(text),
            other => EncodeError::Other(other.to_string()),
        }
    }
}

impl From<ParquetError> for EncodeError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(source) => EncodeError::Io(*source),
                Err(other) => EncodeError::Other(other.to_string()),
            },
            other => EncodeError::Other(other.to_string()),
        }
    }
}
