//! Why a run was not admitted.

use std::fmt::Write;
use std::time::Duration;

use super::Shortage;
use crate::error::ErrorClass;

/// Why a run was not admitted. Nothing is reserved for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// It would not fit the machine if nothing else ran.
    #[error("run {run} can never fit this machine{}", lines(shortages))]
    Never {
        /// The run.
        run: String,
        /// All that is missing.
        shortages: Vec<Shortage>,
    },
    /// There is no room for it now, or others that came before it wait for room.
    #[error("{}", not_now(run, shortages, *waited, *ahead))]
    NotNow {
        /// The run.
        run: String,
        /// All that is missing; empty if there is room, and the run would have overtaken others.
        shortages: Vec<Shortage>,
        /// How long it waited.
        waited: Duration,
        /// Runs that came before it and still wait for room.
        ahead: usize,
    },
    /// It was cancelled before there was room.
    #[error("run {run} was cancelled before there was room for it")]
    Cancelled {
        /// The run.
        run: String,
    },
}

impl AdmissionError {
    /// What kind of thing went wrong.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Limit
    }
}

fn not_now(run: &str, shortages: &[Shortage], waited: Duration, ahead: usize) -> String {
    let mut text = format!("run {run} does not fit now");
    if !waited.is_zero() {
        let _ = write!(text, ", after waiting for {waited:.1?}");
    }
    let ahead = match ahead {
        0 => return text + &lines(shortages),
        1 => "a run that came before it waits".to_owned(),
        _ => format!("{ahead} runs that came before it wait"),
    };
    let _ = write!(text, ": {ahead} for room");
    if shortages.is_empty() {
        return text + "; wait longer (--admission wait=…, Admission::Wait)";
    }
    text + &lines(shortages)
}

/// Each shortage on a line of its own.
fn lines(shortages: &[Shortage]) -> String {
    shortages.iter().fold(String::new(), |mut text, shortage| {
        let _ = write!(text, "\n  {shortage}");
        text
    })
}
