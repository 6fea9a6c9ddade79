//! What pools count, for snapshots and for recorders of the `metrics` facade.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::core::Core;

/// A kind of number that is counted.
trait Count: Copy {
    fn read(counter: &AtomicU64) -> Self;
    fn sum(self, other: Self) -> Self;
    fn most(self, other: Self) -> Self;
    /// Tells a recorder how much was added since `before`.
    fn record_sum(self, before: Self, name: &'static str, labels: &[metrics::Label]);
    /// Tells a recorder the most so far.
    fn record_most(self, before: Self, name: &'static str, labels: &[metrics::Label]);
}

impl Count for u64 {
    fn read(counter: &AtomicU64) -> Self {
        counter.load(Ordering::Relaxed)
    }

    fn sum(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn most(self, other: Self) -> Self {
        self.max(other)
    }

    fn record_sum(self, before: Self, name: &'static str, labels: &[metrics::Label]) {
        if self > before {
            metrics::counter!(name, labels.iter()).increment(self.saturating_sub(before));
        }
    }

    fn record_most(self, before: Self, name: &'static str, labels: &[metrics::Label]) {
        if self != before {
            metrics::gauge!(name, labels.iter()).set(self as f64);
        }
    }
}

/// Seconds, counted in nanoseconds.
impl Count for f64 {
    fn read(counter: &AtomicU64) -> Self {
        Duration::from_nanos(counter.load(Ordering::Relaxed)).as_secs_f64()
    }

    fn sum(self, other: Self) -> Self {
        self + other
    }

    fn most(self, other: Self) -> Self {
        self.max(other)
    }

    fn record_sum(self, before: Self, name: &'static str, labels: &[metrics::Label]) {
        if self > before {
            metrics::gauge!(name, labels.iter()).increment(self - before);
        }
    }

    fn record_most(self, before: Self, name: &'static str, labels: &[metrics::Label]) {
        if self != before {
            metrics::gauge!(name, labels.iter()).set(self);
        }
    }
}

/// What is counted: in each slot, and for a pool as the sum or the most of its slots.
macro_rules! counted {
    ($($(#[doc = $doc:literal])* $field:ident: $type:ty = $fold:ident of $counter:ident, $record:ident $name:literal;)*) => {
        /// Counters of a pool, as they stood when [`Pool::metrics`](super::Pool::metrics) was called.
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        #[non_exhaustive]
        pub struct PoolMetrics {
            /// The run that started it: its name, or its number.
            pub run: String,
            /// The pool's name.
            pub pool: String,
            /// The module's name.
            pub module: String,
            /// Slots that the pool has.
            pub slots: usize,
            /// Slots whose threads do not come back.
            pub lost_slots: usize,
            $($(#[doc = $doc])* pub $field: $type,)*
            /// Tasks that wait for a slot.
            pub queued_tasks: usize,
            /// Bytes of batches on their way through the pool.
            pub queued_bytes: u64,
            /// The most of these so far.
            pub peak_queued_bytes: u64,
            /// The same for each slot.
            pub per_slot: Vec<SlotMetrics>,
        }

        /// Counters of one slot of a pool.
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        #[non_exhaustive]
        pub struct SlotMetrics {
            /// The slot's number.
            pub slot: usize,
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        /// The counters of one slot while it runs; times in nanoseconds. Only whoever serves the slot
        /// writes to them, so that counting needs no locked instructions.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $counter: AtomicU64,)*
            /// What recorders know already.
            recorded: Mutex<SlotMetrics>,
        }

        impl Counters {
            fn read(&self, slot: usize) -> SlotMetrics {
                SlotMetrics {
                    slot,
                    $($field: Count::read(&self.$counter),)*
                }
            }

            /// Tells the recorder, if there is one, what was counted since the last time.
            fn record(&self, now: &SlotMetrics, labels: &[metrics::Label]) {
                let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
                $(now.$field.$record(recorded.$field, $name, labels);)*
                recorded.clone_from(now);
            }
        }

        /// What is counted in each slot: its name and kind for Prometheus, what it means, and its value.
        const EXPORTED: &[(&str, &str, &[&str], Value<SlotMetrics>)] = &[
            $(($name, stringify!($record), &[$($doc),*], |slot| slot.$field as f64),)*
        ];

        /// What the slots of a pool counted, and together.
        pub(super) fn snapshot(core: &Core) -> PoolMetrics {
            let slots = core.places().iter().enumerate();
            let per_slot: Vec<SlotMetrics> =
                slots.map(|(number, place)| place.counters.read(number)).collect();
            PoolMetrics {
                run: core.recipe.run.clone(),
                pool: core.recipe.pool.clone(),
                module: core.recipe.module.name().to_owned(),
                slots: per_slot.len(),
                lost_slots: core.lost_slots(),
                $($field: per_slot
                    .iter()
                    .fold(<$type>::default(), |all, slot| all.$fold(slot.$field)),)*
                queued_tasks: core.queue.len(),
                queued_bytes: core.held.held(),
                peak_queued_bytes: core.held.most(),
                per_slot,
            }
        }
    };
}

counted! {
    /// Slots that were started, restarts and attempts that failed included.
    starts: u64 = sum of starts, record_sum "wasmill_starts_total";
    /// Calls of `init`, restarts included.
    inits: u64 = sum of inits, record_sum "wasmill_inits_total";
    /// Attempts at starting a slot that failed and were made again.
    init_retries: u64 = sum of init_retries, record_sum "wasmill_init_retries_total";
    /// Slots that were started again after a failure.
    restarts: u64 = sum of restarts, record_sum "wasmill_restarts_total";
    /// Calls of `close`.
    closes: u64 = sum of closes, record_sum "wasmill_closes_total";
    /// Calls of UDFs that came back with a result.
    calls: u64 = sum of calls, record_sum "wasmill_calls_total";
    /// Calls that were made again on a slot that was started again.
    call_retries: u64 = sum of call_retries, record_sum "wasmill_call_retries_total";
    /// Rows in those calls.
    rows: u64 = sum of rows, record_sum "wasmill_rows_total";
    /// Rows that the guest could not compute.
    failed_rows: u64 = sum of failed_rows, record_sum "wasmill_failed_rows_total";
    /// Calls that were made because a batch was too large for the guest's memory.
    splits: u64 = sum of splits, record_sum "wasmill_splits_total";
    /// Bytes of arguments copied in.
    bytes_in: u64 = sum of bytes_in, record_sum "wasmill_bytes_in_total";
    /// Bytes of results copied out.
    bytes_out: u64 = sum of bytes_out, record_sum "wasmill_bytes_out_total";
    /// Time that tasks waited for a slot.
    wait_seconds: f64 = sum of wait, record_sum "wasmill_wait_seconds_total";
    /// Time spent copying arguments in.
    copy_in_seconds: f64 = sum of copy_in, record_sum "wasmill_copy_in_seconds_total";
    /// Time spent in guest code, also by calls that failed.
    guest_seconds: f64 = sum of guest, record_sum "wasmill_guest_seconds_total";
    /// Time spent copying results out and checking them.
    copy_out_seconds: f64 = sum of copy_out, record_sum "wasmill_copy_out_seconds_total";
    /// Time spent starting slots, `init` included.
    init_seconds: f64 = sum of init, record_sum "wasmill_init_seconds_total";
    /// Time spent in `close`.
    close_seconds: f64 = sum of close, record_sum "wasmill_close_seconds_total";
    /// Largest linear memory of any slot, in bytes.
    peak_memory_bytes: u64 = most of peak_memory, record_most "wasmill_peak_memory_bytes";
}

/// Tells the recorder of the `metrics` facade, if there is one, what a pool counted since the last time.
/// Calls cost nothing more for it: the watchman does this once a second, and whoever ends a pool.
pub(super) fn record(core: &Core) {
    let pool = metrics::Label::new("pool", core.recipe.pool.clone());
    let module = metrics::Label::new("module", core.recipe.module.name().to_owned());
    for (number, place) in core.places().iter().enumerate() {
        let slot = metrics::Label::new("slot", number.to_string());
        let labels = [pool.clone(), module.clone(), slot];
        place.counters.record(&place.counters.read(number), &labels);
    }
    let labels = [pool, module];
    metrics::gauge!("wasmill_queued_tasks", labels.iter()).set(core.queue.len() as f64);
    metrics::gauge!("wasmill_queued_bytes", labels.iter()).set(core.held.held() as f64);
}

/// How a number is taken out of what was counted.
type Value<T> = fn(&T) -> f64;

/// Metrics in the text format of Prometheus, version 0.0.4.
pub(super) fn to_prometheus(pools: &[PoolMetrics]) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, f64)>| {
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for (labels, value) in samples {
            text.push_str(&format!("{name}{{{labels}}} {value}\n"));
        }
    };
    for (name, record, doc, value) in EXPORTED {
        let kind = match *record {
            "record_sum" => "counter",
            _ => "gauge",
        };
        let samples = pools.iter().flat_map(|pool| {
            pool.per_slot.iter().map(move |slot| {
                let labels = format!("{},slot=\"{}\"", labels(pool), slot.slot);
                (labels, value(slot))
            })
        });
        family(name, kind, doc.join("").trim(), samples.collect());
    }
    let queued: [(&str, &str, Value<PoolMetrics>); 3] = [
        ("wasmill_queued_tasks", "Tasks that wait for a slot.", |p| {
            p.queued_tasks as f64
        }),
        (
            "wasmill_queued_bytes",
            "Bytes of batches on their way through the pool.",
            |p| p.queued_bytes as f64,
        ),
        (
            "wasmill_lost_slots",
            "Slots whose threads do not come back.",
            |p| p.lost_slots as f64,
        ),
    ];
    for (name, help, value) in queued {
        let samples = pools.iter().map(|pool| (labels(pool), value(pool)));
        family(name, "gauge", help, samples.collect());
    }
    text
}

fn labels(pool: &PoolMetrics) -> String {
    let escaped = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    format!(
        "pool=\"{}\",module=\"{}\"",
        escaped(&pool.pool),
        escaped(&pool.module)
    )
}

impl fmt::Display for PoolMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "pool {} of {}: {}, {}, {}, {}",
            self.pool,
            self.module,
            count(self.slots as u64, "slot"),
            count(self.starts, "start"),
            count(self.inits, "init"),
            count(self.restarts, "restart")
        )?;
        writeln!(
            f,
            "  {}, {}, {} of them failed, {}, {} in, {} out, peak memory of a slot {}",
            count(self.calls, "call"),
            count(self.rows, "row"),
            self.failed_rows,
            count(self.splits, "split"),
            Size(self.bytes_in),
            Size(self.bytes_out),
            Size(self.peak_memory_bytes)
        )?;
        write!(
            f,
            "  init {:.3} s, wait {:.3} s, copy in {:.3} s, guest {:.3} s, copy out {:.3} s",
            self.init_seconds,
            self.wait_seconds,
            self.copy_in_seconds,
            self.guest_seconds,
            self.copy_out_seconds
        )
    }
}

/// A number of things, in words.
fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

/// A number of bytes for people.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_024 => write!(f, "{} B", self.0),
            1_024..1_048_576 => write!(f, "{:.1} KiB", bytes / 1_024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
            _ => write!(f, "{:.1} GiB", bytes / 1_073_741_824.0),
        }
    }
}

/// Adds to a counter of the slot that is being served.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(n);
    counter.store(sum, Ordering::Relaxed);
}

/// Raises a counter of the slot that is being served.
pub(crate) fn raise(counter: &AtomicU64, n: u64) {
    if counter.load(Ordering::Relaxed) < n {
        counter.store(n, Ordering::Relaxed);
    }
}

/// Adds to a time.
pub(crate) fn add_time(counter: &AtomicU64, time: Duration) {
    add(counter, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_a_family_for_each_number() {
        let pool = PoolMetrics {
            pool: "a \"b\"\\\nc".to_owned(),
            module: "m".to_owned(),
            per_slot: vec![SlotMetrics {
                slot: 3,
                rows: 7,
                guest_seconds: 0.25,
                ..SlotMetrics::default()
            }],
            ..PoolMetrics::default()
        };
        let text = to_prometheus(&[pool]);
        let labels = r#"pool="a \"b\"\\\nc",module="m""#;
        for line in [
            "# TYPE wasmill_rows_total counter".to_owned(),
            "# HELP wasmill_rows_total Rows in those calls.".to_owned(),
            format!("wasmill_rows_total{{{labels},slot=\"3\"}} 7"),
            format!("wasmill_guest_seconds_total{{{labels},slot=\"3\"}} 0.25"),
            "# TYPE wasmill_peak_memory_bytes gauge".to_owned(),
            format!("wasmill_queued_tasks{{{labels}}} 0"),
        ] {
            assert!(
                text.lines().any(|l| l == line),
                "{line} is missing in {text}"
            );
        }
    }
}
