//! Host buffers that results are copied into, used again once their arrays are gone.
//!
//! A page that is touched for the first time costs more than the copy into it, so buffers above a few
//! pages go back to the slot's shelf when the last Arrow array that uses them is dropped.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::buffer::{Buffer, MutableBuffer};

/// Smaller buffers come from the allocator, which keeps their pages anyway.
const SMALLEST: usize = 16 << 10;
/// Buffers kept at most.
const KEPT: usize = 16;
/// Bytes kept at most.
const KEPT_BYTES: usize = 64 << 20;

/// Bytes that are copied at a time.
///
/// glibc copies more than a few KiB with `rep movsb`, which is slower than vector registers while both
/// sides are in the processor's caches, as batches are (measured on Zen 3 with 64 KiB: 1.6 µs and
/// 1.3 µs).
const COPY_STEP: usize = 2 << 10;

/// Copies between buffers of one length.
pub(super) fn copy_in_steps(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_mut(COPY_STEP).zip(from.chunks(COPY_STEP)) {
        to.copy_from_slice(from);
    }
}

/// Buffers that wait to be used again.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<Vec<MutableBuffer>>);

impl Shelf {
    /// Copies `bytes` into an Arrow buffer.
    pub(crate) fn copy(self: &Arc<Self>, bytes: &[u8]) -> Buffer {
        if bytes.len() < SMALLEST {
            return small(bytes);
        }
        self.with(bytes.len(), |buffer| {
            for step in bytes.chunks(COPY_STEP) {
                buffer.extend_from_slice(step);
            }
        })
    }

    /// An Arrow buffer of at most `capacity` bytes, filled by `fill`.
    pub(crate) fn with(
        self: &Arc<Self>,
        capacity: usize,
        fill: impl FnOnce(&mut MutableBuffer),
    ) -> Buffer {
        if capacity < SMALLEST {
            let mut small = MutableBuffer::with_capacity(capacity);
            fill(&mut small);
            return small.into();
        }
        let mut buffer = self.take(capacity);
        fill(&mut buffer);
        bytes::Bytes::from_owner(Lent {
            buffer,
            home: Arc::clone(self),
        })
        .into()
    }

    fn take(&self, capacity: usize) -> MutableBuffer {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The smallest that is large enough, so that large ones stay for large results.
        let best = shelf
            .iter()
            .enumerate()
            .filter(|(_, b)| b.capacity() >= capacity)
            .min_by_key(|(_, b)| b.capacity())
            .map(|(i, _)| i);
        match best {
            Some(i) => shelf.swap_remove(i),
            None => MutableBuffer::with_capacity(
                capacity.checked_next_power_of_two().unwrap_or(capacity),
            ),
        }
    }

    fn give_back(&self, mut buffer: MutableBuffer) {
        buffer.clear();
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = shelf.iter().map(MutableBuffer::capacity).sum();
        if shelf.len() < KEPT && kept.saturating_add(buffer.capacity()) <= KEPT_BYTES {
            shelf.push(buffer);
        }
    }
}

/// A small buffer, aligned for every native type by the type it is made of: the allocator has such
/// blocks at hand, while larger alignments cost it a search.
fn small(bytes: &[u8]) -> Buffer {
    const WIDTH: usize = size_of::<i128>();
    let (whole, rest) = bytes.as_chunks::<WIDTH>();
    let mut values: Vec<i128> = Vec::with_capacity(bytes.len().div_ceil(WIDTH));
    values.extend(whole.iter().map(|chunk| i128::from_ne_bytes(*chunk)));
    if !rest.is_empty() {
        let mut last = [0; WIDTH];
        for (place, byte) in last.iter_mut().zip(rest) {
            *place = *byte;
        }
        values.push(i128::from_ne_bytes(last));
    }
    Buffer::from_vec(values).slice_with_length(0, bytes.len())
}

/// A buffer that finds its way home.
struct Lent {
    buffer: MutableBuffer,
    home: Arc<Shelf>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_large_buffer_is_used_again_only_when_its_last_user_is_gone() {
        let shelf = Arc::new(Shelf::default());
        let first = shelf.copy(&vec![1; SMALLEST]);
        let clone = first.clone();
        let place = first.as_ptr();
        drop(first);
        let second = shelf.copy(&vec![2; SMALLEST]);
        assert_ne!(second.as_ptr(), place);
        assert_eq!(clone.as_slice()[0], 1);
        drop(clone);
        assert_eq!(shelf.copy(&vec![3; SMALLEST]).as_ptr(), place);
    }
}
