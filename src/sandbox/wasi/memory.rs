//! Guest memory as WASI calls see it: every access checked, nothing allocated by a guest's length.

use std::ops::Range;

use super::errno::{Errno, Outcome};

/// Longest path in bytes.
pub(super) const MAX_PATH: usize = 4096;
/// Most components of a path. Without `openat2` cap-std holds one host descriptor for each.
const MAX_COMPONENTS: usize = 128;
/// Most scatter and gather buffers per call, as POSIX systems have it.
const MAX_VECTORS: u32 = 1024;
/// Bytes of one such entry: pointer and length.
const VECTOR_BYTES: u64 = 8;

/// The memory of the calling guest, which does not run meanwhile.
pub(super) struct GuestMemory<'a>(&'a mut [u8]);

/// A path that a guest gave, without trailing slashes.
pub(super) struct GuestPath {
    /// Relative, not empty, UTF-8, without NUL.
    pub(super) text: String,
    /// The path ended in a slash: it names a folder, through a symbolic link if there is one. The slash
    /// itself never reaches the host, whose system calls disagree about links with one.
    pub(super) names_dir: bool,
}

impl<'a> GuestMemory<'a> {
    /// Wraps the bytes of the guest's memory.
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        GuestMemory(bytes)
    }

    /// The place of `len` bytes at `ptr`, if they are inside.
    pub(super) fn range(&self, ptr: u32, len: u64) -> Outcome<Range<usize>> {
        let start = u64::from(ptr);
        let end = start
            .checked_add(len)
            .filter(|end| *end <= self.0.len() as u64)
            .ok_or(Errno::Fault)?;
        Ok(index(start)?..index(end)?)
    }

    /// The part of `len` bytes at `ptr` that is inside; the start must be.
    fn clipped(&self, ptr: u32, len: u32) -> Outcome<Range<usize>> {
        let rest = (self.0.len() as u64)
            .checked_sub(u64::from(ptr))
            .ok_or(Errno::Fault)?;
        self.range(ptr, u64::from(len).min(rest))
    }

    /// The bytes of a range.
    pub(super) fn bytes(&self, range: Range<usize>) -> Outcome<&[u8]> {
        Ok(self.0.get(range).ok_or(Errno::Fault)?)
    }

    /// The bytes of a range, to be written.
    pub(super) fn bytes_mut(&mut self, range: Range<usize>) -> Outcome<&mut [u8]> {
        Ok(self.0.get_mut(range).ok_or(Errno::Fault)?)
    }

    /// Copies `source` to `ptr`.
    pub(super) fn write(&mut self, ptr: u32, source: &[u8]) -> Outcome {
        let range = self.range(ptr, source.len() as u64)?;
        self.bytes_mut(range)?.copy_from_slice(source);
        Ok(())
    }

    /// Writes a 32-bit number.
    pub(super) fn write_u32(&mut self, ptr: u32, value: u32) -> Outcome {
        self.write(ptr, &value.to_le_bytes())
    }

    /// Writes a 64-bit number.
    pub(super) fn write_u64(&mut self, ptr: u32, value: u64) -> Outcome {
        self.write(ptr, &value.to_le_bytes())
    }

    /// Reads a 32-bit number.
    fn read_u32(&self, ptr: u64) -> Outcome<u32> {
        let ptr = u32::try_from(ptr).map_err(|_| Errno::Fault)?;
        let bytes = self.bytes(self.range(ptr, 4)?)?;
        Ok(u32::from_le_bytes(
            bytes.try_into().map_err(|_| Errno::Fault)?,
        ))
    }

    /// Checks a list of `count` buffers at `list`, not the buffers.
    pub(super) fn check_vectors(&self, list: u32, count: u32) -> Outcome {
        if count > MAX_VECTORS {
            return Err(Errno::Inval.into());
        }
        self.range(list, u64::from(count) * VECTOR_BYTES)?;
        Ok(())
    }

    /// The buffer number `number` of a list, wholly inside memory.
    pub(super) fn vector(&self, list: u32, number: u32) -> Outcome<Range<usize>> {
        let (ptr, len) = self.entry(list, number)?;
        self.range(ptr, u64::from(len))
    }

    /// The buffer number `number` of a list, and whether its end had to be cut to fit into memory.
    pub(super) fn vector_clipped(&self, list: u32, number: u32) -> Outcome<(Range<usize>, bool)> {
        let (ptr, len) = self.entry(list, number)?;
        let range = self.clipped(ptr, len)?;
        let cut = (range.len() as u64) < u64::from(len);
        Ok((range, cut))
    }

    /// Pointer and length of an entry of a list of buffers.
    fn entry(&self, list: u32, number: u32) -> Outcome<(u32, u32)> {
        let at = u64::from(list).saturating_add(u64::from(number).saturating_mul(VECTOR_BYTES));
        Ok((self.read_u32(at)?, self.read_u32(at.saturating_add(4))?))
    }

    /// Reads a path. What no host should be asked about is refused here.
    pub(super) fn path(&self, ptr: u32, len: u32) -> Outcome<GuestPath> {
        let range = self.range(ptr, u64::from(len))?;
        if range.len() > MAX_PATH {
            return Err(Errno::Nametoolong.into());
        }
        let text = std::str::from_utf8(self.bytes(range)?).map_err(|_| Errno::Ilseq)?;
        if text.contains('\0') {
            return Err(Errno::Inval.into());
        }
        if text.is_empty() {
            return Err(Errno::Noent.into());
        }
        if text.starts_with('/') {
            return Err(Errno::Notcapable.into());
        }
        if text.split('/').count() > MAX_COMPONENTS {
            return Err(Errno::Nametoolong.into());
        }
        let bare = text.trim_end_matches('/');
        Ok(GuestPath {
            text: bare.to_owned(),
            names_dir: bare.len() < text.len(),
        })
    }
}

/// A checked position as an index of the host.
fn index(position: u64) -> Outcome<usize> {
    Ok(usize::try_from(position).map_err(|_| Errno::Fault)?)
}
