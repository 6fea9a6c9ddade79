//! JSON text (RFC 8259) as it stands: checked once, then cut into the texts of its parts. Numbers keep
//! all their digits that way.

use std::borrow::Cow;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Object,
    Array,
    Text,
    Number,
    Boolean,
    Null,
}

impl Kind {
    /// The kind of a value whose text was checked.
    pub fn of(value: &str) -> Self {
        match value.as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::Text,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "text",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Null => "null",
        }
    }
}

/// The value of a JSON text, without the blanks around it.
///
/// # Errors
/// When the text is not JSON: says what is wrong, and at which byte, counted from 0.
pub fn checked(json: &str) -> Result<&str, String> {
    let mut scanner = Scanner::new(json);
    let value = scanner.value().and_then(|value| {
        scanner.skip_blanks();
        match scanner.peek() {
            None => Ok(value),
            Some(_) => Err("text after the value"),
        }
    });
    value.map_err(|what| format!("not valid JSON: {what} at byte {}", scanner.at))
}

/// Names, with their quotes, and values of an object whose text was checked.
pub fn entries(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut scanner = Scanner::new(object);
    scanner.at = 1;
    std::iter::from_fn(move || {
        scanner.skip(b',');
        let key = scanner.value().ok()?;
        scanner.skip(b':');
        Some((key, scanner.value().ok()?))
    })
}

/// The items of an array whose text was checked.
pub fn items(array: &str) -> impl Iterator<Item = &str> {
    let mut scanner = Scanner::new(array);
    scanner.at = 1;
    std::iter::from_fn(move || {
        scanner.skip(b',');
        scanner.value().ok()
    })
}

/// The text that a JSON string stands for.
///
/// # Errors
/// When it has half a surrogate pair, which no text can hold.
pub fn decode(string: &str) -> Result<Cow<'_, str>, String> {
    let inner = string.get(1..string.len().saturating_sub(1));
    match inner {
        Some(inner) if inner.bytes().all(is_plain) => Ok(Cow::Borrowed(inner)),
        _ => serde_json::from_str(string)
            .map(Cow::Owned)
            .map_err(|error| format!("a JSON string is not text: {error}")),
    }
}

/// Whether a byte stands for itself in a string.
fn is_plain(byte: u8) -> bool {
    byte >= b' ' && byte != b'"' && byte != b'\\'
}

/// Goes through JSON text. It needs a bit per level of nesting and no recursion, so that deep text
/// does no harm.
struct Scanner<'j> {
    json: &'j str,
    at: usize,
}

impl<'j> Scanner<'j> {
    fn new(json: &'j str) -> Self {
        Self { json, at: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips blanks, and then this byte if it comes next.
    fn skip(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// The next value, whatever is in it.
    fn value(&mut self) -> Result<&'j str, &'static str> {
        self.skip_blanks();
        let start = self.at;
        let mut open = Brackets::default();
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    if !self.skip(b'}') {
                        open.push(true);
                        self.key()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    if !self.skip(b']') {
                        open.push(false);
                        continue;
                    }
                }
                Some(b'"') => self.string()?,
                Some(b't') => self.word("true")?,
                Some(b'f') => self.word("false")?,
                Some(b'n') => self.word("null")?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(_) => return Err("a value is missing"),
                None => return Err("the text ends too early"),
            }
            // A value has ended, and perhaps what is around it.
            loop {
                let Some(in_object) = open.last() else {
                    return self.json.get(start..self.at).ok_or("a value is missing");
                };
                let (close, missing) = if in_object {
                    (b'}', "`,` or `}` is missing")
                } else {
                    (b']', "`,` or `]` is missing")
                };
                if self.skip(b',') {
                    if in_object {
                        self.key()?;
                    }
                    break;
                }
                if !self.skip(close) {
                    return Err(missing);
                }
                open.pop();
            }
        }
    }

    fn key(&mut self) -> Result<(), &'static str> {
        self.skip_blanks();
        if self.peek() != Some(b'"') {
            return Err("a name in double quotes is missing");
        }
        self.string()?;
        if self.skip(b':') {
            Ok(())
        } else {
            Err("`:` is missing")
        }
    }

    fn string(&mut self) -> Result<(), &'static str> {
        self.at += 1;
        loop {
            while self.peek().is_some_and(is_plain) {
                self.at += 1;
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    let rest = self.json.as_bytes().get(self.at + 1..).unwrap_or_default();
                    self.at += match rest {
                        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
                        [b'u', digits @ ..]
                            if digits.len() >= 4
                                && digits[..4].iter().all(u8::is_ascii_hexdigit) =>
                        {
                            6
                        }
                        _ => return Err("a wrong escape"),
                    };
                }
                Some(_) => return Err("a control character in a string"),
                None => return Err("the text ends too early"),
            }
        }
    }

    fn word(&mut self, word: &str) -> Result<(), &'static str> {
        let rest = self.json.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err("a value is missing");
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), &'static str> {
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), &'static str> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err("a digit is missing")
        }
    }
}

/// Which brackets are open, from the outside in: `true` for those of objects. The inner 64 are in a
/// register, so that usual text needs no memory for them.
#[derive(Default)]
struct Brackets {
    inner: u64,
    depth: usize,
    outer: Vec<u64>,
}

impl Brackets {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.inner);
        }
        self.inner = self.inner << 1 | u64::from(object);
        self.depth += 1;
    }

    fn last(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.inner & 1 == 1)
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.inner >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.inner = self.outer.pop().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_where_they_end() {
        let json = " { \"a\" : [ 1 , {} ] , \"b\\\"\" : -1.50e+3 } ";
        let object = checked(json).expect("JSON");
        let parts: Vec<_> = entries(object).collect();
        assert_eq!(parts, [("\"a\"", "[ 1 , {} ]"), ("\"b\\\"\"", "-1.50e+3")]);
        assert_eq!(items(parts[0].1).collect::<Vec<_>>(), ["1", "{}"]);
        assert_eq!(entries("{ }").count() + items("[ ]").count(), 0);
    }

    #[test]
    fn faults_are_named_with_their_place() {
        let fault = |json| checked(json).expect_err(json);
        assert_eq!(
            fault("{\"a\" 1}"),
            "not valid JSON: `:` is missing at byte 5"
        );
        assert_eq!(
            fault("[1,]"),
            "not valid JSON: a value is missing at byte 3"
        );
        assert_eq!(
            fault("1 2"),
            "not valid JSON: text after the value at byte 2"
        );
        assert_eq!(
            fault(""),
            "not valid JSON: the text ends too early at byte 0"
        );
    }

    #[test]
    fn deep_text_is_no_danger() {
        let deep = |open: &str, close: &str, depth| open.repeat(depth) + "1" + &close.repeat(depth);
        for depth in [1, 63, 64, 65, 128, 129, 1_000_000] {
            assert!(checked(&deep("[", "]", depth)).is_ok(), "{depth}");
            assert!(checked(&deep("{\"a\":", "}", depth)).is_ok(), "{depth}");
            assert!(checked(&deep("[{\"a\":[", "]}]", depth)).is_ok(), "{depth}");
            assert!(checked(&deep("[", "]", depth).replace("]]", "}]")).is_err() || depth < 2);
        }
    }

    /// Texts made of pieces of JSON are judged as `serde_json` judges them.
    #[test]
    fn the_judgement_is_that_of_another_parser() {
        let pieces = [
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\u00e", "\\n", "é", "-", "0", "1", "12",
            ".5", "e", "E+", "true", "nul", "null", " ", "\n", "\u{1}", "{\"a\":", "[1,",
        ];
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut valid = 0;
        for _ in 0..200_000 {
            let mut json = String::new();
            for _ in 0..=random % 7 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                json.push_str(pieces[(random >> 33) as usize % pieces.len()]);
            }
            random = random.wrapping_add(1);
            let judged = checked(&json).is_ok();
            let other = serde_json::from_str::<serde_json::Value>(&json);
            assert_eq!(judged, other.is_ok(), "{json:?} {other:?}");
            valid += u32::from(judged);
        }
        assert!(valid > 1000, "{valid}");
    }
}
