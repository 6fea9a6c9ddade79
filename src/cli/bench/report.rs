//! What a benchmark tells.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{BinaryBytes, HumanCount};
use serde::Serialize;

use crate::PoolMetrics;
use crate::cli::terminal::counted;

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) schema_version: u32,
    pub(super) module: String,
    pub(super) digest: String,
    pub(super) udf: String,
    /// Types of the arguments.
    pub(super) signature: String,
    pub(super) slots: usize,
    /// Where the values come from.
    pub(super) source: String,
    pub(super) rows: usize,
    pub(super) bytes: usize,
    /// Whether the input has more than was used.
    pub(super) cut: bool,
    pub(super) results: Vec<Measured>,
}

/// What was measured at one batch size.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) batch_size: usize,
    pub(super) calls: u64,
    pub(super) rows: u64,
    pub(super) failed_rows: u64,
    /// From the first call to the end of the last.
    pub(super) seconds: f64,
    pub(super) rows_per_second: f64,
    /// Millions of bytes of arguments a second.
    pub(super) megabytes_per_second: f64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// Sums over all calls; what a call takes beyond these is the host's.
    pub(super) wait_seconds: f64,
    pub(super) copy_in_seconds: f64,
    pub(super) guest_seconds: f64,
    pub(super) copy_out_seconds: f64,
    pub(super) call_seconds: f64,
    /// Of the time of one call, in seconds.
    pub(super) latency: Latency,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Measured {
    pub(super) fn new(
        batch_size: usize,
        seconds: f64,
        sorted: &[Duration],
        before: &PoolMetrics,
        after: &PoolMetrics,
    ) -> Self {
        let at = |percent: usize| {
            let last = sorted.len().saturating_sub(1);
            // The nearest rank.
            let rank = sorted.len().saturating_mul(percent).div_ceil(100);
            let place = rank.saturating_sub(1).min(last);
            sorted.get(place).map_or(0.0, Duration::as_secs_f64)
        };
        let rows = after.rows.saturating_sub(before.rows);
        let bytes_in = after.bytes_in.saturating_sub(before.bytes_in);
        let per_second = |n: u64| {
            if seconds > 0.0 {
                n as f64 / seconds
            } else {
                0.0
            }
        };
        Measured {
            batch_size,
            calls: sorted.len() as u64,
            rows,
            failed_rows: after.failed_rows.saturating_sub(before.failed_rows),
            seconds,
            rows_per_second: per_second(rows),
            megabytes_per_second: per_second(bytes_in) / 1e6,
            bytes_in,
            bytes_out: after.bytes_out.saturating_sub(before.bytes_out),
            wait_seconds: after.wait_seconds - before.wait_seconds,
            copy_in_seconds: after.copy_in_seconds - before.copy_in_seconds,
            guest_seconds: after.guest_seconds - before.guest_seconds,
            copy_out_seconds: after.copy_out_seconds - before.copy_out_seconds,
            call_seconds: sorted.iter().map(Duration::as_secs_f64).sum(),
            latency: Latency {
                p50: at(50),
                p90: at(90),
                p99: at(99),
                max: at(100),
            },
        }
    }

    fn share(&self, seconds: f64) -> String {
        let share = if self.call_seconds > 0.0 {
            seconds / self.call_seconds
        } else {
            0.0
        };
        format!("{:.0}%", share * 100.0)
    }
}

impl Report {
    /// A table for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{} of {}: ({}), {}, {} rows of {} ({})\n\n",
            self.udf,
            self.module,
            self.signature,
            counted(self.slots as u64, "slot", "slots"),
            HumanCount(self.rows as u64),
            self.source,
            BinaryBytes(self.bytes as u64)
        );
        let mut line = |cells: [&str; 12]| {
            let [
                batch,
                rows,
                mb,
                calls,
                wait,
                copy_in,
                guest,
                out,
                p50,
                p90,
                p99,
                max,
            ] = cells;
            let _ = writeln!(
                text,
                "{batch:>9} {rows:>13} {mb:>9} {calls:>9} {wait:>5} {copy_in:>8} {guest:>6} {out:>9} {p50:>9} {p90:>9} {p99:>9} {max:>9}"
            );
        };
        line([
            "batch", "rows/s", "MB/s", "calls", "wait", "copy in", "guest", "copy out", "p50",
            "p90", "p99", "max",
        ]);
        for m in &self.results {
            line([
                &HumanCount(m.batch_size as u64).to_string(),
                &HumanCount(m.rows_per_second as u64).to_string(),
                &format!("{:.1}", m.megabytes_per_second),
                &HumanCount(m.calls).to_string(),
                &m.share(m.wait_seconds),
                &m.share(m.copy_in_seconds),
                &m.share(m.guest_seconds),
                &m.share(m.copy_out_seconds),
                &shown(m.latency.p50),
                &shown(m.latency.p90),
                &shown(m.latency.p99),
                &shown(m.latency.max),
            ]);
        }
        let failed: u64 = self.results.iter().map(|m| m.failed_rows).sum();
        if failed > 0 {
            let _ = writeln!(text, "\n{} rows failed", HumanCount(failed));
        }
        text
    }
}

/// A time in the unit that leaves few digits.
fn shown(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_secs).collect();
        let none = PoolMetrics::default();
        let latency = Measured::new(1, 1.0, &times, &none, &none).latency;
        assert_eq!(
            (latency.p50, latency.p90, latency.p99, latency.max),
            (100.0, 180.0, 198.0, 200.0)
        );
        let one = [Duration::from_secs(3)];
        assert_eq!(Measured::new(1, 1.0, &one, &none, &none).latency.p50, 3.0);
        assert_eq!(Measured::new(1, 0.0, &[], &none, &none).latency.max, 0.0);
    }

    #[test]
    fn times_are_shown_with_few_digits() {
        assert_eq!(shown(0.000_012_34), "12.3 µs");
        assert_eq!(shown(0.012_34), "12.34 ms");
        assert_eq!(shown(12.0), "12.00 s");
    }
}
