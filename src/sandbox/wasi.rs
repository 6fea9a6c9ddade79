//! WASI preview 1 for guests that were compiled against it: deny by default.
//!
//! Every name of `wasi_snapshot_preview1` always links, so that a guest built with an ordinary
//! toolchain loads. What was not granted answers with nothing (arguments, environment, standard
//! input) or with errno 76, "not capable" (clock, polling, sockets, signals). Random
//! bytes are the same in every instance. Standard
//! output and error go to a log callback. Folders are seen only through [`Grant`]s, and every path is
//! resolved by cap-std inside the granted folder.
//!
//! Rules that hold for every call:
//! - Guest pointers and lengths are checked with wide arithmetic; no allocation follows a length that
//!   the guest gave (names end at 4 KiB, file contents go straight into guest memory).
//! - What a call may do is decided by the rights of the descriptor, and those never exceed the grant,
//!   so `fd_fdstat_get` tells the truth.
//! - Only [`HostCallError`] traps. Everything else is an errno that the guest may handle.
//! - Nothing tells the time: file stamps are those of the last modification only, because an access
//!   time would be a clock for whoever can read a file.

mod environment;
mod errno;
mod files;
mod linker;
mod listing;
mod memory;
mod opening;
mod paths;
mod rights;
mod stat;
mod table;
#[cfg(test)]
mod test_guest;
#[cfg(test)]
mod tests;
#[cfg(all(test, unix))]
mod tests_escapes;
#[cfg(all(test, unix))]
mod tests_paths;
#[cfg(all(test, unix))]
mod tests_writing;
mod transfer;

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::deadline::Deadline;
use environment::Environment;
use errno::{Errno, Outcome};
use memory::GuestMemory;
use table::Table;

pub(crate) use linker::add_to_linker;

/// Descriptors that a guest may hold at once, standard streams and granted folders included.
pub(crate) const MAX_DESCRIPTORS: usize = 64;
/// Folders that may be granted to one guest; leaves it descriptors to work with.
pub(crate) const MAX_GRANTS: usize = 32;
/// Bytes that a guest may write to files over the life of its slot, so that it cannot fill a disk.
/// Each new file or folder counts as [`ENTRY_COST`].
pub(crate) const WRITE_BUDGET: u64 = 1 << 30;
/// What one new directory entry takes from [`WRITE_BUDGET`]: about one block.
pub(crate) const ENTRY_COST: u64 = 4096;

/// A folder that a guest may see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The folder on the host.
    pub host: PathBuf,
    /// The name under which the guest sees it, for example `/models`.
    pub guest: String,
    /// Whether the guest may also create, change, rename and remove what is inside. It may write 1 GiB
    /// over the life of its slot, and never makes links. A read-only grant says nothing about a folder
    /// that is reachable through another, writable one.
    pub writable: bool,
}

/// Why a granted folder cannot be handed to a guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// The folder could not be opened.
    #[error(
        "cannot grant the folder {} to guests as \"{guest}\": {source}; create the folder, let this process read it, or remove the grant",
        host.display()
    )]
    Open {
        /// The folder on the host.
        host: PathBuf,
        /// The name for the guest.
        guest: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The name for the guest cannot be used.
    #[error(
        "cannot grant the folder {} to guests as {guest:?}: {reason}; name it like \"/data\"",
        host.display()
    )]
    Name {
        /// The folder on the host.
        host: PathBuf,
        /// The name for the guest.
        guest: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An environment variable that cannot be given.
    #[error("cannot give guests the environment variable {name:?}: {reason}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// More folders than one guest may have.
    #[error(
        "{count} folders are granted to one guest, the limit is {MAX_GRANTS}; grant a folder that holds them"
    )]
    TooMany {
        /// How many there are.
        count: usize,
    },
}

/// Which standard stream a guest wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogStream {
    /// Standard output, descriptor 1.
    Stdout,
    /// Standard error, descriptor 2.
    Stderr,
}

/// Why a host call ended the guest's run; found with `wasmtime::Error::downcast_ref`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HostCallError {
    /// The time limit passed.
    #[error("the time limit passed")]
    DeadlineExceeded,
    /// Nobody wants the result any more.
    #[error("the run was cancelled")]
    Cancelled,
    /// The guest called `proc_exit`; an error for code 0 too, because a slot has nothing to exit from.
    #[error("the guest called exit({0})")]
    Exit(i32),
    /// The calling module exports no memory under the name `memory`.
    #[error(
        "the guest called a WASI function that needs memory, but exports no memory named \"memory\""
    )]
    NoMemory,
}

/// Receives what a guest writes to its standard streams.
type LogSink = Box<dyn FnMut(LogStream, &[u8]) + Send>;

/// Everything that WASI calls of one store may touch.
pub(crate) struct WasiContext {
    table: Table,
    environment: Environment,
    log: LogSink,
    deadline: Deadline,
    /// What is left of [`WRITE_BUDGET`].
    budget: u64,
    /// Numbers drawn so far.
    drawn: u64,
}

impl fmt::Debug for WasiContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasiContext")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl WasiContext {
    /// A context that grants `grants` and `environment` and nothing else. `log` gets what the guest writes to its standard
    /// streams, in pieces of at most 64 KiB a call that may end anywhere, inside a line or a character;
    /// it must not block and bounds what it keeps.
    pub(crate) fn new(
        grants: &[Grant],
        environment: &[(String, String)],
        log: impl FnMut(LogStream, &[u8]) + Send + 'static,
    ) -> Result<Self, GrantError> {
        if grants.len() > MAX_GRANTS {
            return Err(GrantError::TooMany {
                count: grants.len(),
            });
        }
        let mut table = Table::new();
        for (index, grant) in grants.iter().enumerate() {
            let earlier = grants.get(..index).unwrap_or_default();
            if let Some(reason) = unusable_name(&grant.guest, earlier) {
                return Err(GrantError::Name {
                    host: grant.host.clone(),
                    guest: grant.guest.clone(),
                    reason,
                });
            }
            let dir =
                Dir::open_ambient_dir(&grant.host, ambient_authority()).map_err(|source| {
                    GrantError::Open {
                        host: grant.host.clone(),
                        guest: grant.guest.clone(),
                        source,
                    }
                })?;
            table.preopen(dir, &grant.guest, grant.writable);
        }
        Ok(WasiContext {
            table,
            environment: Environment::new(environment)?,
            log: Box::new(log),
            deadline: Deadline::default(),
            budget: WRITE_BUDGET,
            drawn: 0,
        })
    }

    /// From `deadline` on, host calls trap with [`HostCallError::DeadlineExceeded`]. None: no limit.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
    }

    /// What ends guest code and host calls alike.
    pub(crate) fn deadline(&mut self) -> &mut Deadline {
        &mut self.deadline
    }

    /// Marks the start of an entry into the guest, for [`Self::abandon_call`].
    pub(crate) fn begin_call(&mut self) {
        self.table.begin_call();
    }

    /// Closes what was opened since [`Self::begin_call`]; for an entry that failed without a trap, after
    /// which the slot goes on. What `init` or an earlier, successful call opened stays open: those
    /// descriptors belong to the guest's state. After a trap the store is dropped, which closes all.
    pub(crate) fn abandon_call(&mut self) {
        self.table.abandon_call();
    }

    /// `random_get`: the same sequence in every instance.
    fn random_get(&mut self, memory: &mut GuestMemory<'_>, at: u32, length: u32) -> Outcome {
        let range = memory.range(at, u64::from(length))?;
        for chunk in memory.bytes_mut(range)?.chunks_mut(8) {
            self.deadline.check()?;
            self.drawn = self.drawn.wrapping_add(1);
            let number = mix(self.drawn).to_le_bytes();
            for (place, byte) in chunk.iter_mut().zip(number) {
                *place = byte;
            }
        }
        Ok(())
    }

    /// Takes `amount` from the write budget, or refuses and takes nothing.
    fn spend(&mut self, amount: u64) -> Outcome {
        self.budget = self.budget.checked_sub(amount).ok_or(Errno::Dquot)?;
        Ok(())
    }
}

/// The `n`th number of SplitMix64 from the seed 0 (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014).
fn mix(n: u64) -> u64 {
    let z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What keeps `name` from being a guest's name for a folder, if anything.
fn unusable_name(name: &str, earlier: &[Grant]) -> Option<&'static str> {
    if name.is_empty() {
        Some("the name is empty")
    } else if name.len() > memory::MAX_PATH {
        Some("the name is longer than 4096 bytes")
    } else if name.contains('\0') {
        Some("the name holds a NUL")
    } else if earlier.iter().any(|grant| grant.guest == name) {
        Some("another granted folder has this name")
    } else {
        None
    }
}
