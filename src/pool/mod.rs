//! Pools: slots that start once and serve any number of batches, for one run or for many.

mod answer;
mod budget;
mod builder;
mod check;
mod core;
mod identity;
mod lane;
mod metrics;
mod queue;
mod rebatch;
mod run;
mod selection;
mod slot;
mod stage;
mod warm;
mod watch;
mod worker;

use std::sync::{Arc, mpsc};
use std::time::Instant;

use arrow::array::{ArrayRef, BooleanArray};

pub use budget::Budgets;
pub use builder::PoolBuilder;
#[cfg(feature = "datafusion")]
pub(crate) use builder::{Forecast, QUEUE_BYTES};
pub(crate) use lane::{Held, Lane};
pub use metrics::{PoolMetrics, SlotMetrics};
pub use rebatch::Rebatcher;
pub use run::{Run, RunConfig, RunMetrics};
pub use slot::{Output, RowError};
#[cfg(feature = "datafusion")]
pub(crate) use stage::batch_bytes;
pub use stage::{Stage, StageBatches, StageCall};
pub use warm::{WarmLimits, WarmPools};

use self::core::{Core, RunTag, Task};
use self::run::RunState;
use self::worker::Worker;
use crate::call::Call;
use crate::error::{CallError, Fault, Place, StartError};
use crate::module::Module;

/// A pool of slots, as one run uses it. Cheap to clone; when the last handle of the run is dropped, each
/// slot's `close` runs and the slots are gone when the drop returns.
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
pub struct Pool {
    core: Arc<Core>,
    run: Arc<RunState>,
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
        &self.core.recipe.pool
    }

    /// The name of the run that this handle belongs to.
    #[cfg(feature = "datafusion")]
    pub(crate) fn run_name(&self) -> String {
        self.run.tag().to_string()
    }

    /// The module that runs in it.
    pub fn module(&self) -> &Module {
        &self.core.recipe.module
    }

    /// How many slots it has.
    pub fn slots(&self) -> usize {
        self.core.places().len()
    }

    /// What a user should know about how the pool differs from what was asked for.
    pub fn notices(&self) -> &[String] {
        &self.core.notices
    }

    /// What it counted so far; a warm pool also what it counted in earlier runs.
    pub fn metrics(&self) -> PoolMetrics {
        self.core.metrics()
    }

    /// Queues rows for the next free slot; `done` gets the result on the slot's thread and must not
    /// block; where it ends the run, that is not waited for. Tasks of a run start in the order in which
    /// they were submitted, and take turns with those of other runs. Rows that need no computing never
    /// enter the guest. When the run has ended, the answer is [`Fault::Closed`].
    ///
    /// Nothing bounds how much is queued here: whoever submits has to wait for results.
    pub fn submit(
        &self,
        call: &Call,
        rows: Rows,
        done: impl FnOnce(Result<Output, CallError>) + Send + 'static,
    ) {
        /// The lane of whoever needs none of their own.
        const COMMON: u64 = 0;
        let task = Task {
            tag: self.run.tag().clone(),
            call: call.clone(),
            rows,
            queued: Instant::now(),
            done: Box::new(done),
        };
        self.core.submit(COMMON, task);
    }

    /// Computes rows and waits for the result.
    ///
    /// # Errors
    /// [`CallError`]: what went wrong, and where.
    pub fn call(&self, call: &Call, rows: Rows) -> Result<Output, CallError> {
        let (send, receive) = mpsc::sync_channel(1);
        self.submit(call, rows, move |result| {
            let _ = send.send(result);
        });
        receive.recv().unwrap_or_else(|_| {
            Err(CallError {
                place: Box::new(self.place()),
                fault: Box::new(Fault::Closed),
            })
        })
    }

    /// Where something happened in this pool.
    pub(crate) fn place(&self) -> Place {
        self.core.about(self.run.tag(), None)
    }

    /// Ends the run that the pool was started for, as [`Run::finish`] does, whoever else has a handle.
    pub fn close(self) {
        self.run.finish();
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("run", &self.run.tag().to_string())
            .field("name", &self.name())
            .field("slots", &self.slots())
            .finish_non_exhaustive()
    }
}

/// A slot on the thread of whoever uses it. Dropping it runs `close`.
pub struct LocalSlot {
    worker: Worker,
    core: Arc<Core>,
    tag: RunTag,
}

impl LocalSlot {
    fn start(core: Arc<Core>, tag: RunTag) -> Result<Self, StartError> {
        let mut worker = Worker::new(Arc::clone(&core), 0);
        worker.start(&tag)?;
        Ok(LocalSlot { worker, core, tag })
    }

    /// Computes rows.
    ///
    /// # Errors
    /// [`CallError`]: what went wrong, and where.
    pub fn call(&mut self, call: &Call, rows: &Rows) -> Result<Output, CallError> {
        self.worker.serve(call, rows, &self.tag)
    }

    /// What the slot counted so far.
    pub fn metrics(&self) -> PoolMetrics {
        self.core.metrics()
    }

    /// Runs `close`.
    ///
    /// # Errors
    /// [`CallError`]: what went wrong in it; the slot is gone either way.
    pub fn close(mut self) -> Result<(), CallError> {
        self.worker.close().map_err(|fault| CallError {
            place: Box::new(self.core.about(&self.tag, Some(0))),
            fault: Box::new(fault),
        })
    }
}

impl std::fmt::Debug for LocalSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LocalSlot")
            .field(&self.core.recipe.pool)
            .finish()
    }
}

impl Drop for LocalSlot {
    fn drop(&mut self) {
        if let Err(fault) = self.worker.close() {
            tracing::warn!(
                pool = self.core.recipe.pool,
                slot = 0,
                "close failed: {fault}"
            );
        }
    }
}
