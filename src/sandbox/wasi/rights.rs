//! Rights and flags of preview 1, and which rights a grant can give at most.

pub(super) const FD_DATASYNC: u64 = 1 << 0;
pub(super) const FD_READ: u64 = 1 << 1;
pub(super) const FD_SEEK: u64 = 1 << 2;
pub(super) const FD_FDSTAT_SET_FLAGS: u64 = 1 << 3;
pub(super) const FD_SYNC: u64 = 1 << 4;
pub(super) const FD_TELL: u64 = 1 << 5;
pub(super) const FD_WRITE: u64 = 1 << 6;
pub(super) const FD_ADVISE: u64 = 1 << 7;
pub(super) const PATH_CREATE_DIRECTORY: u64 = 1 << 9;
pub(super) const PATH_CREATE_FILE: u64 = 1 << 10;
pub(super) const PATH_OPEN: u64 = 1 << 13;
pub(super) const FD_READDIR: u64 = 1 << 14;
pub(super) const PATH_READLINK: u64 = 1 << 15;
pub(super) const PATH_RENAME_SOURCE: u64 = 1 << 16;
pub(super) const PATH_RENAME_TARGET: u64 = 1 << 17;
pub(super) const PATH_FILESTAT_GET: u64 = 1 << 18;
pub(super) const PATH_FILESTAT_SET_SIZE: u64 = 1 << 19;
pub(super) const PATH_FILESTAT_SET_TIMES: u64 = 1 << 20;
pub(super) const FD_FILESTAT_GET: u64 = 1 << 21;
pub(super) const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
pub(super) const FD_FILESTAT_SET_TIMES: u64 = 1 << 23;
pub(super) const PATH_REMOVE_DIRECTORY: u64 = 1 << 25;
pub(super) const PATH_UNLINK_FILE: u64 = 1 << 26;

/// Rights on a file that need host write access; without [`FD_WRITE`] none of them is given.
pub(super) const FILE_WRITE: u64 = FD_WRITE | FD_FILESTAT_SET_SIZE | FD_SYNC | FD_DATASYNC;
/// Rights on a file in a read-only grant.
const FILE_READ_ONLY: u64 =
    FD_READ | FD_SEEK | FD_TELL | FD_ADVISE | FD_FILESTAT_GET | FD_FDSTAT_SET_FLAGS;
/// Rights on a folder in a read-only grant.
const DIR_READ_ONLY: u64 =
    PATH_OPEN | FD_READDIR | PATH_READLINK | PATH_FILESTAT_GET | FD_FILESTAT_GET;
/// Rights on a folder that a writable grant adds. Creating links is never among them: a hard link would
/// carry a file from one grant into another, and a symbolic link would be a trap for other readers of
/// the folder.
const DIR_WRITE: u64 = PATH_CREATE_DIRECTORY
    | PATH_CREATE_FILE
    | PATH_RENAME_SOURCE
    | PATH_RENAME_TARGET
    | PATH_FILESTAT_SET_SIZE
    | PATH_FILESTAT_SET_TIMES
    | FD_FILESTAT_SET_TIMES
    | PATH_REMOVE_DIRECTORY
    | PATH_UNLINK_FILE
    | FD_SYNC
    | FD_DATASYNC;

/// Most rights on a folder.
pub(super) const fn of_dir(writable: bool) -> u64 {
    if writable {
        DIR_READ_ONLY | DIR_WRITE
    } else {
        DIR_READ_ONLY
    }
}

/// Most rights on a file.
pub(super) const fn of_file(writable: bool) -> u64 {
    if writable {
        FILE_READ_ONLY | FILE_WRITE | FD_FILESTAT_SET_TIMES
    } else {
        FILE_READ_ONLY
    }
}

/// `oflags`: create the file if it is not there.
pub(super) const O_CREAT: u32 = 1;
/// `oflags`: fail unless it is a folder.
pub(super) const O_DIRECTORY: u32 = 2;
/// `oflags`: fail if it is there.
pub(super) const O_EXCL: u32 = 4;
/// `oflags`: cut the file to nothing.
pub(super) const O_TRUNC: u32 = 8;

/// `fdflags`: every write goes to the end.
pub(super) const APPEND: u32 = 1;
/// `fdflags`: accepted and without effect, as on other hosts: only regular files and folders open.
pub(super) const NONBLOCK: u32 = 4;
/// All `fdflags` that there are: append, dsync, nonblock, rsync, sync.
pub(super) const ALL_FDFLAGS: u32 = 0b1_1111;

/// `lookupflags`: follow a symbolic link at the end of the path.
pub(super) const SYMLINK_FOLLOW: u32 = 1;
