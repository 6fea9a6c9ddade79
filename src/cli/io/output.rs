//! Where the result goes: a file or object that appears when it is complete, or the standard output.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use super::address::{StoreAddress, shown};
use super::source::STANDARD;
use super::stores::{Upload, UploadWriter, Uploads};
use super::{Format, OutputError, StagedFile};

/// The place of the result.
#[derive(Debug)]
pub(crate) enum Output {
    /// A file.
    File(StagedFile),
    /// An object of a store.
    Object(Upload),
    /// The standard output.
    Stdout,
}

/// What an encoder writes to.
#[derive(Debug, Clone)]
pub(super) enum Destination {
    File(PathBuf),
    Object(UploadWriter),
    /// Below a bar, which goes where the terminal has both.
    Stdout(ProgressBar),
}

impl Destination {
    /// Begins to write.
    pub(super) fn open(self) -> io::Result<Box<dyn Write + Send>> {
        Ok(match self {
            Destination::File(path) => Box::new(File::create(path)?),
            Destination::Object(writer) => Box::new(writer),
            Destination::Stdout(bar) if io::stdout().is_terminal() => Box::new(BelowBar(bar)),
            Destination::Stdout(_) => Box::new(io::stdout()),
        })
    }
}

/// The terminal, without the bar that it has shown until there is something to write.
struct BelowBar(ProgressBar);

impl Write for BelowBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.finish_and_clear();
        io::stdout().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// How the standard output is called in messages.
const STDOUT_NAME: &str = "the standard output";

impl Output {
    /// Prepares to write to `target`; `None` and `-` are the standard output. Whoever calls it lets
    /// `uploads` settle at the end.
    pub(crate) async fn create(
        target: Option<&Path>,
        format: Format,
        uploads: &Uploads,
    ) -> Result<Self, OutputError> {
        match target.filter(|path| *path != Path::new(STANDARD)) {
            Some(path) => match StoreAddress::parse(path) {
                Ok(Some(address)) => Ok(Output::Object(Upload::begin(&address, uploads).await?)),
                Ok(None) => Ok(Output::File(StagedFile::create(path)?)),
                Err(reason) => Err(OutputError::Address {
                    path: shown(path),
                    reason,
                }),
            },
            None if format.is_binary() && io::stdout().is_terminal() => Err(OutputError::Encode {
                path: PathBuf::from(STDOUT_NAME),
                reason: format!(
                    "{} is not for a terminal; name a file with -o FILE, or send it into a pipe",
                    format.name()
                ),
            }),
            None => Ok(Output::Stdout),
        }
    }

    /// The name in messages.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Output::File(file) => file.target(),
            Output::Object(upload) => upload.name(),
            Output::Stdout => Path::new(STDOUT_NAME),
        }
    }

    /// Where to write what [`Output::commit`] makes appear. The bar is that of the writing.
    pub(super) fn destination(&self, bar: &ProgressBar) -> Destination {
        match self {
            Output::File(file) => Destination::File(file.path()),
            Output::Object(upload) => Destination::Object(upload.writer()),
            Output::Stdout => Destination::Stdout(bar.clone()),
        }
    }

    /// Makes the result appear. Gives its size in bytes where it is a file or an object.
    pub(crate) async fn commit(self) -> Result<Option<u64>, OutputError> {
        match self {
            Output::File(file) => file.commit().map(Some),
            Output::Object(upload) => upload.complete().await.map(Some),
            Output::Stdout => Ok(None),
        }
    }
}
