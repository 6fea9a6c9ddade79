//! The descriptors of one guest.

use std::fs::File;

use cap_std::fs::Dir;

use super::errno::{Errno, Outcome};
use super::listing::Listing;
use super::rights::{self, FD_FILESTAT_GET, FD_READ, FD_WRITE};
use super::{LogStream, MAX_DESCRIPTORS};

/// What a descriptor stands for.
pub(super) enum Object {
    /// Standard input: always at its end.
    Stdin,
    /// Standard output or error.
    Log(LogStream),
    /// A folder.
    Dir(OpenDir),
    /// A regular file.
    File(File),
}

/// A folder that is open.
pub(super) struct OpenDir {
    /// The root of every path that is given with this descriptor.
    pub(super) dir: Dir,
    /// The guest's name of a granted folder.
    pub(super) preopen: Option<String>,
    /// Where reading its entries has got to.
    pub(super) listing: Option<Listing>,
}

/// An open descriptor.
pub(super) struct Descriptor {
    pub(super) object: Object,
    /// What may be done with it.
    pub(super) base: u64,
    /// What may at most be done with what is opened through it.
    pub(super) inheriting: u64,
    /// The `fdflags` it was opened with.
    pub(super) flags: u32,
    /// The entry into the guest in which it was opened.
    opened_in: u64,
}

/// Descriptors by number. The first ones, standard streams and granted folders, are fixed: they can be
/// neither closed nor replaced, so that no call can take them away from the calls after it.
pub(super) struct Table {
    slots: Vec<Option<Descriptor>>,
    fixed: usize,
    call: u64,
}

impl Descriptor {
    /// A descriptor with these rights; the table notes when it was opened.
    pub(super) fn new(object: Object, base: u64, inheriting: u64, flags: u32) -> Self {
        Descriptor {
            object,
            base,
            inheriting,
            flags,
            opened_in: 0,
        }
    }

    /// Refuses unless all of `rights` are there.
    pub(super) fn require(&self, rights: u64) -> Outcome {
        if self.base & rights == rights {
            Ok(())
        } else {
            Err(Errno::Notcapable.into())
        }
    }

    /// The file it stands for.
    pub(super) fn file(&self) -> Outcome<&File> {
        match &self.object {
            Object::File(file) => Ok(file),
            Object::Dir(_) => Err(Errno::Isdir.into()),
            Object::Stdin | Object::Log(_) => Err(Errno::Spipe.into()),
        }
    }

    /// The folder it stands for.
    pub(super) fn dir(&self) -> Outcome<&OpenDir> {
        match &self.object {
            Object::Dir(dir) => Ok(dir),
            _ => Err(Errno::Notdir.into()),
        }
    }
}

impl Table {
    /// The three standard streams.
    pub(super) fn new() -> Self {
        let stream = |object, right| Some(Descriptor::new(object, right | FD_FILESTAT_GET, 0, 0));
        let slots = vec![
            stream(Object::Stdin, FD_READ),
            stream(Object::Log(LogStream::Stdout), FD_WRITE),
            stream(Object::Log(LogStream::Stderr), FD_WRITE),
        ];
        Table {
            fixed: slots.len(),
            slots,
            call: 0,
        }
    }

    /// Adds a granted folder; all of them before the guest runs.
    pub(super) fn preopen(&mut self, dir: Dir, name: &str, writable: bool) {
        let object = Object::Dir(OpenDir {
            dir,
            preopen: Some(name.to_owned()),
            listing: None,
        });
        let base = rights::of_dir(writable);
        self.slots.push(Some(Descriptor::new(
            object,
            base,
            base | rights::of_file(writable),
            0,
        )));
        self.fixed = self.slots.len();
    }

    /// The open descriptor `fd`.
    pub(super) fn get(&self, fd: u32) -> Outcome<&Descriptor> {
        let slot = usize::try_from(fd).ok().and_then(|fd| self.slots.get(fd));
        Ok(slot.and_then(Option::as_ref).ok_or(Errno::Badf)?)
    }

    /// The open descriptor `fd`, to be changed.
    pub(super) fn get_mut(&mut self, fd: u32) -> Outcome<&mut Descriptor> {
        let slot = usize::try_from(fd)
            .ok()
            .and_then(|fd| self.slots.get_mut(fd));
        Ok(slot.and_then(Option::as_mut).ok_or(Errno::Badf)?)
    }

    /// The open descriptor `fd`, if it carries `rights`.
    pub(super) fn with_rights(&self, fd: u32, rights: u64) -> Outcome<&Descriptor> {
        let descriptor = self.get(fd)?;
        descriptor.require(rights)?;
        Ok(descriptor)
    }

    /// The folder `fd`, if it carries `rights`.
    pub(super) fn dir(&self, fd: u32, rights: u64) -> Outcome<&Dir> {
        let descriptor = self.get(fd)?;
        let open = descriptor.dir()?;
        descriptor.require(rights)?;
        Ok(&open.dir)
    }

    /// The file `fd`, if it carries `rights`.
    pub(super) fn file(&self, fd: u32, rights: u64) -> Outcome<&File> {
        let descriptor = self.get(fd)?;
        let file = descriptor.file()?;
        descriptor.require(rights)?;
        Ok(file)
    }

    /// Refuses when no further descriptor fits.
    pub(super) fn check_room(&self) -> Outcome {
        if self.slots.iter().flatten().count() < MAX_DESCRIPTORS {
            Ok(())
        } else {
            Err(Errno::Mfile.into())
        }
    }

    /// Adds a descriptor under the lowest free number.
    pub(super) fn insert(&mut self, mut descriptor: Descriptor) -> Outcome<u32> {
        self.check_room()?;
        descriptor.opened_in = self.call;
        let free = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.slots.len());
        match self.slots.get_mut(free) {
            Some(slot) => *slot = Some(descriptor),
            None => self.slots.push(Some(descriptor)),
        }
        Ok(u32::try_from(free).map_err(|_| Errno::Mfile)?)
    }

    /// Refuses unless `fd` is open and the guest's own.
    pub(super) fn check_owned(&self, fd: u32) -> Outcome {
        self.get(fd)?;
        if usize::try_from(fd).is_ok_and(|fd| fd < self.fixed) {
            Err(Errno::Notsup.into())
        } else {
            Ok(())
        }
    }

    /// Closes `fd`.
    pub(super) fn close(&mut self, fd: u32) -> Outcome {
        self.check_owned(fd)?;
        self.take(fd)?;
        Ok(())
    }

    /// Moves `from` to the number `to`, closing what was there.
    pub(super) fn renumber(&mut self, from: u32, to: u32) -> Outcome {
        self.check_owned(from)?;
        self.check_owned(to)?;
        if from != to {
            let descriptor = self.take(from)?;
            *self.get_mut(to)? = descriptor;
        }
        Ok(())
    }

    /// Begins a new entry into the guest.
    pub(super) fn begin_call(&mut self) {
        self.call = self.call.saturating_add(1);
    }

    /// Closes what was opened in the present entry.
    pub(super) fn abandon_call(&mut self) {
        for slot in self.slots.iter_mut().skip(self.fixed) {
            if slot
                .as_ref()
                .is_some_and(|descriptor| descriptor.opened_in == self.call)
            {
                *slot = None;
            }
        }
    }

    /// Removes `fd`.
    fn take(&mut self, fd: u32) -> Outcome<Descriptor> {
        let slot = usize::try_from(fd)
            .ok()
            .and_then(|fd| self.slots.get_mut(fd));
        Ok(slot.and_then(Option::take).ok_or(Errno::Badf)?)
    }
}
