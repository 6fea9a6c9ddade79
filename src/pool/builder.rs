//! How a pool is described and started.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::budget::Budgets;
use super::core::{Core, RunTag};
use super::identity::{Identity, SinkIdentity};
use super::run::{self, Run, RunConfig};
use super::slot::Recipe;
use super::warm::Key;
use super::{LocalSlot, Pool};
use crate::abi::frame::clean_line;
use crate::call::Call;
use crate::error::StartError;
use crate::ledger::{Ledger, PoolRequest, PoolReservation, SlotResources};
use crate::module::{Digest, Module, State, StateKind, check_init_args};
use crate::sandbox::{LogSink, Policy, tracing_sink};

/// Slots that a pool may have: each is a thread, and 4 GiB of addresses for its memory.
const MAX_SLOTS: usize = 1_024;

/// Bytes of batches that may be on their way through a pool.
pub(crate) const QUEUE_BYTES: u64 = 64 << 20;

/// How a pool is made.
#[derive(Clone)]
pub struct PoolBuilder {
    module: Module,
    name: Option<String>,
    slots: NonZeroUsize,
    policy: Policy,
    resources: SlotResources,
    budgets: Budgets,
    queue_bytes: u64,
    lazy: bool,
    state: Option<String>,
    init_args: serde_json::Value,
    log: Option<LogSink>,
}

/// A pool whose description has been checked.
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) identity: Identity,
    pub(super) lazy: bool,
    slots: usize,
    queue_bytes: u64,
    notices: Vec<String>,
    module: Module,
    state: Option<Arc<State>>,
    log: LogSink,
}

/// What a pool will be, known before it is started.
#[cfg(feature = "datafusion")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Forecast {
    /// What tells it apart from other pools.
    pub(crate) identity: PoolIdentity,
    /// How many slots it will have.
    pub(crate) slots: usize,
    /// Bytes that may wait in its queue.
    pub(crate) queue_bytes: u64,
    /// Whether slots start with their first call.
    pub(crate) lazy: bool,
    /// Whether rows depend on earlier rows.
    pub(crate) is_sequence: bool,
}

/// What tells pools apart, for plans.
#[cfg(feature = "datafusion")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolIdentity(Identity);

#[cfg(feature = "datafusion")]
impl PoolIdentity {
    /// Whether calls without a state that are of this identity can be served by a pool of the other.
    pub(crate) fn may_join(&self, other: &PoolIdentity) -> bool {
        self.0.may_join(&other.0)
    }
}

impl PoolBuilder {
    /// One slot, default policy, no state.
    pub(super) fn new(module: &Module) -> Self {
        PoolBuilder {
            module: module.clone(),
            name: None,
            slots: NonZeroUsize::MIN,
            policy: Policy::default(),
            resources: SlotResources::default(),
            budgets: Budgets::default(),
            queue_bytes: QUEUE_BYTES,
            lazy: false,
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

    /// What each slot needs beside its memory, which is the policy's. Default: one CPU while it computes,
    /// no device.
    #[must_use]
    pub fn resources(mut self, resources: SlotResources) -> Self {
        self.resources = resources;
        self
    }

    /// How often it tries again when something fails.
    #[must_use]
    pub fn budgets(mut self, budgets: Budgets) -> Self {
        self.budgets = budgets;
        self
    }

    /// Bytes of batches that may be on their way through the pool: those that wait, those that are
    /// computed, and results that wait for their turn. Beyond it each partition may still have one
    /// batch on its way. Default 64 MiB.
    #[must_use]
    pub fn queue_bytes(mut self, bytes: u64) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// Starts each slot when it is first needed, not all at once. A failing `init` is then the failure
    /// of a call, [`Fault::Start`](crate::Fault::Start).
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// Starts the pool in a run of its own, with the default [`RunConfig`]. Either each slot is ready, or
    /// the error says what failed and nothing is left running. To admit several pools together, use
    /// [`Run::start`].
    ///
    /// # Errors
    /// [`StartError`]: unknown state, init arguments that do not fit, no room, a failing `init`, a limit.
    pub fn start(self) -> Result<Pool, StartError> {
        let run = Run::start(RunConfig::default(), vec![self])?;
        match run.pools() {
            [pool] => Ok(pool.clone()),
            _ => unreachable!("a pool for each builder"),
        }
    }

    /// Starts one slot on the calling thread, for programs that bring threads of their own. The thread
    /// must have the engine's `max_wasm_stack` and about 1 MiB more to spare. What the slot reserves is
    /// on the ledger; the CPU is the thread's own.
    ///
    /// # Errors
    /// As [`PoolBuilder::start`].
    pub fn start_local(self) -> Result<LocalSlot, StartError> {
        run::start_local(self, &RunConfig::default())
    }

    /// What the pool will be in a run without settings of its own, found out without starting it.
    ///
    /// # Errors
    /// What [`PoolBuilder::start`] says of the description itself: a state that the module does not have,
    /// init arguments that do not fit it, too many slots.
    #[cfg(feature = "datafusion")]
    pub(crate) fn forecast(&self) -> Result<Forecast, StartError> {
        let spec = self.clone().check(&RunConfig::default())?;
        Ok(Forecast {
            identity: PoolIdentity(spec.identity),
            slots: spec.slots,
            queue_bytes: spec.queue_bytes,
            lazy: spec.lazy,
            is_sequence: spec
                .state
                .is_some_and(|state| state.kind == StateKind::Sequence),
        })
    }

    /// The pool's name.
    #[cfg(feature = "datafusion")]
    pub(crate) fn pool_name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.module.name())
    }

    /// The module that runs in it.
    #[cfg(feature = "datafusion")]
    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    /// Most memory of a slot, in bytes.
    #[cfg(feature = "datafusion")]
    pub(crate) fn slot_memory(&self) -> u64 {
        self.policy.memory
    }

    /// What a slot takes beside memory.
    #[cfg(feature = "datafusion")]
    pub(crate) fn slot_resources(&self) -> SlotResources {
        self.resources
    }

    /// Checks the description, before anything is admitted.
    pub(super) fn check(self, config: &RunConfig) -> Result<Spec, StartError> {
        let state = self.find_state()?;
        let name = self
            .name
            .clone()
            .unwrap_or_else(|| self.module.name().to_owned());
        let mut notices = Vec::new();
        let mut slots = self.slots.get();
        if let Some(state) = state
            .as_ref()
            .filter(|s| s.kind == StateKind::Sequence && slots > 1)
        {
            let notice = format!(
                "`{}` keeps a sequence, in which rows depend on earlier ones: it runs in 1 slot, in input order ({slots} slots were asked for)",
                state.name
            );
            notices.push(notice);
            slots = 1;
        }
        if slots > MAX_SLOTS {
            return Err(StartError::TooManySlots {
                pool: name,
                asked: slots,
                most: MAX_SLOTS,
            });
        }
        let init_args = self.check_args(state.as_deref())?;
        let mut policy = self.policy;
        // The pool's own variables come after those of the run, and so win.
        let settings = config
            .settings
            .iter()
            .filter(|(name, _)| !policy.environment.iter().any(|(own, _)| own == *name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Vec<_>>();
        policy.environment.splice(0..0, settings);
        let identity = Identity {
            tenant: config.tenant.clone(),
            module: *self.module.digest(),
            state: state.as_ref().map(|s| s.name.clone()),
            init_args,
            policy,
            resources: self.resources,
            budgets: self.budgets,
            sink: SinkIdentity::of(self.log.as_ref()),
        };
        Ok(Spec {
            name,
            identity,
            lazy: self.lazy,
            slots,
            queue_bytes: self.queue_bytes,
            notices,
            module: self.module,
            state,
            log: self.log.unwrap_or_else(tracing_sink),
        })
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

    /// The arguments of `init` as canonical JSON, with defaults.
    fn check_args(&self, state: Option<&State>) -> Result<String, StartError> {
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
        Ok(args.to_string())
    }
}

impl Spec {
    /// Whether calls of this pool can go to another.
    pub(super) fn is_served_by(&self, other: &Spec) -> bool {
        let same = self.identity == other.identity;
        // A sequence has one slot, which stateless calls must not keep busy.
        same || (self.identity.may_join(&other.identity) && !other.is_sequence())
    }

    /// Gives this pool what the other was to have.
    pub(super) fn join(&mut self, other: Spec) {
        self.slots = self.slots.max(other.slots);
        self.queue_bytes = self.queue_bytes.max(other.queue_bytes);
        self.lazy &= other.lazy;
        let new = other.notices.into_iter();
        let new: Vec<_> = new.filter(|n| !self.notices.contains(n)).collect();
        self.notices.extend(new);
    }

    fn is_sequence(&self) -> bool {
        let state = self.state.as_ref();
        state.is_some_and(|state| state.kind == StateKind::Sequence)
    }

    pub(super) fn of_one_slot(mut self) -> Self {
        self.slots = 1;
        self
    }

    /// What it is found by when it stays warm, if it may.
    pub(super) fn warm_key(&self, ledger: &Ledger) -> Option<Key> {
        (!self.is_sequence()).then(|| Key {
            ledger: ledger.id(),
            identity: self.identity.clone(),
            slots: self.slots,
        })
    }

    pub(super) fn request(&self) -> PoolRequest {
        PoolRequest {
            pool: self.name.clone(),
            slots: self.slots,
            memory: self.identity.policy.memory,
            resources: self.identity.resources,
            queue_bytes: self.queue_bytes,
        }
    }

    /// The pool, not yet started.
    pub(super) fn core(&self, ledger: &Ledger, reservation: PoolReservation, tag: &RunTag) -> Core {
        for notice in &self.notices {
            tracing::info!(pool = self.name, "{notice}");
        }
        let recipe = Recipe {
            module: self.module.clone(),
            pool: self.name.clone(),
            run: tag.to_string(),
            policy: self.identity.policy.clone(),
            resources: self.identity.resources,
            budgets: self.identity.budgets,
            state: self.state.clone(),
            init_args: self.identity.init_args.clone(),
            args_digest: Digest::of(self.identity.init_args.as_bytes()).short(),
            log: Arc::clone(&self.log),
        };
        Core::new(
            Arc::new(recipe),
            self.notices.clone(),
            ledger.clone(),
            reservation,
            self.queue_bytes,
        )
    }
}
