//! Arrays into guest memory: one copy, slices compacted, offsets rebased to 0.
//!
//! A [`Writer`] fills an arena that the guest has allocated. When the arena turns out too small it
//! goes on counting without writing, so that one walk both writes and measures: after warm-up no batch
//! is walked twice.

mod nested;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, downcast_primitive};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use arrow::util::bit_chunk_iterator::BitChunks;

use super::frame::{self, ARRAY_BYTES, BUFFER_ALIGN, STRUCT_ALIGN};
use super::layout::{Kind, Layout, Width};
use super::recycle::copy_in_steps;

/// Why an array cannot be written. Host arrays are valid, so this is rare.
pub(crate) type WriteError = String;

/// Addresses of dictionary values that already lie in guest memory, in the order in which
/// [`dictionary_values`] finds them.
pub(crate) type Dictionaries<'a> = std::slice::Iter<'a, u32>;

/// An array to be written. Most columns are primitive or text, and their buffers are at hand without
/// the detour over `ArrayData`, which costs as much as a short call.
pub(crate) enum Source {
    Primitive {
        values: Buffer,
        nulls: Option<NullBuffer>,
    },
    Text {
        offsets: Buffer,
        bytes: Buffer,
        nulls: Option<NullBuffer>,
    },
    Data(ArrayData),
}

impl Source {
    pub(crate) fn new(array: &ArrayRef) -> Self {
        macro_rules! primitive {
            ($type:ty) => {{
                let array = array.as_primitive::<$type>();
                Source::Primitive {
                    values: array.values().inner().clone(),
                    nulls: array.nulls().cloned(),
                }
            }};
        }
        downcast_primitive! {
            array.data_type() => (primitive),
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Source::Text {
                    offsets: array.offsets().inner().inner().clone(),
                    bytes: array.values().clone(),
                    nulls: array.nulls().cloned(),
                }
            }
            _ => Source::Data(array.to_data())
        }
    }

    /// The array, whatever its kind.
    pub(crate) fn to_data(&self, layout: &Layout) -> Option<ArrayData> {
        let (Source::Primitive { values, nulls }, Kind::Fixed { width, .. }) = (self, layout.kind)
        else {
            return self.data().cloned();
        };
        ArrayData::builder(layout.data_type.clone())
            .len(values.len().checked_div(width)?)
            .add_buffer(values.clone())
            .nulls(nulls.clone())
            .build()
            .ok()
    }

    /// The array, where it is of another kind.
    pub(crate) fn data(&self) -> Option<&ArrayData> {
        match self {
            Source::Primitive { .. } | Source::Text { .. } => None,
            Source::Data(data) => Some(data),
        }
    }
}

/// Fills an arena in guest memory.
pub(crate) struct Writer<'m> {
    arena: &'m mut [u8],
    /// The guest address of the arena, a multiple of 64.
    base: u32,
    /// Bytes used; beyond the arena's length when it was too small.
    used: usize,
}

/// Where a call's frame and its answer lie in guest memory.
pub(crate) struct CallPlaces {
    pub(crate) frame: u32,
    pub(crate) result: u32,
    pub(crate) row_errors: u32,
}

/// A reserved piece of the arena.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    at: usize,
    len: usize,
}

impl<'m> Writer<'m> {
    pub(crate) fn new(arena: &'m mut [u8], base: u32) -> Self {
        Writer {
            arena,
            base,
            used: 0,
        }
    }

    /// Bytes that all that was written takes, whether it fitted or not.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Reserves a piece, not initialised.
    pub(crate) fn reserve(&mut self, len: usize, align: usize) -> Result<Piece, WriteError> {
        let at = self
            .used
            .checked_next_multiple_of(align)
            .ok_or_else(too_large)?;
        self.used = at
            .checked_add(len)
            .filter(|end| *end <= i32::MAX.as_usize())
            .ok_or_else(too_large)?;
        Ok(Piece { at, len })
    }

    /// The guest address of a piece.
    pub(crate) fn address(&self, piece: Piece) -> Result<u32, WriteError> {
        u32::try_from(piece.at)
            .ok()
            .and_then(|at| self.base.checked_add(at))
            .ok_or_else(too_large)
    }

    /// The bytes of a piece; `None` when the arena is too small for it.
    pub(crate) fn bytes(&mut self, piece: Piece) -> Option<&mut [u8]> {
        self.arena
            .get_mut(piece.at..piece.at.checked_add(piece.len)?)
    }

    /// Reserves zeroed bytes for a struct.
    pub(crate) fn structure(&mut self, len: usize) -> Result<(Piece, u32), WriteError> {
        let piece = self.reserve(len, STRUCT_ALIGN)?;
        if let Some(bytes) = self.bytes(piece) {
            bytes.fill(0);
        }
        Ok((piece, self.address(piece)?))
    }

    /// Sets a field of a struct.
    pub(crate) fn put_u32(&mut self, piece: Piece, offset: usize, value: u32) {
        self.put(piece, offset, &value.to_le_bytes());
    }

    /// Sets a field of a struct.
    pub(crate) fn put_u64(&mut self, piece: Piece, offset: usize, value: u64) {
        self.put(piece, offset, &value.to_le_bytes());
    }

    fn put(&mut self, piece: Piece, offset: usize, value: &[u8]) {
        let place = self
            .bytes(piece)
            .and_then(|bytes| bytes.get_mut(offset..offset.checked_add(value.len())?));
        if let Some(place) = place {
            place.copy_from_slice(value);
        }
    }

    /// Writes the frame of a call, with room for its answer and a table for its arguments.
    pub(crate) fn call(
        &mut self,
        binding: u32,
        state: u32,
        rows: usize,
        arguments: usize,
    ) -> Result<(Piece, CallPlaces), WriteError> {
        let count = u32::try_from(arguments).map_err(|_| "too many arguments".to_owned())?;
        let (call, frame) = self.structure(frame::call::BYTES)?;
        let (_, result) = self.structure(ARRAY_BYTES)?;
        let (_, row_errors) = self.structure(ARRAY_BYTES)?;
        let (table, table_at) = self.structure(arguments.saturating_mul(8))?;
        self.put_u32(call, frame::call::SIZE, frame::call::SIZE_FIELD);
        self.put_u32(call, frame::call::BINDING, binding);
        self.put_u32(call, frame::call::STATE, state);
        self.put_u64(call, frame::call::ROWS, rows as u64);
        self.put_u32(call, frame::call::ARG_COUNT, count);
        self.put_u32(call, frame::call::ARGS, table_at);
        self.put_u32(call, frame::call::RESULT, result);
        self.put_u32(call, frame::call::ROW_ERRORS, row_errors);
        let places = CallPlaces {
            frame,
            result,
            row_errors,
        };
        Ok((table, places))
    }

    /// Fills in an argument of a call.
    pub(crate) fn put_argument(&mut self, table: Piece, index: usize, array: u32, flags: u32) {
        let at = index.saturating_mul(8);
        self.put_u32(table, at, array);
        self.put_u32(table, at.saturating_add(4), flags);
    }

    /// Copies bytes into a buffer of their own and gives its address.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Result<u32, WriteError> {
        let piece = self.buffer(bytes.len())?;
        if let Some(place) = self.bytes(piece).and_then(|p| p.get_mut(..bytes.len())) {
            copy_in_steps(place, bytes);
        }
        self.address(piece)
    }

    /// Reserves a buffer: aligned, and rounded up so that whole cache lines may be read.
    fn buffer(&mut self, len: usize) -> Result<Piece, WriteError> {
        let rounded = len
            .checked_next_multiple_of(BUFFER_ALIGN)
            .ok_or_else(too_large)?;
        self.reserve(rounded, BUFFER_ALIGN)
    }

    /// Writes the elements `start..start + len` of a column and gives the address of its `ArrowArray`.
    pub(crate) fn source(
        &mut self,
        layout: &Layout,
        source: &Source,
        start: usize,
        len: usize,
        dictionaries: &mut Dictionaries<'_>,
    ) -> Result<u32, WriteError> {
        let nulls = match source {
            Source::Primitive { nulls, .. } | Source::Text { nulls, .. } => nulls,
            Source::Data(data) => return self.array(layout, data, start, len, dictionaries),
        };
        let (array, address) = self.structure(ARRAY_BYTES)?;
        let (buffers, buffers_at) = self.structure(12)?;
        let nulls = nulls
            .as_ref()
            .map(|nulls| nulls.slice(start, len))
            .filter(|nulls| nulls.null_count() > 0);
        if let Some(nulls) = &nulls {
            let at = self.bits(nulls.buffer(), nulls.offset(), len)?;
            self.put_u32(buffers, 0, at);
            self.put_u64(array, 8, nulls.null_count() as u64);
        }
        match (source, layout.kind) {
            (Source::Primitive { values, .. }, Kind::Fixed { width, .. }) => {
                let at = self.copy(range(values, start, len, width)?)?;
                self.put_u32(buffers, 4, at);
            }
            (Source::Text { offsets, bytes, .. }, Kind::Bytes { offsets: width }) => {
                let (at, from, to) = self.offsets(offsets, start, len, width)?;
                self.put_u32(buffers, 4, at);
                let at = self.copy(bytes.get(from..to).ok_or_else(short)?)?;
                self.put_u32(buffers, 8, at);
            }
            _ => return Err("a column is not of the type that was bound".to_owned()),
        }
        self.put_u64(array, 0, len as u64);
        self.put_u64(array, 24, layout.buffers() as u64);
        self.put_u32(array, 40, buffers_at);
        Ok(address)
    }

    /// Writes the elements `start..start + len` of an array and gives the address of its `ArrowArray`.
    pub(crate) fn array(
        &mut self,
        layout: &Layout,
        data: &ArrayData,
        start: usize,
        len: usize,
        dictionaries: &mut Dictionaries<'_>,
    ) -> Result<u32, WriteError> {
        let (array, address) = self.structure(ARRAY_BYTES)?;
        let buffers = self.reserve(layout.buffers().saturating_mul(4), STRUCT_ALIGN)?;
        let mut n_buffers = layout.buffers();
        let mut buffers_at = self.address(buffers)?;
        let mut null_count = 0;
        if matches!(layout.kind, Kind::Null) {
            null_count = len;
        }
        if layout.has_validity() {
            let nulls = data
                .nulls()
                .map(|nulls| nulls.slice(start, len))
                .filter(|nulls| nulls.null_count() > 0);
            let at = match &nulls {
                Some(nulls) => {
                    null_count = nulls.null_count();
                    self.bits(nulls.buffer(), nulls.offset(), len)?
                }
                None => 0,
            };
            self.put_u32(buffers, 0, at);
        }
        // Elements of the buffers begin here.
        let first = data.offset().checked_add(start).ok_or_else(too_large)?;
        let mut child_windows: Vec<(usize, usize)> = Vec::new();
        match layout.kind {
            Kind::Null => {}
            Kind::Bits => {
                let at = self.bits(buffer(data, 0)?, first, len)?;
                self.put_u32(buffers, 4, at);
            }
            Kind::Fixed { width, .. } => {
                let at = self.copy(elements(data, 0, first, len, width)?)?;
                self.put_u32(buffers, 4, at);
            }
            Kind::Dictionary { keys } => {
                let at = self.copy(elements(data, 0, first, len, keys.width)?)?;
                self.put_u32(buffers, 4, at);
                let values = match dictionaries.next() {
                    Some(address) => *address,
                    None => {
                        let (layout, values) = (only_child(layout)?, child(data, 0)?);
                        self.array(layout, values, 0, values.len(), dictionaries)?
                    }
                };
                self.put_u32(array, 48, values);
            }
            Kind::Bytes { offsets } => {
                let (at, from, to) = self.offsets(buffer(data, 0)?, first, len, offsets)?;
                self.put_u32(buffers, 4, at);
                let bytes = buffer(data, 1)?.get(from..to).ok_or_else(short)?;
                let at = self.copy(bytes)?;
                self.put_u32(buffers, 8, at);
            }
            Kind::Views => {
                let views = elements(data, 0, first, len, 16)?;
                let (piece, count) = self.views(data, views)?;
                n_buffers = count;
                buffers_at = self.address(piece)?;
                // The validity's address was put where the other types have it.
                let validity = self
                    .bytes(buffers)
                    .and_then(|b| b.get(..4))
                    .and_then(|b| b.try_into().ok())
                    .map_or(0, u32::from_le_bytes);
                self.put_u32(piece, 0, validity);
            }
            Kind::List { offsets } => {
                let (at, from, to) = self.offsets(buffer(data, 0)?, first, len, offsets)?;
                self.put_u32(buffers, 4, at);
                child_windows.push((from, to.saturating_sub(from)));
            }
            Kind::ListView { offsets } => {
                let window = self.list_view(data, first, len, offsets, buffers)?;
                child_windows.push(window);
            }
            Kind::FixedList { size } => {
                child_windows.push((
                    first.checked_mul(size).ok_or_else(too_large)?,
                    len.checked_mul(size).ok_or_else(too_large)?,
                ));
            }
            Kind::Struct => {
                child_windows.extend(std::iter::repeat_n((first, len), layout.children.len()))
            }
            Kind::SparseUnion => {
                let at = self.copy(elements(data, 0, first, len, 1)?)?;
                self.put_u32(buffers, 0, at);
                child_windows.extend(std::iter::repeat_n((first, len), layout.children.len()));
            }
            Kind::DenseUnion => {
                child_windows = self.dense_union(layout, data, first, len, buffers)?
            }
            Kind::RunEnds { ends } => {
                let (ends_at, window) = self.run_ends(data, first, len, ends)?;
                let values = self.array(
                    layout.children.get(1).ok_or_else(short)?,
                    child(data, 1)?,
                    window.0,
                    window.1,
                    dictionaries,
                )?;
                let children = self.reserve(8, STRUCT_ALIGN)?;
                self.put_u32(children, 0, ends_at);
                self.put_u32(children, 4, values);
                let at = self.address(children)?;
                self.put_u64(array, 32, 2);
                self.put_u32(array, 44, at);
            }
        }
        if !child_windows.is_empty() {
            let children = self.reserve(child_windows.len().saturating_mul(4), STRUCT_ALIGN)?;
            for (i, ((layout, data), (start, len))) in layout
                .children
                .iter()
                .zip(data.child_data())
                .zip(child_windows.iter())
                .enumerate()
            {
                let at = self.array(layout, data, *start, *len, dictionaries)?;
                self.put_u32(children, i.saturating_mul(4), at);
            }
            let at = self.address(children)?;
            self.put_u64(array, 32, child_windows.len() as u64);
            self.put_u32(array, 44, at);
        }
        self.put_u64(array, 0, len as u64);
        self.put_u64(array, 8, null_count as u64);
        self.put_u64(array, 24, n_buffers as u64);
        self.put_u32(array, 40, buffers_at);
        Ok(address)
    }

    /// Writes bits so that the first is bit 0.
    fn bits(&mut self, bits: &Buffer, from: usize, len: usize) -> Result<u32, WriteError> {
        let piece = self.buffer(len.div_ceil(8))?;
        if let Some(place) = self.bytes(piece) {
            for (place, chunk) in place
                .chunks_exact_mut(8)
                .zip(BitChunks::new(bits, from, len).iter_padded())
            {
                place.copy_from_slice(&chunk.to_le_bytes());
            }
        }
        self.address(piece)
    }

    /// Writes `len + 1` offsets, rebased to begin with 0; gives their address and the range of the values.
    fn offsets(
        &mut self,
        source: &Buffer,
        first: usize,
        len: usize,
        width: Width,
    ) -> Result<(u32, usize, usize), WriteError> {
        let piece = self.buffer(len.saturating_add(1).saturating_mul(width.bytes()))?;
        let count = len.saturating_add(1);
        // An empty array may have no offsets at all.
        if len == 0 || source.is_empty() {
            if let Some(place) = self.bytes(piece) {
                place.fill(0);
            }
            return Ok((self.address(piece)?, 0, 0));
        }
        let range = match width {
            Width::Four => {
                let offsets = source
                    .typed_data::<i32>()
                    .get(first..first.saturating_add(count))
                    .ok_or_else(short)?;
                self.rebase(piece, offsets, i32::to_le_bytes, i32::wrapping_sub)
            }
            Width::Eight => {
                let offsets = source
                    .typed_data::<i64>()
                    .get(first..first.saturating_add(count))
                    .ok_or_else(short)?;
                self.rebase(piece, offsets, i64::to_le_bytes, i64::wrapping_sub)
            }
        };
        let (from, to) = range?;
        Ok((self.address(piece)?, from, to))
    }

    fn rebase<T: ArrowNativeType, const N: usize>(
        &mut self,
        piece: Piece,
        offsets: &[T],
        to_bytes: fn(T) -> [u8; N],
        minus: fn(T, T) -> T,
    ) -> Result<(usize, usize), WriteError> {
        let (Some(first), Some(last)) = (offsets.first().copied(), offsets.last().copied()) else {
            return Ok((0, 0));
        };
        if let Some(place) = self.bytes(piece) {
            if first == T::default() {
                let bytes = arrow::datatypes::ToByteSlice::to_byte_slice(offsets);
                if let Some(place) = place.get_mut(..bytes.len()) {
                    copy_in_steps(place, bytes);
                }
            } else {
                for (place, offset) in place.chunks_exact_mut(N).zip(offsets) {
                    place.copy_from_slice(&to_bytes(minus(*offset, first)));
                }
            }
        }
        Ok((first.as_usize(), last.as_usize()))
    }
}

/// The dictionaries of an array, outermost first, in the order in which [`Writer::array`] meets them.
pub(crate) fn dictionary_values<'a>(
    layout: &'a Layout,
    data: &'a ArrayData,
    found: &mut Vec<(&'a Layout, &'a ArrayData)>,
) {
    if !layout.has_dictionary {
        return;
    }
    if let (Kind::Dictionary { .. }, Some(values_layout), Some(values)) = (
        layout.kind,
        layout.children.first(),
        data.child_data().first(),
    ) {
        found.push((values_layout, values));
        return;
    }
    for (layout, data) in layout.children.iter().zip(data.child_data()) {
        dictionary_values(layout, data, found);
    }
}

fn buffer(data: &ArrayData, index: usize) -> Result<&Buffer, WriteError> {
    data.buffers().get(index).ok_or_else(short)
}

fn child(data: &ArrayData, index: usize) -> Result<&ArrayData, WriteError> {
    data.child_data().get(index).ok_or_else(short)
}

fn only_child(layout: &Layout) -> Result<&Layout, WriteError> {
    layout.children.first().ok_or_else(short)
}

/// The bytes of `len` elements of a buffer.
fn elements(
    data: &ArrayData,
    index: usize,
    first: usize,
    len: usize,
    width: usize,
) -> Result<&[u8], WriteError> {
    range(buffer(data, index)?, first, len, width)
}

fn range(buffer: &Buffer, first: usize, len: usize, width: usize) -> Result<&[u8], WriteError> {
    let from = first.checked_mul(width).ok_or_else(too_large)?;
    let to = len
        .checked_mul(width)
        .and_then(|n| from.checked_add(n))
        .ok_or_else(too_large)?;
    buffer.get(from..to).ok_or_else(short)
}

/// A little-endian integer of up to eight bytes that is not negative.
fn integer(bytes: &[u8]) -> usize {
    let mut wide = [0; 8];
    for (place, byte) in wide.iter_mut().zip(bytes) {
        *place = *byte;
    }
    usize::try_from(u64::from_le_bytes(wide)).unwrap_or(usize::MAX)
}

fn too_large() -> WriteError {
    "the arguments need more than 2 GiB of guest memory".to_owned()
}

fn short() -> WriteError {
    "an argument's buffers are shorter than its length".to_owned()
}
