//! What a run tells at its end: a summary for people, metrics for whoever asked.

use std::path::Path;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use clap::ValueEnum;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use super::failure::Failure;
use super::{json_text, print, say};
use crate::{PoolMetrics, RunMetrics};

/// Forms of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetricsForm {
    /// For people
    Text,
    /// For programs
    Json,
    /// For Prometheus: its text format
    Prometheus,
}

/// What a run did.
pub(crate) struct Done<'a> {
    /// Rows of the output.
    pub(crate) rows: u64,
    /// The output file.
    pub(crate) output: &'a Path,
    /// Its size, where it is a file.
    pub(crate) bytes: Option<u64>,
    /// From the start of the command.
    pub(crate) time: Duration,
    /// What its pools did, where it had any.
    pub(crate) run: Option<RunMetrics>,
}

impl Done<'_> {
    fn pools(&self) -> &[PoolMetrics] {
        self.run.as_ref().map_or(&[], |run| &run.pools)
    }
}

#[derive(Serialize)]
struct Report {
    schema_version: u32,
    rows: u64,
    seconds: f64,
    output: String,
    output_bytes: Option<u64>,
    pools: Vec<PoolMetrics>,
}

/// Says what a run did.
pub(crate) fn report(
    done: Done<'_>,
    form: Option<MetricsForm>,
    quiet: bool,
) -> Result<(), Failure> {
    let output = done.output.display().to_string();
    let seconds = done.time.as_secs_f64();
    if !quiet {
        let rows = HumanCount(done.rows);
        let size = done
            .bytes
            .map_or_else(String::new, |bytes| format!(" ({})", HumanBytes(bytes)));
        let noun = if done.rows == 1 { "row" } else { "rows" };
        say(&format!("{rows} {noun} → {output}{size} in {seconds:.1} s"));
    }
    match form {
        None => Ok(()),
        Some(MetricsForm::Text) => {
            done.pools().iter().for_each(|p| say(&p.to_string()));
            Ok(())
        }
        Some(MetricsForm::Json) => {
            let metrics = Report {
                schema_version: 1,
                rows: done.rows,
                seconds,
                output,
                output_bytes: done.bytes,
                pools: done.pools().to_vec(),
            };
            show(&json_text(&metrics)?, done.bytes)
        }
        Some(MetricsForm::Prometheus) => {
            let text = done.run.as_ref().map(RunMetrics::to_prometheus);
            show(text.unwrap_or_default().trim_end(), done.bytes)
        }
    }
}

/// Shows metrics on the standard output, unless that has the rows.
fn show(text: &str, output_bytes: Option<u64>) -> Result<(), Failure> {
    match output_bytes {
        Some(_) => print(&format!("{text}\n")),
        None => {
            say(text);
            Ok(())
        }
    }
}

/// The rows that a sink wrote: it answers one batch with one number.
pub(crate) fn rows_written(batches: &[RecordBatch]) -> u64 {
    let counts = batches
        .iter()
        .filter_map(|b| b.columns().first()?.as_primitive_opt::<UInt64Type>());
    counts.flat_map(|c| c.values().iter().copied()).sum()
}
