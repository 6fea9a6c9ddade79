//! Admitting runs: all pools of a run or none, first come, first served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::AdmissionError;
use super::fit::Placement;
use super::request::{Admission, PoolRequest};
use super::reservation::PoolReservation;
use super::{Inner, Ledger, Shortage, State};

/// A run that asks to be admitted.
pub(super) struct Applicant<'a> {
    pub(super) ledger: &'a Arc<Inner>,
    pub(super) run: &'a str,
    pub(super) requests: &'a [PoolRequest],
    /// Whether to give up.
    pub(super) stop: &'a dyn Fn() -> bool,
    /// Closes something that is idle and answers whether there was any.
    pub(super) make_room: &'a dyn Fn() -> bool,
}

/// How the books looked to an applicant.
struct Look {
    /// Of [`State::changes`].
    changes: u64,
    /// Runs that came before and wait.
    ahead: usize,
    shortages: Vec<Shortage>,
}

impl Applicant<'_> {
    pub(super) fn admit(
        &self,
        admission: Admission,
    ) -> Result<Vec<PoolReservation>, AdmissionError> {
        Ledger(Arc::clone(self.ledger)).check(self.run, self.requests)?;
        let start = Instant::now();
        // A request that does not wait has no place in line, so it never holds back another.
        let (place, patience) = match admission {
            Admission::Fail => (None, None),
            Admission::Wait(patience) => (Some(Place::take(self.ledger)), Some(patience)),
        };
        // A time beyond what the clock can express never comes.
        let end = patience.map(|patience| start.checked_add(patience));
        loop {
            // Changes are counted from before `stop` is asked, so that a cancel after it ends the sleep.
            let changes = self.ledger.lock().changes;
            if (self.stop)() {
                let run = self.run.to_owned();
                return Err(AdmissionError::Cancelled { run });
            }
            let look = match self.look(place.as_ref(), changes) {
                Ok(reservations) => return Ok(reservations),
                Err(look) => look,
            };
            // Room helps only the first in line.
            if look.ahead == 0 && (self.make_room)() {
                continue;
            }
            let over = match end {
                None => true,
                Some(end) => end.is_some_and(|end| Instant::now() >= end),
            };
            if over {
                return Err(AdmissionError::NotNow {
                    run: self.run.to_owned(),
                    shortages: look.shortages,
                    waited: patience.map(|_| start.elapsed()).unwrap_or_default(),
                    ahead: look.ahead,
                });
            }
            self.sleep(look.changes, end.flatten());
        }
    }

    /// Reserves if it is the applicant's turn and everything fits.
    fn look(&self, place: Option<&Place<'_>>, changes: u64) -> Result<Vec<PoolReservation>, Look> {
        let mut state = self.ledger.lock();
        let ahead = match place {
            None => state.line.len(),
            Some(place) => state
                .line
                .iter()
                .take_while(|n| **n != place.number)
                .count(),
        };
        match state.books.fit(self.requests, false) {
            Ok(placement) if ahead == 0 => {
                let reservations = self.reserve(&mut state, placement);
                if let Some(place) = place {
                    // In one step with the reservation, so that nobody sees a run wait that does not.
                    self.ledger.leave_line(&mut state, place.number);
                }
                Ok(reservations)
            }
            fit => Err(Look {
                changes,
                ahead,
                shortages: fit.err().unwrap_or_default(),
            }),
        }
    }

    fn reserve(&self, state: &mut State, placement: Placement) -> Vec<PoolReservation> {
        self.requests
            .iter()
            .zip(placement)
            .map(|(request, placement)| {
                let holder = state.books.enter(self.run, request, &placement);
                PoolReservation::new(self.ledger, holder, request, placement)
            })
            .collect()
    }

    /// Sleeps until something has changed since `changes`, until `end`, or until it is time to ask `stop`
    /// again: not all who cancel can tell the ledger.
    fn sleep(&self, changes: u64, end: Option<Instant>) {
        const LOOK: Duration = Duration::from_millis(100);
        let state = self.ledger.lock();
        let same = |state: &mut State| state.changes == changes;
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
        // Whether it was time or a change, and whether a lock was poisoned, the next look tells.
        let time = left.min(LOOK);
        drop(self.ledger.changed.wait_timeout_while(state, time, same));
    }
}

/// A place in the line of those who wait; left when it is dropped.
struct Place<'l> {
    ledger: &'l Inner,
    number: u64,
}

impl<'l> Place<'l> {
    fn take(ledger: &'l Inner) -> Place<'l> {
        let mut state = ledger.lock();
        let number = state.next_place;
        state.next_place = number.wrapping_add(1);
        state.line.push_back(number);
        Place { ledger, number }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.ledger.lock();
        self.ledger.leave_line(&mut state, self.number);
    }
}

impl Inner {
    fn leave_line(&self, state: &mut State, number: u64) {
        let before = state.line.len();
        state.line.retain(|other| *other != number);
        if state.line.len() < before {
            self.tell(state);
        }
    }
}
