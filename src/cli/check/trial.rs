//! One function under trial.

mod experiments;
mod findings;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::Array;
use serde_json::Value;

use super::batches::{Batch, Batches};
use super::report::{FunctionReport, Problem};
use super::reproduce::Commands;
use super::shapes::{Shape, shapes, takes_nulls};
use super::states;
use crate::{
    Budgets, Call, CallError, Function, LocalSlot, LogSink, Module, Output, Policy, Pool, Rows,
    StartError, Volatility,
};

/// Failures of one function that are told.
const MOST_FAILURES: usize = 8;

/// What is the same for all functions.
pub(super) struct Settings {
    pub(super) policy: Policy,
    /// From the command line.
    pub(super) init: Option<Value>,
    pub(super) commands: Commands,
    /// Where batches of failures are written.
    pub(super) save: Option<PathBuf>,
    /// Time for a function: what is not done by then is left out.
    pub(super) budget: Duration,
}

/// Tries a function.
pub(super) fn check(
    settings: &Settings,
    module: &Module,
    function: &Arc<Function>,
) -> FunctionReport {
    let begun = Instant::now();
    let mut trial = Trial {
        settings,
        module,
        function,
        report: FunctionReport::new(&function.name, function.signature()),
        init: Value::Null,
        slot: None,
        deadline: begun.checked_add(settings.budget),
        stopped: false,
        refusal: None,
        saw_value: false,
    };
    trial.run();
    let mut report = trial.report;
    report.seconds = begun.elapsed().as_secs_f64();
    report
}

struct Trial<'a> {
    settings: &'a Settings,
    module: &'a Module,
    function: &'a Arc<Function>,
    report: FunctionReport,
    init: Value,
    slot: Option<LocalSlot>,
    deadline: Option<Instant>,
    /// Whether to go no further.
    stopped: bool,
    /// What the guest said about the first call or row that it refused.
    refusal: Option<String>,
    /// Whether there was a result that is not null.
    saw_value: bool,
}

impl Trial<'_> {
    fn run(&mut self) {
        if let Some(state) = &self.function.state {
            match states::init_args(state, self.settings.init.as_ref()) {
                Ok(args) => self.init = args,
                Err(reason) => return self.report.skip(reason),
            }
        }
        let found = shapes(self.module, self.function);
        if let Some(error) = found.failed {
            return self.found(Problem::Bind, error.to_string());
        }
        let Some(first) = found.accepted.first().cloned() else {
            let said = found.refused.unwrap_or_default();
            return self
                .report
                .skip(format!("it takes none of the types that are tried: {said}"));
        };
        self.slot = match self.start() {
            Ok(slot) => Some(slot),
            Err(error) => return self.not_started(error),
        };
        for shape in &found.accepted {
            if self.over() {
                break;
            }
            self.try_shape(shape);
        }
        if let Some(slot) = self.slot.take() {
            self.close(slot);
        }
        self.look_for_leaks(&first);
        self.tell_what_was_not_seen();
    }

    fn start(&self) -> Result<LocalSlot, StartError> {
        let silent: LogSink = Arc::new(|_| {});
        let builder = Pool::builder(self.module)
            .name(&self.function.name)
            .policy(self.settings.policy.clone())
            .budgets(Budgets {
                // The time of the trial is bounded, and each failure is told.
                trap_restarts: u32::MAX,
                slot_restarts: u32::MAX,
                backoff: Duration::ZERO,
                ..Budgets::default()
            })
            .on_log(silent);
        match &self.function.state {
            Some(state) => builder.state(&state.name).init_args(self.init.clone()),
            None => builder,
        }
        .start_local()
    }

    fn not_started(&mut self, error: StartError) {
        self.stopped = true;
        match (&error, &self.function.state) {
            (StartError::Init { message, .. }, Some(state))
                if !self.uses_given_init() && states::may_need_arguments(state) =>
            {
                self.report.skip(format!(
                    "the state `{}` cannot be made without init arguments: {message}; give them with {}",
                    state.name,
                    states::example(&state.init_args)
                ));
            }
            _ => self.found(Problem::Init, error.to_string()),
        }
    }

    /// Whether the init arguments of the command line went to the state.
    fn uses_given_init(&self) -> bool {
        self.function.state.is_some() && self.settings.init.as_ref() == Some(&self.init)
    }

    fn close(&mut self, slot: LocalSlot) {
        if let Some(message) = states::close(slot) {
            self.found(Problem::Close, message);
        }
    }

    /// Whether the time is up, or nothing more is to be learnt.
    fn over(&mut self) -> bool {
        let late = self.deadline.is_some_and(|end| Instant::now() >= end);
        if late && !self.stopped {
            self.stopped = true;
            self.report.warnings.push(format!(
                "some batches were left out after {:.1?}; a higher --timeout gives more time",
                self.settings.budget
            ));
        }
        self.stopped || self.report.failures.len() >= MOST_FAILURES
    }

    fn try_shape(&mut self, shape: &Shape) {
        let call = match shape.bind(self.module, self.function, true) {
            Ok(call) => call,
            Err(error) => return self.found(Problem::Bind, error.to_string()),
        };
        let places = shape.column_places();
        let types: Vec<_> = places
            .iter()
            .filter_map(|place| shape.types.get(*place).cloned())
            .collect();
        let nulls: Vec<bool> = places
            .iter()
            .map(|place| takes_nulls(self.function, *place))
            .collect();
        let batches = match Batches::new(&types, &nulls) {
            Ok(batches) => batches,
            Err(reason) => {
                return self
                    .report
                    .warnings
                    .push(format!("({}) was left out: {reason}", shape.text()));
            }
        };
        self.plain_batches(shape, &call, &batches);
        self.values_under_nulls(shape, &call, &batches);
        self.columns_without_nulls(shape, &batches.everyday);
        let cut = match &batches.mixed {
            Some((mixed, _)) => mixed,
            None => &batches.extremes,
        };
        if self.function.is_sequence() {
            self.sequence_in_pieces(shape, &call, &batches.everyday);
            self.sequence_in_pieces(shape, &call, cut);
        } else if self.is_steady() {
            self.twice_and_in_pieces(shape, &call, &batches.everyday);
            self.twice_and_in_pieces(shape, &call, cut);
        }
        self.constants(shape, &batches);
    }

    /// Whether equal rows must get equal answers.
    fn is_steady(&self) -> bool {
        self.function.volatility == Volatility::Immutable && !self.function.is_sequence()
    }

    fn plain_batches(&mut self, shape: &Shape, call: &Call, batches: &Batches) {
        let everyday = &batches.everyday;
        let mut list = vec![
            everyday.clone(),
            everyday.slice(0, 0).named("no rows"),
            everyday.slice(1, 1).named("one row"),
            batches.extremes.clone(),
            batches
                .extremes
                .slice(3, 37)
                .named("a slice of extreme values"),
        ];
        if let Some(nulls) = &batches.all_null {
            list.push(nulls.clone());
            list.push(nulls.slice(0, 1).named("one row of nulls"));
        }
        if let Some((mixed, _)) = &batches.mixed {
            list.push(mixed.clone());
            list.push(mixed.slice(5, 21).named("a slice with nulls"));
        }
        list.push(batches.long.clone());
        for batch in &list {
            self.call(shape, call, batch);
        }
    }

    fn tell_what_was_not_seen(&mut self) {
        if self.saw_value || !self.report.failures.is_empty() {
            return;
        }
        if self.report.calls == 0 {
            let reasons = std::mem::take(&mut self.report.warnings).join("; ");
            return self.report.skip(reasons);
        }
        let said = match &self.refusal {
            Some(said) => format!("every row or call was refused, so no result was seen: {said}"),
            None => "no result was seen that is not null".to_owned(),
        };
        self.report.warnings.push(said);
    }

    /// One call; what is wrong with it is reported.
    fn call(&mut self, shape: &Shape, call: &Call, batch: &Batch) -> Option<Output> {
        if self.over() {
            return None;
        }
        let rows = Rows::new(batch.columns.clone(), batch.rows);
        let answer = self.slot.as_mut()?.call(call, &rows);
        self.report.calls = self.report.calls.saturating_add(1);
        self.report.rows = self.report.rows.saturating_add(batch.rows as u64);
        match answer {
            Ok(output) => {
                let failed = output.row_errors.len() as u64;
                self.report.row_errors = self.report.row_errors.saturating_add(failed);
                if let Some(error) = output.row_errors.first() {
                    self.refusal.get_or_insert_with(|| error.message.clone());
                }
                self.saw_value |= output.array.null_count() < output.array.len();
                Some(output)
            }
            Err(CallError { fault, .. }) => {
                self.faulted(*fault, shape, call, batch);
                None
            }
        }
    }
}
