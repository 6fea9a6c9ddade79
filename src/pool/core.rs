//! What the slots of a pool share, and how its threads live and end.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use super::Rows;
use super::answer::{Done, answer, answer_here, answers_here};
use super::budget::Spent;
use super::metrics::{self, Counters, PoolMetrics, add_time};
use super::queue::Queue;
use super::slot::Recipe;
use super::watch::{self, Watch};
use super::worker::{Worker, host_safe};
use crate::call::Call;
use crate::error::{CallError, Fault, Place, StartError};
use crate::ledger::{KeptCpu, Ledger, PoolReservation, QueueReservation, SlotReservation};
use crate::sandbox::Cancel;

/// The run that something is done for.
#[derive(Debug, Clone)]
pub(super) struct RunTag {
    pub(super) id: u64,
    /// Its name, where it was given one.
    pub(super) name: Option<Arc<str>>,
    pub(super) cancel: Cancel,
    /// Whether it has ended: its tasks are answered, not served.
    pub(super) over: Arc<AtomicBool>,
}

impl RunTag {
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

impl fmt::Display for RunTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "run-{}", self.id),
        }
    }
}

/// One unit of work for a pool.
pub(super) struct Task {
    pub(super) tag: RunTag,
    pub(super) call: Call,
    pub(super) rows: Rows,
    pub(super) queued: Instant,
    pub(super) done: Done,
}

/// What belongs to one slot beside the slot itself.
#[derive(Default)]
pub(super) struct SlotPlace {
    pub(super) counters: Counters,
    pub(super) watch: Watch,
    reservation: Mutex<Option<SlotReservation>>,
    /// CPU that its thread has taken from the ledger.
    cpus: Mutex<Option<KeptCpu>>,
}

/// What the slots of a pool share.
pub(super) struct Core {
    pub(super) recipe: Arc<Recipe>,
    pub(super) notices: Vec<String>,
    pub(super) ledger: Ledger,
    pub(super) queue: Queue<Task>,
    pub(super) held: HeldBytes,
    pub(super) spent: Spent,
    pub(super) started: Instant,
    places: Vec<SlotPlace>,
    queue_reservation: Mutex<Option<QueueReservation>>,
    threads: Mutex<Threads>,
    ended: Condvar,
    next_lane: AtomicU64,
    /// Why it takes no more tasks, when its slots cannot live.
    death: Mutex<Option<Fault>>,
}

/// The threads of a pool.
#[derive(Default)]
struct Threads {
    handles: Vec<JoinHandle<()>>,
    /// Those that take tasks.
    living: usize,
    /// Those that have neither returned nor been given up.
    running: usize,
    /// Those that were given up, less those that have returned: these may be counted first.
    lost: isize,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Core").field(&self.recipe.pool).finish()
    }
}

/// A task that is being served, until it has been answered.
struct Serving<'q> {
    queue: &'q Queue<Task>,
    run: u64,
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.queue.served(self.run);
    }
}

impl Core {
    pub(super) fn new(
        recipe: Arc<Recipe>,
        notices: Vec<String>,
        ledger: Ledger,
        reservation: PoolReservation,
        queue_bytes: u64,
    ) -> Self {
        let places = reservation.slots.into_iter().map(|slot| SlotPlace {
            reservation: Mutex::new(Some(slot)),
            ..SlotPlace::default()
        });
        Core {
            recipe,
            notices,
            ledger,
            queue: Queue::default(),
            held: HeldBytes::new(queue_bytes),
            spent: Spent::default(),
            started: Instant::now(),
            places: places.collect(),
            queue_reservation: Mutex::new(Some(reservation.queue)),
            threads: Mutex::default(),
            ended: Condvar::new(),
            next_lane: AtomicU64::new(1),
            death: Mutex::new(None),
        }
    }

    pub(super) fn places(&self) -> &[SlotPlace] {
        &self.places
    }

    pub(super) fn place(&self, number: usize) -> &SlotPlace {
        match self.places.get(number).or_else(|| self.places.first()) {
            Some(place) => place,
            None => unreachable!("a pool has at least one slot"),
        }
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        lock(&self.threads)
    }

    pub(super) fn next_lane(&self) -> u64 {
        self.next_lane.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn metrics(&self) -> PoolMetrics {
        metrics::snapshot(self)
    }

    /// Where something happened in this pool.
    pub(super) fn about(&self, tag: &RunTag, slot: Option<usize>) -> Place {
        let state = self.recipe.state.as_ref();
        Place {
            module: self.recipe.module.name().to_owned(),
            udf: state.map_or_else(|| "(stateless)".to_owned(), |s| s.name.clone()),
            run: tag.name.as_deref().map(str::to_owned),
            pool: self.recipe.pool.clone(),
            slot,
            ..Place::default()
        }
    }

    /// Queues a task; when the pool or the run has ended, the task is answered at once.
    pub(super) fn submit(&self, lane: u64, task: Task) {
        if task.tag.is_over() {
            return self.refuse(task);
        }
        let run = task.tag.id;
        if let Err(task) = self.queue.push(run, lane, task) {
            self.refuse(task);
        }
    }

    /// Answers a task that will not be served.
    pub(super) fn refuse(&self, task: Task) {
        let fault = match &*lock(&self.death) {
            _ if task.tag.cancel.is_cancelled() => Fault::Cancelled,
            Some(death) => death.clone(),
            None => Fault::Closed,
        };
        let place = Place {
            udf: task.call.function().name.clone(),
            partition: task.rows.partition,
            ..self.about(&task.tag, None)
        };
        answer(
            task.done,
            Err(CallError {
                place: Box::new(place),
                fault: Box::new(fault),
            }),
        );
    }

    /// Starts the thread of a slot. With `started`, the slot is started at once and the outcome told.
    pub(super) fn spawn(
        self: &Arc<Self>,
        number: usize,
        tag: &RunTag,
        started: Option<mpsc::Sender<Result<(), StartError>>>,
    ) -> Result<(), StartError> {
        let (core, tag) = (Arc::clone(self), tag.clone());
        let mut threads = self.threads();
        let handle = std::thread::Builder::new()
            // Linux keeps 15 bytes of a name, so the slot's number comes first.
            .name(format!("slot{number} {}", self.recipe.pool).replace('\0', " "))
            .stack_size(self.recipe.module.engine().thread_stack())
            .spawn(move || core.live(number, &tag, started))
            .map_err(|e| self.no_thread(&e))?;
        threads.handles.push(handle);
        threads.living = threads.living.saturating_add(1);
        threads.running = threads.running.saturating_add(1);
        Ok(())
    }

    /// Lets the watchman look after the threads.
    pub(super) fn be_watched(self: &Arc<Self>) -> Result<(), StartError> {
        watch::watch(Arc::downgrade(self)).map_err(|e| self.no_thread(&e))
    }

    fn no_thread(&self, error: &std::io::Error) -> StartError {
        StartError::Threads {
            pool: self.recipe.pool.clone(),
            reason: error.to_string(),
        }
    }

    /// The life of a slot's thread.
    fn live(
        self: Arc<Self>,
        number: usize,
        tag: &RunTag,
        started: Option<mpsc::Sender<Result<(), StartError>>>,
    ) {
        answer_here();
        let mut worker = Worker::new(Arc::clone(&self), number);
        let ready = match started {
            None => true,
            Some(started) => self.start(&mut worker, number, tag, &started),
        };
        if ready && let Err(message) = host_safe(|| self.serve(&mut worker, number)) {
            self.fail(number, message);
        }
        self.close_slot(&mut worker, number);
        drop(worker);
        let place = self.place(number);
        drop(lock(&place.reservation).take());
        let mut threads = self.threads();
        match place.watch.is_lost() {
            true => threads.lost = threads.lost.saturating_sub(1),
            false => threads.running = threads.running.saturating_sub(1),
        }
        drop(threads);
        self.ended.notify_all();
    }

    fn start(
        &self,
        worker: &mut Worker,
        number: usize,
        tag: &RunTag,
        started: &mpsc::Sender<Result<(), StartError>>,
    ) -> bool {
        let about = || Box::new(self.about(tag, Some(number)));
        let failed = |fault| StartError::Slot {
            place: about(),
            fault: Box::new(fault),
        };
        let place = self.place(number);
        if !self.take_cpus(place, &|| tag.cancel.is_cancelled()) {
            let _ = started.send(Err(failed(Fault::Cancelled)));
            return false;
        }
        let (lost, error) = (started.clone(), failed(Fault::Lost));
        place
            .watch
            .begin(&tag.cancel, move || drop(lost.send(Err(error))));
        let span =
            tracing::debug_span!("start", run = %tag, pool = self.recipe.pool, slot = number);
        let outcome = span.in_scope(|| worker.start(tag));
        let in_time = place.watch.end();
        self.give_cpus(place);
        let ready = outcome.is_ok();
        if in_time {
            let _ = started.send(outcome);
        }
        ready && in_time
    }

    /// The host's own code panicked on the thread of a slot, which therefore ends.
    fn fail(&self, number: usize, message: String) {
        let place = self.place(number);
        tracing::error!(
            pool = self.recipe.pool,
            slot = number,
            "the slot's thread panicked: {message}"
        );
        self.give_cpus(place);
        if place.watch.end() {
            self.retire(Fault::Host { message });
        }
    }

    fn serve(self: &Arc<Self>, worker: &mut Worker, number: usize) {
        let place = self.place(number);
        // The slot is nobody's while its thread waits for work and for CPU.
        while self.queue.wait() {
            if !self.take_cpus(place, &|| self.queue.is_closed()) {
                continue;
            }
            let Some((run, task)) = self.queue.pop() else {
                self.give_cpus(place);
                continue;
            };
            let queue = &self.queue;
            let serving = Serving { queue, run };
            add_time(&place.counters.wait, task.queued.elapsed());
            let Task {
                tag,
                call,
                rows,
                done,
                ..
            } = task;
            let receiver = Arc::new(Mutex::new(Some(done)));
            place.watch.begin(
                &tag.cancel,
                self.on_loss(&receiver, number, &call, &rows, &tag),
            );
            let span = tracing::debug_span!(
                "call",
                run = %tag,
                pool = self.recipe.pool,
                slot = number,
                udf = call.function().name,
                rows = rows.rows
            );
            let result = span.in_scope(|| worker.serve(&call, &rows, &tag));
            drop((call, rows));
            let in_time = place.watch.end();
            self.give_cpus(place);
            if !in_time {
                // The watchman has answered the task, or is about to.
                std::mem::forget(serving);
                return;
            }
            let end = worker.end();
            if let Some(end) = &end {
                self.retire(end.clone());
            }
            if let Some(done) = lock(&receiver).take() {
                answer(done, result);
            }
            drop(serving);
            if end.is_some() {
                return;
            }
        }
    }

    /// Tells whoever waits for a task that its thread does not come back.
    fn on_loss(
        self: &Arc<Self>,
        receiver: &Arc<Mutex<Option<Done>>>,
        number: usize,
        call: &Call,
        rows: &Rows,
        tag: &RunTag,
    ) -> impl FnOnce() + Send + 'static {
        let (core, receiver) = (Arc::clone(self), Arc::clone(receiver));
        let (call, tag, partition) = (call.clone(), tag.clone(), rows.partition);
        let range = rows.first_row..rows.first_row.saturating_add(rows.rows as u64);
        move || {
            let queue = &core.queue;
            let _serving = Serving { queue, run: tag.id };
            let Some(done) = lock(&receiver).take() else {
                return;
            };
            let place = Place {
                udf: call.function().name.clone(),
                partition,
                rows: Some(range),
                ..core.about(&tag, Some(number))
            };
            let error = CallError {
                place: Box::new(place),
                fault: Box::new(Fault::Lost),
            };
            answer(done, Err(error));
        }
    }

    fn close_slot(&self, worker: &mut Worker, number: usize) {
        let place = self.place(number);
        // Calls end at their deadlines, so that there will be CPU.
        if place.watch.is_lost() || !self.take_cpus(place, &|| false) {
            return;
        }
        // A cancelled run closes its slots, too.
        place.watch.begin(&Cancel::default(), || {});
        let closed = worker.close();
        let in_time = place.watch.end();
        self.give_cpus(place);
        match closed {
            Ok(()) if in_time => {}
            Ok(()) => tracing::warn!(
                pool = self.recipe.pool,
                slot = number,
                "closing took too long"
            ),
            Err(fault) => tracing::warn!(
                pool = self.recipe.pool,
                slot = number,
                module = self.recipe.module.name(),
                "close failed: {fault}"
            ),
        }
    }

    fn take_cpus(&self, place: &SlotPlace, stop: &dyn Fn() -> bool) -> bool {
        let cpus = self.recipe.resources.cpus;
        let Some(permit) = self.ledger.permit(cpus, stop) else {
            return false;
        };
        *lock(&place.cpus) = Some(permit.keep());
        true
    }

    /// Gives CPU back, unless that was done when the thread was given up.
    fn give_cpus(&self, place: &SlotPlace) {
        if let Some(cpus) = lock(&place.cpus).take() {
            self.ledger.give_back(cpus);
        }
    }

    /// A slot can live no longer; the pool ends with its last one.
    fn retire(&self, death: Fault) {
        let mut threads = self.threads();
        threads.living = threads.living.saturating_sub(1);
        let last = threads.living == 0;
        drop(threads);
        if last {
            self.die(death);
        }
    }

    fn die(&self, death: Fault) {
        lock(&self.death).get_or_insert(death);
        for task in self.queue.close() {
            self.refuse(task);
        }
    }

    /// Whether it can serve no more tasks.
    pub(super) fn is_dead(&self) -> bool {
        lock(&self.death).is_some()
    }

    /// Whether some of its slots are gone.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_dead() || self.threads().living < self.places.len()
    }

    /// The watchman gave up a thread.
    pub(super) fn lose_thread(&self, number: usize) {
        let place = self.place(number);
        if let Some(reservation) = &*lock(&place.reservation) {
            reservation.mark_lost();
        }
        self.give_cpus(place);
        let mut threads = self.threads();
        threads.lost = threads.lost.saturating_add(1);
        threads.running = threads.running.saturating_sub(1);
        drop(threads);
        tracing::error!(
            pool = self.recipe.pool,
            slot = number,
            "the slot did not come back long after its time was over; it counts as lost"
        );
        self.retire(Fault::Lost);
        self.ended.notify_all();
    }

    /// Slots whose threads have been given up and have not returned.
    pub(super) fn lost_slots(&self) -> usize {
        usize::try_from(self.threads().lost).unwrap_or(0)
    }

    /// Takes no more tasks, answers those that wait, lets those that run come to their end, runs `close`
    /// in each slot that lives, and waits until all are gone; not for those that are lost.
    pub(super) fn close(&self) {
        for task in self.queue.close() {
            self.refuse(task);
        }
        self.ledger.wake();
        if answers_here() {
            return;
        }
        let mut threads = self.threads();
        while threads.running > 0 {
            threads = self
                .ended
                .wait(threads)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let handles = match threads.lost {
            0 => std::mem::take(&mut threads.handles),
            // Which of them will not return is not worth knowing.
            _ => Vec::new(),
        };
        drop(threads);
        for handle in handles {
            let _ = handle.join();
        }
        // Threads give back what their slots had; some may never have come to be.
        let unstarted = self.places.iter().filter(|place| !place.watch.is_lost());
        unstarted.for_each(|place| drop(lock(&place.reservation).take()));
        drop(lock(&self.queue_reservation).take());
        metrics::record(self);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // For those whose end nobody waited for.
        let _ = host_safe(|| metrics::record(self));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of batches that are on their way through a pool.
#[derive(Debug)]
pub(super) struct HeldBytes {
    limit: u64,
    held: AtomicU64,
    most: AtomicU64,
}

impl HeldBytes {
    fn new(limit: u64) -> Self {
        HeldBytes {
            limit,
            held: AtomicU64::new(0),
            most: AtomicU64::new(0),
        }
    }

    /// Whether more may come.
    pub(super) fn have_room(&self) -> bool {
        self.held() < self.limit
    }

    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The most so far.
    pub(super) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, bytes: u64) {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        self.most
            .fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
    }

    pub(super) fn take(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}
