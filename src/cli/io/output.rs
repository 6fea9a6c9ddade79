//! Where the result goes: a file that appears when it is complete, or the standard output.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use super::source::STANDARD;
use super::{Format, OutputError, StagedFile};

/// The place of the result.
#[derive(Debug)]
pub(crate) enum Output {
    /// A file.
    File(StagedFile),
    /// The standard output.
    Stdout,
}

/// How the standard output is called in messages.
const STDOUT_NAME: &str = "the standard output";

impl Output {
    /// Prepares to write to `target`; `None` and `-` are the standard output.
    pub(crate) fn create(target: Option<&Path>, format: Format) -> Result<Self, OutputError> {
        match target.filter(|path| *path != Path::new(STANDARD)) {
            Some(path) => Ok(Output::File(StagedFile::create(path)?)),
            None if format.is_binary() && std::io::stdout().is_terminal() => {
                Err(OutputError::Encode {
                    path: PathBuf::from(STDOUT_NAME),
                    reason: format!(
                        "{} is not for a terminal; name a file with -o FILE, or send it into a pipe",
                        format.name()
                    ),
                })
            }
            None => Ok(Output::Stdout),
        }
    }

    /// The name in messages.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Output::File(file) => file.target(),
            Output::Stdout => Path::new(STDOUT_NAME),
        }
    }

    /// The file to write, which is moved into place later; the standard output has none.
    pub(super) fn staged_path(&self) -> Option<PathBuf> {
        match self {
            Output::File(file) => Some(file.path()),
            Output::Stdout => None,
        }
    }

    /// Makes the result appear. Gives its size in bytes where it is a file.
    pub(crate) fn commit(self) -> Result<Option<u64>, OutputError> {
        match self {
            Output::File(file) => file.commit().map(Some),
            Output::Stdout => Ok(None),
        }
    }
}
