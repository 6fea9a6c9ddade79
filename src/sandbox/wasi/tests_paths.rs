//! What a guest reads through granted folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::errno::Errno;
use super::rights::{
    FD_FILESTAT_SET_SIZE, FD_FILESTAT_SET_TIMES, FD_READ, FD_SEEK, FD_TELL, FD_WRITE, O_CREAT,
    O_DIRECTORY, O_TRUNC, PATH_OPEN,
};
use super::test_guest::{DATA, OUT, PATH, guest_in, world};

const NOT_CAPABLE: u32 = Errno::Notcapable as u32;
/// The first granted folder.
const ROOT: u32 = 3;

#[test]
fn a_granted_file_is_read() {
    let world = world();
    let mut guest = guest_in(world.path(), false);
    assert_eq!(guest.call("fd_prestat_get", &[3, i64::from(OUT)]), 0);
    assert_eq!(guest.long(OUT), 5 << 32);
    assert_eq!(
        guest.call("fd_prestat_dir_name", &[3, i64::from(DATA), 5]),
        0
    );
    assert_eq!(guest.take(DATA, 5), b"/data");
    assert_eq!(
        guest.call("fd_prestat_dir_name", &[3, i64::from(DATA), 4]),
        Errno::Nametoolong as u32
    );

    let fd = guest
        .open(ROOT, b"inner/file", 0, FD_READ | FD_SEEK | FD_TELL)
        .unwrap();
    assert_eq!(guest.read(fd, 100), Ok(b"text".to_vec()));
    assert_eq!(guest.read(fd, 100), Ok(Vec::new()));
    assert_eq!(
        guest.call("fd_seek", &[i64::from(fd), -3, 2, i64::from(OUT)]),
        0
    );
    assert_eq!(guest.long(OUT), 1);
    assert_eq!(guest.read(fd, 2), Ok(b"ex".to_vec()));
    assert_eq!(guest.call("fd_tell", &[i64::from(fd), i64::from(OUT)]), 0);
    assert_eq!(guest.long(OUT), 3);
    assert_eq!(
        guest.call("fd_seek", &[i64::from(fd), -1, 0, i64::from(OUT)]),
        Errno::Inval as u32
    );
    assert_eq!(
        guest.open(fd, b"file", 0, FD_READ),
        Err(Errno::Notdir as u32)
    );
    assert_eq!(
        guest.open(ROOT, b"none", 0, FD_READ),
        Err(Errno::Noent as u32)
    );

    let inner = guest
        .open(ROOT, b"./inner/../inner", O_DIRECTORY, 0)
        .unwrap();
    assert!(guest.open(inner, b"file", 0, FD_READ).is_ok());
    assert_eq!(
        guest.open(inner, b"../file", 0, FD_READ),
        Err(NOT_CAPABLE),
        "its own root is the folder"
    );
    assert_eq!(
        guest.call("fd_prestat_get", &[i64::from(inner), i64::from(OUT)]),
        Errno::Badf as u32
    );
}

#[test]
fn file_stats_tell_type_and_size_but_no_access_time() {
    let world = world();
    let mut guest = guest_in(world.path(), false);
    let out = i64::from(OUT);
    assert_eq!(
        guest.on_path("path_filestat_get", &[3, 1], b"file", &[out]),
        0
    );
    let (kind, size) = (guest.take(OUT + 16, 1), guest.long(OUT + 32));
    assert_eq!((kind, size), (vec![4], 4));
    assert_eq!(guest.long(OUT + 40), guest.long(OUT + 48));
    assert!(guest.long(OUT + 48) > 0);
    assert_eq!(guest.call("fd_filestat_get", &[3, out]), 0);
    assert_eq!(guest.take(OUT + 16, 1), [3]);
}

#[test]
fn rights_are_told_as_they_are_enforced() {
    let world = world();
    let mut guest = guest_in(world.path(), false);
    assert_eq!(guest.call("fd_fdstat_get", &[3, i64::from(OUT)]), 0);
    let (base, inheriting) = (guest.long(OUT + 8), guest.long(OUT + 16));
    assert_eq!(guest.take(OUT, 1), [3]);
    assert_ne!(base & PATH_OPEN, 0);
    assert_eq!(
        (base | inheriting) & (FD_WRITE | FD_FILESTAT_SET_SIZE | FD_FILESTAT_SET_TIMES),
        0
    );
    let fd = guest.open(ROOT, b"file", 0, !FD_WRITE).unwrap();
    assert_eq!(
        guest.call("fd_fdstat_get", &[i64::from(fd), i64::from(OUT)]),
        0
    );
    assert_eq!(guest.take(OUT, 1), [4]);
    assert_eq!(
        guest.long(OUT + 8) & (FD_READ | FD_WRITE | FD_FILESTAT_SET_SIZE),
        FD_READ
    );
    // Rights go down, not up.
    assert_eq!(
        guest.call("fd_fdstat_set_rights", &[i64::from(fd), -1, 0]),
        NOT_CAPABLE
    );
    assert_eq!(
        guest.call("fd_fdstat_set_rights", &[i64::from(fd), FD_SEEK as i64, 0]),
        0
    );
    assert_eq!(guest.read(fd, 1), Err(NOT_CAPABLE));
}

#[test]
fn a_folder_is_listed_in_pieces() {
    let world = world();
    for number in 0..50 {
        fs::write(
            world
                .path()
                .join(format!("granted/inner/a-rather-long-name-{number}")),
            "",
        )
        .unwrap();
    }
    let mut guest = guest_in(world.path(), false);
    let inner = i64::from(guest.open(ROOT, b"inner", O_DIRECTORY, 0).unwrap());
    for size in [60, 64, 100, 4000] {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let arguments = [inner, i64::from(DATA), size, cookie, i64::from(OUT)];
            assert_eq!(guest.call("fd_readdir", &arguments), 0);
            let used = guest.number(OUT);
            let mut at = DATA;
            while at + 24 <= DATA + used {
                let length = guest.number(at + 16);
                if at + 24 + length > DATA + used {
                    break;
                }
                cookie = guest.long(at) as i64;
                names.push(String::from_utf8(guest.take(at + 24, length)).unwrap());
                at += 24 + length;
            }
            if i64::from(used) < size {
                break;
            }
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 53, "with {size} bytes: {names:?}");
        assert!(names.contains(&".".to_owned()) && names.contains(&"file".to_owned()));
    }
    // Past the end, and at any cookie, there is an answer.
    assert_eq!(
        guest.call(
            "fd_readdir",
            &[inner, i64::from(DATA), 100, -1, i64::from(OUT)]
        ),
        0
    );
    assert_eq!(guest.number(OUT), 0);
}

#[test]
fn links_inside_a_grant_work_and_are_followed_only_when_asked() {
    let world = world();
    let granted = world.path().join("granted");
    symlink("inner/file", granted.join("to_file")).unwrap();
    symlink("inner/", granted.join("to_dir")).unwrap();
    symlink("loop", granted.join("loop")).unwrap();
    let mut guest = guest_in(world.path(), false);
    assert!(guest.open(ROOT, b"to_file", 0, FD_READ).is_ok());
    assert!(guest.open(ROOT, b"to_dir/file", 0, FD_READ).is_ok());
    assert!(
        guest
            .open_as(ROOT, 0, b"to_dir/", O_DIRECTORY, 0, 0)
            .is_ok(),
        "a slash follows"
    );
    assert_eq!(
        guest.open_as(ROOT, 0, b"to_file", 0, FD_READ, 0),
        Err(Errno::Loop as u32)
    );
    assert_eq!(
        guest.open_as(ROOT, 0, b"to_dir", O_DIRECTORY, 0, 0),
        Err(Errno::Loop as u32)
    );
    assert_eq!(
        guest.open(ROOT, b"to_file/", 0, FD_READ),
        Err(Errno::Notdir as u32)
    );
    assert_eq!(
        guest.open(ROOT, b"file/", 0, FD_READ),
        Err(Errno::Notdir as u32)
    );
    assert_eq!(
        guest.open(ROOT, b"loop", 0, FD_READ),
        Err(Errno::Loop as u32)
    );
}

#[test]
fn odd_names_give_an_errno() {
    let world = world();
    let mut guest = guest_in(world.path(), true);
    let deep = b"a/".repeat(200);
    let cases: [(&[u8], Errno); 7] = [
        (b"", Errno::Noent),
        (b"fi\0le", Errno::Inval),
        (b"fi\xffle", Errno::Ilseq),
        (&[b'n'; 300], Errno::Nametoolong),
        (&[b'n'; 5000], Errno::Nametoolong),
        (&deep, Errno::Nametoolong),
        (b"//", Errno::Notcapable),
    ];
    for (path, errno) in cases {
        let expected = Err(errno as u32);
        assert_eq!(
            guest.open(ROOT, path, O_CREAT, FD_WRITE),
            expected,
            "{errno:?}"
        );
        assert_eq!(
            guest.on_path("path_create_directory", &[3], path, &[]),
            errno as u32,
            "{errno:?}"
        );
        assert_ne!(guest.rename(ROOT, b"file", ROOT, path), 0, "{errno:?}");
    }
    assert_eq!(
        guest.call("path_create_directory", &[3, i64::from(PATH), -1]),
        Errno::Fault as u32
    );
}

#[test]
fn only_files_and_folders_open_and_nothing_blocks() {
    let world = world();
    let granted = world.path().join("granted");
    assert!(
        Command::new("mkfifo")
            .arg(granted.join("fifo"))
            .status()
            .unwrap()
            .success()
    );
    let _socket = std::os::unix::net::UnixListener::bind(granted.join("socket")).unwrap();
    symlink("fifo", granted.join("to_fifo")).unwrap();
    let mut guest = guest_in(world.path(), true);
    for path in [&b"fifo"[..], b"to_fifo", b"socket"] {
        for (oflags, rights) in [
            (0, FD_READ),
            (0, FD_WRITE),
            (O_CREAT, FD_READ | FD_WRITE),
            (O_TRUNC, FD_WRITE),
        ] {
            assert_eq!(guest.open(ROOT, path, oflags, rights), Err(NOT_CAPABLE));
        }
        let errno = guest.on_path("path_filestat_set_times", &[3, 1], path, &[0, 0, 5]);
        assert_eq!(errno, NOT_CAPABLE);
    }
    assert_eq!(
        guest.on_path("path_filestat_get", &[3, 0], b"fifo", &[i64::from(OUT)]),
        0
    );
}
