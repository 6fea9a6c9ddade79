//! The verbs around running: new, embed, compile, cache, config, doctor, completions, man.

use crate::cli::{Workplace, module};

#[test]
fn a_new_udf_has_what_its_language_needs() {
    let workplace = Workplace::new();
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/guest-sdk");
    for (name, options, expected) in [
        (
            "plain",
            vec!["--sdk", sdk],
            vec!["Cargo.toml", "src/lib.rs"],
        ),
        (
            "kept",
            vec!["--sdk", sdk, "--stateful"],
            vec!["Cargo.toml", "src/lib.rs"],
        ),
        (
            "some/in-c",
            vec!["--lang", "c"],
            vec!["guest.c", "wasmill.h"],
        ),
        (
            "in-zig",
            vec!["--lang", "zig"],
            vec!["guest.zig", "wasmill.zig"],
        ),
        (
            "in-as",
            vec!["--lang", "assemblyscript"],
            vec![
                "guest.ts",
                "wasmill.ts",
                "manifest.mjs",
                "manifest.json",
                "package.json",
            ],
        ),
    ] {
        let arguments = ["new", name].into_iter().chain(options.iter().copied());
        let said = workplace.wasmill(arguments).success().stdout();
        assert!(said.contains(&format!("  cd {name}\n")), "{said}");
        assert!(said.contains("wasmill run "), "{said}");
        for file in expected.into_iter().chain(["example.csv"]) {
            assert!(workplace.path(name).join(file).is_file(), "{name}/{file}");
        }
    }
    let manifest = std::fs::read_to_string(workplace.path("kept/Cargo.toml")).expect("a file");
    assert!(manifest.contains(sdk), "{manifest}");
    for wrong in [
        ["new", "plain"].as_slice(),
        &["new", "up/.."],
        &["new", "some/test"],
        &["new", "Upper"],
        &["new", "other", "--sdk", "plain"],
        &["new", "other", "--lang", "c", "--stateful"],
    ] {
        workplace.wasmill(wrong).failure(2);
    }
}

#[test]
fn a_manifest_can_be_embedded() {
    let workplace = Workplace::new();
    let body = r#"(module
      (memory (export "memory") 2)
      (func (export "wasmill_alloc") (param i32 i32) (result i32) (i32.const 65536))
      (func (export "wasmill_free") (param i32 i32 i32))
      (func (export "f") (param i32) (result i32) (i32.const 0)))"#;
    workplace.file("plain.wasm", wat::parse_str(body).expect("a module"));
    let record = r#"{"abi":1,"kind":"scalar","name":"f","symbol":"f","args":[],"result":{"format":"l","nullable":false},"volatility":"immutable","nulls":"propagate"}"#;
    workplace.file("manifest.json", record);
    workplace
        .wasmill(["embed", "plain.wasm", "manifest.json", "-o", "udf.wasm"])
        .success();
    let shown = workplace
        .wasmill(["inspect", "udf.wasm"])
        .success()
        .stdout();
    assert!(shown.contains("f() -> Int64"), "{shown}");
    // Again, in place: the manifest is there once.
    workplace
        .wasmill(["embed", "udf.wasm", "manifest.json"])
        .success();
    let again = workplace
        .wasmill(["inspect", "udf.wasm"])
        .success()
        .stdout();
    assert_eq!(again, shown);
    // Into a pipe.
    let output = workplace
        .command(["embed", "plain.wasm", "manifest.json", "-o", "-"])
        .output()
        .expect("wasmill runs");
    let written = std::fs::read(workplace.path("udf.wasm")).expect("a file");
    assert_eq!(output.stdout, written);
    assert!(!workplace.path("-").exists());

    workplace.file(
        "wrong.json",
        record.replace("\"symbol\":\"f\"", "\"symbol\":\"g\""),
    );
    workplace.file("torn.json", "{");
    workplace.file("text.wasm", "not a module");
    workplace
        .wasmill(["embed", "plain.wasm", "wrong.json", "-o", "x.wasm"])
        .failure(4);
    workplace
        .wasmill(["embed", "plain.wasm", "torn.json", "-o", "x.wasm"])
        .failure(2);
    workplace
        .wasmill(["embed", "text.wasm", "manifest.json", "-o", "x.wasm"])
        .failure(4);
    assert!(!workplace.path("x.wasm").exists());
}

#[test]
fn compiled_code_can_be_listed_and_removed() {
    let workplace = Workplace::new();
    let math = module("math");
    let run = |arguments: &[&str]| {
        let mut command = workplace.command(arguments);
        command.env("XDG_CACHE_HOME", workplace.path("cache"));
        let output = command.output().expect("wasmill runs");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(run(&["cache", "ls"]).contains("in 0 entries"));
    run(&["compile", "-q", math.to_str().expect("a path")]);
    let listed: serde_json::Value =
        serde_json::from_str(&run(&["cache", "ls", "--json"])).expect("JSON");
    assert_eq!(listed["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["entries"][0]["module"], "math");
    let shown = run(&["cache", "ls"]);
    assert!(
        shown.contains("  math  ") && shown.contains(" in 1 entry, in "),
        "{shown}"
    );
    run(&["cache", "clear"]);
    assert!(run(&["cache", "ls"]).contains("in 0 entries"));
}

#[test]
fn settings_come_from_flags_variables_and_files_in_that_order() {
    let workplace = Workplace::new();
    workplace.file("wasmill.toml", "slots = 3\nmemory = \"64MiB\"\n");
    std::fs::create_dir_all(workplace.path("home/wasmill")).expect("a folder");
    workplace.file("home/wasmill/config.toml", "slots = 5\ntimeout = \"3s\"\n");
    workplace.file("in.csv", "a,b\n12,8\n");
    let math = module("math");
    let run = |arguments: &[&str]| {
        workplace
            .command(arguments)
            .env("XDG_CONFIG_HOME", workplace.path("home"))
            .env("WASMILL_MEMORY", "32MiB")
            .output()
            .expect("wasmill runs")
    };
    let shown = run(&["config", "show", "--origin"]);
    let shown = String::from_utf8_lossy(&shown.stdout)
        .replace(&workplace.path("home").display().to_string(), "[home]");
    insta::assert_snapshot!(shown, @r"
    admission     wait=30s        default
    batch-size    (not set)       default
    color         auto            default
    compression   zstd            default
    init-retries  0               default
    init-timeout  60s             default
    json          (not set)       default
    machine       (not set)       default
    max-errors    (not set)       default
    memory        32MiB           variable WASMILL_MEMORY
    metrics       (not set)       default
    on-error      fail            default
    quiet         (not set)       default
    restarts      0               default
    slots         3               wasmill.toml
    threads       (not set)       default
    timeout       3s              [home]/wasmill/config.toml
    ");
    let slots = |more: &[&str]| {
        let mut arguments = vec![
            "run",
            math.to_str().expect("a path"),
            "gcd",
            "-i",
            "in.csv",
            "-o",
            "out.csv",
            "--metrics",
            "json",
        ];
        arguments.extend(more);
        let output = run(&arguments);
        let metrics: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        metrics["pools"][0]["slots"].clone()
    };
    assert_eq!(slots(&[]), 3);
    assert_eq!(slots(&["--slots", "2"]), 2);

    workplace.file("wasmill.toml", "slot = 3\n");
    let said = run(&["run", "x.wasm", "f"]);
    assert_eq!(said.status.code(), Some(2));
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("did you mean `slots`?"), "{said}");
    workplace.file("wasmill.toml", "slots = \"many\"\n");
    let said = run(&["run", "x.wasm", "f"]);
    assert_eq!(said.status.code(), Some(2));
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("wasmill.toml"), "{said}");
    workplace.file("wasmill.toml", "quiet = \"maybe\"\n");
    let said = workplace.wasmill(["config", "show"]).failure(2);
    assert!(said.contains("`quiet`") && said.contains("maybe"), "{said}");
    workplace.file("wasmill.toml", "");
    let output = workplace
        .command(["config", "show"])
        .env("WASMILL_LOG", "==")
        .output()
        .expect("wasmill runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("WASMILL_LOG"), "{said}");
}

#[test]
fn errors_are_json_when_asked_for() {
    let workplace = Workplace::new();
    for (arguments, code) in [
        (["run", "missing.wasm", "f", "--json"].as_slice(), 3),
        (&["run", "--nonsense", "--json"], 2),
    ] {
        let output = workplace.command(arguments).output().expect("wasmill runs");
        assert_eq!(output.status.code(), Some(code));
        let error: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
        assert_eq!(error["exit_code"], code);
        assert!(error["error"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[test]
fn the_tool_explains_itself() {
    let workplace = Workplace::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = workplace.wasmill(["completions", shell]).success().stdout();
        assert!(script.contains("wasmill"), "{shell}");
    }
    assert!(
        workplace
            .wasmill(["man"])
            .success()
            .stdout()
            .contains(".TH wasmill")
    );
    workplace.wasmill(["man", "--folder", "pages"]).success();
    assert!(workplace.path("pages/wasmill-run.1").is_file());
    let findings: serde_json::Value =
        serde_json::from_str(&workplace.wasmill(["doctor", "--json"]).success().stdout())
            .expect("JSON");
    assert_eq!(findings["findings"][0]["state"], "ok");
}

#[test]
fn a_guest_sees_granted_folders_and_variables_only() {
    let workplace = Workplace::new();
    std::fs::create_dir(workplace.path("models")).expect("a folder");
    // Answers, for each row, how many folders and variables it sees.
    let body = r#"(module
      (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
      (memory (export "memory") 4)
      (func (export "wasmill_alloc") (param i32 i32) (result i32) (i32.const 65536))
      (func (export "wasmill_free") (param i32 i32 i32))
      (func (export "f") (param $frame i32) (result i32) (local $fd i32) (local $result i32)
        (drop (call $environ (i32.const 64) (i32.const 68)))
        (local.set $fd (i32.const 3))
        (block $done (loop $next
          (br_if $done (call $prestat (local.get $fd) (i32.const 128)))
          (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
          (br $next)))
        (i64.store (i32.const 256) (i64.extend_i32_u (i32.add
          (i32.mul (i32.sub (local.get $fd) (i32.const 3)) (i32.const 10))
          (i32.load (i32.const 64)))))
        (i32.store (i32.const 324) (i32.const 256))
        (local.set $result (i32.load (i32.add (local.get $frame) (i32.const RESULT))))
        (i64.store (local.get $result) (i64.const 1))
        (i64.store (i32.add (local.get $result) (i32.const 24)) (i64.const 2))
        (i32.store (i32.add (local.get $result) (i32.const 40)) (i32.const 320))
        (i32.const 0)))"#;
    let body = body.replace("RESULT", "32");
    workplace.file("plain.wasm", wat::parse_str(body).expect("a module"));
    workplace.file("manifest.json", r#"{"abi":1,"kind":"scalar","name":"f","symbol":"f","args":[],"result":{"format":"l","nullable":false},"volatility":"volatile","nulls":"propagate"}"#);
    workplace
        .wasmill(["embed", "plain.wasm", "manifest.json", "-o", "udf.wasm"])
        .success();
    workplace.file("in.csv", "x\n1\n");
    let seen = |more: &[&str]| {
        let arguments = [
            "run", "udf.wasm", "f", "-q", "-i", "in.csv", "--select", "f",
        ];
        workplace
            .wasmill(arguments.iter().chain(more))
            .success()
            .stdout()
    };
    assert_eq!(seen(&[]), "f\n0\n");
    assert_eq!(
        seen(&["--grant", "models::/models", "--env", "A=1", "--env", "B="]),
        "f\n12\n"
    );
    let arguments = ["run", "udf.wasm", "f", "-q", "-i", "in.csv"];
    let refused = |more: &[&str], code| {
        workplace
            .wasmill(arguments.iter().chain(more))
            .failure(code)
    };
    refused(&["--grant", "missing::/models"], 3);
    refused(&["--grant", "models"], 2);
    refused(&["--env", "A"], 2);
    refused(&["--env", "A=1", "--env", "A=2"], 3);
}
