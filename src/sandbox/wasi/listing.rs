//! Reading the entries of a folder.

use cap_std::fs::{Dir, FileType, ReadDir};

use super::errno::{Errno, Outcome};
use super::memory::GuestMemory;
use super::rights::FD_READDIR;
use super::stat::{file_type_code, inode};
use super::table::Object;
use super::{Deadline, WasiContext};

/// Bytes of an entry before its name.
const HEADER: usize = 24;
/// `.` and `..`, which the host's iterator leaves out.
const DOTS: [&str; 2] = [".", ".."];

/// A walk through a folder that the next call can go on with, so that reading a large folder with a
/// small buffer does not start over each time.
pub(super) struct Listing {
    entries: ReadDir,
    /// The number of the next entry; a guest's cookie is such a number.
    next: u64,
    /// The next entry, where it was read but did not fit.
    held: Option<Entry>,
}

/// One entry of a folder.
struct Entry {
    name: String,
    inode: u64,
    kind: u8,
}

impl Listing {
    /// A walk that stands at entry `cookie`, or at the end if there are fewer.
    fn at(dir: &Dir, cookie: u64, deadline: &Deadline) -> Outcome<Self> {
        let mut listing = Listing {
            entries: dir.entries()?,
            next: 0,
            held: None,
        };
        while listing.next < cookie {
            deadline.check()?;
            if listing.peek(dir)?.is_none() {
                break;
            }
            listing.advance();
        }
        Ok(listing)
    }

    /// The next entry. Names that are not UTF-8 are left out: no path could reach them.
    fn peek(&mut self, dir: &Dir) -> Outcome<Option<&Entry>> {
        if self.held.is_none() {
            let dots = usize::try_from(self.next)
                .ok()
                .and_then(|next| DOTS.get(next));
            self.held = match dots {
                // For both: the parent's number may belong to a folder that was not granted.
                Some(name) => Some(Entry {
                    name: (*name).to_owned(),
                    inode: inode(&dir.dir_metadata()?),
                    kind: file_type_code(FileType::dir()),
                }),
                None => self.read_host()?,
            };
        }
        Ok(self.held.as_ref())
    }

    /// The next entry of the host's folder.
    fn read_host(&mut self) -> Outcome<Option<Entry>> {
        for entry in self.entries.by_ref() {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                // An entry may be gone by now; it is still listed, as on other systems.
                let inode = entry.metadata().map_or(0, |metadata| inode(&metadata));
                let kind = entry.file_type().map_or(0, file_type_code);
                return Ok(Some(Entry { name, inode, kind }));
            }
        }
        Ok(None)
    }

    /// Steps over the entry that [`Self::peek`] gave.
    fn advance(&mut self) {
        self.held = None;
        self.next = self.next.saturating_add(1);
    }
}

impl Entry {
    /// As preview 1 lays it out; `next` is the cookie of the entry after it.
    fn encode(&self, next: u64) -> Outcome<Vec<u8>> {
        let length = u32::try_from(self.name.len()).map_err(|_| Errno::Nametoolong)?;
        let mut bytes = Vec::with_capacity(HEADER.saturating_add(self.name.len()));
        bytes.extend_from_slice(&next.to_le_bytes());
        bytes.extend_from_slice(&self.inode.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&[self.kind, 0, 0, 0]);
        bytes.extend_from_slice(self.name.as_bytes());
        Ok(bytes)
    }
}

impl WasiContext {
    /// `fd_readdir`: fills the buffer with entries from `cookie` on. A full buffer, with the last entry
    /// cut where it ends, tells the guest that there is more.
    pub(super) fn fd_readdir(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        (buffer, length): (u32, u32),
        cookie: u64,
        used_out: u32,
    ) -> Outcome {
        let deadline = self.deadline.clone();
        let descriptor = self.table.get_mut(fd)?;
        descriptor.dir()?;
        descriptor.require(FD_READDIR)?;
        let Object::Dir(open) = &mut descriptor.object else {
            return Err(Errno::Notdir.into());
        };
        memory.range(used_out, 4)?;
        let mut room = memory.range(buffer, u64::from(length))?;
        let start = room.start;

        let mut listing = match open.listing.take() {
            Some(listing) if listing.next == cookie && cookie != 0 => listing,
            _ => Listing::at(&open.dir, cookie, &deadline)?,
        };
        while !room.is_empty() {
            deadline.check()?;
            let next = listing.next.saturating_add(1);
            let Some(entry) = listing.peek(&open.dir)? else {
                break;
            };
            let bytes = entry.encode(next)?;
            let fits = bytes.len().min(room.len());
            let target = memory.bytes_mut(room.start..room.start.saturating_add(fits))?;
            target.copy_from_slice(bytes.get(..fits).ok_or(Errno::Fault)?);
            room.start = room.start.saturating_add(fits);
            if fits == bytes.len() {
                listing.advance();
            }
        }
        // A buffer that was not filled was the last; keep no host descriptors for it.
        open.listing = room.is_empty().then_some(listing);
        let used = u32::try_from(room.start.saturating_sub(start)).map_err(|_| Errno::Fault)?;
        memory.write_u32(used_out, used)
    }
}
