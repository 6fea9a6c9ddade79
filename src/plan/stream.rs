//! One partition of a pool stage while it runs: cut to size, evaluate, submit, append, in order.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time,
};
use datafusion::prelude::SessionConfig;
use futures::{Stream, StreamExt, TryStreamExt, future};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::bounded::bounded;
use super::row_errors::{
    self, DeadLetters, ErrorLimit, Failures, RowErrorAction, RowErrorPolicy, dead_letters,
};
use super::{Patience, to_datafusion};
use crate::error::{CallError, Fault, Place};
use crate::pool::{Held, Lane, batch_bytes};
use crate::{Call, Output, Pool, Rebatcher, RowError, Rows};

/// A call whose pool has been found.
pub(super) struct StartedCall {
    pub(super) pool: Pool,
    /// This partition's way into the pool.
    pub(super) lane: Lane,
    pub(super) call: Call,
    pub(super) arguments: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) mask: Option<Arc<dyn PhysicalExpr>>,
    pub(super) on_error: RowErrorPolicy,
    /// The columns kept of failed rows.
    pub(super) kept: Vec<Arc<dyn PhysicalExpr>>,
    /// The schema of dead letters.
    pub(super) letters: SchemaRef,
    pub(super) failures: Arc<Failures>,
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

/// What goes into a stage and what comes out, the same for all partitions.
pub(super) struct StageShape {
    pub(super) input: SchemaRef,
    pub(super) output: SchemaRef,
    pub(super) batch_size: NonZeroUsize,
    /// Whether results come in input order.
    pub(super) ordered: bool,
}

/// What one partition needs to run.
pub(super) struct StagePartition {
    calls: Vec<StartedCall>,
    shape: StageShape,
    partition: Option<usize>,
    extensions: Extensions,
    metrics: StageMetrics,
}

/// What the session brings along.
pub(super) struct Extensions {
    letters: Option<Arc<DeadLetters>>,
    /// How long a row waits for others to fill its batch.
    patience: Option<Duration>,
}

impl Extensions {
    pub(super) fn of(config: &SessionConfig) -> Self {
        Extensions {
            letters: config.get_extension(),
            patience: config
                .get_extension::<Patience>()
                .map(|patience| patience.0),
        }
    }
}

/// A batch whose calls have been queued.
struct Queued {
    receiver: oneshot::Receiver<Result<Output, CallError>>,
    held: Held,
    /// Arguments and kept columns, where failed rows are set aside.
    letter_columns: Vec<ArrayRef>,
}

/// What the calls of a batch gave, before its place in the order has come.
struct Computed {
    batch: RecordBatch,
    first_row: u64,
    outputs: Vec<(Output, Vec<ArrayRef>)>,
    /// The batch counts as on its way until it is appended.
    held: Vec<Held>,
}

struct StageMetrics {
    baseline: BaselineMetrics,
    calls: Count,
    rows: Count,
    /// Batches that went on before they were full.
    flushed: Count,
    waited: Time,
}

impl StagePartition {
    pub(super) fn new(
        calls: Vec<StartedCall>,
        shape: StageShape,
        partition: PartitionNumber,
        extensions: Extensions,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let metrics = StageMetrics {
            baseline: BaselineMetrics::new(metrics, partition.number),
            calls: MetricBuilder::new(metrics).counter("pool_tasks", partition.number),
            rows: MetricBuilder::new(metrics).counter("pool_rows", partition.number),
            flushed: MetricBuilder::new(metrics).counter("flushed_batches", partition.number),
            waited: MetricBuilder::new(metrics).subset_time("pool_time", partition.number),
        };
        StagePartition {
            calls,
            shape,
            partition: partition.shown(),
            extensions,
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

    /// Whether the pools take another batch of this partition.
    fn has_room(&self) -> bool {
        self.calls.iter().all(|call| call.lane.has_room())
    }

    /// Evaluates the arguments of all calls and queues them. The work has been handed over when this
    /// returns; the future waits for the results.
    fn submit(
        self: &Arc<Self>,
        batch: RecordBatch,
        first_row: u64,
    ) -> impl Future<Output = Result<Computed>> + use<> {
        let timer = self.metrics.baseline.elapsed_compute().timer();
        let bytes = batch_bytes(&batch);
        let queued: Result<Vec<_>> = self
            .calls
            .iter()
            .map(|call| self.queue(call, &batch, bytes, first_row))
            .collect();
        drop(timer);
        let stage = Arc::clone(self);
        async move {
            let _timer = stage.metrics.waited.timer();
            let mut outputs = Vec::with_capacity(stage.calls.len());
            let mut held = Vec::with_capacity(stage.calls.len());
            for (call, queued) in stage.calls.iter().zip(queued?) {
                let output = received(call, queued.receiver.await)?;
                stage.refuse_failed_rows(call, &output, first_row)?;
                outputs.push((output, queued.letter_columns));
                held.push(queued.held);
            }
            Ok(Computed {
                batch,
                first_row,
                outputs,
                held,
            })
        }
    }

    /// Appends the results. Called in input order, which is what the policies for failed rows need.
    fn append(&self, computed: Computed) -> Result<RecordBatch> {
        let Computed {
            batch,
            first_row,
            outputs,
            held,
        } = computed;
        let mut columns = batch.columns().to_vec();
        for (call, (output, letter_columns)) in self.calls.iter().zip(outputs) {
            self.judge(call, &output.row_errors, first_row, batch.num_rows())?;
            if !output.row_errors.is_empty() && !letter_columns.is_empty() {
                let letters = dead_letters(
                    &call.letters,
                    &output.row_errors,
                    first_row,
                    &letter_columns,
                )?;
                row_errors::send(self.extensions.letters.as_deref(), letters)?;
            }
            columns.push(output.array);
        }
        drop(held);
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let output =
            RecordBatch::try_new_with_options(Arc::clone(&self.shape.output), columns, &options)?;
        self.metrics.baseline.record_output(output.num_rows());
        Ok(output)
    }

    /// The error that ends the run, if no row may fail and one did.
    fn refuse_failed_rows(
        &self,
        call: &StartedCall,
        output: &Output,
        first_row: u64,
    ) -> Result<()> {
        let errors = &output.row_errors;
        match errors.first().filter(|_| !call.on_error.makes_nulls()) {
            None => Ok(()),
            Some(error) => {
                let fault = Fault::Row {
                    code: error.code,
                    message: error.message.clone(),
                };
                let mut failure = self.failure(call, error, first_row, fault);
                if let Some(inner) = &output.failed {
                    failure.place.udf = inner.to_string();
                }
                Err(to_datafusion(failure))
            }
        }
    }

    fn failure(
        &self,
        call: &StartedCall,
        error: &RowError,
        first_row: u64,
        fault: Fault,
    ) -> CallError {
        let row = first_row.saturating_add(error.row as u64);
        call.call
            .row_failure(&call.pool, self.partition, row, fault)
    }

    /// The error that ends the run, if the rows that failed are too many.
    fn judge(
        &self,
        call: &StartedCall,
        errors: &[RowError],
        first_row: u64,
        rows: usize,
    ) -> Result<()> {
        let limit = call.on_error.limit;
        match (call.failures.note(limit, rows, errors), limit) {
            (Some(error), Some(ErrorLimit::Rows(most))) => {
                let fault = Fault::TooManyRows {
                    limit: most.to_string(),
                    failed: most.saturating_add(1),
                    message: Some(error.message.clone()),
                };
                Err(to_datafusion(self.failure(call, error, first_row, fault)))
            }
            _ => Ok(()),
        }
    }

    /// Judges the shares of failed rows at the end.
    fn judge_shares(&self) -> Result<()> {
        for call in &self.calls {
            if let Some(fault) = call.failures.judge(call.on_error.limit) {
                let place = Place {
                    udf: call.call.function().name.clone(),
                    ..call.pool.place()
                };
                return Err(to_datafusion(CallError {
                    place: Box::new(place),
                    fault: Box::new(fault),
                }));
            }
        }
        Ok(())
    }

    fn queue(
        &self,
        call: &StartedCall,
        batch: &RecordBatch,
        bytes: u64,
        first_row: u64,
    ) -> Result<Queued> {
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
        };
        let letter_columns = match call.on_error.action {
            RowErrorAction::DeadLetter { .. } => letter_columns(call, &rows, batch)?,
            _ => Vec::new(),
        };
        let (sender, receiver) = oneshot::channel();
        self.metrics.calls.add(1);
        self.metrics.rows.add(batch.num_rows());
        // Nobody listens any more when the stream was dropped; then the result is dropped too.
        let held = call.lane.submit(&call.call, rows, bytes, move |result| {
            drop(sender.send(result));
        });
        Ok(Queued {
            receiver,
            held,
            letter_columns,
        })
    }
}

/// The arguments in the order of the parameters, constants spread out, then the kept columns.
fn letter_columns(call: &StartedCall, rows: &Rows, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let mut given = rows.columns.iter();
    let mut columns = Vec::with_capacity(call.call.arguments().len());
    for constant in call.call.constants() {
        columns.push(match constant {
            Some(value) => ScalarValue::try_from_array(value, 0)?.to_array_of_size(rows.rows)?,
            None => given
                .next()
                .cloned()
                .ok_or_else(|| exec_datafusion_err!("an argument of a call is missing"))?,
        });
    }
    for expression in &call.kept {
        columns.push(expression.evaluate(batch)?.into_array(batch.num_rows())?);
    }
    Ok(columns)
}

/// The output of a call, or the error that ends the run.
fn received(
    call: &StartedCall,
    received: Result<Result<Output, CallError>, oneshot::error::RecvError>,
) -> Result<Output> {
    received
        .map_err(|_| {
            exec_datafusion_err!(
                "the pool {} gave up a task without an answer",
                call.pool.name()
            )
        })?
        .map_err(to_datafusion)
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
    let rebatched = rebatch(input, &stage);
    let mut first_row = 0_u64;
    let submitting = Arc::clone(&stage);
    let tasks = rebatched.map(move |batch| match batch {
        Ok(batch) => {
            let at = first_row;
            first_row = first_row.saturating_add(batch.num_rows() as u64);
            future::Either::Left(submitting.submit(batch, at))
        }
        Err(error) => future::Either::Right(future::ready(Err(error))),
    });
    let appending = Arc::clone(&stage);
    let bounds = (Arc::clone(&stage), window);
    let appended = bounded(tasks, stage.shape.ordered, move |on_their_way| {
        let (stage, window) = &bounds;
        on_their_way < *window && stage.has_room()
    })
    .map(move |computed| appending.append(computed?));
    let last = futures::stream::once(async move { stage.judge_shares() })
        .filter_map(|judged| future::ready(judged.err().map(Err)));
    end_at_error(appended.chain(last))
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

/// The input cut to exactly the batch size; the last may be short, and so may batches that have waited
/// long enough.
fn rebatch(
    input: SendableRecordBatchStream,
    stage: &StagePartition,
) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
    struct State {
        input: SendableRecordBatchStream,
        rebatcher: Rebatcher,
        patience: Option<Duration>,
        flushed: Count,
        /// When rows that wait must go on.
        due: Option<Instant>,
        ended: bool,
    }
    let state = State {
        input,
        rebatcher: Rebatcher::new(Arc::clone(&stage.shape.input), stage.shape.batch_size),
        patience: stage.extensions.patience,
        flushed: stage.metrics.flushed.clone(),
        due: None,
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
                state.due = None;
                return Ok(Some((batch, state)));
            }
            if state.ended {
                return Ok(None);
            }
            let next = match state.due {
                None => state.input.try_next().await?,
                Some(due) => match tokio::time::timeout_at(due, state.input.try_next()).await {
                    Ok(next) => next?,
                    Err(_) => {
                        state.due = None;
                        state.flushed.add(1);
                        match state.rebatcher.next_any() {
                            Some(batch) => return Ok(Some((batch, state))),
                            None => continue,
                        }
                    }
                },
            };
            match next {
                Some(batch) => state.rebatcher.push(batch),
                None => state.ended = true,
            }
            if state.due.is_none() && !state.rebatcher.is_empty() {
                state.due = state
                    .patience
                    .and_then(|patience| Instant::now().checked_add(patience));
            }
        }
    })
}
