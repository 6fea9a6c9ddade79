//! Formats that batches are written in.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow::json::writer::{JsonArray, LineDelimited, Writer as JsonWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::error::EncodeError;
use super::table::TableWriter;
use super::unify::Unifier;
use super::{Format, OutputError};
use crate::cli::terminal::without_panic_output;

/// Rows of a Parquet row group. The writer holds a whole group in memory; this many rows keep wide
/// tables small and still make good reading.
const ROW_GROUP_ROWS: usize = 256 << 10;

/// Bytes of a Parquet row group before compression, for tables of few and long rows.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Bytes that are written at a time.
const BUFFER: usize = 1 << 20;

/// How batches become bytes.
#[derive(Debug, Clone)]
pub(crate) struct Encoding {
    /// The format.
    pub(crate) format: Format,
    /// Of Parquet pages.
    pub(crate) compression: Compression,
    /// Whether each batch is handed to the operating system at once.
    pub(crate) live: bool,
}

impl Encoding {
    /// A format as it is written by default.
    pub(crate) fn of(format: Format) -> Self {
        Encoding {
            format,
            compression: Compression::ZSTD(ZstdLevel::default()),
            live: false,
        }
    }
}

/// Where the bytes go. Some encoders lose what the operating system said, so it is kept here.
struct Destination {
    bytes: Box<dyn Write + Send>,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Destination {
    fn noting<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            let kept = match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            };
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        }
        result
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.bytes.write(bytes);
        self.noting(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.bytes.flush();
        self.noting(result)
    }
}

type Bytes = BufWriter<Destination>;

/// Writes batches in one format.
pub(crate) struct Encoder {
    writer: Writer,
    live: bool,
    failure: Arc<Mutex<Option<io::Error>>>,
}

enum Writer {
    ArrowFile(Box<FileWriter<Bytes>>, Box<Unifier>),
    ArrowStream(Box<StreamWriter<Bytes>>),
    Csv(Box<arrow::csv::Writer<Bytes>>),
    Jsonl(Box<JsonWriter<Bytes, LineDelimited>>),
    Json(Box<JsonWriter<Bytes, JsonArray>>),
    Parquet(Box<ArrowWriter<Bytes>>),
    Table(Box<TableWriter<Bytes>>),
}

impl Encoder {
    /// Begins to write to `bytes`.
    pub(crate) fn create(
        schema: &SchemaRef,
        bytes: Box<dyn Write + Send>,
        encoding: &Encoding,
    ) -> Result<Self, EncodeError> {
        let failure = Arc::default();
        let destination = Destination {
            bytes,
            failure: Arc::clone(&failure),
        };
        let writer = Writer::new(
            schema,
            BufWriter::with_capacity(BUFFER, destination),
            encoding,
        );
        match writer {
            Ok(writer) => Ok(Encoder {
                writer,
                live: encoding.live,
                failure,
            }),
            Err(error) => Err(said(&failure, error)),
        }
    }

    /// Writes a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let written = self.writer.write(batch).and_then(|()| match self.live {
            true => self.writer.flush(),
            false => Ok(()),
        });
        written.map_err(|e| said(&self.failure, e))
    }

    /// Ends the file: all has been handed to the operating system when this returns.
    pub(crate) fn finish(self) -> Result<(), EncodeError> {
        let failure = self.failure;
        self.writer.finish().map_err(|e| said(&failure, e))
    }
}

/// The operating system's own error where there is one.
fn said(failure: &Mutex<Option<io::Error>>, error: EncodeError) -> EncodeError {
    let kept = failure
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    kept.map_or(error, EncodeError::Io)
}

impl Writer {
    fn new(schema: &SchemaRef, bytes: Bytes, encoding: &Encoding) -> Result<Self, EncodeError> {
        let json = || arrow::json::WriterBuilder::new().with_explicit_nulls(true);
        Ok(match encoding.format {
            Format::Arrow => {
                // A file may add to a dictionary and not replace it.
                let options =
                    IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
                Writer::ArrowFile(
                    Box::new(FileWriter::try_new_with_options(bytes, schema, options)?),
                    Box::new(Unifier::new(schema)),
                )
            }
            Format::ArrowStream => {
                Writer::ArrowStream(Box::new(StreamWriter::try_new(bytes, schema)?))
            }
            Format::Csv => {
                let mut writer = arrow::csv::Writer::new(bytes);
                // The header comes with the first batch, and there may be none.
                writer.write(&RecordBatch::new_empty(Arc::clone(schema)))?;
                Writer::Csv(Box::new(writer))
            }
            Format::Jsonl => Writer::Jsonl(Box::new(json().build(bytes))),
            Format::Json => Writer::Json(Box::new(json().build(bytes))),
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(encoding.compression)
                    .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
                    .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
                    .set_created_by(concat!("wasmill ", env!("CARGO_PKG_VERSION")).to_owned())
                    .build();
                let writer = ArrowWriter::try_new(bytes, Arc::clone(schema), Some(properties))?;
                Writer::Parquet(Box::new(writer))
            }
            Format::Table => Writer::Table(Box::new(TableWriter::new(schema, bytes))),
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        match self {
            Writer::ArrowFile(writer, unifier) => writer.write(&unifier.unify(batch)?)?,
            Writer::ArrowStream(writer) => writer.write(batch)?,
            Writer::Csv(writer) => writer.write(batch)?,
            Writer::Jsonl(writer) => writer.write(batch)?,
            Writer::Json(writer) => writer.write(batch)?,
            Writer::Parquet(writer) => writer.write(batch)?,
            Writer::Table(writer) => writer.write(batch),
        }
        Ok(())
    }

    /// Hands over what was written, where the format can be read so far.
    fn flush(&mut self) -> Result<(), EncodeError> {
        match self {
            Writer::ArrowStream(writer) => writer.get_mut().flush()?,
            Writer::Jsonl(writer) => writer.get_mut().flush()?,
            // After each batch anyway.
            Writer::Csv(_) => {}
            Writer::ArrowFile(..) | Writer::Json(_) | Writer::Parquet(_) | Writer::Table(_) => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<(), EncodeError> {
        let mut bytes = match self {
            Writer::ArrowFile(writer, _) => writer.into_inner()?,
            Writer::ArrowStream(writer) => writer.into_inner()?,
            Writer::Csv(writer) => writer.into_inner(),
            Writer::Jsonl(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
            Writer::Json(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
            Writer::Parquet(writer) => writer.into_inner()?,
            Writer::Table(writer) => writer.finish()?,
        };
        bytes.flush()?;
        Ok(())
    }
}

/// Refuses columns that the format has no place for, before anything runs.
pub(crate) fn check_columns(
    schema: &Schema,
    encoding: &Encoding,
    target: &Path,
) -> Result<(), OutputError> {
    for field in schema.fields() {
        if let Err(reason) = try_column(field, encoding) {
            return Err(OutputError::Column {
                path: target.to_owned(),
                column: field.name().clone(),
                data_type: field.data_type().to_string(),
                reason,
            });
        }
    }
    Ok(())
}

/// Asks the format's own writer, with one row of nothing.
fn try_column(field: &Field, encoding: &Encoding) -> Result<(), String> {
    let nullable = field.clone().with_nullable(true);
    let attempt = || -> Result<(), EncodeError> {
        let schema = Arc::new(Schema::new(vec![nullable]));
        let nothing = new_null_array(field.data_type(), 1);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![nothing])?;
        let mut encoder = Encoder::create(&schema, Box::new(io::sink()), encoding)?;
        encoder.write(&batch)?;
        encoder.finish()
    };
    match without_panic_output(attempt) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(EncodeError::Io(error))) => Err(error.to_string()),
        Ok(Err(EncodeError::Other(reason))) => Err(reason),
        Err(_) => Err("the format's writer does not know it".to_owned()),
    }
}
