//! Which rows of a batch are computed, and back to their places.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};

use super::{Output, RowError, Rows};

/// Which rows of a batch are computed.
pub(super) enum Selection {
    All,
    Some(BooleanArray),
}

impl Selection {
    /// `None` when no row is.
    pub(super) fn new(rows: &Rows) -> Option<Self> {
        if rows.rows == 0 {
            return None;
        }
        let Some(mask) = &rows.mask else {
            return Some(Selection::All);
        };
        // A null is not true.
        let mask = match mask.nulls() {
            Some(_) => arrow::compute::prep_null_mask_filter(mask),
            None => mask.clone(),
        };
        match mask.true_count() {
            0 => None,
            n if n == rows.rows => Some(Selection::All),
            _ => Some(Selection::Some(mask)),
        }
    }

    pub(super) fn len(&self, rows: &Rows) -> usize {
        match self {
            Selection::All => rows.rows,
            Selection::Some(mask) => mask.true_count(),
        }
    }

    pub(super) fn columns<'r>(
        &self,
        rows: &'r Rows,
    ) -> Result<Cow<'r, [ArrayRef]>, arrow::error::ArrowError> {
        match self {
            Selection::All => Ok(Cow::Borrowed(&rows.columns)),
            Selection::Some(mask) => rows
                .columns
                .iter()
                .map(|c| arrow::compute::filter(c, mask))
                .collect(),
        }
    }

    /// Whether some rows are not computed.
    pub(super) fn leaves_rows_out(&self) -> bool {
        matches!(self, Selection::Some(_))
    }

    /// Puts the computed rows back to their places, nulls elsewhere.
    pub(super) fn scatter(
        self,
        output: Output,
        rows: usize,
    ) -> Result<Output, arrow::error::ArrowError> {
        let Selection::Some(mask) = self else {
            return Ok(output);
        };
        let places: Vec<usize> = mask.values().set_indices().collect();
        let mut indices: Vec<Option<u32>> = vec![None; rows];
        for (from, to) in places.iter().enumerate() {
            if let Some(index) = indices.get_mut(*to) {
                *index = u32::try_from(from).ok();
            }
        }
        let array = arrow::compute::take(&output.array, &UInt32Array::from(indices), None)?;
        let row_errors = output
            .row_errors
            .into_iter()
            .map(|e| RowError {
                row: places.get(e.row).copied().unwrap_or(e.row),
                ..e
            })
            .collect();
        Ok(Output {
            array,
            row_errors,
            failed: output.failed,
        })
    }
}
