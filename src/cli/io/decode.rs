//! Formats that are read from front to back, batch by batch.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};

use super::csv_read::{self, CsvBatches, CsvDialect};
use super::ipc_read::{Framing, IpcReader};
use super::json_read::{self, JsonBatches};
use super::json_syntax::Nesting;
use super::schema::{check_names, merge_schemas};
use super::{InputError, Source};

/// A decoder of one of the formats.
#[derive(Debug, Clone)]
pub(super) enum Decoder {
    Ipc(Framing),
    Csv(CsvDialect),
    Json(Nesting),
    /// CSV that somebody is still writing; how long a row waits at most.
    LiveCsv(CsvDialect, Duration),
    /// JSON lines that somebody is still writing.
    LiveJson(Duration),
}

/// The batches of one source.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, InputError>> + Send>;

impl Decoder {
    /// The schema that all sources share.
    pub(super) fn schema(&self, sources: &[Source]) -> Result<Schema, InputError> {
        match self {
            Decoder::Ipc(framing) => {
                let mut common: Option<Schema> = None;
                for source in sources {
                    let reader = IpcReader::look(source, *framing)?;
                    check_names(source.name(), reader.schema())?;
                    common = Some(match common {
                        None => reader.schema().as_ref().clone(),
                        Some(common) => {
                            let first = sources.first().unwrap_or(source);
                            merge_schemas(&common, first.name(), reader.schema(), source.name())?
                        }
                    });
                }
                Ok(common.unwrap_or_else(Schema::empty))
            }
            Decoder::Csv(dialect) => csv_read::infer(sources, dialect, false),
            Decoder::LiveCsv(dialect, _) => csv_read::infer(sources, dialect, true),
            Decoder::Json(nesting) => json_read::infer(sources, *nesting, false),
            Decoder::LiveJson(_) => json_read::infer(sources, Nesting::Lines, true),
        }
    }

    /// Opens a source, to be read with the common schema; gives the columns of `projection`.
    pub(super) fn open(
        &self,
        source: &Source,
        schema: &SchemaRef,
        projection: &[usize],
        batch_size: usize,
    ) -> Result<Batches, InputError> {
        Ok(match self {
            Decoder::Ipc(framing) => {
                let mut reader = IpcReader::open(source, *framing)?;
                let projection = projection.to_vec();
                Box::new(std::iter::from_fn(move || {
                    reader.next(&projection).transpose()
                }))
            }
            Decoder::Csv(dialect) => Box::new(CsvBatches::open(
                source, dialect, schema, projection, batch_size,
            )?),
            Decoder::LiveCsv(dialect, patience) => Box::new(csv_read::live(
                source, dialect, schema, projection, batch_size, *patience,
            )?),
            Decoder::LiveJson(patience) => Box::new(json_read::live(
                source, schema, projection, batch_size, *patience,
            )?),
            Decoder::Json(nesting) => Box::new(JsonBatches::open(
                source, schema, projection, batch_size, *nesting,
            )?),
        })
    }
}
