//! Output files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::OutputError;

/// A file under way: written in a folder of its own beside its target, moved into place when it is
/// complete. Dropped before that, whatever the reason, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct StagedFile {
    // A folder, so that the file in it has the permissions of any new file.
    folder: TempDir,
    name: OsString,
    target: PathBuf,
}

impl StagedFile {
    /// Prepares to write `target`, which is left alone until [`StagedFile::commit`].
    pub(crate) fn create(target: &Path) -> Result<Self, OutputError> {
        let refuse = |reason: &str| OutputError::Encode {
            path: target.to_owned(),
            reason: reason.to_owned(),
        };
        // A link is followed, so that what it points to is replaced and not the link.
        let place = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if let Ok(about) = fs::metadata(&place) {
            if about.is_dir() {
                return Err(refuse("it is a folder; name a file in it"));
            }
            if !about.is_file() {
                return Err(refuse("it is not a regular file"));
            }
        }
        let name = place
            .file_name()
            .ok_or_else(|| refuse("it has no file name"))?
            .to_owned();
        let parent = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        // Looked at first, because the error of the next step would name a folder that nobody asked for.
        fs::metadata(&parent).map_err(OutputError::write(target))?;
        let folder = tempfile::Builder::new()
            .prefix(".wasmill-")
            .tempdir_in(&parent)
            .map_err(OutputError::write(target))?;
        Ok(StagedFile {
            folder,
            name,
            target: target.to_owned(),
        })
    }

    /// Where to write.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    /// The file that is meant.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Moves the file into place. Gives its size in bytes.
    pub(crate) fn commit(self) -> Result<u64, OutputError> {
        let written = self.path();
        let failed = |source| OutputError::Write {
            path: self.target.clone(),
            source,
        };
        let file = File::open(&written).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let parent = self.folder.path().parent().unwrap_or(Path::new("."));
        fs::rename(&written, parent.join(&self.name)).map_err(failed)?;
        // The new name is durable only once the folder is; not every file system can do that.
        if let Ok(folder) = File::open(parent) {
            let _ = folder.sync_all();
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.csv");
        let staged = StagedFile::create(&target).unwrap();
        fs::write(staged.path(), "half").unwrap();
        drop(staged);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        fs::write(&target, "before").unwrap();
        let staged = StagedFile::create(&target).unwrap();
        fs::write(staged.path(), "whole").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "before");
        assert_eq!(staged.commit().unwrap(), 5);
        assert_eq!(fs::read_to_string(&target).unwrap(), "whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_is_no_output() {
        let folder = tempfile::tempdir().unwrap();
        assert!(StagedFile::create(folder.path()).is_err());
        assert!(StagedFile::create(&folder.path().join("missing/out.csv")).is_err());
    }
}
