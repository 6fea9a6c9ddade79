//! How a pool is described and started.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::metrics::Counters;
use super::slot::Recipe;
use super::{Cell, Handle, LocalSlot, Pool, Shared};
use crate::abi::frame::clean_line;
use crate::call::Call;
use crate::error::StartError;
use crate::module::{Digest, Module, State, StateKind, check_init_args};
use crate::sandbox::{LogSink, Policy, tracing_sink};

/// Slots that a pool may have: each is a thread, and 4 GiB of addresses for its memory.
const MAX_SLOTS: usize = 1_024;

/// How a pool is made.
#[derive(Clone)]
pub struct PoolBuilder {
    module: Module,
    name: Option<String>,
    slots: NonZeroUsize,
    policy: Policy,
    state: Option<String>,
    init_args: serde_json::Value,
    log: Option<LogSink>,
}

impl PoolBuilder {
    /// One slot, default policy, no state.
    pub(super) fn new(module: &Module) -> Self {
        PoolBuilder {
            module: module.clone(),
            name: None,
            slots: NonZeroUsize::MIN,
            policy: Policy::default(),
            state: None,
            init_args: serde_json::Value::Object(serde_json::Map::new()),
            log: None,
        }
    }

    /// The pool's name in messages, logs, metrics and thread names. Default: the module's.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// How many slots, hence how many calls at a time. Default 1. A state that is a sequence gets one,
    /// whatever is asked for: see [`Pool::notices`].
    #[must_use]
    pub fn slots(mut self, slots: NonZeroUsize) -> Self {
        self.slots = slots;
        self
    }

    /// Limits and grants of each slot.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Which of the module's states the slots hold. Without one, only stateless functions can be called.
    #[must_use]
    pub fn state(mut self, name: &str) -> Self {
        self.state = Some(name.to_owned());
        self
    }

    /// The state that a call needs, if it needs one.
    #[must_use]
    pub fn state_for(mut self, call: &Call) -> Self {
        self.state = call.function().state.as_ref().map(|s| s.name.clone());
        self
    }

    /// What `init` is given. Checked against the schema that the module declares. Default `{}`.
    #[must_use]
    pub fn init_args(mut self, args: serde_json::Value) -> Self {
        self.init_args = args;
        self
    }

    /// Where the guest's log lines go. Default: events of `tracing` with the target `wasmill::guest`.
    #[must_use]
    pub fn on_log(mut self, sink: LogSink) -> Self {
        self.log = Some(sink);
        self
    }

    /// Starts all slots at once. Either each is ready, or the error says what failed and nothing is
    /// left running.
    ///
    /// # Errors
    /// [`StartError`]: unknown state, init arguments that do not fit, a failing `init`, a limit.
    pub fn start(self) -> Result<Pool, StartError> {
        let state = self.find_state()?;
        let mut notices = Vec::new();
        let mut slots = self.slots.get();
        if let Some(state) = state
            .as_ref()
            .filter(|s| s.kind == StateKind::Sequence && slots > 1)
        {
            notices.push(format!(
                "`{}` keeps a sequence, in which rows depend on earlier ones: it runs in 1 slot, in input order ({slots} slots were asked for)",
                state.name
            ));
            slots = 1;
        }
        if slots > MAX_SLOTS {
            return Err(StartError::TooManySlots {
                pool: self.name.unwrap_or_else(|| self.module.name().to_owned()),
                asked: slots,
                most: MAX_SLOTS,
            });
        }
        let stack = self.module.engine().thread_stack();
        let shared = self.shared(state, slots)?;
        let name = &shared.recipe.pool;
        for notice in &notices {
            tracing::info!(pool = name, "{notice}");
        }
        let threads = start_threads(name, slots, stack)?;
        let started: Vec<Result<(), StartError>> =
            threads.broadcast(|thread| shared.start_slot(thread.index()));
        // Dropped on an error, the handle closes the slots that did start.
        let pool = Pool(Arc::new(Handle {
            threads,
            shared,
            notices,
        }));
        started.into_iter().collect::<Result<(), _>>()?;
        Ok(pool)
    }

    /// Starts one slot on the calling thread, for programs that bring threads of their own. The thread
    /// must have the engine's `max_wasm_stack` and about 1 MiB more to spare.
    ///
    /// # Errors
    /// As [`PoolBuilder::start`].
    pub fn start_local(self) -> Result<LocalSlot, StartError> {
        let state = self.find_state()?;
        let shared = self.shared(state, 1)?;
        shared.start_slot(0)?;
        Ok(LocalSlot(shared))
    }

    /// What the slots have in common, their places still empty.
    fn shared(self, state: Option<Arc<State>>, slots: usize) -> Result<Arc<Shared>, StartError> {
        let (init_args, args_digest) = self.check_args(state.as_deref())?;
        let recipe = Recipe {
            pool: self.name.unwrap_or_else(|| self.module.name().to_owned()),
            module: self.module,
            policy: self.policy,
            state,
            init_args,
            args_digest,
            log: self.log.unwrap_or_else(tracing_sink),
        };
        Ok(Arc::new(Shared {
            recipe: Arc::new(recipe),
            slots: (0..slots).map(|_| Mutex::new(Cell::Closed)).collect(),
            counters: (0..slots).map(|_| Counters::default()).collect(),
            next_run: AtomicU64::new(1),
        }))
    }

    fn find_state(&self) -> Result<Option<Arc<State>>, StartError> {
        let Some(name) = &self.state else {
            return Ok(None);
        };
        let states = self.module.manifest().states();
        match states.iter().find(|s| s.name == *name) {
            Some(state) => Ok(Some(Arc::clone(state))),
            None => {
                let known: Vec<&str> = states.iter().map(|s| s.name.as_str()).collect();
                Err(StartError::UnknownState {
                    module: self.module.name().to_owned(),
                    state: name.clone(),
                    known: if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    },
                })
            }
        }
    }

    fn check_args(&self, state: Option<&State>) -> Result<(String, String), StartError> {
        let module = || self.module.name().to_owned();
        let given = &self.init_args;
        let args = match state {
            Some(state) => {
                let refused = |(path, reason): (String, String)| StartError::InitArgs {
                    module: module(),
                    state: state.name.clone(),
                    path: clean_line(&path),
                    reason: clean_line(&reason),
                };
                check_init_args(&state.init_args, given.clone()).map_err(refused)?
            }
            None if given.as_object().is_some_and(serde_json::Map::is_empty) => given.clone(),
            None => {
                return Err(StartError::NoState {
                    module: module(),
                    udf: self.name.clone().unwrap_or_else(module),
                });
            }
        };
        let text = args.to_string();
        let digest = Digest::of(text.as_bytes()).short();
        Ok((text, digest))
    }
}

fn start_threads(name: &str, slots: usize, stack: usize) -> Result<rayon::ThreadPool, StartError> {
    let thread_name = name.to_owned();
    rayon::ThreadPoolBuilder::new()
        .num_threads(slots)
        .stack_size(stack)
        // Linux keeps 15 bytes of a name, so the slot's number comes first.
        .thread_name(move |slot| format!("slot{slot} {thread_name}"))
        .build()
        .map_err(|e| StartError::Threads {
            pool: name.to_owned(),
            reason: e.to_string(),
        })
}
