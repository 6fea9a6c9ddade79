//! The memory exports of every guest, and the pools from which results come.

use std::alloc::Layout;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

thread_local! {
    /// Counts the calls of `wasmill_reset`: an instance of a guest is a thread when it runs natively.
    static GENERATION: Cell<u32> = const { Cell::new(0) };
}

/// Gives the host a block of memory: null when there is none or `align` is not a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn wasmill_alloc(size: usize, align: usize) -> *mut u8 {
    match Layout::from_size_align(size.max(1), align) {
        // SAFETY: the size is not 0.
        Ok(layout) => unsafe { std::alloc::alloc(layout) },
        Err(_) => std::ptr::null_mut(),
    }
}

/// Takes a block back.
///
/// # Safety
/// `pointer` must come from [`wasmill_alloc`] with the same numbers, and not have been given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wasmill_free(pointer: *mut u8, size: usize, align: usize) {
    if let (false, Ok(layout)) = (
        pointer.is_null(),
        Layout::from_size_align(size.max(1), align),
    ) {
        // SAFETY: `wasmill_alloc` made the block with this very layout, as the caller vouches.
        unsafe { std::alloc::dealloc(pointer, layout) };
    }
}

/// Ends the life of all results: their memory serves the calls that follow.
///
/// # Safety
/// No call may be running in this instance, and no earlier result may be read afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wasmill_reset() {
    GENERATION.set(GENERATION.get().wrapping_add(1));
}

/// How often results have ended.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn generation() -> u32 {
    GENERATION.get()
}

/// Runs the constructors of linked C code once. That this symbol exists and refers to them also keeps
/// the linker from wrapping every export into a call of all constructors and destructors.
#[cfg(target_family = "wasm")]
#[unsafe(no_mangle)]
pub extern "C" fn _initialize() {
    unsafe extern "C" {
        fn __wasm_call_ctors();
    }
    // SAFETY: the linker makes this function; the host calls `_initialize` once, before all else.
    unsafe { __wasm_call_ctors() }
}

/// Builders that are used again after each reset, so that a warm instance allocates nothing.
///
/// A result lives until the reset, and the same function may be called again before that (its result
/// may be its next argument), so there are as many builders as calls between two resets.
pub struct Pool<B> {
    builders: Cell<Vec<NonNull<B>>>,
    generation: Cell<u32>,
    next: Cell<usize>,
}

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> Pool<B> {
    /// A pool without builders.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            builders: Cell::new(Vec::new()),
            generation: Cell::new(0),
            next: Cell::new(0),
        }
    }
}

impl<B: Default> Pool<B> {
    /// A builder that no living result uses.
    #[inline]
    pub(crate) fn lease(&self) -> Lease<B> {
        let generation = GENERATION.get();
        if self.generation.replace(generation) != generation {
            self.next.set(0);
        }
        let next = self.next.get();
        self.next.set(next + 1);
        let mut builders = self.builders.take();
        if next == builders.len() {
            builders.push(NonNull::from(Box::leak(Box::<B>::default())));
        }
        let builder = builders[next];
        self.builders.set(builders);
        Lease { builder }
    }
}

impl<B> Drop for Pool<B> {
    fn drop(&mut self) {
        for builder in self.builders.take() {
            // SAFETY: `lease` leaked each of them from a box. A pool is dropped when its instance
            // (natively: its thread) ends, after all calls.
            drop(unsafe { Box::from_raw(builder.as_ptr()) });
        }
    }
}

/// A builder during one call. It stays where it is afterwards: the result points into it.
pub struct Lease<B> {
    builder: NonNull<B>,
}

impl<B> Deref for Lease<B> {
    type Target = B;

    #[inline(always)]
    fn deref(&self) -> &B {
        // SAFETY: the pool hands each builder out once between two resets, no call runs during a reset,
        // and the pool outlives the call.
        unsafe { self.builder.as_ref() }
    }
}

impl<B> DerefMut for Lease<B> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut B {
        // SAFETY: as in `deref`.
        unsafe { self.builder.as_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_aligned_and_goes_back() {
        for align in [1, 8, 64] {
            let block = wasmill_alloc(100, align);
            assert!(!block.is_null() && block.addr().is_multiple_of(align));
            // SAFETY: the block was made with these numbers a line ago.
            unsafe { wasmill_free(block, 100, align) };
        }
    }

    #[test]
    fn wrong_alignments_and_sizes_get_no_block() {
        assert!(wasmill_alloc(8, 3).is_null());
        assert!(wasmill_alloc(usize::MAX, 8).is_null());
    }

    #[test]
    fn builders_are_distinct_until_the_reset_and_then_used_again() {
        let pool = Pool::<Vec<u8>>::new();
        let (first, second) = (pool.lease(), pool.lease());
        assert_ne!(first.builder, second.builder);
        // SAFETY: no call is running.
        unsafe { wasmill_reset() };
        assert_eq!(pool.lease().builder, first.builder);
    }
}
