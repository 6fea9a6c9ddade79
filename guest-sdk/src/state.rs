//! States: what `init` made and the methods work on.

use std::cell::Cell;
use std::thread::LocalKey;

use crate::abi::{CallFrame, Frame, InitFrame, OK};
use crate::errors::{Failure, fail};
use crate::init::{InitArgs, read};

/// The states of one type. A handle is the number of a state, from 1.
pub struct States<S>(Cell<Vec<Option<Box<S>>>>);

impl<S> Default for States<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> States<S> {
    /// No states.
    #[must_use]
    pub const fn new() -> Self {
        Self(Cell::new(Vec::new()))
    }

    fn add(&self, state: Box<S>) -> u32 {
        let mut states = self.0.take();
        states.push(Some(state));
        let handle = states.len() as u32;
        self.0.set(states);
        handle
    }

    #[inline(always)]
    fn swap(&self, handle: u32, other: Option<Box<S>>) -> Option<Box<S>> {
        let mut states = self.0.take();
        let state = states
            .get_mut((handle as usize).wrapping_sub(1))
            .and_then(|state| std::mem::replace(state, other));
        self.0.set(states);
        state
    }
}

/// What `init` returns: the state, or why there is none.
#[diagnostic::on_unimplemented(
    message = "`init` cannot return `{Self}`",
    label = "not a state",
    note = "return `Self` or `Result<Self, E>`, where `E` implements `Display`"
)]
pub trait IntoState<S> {
    /// The failure.
    type Failure: Failure;
    /// The state or the failure.
    ///
    /// # Errors
    /// What `init` said.
    fn into_state(self) -> Result<S, Self::Failure>;
}

impl<S> IntoState<S> for S {
    type Failure = &'static str;

    fn into_state(self) -> Result<S, &'static str> {
        Ok(self)
    }
}

impl<S, E: Failure> IntoState<S> for Result<S, E> {
    type Failure = E;

    fn into_state(self) -> Result<S, E> {
        self
    }
}

/// Makes a state without arguments.
pub fn init<S, R: IntoState<S>>(
    frame: Frame<'_, InitFrame>,
    states: &'static LocalKey<States<S>>,
    make: impl FnOnce() -> R,
) -> i32 {
    crate::panics::install();
    match make().into_state() {
        Ok(state) => {
            let handle = states.with(|states| states.add(Box::new(state)));
            // SAFETY: the frame is valid.
            unsafe { (*frame.as_ptr()).state = handle };
            OK
        }
        Err(failure) => fail(frame, &failure),
    }
}

/// Makes a state from arguments.
pub fn init_with<S, T: InitArgs, R: IntoState<S>>(
    frame: Frame<'_, InitFrame>,
    states: &'static LocalKey<States<S>>,
    make: impl FnOnce(T) -> R,
) -> i32 {
    crate::panics::install();
    // SAFETY: the frame is valid; the arguments are `args_len` bytes that live as long as it.
    let json = unsafe {
        let frame = frame.as_ptr();
        match (*frame).args_len as usize {
            0 => &b"{}"[..],
            len => std::slice::from_raw_parts((*frame).args, len),
        }
    };
    match read(json) {
        Ok(args) => init(frame, states, || make(args)),
        Err(failure) => fail(frame, &failure),
    }
}

/// Runs a method on the state that the frame names.
#[inline(always)]
pub fn with_state<S>(
    frame: Frame<'_, CallFrame>,
    states: &'static LocalKey<States<S>>,
    call: impl FnOnce(&mut S) -> i32,
) -> i32 {
    // SAFETY: the frame is valid.
    let handle = unsafe { (*frame.as_ptr()).state };
    let Some(mut state) = states.with(|states| states.swap(handle, None)) else {
        return no_state(frame);
    };
    let status = call(&mut state);
    states.with(|states| states.swap(handle, Some(state)));
    status
}

#[cold]
fn no_state(frame: Frame<'_, CallFrame>) -> i32 {
    fail(frame, &"no state has this handle")
}

/// Ends a state.
pub fn close<S>(states: &'static LocalKey<States<S>>, handle: u32, end: impl FnOnce(S)) {
    crate::panics::install();
    if let Some(state) = states.with(|states| states.swap(handle, None)) {
        end(*state);
    }
}
