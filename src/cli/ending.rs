//! How a command that runs guests is stopped from outside, and what is waited for at its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::failure::{Exit, Failure};
use super::io::Uploads;
use super::say;
use crate::plan::RunObserver;
use crate::{Cancel, Run, RunMetrics};

/// How long guests may take for their ends.
pub(crate) const TO_FINISH: Duration = Duration::from_secs(10);

/// How long what was asked to stop may take for it.
pub(crate) const TO_STOP: Duration = Duration::from_millis(500);

/// Most time to take back what was sent to a store.
const SETTLING: Duration = Duration::from_secs(10);

/// Keeps runs alive beyond their plans.
///
/// The last handle that goes ends a run, and waits for guests that are still computing. Whoever drops
/// a cancelled plan must not be held up by that.
#[derive(Clone, Default)]
pub(crate) struct RunKeeper {
    runs: Arc<Mutex<Vec<Run>>>,
    cancel: Cancel,
}

impl RunKeeper {
    /// What ends the runs, from before they are admitted.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// One whose runs this one ends too, and which can be cancelled by itself.
    pub(crate) fn child(&self) -> Self {
        RunKeeper {
            runs: Arc::clone(&self.runs),
            cancel: self.cancel.child(),
        }
    }

    /// Remembers a run that was started.
    pub(crate) fn keep(&self, run: &Run) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push(run.clone());
    }

    /// For sessions whose plans start runs: remembers each, and says what is to be noted of its pools.
    pub(crate) fn observer(&self) -> RunObserver {
        let keeper = self.clone();
        RunObserver(Arc::new(move |run: &Run| {
            keeper.keep(run);
            run.pools()
                .iter()
                .flat_map(|pool| pool.notices())
                .for_each(|notice| say(&format!("note: {notice}")));
        }))
    }

    /// Ends the runs, which calls the guests' `close`, waits for them no longer than `patience`, and
    /// forgets them. What their pools counted until then.
    pub(crate) fn finish(&self, patience: Duration) -> Option<RunMetrics> {
        let kept = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
        let name = kept.first()?.name();
        let runs = kept.clone();
        let (finished, waiting) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for run in kept {
                run.finish();
            }
            // Nobody listens when it took too long; the process ends then.
            let _ = finished.send(());
        });
        let _ = waiting.recv_timeout(patience);
        let pools = runs.iter().flat_map(|run| run.metrics().pools).collect();
        // The thread has the last handles where it goes on.
        Some(RunMetrics { run: name, pools })
    }
}

/// Does `work` until it is done or the process is asked to stop, and leaves nothing behind.
pub(crate) fn supervised(
    runtime: Runtime,
    keeper: &RunKeeper,
    uploads: &Uploads,
    work: impl Future<Output = Result<(), Failure>> + Send + 'static,
) -> Result<(), Failure> {
    supervised_until(signalled(), runtime, keeper, uploads, work)
}

/// [`supervised`], with what asks the process to stop.
pub(crate) fn supervised_until(
    end: impl Future<Output = Exit>,
    runtime: Runtime,
    keeper: &RunKeeper,
    uploads: &Uploads,
    work: impl Future<Output = Result<(), Failure>> + Send + 'static,
) -> Result<(), Failure> {
    let result = runtime.block_on(async {
        // A task of its own: it may wait for the standard input, and signals must be heard meanwhile. The
        // threads of the runtime have the stack that planning needs.
        let mut working = tokio::spawn(work);
        tokio::select! {
            result = &mut working => result.unwrap_or_else(|e| Err(internal(e))),
            exit = end => {
                keeper.cancel().cancel();
                working.abort();
                // What it had begun to write goes away with it.
                let _ = tokio::time::timeout(TO_STOP, working).await;
                Err(Failure::stopped(exit))
            }
        }
    });
    let stopped = result
        .as_ref()
        .is_err_and(|failure| failure.exit.is_signal());
    if stopped {
        // Whoever asks again does not want to wait for a guest.
        runtime.spawn(async { std::process::exit(signalled().await as i32) });
    }
    runtime.block_on(uploads.settle(SETTLING));
    keeper.finish(if stopped { TO_STOP } else { TO_FINISH });
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

/// Runs what blocks where a signal can still be heard.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(internal(e)))
}

/// A task that did not come to its end.
pub(crate) fn internal(error: tokio::task::JoinError) -> Failure {
    Failure {
        exit: Exit::Failed,
        message: format!("internal error: {error}"),
        hint: None,
    }
}

/// Resolves when the process is asked to stop.
pub(crate) async fn signalled() -> Exit {
    tokio::select! {
        exit = asked_to_end() => exit,
        _ = tokio::signal::ctrl_c() => Exit::Interrupted,
    }
}

/// Resolves when the process is asked to stop by another, or its terminal is gone.
pub(crate) async fn asked_to_end() -> Exit {
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
            };
        }
    }
    std::future::pending().await
}
