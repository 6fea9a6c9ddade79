//! Growable memory that satisfies what the ABI asks of arguments (64-byte alignment and padding), so
//! that a result can be the argument of the next call as it is.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::types::Place;

const ALIGNMENT: usize = 64;

/// A vector of plain values. Its memory is kept when it is cleared.
pub struct Buffer<T: Copy> {
    pointer: NonNull<T>,
    len: usize,
    /// In elements; the block behind it is rounded up to 64 bytes.
    capacity: usize,
}

impl<T: Copy> Default for Buffer<T> {
    fn default() -> Self {
        Self {
            pointer: NonNull::dangling(),
            len: 0,
            capacity: 0,
        }
    }
}

impl<T: Copy> Buffer<T> {
    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Forgets the elements and keeps the memory.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Shortens to `len` elements.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes room for `additional` more elements.
    #[inline(always)]
    pub fn reserve(&mut self, additional: usize) {
        if self.capacity - self.len < additional {
            self.grow(additional);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, additional: usize) {
        let needed = self.len.checked_add(additional).expect("capacity overflow");
        let wanted = needed.max(self.capacity.saturating_mul(2));
        let bytes = wanted
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.checked_next_multiple_of(ALIGNMENT))
            .filter(|bytes| *bytes <= isize::MAX as usize - ALIGNMENT)
            .expect("capacity overflow");
        let block = block_layout(bytes);
        // SAFETY: `needed` is at least 1 and `T` is not zero-sized (see `block_layout`), so `bytes` > 0.
        let Some(pointer) = NonNull::new(unsafe { alloc(block) }.cast::<T>()) else {
            handle_alloc_error(block)
        };
        // SAFETY: both blocks hold at least `len` elements and are distinct; `T` is `Copy`.
        unsafe {
            pointer
                .as_ptr()
                .copy_from_nonoverlapping(self.pointer.as_ptr(), self.len);
        }
        self.release();
        self.pointer = pointer;
        self.capacity = bytes / size_of::<T>();
    }

    fn release(&mut self) {
        if self.capacity > 0 {
            let bytes = (self.capacity * size_of::<T>()).next_multiple_of(ALIGNMENT);
            // SAFETY: `grow` made the block with this layout; `capacity` is all the whole elements
            // that fit into it, so that rounding up gives its size again.
            unsafe { dealloc(self.pointer.as_ptr().cast(), block_layout(bytes)) };
        }
    }

    /// Appends one element.
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        self.reserve(1);
        // SAFETY: `reserve` made room for one element after `len`.
        unsafe { self.pointer.as_ptr().add(self.len).write(value) };
        self.len += 1;
    }

    /// Appends all of `values`.
    #[inline(always)]
    pub fn extend_from_slice(&mut self, values: &[T]) {
        self.reserve(values.len());
        // SAFETY: `reserve` made room, and `values` cannot overlap memory that `self` owns alone.
        unsafe {
            self.pointer
                .as_ptr()
                .add(self.len)
                .copy_from_nonoverlapping(values.as_ptr(), values.len());
        }
        self.len += values.len();
    }

    /// Appends `count` elements that `write` puts in place.
    ///
    /// # Safety
    /// `write` must have initialised every element of the slice when it returns.
    #[inline(always)]
    pub unsafe fn append_with(&mut self, count: usize, write: impl FnOnce(&mut [MaybeUninit<T>])) {
        self.reserve(count);
        // SAFETY: `reserve` made room for `count` elements after `len`, and nobody else sees them.
        let room = unsafe {
            let start = self.pointer.as_ptr().add(self.len).cast();
            std::slice::from_raw_parts_mut(start, count)
        };
        write(room);
        self.len += count;
    }

    /// The elements.
    #[inline(always)]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` elements are initialised, and aligned also when there are none.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }

    /// The elements, to be changed.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }

    /// Where the elements are, for the host: null when there is no block.
    #[inline]
    pub fn as_host_ptr(&self) -> *const u8 {
        if self.capacity == 0 {
            std::ptr::null()
        } else {
            self.pointer.as_ptr().cast::<u8>().cast_const()
        }
    }
}

impl Buffer<u8> {
    /// Appends bytes, and makes nothing of short ones: the host's bulk copy costs more than they do.
    #[inline(always)]
    pub fn extend_from_bytes(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        // SAFETY: `reserve` made room for that many bytes, which nobody else sees.
        unsafe { copy_bytes(bytes, self.pointer.as_ptr().add(self.len)) };
        self.len += bytes.len();
    }
}

/// Copies up to 64 bytes by two overlapping pieces, and more by the bulk instruction.
///
/// # Safety
/// `to` must have room for all of `from`, and not overlap it.
#[inline(always)]
unsafe fn copy_bytes(from: &[u8], to: *mut u8) {
    /// # Safety
    /// As for `copy_bytes`, and `from` has N to 2 N bytes.
    #[inline(always)]
    unsafe fn two_pieces<const N: usize>(from: &[u8], to: *mut u8) {
        if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
            // SAFETY: both pieces lie within the room for `from`.
            unsafe {
                to.cast::<[u8; N]>().write(*first);
                to.add(from.len() - N).cast::<[u8; N]>().write(*last);
            }
        }
    }

    // SAFETY: the caller vouches for the room, the arms for the lengths.
    unsafe {
        match from.len() {
            0 => {}
            1..4 => {
                to.write(from[0]);
                to.add(from.len() / 2).write(from[from.len() / 2]);
                to.add(from.len() - 1).write(from[from.len() - 1]);
            }
            4..8 => two_pieces::<4>(from, to),
            8..16 => two_pieces::<8>(from, to),
            16..32 => two_pieces::<16>(from, to),
            32..=64 => two_pieces::<32>(from, to),
            len => to.copy_from_nonoverlapping(from.as_ptr(), len),
        }
    }
}

impl<T: Copy> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.release();
    }
}

fn block_layout(bytes: usize) -> Layout {
    match Layout::from_size_align(bytes, ALIGNMENT) {
        Ok(layout) if bytes > 0 => layout,
        _ => panic!("a buffer holds at least one byte"),
    }
}

/// A growable bitmap that counts its zeros.
#[derive(Default)]
pub struct Bitmap {
    words: Buffer<u32>,
    len: usize,
    zeros: usize,
}

impl Bitmap {
    /// Number of bits.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of bits that are 0.
    #[inline]
    pub fn zeros(&self) -> usize {
        self.zeros
    }

    /// Forgets the bits, keeps the memory and makes room for `bits`.
    #[inline]
    pub fn begin(&mut self, bits: usize) {
        self.words.clear();
        self.words.reserve(bits.div_ceil(32));
        self.len = 0;
        self.zeros = 0;
    }

    /// Appends a bit.
    #[inline]
    pub fn push(&mut self, bit: bool) {
        let at = self.len % 32;
        if at == 0 {
            self.words.push(u32::from(bit));
        } else if let Some(last) = self.words.as_mut_slice().last_mut() {
            *last |= u32::from(bit) << at;
        }
        self.len += 1;
        self.zeros += usize::from(!bit);
    }

    /// Appends 32 bits, the lowest first.
    #[inline]
    pub fn push_word(&mut self, word: u32) {
        if self.len.is_multiple_of(32) {
            self.words.push(word);
            self.len += 32;
            self.zeros += word.count_zeros() as usize;
        } else {
            for at in 0..32 {
                self.push(word >> at & 1 == 1);
            }
        }
    }

    /// Appends `count` bits, 32 in each turn of the loop.
    #[inline(always)]
    pub(crate) fn fill_places(&mut self, count: usize, mut bit: impl FnMut(Place) -> bool) {
        let whole = count - count % 32;
        for turn in (0..whole).step_by(32) {
            let mut word = 0;
            for at in 0..32 {
                word |= u32::from(bit(Place::within(turn, at))) << at;
            }
            self.push_word(word);
        }
        for at in whole..count {
            let value = bit(Place::of(at));
            self.push(value);
        }
    }

    /// Whether bit `at` is 1.
    #[cfg(test)]
    pub fn get(&self, at: usize) -> bool {
        self.words.as_slice()[at / 32] >> (at % 32) & 1 == 1
    }

    /// Where the bits are, for the host.
    #[inline]
    pub fn as_host_ptr(&self) -> *const u8 {
        self.words.as_host_ptr()
    }
}

/// Bit `at` of a bitmap that the host or a [`Bitmap`] made.
///
/// # Safety
/// `bits` must point to a bitmap of more than `at` bits.
#[inline(always)]
pub(crate) unsafe fn bit_at(bits: *const u8, at: usize) -> bool {
    // SAFETY: the caller vouches for the byte that holds the bit.
    unsafe { bits.add(at / 8).read() >> (at % 8) & 1 == 1 }
}

/// Bits `32 * chunk` and after; those past the end of the bitmap are arbitrary.
///
/// # Safety
/// `bits` must point to a bitmap of more than `32 * chunk` bits whose memory is padded to a multiple
/// of 64 bytes, as the ABI has it.
#[inline(always)]
pub(crate) unsafe fn word_at(bits: *const u8, chunk: usize) -> u32 {
    // SAFETY: 4 divides 64, so the padding holds whatever the bitmap does not.
    u32::from_le(unsafe { bits.cast::<u32>().add(chunk).read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_its_elements_when_it_grows() {
        let mut buffer = Buffer::default();
        for value in 0..1000_i64 {
            buffer.push(value);
        }
        assert!(buffer.as_slice().iter().copied().eq(0..1000));
        assert_eq!(buffer.as_host_ptr().addr() % 64, 0);
    }

    #[test]
    fn an_empty_buffer_has_no_address() {
        assert!(Buffer::<i64>::default().as_host_ptr().is_null());
    }

    #[test]
    fn a_buffer_whose_elements_do_not_divide_64_gives_its_block_back() {
        let mut buffer = Buffer::default();
        buffer.extend_from_slice(&[[1_u8; 24]; 7]);
        buffer.extend_from_slice(&[[2_u8; 24]; 70]);
        assert_eq!(buffer.len(), 77);
    }

    #[test]
    fn bytes_of_every_length_are_copied_whole() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut buffer = Buffer::default();
        for len in 0..=100 {
            buffer.clear();
            buffer.extend_from_bytes(b"ab");
            buffer.extend_from_bytes(&bytes[..len]);
            assert_eq!(buffer.as_slice(), [b"ab", &bytes[..len]].concat());
        }
    }

    #[test]
    fn a_bitmap_appends_bits_and_words_at_any_place() {
        let mut bits = Bitmap::default();
        bits.begin(100);
        bits.push(true);
        bits.push_word(0x8000_0001);
        bits.fill_places(70, |place| place.row() % 3 == 0);
        assert_eq!(bits.len(), 103);
        let wanted = |at: usize| match at {
            0 | 1 | 32 => true,
            2..32 => false,
            _ => (at - 33).is_multiple_of(3),
        };
        assert!((0..103).all(|at| bits.get(at) == wanted(at)));
        assert_eq!(bits.zeros(), (0..103).filter(|at| !wanted(*at)).count());
    }
}
