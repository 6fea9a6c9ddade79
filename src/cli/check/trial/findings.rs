//! What a trial finds: told once, with the smallest batch that shows it.

use std::sync::Arc;
use std::time::Instant;

use super::Trial;
use crate::cli::check::batches::Batch;
use crate::cli::check::report::{Found, FoundIn, Problem};
use crate::cli::check::reproduce::{Needs, row_values, save};
use crate::cli::check::shapes::Shape;
use crate::{Call, Fault, Rows};

impl Trial<'_> {
    pub(super) fn faulted(&mut self, fault: Fault, shape: &Shape, call: &Call, batch: &Batch) {
        let problem = match &fault {
            Fault::Guest { message } => {
                self.report.refused_calls = self.report.refused_calls.saturating_add(1);
                self.refusal.get_or_insert_with(|| message.clone());
                return;
            }
            Fault::Restart(_) => {
                self.stopped = true;
                return self.found(Problem::Init, fault.to_string());
            }
            Fault::Time { .. } => {
                // Each further call might take as long.
                self.found_with(Problem::Limit, fault.to_string(), shape, call, batch);
                self.stopped = true;
                return;
            }
            other => problem_of(other),
        };
        let smallest = self.smallest(call, batch, problem);
        let (batch, message) = match smallest {
            Some((batch, fault)) => (batch, fault.to_string()),
            None => (batch.clone(), fault.to_string()),
        };
        self.found_with(problem, message, shape, call, &batch);
    }

    /// The fewest rows of a batch that show a problem, and how they show it.
    pub(super) fn smallest(
        &mut self,
        call: &Call,
        batch: &Batch,
        problem: Problem,
    ) -> Option<(Batch, Fault)> {
        let mut best: Option<(Batch, Fault)> = None;
        loop {
            let from = best.as_ref().map_or(batch, |(b, _)| b);
            let half = from.rows / 2;
            if half == 0 || self.deadline.is_some_and(|end| Instant::now() >= end) {
                return best;
            }
            let halves = [
                from.slice(0, half),
                from.slice(half, from.rows.saturating_sub(half)),
            ];
            let mut found = None;
            for part in halves {
                let rows = Rows::new(part.columns.clone(), part.rows);
                if let Err(error) = self.slot.as_mut()?.call(call, &rows)
                    && problem_of(&error.fault) == problem
                {
                    found = Some((part, *error.fault));
                    break;
                }
            }
            match found {
                Some(smaller) => best = Some(smaller),
                None => return best,
            }
        }
    }

    pub(super) fn found(&mut self, problem: Problem, message: String) {
        if self.is_known(problem, &message) {
            return;
        }
        self.report.fail(Found {
            problem,
            message,
            batch: None,
            reproduce: None,
        });
    }

    pub(super) fn found_with(
        &mut self,
        problem: Problem,
        message: String,
        shape: &Shape,
        call: &Call,
        batch: &Batch,
    ) {
        if self.is_known(problem, &message) {
            return;
        }
        let values = match batch.rows {
            1 => row_values(self.function, shape, batch),
            _ => Vec::new(),
        };
        let reproduce = self.command(problem, shape, call, batch);
        self.report.fail(Found {
            problem,
            message,
            batch: Some(FoundIn {
                name: batch.name.to_owned(),
                rows: batch.rows,
                types: shape.text(),
                values,
            }),
            reproduce,
        });
    }

    /// Whether the same was found before; numbers may differ.
    pub(super) fn is_known(&self, problem: Problem, message: &str) -> bool {
        let gist = |text: &str| -> String {
            let line = text.lines().next().unwrap_or_default();
            line.chars().filter(|c| !c.is_ascii_digit()).collect()
        };
        let one_is_enough = matches!(
            problem,
            Problem::Unsteady | Problem::BatchSize | Problem::UnderNulls | Problem::Constant
        );
        self.report.failures.iter().any(|known| {
            known.problem == problem && (one_is_enough || gist(&known.message) == gist(message))
        })
    }

    /// A command that shows a problem again, where there is one.
    pub(super) fn command(
        &mut self,
        problem: Problem,
        shape: &Shape,
        call: &Call,
        batch: &Batch,
    ) -> Option<String> {
        let commands = &self.settings.commands;
        let needs = Needs {
            init: self.uses_given_init(),
            limits: problem == Problem::Limit,
        };
        let overloads = self
            .module
            .manifest()
            .overloads(&call.function().name)
            .count();
        if let Some(command) = commands.of_row(self.function, overloads, shape, batch, needs) {
            return Some(command);
        }
        let folder = self.settings.save.as_ref()?;
        let number = self.report.failures.len();
        let overload = self
            .module
            .manifest()
            .functions()
            .iter()
            .position(|f| Arc::ptr_eq(f, self.function))
            .unwrap_or(0);
        let file = folder.join(format!("{}-{overload}-{number}.arrow", self.function.name));
        if let Err(reason) = save(self.function, shape, batch, &file) {
            self.report.warnings.push(reason);
            return None;
        }
        let command = commands.of_file(self.function, shape, &file, batch.rows, needs)?;
        Some(match problem {
            Problem::BatchSize => format!("{command}, and again with another --batch-size"),
            _ => command,
        })
    }
}

fn problem_of(fault: &Fault) -> Problem {
    match fault {
        Fault::Trap { .. } | Fault::Exit { .. } => Problem::Trap,
        Fault::Contract(_) => Problem::Contract,
        Fault::Time { .. }
        | Fault::Memory { .. }
        | Fault::Table { .. }
        | Fault::RowTooLarge { .. }
        | Fault::OutputTooLarge { .. } => Problem::Limit,
        Fault::Restart(_) => Problem::Init,
        _ => Problem::Host,
    }
}
