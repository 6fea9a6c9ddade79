//! Inputs that are read from front to back as a table: one partition, in the order they were given.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::decode::Decoder;
use super::{InputError, Source};

/// Batches that are decoded ahead of the plan.
const READ_AHEAD: usize = 2;

/// The sources and their common schema.
#[derive(Debug)]
pub(super) struct DecodedTable {
    sources: Arc<[Source]>,
    decoder: Decoder,
    schema: SchemaRef,
}

impl DecodedTable {
    /// Finds out the schemas and checks that they agree.
    pub(super) fn open(sources: &[Source], decoder: Decoder) -> Result<Self, InputError> {
        Ok(DecodedTable {
            schema: Arc::new(decoder.schema(sources)?),
            sources: sources.into(),
            decoder,
        })
    }
}

#[async_trait]
impl TableProvider for DecodedTable {
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
        let partition = DecodedPartition {
            sources: Arc::clone(&self.sources),
            decoder: self.decoder.clone(),
            whole: Arc::clone(&self.schema),
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
struct DecodedPartition {
    sources: Arc<[Source]>,
    decoder: Decoder,
    /// All columns.
    whole: SchemaRef,
    /// Those of the projection.
    schema: SchemaRef,
    projection: Vec<usize>,
}

impl PartitionStream for DecodedPartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), READ_AHEAD);
        let batches = stream.tx();
        let partition = self.clone();
        let batch_size = context.session_config().batch_size();
        // Decoding is work for a processor and waits for the disk: not on the runtime's threads.
        stream.spawn_blocking(move || {
            for source in partition.sources.iter() {
                for batch in partition
                    .decoder
                    .open(source, &partition.whole, &partition.projection, batch_size)
                    .map_err(external)?
                {
                    let batch = partition.adopt(batch.map_err(external)?);
                    if batches.blocking_send(batch).is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        stream.build()
    }
}

impl DecodedPartition {
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
