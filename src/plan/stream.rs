//! One partition of a pool stage while it runs: cut to size, evaluate, submit, append, in order.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time,
};
use futures::{Stream, StreamExt, TryStreamExt, future};
use tokio::sync::oneshot;

use super::to_datafusion;
use crate::error::{CallError, Fault, Place};
use crate::{Call, Output, Pool, Rebatcher, RowError, Rows};

/// A call whose pool has been found.
pub(super) struct StartedCall {
    pub(super) pool: Pool,
    /// The pool's number for this execution: within one, a lost sequence is not started anew.
    pub(super) run: u64,
    pub(super) call: Call,
    pub(super) arguments: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) mask: Option<Arc<dyn PhysicalExpr>>,
}

/// Which partition of how many.
#[derive(Clone, Copy)]
pub(super) struct PartitionNumber {
    pub(super) number: usize,
    pub(super) of: usize,
}

impl PartitionNumber {
    /// The number in messages, which do without where there is only one.
    fn shown(self) -> Option<usize> {
        (self.of > 1).then_some(self.number)
    }
}

/// What one partition needs to run.
pub(super) struct StagePartition {
    calls: Vec<StartedCall>,
    input_schema: SchemaRef,
    schema: SchemaRef,
    batch_size: NonZeroUsize,
    partition: Option<usize>,
    metrics: StageMetrics,
}

struct StageMetrics {
    baseline: BaselineMetrics,
    calls: Count,
    rows: Count,
    waited: Time,
}

impl StagePartition {
    pub(super) fn new(
        calls: Vec<StartedCall>,
        input_schema: SchemaRef,
        schema: &SchemaRef,
        batch_size: NonZeroUsize,
        partition: PartitionNumber,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let metrics = StageMetrics {
            baseline: BaselineMetrics::new(metrics, partition.number),
            calls: MetricBuilder::new(metrics).counter("pool_tasks", partition.number),
            rows: MetricBuilder::new(metrics).counter("pool_rows", partition.number),
            waited: MetricBuilder::new(metrics).subset_time("pool_time", partition.number),
        };
        StagePartition {
            calls,
            input_schema,
            schema: Arc::clone(schema),
            batch_size,
            partition: partition.shown(),
            metrics,
        }
    }

    /// How many batches may be on their way. Twice the slots keep each slot busy while the batch
    /// before is being written; results that are early wait here for their turn.
    fn window(&self) -> usize {
        let slots = self
            .calls
            .iter()
            .map(|call| call.pool.slots())
            .max()
            .unwrap_or(1);
        slots.saturating_mul(2)
    }

    /// Evaluates the arguments of all calls and queues them. The work has been handed over when this
    /// returns; the future waits for the results.
    fn submit(
        self: &Arc<Self>,
        batch: RecordBatch,
        first_row: u64,
    ) -> impl Future<Output = Result<RecordBatch>> + use<> {
        let timer = self.metrics.baseline.elapsed_compute().timer();
        let queued: Result<Vec<_>> = self
            .calls
            .iter()
            .map(|call| self.queue(call, &batch, first_row))
            .collect();
        drop(timer);
        let stage = Arc::clone(self);
        async move {
            let _timer = stage.metrics.waited.timer();
            let mut columns = batch.columns().to_vec();
            for (call, result) in stage.calls.iter().zip(queued?) {
                columns.push(stage.outcome(call, result.await, first_row)?);
            }
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let output =
                RecordBatch::try_new_with_options(Arc::clone(&stage.schema), columns, &options)?;
            stage.metrics.baseline.record_output(output.num_rows());
            Ok(output)
        }
    }

    fn queue(
        &self,
        call: &StartedCall,
        batch: &RecordBatch,
        first_row: u64,
    ) -> Result<oneshot::Receiver<Result<Output, CallError>>> {
        let rows = Rows {
            columns: call
                .arguments
                .iter()
                .map(|a| a.evaluate(batch)?.into_array(batch.num_rows()))
                .collect::<Result<_>>()?,
            rows: batch.num_rows(),
            mask: call.mask.as_ref().map(|m| mask(m, batch)).transpose()?,
            first_row,
            partition: self.partition,
            run: call.run,
        };
        let (sender, receiver) = oneshot::channel();
        self.metrics.calls.add(1);
        self.metrics.rows.add(batch.num_rows());
        // Nobody listens any more when the stream was dropped; then the result is dropped too.
        call.pool
            .submit(&call.call, rows, move |result| drop(sender.send(result)));
        Ok(receiver)
    }

    /// The result column, or the error that ends the run.
    fn outcome(
        &self,
        call: &StartedCall,
        received: Result<Result<Output, CallError>, oneshot::error::RecvError>,
        first_row: u64,
    ) -> Result<ArrayRef> {
        let output = received
            .map_err(|_| {
                exec_datafusion_err!(
                    "the pool {} gave up a task without an answer",
                    call.pool.name()
                )
            })?
            .map_err(to_datafusion)?;
        match output.row_errors.first() {
            None => Ok(output.array),
            Some(error) => Err(to_datafusion(self.row_failure(call, error, first_row))),
        }
    }

    fn row_failure(&self, call: &StartedCall, error: &RowError, first_row: u64) -> CallError {
        let row = first_row.saturating_add(error.row as u64);
        let place = Place {
            module: call.call.module().name().to_owned(),
            udf: call.call.function().name.clone(),
            pool: call.pool.name().to_owned(),
            slot: None,
            partition: self.partition,
            rows: Some(row..row.saturating_add(1)),
        };
        let fault = Fault::Row {
            code: error.code,
            message: error.message.clone(),
        };
        CallError {
            place: Box::new(place),
            fault: Box::new(fault),
        }
    }
}

/// A mask selects where it is true: null selects no more than false does.
fn mask(expression: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
    let array = expression.evaluate(batch)?.into_array(batch.num_rows())?;
    let mask = as_boolean_array(&array)?;
    Ok(match mask.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => mask.clone(),
        Some(nulls) => BooleanArray::new(mask.values() & nulls.inner(), None),
    })
}

/// The stage's output for one partition of its input.
pub(super) fn run(
    stage: StagePartition,
    input: SendableRecordBatchStream,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let stage = Arc::new(stage);
    let window = stage.window();
    let rebatched = rebatch(input, Arc::clone(&stage.input_schema), stage.batch_size);
    let mut first_row = 0_u64;
    let tasks = rebatched.map(move |batch| match batch {
        Ok(batch) => {
            let at = first_row;
            first_row = first_row.saturating_add(batch.num_rows() as u64);
            future::Either::Left(stage.submit(batch, at))
        }
        Err(error) => future::Either::Right(future::ready(Err(error))),
    });
    // `buffered` keeps the order and polls no further than the window; nothing follows an error.
    end_at_error(tasks.buffered(window))
}

fn end_at_error(
    stream: impl Stream<Item = Result<RecordBatch>> + Send,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let mut failed = false;
    stream.take_while(move |item| {
        let go_on = !failed;
        failed |= item.is_err();
        future::ready(go_on)
    })
}

/// The input cut to exactly `rows` per batch; the last may be short.
fn rebatch(
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    rows: NonZeroUsize,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    struct State {
        input: SendableRecordBatchStream,
        rebatcher: Rebatcher,
        ended: bool,
    }
    let state = State {
        input,
        rebatcher: Rebatcher::new(schema, rows),
        ended: false,
    };
    futures::stream::try_unfold(state, |mut state| async move {
        loop {
            let ready = if state.ended {
                state.rebatcher.next_any()
            } else {
                state.rebatcher.next_full()
            };
            if let Some(batch) = ready {
                return Ok(Some((batch, state)));
            }
            if state.ended {
                return Ok(None);
            }
            match state.input.try_next().await? {
                Some(batch) => state.rebatcher.push(batch),
                None => state.ended = true,
            }
        }
    })
}
