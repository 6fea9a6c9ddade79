//! What a call left in guest memory: its status, its result, the rows that failed.

use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::{Output, RowError, Slot};
use crate::abi::{self, CallPlaces, Layout, Reader, Source, frame};
use crate::call::Bound;
use crate::error::{Fault, Violation};

impl Slot {
    /// What a call answered for `count` rows, and how many bytes were copied for it. `mask` has the rows
    /// that are not null anyway; `given` says whether the guest was given values of a type that mean
    /// nothing in it.
    pub(super) fn answer(
        &self,
        bound: &Bound,
        status: i32,
        places: &CallPlaces,
        count: usize,
        mask: Option<&NullBuffer>,
        given: &dyn Fn(&DataType) -> bool,
    ) -> Result<(Output, u64), Fault> {
        self.check_status(status, places.frame)?;
        match self.read(bound, places, count, mask, false) {
            // A guest may give back what it was given.
            Err(Fault::Contract(Violation::Value { data_type, .. })) if given(&data_type) => {
                self.read(bound, places, count, mask, true)
            }
            other => other,
        }
    }

    fn read(
        &self,
        bound: &Bound,
        places: &CallPlaces,
        count: usize,
        mask: Option<&NullBuffer>,
        pardon: bool,
    ) -> Result<(Output, u64), Fault> {
        let memory = self.guest.memory();
        let mut reader = Reader::new(memory, &self.shelf, self.recipe.policy.output_bytes);
        if pardon {
            reader = reader.pardoning_values();
        }
        let mask = mask.filter(|mask| mask.null_count() > 0);
        let row_errors = self.failed_rows(&mut reader, places, count, mask)?;
        // A failed row is null until the policy decides, so its value need not be one.
        let failed = (!row_errors.is_empty()).then(|| {
            let mut valid = vec![true; count];
            for error in &row_errors {
                if let Some(place) = valid.get_mut(error.row) {
                    *place = false;
                }
            }
            NullBuffer::from(valid)
        });
        let mask = NullBuffer::union(mask, failed.as_ref());
        let array = if row_errors.len() == count && abi_has_no_validity(bound) {
            check_null_size(bound, count, self.recipe.policy.output_bytes)?;
            arrow::array::new_null_array(bound.result.data_type(), count)
        } else {
            reader.result(
                &bound.result_layout,
                places.result,
                count,
                mask.as_ref().filter(|_| !abi_has_no_validity(bound)),
            )?
        };
        let output = Output {
            array,
            row_errors,
            failed: None,
        };
        Ok((output, reader.copied()))
    }

    /// The rows that a call could not compute. Rows that are null anyway cannot fail.
    pub(super) fn failed_rows(
        &self,
        reader: &mut Reader<'_>,
        places: &CallPlaces,
        count: usize,
        mask: Option<&NullBuffer>,
    ) -> Result<Vec<RowError>, Fault> {
        let errors = self.row_errors.read(reader, places.row_errors, count)?;
        Ok(errors
            .into_iter()
            .filter(|(row, _, _)| mask.is_none_or(|mask| mask.is_valid(*row)))
            .map(|(row, code, message)| RowError { row, code, message })
            .collect())
    }

    /// What the answer of a call says of the call as a whole.
    pub(super) fn check_status(&self, status: i32, address: u32) -> Result<(), Fault> {
        let memory = self.guest.memory();
        match status {
            frame::STATUS_OK => Ok(()),
            frame::STATUS_ERROR => {
                let word = |offset: usize| {
                    frame::read_u32(memory, u64::from(address).saturating_add(offset as u64))
                        .unwrap_or(0)
                };
                Err(Fault::Guest {
                    message: frame::text_at(
                        memory,
                        word(frame::call::MESSAGE),
                        word(frame::call::MESSAGE_LEN),
                    ),
                })
            }
            status => Err(Violation::Status {
                entry: "the call",
                status,
            }
            .into()),
        }
    }
}

/// Whether the arguments themselves hold values of this type that mean nothing in it.
pub(super) fn were_given(bound: &Bound, arguments: &[Source], data_type: &DataType) -> bool {
    let arguments = bound.layouts.iter().zip(arguments);
    arguments
        .into_iter()
        .any(|(layout, source)| holds_wild_values(source, layout, data_type))
}

/// Whether an argument holds values of this type that mean nothing in it.
pub(super) fn holds_wild_values(source: &Source, layout: &Layout, data_type: &DataType) -> bool {
    let data = source.to_data(layout);
    data.is_some_and(|data| abi::holds_wild_values(layout, &data, data_type))
}

/// Refuses to make more nulls than a result may take: the width of a type is the guest's to say.
pub(in crate::pool) fn check_null_size(
    bound: &Bound,
    rows: usize,
    limit: u64,
) -> Result<(), Fault> {
    let bytes = bound.result_layout.null_bytes(rows as u64);
    // 16 bits cannot count further; wider run ends can.
    let short_runs = matches!(bound.result.data_type(), DataType::RunEndEncoded(ends, _) if ends.data_type() == &DataType::Int16);
    if bytes.is_none_or(|bytes| bytes > limit)
        || (short_runs && rows > i16::MAX.unsigned_abs().into())
    {
        return Err(Fault::OutputTooLarge { limit });
    }
    Ok(())
}

/// Whether the host cannot make rows of the result null.
fn abi_has_no_validity(bound: &Bound) -> bool {
    crate::module::manifest::check_propagates(bound.result.data_type()).is_err()
}
