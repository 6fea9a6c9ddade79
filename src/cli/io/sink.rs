//! The plan's last node: encodes its input, whatever the format, on a thread of its own.
//!
//! DataFusion has sinks for some formats. Their errors do not name the file, and the one for Arrow
//! gives up when a dictionary is replaced, which happens with every input whose batches bring
//! dictionaries of their own.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::TryStreamExt;
use indicatif::ProgressBar;
use tokio::sync::mpsc;

use super::OutputError;
use super::encode::{Encoder, Encoding};
use super::output::{Destination, Output};

/// What the writer is sent. Without an end the run has failed.
enum Piece {
    Batch(RecordBatch),
    End,
}

/// Batches that wait for the disk.
const WRITE_BEHIND: usize = 2;

/// Puts a sink for `output` over `input`. The bar goes where the terminal has to have the rows.
pub(crate) fn sink(
    input: Arc<dyn ExecutionPlan>,
    output: &Output,
    encoding: Encoding,
    bar: &ProgressBar,
) -> Arc<dyn ExecutionPlan> {
    let sink = OutputSink {
        schema: input.schema(),
        destination: output.destination(bar),
        target: output.name().to_owned(),
        encoding,
    };
    Arc::new(DataSinkExec::new(input, Arc::new(sink), None))
}

/// A sink for one output.
#[derive(Debug)]
struct OutputSink {
    schema: SchemaRef,
    destination: Destination,
    /// The name in messages.
    target: PathBuf,
    encoding: Encoding,
}

impl DisplayAs for OutputSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = self.encoding.format.name();
        write!(f, "OutputSink({format}, {})", self.target.display())
    }
}

#[async_trait]
impl DataSink for OutputSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        _context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let (send, receive) = mpsc::channel::<Piece>(WRITE_BEHIND);
        let (schema, destination, target, encoding) = (
            Arc::clone(&self.schema),
            self.destination.clone(),
            self.target.clone(),
            self.encoding.clone(),
        );
        let writing = SpawnedTask::spawn_blocking(move || {
            write(&schema, destination, &target, &encoding, receive)
                .map_err(|e| DataFusionError::External(Box::new(e)))
        });
        while let Some(batch) = data.try_next().await? {
            if send.send(Piece::Batch(batch)).await.is_err() {
                // The writer is gone; it says why below.
                break;
            }
        }
        // Nobody listens when the writer is gone.
        let _ = send.send(Piece::End).await;
        writing
            .join()
            .await
            .map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?
    }
}

fn write(
    schema: &SchemaRef,
    destination: Destination,
    target: &Path,
    encoding: &Encoding,
    mut pieces: mpsc::Receiver<Piece>,
) -> Result<u64, OutputError> {
    // Nothing is written, not even a header, where the run fails before it gives anything.
    let Some(mut piece) = pieces.blocking_recv() else {
        return Ok(0);
    };
    let bytes = destination.open().map_err(OutputError::write(target))?;
    let mut encoder = Encoder::create(schema, bytes, encoding).map_err(|e| e.at(target))?;
    let mut rows = 0_u64;
    loop {
        match piece {
            Piece::Batch(batch) => {
                rows = rows.saturating_add(batch.num_rows() as u64);
                encoder.write(&batch).map_err(|e| e.at(target))?;
            }
            Piece::End => break,
        }
        piece = match pieces.blocking_recv() {
            Some(next) => next,
            // The run has failed, and what it gave so far is no result.
            None => return Ok(rows),
        };
    }
    encoder.finish().map_err(|e| e.at(target))?;
    Ok(rows)
}
