//! Formats beside Arrow's own, pipes, folders and patterns.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;

use crate::cli::{Workplace, module};

/// Runs `gcd` with further arguments; gives what came out.
fn gcd(workplace: &Workplace, arguments: &[&str]) -> String {
    let math = module("math");
    let mut all = vec!["run", math.to_str().expect("a path"), "gcd", "-q"];
    all.extend(arguments);
    workplace.wasmill(all).success().stdout()
}

fn refused(workplace: &Workplace, arguments: &[&str], code: i32) -> String {
    let math = module("math");
    let mut all = vec!["run", math.to_str().expect("a path"), "gcd", "-q"];
    all.extend(arguments);
    workplace.wasmill(all).failure(code)
}

/// Runs `gcd` with something on the standard input.
fn piped(workplace: &Workplace, input: &[u8], arguments: &[&str]) -> (i32, String, String) {
    let math = module("math");
    let mut all = vec!["run", math.to_str().expect("a path"), "gcd", "-q"];
    all.extend(arguments);
    let mut child = workplace
        .command(all)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("wasmill runs");
    // It may end before it has read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

const NUMBERS: &str = "a,b\n12,8\n18,\n7,21\n";

#[test]
fn each_format_can_be_written_and_read_again() {
    let workplace = Workplace::new();
    workplace.file("in.csv", NUMBERS);
    for name in [
        "x.csv",
        "x.json",
        "x.jsonl",
        "x.parquet",
        "x.arrow",
        "x.arrows",
    ] {
        gcd(&workplace, &["-i", "in.csv", "-o", name]);
        let again = gcd(
            &workplace,
            &["-i", name, "--as", "again", "--select", "a,b,gcd,again"],
        );
        assert_eq!(
            again, "a,b,gcd,again\n12,8,4,4\n18,,,\n7,21,7,7\n",
            "{name}"
        );
    }
    assert_eq!(
        std::fs::read_to_string(workplace.path("x.jsonl")).expect("a file"),
        "{\"a\":12,\"b\":8,\"gcd\":4}\n{\"a\":18,\"b\":null,\"gcd\":null}\n{\"a\":7,\"b\":21,\"gcd\":7}\n"
    );
    let table = gcd(&workplace, &["-i", "in.csv", "--format", "table"]);
    insta::assert_snapshot!(table, @r"
    +----+----+-----+
    | a  | b  | gcd |
    +----+----+-----+
    | 12 | 8  | 4   |
    | 18 |    |     |
    | 7  | 21 | 7   |
    +----+----+-----+
    ");
}

#[test]
fn every_format_comes_through_a_pipe() {
    let workplace = Workplace::new();
    workplace.file("in.csv", NUMBERS);
    for name in [
        "x.csv",
        "x.json",
        "x.jsonl",
        "x.parquet",
        "x.arrow",
        "x.arrows",
    ] {
        gcd(
            &workplace,
            &["-i", "in.csv", "-o", name, "--select", "a,b", "--as", "g"],
        );
        let bytes = std::fs::read(workplace.path(name)).expect("a file");
        let mut arguments = vec!["-i", "-", "-o", "-"];
        if name == "x.csv" {
            arguments.extend(["--input-format", "csv"]);
        }
        let (code, out, said) = piped(&workplace, &bytes, &arguments);
        assert_eq!(
            (code, out.as_str()),
            (0, "a,b,gcd\n12,8,4\n18,,\n7,21,7\n"),
            "{name}: {said}"
        );
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let workplace = Workplace::new();
    let mut rows = String::from("a,b\n");
    (0..200_000).for_each(|i| rows.push_str(&format!("{i},{}\n", i * 2)));
    workplace.file("in.csv", rows);
    for format in ["csv", "jsonl", "json", "arrow-stream", "parquet"] {
        let math = module("math");
        let mut child = workplace
            .command([
                "run",
                math.to_str().expect("a path"),
                "gcd",
                "-i",
                "in.csv",
                "--format",
                format,
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("wasmill runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{format}: {said}");
        assert!(!said.contains("error"), "{format}: {said}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_named() {
    let workplace = Workplace::new();
    workplace.file("in.csv", NUMBERS);
    for format in [
        "csv",
        "jsonl",
        "json",
        "arrow-stream",
        "arrow",
        "parquet",
        "table",
    ] {
        let math = module("math");
        let output = workplace
            .command([
                "run",
                math.to_str().expect("a path"),
                "gcd",
                "-i",
                "in.csv",
                "--format",
                format,
            ])
            .stdout(
                File::options()
                    .write(true)
                    .open("/dev/full")
                    .expect("a device"),
            )
            .output()
            .expect("wasmill runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{format}: {said}");
        assert!(
            said.contains("cannot write the standard output") && said.contains("No space left"),
            "{format}: {said}"
        );
    }
}

#[test]
fn folders_and_patterns_are_read_by_name() {
    let workplace = Workplace::new();
    std::fs::create_dir(workplace.path("data")).expect("a folder");
    for (name, row) in [("b", "2,4"), ("a", "3,9"), ("c", "5,5")] {
        workplace.file(&format!("data/{name}.csv"), format!("a,b\n{row}\n"));
    }
    workplace.file("data/_notes.csv", "something else\n");
    workplace.file("data/README.md", "not data\n");
    let expected = "a,b,gcd\n3,9,3\n2,4,2\n5,5,5\n";
    assert_eq!(gcd(&workplace, &["-i", "data"]), expected);
    assert_eq!(gcd(&workplace, &["-i", "data/[a-c].csv"]), expected);
    assert_eq!(
        gcd(&workplace, &["-i", "data/c.csv", "-i", "data/[ab].csv"]),
        "a,b,gcd\n5,5,5\n3,9,3\n2,4,2\n"
    );
    let nothing = refused(&workplace, &["-i", "data/*.parquet"], 3);
    assert!(nothing.contains("no file matches"), "{nothing}");
}

#[test]
fn csv_types_are_those_that_hold_all_files() {
    let workplace = Workplace::new();
    workplace.file("empty.csv", "a,b\n");
    workplace.file("whole.csv", "a,b\n12,8\n");
    workplace.file("half.csv", "a,b\n1.5,2.5\n");
    assert_eq!(
        gcd(&workplace, &["-i", "empty.csv", "-i", "whole.csv"]),
        "a,b,gcd\n12,8,4\n"
    );
    let math = module("math");
    let sums = workplace
        .wasmill([
            "run",
            math.to_str().expect("a path"),
            "add",
            "-q",
            "-i",
            "whole.csv",
            "-i",
            "half.csv",
        ])
        .success()
        .stdout();
    assert_eq!(sums, "a,b,add\n12.0,8.0,20.0\n1.5,2.5,4.0\n");
    // A column without values is text, which no number can be taken from silently.
    let alone = refused(&workplace, &["-i", "empty.csv"], 2);
    assert!(alone.contains("a: Utf8"), "{alone}");
}

#[test]
fn csv_is_read_as_it_is_written() {
    let workplace = Workplace::new();
    workplace.file("na.csv", "a,b\n12,8\nNA,4\n9,-\n");
    assert_eq!(
        gcd(&workplace, &["-i", "na.csv", "--null", "NA", "--null", "-"]),
        "a,b,gcd\n12,8,4\n,4,\n9,,\n"
    );
    workplace.file("semi.csv", "a;b\n12;8\n");
    assert_eq!(
        gcd(&workplace, &["-i", "semi.csv", "--delimiter", ";"]),
        "a,b,gcd\n12,8,4\n"
    );
    workplace.file("tabs.tsv", "a\tb\n12\t8\n");
    assert_eq!(gcd(&workplace, &["-i", "tabs.tsv"]), "a,b,gcd\n12,8,4\n");
    workplace.file("bare.csv", "12,8\n7,21\n");
    let arguments = [
        "-i",
        "bare.csv",
        "--no-header",
        "--arg",
        "a=column_1",
        "--arg",
        "b=column_2",
    ];
    assert_eq!(
        gcd(&workplace, &arguments),
        "column_1,column_2,gcd\n12,8,4\n7,21,7\n"
    );
    for wrong in ["ab", "é", "\"", ""] {
        refused(&workplace, &["-i", "bare.csv", "--delimiter", wrong], 2);
    }
    let said = refused(&workplace, &["-i", "na.csv"], 2);
    assert!(said.contains("a: Utf8"), "{said}");
}

#[test]
fn what_is_wrong_with_a_text_file_is_told_with_its_place() {
    let workplace = Workplace::new();
    workplace.file("good.csv", "a,b\n1,2\n");
    let mut late = String::from("a,b\n");
    (0..10_000).for_each(|i| late.push_str(&format!("{i},1\n")));
    late.push_str("x,1\n");
    workplace.file("late.csv", late);
    workplace.file("twice.csv", "a,b,a\n1,2,3\n");
    workplace.file("ragged.csv", "a,b\n1,2\n3\n");
    workplace.file("torn.jsonl", "{\"a\":1,\"b\":2}\n{\"a\":\n");
    workplace.file("list.jsonl", "{\"a\":1,\"b\":2}\n[1]\n");
    workplace.file("open.json", "[{\"a\":1,\"b\":2}");
    workplace.file("\u{1b}[31m.csv", "\u{1b}[2J,b\n1,2\n");
    let all = [
        refused(
            &workplace,
            &["-i", "good.csv", "-i", "late.csv", "-o", "out.csv"],
            3,
        ),
        refused(&workplace, &["-i", "twice.csv"], 3),
        refused(&workplace, &["-i", "ragged.csv"], 3),
        refused(&workplace, &["-i", "torn.jsonl"], 3),
        refused(&workplace, &["-i", "list.jsonl"], 3),
        refused(&workplace, &["-i", "open.json"], 3),
        refused(&workplace, &["-i", "\u{1b}[31m.csv"], 2),
        refused(&workplace, &["-i", "-", "-i", "-"], 3),
    ];
    assert!(!all.join("").contains('\u{1b}'));
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: late.csv cannot be decoded: line 10002, column `a`: "x" is not Int64, the type of the column's first values; correct it, leave it empty for a null, or put its row among the first 10000, which decide the type

    error: twice.csv cannot be used: it has duplicate field names: two columns are called `a`; rename one of them

    error: ragged.csv cannot be decoded: Encountered unequal lengths between records on CSV file. Expected 2 records, found 1 records at line 3

    error: torn.jsonl cannot be decoded: row 1: EOF while parsing a value at line 3 column 0

    error: list.jsonl cannot be decoded: expected an object for each row at line 2 column 1

    error: open.json cannot be decoded: the file ends before its array does at line 1 column 14

    error: the parameter `a` of `gcd` has no argument, and the input no column of that name
    hint: give one with --arg a=COLUMN or --arg a=lit:VALUE; the columns are `\u{1b}[2J`, `b`

    error: - cannot be used: it can be read once only
    "#);
}

#[test]
fn rows_of_a_live_pipe_do_not_wait_for_a_full_batch() {
    use std::io::{BufRead, BufReader};

    let workplace = Workplace::new();
    let math = module("math");
    for (format, first, second, expected) in [
        (
            "csv",
            "a,b\n12,8\n\"18\",\"12\"\n",
            "7,21\n",
            ["a,b,gcd", "12,8,4", "18,12,6", "7,21,7"].as_slice(),
        ),
        (
            "jsonl",
            "{\"a\":12,\"b\":8}\n",
            "{\"a\":7,\n\"b\":21}\n",
            [
                "{\"a\":12,\"b\":8,\"gcd\":4}",
                "{\"a\":7,\"b\":21,\"gcd\":7}",
            ]
            .as_slice(),
        ),
    ] {
        let mut child = workplace
            .command([
                "run",
                math.to_str().expect("a path"),
                "gcd",
                "-q",
                "-i",
                "-",
                "--input-format",
                format,
                "--format",
                format,
                "--flush",
                "20ms",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("wasmill runs");
        let mut input = child.stdin.take().expect("a pipe");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (before, last) = expected.split_at(expected.len() - 1);
        input.write_all(first.as_bytes()).expect("written");
        // The pipe is open, and the rows come all the same.
        for line in before {
            assert_eq!(&lines.next().expect("a line").expect("text"), line);
        }
        input.write_all(second.as_bytes()).expect("written");
        assert_eq!(lines.next().expect("a line").expect("text"), last[0]);
        drop(input);
        assert!(child.wait().expect("it ends").success());
    }
}

#[test]
fn numbers_of_json_lose_nothing() {
    let workplace = Workplace::new();
    let mut lines = "{\"a\":1,\"b\":1}\n".repeat(10_000);
    lines.push_str("{\"a\":1.5,\"b\":1}\n");
    workplace.file("late.jsonl", &lines);
    let said = refused(&workplace, &["-i", "late.jsonl", "-o", "out.csv"], 3);
    assert!(
        said.contains("late.jsonl") && said.contains("`a`") && said.contains("1.5"),
        "{said}"
    );
    workplace.file(
        "large.jsonl",
        "{\"a\":9223372036854775807,\"b\":0,\"s\":{\"x\":[1,null]}}\n",
    );
    assert_eq!(
        gcd(&workplace, &["-i", "large.jsonl", "--format", "jsonl"]),
        "{\"a\":9223372036854775807,\"b\":0,\"s\":{\"x\":[1,null]},\"gcd\":9223372036854775807}\n"
    );
}

#[test]
fn a_run_that_fails_shows_no_table() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "a,b\n1,0\n");
    let math = module("math");
    let arguments = [
        "run",
        math.to_str().expect("a path"),
        "div",
        "-i",
        "in.csv",
        "--format",
        "table",
    ];
    let ended = workplace.wasmill(arguments);
    assert_eq!((ended.code(), ended.stdout().as_str()), (1, ""));
}
