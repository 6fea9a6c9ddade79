//! The engine: how modules are compiled, and the clock that ends guest code.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::ModuleError;
use crate::module::{CodeCache, ModuleLimits};

/// How often the clock ticks that deadlines are counted in.
const TICK: Duration = Duration::from_millis(5);
/// Frames of a backtrace that are kept.
const BACKTRACE_FRAMES: usize = 32;

/// Settings of an [`Engine`].
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where compiled code is kept between processes; `None` compiles each time. The folder is made
    /// private to its owner. Default `None`; see [`EngineConfig::default_cache_dir`].
    pub cache_dir: Option<PathBuf>,
    /// What a module may be.
    pub limits: ModuleLimits,
    /// Bytes of native stack that guest code may use. Default 512 KiB.
    pub max_wasm_stack: usize,
    /// Whether backtraces show lines of source, where a module has them. Reading debug information
    /// that means harm can exhaust the stack or take hours, so this is for modules that are trusted.
    /// Function names are shown either way. Default `false`.
    pub debug_lines: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            cache_dir: None,
            limits: ModuleLimits::default(),
            max_wasm_stack: 512 << 10,
            debug_lines: false,
        }
    }
}

impl EngineConfig {
    /// The user's cache folder for compiled code: `$XDG_CACHE_HOME/wasmill/code`, else
    /// `~/.cache/wasmill/code`.
    pub fn default_cache_dir() -> Option<PathBuf> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|p| p.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
        Some(base.join("wasmill").join("code"))
    }
}

/// Compiles modules and runs the clock that their deadlines are counted in. Cheap to clone.
///
/// ```
/// use wasmill::{Engine, EngineConfig};
///
/// let engine = Engine::new(&EngineConfig::default())?;
/// # Ok::<(), wasmill::ModuleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    wasmtime: WasmtimeEngine,
    limits: ModuleLimits,
    max_wasm_stack: usize,
    cache: Option<CodeCache>,
}

struct WasmtimeEngine(wasmtime::Engine);

impl std::fmt::Debug for WasmtimeEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("wasmtime::Engine")
    }
}

impl Engine {
    /// Makes an engine.
    ///
    /// # Errors
    /// [`ModuleError::Engine`] when the settings do not fit this machine. A cache folder that cannot
    /// be used is not an error: it is logged, and modules are compiled each time.
    pub fn new(config: &EngineConfig) -> Result<Self, ModuleError> {
        let failed = |e: &dyn std::fmt::Display| ModuleError::Engine {
            reason: e.to_string(),
        };
        let wasmtime = wasmtime::Engine::new(&wasmtime_config(config)).map_err(|e| failed(&e))?;
        start_clock(&wasmtime).map_err(|e| failed(&e))?;
        let cache = config.cache_dir.as_deref().and_then(open_cache);
        Ok(Engine(Arc::new(Inner {
            wasmtime: WasmtimeEngine(wasmtime),
            limits: config.limits.clone(),
            max_wasm_stack: config.max_wasm_stack,
            cache,
        })))
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.0.wasmtime.0
    }

    pub(crate) fn limits(&self) -> &ModuleLimits {
        &self.0.limits
    }

    pub(crate) fn cache(&self) -> Option<&CodeCache> {
        self.0.cache.as_ref()
    }

    /// Bytes of stack for a thread that runs guest code: the guest's, and as much again as the host
    /// may need below and above it.
    pub(crate) fn thread_stack(&self) -> usize {
        self.0.max_wasm_stack.saturating_add(2 << 20)
    }
}

fn open_cache(folder: &Path) -> Option<CodeCache> {
    CodeCache::open(folder)
        .inspect_err(|error| tracing::warn!(folder = %folder.display(), %error, "compiled code is not cached"))
        .ok()
}

/// Only what guests need is on; each proposal that is off is one less way in. The cargo features `gc`
/// and `threads` of wasmtime are on because builds of 48.0.8 without them abort on some modules
/// (RUSTSEC-2026-0570 and its neighbour); the proposals themselves are off.
fn wasmtime_config(config: &EngineConfig) -> wasmtime::Config {
    let mut c = wasmtime::Config::new();
    c.strategy(wasmtime::Strategy::Cranelift)
        .cranelift_opt_level(wasmtime::OptLevel::Speed)
        .epoch_interruption(true)
        .max_wasm_stack(config.max_wasm_stack)
        .wasm_backtrace_details(if config.debug_lines {
            wasmtime::WasmBacktraceDetails::Enable
        } else {
            wasmtime::WasmBacktraceDetails::Disable
        })
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES))
        .memory_may_move(false)
        .gc_support(false)
        .shared_memory(false)
        .wasm_threads(false)
        .wasm_shared_everything_threads(false)
        .wasm_gc(false)
        .wasm_function_references(false)
        .wasm_exceptions(false)
        .wasm_tail_call(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_custom_page_sizes(false)
        .wasm_stack_switching(false)
        .wasm_extended_const(false)
        .wasm_branch_hinting(false)
        .wasm_reference_types(true)
        .wasm_bulk_memory(true)
        .wasm_multi_value(true)
        .wasm_simd(true)
        .wasm_relaxed_simd(true)
        .relaxed_simd_deterministic(true)
        // Off by default in 48; it makes 64-bit hashes of short strings three times faster.
        .wasm_wide_arithmetic(true);
    c
}

/// A thread that ticks as long as the engine lives. Ticks follow the time that has passed, not the
/// number of sleeps, which take longer on a busy machine: deadlines must not drift.
fn start_clock(engine: &wasmtime::Engine) -> std::io::Result<()> {
    let weak = engine.weak();
    let start = Instant::now();
    std::thread::Builder::new()
        .name("wasmill-clock".to_owned())
        .spawn(move || {
            let mut ticks = 0_u128;
            while let Some(engine) = weak.upgrade() {
                let due = start.elapsed().as_nanos().div_euclid(TICK.as_nanos());
                while ticks < due {
                    engine.increment_epoch();
                    ticks = ticks.saturating_add(1);
                }
                drop(engine);
                std::thread::sleep(TICK);
            }
        })
        .map(drop)
}
