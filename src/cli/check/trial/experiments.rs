//! Experiments whose answers are compared: pieces, repetition, nulls, constants, memory.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, UInt32Array};

use super::Trial;
use crate::cli::check::batches::{Batch, Batches};
use crate::cli::check::compare::{difference, part};
use crate::cli::check::report::Problem;
use crate::cli::check::shapes::{Shape, takes_nulls};
use crate::cli::check::values::{has_validity, pick, with_nulls};
use crate::{BindError, Call, Output, Rows, Volatility};

/// Constants that are tried beside columns, at most for so many parameters.
const MOST_CONSTANTS: usize = 8;
/// Calls between two looks at the memory.
const LEAK_CALLS: usize = 128;
/// Sizes that batches are cut into.
const PIECES: [usize; 3] = [1, 7, 64];

impl Trial<'_> {
    pub(super) fn values_under_nulls(&mut self, shape: &Shape, call: &Call, batches: &Batches) {
        let Some((one, other)) = batches.mixed.as_ref().filter(|_| self.is_steady()) else {
            return;
        };
        if let (Some(a), Some(b)) = (self.call(shape, call, one), self.call(shape, call, other))
            && let Some(text) = difference(&a, &b)
        {
            self.found_with(Problem::UnderNulls, text, shape, call, other);
        }
    }

    /// The same function bound to columns that are declared without nulls.
    pub(super) fn columns_without_nulls(&mut self, shape: &Shape, batch: &Batch) {
        let takes = |place: &usize| takes_nulls(self.function, *place);
        if !shape.column_places().iter().any(takes) {
            return;
        }
        match shape.bind(self.module, self.function, false) {
            Ok(call) => {
                let batch = batch.clone().named("columns without nulls");
                self.call(shape, &call, &batch);
            }
            Err(BindError::Refused { .. }) => {}
            Err(error) => self.found(Problem::Bind, error.to_string()),
        }
    }

    pub(super) fn twice_and_in_pieces(&mut self, shape: &Shape, call: &Call, batch: &Batch) {
        let (Some(whole), Some(again)) =
            (self.call(shape, call, batch), self.call(shape, call, batch))
        else {
            return;
        };
        if let Some(text) = difference(&whole, &again) {
            return self.found_with(Problem::Unsteady, text, shape, call, batch);
        }
        for size in PIECES {
            let text = self.in_pieces(batch, size, &whole, |trial, piece| {
                trial.call(shape, call, piece)
            });
            if let Some(text) = text {
                return self.found_with(Problem::BatchSize, text, shape, call, batch);
            }
        }
    }

    /// How the answers to pieces differ from the answer to the whole.
    pub(super) fn in_pieces(
        &mut self,
        batch: &Batch,
        size: usize,
        whole: &Output,
        mut answer: impl FnMut(&mut Self, &Batch) -> Option<Output>,
    ) -> Option<String> {
        if size >= batch.rows {
            return None;
        }
        for start in (0..batch.rows).step_by(size) {
            if self.over() {
                return None;
            }
            let piece = batch.slice(start, size);
            let found = answer(self, &piece)?;
            if let Some(text) = difference(&part(whole, start, piece.rows), &found) {
                return Some(format!(
                    "with all {} rows at once and with {size} at a time, from row {start} on: {text}",
                    batch.rows
                ));
            }
        }
        None
    }

    /// A sequence must not see where batches end: pieces in order answer as the whole does. Sequences
    /// that answer otherwise each time, as they may when they are volatile, are left alone.
    pub(super) fn sequence_in_pieces(&mut self, shape: &Shape, call: &Call, batch: &Batch) {
        let (Some(whole), Some(again)) = (
            self.call_afresh(shape, call, batch),
            self.call_afresh(shape, call, batch),
        ) else {
            return;
        };
        if let Some(text) = difference(&whole, &again) {
            if self.function.volatility != Volatility::Volatile {
                self.found_with(Problem::Unsteady, text, shape, call, batch);
            }
            return;
        }
        for size in PIECES {
            if self.over() {
                return;
            }
            let Ok(slot) = self.start() else { return };
            let before = self.slot.replace(slot);
            let text = self.in_pieces(batch, size, &whole, |trial, piece| {
                trial.call(shape, call, piece)
            });
            let used = std::mem::replace(&mut self.slot, before);
            if let Some(used) = used {
                self.close(used);
            }
            if let Some(text) = text {
                return self.found_with(Problem::BatchSize, text, shape, call, batch);
            }
        }
    }

    /// A call in a slot of its own.
    pub(super) fn call_afresh(
        &mut self,
        shape: &Shape,
        call: &Call,
        batch: &Batch,
    ) -> Option<Output> {
        if self.over() {
            return None;
        }
        let slot = self.start().ok()?;
        let before = self.slot.replace(slot);
        let output = self.call(shape, call, batch);
        let used = std::mem::replace(&mut self.slot, before);
        if let Some(used) = used {
            self.close(used);
        }
        output
    }

    /// Each parameter as a constant beside the others: an everyday value, an extreme one, a null.
    pub(super) fn constants(&mut self, shape: &Shape, batches: &Batches) {
        for (column, place) in shape
            .column_places()
            .into_iter()
            .enumerate()
            .take(MOST_CONSTANTS)
        {
            let value = |batch: &Batch, row: usize| -> Option<ArrayRef> {
                let values = batch.columns.get(column)?;
                (row < values.len()).then(|| values.slice(row, 1))
            };
            let everyday = value(&batches.everyday, 0);
            let null = everyday
                .as_ref()
                .filter(|v| takes_nulls(self.function, place) && has_validity(v.data_type()))
                .and_then(|v| with_nulls(v, vec![false]));
            let last = batches.extremes.rows.saturating_sub(1);
            for constant in [everyday, value(&batches.extremes, last), null]
                .into_iter()
                .flatten()
            {
                if self.over() {
                    return;
                }
                self.constant_like_column(shape, column, place, &constant, &batches.everyday);
            }
        }
    }

    pub(super) fn constant_like_column(
        &mut self,
        shape: &Shape,
        column: usize,
        place: usize,
        value: &ArrayRef,
        batch: &Batch,
    ) {
        let constant = shape.with_constant(place, Arc::clone(value));
        // Functions may refuse constants: a path that leads nowhere, a pattern that is none.
        let Ok(constant_call) = constant.bind(self.module, self.function, true) else {
            return;
        };
        let mut with_constant = batch.clone().named("a constant beside columns");
        with_constant.columns.remove(column);
        let one = self.call(&constant, &constant_call, &with_constant);
        if !self.is_steady() {
            return;
        }
        let Ok(call) = shape.bind(self.module, self.function, true) else {
            return;
        };
        let places = UInt32Array::from(vec![0; batch.rows]);
        let Ok(repeated) = pick(value, &places) else {
            return;
        };
        let mut as_column = batch.clone().named("a column of one value");
        if let Some(place) = as_column.columns.get_mut(column) {
            *place = repeated;
        }
        let other = self.call(shape, &call, &as_column);
        if let (Some(one), Some(other)) = (one, other)
            && let Some(text) = difference(&one, &other)
        {
            self.found_with(
                Problem::Constant,
                text,
                &constant,
                &constant_call,
                &with_constant,
            );
        }
    }

    /// Whether memory grows as long as calls go on.
    pub(super) fn look_for_leaks(&mut self, shape: &Shape) {
        if self.over() || !self.report.failures.is_empty() {
            return;
        }
        let (Ok(call), Ok(mut slot)) = (shape.bind(self.module, self.function, true), self.start())
        else {
            return;
        };
        let places = shape.column_places();
        let types: Vec<_> = places
            .iter()
            .filter_map(|place| shape.types.get(*place).cloned())
            .collect();
        let Ok(batches) = Batches::new(&types, &vec![false; types.len()]) else {
            return;
        };
        let rows = Rows::new(batches.everyday.columns, batches.everyday.rows);
        let end = Instant::now().checked_add(self.settings.policy.call_time);
        let mut sizes = Vec::new();
        'windows: for _ in 0..4 {
            for _ in 0..LEAK_CALLS {
                let late = end.is_some_and(|end| Instant::now() >= end);
                if late || slot.call(&call, &rows).is_err() {
                    break 'windows;
                }
            }
            sizes.push(slot.metrics().peak_memory_bytes);
        }
        if let [first, _, third, last] = sizes.as_slice()
            && first < third
            && third < last
        {
            let grown = last.saturating_sub(*first);
            self.report.warnings.push(format!(
                "memory grew by {} in {} calls of {} rows, and goes on growing: something is not given back",
                indicatif::BinaryBytes(grown),
                LEAK_CALLS.saturating_mul(3),
                rows.rows
            ));
        }
        self.close(slot);
    }
}
