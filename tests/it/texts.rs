//! What the tests of the modules over text share: columns of text in, results out.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};

use crate::cli::{Form, Workplace, batch, column, data, module, read_arrow, write_arrow};
use crate::cli_run::run_with;

/// Writes a column of texts.
pub fn write_texts(workplace: &Workplace, file: &str, name: &str, texts: &[Option<String>]) {
    let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    write_arrow(
        &workplace.path(file),
        Form::File,
        &[batch(vec![(name, texts)])],
    );
}

/// Runs a UDF of a module with further arguments; the answer is its result.
#[track_caller]
pub fn run_on_texts(workplace: &Workplace, name: &str, udf: &str, rest: &[&str]) -> Vec<ArrayRef> {
    let mut arguments = rest.to_vec();
    arguments.extend(["-o", "result.arrow", "--as", "result", "--select", "result"]);
    run_with(workplace, &module(name), udf, &arguments).success();
    let (_, batches) =
        read_arrow(&workplace.path("result.arrow"), Form::File).expect("an Arrow file");
    column(&batches, "result")
}

/// The texts of a result.
pub fn texts_of(result: &[ArrayRef]) -> Vec<Option<String>> {
    let texts = result
        .iter()
        .flat_map(|array| array.as_string::<i32>().iter());
    texts.map(|text| text.map(str::to_owned)).collect()
}

/// The movies of the test data, or `None`, said aloud, where they are missing.
pub fn movies() -> Option<Vec<serde_json::Value>> {
    let text = std::fs::read_to_string(data("real/movies.json")?).expect("a readable file");
    Some(serde_json::from_str(&text).expect("a list of movies"))
}

/// One field of all movies, as text; `None` where there are no movies.
pub fn movie_fields(name: &str) -> Option<Vec<Option<String>>> {
    let text = |movie: &serde_json::Value| match &movie[name] {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    Some(movies()?.iter().map(text).collect())
}
