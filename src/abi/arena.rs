//! The piece of guest memory that arguments are written into, reused from call to call.

use std::time::Duration;

use super::write::{WriteError, Writer};
use crate::error::Fault;
use crate::sandbox::Guest;

/// Arenas grow to powers of two, from here.
const SMALLEST: u32 = 4 << 10;

/// A block that the guest allocated for the host.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    base: u32,
    capacity: u32,
}

/// What became of something that was to be written.
pub(crate) enum Written<R> {
    /// It lies in the arena.
    Done { result: R, bytes: usize },
    /// It needs so many bytes, which the guest does not have or should not spend.
    TooLarge { bytes: usize },
}

impl Arena {
    /// Lets `write` fill the arena, growing it when it turns out too small, to at most `most` bytes.
    pub(crate) fn write<R>(
        &mut self,
        guest: &mut Guest,
        limit: Duration,
        most: u64,
        mut write: impl FnMut(&mut Writer<'_>) -> Result<R, WriteError>,
    ) -> Result<Written<R>, Fault> {
        let arguments = |reason| Fault::Arguments { reason };
        let mut attempt = |arena: &mut [u8], base| {
            let mut writer = Writer::new(arena, base);
            write(&mut writer).map(|result| (result, writer.used()))
        };
        let (result, bytes) = attempt(self.block(guest), self.base).map_err(arguments)?;
        if bytes <= self.capacity as usize {
            return Ok(Written::Done { result, bytes });
        }
        if bytes as u64 > most || !self.grow(guest, bytes, limit)? {
            return Ok(Written::TooLarge { bytes });
        }
        // The addresses have changed with the arena, so everything is written again.
        let (result, bytes) = attempt(self.block(guest), self.base).map_err(arguments)?;
        Ok(Written::Done { result, bytes })
    }

    /// Gives the block back to the guest.
    pub(crate) fn release(&mut self, guest: &mut Guest, limit: Duration) -> Result<(), Fault> {
        let Arena { base, capacity } = std::mem::take(self);
        match capacity {
            0 => Ok(()),
            _ => guest.free(base, capacity, limit),
        }
    }

    fn block<'m>(&self, guest: &'m mut Guest) -> &'m mut [u8] {
        let from = self.base as usize;
        guest
            .memory_mut()
            .get_mut(from..from.saturating_add(self.capacity as usize))
            .unwrap_or_default()
    }

    fn grow(&mut self, guest: &mut Guest, bytes: usize, limit: Duration) -> Result<bool, Fault> {
        let Ok(exact) = u32::try_from(bytes) else {
            return Ok(false);
        };
        self.release(guest, limit)?;
        let roomy = exact
            .max(SMALLEST)
            .checked_next_power_of_two()
            .unwrap_or(exact);
        for size in [roomy, exact.next_multiple_of(64)] {
            if let Some(base) = guest.alloc(size, limit)? {
                *self = Arena {
                    base,
                    capacity: size,
                };
                return Ok(true);
            }
        }
        Ok(false)
    }
}
