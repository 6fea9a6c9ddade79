//! A guest for tests: one trampoline for each WASI function, so that tests call them with any arguments
//! while the caller is a real module with its own memory.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use wasmtime::{Engine, Instance, Linker, Memory, Module, Store, Val};

use super::{Grant, LogStream, WasiContext, add_to_linker};

/// Every function with the types of its parameters: `i` is 32 bits wide, `I` 64. Written down apart from
/// the linker, so that a wrong signature there does not link here.
pub(super) const FUNCTIONS: [(&str, &str); 46] = [
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "iIi"),
    ("fd_advise", "iIIi"),
    ("fd_allocate", "iII"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "iII"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "iI"),
    ("fd_filestat_set_times", "iIIi"),
    ("fd_pread", "iiiIi"),
    ("fd_prestat_get", "ii"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_pwrite", "iiiIi"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiiIi"),
    ("fd_renumber", "ii"),
    ("fd_seek", "iIii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiiIIi"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiiIIii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_exit", "i"),
    ("proc_raise", "i"),
    ("sched_yield", ""),
    ("random_get", "ii"),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// Where the guest's memory holds results, buffer lists, paths and data.
pub(super) const OUT: u32 = 64;
pub(super) const LIST: u32 = 1024;
pub(super) const PATH: u32 = 16 << 10;
pub(super) const OTHER_PATH: u32 = 32 << 10;
pub(super) const DATA: u32 = 64 << 10;
/// Bytes of the guest's memory.
pub(super) const MEMORY: u32 = 4 << 16;

/// What the log callback got, in order.
type Logged = Vec<(LogStream, Vec<u8>)>;

/// An instance and its store.
pub(super) struct Guest {
    pub(super) store: Store<WasiContext>,
    pub(super) log: Arc<Mutex<Logged>>,
    instance: Instance,
    memory: Option<Memory>,
}

/// A grant of `host` as `guest`.
pub(super) fn grant(host: &Path, guest: &str, writable: bool) -> Grant {
    Grant {
        host: host.to_owned(),
        guest: guest.to_owned(),
        writable,
    }
}

/// The module: all functions imported, and each exported again through a function of its own.
fn trampolines(memory: &str) -> String {
    let mut imports = String::new();
    let mut functions = String::new();
    for (name, kinds) in FUNCTIONS {
        let types: String = kinds
            .chars()
            .map(|kind| if kind == 'I' { " i64" } else { " i32" })
            .collect();
        let result = if name == "proc_exit" {
            ""
        } else {
            "(result i32)"
        };
        let arguments: String = (0..kinds.len())
            .map(|at| format!("(local.get {at})"))
            .collect();
        writeln!(
            imports,
            "(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param{types}) {result}))"
        )
        .unwrap();
        writeln!(
            functions,
            "(func (export \"{name}\") (param{types}) {result} (call ${name} {arguments}))"
        )
        .unwrap();
    }
    format!("(module {imports} {memory} {functions})")
}

/// Compiles the trampolines with a memory of that declaration.
fn compile(memory: &str) -> Module {
    let bytes = wat::parse_str(trampolines(memory)).unwrap();
    Module::new(&Engine::default(), bytes).unwrap()
}

/// The usual module, compiled once: that takes longer than the tests.
fn usual() -> &'static Module {
    static USUAL: OnceLock<Module> = OnceLock::new();
    USUAL.get_or_init(|| compile("(memory (export \"memory\") 4)"))
}

impl Guest {
    /// A guest with these grants.
    pub(super) fn new(grants: &[Grant]) -> Self {
        Self::of_module(grants, &[], usual())
    }

    /// A guest with these environment variables.
    pub(super) fn with_environment(variables: &[(String, String)]) -> Self {
        Self::of_module(&[], variables, usual())
    }

    /// A guest whose memory is declared by `memory`.
    pub(super) fn with_memory(grants: &[Grant], memory: &str) -> Self {
        Self::of_module(grants, &[], &compile(memory))
    }

    fn of_module(grants: &[Grant], variables: &[(String, String)], module: &Module) -> Self {
        let mut linker = Linker::new(module.engine());
        add_to_linker(&mut linker, |context: &mut WasiContext| context).unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&log);
        let context = WasiContext::new(grants, variables, move |stream, bytes| {
            sink.lock().unwrap().push((stream, bytes.to_vec()));
        })
        .unwrap();
        let mut store = Store::new(module.engine(), context);
        let instance = linker.instantiate(&mut store, module).unwrap();
        let memory = instance.get_memory(&mut store, "memory");
        Guest {
            store,
            log,
            instance,
            memory,
        }
    }

    /// Calls a function; the arguments become as wide as its parameters are.
    pub(super) fn try_call(&mut self, name: &str, arguments: &[i64]) -> wasmtime::Result<u32> {
        let function = self.instance.get_func(&mut self.store, name).unwrap();
        let (_, kinds) = FUNCTIONS.iter().find(|(known, _)| *known == name).unwrap();
        assert_eq!(kinds.len(), arguments.len(), "{name} takes {kinds}");
        let values: Vec<Val> = kinds
            .chars()
            .zip(arguments)
            .map(|(kind, value)| {
                if kind == 'I' {
                    Val::I64(*value)
                } else {
                    Val::I32(*value as i32)
                }
            })
            .collect();
        let mut results = vec![Val::I32(0); usize::from(name != "proc_exit")];
        function.call(&mut self.store, &values, &mut results)?;
        Ok(results
            .first()
            .map_or(0, |result| result.unwrap_i32() as u32))
    }

    /// Calls a function that must not trap, and gives its errno.
    pub(super) fn call(&mut self, name: &str, arguments: &[i64]) -> u32 {
        self.try_call(name, arguments).unwrap()
    }

    /// Puts bytes into guest memory.
    pub(super) fn put(&mut self, at: u32, bytes: &[u8]) {
        self.memory
            .unwrap()
            .write(&mut self.store, at as usize, bytes)
            .unwrap();
    }

    /// Takes bytes from guest memory.
    pub(super) fn take(&mut self, at: u32, length: u32) -> Vec<u8> {
        self.memory.unwrap().data(&self.store)[at as usize..(at + length) as usize].to_vec()
    }

    /// The 32-bit number at `at`.
    pub(super) fn number(&mut self, at: u32) -> u32 {
        u32::from_le_bytes(self.take(at, 4).try_into().unwrap())
    }

    /// The 64-bit number at `at`.
    pub(super) fn long(&mut self, at: u32) -> u64 {
        u64::from_le_bytes(self.take(at, 8).try_into().unwrap())
    }

    /// Puts a list of buffers at [`LIST`].
    pub(super) fn list(&mut self, buffers: &[(u32, u32)]) {
        let bytes: Vec<u8> = buffers
            .iter()
            .flat_map(|(at, len)| [at.to_le_bytes(), len.to_le_bytes()])
            .flatten()
            .collect();
        self.put(LIST, &bytes);
    }

    /// Calls a function on a path: `before`, pointer and length of the path, `after`.
    pub(super) fn on_path(
        &mut self,
        name: &str,
        before: &[i64],
        path: &[u8],
        after: &[i64],
    ) -> u32 {
        self.put(PATH, path);
        let path = [i64::from(PATH), path.len() as i64];
        self.call(name, &[before, &path, after].concat())
    }

    /// `path_open`, following links; the new descriptor or the errno.
    pub(super) fn open(
        &mut self,
        fd: u32,
        path: &[u8],
        oflags: u32,
        rights: u64,
    ) -> Result<u32, u32> {
        self.open_as(fd, 1, path, oflags, rights, 0)
    }

    /// `path_open` with all its arguments.
    pub(super) fn open_as(
        &mut self,
        fd: u32,
        lookup: u32,
        path: &[u8],
        oflags: u32,
        rights: u64,
        flags: u32,
    ) -> Result<u32, u32> {
        let after = [
            i64::from(oflags),
            rights as i64,
            -1,
            i64::from(flags),
            i64::from(OUT),
        ];
        match self.on_path(
            "path_open",
            &[i64::from(fd), i64::from(lookup)],
            path,
            &after,
        ) {
            0 => Ok(self.number(OUT)),
            errno => Err(errno),
        }
    }

    /// Reads up to `length` bytes at the cursor.
    pub(super) fn read(&mut self, fd: u32, length: u32) -> Result<Vec<u8>, u32> {
        self.list(&[(DATA, length)]);
        match self.call(
            "fd_read",
            &[i64::from(fd), i64::from(LIST), 1, i64::from(OUT)],
        ) {
            0 => {
                let read = self.number(OUT);
                Ok(self.take(DATA, read))
            }
            errno => Err(errno),
        }
    }

    /// Writes at the cursor; how much was taken.
    pub(super) fn write(&mut self, fd: u32, bytes: &[u8]) -> Result<u32, u32> {
        self.put(DATA, bytes);
        self.list(&[(DATA, bytes.len() as u32)]);
        match self.call(
            "fd_write",
            &[i64::from(fd), i64::from(LIST), 1, i64::from(OUT)],
        ) {
            0 => Ok(self.number(OUT)),
            errno => Err(errno),
        }
    }

    /// `path_rename`.
    pub(super) fn rename(&mut self, from_fd: u32, from: &[u8], to_fd: u32, to: &[u8]) -> u32 {
        self.put(OTHER_PATH, to);
        let after = [i64::from(to_fd), i64::from(OTHER_PATH), to.len() as i64];
        self.on_path("path_rename", &[i64::from(from_fd)], from, &after)
    }
}

/// What stands in the files that were not granted.
pub(super) const SECRET: &str = "secret";

/// A folder to grant, beside another one that must not be reached.
pub(super) fn world() -> tempfile::TempDir {
    let world = tempfile::tempdir().unwrap();
    for folder in ["granted", "granted/inner", "outside", "outside/deep"] {
        fs::create_dir(world.path().join(folder)).unwrap();
    }
    for file in ["granted/file", "granted/inner/file"] {
        fs::write(world.path().join(file), "text").unwrap();
    }
    for file in ["outside/file", "outside/deep/file"] {
        fs::write(world.path().join(file), SECRET).unwrap();
    }
    world
}

/// A guest that sees the granted folder of a [`world`].
pub(super) fn guest_in(world: &Path, writable: bool) -> Guest {
    Guest::new(&[grant(&world.join("granted"), "/data", writable)])
}
