//! Modules: loaded, checked, compiled once, and kept as compiled code between processes.

mod cache;
mod digest;
mod info;
mod limits;
pub(crate) mod manifest;
mod resolve;
mod schema;
mod types;

use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, mpsc};

pub(crate) use cache::CodeCache;
#[cfg(feature = "cli")]
pub(crate) use cache::cached_module;
pub use digest::Digest;
pub use info::{MemoryInfo, ModuleInfo};
pub use limits::ModuleLimits;
pub use manifest::{
    ABI_VERSION, Function, Manifest, NullHandling, Parameter, ParameterType, ResultType, State,
    StateKind, Volatility,
};
#[cfg(feature = "datafusion")]
pub(crate) use resolve::nearest;
pub use resolve::{ArgumentType, Resolved, is_lossless};
pub(crate) use schema::check_init_args;
pub(crate) use types::{MAX_DEPTH, MAX_FIELDS, MAX_TEXT, TypeRecord, check_type};

use crate::error::ModuleError;
use crate::sandbox::{Engine, SlotState};

/// A compiled module and what it declares. Cheap to clone.
///
/// ```no_run
/// use wasmill::{Engine, EngineConfig, Module};
///
/// let engine = Engine::new(&EngineConfig::default())?;
/// let module = Module::from_file(&engine, "target/udfs/math.wasm")?;
/// for function in module.manifest().functions() {
///     println!("{}({})", function.name, function.signature());
/// }
/// # Ok::<(), wasmill::ModuleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Module(Arc<Inner>);

struct Inner {
    engine: Engine,
    info: ModuleInfo,
    /// Linked against the host functions, ready to be instantiated.
    linked: wasmtime::InstancePre<SlotState>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module")
            .field("name", &self.info.name)
            .field("digest", &self.info.digest)
            .finish_non_exhaustive()
    }
}

impl Module {
    /// Loads a module from a file: checks it against the engine's limits and the ABI, and compiles it
    /// or takes the compiled code from the cache. No guest code runs.
    ///
    /// # Errors
    /// [`ModuleError`], which says why the module was refused.
    pub fn from_file(engine: &Engine, path: impl AsRef<Path>) -> Result<Self, ModuleError> {
        let (name, bytes) = info::read_file(path.as_ref(), engine.limits())?;
        Self::from_bytes(engine, &name, &bytes)
    }

    /// [`Module::from_file`] under another name than the file's.
    #[cfg(feature = "cli")]
    pub(crate) fn from_file_as(
        engine: &Engine,
        name: &str,
        path: &Path,
    ) -> Result<Self, ModuleError> {
        let (_, bytes) = info::read_file(path, engine.limits())?;
        Self::from_bytes(engine, name, &bytes)
    }

    /// Loads a module that is in memory; `name` stands for it in messages.
    ///
    /// # Errors
    /// As [`Module::from_file`].
    pub fn from_bytes(engine: &Engine, name: &str, bytes: &[u8]) -> Result<Self, ModuleError> {
        let info = ModuleInfo::from_bytes(name, bytes, engine.limits())?;
        let compiled = compile_cached(engine, &info, bytes)?;
        let linked = crate::sandbox::link(engine, &compiled).map_err(|e| ModuleError::Abi {
            module: name.to_owned(),
            reason: format!("it cannot be linked: {e:#}"),
        })?;
        Ok(Module(Arc::new(Inner {
            engine: engine.clone(),
            info,
            linked,
        })))
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        &self.0.info.name
    }

    /// SHA-256 of the module's bytes.
    pub fn digest(&self) -> &Digest {
        &self.0.info.digest
    }

    /// The UDFs that it has.
    pub fn manifest(&self) -> &Manifest {
        &self.0.info.manifest
    }

    /// Everything that its bytes tell.
    pub fn info(&self) -> &ModuleInfo {
        &self.0.info
    }

    /// The engine it was compiled by.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn linked(&self) -> &wasmtime::InstancePre<SlotState> {
        &self.0.linked
    }
}

fn compile_cached(
    engine: &Engine,
    info: &ModuleInfo,
    bytes: &[u8],
) -> Result<wasmtime::Module, ModuleError> {
    let entry = cache_entry(engine, info);
    if let Some(code) = engine.cache().and_then(|cache| cache.load(&entry)) {
        // SAFETY: `deserialize` runs whatever native code it is given, so the bytes must be what
        // `serialize` wrote. The cache hands out only bytes whose keyed hash verifies, which covers
        // the entry's name, hence the module's digest and the engine's settings; the key is readable
        // only by this user, and the bytes are this process's own copy.
        #[allow(unsafe_code, reason = "loading compiled code has no safe form")]
        match unsafe { wasmtime::Module::deserialize(engine.wasmtime(), &code) } {
            Ok(module) => return Ok(module),
            Err(error) => {
                tracing::debug!(%error, entry, "cached code does not fit this engine; compiling")
            }
        }
    }
    let module = compile(engine, info, bytes)?;
    if let Some(cache) = engine.cache()
        && let Ok(code) = module.serialize()
    {
        cache.store(&entry, &info.name, &code);
    }
    Ok(module)
}

/// Names a cache entry after all that compiled code depends on.
fn cache_entry(engine: &Engine, info: &ModuleInfo) -> String {
    let mut hasher = StableHasher(sha2::Digest::new());
    // Entries once held nothing but code; since then they have the module's name too.
    const LAYOUT: u8 = 2;
    LAYOUT.hash(&mut hasher);
    engine
        .wasmtime()
        .precompile_compatibility_hash()
        .hash(&mut hasher);
    let settings: [u8; 32] = sha2::Digest::finalize(hasher.0).into();
    let settings: String = settings
        .iter()
        .take(8)
        .map(|b| format!("{b:02x}"))
        .collect();
    format!("{}-{settings}", info.digest)
}

/// Feeds `Hash` into SHA-256, so that the name of an entry does not depend on the standard library's hasher.
struct StableHasher(sha2::Sha256);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        sha2::Digest::update(&mut self.0, bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// Compiles on a thread of its own, so that the caller is answered within the time limit. A
/// compilation that is given up ends by itself: its input is bounded.
fn compile(
    engine: &Engine,
    info: &ModuleInfo,
    bytes: &[u8],
) -> Result<wasmtime::Module, ModuleError> {
    let limit = engine.limits().compile_time;
    let failed = |reason| ModuleError::Compile {
        module: info.name.clone(),
        reason,
    };
    let (send, receive) = mpsc::sync_channel(1);
    let wasmtime = engine.wasmtime().clone();
    let bytes = bytes.to_vec();
    std::thread::Builder::new()
        .name("wasmill-compile".to_owned())
        .stack_size(8 << 20)
        .spawn(move || {
            // Threads of its own: a compilation that was given up must not keep others waiting.
            let threads = rayon::ThreadPoolBuilder::new().stack_size(8 << 20).build();
            let _ = send.send(match threads {
                Ok(threads) => threads.install(|| wasmtime::Module::new(&wasmtime, &bytes)),
                Err(_) => wasmtime::Module::new(&wasmtime, &bytes),
            });
        })
        .map_err(|e| failed(format!("no thread: {e}")))?;
    match receive.recv_timeout(limit) {
        Ok(Ok(module)) => Ok(module),
        Ok(Err(error)) => Err(failed(format!("{error:#}"))),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(ModuleError::CompileTime {
            module: info.name.clone(),
            limit,
        }),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(failed("the compiler stopped".to_owned())),
    }
}
