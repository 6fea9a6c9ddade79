//! The account of what a process's pools hold: memory, devices and device memory for as long as a slot
//! lives, CPU while a call runs.
//!
//! Before a run starts anything, the ledger admits all of its pools or none ([`fit`] decides, [`pack`]
//! lays shares on devices). What was admitted is held by guards ([`reservation`]), so that it is given
//! back on every path. Running calls take CPU by permits ([`permits`]).

mod admission;
mod books;
mod error;
mod fit;
mod machine;
mod pack;
mod permits;
mod request;
mod reservation;
mod share;
mod shortage;
mod usage;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use admission::Applicant;
use books::Books;
pub use error::AdmissionError;
pub use machine::{DeviceTotal, Machine};
use permits::Permits;
pub(crate) use permits::{KeptCpu, Permit};
pub(crate) use request::PoolRequest;
pub use request::{Admission, SlotResources};
pub(crate) use reservation::{PoolReservation, QueueReservation, SlotReservation};
pub use share::{Share, ShareError};
pub use shortage::{Amount, Held, Requested, Resource, Shortage, ShortageCause};
pub use usage::{DeviceUsage, LedgerHolder, LedgerUsage};

/// The account from which pools reserve. Clones are the same account.
///
/// A slot's memory and share of devices are reserved for as long as it lives. CPU is not reserved: slots
/// may outnumber CPUs, but no more calls run at a time than there is CPU for.
///
/// ```
/// use wasmill::Ledger;
///
/// let usage = Ledger::process().usage();
/// println!("{} of {} bytes are reserved", usage.memory, usage.machine.memory);
/// ```
#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

struct Inner {
    machine: Arc<Machine>,
    state: Mutex<State>,
    /// Told whenever [`State::changes`] grows.
    changed: Condvar,
    permits: Permits,
}

struct State {
    books: Books,
    /// Those who wait for room, the first in front.
    line: VecDeque<u64>,
    next_place: u64,
    /// Grows with everything that may end somebody's waiting.
    changes: u64,
}

impl Ledger {
    /// An account of a machine, for programs and tests that divide it themselves.
    pub fn new(machine: Machine) -> Ledger {
        let machine = Arc::new(machine);
        let state = State {
            books: Books::new(Arc::clone(&machine)),
            line: VecDeque::new(),
            next_place: 0,
            changes: 0,
        };
        Ledger(Arc::new(Inner {
            permits: Permits::new(machine.cpus),
            state: Mutex::new(state),
            changed: Condvar::new(),
            machine,
        }))
    }

    /// The account of this process, made from [`Machine::detect`] when it is first asked for.
    pub fn process() -> Ledger {
        static PROCESS: OnceLock<Ledger> = OnceLock::new();
        PROCESS
            .get_or_init(|| Ledger::new(Machine::detect()))
            .clone()
    }

    /// What tells it from other accounts, as long as it lives.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// What there is.
    pub fn machine(&self) -> &Machine {
        &self.0.machine
    }

    /// What is reserved at the moment, and by whom.
    pub fn usage(&self) -> LedgerUsage {
        let cpus_in_use = self.0.permits.in_use();
        let state = self.0.lock();
        LedgerUsage {
            machine: Machine::clone(&self.0.machine),
            memory: state.books.held_memory(),
            devices: state.books.held_devices(),
            cpus_in_use,
            holders: state.books.holders().cloned().collect(),
            waiting: state.line.len(),
        }
    }

    /// Whether pools like these would fit this machine if nobody else held anything.
    ///
    /// # Errors
    /// [`AdmissionError::Never`], which lists what is short.
    pub(crate) fn check(&self, run: &str, requests: &[PoolRequest]) -> Result<(), AdmissionError> {
        match Books::new(Arc::clone(&self.0.machine)).fit(requests, true) {
            Ok(_) => Ok(()),
            Err(shortages) => Err(AdmissionError::Never {
                run: run.to_owned(),
                shortages,
            }),
        }
    }

    /// Reserves for all pools of a run or for none; answers in the order of `requests`.
    ///
    /// While there is no room, those who wait are served in the order in which they came, and nobody
    /// overtakes them. Whenever the run is the first and about to wait or to fail, `make_room` is called;
    /// it may close something that holds a reservation, and answers whether it did. Neither it nor
    /// `stop` is called while the ledger is locked.
    ///
    /// # Errors
    /// - [`AdmissionError::Never`], at once: it would not fit the empty machine.
    /// - [`AdmissionError::NotNow`]: there was no room, with [`Admission::Wait`] for as long as it says.
    /// - [`AdmissionError::Cancelled`]: `stop` answered true. It is asked at the beginning, and again
    ///   after each change and each [`wake`](Ledger::wake).
    pub(crate) fn admit(
        &self,
        run: &str,
        requests: &[PoolRequest],
        admission: Admission,
        stop: &dyn Fn() -> bool,
        make_room: &dyn Fn() -> bool,
    ) -> Result<Vec<PoolReservation>, AdmissionError> {
        let applicant = Applicant {
            ledger: &self.0,
            run,
            requests,
            stop,
            make_room,
        };
        applicant.admit(admission)
    }

    /// Makes everybody who waits look again, at `stop` and for room to make. Called after a cancel, and
    /// when something that `make_room` could close has become idle.
    pub(crate) fn wake(&self) {
        self.0.change(|_| ());
        self.0.permits.wake();
    }

    /// Takes CPU for one running call, at most all that there is; waits for it in line. `None` once
    /// `stop` answers true, which is asked only while waiting.
    pub(crate) fn permit(&self, cpus: Share, stop: &dyn Fn() -> bool) -> Option<Permit<'_>> {
        self.0.permits.take(cpus, stop)
    }

    /// Gives back CPU that was kept beyond its permit, by a thread that may not come back to do it.
    pub(crate) fn give_back(&self, cpus: KeptCpu) {
        self.0.permits.take_back(cpus);
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something that others may wait for.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.tell(&mut state);
    }

    /// Makes those who wait look again.
    fn tell(&self, state: &mut State) {
        state.changes = state.changes.wrapping_add(1);
        if !state.line.is_empty() {
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
