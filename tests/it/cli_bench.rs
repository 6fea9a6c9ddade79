//! `wasmill bench`: short runs whose numbers fit together. Times are never asserted.

use serde_json::Value;

use crate::cli::{Ended, Workplace, module};

fn bench(workplace: &Workplace, name: &str, rest: &[&str]) -> Ended {
    let module = module(name);
    let mut arguments = vec!["bench".as_ref(), module.as_os_str()];
    arguments.extend(rest.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    workplace.wasmill(arguments)
}

/// The report, after a look at whether its numbers fit together.
fn report(ended: &Ended) -> Value {
    let report: Value = serde_json::from_str(&ended.stdout()).expect("JSON");
    assert_eq!(report["schema_version"], 1);
    for result in report["results"].as_array().expect("results") {
        let number = |name: &str| result[name].as_f64().unwrap_or(f64::NAN);
        let latency = |name: &str| result["latency"][name].as_f64().unwrap_or(f64::NAN);
        assert_eq!(
            number("rows"),
            number("calls") * number("batch_size"),
            "{result}"
        );
        assert!(
            number("calls") >= 1.0 && number("seconds") > 0.0,
            "{result}"
        );
        let rate = number("rows") / number("seconds");
        assert!(
            (number("rows_per_second") / rate - 1.0).abs() < 1e-6,
            "{result}"
        );
        let parts =
            ["wait", "copy_in", "guest", "copy_out"].map(|p| number(&format!("{p}_seconds")));
        assert!(parts.iter().all(|p| *p >= 0.0), "{result}");
        assert!(
            parts.iter().sum::<f64>() <= number("call_seconds") * 1.01,
            "{result}"
        );
        let ranks = ["p50", "p90", "p99", "max"].map(latency);
        assert!(ranks[0] > 0.0 && ranks.is_sorted(), "{result}");
    }
    report
}

#[test]
fn made_up_values_at_the_default_sizes() {
    let workplace = Workplace::new();
    let ended = bench(&workplace, "math", &["gcd", "--duration", "50ms", "--json"]).success();
    let report = report(&ended);
    let sizes: Vec<u64> = report["results"]
        .as_array()
        .expect("results")
        .iter()
        .filter_map(|r| r["batch_size"].as_u64())
        .collect();
    assert_eq!(sizes, [1_024, 8_192, 65_536]);
    assert_eq!(report["source"], "made-up values");
    // Two columns of 32 bits.
    assert!(
        report["results"][0]["bytes_in"].as_u64()
            >= report["results"][0]["rows"].as_u64().map(|r| r * 8)
    );
}

#[test]
fn the_rows_of_a_file_with_a_constant_on_two_slots() {
    let workplace = Workplace::new();
    let rows: String = (0..100).map(|n| format!("{n},{}\n", n % 7)).collect();
    workplace.file("in.csv", format!("n,m\n{rows}"));
    let arguments = [
        "div",
        "-i",
        "in.csv",
        "--arg",
        "a=lit:5",
        "--arg",
        "b=m",
        "--slots",
        "2",
        "--batch-size",
        "10,64",
        "--duration",
        "30ms",
        "--json",
    ];
    let ended = bench(&workplace, "math", &arguments).success();
    let report = report(&ended);
    assert_eq!(
        (&report["rows"], &report["slots"]),
        (&100.into(), &2.into())
    );
    assert_eq!(report["results"][1]["batch_size"], 64);
    assert!(report["results"][0]["failed_rows"].as_u64() > Some(0));
}

#[test]
fn a_table_is_for_people_and_small_inputs_are_told() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "text\nhello\nworld\n");
    let arguments = [
        "upper",
        "-i",
        "in.csv",
        "--batch-size",
        "1000",
        "--duration",
        "20ms",
    ];
    let ended = bench(&workplace, "math", &arguments).success();
    for word in ["rows/s", "MB/s", "copy in", "guest", "p99"] {
        assert!(ended.stdout().contains(word), "{}", ended.stdout());
    }
    assert!(
        ended
            .stderr()
            .contains("note: batches of 1,000 rows have 2"),
        "{}",
        ended.stderr()
    );
    let quiet = [&arguments[..], &["-q"]].concat();
    assert_eq!(bench(&workplace, "math", &quiet).success().stderr(), "");
}

#[test]
fn any_types_states_and_functions_without_arguments_are_measured() {
    let workplace = Workplace::new();
    let short = ["--duration", "20ms", "--batch-size", "100", "--json"];
    let with = |first: &[&'static str]| [first, &short[..]].concat();
    report(&bench(&workplace, "identity", &with(&["identity"])).success());
    report(&bench(&workplace, "probe", &with(&["seven"])).success());
    let sequence = bench(&workplace, "probe", &with(&["ctr", "--slots", "3"])).success();
    assert_eq!(report(&sequence)["slots"], 1);
    assert!(
        sequence.stderr().contains("note: "),
        "{}",
        sequence.stderr()
    );
    let init = [
        "count_tokens",
        "--init",
        r#"{"vocabulary": ["[UNK]", "river"]}"#,
    ];
    report(&bench(&workplace, "tokenize", &with(&init)).success());
}

#[test]
fn what_cannot_be_measured_is_an_error_with_its_exit_code() {
    let workplace = Workplace::new();
    let said = bench(&workplace, "math", &["gdc"]).failure(2);
    assert!(said.contains("did you mean `gcd`"), "{said}");
    bench(&workplace, "math", &["gcd", "--arg", "z=lit:1"]).failure(2);
    bench(&workplace, "tokenize", &["encode"]).failure(2);
    bench(&workplace, "math", &["gcd", "-i", "missing.csv"]).failure(3);
    workplace.file("empty.csv", "text\n");
    bench(&workplace, "math", &["upper", "-i", "empty.csv"]).failure(3);
    bench(&workplace, "probe", &["spin", "--timeout", "100ms"]).failure(5);
    bench(&workplace, "probe", &["recurse"]).failure(6);
}
