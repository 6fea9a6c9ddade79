//! The module `model`: predictions are those of the libraries that trained the models.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::datatypes::{Float64Type, Int16Type};
use serde_json::{Value, json};

use crate::cli::{Form, Workplace, batch, column, data, read_arrow, write_arrow};
use crate::cli_run::run;

/// What `udfs/model/tests/make_fixtures.py` wrote: a model, rows, and the library's predictions.
fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("udfs/model/tests")
        .join(name)
        .with_extension("json");
    let text = std::fs::read_to_string(path).expect("a fixture");
    serde_json::from_str(&text).expect("JSON")
}

fn write_features(workplace: &Workplace, rows: Vec<Vec<Option<f64>>>) {
    let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(rows.into_iter().map(Some));
    let features: ArrayRef = Arc::new(lists);
    write_arrow(
        &workplace.path("in.arrow"),
        Form::File,
        &[batch(vec![("features", features)])],
    );
}

fn results(workplace: &Workplace, udf: &str) -> Vec<ArrayRef> {
    let rest = "-i in.arrow -o out.arrow --init @init.json --as y";
    run(workplace, "model", udf, rest).success();
    let (_, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    column(&batches, "y")
}

fn numbers(list: &Value) -> Vec<Option<f64>> {
    let list = list.as_array().expect("a list");
    list.iter().map(Value::as_f64).collect()
}

#[test]
fn models_predict_what_their_libraries_predict() {
    for name in [
        "xgboost_binary",
        "xgboost_multiclass",
        "lightgbm_binary",
        "lightgbm_multiclass",
        "lightgbm_thresholds",
        "logistic_three",
    ] {
        let fixture = fixture(name);
        let workplace = Workplace::new();
        workplace.file("init.json", fixture["init"].to_string());
        let rows = fixture["rows"].as_array().expect("rows");
        write_features(&workplace, rows.iter().map(numbers).collect());

        // A model that predicts a value has no classes.
        if let Some(wanted) = fixture["predict_proba"].as_array() {
            let found = results(&workplace, "predict_proba").remove(0);
            assert_eq!(found.len(), wanted.len(), "{name}");
            for (row, wanted) in wanted.iter().enumerate() {
                let found = found.as_list::<i32>().value(row);
                let found = found.as_primitive::<Float64Type>();
                for (found, wanted) in found.values().iter().zip(numbers(wanted)) {
                    let wanted = wanted.expect("a number");
                    assert!(
                        (found - wanted).abs() < 1e-6,
                        "{name}, row {row}: {found} {wanted}"
                    );
                }
            }
        }
        let found = results(&workplace, "predict").remove(0);
        let found: Vec<Option<f64>> = found.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(found, numbers(&fixture["predict"]), "{name}");
    }
}

#[test]
fn flights_are_classified_as_the_formula_says() {
    let Some(flights) = data("real/flights-200k.arrow") else {
        return;
    };
    let (_, batches) = read_arrow(&flights, Form::File).expect("readable");
    let shorts = |name: &str| -> Vec<Option<f64>> {
        column(&batches, name)
            .iter()
            .flat_map(|array| array.as_primitive::<Int16Type>().iter().collect::<Vec<_>>())
            .map(|value| value.map(f64::from))
            .collect()
    };
    let rows: Vec<Vec<Option<f64>>> = shorts("delay")
        .into_iter()
        .zip(shorts("distance"))
        .map(|(delay, distance)| vec![delay, distance])
        .collect();
    let workplace = Workplace::new();
    let model =
        json!({"coefficients": [0.125, -0.001], "intercept": -1.5, "classes": ["on time", "late"]});
    workplace.file("init.json", json!({ "model": model }).to_string());
    write_features(&workplace, rows.clone());
    let found: Vec<Option<String>> = results(&workplace, "predict_class")
        .iter()
        .flat_map(|array| {
            let names = array.as_string::<i32>().iter();
            names
                .map(|name| name.map(str::to_owned))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(found.len(), rows.len());
    for (row, found) in rows.iter().zip(&found) {
        let [Some(delay), Some(distance)] = row.as_slice() else {
            panic!("flights have no nulls");
        };
        let score = -1.5 + 0.125 * delay - 0.001 * distance;
        let wanted = if score > 0.0 { "late" } else { "on time" };
        // So near to even odds, rounding may decide.
        assert!(
            score.abs() < 1e-12 || found.as_deref() == Some(wanted),
            "{row:?}"
        );
    }
}

#[test]
fn rows_and_models_that_do_not_fit_are_reported() {
    let workplace = Workplace::new();
    workplace.file(
        "init.json",
        r#"{"model": {"coefficients": [1, 2], "intercept": 0}}"#,
    );
    write_features(
        &workplace,
        vec![vec![Some(1.0), Some(2.0)], vec![Some(1.0)]],
    );
    let rest = "-i in.arrow -o out.arrow --init @init.json";
    let ended = run(&workplace, "model", "predict", rest);
    let said = ended.stderr();
    assert_eq!(ended.code(), 1, "{said}");
    assert!(
        said.contains("row 1") && said.contains("1 features"),
        "{said}"
    );
    workplace.file("init.json", r#"{"model": {"weights": [1, 2]}}"#);
    let said = run(&workplace, "model", "predict", rest).failure(1);
    assert!(said.contains("no known kind"), "{said}");
}
