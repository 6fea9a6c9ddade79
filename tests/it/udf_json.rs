//! The module `json` over real movies.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

use crate::cli::{Workplace, module};
use crate::cli_run::run_with;
use crate::texts::{movie_fields, movies, run_on_texts, texts_of, write_texts};

#[test]
fn values_of_all_movies_are_found_by_path() {
    let (Some(movies), Some(titles)) = (movies(), movie_fields("Title")) else {
        return;
    };
    let workplace = Workplace::new();
    let texts: Vec<_> = movies.iter().map(|movie| Some(movie.to_string())).collect();
    write_texts(&workplace, "movies.arrow", "json", &texts);

    let rest = ["-i", "movies.arrow", "--arg", "path=lit:$.Title"];
    let found = texts_of(&run_on_texts(&workplace, "json", "extract", &rest));
    assert_eq!(found, titles);

    let rest = [
        "-i",
        "movies.arrow",
        "--init",
        r#"{"path":"$['US Gross']"}"#,
    ];
    let result = run_on_texts(&workplace, "json", "path_int", &rest);
    let gross: Vec<_> = result
        .iter()
        .flat_map(|array| array.as_primitive::<Int64Type>().iter())
        .collect();
    let wanted: Vec<_> = movies
        .iter()
        .map(|movie| movie["US Gross"].as_i64())
        .collect();
    assert_eq!(gross, wanted);
}

#[test]
fn flattened_values_have_paths_that_lead_back() {
    let workplace = Workplace::new();
    let json = r#"{"a": [1.50, {"b c": null}], "d": "x"}"#;
    write_texts(
        &workplace,
        "in.arrow",
        "json",
        &[Some(json.to_owned()), None],
    );
    let result = run_on_texts(&workplace, "json", "flatten", &["-i", "in.arrow"]).remove(0);
    assert!(result.is_null(1));
    let leaves = result.as_list::<i32>().value(0);
    let leaves = leaves.as_struct();
    let field = |name: &str| texts_of(&[leaves.column_by_name(name).expect(name).clone()]);
    let (paths, values) = (field("path"), field("value"));
    assert_eq!(
        paths,
        ["$.a[0]", "$.a[1]['b c']", "$.d"].map(|path| Some(path.to_owned()))
    );
    for (path, value) in paths.into_iter().flatten().zip(values) {
        let argument = format!("path=lit:{path}");
        let rest = ["-i", "in.arrow", "--arg", argument.as_str()];
        let found = texts_of(&run_on_texts(&workplace, "json", "extract", &rest));
        assert_eq!(found, [value, None], "{path}");
    }
}

#[test]
fn broken_json_fails_its_row_with_the_place() {
    let workplace = Workplace::new();
    let texts = ["{\"a\": 1}", "{\"a\": "].map(|text| Some(text.to_owned()));
    write_texts(&workplace, "in.arrow", "json", &texts);
    let rest = ["-i", "in.arrow", "-o", "out.arrow"];
    let said = run_with(&workplace, &module("json"), "keys", &rest).failure(1);
    assert!(
        said.contains("row 1") && said.contains("at byte 6"),
        "{said}"
    );
    let valid = run_on_texts(&workplace, "json", "is_valid", &["-i", "in.arrow"]).remove(0);
    assert_eq!(
        valid.as_boolean().iter().collect::<Vec<_>>(),
        [Some(true), Some(false)]
    );
}
