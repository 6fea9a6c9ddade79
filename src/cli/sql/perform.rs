//! Carries out one statement.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use datafusion::prelude::DataFrame;
use datafusion::sql::parser::Statement;

use super::session::Session;
use super::{copy, refusal, script, show};
use crate::RunMetrics;
use crate::cli::ending::{RunKeeper, TO_FINISH, blocking};
use crate::cli::failure::Failure;
use crate::cli::io::{self, Encoding, Format, Output, Uploads};
use crate::cli::print;
use crate::cli::report::{Done, MetricsForm, report};
use crate::cli::terminal::progress;
use crate::cli::writing::{self, Written};

/// Where rows go.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// A file or object; the standard output without one.
    pub(super) output: Option<PathBuf>,
    pub(super) encoding: Encoding,
    /// Whether plans are printed as they are, not as a table of rows.
    pub(super) plain_plans: bool,
}

/// What is told when a statement is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Telling {
    pub(super) metrics: Option<MetricsForm>,
    /// Whether the rows are counted at the end.
    pub(super) summary: bool,
    /// No progress bar, no notes.
    pub(super) quiet: bool,
}

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was carried out.
    Done,
    /// Whoever read the output has seen enough.
    Closed,
}

/// Carries out one statement: plans it, starts its pools, writes its rows, ends its pools, tells.
pub(super) async fn perform(
    session: Arc<Session>,
    statement: Statement,
    target: Target,
    telling: Telling,
    keeper: RunKeeper,
    uploads: Uploads,
) -> Result<Outcome, Failure> {
    let started = Instant::now();
    session.begin(&keeper);
    let is_explain = matches!(statement, Statement::Explain(_));
    let is_show = script::shows(&statement);
    let (statement, target) = match statement {
        Statement::CopyTo(copy) => copy::taken_apart(copy, &target)?,
        statement => (statement, target),
    };
    let explained = |error| refusal::explained(error, &session);
    let frame = planned(&session, statement).await?;
    let (state, plan) = frame.into_parts();
    if is_nothing(&plan) {
        if let Some(run) = finish(&keeper).await? {
            let output = std::path::Path::new("the session");
            let done = Done {
                rows: 0,
                output,
                bytes: None,
                time: started.elapsed(),
                run: Some(run),
            };
            report(done, telling.metrics, true)?;
        }
        return Ok(Outcome::Done);
    }
    let plan = match is_show && !target.encoding.format.has_lists() {
        true => show::with_lists_as_texts(plan).map_err(explained)?,
        false => plan,
    };
    let plan = state.create_physical_plan(&plan).await.map_err(explained)?;
    if is_explain && target.plain_plans {
        let plans = collect(plan, state.task_ctx()).await.map_err(explained)?;
        print(&plan_text(&plans))?;
        tell(&keeper, telling, started.elapsed()).await?;
        return Ok(Outcome::Done);
    }
    check_names(&plan.schema(), target.encoding.format)?;
    let place = Output::create(target.output.as_deref(), target.encoding.format, &uploads).await?;
    io::check_columns(&plan.schema(), &target.encoding, place.name())?;
    let bar = progress(None, telling.quiet);
    session.bar.set(&bar);
    let written = writing::write(plan, state.task_ctx(), &place, target.encoding, &bar).await;
    let rows = match written.map_err(explained)? {
        Written::Rows(rows) => rows,
        Written::Closed => return Ok(Outcome::Closed),
    };
    let name = place.name().to_owned();
    let bytes = place.commit().await?;
    let run = finish(&keeper).await?;
    let done = Done {
        rows,
        output: &name,
        bytes,
        time: started.elapsed(),
        run,
    };
    report(done, telling.metrics, !telling.summary)?;
    Ok(Outcome::Done)
}

/// Whether a plan is what is left of a statement that has been carried out.
fn is_nothing(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(_)) && plan.schema().fields().is_empty()
}

/// The plan of a statement; what only changes the session is done when this returns.
pub(super) async fn planned(session: &Session, statement: Statement) -> Result<DataFrame, Failure> {
    let explained = |error| refusal::explained(error, session);
    let state = session.context.state();
    let plan = state
        .statement_to_plan(statement)
        .await
        .map_err(explained)?;
    let mut copies = false;
    plan.apply(|node| {
        copies |= matches!(node, LogicalPlan::Copy(_));
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(explained)?;
    let analyses = matches!(plan, LogicalPlan::Analyze(_));
    if copies && analyses {
        return Err(Failure::usage("a COPY cannot be analyzed")
            .hint("analyze its query: EXPLAIN ANALYZE SELECT …"));
    }
    session
        .context
        .execute_logical_plan(plan)
        .await
        .map_err(explained)
}

/// Ends the runs of the statement, where a signal can still be heard.
pub(super) async fn finish(keeper: &RunKeeper) -> Result<Option<RunMetrics>, Failure> {
    let keeper = keeper.clone();
    blocking(move || Ok(keeper.finish(TO_FINISH))).await
}

/// The metrics of a statement whose rows were printed.
async fn tell(keeper: &RunKeeper, telling: Telling, time: Duration) -> Result<(), Failure> {
    let run = finish(keeper).await?;
    let output = std::path::Path::new("the standard output");
    let done = Done {
        rows: 0,
        output,
        bytes: None,
        time,
        run,
    };
    report(done, telling.metrics, true)
}

/// Refuses names that a reader of the format could not tell apart.
fn check_names(schema: &Schema, format: Format) -> Result<(), Failure> {
    if matches!(format, Format::Table | Format::Csv) {
        return Ok(());
    }
    let mut names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair.first() == pair.last()) {
        Some(pair) => Err(Failure::usage(format!(
            "the result has two columns `{}`, which cannot be told apart in {}",
            pair.first().copied().unwrap_or_default(),
            format.name()
        ))
        .hint("name one of them with AS")),
        None => Ok(()),
    }
}

/// Plans as they are printed, each under what it is.
pub(super) fn plan_text(batches: &[RecordBatch]) -> String {
    let mut text = String::new();
    for (kind, plan) in plans(batches) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&kind.replace('_', " "));
        text.push('\n');
        for line in plan.lines() {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The rows of `EXPLAIN`: what a plan is, and the plan.
pub(super) fn plans(batches: &[RecordBatch]) -> Vec<(String, String)> {
    let texts = |batch: &RecordBatch, column: usize| -> Vec<String> {
        let column = batch
            .columns()
            .get(column)
            .and_then(|c| c.as_string_opt::<i32>());
        column.map_or_else(Vec::new, |texts| {
            texts
                .iter()
                .map(|t| t.unwrap_or_default().to_owned())
                .collect()
        })
    };
    batches
        .iter()
        .flat_map(|batch| texts(batch, 0).into_iter().zip(texts(batch, 1)))
        .collect()
}
