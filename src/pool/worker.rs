//! Whoever works with one slot: starts it, calls it, starts it again within the budgets, closes it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::new_null_array;

use super::budget::budget_after;
use super::check::{check, check_nulls};
use super::core::{Core, RunTag};
use super::metrics::{Counters, add};
use super::selection::Selection;
use super::slot::{self, Slot};
use super::watch::Watch;
use super::{Output, Rows};
use crate::call::Call;
use crate::error::{Budget, CallError, Fault, Place, StartError};
use crate::module::StateKind;

/// One slot and what became of it. Its owner is the only one who ever enters the slot.
pub(super) struct Worker {
    core: Arc<Core>,
    number: usize,
    cell: Cell,
    /// Losses in a row.
    failures: u32,
}

/// What stands at a slot's place.
enum Cell {
    /// Nothing was started yet.
    Vacant,
    /// A slot that may be called.
    Ready(Box<Slot>),
    /// The slot failed, and why; a restart comes from this budget.
    Lost { cause: Arc<Fault>, budget: Budget },
}

impl Worker {
    pub(super) fn new(core: Arc<Core>, number: usize) -> Self {
        Worker {
            core,
            number,
            cell: Cell::Vacant,
            failures: 0,
        }
    }

    fn counters(&self) -> &Counters {
        &self.core.place(self.number).counters
    }

    fn watch(&self) -> &Watch {
        &self.core.place(self.number).watch
    }

    /// Starts the slot, `init` included.
    pub(super) fn start(&mut self, tag: &RunTag) -> Result<(), StartError> {
        let slot = self.new_slot(tag)?;
        self.cell = Cell::Ready(Box::new(slot));
        Ok(())
    }

    /// A new slot, within the budget for attempts.
    fn new_slot(&self, tag: &RunTag) -> Result<Slot, StartError> {
        let recipe = &self.core.recipe;
        let place = self.core.about(tag, Some(self.number));
        let mut attempts = 1_u32;
        loop {
            self.watch().expect(recipe.policy.init_time);
            let started = host_safe(|| {
                Slot::start(recipe, self.number, self.counters(), &place, &tag.cancel)
            });
            let error = match started {
                Ok(Ok(slot)) => return Ok(slot),
                Ok(Err(error)) => error,
                Err(message) => StartError::Slot {
                    place: Box::new(place.clone()),
                    fault: Box::new(Fault::Host { message }),
                },
            };
            let may_pass = matches!(error, StartError::Init { .. } | StartError::Slot { .. });
            if !may_pass || attempts > recipe.budgets.init_retries {
                return Err(match attempts {
                    1 => error,
                    _ => StartError::GaveUp {
                        attempts,
                        last: Box::new(error),
                    },
                });
            }
            attempts = attempts.saturating_add(1);
            tracing::warn!(run = %tag, pool = recipe.pool, slot = self.number, attempts, "starting the slot again: {error}");
            let pause = recipe.budgets.pause(attempts);
            self.watch().expect(pause);
            if tag.cancel.wait(pause) {
                return Err(error);
            }
            add(&self.counters().init_retries, 1);
        }
    }

    /// Computes rows, whatever happens.
    pub(super) fn serve(
        &mut self,
        call: &Call,
        rows: &Rows,
        tag: &RunTag,
    ) -> Result<Output, CallError> {
        let mut retries = 0;
        if tag.cancel.is_cancelled() {
            return Err(self.failed(call, rows, tag, Fault::Cancelled));
        }
        // It came out of the queue when its run was ending.
        if tag.is_over() {
            return Err(self.failed(call, rows, tag, Fault::Closed));
        }
        loop {
            let fault = match host_safe(|| self.attempt(call, rows, tag)) {
                Ok(Ok(output)) => {
                    self.failures = 0;
                    return Ok(output);
                }
                Ok(Err(Fault::Start(_) | Fault::Restart(_))) if tag.cancel.is_cancelled() => {
                    Fault::Cancelled
                }
                Ok(Err(fault)) => fault,
                // Whatever state the slot was in when the host's own code failed, it is not trusted.
                Err(message) => Fault::Host { message },
            };
            if matches!(self.cell, Cell::Ready(_)) && !fault.spares_the_slot() {
                self.lose(&fault);
            }
            let most = match self.core.is_sequence() {
                true => 0,
                false => self.core.recipe.budgets.call_retries,
            };
            let over = tag.cancel.is_cancelled() || self.watch().is_lost();
            if most == 0 || matches!(self.cell, Cell::Ready(_)) || over {
                return Err(self.failed(call, rows, tag, fault));
            }
            if let Some(end) = self.end() {
                return Err(self.failed(call, rows, tag, end));
            }
            if retries == most {
                let fault = Fault::GaveUp {
                    budget: Budget::CallRetries,
                    limit: most,
                    cause: Arc::new(fault),
                };
                return Err(self.failed(call, rows, tag, fault));
            }
            retries = retries.saturating_add(1);
            add(&self.counters().call_retries, 1);
        }
    }

    fn failed(&self, call: &Call, rows: &Rows, tag: &RunTag, fault: Fault) -> CallError {
        let place = Place {
            udf: call.function().name.clone(),
            partition: rows.partition,
            rows: Some(rows.first_row..rows.first_row.saturating_add(rows.rows as u64)),
            ..self.core.about(tag, Some(self.number))
        };
        CallError {
            place: Box::new(place),
            fault: Box::new(fault),
        }
    }

    /// Drops the instance: its memory is freed, and it is never entered again, `close` included.
    fn lose(&mut self, fault: &Fault) {
        self.failures = self.failures.saturating_add(1);
        self.cell = Cell::Lost {
            cause: Arc::new(fault.clone()),
            budget: budget_after(fault),
        };
    }

    fn attempt(&mut self, call: &Call, rows: &Rows, tag: &RunTag) -> Result<Output, Fault> {
        let core = Arc::clone(&self.core);
        let most = core.recipe.policy.output_bytes;
        check(&core.recipe, call, rows).map_err(|reason| Fault::Arguments { reason })?;
        let Some(selection) = Selection::new(rows) else {
            slot::check_null_size(&call.0, rows.rows, most)?;
            let array = new_null_array(call.result().data_type(), rows.rows);
            return Ok(Output {
                array,
                row_errors: Vec::new(),
                failed: None,
            });
        };
        let arguments = |e: arrow::error::ArrowError| Fault::Arguments {
            reason: e.to_string(),
        };
        let columns = selection.columns(rows).map_err(arguments)?;
        check_nulls(call, &columns).map_err(|reason| Fault::Arguments { reason })?;
        self.ready(tag)?;
        self.watch().expect(core.recipe.policy.call_time);
        let Cell::Ready(slot) = &mut self.cell else {
            return Err(Fault::Closed);
        };
        let counters = &core.place(self.number).counters;
        let output = slot.call(call, &columns, selection.len(rows), counters, &tag.cancel)?;
        if selection.leaves_rows_out() {
            slot::check_null_size(&call.0, rows.rows, most)?;
        }
        selection.scatter(output, rows.rows).map_err(arguments)
    }

    /// Sees to it that there is a slot.
    fn ready(&mut self, tag: &RunTag) -> Result<(), Fault> {
        match &self.cell {
            Cell::Ready(_) => return Ok(()),
            Cell::Vacant => {
                let started = self.start(tag).map_err(|e| Fault::Start(Box::new(e)));
                return started.inspect_err(|fault| self.lose(fault));
            }
            Cell::Lost { .. } => {}
        }
        if let Some(end) = self.end() {
            return Err(end);
        }
        let Cell::Lost { budget, .. } = self.cell else {
            return Ok(());
        };
        if !self
            .core
            .spent
            .take(budget, self.core.recipe.budgets.of(budget))
        {
            return self.ready(tag);
        }
        let pause = self.core.recipe.budgets.pause(self.failures);
        self.watch().expect(pause);
        if tag.cancel.wait(pause) {
            return Err(Fault::Cancelled);
        }
        add(&self.counters().restarts, 1);
        let started = self.start(tag).map_err(|e| Fault::Restart(Box::new(e)));
        started.inspect_err(|fault| self.lose(fault))
    }

    /// Why there will be no slot any more, when that is so.
    pub(super) fn end(&self) -> Option<Fault> {
        let Cell::Lost { cause, budget } = &self.cell else {
            return None;
        };
        if self.core.is_sequence() {
            return Some(Fault::StateLost {
                cause: Arc::clone(cause),
            });
        }
        let limit = self.core.recipe.budgets.of(*budget);
        self.core
            .spent
            .is_over(*budget, limit)
            .then(|| Fault::GaveUp {
                budget: *budget,
                limit,
                cause: Arc::clone(cause),
            })
    }

    /// Runs `close` where there is a slot that has not failed.
    pub(super) fn close(&mut self) -> Result<(), Fault> {
        let Cell::Ready(slot) = std::mem::replace(&mut self.cell, Cell::Vacant) else {
            return Ok(());
        };
        self.watch().expect(self.core.recipe.policy.close_time);
        let counters = &self.core.place(self.number).counters;
        host_safe(|| slot.close(counters)).unwrap_or_else(|message| Err(Fault::Host { message }))
    }
}

impl Core {
    /// Whether its state is a sequence.
    pub(super) fn is_sequence(&self) -> bool {
        let state = self.recipe.state.as_ref();
        state.is_some_and(|state| state.kind == StateKind::Sequence)
    }
}

/// Runs code of the host that touched guest data, so that no panic crosses a thread.
pub(super) fn host_safe<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        payload
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without text".to_owned())
    })
}
