//! Values out of JSON text. What is no valid JSON (RFC 8259) fails its row, except in `is_valid`.
//!
//! Paths are the singular queries of JSONPath (RFC 9535): `$` is the whole value, `.name` and
//! `['any name']` step into objects, `[0]` into arrays, and `[-1]` counts from their end. The functions
//! `extract…` take a path for each row; the functions `path_…` have one path, which is read once.

mod flatten;
mod path;
mod text;
mod values;

use path::Path;
use text::Kind;
use values::{as_bool, as_float, as_int, as_text};
use wasmill_guest::{InitArgs, udf};

pub use flatten::{Leaf, flatten};

/// The value at a path, as text: a string without its quotes, anything else as it stands in the JSON
/// text. Null where there is no value, or a `null`.
///
/// # Errors
/// The row fails when `json` is not JSON, or `path` is no path.
#[udf]
pub fn extract(json: &str, path: &str) -> Result<Option<String>, String> {
    as_text(Path::parse(path)?.find(json)?)
}

/// The value at a path, as JSON text: strings keep their quotes, and `null` is the text `null`. Null
/// where there is no value.
///
/// # Errors
/// The row fails when `json` is not JSON, or `path` is no path.
#[udf]
pub fn extract_json(json: &str, path: &str) -> Result<Option<String>, String> {
    Ok(Path::parse(path)?.find(json)?.map(str::to_owned))
}

/// The whole number at a path. Null where there is no value, or a `null`. `3.0` and `3e2` are whole
/// numbers.
///
/// # Errors
/// The row fails when there is something else, or a number beyond 64 bits, when `json` is not JSON, or
/// `path` is no path.
#[udf]
pub fn extract_int(json: &str, path: &str) -> Result<Option<i64>, String> {
    as_int(Path::parse(path)?.find(json)?)
}

/// The number at a path, rounded to 64-bit floating point. Null where there is no value, or a `null`.
///
/// # Errors
/// The row fails when there is something else, or a number out of range, when `json` is not JSON, or
/// `path` is no path.
#[udf]
pub fn extract_float(json: &str, path: &str) -> Result<Option<f64>, String> {
    as_float(Path::parse(path)?.find(json)?)
}

/// The `true` or `false` at a path. Null where there is no value, or a `null`.
///
/// # Errors
/// The row fails when there is something else, when `json` is not JSON, or `path` is no path.
#[udf]
pub fn extract_bool(json: &str, path: &str) -> Result<Option<bool>, String> {
    as_bool(Path::parse(path)?.find(json)?)
}

/// Whether a text is one JSON value, by RFC 8259.
#[udf]
pub fn is_valid(json: &str) -> bool {
    text::checked(json).is_ok()
}

/// How many items an array has; null for any other JSON value.
///
/// # Errors
/// The row fails when `json` is not JSON.
#[udf]
pub fn array_length(json: &str) -> Result<Option<i64>, String> {
    let value = text::checked(json)?;
    Ok((Kind::of(value) == Kind::Array).then(|| text::items(value).count() as i64))
}

/// The names in an object, in their order; null for any other JSON value.
///
/// # Errors
/// The row fails when `json` is not JSON, or a name has half a surrogate pair.
#[udf]
pub fn keys(json: &str) -> Result<Option<Vec<String>>, String> {
    let value = text::checked(json)?;
    if Kind::of(value) != Kind::Object {
        return Ok(None);
    }
    let keys = text::entries(value).map(|(key, _)| text::decode(key).map(|key| key.into_owned()));
    keys.collect::<Result<_, _>>().map(Some)
}

/// Where to look.
#[derive(InitArgs)]
pub struct JsonPathArgs {
    /// The path: `$.name`, `$['any name']`, `$.list[0]`, `$.list[-1].name`.
    #[init(min_length = 1)]
    pub path: String,
}

/// A path that was read.
pub struct JsonPath(Path);

#[udf(name = "json_path")]
impl JsonPath {
    /// Reads the path.
    ///
    /// # Errors
    /// When it is no path: says what was expected, and where.
    pub fn init(args: JsonPathArgs) -> Result<Self, String> {
        Path::parse(&args.path).map(Self)
    }

    /// The value at the path, as text: a string without its quotes, anything else as it stands in the
    /// JSON text. Null where there is no value, or a `null`.
    ///
    /// # Errors
    /// The row fails when `json` is not JSON.
    pub fn path_text(&self, json: &str) -> Result<Option<String>, String> {
        as_text(self.0.find(json)?)
    }

    /// The value at the path, as JSON text: strings keep their quotes, and `null` is the text `null`.
    /// Null where there is no value.
    ///
    /// # Errors
    /// The row fails when `json` is not JSON.
    pub fn path_json(&self, json: &str) -> Result<Option<String>, String> {
        Ok(self.0.find(json)?.map(str::to_owned))
    }

    /// The whole number at the path, as `extract_int` gives it.
    ///
    /// # Errors
    /// The row fails when there is something else, or `json` is not JSON.
    pub fn path_int(&self, json: &str) -> Result<Option<i64>, String> {
        as_int(self.0.find(json)?)
    }

    /// The number at the path, as `extract_float` gives it.
    ///
    /// # Errors
    /// The row fails when there is something else, or `json` is not JSON.
    pub fn path_float(&self, json: &str) -> Result<Option<f64>, String> {
        as_float(self.0.find(json)?)
    }

    /// The `true` or `false` at the path. Null where there is no value, or a `null`.
    ///
    /// # Errors
    /// The row fails when there is something else, or `json` is not JSON.
    pub fn path_bool(&self, json: &str) -> Result<Option<bool>, String> {
        as_bool(self.0.find(json)?)
    }
}

#[cfg(test)]
mod tests {
    use wasmill_guest::testing::{Instance, column, handle};

    use super::*;

    const MOVIE: &str = r#"{"Title": "L\u00e9on", "Gross": 19552639, "Rating": 8.60, "Votes": 3e2,
        "Cast": ["Reno", "Portman"], "Source": null, "Seen": true, "Big": 12345678901234567890}"#;

    #[test]
    fn values_come_as_text() {
        let text = |path| extract(MOVIE, path).expect("a good path");
        assert_eq!(text("$.Title").as_deref(), Some("Léon"));
        assert_eq!(text("$.Rating").as_deref(), Some("8.60"));
        assert_eq!(text("$.Big").as_deref(), Some("12345678901234567890"));
        assert_eq!(text("$.Cast").as_deref(), Some(r#"["Reno", "Portman"]"#));
        assert_eq!(text("$.Cast[-1]").as_deref(), Some("Portman"));
        assert_eq!((text("$.Source"), text("$.None")), (None, None));
    }

    #[test]
    fn json_text_tells_null_from_nothing() {
        let json = |path| extract_json(MOVIE, path).expect("a good path");
        assert_eq!(json("$.Source").as_deref(), Some("null"));
        assert_eq!(json("$.Title").as_deref(), Some(r#""L\u00e9on""#));
        assert_eq!(json("$.None"), None);
    }

    #[test]
    fn typed_values_refuse_other_types() {
        assert_eq!(extract_int(MOVIE, "$.Gross"), Ok(Some(19_552_639)));
        assert_eq!(extract_int(MOVIE, "$.Votes"), Ok(Some(300)));
        assert_eq!(extract_int("-0.0", "$"), Ok(Some(0)));
        assert_eq!(extract_int("-9223372036854775808", "$"), Ok(Some(i64::MIN)));
        assert_eq!(extract_int(MOVIE, "$.Source"), Ok(None));
        assert!(extract_int(MOVIE, "$.Rating").is_err_and(|said| said.contains("8.60")));
        assert!(extract_int(MOVIE, "$.Big").is_err());
        for (number, int) in [
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("1.50e1", 15),
            ("-120.0e-1", -12),
            ("9.223372036854775807E+18", i64::MAX),
            ("-0e999999999999999999999", 0),
            ("0.00", 0),
            ("1e18", 1_000_000_000_000_000_000),
        ] {
            assert_eq!(extract_int(number, "$"), Ok(Some(int)), "{number}");
        }
        for number in [
            "1.00000000000000000001",
            "12e-2",
            "1e19",
            "1e-999",
            "1e99999999999999999999",
        ] {
            assert!(extract_int(number, "$").is_err(), "{number}");
        }
        let said = extract_int(MOVIE, "$.Title").expect_err("text");
        assert_eq!(said, "there is text, not a number");
        assert_eq!(extract_float(MOVIE, "$.Rating"), Ok(Some(8.6)));
        assert_eq!(
            extract_float(MOVIE, "$.Big"),
            Ok(Some(12_345_678_901_234_567_890.0))
        );
        assert!(extract_float("1e999", "$").is_err_and(|said| said.contains("out of range")));
        assert_eq!(extract_bool(MOVIE, "$.Seen"), Ok(Some(true)));
        assert!(extract_bool(MOVIE, "$.Cast").is_err_and(|said| said.contains("an array")));
    }

    #[test]
    fn broken_json_fails_the_row_and_nothing_else() {
        let texts = ["[1, 2]", "[1, 2", "{}"].map(|text| Some(text.to_owned()));
        let answer = Instance::new()
            .call(&handle!(array_length)[0], 3, &[column(texts)])
            .expect("the call works");
        let lengths = answer.rows::<Option<i64>>();
        assert_eq!((lengths[0], lengths[2]), (Some(2), None));
        let errors = answer.errors();
        assert_eq!((errors.len(), errors[0].row), (1, 1));
        assert!(
            errors[0].message.contains("not valid JSON"),
            "{}",
            errors[0].message
        );
    }

    #[test]
    fn validity_is_that_of_the_whole_text() {
        for json in ["1", " \"\" ", "[[],{}]", "1e999", "\"\\ud800\"", "-0"] {
            assert!(is_valid(json), "{json}");
        }
        for json in [
            "",
            "1 1",
            "01",
            "+1",
            "1.",
            ".5",
            "NaN",
            "'a'",
            "[1,]",
            "{a:1}",
            "\"\t\"",
            "\u{feff}1",
        ] {
            assert!(!is_valid(json), "{json}");
        }
    }

    #[test]
    fn keys_keep_their_order() {
        let names = keys(r#"{"b": 1, "a\n": {"c": 2}, "": 3}"#).expect("JSON");
        assert_eq!(
            names,
            Some(vec!["b".to_owned(), "a\n".to_owned(), String::new()])
        );
        assert_eq!(keys("[1]"), Ok(None));
        assert!(keys(r#"{"\ud800": 1}"#).is_err());
    }

    #[test]
    fn a_path_is_read_once_and_a_wrong_one_refused() {
        let (instance, state) = (Instance::new(), handle!(JsonPath));
        let handle = instance
            .init(&state, r#"{"path":"$.a[0]"}"#)
            .expect("a state");
        let texts = [column([
            Some("{\"a\":[7]}".to_owned()),
            None,
            Some("{}".to_owned()),
        ])];
        let [_, _, int, ..] = state.methods else {
            panic!("five methods")
        };
        let answer = instance
            .call_on(handle, int, 3, &texts)
            .expect("the call works");
        let found = answer.rows::<Option<i64>>();
        assert_eq!((found[0], found[2]), (Some(7), None));
        let said = instance
            .init(&state, r#"{"path":"a"}"#)
            .err()
            .unwrap_or_default();
        assert!(said.contains("begins with `$`"), "{said}");
    }
}
