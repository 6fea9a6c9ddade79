//! How a run is stopped from outside, and what is waited for at its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::failure::{Exit, Failure};
use crate::{Cancel, Run, RunMetrics};

/// How long guests may take for their ends.
pub(crate) const TO_FINISH: Duration = Duration::from_secs(10);

/// Keeps the run alive beyond the plan.
///
/// The last handle that goes ends the run, and waits for guests that are still computing. Whoever drops
/// a cancelled plan must not be held up by that.
#[derive(Clone, Default)]
pub(crate) struct RunKeeper {
    run: Arc<Mutex<Option<Run>>>,
    cancel: Cancel,
}

impl RunKeeper {
    /// What ends the run, from before it is admitted.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Remembers a run that was started.
    pub(crate) fn keep(&self, run: &Run) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run.clone());
    }

    /// Ends the run, which calls the guests' `close`, and waits for it no longer than `patience`. What
    /// its pools counted, if it has ended by then.
    pub(crate) fn finish(&self, patience: Duration) -> Option<RunMetrics> {
        let kept = self
            .run
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let run = kept?;
        let (finished, waiting) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Nobody listens when it took too long; the process ends then.
            let _ = finished.send(run.finish());
        });
        waiting.recv_timeout(patience).ok()
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
