//! What a file is: read, counted and checked against the load limits without compiling or running
//! any of it.

use std::path::Path;

use serde::Serialize;
use wasmparser::{ExternalKind, FuncType, Parser, Payload, TypeRef, Validator, WasmFeatures};

use super::{Digest, Manifest, ModuleLimits};
use crate::abi::frame::clean_line;
use crate::error::ModuleError;

/// The custom section that holds the manifest.
pub(crate) const MANIFEST_SECTION: &str = "wasmill.manifest";

/// What a module is, as far as its bytes tell.
#[derive(Debug, Clone, Serialize)]
pub struct ModuleInfo {
    /// The name: the file's without its extension.
    pub name: String,
    /// SHA-256 of the file.
    pub digest: Digest,
    /// The ABI version.
    pub abi: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of function bodies.
    pub code_bytes: u64,
    /// Bytes of data segments.
    pub data_bytes: u64,
    /// Bytes of custom sections (names, debug information, the manifest).
    pub custom_bytes: u64,
    /// Number of functions that the module defines.
    pub functions: u64,
    /// The memory.
    pub memory: MemoryInfo,
    /// Imports, as `module.name`.
    pub imports: Vec<String>,
    /// Names of exports.
    pub exports: Vec<String>,
    /// Whether lines of source appear in backtraces.
    pub has_debug_lines: bool,
    /// The UDFs.
    pub manifest: Manifest,
}

/// The memory of a module.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct MemoryInfo {
    /// Bytes at the start.
    pub initial_bytes: u64,
    /// Bytes at most, where the module says so.
    pub maximum_bytes: Option<u64>,
}

/// The proposals that guests may use; all others are off, here and in the engine.
pub(crate) fn features() -> WasmFeatures {
    WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::REFERENCE_TYPES
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::SIMD
        | WasmFeatures::RELAXED_SIMD
        | WasmFeatures::WIDE_ARITHMETIC
        | WasmFeatures::FLOATS
        | WasmFeatures::GC_TYPES
}

impl ModuleInfo {
    /// Reads a file. Runs and compiles nothing.
    ///
    /// # Errors
    /// [`ModuleError`] when the file cannot be read, is not a module, exceeds a limit, or breaks the ABI.
    pub fn from_file(path: impl AsRef<Path>, limits: &ModuleLimits) -> Result<Self, ModuleError> {
        let (name, bytes) = read_file(path.as_ref(), limits)?;
        Self::from_bytes(&name, &bytes, limits)
    }

    /// Reads a module that is already in memory. Runs and compiles nothing.
    ///
    /// # Errors
    /// As [`ModuleInfo::from_file`].
    pub fn from_bytes(
        name: &str,
        bytes: &[u8],
        limits: &ModuleLimits,
    ) -> Result<Self, ModuleError> {
        let scan = Scan::new(name, bytes, limits)?;
        scan.finish(bytes)
    }
}

/// Reads a module's bytes, refusing files over the limit before they are read.
pub(crate) fn read_file(
    path: &Path,
    limits: &ModuleLimits,
) -> Result<(String, Vec<u8>), ModuleError> {
    use std::io::Read;
    let failed = |source| ModuleError::Read {
        path: path.to_owned(),
        source,
    };
    let name = path
        .file_stem()
        .map_or_else(|| "module".to_owned(), |s| s.to_string_lossy().into_owned());
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(limits.module_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok((name, bytes))
}

/// One pass over the sections.
struct Scan<'a> {
    name: &'a str,
    limits: &'a ModuleLimits,
    manifest: Vec<u8>,
    types: Vec<Option<FuncType>>,
    /// Type index of each function, imported ones first.
    functions: Vec<u32>,
    imported_functions: u64,
    globals: Vec<wasmparser::GlobalType>,
    memories: Vec<wasmparser::MemoryType>,
    imports: Vec<(String, String, TypeRef)>,
    exports: Vec<(String, ExternalKind, u32)>,
    tables: u64,
    segments: u64,
    code_bytes: u64,
    data_bytes: u64,
    custom_bytes: u64,
    has_debug_lines: bool,
}

impl<'a> Scan<'a> {
    fn new(name: &'a str, bytes: &'a [u8], limits: &'a ModuleLimits) -> Result<Self, ModuleError> {
        let mut scan = Scan {
            name,
            limits,
            manifest: Vec::new(),
            types: Vec::new(),
            functions: Vec::new(),
            imported_functions: 0,
            globals: Vec::new(),
            memories: Vec::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            tables: 0,
            segments: 0,
            code_bytes: 0,
            data_bytes: 0,
            custom_bytes: 0,
            has_debug_lines: false,
        };
        scan.limit("bytes of the file", bytes.len() as u64, limits.module_bytes)?;
        if !bytes.starts_with(b"\0asm") {
            return Err(scan.invalid("it does not begin as a WebAssembly module does; give the `.wasm` file that the compiler wrote"));
        }
        if bytes.get(4..8) == Some(&[0x0d, 0, 1, 0]) {
            return Err(scan.invalid("it is a WebAssembly component; build a core module (target wasm32-unknown-unknown or wasm32-wasip1)"));
        }
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(|e| scan.malformed(&e))?;
            scan.section(payload)?;
        }
        Validator::new_with_features(features())
            .validate_all(bytes)
            .map_err(|e| scan.malformed(&e))?;
        Ok(scan)
    }

    fn section(&mut self, payload: Payload<'_>) -> Result<(), ModuleError> {
        let limits = self.limits;
        match payload {
            Payload::TypeSection(reader) => {
                self.limit("types", u64::from(reader.count()), limits.types)?;
                for group in reader {
                    let group = group.map_err(|e| self.malformed(&e))?;
                    for ty in group.into_types() {
                        let function = match ty.composite_type.inner {
                            wasmparser::CompositeInnerType::Func(f) => Some(f),
                            _ => None,
                        };
                        let values = function
                            .as_ref()
                            .map_or(0, |f| f.params().len().saturating_add(f.results().len()));
                        self.limit("values of one type", values as u64, limits.type_values)?;
                        self.types.push(function);
                        self.limit("types", self.types.len() as u64, limits.types)?;
                    }
                }
            }
            Payload::ImportSection(reader) => {
                self.limit("imports", u64::from(reader.count()), limits.imports)?;
                for import in reader.into_imports() {
                    let import = import.map_err(|e| self.malformed(&e))?;
                    if let TypeRef::Func(ty) | TypeRef::FuncExact(ty) = import.ty {
                        self.functions.push(ty);
                        self.imported_functions = self.imported_functions.saturating_add(1);
                    }
                    if let TypeRef::Global(ty) = import.ty {
                        self.globals.push(ty);
                    }
                    self.imports.push((
                        import.module.to_owned(),
                        import.name.to_owned(),
                        import.ty,
                    ));
                    self.limit("imports", self.imports.len() as u64, limits.imports)?;
                }
            }
            Payload::FunctionSection(reader) => {
                self.limit("functions", u64::from(reader.count()), limits.functions)?;
                for ty in reader {
                    let ty = ty.map_err(|e| self.malformed(&e))?;
                    self.functions.push(ty);
                }
            }
            Payload::TableSection(reader) => {
                self.tables = u64::from(reader.count());
                self.limit("tables", self.tables, limits.tables)?;
            }
            Payload::MemorySection(reader) => {
                for memory in reader {
                    let memory = memory.map_err(|e| self.malformed(&e))?;
                    self.memories.push(memory);
                    self.limit("memories", self.memories.len() as u64, 1)?;
                }
            }
            Payload::GlobalSection(reader) => {
                self.limit("globals", u64::from(reader.count()), limits.globals)?;
                for global in reader {
                    let global = global.map_err(|e| self.malformed(&e))?;
                    self.globals.push(global.ty);
                }
            }
            Payload::ExportSection(reader) => {
                self.limit("exports", u64::from(reader.count()), limits.exports)?;
                for export in reader {
                    let export = export.map_err(|e| self.malformed(&e))?;
                    self.exports
                        .push((export.name.to_owned(), export.kind, export.index));
                }
            }
            Payload::ElementSection(reader) => self.segments(u64::from(reader.count()))?,
            Payload::DataSection(reader) => {
                self.segments(u64::from(reader.count()))?;
                for data in reader {
                    let data = data.map_err(|e| self.malformed(&e))?;
                    self.data_bytes = self.data_bytes.saturating_add(data.data.len() as u64);
                }
            }
            Payload::CodeSectionEntry(body) => {
                let bytes = body.range().len() as u64;
                self.code_bytes = self.code_bytes.saturating_add(bytes);
                self.limit("bytes of one function", bytes, limits.function_bytes)?;
                self.check_loops(&body)?;
            }
            Payload::CustomSection(section) => {
                let bytes = section.data().len() as u64;
                if section.name() == MANIFEST_SECTION {
                    self.limit(
                        "bytes of the manifest",
                        (self.manifest.len() as u64).saturating_add(bytes),
                        limits.manifest_bytes,
                    )?;
                    self.manifest.extend_from_slice(section.data());
                }
                if section.name() == ".debug_line" {
                    self.has_debug_lines = true;
                }
                if !section.name().starts_with(".debug_") {
                    self.custom_bytes = self.custom_bytes.saturating_add(bytes);
                    self.limit(
                        "bytes of custom sections",
                        self.custom_bytes,
                        limits.custom_bytes,
                    )?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Loops inside loops cost the compiler more than their bytes.
    fn check_loops(&self, body: &wasmparser::FunctionBody<'_>) -> Result<(), ModuleError> {
        use wasmparser::Operator;
        let operators = body
            .get_operators_reader()
            .map_err(|e| self.malformed(&e))?;
        let mut open: Vec<bool> = Vec::new();
        let mut loops = 0_u64;
        for operator in operators {
            match operator.map_err(|e| self.malformed(&e))? {
                Operator::Loop { .. } => {
                    open.push(true);
                    loops = loops.saturating_add(1);
                    self.limit("loops inside each other", loops, self.limits.loop_depth)?;
                }
                Operator::Block { .. } | Operator::If { .. } => open.push(false),
                Operator::End if open.pop() == Some(true) => loops = loops.saturating_sub(1),
                _ => {}
            }
        }
        Ok(())
    }

    fn segments(&mut self, count: u64) -> Result<(), ModuleError> {
        self.segments = self.segments.saturating_add(count);
        self.limit(
            "element and data segments",
            self.segments,
            self.limits.segments,
        )
    }

    fn finish(self, bytes: &[u8]) -> Result<ModuleInfo, ModuleError> {
        if self.manifest.is_empty() {
            return Err(ModuleError::Manifest {
                module: self.name.to_owned(),
                reason: format!(
                    "there is no custom section `{MANIFEST_SECTION}`; build the module with the guest SDK, or add a manifest"
                ),
            });
        }
        let manifest = Manifest::parse(&self.manifest, self.limits).map_err(|reason| {
            ModuleError::Manifest {
                module: self.name.to_owned(),
                reason,
            }
        })?;
        self.check_imports()?;
        let memory = self.check_memory()?;
        self.check_exports(&manifest)?;
        Ok(ModuleInfo {
            name: self.name.to_owned(),
            digest: Digest::of(bytes),
            abi: super::manifest::ABI_VERSION,
            bytes: bytes.len() as u64,
            code_bytes: self.code_bytes,
            data_bytes: self.data_bytes,
            custom_bytes: self.custom_bytes,
            functions: (self.functions.len() as u64).saturating_sub(self.imported_functions),
            memory,
            imports: self
                .imports
                .iter()
                .map(|(m, n, _)| format!("{m}.{n}"))
                .collect(),
            exports: self.exports.into_iter().map(|(name, _, _)| name).collect(),
            has_debug_lines: self.has_debug_lines,
            manifest,
        })
    }

    fn check_imports(&self) -> Result<(), ModuleError> {
        for (module, name, ty) in &self.imports {
            let refused = |hint| ModuleError::Import {
                module: self.name.to_owned(),
                import: clean_line(&format!("{module}.{name}")),
                hint,
            };
            if !matches!(ty, TypeRef::Func(_) | TypeRef::FuncExact(_)) {
                return Err(refused(
                    "only functions can be imported: define memory, tables and globals in the module",
                ));
            }
            match module.as_str() {
                "wasmill_v1" if name == "log" => {}
                "wasmill_v1" => {
                    return Err(refused(
                        "`wasmill_v1` has `log`; build the module with a matching SDK",
                    ));
                }
                "wasi_snapshot_preview1" if crate::sandbox::is_wasi_name(name) => {}
                "wasi_snapshot_preview1" => {
                    return Err(refused("WASI preview 1 has no such function"));
                }
                "env" => {
                    return Err(refused(
                        "a function is missing at link time: define it in the module",
                    ));
                }
                _ => {
                    return Err(refused(
                        "a guest can import `wasmill_v1` and `wasi_snapshot_preview1`",
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<MemoryInfo, ModuleError> {
        let [memory] = self.memories.as_slice() else {
            return Err(self.breaks("it must define exactly one memory and export it as `memory`"));
        };
        if memory.memory64 || memory.shared {
            return Err(self.breaks("its memory must be 32-bit and not shared"));
        }
        if !self
            .exports
            .iter()
            .any(|(n, k, _)| n == "memory" && *k == ExternalKind::Memory)
        {
            return Err(self.breaks("it does not export its memory as `memory`"));
        }
        let page = 65_536_u64;
        Ok(MemoryInfo {
            initial_bytes: memory.initial.saturating_mul(page),
            maximum_bytes: memory.maximum.map(|pages| pages.saturating_mul(page)),
        })
    }

    fn check_exports(&self, manifest: &Manifest) -> Result<(), ModuleError> {
        use wasmparser::ValType::I32;
        self.check_function("wasmill_alloc", "the ABI", &[I32, I32], &[I32])?;
        self.check_function("wasmill_free", "the ABI", &[I32, I32, I32], &[])?;
        for optional in ["wasmill_reset", "_initialize"] {
            if self.exports.iter().any(|(n, _, _)| n == optional) {
                self.check_function(optional, "the ABI", &[], &[])?;
            }
        }
        if let Some((_, kind, index)) = self.exports.iter().find(|(n, _, _)| n == "wasmill_panic") {
            let global = usize::try_from(*index)
                .ok()
                .and_then(|i| self.globals.get(i));
            if *kind != ExternalKind::Global
                || global.is_none_or(|g| g.mutable || g.content_type != I32)
            {
                return Err(self.breaks("`wasmill_panic` must be an immutable i32 global"));
            }
        }
        for function in manifest.functions() {
            let wants = format!("the manifest's `{}`", function.name);
            self.check_function(&function.symbol, &wants, &[I32], &[I32])?;
            if let Some(bind) = &function.bind {
                self.check_function(bind, &wants, &[I32], &[I32])?;
            }
            if let Some(state) = &function.state {
                self.check_function(&state.init, &wants, &[I32], &[I32])?;
                if let Some(close) = &state.close {
                    self.check_function(close, &wants, &[I32], &[])?;
                }
            }
        }
        Ok(())
    }

    fn check_function(
        &self,
        symbol: &str,
        wants: &str,
        params: &[wasmparser::ValType],
        results: &[wasmparser::ValType],
    ) -> Result<(), ModuleError> {
        let Some((_, kind, index)) = self.exports.iter().find(|(n, _, _)| n == symbol) else {
            return Err(self.breaks(format!(
                "{wants} wants the export `{symbol}`, which does not exist"
            )));
        };
        let ty = usize::try_from(*index)
            .ok()
            .filter(|_| *kind == ExternalKind::Func)
            .and_then(|i| self.functions.get(i))
            .and_then(|ty| usize::try_from(*ty).ok())
            .and_then(|ty| self.types.get(ty))
            .and_then(Option::as_ref);
        match ty {
            Some(ty) if ty.params() == params && ty.results() == results => Ok(()),
            _ => Err(self.breaks(format!("the export `{symbol}`, which {wants} wants, must be a function of type {params:?} -> {results:?}"))),
        }
    }

    fn limit(&self, what: &'static str, found: u64, limit: u64) -> Result<(), ModuleError> {
        if found > limit {
            return Err(ModuleError::Limit {
                module: self.name.to_owned(),
                what,
                found,
                limit,
            });
        }
        Ok(())
    }

    fn invalid(&self, reason: impl Into<String>) -> ModuleError {
        ModuleError::Invalid {
            module: self.name.to_owned(),
            reason: reason.into(),
        }
    }

    fn malformed(&self, e: &wasmparser::BinaryReaderError) -> ModuleError {
        self.invalid(format!("{} (at byte {:#x})", e.message(), e.offset()))
    }

    fn breaks(&self, reason: impl Into<String>) -> ModuleError {
        ModuleError::Abi {
            module: self.name.to_owned(),
            reason: reason.into(),
        }
    }
}
