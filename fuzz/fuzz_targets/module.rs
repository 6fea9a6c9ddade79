//! Bytes of a module.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wasmill::{ModuleInfo, ModuleLimits};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(info) = ModuleInfo::from_bytes("fuzz", bytes, &ModuleLimits::default()) {
        // What was accepted can be shown.
        let _ = format!("{info:?}");
    }
});
