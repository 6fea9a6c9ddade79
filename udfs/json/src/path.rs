//! Paths into JSON: the singular queries of JSONPath (RFC 9535), which name one value at most.

use crate::text::{self, Kind};

/// Longer paths are refused: each step reads its part of the JSON text again.
const MOST_STEPS: usize = 128;

/// The greatest index that RFC 9535 allows, either way.
const GREATEST_INDEX: i64 = (1 << 53) - 1;

/// A path that was read: `$`, and steps such as `.name`, `['name']`, `[0]` or `[-1]`.
#[derive(Debug, PartialEq)]
pub struct Path(Vec<Step>);

#[derive(Debug, PartialEq)]
enum Step {
    /// Into the value of a name. The last counts where an object has the name several times.
    Name(String),
    /// Into an item of an array, counted from 0; from the end, with -1 for the last.
    Index(i64),
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// Says what was expected, and at which character.
    pub fn parse(path: &str) -> Result<Self, String> {
        let mut reader = Reader { path, at: 0 };
        let steps = reader.steps();
        steps.map(Self).map_err(|expected| {
            let character = path.get(..reader.at).map_or(0, |read| read.chars().count()) + 1;
            format!("path \"{path}\": {expected} at character {character}")
        })
    }

    /// The JSON text of the value at this path, or `None` where there is none.
    ///
    /// # Errors
    /// When the text is not JSON.
    pub fn find<'j>(&self, json: &'j str) -> Result<Option<&'j str>, String> {
        let mut value = text::checked(json)?;
        for step in &self.0 {
            let found = match (step, Kind::of(value)) {
                (Step::Name(name), Kind::Object) => named(value, name)?,
                (Step::Index(index), Kind::Array) => item(value, *index)?,
                _ => None,
            };
            match found {
                Some(found) => value = found,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }
}

fn named<'j>(object: &'j str, name: &str) -> Result<Option<&'j str>, String> {
    let mut found = None;
    for (key, value) in text::entries(object) {
        if text::decode(key)? == name {
            found = Some(value);
        }
    }
    Ok(found)
}

fn item(array: &str, index: i64) -> Result<Option<&str>, String> {
    let mut items = text::items(array);
    Ok(match usize::try_from(index) {
        Ok(index) => items.nth(index),
        Err(_) => {
            let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
            let count = text::items(array).count();
            count.checked_sub(from_end).and_then(|at| items.nth(at))
        }
    })
}

/// Reads a path from left to right. What fails says what was expected where the reader is.
struct Reader<'p> {
    path: &'p str,
    at: usize,
}

impl Reader<'_> {
    fn steps(&mut self) -> Result<Vec<Step>, &'static str> {
        if !self.takes('$') {
            return Err("a path begins with `$`: it is missing");
        }
        let mut steps = Vec::new();
        while self.at < self.path.len() {
            // Blanks may stand before a step, but not at the end.
            self.skip_blanks();
            if steps.len() == MOST_STEPS {
                return Err("a path has at most 128 steps: there is one more");
            }
            let step = if self.takes('[') {
                self.skip_blanks();
                let step = match self.peek() {
                    Some(quote @ ('\'' | '"')) => Step::Name(self.quoted(quote)?),
                    _ => Step::Index(self.index()?),
                };
                self.skip_blanks();
                if !self.takes(']') {
                    return Err("`]` is missing");
                }
                step
            } else if self.takes('.') {
                Step::Name(self.name()?)
            } else {
                return Err("`.name`, `['name']` or `[index]` is missing");
            };
            steps.push(step);
        }
        Ok(steps)
    }

    fn peek(&self) -> Option<char> {
        self.path.get(self.at..)?.chars().next()
    }

    fn takes(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn skip_blanks(&mut self) {
        while let Some(' ' | '\t' | '\n' | '\r') = self.peek() {
            self.at += 1;
        }
    }

    /// The characters up to the first that is not wanted.
    fn run(&mut self, wanted: impl Fn(char) -> bool) -> &str {
        let rest = self.path.get(self.at..).unwrap_or_default();
        let len = rest
            .find(|character| !wanted(character))
            .unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn name(&mut self) -> Result<String, &'static str> {
        if !self.peek().is_some_and(begins_name) {
            return Err(
                "a name begins with a letter or `_`, others are written `['name']`: it is missing",
            );
        }
        Ok(self.run(continues_name).to_owned())
    }

    fn index(&mut self) -> Result<i64, &'static str> {
        let start = self.at;
        let negative = self.takes('-');
        let digits = self.run(|character| character.is_ascii_digit());
        let canonical = match digits.as_bytes() {
            [] => false,
            [b'0'] => !negative,
            [first, ..] => *first != b'0',
        };
        let number = digits.parse().ok().filter(|_| canonical);
        let number = number.filter(|number: &i64| *number <= GREATEST_INDEX);
        let Some(number) = number else {
            self.at = start;
            return Err("a quoted name, or an index such as 0 or -1, is missing");
        };
        Ok(if negative { -number } else { number })
    }

    /// A name in quotes, with the escapes of RFC 9535: those of JSON, and the quote itself.
    fn quoted(&mut self, quote: char) -> Result<String, &'static str> {
        let start = self.at;
        self.at += 1;
        // Put as a JSON string, so that one decoder knows the escapes.
        let mut json = String::from("\"");
        loop {
            match self.peek() {
                None => return Err("the closing quote is missing"),
                Some(character) if character == quote => break,
                Some('\\') => {
                    self.at += 1;
                    let Some(escaped) = self.peek() else {
                        return Err("the closing quote is missing");
                    };
                    self.at += escaped.len_utf8();
                    match escaped {
                        '\'' | '"' if escaped != quote => {
                            self.at = start;
                            return Err("the other quote needs no `\\`: there is one");
                        }
                        '\'' => json.push('\''),
                        _ => json.extend(['\\', escaped]),
                    }
                }
                Some(character) => {
                    self.at += character.len_utf8();
                    if character == '"' {
                        json.push('\\');
                    }
                    json.push(character);
                }
            }
        }
        json.push('"');
        let name = text::decode(&json).map_err(|_| {
            self.at = start;
            "the name has an escape or character that JSON does not allow: it begins"
        })?;
        self.at += 1;
        Ok(name.into_owned())
    }
}

fn begins_name(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_' || !character.is_ascii()
}

fn continues_name(character: char) -> bool {
    begins_name(character) || character.is_ascii_digit()
}

/// Appends the step to a name, as short as the syntax allows.
pub fn push_name(path: &mut String, name: &str) {
    let mut characters = name.chars();
    if characters.next().is_some_and(begins_name) && characters.all(continues_name) {
        path.push('.');
        path.push_str(name);
        return;
    }
    path.push_str("['");
    for character in name.chars() {
        match character {
            '\'' => path.push_str("\\'"),
            '\\' => path.push_str("\\\\"),
            '\n' => path.push_str("\\n"),
            '\r' => path.push_str("\\r"),
            '\t' => path.push_str("\\t"),
            '\u{8}' => path.push_str("\\b"),
            '\u{c}' => path.push_str("\\f"),
            control if control < ' ' => {
                path.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => path.push(other),
        }
    }
    path.push_str("']");
}

/// Appends the step to an item.
pub fn push_index(path: &mut String, index: usize) {
    path.push_str(&format!("[{index}]"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'j>(json: &'j str, path: &str) -> Option<&'j str> {
        let path = Path::parse(path).expect("a good path");
        path.find(json).expect("good JSON")
    }

    #[test]
    fn steps_lead_to_one_value() {
        let json = r#" {"a": {"b c": [10, {"é": null}, "x"]}, "1": true} "#;
        assert_eq!(find(json, "$").map(str::len), Some(json.len() - 2));
        assert_eq!(find(json, "$.a['b c'][0]"), Some("10"));
        assert_eq!(find(json, "$ .a [ \"b c\" ] [ -2 ].é"), Some("null"));
        assert_eq!(find(json, "$['1']"), Some("true"));
        assert_eq!(find(json, "$.a['b c'][-1]"), Some("\"x\""));
    }

    #[test]
    fn what_is_not_there_is_no_error() {
        let json = r#"{"a": [1]}"#;
        for path in [
            "$.b",
            "$[0]",
            "$.a.x",
            "$.a[1]",
            "$.a[-2]",
            "$.a[0].x",
            "$.a[9007199254740991]",
        ] {
            assert_eq!(find(json, path), None, "{path}");
        }
    }

    #[test]
    fn escapes_are_understood_on_both_sides() {
        let json = r#"{"it's": 1, "say \"x\"": 2, "\u00e9\ud83e\udd80": 3, "a\\b": 4}"#;
        assert_eq!(find(json, r"$['it\'s']"), Some("1"));
        assert_eq!(find(json, r#"$["it's"]"#), Some("1"));
        assert_eq!(find(json, r#"$['say "x"']"#), Some("2"));
        assert_eq!(find(json, r#"$["say \"x\""]"#), Some("2"));
        assert_eq!(find(json, "$.é🦀"), Some("3"));
        assert_eq!(find(json, r"$['\u00E9\uD83E\uDD80']"), Some("3"));
        assert_eq!(find(json, r"$['a\\b']"), Some("4"));
    }

    #[test]
    fn of_equal_names_the_last_counts() {
        assert_eq!(find(r#"{"a": 1, "a": 2}"#, "$.a"), Some("2"));
    }

    #[test]
    fn wrong_paths_are_refused_with_the_place() {
        for (path, character) in [
            ("", 1),
            ("a", 1),
            ("$.", 3),
            ("$.1", 3),
            ("$é", 2),
            ("$.é-", 4),
            ("$.a ", 5),
            ("$[", 3),
            ("$[01]", 3),
            ("$[-0]", 3),
            ("$[9007199254740992]", 3),
            ("$[0", 4),
            ("$['a", 5),
            ("$['a\\", 6),
            ("$['\\x']", 3),
            ("$['\\\"']", 3),
            ("$['\\ud800']", 3),
            ("$['a\n']", 3),
            ("$[*]", 3),
            ("$..a", 3),
            ("$.a[?@.b]", 5),
        ] {
            let said = Path::parse(path).expect_err(path);
            assert!(
                said.ends_with(&format!("at character {character}")),
                "{said}"
            );
        }
        assert!(Path::parse(&format!("${}", "[0]".repeat(128))).is_ok());
        assert!(Path::parse(&format!("${}", "[0]".repeat(129))).is_err());
    }

    #[test]
    fn written_steps_are_read_back() {
        for name in [
            "a",
            "é9",
            "_",
            "",
            "9",
            "a b",
            "it's",
            "\\",
            "\"",
            "\n\u{1}\u{8}\u{c}\t\r",
        ] {
            let mut path = "$".to_owned();
            push_name(&mut path, name);
            push_index(&mut path, 7);
            let steps = vec![Step::Name(name.to_owned()), Step::Index(7)];
            assert_eq!(Path::parse(&path), Ok(Path(steps)), "{path}");
        }
    }
}
