//! What a check found, for people and for programs.

use std::fmt::Write;

use serde::Serialize;

use super::compare::bounded;
use crate::cli::terminal::counted;

/// Characters of types that are shown.
const TYPES: usize = 200;

/// How the check of a function ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Ok,
    Failed,
    Skipped,
}

/// What kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Problem {
    /// The guest trapped or exited.
    Trap,
    /// It returned what it did not promise.
    Contract,
    /// It ran out of time, memory or room for its result.
    Limit,
    /// `bind` failed, other than by refusing types.
    Bind,
    /// `init` failed.
    Init,
    /// `close` failed.
    Close,
    /// The same batch gave another answer the second time.
    Unsteady,
    /// The answer depends on how rows are cut into batches.
    BatchSize,
    /// The answer depends on values under nulls.
    UnderNulls,
    /// A constant gives another answer than a column of the same value.
    Constant,
    /// The host failed.
    Host,
}

impl Problem {
    fn text(self) -> &'static str {
        match self {
            Problem::Trap => "trap",
            Problem::Contract => "broken contract",
            Problem::Limit => "limit reached",
            Problem::Bind => "bind failed",
            Problem::Init => "init failed",
            Problem::Close => "close failed",
            Problem::Unsteady => "another answer the second time",
            Problem::BatchSize => "answer depends on the batch size",
            Problem::UnderNulls => "answer depends on values under nulls",
            Problem::Constant => "a constant is not like a column",
            Problem::Host => "the host failed",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Found {
    pub(super) problem: Problem,
    pub(super) message: String,
    /// The batch it was found with, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) batch: Option<FoundIn>,
    /// A command that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reproduce: Option<String>,
}

/// A batch that shows a problem.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FoundIn {
    pub(super) name: String,
    pub(super) rows: usize,
    /// The types of the arguments.
    pub(super) types: String,
    /// `name = value` for each argument, where there is just one row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<String>,
}

/// What became of one function or overload.
#[derive(Debug, Serialize)]
pub(super) struct FunctionReport {
    pub(super) name: String,
    pub(super) signature: String,
    pub(super) verdict: Verdict,
    /// Why it was skipped, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    pub(super) calls: u64,
    pub(super) rows: u64,
    /// Rows that the guest could not compute, which is no failure.
    pub(super) row_errors: u64,
    /// Calls that the guest answered with an error for all rows, which is none either.
    pub(super) refused_calls: u64,
    pub(super) seconds: f64,
    pub(super) failures: Vec<Found>,
    pub(super) warnings: Vec<String>,
}

impl FunctionReport {
    pub(super) fn new(name: &str, signature: String) -> Self {
        FunctionReport {
            name: name.to_owned(),
            signature,
            verdict: Verdict::Ok,
            reason: None,
            calls: 0,
            rows: 0,
            row_errors: 0,
            refused_calls: 0,
            seconds: 0.0,
            failures: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn skip(&mut self, reason: String) {
        self.verdict = Verdict::Skipped;
        self.reason = Some(reason);
    }

    pub(super) fn fail(&mut self, found: Found) {
        self.verdict = Verdict::Failed;
        self.failures.push(found);
    }

    /// Lines for people.
    pub(super) fn text(&self) -> String {
        let mark = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Failed => "FAILED",
            Verdict::Skipped => "skipped",
        };
        let mut text = format!(
            "{mark:<8} {}({})",
            self.name,
            bounded(&self.signature, TYPES)
        );
        match &self.reason {
            Some(reason) => {
                let _ = write!(text, ": {reason}");
            }
            None => {
                let calls = counted(self.calls, "call", "calls");
                let rows = counted(self.rows, "row", "rows");
                let _ = write!(text, "  {calls}, {rows}");
                if self.row_errors > 0 {
                    let errors = counted(self.row_errors, "row error", "row errors");
                    let _ = write!(text, ", {errors}");
                }
                if self.refused_calls > 0 {
                    let refused = counted(self.refused_calls, "call", "calls");
                    let _ = write!(text, ", {refused} refused");
                }
            }
        }
        text.push('\n');
        for found in &self.failures {
            let _ = writeln!(
                text,
                "    {}: {}",
                found.problem.text(),
                indented(&found.message)
            );
            if let Some(batch) = &found.batch {
                let rows = counted(batch.rows as u64, "row", "rows");
                let _ = write!(
                    text,
                    "      with {} ({rows}) of ({})",
                    batch.name,
                    bounded(&batch.types, TYPES)
                );
                if !batch.values.is_empty() {
                    let _ = write!(text, ": {}", batch.values.join(", "));
                }
                text.push('\n');
            }
            match (&found.reproduce, &found.batch) {
                (Some(command), _) => {
                    let _ = writeln!(text, "      to reproduce: {command}");
                }
                (None, Some(_)) => {
                    text.push_str(
                        "      to reproduce: with --save FOLDER the batch is written to a file\n",
                    );
                }
                (None, None) => {}
            }
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "    warning: {}", indented(warning));
        }
        text
    }
}

/// The first lines of a message: backtraces can be long.
fn indented(text: &str) -> String {
    const SHOWN: usize = 8;
    let mut lines: Vec<&str> = text.lines().take(SHOWN).collect();
    if text.lines().nth(SHOWN).is_some() {
        lines.push("  …");
    }
    lines.join("\n    ")
}

/// What became of all of them.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    schema_version: u32,
    module: &'a str,
    digest: String,
    functions: &'a [FunctionReport],
    summary: Summary,
}

/// How many functions ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Summary {
    pub(super) ok: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    pub(super) warnings: usize,
}

impl Summary {
    pub(super) fn of(functions: &[FunctionReport]) -> Self {
        let count = |verdict| functions.iter().filter(|f| f.verdict == verdict).count();
        Summary {
            ok: count(Verdict::Ok),
            failed: count(Verdict::Failed),
            skipped: count(Verdict::Skipped),
            warnings: functions.iter().map(|f| f.warnings.len()).sum(),
        }
    }

    pub(super) fn text(self) -> String {
        let mut text = format!(
            "{} ok, {} FAILED, {} skipped",
            self.ok, self.failed, self.skipped
        );
        if self.warnings > 0 {
            let _ = write!(text, ", {} warnings", self.warnings);
        }
        text.push('\n');
        text
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(module: &'a str, digest: String, functions: &'a [FunctionReport]) -> Self {
        Report {
            schema_version: 1,
            module,
            digest,
            functions,
            summary: Summary::of(functions),
        }
    }
}
