//! The module `text` over real titles and names of airports.

use arrow::array::AsArray;

use crate::cli::{Workplace, data, module};
use crate::cli_run::run_with;
use crate::texts::{movie_fields, run_on_texts, texts_of, write_texts};

#[test]
fn slugs_of_all_airports_are_ascii_words() {
    let Some(airports) = data("real/airports.csv") else {
        return;
    };
    let workplace = Workplace::new();
    let input = airports.to_str().expect("a path of text");
    let rest = ["-i", input, "--arg", "text=name"];
    let slugs = texts_of(&run_on_texts(&workplace, "text", "slugify", &rest));
    assert_eq!(slugs.len(), 1458);
    assert_eq!(slugs[0].as_deref(), Some("lansdowne-airport"));
    for slug in slugs.into_iter().flatten() {
        let is_word = |word: &str| {
            let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            !word.is_empty() && word.bytes().all(lower)
        };
        assert!(slug.split('-').all(is_word), "{slug}");
    }
}

#[test]
fn one_pattern_serves_several_functions() {
    let Some(dates) = movie_fields("Release Date") else {
        return;
    };
    let workplace = Workplace::new();
    write_texts(&workplace, "dates.arrow", "text", &dates);
    let init = r#"{"pattern":"^(?<month>\\w{3}) \\d\\d (\\d{4})$","group":"2","replacement":"$2 ${month}"}"#;
    let rest = ["-i", "dates.arrow", "--init", init];
    let years = texts_of(&run_on_texts(&workplace, "text", "regex_extract", &rest));
    let turned = texts_of(&run_on_texts(&workplace, "text", "regex_replace", &rest));
    let matched = run_on_texts(&workplace, "text", "regex_matches", &rest);
    assert_eq!(years.len(), dates.len());
    for (date, (year, turned)) in dates.iter().zip(years.iter().zip(&turned)) {
        let date = date.as_deref().expect("every movie has a date");
        assert_eq!(year.as_deref(), date.get(7..));
        assert_eq!(
            turned.as_deref(),
            Some(format!("{} {}", &date[7..], &date[..3]).as_str())
        );
    }
    let true_count: usize = matched
        .iter()
        .map(|array| array.as_boolean().true_count())
        .sum();
    assert_eq!(true_count, dates.len());
}

#[test]
fn a_wrong_pattern_is_shown_with_the_fault() {
    let workplace = Workplace::new();
    write_texts(&workplace, "in.arrow", "text", &[Some("a".to_owned())]);
    let rest = [
        "-i",
        "in.arrow",
        "--init",
        r#"{"pattern":"a(b"}"#,
        "-o",
        "out.arrow",
    ];
    let said = run_with(&workplace, &module("text"), "regex_matches", &rest).failure(1);
    assert!(
        said.contains("init failed") && said.contains("unclosed group"),
        "{said}"
    );
}

#[test]
fn normal_forms_and_case_folding_are_those_of_unicode() {
    let workplace = Workplace::new();
    let texts = ["Straße", "ﬁ", "e\u{301}", ""].map(|text| Some(text.to_owned()));
    write_texts(&workplace, "in.arrow", "text", &texts);
    let folded = texts_of(&run_on_texts(
        &workplace,
        "text",
        "fold_case",
        &["-i", "in.arrow"],
    ));
    assert_eq!(
        folded,
        ["strasse", "fi", "e\u{301}", ""].map(|text| Some(text.to_owned()))
    );
    let rest = ["-i", "in.arrow", "--arg", "form=lit:NFKC"];
    let normal = texts_of(&run_on_texts(&workplace, "text", "normalize", &rest));
    assert_eq!(
        normal,
        ["Straße", "fi", "é", ""].map(|text| Some(text.to_owned()))
    );
}
