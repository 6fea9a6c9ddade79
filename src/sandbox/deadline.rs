//! When guest code must end: at a moment, or when its run is cancelled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::wasi::HostCallError;

/// Says to everybody who holds a clone that the work is no longer wanted.
///
/// ```
/// use wasmill::Cancel;
///
/// let cancel = Cancel::default();
/// let elsewhere = cancel.clone();
/// elsewhere.cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    cancelled: AtomicBool,
    /// Cancels this one too.
    parent: Option<Cancel>,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Cancel {
    /// Cancels for good.
    pub fn cancel(&self) {
        let guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.cancelled.store(true, Ordering::Release);
        drop(guard);
        self.0.changed.notify_all();
    }

    /// Whether somebody cancelled.
    pub fn is_cancelled(&self) -> bool {
        let inner = &*self.0;
        inner.cancelled.load(Ordering::Acquire)
            || inner.parent.as_ref().is_some_and(Cancel::is_cancelled)
    }

    /// Another one, which is cancelled when this one is; not the other way round.
    pub(crate) fn child(&self) -> Cancel {
        Cancel(Arc::new(Inner {
            parent: Some(self.clone()),
            ..Inner::default()
        }))
    }

    /// Waits for `time`, or until somebody cancels; whether somebody did. A parent that cancels is seen
    /// within a twentieth of a second.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        const LOOK: Duration = Duration::from_millis(50);
        let end = Instant::now().checked_add(time);
        let mut guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_cancelled() {
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            let waited = self.0.changed.wait_timeout(guard, left.min(LOOK));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Whether both are clones of one.
    fn is(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The end of one entry into a guest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deadline {
    /// `None`: further away than clocks go.
    moment: Option<Instant>,
    cancel: Cancel,
}

impl Deadline {
    /// Sets the moment.
    pub(crate) fn set(&mut self, moment: Option<Instant>) {
        self.moment = moment;
    }

    /// Listens to another cancellation. Nearly always it is the one that it listens to already, and
    /// counting its holders would cost more than looking.
    pub(crate) fn listen(&mut self, cancel: &Cancel) {
        if !self.cancel.is(cancel) {
            self.cancel = cancel.clone();
        }
    }

    /// Why the guest must end, once it must.
    pub(crate) fn check(&self) -> Result<(), HostCallError> {
        if self.cancel.is_cancelled() {
            return Err(HostCallError::Cancelled);
        }
        match self.moment {
            Some(moment) if Instant::now() >= moment => Err(HostCallError::DeadlineExceeded),
            _ => Ok(()),
        }
    }
}
