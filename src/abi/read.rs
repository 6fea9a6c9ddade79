//! Results out of guest memory: every number is checked, each buffer is copied once, and what was
//! copied is validated before an Arrow array exists.
//!
//! The walk follows the type, never the guest's structs, so nesting is bounded by the type and cycles
//! of pointers cannot be followed. Buffers are copied first and checked in host memory, where the
//! guest cannot change them any more. The final checks of values (UTF-8, offsets, keys, views, run
//! ends, union ids) are arrow's own `ArrayDataBuilder::build`; what it does not look at (decimal
//! digits, times of day, nulls of a type without any) is checked here.

mod buffers;
mod flat;
mod nested;
mod row_errors;

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayDataBuilder, ArrayRef, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::frame::{ARRAY_BYTES, read_i64, read_u32};
use super::layout::{Kind, Layout};
use super::recycle::Shelf;
use crate::error::{Fault, Violation};

pub(crate) use flat::holds_wild_values;
pub(crate) use row_errors::RowErrors;

/// Byte buffers that a view array may have.
const MAX_VIEW_BUFFERS: u64 = 1 << 16;
/// What a byte buffer of a view array costs the host beside its bytes.
const VIEW_BUFFER_COST: u64 = 128;

/// Reads results out of one state of guest memory.
pub(crate) struct Reader<'m> {
    memory: &'m [u8],
    shelf: &'m Arc<Shelf>,
    limit: u64,
    /// Bytes that may still be copied.
    budget: u64,
    /// Whether values outside their type's domain are let through.
    pardons_values: bool,
}

/// An `ArrowArray` of the guest, checked as far as the struct itself goes.
struct Raw {
    length: u64,
    null_count: i64,
    offset: u64,
    n_buffers: u64,
    buffers: u32,
    children: u32,
    dictionary: u32,
}

/// What the host knows of a result that stays in guest memory.
pub(crate) struct PassedOn {
    /// Where it is null by its own word.
    pub(crate) nulls: Option<NullBuffer>,
    /// Elements before its first.
    pub(crate) offset: u64,
    /// Addresses of its buffers.
    pub(crate) buffers: Vec<u32>,
    /// Its `ArrowArray`.
    pub(crate) bytes: Vec<u8>,
}

impl<'m> Reader<'m> {
    /// A reader that copies at most `limit` bytes.
    pub(crate) fn new(memory: &'m [u8], shelf: &'m Arc<Shelf>, limit: u64) -> Self {
        Reader {
            memory,
            shelf,
            limit,
            budget: limit,
            pardons_values: false,
        }
    }

    /// Lets values through that lie outside their type's domain: for a guest that was given such.
    pub(crate) fn pardoning_values(mut self) -> Self {
        self.pardons_values = true;
        self
    }

    /// Bytes copied so far.
    pub(crate) fn copied(&self) -> u64 {
        self.limit.saturating_sub(self.budget)
    }

    /// Reads the result of a call of `rows` rows. `mask` makes further rows null.
    pub(crate) fn result(
        &mut self,
        layout: &Layout,
        pointer: u32,
        rows: usize,
        mask: Option<&NullBuffer>,
    ) -> Result<ArrayRef, Fault> {
        let raw = self.raw_of(layout, pointer, rows)?;
        if let Kind::Fixed { width, domain } = layout.kind
            && layout.data_type.is_primitive()
        {
            return self.primitive(layout, &raw, rows, width, domain, mask);
        }
        if layout.data_type == DataType::Utf8 {
            return self.text(layout, &raw, rows, mask);
        }
        let data = self.array(layout, &raw, 0, rows)?;
        if !layout.nullable {
            check_nulls(layout, logical_nulls(layout, &data).as_ref(), mask)?;
        }
        let data = match mask.filter(|m| m.null_count() > 0) {
            Some(mask) => {
                let nulls = NullBuffer::union(data.nulls(), Some(mask));
                build(layout, data.into_builder().nulls(nulls))?
            }
            None => data,
        };
        Ok(make_array(data))
    }

    /// Reads of a result only what another call that gets it must be told.
    pub(crate) fn passed_on(
        &mut self,
        layout: &Layout,
        pointer: u32,
        rows: usize,
        mask: Option<&NullBuffer>,
    ) -> Result<PassedOn, Fault> {
        let raw = self.raw_of(layout, pointer, rows)?;
        let nulls = match layout.has_validity() {
            true => self.validity(layout, &raw, raw.offset, 0, rows)?,
            false => None,
        };
        if !layout.nullable {
            check_nulls(layout, nulls.as_ref(), mask)?;
        }
        let buffers = (0..layout.buffers())
            .map(|at| self.pointer(layout, &raw, at as u64))
            .collect::<Result<_, _>>()?;
        let bytes = self.bytes(layout, "the ArrowArray", pointer, ARRAY_BYTES as u64)?;
        Ok(PassedOn {
            nulls,
            offset: raw.offset,
            buffers,
            bytes: bytes.to_vec(),
        })
    }

    /// The struct of a result of so many rows.
    fn raw_of(&self, layout: &Layout, pointer: u32, rows: usize) -> Result<Raw, Violation> {
        let raw = self.raw(layout, pointer)?;
        if raw.length != rows as u64 {
            return Err(Violation::Rows {
                expected: rows as u64,
                found: i64::try_from(raw.length).unwrap_or(i64::MAX),
            });
        }
        Ok(raw)
    }

    fn raw(&self, layout: &Layout, pointer: u32) -> Result<Raw, Violation> {
        if pointer == 0 {
            return Err(self.invalid(
                layout,
                "its ArrowArray is missing: the pointer is 0".to_owned(),
            ));
        }
        let bytes = self.bytes(layout, "the ArrowArray", pointer, ARRAY_BYTES as u64)?;
        let long = |offset| read_i64(bytes, offset).unwrap_or(-1);
        let word = |offset| read_u32(bytes, offset).unwrap_or(0);
        let invalid = |reason: String| Violation::Array {
            path: layout.path.to_string(),
            data_type: layout.data_type.clone(),
            reason,
        };
        let unsigned = |name: &str, value: i64| {
            u64::try_from(value).map_err(|_| invalid(format!("its {name} is {value}")))
        };
        let raw = Raw {
            length: unsigned("length", long(0))?,
            null_count: long(8),
            offset: unsigned("offset", long(16))?,
            n_buffers: unsigned("n_buffers", long(24))?,
            buffers: word(40),
            children: word(44),
            dictionary: word(48),
        };
        let n_children = unsigned("n_children", long(32))?;
        if raw.null_count < -1 || i128::from(raw.null_count) > i128::from(raw.length) {
            return Err(invalid(format!(
                "its null_count is {} for {} elements",
                raw.null_count, raw.length
            )));
        }
        if raw
            .offset
            .checked_add(raw.length)
            .is_none_or(|end| end > i64::MAX.unsigned_abs())
        {
            return Err(invalid(format!(
                "its offset {} and length {} wrap",
                raw.offset, raw.length
            )));
        }
        let least = layout.buffers() as u64;
        let right = match layout.kind {
            Kind::Views => {
                raw.n_buffers >= least && raw.n_buffers.saturating_sub(least) <= MAX_VIEW_BUFFERS
            }
            _ => raw.n_buffers == least,
        };
        if !right {
            return Err(invalid(format!(
                "it has {} buffers, expected {least}",
                raw.n_buffers
            )));
        }
        if n_children != layout.child_count() as u64 {
            return Err(invalid(format!(
                "it has {n_children} children, expected {}",
                layout.child_count()
            )));
        }
        Ok(raw)
    }

    /// Reads the elements `start..start + len`, counted after the array's own offset.
    fn array(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        start: u64,
        len: usize,
    ) -> Result<ArrayData, Fault> {
        let wide = len as u64;
        // Elements without bytes cost nothing to claim, but later kernels may make room for each.
        if wide > self.limit {
            return Err(Fault::OutputTooLarge { limit: self.limit });
        }
        if start.checked_add(wide).is_none_or(|end| end > raw.length) {
            return Err(self
                .invalid(
                    layout,
                    format!(
                        "it has {} elements, expected {}",
                        raw.length,
                        start.saturating_add(wide)
                    ),
                )
                .into());
        }
        let first = raw
            .offset
            .checked_add(start)
            .ok_or_else(|| self.invalid(layout, "its offset wraps".to_owned()))?;
        let nulls = if layout.has_validity() {
            self.validity(layout, raw, first, start, len)?
        } else {
            None
        };
        let mut builder = ArrayDataBuilder::new(layout.data_type.clone())
            .len(len)
            .nulls(nulls.clone());
        let data = match layout.kind {
            Kind::Null => build(layout, builder)?,
            Kind::Bits => {
                let bits = self.bits(
                    layout,
                    "the values",
                    self.pointer(layout, raw, 1)?,
                    first,
                    len,
                )?;
                build(layout, builder.add_buffer(bits))?
            }
            Kind::Fixed { width, domain } => {
                let values = self.elements(
                    layout,
                    "the values",
                    self.pointer(layout, raw, 1)?,
                    first,
                    len,
                    width,
                )?;
                let data = build(layout, builder.add_buffer(values))?;
                self.domain(layout, domain, &data)?;
                data
            }
            Kind::Bytes { offsets } => {
                let (offsets, from, to) = self.offsets(layout, raw, first, len, offsets)?;
                let pointer = self.pointer(layout, raw, 2)?;
                let bytes = self.window(layout, "the bytes", pointer, from, to)?;
                build(layout, builder.add_buffer(offsets).add_buffer(bytes))?
            }
            Kind::Views => self.views(layout, raw, first, len, nulls.as_ref(), builder)?,
            Kind::List { offsets } => {
                let (offsets, from, to) = self.offsets(layout, raw, first, len, offsets)?;
                let child =
                    self.child(layout, raw, 0, from, self.count(to.saturating_sub(from))?)?;
                if let Some(of) = layout.children.first()
                    && matches!(of.kind, Kind::Dictionary { .. } | Kind::RunEnds { .. })
                {
                    Self::check_child(of, &child)?;
                }
                build(layout, builder.add_buffer(offsets).add_child_data(child))?
            }
            Kind::ListView { offsets } => {
                self.list_view(layout, raw, first, len, offsets, builder)?
            }
            Kind::FixedList { size } => {
                let from = first
                    .checked_mul(size as u64)
                    .ok_or_else(|| self.invalid(layout, "its offset wraps".to_owned()))?;
                let count = len
                    .checked_mul(size)
                    .ok_or(Fault::OutputTooLarge { limit: self.limit })?;
                let child = self.child(layout, raw, 0, from, count)?;
                build(layout, builder.add_child_data(child))?
            }
            Kind::Struct => {
                for i in 0..layout.children.len() {
                    builder = builder.add_child_data(self.child(layout, raw, i, first, len)?);
                }
                build(layout, builder)?
            }
            Kind::SparseUnion => {
                let ids = self.elements(
                    layout,
                    "the type ids",
                    self.pointer(layout, raw, 0)?,
                    first,
                    len,
                    1,
                )?;
                builder = builder.add_buffer(ids);
                for (i, of) in layout.children.iter().enumerate() {
                    let child = self.child(layout, raw, i, first, len)?;
                    Self::check_child(of, &child)?;
                    builder = builder.add_child_data(child);
                }
                build(layout, builder)?
            }
            Kind::DenseUnion => self.dense_union(layout, raw, first, len, builder)?,
            Kind::RunEnds { ends } => self.run_ends(layout, raw, first, len, ends, builder)?,
            Kind::Dictionary { keys } => {
                let values_layout = layout
                    .children
                    .first()
                    .ok_or_else(|| self.invalid(layout, "it has no values".to_owned()))?;
                let values_raw = self.raw(values_layout, raw.dictionary)?;
                let values = self.array(
                    values_layout,
                    &values_raw,
                    0,
                    self.count(values_raw.length)?,
                )?;
                let bytes = self.elements_at(
                    layout,
                    "the keys",
                    self.pointer(layout, raw, 1)?,
                    first,
                    len,
                    keys.width,
                )?;
                // Keys under nulls may be anything; kernels that skip validity must not stumble over them.
                let zero = [0_u8; 8];
                let zero = zero.get(..keys.width).unwrap_or_default();
                let keys = match &nulls {
                    Some(nulls) => self.shelf.with(bytes.len(), |out| {
                        for (key, valid) in bytes.chunks_exact(keys.width).zip(nulls.iter()) {
                            out.extend_from_slice(if valid { key } else { zero });
                        }
                    }),
                    None => self.shelf.copy(bytes),
                };
                build(layout, builder.add_buffer(keys).add_child_data(values))?
            }
        };
        Ok(data)
    }

    /// Reads a child's window.
    fn child(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        index: usize,
        start: u64,
        len: usize,
    ) -> Result<ArrayData, Fault> {
        let child = layout
            .children
            .get(index)
            .ok_or_else(|| self.invalid(layout, "it has too few children".to_owned()))?;
        let pointer = self.child_pointer(layout, raw, index)?;
        let raw = self.raw(child, pointer)?;
        self.array(child, &raw, start, len)
    }

    fn child_pointer(&self, layout: &Layout, raw: &Raw, index: usize) -> Result<u32, Violation> {
        let at = u64::from(raw.children).saturating_add((index as u64).saturating_mul(4));
        read_u32(self.memory, at)
            .ok_or_else(|| self.outside(layout, "the table of children", raw.children, 4))
    }

    /// The pointer of a buffer.
    fn pointer(&self, layout: &Layout, raw: &Raw, index: u64) -> Result<u32, Violation> {
        let at = u64::from(raw.buffers).saturating_add(index.saturating_mul(4));
        read_u32(self.memory, at).ok_or_else(|| {
            self.outside(
                layout,
                "the table of buffers",
                raw.buffers,
                raw.n_buffers.saturating_mul(4),
            )
        })
    }
}

/// Refuses nulls in a result without any; those that the host puts there anyway are no lie.
fn check_nulls(
    layout: &Layout,
    nulls: Option<&NullBuffer>,
    mask: Option<&NullBuffer>,
) -> Result<(), Violation> {
    match nulls {
        Some(nulls) if nulls.null_count() > 0 && !mask.is_some_and(|mask| mask.contains(nulls)) => {
            Err(Violation::Nulls {
                path: layout.path.to_string(),
                nulls: nulls.null_count(),
            })
        }
        _ => Ok(()),
    }
}

/// Lets arrow validate an array, values included.
fn build(layout: &Layout, builder: ArrayDataBuilder) -> Result<ArrayData, Fault> {
    builder.build().map_err(|e| {
        let reason = match e {
            arrow::error::ArrowError::InvalidArgumentError(reason) => reason,
            other => other.to_string(),
        };
        Violation::Array {
            path: layout.path.to_string(),
            data_type: layout.data_type.clone(),
            reason,
        }
        .into()
    })
}

/// Nulls of an array, those of dictionary values and runs included. A union has none of its own: its
/// children's are declared by the children.
fn logical_nulls(layout: &Layout, data: &ArrayData) -> Option<NullBuffer> {
    match layout.kind {
        Kind::Dictionary { .. } | Kind::RunEnds { .. } | Kind::Null => {
            make_array(data.clone()).logical_nulls()
        }
        _ => data.nulls().cloned(),
    }
}

/// A little-endian signed integer of up to eight bytes.
fn signed(bytes: &[u8]) -> Option<i64> {
    Some(match bytes.len() {
        2 => i64::from(i16::from_le_bytes(bytes.try_into().ok()?)),
        4 => i64::from(i32::from_le_bytes(bytes.try_into().ok()?)),
        8 => i64::from_le_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}
