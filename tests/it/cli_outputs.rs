//! What is left in folders: outputs, their permissions and links, dead letters.

#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::{Workplace, module};

fn math() -> String {
    module("math").to_str().expect("a path").to_owned()
}

#[test]
fn a_replaced_file_keeps_its_permissions_and_a_link_its_place() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "a,b\n12,8\n");
    let old = workplace.file("old.csv", "secret");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o600)).expect("a mode");
    symlink("there.csv", workplace.path("link.csv")).expect("a link");
    for output in ["old.csv", "link.csv"] {
        workplace
            .wasmill(["run", &math(), "gcd", "-q", "-i", "in.csv", "-o", output])
            .success();
    }
    let mode = fs::metadata(&old).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let written = fs::read_to_string(&old).expect("text");
    assert_eq!(written, "a,b,gcd\n12,8,4\n");
    let link = fs::read_link(workplace.path("link.csv")).expect("still a link");
    assert_eq!(link, std::path::Path::new("there.csv"));
    let there = fs::read_to_string(workplace.path("there.csv")).expect("text");
    assert_eq!(there, written);
}

#[test]
fn there_are_no_dead_letters_without_their_output() {
    let workplace = Workplace::new();
    let mut child = workplace
        .command([
            "run",
            &math(),
            "div",
            "-q",
            "--input-format",
            "csv",
            "--flush",
            "20ms",
            "-o",
            "out.csv",
            "--on-error",
            "dead-letter=failed.csv",
        ])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("wasmill runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"a,b\n6,3\n5,0\n").expect("written");
    // When both files are under way, something comes to stand in the place of the output.
    let begun = Instant::now();
    while workplace.files().len() < 2 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no file is under way"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::create_dir(workplace.path("out.csv")).expect("a folder");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot write out.csv"), "{said}");
    assert_eq!(workplace.files(), ["out.csv"]);
}

#[test]
fn a_file_that_may_not_grow_is_told_and_leaves_nothing() {
    let workplace = Workplace::new();
    let row = format!("{}\n", "x".repeat(10_000));
    workplace.file("in.csv", format!("text\n{}", row.repeat(1_000)));
    // The binary with the environment of the tests, under a limit of the shell.
    let plain = workplace.command(["run", &math(), "char_length", "-q", "-i", "in.csv"]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 8192; exec \"$@\"", "sh"])
        .arg(plain.get_program())
        .args(plain.get_args())
        .args(["-o", "out.csv"])
        .current_dir(plain.get_current_dir().expect("a folder"));
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    // In the shell's units of 512 or 1,024 bytes that is less than the output.
    let output = command.output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot write out.csv"), "{said}");
    assert_eq!(workplace.files(), ["in.csv"]);
}

#[test]
fn settings_that_are_no_file_are_refused() {
    let workplace = Workplace::new();
    let made = Command::new("mkfifo")
        .arg(workplace.path("wasmill.toml"))
        .status();
    assert!(made.expect("mkfifo").success());
    let said = workplace.wasmill(["config", "show"]).failure(2);
    assert!(
        said.contains("wasmill.toml: it is not a regular file"),
        "{said}"
    );
}
