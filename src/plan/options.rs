//! How the functions of a module are run, and what SQL may change of it.

use std::any::Any;
use std::num::NonZeroUsize;
use std::time::Duration;

use bytesize::ByteSize;
use datafusion::common::{Result, config_err};
use datafusion::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};

use super::{ErrorLimit, RowErrorAction, RowErrorPolicy};
use crate::module::nearest;
use crate::pool::QUEUE_BYTES;
use crate::{Budgets, LogSink, Module, Policy, Pool, PoolBuilder, SlotResources, State};

/// Rows per call where neither the embedder, nor SQL, nor the UDF says.
pub(crate) const DEFAULT_BATCH: NonZeroUsize = NonZeroUsize::new(8_192).unwrap();

/// How the functions of a module run: their pools, their limits, what becomes of failed rows.
///
/// These are the embedder's settings. SQL (`SET wasmill.…`) may choose the number of slots up to
/// `max_slots` and the batch size, lower the limits, and say what becomes of failed rows; it never raises
/// a limit nor grants anything.
#[derive(Clone)]
#[non_exhaustive]
pub struct UdfOptions {
    /// Slots of each pool. Default 1.
    pub slots: NonZeroUsize,
    /// The most slots that SQL may ask for. Default: the process's CPUs, and at least `slots`.
    pub max_slots: NonZeroUsize,
    /// The most rows per call; `None`: what the UDF asks for, else 8,192.
    pub batch_size: Option<NonZeroUsize>,
    /// Limits and grants of each slot.
    pub policy: Policy,
    /// What each slot takes beside memory.
    pub resources: SlotResources,
    /// How often what fails is tried again.
    pub budgets: Budgets,
    /// Bytes that may wait in a pool's queue. Default 64 MiB.
    pub queue_bytes: u64,
    /// Arguments of `init`, a JSON object, for the functions that have a state.
    pub init_args: serde_json::Value,
    /// What becomes of rows that the guest cannot compute.
    pub on_error: RowErrorPolicy,
    /// Where log lines go; `None`: to `tracing`.
    pub log: Option<LogSink>,
    /// Whether rows may come as they are computed, not in the order of the input.
    pub unordered: bool,
}

impl Default for UdfOptions {
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        UdfOptions {
            slots: NonZeroUsize::MIN,
            max_slots: cpus,
            batch_size: None,
            policy: Policy::default(),
            resources: SlotResources::default(),
            budgets: Budgets::default(),
            queue_bytes: QUEUE_BYTES,
            init_args: serde_json::Value::Object(serde_json::Map::new()),
            on_error: RowErrorPolicy::default(),
            log: None,
            unordered: false,
        }
    }
}

impl UdfOptions {
    /// So many slots per pool.
    #[must_use]
    pub fn slots(mut self, slots: NonZeroUsize) -> Self {
        self.slots = slots;
        self.max_slots = self.max_slots.max(slots);
        self
    }

    /// At most so many rows per call.
    #[must_use]
    pub fn batch_size(mut self, rows: NonZeroUsize) -> Self {
        self.batch_size = Some(rows);
        self
    }

    /// Arguments of `init`.
    #[must_use]
    pub fn init_args(mut self, args: serde_json::Value) -> Self {
        self.init_args = args;
        self
    }

    /// What becomes of rows that the guest cannot compute.
    #[must_use]
    pub fn on_error(mut self, policy: RowErrorPolicy) -> Self {
        self.on_error = policy;
        self
    }

    /// Limits and grants.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Whether pools under these options would be the same, and calls be done alike.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.slots == other.slots
            && self.batch_size == other.batch_size
            && self.policy == other.policy
            && self.resources == other.resources
            && self.budgets == other.budgets
            && self.queue_bytes == other.queue_bytes
            && self.init_args == other.init_args
            && self.on_error == other.on_error
            && self.unordered == other.unordered
            && match (&self.log, &other.log) {
                (None, None) => true,
                (Some(a), Some(b)) => std::sync::Arc::ptr_eq(a, b),
                _ => false,
            }
    }

    /// The pool that serves functions with this state, or those without one.
    pub(super) fn builder(&self, module: &Module, state: Option<&State>) -> PoolBuilder {
        let mut builder = Pool::builder(module)
            .slots(self.slots)
            .policy(self.policy.clone())
            .resources(self.resources)
            .budgets(self.budgets)
            .queue_bytes(self.queue_bytes);
        if let Some(log) = &self.log {
            builder = builder.on_log(LogSink::clone(log));
        }
        match state {
            None => builder,
            Some(state) => builder
                .name(&state.name)
                .state(&state.name)
                .init_args(self.init_args.clone()),
        }
    }

    /// With what a session's settings say, as far as they may.
    pub(super) fn lowered_by(&self, settings: &SqlSettings) -> Result<Self> {
        let mut options = self.clone();
        if let Some(slots) = settings.slots {
            if slots > self.max_slots {
                return config_err!(
                    "wasmill.slots is {slots}, and at most {} are allowed here; lower it, or have whoever runs this program raise `UdfOptions::max_slots`",
                    self.max_slots
                );
            }
            options.slots = slots;
        }
        options.batch_size = settings.batch_size.or(options.batch_size);
        let policy = &mut options.policy;
        policy.memory = policy.memory.min(settings.memory.unwrap_or(u64::MAX));
        policy.call_time = policy
            .call_time
            .min(settings.timeout.unwrap_or(Duration::MAX));
        policy.init_time = policy
            .init_time
            .min(settings.init_timeout.unwrap_or(Duration::MAX));
        options.queue_bytes = options.queue_bytes.min(settings.queue.unwrap_or(u64::MAX));
        if let Some(action) = &settings.on_error {
            options.on_error.action = action.clone();
        }
        options.on_error.limit = settings.max_errors.or(options.on_error.limit);
        options.unordered |= settings.unordered;
        Ok(options)
    }
}

impl std::fmt::Debug for UdfOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdfOptions")
            .field("slots", &self.slots)
            .field("batch_size", &self.batch_size)
            .field("init_args", &self.init_args)
            .field("on_error", &self.on_error)
            .finish_non_exhaustive()
    }
}

/// The settings of a session, `SET wasmill.NAME = 'VALUE'`. What is not set is as the embedder said; an
/// empty value unsets it again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SqlSettings {
    slots: Option<NonZeroUsize>,
    batch_size: Option<NonZeroUsize>,
    memory: Option<u64>,
    timeout: Option<Duration>,
    init_timeout: Option<Duration>,
    queue: Option<u64>,
    on_error: Option<RowErrorAction>,
    max_errors: Option<ErrorLimit>,
    unordered: bool,
}

/// The settings and what they say, in the order in which they are listed.
const SETTINGS: [(&str, &str); 9] = [
    ("slots", "Slots of each pool, up to what is allowed here"),
    ("batch_size", "Most rows per call of a guest"),
    (
        "memory",
        "Most memory of a slot, as 64MiB; can only be lowered",
    ),
    (
        "timeout",
        "Most time of one call, as 500ms; can only be lowered",
    ),
    (
        "init_timeout",
        "Most time that a slot takes to start, as 5s; can only be lowered",
    ),
    (
        "queue",
        "Bytes that may wait in a pool's queue, as 16MiB; can only be lowered",
    ),
    (
        "on_error",
        "What becomes of rows that a guest cannot compute: fail, or null",
    ),
    (
        "max_errors",
        "Most rows that may fail before the query does: a number, or a share as 0.5%",
    ),
    (
        "unordered",
        "Whether rows may come as they are computed, not in the order of the input",
    ),
];

impl ConfigExtension for SqlSettings {
    const PREFIX: &'static str = "wasmill";
}

impl SqlSettings {
    /// The settings of a session.
    pub(super) fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    fn shown(&self, name: &str) -> Option<String> {
        let bytes = |bytes: u64| ByteSize(bytes).to_string();
        let time = |time: Duration| humantime::format_duration(time).to_string();
        match name {
            "slots" => self.slots.map(|n| n.to_string()),
            "batch_size" => self.batch_size.map(|n| n.to_string()),
            "memory" => self.memory.map(bytes),
            "timeout" => self.timeout.map(time),
            "init_timeout" => self.init_timeout.map(time),
            "queue" => self.queue.map(bytes),
            "on_error" => self.on_error.as_ref().map(|action| match action {
                RowErrorAction::Fail => "fail".to_owned(),
                _ => "null".to_owned(),
            }),
            "max_errors" => self.max_errors.map(|limit| limit.to_string()),
            _ => Some(self.unordered.to_string()),
        }
    }
}

/// The value of a setting; none where it is unset.
fn parsed<T>(
    name: &str,
    value: &str,
    parse: impl FnOnce(&str) -> Option<T>,
    example: &str,
) -> Result<Option<T>> {
    if value.is_empty() {
        return Ok(None);
    }
    match parse(value.trim()) {
        Some(value) => Ok(Some(value)),
        None => config_err!("wasmill.{name} cannot be {value:?}: write {example}"),
    }
}

impl ExtensionOptions for SqlSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        // A number without a unit is no size: nobody can tell which unit was meant.
        let bytes = |text: &str| {
            let bare = text.bytes().all(|b| b.is_ascii_digit());
            let size = text.parse::<ByteSize>().ok().filter(|_| !bare)?;
            Some(size.as_u64()).filter(|bytes| *bytes > 0)
        };
        let time = |text: &str| {
            let time = humantime::parse_duration(text).ok()?;
            Some(time).filter(|time| !time.is_zero())
        };
        let number = |text: &str| text.parse::<NonZeroUsize>().ok();
        const NUMBER: &str = "a number above 0";
        const BYTES: &str = "a size with its unit, as 64MiB";
        const TIME: &str = "a time with its unit, as 500ms";
        match key {
            "slots" => self.slots = parsed(key, value, number, NUMBER)?,
            "batch_size" => self.batch_size = parsed(key, value, number, NUMBER)?,
            "memory" => self.memory = parsed(key, value, bytes, BYTES)?,
            "timeout" => self.timeout = parsed(key, value, time, TIME)?,
            "init_timeout" => self.init_timeout = parsed(key, value, time, TIME)?,
            "queue" => self.queue = parsed(key, value, bytes, BYTES)?,
            "on_error" => {
                let action = |text: &str| match text.to_ascii_lowercase().as_str() {
                    "fail" => Some(RowErrorAction::Fail),
                    "null" => Some(RowErrorAction::Null),
                    _ => None,
                };
                self.on_error = parsed(key, value, action, "fail, or null")?;
            }
            "max_errors" => {
                let limit = |text: &str| text.parse().ok();
                self.max_errors =
                    parsed(key, value, limit, "a number of rows, or a share as 0.5%")?;
            }
            "unordered" => {
                let flag = |text: &str| text.to_ascii_lowercase().parse().ok();
                self.unordered = parsed(key, value, flag, "true, or false")?.unwrap_or_default();
            }
            _ => {
                let names = SETTINGS.map(|(name, _)| name);
                let hint = match nearest(key, &names) {
                    Some(name) => format!("did you mean wasmill.{name}?"),
                    None => format!("there are {}", names.join(", ")),
                };
                return config_err!("there is no setting wasmill.{key}; {hint}");
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |(name, description): &(&'static str, &'static str)| ConfigEntry {
            key: format!("{}.{name}", Self::PREFIX),
            value: self.shown(name),
            description,
        };
        SETTINGS.iter().map(entry).collect()
    }
}
