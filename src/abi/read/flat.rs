//! Results of fixed width and texts: the short way into their arrays, and what their values may be.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, PrimitiveArray, StringArray, downcast_primitive};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, i256};

use super::super::layout::{Domain, Layout, Width};
use super::{Raw, Reader, check_nulls};
use crate::error::{Fault, Violation};

impl Reader<'_> {
    /// Reads a result of which all values are valid, straight into its array.
    pub(super) fn primitive(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        rows: usize,
        width: usize,
        mask: Option<&NullBuffer>,
    ) -> Result<ArrayRef, Fault> {
        let nulls = self.validity(layout, raw, raw.offset, 0, rows)?;
        if !layout.nullable {
            check_nulls(layout, nulls.as_ref(), mask)?;
        }
        let nulls = NullBuffer::union(nulls.as_ref(), mask);
        let values = self.elements(
            layout,
            "the values",
            self.pointer(layout, raw, 1)?,
            raw.offset,
            rows,
            width,
        )?;
        macro_rules! array {
            ($type:ty) => {{
                let array =
                    PrimitiveArray::<$type>::try_new(ScalarBuffer::new(values, 0, rows), nulls);
                let array = array.map_err(|e| self.invalid(layout, e.to_string()))?;
                Ok(Arc::new(array.with_data_type(layout.data_type.clone())))
            }};
        }
        downcast_primitive! {
            layout.data_type => (array),
            _ => Err(self.invalid(layout, "it is not primitive".to_owned()).into())
        }
    }

    /// Reads a text result straight into its array.
    pub(super) fn text(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        rows: usize,
        mask: Option<&NullBuffer>,
    ) -> Result<ArrayRef, Fault> {
        let nulls = self.validity(layout, raw, raw.offset, 0, rows)?;
        if !layout.nullable {
            check_nulls(layout, nulls.as_ref(), mask)?;
        }
        let nulls = NullBuffer::union(nulls.as_ref(), mask);
        let (offsets, from, to) = self.offsets(layout, raw, raw.offset, rows, Width::Four)?;
        let pointer = self.pointer(layout, raw, 2)?;
        let bytes = self.window(layout, "the bytes", pointer, from, to)?;
        let offsets = ScalarBuffer::<i32>::new(offsets, 0, rows.saturating_add(1));
        // `OffsetBuffer` panics on what is checked here; it begins with 0 because it was rebased.
        let pairs = offsets.iter().zip(offsets.iter().skip(1));
        if !pairs.fold(true, |increasing, (a, b)| increasing & (a <= b)) {
            let reason = "an offset is smaller than the one before".to_owned();
            return Err(self.invalid(layout, reason).into());
        }
        let array = StringArray::try_new(OffsetBuffer::new(offsets), bytes, nulls);
        Ok(Arc::new(
            array.map_err(|e| self.invalid(layout, e.to_string()))?,
        ))
    }

    /// Checks values that mean nothing in their type, where they are not null.
    pub(super) fn domain(
        &self,
        layout: &Layout,
        domain: Domain,
        data: &ArrayData,
    ) -> Result<(), Violation> {
        let Some(values) = data.buffers().first() else {
            return Ok(());
        };
        let (wrong, what) = match (domain, &layout.data_type) {
            (Domain::All, _) => return Ok(()),
            (Domain::Digits(p), DataType::Decimal32(..)) => {
                let most = 10_i32
                    .checked_pow(u32::from(p))
                    .unwrap_or(i32::MAX)
                    .unsigned_abs();
                (
                    any_valid(
                        data,
                        values
                            .typed_data::<i32>()
                            .iter()
                            .map(|v| v.unsigned_abs() >= most),
                    ),
                    format!("a value has more than {p} digits"),
                )
            }
            (Domain::Digits(p), DataType::Decimal64(..)) => {
                let most = 10_u64.checked_pow(u32::from(p)).unwrap_or(u64::MAX);
                (
                    any_valid(
                        data,
                        values
                            .typed_data::<i64>()
                            .iter()
                            .map(|v| v.unsigned_abs() >= most),
                    ),
                    format!("a value has more than {p} digits"),
                )
            }
            (Domain::Digits(p), DataType::Decimal128(..)) => {
                let most = 10_u128.checked_pow(u32::from(p)).unwrap_or(u128::MAX);
                (
                    any_valid(
                        data,
                        values
                            .typed_data::<i128>()
                            .iter()
                            .map(|v| v.unsigned_abs() >= most),
                    ),
                    format!("a value has more than {p} digits"),
                )
            }
            (Domain::Digits(p), _) => {
                let most = i256::from_i128(10)
                    .checked_pow(u32::from(p))
                    .unwrap_or(i256::MAX);
                let least = most.wrapping_neg();
                (
                    any_valid(
                        data,
                        values
                            .typed_data::<i256>()
                            .iter()
                            .map(|v| *v >= most || *v <= least),
                    ),
                    format!("a value has more than {p} digits"),
                )
            }
            (Domain::Below(units), DataType::Time32(_)) => (
                any_valid(
                    data,
                    values
                        .typed_data::<i32>()
                        .iter()
                        .map(|v| *v < 0 || i64::from(*v) >= units),
                ),
                "a time lies outside the day".to_owned(),
            ),
            (Domain::Below(units), _) => (
                any_valid(
                    data,
                    values
                        .typed_data::<i64>()
                        .iter()
                        .map(|v| *v < 0 || *v >= units),
                ),
                "a time lies outside the day".to_owned(),
            ),
        };
        if wrong {
            Err(self.invalid(layout, what))
        } else {
            Ok(())
        }
    }
}

/// Whether any is true that is not null.
fn any_valid(data: &ArrayData, mut values: impl Iterator<Item = bool>) -> bool {
    match data.nulls() {
        None => values.any(|b| b),
        Some(nulls) => values.zip(nulls.iter()).any(|(b, valid)| b && valid),
    }
}
