//! A session as the database of a sqllogictest file, and what came of the file.

use std::fmt::Write as _;
use std::path::Path;

use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use sqllogictest::{
    AsyncDB, DBOutput, MakeConnection, Normalizer, Record, Runner, parse_file,
    strict_column_validator,
};
use tempfile::TempDir;

use super::text::{self, Letter};

/// Where files write to; stands for a folder of the test.
const SCRATCH: &str = "test_files/scratch/";

pub(super) struct Database {
    context: SessionContext,
    scratch: String,
}

/// An error as the files quote it.
#[derive(Debug, thiserror::Error)]
#[error("DataFusion error: {0}")]
pub(super) struct Failure(#[from] DataFusionError);

#[async_trait]
impl AsyncDB for Database {
    type Error = Failure;
    type ColumnType = Letter;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, Failure> {
        let sql = sql.replace(SCRATCH, &self.scratch);
        let frame = self.context.sql(&sql).await?;
        let task = frame.task_ctx();
        let plan = frame.create_physical_plan().await?;
        let types = text::letters(&plan.schema());
        let batches = datafusion::physical_plan::collect(plan, task.into()).await?;
        let rows = text::rows(&batches).map_err(DataFusionError::from)?;
        Ok(match types.is_empty() && rows.is_empty() {
            true => DBOutput::StatementComplete(0),
            false => DBOutput::Rows { types, rows },
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "DataFusion"
    }

    async fn sleep(time: std::time::Duration) {
        tokio::time::sleep(time).await;
    }
}

/// What came of the records of a file.
#[derive(Default)]
pub(super) struct Report {
    /// Statements and queries that were run.
    pub(super) records: usize,
    pub(super) failures: Vec<String>,
}

impl Report {
    /// All that failed.
    pub(super) fn failed(&self) -> String {
        let mut text = String::new();
        for failure in &self.failures {
            writeln!(text, "{failure}\n").expect("text");
        }
        text
    }
}

/// A folder for what a file writes.
pub(super) fn scratch(file: &Path) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let stem = file.file_stem().expect("a name");
    std::fs::create_dir(folder.path().join(stem)).expect("a folder");
    folder
}

/// What runs records in a session.
pub(super) fn runner(
    context: &SessionContext,
    scratch: &Path,
) -> Runner<Database, impl MakeConnection<Conn = Database>> {
    let (context, scratch) = (context.clone(), format!("{}/", scratch.display()));
    let mut runner = Runner::new(move || {
        let (context, scratch) = (context.clone(), scratch.clone());
        async move { Ok(Database { context, scratch }) }
    });
    runner.with_column_validator(strict_column_validator);
    runner.with_normalizer(without_spaces_at_the_end);
    runner.with_validator(same_lines);
    runner
}

/// Runs the records of a file, but those that `left_out` says.
pub(super) async fn run(
    file: &Path,
    context: &SessionContext,
    left_out: impl Fn(&str) -> bool,
) -> Report {
    let folder = scratch(file);
    let mut runner = runner(context, folder.path());
    let records = parse_file::<Letter>(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut report = Report::default();
    for record in records {
        if let Record::Query { sql, .. } | Record::Statement { sql, .. } = &record {
            if left_out(sql) {
                continue;
            }
            report.records += 1;
        }
        if let Record::Halt { .. } = record {
            break;
        }
        if let Err(error) = runner.run_async(record).await {
            report.failures.push(error.to_string());
        }
    }
    report
}

#[expect(clippy::ptr_arg, reason = "the type is that of the library")]
pub(super) fn without_spaces_at_the_end(line: &String) -> String {
    line.trim_end().to_owned()
}

/// Each row is a line.
pub(super) fn same_lines(normal: Normalizer, rows: &[Vec<String>], expected: &[String]) -> bool {
    let rows = rows.iter().map(|row| normal(&row.join(" ")));
    rows.eq(expected.iter().map(normal))
}
