//! Carries out a plan and writes its rows, whatever made the plan.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use indicatif::ProgressBar;

use super::failure::is_broken_pipe;
use super::io::{self, Encoding, Output};
use super::report::rows_written;

/// What became of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// So many were written.
    Rows(u64),
    /// Whoever read the output has seen enough.
    Closed,
}

/// Writes the rows of `plan`. The bar goes along with them, and is gone when this returns.
pub(crate) async fn write(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    place: &Output,
    encoding: Encoding,
    bar: &ProgressBar,
) -> Result<Written> {
    let plan: Arc<dyn ExecutionPlan> = match plan.output_partitioning().partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    };
    let watching = watch(Arc::clone(&plan), bar.clone());
    let written = collect(io::sink(plan, place, encoding, bar), context).await;
    watching.abort();
    bar.finish_and_clear();
    match written {
        Ok(batches) => Ok(Written::Rows(rows_written(&batches))),
        Err(error) if is_broken_pipe(&error) => Ok(Written::Closed),
        Err(error) => Err(error),
    }
}

/// Moves the bar along with the rows that have come out of the plan.
fn watch(plan: Arc<dyn ExecutionPlan>, bar: ProgressBar) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        loop {
            ticks.tick().await;
            bar.set_position(rows_out(&plan).unwrap_or(0) as u64);
        }
    })
}

/// Rows of the topmost node that counts them. Those above it only hand them on.
fn rows_out(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let counted = plan.metrics().and_then(|m| m.output_rows());
    match (counted, plan.children().as_slice()) {
        (Some(rows), _) => Some(rows),
        (None, [input]) => rows_out(input),
        (None, _) => None,
    }
}
