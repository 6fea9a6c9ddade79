//! Calls, and how long they take.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::report::Measured;
use crate::cli::failure::{Exit, Failure};
use crate::{Call, Pool, Rows};

/// Calls as fast as the slots allow, after a while that is not counted.
pub(super) fn measure(
    pool: &Pool,
    call: &Call,
    batches: &[Rows],
    time: Duration,
    bar: &ProgressBar,
) -> Result<Measured, Failure> {
    let warm_up = time.div_f64(5.0).min(Duration::from_millis(500));
    call_for(pool, call, batches, warm_up, bar)?;
    let before = pool.metrics();
    let begun = Instant::now();
    let mut times = call_for(pool, call, batches, time, bar)?;
    let seconds = begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let rows = batches.iter().map(|r| r.rows).max().unwrap_or(0);
    Ok(Measured::new(
        rows,
        seconds,
        &times,
        &before,
        &pool.metrics(),
    ))
}

/// How long each call took. A caller for each slot keeps it busy.
fn call_for(
    pool: &Pool,
    call: &Call,
    batches: &[Rows],
    time: Duration,
    bar: &ProgressBar,
) -> Result<Vec<Duration>, Failure> {
    let begun = Instant::now();
    let failed = AtomicBool::new(false);
    let callers = pool.slots();
    let work = |caller: usize| -> Result<Vec<Duration>, Failure> {
        let mut times = Vec::new();
        // Callers begin at different batches.
        for rows in batches.iter().cycle().skip(caller) {
            let started = Instant::now();
            if let Err(error) = pool.call(call, rows.clone()) {
                failed.store(true, Ordering::Relaxed);
                return Err(error.into());
            }
            times.push(started.elapsed());
            bar.inc(rows.rows as u64);
            if begun.elapsed() >= time || failed.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(times)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                let work = &work;
                scope.spawn(move || work(caller))
            })
            .collect();
        let mut times = Vec::new();
        for thread in threads {
            let own = thread.join().unwrap_or_else(|_| {
                Err(Failure {
                    exit: Exit::Failed,
                    message: "internal error: a caller stopped".to_owned(),
                    hint: None,
                })
            });
            times.extend(own?);
        }
        Ok(times)
    })
}
