//! What the command line says when something is wrong, and how it ends.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray};
use arrow::datatypes::Int64Type;

use crate::cli::{Form, Workplace, batch, module, write_arrow};

/// Runs with arguments separated by blanks; `$math` and the like stand for modules.
fn said(workplace: &Workplace, line: &str, code: i32) -> String {
    let arguments: Vec<std::ffi::OsString> = line
        .split_whitespace()
        .map(|word| {
            word.strip_prefix('$')
                .map_or_else(|| word.into(), |name| module(name).into_os_string())
        })
        .collect();
    workplace.wasmill(arguments).failure(code)
}

fn numbers(workplace: &Workplace) {
    workplace.file("in.csv", "a,b,name\n12,8,x\n18,0,y\n7,0,z\n");
}

#[test]
fn names_that_do_not_exist_are_answered_with_names_that_do() {
    let workplace = Workplace::new();
    numbers(&workplace);
    let all = [
        said(&workplace, "run $math gdc -i in.csv -o out.csv", 2),
        said(
            &workplace,
            "run $math gcd -i in.csv -o out.csv --arg c=a",
            2,
        ),
        said(
            &workplace,
            "run $math gcd -i in.csv -o out.csv --arg a=nam",
            2,
        ),
        said(&workplace, "run $math upper -i in.csv -o out.csv", 2),
        said(
            &workplace,
            "run $math gcd -i in.csv -o out.csv --select a,gdc",
            2,
        ),
        said(
            &workplace,
            "run $math gcd -i in.csv -o out.csv --arg a=a --arg a=b",
            2,
        ),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: math has no UDF `gdc`; did you mean `gcd`?

    error: `gcd` has no parameter `c`
    hint: the parameters are `a`, `b`

    error: the input has no column `nam`
    hint: did you mean `name`? The columns are `a`, `b`, `name`

    error: the parameter `text` of `upper` has no argument, and the input no column of that name
    hint: give one with --arg text=COLUMN or --arg text=lit:VALUE; the columns are `a`, `b`, `name`

    error: the input has no column `gdc`
    hint: the columns are `a`, `b`, `name`, and `gcd` for the result

    error: the parameter `a` is given twice
    "#);
    assert_eq!(workplace.files(), ["in.csv"]);
}

#[test]
fn types_that_do_not_fit_are_named() {
    let workplace = Workplace::new();
    numbers(&workplace);
    let all = [
        said(
            &workplace,
            "run $math gcd -i in.csv -o out.csv --arg a=name",
            2,
        ),
        said(
            &workplace,
            "run $math gcd -i in.csv -o out.csv --arg a=lit:1.5",
            2,
        ),
        said(
            &workplace,
            "run $math gcd -i in.csv -o out.csv --arg a=a::Float64",
            2,
        ),
        said(
            &workplace,
            "run $math gcd -i in.csv -o out.csv --arg a=a::Number",
            2,
        ),
        said(
            &workplace,
            "run $identity identity -i in.csv -o out.csv --arg x=lit:name",
            2,
        ),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: `gcd` of math cannot take (a: Utf8, b: Int64): it takes gcd(Int32, Int32) or gcd(Int64, Int64); cast the arguments to one of these
    hint: a column of a CSV file is text when one of its values is not a number; name what stands for nothing with --null, as in --null NA; or --arg a=name::Int64 converts the column `name`

    error: `gcd` of math cannot take (a: literal "1.5", b: Int64): it takes gcd(Int32, Int32) or gcd(Int64, Int64); 1.5 is not a whole number, as Int32 or Int64 is

    error: `gcd` of math cannot take (a: Float64, b: Int64): it takes gcd(Int32, Int32) or gcd(Int64, Int64); cast the arguments to one of these
    hint: --arg a=a::Int64 converts the column `a`

    error: "Number" is not an Arrow type
    hint: write it as messages do: Int64, Float64, Utf8, Boolean, Date32, Timestamp(ms), Decimal128(10, 2)

    error: the constant "name" for `x` is not an SQL literal: it cannot be read as one
    hint: the parameter takes any type, so write the literal as in SQL: 3, 1.5, true, 'text', null, DATE '2020-01-01'
    "#);
}

#[test]
fn rows_that_cannot_be_converted_or_compared_are_told() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "a,b,name\n12,8,4\n18,0,y\n7,0,9\n");
    let run = |rest: &[&str]| {
        let mut arguments = vec!["run".into(), module("math").into_os_string(), "gcd".into()];
        arguments.extend(["-i", "in.csv", "-q"].iter().chain(rest).map(Into::into));
        workplace.wasmill(arguments)
    };
    let mut all = Vec::new();
    for rest in [
        [
            "--batch-size",
            "1",
            "-o",
            "out.csv",
            "--arg",
            "a=name::Int64",
        ]
        .as_slice(),
        &["-o", "out.csv", "--where", "CAST(name AS INT) > 1"],
        &["-o", "out.csv", "--where", "a / b > 1"],
    ] {
        all.push(run(rest).failure(1));
    }
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: row 1: "y" of the column `name` cannot be converted to Int64
    hint: leave such rows out with --where "arrow_try_cast(name, 'Int64') IS NOT NULL"

    error: the condition --where "CAST(name AS INT) > 1" cannot be computed for a row: Cannot cast string 'y' to value of Int32 type
    hint: TRY_CAST instead of CAST gives a null where a value cannot be converted

    error: the condition --where "a / b > 1" cannot be computed for a row: division by zero
    hint: divide by NULLIF(x, 0), which gives a null there
    "#);
    assert_eq!(workplace.files(), ["in.csv"]);
    // The hint, taken at its word.
    let ended = run(&[
        "--arg",
        "a=name::Int64",
        "--where",
        "arrow_try_cast(name, 'Int64') IS NOT NULL",
        "--select",
        "name,gcd",
    ])
    .success();
    assert_eq!(ended.stdout(), "name,gcd\n4,4\n9,9\n");
}

#[test]
fn a_column_of_the_whole_name_comes_before_a_conversion() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "a,a::Int32,b\n12,9,6\n");
    for (argument, gcd) in [
        ("a=a::Int32", 3),
        ("a=a::Int32::Int64", 3),
        ("a=a::Int64", 6),
    ] {
        let line = format!("run $math gcd -i in.csv --select gcd --arg {argument}");
        let arguments = line.split_whitespace().map(|word| match word {
            "$math" => module("math").into_os_string(),
            word => word.into(),
        });
        let ended = workplace.wasmill(arguments.collect::<Vec<_>>()).success();
        assert_eq!(ended.stdout(), format!("gcd\n{gcd}\n"), "{argument}");
    }
}

#[test]
fn options_without_effect_are_refused() {
    let workplace = Workplace::new();
    workplace.file("in.jsonl", "{\"a\": 12, \"b\": 8}\n");
    let all: Vec<String> = [
        "--null NA",
        "--delimiter ;",
        "--no-header",
        "--compression gzip",
        "--grant .::/data",
        "--env A=1",
        "--input-format table",
    ]
    .into_iter()
    .map(|option| {
        let line = format!("run $math gcd -i in.jsonl -o out.arrow {option}");
        said(&workplace, &line, 2)
    })
    .collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: --null is for CSV, and the input is jsonl
    hint: leave it out, or name the format with --input-format csv

    error: --delimiter is for CSV, and the input is jsonl
    hint: leave it out, or name the format with --input-format csv

    error: --no-header is for CSV, and the input is jsonl
    hint: leave it out, or name the format with --input-format csv

    error: --compression is for Parquet, and the output is arrow
    hint: leave it out, or name the format with --format parquet

    error: --grant is for modules that use WASI, and math imports nothing of it
    hint: leave it out, or build the module for wasm32-wasip1

    error: --env is for modules that use WASI, and math imports nothing of it
    hint: leave it out, or build the module for wasm32-wasip1

    error: invalid value 'table' for '--input-format <FORMAT>'
      [possible values: parquet, csv, jsonl, json, arrow, arrow-stream]

    For more information, try '--help'.
    "#);
    // A setting is for many runs, and holds where it can.
    workplace.file("wasmill.toml", "compression = \"gzip\"\n");
    workplace
        .wasmill([
            "run".into(),
            module("math").into_os_string(),
            "gcd".into(),
            "-i".into(),
            "in.jsonl".into(),
        ])
        .success();
}

#[test]
fn other_delimiters_are_noticed() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "a;b\n12;8\n");
    workplace.file("tabs.txt", "a\tb\n12\t8\n");
    let all = [
        said(&workplace, "run $math gcd -i in.csv -o out.csv", 2),
        said(
            &workplace,
            "run $math gcd -i tabs.txt --input-format csv -o out.csv",
            2,
        ),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: the parameter `a` of `gcd` has no argument, and the input no column of that name
    hint: the input has one column, "a;b"; --delimiter ';' reads it as several

    error: the parameter `a` of `gcd` has no argument, and the input no column of that name
    hint: the input has one column, "a\tb"; --delimiter '\t' reads it as several
    "#);
    let arguments = |rest: &[&str]| {
        let mut all = vec!["run".into(), module("math").into_os_string(), "gcd".into()];
        all.extend(["-i", "in.csv"].iter().chain(rest).map(Into::into));
        all
    };
    let ended = workplace
        .wasmill(arguments(&["--arg", "a=lit:4", "--arg", "b=lit:6"]))
        .success();
    assert!(
        ended
            .stderr()
            .contains("note: the input has one column, \"a;b\"")
    );
    let ended = workplace
        .wasmill(arguments(&["--delimiter", ";"]))
        .success();
    assert_eq!(ended.stdout(), "a,b,gcd\n12,8,4\n");
}

#[test]
fn options_with_nonsense_are_refused() {
    let workplace = Workplace::new();
    numbers(&workplace);
    for wrong in [
        "--slots 0",
        "--slots -1",
        "--threads 0",
        "--threads 1025",
        "--batch-size 0",
        "--batch-size -5",
        "--memory 256",
        "--timeout 10",
        "--timeout 0s",
        "--arg x",
        "--init {",
        "--format xml",
        "--unknown",
    ] {
        said(
            &workplace,
            &format!("run $math gcd -i in.csv -o out.csv {wrong}"),
            2,
        );
    }
    said(&workplace, "run $math gcd -i in.csv -o out.unknown", 2);
    said(&workplace, "run $math", 2);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let workplace = Workplace::new();
    numbers(&workplace);
    workplace.file("other.csv", "a,c,name\n1,2,x\n");
    workplace.file("broken.parquet", "PAR1 but nothing more");
    workplace.file("broken.arrow", "ARROW1 but nothing more of it");
    workplace.file("unknown.xyz", "?");
    let all = [
        said(&workplace, "run $math gcd -i missing.csv -o out.csv", 3),
        said(&workplace, "run missing.wasm gcd -i in.csv -o out.csv", 3),
        said(
            &workplace,
            "run $math gcd -i in.csv -i other.csv -o out.csv",
            3,
        ),
        said(&workplace, "run $math gcd -i broken.arrow -o out.csv", 3),
        said(&workplace, "run $math gcd -i unknown.xyz -o out.csv", 3),
        said(&workplace, "run $math gcd -i . -o out.csv", 3),
        said(&workplace, "run $math gcd -i in.csv -o missing/out.csv", 3),
        said(&workplace, "run $math gcd -i in.csv -o . --format csv", 3),
        said(
            &workplace,
            "run $math gcd -i in.csv -o out.csv --init @missing.json",
            3,
        ),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: cannot read missing.csv: No such file or directory (os error 2)

    error: cannot read the module missing.wasm: No such file or directory (os error 2)

    error: other.csv cannot be used: its columns differ from those of in.csv: column 1 is `c` where `b` is expected

    error: broken.arrow cannot be decoded: it does not end with a footer; it may be cut short, or be an Arrow stream

    error: unknown.xyz cannot be used: its format is not known from its name or first bytes; name it with --input-format

    error: ./broken.parquet cannot be used: it is parquet, and ./broken.arrow is arrow; give files of one format

    error: cannot write missing/out.csv: No such file or directory (os error 2)

    error: cannot write .: it is a folder; name a file in it

    error: cannot read the init arguments missing.json: No such file or directory (os error 2)
    "#);
    let parquet = said(&workplace, "run $math gcd -i broken.parquet -o out.csv", 3);
    assert!(parquet.contains("broken.parquet"), "{parquet}");
}

#[test]
fn a_format_that_has_no_place_for_a_type_names_the_column() {
    let workplace = Workplace::new();
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([
        Some(1),
        None,
    ])]));
    write_arrow(
        &workplace.path("in.arrow"),
        Form::File,
        &[batch(vec![("lists", lists)])],
    );
    let text = said(
        &workplace,
        "run $identity identity -i in.arrow -o out.csv --arg x=lists",
        3,
    );
    assert!(text.contains("`lists`") && text.contains("List"), "{text}");
    assert_eq!(workplace.files(), ["in.arrow"]);
}

#[test]
fn a_failed_row_is_numbered_in_the_input() {
    let workplace = Workplace::new();
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let b: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..100).map(|i| i64::from(i != 41 && i != 77)),
    ));
    write_arrow(
        &workplace.path("in.arrow"),
        Form::File,
        &[batch(vec![("a", a), ("b", b)])],
    );
    // The lowest row is named, whatever the slots and batches.
    for options in [
        "",
        "--batch-size 1 --slots 2",
        "--batch-size 7 --slots 2",
        "--batch-size 50",
    ] {
        let text = said(
            &workplace,
            &format!("run $math div -i in.arrow -o out.csv {options}"),
            1,
        );
        assert!(
            text.contains("row 41)") && text.contains("division by zero"),
            "{text}"
        );
    }
    assert_eq!(workplace.files(), ["in.arrow"]);
}

#[test]
fn refused_init_arguments_stop_the_run_before_it_starts() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "text\nhello\n");
    workplace.file("wrong.json", r#"{"vocab": []}"#);
    workplace.file("useless.json", r#"{"vocabulary": ["hello"]}"#);
    said(
        &workplace,
        "run $tokenize encode -i in.csv -o out.parquet --init @wrong.json",
        2,
    );
    let text = said(
        &workplace,
        "run $tokenize encode -i in.csv -o out.parquet --init @useless.json",
        1,
    );
    assert!(text.contains("init failed"), "{text}");
    said(
        &workplace,
        "run $math upper -i in.csv -o out.parquet --init {\"k\":1}",
        2,
    );
}

/// A guest whose function does as its body says.
fn guest(workplace: &Workplace, body: &str) {
    let text = format!(
        r#"(module
  (memory (export "memory") 1)
  (func (export "wasmill_alloc") (param i32 i32) (result i32) (i32.const 1024))
  (func (export "wasmill_free") (param i32 i32 i32))
  (func (export "f") (param $frame i32) (result i32) {body})
  (@custom "wasmill.manifest" "{{\"abi\":1,\"kind\":\"scalar\",\"name\":\"f\",\"symbol\":\"f\",\"args\":[{{\"name\":\"a\",\"format\":\"l\"}}],\"result\":{{\"format\":\"l\"}},\"volatility\":\"immutable\",\"nulls\":\"handle\"}}\n"))"#
    );
    workplace.file("guest.wasm", wat::parse_str(text).expect("a module"));
}

#[test]
fn traps_and_limits_have_codes_of_their_own() {
    let workplace = Workplace::new();
    numbers(&workplace);
    guest(&workplace, "(unreachable)");
    let trapped = said(&workplace, "run guest.wasm f -i in.csv -o out.csv", 6);
    assert!(trapped.contains("trapped"), "{trapped}");
    guest(&workplace, "(loop $forever (br $forever)) (i32.const 0)");
    let late = said(
        &workplace,
        "run guest.wasm f -i in.csv -o out.csv --timeout 50ms",
        5,
    );
    assert!(late.contains("--timeout"), "{late}");
    workplace.file("text.wasm", "(module)");
    said(&workplace, "run text.wasm f -i in.csv -o out.csv", 4);
    assert_eq!(workplace.files(), ["guest.wasm", "in.csv", "text.wasm"]);
}

#[test]
fn a_value_beyond_the_sample_that_does_not_fit_its_column_is_an_input_error() {
    let workplace = Workplace::new();
    let mut text = String::from("a,b\n");
    (0..20_000).for_each(|i| text.push_str(&format!("{i},1\n")));
    text.push_str("many,1\n");
    workplace.file("in.csv", text);
    said(&workplace, "run $math gcd -i in.csv -o out.csv", 3);
    assert_eq!(workplace.files(), ["in.csv"]);
}

#[test]
fn a_parquet_file_that_contradicts_itself_is_named() {
    let workplace = Workplace::new();
    // Its footer claims to be longer than the file.
    let mut bytes = b"PAR1".to_vec();
    bytes.extend([0; 60]);
    bytes.extend(65_u32.to_le_bytes());
    bytes.extend(b"PAR1");
    workplace.file("p.parquet", bytes);
    let text = said(&workplace, "run $math gcd -i p.parquet -o out.csv", 3);
    assert!(text.contains("p.parquet cannot be decoded"), "{text}");
}

#[test]
fn names_with_line_ends_cannot_forge_messages() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "\"x\nerror: forged\",b\n1,2\n");
    let text = said(&workplace, "run $math gcd -i in.csv -o out.csv", 2);
    assert_eq!(
        text.lines().filter(|l| l.starts_with("error:")).count(),
        1,
        "{text}"
    );
}

#[cfg(not(feature = "object-store"))]
#[test]
fn a_build_without_object_stores_says_so() {
    let workplace = Workplace::new();
    numbers(&workplace);
    let all = [
        said(&workplace, "run $math gcd -i s3://bucket/in.csv", 2),
        said(
            &workplace,
            "run $math gcd -i in.csv -o https://example.org/x.csv?sig=s",
            2,
        ),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    error: cannot read s3://bucket/in.csv: this build has no object stores; build with --features object-store

    error: cannot write https://example.org/x.csv: this build has no object stores; build with --features object-store
    "#);
}
