//! The module `fuzzy` over real names of airports.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{Float64Type, Int32Type};

use crate::cli::{Form, Workplace, batch, data, write_arrow};
use crate::texts::{run_on_texts, texts_of, write_texts};

#[test]
fn airports_with_a_letter_missing_are_found_again() {
    let Some(airports) = data("real/airports.csv") else {
        return;
    };
    let workplace = Workplace::new();
    let input = airports.to_str().expect("a path of text");
    let rest = ["-i", input, "--arg", "text=name", "--arg", "form=lit:NFC"];
    let names = texts_of(&run_on_texts(&workplace, "text", "normalize", &rest));
    let names: Vec<String> = names.into_iter().flatten().collect();
    let init = serde_json::json!({"candidates": names, "min_score": 0.5});
    workplace.file("names.json", init.to_string());

    let queries: Vec<String> = names
        .iter()
        .step_by(20)
        .map(|name| name.chars().skip(1).collect())
        .collect();
    let texts: Vec<_> = queries.iter().cloned().map(Some).collect();
    write_texts(&workplace, "in.arrow", "text", &texts);
    let rest = ["-i", "in.arrow", "--init", "@names.json"];
    let result = run_on_texts(&workplace, "fuzzy", "best_match", &rest).remove(0);
    let matches = result.as_struct();
    assert_eq!(matches.null_count(), 0);
    let scores = matches.column_by_name("score").expect("a score");
    let scores = scores.as_primitive::<Float64Type>().values();
    // At least as good as the name that the letter was taken from.
    for (query, score) in queries.iter().zip(scores) {
        let len = query.chars().count() as f64;
        assert!(*score >= len / (len + 1.0) - 1e-9, "{query} {score}");
    }
}

#[test]
fn distances_and_codes_of_pairs() {
    let workplace = Workplace::new();
    let texts =
        |texts: [&'static str; 3]| -> ArrayRef { Arc::new(StringArray::from(texts.to_vec())) };
    let columns = vec![
        ("a", texts(["Robert", "ca", "日本"])),
        ("b", texts(["Rupert", "abc", ""])),
    ];
    write_arrow(&workplace.path("in.arrow"), Form::File, &[batch(columns)]);
    for (udf, wanted) in [
        ("levenshtein", [2, 3, 2]),
        ("damerau_levenshtein", [2, 2, 2]),
    ] {
        let result = run_on_texts(&workplace, "fuzzy", udf, &["-i", "in.arrow"]).remove(0);
        assert_eq!(
            result.as_primitive::<Int32Type>().values().as_ref(),
            wanted,
            "{udf}"
        );
    }
    let rest = ["-i", "in.arrow", "--arg", "text=b"];
    let codes = texts_of(&run_on_texts(&workplace, "fuzzy", "soundex", &rest));
    assert_eq!(
        codes,
        ["R163", "A120", ""].map(|code| Some(code.to_owned()))
    );
}
