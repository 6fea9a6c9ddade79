//! The names and signatures of `wasi_snapshot_preview1`, all of them.

use wasmtime::{Caller, Extern, Linker};

use super::errno::{Errno, Fail, Outcome};
use super::memory::GuestMemory;
use super::opening::Request;
use super::{HostCallError, WasiContext};

/// The module name that guests import from.
const MODULE: &str = "wasi_snapshot_preview1";

/// Adds every function of WASI preview 1 to `linker`. `get` finds the context in the store's data.
pub(crate) fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    get: impl Fn(&mut T) -> &mut WasiContext + Send + Sync + Copy + 'static,
) -> wasmtime::Result<()> {
    /// One function: its name, its parameters, and what it does with the context and maybe memory.
    macro_rules! define {
        ($name:literal, ($($arg:ident: $kind:ty),*), |$context:ident| $body:expr) => {
            linker.func_wrap(MODULE, $name, move |mut caller: Caller<'_, T>, $($arg: $kind),*| {
                without_memory(&mut caller, get, |$context| $body)
            })?;
        };
        ($name:literal, ($($arg:ident: $kind:ty),*), |$context:ident, $memory:ident| $body:expr) => {
            linker.func_wrap(MODULE, $name, move |mut caller: Caller<'_, T>, $($arg: $kind),*| {
                with_memory(&mut caller, get, |$context, $memory| $body)
            })?;
        };
    }
    /// A function that nobody is granted.
    macro_rules! refuse {
        ($name:literal, ($($kind:ty),*)) => {
            linker.func_wrap(MODULE, $name, move |mut caller: Caller<'_, T>, $(_: $kind),*| {
                without_memory(&mut caller, get, |_| Err(Errno::Notcapable.into()))
            })?;
        };
    }

    // No arguments. The list needs no terminator, so nothing is written.
    define!("args_get", (_list: u32, _text: u32), |_c| Ok(()));
    define!("args_sizes_get", (count: u32, bytes: u32), |_c, m| empty(m, count, bytes));
    define!("environ_get", (list: u32, text: u32), |c, m| c.environment.get(m, list, text));
    define!("environ_sizes_get", (count: u32, bytes: u32), |c, m| c.environment.sizes(m, count, bytes));

    // Not granted to anybody.
    refuse!("clock_res_get", (u32, u32));
    refuse!("clock_time_get", (u32, u64, u32));
    refuse!("poll_oneoff", (u32, u32, u32, u32));
    refuse!("proc_raise", (u32));
    refuse!("sock_accept", (u32, u32, u32));
    refuse!("sock_recv", (u32, u32, u32, u32, u32, u32));
    refuse!("sock_send", (u32, u32, u32, u32, u32));
    refuse!("sock_shutdown", (u32, u32));
    refuse!("path_link", (u32, u32, u32, u32, u32, u32, u32));
    refuse!("path_symlink", (u32, u32, u32, u32, u32));

    // The same bytes in every instance: enough for the seeds of hash tables, and nothing to keep secrets with.
    define!("random_get", (at: u32, length: u32), |c, m| c.random_get(m, at, length));

    // A slot has its thread to itself; the deadline is looked at all the same.
    define!("sched_yield", (), |_c| Ok(()));
    linker.func_wrap(
        MODULE,
        "proc_exit",
        move |code: i32| -> wasmtime::Result<()> { Err(HostCallError::Exit(code).into()) },
    )?;

    // Descriptors.
    define!("fd_advise", (fd: u32, _offset: u64, _length: u64, advice: u32), |c| c.fd_advise(fd, advice));
    define!("fd_allocate", (fd: u32, _offset: u64, _length: u64), |c| c.fd_allocate(fd));
    define!("fd_close", (fd: u32), |c| c.fd_close(fd));
    define!("fd_datasync", (fd: u32), |c| c.fd_sync(fd, false));
    define!("fd_fdstat_get", (fd: u32, out: u32), |c, m| c.fd_fdstat_get(m, fd, out));
    define!("fd_fdstat_set_flags", (fd: u32, flags: u32), |c| c.fd_fdstat_set_flags(fd, flags));
    define!("fd_fdstat_set_rights", (fd: u32, base: u64, inheriting: u64), |c| {
        c.fd_fdstat_set_rights(fd, base, inheriting)
    });
    define!("fd_filestat_get", (fd: u32, out: u32), |c, m| c.fd_filestat_get(m, fd, out));
    define!("fd_filestat_set_size", (fd: u32, size: u64), |c| c.fd_filestat_set_size(fd, size));
    define!("fd_filestat_set_times", (fd: u32, accessed: u64, modified: u64, flags: u32), |c| {
        c.fd_filestat_set_times(fd, accessed, modified, flags)
    });
    define!("fd_pread", (fd: u32, list: u32, count: u32, offset: u64, out: u32), |c, m| {
        c.fd_read(m, fd, (list, count), Some(offset), out)
    });
    define!("fd_prestat_get", (fd: u32, out: u32), |c, m| c.fd_prestat_get(m, fd, out));
    define!("fd_prestat_dir_name", (fd: u32, buffer: u32, length: u32), |c, m| {
        c.fd_prestat_dir_name(m, fd, (buffer, length))
    });
    define!("fd_pwrite", (fd: u32, list: u32, count: u32, offset: u64, out: u32), |c, m| {
        c.fd_write(m, fd, (list, count), Some(offset), out)
    });
    define!("fd_read", (fd: u32, list: u32, count: u32, out: u32), |c, m| {
        c.fd_read(m, fd, (list, count), None, out)
    });
    define!("fd_readdir", (fd: u32, buffer: u32, length: u32, cookie: u64, out: u32), |c, m| {
        c.fd_readdir(m, fd, (buffer, length), cookie, out)
    });
    define!("fd_renumber", (from: u32, to: u32), |c| c.fd_renumber(from, to));
    define!("fd_seek", (fd: u32, offset: i64, whence: u32, out: u32), |c, m| {
        c.fd_seek(m, fd, offset, whence, out)
    });
    define!("fd_sync", (fd: u32), |c| c.fd_sync(fd, true));
    define!("fd_tell", (fd: u32, out: u32), |c, m| c.fd_tell(m, fd, out));
    define!("fd_write", (fd: u32, list: u32, count: u32, out: u32), |c, m| {
        c.fd_write(m, fd, (list, count), None, out)
    });

    // Paths.
    define!("path_create_directory", (fd: u32, path: u32, length: u32), |c, m| {
        c.path_create_directory(m, fd, (path, length))
    });
    define!("path_filestat_get", (fd: u32, lookup: u32, path: u32, length: u32, out: u32), |c, m| {
        c.path_filestat_get(m, fd, lookup, (path, length), out)
    });
    define!(
        "path_filestat_set_times",
        (fd: u32, lookup: u32, path: u32, length: u32, accessed: u64, modified: u64, flags: u32),
        |c, m| c.path_filestat_set_times(m, fd, lookup, (path, length), (accessed, modified, flags))
    );
    define!(
        "path_open",
        (fd: u32, lookup: u32, path: u32, length: u32, open: u32, base: u64, _inheriting: u64, flags: u32, out: u32),
        |c, m| c.path_open(m, fd, (path, length), &Request { lookup, open, base, flags }, out)
    );
    define!("path_readlink", (fd: u32, path: u32, length: u32, buffer: u32, room: u32, out: u32), |c, m| {
        c.path_readlink(m, fd, (path, length), (buffer, room), out)
    });
    define!("path_remove_directory", (fd: u32, path: u32, length: u32), |c, m| {
        c.path_remove_directory(m, fd, (path, length))
    });
    define!(
        "path_rename",
        (from_fd: u32, from: u32, from_length: u32, to_fd: u32, to: u32, to_length: u32),
        |c, m| c.path_rename(m, (from_fd, (from, from_length)), (to_fd, (to, to_length)))
    );
    define!("path_unlink_file", (fd: u32, path: u32, length: u32), |c, m| {
        c.path_unlink_file(m, fd, (path, length))
    });
    Ok(())
}

/// Count and size of a list with nothing in it.
fn empty(memory: &mut GuestMemory<'_>, count: u32, bytes: u32) -> Outcome {
    memory.write_u32(count, 0)?;
    memory.write_u32(bytes, 0)
}

/// Runs a call that needs no guest memory.
fn without_memory<T: 'static>(
    caller: &mut Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut WasiContext,
    body: impl FnOnce(&mut WasiContext) -> Outcome,
) -> wasmtime::Result<u32> {
    let context = get(caller.data_mut());
    context.deadline.check()?;
    settle(body(context))
}

/// Runs a call with the memory that the calling module exports. The guest does not run meanwhile, so the
/// borrow cannot see it change or move.
fn with_memory<T: 'static>(
    caller: &mut Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut WasiContext,
    body: impl FnOnce(&mut WasiContext, &mut GuestMemory<'_>) -> Outcome,
) -> wasmtime::Result<u32> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
        return Err(HostCallError::NoMemory.into());
    };
    let (bytes, data) = memory.data_and_store_mut(caller);
    let context = get(data);
    context.deadline.check()?;
    settle(body(context, &mut GuestMemory::new(bytes)))
}

/// What the guest gets back: 0, an errno, or a trap.
fn settle(outcome: Outcome) -> wasmtime::Result<u32> {
    match outcome {
        Ok(()) => Ok(0),
        Err(Fail::Errno(errno)) => Ok(errno as u32),
        Err(Fail::Host(error)) => Err(error.into()),
    }
}
