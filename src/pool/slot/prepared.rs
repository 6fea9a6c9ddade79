//! What a slot keeps of a call between batches: its binding, spread-out constants, dictionaries that lie in
//! guest memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayData, MutableArrayData};
use arrow::error::ArrowError;
use wasmtime::TypedFunc;

use super::Slot;
use crate::abi::{self, Arena, Source, Written};
use crate::call::{Bound, bind_in};
use crate::error::{Fault, Violation};
use crate::sandbox::Guest;

/// A call as this slot knows it.
pub(super) struct Prepared {
    pub(super) bound: Arc<Bound>,
    /// Grows with each call that is served.
    pub(super) used: u64,
    pub(super) function: TypedFunc<u32, i32>,
    pub(super) binding: u32,
    pub(super) dictionaries: Vec<PlacedDictionary>,
    /// Constants for functions that do not understand them, as many rows long as were needed so far.
    pub(super) expanded: Vec<Option<ArrayData>>,
}

/// Calls that a slot knows at most: a warm pool may see ever new ones.
const MOST_PREPARED: usize = 64;

/// Makes room for another call, in the guest's memory too: forgets the one that was used longest ago.
fn forget_oldest(all: &mut Vec<Prepared>, guest: &mut Guest, limit: Duration) -> Result<(), Fault> {
    let oldest = all.iter().enumerate().min_by_key(|(_, call)| call.used);
    let Some((at, _)) = oldest.filter(|_| all.len() >= MOST_PREPARED) else {
        return Ok(());
    };
    for mut dictionary in all.swap_remove(at).dictionaries {
        dictionary.arena.release(guest, limit)?;
    }
    Ok(())
}

impl Slot {
    /// Finds or makes what this slot knows of a call.
    pub(super) fn prepare(&mut self, bound: &Arc<Bound>) -> Result<usize, Fault> {
        self.served = self.served.saturating_add(1);
        let known = self.prepared.iter().position(|p| p.bound.id == bound.id);
        // Each run of a plan binds its calls anew; to the instance they are the same.
        let known = known.or_else(|| self.prepared.iter().position(|p| p.bound.is_same(bound)));
        if let Some((at, prepared)) = known.and_then(|at| Some((at, self.prepared.get_mut(at)?))) {
            if prepared.bound.id != bound.id {
                prepared.bound = Arc::clone(bound);
            }
            prepared.used = self.served;
            return Ok(at);
        }
        let limit = self.recipe.policy.call_time;
        self.guest.begin(Instant::now(), limit);
        forget_oldest(&mut self.prepared, &mut self.guest, limit)?;
        let (binding, answer) = bind_in(
            &mut self.guest,
            &mut self.arena,
            limit,
            &bound.function,
            &bound.arguments,
        )?;
        if let Some(answer) = answer
            && answer.data_type() != bound.result.data_type()
        {
            return Err(Violation::Rebound {
                planned: bound.result.data_type().clone(),
                found: answer.data_type().clone(),
            }
            .into());
        }
        let function = self.guest.function(&bound.function.symbol)?;
        self.prepared.push(Prepared {
            bound: Arc::clone(bound),
            used: self.served,
            function,
            binding,
            dictionaries: Vec::new(),
            expanded: vec![None; bound.arguments.len()],
        });
        Ok(self.prepared.len().saturating_sub(1))
    }
}

/// Dictionary values that lie in guest memory until other ones come.
#[derive(Default)]
pub(super) struct PlacedDictionary {
    /// `None` until they lie there.
    values: Option<ArrayData>,
    arena: Arena,
    pub(super) address: u32,
}

impl Prepared {
    /// Spreads constants over at least `rows` rows.
    pub(super) fn expand(
        &mut self,
        bound: &Bound,
        arguments: &[Source],
        rows: usize,
    ) -> Result<(), Fault> {
        for ((expanded, argument), data) in self
            .expanded
            .iter_mut()
            .zip(&bound.arguments)
            .zip(arguments)
        {
            let Some(data) = data.data() else { continue };
            if argument.constant.is_some() && expanded.as_ref().is_none_or(|e| e.len() < rows) {
                let spread = repeated(data, rows).map_err(|e| Fault::Arguments {
                    reason: format!(
                        "a constant of type {} cannot be spread over rows: {e}",
                        data.data_type()
                    ),
                })?;
                *expanded = Some(spread);
            }
        }
        Ok(())
    }
}

/// A constant's only row, `rows` times. Arrow's `take` would lose the rows of values without bytes.
fn repeated(constant: &ArrayData, rows: usize) -> Result<ArrayData, ArrowError> {
    let mut spread = MutableArrayData::new(vec![constant], false, rows);
    for _ in 0..rows {
        spread.try_extend(0, 0, 1)?;
    }
    Ok(spread.freeze())
}

/// Bytes that constants take when they are spread over `rows` rows.
pub(super) fn spread_bytes(bound: &Bound, arguments: &[Source], rows: usize) -> u64 {
    let constants = bound.arguments.iter().zip(arguments);
    constants
        .filter(|(argument, _)| argument.constant.is_some())
        .filter_map(|(_, source)| source.data()?.get_slice_memory_size().ok())
        .fold(0_u64, |sum, one| {
            sum.saturating_add((one as u64).saturating_mul(rows as u64))
        })
}

/// Puts the values of dictionaries into guest memory, those that are not there already.
pub(super) fn place_dictionaries(
    guest: &mut Guest,
    prepared: &mut Prepared,
    bound: &Bound,
    arguments: &[Source],
    limit: Duration,
) -> Result<(), Fault> {
    if !bound.layouts.iter().any(|l| l.has_dictionary) {
        return Ok(());
    }
    let constants = bound.function.constants;
    let Prepared {
        dictionaries,
        expanded,
        ..
    } = prepared;
    let mut found = Vec::new();
    for ((layout, source), expanded) in bound.layouts.iter().zip(arguments).zip(expanded.iter()) {
        if let Some(data) = expanded.as_ref().filter(|_| !constants).or(source.data()) {
            abi::dictionary_values(layout, data, &mut found);
        }
    }
    for (i, (layout, values)) in found.into_iter().enumerate() {
        if dictionaries
            .get(i)
            .is_some_and(|placed| placed.values.as_ref().is_some_and(|v| v.ptr_eq(values)))
        {
            continue;
        }
        if dictionaries.len() <= i {
            dictionaries.push(PlacedDictionary::default());
        }
        let Some(placed) = dictionaries.get_mut(i) else {
            continue;
        };
        let most = guest.memory_limit();
        placed.values = None;
        let written = placed.arena.write(guest, limit, most, |w| {
            w.array(layout, values, 0, values.len(), &mut [].iter())
        })?;
        match written {
            Written::Done { result, .. } => {
                placed.address = result;
                placed.values = Some(values.clone());
            }
            Written::TooLarge { bytes } => {
                return Err(Fault::RowTooLarge {
                    bytes: bytes as u64,
                    limit: most,
                });
            }
        }
    }
    Ok(())
}
