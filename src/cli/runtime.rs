//! The threads that read, plan and write.

use std::num::NonZeroUsize;

use tokio::runtime::{Builder, Runtime};

use super::failure::{Exit, Failure};

/// Bytes of stack of each thread. Types and conditions nest, and what reads and plans them calls itself
/// once a level; what nests deeper than fits is refused before. Memory is used as far as it is needed.
const STACK: usize = 128 << 20;

/// Starts the threads; without a number, one for each processor.
pub(crate) fn runtime(threads: Option<NonZeroUsize>) -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads.get());
    }
    let runtime = builder
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .map_err(|e| Failure {
            exit: Exit::Failed,
            message: format!("the runtime cannot be started: {e}"),
            hint: None,
        })?;
    runtime.block_on(async { hear_full_files() });
    Ok(runtime)
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail as others do. The signal that comes
/// with it would end the process, and leave what it had begun to write.
fn hear_full_files() {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use tokio::signal::unix::{SignalKind, signal};
        /// SIGXFSZ on all processors that the engine compiles for.
        const FILE_SIZE_EXCEEDED: i32 = 25;
        // The handler stays when the listener is gone.
        let _ = signal(SignalKind::from_raw(FILE_SIZE_EXCEEDED));
    }
}
