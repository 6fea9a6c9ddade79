//! The error numbers of preview 1, and what the host's errors become.

use std::io;

use super::HostCallError;

/// Why a call did not do what was asked.
#[derive(Debug)]
pub(super) enum Fail {
    /// The guest sees a number and goes on.
    Errno(Errno),
    /// The guest's run ends.
    Host(HostCallError),
}

/// What a call gives: a value, an errno for the guest, or a trap.
pub(super) type Outcome<T = ()> = Result<T, Fail>;

/// Error numbers of preview 1, those that this host gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Errno {
    /// Permission denied by the host's file system.
    Acces = 2,
    /// Bad file descriptor.
    Badf = 8,
    /// Resource busy.
    Busy = 10,
    /// The write budget is used up.
    Dquot = 19,
    /// File exists.
    Exist = 20,
    /// Bad address.
    Fault = 21,
    /// File too large.
    Fbig = 22,
    /// A name is not UTF-8.
    Ilseq = 25,
    /// Invalid argument.
    Inval = 28,
    /// Input or output error.
    Io = 29,
    /// Is a directory.
    Isdir = 31,
    /// A symbolic link where none is followed, or too many of them.
    Loop = 32,
    /// Too many open descriptors.
    Mfile = 33,
    /// Name too long.
    Nametoolong = 37,
    /// No such file or directory.
    Noent = 44,
    /// Not enough memory.
    Nomem = 48,
    /// No space left on device.
    Nospc = 51,
    /// Not a directory.
    Notdir = 54,
    /// Directory not empty.
    Notempty = 55,
    /// Not supported.
    Notsup = 58,
    /// Operation not permitted.
    Perm = 63,
    /// Read-only file system.
    Rofs = 69,
    /// Not seekable.
    Spipe = 70,
    /// Across file systems.
    Xdev = 75,
    /// Not granted.
    Notcapable = 76,
}

/// `ELOOP`, which the standard library has no stable name for.
const HOST_LOOP: i32 = if cfg!(any(target_os = "linux", target_os = "android")) {
    40
} else {
    62
};
/// `EPERM`, the same number on every Unix.
const HOST_PERM: i32 = 1;
/// `ENFILE` and `EMFILE`, the same numbers on every Unix.
const HOST_FILES: [i32; 2] = [23, 24];

impl From<&io::Error> for Errno {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound => Errno::Noent,
            Kind::PermissionDenied => match error.raw_os_error() {
                // cap-std's own error for a path that leads out of the folder has no system number.
                None => Errno::Notcapable,
                Some(HOST_PERM) => Errno::Perm,
                Some(_) => Errno::Acces,
            },
            Kind::AlreadyExists => Errno::Exist,
            Kind::InvalidInput => Errno::Inval,
            Kind::InvalidFilename => Errno::Nametoolong,
            Kind::NotADirectory => Errno::Notdir,
            Kind::IsADirectory => Errno::Isdir,
            Kind::DirectoryNotEmpty => Errno::Notempty,
            Kind::ReadOnlyFilesystem => Errno::Rofs,
            Kind::StorageFull => Errno::Nospc,
            Kind::QuotaExceeded => Errno::Dquot,
            Kind::FileTooLarge => Errno::Fbig,
            Kind::ResourceBusy => Errno::Busy,
            Kind::CrossesDevices => Errno::Xdev,
            Kind::NotSeekable => Errno::Spipe,
            Kind::OutOfMemory => Errno::Nomem,
            Kind::Unsupported => Errno::Notsup,
            _ => match error.raw_os_error() {
                Some(HOST_LOOP) => Errno::Loop,
                Some(code) if HOST_FILES.contains(&code) => Errno::Mfile,
                _ => Errno::Io,
            },
        }
    }
}

impl From<Errno> for Fail {
    fn from(errno: Errno) -> Self {
        Fail::Errno(errno)
    }
}

impl From<io::Error> for Fail {
    fn from(error: io::Error) -> Self {
        Fail::Errno(Errno::from(&error))
    }
}

impl From<HostCallError> for Fail {
    fn from(error: HostCallError) -> Self {
        Fail::Host(error)
    }
}
