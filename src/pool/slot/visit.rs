//! Calls whose arguments other calls compute in the same visit to the slot.
//!
//! What the inner calls give stays in guest memory: it is never copied out, and goes to the outer call by
//! address. The host reads only where it is null, because nulls propagate by the host's word. Where that is
//! not possible (dictionaries, views, constants that a function does not understand), the calls are made
//! one after the other, still in one visit.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::super::metrics::{Counters, add, add_time};
use super::answer::holds_wild_values;
use super::{Output, RowError, Slot};
use crate::abi::{CallPlaces, Reader, Source, Written, frame};
use crate::call::{Bound, Call};
use crate::error::Fault;
use crate::module::NullHandling;
use crate::pool::check::check_own_nulls;

/// One call of a visit.
struct Step<'c> {
    bound: &'c Arc<Bound>,
    /// Where it stands among those that the slot has prepared.
    prepared: usize,
    inputs: Vec<Input>,
}

/// Where an argument of a step comes from.
enum Input {
    Column(usize),
    Constant(Source),
    Step(usize),
}

/// Where a step's structs lie in guest memory.
struct StepPlace {
    call: CallPlaces,
    /// What later steps get: a copy of the result's struct, with its nulls.
    shown: u32,
    buffers: u32,
    validity: u32,
}

/// What came of entering the guest for all steps.
enum Visited {
    Done(Output),
    /// The rows are too many for the guest's memory.
    TooLarge,
    /// A result lies so that it cannot be passed on as it is.
    NotPassable,
}

impl Slot {
    /// Computes a call and the calls that its arguments are, for `rows` rows.
    pub(super) fn visit(
        &mut self,
        call: &Call,
        columns: &[ArrayRef],
        rows: usize,
        deadline: Option<Instant>,
        counters: &Counters,
    ) -> Result<Output, Fault> {
        let mut steps = Vec::new();
        let mut next = 0;
        let passable = self.steps(&call.0, &mut next, &mut steps)?;
        // Preparing one may have moved another: by now the slot knows them all.
        for step in &mut steps {
            step.prepared = self.prepare(step.bound)?;
        }
        if !passable {
            return self.apart(call, &mut columns.iter(), rows, deadline, counters);
        }
        let sources: Vec<Source> = columns.iter().map(Source::new).collect();
        let nulls: Vec<Option<NullBuffer>> = columns.iter().map(|c| c.logical_nulls()).collect();
        let mut apart = false;
        let output = self.halves(0..rows, counters, &mut |slot, rows| {
            let visited =
                slot.pass_through(&steps, &sources, &nulls, rows.clone(), deadline, counters)?;
            Ok(match visited {
                Visited::Done(output) => Some(output),
                Visited::TooLarge => None,
                Visited::NotPassable => {
                    apart = true;
                    Some(failed_rows(&call.0, rows.len(), Vec::new(), None))
                }
            })
        })?;
        match apart {
            true => self.apart(call, &mut columns.iter(), rows, deadline, counters),
            false => Ok(output),
        }
    }

    /// Lists the calls, inner ones first; whether results can be passed on in guest memory.
    fn steps<'c>(
        &mut self,
        bound: &'c Arc<Bound>,
        column: &mut usize,
        steps: &mut Vec<Step<'c>>,
    ) -> Result<bool, Fault> {
        let understands = bound.function.constants;
        let mut passable = true;
        let mut inputs = Vec::with_capacity(bound.arguments.len());
        for (at, (argument, layout)) in bound.arguments.iter().zip(&bound.layouts).enumerate() {
            passable &= !layout.has_dictionary;
            let inner = bound.inner.get(at).and_then(Option::as_ref);
            inputs.push(match (inner, &argument.constant) {
                (Some(inner), _) => {
                    passable &= self.steps(&inner.0, column, steps)?;
                    let result = &inner.0.result_layout;
                    passable &= result.has_validity()
                        && !result.has_dictionary
                        && !is_view(&result.data_type)
                        && result.data_type == layout.data_type;
                    Input::Step(steps.len().saturating_sub(1))
                }
                (None, Some(constant)) => {
                    passable &= understands;
                    Input::Constant(Source::Data(arrow::array::Array::to_data(constant)))
                }
                (None, None) => {
                    let own = *column;
                    *column = column.saturating_add(1);
                    Input::Column(own)
                }
            });
        }
        self.prepare(bound)?;
        steps.push(Step {
            bound,
            prepared: 0,
            inputs,
        });
        Ok(passable)
    }

    /// Makes the calls one after the other, each result copied out and in.
    fn apart(
        &mut self,
        call: &Call,
        columns: &mut std::slice::Iter<'_, ArrayRef>,
        rows: usize,
        deadline: Option<Instant>,
        counters: &Counters,
    ) -> Result<Output, Fault> {
        let bound = &*call.0;
        let mut own = Vec::with_capacity(bound.arguments.len());
        let mut failed: Option<Output> = None;
        for (at, argument) in bound.arguments.iter().enumerate() {
            match bound.inner.get(at).and_then(Option::as_ref) {
                // Its columns are taken also where nothing is computed any more.
                Some(inner) => {
                    let output = self.apart(inner, columns, rows, deadline, counters)?;
                    if failed.is_none() && !output.row_errors.is_empty() {
                        let name = output.failed.clone();
                        let name =
                            name.unwrap_or_else(|| Arc::from(inner.function().name.as_str()));
                        failed = Some(failed_rows(bound, rows, output.row_errors, Some(name)));
                    } else {
                        own.push(output.array);
                    }
                }
                None if argument.constant.is_some() => {}
                None => own.push(Arc::clone(columns.next().ok_or_else(missing)?)),
            }
        }
        if let Some(failed) = failed {
            return Ok(failed);
        }
        check_own_nulls(call, &own).map_err(|reason| Fault::Arguments { reason })?;
        self.plain(&call.0, &own, rows, deadline, counters)
    }

    /// Enters the guest for each step, over some rows.
    fn pass_through(
        &mut self,
        steps: &[Step<'_>],
        sources: &[Source],
        nulls: &[Option<NullBuffer>],
        rows: Range<usize>,
        deadline: Option<Instant>,
        counters: &Counters,
    ) -> Result<Visited, Fault> {
        let limit = self.recipe.policy.call_time;
        let begun = self.begin(deadline)?;
        let count = rows.len();
        let written = self.write_steps(steps, sources, &rows, limit)?;
        let (places, bytes) = match written {
            Written::Done { result, bytes } => (result, bytes),
            Written::TooLarge { .. } if count > 1 => return Ok(Visited::TooLarge),
            Written::TooLarge { bytes } => {
                return Err(Fault::RowTooLarge {
                    bytes: bytes as u64,
                    limit: self.guest.memory_limit(),
                });
            }
        };
        let mut known: Vec<Option<NullBuffer>> = Vec::with_capacity(steps.len());
        let mut copy_in = begun.elapsed();
        for (step, place) in steps.iter().zip(&places) {
            let mask = step.mask(nulls, &known, &rows);
            let entered = Instant::now();
            let prepared = self.prepared.get(step.prepared).ok_or(Fault::Closed)?;
            let status = self
                .guest
                .enter("the call", limit, &prepared.function, place.call.frame);
            add_time(&counters.guest, entered.elapsed());
            let status = status?;
            add(&counters.calls, 1);
            add(&counters.rows, count as u64);
            if known.len().saturating_add(1) == steps.len() {
                let read = Instant::now();
                let given =
                    |data_type: &DataType| steps.iter().any(|s| s.was_given(sources, data_type));
                let (output, copied) = self.answer(
                    step.bound,
                    status,
                    &place.call,
                    count,
                    mask.as_ref(),
                    &given,
                )?;
                self.guest.reset(limit)?;
                add(&counters.failed_rows, output.row_errors.len() as u64);
                add(&counters.bytes_in, bytes as u64);
                add(&counters.bytes_out, copied);
                add_time(&counters.copy_in, copy_in);
                add_time(&counters.copy_out, read.elapsed());
                return Ok(Visited::Done(output));
            }
            let between = Instant::now();
            self.check_status(status, place.call.frame)?;
            let most = self.recipe.policy.output_bytes;
            let mut reader = Reader::new(self.guest.memory(), &self.shelf, most);
            let errors = self.failed_rows(&mut reader, &place.call, count, mask.as_ref())?;
            if !errors.is_empty() {
                self.guest.reset(limit)?;
                add(&counters.failed_rows, errors.len() as u64);
                let Some(last) = steps.last() else {
                    return Err(Fault::Closed);
                };
                let name = Arc::from(step.bound.function.name.as_str());
                let output = failed_rows(last.bound, count, errors, Some(name));
                return Ok(Visited::Done(output));
            }
            match self.pass_on(step.bound, place, count, mask)? {
                Some(nulls) => known.push(nulls),
                None => {
                    self.guest.reset(limit)?;
                    return Ok(Visited::NotPassable);
                }
            }
            copy_in = copy_in.saturating_add(between.elapsed());
        }
        Err(Fault::Closed)
    }

    /// Writes the frames and arguments of all steps.
    fn write_steps(
        &mut self,
        steps: &[Step<'_>],
        sources: &[Source],
        rows: &Range<usize>,
        limit: Duration,
    ) -> Result<Written<Vec<StepPlace>>, Fault> {
        let count = rows.len();
        let state = self.state;
        let bindings: Vec<u32> = steps
            .iter()
            .map(|step| self.prepared.get(step.prepared).map_or(0, |p| p.binding))
            .collect();
        let most = self.most_argument_bytes(count);
        self.arena.write(&mut self.guest, limit, most, |w| {
            let mut places: Vec<StepPlace> = Vec::with_capacity(steps.len());
            for (step, binding) in steps.iter().zip(&bindings) {
                let (table, call) = w.call(*binding, state, count, step.inputs.len())?;
                let arguments = step.inputs.iter().zip(&step.bound.layouts);
                for (i, (input, layout)) in arguments.enumerate() {
                    let none = &mut [].iter();
                    let (array, flags) = match input {
                        Input::Column(at) => {
                            let source = sources.get(*at).ok_or("a column is missing")?;
                            (w.source(layout, source, rows.start, count, none)?, 0)
                        }
                        Input::Constant(source) => (
                            w.source(layout, source, 0, 1, none)?,
                            frame::ARGUMENT_CONSTANT,
                        ),
                        Input::Step(at) => (places.get(*at).ok_or("a step is missing")?.shown, 0),
                    };
                    w.put_argument(table, i, array, flags);
                }
                let (_, shown) = w.structure(frame::ARRAY_BYTES)?;
                let pointers = step.bound.result_layout.buffers().saturating_mul(4);
                let (_, buffers) = w.structure(pointers)?;
                let bits = w.reserve(count.div_ceil(8), frame::BUFFER_ALIGN)?;
                let validity = w.address(bits)?;
                places.push(StepPlace {
                    call,
                    shown,
                    buffers,
                    validity,
                });
            }
            Ok(places)
        })
    }

    /// Shows a result to later steps, with the nulls that it has by now; gives them back. `None` where it
    /// lies so that nulls cannot be added to it.
    fn pass_on(
        &mut self,
        bound: &Bound,
        place: &StepPlace,
        count: usize,
        mask: Option<NullBuffer>,
    ) -> Result<Option<Option<NullBuffer>>, Fault> {
        let most = self.recipe.policy.output_bytes;
        let mut reader = Reader::new(self.guest.memory(), &self.shelf, most);
        let passed = reader.passed_on(
            &bound.result_layout,
            place.call.result,
            count,
            mask.as_ref(),
        )?;
        let nulls = NullBuffer::union(passed.nulls.as_ref(), mask.as_ref());
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        if passed.offset != 0 && nulls.is_some() {
            return Ok(None);
        }
        let mut shown = passed.bytes;
        let null_count = nulls.as_ref().map_or(0, NullBuffer::null_count) as i64;
        put(&mut shown, 8, &null_count.to_le_bytes());
        let memory = self.guest.memory_mut();
        if let Some(nulls) = &nulls {
            let mut pointers = Vec::with_capacity(passed.buffers.len().saturating_mul(4));
            let own = std::iter::once(place.validity);
            for pointer in own.chain(passed.buffers.iter().skip(1).copied()) {
                pointers.extend_from_slice(&pointer.to_le_bytes());
            }
            let bits = nulls.inner().sliced();
            let bits = bits.as_slice().get(..count.div_ceil(8)).unwrap_or_default();
            put(memory, place.validity as usize, bits);
            put(memory, place.buffers as usize, &pointers);
            put(&mut shown, 40, &place.buffers.to_le_bytes());
        }
        put(memory, place.shown as usize, &shown);
        Ok(Some(nulls))
    }
}

impl Step<'_> {
    /// Whether its columns hold values of this type that mean nothing in it.
    fn was_given(&self, sources: &[Source], data_type: &DataType) -> bool {
        let inputs = self.inputs.iter().zip(&self.bound.layouts);
        inputs.into_iter().any(|(input, layout)| {
            let source = match input {
                Input::Column(at) => sources.get(*at),
                Input::Constant(source) => Some(source),
                Input::Step(_) => None,
            };
            source.is_some_and(|source| holds_wild_values(source, layout, data_type))
        })
    }

    /// Where an argument is null and nulls propagate.
    fn mask(
        &self,
        columns: &[Option<NullBuffer>],
        steps: &[Option<NullBuffer>],
        rows: &Range<usize>,
    ) -> Option<NullBuffer> {
        if self.bound.function.nulls != NullHandling::Propagate {
            return None;
        }
        let mut mask: Option<NullBuffer> = None;
        for input in &self.inputs {
            let own = match input {
                Input::Column(at) => {
                    let nulls = columns.get(*at).and_then(Option::as_ref);
                    nulls.map(|nulls| nulls.slice(rows.start, rows.len()))
                }
                Input::Step(at) => steps.get(*at).cloned().flatten(),
                Input::Constant(source) => {
                    let null = source.data().is_some_and(|data| data.null_count() > 0);
                    null.then(|| NullBuffer::new_null(rows.len()))
                }
            };
            mask = NullBuffer::union(mask.as_ref(), own.as_ref());
        }
        mask.filter(|mask| mask.null_count() > 0)
    }
}

/// Writes bytes where they fit; the guest's memory never shrinks, so they do.
fn put(memory: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = memory.get_mut(at..at.saturating_add(bytes.len())) {
        place.copy_from_slice(bytes);
    }
}

fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

fn missing() -> Fault {
    Fault::Arguments {
        reason: "a column is missing".to_owned(),
    }
}

/// An output of nulls, for rows of which some failed.
fn failed_rows(
    bound: &Bound,
    rows: usize,
    row_errors: Vec<RowError>,
    failed: Option<Arc<str>>,
) -> Output {
    Output {
        array: new_null_array(bound.result.data_type(), rows),
        row_errors,
        failed,
    }
}
