//! Pools by the names that plans use.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::Pool;

/// How a plan names a pool: enough to find it and to show it, nothing that keeps it alive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolRef {
    /// The pool's name, unique within a run.
    pub name: String,
    /// The digest of its module, in hexadecimal.
    pub module: String,
    /// How many slots it has.
    pub slots: usize,
}

impl PoolRef {
    /// The name of a pool that has been started.
    pub fn of(pool: &Pool) -> Self {
        PoolRef {
            name: pool.name().to_owned(),
            module: pool.module().digest().to_string(),
            slots: pool.slots(),
        }
    }
}

impl fmt::Display for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: String = self.module.chars().take(12).collect();
        write!(f, "{} (module {short}, {} slots)", self.name, self.slots)
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
        self.started.insert(name.clone(), pool);
        name
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
