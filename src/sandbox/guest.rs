//! One instance of a module, and the only ways into it.
//!
//! Each entry arms the deadline, and each failure becomes a [`Fault`]. What the guest returns is just
//! numbers here; `abi` makes sense of them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use wasmtime::{Instance, Memory, Store, TypedFunc, UpdateDeadline};

use super::deadline::Cancel;
use super::log::{LogLevel, LogSink, SlotLog, SlotName};
use super::policy::Policy;
use super::state::{Denied, Limits, SharedLog, SlotState, lock};
use super::wasi::{GrantError, HostCallError, LogStream, WasiContext};
use crate::abi::frame::{BUFFER_ALIGN, clean_text, read_u32, text_at};
use crate::error::{Fault, Violation};
use crate::module::Module;

/// An instance that has not failed.
pub(crate) struct Guest {
    store: Store<SlotState>,
    instance: Instance,
    memory: Memory,
    alloc: TypedFunc<(u32, u32), u32>,
    free: TypedFunc<(u32, u32, u32), ()>,
    reset: Option<TypedFunc<(), ()>>,
    /// Where the text of a panic is.
    panic_text: Option<u32>,
}

/// Why there is no instance.
pub(crate) enum NoGuest {
    Grant(GrantError),
    Fault(Fault),
}

impl From<Fault> for NoGuest {
    fn from(fault: Fault) -> Self {
        NoGuest::Fault(fault)
    }
}

impl Guest {
    /// Makes an instance: runs the start function and `_initialize`, within `policy.init_time`.
    pub(crate) fn new(
        module: &Module,
        policy: &Policy,
        log: &LogSink,
        place: SlotName<'_>,
        cancel: &Cancel,
    ) -> Result<Self, NoGuest> {
        let log: SharedLog = Arc::new(Mutex::new(SlotLog::new(
            Arc::clone(log),
            module.name(),
            place,
            policy.log_bytes,
        )));
        let streams = Arc::clone(&log);
        let wasi = WasiContext::new(&policy.grants, &policy.environment, move |stream, bytes| {
            let level = match stream {
                LogStream::Stdout => LogLevel::Info,
                LogStream::Stderr => LogLevel::Warn,
            };
            lock(&streams).write(level, bytes);
        })
        .map_err(NoGuest::Grant)?;
        let state = SlotState {
            limits: Limits::new(policy.memory, policy.table_elements),
            log,
            wasi,
        };
        let mut store = Store::new(module.engine().wasmtime(), state);
        store.limiter(|state| &mut state.limits);
        // The clock's ticks are for looking whether the guest must end; what they end is decided here.
        store.epoch_deadline_callback(|mut store| {
            store.data_mut().wasi.deadline().check()?;
            Ok(UpdateDeadline::Continue(TICKS_BETWEEN_CHECKS))
        });

        let limit = policy.init_time;
        store.data_mut().wasi.deadline().listen(cancel);
        arm(&mut store, Instant::now(), limit);
        let faulted = |store: &Store<SlotState>, e: &wasmtime::Error| {
            let fault = fault(store, e, "starting the instance", limit, None);
            let in_guest = e.is::<wasmtime::Trap>() || e.is::<wasmtime::WasmBacktrace>();
            match fault {
                Fault::Trap { reason, .. } if !in_guest => Fault::System { reason },
                fault => fault,
            }
        };
        let instance = module
            .linked()
            .instantiate(&mut store)
            .map_err(|e| faulted(&store, &e))?;
        let missing = |name: &str| Fault::Trap {
            reason: format!("the export `{name}` is missing"),
            backtrace: Vec::new(),
        };
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| missing("memory"))?;
        let alloc = instance
            .get_typed_func(&mut store, "wasmill_alloc")
            .map_err(|_| missing("wasmill_alloc"))?;
        let free = instance
            .get_typed_func(&mut store, "wasmill_free")
            .map_err(|_| missing("wasmill_free"))?;
        let reset = instance.get_typed_func(&mut store, "wasmill_reset").ok();
        let panic_text = instance
            .get_global(&mut store, "wasmill_panic")
            .and_then(|g| g.get(&mut store).i32())
            .map(i32::cast_unsigned);
        let mut guest = Guest {
            store,
            instance,
            memory,
            alloc,
            free,
            reset,
            panic_text,
        };
        if let Ok(initialize) = guest.function::<(), ()>("_initialize") {
            guest.run("_initialize", limit, |store| initialize.call(store, ()))?;
        }
        Ok(guest)
    }

    /// A function that the module exports.
    pub(crate) fn function<P, R>(&mut self, symbol: &str) -> Result<TypedFunc<P, R>, Fault>
    where
        P: wasmtime::WasmParams,
        R: wasmtime::WasmResults,
    {
        self.instance
            .get_typed_func(&mut self.store, symbol)
            .map_err(|_| Fault::Trap {
                reason: format!("the export `{symbol}` is missing"),
                backtrace: Vec::new(),
            })
    }

    /// Begins an entry: from `now` on the guest has `limit` of wall time.
    pub(crate) fn begin(&mut self, now: Instant, limit: Duration) {
        arm(&mut self.store, now, limit);
    }

    /// From now on this cancellation ends guest code.
    pub(crate) fn listen(&mut self, cancel: &Cancel) {
        self.store.data_mut().wasi.deadline().listen(cancel);
    }

    /// Enters the guest within the entry that was begun.
    pub(crate) fn enter<P, R>(
        &mut self,
        entry: &'static str,
        limit: Duration,
        function: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, Fault>
    where
        P: wasmtime::WasmParams,
        R: wasmtime::WasmResults,
    {
        let result = function.call(&mut self.store, params);
        self.explain(result, entry, limit)
    }

    /// What a failed entry means. Kept out of the way of those that do not fail.
    fn explain<R>(
        &self,
        result: wasmtime::Result<R>,
        entry: &'static str,
        limit: Duration,
    ) -> Result<R, Fault> {
        result.map_err(|e| fault(&self.store, &e, entry, limit, self.panic_text()))
    }

    fn run<R>(
        &mut self,
        entry: &'static str,
        limit: Duration,
        f: impl FnOnce(&mut Store<SlotState>) -> wasmtime::Result<R>,
    ) -> Result<R, Fault> {
        let result = f(&mut self.store);
        self.explain(result, entry, limit)
    }

    /// Asks the guest for a block; `None` when it has none.
    pub(crate) fn alloc(&mut self, size: u32, limit: Duration) -> Result<Option<u32>, Fault> {
        let align = u32::try_from(BUFFER_ALIGN).unwrap_or(64);
        let result = self.alloc.call(&mut self.store, (size, align));
        let pointer = self.explain(result, "wasmill_alloc", limit)?;
        if pointer == 0 {
            return Ok(None);
        }
        let memory = self.memory().len() as u64;
        let end = u64::from(pointer).saturating_add(u64::from(size));
        if !pointer.is_multiple_of(align) || end > memory {
            return Err(Violation::Allocator {
                size,
                align,
                pointer,
                memory,
            }
            .into());
        }
        Ok(Some(pointer))
    }

    /// Gives a block back.
    pub(crate) fn free(&mut self, pointer: u32, size: u32, limit: Duration) -> Result<(), Fault> {
        let result = self.free.call(
            &mut self.store,
            (pointer, size, u32::try_from(BUFFER_ALIGN).unwrap_or(64)),
        );
        self.explain(result, "wasmill_free", limit)
    }

    /// Ends the life of earlier results.
    pub(crate) fn reset(&mut self, limit: Duration) -> Result<(), Fault> {
        let Some(reset) = &self.reset else {
            return Ok(());
        };
        let result = reset.call(&mut self.store, ());
        self.explain(result, "wasmill_reset", limit)
    }

    /// Ends an entry that failed although the guest lives: what it opened meanwhile is closed.
    pub(crate) fn abandon(&mut self) {
        self.store.data_mut().wasi.abandon_call();
    }

    /// The guest's memory as it is now.
    pub(crate) fn memory(&self) -> &[u8] {
        self.memory.data(&self.store)
    }

    /// The guest's memory as it is now.
    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        self.memory.data_mut(&mut self.store)
    }

    /// Largest memory so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.store.data().limits.peak_memory
    }

    /// Bytes of memory that the policy allows.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.store.data().limits.memory
    }

    /// The text that a panic left, if any.
    fn panic_text(&self) -> Option<String> {
        let at = self.panic_text?;
        let memory = self.memory();
        let len = read_u32(memory, u64::from(at)).filter(|len| *len > 0)?;
        Some(text_at(memory, at.checked_add(4)?, len))
    }
}

/// Ticks of the clock between two looks at the deadline: guest code ends this much too late at most.
const TICKS_BETWEEN_CHECKS: u64 = 1;

fn arm(store: &mut Store<SlotState>, now: Instant, limit: Duration) {
    store.set_epoch_deadline(TICKS_BETWEEN_CHECKS);
    store.data_mut().begin_entry(now.checked_add(limit));
}

/// What a failed entry means.
fn fault(
    store: &Store<SlotState>,
    error: &wasmtime::Error,
    entry: &'static str,
    limit: Duration,
    panic_text: Option<String>,
) -> Fault {
    match error.downcast_ref::<HostCallError>() {
        Some(HostCallError::DeadlineExceeded) => return Fault::Time { entry, limit },
        Some(HostCallError::Cancelled) => return Fault::Cancelled,
        Some(HostCallError::Exit(code)) => return Fault::Exit { code: *code },
        Some(HostCallError::NoMemory) | None => {}
    }
    let trap = error.downcast_ref::<wasmtime::Trap>();
    let limits = &store.data().limits;
    match limits.denied {
        Some(Denied::Memory { requested }) => {
            return Fault::Memory {
                limit: limits.memory,
                requested,
            };
        }
        Some(Denied::Table) => {
            return Fault::Table {
                limit: limits.table_elements,
            };
        }
        None => {}
    }
    let reason = match (panic_text, trap) {
        (Some(text), _) => text,
        (None, Some(trap)) => format!("{trap}"),
        (None, None) => clean_text(format!("{:#}", error.root_cause()).as_bytes()),
    };
    Fault::Trap {
        reason,
        backtrace: backtrace(error),
    }
}

/// The guest's frames, innermost first.
fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    const NAME_CHARS: usize = 200;
    let Some(backtrace) = error.downcast_ref::<wasmtime::WasmBacktrace>() else {
        return Vec::new();
    };
    let short = |text: &str| -> String {
        clean_text(text.as_bytes())
            .replace('\n', " ")
            .chars()
            .take(NAME_CHARS)
            .collect()
    };
    let mut lines = Vec::new();
    for frame in backtrace.frames() {
        if frame.symbols().is_empty() {
            let name = frame.func_name().map_or_else(
                || format!("function {}", frame.func_index()),
                |n| format!("{:#}", demangle(n)),
            );
            lines.push(short(&name));
        }
        // Inlined functions are symbols of their own.
        for symbol in frame.symbols() {
            let mut line = symbol.name().map_or_else(
                || format!("function {}", frame.func_index()),
                |n| format!("{:#}", demangle(n)),
            );
            if let (Some(file), Some(row)) = (symbol.file(), symbol.line()) {
                line.push_str(&format!(" at {file}:{row}"));
            }
            lines.push(short(&line));
        }
        if lines.len() >= 32 {
            break;
        }
    }
    lines.truncate(32);
    lines
}

fn demangle(name: &str) -> rustc_demangle::Demangle<'_> {
    rustc_demangle::demangle(name)
}
