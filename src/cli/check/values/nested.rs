//! Lists, maps, dictionaries, runs and unions.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, GenericListArray, GenericListViewArray, Int64Array, MapArray, OffsetSizeTrait,
    StructArray, UInt32Array, UnionArray, make_array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, UnionFields, UnionMode};
use arrow::error::ArrowError;

use super::{Kind, MOST_BYTES, Maker, built, cycled, deeper, pick, weight};

/// Elements of a long list.
const LONG_LIST: usize = 10_000;

impl Maker {
    /// How many elements each list has.
    fn lengths(&mut self, item: &DataType, rows: usize, kind: Kind, depth: usize) -> Vec<usize> {
        const WIDE: [usize; 5] = [0, 1, 2, 5, 17];
        const NARROW: [usize; 3] = [0, 1, 2];
        let (lengths, below): (&[usize], usize) = match depth {
            0 | 1 => (&WIDE, 8),
            _ => (&NARROW, 3),
        };
        let fit = MOST_BYTES
            .checked_div(weight(item, deeper(depth)).saturating_mul(4))
            .unwrap_or(0);
        let long = LONG_LIST.min(usize::try_from(fit).unwrap_or(LONG_LIST));
        (0..rows)
            .map(|row| match (kind, row % 3) {
                (Kind::Everyday, _) => self.below(below),
                (Kind::Extreme, _) => cycled(lengths, row).copied().unwrap_or(0),
                (Kind::Long, 0) => long,
                (Kind::Long, 1) => 0,
                (Kind::Long, _) => 2,
            })
            .collect()
    }

    pub(super) fn list<O: OffsetSizeTrait>(
        &mut self,
        item: &FieldRef,
        rows: usize,
        kind: Kind,
        depth: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let lengths = self.lengths(item.data_type(), rows, kind, depth);
        let items = self.child(item, lengths.iter().sum(), kind, depth)?;
        let offsets = OffsetBuffer::<O>::from_lengths(lengths);
        let list = GenericListArray::<O>::try_new(Arc::clone(item), offsets, items, None)?;
        Ok(Arc::new(list))
    }

    pub(super) fn list_view<O: OffsetSizeTrait>(
        &mut self,
        item: &FieldRef,
        rows: usize,
        kind: Kind,
        depth: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let lengths = self.lengths(item.data_type(), rows, kind, depth);
        let items = self.child(item, lengths.iter().sum(), kind, depth)?;
        let mut at = 0_usize;
        let starts: Vec<O> = lengths
            .iter()
            .map(|length| {
                let start = at;
                at = at.saturating_add(*length);
                O::usize_as(start)
            })
            .collect();
        let sizes: Vec<O> = lengths.iter().map(|l| O::usize_as(*l)).collect();
        let list = GenericListViewArray::<O>::try_new(
            Arc::clone(item),
            ScalarBuffer::from(starts),
            ScalarBuffer::from(sizes),
            items,
            None,
        )?;
        Ok(Arc::new(list))
    }

    pub(super) fn map(
        &mut self,
        entries: &FieldRef,
        sorted: bool,
        rows: usize,
        kind: Kind,
        depth: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let DataType::Struct(pair) = entries.data_type() else {
            return Err(ArrowError::SchemaError("a map without entries".to_owned()));
        };
        let [key, value] = pair.as_ref() else {
            return Err(ArrowError::SchemaError("a map without entries".to_owned()));
        };
        // The keys of one map differ; so many values in a row are known to.
        let distinct: usize = match key.data_type() {
            t if t.is_primitive() && !sorted => 4,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if !sorted => 4,
            _ => 1,
        };
        let keys = self.values(key.data_type(), 16, Kind::Extreme, deeper(depth))?;
        let lengths: Vec<usize> = (0..rows)
            .map(|row| row.checked_rem(distinct.saturating_add(1)).unwrap_or(0))
            .collect();
        let places: UInt32Array = lengths
            .iter()
            .enumerate()
            .flat_map(|(row, length)| {
                (0..*length).map(move |k| (row.saturating_add(k) % 16) as u32)
            })
            .collect();
        let values = self.child(value, places.len(), kind, depth)?;
        let columns = vec![pick(&keys, &places)?, values];
        let entry_values = StructArray::try_new(pair.clone(), columns, None)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let map = MapArray::try_new(Arc::clone(entries), offsets, entry_values, None, sorted)?;
        Ok(Arc::new(map))
    }

    pub(super) fn dictionary(
        &mut self,
        t: &DataType,
        keys: &DataType,
        values: &DataType,
        rows: usize,
        kind: Kind,
        depth: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let distinct = 16;
        let values = self.values(values, distinct, kind, deeper(depth))?;
        let places: Int64Array = (0..rows)
            .map(|row| match kind {
                Kind::Everyday => Some(self.below(distinct) as i64),
                _ => Some((row % distinct) as i64),
            })
            .collect();
        let data = cast(&places, keys)?.to_data().into_builder();
        Ok(make_array(
            data.data_type(t.clone())
                .child_data(vec![values.to_data()])
                .build()?,
        ))
    }

    pub(super) fn runs(
        &mut self,
        t: &DataType,
        [ends, values]: [&FieldRef; 2],
        rows: usize,
        kind: Kind,
        depth: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let mut reached = Vec::new();
        let mut at = 0_usize;
        while at < rows {
            let run = (reached.len() % 3).saturating_add(1);
            at = at.saturating_add(run).min(rows);
            reached.push(at as i64);
        }
        let values = self.child(values, reached.len(), kind, depth)?;
        let ends = cast(&Int64Array::from(reached), ends.data_type())?;
        built(t, rows, Vec::new(), vec![ends.to_data(), values.to_data()])
    }

    pub(super) fn union(
        &mut self,
        fields: &UnionFields,
        mode: UnionMode,
        rows: usize,
        kind: Kind,
        depth: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let count = fields.iter().count();
        let mut seen = vec![0_i32; count];
        let (mut ids, mut offsets) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let which = row.checked_rem(count).unwrap_or(0);
            if let (Some((id, _)), Some(seen)) = (fields.iter().nth(which), seen.get_mut(which)) {
                ids.push(id);
                offsets.push(*seen);
                *seen = seen.saturating_add(1);
            }
        }
        let children = fields
            .iter()
            .map(|(_, field)| self.child(field, rows, kind, depth))
            .collect::<Result<Vec<_>, _>>()?;
        let offsets = (mode == UnionMode::Dense).then(|| ScalarBuffer::from(offsets));
        Ok(Arc::new(UnionArray::try_new(
            fields.clone(),
            ScalarBuffer::from(ids),
            offsets,
            children,
        )?))
    }
}
