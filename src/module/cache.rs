//! The cache of compiled code on disk.
//!
//! Compiled code is native code: loading it is trusting it. An entry is therefore read only if it
//! carries a keyed hash (HMAC-SHA-256) made with a key that lives beside the entries, in a folder that
//! only its owner may enter. An entry that does not check out is compiled again and replaced. Nothing
//! that goes wrong with the cache fails a load: it only costs the time to compile.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;

const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 32;
/// Longest name of a module that an entry holds.
const NAME_BYTES: usize = 64;

/// A folder of compiled modules.
#[derive(Debug)]
pub(crate) struct CodeCache {
    folder: PathBuf,
    key: [u8; KEY_BYTES],
}

impl CodeCache {
    /// Opens the cache, making folder and key where they are missing.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        check_private(folder)?;
        let key_file = folder.join("key");
        let key = match read_key(&key_file)? {
            Some(key) => key,
            None => {
                let mut key = [0; KEY_BYTES];
                getrandom::fill(&mut key).map_err(io::Error::other)?;
                write_whole(folder, &key_file, &[&key])?;
                // Somebody else may have made one at the same moment: what is on disk counts.
                read_key(&key_file)?
                    .ok_or_else(|| io::Error::other("the key cannot be read back"))?
            }
        };
        Ok(CodeCache {
            folder: folder.to_owned(),
            key,
        })
    }

    /// The compiled code stored under `name`, if it is there and authentic.
    pub(crate) fn load(&self, name: &str) -> Option<Vec<u8>> {
        let mut bytes = fs::read(self.folder.join(name)).ok()?;
        let signed = bytes.len().checked_sub(TAG_BYTES)?;
        let tag = bytes.split_off(signed);
        match self.mac(name, &bytes).verify_slice(&tag) {
            Ok(()) => {
                bytes.truncate(signed.checked_sub(NAME_BYTES)?);
                Some(bytes)
            }
            Err(_) => {
                tracing::warn!(
                    entry = name,
                    "a cached artifact was altered; it is compiled again"
                );
                None
            }
        }
    }

    /// Stores the compiled code of a module under `name`. The module's own name is for people, and for
    /// [`cached_module`].
    pub(crate) fn store(&self, name: &str, module: &str, code: &[u8]) {
        let label = module.bytes().chain(std::iter::repeat(0)).take(NAME_BYTES);
        let signed: Vec<u8> = code.iter().copied().chain(label).collect();
        let tag = self.mac(name, &signed).finalize().into_bytes();
        if let Err(error) = write_whole(&self.folder, &self.folder.join(name), &[&signed, &tag]) {
            tracing::debug!(%error, entry = name, "compiled code was not cached");
        }
    }

    /// The hash covers the name, so that one module's code never answers for another's.
    fn mac(&self, name: &str, contents: &[u8]) -> Hmac<Sha256> {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.key)
            .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        mac.update(&(name.len() as u64).to_le_bytes());
        mac.update(name.as_bytes());
        mac.update(contents);
        mac
    }
}

/// The name of the module whose code an entry holds. Nothing is checked, so it is only to be shown.
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "for listings"))]
pub(crate) fn cached_module(entry: &Path) -> Option<String> {
    let mut file = fs::File::open(entry).ok()?;
    let from_end = i64::try_from(NAME_BYTES.checked_add(TAG_BYTES)?).ok()?;
    file.seek(SeekFrom::End(from_end.checked_neg()?)).ok()?;
    let mut label = [0; NAME_BYTES];
    file.read_exact(&mut label).ok()?;
    // Entries of older versions have code in this place.
    let name = std::str::from_utf8(&label).ok()?.trim_end_matches('\0');
    (!name.is_empty() && !name.contains(char::is_control)).then(|| name.to_owned())
}

fn read_key(path: &Path) -> io::Result<Option<[u8; KEY_BYTES]>> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes.try_into().ok()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// A folder that others can write to could hold anybody's code.
#[cfg(unix)]
fn check_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(folder)?;
    if meta.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "{} can be written by others; make it private (chmod 700)",
            folder.display()
        )));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes a file so that it appears whole or not at all.
fn write_whole(folder: &Path, target: &Path, parts: &[&[u8]]) -> io::Result<()> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let temporary = folder.join(format!(
        ".{}-{}",
        std::process::id(),
        SERIAL.fetch_add(1, Ordering::Relaxed)
    ));
    let write = || {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        fs::rename(&temporary, target)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_altered_entry_is_not_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = CodeCache::open(folder.path()).expect("opens");
        cache.store("a", "math", b"code");
        assert_eq!(cache.load("a").as_deref(), Some(&b"code"[..]));
        assert_eq!(
            CodeCache::open(folder.path())
                .expect("opens again")
                .load("a")
                .as_deref(),
            Some(&b"code"[..])
        );

        let path = folder.path().join("a");
        assert_eq!(cached_module(&path).as_deref(), Some("math"));
        assert_eq!(cached_module(&folder.path().join("key")), None);
        let whole = fs::read(&path).expect("reads");
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).expect("writes");
            assert!(cache.load("a").is_none(), "byte {at}");
        }
        fs::write(folder.path().join("b"), &whole).expect("writes");
        assert!(cache.load("b").is_none(), "an entry under another name");
        assert!(cache.load("c").is_none(), "no entry");
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
        assert!(CodeCache::open(folder.path()).is_err());
    }
}
