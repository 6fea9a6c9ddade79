//! Pools: slots that start once and serve any number of batches.

mod builder;
mod metrics;
mod rebatch;
mod selection;
mod slot;
mod stage;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow::datatypes::DataType;

pub use builder::PoolBuilder;
pub use metrics::PoolMetrics;
use metrics::{Counters, add, add_time};
pub use rebatch::Rebatcher;
use selection::Selection;
pub use slot::{Output, RowError};
use slot::{Recipe, Slot};
pub use stage::{Run, Stage, StageCall};

use crate::call::Call;
use crate::error::{CallError, Fault, Place, StartError};
use crate::module::{Module, NullHandling, ParameterType, StateKind};

/// A pool of slots. Cheap to clone; when the last clone is dropped, each slot's `close` runs and the
/// slots are gone when the drop returns.
///
/// ```no_run
/// use std::num::NonZeroUsize;
/// use wasmill::{Engine, EngineConfig, Module, Pool};
///
/// let engine = Engine::new(&EngineConfig::default())?;
/// let module = Module::from_file(&engine, "target/udfs/tokenize.wasm")?;
/// let pool = Pool::builder(&module)
///     .state("Tokenizer")
///     .init_args(serde_json::json!({ "vocabulary": ["hello", "world"] }))
///     .slots(NonZeroUsize::new(2).unwrap())
///     .start()?;
/// assert_eq!(pool.metrics().inits, 2);
/// # Ok::<(), wasmill::Error>(())
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Handle>);

/// What clones of a pool share. Tasks hold only `shared`, so that the last pool handle tears down.
struct Handle {
    threads: rayon::ThreadPool,
    shared: Arc<Shared>,
    notices: Vec<String>,
}

struct Shared {
    recipe: Arc<Recipe>,
    slots: Vec<Mutex<Cell>>,
    /// Those of each slot.
    counters: Vec<Counters>,
    next_run: AtomicU64,
}

/// What stands at a slot's place.
enum Cell {
    /// A slot that may be called.
    Ready(Box<Slot>),
    /// The slot failed during this run; the next call makes a new one.
    Lost { run: u64 },
    /// The pool is closed.
    Closed,
}

/// Rows for one call.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The columns of the arguments that are not constant, in order, each as long as there are rows.
    pub columns: Vec<ArrayRef>,
    /// How many rows there are; also without any column.
    pub rows: usize,
    /// Which rows are to be computed; the others are null in the result. `None`: all.
    pub mask: Option<BooleanArray>,
    /// Where the rows stand in their partition, for messages.
    pub first_row: u64,
    /// The partition, for messages.
    pub partition: Option<usize>,
    /// The run that the rows belong to, from [`Pool::next_run`]; 0 stands for a run of its own. A
    /// sequence whose slot was lost serves no further rows of the same run.
    pub run: u64,
}

impl Rows {
    /// All of these rows.
    pub fn new(columns: Vec<ArrayRef>, rows: usize) -> Self {
        Rows {
            columns,
            rows,
            mask: None,
            first_row: 0,
            partition: None,
            run: 0,
        }
    }

    /// Only the rows for which `mask` is true.
    #[must_use]
    pub fn masked(mut self, mask: BooleanArray) -> Self {
        self.mask = Some(mask);
        self
    }
}

impl Pool {
    /// Describes a pool for a module.
    pub fn builder(module: &Module) -> PoolBuilder {
        PoolBuilder::new(module)
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.0.shared.recipe.pool
    }

    /// The module that runs in it.
    pub fn module(&self) -> &Module {
        &self.0.shared.recipe.module
    }

    /// How many slots it has.
    pub fn slots(&self) -> usize {
        self.0.shared.slots.len()
    }

    /// What a user should know about how the pool differs from what was asked for.
    pub fn notices(&self) -> &[String] {
        &self.0.notices
    }

    /// What it counted so far.
    pub fn metrics(&self) -> PoolMetrics {
        let shared = &self.0.shared;
        shared.metrics()
    }

    /// A number for [`Rows::run`].
    pub fn next_run(&self) -> u64 {
        self.0.shared.next_run.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues rows for the next free slot; `done` gets the result on the slot's thread and must not
    /// block. Tasks start in the order in which they were submitted. Rows that need no computing never
    /// enter the guest.
    pub fn submit(
        &self,
        call: &Call,
        rows: Rows,
        done: impl FnOnce(Result<Output, CallError>) + Send + 'static,
    ) {
        let shared = Arc::clone(&self.0.shared);
        let call = call.clone();
        let queued = Instant::now();
        self.0.threads.spawn_fifo(move || {
            let number = rayon::current_thread_index().unwrap_or(0);
            add_time(&shared.counters(number).wait, queued.elapsed());
            let result = shared.serve(number, &call, &rows);
            drop(shared);
            if let Err(message) = host_safe(|| done(result)) {
                tracing::error!("the receiver of a result panicked: {message}");
            }
        });
    }

    /// Computes rows and waits for the result.
    ///
    /// # Errors
    /// [`CallError`]: what went wrong, and where.
    pub fn call(&self, call: &Call, rows: Rows) -> Result<Output, CallError> {
        let place = self.0.shared.place(None);
        let (send, receive) = mpsc::sync_channel(1);
        self.submit(call, rows, move |result| {
            let _ = send.send(result);
        });
        receive.recv().unwrap_or_else(|_| {
            Err(CallError {
                place: Box::new(place),
                fault: Box::new(Fault::Closed),
            })
        })
    }

    /// Runs `close` in each slot and waits until all are gone. Dropping the last clone does the same.
    pub fn close(self) {
        self.0.close();
    }
}

/// A slot on the thread of whoever uses it. Dropping it runs `close`.
pub struct LocalSlot(Arc<Shared>);

impl LocalSlot {
    /// Computes rows.
    ///
    /// # Errors
    /// [`CallError`]: what went wrong, and where.
    pub fn call(&mut self, call: &Call, rows: &Rows) -> Result<Output, CallError> {
        self.0.serve(0, call, rows)
    }

    /// What the slot counted so far.
    pub fn metrics(&self) -> PoolMetrics {
        self.0.metrics()
    }
}

impl std::fmt::Debug for LocalSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LocalSlot")
            .field(&self.0.recipe.pool)
            .finish()
    }
}

impl Drop for LocalSlot {
    fn drop(&mut self) {
        self.0.close_slot(0);
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.name())
            .field("slots", &self.slots())
            .finish_non_exhaustive()
    }
}

impl Handle {
    fn close(&self) {
        self.threads
            .broadcast(|thread| self.shared.close_slot(thread.index()));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// A slot's place. Only its own thread takes it, but for a panic of the host the lock is never
    /// contended or poisoned.
    fn cell(&self, number: usize) -> MutexGuard<'_, Cell> {
        let cell = self.slots.get(number).or_else(|| self.slots.first());
        match cell {
            Some(cell) => cell.lock().unwrap_or_else(PoisonError::into_inner),
            None => unreachable!("a pool has at least one slot"),
        }
    }

    /// The counters of a slot, for whoever serves it.
    fn counters(&self, number: usize) -> &Counters {
        match self.counters.get(number).or_else(|| self.counters.first()) {
            Some(counters) => counters,
            None => unreachable!("a pool has at least one slot"),
        }
    }

    fn metrics(&self) -> PoolMetrics {
        metrics::snapshot(&self.counters, &self.recipe.pool, self.recipe.module.name())
    }

    fn start_slot(&self, number: usize) -> Result<(), StartError> {
        let slot = host_safe(|| Slot::start(&self.recipe, number, self.counters(number)))
            .unwrap_or_else(|message| {
                Err(StartError::Slot {
                    place: Box::new(self.place(Some(number))),
                    fault: Box::new(Fault::Host { message }),
                })
            })?;
        *self.cell(number) = Cell::Ready(Box::new(slot));
        Ok(())
    }

    fn close_slot(&self, number: usize) {
        let cell = std::mem::replace(&mut *self.cell(number), Cell::Closed);
        if let Cell::Ready(slot) = cell
            && let Err(message) = host_safe(|| slot.close())
        {
            tracing::error!(
                pool = self.recipe.pool,
                "closing a slot failed in the host: {message}"
            );
        }
    }

    /// Serves one task on a slot's thread, whatever happens.
    fn serve(&self, number: usize, call: &Call, rows: &Rows) -> Result<Output, CallError> {
        host_safe(|| self.run(number, call, rows)).unwrap_or_else(|message| {
            // Whatever state the slot was in when the host's own code failed, it is not trusted.
            *self.cell(number) = Cell::Lost { run: rows.run };
            Err(self.failed(number, call, rows, Fault::Host { message }))
        })
    }

    fn place(&self, slot: Option<usize>) -> Place {
        Place {
            module: self.recipe.module.name().to_owned(),
            udf: self
                .recipe
                .state
                .as_ref()
                .map_or_else(|| "(stateless)".to_owned(), |s| s.name.clone()),
            pool: self.recipe.pool.clone(),
            slot,
            ..Place::default()
        }
    }

    fn failed(&self, number: usize, call: &Call, rows: &Rows, fault: Fault) -> CallError {
        let place = Place {
            udf: call.function().name.clone(),
            partition: rows.partition,
            rows: Some(rows.first_row..rows.first_row.saturating_add(rows.rows as u64)),
            ..self.place(Some(number))
        };
        CallError {
            place: Box::new(place),
            fault: Box::new(fault),
        }
    }

    fn run(&self, number: usize, call: &Call, rows: &Rows) -> Result<Output, CallError> {
        let failed = |fault| self.failed(number, call, rows, fault);
        self.check(call, rows)
            .map_err(|reason| failed(Fault::Arguments { reason }))?;
        let Some(selection) = Selection::new(rows) else {
            slot::check_null_size(&call.0, rows.rows, self.recipe.policy.output_bytes)
                .map_err(failed)?;
            let array = new_null_array(call.result().data_type(), rows.rows);
            return Ok(Output {
                array,
                row_errors: Vec::new(),
            });
        };
        let columns = selection.columns(rows).map_err(|e| {
            failed(Fault::Arguments {
                reason: e.to_string(),
            })
        })?;
        let mut cell = self.cell(number);
        let slot = self.ready(&mut cell, number, rows.run).map_err(failed)?;
        match slot.call(call, &columns, selection.len(rows), self.counters(number)) {
            Ok(output) => {
                if selection.leaves_rows_out() {
                    slot::check_null_size(&call.0, rows.rows, self.recipe.policy.output_bytes)
                        .map_err(failed)?;
                }
                selection.scatter(output, rows.rows).map_err(|e| {
                    failed(Fault::Arguments {
                        reason: e.to_string(),
                    })
                })
            }
            Err(fault) => {
                if !fault.spares_the_slot() {
                    // Dropping the instance frees its memory; it is never entered again, `close` included.
                    *cell = Cell::Lost { run: rows.run };
                }
                Err(failed(fault))
            }
        }
    }

    /// The slot, started again if it was lost.
    fn ready<'c>(
        &self,
        cell: &'c mut Cell,
        number: usize,
        run: u64,
    ) -> Result<&'c mut Slot, Fault> {
        if let Cell::Lost { run: lost_in } = *cell {
            let sequence = self
                .recipe
                .state
                .as_ref()
                .is_some_and(|s| s.kind == StateKind::Sequence);
            if sequence && run != 0 && run == lost_in {
                return Err(Fault::StateLost);
            }
            add(&self.counters(number).restarts, 1);
            let slot = Slot::start(&self.recipe, number, self.counters(number))
                .map_err(|e| Fault::Restart(Box::new(e)))?;
            *cell = Cell::Ready(Box::new(slot));
        }
        match cell {
            Cell::Ready(slot) => Ok(slot),
            Cell::Lost { .. } | Cell::Closed => Err(Fault::Closed),
        }
    }

    /// Whether rows and call fit this pool and each other.
    fn check(&self, call: &Call, rows: &Rows) -> Result<(), String> {
        if call.module().digest() != self.recipe.module.digest() {
            return Err(format!(
                "the call is of {}, the pool runs {}",
                call.module().name(),
                self.recipe.module.name()
            ));
        }
        if let Some(state) = &call.function().state
            && self.recipe.state.as_ref().map(|s| &s.name) != Some(&state.name)
        {
            return Err(format!(
                "the call works on the state `{}`, which the pool does not hold; name it with `PoolBuilder::state`",
                state.name
            ));
        }
        if rows.rows > i32::MAX as usize {
            return Err(format!(
                "{} rows in one call; the most is {}",
                rows.rows,
                i32::MAX
            ));
        }
        if let Some(mask) = &rows.mask
            && mask.len() != rows.rows
        {
            return Err(format!(
                "the mask has {} rows, the call {}",
                mask.len(),
                rows.rows
            ));
        }
        let expected = call
            .0
            .arguments
            .iter()
            .zip(&call.function().parameters)
            .filter(|(a, _)| a.constant.is_none());
        let count = expected.clone().count();
        if count != rows.columns.len() {
            return Err(format!(
                "{} columns for {count} arguments that are not constant",
                rows.columns.len()
            ));
        }
        for ((argument, parameter), column) in expected.zip(&rows.columns) {
            let field = &argument.field;
            if column.len() != rows.rows {
                return Err(format!(
                    "the column for `{}` has {} rows, the call {}",
                    parameter.name,
                    column.len(),
                    rows.rows
                ));
            }
            if !same_type(column.data_type(), field.data_type()) {
                return Err(format!(
                    "the column for `{}` is {}, the call was bound to {}",
                    parameter.name,
                    column.data_type(),
                    field.data_type()
                ));
            }
            if column.null_count() > 0 {
                if !field.is_nullable() {
                    return Err(format!(
                        "the column for `{}` has nulls, the call was bound to a column without",
                        parameter.name
                    ));
                }
                let takes_nulls = match &parameter.accepts {
                    ParameterType::Exact(field) => field.is_nullable(),
                    ParameterType::Any => true,
                };
                if !takes_nulls && call.function().nulls == NullHandling::Handle {
                    return Err(format!(
                        "the column for `{}` has nulls, which the function does not take; fill them in first",
                        parameter.name
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Types that lie in memory alike; names of nested fields do not matter.
fn same_type(a: &DataType, b: &DataType) -> bool {
    a == b || a.equals_datatype(b)
}

/// Runs code of the host that touched guest data, so that no panic crosses a thread.
fn host_safe<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        payload
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without text".to_owned())
    })
}
