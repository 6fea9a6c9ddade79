//! Text that somebody is still writing: rows are given on after a while, also when they are few.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

use super::{InputError, Source};

/// Pieces that wait to be decoded.
const READ_AHEAD: usize = 16;
/// Bytes of a piece at most.
const PIECE: usize = 64 << 10;

/// A decoder that is fed as bytes come.
pub(super) trait PushDecoder: Send {
    /// Takes bytes in; gives how many. Fewer than there are when the batch is full.
    fn decode(&mut self, bytes: &[u8]) -> Result<usize, ArrowError>;
    /// Rows taken in since the last flush.
    fn rows(&self) -> usize;
    /// The rows taken in.
    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError>;
}

/// The batches of a source that is still being written.
pub(super) struct LiveBatches<D> {
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// Bytes that have come and have not been decoded.
    waiting: Vec<u8>,
    decoder: D,
    /// How long a row waits at most.
    patience: Duration,
    /// When the first of the waiting rows came.
    since: Option<Instant>,
    ended: bool,
    lines: Lines,
    name: PathBuf,
    explain: fn(PathBuf, &ArrowError) -> InputError,
}

impl<D: PushDecoder> LiveBatches<D> {
    /// Reads `source` on a thread of its own. With a `delimiter` of fields, line ends within a quoted field
    /// end no row.
    pub(super) fn open(
        source: &Source,
        decoder: D,
        patience: Duration,
        delimiter: Option<u8>,
        explain: fn(PathBuf, &ArrowError) -> InputError,
    ) -> Result<Self, InputError> {
        let name = source.name().to_owned();
        let mut bytes = source.open_unbuffered()?;
        let (send, pieces) = sync_channel(READ_AHEAD);
        std::thread::Builder::new()
            .name("wasmill-input".to_owned())
            .spawn(move || {
                loop {
                    let mut piece = vec![0; PIECE];
                    let read = match bytes.read(&mut piece) {
                        Ok(0) => return,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                        Ok(read) => {
                            piece.truncate(read);
                            Ok(piece)
                        }
                        Err(e) => Err(e),
                    };
                    let failed = read.is_err();
                    if send.send(read).is_err() || failed {
                        return;
                    }
                }
            })
            .map_err(InputError::read(&name))?;
        Ok(LiveBatches {
            pieces,
            waiting: Vec::new(),
            decoder,
            patience,
            since: None,
            ended: false,
            lines: Lines::new(delimiter),
            name,
            explain,
        })
    }

    /// Decodes whole rows until there are no more or the batch is full.
    fn feed(&mut self) -> Result<bool, ArrowError> {
        let whole = match self.ended {
            true => self.waiting.len(),
            false => self.lines.complete(&self.waiting),
        };
        let mut done = 0_usize;
        let mut full = false;
        while done < whole && !full {
            let bytes = self.waiting.get(done..whole).unwrap_or_default();
            let taken = self.decoder.decode(bytes)?;
            full = taken < bytes.len();
            done = done.saturating_add(taken);
        }
        if self.ended && !full {
            // Tells the decoder that the last line needs no end.
            self.decoder.decode(&[])?;
        }
        self.waiting.drain(..done);
        self.lines.forget(done);
        if self.decoder.rows() > 0 && self.since.is_none() {
            self.since = Some(Instant::now());
        }
        Ok(full)
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        self.since = None;
        self.decoder.flush()
    }

    fn step(&mut self) -> Result<Option<RecordBatch>, InputError> {
        let (explain, name) = (self.explain, self.name.clone());
        let failed = move |e: ArrowError| explain(name.clone(), &e);
        loop {
            if self.feed().map_err(&failed)? {
                if let Some(batch) = self.flush().map_err(&failed)? {
                    return Ok(Some(batch));
                }
                continue;
            }
            if self.ended {
                return self.flush().map_err(&failed);
            }
            let received = match self.since {
                None => self
                    .pieces
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                Some(since) => self
                    .pieces
                    .recv_timeout(self.patience.saturating_sub(since.elapsed())),
            };
            match received {
                Ok(Ok(piece)) => self.waiting.extend_from_slice(&piece),
                Ok(Err(e)) => return Err(InputError::read(&self.name)(e)),
                Err(RecvTimeoutError::Disconnected) => self.ended = true,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(batch) = self.flush().map_err(&failed)? {
                        return Ok(Some(batch));
                    }
                }
            }
        }
    }
}

impl<D: PushDecoder> Iterator for LiveBatches<D> {
    type Item = Result<RecordBatch, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Finds the end of the last whole line.
pub(super) struct Lines {
    /// What separates fields, where line ends within a quoted field end no line.
    delimiter: Option<u8>,
    at: Place,
    /// Where the last whole line ends.
    complete: usize,
    /// Whole lines that have been seen.
    count: usize,
    /// Bytes that have been looked at.
    seen: usize,
}

/// Where in a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before its first byte, which alone can be a quote that matters.
    Start,
    Plain,
    Quoted,
    /// After a quote within quotes: the field ends, or the quote was the first of two.
    Quote,
}

impl Lines {
    pub(super) fn new(delimiter: Option<u8>) -> Self {
        Lines {
            delimiter,
            at: Place::Start,
            complete: 0,
            count: 0,
            seen: 0,
        }
    }

    /// How many whole lines have been seen.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Looks at the bytes that have come; gives where the last whole line ends.
    pub(super) fn complete(&mut self, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate().skip(self.seen) {
            self.at = match (self.at, *byte) {
                (Place::Quoted, b'"') => Place::Quote,
                (Place::Quoted, _) => Place::Quoted,
                (_, b'\n') => {
                    self.complete = at.saturating_add(1);
                    self.count = self.count.saturating_add(1);
                    Place::Start
                }
                (_, b'\r') => Place::Start,
                (_, byte) if Some(byte) == self.delimiter => Place::Start,
                (Place::Start | Place::Quote, b'"') if self.delimiter.is_some() => Place::Quoted,
                _ => Place::Plain,
            };
        }
        self.seen = bytes.len();
        self.complete
    }

    fn forget(&mut self, bytes: usize) {
        self.complete = self.complete.saturating_sub(bytes);
        self.seen = self.seen.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_outside_quotes_only() {
        let mut lines = Lines::new(Some(b','));
        let mut bytes = b"a,b\n1,\"x\n".to_vec();
        assert_eq!(lines.complete(&bytes), 4);
        lines.forget(4);
        bytes.drain(..4);
        bytes.extend(b"y \"\" z\"\n2");
        assert_eq!(lines.complete(&bytes), bytes.len() - 1);
        assert_eq!(lines.count(), 2);
    }

    #[test]
    fn a_quote_in_the_middle_of_a_field_is_a_character() {
        let whole = |text: &str| Lines::new(Some(b',')).complete(text.as_bytes()) == text.len();
        assert!(whole("1,5\" disk\n"));
        assert!(whole("1,\"a\"b\"c\n"));
        assert!(whole("\"\",\"\"\"\"\n"));
        assert!(!whole("1,\"5 disk\n"));
        assert!(!whole("1,\"\"\"\n"));
        // In JSON lines a quote never hides the end of one.
        assert_eq!(Lines::new(None).complete(b"{\"a\n"), 4);
    }
}
