//! The text of a panic, where the host finds it after the trap.

#[cfg(target_family = "wasm")]
mod hook {
    use std::cell::{Cell, UnsafeCell};
    use std::fmt::{self, Write};
    use std::panic::PanicHookInfo;

    const CAPACITY: usize = 2044;

    /// Length and bytes of the text.
    #[repr(C)]
    pub struct PanicText {
        len: u32,
        bytes: [u8; CAPACITY],
    }

    /// A [`PanicText`] that the hook may write.
    #[repr(transparent)]
    pub struct PanicCell(UnsafeCell<PanicText>);

    // SAFETY: an instance has one thread.
    unsafe impl Sync for PanicCell {}

    /// Exported as a global that holds its address.
    #[unsafe(no_mangle)]
    #[allow(non_upper_case_globals)]
    pub static wasmill_panic: PanicCell = PanicCell(UnsafeCell::new(PanicText {
        len: 0,
        bytes: [0; CAPACITY],
    }));

    thread_local! {
        static INSTALLED: Cell<bool> = const { Cell::new(false) };
    }

    #[inline(always)]
    pub fn install() {
        if !INSTALLED.get() {
            set_hook();
        }
    }

    #[cold]
    fn set_hook() {
        INSTALLED.set(true);
        std::panic::set_hook(Box::new(note));
    }

    fn note(info: &PanicHookInfo<'_>) {
        // SAFETY: an instance has one thread, and the host reads only after the trap.
        let mut text = Bounded(unsafe { &mut *wasmill_panic.0.get() });
        text.0.len = 0;
        // A text that does not fit is cut off.
        let _ = text.write_str(info.payload_as_str().unwrap_or("panic"));
        if let Some(place) = info.location() {
            let _ = write!(text, " at {}:{}", place.file(), place.line());
        }
    }

    struct Bounded<'t>(&'t mut PanicText);

    impl Write for Bounded<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let start = self.0.len as usize;
            let end = text.floor_char_boundary(CAPACITY - start);
            self.0.bytes[start..start + end].copy_from_slice(&text.as_bytes()[..end]);
            self.0.len += end as u32;
            Ok(())
        }
    }
}

/// Makes sure, once, that panics leave their text for the host. Natively the usual hook stays.
#[inline(always)]
pub(crate) fn install() {
    #[cfg(target_family = "wasm")]
    hook::install();
}
