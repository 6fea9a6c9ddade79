//! Buffers out of guest memory: found, measured against the budget, copied.

use arrow::array::ArrayData;
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::super::frame::bytes_at;
use super::super::layout::{Layout, Width};
use super::{Raw, Reader, check_nulls, logical_nulls, signed};
use crate::error::{Fault, Violation};

impl<'m> Reader<'m> {
    pub(super) fn validity(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        first: u64,
        start: u64,
        len: usize,
    ) -> Result<Option<NullBuffer>, Fault> {
        let pointer = self.pointer(layout, raw, 0)?;
        if pointer == 0 {
            if raw.null_count > 0 {
                return Err(self
                    .invalid(
                        layout,
                        format!(
                            "its null_count is {} and it has no validity bitmap",
                            raw.null_count
                        ),
                    )
                    .into());
            }
            return Ok(None);
        }
        if len == 0 {
            return Ok(None);
        }
        let bits = self.bits(layout, "the validity", pointer, first, len)?;
        let nulls = NullBuffer::new(BooleanBuffer::new(bits, 0, len));
        if raw.null_count >= 0 {
            let whole = start == 0 && len as u64 == raw.length;
            let claimed = raw.null_count.unsigned_abs();
            let found = nulls.null_count() as u64;
            if (whole && claimed != found) || found > claimed {
                return Err(self
                    .invalid(
                        layout,
                        format!("its null_count is {claimed} and {found} bits say null"),
                    )
                    .into());
            }
        }
        Ok(Some(nulls).filter(|n| n.null_count() > 0))
    }

    /// Copies bits so that the first is bit 0.
    pub(super) fn bits(
        &mut self,
        layout: &Layout,
        what: &'static str,
        pointer: u32,
        first: u64,
        len: usize,
    ) -> Result<Buffer, Fault> {
        let shift = first % 8;
        let bytes = shift.saturating_add(len as u64).div_ceil(8);
        let from = u64::from(pointer).saturating_add(first / 8);
        let source = self.spend(layout, what, pointer, from, bytes)?;
        let copied = self.shelf.copy(source);
        Ok(match usize::try_from(shift) {
            Ok(0) => copied,
            Ok(shift) => BooleanBuffer::new(copied, shift, len).sliced(),
            Err(_) => return Err(Fault::OutputTooLarge { limit: self.limit }),
        })
    }

    /// Copies `len` elements of `width` bytes.
    pub(super) fn elements(
        &mut self,
        layout: &Layout,
        what: &'static str,
        pointer: u32,
        first: u64,
        len: usize,
        width: usize,
    ) -> Result<Buffer, Fault> {
        let shelf = self.shelf;
        Ok(shelf.copy(self.elements_at(layout, what, pointer, first, len, width)?))
    }

    pub(super) fn elements_at(
        &mut self,
        layout: &Layout,
        what: &'static str,
        pointer: u32,
        first: u64,
        len: usize,
        width: usize,
    ) -> Result<&'m [u8], Fault> {
        if len == 0 || width == 0 {
            return Ok(&[]);
        }
        let from = first
            .checked_mul(width as u64)
            .and_then(|n| n.checked_add(u64::from(pointer)));
        let bytes = (len as u64).checked_mul(width as u64);
        match (from, bytes) {
            (Some(from), Some(bytes)) => self.spend(layout, what, pointer, from, bytes),
            _ => Err(self.outside(layout, what, pointer, u64::MAX).into()),
        }
    }

    /// Copies the bytes `from..to` behind a pointer.
    pub(super) fn window(
        &mut self,
        layout: &Layout,
        what: &'static str,
        pointer: u32,
        from: u64,
        to: u64,
    ) -> Result<Buffer, Fault> {
        if from == to {
            return Ok(Buffer::default());
        }
        let shelf = self.shelf;
        let at = u64::from(pointer)
            .checked_add(from)
            .ok_or_else(|| self.outside(layout, what, pointer, to))?;
        Ok(shelf.copy(self.spend(layout, what, pointer, at, to.saturating_sub(from))?))
    }

    /// Copies `len + 1` offsets, rebased to begin with 0; gives the range of what they reach.
    pub(super) fn offsets(
        &mut self,
        layout: &Layout,
        raw: &Raw,
        first: u64,
        len: usize,
        width: Width,
    ) -> Result<(Buffer, u64, u64), Fault> {
        if len == 0 {
            return Ok((Buffer::from(vec![0_u64]), 0, 0));
        }
        let count = len
            .checked_add(1)
            .ok_or(Fault::OutputTooLarge { limit: self.limit })?;
        let pointer = self.pointer(layout, raw, 1)?;
        let bytes =
            self.elements_at(layout, "the offsets", pointer, first, count, width.bytes())?;
        let from = bytes.get(..width.bytes()).and_then(signed);
        let to = bytes
            .len()
            .checked_sub(width.bytes())
            .and_then(|at| bytes.get(at..))
            .and_then(signed);
        let (Some(from), Some(to)) = (from, to) else {
            return Err(self
                .invalid(layout, "its offsets are missing".to_owned())
                .into());
        };
        let (Ok(from_wide), Ok(to_wide)) = (u64::try_from(from), u64::try_from(to)) else {
            return Err(self
                .invalid(layout, format!("its offsets run from {from} to {to}"))
                .into());
        };
        if from_wide > to_wide {
            return Err(self
                .invalid(layout, format!("its offsets run from {from} down to {to}"))
                .into());
        }
        let buffer = if from == 0 {
            self.shelf.copy(bytes)
        } else {
            // A wrapped difference is negative or too large, and fails arrow's check of the offsets.
            self.shelf.with(bytes.len(), |out| {
                for offset in bytes.chunks_exact(width.bytes()) {
                    let rebased = signed(offset)
                        .unwrap_or(-1)
                        .wrapping_sub(from)
                        .to_le_bytes();
                    out.extend_from_slice(rebased.get(..width.bytes()).unwrap_or_default());
                }
            })
        };
        Ok((buffer, from_wide, to_wide))
    }

    /// Takes what an object costs the host from the bytes that may still be copied.
    pub(super) fn charge(&mut self, bytes: u64) -> Result<(), Fault> {
        self.budget = self
            .budget
            .checked_sub(bytes)
            .ok_or(Fault::OutputTooLarge { limit: self.limit })?;
        Ok(())
    }

    /// Refuses nulls in a child whose type has none, where arrow does not look.
    pub(super) fn check_child(layout: &Layout, data: &ArrayData) -> Result<(), Violation> {
        if layout.nullable {
            return Ok(());
        }
        check_nulls(layout, logical_nulls(layout, data).as_ref(), None)
    }

    /// A length that the host will hold.
    pub(super) fn count(&self, length: u64) -> Result<usize, Fault> {
        usize::try_from(length)
            .ok()
            .filter(|_| length <= self.limit)
            .ok_or(Fault::OutputTooLarge { limit: self.limit })
    }

    /// Bytes of guest memory that are about to be copied.
    pub(super) fn spend(
        &mut self,
        layout: &Layout,
        what: &'static str,
        pointer: u32,
        at: u64,
        len: u64,
    ) -> Result<&'m [u8], Fault> {
        if pointer == 0 {
            return Err(self
                .invalid(
                    layout,
                    format!("{what} are missing: {len} bytes expected, the pointer is 0"),
                )
                .into());
        }
        let Some(bytes) = bytes_at(self.memory, at, len) else {
            return Err(self
                .outside(layout, what, u32::try_from(at).unwrap_or(u32::MAX), len)
                .into());
        };
        self.budget = self
            .budget
            .checked_sub(len)
            .ok_or(Fault::OutputTooLarge { limit: self.limit })?;
        Ok(bytes)
    }

    pub(super) fn bytes(
        &self,
        layout: &Layout,
        what: &'static str,
        pointer: u32,
        len: u64,
    ) -> Result<&'m [u8], Violation> {
        bytes_at(self.memory, u64::from(pointer), len)
            .ok_or_else(|| self.outside(layout, what, pointer, len))
    }

    pub(super) fn outside(
        &self,
        layout: &Layout,
        what: &'static str,
        pointer: u32,
        bytes: u64,
    ) -> Violation {
        Violation::Bounds {
            what,
            path: layout.path.to_string(),
            pointer,
            bytes,
            memory: self.memory.len() as u64,
        }
    }

    #[allow(clippy::unused_self, reason = "reads better beside `outside`")]
    pub(super) fn invalid(&self, layout: &Layout, reason: String) -> Violation {
        Violation::Array {
            path: layout.path.to_string(),
            data_type: layout.data_type.clone(),
            reason,
        }
    }
}
