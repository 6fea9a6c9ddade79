//! A reader of Arrow IPC files and streams for files that nobody vouches for.
//!
//! Framing is done here, with every length checked against the file's real size; messages are
//! decoded by arrow-rs, with its validation on. Its panics on corrupt input become errors.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow::ipc::{Block, Message, MessageHeader, root_as_footer, root_as_message};

use super::ipc_check::{body_length, check_body, check_schema};
use super::{InputError, Source};
use crate::cli::terminal::without_panic_output;

const MAGIC: &[u8; 6] = b"ARROW1";
const CONTINUATION: u32 = u32::MAX;
/// Footer length and magic bytes at the end of a file.
const TRAILER: u64 = 10;

/// Which of the two forms of Arrow IPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    File,
    Stream,
}

/// An open file whose schema has been read.
pub(super) struct IpcReader {
    path: PathBuf,
    bytes: Bytes,
    /// Bytes from here to the end; `None` where nobody knows.
    remaining: Option<u64>,
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Record batches still to be read, last first; `None` for a stream, which is read in order.
    blocks: Option<Vec<BlockAt>>,
}

/// What is read from.
enum Bytes {
    /// From front to back.
    InOrder(BufReader<Box<dyn Read + Send>>),
    /// Where the footer says.
    Anywhere(BufReader<File>),
}

impl Bytes {
    fn reader(&mut self) -> &mut dyn Read {
        match self {
            Bytes::InOrder(reader) => reader,
            Bytes::Anywhere(reader) => reader,
        }
    }
}

#[derive(Clone, Copy)]
struct BlockAt {
    offset: u64,
    metadata: u64,
    body: u64,
}

impl IpcReader {
    /// Opens a source for a look at its schema only.
    pub(super) fn look(source: &Source, framing: Framing) -> Result<Self, InputError> {
        match framing {
            Framing::File => Self::open(source, framing),
            Framing::Stream => Self::stream(source, source.look()?),
        }
    }

    /// Opens a source and reads its schema.
    pub(super) fn open(source: &Source, framing: Framing) -> Result<Self, InputError> {
        match framing {
            Framing::Stream => Self::stream(source, source.open()?),
            Framing::File => {
                let file = source.open_file()?;
                let size = file
                    .metadata()
                    .map_err(InputError::read(source.name()))?
                    .len();
                let bytes = Bytes::Anywhere(BufReader::with_capacity(64 << 10, file));
                let mut reader = Self::new(source, bytes, Some(size));
                reader.read_footer(size)?;
                Ok(reader)
            }
        }
    }

    fn stream(source: &Source, bytes: BufReader<Box<dyn Read + Send>>) -> Result<Self, InputError> {
        let size = match source.path() {
            None => None,
            Some(path) => {
                let about = std::fs::metadata(path).map_err(InputError::read(source.name()))?;
                Some(about.len())
            }
        };
        let mut reader = Self::new(source, Bytes::InOrder(bytes), size);
        reader.read_schema_message()?;
        Ok(reader)
    }

    fn new(source: &Source, bytes: Bytes, remaining: Option<u64>) -> Self {
        IpcReader {
            path: source.name().to_owned(),
            bytes,
            remaining,
            schema: Arc::new(Schema::empty()),
            dictionaries: HashMap::new(),
            blocks: None,
        }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch, with the columns of `projection`.
    pub(super) fn next(&mut self, projection: &[usize]) -> Result<Option<RecordBatch>, InputError> {
        loop {
            let Some((metadata, body)) = self.next_message()? else {
                return Ok(None);
            };
            let message = self.parse(&metadata)?;
            check_body(&message, &body).map_err(|reason| self.corrupt(reason))?;
            match message.header_type() {
                MessageHeader::RecordBatch => {
                    return self.decode_batch(&message, &body, projection).map(Some);
                }
                MessageHeader::DictionaryBatch => self.decode_dictionary(&message, &body)?,
                other => {
                    return Err(
                        self.corrupt(format!("a message of kind {other:?} among the batches"))
                    );
                }
            }
        }
    }

    fn decode_batch(
        &self,
        message: &Message<'_>,
        body: &Buffer,
        projection: &[usize],
    ) -> Result<RecordBatch, InputError> {
        let batch = message
            .header_as_record_batch()
            .ok_or_else(|| self.corrupt("a batch without a header"))?;
        self.guarded(|| {
            RecordBatchDecoder::try_new(
                body,
                batch,
                Arc::clone(&self.schema),
                &self.dictionaries,
                &message.version(),
            )?
            .with_projection(Some(projection))
            .read_record_batch()
        })
    }

    fn decode_dictionary(
        &mut self,
        message: &Message<'_>,
        body: &Buffer,
    ) -> Result<(), InputError> {
        let batch = message
            .header_as_dictionary_batch()
            .ok_or_else(|| self.corrupt("a dictionary without a header"))?;
        let mut dictionaries = std::mem::take(&mut self.dictionaries);
        self.guarded(|| {
            read_dictionary(
                body,
                batch,
                &self.schema,
                &mut dictionaries,
                &message.version(),
            )
        })?;
        self.dictionaries = dictionaries;
        Ok(())
    }

    /// Runs arrow-rs, whose panics mean that the file is corrupt.
    fn guarded<T>(&self, decode: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, InputError> {
        match without_panic_output(decode) {
            Ok(Ok(decoded)) => Ok(decoded),
            Ok(Err(error)) => Err(self.corrupt(error.to_string())),
            Err(_) => Err(InputError::contradictory(&self.path)),
        }
    }

    fn corrupt(&self, reason: impl Into<String>) -> InputError {
        InputError::corrupt(&self.path, reason)
    }

    fn parse<'m>(&self, metadata: &'m [u8]) -> Result<Message<'m>, InputError> {
        root_as_message(metadata)
            .map_err(|e| self.corrupt(format!("the metadata of a message is malformed: {e}")))
    }

    fn take_schema(&self, schema: arrow::ipc::Schema<'_>) -> Result<SchemaRef, InputError> {
        check_schema(&schema).map_err(|reason| InputError::unsupported(&self.path, reason))?;
        self.guarded(|| Ok(Arc::new(fb_to_schema(schema))))
    }

    // Streams: messages one after the other.

    fn read_schema_message(&mut self) -> Result<(), InputError> {
        let Some((metadata, _)) = self.next_in_stream()? else {
            return Err(self.corrupt("it ends before its schema"));
        };
        let message = self.parse(&metadata)?;
        let schema = message
            .header_as_schema()
            .ok_or_else(|| self.corrupt("it does not begin with a schema"))?;
        self.schema = self.take_schema(schema)?;
        Ok(())
    }

    fn next_message(&mut self) -> Result<Option<(Buffer, Buffer)>, InputError> {
        match &mut self.blocks {
            None => self.next_in_stream(),
            Some(blocks) => match blocks.pop() {
                Some(block) => self.read_block(block).map(Some),
                None => Ok(None),
            },
        }
    }

    fn next_in_stream(&mut self) -> Result<Option<(Buffer, Buffer)>, InputError> {
        // A stream may end without saying so.
        let Some(mut length) = self.read_u32_or_end()? else {
            return Ok(None);
        };
        if length == CONTINUATION {
            length = self
                .read_u32_or_end()?
                .ok_or_else(|| self.corrupt("it ends within a message"))?;
        }
        if length == 0 {
            return Ok(None);
        }
        let metadata = self.read_bytes(u64::from(length), "the metadata of a message")?;
        let body = body_length(&self.parse(&metadata)?, self.remaining.unwrap_or(u64::MAX))
            .map_err(|reason| self.corrupt(reason))?;
        let body = self.read_bytes(body as u64, "the body of a message")?;
        Ok(Some((metadata, body)))
    }

    fn read_u32_or_end(&mut self) -> Result<Option<u32>, InputError> {
        let bytes = self.read_at_most(4)?;
        match <[u8; 4]>::try_from(bytes.as_slice()) {
            Ok(word) => Ok(Some(u32::from_le_bytes(word))),
            Err(_) if bytes.is_empty() => Ok(None),
            Err(_) => Err(self.corrupt("it ends within a message")),
        }
    }

    fn read_at_most(&mut self, length: u64) -> Result<Vec<u8>, InputError> {
        let mut bytes = Vec::new();
        let read = self
            .bytes
            .reader()
            .take(length)
            .read_to_end(&mut bytes)
            .map_err(InputError::read(&self.path))?;
        self.pass(read as u64);
        Ok(bytes)
    }

    fn pass(&mut self, bytes: u64) {
        self.remaining = self.remaining.map(|left| left.saturating_sub(bytes));
    }

    /// Exactly `length` bytes. Memory is taken only for bytes that exist.
    fn read_bytes(&mut self, length: u64, what: &str) -> Result<Buffer, InputError> {
        let Some(left) = self.remaining else {
            let bytes = self.read_at_most(length)?;
            if bytes.len() as u64 != length {
                return Err(self.corrupt(format!(
                    "{what} claims {length} bytes where {} were left",
                    bytes.len()
                )));
            }
            return Ok(Buffer::from_vec(bytes));
        };
        let size = usize::try_from(length).ok().filter(|_| length <= left);
        let Some(size) = size else {
            return Err(self.corrupt(format!(
                "{what} claims {length} bytes where {left} are left"
            )));
        };
        let mut buffer = MutableBuffer::from_len_zeroed(size);
        self.bytes
            .reader()
            .read_exact(&mut buffer)
            .map_err(InputError::read(&self.path))?;
        self.pass(length);
        Ok(buffer.into())
    }

    // Files: a footer says where the messages are.

    fn read_footer(&mut self, size: u64) -> Result<(), InputError> {
        let magic = self.read_at_most(MAGIC.len() as u64)?;
        if magic.as_slice() != MAGIC {
            return Err(self.corrupt("it is not an Arrow file: it does not begin with ARROW1"));
        }
        let end = size.saturating_sub(TRAILER);
        let trailer = self.read_range(end, size.min(TRAILER), "the end of the file")?;
        let Some((length, _)) = trailer
            .split_first_chunk::<4>()
            .filter(|(_, magic)| *magic == MAGIC)
        else {
            return Err(self.corrupt(
                "it does not end with a footer; it may be cut short, or be an Arrow stream",
            ));
        };
        let length = u64::from(u32::from_le_bytes(*length));
        let start = end
            .checked_sub(length)
            .ok_or_else(|| self.corrupt(format!("its footer claims {length} bytes")))?;
        let bytes = self.read_range(start, length, "the footer")?;
        let footer = root_as_footer(&bytes)
            .map_err(|e| self.corrupt(format!("its footer is malformed: {e}")))?;
        let schema = footer
            .schema()
            .ok_or_else(|| self.corrupt("its footer has no schema"))?;
        self.schema = self.take_schema(schema)?;
        for block in footer.dictionaries().into_iter().flatten() {
            let (metadata, body) = self.read_block(self.block(block)?)?;
            let message = self.parse(&metadata)?;
            check_body(&message, &body).map_err(|reason| self.corrupt(reason))?;
            self.decode_dictionary(&message, &body)?;
        }
        let batches = footer.recordBatches().into_iter().flatten();
        let mut blocks = batches
            .map(|block| self.block(block))
            .collect::<Result<Vec<_>, _>>()?;
        blocks.reverse();
        self.blocks = Some(blocks);
        Ok(())
    }

    fn block(&self, block: &Block) -> Result<BlockAt, InputError> {
        let positive = |n: i64| {
            u64::try_from(n)
                .map_err(|_| self.corrupt("its footer has a block of negative size or place"))
        };
        Ok(BlockAt {
            offset: positive(block.offset())?,
            metadata: positive(i64::from(block.metaDataLength()))?,
            body: positive(block.bodyLength())?,
        })
    }

    fn read_block(&mut self, block: BlockAt) -> Result<(Buffer, Buffer), InputError> {
        let prefixed = self.read_range(block.offset, block.metadata, "the metadata of a block")?;
        let skip = match prefixed.split_first_chunk::<4>() {
            Some((word, _)) if u32::from_le_bytes(*word) == CONTINUATION => 8,
            _ => 4,
        };
        if prefixed.len() < skip {
            return Err(self.corrupt("the metadata of a block is too short"));
        }
        // Copied so that it begins where the flatbuffer needs it, whatever the prefix.
        let metadata = Buffer::from(prefixed.as_slice().get(skip..).unwrap_or_default());
        let claimed = body_length(&self.parse(&metadata)?, block.body)
            .map_err(|reason| self.corrupt(reason))?;
        let at = block.offset.saturating_add(block.metadata);
        let body = self.read_range(at, claimed as u64, "the body of a block")?;
        Ok((metadata, body))
    }

    fn read_range(&mut self, start: u64, length: u64, what: &str) -> Result<Buffer, InputError> {
        let Bytes::Anywhere(file) = &mut self.bytes else {
            return Err(self.corrupt("it cannot be read out of order"));
        };
        let read = || InputError::read(&self.path);
        let size = file.get_ref().metadata().map_err(read())?.len();
        file.seek(SeekFrom::Start(start)).map_err(read())?;
        self.remaining = Some(size.saturating_sub(start));
        self.read_bytes(length, what)
    }
}
