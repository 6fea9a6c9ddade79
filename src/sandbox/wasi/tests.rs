//! What holds without touching paths: names, streams, descriptors, memory, limits.

use std::fs;
use std::time::{Duration, Instant};

use super::errno::Errno;
use super::rights::{FD_READ, FD_WRITE, O_CREAT};
use super::test_guest::{DATA, FUNCTIONS, Guest, LIST, MEMORY, OUT, grant};
use super::{GrantError, HostCallError, LogStream, MAX_DESCRIPTORS, MAX_GRANTS, WasiContext};

const NOT_CAPABLE: u32 = Errno::Notcapable as u32;
const FAULT: u32 = Errno::Fault as u32;
/// The first granted folder.
const ROOT: u32 = 3;

fn host_error(result: wasmtime::Result<u32>) -> HostCallError {
    *result
        .unwrap_err()
        .downcast_ref::<HostCallError>()
        .expect("a host call error")
}

#[test]
fn what_was_not_granted_is_not_capable() {
    let mut guest = Guest::new(&[]);
    for name in [
        "clock_res_get",
        "clock_time_get",
        "poll_oneoff",
        "proc_raise",
        "sock_accept",
        "sock_recv",
        "sock_send",
        "sock_shutdown",
        "path_link",
        "path_symlink",
    ] {
        let (_, kinds) = FUNCTIONS.iter().find(|(known, _)| *known == name).unwrap();
        assert_eq!(
            guest.call(name, &vec![0; kinds.len()]),
            NOT_CAPABLE,
            "{name}"
        );
    }
    assert_eq!(guest.call("sched_yield", &[]), 0);
}

#[test]
fn arguments_and_environment_are_empty() {
    let mut guest = Guest::new(&[]);
    for (sizes, get) in [
        ("args_sizes_get", "args_get"),
        ("environ_sizes_get", "environ_get"),
    ] {
        guest.put(OUT, &[0xff; 8]);
        assert_eq!(guest.call(sizes, &[i64::from(OUT), i64::from(OUT + 4)]), 0);
        assert_eq!(guest.long(OUT), 0);
        assert_eq!(guest.call(get, &[i64::from(OUT), i64::from(OUT)]), 0);
    }
}

#[test]
fn a_guest_sees_the_variables_that_it_was_given() {
    let given = [("A", "1"), ("LANG", "")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    let mut guest = Guest::with_environment(&given);
    let sizes = [i64::from(OUT), i64::from(OUT + 4)];
    assert_eq!(guest.call("environ_sizes_get", &sizes), 0);
    assert_eq!(guest.long(OUT), 2 | (10 << 32));
    let places = [i64::from(LIST), i64::from(DATA)];
    assert_eq!(guest.call("environ_get", &places), 0);
    assert_eq!(guest.take(DATA, 10), b"A=1\0LANG=\0");
    assert_eq!(
        guest.long(LIST),
        u64::from(DATA) | (u64::from(DATA + 4) << 32)
    );
    // A list that does not fit is the guest's mistake.
    let outside = [i64::from(MEMORY - 2), i64::from(DATA)];
    assert_eq!(guest.call("environ_get", &outside), Errno::Fault as u32);
}

#[test]
fn variables_that_cannot_be_are_refused() {
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0")] {
        let given = [(name.to_owned(), value.to_owned())];
        assert!(
            WasiContext::new(&[], &given, |_, _| {}).is_err(),
            "{name:?}"
        );
    }
    let twice = [("A", "1"), ("A", "2")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    assert!(WasiContext::new(&[], &twice, |_, _| {}).is_err());
    let large = [("A".to_owned(), "x".repeat(65 << 10))];
    assert!(WasiContext::new(&[], &large, |_, _| {}).is_err());
}

#[test]
fn randomness_is_the_same_in_every_instance() {
    let draw = |guest: &mut Guest| {
        assert_eq!(guest.call("random_get", &[i64::from(DATA), 12]), 0);
        guest.take(DATA, 16)
    };
    let (mut one, mut other) = (Guest::new(&[]), Guest::new(&[]));
    let first = draw(&mut one);
    assert_eq!(first, draw(&mut other));
    assert_ne!(first, draw(&mut one));
    assert_eq!(first[12..], [0; 4]);
    let outside = [i64::from(MEMORY - 4), 8];
    assert_eq!(one.call("random_get", &outside), Errno::Fault as u32);
}

#[test]
fn without_grants_there_is_no_folder() {
    let mut guest = Guest::new(&[]);
    assert_eq!(
        guest.call("fd_prestat_get", &[3, i64::from(OUT)]),
        Errno::Badf as u32
    );
    assert_eq!(
        guest.open(3, b"etc/passwd", 0, FD_READ),
        Err(Errno::Badf as u32)
    );
    assert_eq!(
        guest.open(0, b"etc/passwd", 0, FD_READ),
        Err(Errno::Notdir as u32)
    );
}

#[test]
fn any_arguments_give_an_errno_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "text").unwrap();
    let mut guest = Guest::new(&[grant(folder.path(), "/data", true)]);
    let file = guest.open(ROOT, b"file", 0, u64::MAX).unwrap();
    let edges = [
        0,
        1,
        2,
        i64::from(ROOT),
        i64::from(file),
        i64::from(MEMORY) - 1,
        i64::from(MEMORY),
        -1,
        i64::MAX,
        i64::MIN,
    ];
    for (name, kinds) in FUNCTIONS.iter().filter(|(name, _)| *name != "proc_exit") {
        for round in 0..400_usize {
            let arguments: Vec<i64> = (0..kinds.len())
                .map(|at| edges[(round * 7 + at * (round / 10 + 1)) % edges.len()])
                .collect();
            let errno = guest.call(name, &arguments);
            assert!(errno <= NOT_CAPABLE, "{name}{arguments:?} gave {errno}");
        }
    }
}

#[test]
fn exit_is_an_error_whatever_the_code() {
    for code in [0, 1, -1] {
        let mut guest = Guest::new(&[]);
        let error = host_error(guest.try_call("proc_exit", &[code]));
        assert_eq!(error, HostCallError::Exit(code as i32));
        assert_eq!(error.to_string(), format!("the guest called exit({code})"));
    }
}

#[test]
fn a_call_after_the_deadline_traps() {
    let folder = tempfile::tempdir().unwrap();
    let mut guest = Guest::new(&[grant(folder.path(), "/data", false)]);
    guest.store.data_mut().set_deadline(Some(Instant::now()));
    for (name, kinds) in FUNCTIONS.iter().filter(|(name, _)| *name != "proc_exit") {
        let error = host_error(guest.try_call(name, &vec![0; kinds.len()]));
        assert_eq!(error, HostCallError::DeadlineExceeded, "{name}");
    }
    guest.store.data_mut().set_deadline(None);
    assert_eq!(guest.call("sched_yield", &[]), 0);
}

#[test]
fn the_deadline_ends_a_long_read() {
    let folder = tempfile::tempdir().unwrap();
    let hole = fs::File::create(folder.path().join("hole")).unwrap();
    hole.set_len(1 << 30).unwrap();
    let mut guest = Guest::new(&[grant(folder.path(), "/data", false)]);
    let fd = i64::from(guest.open(ROOT, b"hole", 0, FD_READ).unwrap());
    guest.list(&vec![(DATA, MEMORY - DATA); 1024]);
    let soon = Instant::now() + Duration::from_millis(2);
    guest.store.data_mut().set_deadline(Some(soon));
    let read = guest.try_call("fd_read", &[fd, i64::from(LIST), 1024, i64::from(OUT)]);
    assert_eq!(host_error(read), HostCallError::DeadlineExceeded);
}

#[test]
fn a_module_without_memory_traps_where_memory_is_needed() {
    let hidden = "(memory 4)";
    let table = "(table (export \"memory\") 1 funcref)";
    for memory in ["", hidden, table] {
        let mut guest = Guest::with_memory(&[], memory);
        assert_eq!(
            host_error(guest.try_call("fd_write", &[1, 0, 0, 0])),
            HostCallError::NoMemory
        );
        assert_eq!(guest.call("clock_res_get", &[0, 0]), NOT_CAPABLE);
    }
}

#[test]
fn standard_output_and_error_go_to_the_log() {
    let mut guest = Guest::new(&[]);
    assert_eq!(guest.write(1, b"out\n"), Ok(4));
    assert_eq!(guest.write(2, b"err"), Ok(3));
    assert_eq!(guest.write(1, b""), Ok(0));
    let log = guest.log.lock().unwrap().clone();
    assert_eq!(
        log,
        [
            (LogStream::Stdout, b"out\n".to_vec()),
            (LogStream::Stderr, b"err".to_vec())
        ]
    );
}

#[test]
fn one_call_logs_64_kib_at_most() {
    let mut guest = Guest::new(&[]);
    guest.list(&[(0, 40 << 10), (0, MEMORY), (0, MEMORY)]);
    assert_eq!(
        guest.call("fd_write", &[1, i64::from(LIST), 3, i64::from(OUT)]),
        0
    );
    assert_eq!(guest.number(OUT), 64 << 10);
    let logged: usize = guest
        .log
        .lock()
        .unwrap()
        .iter()
        .map(|(_, bytes)| bytes.len())
        .sum();
    assert_eq!(logged, 64 << 10);
}

#[test]
fn standard_input_is_at_its_end_and_streams_go_one_way() {
    let mut guest = Guest::new(&[]);
    assert_eq!(guest.read(0, 100), Ok(Vec::new()));
    assert_eq!(guest.write(0, b"x"), Err(NOT_CAPABLE));
    assert_eq!(guest.read(1, 100), Err(NOT_CAPABLE));
    assert_eq!(
        guest.call("fd_seek", &[1, 0, 1, i64::from(OUT)]),
        Errno::Spipe as u32
    );
    assert_eq!(guest.call("fd_fdstat_get", &[1, i64::from(OUT)]), 0);
    assert_eq!(guest.take(OUT, 1), [0], "a log is not a terminal");
}

#[test]
fn hostile_buffer_lists_are_refused_or_cut() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), vec![7; 1 << 20]).unwrap();
    let mut guest = Guest::new(&[grant(folder.path(), "/data", true)]);
    let fd = i64::from(guest.open(ROOT, b"file", 0, FD_READ | FD_WRITE).unwrap());
    let out = i64::from(OUT);

    // Lists that leave memory or are too long.
    for name in ["fd_read", "fd_write"] {
        assert_eq!(
            guest.call(name, &[fd, i64::from(MEMORY) - 4, 1, out]),
            FAULT
        );
        assert_eq!(guest.call(name, &[fd, -8, 1000, out]), FAULT);
        assert_eq!(
            guest.call(name, &[fd, i64::from(LIST), 1025, out]),
            Errno::Inval as u32
        );
        assert_eq!(
            guest.call(name, &[fd, i64::from(LIST), -1, out]),
            Errno::Inval as u32
        );
        guest.list(&[(DATA, 1)]);
        assert_eq!(
            guest.call(name, &[fd, i64::from(LIST), 1, -2]),
            FAULT,
            "result outside"
        );
    }
    // A buffer of 4 GiB takes what fits into memory, and the buffer after it gets nothing.
    guest.list(&[(DATA, u32::MAX), (DATA, 1)]);
    assert_eq!(guest.call("fd_pread", &[fd, i64::from(LIST), 2, 0, out]), 0);
    assert_eq!(guest.number(OUT), MEMORY - DATA);
    assert_eq!(guest.take(MEMORY - 4, 4), [7; 4]);
    // A buffer that begins outside.
    guest.list(&[(u32::MAX, 1)]);
    assert_eq!(guest.call("fd_read", &[fd, i64::from(LIST), 1, out]), FAULT);
    // Writing takes nothing from outside, and nothing before it either.
    guest.list(&[(DATA, 4), (DATA, u32::MAX)]);
    assert_eq!(
        guest.call("fd_write", &[fd, i64::from(LIST), 2, out]),
        FAULT
    );
    assert_eq!(
        fs::read(folder.path().join("file")).unwrap(),
        vec![7; 1 << 20]
    );
    // Reading over the list itself.
    guest.list(&[(LIST, 16), (DATA, 16)]);
    assert_eq!(guest.call("fd_pread", &[fd, i64::from(LIST), 2, 0, out]), 0);
    assert_eq!(
        guest.number(OUT),
        16,
        "the second entry now points far outside"
    );
    // The greatest offset.
    guest.list(&[(DATA, 4)]);
    assert_eq!(
        guest.call("fd_pread", &[fd, i64::from(LIST), 1, -1, out]),
        Errno::Inval as u32
    );
}

#[test]
fn a_guest_holds_64_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "text").unwrap();
    let mut guest = Guest::new(&[grant(folder.path(), "/data", false)]);
    for expected in 4..MAX_DESCRIPTORS as u32 {
        assert_eq!(guest.open(ROOT, b"file", 0, FD_READ), Ok(expected));
    }
    assert_eq!(
        guest.open(ROOT, b"file", 0, FD_READ),
        Err(Errno::Mfile as u32)
    );
    assert_eq!(guest.call("fd_close", &[10]), 0);
    assert_eq!(guest.open(ROOT, b"file", 0, FD_READ), Ok(10));
    assert_eq!(
        guest.open(ROOT, b"file", 0, FD_READ),
        Err(Errno::Mfile as u32)
    );
}

#[test]
fn descriptors_of_a_failed_call_are_closed_and_older_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "text").unwrap();
    let mut guest = Guest::new(&[grant(folder.path(), "/data", false)]);
    let from_init = guest.open(ROOT, b"file", 0, FD_READ).unwrap();
    guest.store.data_mut().begin_call();
    let leaked = guest.open(ROOT, b"file", 0, FD_READ).unwrap();
    let other = guest.open(ROOT, b"file", 0, FD_READ).unwrap();
    // Moved over an older one, it is still of this call.
    assert_eq!(
        guest.call("fd_renumber", &[i64::from(other), i64::from(leaked)]),
        0
    );
    guest.store.data_mut().abandon_call();

    assert_eq!(guest.read(leaked, 4), Err(Errno::Badf as u32));
    assert_eq!(guest.read(from_init, 4), Ok(b"text".to_vec()));
    assert_eq!(
        guest.open(ROOT, b"file", 0, FD_READ),
        Ok(leaked),
        "its number is free again"
    );
}

#[test]
fn streams_and_granted_folders_cannot_be_closed_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "text").unwrap();
    let mut guest = Guest::new(&[grant(folder.path(), "/data", false)]);
    let file = i64::from(guest.open(ROOT, b"file", 0, FD_READ).unwrap());
    for fixed in 0..4 {
        assert_eq!(guest.call("fd_close", &[fixed]), Errno::Notsup as u32);
        assert_eq!(
            guest.call("fd_renumber", &[file, fixed]),
            Errno::Notsup as u32
        );
        assert_eq!(
            guest.call("fd_renumber", &[fixed, file]),
            Errno::Notsup as u32
        );
        assert_eq!(
            guest.call("fd_fdstat_set_rights", &[fixed, 0, 0]),
            Errno::Notsup as u32
        );
    }
    assert_eq!(guest.call("fd_renumber", &[file, 20]), Errno::Badf as u32);
    assert_eq!(guest.call("fd_renumber", &[file, file]), 0);
    assert_eq!(guest.call("fd_close", &[file]), 0);
    assert_eq!(guest.call("fd_close", &[file]), Errno::Badf as u32);
}

#[test]
fn the_write_budget_ends_what_a_guest_can_put_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut guest = Guest::new(&[grant(folder.path(), "/data", true)]);
    guest.store.data_mut().budget = super::ENTRY_COST + 10;
    let fd = guest
        .open(
            ROOT,
            b"file",
            O_CREAT,
            FD_WRITE | super::rights::FD_FILESTAT_SET_SIZE,
        )
        .unwrap();
    assert_eq!(guest.write(fd, b"12345678"), Ok(8));
    assert_eq!(guest.write(fd, b"12345678"), Ok(2));
    assert_eq!(guest.write(fd, b"1"), Err(Errno::Dquot as u32));
    assert_eq!(
        guest.call("fd_filestat_set_size", &[i64::from(fd), 11]),
        Errno::Dquot as u32
    );
    assert_eq!(guest.call("fd_filestat_set_size", &[i64::from(fd), 3]), 0);
    assert_eq!(
        guest.open(ROOT, b"more", O_CREAT, FD_WRITE),
        Err(Errno::Dquot as u32)
    );
    assert_eq!(
        guest.on_path("path_create_directory", &[3], b"folder", &[]),
        Errno::Dquot as u32
    );
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"123");
}

#[test]
fn grants_that_cannot_be_given_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = |grants: &[super::Grant]| {
        WasiContext::new(grants, &[], |_, _| {})
            .unwrap_err()
            .to_string()
    };
    let message = error(&[grant(&missing, "/models", false)]);
    assert!(
        message.contains("missing") && message.contains("/models"),
        "{message}"
    );
    assert!(message.contains("create the folder"), "{message}");
    let twice = [
        grant(folder.path(), "/a", false),
        grant(folder.path(), "/a", true),
    ];
    assert!(error(&twice).contains("another granted folder has this name"));
    assert!(error(&[grant(folder.path(), "", false)]).contains("the name is empty"));
    assert!(error(&[grant(folder.path(), "a\0b", false)]).contains("NUL"));
    let many: Vec<_> = (0..=MAX_GRANTS)
        .map(|at| grant(folder.path(), &format!("/{at}"), false))
        .collect();
    let error = WasiContext::new(&many, &[], |_, _| {}).unwrap_err();
    assert!(matches!(error, GrantError::TooMany { count: 33 }));
}

#[test]
fn a_context_moves_between_threads() {
    fn sendable<T: Send>() {}
    sendable::<WasiContext>();
}
