//! Telling results to those who asked for them, and the threads that do.

use std::cell::Cell;

use super::Output;
use super::worker::host_safe;
use crate::error::CallError;

/// Who gets the result of a task. Called once, on whatever thread ends the task; must not block.
pub(super) type Done = Box<dyn FnOnce(Result<Output, CallError>) + Send>;

thread_local! {
    static ANSWERS: Cell<bool> = const { Cell::new(false) };
}

/// From now on this thread answers tasks.
pub(super) fn answer_here() {
    ANSWERS.set(true);
}

/// Whether this thread answers tasks, as those of slots do and the watchman's. It never waits for the end
/// of a run: a receiver of results may hold the last handle, and its own thread cannot wait for itself,
/// nor for another that does the same.
pub(super) fn answers_here() -> bool {
    ANSWERS.get()
}

/// Tells a result; a receiver that panics harms nobody else.
pub(super) fn answer(done: Done, result: Result<Output, CallError>) {
    if let Err(message) = host_safe(|| done(result)) {
        tracing::error!("the receiver of a result panicked: {message}");
    }
}
