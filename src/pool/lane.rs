//! The way of one partition into a pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use super::core::{Core, Task};
use super::stage::array_bytes;
use super::{Output, Pool, Rows};
use crate::call::Call;
use crate::error::CallError;

/// The way of one partition of a run into a pool: its tasks start in the order in which they come, and
/// take turns with those of other lanes. What still waits when a lane is dropped is forgotten.
#[derive(Debug)]
pub(crate) struct Lane {
    pool: Pool,
    id: u64,
    /// Batches on their way.
    held: Arc<AtomicUsize>,
}

/// The bytes of a batch on its way through a pool, until whoever reads the output takes it.
#[derive(Debug)]
pub(crate) struct Held(#[allow(dead_code, reason = "a guard")] Arc<HeldBatch>);

#[derive(Debug)]
struct HeldBatch {
    core: Arc<Core>,
    lane: Arc<AtomicUsize>,
    bytes: AtomicU64,
}

impl Lane {
    pub(crate) fn new(pool: &Pool) -> Self {
        Lane {
            pool: pool.clone(),
            id: pool.core.next_lane(),
            held: Arc::default(),
        }
    }

    /// Whether another batch may come. One always may, however full the pool is of batches of others:
    /// whoever waits for this lane would otherwise wait for ever if it held those up.
    pub(crate) fn has_room(&self) -> bool {
        self.held.load(Ordering::Relaxed) == 0 || self.pool.core.held.have_room()
    }

    /// Queues rows; `done` gets the result and must not block. The batch that they are part of has so
    /// many bytes, which count, together with those of the result, until the answer is dropped.
    pub(crate) fn submit(
        &self,
        call: &Call,
        rows: Rows,
        bytes: u64,
        done: impl FnOnce(Result<Output, CallError>) + Send + 'static,
    ) -> Held {
        self.held.fetch_add(1, Ordering::Relaxed);
        self.pool.core.held.add(bytes);
        let held = Arc::new(HeldBatch {
            core: Arc::clone(&self.pool.core),
            lane: Arc::clone(&self.held),
            bytes: AtomicU64::new(bytes),
        });
        let growing = Arc::clone(&held);
        let done = move |result: Result<Output, CallError>| {
            if let Ok(output) = &result {
                growing.grow(array_bytes(&output.array));
            }
            drop(growing);
            done(result);
        };
        let task = Task {
            tag: self.pool.run.tag().clone(),
            call: call.clone(),
            rows,
            queued: Instant::now(),
            done: Box::new(done),
        };
        self.pool.core.submit(self.id, task);
        Held(held)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let forgotten = self
            .pool
            .core
            .queue
            .remove_lane(self.pool.run.tag().id, self.id);
        drop(forgotten);
    }
}

impl HeldBatch {
    fn grow(&self, bytes: u64) {
        self.core.held.add(bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for HeldBatch {
    fn drop(&mut self) {
        self.core.held.take(*self.bytes.get_mut());
        self.lane.fetch_sub(1, Ordering::Relaxed);
    }
}
