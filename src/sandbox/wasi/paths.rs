//! Calls on paths, other than opening them.

use super::errno::{Errno, Outcome};
use super::memory::GuestMemory;
use super::opening::open_for_times;
use super::rights::{
    PATH_CREATE_DIRECTORY, PATH_FILESTAT_GET, PATH_FILESTAT_SET_TIMES, PATH_READLINK,
    PATH_REMOVE_DIRECTORY, PATH_RENAME_SOURCE, PATH_RENAME_TARGET, PATH_UNLINK_FILE,
    SYMLINK_FOLLOW,
};
use super::stat::{encode_filestat, file_times};
use super::{ENTRY_COST, WasiContext};

/// A path as a guest gives it: pointer and length.
type RawPath = (u32, u32);

impl WasiContext {
    /// `path_create_directory`.
    pub(super) fn path_create_directory(
        &mut self,
        memory: &GuestMemory<'_>,
        fd: u32,
        path: RawPath,
    ) -> Outcome {
        let path = memory.path(path.0, path.1)?;
        self.table.dir(fd, PATH_CREATE_DIRECTORY)?;
        self.spend(ENTRY_COST)?;
        Ok(self
            .table
            .dir(fd, PATH_CREATE_DIRECTORY)?
            .create_dir(&path.text)?)
    }

    /// `path_remove_directory`. Never follows a symbolic link, with or without a slash behind it.
    pub(super) fn path_remove_directory(
        &mut self,
        memory: &GuestMemory<'_>,
        fd: u32,
        path: RawPath,
    ) -> Outcome {
        let path = memory.path(path.0, path.1)?;
        Ok(self
            .table
            .dir(fd, PATH_REMOVE_DIRECTORY)?
            .remove_dir(&path.text)?)
    }

    /// `path_unlink_file`. Removes a symbolic link, not what it points to.
    pub(super) fn path_unlink_file(
        &mut self,
        memory: &GuestMemory<'_>,
        fd: u32,
        path: RawPath,
    ) -> Outcome {
        let path = memory.path(path.0, path.1)?;
        let dir = self.table.dir(fd, PATH_UNLINK_FILE)?;
        // Hosts differ in what they say of folders, and a slash asks for one.
        let is_dir = dir.symlink_metadata(&path.text)?.is_dir();
        match (is_dir, path.names_dir) {
            (true, _) => Err(Errno::Isdir.into()),
            (false, true) => Err(Errno::Notdir.into()),
            (false, false) => Ok(dir.remove_file(&path.text)?),
        }
    }

    /// `path_rename`. Both folders must be granted for writing.
    pub(super) fn path_rename(
        &mut self,
        memory: &GuestMemory<'_>,
        (from_fd, from): (u32, RawPath),
        (to_fd, to): (u32, RawPath),
    ) -> Outcome {
        let from = memory.path(from.0, from.1)?;
        let to = memory.path(to.0, to.1)?;
        // A rename adds no entry, so it costs nothing of the write budget.
        let from_dir = self.table.dir(from_fd, PATH_RENAME_SOURCE)?;
        let to_dir = self.table.dir(to_fd, PATH_RENAME_TARGET)?;
        if (from.names_dir || to.names_dir) && !from_dir.symlink_metadata(&from.text)?.is_dir() {
            return Err(Errno::Notdir.into());
        }
        Ok(from_dir.rename(&from.text, to_dir, &to.text)?)
    }

    /// `path_filestat_get`. A FIFO or device may be looked at; nothing is opened for it.
    pub(super) fn path_filestat_get(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        lookup: u32,
        path: RawPath,
        out: u32,
    ) -> Outcome {
        let follow = follows(lookup)?;
        let path = memory.path(path.0, path.1)?;
        let dir = self.table.dir(fd, PATH_FILESTAT_GET)?;
        let follow = follow || path.names_dir;
        let metadata = if follow {
            dir.metadata(&path.text)?
        } else {
            dir.symlink_metadata(&path.text)?
        };
        if path.names_dir && !metadata.is_dir() {
            return Err(Errno::Notdir.into());
        }
        memory.write(out, &encode_filestat(&metadata))
    }

    /// `path_filestat_set_times`. Goes through an open file, so only what can be opened has its times set.
    pub(super) fn path_filestat_set_times(
        &mut self,
        memory: &GuestMemory<'_>,
        fd: u32,
        lookup: u32,
        path: RawPath,
        (accessed, modified, flags): (u64, u64, u32),
    ) -> Outcome {
        let follow = follows(lookup)?;
        let path = memory.path(path.0, path.1)?;
        let dir = self.table.dir(fd, PATH_FILESTAT_SET_TIMES)?;
        let times = file_times(accessed, modified, flags)?;
        let file = open_for_times(dir, &path, follow)?;
        Ok(file.set_times(times)?)
    }

    /// `path_readlink`. The text of a link is cut to the buffer; absolute targets, which say something
    /// about the host, are not told.
    pub(super) fn path_readlink(
        &mut self,
        memory: &mut GuestMemory<'_>,
        fd: u32,
        path: RawPath,
        (buffer, length): (u32, u32),
        used_out: u32,
    ) -> Outcome {
        let path = memory.path(path.0, path.1)?;
        let dir = self.table.dir(fd, PATH_READLINK)?;
        memory.range(buffer, u64::from(length))?;
        memory.range(used_out, 4)?;
        if path.names_dir {
            return Err(Errno::Inval.into());
        }
        let target = dir.read_link(&path.text)?;
        let target = target.to_str().ok_or(Errno::Ilseq)?.as_bytes();
        let room = usize::try_from(length).unwrap_or(usize::MAX);
        let text = target.get(..room).unwrap_or(target);
        memory.write(buffer, text)?;
        memory.write_u32(
            used_out,
            u32::try_from(text.len()).map_err(|_| Errno::Nametoolong)?,
        )
    }
}

/// Whether `lookupflags` ask to follow a symbolic link at the end of a path.
fn follows(lookup: u32) -> Outcome<bool> {
    if lookup & !SYMLINK_FOLLOW != 0 {
        Err(Errno::Inval.into())
    } else {
        Ok(lookup & SYMLINK_FOLLOW != 0)
    }
}
