//! `path_open`: the only way to a new descriptor.

use std::fs::File;

use cap_std::fs::{Dir, Metadata, OpenOptions};

use super::errno::{Errno, Outcome};
use super::memory::{GuestMemory, GuestPath};
use super::rights::{
    self, ALL_FDFLAGS, APPEND, FD_WRITE, FILE_WRITE, NONBLOCK, O_CREAT, O_DIRECTORY, O_EXCL,
    O_TRUNC, PATH_CREATE_FILE, PATH_FILESTAT_SET_SIZE, PATH_OPEN, SYMLINK_FOLLOW,
};
use super::table::{Descriptor, Object, OpenDir};
use super::{ENTRY_COST, WasiContext};

/// What a guest asks of `path_open`, besides the path.
pub(super) struct Request {
    /// `lookupflags`.
    pub(super) lookup: u32,
    /// `oflags`.
    pub(super) open: u32,
    /// Rights for the new descriptor.
    pub(super) base: u64,
    /// `fdflags`.
    pub(super) flags: u32,
}

/// What stands at a path.
enum Found {
    Nothing,
    Dir,
    File,
}

impl Request {
    /// Whether `flag` is among the `oflags`.
    fn asks(&self, flag: u32) -> bool {
        self.open & flag != 0
    }

    /// Refuses flags that do not exist or go together, and what is not offered.
    fn check(&self) -> Outcome {
        let unknown = self.lookup & !SYMLINK_FOLLOW != 0
            || self.open & !(O_CREAT | O_DIRECTORY | O_EXCL | O_TRUNC) != 0
            || self.flags & !ALL_FDFLAGS != 0;
        if unknown || (self.asks(O_DIRECTORY) && self.asks(O_CREAT | O_TRUNC)) {
            return Err(Errno::Inval.into());
        }
        // Synchronous writes: a guest calls `fd_sync` where it means it.
        if self.flags & !(APPEND | NONBLOCK) != 0 {
            return Err(Errno::Notsup.into());
        }
        Ok(())
    }

    /// The rights of the folder that the request needs.
    fn needs(&self) -> u64 {
        let create = if self.asks(O_CREAT) {
            PATH_CREATE_FILE
        } else {
            0
        };
        let truncate = if self.asks(O_TRUNC) {
            PATH_FILESTAT_SET_SIZE
        } else {
            0
        };
        PATH_OPEN | create | truncate
    }

    /// The rights of a new descriptor for a file, of what the folder passes on.
    fn file_rights(&self, inheriting: u64) -> Outcome<u64> {
        let lacks_write = (self.base & FD_WRITE != 0 && inheriting & FD_WRITE == 0)
            // Cutting a file is writing, whatever the folder allows.
            || (self.asks(O_TRUNC) && self.base & inheriting & FD_WRITE == 0);
        if lacks_write {
            return Err(Errno::Notcapable.into());
        }
        // Other rights are handed out as far as they go: toolchains ask for all they know of.
        let rights = self.base & inheriting & rights::of_file(true);
        Ok(if rights & FD_WRITE == 0 {
            rights & !FILE_WRITE
        } else {
            rights
        })
    }
}

impl WasiContext {
    /// `path_open`. Only regular files and folders open. Others are never opened, not even to look:
    /// opening a FIFO may block and opening a device may do something.
    pub(super) fn path_open(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        path: (u32, u32),
        request: &Request,
        out: u32,
    ) -> Outcome {
        self.table.check_room()?;
        memory.range(out, 4)?;
        request.check()?;
        let path = memory.path(path.0, path.1)?;
        let dir = self.table.dir(fd, request.needs())?;
        let inheriting = self.table.get(fd)?.inheriting;
        let rights = request.file_rights(inheriting)?;

        let follow = request.lookup & SYMLINK_FOLLOW != 0;
        let descriptor = match find(dir, &path, follow)? {
            Found::Dir => open_dir(dir, &path, request, inheriting)?,
            Found::File if request.asks(O_CREAT) && request.asks(O_EXCL) => {
                return Err(Errno::Exist.into());
            }
            Found::File if request.asks(O_DIRECTORY) || path.names_dir => {
                return Err(Errno::Notdir.into());
            }
            Found::File => open_file(dir, &path, request, rights, false)?,
            Found::Nothing if request.asks(O_CREAT) && !path.names_dir => {
                self.spend(ENTRY_COST)?;
                open_file(
                    self.table.dir(fd, request.needs())?,
                    &path,
                    request,
                    rights,
                    true,
                )?
            }
            Found::Nothing => return Err(Errno::Noent.into()),
        };
        let opened = self.table.insert(descriptor)?;
        memory.write_u32(out, opened)
    }
}

/// Looks at what `path` names without opening it.
fn find(dir: &Dir, path: &GuestPath, follow: bool) -> Outcome<Found> {
    // Between this look and the opening another process may put a symbolic link here. It would then be
    // followed, but no further than the granted folder.
    let result = if follow || path.names_dir {
        dir.metadata(&path.text)
    } else {
        dir.symlink_metadata(&path.text)
    };
    match result {
        Ok(metadata) if metadata.is_dir() => Ok(Found::Dir),
        Ok(metadata) if metadata.is_file() => Ok(Found::File),
        Ok(metadata) if metadata.is_symlink() => Err(Errno::Loop.into()),
        Ok(_) => Err(Errno::Notcapable.into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder. It keeps what its parent may do, whatever was asked for: toolchains disagree about
/// what to ask, and authority comes from the grant.
fn open_dir(
    dir: &Dir,
    path: &GuestPath,
    request: &Request,
    inheriting: u64,
) -> Outcome<Descriptor> {
    if request.asks(O_CREAT) && request.asks(O_EXCL) {
        return Err(Errno::Exist.into());
    }
    if request.asks(O_CREAT | O_TRUNC) || request.base & FD_WRITE != 0 {
        return Err(Errno::Isdir.into());
    }
    let opened = dir.open_dir(&path.text)?;
    let object = Object::Dir(OpenDir {
        dir: opened,
        preopen: None,
        listing: None,
    });
    Ok(Descriptor::new(
        object,
        inheriting & rights::of_dir(true),
        inheriting,
        request.flags & NONBLOCK,
    ))
}

/// Opens or creates a regular file and makes sure that it is one.
fn open_file(
    dir: &Dir,
    path: &GuestPath,
    request: &Request,
    base: u64,
    create: bool,
) -> Outcome<Descriptor> {
    let write = base & FD_WRITE != 0;
    let mut options = OpenOptions::new();
    // The host cannot create a file without opening it for writing; `base` keeps the guest from it.
    options
        .read(true)
        .write(write || create)
        .append(write && request.flags & APPEND != 0);
    if create {
        options.create(true).create_new(request.asks(O_EXCL));
    }
    never_block(&mut options);
    let file = dir.open_with(&path.text, &options)?.into_std();
    // Again, on what was opened.
    if !Metadata::from_file(&file)?.is_file() {
        return Err(Errno::Notcapable.into());
    }
    // Not while opening: by then it is known what would be cut.
    if request.asks(O_TRUNC) && write && !create {
        file.set_len(0)?;
    }
    Ok(Descriptor::new(Object::File(file), base, 0, request.flags))
}

/// Opens a file or folder only in order to set its times.
pub(super) fn open_for_times(dir: &Dir, path: &GuestPath, follow: bool) -> Outcome<File> {
    match find(dir, path, follow)? {
        Found::Nothing => return Err(Errno::Noent.into()),
        Found::File if path.names_dir => return Err(Errno::Notdir.into()),
        Found::Dir | Found::File => {}
    }
    let mut options = OpenOptions::new();
    options.read(true);
    never_block(&mut options);
    let file = dir.open_with(&path.text, &options)?.into_std();
    let metadata = Metadata::from_file(&file)?;
    if metadata.is_dir() || metadata.is_file() {
        Ok(file)
    } else {
        Err(Errno::Notcapable.into())
    }
}

/// Keeps opening from waiting for the other end, should a FIFO have taken the place of the file. The
/// numbers are those of `O_NONBLOCK`, part of each system's ABI.
#[cfg(unix)]
fn never_block(options: &mut OpenOptions) {
    use cap_std::fs::OpenOptionsExt;
    let flag = if cfg!(any(target_os = "linux", target_os = "android")) {
        0o4000
    } else {
        0o4
    };
    options.custom_flags(flag);
}

/// Elsewhere there are no FIFOs in folders.
#[cfg(not(unix))]
fn never_block(_: &mut OpenOptions) {}
