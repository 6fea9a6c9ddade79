//! How a run is stopped from outside, and what is waited for at its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::failure::{Exit, Failure};
use crate::Pool;

/// Keeps the pool alive beyond the plan.
///
/// The last handle that goes closes the pool, and waits for a guest that is still computing. Whoever
/// drops a cancelled plan must not be held up by that.
#[derive(Clone, Default)]
pub(crate) struct PoolKeeper(Arc<Mutex<Option<Pool>>>);

impl PoolKeeper {
    /// Remembers a pool that was started.
    pub(crate) fn keep(&self, pool: &Pool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(pool.clone());
    }

    /// Closes the pool, which runs the guests' `close`, and waits for it no longer than `patience`.
    pub(crate) fn close(&self, patience: Duration) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(pool) = kept else { return };
        let (closed, waiting) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            pool.close();
            // Nobody listens when it took too long; the process ends then.
            let _ = closed.send(());
        });
        let _ = waiting.recv_timeout(patience);
    }
}

/// Runs what blocks where a signal can still be heard.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| {
        Err(Failure {
            exit: Exit::Failed,
            message: format!("internal error: {e}"),
            hint: None,
        })
    })
}

/// Resolves when the process is asked to stop.
pub(crate) async fn signalled() -> Exit {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = (
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        );
        if let (Ok(mut terminate), Ok(mut hangup)) = signals {
            return tokio::select! {
                _ = terminate.recv() => Exit::Terminated,
                _ = hangup.recv() => Exit::HungUp,
                _ = tokio::signal::ctrl_c() => Exit::Interrupted,
            };
        }
    }
    let _ = tokio::signal::ctrl_c().await;
    Exit::Interrupted
}
