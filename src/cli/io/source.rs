//! Where input comes from: a file, the standard input, or an object of a store.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tempfile::NamedTempFile;

use super::InputError;
use super::stores::StoredObject;

/// The name that stands for the standard input and output on the command line.
pub(crate) const STANDARD: &str = "-";

/// How the standard input is called in messages.
const STDIN_NAME: &str = "the standard input";

/// Bytes by which a format can be known.
const START: u64 = 64;

/// Bytes read at a time.
const BUFFER: usize = 64 << 10;

/// One input.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The file, or what the standard input is called.
    name: PathBuf,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    File,
    Stdin(Arc<Stdin>),
    /// The standard input or an object, put into a file.
    Spooled(Arc<NamedTempFile>),
    /// An object, and its first bytes once they are known.
    Stored(Arc<StoredObject>, Arc<OnceLock<Vec<u8>>>),
}

/// The standard input, which can be read once: what a look at its beginning took is kept.
#[derive(Debug, Default)]
struct Stdin {
    looked_at: Mutex<Vec<u8>>,
}

impl Source {
    /// A file.
    pub(crate) fn file(path: PathBuf) -> Self {
        Source {
            name: path,
            place: Place::File,
        }
    }

    /// The standard input.
    pub(crate) fn stdin() -> Self {
        Source {
            name: PathBuf::from(STDIN_NAME),
            place: Place::Stdin(Arc::default()),
        }
    }

    /// An object of a store.
    #[cfg_attr(not(feature = "object-store"), allow(dead_code))]
    pub(super) fn stored(name: PathBuf, object: StoredObject) -> Self {
        Source {
            name,
            place: Place::Stored(Arc::new(object), Arc::default()),
        }
    }

    /// The object, where it is one.
    pub(super) fn object(&self) -> Option<&StoredObject> {
        match &self.place {
            Place::Stored(object, _) => Some(object),
            _ => None,
        }
    }

    /// Whether its name says something about it.
    pub(super) fn is_named(&self) -> bool {
        !matches!(self.place, Place::Stdin(_))
    }

    /// The name in messages.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// The file, where it is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::File => Some(&self.name),
            Place::Stdin(_) | Place::Stored(..) => None,
            Place::Spooled(file) => Some(file.path()),
        }
    }

    /// Its beginning, which a later [`Source::open`] gives again.
    pub(super) fn look(&self) -> Result<BufReader<Box<dyn Read + Send>>, InputError> {
        let bytes: Box<dyn Read + Send> = match &self.place {
            Place::Stdin(stdin) => Box::new(Recording {
                read: 0,
                stdin: Arc::clone(stdin),
            }),
            Place::Stored(object, _) => object.read()?,
            _ => Box::new(self.open_file()?),
        };
        Ok(BufReader::with_capacity(BUFFER, bytes))
    }

    /// Refuses what holds nothing, in which no format could be found. Waits for the first byte.
    pub(super) fn check_not_empty(&self) -> Result<(), InputError> {
        let empty = match self.object() {
            Some(_) => self.start()?.is_empty(),
            None => self
                .look()?
                .fill_buf()
                .map_err(InputError::read(&self.name))?
                .is_empty(),
        };
        match self.place {
            _ if !empty => Ok(()),
            Place::Stdin(_) => Err(InputError::unsupported(
                &self.name,
                "nothing came through it; look whether the command before the pipe failed, or name a file with -i FILE",
            )),
            _ => Err(InputError::unsupported(&self.name, "it is empty")),
        }
    }

    /// Its first bytes, by which a format can be known. Of an object they are fetched once.
    pub(super) fn start(&self) -> Result<Vec<u8>, InputError> {
        let read = || {
            let mut start = Vec::new();
            self.look()?
                .take(START)
                .read_to_end(&mut start)
                .map_err(InputError::read(&self.name))?;
            Ok(start)
        };
        match &self.place {
            Place::Stored(_, kept) => match kept.get() {
                Some(start) => Ok(start.clone()),
                None => read().map(|start| kept.get_or_init(|| start).clone()),
            },
            _ => read(),
        }
    }

    /// All of it.
    pub(super) fn open(&self) -> Result<BufReader<Box<dyn Read + Send>>, InputError> {
        Ok(BufReader::with_capacity(BUFFER, self.open_unbuffered()?))
    }

    /// All of it; a read gives what is there.
    pub(super) fn open_unbuffered(&self) -> Result<Box<dyn Read + Send>, InputError> {
        Ok(match &self.place {
            Place::Stdin(stdin) => {
                let mut kept = stdin
                    .looked_at
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                Box::new(Cursor::new(std::mem::take(&mut *kept)).chain(io::stdin()))
            }
            Place::Stored(object, _) => object.read()?,
            _ => Box::new(self.open_file()?),
        })
    }

    /// A regular file.
    pub(super) fn open_file(&self) -> Result<File, InputError> {
        let name = self.name.as_path();
        let path = self
            .path()
            .ok_or_else(|| InputError::unsupported(name, "it cannot be read out of order"))?;
        // Looked at before it is opened: opening a FIFO would wait for a writer.
        let about = std::fs::metadata(path).map_err(InputError::read(name))?;
        if about.is_dir() {
            return Err(InputError::unsupported(
                name,
                "it is a folder; name the files in it",
            ));
        }
        if !about.is_file() {
            return Err(InputError::unsupported(name, "it is not a regular file"));
        }
        File::open(path).map_err(InputError::read(name))
    }

    /// For what is read more than once: the standard input becomes a file.
    pub(super) fn repeatable(&self) -> Result<Source, InputError> {
        match self.place {
            Place::Stdin(_) => self.seekable(),
            _ => Ok(self.clone()),
        }
    }

    /// For formats that are not read from front to back: the standard input, or an object, becomes a file
    /// that goes away with the source.
    pub(super) fn seekable(&self) -> Result<Source, InputError> {
        if self.path().is_some() {
            return Ok(self.clone());
        }
        let failed = || InputError::read(&self.name);
        let mut file = NamedTempFile::with_prefix("wasmill-").map_err(failed())?;
        io::copy(&mut self.open()?, &mut file).map_err(failed())?;
        file.flush().map_err(failed())?;
        Ok(Source {
            name: self.name.clone(),
            place: Place::Spooled(Arc::new(file)),
        })
    }
}

/// Runs what reads inputs where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, InputError> + Send + 'static,
) -> Result<T, InputError> {
    let done = tokio::task::spawn_blocking(read).await;
    done.unwrap_or_else(|e| {
        Err(InputError::unsupported(
            "the input".as_ref(),
            format!("internal error: {e}"),
        ))
    })
}

/// Reads the standard input from where the look at it began, and keeps what it reads.
struct Recording {
    read: usize,
    stdin: Arc<Stdin>,
}

impl Read for Recording {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut kept = self
            .stdin
            .looked_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = match kept.get(self.read..).filter(|again| !again.is_empty()) {
            Some(mut again) => again.read(out)?,
            None => {
                let count = io::stdin().read(out)?;
                kept.extend_from_slice(out.get(..count).unwrap_or_default());
                count
            }
        };
        self.read = self.read.saturating_add(count);
        Ok(count)
    }
}
