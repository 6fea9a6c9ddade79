//! CPU for running calls: as many run at a time as there are CPUs, first come, first served.
//!
//! A call takes under a microsecond, so taking and giving back must cost next to nothing while nobody
//! waits: one atomic instruction each, on one word that holds the free CPU and a flag.
//!
//! # Why no wake-up is lost
//!
//! `QUEUED` is set while the queue is not empty. It is changed under the queue's lock only, and while it
//! is set only the holder of that lock takes CPU, in [`Permits::serve`]; others can but give back.
//! All changes of the word have one order, in which the setting of the flag is one event, S. A waiter
//! joins the queue, does S, and serves the queue before it sleeps. A giving back, G, is either
//!
//! - before S: the waiter's own `serve` then reads the word after G and finds the CPU; or
//! - after S, and before the flag is taken away: G reads the flag, takes the lock and serves the queue.
//!   The waiter is in it by then, since whoever set the flag held the lock until it was.
//!
//! After the flag was taken away nobody was in the queue. So whenever CPU became free for the first in
//! the queue, somebody serves it afterwards: marks it as served, then unparks it. An unpark that comes
//! before the park makes the park return at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use super::Share;

/// Set in the word while somebody waits. The bits below 32 are the free thousandths of CPUs.
const QUEUED: u64 = 1 << 63;

/// How long a waiter sleeps before it looks whether it is to stop. Cancelling wakes it sooner.
const LOOK: Duration = Duration::from_millis(100);

/// The CPUs, as calls take and give them back.
pub(super) struct Permits {
    word: AtomicU64,
    queue: Mutex<VecDeque<Arc<Waiter>>>,
    total: Share,
}

struct Waiter {
    thread: Thread,
    /// Thousandths that it waits for.
    cpus: u64,
    /// Whether they have been taken for it; it has left the queue then.
    served: AtomicBool,
}

/// CPU for one running call; given back when it is dropped.
#[must_use]
pub(crate) struct Permit<'p> {
    permits: &'p Permits,
    cpus: u64,
}

impl Permits {
    pub(super) fn new(total: Share) -> Permits {
        Permits {
            word: AtomicU64::new(u64::from(total.as_thousandths())),
            queue: Mutex::new(VecDeque::new()),
            total,
        }
    }

    /// Takes CPU for a call, at most all that there is, and waits for it in line. `None` once `stop`
    /// answers true: that is asked before each sleep, never while CPU is free and nobody waits.
    pub(super) fn take(&self, cpus: Share, stop: &dyn Fn() -> bool) -> Option<Permit<'_>> {
        let cpus = u64::from(cpus.min(self.total).as_thousandths());
        if cpus == 0 || self.try_take(cpus) {
            return Some(Permit {
                permits: self,
                cpus,
            });
        }
        self.wait(cpus, stop)
    }

    /// Takes CPU if there is enough and nobody waits.
    fn try_take(&self, cpus: u64) -> bool {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & QUEUED == 0 {
            let Some(left) = seen.checked_sub(cpus) else {
                return false;
            };
            match self
                .word
                .compare_exchange_weak(seen, left, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    #[cold]
    fn wait(&self, cpus: u64, stop: &dyn Fn() -> bool) -> Option<Permit<'_>> {
        let waiting = self.join(cpus);
        while !waiting.waiter.served.load(Ordering::Acquire) {
            if stop() {
                return None;
            }
            thread::park_timeout(LOOK);
        }
        // What was taken for the waiter is the permit's from here on.
        std::mem::forget(waiting);
        Some(Permit {
            permits: self,
            cpus,
        })
    }

    fn join(&self, cpus: u64) -> Waiting<'_> {
        let waiter = Arc::new(Waiter {
            thread: thread::current(),
            cpus,
            served: AtomicBool::new(false),
        });
        let mut queue = self.lock();
        queue.push_back(Arc::clone(&waiter));
        self.word.fetch_or(QUEUED, Ordering::Relaxed);
        self.serve(&mut queue);
        drop(queue);
        Waiting {
            permits: self,
            waiter,
        }
    }

    /// Takes CPU for the first waiters, as far as it goes, and wakes them. One that needs more than is
    /// free holds back those behind it, so that it gets its turn.
    fn serve(&self, queue: &mut VecDeque<Arc<Waiter>>) {
        while let Some(first) = queue.front() {
            let free = self.word.load(Ordering::Acquire) & !QUEUED;
            if free < first.cpus {
                return;
            }
            // Nobody else takes while the flag is set, so there is still at least as much.
            self.word.fetch_sub(first.cpus, Ordering::Relaxed);
            first.served.store(true, Ordering::Release);
            first.thread.unpark();
            queue.pop_front();
        }
        self.word.fetch_and(!QUEUED, Ordering::Relaxed);
    }

    fn give_back(&self, cpus: u64) {
        let before = self.word.fetch_add(cpus, Ordering::Release);
        if before & QUEUED != 0 {
            self.serve_locked();
        }
    }

    #[cold]
    fn serve_locked(&self) {
        self.serve(&mut self.lock());
    }

    /// Makes every waiter look whether it is to stop.
    pub(super) fn wake(&self) {
        for waiter in self.lock().iter() {
            waiter.thread.unpark();
        }
    }

    /// What running calls have.
    pub(super) fn in_use(&self) -> Share {
        let free = self.word.load(Ordering::Relaxed) & !QUEUED;
        let free = u32::try_from(free).unwrap_or(u32::MAX);
        Share::thousandths(self.total.as_thousandths().saturating_sub(free))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Waiter>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Keeps the CPU beyond this guard; whoever does says [`Ledger::give_back`](super::Ledger::give_back)
    /// with the answer.
    pub(crate) fn keep(self) -> KeptCpu {
        let cpus = self.cpus;
        std::mem::forget(self);
        KeptCpu(cpus)
    }
}

/// CPU that a call has taken, to be given back by hand.
#[derive(Debug)]
#[must_use]
pub(crate) struct KeptCpu(u64);

impl Permits {
    /// Gives back what was kept.
    pub(super) fn take_back(&self, cpus: KeptCpu) {
        if cpus.0 > 0 {
            self.give_back(cpus.0);
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.cpus > 0 {
            self.permits.give_back(self.cpus);
        }
    }
}

/// A place in the queue; left when it is dropped.
struct Waiting<'p> {
    permits: &'p Permits,
    waiter: Arc<Waiter>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut queue = self.permits.lock();
        // Under the lock it is either still in the queue or has been served.
        if self.waiter.served.load(Ordering::Acquire) {
            drop(queue);
            self.permits.give_back(self.waiter.cpus);
        } else {
            queue.retain(|other| !Arc::ptr_eq(other, &self.waiter));
            self.permits.serve(&mut queue);
        }
    }
}

#[cfg(test)]
mod tests;
