//! Pools by the names that plans use.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::error::StartError;
use crate::pool::Forecast;
use crate::{Amount, Pool, PoolBuilder, Share, SlotResources};

/// How a plan names a pool: enough to find it and to show it, nothing that keeps it alive.
///
/// A plan over a pool that somebody has started names it with [`PoolRef::of`]. A plan that starts its
/// pools itself, when it is executed, describes them with [`PoolRef::planned`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolRef {
    /// The pool's name, unique within a run.
    pub name: String,
    /// The digest of its module, in hexadecimal.
    pub module: String,
    /// How many slots it has.
    pub slots: usize,
    planned: Option<Arc<PlannedPool>>,
}

/// A pool that the root of the plan starts.
#[derive(Clone)]
pub(super) struct PlannedPool {
    pub(super) builder: PoolBuilder,
    pub(super) forecast: Forecast,
}

impl PoolRef {
    /// The name of a pool that has been started.
    pub fn of(pool: &Pool) -> Self {
        PoolRef {
            name: pool.name().to_owned(),
            module: pool.module().digest().to_string(),
            slots: pool.slots(),
            planned: None,
        }
    }

    /// The name of a pool that the plan's [`AdmitExec`](super::AdmitExec) starts when it is executed.
    ///
    /// # Errors
    /// What can be known to be wrong before: a state that the module does not have, init arguments that
    /// do not fit it, too many slots.
    pub fn planned(builder: PoolBuilder) -> Result<Self, StartError> {
        let forecast = builder.forecast()?;
        Ok(PoolRef {
            name: builder.pool_name().to_owned(),
            module: builder.module().digest().to_string(),
            slots: forecast.slots,
            planned: Some(Arc::new(PlannedPool { builder, forecast })),
        })
    }

    /// The same pool under another name.
    pub(super) fn renamed(&self, name: &str) -> Self {
        let planned = self.planned.as_ref().map(|planned| {
            Arc::new(PlannedPool {
                builder: planned.builder.clone().name(name),
                forecast: planned.forecast.clone(),
            })
        });
        PoolRef {
            name: name.to_owned(),
            planned,
            ..self.clone()
        }
    }

    /// The pool that serves the calls of both: this, or the other, or none.
    pub(super) fn shared_with(&self, other: &PoolRef) -> Option<PoolRef> {
        if self == other {
            return Some(self.clone());
        }
        let (own, others) = (&self.plan()?.forecast, &other.plan()?.forecast);
        let joins = |guest: &Forecast, host: &Forecast| {
            guest.identity.may_join(&host.identity) && !host.is_sequence
        };
        if joins(others, own) {
            Some(self.clone())
        } else if joins(own, others) {
            Some(other.clone())
        } else {
            None
        }
    }

    /// How it is started, if the plan does that.
    pub(super) fn plan(&self) -> Option<&PlannedPool> {
        self.planned.as_deref()
    }
}

impl fmt::Display for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: String = self.module.chars().take(12).collect();
        write!(f, "{} (module {short}, {} slots", self.name, self.slots)?;
        if let Some(planned) = &self.planned {
            write!(f, ", {planned}")?;
        }
        f.write_str(")")
    }
}

/// What each slot takes.
impl fmt::Display for PlannedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SlotResources {
            cpus,
            gpus,
            device_memory,
        } = self.builder.slot_resources();
        let memory = Amount::Bytes(self.builder.slot_memory());
        write!(f, "{memory} and {cpus} CPU each")?;
        if gpus != Share::ZERO {
            write!(f, ", {gpus} GPU")?;
        }
        if device_memory > 0 {
            write!(f, ", {} of a device", Amount::Bytes(device_memory))?;
        }
        Ok(())
    }
}

impl fmt::Debug for PlannedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.forecast.fmt(f)
    }
}

impl PartialEq for PlannedPool {
    fn eq(&self, other: &Self) -> bool {
        self.forecast == other.forecast
    }
}

impl Eq for PlannedPool {}

impl Hash for PlannedPool {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.forecast.hash(state);
    }
}

/// The started pools of a run, which [`PoolStageExec`](super::PoolStageExec) looks up when it is
/// executed. Handed over with `SessionConfig::with_extension(Arc::new(pools))`.
#[derive(Debug, Default)]
pub struct Pools {
    started: HashMap<PoolRef, Pool>,
}

impl Pools {
    /// Adds a pool and gives back its name.
    pub fn add(&mut self, pool: Pool) -> PoolRef {
        let name = PoolRef::of(&pool);
        self.insert(name.clone(), pool);
        name
    }

    /// Adds a pool under the name by which a plan knows it.
    pub(super) fn insert(&mut self, name: PoolRef, pool: Pool) {
        self.started.insert(name, pool);
    }

    /// The pool of a name.
    pub fn get(&self, name: &PoolRef) -> Option<&Pool> {
        self.started.get(name)
    }
}

/// How long a row of a live stream waits for others to fill its batch: an extension of the session's
/// configuration, as [`Pools`] is. Without it rows wait until the batch is full or the input ends.
///
/// The time runs from the first row that waits. The runtime must have its timer enabled.
#[derive(Debug, Clone, Copy)]
pub struct Patience(pub Duration);
