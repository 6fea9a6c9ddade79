//! What becomes of rows that a guest could not compute.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::Expr;

use crate::error::Fault;
use crate::{Call, RowError};

/// What becomes of rows that a guest could not compute. The outcome depends on the rows and their
/// order only, never on how they were cut into batches or which slot computed them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RowErrorPolicy {
    /// What happens to such a row.
    pub action: RowErrorAction,
    /// How many there may be; any number where it is `None`.
    pub limit: Option<ErrorLimit>,
}

/// What happens to a row that failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum RowErrorAction {
    /// The run ends with the error of the lowest such row.
    #[default]
    Fail,
    /// Its result is null.
    Null,
    /// Its result is null, and the row is handed to the session's [`DeadLetters`].
    DeadLetter {
        /// Columns that are kept beside the call's arguments.
        keep: Vec<Expr>,
    },
}

/// How many rows may fail before the run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorLimit {
    /// So many; one more ends the run.
    Rows(u64),
    /// So many of ten thousand rows, judged when all rows have been seen.
    PerTenThousand(u32),
}

impl fmt::Display for ErrorLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorLimit::Rows(rows) => rows.fmt(f),
            ErrorLimit::PerTenThousand(share) => write!(f, "{}%", f64::from(*share) / 100.0),
        }
    }
}

impl FromStr for ErrorLimit {
    type Err = String;

    /// `N` or `P%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a number of rows, as 100, or a share of them, as 0.5%".to_owned();
        let Some(share) = text.strip_suffix('%') else {
            return text.parse().map(ErrorLimit::Rows).map_err(|_| wrong());
        };
        let share: f64 = share.trim().parse().map_err(|_| wrong())?;
        if !(0.0..=100.0).contains(&share) {
            return Err("a share lies between 0% and 100%".to_owned());
        }
        let parts = (share * 100.0).round();
        if (parts / 100.0 - share).abs() > 1e-9 {
            return Err("a share has two decimal places at most".to_owned());
        }
        Ok(ErrorLimit::PerTenThousand(parts as u32))
    }
}

impl RowErrorPolicy {
    /// Whether results may be null because their rows failed.
    pub(super) fn makes_nulls(&self) -> bool {
        self.action != RowErrorAction::Fail
    }

    /// The expressions of columns that are kept.
    pub(super) fn kept(&self) -> &[Expr] {
        match &self.action {
            RowErrorAction::DeadLetter { keep } => keep,
            _ => &[],
        }
    }

    pub(super) fn kept_mut(&mut self) -> &mut [Expr] {
        match &mut self.action {
            RowErrorAction::DeadLetter { keep } => keep,
            _ => &mut [],
        }
    }
}

/// Takes rows that failed, a batch at a time and in input order.
pub type DeadLetterSink = Arc<dyn Fn(RecordBatch) -> Result<()> + Send + Sync>;

/// Where rows go that failed under [`RowErrorAction::DeadLetter`]: an extension of the session's
/// configuration, as [`Pools`](super::Pools) is.
///
/// The batches have the columns of [`dead_letter_schema`].
#[derive(Clone)]
pub struct DeadLetters(pub DeadLetterSink);

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeadLetters")
    }
}

/// The columns of dead letters: the row's number in its partition (from 0), the guest's code and
/// message, the arguments under their parameters' names, and the columns that are kept.
pub fn dead_letter_schema(call: &Call, kept: &[FieldRef]) -> SchemaRef {
    let own = [
        Field::new("error_row", DataType::UInt64, false),
        Field::new("error_code", DataType::Int32, false),
        Field::new("error_message", DataType::Utf8, false),
    ];
    let arguments = call
        .arguments()
        .iter()
        .zip(&call.function().parameters)
        .map(|(field, parameter)| Arc::new(field.as_ref().clone().with_name(&parameter.name)));
    let fields: Vec<FieldRef> = own
        .map(Arc::new)
        .into_iter()
        .chain(arguments)
        .chain(kept.iter().cloned())
        .collect();
    Arc::new(Schema::new(fields))
}

/// A batch of the rows that failed. `columns` are the arguments and the kept columns of all rows of the
/// call; those of one row are the same for all.
pub(super) fn dead_letters(
    schema: &SchemaRef,
    errors: &[RowError],
    first_row: u64,
    columns: &[ArrayRef],
) -> Result<RecordBatch> {
    let rows = errors
        .iter()
        .map(|e| first_row.saturating_add(e.row as u64));
    let mut letters: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(rows)),
        Arc::new(Int32Array::from_iter_values(errors.iter().map(|e| e.code))),
        Arc::new(StringArray::from_iter_values(
            errors.iter().map(|e| e.message.as_str()),
        )),
    ];
    let places =
        UInt32Array::from_iter_values(errors.iter().map(|e| u32::try_from(e.row).unwrap_or(0)));
    for column in columns {
        letters.push(take(column, &places, None)?);
    }
    Ok(RecordBatch::try_new(SchemaRef::clone(schema), letters)?)
}

/// Counts the failed rows of one call over the partitions of a run.
#[derive(Debug, Default)]
pub(super) struct Failures {
    failed: AtomicU64,
    seen: AtomicU64,
}

impl Failures {
    /// Notes a batch: gives the first error that is one too many.
    pub(super) fn note<'e>(
        &self,
        limit: Option<ErrorLimit>,
        rows: usize,
        errors: &'e [RowError],
    ) -> Option<&'e RowError> {
        self.seen.fetch_add(rows as u64, Ordering::Relaxed);
        let before = self
            .failed
            .fetch_add(errors.len() as u64, Ordering::Relaxed);
        match limit {
            Some(ErrorLimit::Rows(most)) => {
                errors.get(usize::try_from(most.saturating_sub(before)).ok()?)
            }
            _ => None,
        }
    }

    /// Judges the share of failed rows when all have been seen.
    pub(super) fn judge(&self, limit: Option<ErrorLimit>) -> Option<Fault> {
        let Some(ErrorLimit::PerTenThousand(share)) = limit else {
            return None;
        };
        let (failed, seen) = (
            self.failed.load(Ordering::Relaxed),
            self.seen.load(Ordering::Relaxed),
        );
        let too_many = u128::from(failed).saturating_mul(10_000)
            > u128::from(seen).saturating_mul(u128::from(share));
        too_many.then(|| Fault::TooManyRows {
            limit: format!("{} of {seen} rows", ErrorLimit::PerTenThousand(share)),
            failed,
            message: None,
        })
    }
}

/// Hands rows over.
pub(super) fn send(letters: Option<&DeadLetters>, batch: RecordBatch) -> Result<()> {
    match letters {
        Some(DeadLetters(sink)) => sink(batch),
        None => exec_err!(
            "a row failed that is to be set aside, and the session has no `DeadLetters` to take it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(rows: &[usize]) -> Vec<RowError> {
        rows.iter()
            .map(|row| RowError {
                row: *row,
                code: 1,
                message: String::new(),
            })
            .collect()
    }

    #[test]
    fn the_row_that_is_one_too_many_is_found_in_whatever_batch_it_is() {
        let limit = Some(ErrorLimit::Rows(2));
        let failures = Failures::default();
        assert_eq!(failures.note(limit, 8, &errors(&[3, 4])), None);
        assert_eq!(failures.note(limit, 8, &[]), None);
        let more = errors(&[1, 2]);
        assert_eq!(failures.note(limit, 8, &more).map(|e| e.row), Some(1));

        let failures = Failures::default();
        let all = errors(&[3, 4, 17, 18]);
        assert_eq!(failures.note(limit, 24, &all).map(|e| e.row), Some(17));
        assert_eq!(
            Failures::default()
                .note(Some(ErrorLimit::Rows(0)), 1, &errors(&[0]))
                .map(|e| e.row),
            Some(0)
        );
    }

    #[test]
    fn a_share_is_judged_at_the_end() {
        let tenth = Some(ErrorLimit::PerTenThousand(1_000));
        let failures = Failures::default();
        assert_eq!(failures.note(tenth, 1, &errors(&[0])), None);
        assert_eq!(failures.note(tenth, 9, &[]), None);
        assert!(failures.judge(tenth).is_none());
        failures.note(tenth, 10, &errors(&[0, 1]));
        assert!(failures.judge(tenth).is_some());
        assert_eq!(ErrorLimit::PerTenThousand(50).to_string(), "0.5%");
    }
}
