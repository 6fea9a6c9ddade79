//! What the host keeps for one slot, and the host functions that a guest may import.

use std::time::Instant;

use super::engine::Engine;
use super::log::{LogLevel, SlotLog};
use super::wasi::{self, WasiContext};
use crate::abi::frame::bytes_at;

/// The data of a slot's store.
pub(crate) struct SlotState {
    pub(crate) limits: Limits,
    pub(crate) log: SharedLog,
    pub(crate) wasi: WasiContext,
}

/// The log is written by `wasmill_v1.log` and by WASI's standard streams.
pub(crate) type SharedLog = std::sync::Arc<std::sync::Mutex<SlotLog>>;

impl SlotState {
    /// A new entry into the guest; `None` is a moment further away than clocks go.
    pub(crate) fn begin_entry(&mut self, deadline: Option<Instant>) {
        self.limits.denied = None;
        lock(&self.log).begin_entry();
        self.wasi.set_deadline(deadline);
        self.wasi.begin_call();
    }
}

/// A log that a panicking sink left behind is still a log.
pub(crate) fn lock(log: &SharedLog) -> std::sync::MutexGuard<'_, SlotLog> {
    log.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Limits on memory and tables, and what was refused in this entry.
pub(crate) struct Limits {
    pub(crate) memory: u64,
    pub(crate) table_elements: u64,
    pub(crate) denied: Option<Denied>,
    /// Largest memory so far, in bytes.
    pub(crate) peak_memory: u64,
    /// Elements of all tables.
    tables: u64,
}

/// Growth that was refused.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Denied {
    Memory { requested: u64 },
    Table,
}

impl Limits {
    pub(crate) fn new(memory: u64, table_elements: u64) -> Self {
        Limits {
            memory,
            table_elements,
            denied: None,
            peak_memory: 0,
            tables: 0,
        }
    }
}

impl wasmtime::ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        _: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let requested = desired as u64;
        if requested > self.memory {
            self.denied = Some(Denied::Memory { requested });
            return Ok(false);
        }
        if maximum.is_some_and(|most| desired > most) {
            return Ok(false);
        }
        self.peak_memory = self.peak_memory.max(requested);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = (desired as u64).saturating_sub(current as u64);
        let total = self.tables.saturating_add(more);
        if total > self.table_elements {
            self.denied = Some(Denied::Table);
            return Ok(false);
        }
        if maximum.is_some_and(|most| desired > most) {
            return Ok(false);
        }
        self.tables = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        16
    }

    fn memories(&self) -> usize {
        1
    }
}

/// Links a module against everything that may be imported.
pub(crate) fn link(
    engine: &Engine,
    module: &wasmtime::Module,
) -> wasmtime::Result<wasmtime::InstancePre<SlotState>> {
    let mut linker: wasmtime::Linker<SlotState> = wasmtime::Linker::new(engine.wasmtime());
    linker.func_wrap("wasmill_v1", "log", log)?;
    // Thousands of lines of code that most guests never call.
    if module
        .imports()
        .any(|i| i.module() == "wasi_snapshot_preview1")
    {
        wasi::add_to_linker(&mut linker, |state: &mut SlotState| &mut state.wasi)?;
    }
    linker.instantiate_pre(module)
}

/// `wasmill_v1.log(level, ptr, len)`.
fn log(mut caller: wasmtime::Caller<'_, SlotState>, level: i32, pointer: i32, len: i32) {
    let memory = caller
        .get_export("memory")
        .and_then(wasmtime::Extern::into_memory);
    let Some(memory) = memory else { return };
    let (pointer, len) = (
        u64::from(pointer.cast_unsigned()),
        u64::from(len.cast_unsigned()),
    );
    let (bytes, state) = memory.data_and_store_mut(&mut caller);
    let mut log = lock(&state.log);
    let kept = len.min(log.left());
    match bytes_at(bytes, pointer, kept) {
        Some(line) => log.write(LogLevel::from_guest(level), line),
        None => log.write(LogLevel::Warn, b"(a log line outside the guest's memory)"),
    }
    log.drop_bytes(len.saturating_sub(kept));
}
