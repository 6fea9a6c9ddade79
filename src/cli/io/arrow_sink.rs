//! Writes Arrow IPC files and streams.
//!
//! DataFusion's own sink writes files only and gives up when a dictionary is replaced, which happens
//! with every input whose batches bring dictionaries of their own.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::TryStreamExt;
use std::sync::Arc;
use tokio::sync::mpsc;

use super::OutputError;
use super::ipc_read::Framing;
use super::unify::Unifier;

/// Batches that wait for the disk.
const WRITE_BEHIND: usize = 2;

/// A sink for one file.
#[derive(Debug)]
pub(super) struct ArrowSink {
    schema: SchemaRef,
    path: PathBuf,
    /// The name in messages.
    target: PathBuf,
    framing: Framing,
}

impl ArrowSink {
    pub(super) fn new(schema: SchemaRef, path: PathBuf, target: PathBuf, framing: Framing) -> Self {
        ArrowSink {
            schema,
            path,
            target,
            framing,
        }
    }
}

impl DisplayAs for ArrowSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ArrowSink({:?}, {})",
            self.framing,
            self.target.display()
        )
    }
}

#[async_trait]
impl DataSink for ArrowSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        _context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let (send, mut receive) = mpsc::channel::<RecordBatch>(WRITE_BEHIND);
        let (schema, path, target, framing) = (
            Arc::clone(&self.schema),
            self.path.clone(),
            self.target.clone(),
            self.framing,
        );
        let writing = SpawnedTask::spawn_blocking(move || {
            let failed =
                |e: ArrowError| DataFusionError::External(Box::new(encode_error(&target, e)));
            let mut writer = Writer::create(&path, &schema, framing).map_err(failed)?;
            while let Some(batch) = receive.blocking_recv() {
                writer.write(&batch).map_err(failed)?;
            }
            writer.finish().map_err(failed)
        });
        while let Some(batch) = data.try_next().await? {
            if send.send(batch).await.is_err() {
                // The writer is gone; it says why below.
                break;
            }
        }
        drop(send);
        writing
            .join()
            .await
            .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?
    }
}

fn encode_error(target: &std::path::Path, error: ArrowError) -> OutputError {
    match error {
        ArrowError::IoError(_, source) => OutputError::Write {
            path: target.to_owned(),
            source,
        },
        other => OutputError::Encode {
            path: target.to_owned(),
            reason: other.to_string(),
        },
    }
}

enum Writer {
    File {
        writer: Box<FileWriter<BufWriter<File>>>,
        unifier: Unifier,
        rows: u64,
    },
    Stream {
        writer: Box<StreamWriter<BufWriter<File>>>,
        rows: u64,
    },
}

impl Writer {
    fn create(
        path: &std::path::Path,
        schema: &SchemaRef,
        framing: Framing,
    ) -> Result<Self, ArrowError> {
        let file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        Ok(match framing {
            Framing::File => {
                // A file may add to a dictionary and not replace it.
                let options =
                    IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
                let writer = Box::new(FileWriter::try_new_with_options(file, schema, options)?);
                Writer::File {
                    writer,
                    unifier: Unifier::new(schema),
                    rows: 0,
                }
            }
            Framing::Stream => Writer::Stream {
                writer: Box::new(StreamWriter::try_new(file, schema)?),
                rows: 0,
            },
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            Writer::File {
                writer,
                unifier,
                rows,
            } => {
                *rows = rows.saturating_add(batch.num_rows() as u64);
                writer.write(&unifier.unify(batch)?)
            }
            Writer::Stream { writer, rows } => {
                *rows = rows.saturating_add(batch.num_rows() as u64);
                writer.write(batch)
            }
        }
    }

    fn finish(self) -> Result<u64, ArrowError> {
        let (rows, mut file) = match self {
            Writer::File { writer, rows, .. } => (rows, writer.into_inner()?),
            Writer::Stream { writer, rows } => (rows, writer.into_inner()?),
        };
        file.flush()?;
        Ok(rows)
    }
}
