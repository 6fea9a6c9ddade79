//! Ways out of a granted folder, all of them closed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::errno::Errno;
use super::rights::{FD_READ, FD_WRITE, O_CREAT, O_DIRECTORY, O_EXCL, O_TRUNC};
use super::test_guest::{DATA, OUT, PATH, SECRET, guest_in, world};

const NOT_CAPABLE: u32 = Errno::Notcapable as u32;
/// The first granted folder.
const ROOT: u32 = 3;

/// The outside as it was.
fn assert_outside_untouched(world: &Path) {
    let names = |folder: &str| {
        let mut names: Vec<_> = fs::read_dir(world.join(folder))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("outside"), ["deep", "file"]);
    assert_eq!(names("outside/deep"), ["file"]);
    for file in ["outside/file", "outside/deep/file"] {
        assert_eq!(fs::read_to_string(world.join(file)).unwrap(), SECRET);
    }
}

/// Paths that lead out of the granted folder, each by another way.
fn escapes(world: &Path) -> Vec<Vec<u8>> {
    let granted = world.join("granted");
    let outside = world.join("outside");
    let links = [
        ("abs_file", outside.join("file")),
        ("abs_dir", outside.clone()),
        ("abs_dir_slash", format!("{}/", outside.display()).into()),
        ("rel_file", "../outside/file".into()),
        ("rel_dir", "../outside".into()),
        ("rel_dir_slash", "../outside/".into()),
        ("up", "..".into()),
        ("up_slash", "../".into()),
        ("inner/up2", "../..".into()),
        ("chain", "rel_dir".into()),
        ("chain_slash", "rel_dir/".into()),
        ("deep_chain", "inner/up2/outside".into()),
        ("dot_chain", "./inner/../rel_dir/.".into()),
        ("proc", "/proc/self/cwd".into()),
        ("dangling", "../outside/new".into()),
        ("abs_dangling", outside.join("new")),
    ];
    for (name, target) in links {
        symlink(target, granted.join(name)).unwrap();
    }
    let outside = outside.to_str().unwrap();
    [
        "..",
        "../",
        "../outside",
        "../outside/file",
        "inner/../../outside/file",
        "./../outside/",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        outside,
        "abs_file",
        "abs_file/",
        "abs_dir",
        "abs_dir/",
        "abs_dir/file",
        "abs_dir/deep/",
        "abs_dir_slash",
        "abs_dir_slash/",
        "abs_dir_slash/file",
        "rel_file",
        "rel_file/",
        "rel_dir",
        "rel_dir/",
        "rel_dir//",
        "rel_dir/.",
        "rel_dir/file",
        "rel_dir/deep/file",
        "rel_dir_slash",
        "rel_dir_slash/",
        "rel_dir_slash/file",
        "up",
        "up/",
        "up/outside/file",
        "up_slash/outside/file",
        "inner/up2",
        "inner/up2/",
        "inner/up2/outside/file",
        "chain",
        "chain/",
        "chain/file",
        "chain_slash/file",
        "deep_chain/",
        "deep_chain/file",
        "dot_chain",
        "dot_chain/",
        "dot_chain/file",
        "proc/",
        "proc/Cargo.toml",
        "dangling",
        "dangling/",
        "abs_dangling",
    ]
    .iter()
    .map(|path| path.as_bytes().to_vec())
    .collect()
}

#[test]
fn no_path_leads_out_of_a_grant() {
    let world = world();
    let paths = escapes(world.path());
    let out = i64::from(OUT);
    for writable in [false, true] {
        let mut guest = guest_in(world.path(), writable);
        for path in &paths {
            let name = String::from_utf8_lossy(path).into_owned();
            for lookup in [0, 1] {
                for (oflags, rights) in [
                    (0, FD_READ),
                    (O_DIRECTORY, FD_READ),
                    (O_CREAT, FD_READ | FD_WRITE),
                    (O_CREAT | O_EXCL, FD_WRITE),
                    (O_TRUNC, FD_WRITE),
                ] {
                    let opened = guest.open_as(ROOT, lookup, path, oflags, rights, 0);
                    assert!(
                        opened.is_err(),
                        "{name} opened with {oflags}, follow {lookup}"
                    );
                }
                // Without following, a link itself may be looked at: type 7.
                let errno =
                    guest.on_path("path_filestat_get", &[3, i64::from(lookup)], path, &[out]);
                assert!(
                    errno != 0 || (lookup == 0 && guest.take(OUT + 16, 1) == [7]),
                    "{name} was looked at"
                );
                let times = [123, 123, 5];
                let errno = guest.on_path(
                    "path_filestat_set_times",
                    &[3, i64::from(lookup)],
                    path,
                    &times,
                );
                assert_ne!(errno, 0, "{name} had its times set");
            }
            assert_ne!(
                guest.on_path("path_create_directory", &[3], path, &[]),
                0,
                "{name} was created"
            );
            assert_ne!(
                guest.on_path("path_remove_directory", &[3], path, &[]),
                0,
                "{name} was removed"
            );
            assert_ne!(
                guest.rename(ROOT, b"file", ROOT, &[path.as_slice(), b"/new"].concat()),
                0,
                "to {name}"
            );
            // The last part of other paths is a link that stands inside and may be removed or moved.
            if name.contains('/') && name != "inner/up2" {
                assert_ne!(
                    guest.on_path("path_unlink_file", &[3], path, &[]),
                    0,
                    "{name} was unlinked"
                );
                assert_ne!(
                    guest.rename(ROOT, path, ROOT, b"taken"),
                    0,
                    "{name} was taken"
                );
            }
        }
        assert_outside_untouched(world.path());
        assert!(world.path().join("granted/file").exists());
    }
}

#[test]
fn a_link_is_removed_itself_and_not_its_target() {
    let world = world();
    escapes(world.path());
    let mut guest = guest_in(world.path(), true);
    for name in ["abs_file", "abs_dir", "rel_dir", "chain"] {
        assert_eq!(
            guest.on_path("path_unlink_file", &[3], name.as_bytes(), &[]),
            0
        );
        assert!(!world.path().join("granted").join(name).is_symlink());
    }
    assert_outside_untouched(world.path());
}

#[test]
fn link_texts_are_told_unless_absolute_and_links_are_never_made() {
    let world = world();
    escapes(world.path());
    let mut guest = guest_in(world.path(), true);
    let after = [i64::from(DATA), 4, i64::from(OUT)];
    assert_eq!(guest.on_path("path_readlink", &[3], b"chain", &after), 0);
    assert_eq!(guest.number(OUT), 4);
    assert_eq!(guest.take(DATA, 4), b"rel_");
    assert_eq!(
        guest.on_path("path_readlink", &[3], b"abs_file", &after),
        NOT_CAPABLE
    );
    assert_ne!(guest.on_path("path_readlink", &[3], b"chain/", &after), 0);
    assert_ne!(guest.on_path("path_readlink", &[3], b"file", &after), 0);
    let path = i64::from(PATH);
    guest.put(PATH, b"file");
    assert_eq!(
        guest.call("path_symlink", &[path, 4, 3, path, 4]),
        NOT_CAPABLE
    );
    assert_eq!(
        guest.call("path_link", &[3, 0, path, 4, 3, path, 4]),
        NOT_CAPABLE
    );
}

#[test]
fn a_folder_moved_away_while_open_still_leads_nowhere_else() {
    let world = world();
    let mut guest = guest_in(world.path(), true);
    let inner = guest.open(ROOT, b"inner", O_DIRECTORY, 0).unwrap();
    fs::rename(
        world.path().join("granted/inner"),
        world.path().join("outside/deep/inner"),
    )
    .unwrap();
    assert!(guest.open(inner, b"../file", 0, FD_READ).is_err());
    assert!(guest.open(inner, b"../../file", 0, FD_READ).is_err());
    assert!(guest.open(ROOT, b"inner/file", 0, FD_READ).is_err());
}
