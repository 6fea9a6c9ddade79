//! Results of fixed width and texts: the short way into their arrays, and what their values may be.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, PrimitiveArray, StringArray, downcast_primitive};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, i256};

use super::super::layout::{Domain, Kind, Layout, Width};
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
        domain: Domain,
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
                Arc::new(array.with_data_type(layout.data_type.clone()))
            }};
        }
        let array: ArrayRef = downcast_primitive! {
            layout.data_type => (array),
            _ => return Err(self.invalid(layout, "it is not primitive".to_owned()).into())
        };
        // Values that the host makes null anyway may be anything.
        if domain != Domain::All {
            self.domain(layout, domain, &array.to_data())?;
        }
        Ok(array)
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

    /// Refuses values that mean nothing in their type, where they are not null.
    pub(super) fn domain(
        &self,
        layout: &Layout,
        domain: Domain,
        data: &ArrayData,
    ) -> Result<(), Violation> {
        if self.pardons_values || !is_wild(domain, data) {
            return Ok(());
        }
        let reason = match domain {
            Domain::Digits(p) => format!("a value has more than {p} digits"),
            _ => "a time lies outside the day".to_owned(),
        };
        Err(Violation::Value {
            path: layout.path.to_string(),
            data_type: layout.data_type.clone(),
            reason,
        })
    }
}

/// Whether an array holds, anywhere, a value of this type that means nothing in it.
pub(crate) fn holds_wild_values(layout: &Layout, data: &ArrayData, of: &DataType) -> bool {
    match layout.kind {
        Kind::Fixed { domain, .. } => layout.data_type == *of && is_wild(domain, data),
        _ => layout
            .children
            .iter()
            .zip(data.child_data())
            .any(|(layout, data)| holds_wild_values(layout, data, of)),
    }
}

/// Whether a value that is not null lies outside its type's domain.
fn is_wild(domain: Domain, data: &ArrayData) -> bool {
    match (domain, data.data_type()) {
        (Domain::All, _) => false,
        (Domain::Digits(p), DataType::Decimal32(..)) => {
            let most = 10_u32.checked_pow(u32::from(p)).unwrap_or(u32::MAX);
            any_valid(data, |v: &i32| v.unsigned_abs() >= most)
        }
        (Domain::Digits(p), DataType::Decimal64(..)) => {
            let most = 10_u64.checked_pow(u32::from(p)).unwrap_or(u64::MAX);
            any_valid(data, |v: &i64| v.unsigned_abs() >= most)
        }
        (Domain::Digits(p), DataType::Decimal128(..)) => {
            let most = 10_u128.checked_pow(u32::from(p)).unwrap_or(u128::MAX);
            any_valid(data, |v: &i128| v.unsigned_abs() >= most)
        }
        (Domain::Digits(p), _) => {
            let most = i256::from_i128(10)
                .checked_pow(u32::from(p))
                .unwrap_or(i256::MAX);
            any_valid(data, |v: &i256| *v >= most || *v <= most.wrapping_neg())
        }
        (Domain::Below(units), DataType::Time32(_)) => {
            any_valid(data, |v: &i32| *v < 0 || i64::from(*v) >= units)
        }
        (Domain::Below(units), _) => any_valid(data, |v: &i64| *v < 0 || *v >= units),
    }
}

/// Whether a value that is not null is as asked.
fn any_valid<T: ArrowNativeType>(data: &ArrayData, is: impl Fn(&T) -> bool) -> bool {
    let values = data.buffer::<T>(0).iter().take(data.len());
    match data.nulls() {
        None => values.into_iter().any(is),
        Some(nulls) => values.zip(nulls.iter()).any(|(v, valid)| valid && is(v)),
    }
}
