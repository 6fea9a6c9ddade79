//! Moving bytes between guest memory and files or standard streams.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
#[cfg(unix)]
use std::os::unix::fs::FileExt;

use super::errno::{Errno, Fail, Outcome};
use super::memory::GuestMemory;
use super::rights::{FD_READ, FD_WRITE};
use super::table::Object;
use super::{LogStream, WasiContext};

/// Bytes moved between two looks at the deadline.
const CHUNK: usize = 64 << 10;
/// Bytes moved by one call at most, as on Linux; a guest that wants more calls again.
const MAX_TRANSFER: usize = 0x7fff_f000;
/// Bytes that one call may write to a standard stream.
const MAX_LOG: usize = 64 << 10;

impl WasiContext {
    /// `fd_read` and, with an offset, `fd_pread`. Buffers may run past the end of memory: what is read
    /// ends there.
    pub(super) fn fd_read(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        (list, count): (u32, u32),
        offset: Option<u64>,
        out: u32,
    ) -> Outcome {
        let descriptor = self.table.with_rights(fd, FD_READ)?;
        memory.check_vectors(list, count)?;
        memory.range(out, 4)?;
        if matches!(descriptor.object, Object::Stdin) && offset.is_none() {
            return memory.write_u32(out, 0);
        }
        let file = descriptor.file()?;
        let mut total = 0;
        'buffers: for number in 0..count {
            let (mut room, cut) = match memory.vector_clipped(list, number) {
                Ok(buffer) => buffer,
                Err(_) if total > 0 => break,
                Err(fail) => return Err(fail),
            };
            while !room.is_empty() && total < MAX_TRANSFER {
                self.deadline.check()?;
                let step = chunk(&room, MAX_TRANSFER.saturating_sub(total));
                let size = step.len();
                match read_some(file, memory.bytes_mut(step)?, offset, total) {
                    Ok(read) => {
                        total = total.saturating_add(read);
                        room.start = room.start.saturating_add(read);
                        if read < size {
                            break 'buffers;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) if total > 0 => break 'buffers,
                    Err(error) => return Err(error.into()),
                }
            }
            // The next buffer must not get the bytes that belong behind the end of memory.
            if cut || total >= MAX_TRANSFER {
                break;
            }
        }
        memory.write_u32(out, u32::try_from(total).map_err(|_| Errno::Inval)?)
    }

    /// `fd_write` and, with an offset, `fd_pwrite`.
    pub(super) fn fd_write(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        (list, count): (u32, u32),
        offset: Option<u64>,
        out: u32,
    ) -> Outcome {
        let descriptor = self.table.with_rights(fd, FD_WRITE)?;
        memory.check_vectors(list, count)?;
        memory.range(out, 4)?;
        // Before the first byte moves: memory does not change below, so this stays true.
        for number in 0..count {
            memory.vector(list, number)?;
        }
        let total = match (&descriptor.object, offset) {
            (Object::Log(stream), None) => {
                let stream = *stream;
                self.write_log(memory, stream, list, count)?
            }
            _ => self.write_file(memory, fd, list, count, offset)?,
        };
        memory.write_u32(out, u32::try_from(total).map_err(|_| Errno::Inval)?)
    }

    /// Hands the buffers to the log, at most [`MAX_LOG`] bytes of them.
    fn write_log(
        &mut self,
        memory: &GuestMemory<'_>,
        stream: LogStream,
        list: u32,
        count: u32,
    ) -> Outcome<usize> {
        let mut total = 0;
        for number in 0..count {
            let piece = chunk(&memory.vector(list, number)?, MAX_LOG.saturating_sub(total));
            total = total.saturating_add(piece.len());
            if !piece.is_empty() {
                (self.log)(stream, memory.bytes(piece)?);
            }
        }
        Ok(total)
    }

    /// Writes the buffers to a file, as far as the write budget goes.
    fn write_file(
        &mut self,
        memory: &GuestMemory<'_>,
        fd: u32,
        list: u32,
        count: u32,
        offset: Option<u64>,
    ) -> Outcome<usize> {
        let file = self.table.file(fd, FD_WRITE)?;
        let mut total = 0;
        for number in 0..count {
            let mut rest = memory.vector(list, number)?;
            while !rest.is_empty() && total < MAX_TRANSFER {
                self.deadline.check()?;
                let budget = usize::try_from(self.budget).unwrap_or(usize::MAX);
                let step = chunk(&rest, budget.min(MAX_TRANSFER.saturating_sub(total)));
                let result = if step.is_empty() {
                    Err(Fail::from(Errno::Dquot))
                } else {
                    write_some(file, memory.bytes(step)?, offset, total).map_err(Fail::from)
                };
                match result {
                    Ok(written) => {
                        total = total.saturating_add(written);
                        rest.start = rest.start.saturating_add(written);
                        self.budget = self.budget.saturating_sub(written as u64);
                    }
                    Err(_) if total > 0 => return Ok(total),
                    Err(fail) => return Err(fail),
                }
            }
        }
        Ok(total)
    }
}

/// The first bytes of a range, at most [`CHUNK`] and `limit` of them.
fn chunk(range: &Range<usize>, limit: usize) -> Range<usize> {
    range.start
        ..range
            .start
            .saturating_add(range.len().min(CHUNK).min(limit))
}

/// One read, at the cursor or `done` bytes behind `offset`.
fn read_some(
    mut file: &File,
    target: &mut [u8],
    offset: Option<u64>,
    done: usize,
) -> io::Result<usize> {
    match offset {
        None => file.read(target),
        Some(offset) => read_at(file, target, position(offset, done)?),
    }
}

/// One write of at least a byte, at the cursor or `done` bytes behind `offset`.
fn write_some(
    mut file: &File,
    source: &[u8],
    offset: Option<u64>,
    done: usize,
) -> io::Result<usize> {
    loop {
        let result = match offset {
            None => file.write(source),
            Some(offset) => write_at(file, source, position(offset, done)?),
        };
        match result {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A place in a file, `done` bytes behind `offset`.
fn position(offset: u64, done: usize) -> io::Result<u64> {
    offset
        .checked_add(done as u64)
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(unix)]
fn read_at(file: &File, target: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(target, offset)
}

#[cfg(unix)]
fn write_at(file: &File, source: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(source, offset)
}

/// Elsewhere positioned access moves the cursor, which would be wrong in a way that is hard to see.
#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
