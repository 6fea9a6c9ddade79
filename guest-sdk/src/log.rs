//! Lines for the host's log.
//!
//! ```
//! use wasmill_guest::log;
//!
//! log::info("vocabulary loaded");
//! log::warn!("{} words left out", 3);
//! ```
//!
//! A guest that never logs does not import the host's function. Natively the lines go to standard
//! error.

use std::fmt::Arguments;

pub use crate::{
    __log_debug as debug, __log_error as error, __log_info as info, __log_trace as trace,
    __log_warn as warn,
};

/// How important a line is.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed.
    Error = 1,
    /// Something is odd.
    Warn = 2,
    /// Something that operators want to know.
    Info = 3,
    /// Something that the author wants to know.
    Debug = 4,
    /// Everything else.
    Trace = 5,
}

/// Writes a line.
pub fn line(level: Level, text: &str) {
    #[cfg(target_family = "wasm")]
    {
        #[link(wasm_import_module = "wasmill_v1")]
        unsafe extern "C" {
            fn log(level: i32, pointer: *const u8, len: usize);
        }
        // SAFETY: the host reads `len` bytes, which are the text's.
        unsafe { log(level as i32, text.as_ptr(), text.len()) }
    }
    #[cfg(not(target_family = "wasm"))]
    {
        use std::io::Write;
        // Nothing can be done about a standard error that is closed.
        let _ = writeln!(std::io::stderr(), "{level:?}: {text}");
    }
}

/// Writes a formatted line: what the macros do.
pub fn format(level: Level, text: Arguments<'_>) {
    match text.as_str() {
        Some(text) => line(level, text),
        None => line(level, &text.to_string()),
    }
}

macro_rules! levels {
    ($($name:ident $level:ident $doc:literal),*) => {$(
        #[doc = concat!("Writes a line at level ", $doc, ".")]
        pub fn $name(text: &str) {
            line(Level::$level, text);
        }
    )*};
}
levels!(
    error Error "error",
    warn Warn "warn",
    info Info "info",
    debug Debug "debug",
    trace Trace "trace"
);

/// Writes a formatted line at level error.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_error {
    ($($text:tt)*) => {
        $crate::log::format($crate::log::Level::Error, ::std::format_args!($($text)*))
    };
}

/// Writes a formatted line at level warn.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_warn {
    ($($text:tt)*) => {
        $crate::log::format($crate::log::Level::Warn, ::std::format_args!($($text)*))
    };
}

/// Writes a formatted line at level info.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_info {
    ($($text:tt)*) => {
        $crate::log::format($crate::log::Level::Info, ::std::format_args!($($text)*))
    };
}

/// Writes a formatted line at level debug.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_debug {
    ($($text:tt)*) => {
        $crate::log::format($crate::log::Level::Debug, ::std::format_args!($($text)*))
    };
}

/// Writes a formatted line at level trace.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_trace {
    ($($text:tt)*) => {
        $crate::log::format($crate::log::Level::Trace, ::std::format_args!($($text)*))
    };
}
