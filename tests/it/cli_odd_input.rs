//! Inputs that are hard to read: deep, long, malformed, misleading.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::cli::{Ended, Workplace, module};

/// Runs `add` of the arguments `a` and 1.
fn add(workplace: &Workplace, arguments: &[&str]) -> Ended {
    let math = module("math");
    let mut all = vec![
        "run",
        math.to_str().expect("a path"),
        "add",
        "-q",
        "--arg",
        "b=lit:1",
        "--select",
        "add",
    ];
    all.extend(arguments);
    workplace.wasmill(all)
}

/// A Parquet file without rows, with the column `a`, and one in groups within each other.
pub fn nested_parquet(workplace: &Workplace, name: &str, groups: usize) {
    let number = |name: &str| {
        let column = Type::primitive_type_builder(name, Physical::INT64)
            .with_repetition(Repetition::OPTIONAL);
        Arc::new(column.build().expect("a column"))
    };
    let group = |name: &str, fields| {
        let group = Type::group_type_builder(name)
            .with_repetition(Repetition::OPTIONAL)
            .with_fields(fields);
        Arc::new(group.build().expect("a group"))
    };
    let deep = (0..groups).fold(number("x"), |inner, _| group("x", vec![inner]));
    let file = File::create(workplace.path(name)).expect("a file");
    let writer = SerializedFileWriter::new(
        file,
        group("schema", vec![number("a"), deep]),
        Arc::new(WriterProperties::builder().build()),
    );
    writer.expect("a writer").close().expect("written");
}

#[test]
fn deep_parquet_schemas_are_read_or_refused() {
    let workplace = Workplace::new();
    nested_parquet(&workplace, "deep.parquet", 120);
    let output = ["-i", "deep.parquet", "-o", "out.parquet", "--select", "x"];
    add(&workplace, &output).success();

    // Beyond that on a thread of its own: also the writer calls itself once a level.
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(64 << 20)
            .spawn_scoped(scope, || {
                nested_parquet(&workplace, "deeper.parquet", 3_000)
            })
            .expect("a thread");
    });
    let said = add(&workplace, &["-i", "deeper.parquet", "-o", "x.csv"]).failure(3);
    assert!(said.contains("deeper.parquet"), "{said}");
    assert!(said.contains("nest 3001 levels deep"), "{said}");
}

#[test]
fn long_conditions_are_planned_or_refused() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "a\n1\n2\n");
    let kept = |condition: &str| {
        let arguments = ["-i", "in.csv", "--where", condition];
        add(&workplace, &arguments).success().stdout()
    };
    let alternatives = |count: usize| {
        let all: Vec<String> = (2..count).map(|n| format!("a = {n}")).collect();
        all.join(" OR ")
    };
    assert_eq!(kept(&alternatives(300)), "add\n3\n");
    assert_eq!(
        kept(&format!("a > 1{}", "::bigint".repeat(900))),
        "add\n3\n"
    );
    let numbers: Vec<String> = (2..5_000).map(|n| n.to_string()).collect();
    assert_eq!(kept(&format!("a IN ({})", numbers.join(","))), "add\n3\n");

    for long in [
        alternatives(5_000),
        format!("a > 1{}", "::bigint".repeat(5_000)),
        format!("{}a > 1{}", "(".repeat(5_000), ")".repeat(5_000)),
        format!("a > {}1", "- ".repeat(900)),
    ] {
        let said = add(&workplace, &["-i", "in.csv", "--where", &long]).failure(2);
        assert!(said.contains("the condition --where"), "{said}");
        assert!(said.len() < 1_000, "{said}");
    }
}

#[test]
fn dates_that_do_not_exist_are_text_or_told_by_their_line() {
    let workplace = Workplace::new();
    workplace.file(
        "early.csv",
        "a,day,time\n1,2020-01-31,2020-01-31T10:00:00\n2,2020-02-30,2020-02-30T10:00:00\n",
    );
    let arguments = ["-i", "early.csv", "--select", "day,time"];
    assert_eq!(
        add(&workplace, &arguments).success().stdout(),
        "add,day,time\n2,2020-01-31,2020-01-31T10:00:00\n3,2020-02-30,2020-02-30T10:00:00\n"
    );

    let good = "1,2020-01-31,2020-01-31T10:00:00\n".repeat(10_000);
    for (name, row, column) in [
        (
            "day.csv",
            "1,2020-02-30,2020-01-31T10:00:00",
            "`day`: \"2020-02-30\"",
        ),
        (
            "time.csv",
            "1,2020-01-31,2020-02-30T10:00:00",
            "`time`: \"2020-02-30T10:00:00\"",
        ),
    ] {
        workplace.file(name, format!("a,day,time\n{good}{row}\n"));
        let arguments = ["-i", name, "-o", "out.csv", "--select", "day,time"];
        let said = add(&workplace, &arguments).failure(3);
        let place = format!("{name} cannot be decoded: line 10002, column {column}");
        assert!(said.contains(&place), "{said}");
    }
}

#[test]
fn json_is_read_strictly_to_its_end() {
    let workplace = Workplace::new();
    let rows = "{\"a\":1,\"x\":0.5},\n".repeat(10_000);
    for (name, content, told) in [
        (
            "comma.json",
            "[{\"a\":1}\n{\"a\":2}]".to_owned(),
            "line 2 column 1",
        ),
        ("rest.json", "[{\"a\":1}] x".to_owned(), "line 1 column 11"),
        (
            "open.json",
            "[{\"a\":1}".to_owned(),
            "ends before its array does",
        ),
        (
            "late.json",
            format!("[{rows}{{\"a\":1 \"x\":2}}]"),
            "line 10001 column 8",
        ),
        (
            "nan.json",
            format!("[{rows}{{\"a\":1,\"x\":\"NaN\"}}]"),
            "column `x`",
        ),
        (
            "large.json",
            format!("[{rows}{{\"a\":1,\"x\":1e400}}]"),
            "column `x`",
        ),
    ] {
        workplace.file(name, content);
        let arguments = ["-i", name, "-o", "out.jsonl"];
        let select = match name {
            "nan.json" | "large.json" => ["--select", "x"].as_slice(),
            _ => &[],
        };
        let said = add(&workplace, &[arguments.as_slice(), select].concat()).failure(3);
        assert!(said.contains(name) && said.contains(told), "{said}");
    }
    for (name, content) in [
        ("mark.json", "\u{feff}[{\"a\":1},\n{\"a\":2}]"),
        ("mark.jsonl", "\u{feff}{\"a\":1}\n{\"a\":2}\n"),
        ("mark.csv", "\u{feff}a\n1\n2\n"),
    ] {
        workplace.file(name, content);
        assert_eq!(
            add(&workplace, &["-i", name]).success().stdout(),
            "add\n2\n3\n"
        );
    }
}

#[test]
fn an_empty_input_is_told_as_such() {
    let workplace = Workplace::new();
    workplace.file("empty.csv", "");
    let said = add(&workplace, &["-i", "empty.csv"]).failure(3);
    assert!(
        said.contains("empty.csv cannot be used: it is empty"),
        "{said}"
    );
    for more in [[].as_slice(), &["--input-format", "jsonl"]] {
        let math = module("math");
        let output = workplace
            .command(["run", math.to_str().expect("a path"), "add"])
            .args(more)
            .stdin(Stdio::null())
            .output()
            .expect("wasmill runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("nothing came through it"), "{said}");
    }
}

#[test]
fn a_quote_within_a_field_holds_up_no_live_row() {
    let workplace = Workplace::new();
    let math = module("math");
    let arguments = [
        "run",
        math.to_str().expect("a path"),
        "char_length",
        "-q",
        "--format",
        "csv",
        "--input-format",
        "csv",
        "--flush",
        "20ms",
        "--select",
        "char_length",
    ];
    let mut child = workplace
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("wasmill runs");
    let mut input = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    input
        .write_all(b"n,text\n1,5\" disk\n2,x\n")
        .expect("written");
    // The pipe stays open.
    assert_eq!([next(), next(), next()], ["char_length", "7", "1"]);
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_limit_may_be_any_number() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "a\n1\n2\n");
    let most = u64::MAX.to_string();
    let arguments = ["-i", "in.csv", "--limit", &most];
    assert_eq!(
        add(&workplace, &arguments).success().stdout(),
        "add\n2\n3\n"
    );
}

#[test]
fn marks_of_direction_do_not_reach_the_terminal() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "a,text\n1,x\u{202e}y\n");
    let arguments = ["-i", "in.csv", "--select", "text", "--format", "table"];
    let shown = add(&workplace, &arguments).success().stdout();
    assert!(shown.contains("x\\u{202e}y"), "{shown}");
    // Data is what it is.
    let arguments = ["-i", "in.csv", "--select", "text", "--format", "jsonl"];
    let rows = add(&workplace, &arguments).success().stdout();
    assert!(rows.contains("x\u{202e}y"), "{rows}");
}
