//! Runs: one execution of a plan, with all its pools.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

use serde::Serialize;

use super::answer::answers_here;
use super::builder::{PoolBuilder, Spec};
use super::core::{Core, RunTag};
use super::metrics::{self, PoolMetrics};
use super::warm::{self, Key, WarmPools};
use super::{LocalSlot, Pool};
use crate::error::{Fault, StartError};
use crate::ledger::{Admission, AdmissionError, Ledger, PoolRequest, PoolReservation};
use crate::sandbox::Cancel;

/// What a run is started with. It does not change while the run lasts.
#[derive(Debug, Clone, Default)]
pub struct RunConfig {
    /// A name for messages, logs and metrics. Default: none; the run's number stands for it.
    pub name: Option<String>,
    /// On whose behalf it runs. Pools, warm ones too, are never shared between tenants. Default: the
    /// empty name.
    pub tenant: String,
    /// Settings for the guests, which see them as environment variables through WASI preview 1, beside
    /// those of [`Policy::environment`](crate::Policy::environment). They tell pools apart: two runs
    /// with different settings never share a slot. Default: none.
    pub settings: BTreeMap<String, String>,
    /// What its pools reserve from. Default: [`Ledger::process`].
    pub ledger: Option<Ledger>,
    /// What happens when its pools do not fit now. Default: wait for 30 s.
    pub admission: Admission,
    /// Pools that outlive runs. Default: none, each run starts its own.
    pub warm: Option<WarmPools>,
    /// Ends the run from outside, also while it waits for admission or starts.
    pub cancel: Cancel,
}

impl RunConfig {
    /// A configuration with a name.
    pub fn named(name: &str) -> Self {
        RunConfig {
            name: Some(name.to_owned()),
            ..RunConfig::default()
        }
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger.clone().unwrap_or_else(Ledger::process)
    }
}

/// One execution of a plan: its pools, admitted and started together.
///
/// All pools of the run are admitted before any slot is started: either they fit the ledger together,
/// or the error says what is missing. Then all slots start at once; if one fails, nothing is left.
/// When the run is over, its pools are closed, or go back to the warm ones, and what it reserved is
/// given back. That is so when [`Run::finish`] returns, and when the run and all its pools have been
/// dropped.
///
/// ```no_run
/// use std::num::NonZeroUsize;
/// use wasmill::{Engine, EngineConfig, Module, Pool, Run, RunConfig};
///
/// let engine = Engine::new(&EngineConfig::default())?;
/// let module = Module::from_file(&engine, "target/udfs/tokenize.wasm")?;
/// let words = Pool::builder(&module)
///     .state("Tokenizer")
///     .init_args(serde_json::json!({ "vocabulary": ["hello", "world"] }))
///     .slots(NonZeroUsize::new(2).unwrap());
///
/// let run = Run::start(RunConfig::named("nightly"), vec![words])?;
/// let pool = &run.pools()[0];
/// assert_eq!(pool.metrics().inits, 2);
/// let metrics = run.finish();
/// assert_eq!(metrics.pools[0].closes, 0, "a tokenizer has no `close`");
/// # Ok::<(), wasmill::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Run {
    state: Arc<RunState>,
    pools: Arc<[Pool]>,
}

/// What the handles of a run share. The last one that goes ends the run.
pub(super) struct RunState {
    tag: RunTag,
    ledger: Ledger,
    /// Each pool once.
    cores: Vec<Arc<Core>>,
    /// Where pools that go on are given back to.
    warm: Option<WarmPools>,
    /// Whether all is at its end. Held while the run is being ended, so that all who end it return when
    /// it is over.
    ended: Mutex<bool>,
}

/// What the pools of a run counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunMetrics {
    /// The run's name, or its number.
    pub run: String,
    /// Its pools.
    pub pools: Vec<PoolMetrics>,
}

impl RunMetrics {
    /// The metrics in the text format of Prometheus: counters and gauges whose names begin with
    /// `wasmill_`, with the labels `pool`, `module` and `slot`.
    pub fn to_prometheus(&self) -> String {
        metrics::to_prometheus(&self.pools)
    }
}

impl Run {
    /// Admits and starts the pools of a run, all or none.
    ///
    /// Builders that describe the same pool get one, and stateless ones join a pool of their module that
    /// has the same limits, so that calls share slots.
    ///
    /// # Errors
    /// [`StartError`]: what is wrong with a pool, what does not fit the ledger, which slot failed.
    pub fn start(config: RunConfig, pools: Vec<PoolBuilder>) -> Result<Run, StartError> {
        let tag = new_tag(&config);
        let (specs, chosen) = merged(pools, &config)?;
        let ledger = config.ledger();
        let cores = start_pools(specs, &config, &ledger, &tag)?;
        let state = Arc::new(RunState {
            tag,
            ledger,
            cores,
            warm: config.warm,
            ended: Mutex::new(false),
        });
        let pools = chosen
            .into_iter()
            .filter_map(|at| state.cores.get(at))
            .map(|core| Pool {
                core: Arc::clone(core),
                run: Arc::clone(&state),
            })
            .collect();
        Ok(Run { state, pools })
    }

    /// Whether these pools could be started on the ledger's machine if nothing else ran. Nothing is
    /// started and nothing is reserved.
    ///
    /// # Errors
    /// [`StartError`]: what is wrong with a pool's description, or what the machine does not have.
    pub fn check(config: &RunConfig, pools: Vec<PoolBuilder>) -> Result<(), StartError> {
        let (specs, _) = merged(pools, config)?;
        let requests: Vec<PoolRequest> = specs.iter().map(Spec::request).collect();
        let name = config.name.as_deref().unwrap_or("a run");
        Ok(config.ledger().check(name, &requests)?)
    }

    /// Its pools, one for each builder, in their order; the same pool where builders describe the same.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Its name, or its number where it has none.
    pub fn name(&self) -> String {
        self.state.tag.to_string()
    }

    /// Ends the run early: tasks that wait are answered with
    /// [`Fault::Cancelled`](crate::Fault::Cancelled), guests that run are interrupted within a few
    /// milliseconds. Returns at once; [`Run::finish`] waits for the end.
    pub fn cancel(&self) {
        self.state.cancel();
    }

    /// Whether the run was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state.tag.cancel.is_cancelled()
    }

    /// What its pools counted so far.
    pub fn metrics(&self) -> RunMetrics {
        self.state.metrics()
    }

    /// Ends the run and waits for it: calls that run come to their end, each slot that has not failed
    /// runs `close`, and what was reserved is given back. Warm pools go back to the others.
    pub fn finish(self) -> RunMetrics {
        self.state.finish();
        self.state.metrics()
    }
}

impl fmt::Debug for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunState").field(&self.tag).finish()
    }
}

impl RunState {
    pub(super) fn tag(&self) -> &RunTag {
        &self.tag
    }

    pub(super) fn cancel(&self) {
        self.tag.cancel.cancel();
        self.ledger.wake();
        for core in &self.cores {
            for task in core.queue.remove_run(self.tag.id) {
                core.refuse(task);
            }
        }
    }

    fn metrics(&self) -> RunMetrics {
        RunMetrics {
            run: self.tag.to_string(),
            pools: self.cores.iter().map(|core| core.metrics()).collect(),
        }
    }

    /// Ends the run and waits for it; does not wait on threads that answer tasks.
    pub(super) fn finish(&self) {
        let first = !self.tag.over.swap(true, Ordering::AcqRel);
        let mut ended = None;
        if !answers_here() {
            let guard = ended.insert(self.ended.lock().unwrap_or_else(PoisonError::into_inner));
            if **guard {
                return;
            }
        } else if !first {
            return;
        }
        // Pools that end with the run do so at the same time: one that takes long holds up no other.
        close_all(&self.cores, |core| match &self.warm {
            Some(warm) if !core.is_sequence() => {
                for task in core.queue.remove_run(self.tag.id) {
                    core.refuse(task);
                }
                if !answers_here() {
                    core.queue.wait_served(self.tag.id);
                }
                if first {
                    warm.give_back(core);
                }
            }
            _ => core.close(),
        });
        if let Some(mut ended) = ended {
            *ended = true;
        }
    }
}

impl Drop for RunState {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Does something to all pools; at the same time where there are several.
fn close_all(cores: &[Arc<Core>], end: impl Fn(&Arc<Core>) + Sync) {
    let Some((first, others)) = cores.split_first() else {
        return;
    };
    if answers_here() {
        return cores.iter().for_each(end);
    }
    std::thread::scope(|scope| {
        for core in others {
            let end = &end;
            let named = std::thread::Builder::new().name("wasmill-end".to_owned());
            if named.spawn_scoped(scope, move || end(core)).is_err() {
                end(core);
            }
        }
        end(first);
    });
}

/// A new run's number, name and cancellation.
pub(super) fn new_tag(config: &RunConfig) -> RunTag {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    RunTag {
        id: NEXT.fetch_add(1, Ordering::Relaxed),
        name: config.name.as_deref().map(Arc::from),
        cancel: config.cancel.child(),
        over: Arc::default(),
    }
}

/// The different pools among the builders, and for each builder which of them it gets.
fn merged(
    builders: Vec<PoolBuilder>,
    config: &RunConfig,
) -> Result<(Vec<Spec>, Vec<usize>), StartError> {
    let checked = builders
        .into_iter()
        .map(|builder| builder.check(config))
        .collect::<Result<Vec<Spec>, _>>()?;
    let mut specs: Vec<Spec> = Vec::new();
    let mut chosen = vec![0; checked.len()];
    // Those with a state come first, so that stateless calls find a pool to join.
    let (with_state, without): (Vec<_>, Vec<_>) = checked
        .into_iter()
        .enumerate()
        .partition(|(_, spec)| spec.identity.state.is_some());
    for (at, spec) in with_state.into_iter().chain(without) {
        let found = specs
            .iter()
            .position(|other| spec.is_served_by(other))
            .unwrap_or(specs.len());
        match specs.get_mut(found) {
            Some(other) => other.join(spec),
            None => specs.push(spec),
        }
        if let Some(place) = chosen.get_mut(at) {
            *place = found;
        }
    }
    name_apart(&mut specs);
    Ok((specs, chosen))
}

/// Pools of one name get numbers, so that messages and metrics tell them apart.
fn name_apart(specs: &mut [Spec]) {
    let mut taken: BTreeSet<String> = specs.iter().map(|spec| spec.name.clone()).collect();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for spec in specs {
        let count = seen.entry(spec.name.clone()).or_default();
        *count = count.saturating_add(1);
        if *count > 1 {
            let base = spec.name.clone();
            // A number may be part of another pool's own name.
            while !taken.insert(spec.name.clone()) {
                spec.name = format!("{base}#{count}");
                *count = count.saturating_add(1);
            }
            *count = count.saturating_sub(1);
        }
    }
}

/// Admits and starts pools, all or none. Those that are warm are there already.
fn start_pools(
    specs: Vec<Spec>,
    config: &RunConfig,
    ledger: &Ledger,
    tag: &RunTag,
) -> Result<Vec<Arc<Core>>, StartError> {
    let all: Vec<&Spec> = specs.iter().collect();
    let Some(warm) = &config.warm else {
        let admitted = admit(&all, config.admission, ledger, tag, &[])?;
        return start_admitted(&all, admitted, ledger, tag);
    };
    let requests: Vec<PoolRequest> = specs.iter().map(Spec::request).collect();
    ledger.check(&tag.to_string(), &requests)?;
    let begun = Instant::now();
    let keys: Vec<_> = specs.iter().map(|spec| spec.warm_key(ledger)).collect();
    let mut reserved = None;
    loop {
        let wanted = warm.want(&keys, tag)?;
        let found = wanted.found().iter().map(Option::is_some);
        let found: Vec<bool> = found.collect();
        let missing: Vec<&Spec> = specs
            .iter()
            .zip(&found)
            .filter(|(_, found)| !**found)
            .map(|(spec, _)| spec)
            .collect();
        // Those that are there are left there; one that comes to be meanwhile is room like any other.
        let spared: Vec<&Key> = keys
            .iter()
            .zip(&found)
            .filter(|(_, found)| **found)
            .filter_map(|(key, _)| key.as_ref())
            .collect();
        let admitted = match reserved.take() {
            Some((of, reservations)) if of == found => Ok(reservations),
            // Others closed one of the pools meanwhile, or started one.
            _ if missing.is_empty() => Ok(Vec::new()),
            _ => admit(&missing, Admission::Fail, ledger, tag, &spared),
        };
        let left = match config.admission {
            Admission::Fail => None,
            Admission::Wait(patience) => patience.checked_sub(begun.elapsed()),
        };
        match (admitted, left) {
            // When this fails, what was found goes back and what was promised is taken back.
            (Ok(admitted), _) => {
                let started = start_admitted(&missing, admitted, ledger, tag)?;
                return Ok(wanted.complete(started));
            }
            (Err(AdmissionError::NotNow { .. }), Some(left)) => {
                // Nothing is held while it waits, or runs would wait for each other in a circle.
                drop(wanted);
                let patience = Admission::Wait(left);
                let reservations = admit(&missing, patience, ledger, tag, &spared)?;
                reserved = Some((found, reservations));
            }
            (Err(error), _) => return Err(error.into()),
        }
    }
}

/// Reserves for pools; idle ones make room, other than those that are spared.
fn admit(
    specs: &[&Spec],
    admission: Admission,
    ledger: &Ledger,
    tag: &RunTag,
    spared: &[&Key],
) -> Result<Vec<PoolReservation>, AdmissionError> {
    let requests: Vec<PoolRequest> = specs.iter().map(|spec| spec.request()).collect();
    let stop = || tag.cancel.is_cancelled();
    let make_room = || warm::close_one(ledger, spared);
    ledger.admit(&tag.to_string(), &requests, admission, &stop, &make_room)
}

fn start_admitted(
    specs: &[&Spec],
    admitted: Vec<PoolReservation>,
    ledger: &Ledger,
    tag: &RunTag,
) -> Result<Vec<Arc<Core>>, StartError> {
    let cores: Vec<Arc<Core>> = specs
        .iter()
        .zip(admitted)
        .map(|(spec, reservation)| Arc::new(spec.core(ledger, reservation, tag)))
        .collect();
    let Err(error) = start_slots(&cores, specs, tag) else {
        return Ok(cores);
    };
    // The others need not come to their end.
    tag.cancel.cancel();
    ledger.wake();
    close_all(&cores, |core| core.close());
    Err(match &error {
        StartError::Slot { fault, .. } if matches!(**fault, Fault::Cancelled) => {
            let run = tag.to_string();
            StartError::Cancelled { run }
        }
        _ => error,
    })
}

/// Starts the slots of all pools at once and waits for them.
fn start_slots(cores: &[Arc<Core>], specs: &[&Spec], tag: &RunTag) -> Result<(), StartError> {
    let (send, receive) = mpsc::channel();
    let mut awaited = 0_usize;
    if tag.cancel.is_cancelled() {
        let run = tag.to_string();
        return Err(StartError::Cancelled { run });
    }
    for (core, spec) in cores.iter().zip(specs) {
        core.be_watched()?;
        for number in 0..core.places().len() {
            let started = (!spec.lazy).then(|| send.clone());
            awaited = awaited.saturating_add(usize::from(started.is_some()));
            core.spawn(number, tag, started)?;
        }
    }
    drop(send);
    for _ in 0..awaited {
        // All have answered or been given up by the watchman before the channel closes.
        if let Ok(outcome) = receive.recv() {
            outcome?;
        }
    }
    Ok(())
}

/// Starts a slot of its own run on the calling thread.
pub(super) fn start_local(
    builder: PoolBuilder,
    config: &RunConfig,
) -> Result<LocalSlot, StartError> {
    let tag = new_tag(config);
    let spec = builder.check(config)?.of_one_slot();
    let ledger = config.ledger();
    let mut admitted = admit(&[&spec], config.admission, &ledger, &tag, &[])?;
    let Some(reservation) = admitted.pop() else {
        unreachable!("a reservation for each request");
    };
    let core = Arc::new(spec.core(&ledger, reservation, &tag));
    LocalSlot::start(core, tag)
}
