//! JSON values as a list of what they consist of.

use wasmill_guest::{ArrowType, udf};

use crate::path;
use crate::text::{self, Kind};
use crate::values::as_text;

/// Values nested deeper than this are not flattened.
const DEEPEST: usize = 128;

/// The paths of one flattened row have at most this many bytes together, so that hostile nesting
/// cannot make them many times larger than the text.
const MOST_PATH_BYTES: usize = 16 << 20;

/// A value and the way to it.
#[derive(ArrowType, Debug, PartialEq)]
pub struct Leaf {
    /// Where the value is: a path, as `extract` takes it.
    pub path: String,
    /// The value, as `extract` gives it; null for a `null`.
    pub value: Option<String>,
}

/// All values of a JSON text that have no parts, in their order, each with its path. Empty objects and
/// arrays count as values.
///
/// # Errors
/// The row fails when `json` is not JSON, is nested deeper than 128, needs more than 16 MiB of paths,
/// or has a string with half a surrogate pair.
#[udf]
pub fn flatten(json: &str) -> Result<Vec<Leaf>, String> {
    let mut leaves = Leaves::default();
    let mut path = "$".to_owned();
    leaves.walk(text::checked(json)?, &mut path, 0)?;
    Ok(leaves.leaves)
}

#[derive(Default)]
struct Leaves {
    leaves: Vec<Leaf>,
    path_bytes: usize,
}

impl Leaves {
    fn walk(&mut self, value: &str, path: &mut String, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err(format!("the JSON is nested deeper than {DEEPEST}"));
        }
        let (own, mut parts) = (path.len(), 0);
        match Kind::of(value) {
            Kind::Object => {
                for (key, value) in text::entries(value) {
                    path::push_name(path, &text::decode(key)?);
                    self.walk(value, path, depth + 1)?;
                    path.truncate(own);
                    parts += 1;
                }
            }
            Kind::Array => {
                for value in text::items(value) {
                    path::push_index(path, parts);
                    self.walk(value, path, depth + 1)?;
                    path.truncate(own);
                    parts += 1;
                }
            }
            _ => {}
        }
        if parts > 0 {
            return Ok(());
        }
        self.path_bytes += own;
        if self.path_bytes > MOST_PATH_BYTES {
            return Err("the paths of the JSON need more than 16 MiB".to_owned());
        }
        self.leaves.push(Leaf {
            path: path.clone(),
            value: as_text(Some(value))?,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract;

    #[test]
    fn flattened_paths_lead_back_to_their_values() {
        let json =
            r#"{"a": {"b": [1.0, "x", null, {}], "it's \\ \"": true}, "": [], "é1": {"2": -0}}"#;
        let leaves = flatten(json).expect("JSON");
        let paths: Vec<_> = leaves.iter().map(|leaf| leaf.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "$.a.b[0]",
                "$.a.b[1]",
                "$.a.b[2]",
                "$.a.b[3]",
                r#"$.a['it\'s \\ "']"#,
                "$['']",
                "$.é1['2']"
            ]
        );
        for leaf in leaves {
            assert_eq!(extract(json, &leaf.path), Ok(leaf.value), "{}", leaf.path);
        }
        let whole = Leaf {
            path: "$".to_owned(),
            value: Some("1".to_owned()),
        };
        assert_eq!(flatten(" 1 "), Ok(vec![whole]));
    }

    #[test]
    fn hostile_nesting_fails_the_row() {
        let deep = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(flatten(&deep(DEEPEST)).is_ok());
        assert!(flatten(&deep(100_000)).is_err_and(|said| said.contains("deeper")));
        let wide = format!("{{\"{}\":[{}1]}}", "x".repeat(100_000), "1,".repeat(1000));
        assert!(flatten(&wide).is_err_and(|said| said.contains("16 MiB")));
    }
}
