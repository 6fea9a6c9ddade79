//! A pool stage over record batches: argument columns through a pool, the other columns passed by.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, mpsc};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::{Held, Lane, Output, Pool, Rebatcher, Rows};
use crate::call::Call;
use crate::error::{CallError, Error, Fault, Place};

/// Rows of a call where neither the caller nor the function asks for another number.
pub const DEFAULT_BATCH_SIZE: NonZeroUsize = NonZeroUsize::new(8_192).unwrap();

/// One call of a stage.
#[derive(Debug, Clone)]
pub struct StageCall {
    /// The pool that serves it.
    pub pool: Pool,
    /// What is called.
    pub call: Call,
    /// Positions of the input columns for the arguments that are not constant.
    pub columns: Vec<usize>,
    /// Position of a boolean input column that says which rows are computed; `None`: all.
    pub mask: Option<usize>,
    /// The column that the result becomes.
    pub output: FieldRef,
}

/// Calls whose results are appended to record batches, in input order.
///
/// Batches are cut to exactly the batch size, so that no result depends on how the input came.
///
/// ```no_run
/// use arrow::array::RecordBatch;
/// use arrow::datatypes::SchemaRef;
/// use wasmill::{Call, Pool, Stage};
///
/// # fn run(pool: Pool, call: Call, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<(), wasmill::Error> {
/// let stage = Stage::new(&schema).call(&pool, &call, &["lat", "lon"], "distance")?;
/// for batch in stage.run(batches.into_iter().map(Ok)) {
///     println!("{} rows", batch?.num_rows());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Stage {
    input: SchemaRef,
    calls: Vec<StageCall>,
    batch_size: Option<NonZeroUsize>,
    partition: usize,
}

impl Stage {
    /// A stage over batches of this schema.
    pub fn new(input: &SchemaRef) -> Self {
        Stage {
            input: Arc::clone(input),
            calls: Vec::new(),
            batch_size: None,
            partition: 0,
        }
    }

    /// Adds a call whose arguments are the named columns and whose result is a new column.
    ///
    /// # Errors
    /// [`Error::Input`] when a column does not exist.
    pub fn call(
        self,
        pool: &Pool,
        call: &Call,
        columns: &[&str],
        output: &str,
    ) -> Result<Self, Error> {
        let columns = columns
            .iter()
            .map(|name| self.input.index_of(name))
            .collect::<Result<Vec<_>, _>>()
            .map_err(Error::Input)?;
        let output = Arc::new(call.result().as_ref().clone().with_name(output));
        Ok(self.push(StageCall {
            pool: pool.clone(),
            call: call.clone(),
            columns,
            mask: None,
            output,
        }))
    }

    /// Adds a call.
    #[must_use]
    pub fn push(mut self, call: StageCall) -> Self {
        self.calls.push(call);
        self
    }

    /// Rows per call. Default: the smallest that a function of the stage asks for, else 8,192.
    #[must_use]
    pub fn batch_size(mut self, rows: NonZeroUsize) -> Self {
        self.batch_size = Some(rows);
        self
    }

    /// The partition's number in messages. Default 0.
    #[must_use]
    pub fn partition(mut self, number: usize) -> Self {
        self.partition = number;
        self
    }

    /// The schema of the batches that come out: the input's columns, then one for each call.
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<FieldRef> = self
            .input
            .fields()
            .iter()
            .map(Arc::clone)
            .chain(self.calls.iter().map(output_field))
            .collect();
        Arc::new(Schema::new_with_metadata(
            fields,
            self.input.metadata().clone(),
        ))
    }

    /// Runs batches through the stage; the result is read like any iterator. Several batches are in
    /// flight, at most two for each slot and one, and no more than the pools' queues take; results come
    /// in input order. After an error there is
    /// nothing more.
    pub fn run<I>(&self, batches: I) -> StageBatches<I::IntoIter>
    where
        I: IntoIterator<Item = Result<RecordBatch, ArrowError>>,
    {
        let asked = self
            .calls
            .iter()
            .filter_map(|c| c.call.function().batch_size)
            .filter_map(NonZeroUsize::new)
            .min();
        let rows = self.batch_size.or(asked).unwrap_or(DEFAULT_BATCH_SIZE);
        let slots = self.calls.iter().map(|c| c.pool.slots()).max().unwrap_or(1);
        StageBatches {
            schema: self.schema(),
            lanes: self.calls.iter().map(|c| Lane::new(&c.pool)).collect(),
            calls: self.calls.clone(),
            partition: self.partition,
            batches: Some(batches.into_iter()),
            rebatcher: Rebatcher::new(Arc::clone(&self.input), rows),
            in_flight: VecDeque::new(),
            input_error: None,
            window: slots.saturating_mul(2).saturating_add(1),
            next_row: 0,
        }
    }

    /// Runs batches that come through a channel, on a thread of its own, and sends the results through
    /// another of `capacity` batches. Dropping the receiver ends the run.
    ///
    /// # Errors
    /// [`Error::Input`] when the system gives no thread.
    pub fn run_channel(
        &self,
        batches: mpsc::Receiver<Result<RecordBatch, ArrowError>>,
        capacity: usize,
    ) -> Result<mpsc::Receiver<Result<RecordBatch, Error>>, Error> {
        let (send, receive) = mpsc::sync_channel(capacity);
        let run = self.run(batches);
        std::thread::Builder::new()
            .name("wasmill-stage".to_owned())
            .spawn(move || {
                for batch in run {
                    if send.send(batch).is_err() {
                        break;
                    }
                }
            })
            .map_err(|e| {
                Error::Input(ArrowError::IoError("no thread for the stage".to_owned(), e))
            })?;
        Ok(receive)
    }
}

/// Bytes of a batch, without what its columns share with other batches.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter();
    columns.fold(0, |sum, column| sum.saturating_add(array_bytes(column)))
}

/// Bytes of a column, without what it shares with other rows. Types for which Arrow cannot tell count
/// with all they hold on to.
pub(crate) fn array_bytes(array: &ArrayRef) -> u64 {
    // Numbers are what streams are made of, and taking an array apart takes longer than this.
    if let Some(width) = array.data_type().primitive_width() {
        let validity = array.nulls().map_or(0, |_| array.len().div_ceil(8));
        return array.len().saturating_mul(width).saturating_add(validity) as u64;
    }
    let bytes = array
        .to_data()
        .get_slice_memory_size()
        .unwrap_or_else(|_| array.get_buffer_memory_size());
    bytes as u64
}

/// A masked call leaves nulls behind.
fn output_field(call: &StageCall) -> FieldRef {
    if call.mask.is_some() && !call.output.is_nullable() {
        Arc::new(call.output.as_ref().clone().with_nullable(true))
    } else {
        Arc::clone(&call.output)
    }
}

/// Batches on their way through a stage.
#[derive(Debug)]
pub struct StageBatches<I> {
    schema: SchemaRef,
    calls: Vec<StageCall>,
    /// One for each call.
    lanes: Vec<Lane>,
    partition: usize,
    /// `None` when the input has ended or something failed.
    batches: Option<I>,
    rebatcher: Rebatcher,
    in_flight: VecDeque<InFlight>,
    /// An error of the input, to be told after the batches that came before it.
    input_error: Option<Error>,
    window: usize,
    next_row: u64,
}

/// A batch whose calls have been submitted.
#[derive(Debug)]
struct InFlight {
    batch: RecordBatch,
    first_row: u64,
    results: Vec<(mpsc::Receiver<Result<Output, CallError>>, Held)>,
}

impl<I> StageBatches<I>
where
    I: Iterator<Item = Result<RecordBatch, ArrowError>>,
{
    /// After an error there is nothing more.
    fn stop(&mut self) {
        self.batches = None;
        self.in_flight.clear();
        self.input_error = None;
        self.rebatcher.clear();
    }

    fn next_input(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(batch) = self.rebatcher.next_full() {
                return Ok(Some(batch));
            }
            match self.batches.as_mut().and_then(Iterator::next) {
                Some(batch) => self.rebatcher.push(batch.map_err(Error::Input)?),
                None => {
                    self.batches = None;
                    return Ok(self.rebatcher.next_any());
                }
            }
        }
    }

    fn submit(&mut self, batch: RecordBatch) -> Result<(), Error> {
        let first_row = self.next_row;
        self.next_row = first_row.saturating_add(batch.num_rows() as u64);
        let mut results = Vec::with_capacity(self.calls.len());
        let bytes = batch_bytes(&batch);
        for (call, lane) in self.calls.iter().zip(&self.lanes) {
            let columns = call
                .columns
                .iter()
                .map(|i| batch.columns().get(*i).cloned())
                .collect::<Option<Vec<_>>>();
            let mask = call.mask.map(|i| {
                batch
                    .columns()
                    .get(i)
                    .filter(|c| c.data_type() == &DataType::Boolean)
                    .map(|c| c.as_boolean().clone())
            });
            let (Some(columns), false) = (columns, mask == Some(None)) else {
                return Err(Error::Input(ArrowError::SchemaError("a stage names a column that the input does not have, or a mask that is not boolean".to_owned())));
            };
            let rows = Rows {
                columns,
                rows: batch.num_rows(),
                mask: mask.flatten(),
                first_row,
                partition: Some(self.partition),
            };
            let (send, receive) = mpsc::sync_channel(1);
            let held = lane.submit(&call.call, rows, bytes, move |result| {
                let _ = send.send(result);
            });
            results.push((receive, held));
        }
        self.in_flight.push_back(InFlight {
            batch,
            first_row,
            results,
        });
        Ok(())
    }

    fn finish(&self, done: InFlight) -> Result<RecordBatch, Error> {
        let mut columns = done.batch.columns().to_vec();
        for ((result, _held), call) in done.results.into_iter().zip(&self.calls) {
            let place = || Place {
                udf: call.call.function().name.clone(),
                partition: Some(self.partition),
                ..call.pool.place()
            };
            let output = result.recv().unwrap_or_else(|_| {
                Err(CallError {
                    place: Box::new(place()),
                    fault: Box::new(Fault::Closed),
                })
            })?;
            if let Some(error) = output.row_errors.first() {
                let row = done.first_row.saturating_add(error.row as u64);
                let fault = Fault::Row {
                    code: error.code,
                    message: error.message.clone(),
                };
                let partition = Some(self.partition);
                let failure = call.call.row_failure(&call.pool, partition, row, fault);
                return Err(failure.into());
            }
            columns.push(output.array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(done.batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(Error::Input)
    }
}

impl<I> Iterator for StageBatches<I>
where
    I: Iterator<Item = Result<RecordBatch, ArrowError>>,
{
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.input_error.is_none()
            && self.in_flight.len() < self.window
            && self.lanes.iter().all(Lane::has_room)
        {
            match self
                .next_input()
                .and_then(|batch| batch.map(|b| self.submit(b)).transpose())
            {
                Ok(Some(())) => {}
                Ok(None) => break,
                // What was read before the error comes out first, and may fail first.
                Err(error) => self.input_error = Some(error),
            }
        }
        let result = match self.in_flight.pop_front() {
            Some(done) => self.finish(done),
            None => Err(self.input_error.take()?),
        };
        if result.is_err() {
            self.stop();
        }
        Some(result)
    }
}
