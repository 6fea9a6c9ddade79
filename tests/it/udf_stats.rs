//! The module `stats`: sequences over real flights.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{Float64Type, Int64Type};

use crate::cli::{Form, Workplace, column, data, module, read_arrow};
use crate::cli_run::{run, run_with};

fn results(workplace: &Workplace) -> Vec<ArrayRef> {
    let (_, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    column(&batches, "y")
}

/// The delays of 200,000 flights through a function.
fn of_delays(workplace: &Workplace, flights: &str, udf: &str, rest: &[&str]) -> Vec<ArrayRef> {
    let mut arguments = vec![
        "-i",
        flights,
        "-o",
        "out.arrow",
        "--arg",
        "x=delay",
        "--as",
        "y",
    ];
    arguments.extend(["--select", "y"]);
    arguments.extend(rest);
    run_with(workplace, &module("stats"), udf, &arguments).success();
    results(workplace)
}

fn floats(arrays: &[ArrayRef]) -> Vec<Option<f64>> {
    arrays
        .iter()
        .flat_map(|array| {
            array
                .as_primitive::<Float64Type>()
                .iter()
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn running_statistics_of_flights_end_where_they_should() {
    let Some(flights) = data("real/flights-200k.arrow") else {
        return;
    };
    let workplace = Workplace::new();
    let flights = flights.to_str().expect("UTF-8");
    let last_int = |udf: &str| {
        let arrays = of_delays(&workplace, flights, udf, &[]);
        let all: Vec<i64> = arrays
            .iter()
            .flat_map(|array| array.as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(all.len(), 200_000);
        all.last().copied()
    };
    assert_eq!(last_int("running_sum_int"), Some(1_500_159));
    assert_eq!(last_int("running_min_int"), Some(-86));
    assert_eq!(last_int("running_max_int"), Some(1444));
    assert_eq!(last_int("running_count_int"), Some(200_000));
    // By pandas.
    for (udf, init, wanted) in [
        ("running_zscore_int", "{}", -0.234_518_706_128_653_4),
        ("ewm_mean_int", r#"{"span": 50}"#, 68.898_122_716_039_88),
    ] {
        let all = floats(&of_delays(&workplace, flights, udf, &["--init", init]));
        let last = all.last().copied().flatten().expect("a value");
        assert!((last - wanted).abs() < 1e-9, "{udf}: {last}");
    }
}

#[test]
fn batches_of_any_size_give_the_same_scores() {
    let Some(flights) = data("real/flights-200k.arrow") else {
        return;
    };
    let workplace = Workplace::new();
    let flights = flights.to_str().expect("UTF-8");
    let scores = |size: &str| {
        let rest = ["--batch-size", size, "--slots", "3"];
        floats(&of_delays(&workplace, flights, "running_zscore_int", &rest))
    };
    let expected = scores("8192");
    for size in ["777", "200000"] {
        assert!(scores(size) == expected, "{size}");
    }
}

#[test]
fn nulls_are_skipped_and_stay_null() {
    let workplace = Workplace::new();
    workplace.file("in.csv", "n,x\n1,2.5\n2,\n3,0.5\n4,\n5,4.0\n");
    for (udf, init, wanted) in [
        (
            "running_sum",
            "{}",
            [Some(2.5), None, Some(3.0), None, Some(7.0)],
        ),
        (
            "running_min",
            "{}",
            [Some(2.5), None, Some(0.5), None, Some(0.5)],
        ),
        (
            "ewm_mean",
            r#"{"alpha":0.5,"adjust":false}"#,
            [Some(2.5), None, Some(1.5), None, Some(2.75)],
        ),
    ] {
        let rest = format!("-i in.csv -o out.arrow --as y --batch-size 2 --init {init}");
        run(&workplace, "stats", udf, &rest).success();
        assert_eq!(floats(&results(&workplace)), wanted, "{udf}");
    }
    let said = run(&workplace, "stats", "ewm_mean", "-i in.csv -o out.arrow").failure(1);
    assert!(said.contains("exactly one of"), "{said}");
}
