//! Arrow IPC files as a table: one partition, files in the order they were given.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::InputError;
use super::ipc_read::{Framing, IpcReader};
use super::schema::{check_names, merge_schemas};

/// Batches that are decoded ahead of the plan.
const READ_AHEAD: usize = 2;

/// The files and their common schema.
#[derive(Debug)]
pub(super) struct ArrowTable {
    files: Arc<[PathBuf]>,
    framing: Framing,
    schema: SchemaRef,
}

impl ArrowTable {
    /// Reads the schemas and checks that they agree.
    pub(super) fn open(files: &[PathBuf], framing: Framing) -> Result<Self, InputError> {
        let mut common: Option<Schema> = None;
        for path in files {
            let reader = IpcReader::open(path, framing)?;
            check_names(path, reader.schema())?;
            common = Some(match common {
                None => reader.schema().as_ref().clone(),
                Some(common) => merge_schemas(
                    &common,
                    files.first().map_or(path, |p| p),
                    reader.schema(),
                    path,
                )?,
            });
        }
        let schema = Arc::new(common.unwrap_or_else(Schema::empty));
        Ok(ArrowTable {
            files: files.into(),
            framing,
            schema,
        })
    }
}

#[async_trait]
impl TableProvider for ArrowTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&projection)?);
        let partition = ArrowPartition {
            files: Arc::clone(&self.files),
            framing: self.framing,
            schema: Arc::clone(&schema),
            projection,
        };
        Ok(Arc::new(StreamingTableExec::try_new(
            schema,
            vec![Arc::new(partition)],
            None,
            None,
            false,
            limit,
        )?))
    }
}

#[derive(Debug, Clone)]
struct ArrowPartition {
    files: Arc<[PathBuf]>,
    framing: Framing,
    schema: SchemaRef,
    projection: Vec<usize>,
}

impl PartitionStream for ArrowPartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), READ_AHEAD);
        let batches = stream.tx();
        let partition = self.clone();
        // Decoding is work for a processor and waits for the disk: not on the runtime's threads.
        stream.spawn_blocking(move || {
            for path in partition.files.iter() {
                let mut reader = IpcReader::open(path, partition.framing).map_err(external)?;
                while let Some(batch) = reader.next(&partition.projection).map_err(external)? {
                    if batches.blocking_send(partition.adopt(batch)).is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        stream.build()
    }
}

impl ArrowPartition {
    /// The batch under the common schema, which may allow nulls where its file did not.
    fn adopt(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            batch.columns().to_vec(),
            &options,
        )?)
    }
}

fn external(error: InputError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
