//! Watches the threads of slots: whoever waits for one that does not come back gets an error in time.
//!
//! Guest code ends at its deadline, and so do host calls. What can still hold a thread up is outside:
//! a log sink that blocks, a file system that does not answer. Such a thread cannot be stopped; it is
//! given up, and what it holds counts as lost until it returns.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::answer::answer_here;
use super::core::Core;
use super::metrics;
use super::worker::host_safe;
use crate::sandbox::Cancel;

/// How often the watchman looks.
const LOOK: Duration = Duration::from_millis(50);
/// How often he must see a thread late before it is given up: two seconds of his own time, so that a
/// process that was stopped for a while does not lose all its slots when it goes on.
const LATE_LOOKS: u32 = 40;

/// How often what was counted is told to the recorder of metrics.
const RECORD: Duration = Duration::from_secs(1);

/// What a thread is doing, and for how long it may.
pub(super) struct Watch(Mutex<Watched>);

struct Watched {
    due: Option<Instant>,
    late: u32,
    lost: bool,
    /// Who may end the work before its time.
    cancel: Option<Cancel>,
    /// What is told to whoever waits, if the thread does not come back.
    on_loss: Option<OnLoss>,
}

type OnLoss = Box<dyn FnOnce() + Send>;

impl Default for Watch {
    fn default() -> Self {
        Watch(Mutex::new(Watched {
            due: None,
            late: 0,
            lost: false,
            cancel: None,
            on_loss: None,
        }))
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece of work begins that somebody waits for, until it is cancelled.
    pub(super) fn begin(&self, cancel: &Cancel, on_loss: impl FnOnce() + Send + 'static) {
        let mut watched = self.lock();
        watched.cancel = Some(cancel.clone());
        watched.on_loss = Some(Box::new(on_loss));
    }

    /// The next step of the work takes at most `time`.
    pub(super) fn expect(&self, time: Duration) {
        let mut watched = self.lock();
        watched.due = Instant::now().checked_add(time);
        watched.late = 0;
    }

    /// The work has ended; `false` when the thread had been given up meanwhile.
    pub(super) fn end(&self) -> bool {
        let mut watched = self.lock();
        watched.due = None;
        watched.late = 0;
        watched.cancel = None;
        watched.on_loss = None;
        !watched.lost
    }

    /// Whether the thread was given up.
    pub(super) fn is_lost(&self) -> bool {
        self.lock().lost
    }

    /// Looks at the thread once; when it is given up now, what tells whoever waits for it.
    fn look(&self, now: Instant) -> Option<OnLoss> {
        let mut watched = self.lock();
        let cancelled = watched.cancel.as_ref().is_some_and(Cancel::is_cancelled);
        let over = cancelled || watched.due.is_some_and(|due| now >= due);
        if watched.lost || !over {
            return None;
        }
        watched.late = watched.late.saturating_add(1);
        if watched.late < LATE_LOOKS {
            return None;
        }
        watched.lost = true;
        Some(watched.on_loss.take().unwrap_or_else(|| Box::new(|| {})))
    }
}

/// The pools that are watched.
static WATCHED: OnceLock<(Mutex<Vec<Weak<Core>>>, Condvar)> = OnceLock::new();

/// Watches the slots of a pool until it is gone.
pub(super) fn watch(core: Weak<Core>) -> std::io::Result<()> {
    let (pools, changed) = WATCHED.get_or_init(Default::default);
    let mut pools = pools.lock().unwrap_or_else(PoisonError::into_inner);
    static STARTED: OnceLock<()> = OnceLock::new();
    if STARTED.get().is_none() {
        std::thread::Builder::new()
            .name("wasmill-watch".to_owned())
            .spawn(keep_watch)?;
        let _ = STARTED.set(());
    }
    pools.push(core);
    drop(pools);
    changed.notify_all();
    Ok(())
}

fn keep_watch() {
    let (pools, changed) = WATCHED.get_or_init(Default::default);
    let mut recorded = Instant::now();
    answer_here();
    loop {
        let mut watched = pools.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|core| core.strong_count() > 0);
        while watched.is_empty() {
            watched = changed
                .wait(watched)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let cores: Vec<Weak<Core>> = watched.clone();
        drop(watched);
        let now = Instant::now();
        let record = now.duration_since(recorded) >= RECORD;
        if record {
            recorded = now;
        }
        for core in cores.iter().filter_map(Weak::upgrade) {
            // A program's recorder that panics must not leave all pools without a watchman.
            if let Err(message) = host_safe(|| look_at(&core, now, record)) {
                tracing::error!("the watchman of pools panicked: {message}");
            }
        }
        std::thread::sleep(LOOK);
    }
}

fn look_at(core: &Core, now: Instant, record: bool) {
    for (number, place) in core.places().iter().enumerate() {
        if let Some(tell) = place.watch.look(now) {
            core.lose_thread(number);
            tell();
        }
    }
    if record {
        metrics::record(core);
    }
}
