//! What a guest changes through writable grants, and that it changes nothing through others.

use std::fs;

use super::errno::Errno;
use super::rights::{
    APPEND, FD_FDSTAT_SET_FLAGS, FD_FILESTAT_SET_SIZE, FD_READ, FD_SEEK, FD_SYNC, FD_WRITE,
    O_CREAT, O_DIRECTORY, O_EXCL, O_TRUNC,
};
use super::test_guest::{DATA, Guest, LIST, OUT, grant, guest_in, world};

const NOT_CAPABLE: u32 = Errno::Notcapable as u32;
/// The first granted folder.
const ROOT: u32 = 3;
/// The second granted folder.
const SECOND: u32 = 4;

#[test]
fn a_read_only_grant_is_read_only() {
    let world = world();
    let mut guest = guest_in(world.path(), false);
    for (oflags, rights) in [
        (0, FD_WRITE),
        (O_CREAT, FD_READ),
        (O_CREAT | O_EXCL, FD_READ),
        (O_TRUNC, FD_READ),
    ] {
        for path in [&b"file"[..], b"new"] {
            assert_eq!(
                guest.open(ROOT, path, oflags, rights),
                Err(NOT_CAPABLE),
                "{oflags} {rights}"
            );
        }
    }
    for name in [
        "path_create_directory",
        "path_remove_directory",
        "path_unlink_file",
    ] {
        for path in [&b"inner"[..], b"file", b"new", b"new/"] {
            assert_eq!(guest.on_path(name, &[3], path, &[]), NOT_CAPABLE, "{name}");
        }
    }
    assert_eq!(guest.rename(ROOT, b"file", ROOT, b"new"), NOT_CAPABLE);
    assert_eq!(
        guest.on_path("path_filestat_set_times", &[3, 0], b"file", &[0, 0, 5]),
        NOT_CAPABLE
    );
    let inner = guest.open(ROOT, b"inner", O_DIRECTORY, 0).unwrap();
    assert_eq!(
        guest.open(inner, b"file", 0, FD_WRITE),
        Err(NOT_CAPABLE),
        "folders pass it on"
    );
    let fd = guest.open(ROOT, b"file", 0, !FD_WRITE).unwrap();
    assert_eq!(guest.write(fd, b"x"), Err(NOT_CAPABLE));
    let fd = i64::from(fd);
    guest.list(&[(DATA, 1)]);
    assert_eq!(
        guest.call("fd_pwrite", &[fd, i64::from(LIST), 1, 0, i64::from(OUT)]),
        NOT_CAPABLE
    );
    assert_eq!(guest.call("fd_filestat_set_size", &[fd, 0]), NOT_CAPABLE);
    assert_eq!(
        guest.call("fd_filestat_set_times", &[fd, 0, 0, 5]),
        NOT_CAPABLE
    );
    assert_eq!(guest.call("fd_allocate", &[fd, 0, 9]), NOT_CAPABLE);
    assert_eq!(guest.call("fd_sync", &[fd]), NOT_CAPABLE);
    assert_eq!(guest.call("fd_datasync", &[fd]), NOT_CAPABLE);
    assert_eq!(
        fs::read_to_string(world.path().join("granted/file")).unwrap(),
        "text"
    );
}

#[test]
fn without_write_right_nothing_is_cut_even_in_a_writable_grant() {
    let world = world();
    let mut guest = guest_in(world.path(), true);
    assert_eq!(
        guest.open(ROOT, b"file", O_TRUNC, FD_READ),
        Err(NOT_CAPABLE)
    );
    let fd = guest
        .open(ROOT, b"file", 0, FD_READ | FD_FILESTAT_SET_SIZE)
        .unwrap();
    assert_eq!(
        guest.call("fd_filestat_set_size", &[i64::from(fd), 0]),
        NOT_CAPABLE
    );
    assert_eq!(guest.write(fd, b"x"), Err(NOT_CAPABLE));
    let made = guest.open(ROOT, b"made", O_CREAT, FD_READ).unwrap();
    assert_eq!(
        guest.write(made, b"x"),
        Err(NOT_CAPABLE),
        "creating is not writing"
    );
    assert_eq!(
        fs::read_to_string(world.path().join("granted/file")).unwrap(),
        "text"
    );
}

#[test]
fn a_writable_grant_is_written() {
    let world = world();
    let granted = world.path().join("granted");
    let mut guest = guest_in(world.path(), true);
    let rights = FD_READ | FD_WRITE | FD_SEEK | FD_SYNC | FD_FILESTAT_SET_SIZE;
    let fd = guest.open(ROOT, b"new", O_CREAT | O_EXCL, rights).unwrap();
    assert_eq!(
        guest.open(ROOT, b"new", O_CREAT | O_EXCL, rights),
        Err(Errno::Exist as u32)
    );
    assert_eq!(guest.write(fd, b"0123456789"), Ok(10));
    guest.list(&[(DATA, 2), (DATA + 5, 2)]);
    assert_eq!(
        guest.call(
            "fd_pwrite",
            &[i64::from(fd), i64::from(LIST), 2, 8, i64::from(OUT)]
        ),
        0
    );
    assert_eq!(fs::read(granted.join("new")).unwrap(), b"012345670156");
    assert_eq!(guest.call("fd_filestat_set_size", &[i64::from(fd), 4]), 0);
    assert_eq!(
        guest.call("fd_allocate", &[i64::from(fd), 0, 9]),
        Errno::Notsup as u32
    );

    let end = guest
        .open_as(ROOT, 1, b"new", 0, FD_WRITE | FD_FDSTAT_SET_FLAGS, APPEND)
        .unwrap();
    assert_eq!(guest.write(end, b"!"), Ok(1));
    assert_eq!(
        guest.call("fd_fdstat_set_flags", &[i64::from(end), 0]),
        Errno::Notsup as u32
    );
    assert_eq!(fs::read(granted.join("new")).unwrap(), b"0123!");
    guest.open(ROOT, b"new", O_TRUNC, FD_WRITE).unwrap();
    assert_eq!(fs::read(granted.join("new")).unwrap(), b"");
    assert_eq!(
        guest.open(ROOT, b"inner", 0, FD_WRITE),
        Err(Errno::Isdir as u32)
    );
    assert_eq!(
        guest.open(ROOT, b"inner", O_TRUNC, FD_WRITE),
        Err(Errno::Isdir as u32)
    );

    assert_eq!(
        guest.on_path("path_create_directory", &[3], b"folder/", &[]),
        0
    );
    assert_eq!(
        guest.on_path("path_unlink_file", &[3], b"folder", &[]),
        Errno::Isdir as u32
    );
    assert_eq!(
        guest.on_path("path_unlink_file", &[3], b"new/", &[]),
        Errno::Notdir as u32
    );
    assert_eq!(
        guest.rename(ROOT, b"new/", ROOT, b"other"),
        Errno::Notdir as u32
    );
    assert_eq!(guest.rename(ROOT, b"new", ROOT, b"folder/other"), 0);
    assert_eq!(guest.rename(ROOT, b"folder/", ROOT, b"moved/"), 0);
    assert_eq!(
        guest.on_path("path_remove_directory", &[3], b"moved", &[]),
        Errno::Notempty as u32
    );
    assert_eq!(
        guest.on_path("path_unlink_file", &[3], b"moved/other", &[]),
        0
    );
    assert_eq!(
        guest.on_path("path_remove_directory", &[3], b"moved/", &[]),
        0
    );

    let seconds = 1_000_000_000;
    let times = [0, 7 * seconds, 4];
    assert_eq!(
        guest.on_path("path_filestat_set_times", &[3, 0], b"file", &times),
        0
    );
    assert_eq!(
        guest.on_path("path_filestat_set_times", &[3, 0], b"inner", &times),
        0
    );
    assert_eq!(
        guest.call("fd_filestat_set_times", &[3, 0, 7 * seconds, 4]),
        0
    );
    assert_eq!(
        guest.on_path("path_filestat_get", &[3, 0], b"inner", &[i64::from(OUT)]),
        0
    );
    assert_eq!(guest.long(OUT + 48), 7 * seconds as u64);
    assert_eq!(
        guest.call("fd_filestat_set_times", &[3, 0, 0, 12]),
        Errno::Inval as u32
    );
    assert_eq!(guest.call("fd_sync", &[3]), 0);
    assert_eq!(guest.call("fd_sync", &[i64::from(fd)]), 0);
}

#[test]
fn a_rename_needs_both_grants_writable() {
    let world = world();
    fs::create_dir(world.path().join("second")).unwrap();
    for (first, second) in [(true, false), (false, true), (true, true)] {
        let mut guest = Guest::new(&[
            grant(&world.path().join("granted"), "/first", first),
            grant(&world.path().join("second"), "/second", second),
        ]);
        let expected = if first && second { 0 } else { NOT_CAPABLE };
        assert_eq!(
            guest.rename(ROOT, b"file", SECOND, b"file"),
            expected,
            "{first} {second}"
        );
    }
    assert!(world.path().join("second/file").exists());
}
