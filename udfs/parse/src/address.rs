//! URLs, by the URL Standard of the WHATWG.

use url::Url;
use wasmill_guest::{ArrowType, udf};

use crate::shown;

/// The parts of a URL.
#[derive(ArrowType, Debug, PartialEq)]
pub struct UrlParts {
    /// As `https`, in lower case.
    pub scheme: String,
    /// The host in lower case, names beyond ASCII in Punycode, IPv6 addresses in brackets; null where
    /// there is none.
    pub host: Option<String>,
    /// The port, where none is given that of the scheme; null where there is neither.
    pub port: Option<u16>,
    /// The path, with `%` escapes as they are; empty where there is none.
    pub path: String,
    /// What comes after `?`, with its escapes; null without `?`.
    pub query: Option<String>,
    /// What comes after `#`, with its escapes; null without `#`.
    pub fragment: Option<String>,
}

/// The parts of an absolute URL, put into the standard's form: scheme and host in lower case, `..` in
/// paths resolved, blanks escaped.
///
/// # Errors
/// The row fails when the text is no absolute URL.
#[udf]
pub fn parse_url(url: &str) -> Result<UrlParts, String> {
    let parsed = parse(url)?;
    Ok(UrlParts {
        scheme: parsed.scheme().to_owned(),
        host: host(&parsed),
        port: parsed.port_or_known_default(),
        path: parsed.path().to_owned(),
        query: parsed.query().map(str::to_owned),
        fragment: parsed.fragment().map(str::to_owned),
    })
}

/// The host of an absolute URL, as in `parse_url`; null where it has none.
///
/// # Errors
/// The row fails when the text is no absolute URL.
#[udf]
pub fn url_host(url: &str) -> Result<Option<String>, String> {
    Ok(host(&parse(url)?))
}

/// The first value that a query parameter has in an absolute URL, with its escapes decoded and `+` as
/// blank; null where there is no such parameter. `name` is compared after decoding.
///
/// # Errors
/// The row fails when the text is no absolute URL.
#[udf]
pub fn url_param(url: &str, name: &str) -> Result<Option<String>, String> {
    let url = parse(url)?;
    let mut pairs = url.query_pairs();
    let found = pairs.find(|(key, _)| key == name);
    Ok(found.map(|(_, value)| value.into_owned()))
}

fn parse(url: &str) -> Result<Url, String> {
    let mut parsed = Url::parse(url)
        .map_err(|error| format!("\"{}\" is no absolute URL: {error}", shown(url)))?;
    // The standard writes the drives of Windows with a colon. The parser does so only after `file:/`.
    if parsed.scheme() == "file"
        && let [b'/', letter, b'|', rest @ ..] = parsed.path().as_bytes()
        && letter.is_ascii_alphabetic()
        && matches!(rest, [] | [b'/', ..])
    {
        let path = parsed.path().replacen('|', ":", 1);
        parsed.set_path(&path);
    }
    Ok(parsed)
}

fn host(url: &Url) -> Option<String> {
    let host = url.host_str().filter(|host| !host.is_empty());
    host.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_its_parts() {
        let parts =
            parse_url("HTTPS://user:pw@Example.COM:8443/a/../b c?q=1&q=%32#top").expect("a URL");
        let wanted = UrlParts {
            scheme: "https".to_owned(),
            host: Some("example.com".to_owned()),
            port: Some(8443),
            path: "/b%20c".to_owned(),
            query: Some("q=1&q=%32".to_owned()),
            fragment: Some("top".to_owned()),
        };
        assert_eq!(parts, wanted);
    }

    #[test]
    fn missing_parts_are_null_and_ports_are_those_of_the_scheme() {
        let parts = parse_url("http://[::1]").expect("a URL");
        assert_eq!(
            (parts.host.as_deref(), parts.port),
            (Some("[::1]"), Some(80))
        );
        assert_eq!(
            (parts.path.as_str(), parts.query, parts.fragment),
            ("/", None, None)
        );
        let mail = parse_url("mailto:a@example.com?").expect("a URL");
        assert_eq!(
            (mail.host, mail.port, mail.query.as_deref()),
            (None, None, Some(""))
        );
        assert_eq!(url_host("file:///etc/hosts"), Ok(None));
    }

    #[test]
    fn drives_of_windows_have_a_colon_and_are_not_left() {
        for (url, path) in [
            ("file:///C|/y/../..", "/C:/"),
            ("file:///c|", "/c:"),
            ("file:/C|/a/../../..", "/C:/"),
            ("file:///C:/y/..", "/C:/"),
            ("file:///C|y/..", "/"),
            ("http://e.org/C|/y", "/C|/y"),
        ] {
            assert_eq!(
                parse_url(url).map(|parts| parts.path).as_deref(),
                Ok(path),
                "{url}"
            );
        }
    }

    #[test]
    fn international_names_become_ascii() {
        assert_eq!(
            url_host("https://BÜCHER.example/")
                .as_ref()
                .map(Option::as_deref),
            Ok(Some("xn--bcher-kva.example"))
        );
    }

    #[test]
    fn parameters_are_decoded_and_the_first_one_counts() {
        let param = |name| {
            url_param("https://e.org/?a=1+2&a=3&b%20c=%C3%A9&empty=&bad=%ff", name).expect("a URL")
        };
        assert_eq!(param("a").as_deref(), Some("1 2"));
        assert_eq!(param("b c").as_deref(), Some("é"));
        assert_eq!(param("empty").as_deref(), Some(""));
        assert_eq!(param("bad").as_deref(), Some("\u{fffd}"));
        assert_eq!(param("none"), None);
    }

    #[test]
    fn what_is_no_absolute_url_fails_the_row() {
        for text in [
            "",
            "example.com",
            "/a/b",
            "http://",
            "http://a b/",
            "https://x:99999/",
            "http://[1",
        ] {
            assert!(
                parse_url(text).is_err_and(|said| said.contains("no absolute URL")),
                "{text}"
            );
        }
        let long = "x".repeat(10_000);
        assert!(parse_url(&long).is_err_and(|said| said.len() < 300));
    }
}
