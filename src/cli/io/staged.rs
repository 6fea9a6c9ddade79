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
        // What a link points to is replaced, and not the link.
        let place = followed(target).ok_or_else(|| refuse("its links lead in a circle"))?;
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

    /// Makes the file ready for its place, with the permissions of the file that it replaces: what is left
    /// is a change of its name. Gives its size in bytes.
    pub(crate) fn seal(&self) -> Result<u64, OutputError> {
        let failed = || OutputError::write(&self.target);
        let file = File::open(self.path()).map_err(failed())?;
        file.sync_all().map_err(failed())?;
        if let Ok(before) = fs::metadata(self.place()) {
            fs::set_permissions(self.path(), before.permissions()).map_err(failed())?;
        }
        Ok(file.metadata().map_err(failed())?.len())
    }

    /// Moves the file into place. Gives its size in bytes.
    pub(crate) fn commit(self) -> Result<u64, OutputError> {
        let size = self.seal()?;
        fs::rename(self.path(), self.place()).map_err(OutputError::write(&self.target))?;
        // The new name is durable only once the folder is; not every file system can do that.
        if let Ok(folder) = File::open(self.parent()) {
            let _ = folder.sync_all();
        }
        Ok(size)
    }

    fn parent(&self) -> &Path {
        self.folder.path().parent().unwrap_or(Path::new("."))
    }

    fn place(&self) -> PathBuf {
        self.parent().join(&self.name)
    }
}

/// Links on the way to a file, as many as Linux follows.
const MOST_LINKS: usize = 40;

/// The file that a name stands for, at the end of its links; it need not exist. `None` where they lead in
/// a circle.
pub(crate) fn followed(name: &Path) -> Option<PathBuf> {
    let mut place = name.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&place) {
            // A relative link is seen from the folder in which it lies.
            Ok(to) => place = place.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Some(place),
        }
    }
    None
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

    #[cfg(unix)]
    #[test]
    fn the_file_at_the_end_of_links_is_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("there")).unwrap();
        // Not there before, and seen from the folder of the second link.
        symlink("there/second", path("first")).unwrap();
        symlink("out.csv", path("there/second")).unwrap();
        for content in ["new", "newer"] {
            let staged = StagedFile::create(&path("first")).unwrap();
            fs::write(staged.path(), content).unwrap();
            staged.commit().unwrap();
            assert_eq!(fs::read_to_string(path("there/out.csv")).unwrap(), content);
        }
        assert!(fs::read_link(path("first")).is_ok());

        symlink("circle", path("circle")).unwrap();
        assert!(StagedFile::create(&path("circle")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.csv");
        fs::write(&target, "secret").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        let staged = StagedFile::create(&target).unwrap();
        fs::write(staged.path(), "new").unwrap();
        staged.commit().unwrap();
        let mode = fs::metadata(&target).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_folder_is_no_output() {
        let folder = tempfile::tempdir().unwrap();
        assert!(StagedFile::create(folder.path()).is_err());
        assert!(StagedFile::create(&folder.path().join("missing/out.csv")).is_err());
    }
}
