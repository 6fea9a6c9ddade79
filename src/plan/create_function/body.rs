//! The text after `AS`: where the module is, which UDF of it, and settings.

use serde_json::Value;

/// `PLACE#UDF?KEY=VALUE&…`
#[derive(Debug, PartialEq)]
pub(super) struct Body {
    pub(super) place: String,
    /// The UDF; the function's own name where the body names none.
    pub(super) udf: Option<String>,
    pub(super) sha256: Option<String>,
    pub(super) init: Option<Value>,
    /// The others, as `SET wasmill.…` takes them.
    pub(super) settings: Vec<(String, String)>,
}

impl Body {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // A `#` in the JSON of `init` stands behind the first.
        let (place, rest) = match text.split_once('#') {
            Some((place, rest)) => (place, rest),
            None => (text, ""),
        };
        let (udf, settings) = match rest.split_once('?') {
            Some((udf, settings)) => (udf, settings),
            None => (rest, ""),
        };
        if place.is_empty() {
            return Err("it names no module".to_owned());
        }
        let mut body = Body {
            place: place.to_owned(),
            udf: Some(udf.to_owned()).filter(|udf| !udf.is_empty()),
            sha256: None,
            init: None,
            settings: Vec::new(),
        };
        let mut rest = settings;
        while !rest.is_empty() {
            let (key, after) = rest
                .split_once('=')
                .ok_or_else(|| format!("the setting {rest:?} has no value"))?;
            rest = match key {
                "init" => body.take_init(after)?,
                _ => {
                    let (value, after) = after.split_once('&').unwrap_or((after, ""));
                    match key {
                        "sha256" => body.sha256 = Some(digest(value)?),
                        _ => body.settings.push((key.to_owned(), value.to_owned())),
                    }
                    after
                }
            };
        }
        Ok(body)
    }

    /// Takes the JSON at the beginning of `text`, which may hold any character.
    fn take_init<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let value = match values.next() {
            Some(Ok(value @ Value::Object(_))) => value,
            Some(Ok(_)) | None => return Err("init is not a JSON object".to_owned()),
            Some(Err(e)) => return Err(format!("init is not JSON: {e}")),
        };
        let after = text.get(values.byte_offset()..).unwrap_or_default();
        self.init = Some(value);
        match after.strip_prefix('&') {
            Some(after) => Ok(after),
            None if after.is_empty() => Ok(after),
            None => Err(format!("{after:?} stands behind the JSON of init")),
        }
    }
}

fn digest(text: &str) -> Result<String, String> {
    let fits = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| text.to_owned()).ok_or_else(|| {
        format!("sha256={text} is not a SHA-256 digest, which has 64 hexadecimal digits")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_names_place_udf_and_settings() {
        let body = Body::parse("a/b.wasm").unwrap();
        assert_eq!((body.place.as_str(), body.udf), ("a/b.wasm", None));
        let body = Body::parse("b.wasm#f").unwrap();
        assert_eq!(body.udf.as_deref(), Some("f"));
        let pin = "0aF".repeat(21) + "0";
        let text =
            format!(r##"b.wasm#f?slots=2&init={{"k":"a&b#c?d"}}&sha256={pin}&on_error=null"##);
        let body = Body::parse(&text).unwrap();
        assert_eq!(body.init, Some(json!({"k": "a&b#c?d"})));
        assert_eq!(body.sha256, Some(pin));
        let settings = [("slots", "2"), ("on_error", "null")];
        assert_eq!(
            body.settings,
            settings.map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (text, why) in [
            ("", "names no module"),
            ("#f", "names no module"),
            ("a.wasm#f?slots", "has no value"),
            ("a.wasm#f?sha256=12", "64 hexadecimal digits"),
            ("a.wasm#f?init=3", "not a JSON object"),
            ("a.wasm#f?init={", "not JSON"),
            ("a.wasm#f?init={}x", "behind the JSON"),
        ] {
            let error = Body::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
