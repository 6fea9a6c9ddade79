//! Calls on open descriptors, except moving bytes: state, position, size, times, granted names.

use std::io::{Seek, SeekFrom};

use cap_std::fs::Metadata;

use super::WasiContext;
use super::errno::{Errno, Outcome};
use super::memory::GuestMemory;
use super::rights::{
    ALL_FDFLAGS, FD_ADVISE, FD_DATASYNC, FD_FDSTAT_SET_FLAGS, FD_FILESTAT_GET,
    FD_FILESTAT_SET_SIZE, FD_FILESTAT_SET_TIMES, FD_SEEK, FD_SYNC, FD_TELL, FD_WRITE, NONBLOCK,
};
use super::stat::{DIRECTORY, FILESTAT, REGULAR_FILE, UNKNOWN, encode_filestat, file_times};
use super::table::Object;

impl WasiContext {
    /// `fd_advise`: checked, and nothing done.
    pub(super) fn fd_advise(&mut self, fd: u32, advice: u32) -> Outcome {
        self.table.file(fd, FD_ADVISE)?;
        if advice <= 5 {
            Ok(())
        } else {
            Err(Errno::Inval.into())
        }
    }

    /// `fd_allocate`: not capable without write right, else not supported, as on other hosts.
    pub(super) fn fd_allocate(&mut self, fd: u32) -> Outcome {
        self.table.file(fd, FD_WRITE)?;
        Err(Errno::Notsup.into())
    }

    /// `fd_fdstat_get`: what a descriptor is and what it may do.
    pub(super) fn fd_fdstat_get(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        out: u32,
    ) -> Outcome {
        let descriptor = self.table.get(fd)?;
        let mut stat = [0; 24];
        let (head, rights) = stat.split_at_mut(8);
        let kind = match &descriptor.object {
            // Not a character device: a log is no terminal, and guests should not colour it.
            Object::Stdin | Object::Log(_) => UNKNOWN,
            Object::Dir(_) => DIRECTORY,
            Object::File(_) => REGULAR_FILE,
        };
        let [low, high, ..] = descriptor.flags.to_le_bytes();
        head.copy_from_slice(&[kind, 0, low, high, 0, 0, 0, 0]);
        let (base, inheriting) = rights.split_at_mut(8);
        base.copy_from_slice(&descriptor.base.to_le_bytes());
        inheriting.copy_from_slice(&descriptor.inheriting.to_le_bytes());
        memory.write(out, &stat)
    }

    /// `fd_fdstat_set_flags`: whether writes append is settled when a file is opened.
    pub(super) fn fd_fdstat_set_flags(&mut self, fd: u32, flags: u32) -> Outcome {
        let descriptor = self.table.get_mut(fd)?;
        descriptor.file()?;
        descriptor.require(FD_FDSTAT_SET_FLAGS)?;
        if flags & !ALL_FDFLAGS != 0 {
            return Err(Errno::Inval.into());
        }
        if (flags ^ descriptor.flags) & !NONBLOCK != 0 {
            return Err(Errno::Notsup.into());
        }
        descriptor.flags = flags;
        Ok(())
    }

    /// `fd_fdstat_set_rights`: rights can only be given up, and only on descriptors of the guest's own.
    pub(super) fn fd_fdstat_set_rights(&mut self, fd: u32, base: u64, inheriting: u64) -> Outcome {
        self.table.check_owned(fd)?;
        let descriptor = self.table.get_mut(fd)?;
        if base & !descriptor.base != 0 || inheriting & !descriptor.inheriting != 0 {
            return Err(Errno::Notcapable.into());
        }
        descriptor.base = base;
        descriptor.inheriting = inheriting;
        Ok(())
    }

    /// `fd_filestat_get`.
    pub(super) fn fd_filestat_get(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        out: u32,
    ) -> Outcome {
        let descriptor = self.table.with_rights(fd, FD_FILESTAT_GET)?;
        let stat = match &descriptor.object {
            Object::Stdin | Object::Log(_) => [0; FILESTAT],
            Object::Dir(open) => encode_filestat(&open.dir.dir_metadata()?),
            Object::File(file) => encode_filestat(&Metadata::from_file(file)?),
        };
        memory.write(out, &stat)
    }

    /// `fd_filestat_set_size`: growth counts as written, since not every file system keeps holes.
    pub(super) fn fd_filestat_set_size(&mut self, fd: u32, size: u64) -> Outcome {
        let file = self.table.file(fd, FD_FILESTAT_SET_SIZE)?;
        let growth = size.saturating_sub(file.metadata()?.len());
        self.spend(growth)?;
        Ok(self.table.file(fd, FD_FILESTAT_SET_SIZE)?.set_len(size)?)
    }

    /// `fd_filestat_set_times`.
    pub(super) fn fd_filestat_set_times(
        &mut self,
        fd: u32,
        accessed: u64,
        modified: u64,
        flags: u32,
    ) -> Outcome {
        let descriptor = self.table.with_rights(fd, FD_FILESTAT_SET_TIMES)?;
        let times = file_times(accessed, modified, flags)?;
        match &descriptor.object {
            Object::Stdin | Object::Log(_) => Err(Errno::Inval.into()),
            // The folder's own handle serves for path resolution only; this opens it for real.
            Object::Dir(open) => Ok(open.dir.open(".")?.into_std().set_times(times)?),
            Object::File(file) => Ok(file.set_times(times)?),
        }
    }

    /// `fd_sync` and `fd_datasync`: only with write right; others have nothing to wait for.
    pub(super) fn fd_sync(&mut self, fd: u32, metadata_too: bool) -> Outcome {
        let right = if metadata_too { FD_SYNC } else { FD_DATASYNC };
        match &self.table.with_rights(fd, right)?.object {
            Object::Stdin | Object::Log(_) => Err(Errno::Inval.into()),
            Object::Dir(open) => Ok(open.dir.open(".")?.sync_all()?),
            Object::File(file) if metadata_too => Ok(file.sync_all()?),
            Object::File(file) => Ok(file.sync_data()?),
        }
    }

    /// `fd_seek`.
    pub(super) fn fd_seek(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        offset: i64,
        whence: u32,
        out: u32,
    ) -> Outcome {
        let mut file = self.table.file(fd, FD_SEEK)?;
        memory.range(out, 8)?;
        let target = match whence {
            0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno::Inval)?),
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            _ => return Err(Errno::Inval.into()),
        };
        memory.write_u64(out, file.seek(target)?)
    }

    /// `fd_tell`.
    pub(super) fn fd_tell(&mut self, memory: &mut GuestMemory<'_>, fd: u32, out: u32) -> Outcome {
        let mut file = self.table.file(fd, FD_TELL)?;
        memory.write_u64(out, file.stream_position()?)
    }

    /// `fd_close`.
    pub(super) fn fd_close(&mut self, fd: u32) -> Outcome {
        self.table.close(fd)
    }

    /// `fd_renumber`.
    pub(super) fn fd_renumber(&mut self, from: u32, to: u32) -> Outcome {
        self.table.renumber(from, to)
    }

    /// `fd_prestat_get`: the length of a granted folder's name.
    pub(super) fn fd_prestat_get(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        out: u32,
    ) -> Outcome {
        let length = u32::try_from(self.preopen(fd)?.len()).map_err(|_| Errno::Nametoolong)?;
        // Tag 0, a folder, and its padding; then the length.
        memory.write_u64(out, u64::from(length) << 32)
    }

    /// `fd_prestat_dir_name`: the name itself.
    pub(super) fn fd_prestat_dir_name(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        (buffer, length): (u32, u32),
    ) -> Outcome {
        let name = self.preopen(fd)?.as_bytes();
        if name.len() as u64 > u64::from(length) {
            return Err(Errno::Nametoolong.into());
        }
        memory.write(buffer, name)
    }

    /// The name of a granted folder. "Bad descriptor" ends a guest's search for further ones.
    fn preopen(&self, fd: u32) -> Outcome<&str> {
        match &self.table.get(fd)?.object {
            Object::Dir(open) => Ok(open.preopen.as_deref().ok_or(Errno::Badf)?),
            _ => Err(Errno::Badf.into()),
        }
    }
}
