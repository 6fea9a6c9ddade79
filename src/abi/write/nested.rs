//! Arguments whose buffers point into each other: views, list views, unions, runs.

use arrow::array::ArrayData;
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

use super::super::frame::{ARRAY_BYTES, STRUCT_ALIGN};
use super::super::layout::{Layout, RunEnds, Width};
use super::{Piece, WriteError, Writer, child, elements, integer, short, too_large};

impl Writer<'_> {
    /// Writes offsets and sizes of a list view, rebased to the window of the child that they reach;
    /// gives that window.
    pub(super) fn list_view(
        &mut self,
        data: &ArrayData,
        first: usize,
        len: usize,
        width: Width,
        buffers: Piece,
    ) -> Result<(usize, usize), WriteError> {
        let offsets = elements(data, 0, first, len, width.bytes())?;
        let sizes = elements(data, 1, first, len, width.bytes())?;
        let pairs = || {
            offsets
                .chunks_exact(width.bytes())
                .zip(sizes.chunks_exact(width.bytes()))
                .map(|(o, s)| (integer(o), integer(s)))
        };
        let mut from = usize::MAX;
        let mut to = 0;
        for (offset, size) in pairs().filter(|(_, size)| *size > 0) {
            from = from.min(offset);
            to = to.max(offset.saturating_add(size));
        }
        from = from.min(to);
        let at = self.buffer(offsets.len())?;
        if let Some(place) = self.bytes(at) {
            for (place, (offset, size)) in place.chunks_exact_mut(width.bytes()).zip(pairs()) {
                let rebased = if size == 0 {
                    0
                } else {
                    offset.saturating_sub(from)
                };
                if let Some(bytes) = (rebased as u64).to_le_bytes().get(..width.bytes()) {
                    place.copy_from_slice(bytes);
                }
            }
        }
        let at = self.address(at)?;
        self.put_u32(buffers, 4, at);
        let at = self.copy(sizes)?;
        self.put_u32(buffers, 8, at);
        Ok((from, to.saturating_sub(from)))
    }

    /// Writes type ids and offsets; gives the window that each child is reached in.
    pub(super) fn dense_union(
        &mut self,
        layout: &Layout,
        data: &ArrayData,
        first: usize,
        len: usize,
        buffers: Piece,
    ) -> Result<Vec<(usize, usize)>, WriteError> {
        let ids = elements(data, 0, first, len, 1)?;
        let offsets = elements(data, 1, first, len, 4)?;
        let at = self.copy(ids)?;
        self.put_u32(buffers, 0, at);
        let DataType::Union(fields, _) = &layout.data_type else {
            return Err(short());
        };
        let mut child_of = [None; 256];
        for (i, (id, _)) in fields.iter().enumerate() {
            if let Some(child) = child_of.get_mut(usize::from(id.to_le_bytes()[0])) {
                *child = Some(i);
            }
        }
        let pairs = || {
            ids.iter().zip(offsets.chunks_exact(4)).map(|(id, offset)| {
                (
                    child_of.get(usize::from(*id)).copied().flatten(),
                    integer(offset),
                )
            })
        };
        let mut windows = vec![(usize::MAX, 0_usize); layout.children.len()];
        for (child, offset) in pairs() {
            let window = child.and_then(|c| windows.get_mut(c)).ok_or_else(short)?;
            *window = (window.0.min(offset), window.1.max(offset.saturating_add(1)));
        }
        for window in &mut windows {
            let from = window.0.min(window.1);
            *window = (from, window.1.saturating_sub(from));
        }
        let piece = self.buffer(offsets.len())?;
        if let Some(place) = self.bytes(piece) {
            for (place, (child, offset)) in place.chunks_exact_mut(4).zip(pairs()) {
                let from = child.and_then(|c| windows.get(c)).map_or(0, |w| w.0);
                let rebased =
                    u32::try_from(offset.saturating_sub(from)).map_err(|_| too_large())?;
                place.copy_from_slice(&rebased.to_le_bytes());
            }
        }
        let at = self.address(piece)?;
        self.put_u32(buffers, 4, at);
        Ok(windows)
    }

    /// Writes the run ends that cover a slice, rebased and the last cut; gives the address of their
    /// `ArrowArray` and the window of the values.
    pub(super) fn run_ends(
        &mut self,
        data: &ArrayData,
        first: usize,
        len: usize,
        kind: RunEnds,
    ) -> Result<(u32, (usize, usize)), WriteError> {
        let ends = child(data, 0)?;
        let width = match kind {
            RunEnds::Int16 => 2,
            RunEnds::Int32 => 4,
            RunEnds::Int64 => 8,
        };
        let bytes = elements(ends, 0, ends.offset(), ends.len(), width)?;
        let all = || bytes.chunks_exact(width).map(integer);
        let end = first.saturating_add(len);
        let from = all().take_while(|e| *e <= first).count();
        let runs = if len == 0 {
            0
        } else {
            all()
                .skip(from)
                .take_while(|e| *e < end)
                .count()
                .saturating_add(1)
        };
        let (array, address) = self.structure(ARRAY_BYTES)?;
        let buffers = self.reserve(8, STRUCT_ALIGN)?;
        let piece = self.buffer(runs.saturating_mul(width))?;
        if let Some(place) = self.bytes(piece) {
            for (place, run_end) in place
                .chunks_exact_mut(width)
                .zip(all().skip(from).take(runs))
            {
                let rebased = (run_end.min(end).saturating_sub(first) as u64).to_le_bytes();
                if let Some(rebased) = rebased.get(..width) {
                    place.copy_from_slice(rebased);
                }
            }
        }
        let at = self.address(piece)?;
        self.put_u32(buffers, 0, 0);
        self.put_u32(buffers, 4, at);
        let at = self.address(buffers)?;
        self.put_u64(array, 0, runs as u64);
        self.put_u64(array, 24, 2);
        self.put_u32(array, 40, at);
        Ok((address, (from, runs)))
    }

    /// Writes views with the buffers they point into; gives the table of buffers and their number.
    ///
    /// When less than half of the bytes are referenced, only the referenced ones are written.
    pub(super) fn views(
        &mut self,
        data: &ArrayData,
        views: &[u8],
    ) -> Result<(Piece, usize), WriteError> {
        let sources = data.buffers().get(1..).unwrap_or_default();
        let held: usize = sources
            .iter()
            .map(Buffer::len)
            .fold(0, usize::saturating_add);
        let long = || views.chunks_exact(16).filter_map(View::new);
        let referenced: usize = if held == 0 {
            0
        } else {
            long().map(|v| v.len).fold(0, usize::saturating_add)
        };
        if referenced >= held / 2 && held > 0 {
            let at = self.copy(views)?;
            let table = self.reserve(
                sources.len().saturating_add(3).saturating_mul(4),
                STRUCT_ALIGN,
            )?;
            let mut lengths = Vec::with_capacity(sources.len().saturating_mul(8));
            for (i, source) in sources.iter().enumerate() {
                let at = self.copy(source)?;
                self.put_u32(table, i.saturating_add(2).saturating_mul(4), at);
                lengths.extend_from_slice(&(source.len() as u64).to_le_bytes());
            }
            let lengths = self.copy(&lengths)?;
            self.put_u32(table, 4, at);
            self.put_u32(
                table,
                sources.len().saturating_add(2).saturating_mul(4),
                lengths,
            );
            return Ok((table, sources.len().saturating_add(3)));
        }
        let views_piece = self.buffer(views.len())?;
        let bytes_piece = self.buffer(referenced)?;
        let count = usize::from(referenced > 0);
        let mut next = 0_usize;
        for (i, view) in views.chunks_exact(16).enumerate() {
            let mut compacted: [u8; 16] = view.try_into().map_err(|_| short())?;
            if let Some(view) = View::new(view).filter(|_| held > 0) {
                let bytes = sources
                    .get(view.buffer)
                    .and_then(|b| b.get(view.offset..view.offset.checked_add(view.len)?))
                    .ok_or_else(short)?;
                let end = next.saturating_add(view.len);
                if let Some(place) = self.bytes(bytes_piece).and_then(|b| b.get_mut(next..end)) {
                    place.copy_from_slice(bytes);
                }
                compacted = view.at(u32::try_from(next).map_err(|_| too_large())?);
                next = end;
            }
            let at = i.saturating_mul(16);
            if let Some(place) = self
                .bytes(views_piece)
                .and_then(|b| b.get_mut(at..at.saturating_add(16)))
            {
                place.copy_from_slice(&compacted);
            }
        }
        let table = self.reserve(count.saturating_add(3).saturating_mul(4), STRUCT_ALIGN)?;
        let lengths = self.copy(&(referenced as u64).to_le_bytes())?;
        let (views_at, bytes_at) = (self.address(views_piece)?, self.address(bytes_piece)?);
        self.put_u32(table, 4, views_at);
        if count == 1 {
            self.put_u32(table, 8, bytes_at);
        }
        self.put_u32(table, count.saturating_add(2).saturating_mul(4), lengths);
        Ok((table, count.saturating_add(3)))
    }
}

/// A view that points into a buffer.
struct View {
    len: usize,
    prefix: [u8; 4],
    buffer: usize,
    offset: usize,
}

impl View {
    /// `None` for a short one, which holds its bytes itself.
    fn new(bytes: &[u8]) -> Option<Self> {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (prefix, rest) = rest.split_first_chunk::<4>()?;
        let (buffer, offset) = rest.split_first_chunk::<4>()?;
        let len = integer(len);
        (len > 12).then(|| View {
            len,
            prefix: *prefix,
            buffer: integer(buffer),
            offset: integer(offset),
        })
    }

    /// The same bytes at another place of buffer 0.
    fn at(&self, offset: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        let len = u32::try_from(self.len).unwrap_or(u32::MAX).to_le_bytes();
        for (place, byte) in bytes.iter_mut().zip(
            len.into_iter()
                .chain(self.prefix)
                .chain([0; 4])
                .chain(offset.to_le_bytes()),
        ) {
            *place = byte;
        }
        bytes
    }
}
