//! `wasmill check`: what is sound passes, and what is broken is named.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::{Ended, Workplace, module};

fn check(workplace: &Workplace, module: &Path, rest: &[&str]) -> Ended {
    let mut arguments = vec!["check".as_ref(), module.as_os_str()];
    arguments.extend(rest.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    workplace.wasmill(arguments)
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout()).unwrap_or_else(|e| panic!("{e}: {}", ended.stderr()))
}

/// A guest by hand that gives its argument back, after `body` has done what is wrong. The locals `rows`,
/// `array`, `values` and `result` are there for it.
fn guest(record: &str, body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
  (memory (export "memory") 2)
  (global $next (mut i32) (i32.const 65536))
  (global $calls (mut i32) (i32.const 0))
  (func (export "wasmill_alloc") (param $size i32) (param $align i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 63)) (i32.const -64)))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (block $fits (loop $grow
      (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
      (drop (memory.grow (i32.const 1)))
      (br $grow)))
    (local.get $at))
  (func (export "wasmill_free") (param i32 i32 i32))
  (func (export "fine_init") (param $frame i32) (result i32) (i32.const 0))
  (func (export "trapping_init") (param $frame i32) (result i32) (unreachable))
  (func (export "refusing_init") (param $frame i32) (result i32) (i32.const 2))
  (func (export "trapping_close") (param $state i32) (unreachable))
  (func (export "f") (param $frame i32) (result i32)
    (local $rows i32) (local $array i32) (local $values i32) (local $result i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (local.set $rows (i32.wrap_i64 (i64.load offset=16 (local.get $frame))))
    (local.set $array (i32.load (i32.load offset=28 (local.get $frame))))
    (local.set $values (i32.load offset=4 (i32.load offset=40 (local.get $array))))
    (local.set $result (i32.load offset=32 (local.get $frame)))
    (memory.copy (local.get $result) (local.get $array) (i32.const 64))
    {body}
    (i32.const 0))
  (@custom "wasmill.manifest" "{}\n"))"#,
        record.replace('"', "\\\"")
    );
    wat::parse_str(text).expect("a module")
}

/// A record for `f(x) -> x`, of a type, with further members.
fn record(format: &str, nulls: &str, more: &str) -> String {
    format!(
        r#"{{"abi":1,"kind":"scalar","name":"f","symbol":"f","args":[{{"name":"x","format":"{format}"}}],"result":{{"format":"{format}"}},"volatility":"immutable","nulls":"{nulls}"{more}}}"#
    )
}

fn state(kind: &str, init: &str, more: &str) -> String {
    format!(r#","state":{{"name":"S","kind":"{kind}","init":"{init}"{more}}}"#)
}

/// Adds a number to the first value.
fn add_to_first(number: &str) -> String {
    format!(
        "(i64.store (local.get $values) (i64.add (i64.load (local.get $values)) (i64.extend_i32_u {number})))"
    )
}

#[test]
fn sound_modules_pass_and_states_without_arguments_are_skipped() {
    let workplace = Workplace::new();
    for name in ["math", "identity"] {
        let ended = check(&workplace, &module(name), &[]).success();
        assert!(
            ended.stdout().contains(" 0 FAILED, 0 skipped"),
            "{}",
            ended.stdout()
        );
    }
    let ended = check(&workplace, &module("tokenize"), &["encode"]).success();
    assert!(
        ended.stdout().contains(r#"--init '{"vocabulary": […]}'"#),
        "{}",
        ended.stdout()
    );
    let arguments = [
        "encode",
        "decode",
        "--init",
        r#"{"vocabulary": ["[UNK]", "a"]}"#,
    ];
    let ended = check(&workplace, &module("tokenize"), &arguments).success();
    assert!(
        ended.stdout().ends_with("4 ok, 0 FAILED, 0 skipped\n"),
        "{}",
        ended.stdout()
    );
}

#[test]
fn json_is_for_programs() {
    let workplace = Workplace::new();
    let ended = check(&workplace, &module("math"), &["div", "gcd", "--json"]).success();
    let json = json(&ended);
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["summary"]["ok"], 3);
    let functions = json["functions"].as_array().expect("functions");
    let div = functions.iter().find(|f| f["name"] == "div").expect("div");
    assert_eq!(
        (&div["verdict"], &div["signature"]),
        (&"ok".into(), &"Int64, Int64".into())
    );
    assert!(div["row_errors"].as_u64() > Some(0), "{div}");
}

#[test]
fn refused_modules_and_unknown_names_have_their_exit_codes() {
    let workplace = Workplace::new();
    let fine = record("l", "handle", "");
    let without = |part: &str| {
        wat::parse_str(format!(
            r#"(module {} (memory (export "memory") 1)
              {}
              (func (export "wasmill_free") (param i32 i32 i32))
              (func (export "{}") (param i32) (result i32) (i32.const 0))
              {})"#,
            if part == "import" {
                r#"(import "env" "now" (func (result i64)))"#
            } else {
                ""
            },
            if part == "alloc" {
                ""
            } else {
                r#"(func (export "wasmill_alloc") (param i32 i32) (result i32) (i32.const 0))"#
            },
            if part == "export" { "g" } else { "f" },
            if part == "manifest" {
                String::new()
            } else {
                format!(
                    r#"(@custom "wasmill.manifest" "{}\n")"#,
                    fine.replace('"', "\\\"")
                )
            },
        ))
        .expect("a module")
    };
    for (bytes, named) in [
        (b"not a module".to_vec(), "not a module that can be loaded"),
        (without("manifest"), "manifest"),
        (without("export"), "`f`"),
        (without("alloc"), "wasmill_alloc"),
        (without("import"), "env.now"),
    ] {
        let file = workplace.file("refused.wasm", bytes);
        let said = check(&workplace, &file, &[]).failure(4);
        assert!(said.contains(named), "{named}: {said}");
    }
    let said = check(&workplace, &module("math"), &["gdc"]).failure(2);
    assert!(said.contains("did you mean `gcd`"), "{said}");
    check(&workplace, &workplace.path("missing.wasm"), &[]).failure(3);
}

#[test]
fn broken_guests_are_named_rightly() {
    let add_rows = add_to_first("(local.get $rows)");
    let add_calls = add_to_first("(global.get $calls)");
    let if_nulls =
        "(if (i64.ne (i64.load offset=8 (local.get $array)) (i64.const 0)) (then (unreachable)))";
    let not_null = r#"{"abi":1,"kind":"scalar","name":"f","symbol":"f","args":[{"name":"x","format":"l"}],"result":{"format":"l","nullable":false},"volatility":"immutable","nulls":"handle"}"#;
    let closing = state("resource", "fine_init", r#","close":"trapping_close""#);
    let cases: Vec<(&str, String, &str, &str, &str)> = vec![
        (
            "traps on a single row",
            record("l", "handle", ""),
            "(if (i32.eq (local.get $rows) (i32.const 1)) (then (unreachable)))",
            "trap",
            "unreachable",
        ),
        (
            "traps on nulls",
            record("l", "handle", ""),
            if_nulls,
            "trap",
            "unreachable",
        ),
        (
            "one row too many",
            record("l", "handle", ""),
            "(i64.store (local.get $result) (i64.add (i64.load (local.get $result)) (i64.const 1)))",
            "contract",
            "expected",
        ),
        (
            "text that is not UTF-8",
            record("u", "handle", ""),
            "(memory.fill (i32.load offset=8 (i32.load offset=40 (local.get $array))) (i32.const 255) (i32.const 1))",
            "contract",
            "not valid",
        ),
        (
            "nulls where there are none",
            not_null.to_owned(),
            "",
            "contract",
            "without nulls",
        ),
        (
            "takes nulls for values",
            record("l", "handle", ""),
            "(i64.store offset=8 (local.get $result) (i64.const 0))
             (i32.store (i32.load offset=40 (local.get $result)) (i32.const 0))",
            "under_nulls",
            "row",
        ),
        (
            "depends on the batch size",
            record("l", "propagate", ""),
            &add_rows,
            "batch_size",
            "at a time",
        ),
        (
            "another answer each time",
            record("l", "propagate", ""),
            &add_calls,
            "unsteady",
            "row 0",
        ),
        (
            "a sequence that sees batches",
            record("l", "propagate", &state("sequence", "fine_init", "")),
            &add_rows,
            "batch_size",
            "at a time",
        ),
        (
            "takes a constant for a column",
            record("l", "propagate", r#","constants":true"#),
            "",
            "contract",
            "expected 2",
        ),
        (
            "never returns",
            record("l", "handle", ""),
            "(loop $ever (br $ever))",
            "limit",
            "300ms",
        ),
        (
            "needs all memory",
            record("l", "handle", ""),
            "(if (i32.eq (memory.grow (i32.const 60000)) (i32.const -1)) (then (unreachable)))",
            "limit",
            "memory",
        ),
        (
            "init refuses",
            record("l", "handle", &state("resource", "refusing_init", "")),
            "",
            "init",
            "init failed",
        ),
        (
            "init traps",
            record("l", "handle", &state("resource", "trapping_init", "")),
            "",
            "init",
            "trapped",
        ),
        (
            "close traps",
            record("l", "handle", &closing),
            "",
            "close",
            "close failed",
        ),
        (
            "a status of its own",
            record("l", "handle", ""),
            "(return (i32.const 7))",
            "contract",
            "status 7",
        ),
    ];
    let workplace = Workplace::new();
    for (case, record, body, problem, named) in cases {
        let file = workplace.file("broken.wasm", guest(&record, body));
        let begun = Instant::now();
        let ended = check(&workplace, &file, &["--json", "--timeout", "300ms"]);
        assert_eq!(ended.code(), 1, "{case}: {}", ended.stderr());
        assert!(begun.elapsed() < Duration::from_secs(30), "{case}");
        let json = json(&ended);
        let failures = json["functions"][0]["failures"]
            .as_array()
            .expect("failures");
        let found = failures.iter().any(|f| {
            f["problem"] == problem && f["message"].as_str().is_some_and(|m| m.contains(named))
        });
        assert!(found, "{case}: {failures:#?}");
    }
}

#[test]
fn memory_that_is_not_given_back_is_a_warning() {
    let workplace = Workplace::new();
    let leaking = guest(
        &record("l", "handle", ""),
        "(drop (memory.grow (i32.const 1)))",
    );
    let file = workplace.file("leaking.wasm", leaking);
    let ended = check(&workplace, &file, &[]).success();
    assert!(
        ended.stdout().contains("warning: memory grew"),
        "{}",
        ended.stdout()
    );
    assert!(
        ended
            .stdout()
            .ends_with("1 ok, 0 FAILED, 0 skipped, 1 warnings\n"),
        "{}",
        ended.stdout()
    );
    let sound = workplace.file("sound.wasm", guest(&record("l", "handle", ""), ""));
    let ended = check(&workplace, &sound, &[]).success();
    assert!(!ended.stdout().contains("warning"), "{}", ended.stdout());
}

#[test]
fn sequences_and_volatile_functions_may_answer_differently() {
    let workplace = Workplace::new();
    let calls = add_to_first("(global.get $calls)");
    let volatile = record("l", "propagate", "").replace("immutable", "volatile");
    let file = workplace.file("volatile.wasm", guest(&volatile, &calls));
    check(&workplace, &file, &[]).success();
    // A sequence that counts rows: each cut of the input gives the same.
    let ended = check(&workplace, &module("probe"), &["ctr", "ctr_pair", "bump"]).success();
    assert!(
        ended.stdout().ends_with("3 ok, 0 FAILED, 0 skipped\n"),
        "{}",
        ended.stdout()
    );
}

#[test]
fn the_command_that_is_told_shows_the_failure_again() {
    let workplace = Workplace::new();
    let probe = module("probe");
    let ended = check(
        &workplace,
        &probe,
        &["boom", "--json", "--save", "failures"],
    );
    let failure = json(&ended)["functions"][0]["failures"][0].clone();
    assert_eq!(failure["batch"]["values"][0], "x = 3");
    let command = failure["reproduce"].as_str().expect("a command");
    assert!(command.contains("--arg x=lit:3"), "{command}");

    // Many rows, and two columns: a file.
    let wrong = guest(
        &record("l", "handle", ""),
        &add_to_first("(local.get $rows)"),
    );
    let file = workplace.file("wrong.wasm", wrong);
    let ended = check(&workplace, &file, &["--json", "--save", "failures"]);
    let failure = json(&ended)["functions"][0]["failures"][0].clone();
    let command = failure["reproduce"].as_str().expect("a command");
    let words: Vec<&str> = command
        .split(", and again")
        .next()
        .expect("words")
        .split_whitespace()
        .skip(1)
        .collect();
    assert!(words.contains(&"failures/f-0-0.arrow"), "{command}");
    workplace.wasmill(words).success();
}
