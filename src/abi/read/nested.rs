//! Results whose buffers point into each other: views, list views, unions, runs.

use arrow::array::{ArrayData, ArrayDataBuilder};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::super::frame::read_i64;
use super::super::layout::{Layout, RunEnds, Width};
use super::{Raw, Reader, VIEW_BUFFER_COST, build, signed};
use crate::error::{Fault, Violation};

impl Reader<'_> {
    pub(super) fn list_view(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        first: u64,
        len: usize,
        width: Width,
        builder: ArrayDataBuilder,
    ) -> Result<ArrayData, Fault> {
        let offsets = self.elements_at(
            layout,
            "the offsets",
            self.pointer(layout, raw, 1)?,
            first,
            len,
            width.bytes(),
        )?;
        let sizes = self.elements(
            layout,
            "the sizes",
            self.pointer(layout, raw, 2)?,
            first,
            len,
            width.bytes(),
        )?;
        let mut from = u64::MAX;
        let mut to = 0_u64;
        for (offset, size) in offsets
            .chunks_exact(width.bytes())
            .zip(sizes.chunks_exact(width.bytes()))
        {
            let (Some(Ok(offset)), Some(Ok(size))) = (
                signed(offset).map(u64::try_from),
                signed(size).map(u64::try_from),
            ) else {
                return Err(self
                    .invalid(layout, "an offset or a size is negative".to_owned())
                    .into());
            };
            let end = offset
                .checked_add(size)
                .ok_or_else(|| self.invalid(layout, "an offset and its size wrap".to_owned()))?;
            if size > 0 {
                from = from.min(offset);
                to = to.max(end);
            }
        }
        let from = from.min(to);
        let child = self.child(layout, raw, 0, from, self.count(to.saturating_sub(from))?)?;
        if let Some(layout) = layout.children.first() {
            Self::check_child(layout, &child)?;
        }
        let rebased = self.shelf.with(offsets.len(), |out| {
            for (offset, size) in offsets
                .chunks_exact(width.bytes())
                .zip(sizes.chunks_exact(width.bytes()))
            {
                let empty = size.iter().all(|b| *b == 0);
                let offset = if empty {
                    0
                } else {
                    signed(offset).unwrap_or(0).saturating_sub_unsigned(from)
                };
                out.extend_from_slice(
                    offset
                        .to_le_bytes()
                        .get(..width.bytes())
                        .unwrap_or_default(),
                );
            }
        });
        build(
            layout,
            builder
                .add_buffer(rebased)
                .add_buffer(sizes)
                .add_child_data(child),
        )
    }

    pub(super) fn views(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        first: u64,
        len: usize,
        nulls: Option<&NullBuffer>,
        builder: ArrayDataBuilder,
    ) -> Result<ArrayData, Fault> {
        let views = self.elements(
            layout,
            "the views",
            self.pointer(layout, raw, 1)?,
            first,
            len,
            16,
        )?;
        let count = raw.n_buffers.saturating_sub(3);
        let lengths = self.pointer(layout, raw, raw.n_buffers.saturating_sub(1))?;
        let mut buffers = vec![views];
        self.charge(count.saturating_mul(VIEW_BUFFER_COST))?;
        for i in 0..count {
            let at = u64::from(lengths).saturating_add(i.saturating_mul(8));
            let bytes = read_i64(self.memory, at).ok_or_else(|| {
                self.outside(
                    layout,
                    "the lengths of the view buffers",
                    lengths,
                    count.saturating_mul(8),
                )
            })?;
            let bytes = u64::try_from(bytes)
                .map_err(|_| self.invalid(layout, format!("view buffer {i} has {bytes} bytes")))?;
            let pointer = self.pointer(layout, raw, i.saturating_add(2))?;
            buffers.push(self.window(layout, "a view buffer", pointer, 0, bytes)?);
        }
        // Views under nulls may be anything, but arrow looks at each: they become empty ones.
        if let (Some(nulls), Some(views)) = (nulls, buffers.first_mut()) {
            let cleaned = self.shelf.with(views.len(), |out| {
                for (view, valid) in views.chunks_exact(16).zip(nulls.iter()) {
                    out.extend_from_slice(if valid { view } else { &[0; 16] });
                }
            });
            *views = cleaned;
        }
        // Views may share bytes, and each is checked: what they reach together counts as well.
        let reached = buffers.first().map_or(0, |views| {
            let lengths = views
                .chunks_exact(16)
                .filter_map(|view| view.first_chunk::<4>());
            lengths
                .map(|len| u64::from(u32::from_le_bytes(*len)))
                .fold(0, u64::saturating_add)
        });
        if reached > self.limit {
            return Err(Fault::OutputTooLarge { limit: self.limit });
        }
        build(layout, builder.buffers(buffers))
    }

    pub(super) fn dense_union(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        first: u64,
        len: usize,
        mut builder: ArrayDataBuilder,
    ) -> Result<ArrayData, Fault> {
        let DataType::Union(fields, _) = &layout.data_type else {
            return Err(self.invalid(layout, "it is not a union".to_owned()).into());
        };
        let ids = self.elements(
            layout,
            "the type ids",
            self.pointer(layout, raw, 0)?,
            first,
            len,
            1,
        )?;
        let offsets = self.elements_at(
            layout,
            "the offsets",
            self.pointer(layout, raw, 1)?,
            first,
            len,
            4,
        )?;
        let mut child_of = [None; 256];
        for (i, (id, _)) in fields.iter().enumerate() {
            if let Some(child) = child_of.get_mut(usize::from(id.to_le_bytes()[0])) {
                *child = Some(i);
            }
        }
        let mut windows = vec![(u64::MAX, 0_u64); layout.children.len()];
        for (id, offset) in ids.iter().zip(offsets.chunks_exact(4)) {
            let window = child_of
                .get(usize::from(*id))
                .copied()
                .flatten()
                .and_then(|c| windows.get_mut(c));
            let (Some(window), Some(Ok(offset))) = (window, signed(offset).map(u64::try_from))
            else {
                return Err(self
                    .invalid(
                        layout,
                        format!("type id {id} does not exist, or its offset is negative"),
                    )
                    .into());
            };
            *window = (window.0.min(offset), window.1.max(offset.saturating_add(1)));
        }
        for window in &mut windows {
            window.0 = window.0.min(window.1);
        }
        let rebased = self.shelf.with(offsets.len(), |out| {
            for (id, offset) in ids.iter().zip(offsets.chunks_exact(4)) {
                let from = child_of
                    .get(usize::from(*id))
                    .copied()
                    .flatten()
                    .and_then(|c| windows.get(c))
                    .map_or(0, |w| w.0);
                let offset = signed(offset).unwrap_or(0).saturating_sub_unsigned(from);
                out.extend_from_slice(offset.to_le_bytes().get(..4).unwrap_or_default());
            }
        });
        builder = builder.add_buffer(ids).add_buffer(rebased);
        for (i, (from, to)) in windows.iter().enumerate() {
            let count = self.count(to.saturating_sub(*from))?;
            let child = self.child(layout, raw, i, *from, count)?;
            if let Some(layout) = layout.children.get(i) {
                Self::check_child(layout, &child)?;
            }
            builder = builder.add_child_data(child);
        }
        build(layout, builder)
    }

    pub(super) fn run_ends(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        first: u64,
        len: usize,
        kind: RunEnds,
        builder: ArrayDataBuilder,
    ) -> Result<ArrayData, Fault> {
        let (Some(ends_layout), Some(values_layout)) =
            (layout.children.first(), layout.children.get(1))
        else {
            return Err(self
                .invalid(layout, "it has too few children".to_owned())
                .into());
        };
        let width = match kind {
            RunEnds::Int16 => 2,
            RunEnds::Int32 => 4,
            RunEnds::Int64 => 8,
        };
        let ends = self.raw(ends_layout, self.child_pointer(layout, raw, 0)?)?;
        let values = self.raw(values_layout, self.child_pointer(layout, raw, 1)?)?;
        if ends.length != values.length {
            return Err(self
                .invalid(
                    layout,
                    format!(
                        "it has {} run ends and {} values",
                        ends.length, values.length
                    ),
                )
                .into());
        }
        let runs = self.count(ends.length)?;
        let bytes = self.elements_at(
            ends_layout,
            "the run ends",
            self.pointer(ends_layout, &ends, 1)?,
            ends.offset,
            runs,
            width,
        )?;
        let mut last = 0_i64;
        for end in bytes.chunks_exact(width).filter_map(signed) {
            if end <= last {
                return Err(self
                    .invalid(layout, format!("run end {end} follows {last}"))
                    .into());
            }
            last = end;
        }
        let end = first.saturating_add(len as u64);
        if u64::try_from(last).is_ok_and(|last| last < end) {
            return Err(self
                .invalid(layout, format!("its runs end at {last}, expected {end}"))
                .into());
        }
        // Positive, as just checked.
        let all = || {
            bytes
                .chunks_exact(width)
                .filter_map(signed)
                .map(i64::unsigned_abs)
        };
        let from = all().take_while(|e| *e <= first).count();
        let count = if len == 0 {
            0
        } else {
            all()
                .skip(from)
                .take_while(|e| *e < end)
                .count()
                .saturating_add(1)
        };
        let rebased = self.shelf.with(count.saturating_mul(width), |out| {
            for run_end in all().skip(from).take(count) {
                out.extend_from_slice(
                    run_end
                        .min(end)
                        .saturating_sub(first)
                        .to_le_bytes()
                        .get(..width)
                        .unwrap_or_default(),
                );
            }
        });
        let ends = build(
            ends_layout,
            ArrayDataBuilder::new(ends_layout.data_type.clone())
                .len(count)
                .add_buffer(rebased),
        )?;
        let values = self.array(values_layout, &values, from as u64, count)?;
        if !values_layout.nullable && values.null_count() > 0 {
            return Err(Violation::Nulls {
                path: values_layout.path.to_string(),
                nulls: values.null_count(),
            }
            .into());
        }
        build(layout, builder.add_child_data(ends).add_child_data(values))
    }
}
