//! Batches of exactly the size that was asked for.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;

/// Cuts and joins record batches to exactly `rows` rows each; only the last may be shorter.
///
/// Batches that have the right size already, and pieces of larger ones, are passed on without a copy.
///
/// ```
/// # use std::{num::NonZeroUsize, sync::Arc};
/// # use arrow::array::{ArrayRef, Int32Array, RecordBatch};
/// use wasmill::Rebatcher;
///
/// let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..5));
/// let batch = RecordBatch::try_from_iter([("x", column)])?;
/// let mut rebatcher = Rebatcher::new(batch.schema(), NonZeroUsize::new(2).unwrap());
/// rebatcher.push(batch);
/// assert_eq!(rebatcher.next_full().map(|b| b.num_rows()), Some(2));
/// assert_eq!(rebatcher.next_full().map(|b| b.num_rows()), Some(2));
/// assert!(rebatcher.next_full().is_none());
/// assert_eq!(rebatcher.next_any().map(|b| b.num_rows()), Some(1));
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
#[derive(Debug)]
pub struct Rebatcher {
    schema: SchemaRef,
    rows: usize,
    waiting: VecDeque<RecordBatch>,
    waiting_rows: usize,
}

impl Rebatcher {
    /// Makes batches of `rows` rows.
    pub fn new(schema: SchemaRef, rows: NonZeroUsize) -> Self {
        Rebatcher {
            schema,
            rows: rows.get(),
            waiting: VecDeque::new(),
            waiting_rows: 0,
        }
    }

    /// Takes a batch in.
    pub fn push(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.waiting_rows = self.waiting_rows.saturating_add(batch.num_rows());
            self.waiting.push_back(batch);
        }
    }

    /// The next full batch, if there are rows enough. It is shorter where small batches cannot be joined,
    /// for example because dictionaries together have more values than their keys can tell apart.
    pub fn next_full(&mut self) -> Option<RecordBatch> {
        if self.waiting_rows < self.rows {
            None
        } else {
            self.take(self.rows)
        }
    }

    /// The next batch, full or not; `None` when nothing is left. For the end of the input.
    pub fn next_any(&mut self) -> Option<RecordBatch> {
        match self.waiting_rows {
            0 => None,
            n => self.take(n.min(self.rows)),
        }
    }

    /// Whether no row is waiting.
    pub fn is_empty(&self) -> bool {
        self.waiting_rows == 0
    }

    /// Forgets what is waiting.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.waiting_rows = 0;
    }

    fn take(&mut self, rows: usize) -> Option<RecordBatch> {
        let mut parts = Vec::new();
        let mut missing = rows;
        while missing > 0 {
            let Some(batch) = self.waiting.pop_front() else {
                break;
            };
            if batch.num_rows() > missing {
                self.waiting
                    .push_front(batch.slice(missing, batch.num_rows().saturating_sub(missing)));
                parts.push(batch.slice(0, missing));
                missing = 0;
            } else {
                missing = missing.saturating_sub(batch.num_rows());
                parts.push(batch);
            }
        }
        self.waiting_rows = self.waiting_rows.saturating_sub(rows);
        if parts.len() == 1 {
            return parts.pop();
        }
        match concat_batches(&self.schema, &parts) {
            Ok(batch) => Some(batch),
            Err(error) => {
                tracing::debug!(%error, "small batches cannot be joined; they go on as they are");
                let rest = parts.split_off(1);
                for batch in rest.into_iter().rev() {
                    self.waiting_rows = self.waiting_rows.saturating_add(batch.num_rows());
                    self.waiting.push_front(batch);
                }
                parts.pop()
            }
        }
    }
}
