//! The structs that cross the boundary, as a C compiler lays them out. See `docs/abi.md`.

use std::marker::PhantomData;
use std::ptr::NonNull;

/// An array of the Arrow C Data Interface.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArrowArray {
    /// Number of rows.
    pub length: i64,
    /// Number of nulls, or −1 when not computed.
    pub null_count: i64,
    /// Rows to skip at the start of every buffer.
    pub offset: i64,
    /// Number of pointers behind `buffers`.
    pub n_buffers: i64,
    /// Number of pointers behind `children`.
    pub n_children: i64,
    /// The buffers, in the order of the Arrow format.
    pub buffers: *const *const u8,
    /// The children, in the order of the fields.
    pub children: *const *const ArrowArray,
    /// The values of a dictionary, or null.
    pub dictionary: *const ArrowArray,
    /// Never called by host or guest.
    pub release: *const (),
    /// Not used.
    pub private_data: *const (),
}

impl ArrowArray {
    /// An array of no rows, no buffers and no children.
    pub const EMPTY: Self = Self {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: std::ptr::null(),
        children: std::ptr::null(),
        dictionary: std::ptr::null(),
        release: std::ptr::null(),
        private_data: std::ptr::null(),
    };
}

/// A type of the Arrow C Data Interface.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArrowSchema {
    /// Format string, NUL-terminated.
    pub format: *const u8,
    /// Field name, NUL-terminated, or null.
    pub name: *const u8,
    /// Key-value pairs in the interface's binary form, or null.
    pub metadata: *const u8,
    /// Bit 0 dictionary ordered, bit 1 nullable, bit 2 map keys sorted.
    pub flags: i64,
    /// Number of pointers behind `children`.
    pub n_children: i64,
    /// The children.
    pub children: *const *const ArrowSchema,
    /// The type of a dictionary's values, or null.
    pub dictionary: *const ArrowSchema,
    /// Never called by host or guest.
    pub release: *const (),
    /// Not used.
    pub private_data: *const (),
}

/// One argument of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArgRef {
    /// The column.
    pub array: *const ArrowArray,
    /// Bit 0: one row that stands for all.
    pub flags: u32,
}

/// What a call gets and gives back.
#[repr(C)]
#[derive(Debug)]
pub struct CallFrame {
    /// Size of this struct in bytes.
    pub size: u32,
    /// No flag is defined yet.
    pub flags: u32,
    /// The answer of `bind`.
    pub binding: u32,
    /// The answer of `init`.
    pub state: u32,
    /// Rows in this batch.
    pub rows: u64,
    /// Number of arguments.
    pub n_args: u32,
    /// The arguments.
    pub args: *const ArgRef,
    /// Out: the result.
    pub result: *mut ArrowArray,
    /// Out: the rows that failed.
    pub row_errors: *mut ArrowArray,
    /// Out: why the whole call failed.
    pub message: *const u8,
    /// Out: length of `message` in bytes.
    pub message_len: u32,
}

/// What `init` gets and gives back.
#[repr(C)]
#[derive(Debug)]
pub struct InitFrame {
    /// Size of this struct in bytes.
    pub size: u32,
    /// No flag is defined yet.
    pub flags: u32,
    /// The init arguments, JSON in UTF-8.
    pub args: *const u8,
    /// Length of `args` in bytes.
    pub args_len: u32,
    /// Out: the handle of the new state.
    pub state: u32,
    /// Out: why `init` failed.
    pub message: *const u8,
    /// Out: length of `message` in bytes.
    pub message_len: u32,
}

/// What `bind` gets and gives back.
#[repr(C)]
#[derive(Debug)]
pub struct BindFrame {
    /// Size of this struct in bytes.
    pub size: u32,
    /// No flag is defined yet.
    pub flags: u32,
    /// Number of arguments.
    pub n_args: u32,
    /// The types of the arguments.
    pub fields: *const *const ArrowSchema,
    /// One-row arrays of the constant arguments, null for the others.
    pub constants: *const *const ArrowArray,
    /// Not used.
    pub reserved: u32,
    /// Out: the type of the result.
    pub result: *mut ArrowSchema,
    /// Out: an id that comes back in each call's frame.
    pub binding: u32,
    /// Out: why the types were refused.
    pub message: *const u8,
    /// Out: length of `message` in bytes.
    pub message_len: u32,
}

#[cfg(target_pointer_width = "32")]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<ArrowArray>() == 64 && offset_of!(ArrowArray, buffers) == 40);
    assert!(size_of::<ArrowSchema>() == 48 && offset_of!(ArrowSchema, children) == 32);
    assert!(size_of::<ArgRef>() == 8);
    assert!(size_of::<CallFrame>() == 48 && offset_of!(CallFrame, args) == 28);
    assert!(size_of::<InitFrame>() == 28 && offset_of!(InitFrame, state) == 16);
    assert!(size_of::<BindFrame>() == 40 && offset_of!(BindFrame, binding) == 28);
};

/// `status` of a call that worked.
pub const OK: i32 = 0;
/// `status` of a call that failed as a whole; the frame's message says why.
pub const ERROR: i32 = 2;

/// A frame that is known to be valid while `'f` lasts: what the exports of a guest receive.
#[repr(transparent)]
#[derive(Debug)]
pub struct Frame<'f, T> {
    pointer: NonNull<T>,
    life: PhantomData<&'f mut T>,
}

impl<T> Clone for Frame<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Frame<'_, T> {}

impl<'f, T> Frame<'f, T> {
    /// Wraps a frame.
    ///
    /// # Safety
    /// `frame`, and all that it points to, must be as the ABI describes it while `'f` lasts.
    #[must_use]
    pub unsafe fn new(frame: &'f mut T) -> Self {
        Self {
            pointer: NonNull::from(frame),
            life: PhantomData,
        }
    }

    /// Where the fields are.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut T {
        self.pointer.as_ptr()
    }
}

/// A frame in which a guest can say why it failed.
pub(crate) trait MessageFrame {
    fn set_message(&mut self, pointer: *const u8, len: u32);
}

macro_rules! message_frame {
    ($($frame:ty),*) => {$(
        impl MessageFrame for $frame {
            fn set_message(&mut self, pointer: *const u8, len: u32) {
                self.message = pointer;
                self.message_len = len;
            }
        }
    )*};
}
message_frame!(CallFrame, InitFrame, BindFrame);
