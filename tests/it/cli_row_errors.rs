//! Rows that a UDF cannot compute, and the rows that are asked for.

use crate::cli::{Workplace, module};

fn run(workplace: &Workplace, arguments: &str) -> crate::cli::Ended {
    let math = module("math");
    let words = ["run", math.to_str().expect("a path"), "div", "-q"];
    workplace.wasmill(words.into_iter().chain(arguments.split_whitespace()))
}

/// 100 divided by 1, 0, 2, 5, 0.
fn divisors(workplace: &Workplace) {
    workplace.file(
        "in.csv",
        "a,b,name\n100,1,one\n100,0,zero\n100,2,two\n100,5,five\n100,0,nought\n",
    );
}

const SIZES: [&str; 5] = [
    "--batch-size 1",
    "--batch-size 2 --slots 2",
    "--batch-size 3",
    "--batch-size 8192",
    "--batch-size 1 --slots 3",
];

#[test]
fn failed_rows_become_null_when_asked_to() {
    let workplace = Workplace::new();
    divisors(&workplace);
    for size in SIZES {
        let out = run(
            &workplace,
            &format!("-i in.csv --on-error null --select div {size}"),
        )
        .success()
        .stdout();
        assert_eq!(out, "div\n100\n\"\"\n50\n20\n\"\"\n", "{size}");
    }
}

#[test]
fn by_default_the_lowest_failed_row_ends_the_run() {
    let workplace = Workplace::new();
    divisors(&workplace);
    for size in SIZES {
        let said = run(&workplace, &format!("-i in.csv -o out.csv {size}")).failure(1);
        assert_eq!(
            said,
            "error: `div` of math (pool div, row 1): the row failed: division by zero (code 1)\n\
             hint: --on-error null goes on with a null, --on-error dead-letter=FILE sets such rows aside as well\n",
            "{size}"
        );
    }
    assert_eq!(workplace.files(), ["in.csv"]);
}

#[test]
fn dead_letters_hold_what_failed_and_why() {
    let workplace = Workplace::new();
    divisors(&workplace);
    for size in SIZES {
        let out = run(
            &workplace,
            &format!(
                "-i in.csv --on-error dead-letter=failed.csv --dead-letter-columns name --select div {size}"
            ),
        )
        .success()
        .stdout();
        assert_eq!(out, "div\n100\n\"\"\n50\n20\n\"\"\n", "{size}");
        let letters = std::fs::read_to_string(workplace.path("failed.csv")).expect("letters");
        assert_eq!(
            letters,
            "error_row,error_code,error_message,a,b,name\n\
             1,1,division by zero,100,0,zero\n\
             4,1,division by zero,100,0,nought\n",
            "{size}"
        );
    }
    // Constants are arguments too, and a file without letters is still a file.
    run(
        &workplace,
        "-i in.csv -o out.csv --arg a=lit:7 --arg b=lit:0 --limit 1 --on-error dead-letter=one.jsonl",
    )
    .success();
    assert_eq!(
        std::fs::read_to_string(workplace.path("one.jsonl")).expect("letters"),
        "{\"error_row\":0,\"error_code\":1,\"error_message\":\"division by zero\",\"a\":7,\"b\":0}\n"
    );
    run(
        &workplace,
        "-i in.csv -o out.csv --limit 1 --on-error dead-letter=none.csv",
    )
    .success();
    assert_eq!(
        std::fs::read_to_string(workplace.path("none.csv")).expect("letters"),
        "error_row,error_code,error_message,a,b\n"
    );
}

#[test]
fn the_number_of_failures_can_be_limited() {
    let workplace = Workplace::new();
    divisors(&workplace);
    for size in SIZES {
        for (limit, code) in [("2", 0), ("40%", 0), ("1", 1), ("0", 1), ("39.99%", 1)] {
            let ended = run(
                &workplace,
                &format!(
                    "-i in.csv -o out.csv --on-error dead-letter=f.csv --max-errors {limit} {size}"
                ),
            );
            assert_eq!(ended.code(), code, "{limit} {size}: {}", ended.stderr());
            let there = workplace.files();
            assert_eq!(there.len(), if code == 0 { 3 } else { 1 }, "{there:?}");
            if limit == "1" {
                assert_eq!(
                    ended.stderr(),
                    "error: `div` of math (pool div, row 4): 2 rows failed, and at most 1 may; this one: division by zero\n"
                );
            }
            let _ = std::fs::remove_file(workplace.path("out.csv"));
            let _ = std::fs::remove_file(workplace.path("f.csv"));
        }
    }
}

#[test]
fn failed_rows_are_counted() {
    let workplace = Workplace::new();
    divisors(&workplace);
    let out = run(
        &workplace,
        "-i in.csv -o out.csv --on-error null --metrics json",
    )
    .success()
    .stdout();
    let metrics: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(metrics["pools"][0]["failed_rows"], 2);
}

#[test]
fn a_trap_is_no_row_error() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "x\n1\n3\n");
    let probe = module("probe");
    let words = [
        "run",
        probe.to_str().expect("a path"),
        "boom",
        "-i",
        "in.csv",
        "-o",
        "out.csv",
        "--on-error",
        "null",
    ];
    workplace.wasmill(words).failure(6);
}

#[test]
fn conditions_and_limits_come_before_the_udf() {
    let workplace = Workplace::new();
    divisors(&workplace);
    let math = module("math");
    let div = |arguments: &[&str]| {
        let words = [
            "run",
            math.to_str().expect("a path"),
            "div",
            "-q",
            "-i",
            "in.csv",
        ];
        workplace.wasmill(words.iter().chain(arguments))
    };
    let out = div(&[
        "--where",
        "b <> 0 AND name LIKE '%o%'",
        "--select",
        "name,div",
    ]);
    assert_eq!(out.success().stdout(), "name,div\none,100\ntwo,50\n");
    let out = div(&["--where", "b > 0", "--limit", "2", "--select", "div"]);
    assert_eq!(out.success().stdout(), "div\n100\n50\n");
    let said = [
        div(&["--where", "c > 0"]).failure(2),
        div(&["--where", "b >"]).failure(2),
        div(&["--where", "b + 1"]).failure(2),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    error: the input has no column `c`
    hint: the columns are `a`, `b`, `name`

    error: the condition --where "b >" cannot be used: Expected: an expression, found: EOF
    hint: write it as in SQL, over the columns of the input: "delay > 0 AND origin = 'JFK'"; names with capital letters stand in double quotes

    error: the condition --where "b + 1" cannot be used: it is Int64, and Boolean is expected
    hint: write it as in SQL, over the columns of the input: "delay > 0 AND origin = 'JFK'"; names with capital letters stand in double quotes
    "#);
}

#[test]
fn c22_a_limit_is_never_turned_into_nulls() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "x\n1\n2\n");
    for policy in ["null", "dead-letter=failed.csv"] {
        let arguments = format!("-i in.csv -o out.csv --timeout 100ms --on-error {policy} -q");
        let error = crate::cli_run::run(&workplace, "probe", "spin", &arguments).failure(5);
        assert!(error.contains("took longer than 100ms"), "{error}");
        assert_eq!(workplace.files(), ["in.csv"]);
    }
}
