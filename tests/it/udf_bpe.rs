//! The module `tokenize`, byte-pair encoding: real titles, with the vocabulary that was trained on them.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::Int32Type;
use serde_json::{Value, json};

use crate::cli::{Form, Workplace, batch, column, data, read_arrow, write_arrow};
use crate::cli_run::run;

/// Init arguments, texts and tokens that `udfs/tokenize/tests/make_fixtures.py` wrote.
fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("udfs/tokenize/tests")
        .join(name)
        .with_extension("json");
    let text = std::fs::read_to_string(path).expect("a fixture");
    serde_json::from_str(&text).expect("JSON")
}

fn write_texts(workplace: &Workplace, texts: &[String]) {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    write_arrow(
        &workplace.path("in.arrow"),
        Form::File,
        &[batch(vec![("text", texts)])],
    );
}

#[test]
fn texts_have_the_tokens_of_the_library() {
    for name in ["tokenizers", "tiktoken_gpt2", "tiktoken_cl100k"] {
        let fixture = fixture(name);
        let workplace = Workplace::new();
        workplace.file("init.json", fixture["init"].to_string());
        let texts = fixture["texts"].as_array().expect("texts");
        let texts: Vec<String> = texts
            .iter()
            .map(|text| text.as_str().expect("a text").to_owned())
            .collect();
        write_texts(&workplace, &texts);
        let rest = "-i in.arrow -o out.arrow --init @init.json --as tokens";
        run(&workplace, "tokenize", "bpe_encode", rest).success();
        let (_, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
        let found = column(&batches, "tokens").remove(0);
        for (row, text) in texts.iter().enumerate() {
            let tokens = found.as_list::<i32>().value(row);
            let tokens = tokens.as_primitive::<Int32Type>().values().to_vec();
            assert_eq!(json!(tokens), fixture["tokens"][row], "{name}: {text:?}");
        }
    }
}

#[test]
fn titles_of_films_come_back_from_their_tokens() {
    let Some(films) = data("real/movies.json") else {
        return;
    };
    let films = std::fs::read_to_string(films).expect("a file");
    let films: Value = serde_json::from_str(&films).expect("JSON");
    let titles: Vec<String> = films
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|film| film["Title"].as_str().map(str::to_owned))
        .collect();
    let workplace = Workplace::new();
    workplace.file("init.json", fixture("tokenizers")["init"].to_string());
    write_texts(&workplace, &titles);
    let rest = "-i in.arrow -o tokens.arrow --init @init.json --as tokens --slots 2";
    run(&workplace, "tokenize", "bpe_encode", rest).success();
    let (_, batches) = read_arrow(&workplace.path("tokens.arrow"), Form::File).expect("readable");
    let tokens: usize = column(&batches, "tokens")
        .iter()
        .map(|lists| lists.as_list::<i32>().values().len())
        .sum();
    // By the library of Hugging Face.
    assert_eq!(tokens, 25_848);
    let rest = "-i tokens.arrow -o out.arrow --init @init.json --as back";
    run(&workplace, "tokenize", "bpe_decode", rest).success();
    let (_, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    let back: Vec<String> = column(&batches, "back")
        .iter()
        .flat_map(|texts| {
            let texts = texts.as_string::<i32>().iter().flatten();
            texts.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert!(back == titles);
}

#[test]
fn tokens_are_decoded_from_lists_of_json_and_lists_with_nulls() {
    let workplace = Workplace::new();
    workplace.file(
        "tokens.jsonl",
        "{\"tokens\": [1, 2]}\n{\"tokens\": []}\n{\"tokens\": null}\n{\"tokens\": [1, null]}\n",
    );
    let words = json!({"vocabulary": ["[UNK]", "un", "##able"]});
    workplace.file("words.json", words.to_string());
    let run_with = |more: &str| {
        let rest = format!("-i tokens.jsonl -q --init @words.json --format jsonl {more}");
        run(&workplace, "tokenize", "decode", &rest)
    };
    let decoded = run_with("--on-error null --select decode")
        .success()
        .stdout();
    let expected =
        "{\"decode\":\"un ##able\"}\n{\"decode\":\"\"}\n{\"decode\":null}\n{\"decode\":null}\n";
    assert_eq!(decoded, expected);
    let narrow = run_with("--on-error null --select decode --arg tokens=tokens::List(Int32)");
    assert_eq!(narrow.success().stdout(), expected);
    let ended = run_with("");
    let said = ended.stderr();
    assert_eq!(ended.code(), 1, "{said}");
    assert!(
        said.contains("row 3") && said.contains("an item of the list is null"),
        "{said}"
    );
}
