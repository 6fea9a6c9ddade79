//! `wasmill run` with stateful UDFs: init, slots, sequences, interruption.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array};

use crate::cli::{Form, Workplace, batch, write_arrow};
use crate::cli_run::{run, run_with};

const VOCABULARY: &str = r#"{"vocabulary": ["[UNK]", "hello", "world"]}"#;

#[test]
fn a_stateful_udf_gets_its_init_arguments_and_logs_from_each_slot() {
    let workplace = Workplace::new();
    workplace.file("texts.csv", "text\nhello world\nhello moon\n");
    workplace.file("init.json", VOCABULARY);
    let ended = run(
        &workplace,
        "tokenize",
        "count_tokens",
        "-i texts.csv -o out.csv --init @init.json --slots 2 -q",
    )
    .success();
    assert_eq!(
        ended.stderr().matches("info: [count_tokens slot").count(),
        2,
        "{}",
        ended.stderr()
    );
    assert_eq!(
        std::fs::read_to_string(workplace.path("out.csv")).expect("a file"),
        "text,count_tokens\nhello world,2\nhello moon,2\n"
    );
}

/// A state whose init takes a while and logs, and a function that gives its argument back.
const SLOW: &str = r#"(module
  (import "wasmill_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 2)
  (data (i32.const 16) "ready")
  (global $next (mut i32) (i32.const 65536))
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
  (func (export "init") (param $frame i32) (result i32)
    (local $i i64)
    (loop $wait
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (br_if $wait (i64.lt_u (local.get $i) (i64.const LOOPS))))
    (call $log (i32.const 3) (i32.const 16) (i32.const 5))
    (i32.const 0))
  (func (export "echo") (param $frame i32) (result i32)
    (memory.copy (i32.load offset=32 (local.get $frame)) (i32.load (i32.load offset=28 (local.get $frame))) (i32.const 64))
    (i32.const 0))
  (@custom "wasmill.manifest" "{\"abi\":1,\"kind\":\"scalar\",\"name\":\"echo\",\"symbol\":\"echo\",\"args\":[{\"name\":\"x\",\"format\":\"l\"}],\"result\":{\"format\":\"l\"},\"volatility\":\"immutable\",\"nulls\":\"handle\",\"state\":{\"name\":\"S\",\"kind\":\"KIND\",\"init\":\"init\"}}\n"))"#;

#[test]
fn sixty_four_files_share_the_slots() {
    let workplace = Workplace::new();
    let slow = workplace.file(
        "slow.wasm",
        wat::parse_str(
            SLOW.replace("LOOPS", "200000000")
                .replace("KIND", "resource"),
        )
        .expect("a module"),
    );
    let mut arguments: Vec<String> = ["-o", "out.arrow", "--slots", "2", "--metrics", "json", "-q"]
        .map(String::from)
        .to_vec();
    for n in 0..64 {
        let x: ArrayRef = Arc::new(Int64Array::from(vec![n; 100]));
        write_arrow(
            &workplace.path(&format!("{n}.arrow")),
            Form::File,
            &[batch(vec![("x", x)])],
        );
        arguments.extend(["-i".to_owned(), format!("{n}.arrow")]);
    }
    let ended = run_with(
        &workplace,
        &slow,
        "echo",
        &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .success();
    let metrics: serde_json::Value = serde_json::from_str(&ended.stdout()).expect("JSON");
    assert_eq!(metrics["rows"], 6_400);
    assert_eq!(
        (
            &metrics["pools"][0]["starts"],
            &metrics["pools"][0]["inits"]
        ),
        (&2.into(), &2.into())
    );
    assert_eq!(
        ended.stderr().matches("ready").count(),
        2,
        "{}",
        ended.stderr()
    );
}

#[test]
fn a_sequence_is_held_to_one_slot_and_says_so() {
    let workplace = Workplace::new();
    let sequence = workplace.file(
        "sequence.wasm",
        wat::parse_str(SLOW.replace("LOOPS", "1").replace("KIND", "sequence")).expect("a module"),
    );
    workplace.file("in.csv", "x\n1\n2\n");
    let ended = run_with(
        &workplace,
        &sequence,
        "echo",
        &["-i", "in.csv", "-o", "out.csv", "--slots", "4", "-q"],
    )
    .success();
    assert!(ended.stderr().contains("1 slot"), "{}", ended.stderr());
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let workplace = Workplace::new();
    let slow = workplace.file(
        "slow.wasm",
        wat::parse_str(
            SLOW.replace("LOOPS", "100000000000")
                .replace("KIND", "resource"),
        )
        .expect("a module"),
    );
    workplace.file("in.csv", "x\n1\n2\n");
    let before = workplace.files();
    let arguments = [
        "run".as_ref(),
        slow.as_os_str(),
        "echo".as_ref(),
        "-i".as_ref(),
        "in.csv".as_ref(),
        "-o".as_ref(),
        "out.csv".as_ref(),
    ];
    let mut child = workplace.command(arguments).spawn().expect("wasmill runs");
    let deadline = Instant::now() + Duration::from_secs(60);
    // The folder for the output is made right before the slot is started.
    while workplace.files() == before && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let kill = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(kill.success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(workplace.files(), before);
}

/// A function that traps at every third call of an instance.
const THIRD: &str = r#"(module
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
  (func (export "third") (param $frame i32) (result i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (if (i32.eq (global.get $calls) (i32.const 3)) (then (unreachable)))
    (memory.copy (i32.load offset=32 (local.get $frame)) (i32.load (i32.load offset=28 (local.get $frame))) (i32.const 64))
    (i32.const 0))
  (@custom "wasmill.manifest" "{\"abi\":1,\"kind\":\"scalar\",\"name\":\"third\",\"symbol\":\"third\",\"args\":[{\"name\":\"x\",\"format\":\"l\"}],\"result\":{\"format\":\"l\"},\"volatility\":\"immutable\",\"nulls\":\"handle\"}\n"))"#;

/// A workplace with ten numbers in `in.csv` and the module.
fn with_third() -> (Workplace, std::path::PathBuf) {
    let workplace = Workplace::new();
    let module = workplace.file("third.wasm", wat::parse_str(THIRD).expect("a module"));
    let numbers: String = (1..=10).map(|n| format!("{n}\n")).collect();
    workplace.file("in.csv", format!("x\n{numbers}"));
    (workplace, module)
}

#[test]
fn slots_are_started_again_as_often_as_they_may() {
    let (workplace, module) = with_third();
    let with = |more: &[&str]| {
        let common = ["-i", "in.csv", "-o", "out.csv", "--batch-size", "1", "-q"];
        run_with(&workplace, &module, "third", &[&common, more].concat())
    };
    assert_eq!(with(&[]).code(), 6, "a trap ends the run");
    let ended = with(&["--restarts", "2"]);
    assert_eq!(ended.code(), 6);
    let error = ended.stderr();
    assert!(
        error.contains("--restarts") && error.contains("unreachable"),
        "{error}"
    );
    assert!(!workplace.path("out.csv").exists());
    let ended = with(&["--restarts", "4", "--metrics", "json"]).success();
    let metrics: serde_json::Value = serde_json::from_str(&ended.stdout()).expect("JSON");
    let pool = &metrics["pools"][0];
    assert_eq!(
        (&pool["restarts"], &pool["call_retries"]),
        (&4.into(), &4.into())
    );
    assert_eq!(pool["per_slot"][0]["calls"], 10);
    let out = std::fs::read_to_string(workplace.path("out.csv")).expect("a file");
    let expected: String = (1..=10).map(|n| format!("{n},{n}\n")).collect();
    assert_eq!(out, format!("x,third\n{expected}"));
}

#[test]
fn what_does_not_fit_the_machine_is_refused_with_all_that_is_missing() {
    let (workplace, module) = with_third();
    let before = workplace.files();
    let arguments = "-i in.csv -o out.csv --slots 8 --memory 1GiB --cpus 3 --gpus 1 \
                     --machine cpus=2,memory=2GiB -q";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let ended = run_with(&workplace, &module, "third", &arguments);
    assert_eq!(ended.code(), 5, "{}", ended.stderr());
    let error = ended.stderr();
    for part in ["--memory", "--cpus", "--gpus", "8 slots", "2 GiB"] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
    assert_eq!(workplace.files(), before);
    let ended = run_with(
        &workplace,
        &module,
        "third",
        &["-i", "in.csv", "-o", "out.csv", "--device-memory", "1GiB"],
    );
    assert_eq!(ended.code(), 2, "{}", ended.stderr());
}

#[test]
fn metrics_are_there_for_prometheus() {
    let (workplace, module) = with_third();
    let arguments = [
        "-i",
        "in.csv",
        "-o",
        "out.csv",
        "--slots",
        "2",
        "--metrics",
        "prometheus",
        "-q",
    ];
    let ended = run_with(&workplace, &module, "third", &arguments).success();
    let text = ended.stdout();
    for line in [
        "# TYPE wasmill_starts_total counter",
        r#"wasmill_starts_total{pool="third",module="third",slot="1"} 1"#,
        r#"wasmill_queued_tasks{pool="third",module="third"} 0"#,
    ] {
        assert!(
            text.lines().any(|l| l == line),
            "{line} is missing in {text}"
        );
    }
    let rows: u64 = text
        .lines()
        .filter(|l| l.starts_with("wasmill_rows_total{"))
        .filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(rows, 10);
}

#[test]
fn unordered_rows_are_the_same_rows() {
    let (workplace, _) = with_third();
    let numbers: String = (1..=5_000).map(|n| format!("{n},7\n")).collect();
    workplace.file("many.csv", format!("a,b\n{numbers}"));
    let of = |more: &str| {
        let arguments = format!("-i many.csv -o - --format csv --batch-size 10 -q {more}");
        let ended = run(&workplace, "math", "gcd", &arguments).success();
        let mut lines: Vec<String> = ended.stdout().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(of("--unordered --slots 3"), of(""));
}

#[test]
fn resources_shows_what_the_ledger_sees() {
    let workplace = Workplace::new();
    let machine = "cpus=4,memory=8GiB,gpus=2x24GiB";
    let ended = workplace
        .wasmill(["resources", "--machine", machine])
        .success();
    assert_eq!(
        ended.stdout(),
        "cpus     4\nmemory   8.00 GiB\ndevices  gpu0 with 24.00 GiB\n         gpu1 with 24.00 GiB\n"
    );
    let ended = workplace.wasmill(["resources", "--json"]).success();
    let found: serde_json::Value = serde_json::from_str(&ended.stdout()).expect("JSON");
    assert!(
        found["machine"]["memory"]
            .as_u64()
            .is_some_and(|bytes| bytes > 1 << 20)
    );
    assert!(
        found["machine"]["cpus"]
            .as_f64()
            .is_some_and(|cpus| cpus > 0.0)
    );
    assert_eq!(found["memory"], 0);
}
