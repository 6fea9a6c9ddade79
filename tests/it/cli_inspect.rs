//! `wasmill inspect`.

use crate::cli::{Workplace, module};

/// A module written by hand, so that its numbers do not change with compilers.
const MODULE: &str = r#"(module
  (memory (export "memory") 1 16)
  (func (export "wasmill_alloc") (param i32 i32) (result i32) (i32.const 0))
  (func (export "wasmill_free") (param i32 i32 i32))
  (func (export "init") (param i32) (result i32) (i32.const 0))
  (func (export "f") (param i32) (result i32) (unreachable))
  (@custom "wasmill.manifest" "{\"abi\":1,\"kind\":\"scalar\",\"name\":\"mean\",\"doc\":\"Mean so far.\\nRows count.\",\"symbol\":\"f\",\"args\":[{\"name\":\"x\",\"format\":\"g\"},{\"name\":\"any_other\",\"any\":true}],\"result\":{\"format\":\"g\",\"nullable\":false},\"volatility\":\"volatile\",\"nulls\":\"handle\",\"batch_size\":512,\"state\":{\"name\":\"Mean\",\"kind\":\"sequence\",\"init\":\"init\",\"init_args\":{\"type\":\"object\",\"properties\":{\"start\":{\"type\":\"number\",\"default\":0,\"description\":\"Where to start.\"}},\"required\":[]}}}\n"))"#;

#[test]
fn a_module_is_described() {
    let workplace = Workplace::new();
    workplace.file("mean.wasm", wat::parse_str(MODULE).expect("a module"));
    let ended = workplace.wasmill(["inspect", "mean.wasm"]).success();
    insta::with_settings!({ filters => vec![(r"sha256:[0-9a-f]{64}", "sha256:[digest]"), (r"(size\s+).*", "${1}[sizes]")] }, {
        insta::assert_snapshot!(ended.stdout(), @r#"
    module    mean
    digest    sha256:[digest]
    abi       1
    size      [sizes]
    memory    64.00 KiB at the start, at most 1.00 MiB
    imports   none
    debug     names only in backtraces

    state Mean
        sequence: rows depend on those before them; one slot, input order
        init start: number, default 0
            Where to start.

    mean(x: Float64?, any_other: any) -> Float64
        volatile; sees nulls; state Mean; 512 rows per call
        Mean so far.
        Rows count.
    "#);
    });
}

#[test]
fn json_is_for_programs() {
    let workplace = Workplace::new();
    let ended = workplace
        .wasmill([
            "inspect".as_ref(),
            module("math").as_os_str(),
            "--json".as_ref(),
        ])
        .success();
    let json: serde_json::Value = serde_json::from_str(&ended.stdout()).expect("JSON");
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["name"], "math");
    assert_eq!(json["digest"].as_str().map(str::len), Some(64));
    let names: Vec<&str> = json["manifest"]["functions"]
        .as_array()
        .expect("functions")
        .iter()
        .filter_map(|f| f["name"].as_str())
        .collect();
    assert!(names.contains(&"haversine"), "{names:?}");
}

#[test]
fn what_is_no_module_is_refused() {
    let workplace = Workplace::new();
    workplace.file("text.wasm", "not a module");
    workplace.wasmill(["inspect", "text.wasm"]).failure(4);
    let said = workplace.wasmill(["inspect", "missing.wasm"]).failure(3);
    assert!(said.contains("missing.wasm"), "{said}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let workplace = Workplace::new();
    let mut child = workplace
        .command(["inspect".as_ref(), module("math").as_os_str()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("wasmill runs");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn documentation_cannot_mislead_its_reader() {
    let workplace = Workplace::new();
    let text = MODULE.replace("Rows count.", "\\u202egnp.exe\\u2028\\u009b[31m");
    assert!(text.contains("202e"));
    let text = text.replace("\\u", "\\\\u");
    workplace.file("mean.wasm", wat::parse_str(text).expect("a module"));
    let shown = workplace
        .wasmill(["inspect", "mean.wasm"])
        .success()
        .stdout();
    assert!(
        shown.contains("\\u{202e}gnp.exe\\u{2028}\\u{9b}[31m"),
        "{shown}"
    );
    let json = workplace.wasmill(["inspect", "mean.wasm", "--json"]);
    let json = json.success().stdout();
    assert!(json.is_ascii(), "{json}");
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        value["manifest"]["functions"][0]["doc"],
        "Mean so far.\n\u{202e}gnp.exe\u{2028}\u{9b}[31m"
    );
}
