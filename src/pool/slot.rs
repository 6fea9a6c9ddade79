//! One slot: an instance with its state, and how a batch goes through it.

mod answer;
mod init;
mod prepared;
mod visit;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

pub(super) use self::answer::check_null_size;
use self::answer::were_given;
use self::init::init;
use self::prepared::{Prepared, place_dictionaries, spread_bytes};
use super::budget::Budgets;
use super::metrics::{Counters, add, add_time, raise};
use crate::abi::{Arena, RowErrors, Shelf, Source, Written, frame};
use crate::call::{Bound, Call};
use crate::error::{Fault, Place, StartError};
use crate::ledger::SlotResources;
use crate::module::{Module, NullHandling, State};
use crate::sandbox::{Cancel, Guest, LogSink, NoGuest, Policy, SlotName};

/// What every slot of a pool is made from.
pub(crate) struct Recipe {
    pub(crate) module: Module,
    pub(crate) pool: String,
    /// The run that starts it.
    pub(crate) run: String,
    pub(crate) policy: Policy,
    pub(crate) resources: SlotResources,
    pub(crate) budgets: Budgets,
    pub(crate) state: Option<Arc<State>>,
    /// Init arguments as JSON, checked and with defaults.
    pub(crate) init_args: String,
    pub(crate) args_digest: String,
    pub(crate) log: LogSink,
}

/// An instance that has been initialised and has not failed.
pub(crate) struct Slot {
    recipe: Arc<Recipe>,
    guest: Guest,
    /// What `init` answered; 0 without a state.
    state: u32,
    arena: Arena,
    shelf: Arc<Shelf>,
    row_errors: RowErrors,
    prepared: Vec<Prepared>,
    /// Calls so far.
    served: u64,
}

/// What a call gave.
#[derive(Debug, Clone)]
pub struct Output {
    /// One element per row: null where the mask is false or the row failed.
    pub array: ArrayRef,
    /// The rows that failed, in order.
    pub row_errors: Vec<RowError>,
    /// The function whose rows failed, where it computed an argument of the call.
    pub(crate) failed: Option<Arc<str>>,
}

/// A row that the guest could not compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// The row within its batch.
    pub row: usize,
    /// The guest's own number.
    pub code: i32,
    /// What it says.
    pub message: String,
}

/// A call's arguments are spread out over so much of a guest's memory at most: results and the guest's
/// own work need the rest.
const ARGUMENT_SHARE: u64 = 8;

/// Computes a range of rows; `None` where they are too many for the guest's memory.
type Piece<'p> = &'p mut dyn FnMut(&mut Slot, Range<usize>) -> Result<Option<Output>, Fault>;

impl Slot {
    /// Starts a slot: makes an instance and runs `init`.
    pub(crate) fn start(
        recipe: &Arc<Recipe>,
        number: usize,
        counters: &Counters,
        place: &Place,
        cancel: &Cancel,
    ) -> Result<Self, StartError> {
        let begun = Instant::now();
        let result = Self::start_inner(recipe, number, counters, place, cancel);
        add_time(&counters.init, begun.elapsed());
        result
    }

    fn start_inner(
        recipe: &Arc<Recipe>,
        number: usize,
        counters: &Counters,
        place: &Place,
        cancel: &Cancel,
    ) -> Result<Self, StartError> {
        let place = || Box::new(place.clone());
        let failed = |fault| StartError::Slot {
            place: place(),
            fault: Box::new(fault),
        };
        add(&counters.starts, 1);
        let begun = Instant::now();
        let mut guest = Guest::new(
            &recipe.module,
            &recipe.policy,
            &recipe.log,
            SlotName {
                run: &recipe.run,
                pool: &recipe.pool,
                slot: number,
            },
            cancel,
        )
        .map_err(|e| match e {
            NoGuest::Grant(e) => StartError::Grant {
                place: place(),
                reason: e.to_string(),
            },
            NoGuest::Fault(fault) => failed(fault),
        })?;
        let mut arena = Arena::default();
        let mut state = 0;
        if let Some(declared) = &recipe.state {
            let limit = recipe.policy.init_time;
            // The start function and `_initialize` have used some of it already.
            let left = limit.saturating_sub(begun.elapsed());
            add(&counters.inits, 1);
            state = match init(&mut guest, &mut arena, declared, &recipe.init_args, left) {
                Ok(state) => state,
                Err(Fault::Guest { message }) => {
                    return Err(StartError::Init {
                        place: place(),
                        message,
                        args_digest: recipe.args_digest.clone(),
                    });
                }
                Err(Fault::Time { .. }) => {
                    return Err(failed(Fault::Time {
                        entry: "init",
                        limit,
                    }));
                }
                Err(fault) => return Err(failed(fault)),
            };
        }
        let row_errors = RowErrors::new().map_err(|reason| failed(Fault::Arguments { reason }))?;
        raise(&counters.peak_memory, guest.peak_memory());
        Ok(Slot {
            recipe: Arc::clone(recipe),
            guest,
            state,
            arena,
            shelf: Arc::new(Shelf::default()),
            row_errors,
            prepared: Vec::new(),
            served: 0,
        })
    }

    /// Runs `close`, where there is one, also when the run was cancelled.
    pub(crate) fn close(mut self, counters: &Counters) -> Result<(), Fault> {
        let Some(symbol) = self.recipe.state.as_ref().and_then(|s| s.close.clone()) else {
            return Ok(());
        };
        let (begun, limit) = (Instant::now(), self.recipe.policy.close_time);
        add(&counters.closes, 1);
        let closed = self.guest.function::<u32, ()>(&symbol).and_then(|close| {
            self.guest.listen(&Cancel::default());
            self.guest.begin(begun, limit);
            self.guest.enter("close", limit, &close, self.state)
        });
        add_time(&counters.close, begun.elapsed());
        closed
    }

    /// Computes `rows` rows. Columns are those of the arguments that are not constant.
    pub(crate) fn call(
        &mut self,
        call: &Call,
        columns: &[ArrayRef],
        rows: usize,
        counters: &Counters,
        cancel: &Cancel,
    ) -> Result<Output, Fault> {
        let bound = &*call.0;
        self.guest.listen(cancel);
        // One limit for all that the batch takes: `bind`, and every part where it has to be split.
        let begun = Instant::now();
        let deadline = begun.checked_add(self.recipe.policy.call_time);
        let result = match bound.inner.is_empty() {
            true => self.plain(&call.0, columns, rows, deadline, counters),
            false => self.visit(call, columns, rows, deadline, counters),
        };
        raise(&counters.peak_memory, self.guest.peak_memory());
        if result.as_ref().is_err_and(Fault::spares_the_slot) {
            self.guest.abandon();
            // What it was about to answer would fill its memory otherwise.
            self.guest.reset(self.recipe.policy.call_time)?;
        }
        result
    }

    /// Computes a call whose arguments are columns and constants.
    fn plain(
        &mut self,
        bound: &Arc<Bound>,
        columns: &[ArrayRef],
        rows: usize,
        deadline: Option<Instant>,
        counters: &Counters,
    ) -> Result<Output, Fault> {
        let at = self.prepare(bound)?;
        let mask = propagated_nulls(bound, columns, rows);
        let mut rest = columns.iter();
        let mut arguments = Vec::with_capacity(bound.arguments.len());
        for argument in &bound.arguments {
            arguments.push(match &argument.constant {
                Some(constant) => Source::Data(constant.to_data()),
                None => Source::new(rest.next().ok_or_else(|| Fault::Arguments {
                    reason: "a column is missing".to_owned(),
                })?),
            });
        }
        self.halves(0..rows, counters, &mut |slot, rows| {
            slot.piece(
                bound,
                at,
                &arguments,
                rows,
                mask.as_ref(),
                deadline,
                counters,
            )
        })
    }

    /// Computes a range of rows, in halves where the guest's memory is too small for all at once.
    fn halves(
        &mut self,
        rows: Range<usize>,
        counters: &Counters,
        piece: Piece<'_>,
    ) -> Result<Output, Fault> {
        if let Some(output) = piece(self, rows.clone())? {
            return Ok(output);
        }
        add(&counters.splits, 1);
        let middle = rows.start.midpoint(rows.end);
        let first = self.halves(rows.start..middle, counters, piece)?;
        let second = self.halves(middle..rows.end, counters, piece)?;
        let array = arrow::compute::concat(&[&first.array, &second.array]).map_err(|e| {
            Fault::Arguments {
                reason: format!("the parts of a split batch cannot be joined: {e}"),
            }
        })?;
        let shift = middle.saturating_sub(rows.start);
        let mut row_errors = first.row_errors;
        row_errors.extend(second.row_errors.into_iter().map(|e| RowError {
            row: e.row.saturating_add(shift),
            ..e
        }));
        let failed = first.failed.or(second.failed);
        Ok(Output {
            array,
            row_errors,
            failed,
        })
    }

    /// Arms the deadline for one entry of a batch.
    fn begin(&mut self, deadline: Option<Instant>) -> Result<Instant, Fault> {
        let limit = self.recipe.policy.call_time;
        let begun = Instant::now();
        let left = deadline.map_or(limit, |end| end.saturating_duration_since(begun));
        if left.is_zero() {
            return Err(Fault::Time {
                entry: "the call",
                limit,
            });
        }
        self.guest.begin(begun, left);
        Ok(begun)
    }

    /// The most bytes that arguments for so many rows may take.
    fn most_argument_bytes(&self, rows: usize) -> u64 {
        // A single row may take all there is.
        match rows {
            0 | 1 => self.guest.memory_limit(),
            _ => self.guest.memory_limit() / ARGUMENT_SHARE,
        }
    }

    /// One entry into the guest; `None` when the rows are too many for its memory.
    #[allow(clippy::too_many_arguments, reason = "the parts of one call")]
    fn piece(
        &mut self,
        bound: &Bound,
        at: usize,
        arguments: &[Source],
        rows: Range<usize>,
        mask: Option<&NullBuffer>,
        deadline: Option<Instant>,
        counters: &Counters,
    ) -> Result<Option<Output>, Fault> {
        let limit = self.recipe.policy.call_time;
        let begun = self.begin(deadline)?;
        let count = rows.len();
        let constants = bound.function.constants;
        let most = self.most_argument_bytes(count);
        let prepared = self.prepared.get_mut(at).ok_or(Fault::Closed)?;
        if !constants {
            let bytes = spread_bytes(bound, arguments, count);
            if bytes > self.guest.memory_limit() {
                if count > 1 {
                    return Ok(None);
                }
                return Err(Fault::RowTooLarge {
                    bytes,
                    limit: self.guest.memory_limit(),
                });
            }
            prepared.expand(bound, arguments, count)?;
        }
        place_dictionaries(&mut self.guest, prepared, bound, arguments, limit)?;
        let dictionaries_at: Vec<u32> = prepared.dictionaries.iter().map(|d| d.address).collect();
        let (binding, state) = (prepared.binding, self.state);
        let expanded = &prepared.expanded;
        let written = self.arena.write(&mut self.guest, limit, most, |w| {
            let (table, places) = w.call(binding, state, count, arguments.len())?;
            let mut dictionaries = dictionaries_at.iter();
            for (i, ((layout, data), argument)) in bound
                .layouts
                .iter()
                .zip(arguments)
                .zip(&bound.arguments)
                .enumerate()
            {
                let constant = argument.constant.is_some();
                let (array, flags) = match (
                    constant,
                    constants,
                    expanded.get(i).and_then(Option::as_ref),
                ) {
                    (true, true, _) => (
                        w.source(layout, data, 0, 1, &mut dictionaries)?,
                        frame::ARGUMENT_CONSTANT,
                    ),
                    (true, false, Some(expanded)) => {
                        (w.array(layout, expanded, 0, count, &mut dictionaries)?, 0)
                    }
                    _ => (
                        w.source(layout, data, rows.start, count, &mut dictionaries)?,
                        0,
                    ),
                };
                w.put_argument(table, i, array, flags);
            }
            Ok(places)
        })?;
        let (places, bytes) = match written {
            Written::Done { result, bytes } => (result, bytes),
            Written::TooLarge { .. } if count > 1 => return Ok(None),
            Written::TooLarge { bytes } => {
                return Err(Fault::RowTooLarge {
                    bytes: bytes as u64,
                    limit: self.guest.memory_limit(),
                });
            }
        };
        let copied_in = Instant::now();
        let function = &self.prepared.get(at).ok_or(Fault::Closed)?.function;
        let entered = self.guest.enter("the call", limit, function, places.frame);
        let ran = Instant::now();
        add_time(&counters.guest, ran.duration_since(copied_in));
        let status = entered?;
        let mask = mask.map(|mask| mask.slice(rows.start, count));
        let given = |data_type: &DataType| were_given(bound, arguments, data_type);
        let (output, copied) = self.answer(bound, status, &places, count, mask.as_ref(), &given)?;
        self.guest.reset(limit)?;
        let done = Instant::now();
        add(&counters.calls, 1);
        add(&counters.rows, count as u64);
        if !output.row_errors.is_empty() {
            add(&counters.failed_rows, output.row_errors.len() as u64);
        }
        add(&counters.bytes_in, bytes as u64);
        add(&counters.bytes_out, copied);
        add_time(&counters.copy_in, copied_in.duration_since(begun));
        add_time(&counters.copy_out, done.duration_since(ran));
        Ok(Some(output))
    }
}

/// Where an argument is null and nulls propagate.
fn propagated_nulls(bound: &Bound, columns: &[ArrayRef], rows: usize) -> Option<NullBuffer> {
    if bound.function.nulls != NullHandling::Propagate {
        return None;
    }
    let mut nulls: Option<NullBuffer> = None;
    if bound
        .arguments
        .iter()
        .filter_map(|a| a.constant.as_ref())
        .any(|c| c.logical_null_count() > 0)
    {
        nulls = Some(NullBuffer::new_null(rows));
    }
    for column in columns {
        // Only few types have nulls that are not in their own validity.
        let own = match column.data_type() {
            t if t.is_primitive() => column.nulls().cloned(),
            _ => column.logical_nulls(),
        };
        if own.is_some() {
            nulls = NullBuffer::union(nulls.as_ref(), own.as_ref());
        }
    }
    nulls.filter(|n| n.null_count() > 0)
}
