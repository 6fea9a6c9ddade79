//! Warm pools: pools that outlive runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::core::{Core, RunTag};
use super::identity::Identity;
use crate::error::StartError;
use crate::ledger::Ledger;

/// How long pools stay warm.
///
/// ```
/// use std::time::Duration;
/// use wasmill::{WarmLimits, WarmPools};
///
/// let warm = WarmPools::new(WarmLimits { idle: Duration::from_secs(10), ..WarmLimits::default() });
/// assert_eq!(warm.len(), 0);
/// ```
#[derive(Debug, Clone)]
pub struct WarmLimits {
    /// Pools that are kept at most; beyond it the one that has been idle longest is closed. Default 16.
    pub pools: usize,
    /// How long a pool may be idle before it is closed. Default 60 s.
    pub idle: Duration,
    /// How old a pool may get; an older one takes no new runs. Default 1 h.
    pub age: Duration,
    /// How many calls a pool may have served before it takes no new runs. Default: any number.
    pub calls: Option<u64>,
    /// How large, in bytes, the memory of a slot may have grown before its pool takes no new runs: the
    /// memory of an instance never shrinks. Default: as large as the pool's policy allows.
    pub memory: Option<u64>,
}

impl Default for WarmLimits {
    fn default() -> Self {
        WarmLimits {
            pools: 16,
            idle: Duration::from_secs(60),
            age: Duration::from_secs(3600),
            calls: None,
            memory: None,
        }
    }
}

/// Pools that outlive runs, for programs that live long themselves. Cheap to clone.
///
/// Runs that are started with the same `WarmPools` share a pool where theirs have one identity: the same
/// module, state, `init` arguments, policy, resources, budgets, settings, number of slots, log sink, ledger
/// and tenant. They share it also at the same time, and take turns at it. A state that is a sequence never
/// stays, since it belongs to its run.
///
/// Idle pools keep what they reserved. They make room, the longest idle first, for any run on their ledger
/// that would not fit otherwise. When the last clone is dropped, and no run uses them, they are closed.
#[derive(Clone)]
pub struct WarmPools(Arc<Owner>);

/// Closes the pools when it goes: with the last [`WarmPools`], never on the caretaker's thread.
struct Owner(Arc<Inner>);

struct Inner {
    limits: WarmLimits,
    state: Mutex<State>,
    /// Told when a pool has been started, or could not be.
    started: Condvar,
    /// Closes what has been idle for too long.
    caretaker: OnceLock<Thread>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Key, Entry>,
    /// Pools in use that take no new runs, and how many still use them.
    leaving: Vec<(Arc<Core>, usize)>,
    /// How often all were given up.
    resets: u64,
    /// Whether the last handle has gone.
    over: bool,
}

/// What a warm pool is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The ledger that it is on.
    pub(super) ledger: usize,
    pub(super) identity: Identity,
    pub(super) slots: usize,
}

enum Entry {
    /// A run is starting it.
    Starting,
    Ready {
        core: Arc<Core>,
        users: usize,
        /// When its last user left.
        idle_since: Instant,
    },
}

/// What a run was promised: pools that it shares, and those that it has to start for all.
pub(super) struct Wanted {
    warm: WarmPools,
    /// `None` for pools that do not stay warm.
    keys: Vec<Option<Key>>,
    found: Vec<Option<Arc<Core>>>,
    /// Of [`State::resets`], when the others were promised.
    resets: u64,
    complete: bool,
}

impl WarmPools {
    /// No pools yet.
    pub fn new(limits: WarmLimits) -> Self {
        let inner = Arc::new(Inner {
            limits,
            state: Mutex::default(),
            started: Condvar::new(),
            caretaker: OnceLock::new(),
        });
        let mut all = all();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&inner));
        WarmPools(Arc::new(Owner(inner)))
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// How many pools there are, idle or in use.
    pub fn len(&self) -> usize {
        let state = self.inner().lock();
        state.entries.len().saturating_add(state.leaving.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives up all pools: the next runs start fresh instances. Those that are idle are closed now, those
    /// in use when their last run ends.
    pub fn reset(&self) {
        let mut state = self.inner().lock();
        state.resets = state.resets.wrapping_add(1);
        let idle = state.retire(|_| true);
        drop(state);
        close(idle);
    }

    /// Finds the pools that are there and promises to start the others. Waits while another run is
    /// starting one of them, which takes no longer than `init` does; no pool is held meanwhile, so runs
    /// never wait for each other in a circle.
    pub(super) fn want(&self, keys: &[Option<Key>], tag: &RunTag) -> Result<Wanted, StartError> {
        let inner = self.inner();
        let mut state = inner.lock();
        while keys
            .iter()
            .flatten()
            .any(|key| matches!(state.entries.get(key), Some(Entry::Starting)))
        {
            if tag.cancel.is_cancelled() {
                return Err(StartError::Cancelled {
                    run: tag.to_string(),
                });
            }
            let waited = inner
                .started
                .wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let worn = state.retire(|core| inner.is_worn(core));
        let found = keys
            .iter()
            .map(|key| {
                let key = key.as_ref()?;
                match state.entries.get_mut(key) {
                    Some(Entry::Ready { core, users, .. }) => {
                        *users = users.saturating_add(1);
                        Some(Arc::clone(core))
                    }
                    _ => {
                        state.entries.insert(key.clone(), Entry::Starting);
                        None
                    }
                }
            })
            .collect();
        let resets = state.resets;
        drop(state);
        close(worn);
        Ok(Wanted {
            resets,
            warm: self.clone(),
            keys: keys.to_vec(),
            found,
            complete: false,
        })
    }

    /// A run no longer uses a pool.
    pub(super) fn give_back(&self, core: &Arc<Core>) {
        let inner = self.inner();
        let mut state = inner.lock();
        let entry = state.entries.values_mut().find_map(|entry| match entry {
            Entry::Ready {
                core: ready,
                users,
                idle_since,
            } if Arc::ptr_eq(ready, core) => Some((users, idle_since)),
            _ => None,
        });
        let mut ended = Vec::new();
        if let Some((users, idle_since)) = entry {
            *users = users.saturating_sub(1);
            *idle_since = Instant::now();
            ended = state.retire(|core| inner.is_worn(core));
            while state.entries.len() > inner.limits.pools {
                match state.longest_idle(|_| true) {
                    Some((key, _)) => ended.extend(state.take(&key)),
                    None => break,
                }
            }
        } else if let Some(at) = state
            .leaving
            .iter()
            .position(|(leaving, _)| Arc::ptr_eq(leaving, core))
            && let Some((_, users)) = state.leaving.get_mut(at)
        {
            *users = users.saturating_sub(1);
            if *users == 0 {
                ended.push(state.leaving.swap_remove(at).0);
            }
        }
        drop(state);
        close(ended);
        // Whoever waits for room may have this pool closed now.
        core.ledger.wake();
        inner.wake_caretaker();
    }
}

/// All pools of this process that outlive runs.
static ALL: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Weak<Inner>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes the pool on a ledger that has been idle longest, whoever keeps it, other than those that are
/// spared; whether there was one.
pub(super) fn close_one(ledger: &Ledger, spared: &[&Key]) -> bool {
    let is_meant = |key: &Key| key.ledger == ledger.id() && !spared.contains(&key);
    let keepers: Vec<_> = all().iter().filter_map(Weak::upgrade).collect();
    let longest = keepers.iter().filter_map(|keeper| {
        let since = keeper.lock().longest_idle(is_meant)?.1;
        Some((since, keeper))
    });
    let Some((_, keeper)) = longest.min_by_key(|(since, _)| *since) else {
        return false;
    };
    let mut state = keeper.lock();
    let longest = state.longest_idle(is_meant);
    let idle = longest.and_then(|(key, _)| state.take(&key));
    drop(state);
    let found = idle.is_some();
    close(idle);
    found
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a pool takes no new runs.
    fn is_worn(&self, core: &Core) -> bool {
        if core.is_damaged() || core.started.elapsed() >= self.limits.age {
            return true;
        }
        let metrics = core.metrics();
        self.limits.calls.is_some_and(|most| metrics.calls >= most)
            || self
                .limits
                .memory
                .is_some_and(|most| metrics.peak_memory_bytes > most)
    }

    /// Closes what has been idle for too long; when the next one will have been.
    fn tidy(&self) -> Option<Instant> {
        let mut state = self.lock();
        let now = Instant::now();
        let due = |since: Instant| since.checked_add(self.limits.idle);
        let over: Vec<Key> = state
            .idle()
            .filter(|(_, since)| due(*since).is_some_and(|due| due <= now))
            .map(|(key, _)| key.clone())
            .collect();
        let ended: Vec<Arc<Core>> = over.iter().filter_map(|key| state.take(key)).collect();
        let next = state.idle().filter_map(|(_, since)| due(since)).min();
        drop(state);
        close(ended);
        next
    }

    /// Wakes the thread that closes idle pools, or starts it.
    fn wake_caretaker(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        let caretaker = self.caretaker.get_or_init(|| {
            let started = std::thread::Builder::new()
                .name("wasmill-warm".to_owned())
                .spawn(move || take_care(&inner));
            match started {
                Ok(handle) => handle.thread().clone(),
                Err(error) => {
                    tracing::warn!("idle pools are only closed when room is needed: {error}");
                    std::thread::current()
                }
            }
        });
        caretaker.unpark();
    }
}

fn take_care(pools: &Inner) {
    loop {
        let next = pools.tidy();
        if pools.lock().over {
            return;
        }
        match next {
            Some(due) => std::thread::park_timeout(due.saturating_duration_since(Instant::now())),
            None => std::thread::park(),
        }
    }
}

impl State {
    /// Pools that nobody uses, and since when.
    fn idle(&self) -> impl Iterator<Item = (&Key, Instant)> {
        self.entries.iter().filter_map(|(key, entry)| match entry {
            Entry::Ready {
                users: 0,
                idle_since,
                ..
            } => Some((key, *idle_since)),
            _ => None,
        })
    }

    /// The pool that has been idle longest, of those that are meant, and since when.
    fn longest_idle(&self, is_meant: impl Fn(&Key) -> bool) -> Option<(Key, Instant)> {
        let idle = self.idle().filter(|(key, _)| is_meant(key));
        let (key, since) = idle.min_by_key(|(_, since)| *since)?;
        Some((key.clone(), since))
    }

    fn take(&mut self, key: &Key) -> Option<Arc<Core>> {
        match self.entries.remove(key)? {
            Entry::Ready { core, .. } => Some(core),
            Entry::Starting => None,
        }
    }

    /// Takes out pools; gives those that nobody uses, which are to be closed.
    fn retire(&mut self, is_over: impl Fn(&Core) -> bool) -> Vec<Arc<Core>> {
        let over = self.entries.iter().filter_map(|(key, entry)| match entry {
            Entry::Ready { core, users, .. } if is_over(core) => Some((key.clone(), *users)),
            _ => None,
        });
        let over: Vec<(Key, usize)> = over.collect();
        let mut idle = Vec::new();
        for (key, users) in over {
            match (self.take(&key), users) {
                (Some(core), 0) => idle.push(core),
                (Some(core), users) => self.leaving.push((core, users)),
                (None, _) => {}
            }
        }
        idle
    }
}

impl Wanted {
    /// The pools that were there, in order.
    pub(super) fn found(&self) -> &[Option<Arc<Core>>] {
        &self.found
    }

    /// Fills in the pools that have been started, in order; gives all.
    pub(super) fn complete(mut self, started: Vec<Arc<Core>>) -> Vec<Arc<Core>> {
        self.complete = true;
        let mut started = started.into_iter();
        let mut state = self.warm.inner().lock();
        let mut all = Vec::with_capacity(self.keys.len());
        for (key, found) in self.keys.iter().zip(&self.found) {
            let core = match found {
                Some(core) => Arc::clone(core),
                None => match started.next() {
                    Some(core) => core,
                    None => unreachable!("a pool was started for each that was not found"),
                },
            };
            if let (Some(key), None) = (key, found) {
                if state.resets != self.resets {
                    // It was given up while it started.
                    state.entries.remove(key);
                    state.leaving.push((Arc::clone(&core), 1));
                    all.push(core);
                    continue;
                }
                let entry = Entry::Ready {
                    core: Arc::clone(&core),
                    users: 1,
                    idle_since: Instant::now(),
                };
                state.entries.insert(key.clone(), entry);
            }
            all.push(core);
        }
        drop(state);
        self.warm.inner().started.notify_all();
        all
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if self.complete {
            return;
        }
        let mut state = self.warm.inner().lock();
        for (key, _) in self
            .keys
            .iter()
            .zip(&self.found)
            .filter(|(_, found)| found.is_none())
        {
            if let Some(key) = key {
                state.entries.remove(key);
            }
        }
        drop(state);
        self.warm.inner().started.notify_all();
        for core in self.found.iter().flatten() {
            self.warm.give_back(core);
        }
    }
}

/// Closes pools that nobody uses.
fn close(cores: impl IntoIterator<Item = Arc<Core>>) {
    cores.into_iter().for_each(|core| core.close());
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.over = true;
        let entries = std::mem::take(&mut state.entries);
        drop(state);
        close(entries.into_values().filter_map(|entry| match entry {
            Entry::Ready { core, .. } => Some(core),
            Entry::Starting => None,
        }));
        if let Some(caretaker) = self.0.caretaker.get() {
            caretaker.unpark();
        }
    }
}

impl fmt::Debug for WarmPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarmPools")
            .field("limits", &self.inner().limits)
            .field("pools", &self.len())
            .finish()
    }
}
