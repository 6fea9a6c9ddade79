//! What preview 1 tells about a file, and how it sets times.

use std::fs::FileTimes;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::fs::{FileType, Metadata};

use super::errno::{Errno, Outcome};

/// A type that preview 1 has no number for; standard streams too.
pub(super) const UNKNOWN: u8 = 0;
const BLOCK_DEVICE: u8 = 1;
const CHARACTER_DEVICE: u8 = 2;
/// A folder.
pub(super) const DIRECTORY: u8 = 3;
/// A regular file.
pub(super) const REGULAR_FILE: u8 = 4;
const SOCKET: u8 = 6;
const SYMBOLIC_LINK: u8 = 7;

/// `fstflags`: set the access time, to now; the modification time, to now.
const ATIM: u32 = 1;
const ATIM_NOW: u32 = 2;
const MTIM: u32 = 4;
const MTIM_NOW: u32 = 8;

/// Bytes of a `filestat`.
pub(super) const FILESTAT: usize = 64;

/// A `filestat`. All three times are that of the last modification, see the module's rules.
pub(super) fn encode_filestat(metadata: &Metadata) -> [u8; FILESTAT] {
    let modified = metadata
        .modified()
        .ok()
        .and_then(|time| time.into_std().duration_since(UNIX_EPOCH).ok())
        .map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        });
    let words = [
        device(metadata),
        inode(metadata),
        u64::from(file_type_code(metadata.file_type())),
        links(metadata),
        metadata.len(),
        modified,
        modified,
        modified,
    ];
    let mut stat = [0; FILESTAT];
    for (place, word) in stat.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    stat
}

/// The type of a file as preview 1 numbers it.
pub(super) fn file_type_code(kind: FileType) -> u8 {
    #[cfg(unix)]
    {
        use cap_std::fs::FileTypeExt;
        if kind.is_block_device() {
            return BLOCK_DEVICE;
        }
        if kind.is_char_device() {
            return CHARACTER_DEVICE;
        }
        if kind.is_socket() {
            return SOCKET;
        }
    }
    if kind.is_dir() {
        DIRECTORY
    } else if kind.is_file() {
        REGULAR_FILE
    } else if kind.is_symlink() {
        SYMBOLIC_LINK
    } else {
        UNKNOWN
    }
}

/// The number that tells files of one device apart; 0 where the host has none.
pub(super) fn inode(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return cap_std::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    {
        let _ = metadata;
        0
    }
}

/// The device of a file; 0 where the host has none.
fn device(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return cap_std::fs::MetadataExt::dev(metadata);
    #[cfg(not(unix))]
    {
        let _ = metadata;
        0
    }
}

/// How many names a file has.
fn links(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return cap_std::fs::MetadataExt::nlink(metadata);
    #[cfg(not(unix))]
    {
        let _ = metadata;
        1
    }
}

/// The times that `fstflags` ask to set.
pub(super) fn file_times(accessed: u64, modified: u64, flags: u32) -> Outcome<FileTimes> {
    let both = |one: u32, other: u32| flags & one != 0 && flags & other != 0;
    if flags & !(ATIM | ATIM_NOW | MTIM | MTIM_NOW) != 0
        || both(ATIM, ATIM_NOW)
        || both(MTIM, MTIM_NOW)
    {
        return Err(Errno::Inval.into());
    }
    let moment = |nanoseconds| {
        UNIX_EPOCH
            .checked_add(Duration::from_nanos(nanoseconds))
            .ok_or(Errno::Inval)
    };
    let mut times = FileTimes::new();
    if flags & ATIM != 0 {
        times = times.set_accessed(moment(accessed)?);
    }
    if flags & ATIM_NOW != 0 {
        times = times.set_accessed(SystemTime::now());
    }
    if flags & MTIM != 0 {
        times = times.set_modified(moment(modified)?);
    }
    if flags & MTIM_NOW != 0 {
        times = times.set_modified(SystemTime::now());
    }
    Ok(times)
}
