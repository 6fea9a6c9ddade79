//! Reads files one after the other, and names the file in which something is wrong.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use super::{InputError, Source};
use crate::cli::terminal::guarded;

/// Physical node: gives the partitions of its input, one per file, in their order.
#[derive(Debug)]
pub(super) struct InOrderExec {
    files: Arc<dyn ExecutionPlan>,
    sources: Arc<[Source]>,
    properties: Arc<PlanProperties>,
}

impl InOrderExec {
    /// Partition `i` of `files` must be `sources[i]`.
    pub(super) fn new(files: Arc<dyn ExecutionPlan>, sources: Arc<[Source]>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(files.schema()),
            Partitioning::UnknownPartitioning(1),
            files.properties().emission_type,
            files.properties().boundedness,
        );
        InOrderExec {
            files,
            sources,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InOrderExec: files={}", self.sources.len())
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &str {
        "InOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.files]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(files) = children.pop().filter(|_| children.is_empty()) else {
            return plan_err!("files in order have one input");
        };
        Ok(Arc::new(InOrderExec::new(files, Arc::clone(&self.sources))))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let files = Arc::clone(&self.files);
        let sources: Vec<Source> = self.sources.to_vec();
        // A file is opened when the one before it has been read.
        let batches = stream::iter(sources.into_iter().enumerate())
            .map(move |(partition, source)| {
                let batches = files.execute(partition, Arc::clone(&context))?;
                Ok::<_, DataFusionError>(named(source, batches))
            })
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.files.schema(),
            batches,
        )))
    }
}

/// The batches of a file, with errors and panics of its reader under its name.
fn named(
    source: Source,
    batches: SendableRecordBatchStream,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    stream::try_unfold((source, batches), |(source, mut batches)| async move {
        let next = match guarded(batches.try_next()).await {
            Ok(next) => next.map_err(|e| naming(&source, e))?,
            Err(_) => {
                let error = InputError::contradictory(source.name());
                return Err(DataFusionError::External(Box::new(error)));
            }
        };
        Ok(next.map(|batch| (batch, (source, batches))))
    })
}

/// What DataFusion's reader says, under the name of the file.
fn naming(source: &Source, error: DataFusionError) -> DataFusionError {
    DataFusionError::External(Box::new(InputError::of_reader(source, &error)))
}
