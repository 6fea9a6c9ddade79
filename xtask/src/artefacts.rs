//! The check that no build product is part of the repository: everything is built from source.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};
use crate::process;
use crate::workspace::Workspace;

const ENDINGS: [&str; 9] = [
    "wasm", "cwasm", "o", "a", "so", "dylib", "dll", "exe", "rlib",
];
/// How WebAssembly modules, ELF files and Unix archives begin.
const MAGICS: [&[u8]; 3] = [b"\0asm", b"\x7fELF", b"!<arch>\n"];

/// Looks at every file that git tracks or would add.
pub fn check(workspace: &Workspace) -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).stdin(Stdio::null());
    // A checkout that belongs to another user (a container's volume) is read all the same.
    git.arg("-c")
        .arg(format!("safe.directory={}", workspace.root.display()));
    if !process::succeeds(Command::new("git").arg("--version")) {
        println!("skipped: there is no git here to list the files");
        return Ok(());
    }
    if !workspace.root.join(".git").exists() {
        println!("skipped: this is not a git checkout");
        return Ok(());
    }
    let listed = process::capture(git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let listed = String::from_utf8_lossy(&listed);
    let names: Vec<&str> = listed.split('\0').filter(|name| !name.is_empty()).collect();
    let products: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| is_product(&workspace.root.join(name)))
        .collect();
    if products.is_empty() {
        println!("{} files, no build products", names.len());
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "build products in the repository (build them instead, or write the module as .wat):\n  {}",
        products.join("\n  ")
    )))
}

fn is_product(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
        return true;
    }
    let mut head = Vec::new();
    // A file that was removed, or a link to a folder, is no product.
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut head));
    read.is_ok() && MAGICS.iter().any(|magic| head.starts_with(magic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_known_by_ending_and_by_content() {
        let folder = std::env::temp_dir().join(format!("xtask-artefacts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        assert!(is_product(&file("empty.wasm", b"")));
        assert!(is_product(&file("fixture.bin", b"\0asm\x01\0\0\0")));
        assert!(is_product(&file("tool", b"\x7fELF\x02\x01\x01\0\0")));
        assert!(!is_product(&file("guest.wat", b"(module)")));
        assert!(!is_product(&file("short", b"\0as")));
        assert!(!is_product(&folder.join("removed")));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
