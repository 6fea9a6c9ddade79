//! The signs of JSON between its values: brackets, commas, colons, quotes.
//!
//! arrow-json takes commas and colons for blanks, and reads objects one after the other only. So the bytes
//! are looked at before it gets them: what is not JSON is refused with its place, and the signs of an array
//! around the objects become blanks, which leaves every byte where it was.

use std::fmt;
use std::io::{self, Read};

/// Arrays and objects within each other, as many as serde_json reads.
const DEEPEST: usize = 128;

/// How the objects of a file stand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nesting {
    /// One after the other, usually one a line.
    Lines,
    /// As the elements of one array.
    Array,
}

/// What may come next, blanks aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The array around all objects.
    Array,
    /// An object that is a row.
    Row,
    /// A first row, or the end of the array around it.
    RowOrEnd,
    /// A comma after a row, or the end of the array around it.
    CommaOrEnd,
    /// A key.
    Key,
    /// A first key, or the end of the object.
    KeyOrEnd,
    /// The colon after a key.
    Colon,
    /// A value.
    Value,
    /// A first value, or the end of the array.
    ValueOrEnd,
    /// A comma after a value, or the end of the object or array that it is in.
    MoreOrEnd,
    /// Nothing.
    End,
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Next::Array => "an array of objects",
            Next::Row => "an object for each row",
            Next::RowOrEnd => "an object for each row, or the end of the array",
            Next::CommaOrEnd => "a comma or the end of the array after a row",
            Next::Key => "a key in double quotes",
            Next::KeyOrEnd => "a key in double quotes, or `}`",
            Next::Colon => "a colon after a key",
            Next::Value => "a value",
            Next::ValueOrEnd => "a value or `]`",
            Next::MoreOrEnd => "a comma, or the end of the object or array",
            Next::End => "nothing after the end of the array",
        })
    }
}

/// Something that is not JSON, and where.
#[derive(Debug, thiserror::Error)]
#[error("{what} at line {line} column {column}")]
pub(super) struct SyntaxError {
    what: String,
    line: u64,
    column: u64,
}

/// What is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Object,
    Array,
}

/// Within what has no signs of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    /// A text; `escaped` after a backslash.
    Text {
        escaped: bool,
    },
    /// A number or a word, which goes on until a sign or blank.
    Word,
}

/// Follows the signs of a file from its beginning.
#[derive(Debug)]
pub(super) struct Syntax {
    nesting: Nesting,
    next: Next,
    within: Within,
    open: Vec<Open>,
    line: u64,
    column: u64,
    /// Bytes of a byte order mark that have been seen; all of them where something else has come.
    mark: usize,
}

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

impl Syntax {
    pub(super) fn new(nesting: Nesting) -> Self {
        Syntax {
            nesting,
            next: match nesting {
                Nesting::Lines => Next::Row,
                Nesting::Array => Next::Array,
            },
            within: Within::Nothing,
            open: Vec::new(),
            line: 1,
            column: 0,
            mark: 0,
        }
    }

    /// Looks at the next bytes, and makes blanks of those that are about no row.
    pub(super) fn feed(&mut self, bytes: &mut [u8]) -> Result<(), SyntaxError> {
        for byte in bytes {
            self.column = self.column.saturating_add(1);
            if self.is_mark(*byte) || !self.step(*byte)? {
                *byte = b' ';
            }
            if *byte == b'\n' {
                self.line = self.line.saturating_add(1);
                self.column = 0;
            }
        }
        Ok(())
    }

    /// To be called at the end of the file. Rows that are cut short are for the decoder to complain about.
    pub(super) fn end(&self) -> Result<(), SyntaxError> {
        match self.next {
            Next::Array | Next::RowOrEnd | Next::CommaOrEnd => {
                Err(self.error("the file ends before its array does".to_owned()))
            }
            Next::Row if self.nesting == Nesting::Array => {
                Err(self.error("the file ends after a comma".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Whether the byte is of a byte order mark at the very beginning.
    fn is_mark(&mut self, byte: u8) -> bool {
        let mark = BYTE_ORDER_MARK.get(self.mark) == Some(&byte);
        self.mark = match mark {
            true => self.mark.saturating_add(1),
            false => BYTE_ORDER_MARK.len(),
        };
        mark
    }

    /// Whether the byte belongs to a row, or is blank.
    fn step(&mut self, byte: u8) -> Result<bool, SyntaxError> {
        match self.within {
            Within::Text { escaped: true } => self.within = Within::Text { escaped: false },
            Within::Text { .. } => match byte {
                b'"' => self.within = Within::Nothing,
                b'\\' => self.within = Within::Text { escaped: true },
                0..0x20 => {
                    return Err(self.error("a control character within a text".to_owned()));
                }
                _ => {}
            },
            Within::Word if is_word(byte) => {}
            Within::Word | Within::Nothing => {
                self.within = Within::Nothing;
                return self.sign(byte);
            }
        }
        Ok(true)
    }

    fn sign(&mut self, byte: u8) -> Result<bool, SyntaxError> {
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            return Ok(true);
        }
        self.next = match (self.next, byte) {
            // Around the rows.
            (Next::Array, b'[') => {
                self.next = Next::RowOrEnd;
                return Ok(false);
            }
            (Next::CommaOrEnd, b',') => {
                self.next = Next::Row;
                return Ok(false);
            }
            (Next::RowOrEnd | Next::CommaOrEnd, b']') => {
                self.next = Next::End;
                return Ok(false);
            }
            (Next::Row | Next::RowOrEnd, b'{') => self.opened(Open::Object)?,
            // In rows.
            (Next::Value | Next::ValueOrEnd, b'{') => self.opened(Open::Object)?,
            (Next::Value | Next::ValueOrEnd, b'[') => self.opened(Open::Array)?,
            (Next::Key | Next::KeyOrEnd, b'"') => {
                self.within = Within::Text { escaped: false };
                Next::Colon
            }
            (Next::Colon, b':') => Next::Value,
            (Next::Value | Next::ValueOrEnd, b'"') => {
                self.within = Within::Text { escaped: false };
                Next::MoreOrEnd
            }
            (Next::Value | Next::ValueOrEnd, byte) if is_word(byte) => {
                self.within = Within::Word;
                Next::MoreOrEnd
            }
            (Next::MoreOrEnd, b',') => match self.open.last() {
                Some(Open::Object) => Next::Key,
                _ => Next::Value,
            },
            (Next::KeyOrEnd | Next::MoreOrEnd, b'}') if self.open.last() == Some(&Open::Object) => {
                self.closed()
            }
            (Next::ValueOrEnd | Next::MoreOrEnd, b']')
                if self.open.last() == Some(&Open::Array) =>
            {
                self.closed()
            }
            (next, _) => return Err(self.error(format!("expected {next}"))),
        };
        Ok(true)
    }

    fn opened(&mut self, open: Open) -> Result<Next, SyntaxError> {
        if self.open.len() >= DEEPEST {
            return Err(self.error(format!("it nests deeper than {DEEPEST} levels")));
        }
        self.open.push(open);
        Ok(match open {
            Open::Object => Next::KeyOrEnd,
            Open::Array => Next::ValueOrEnd,
        })
    }

    fn closed(&mut self) -> Next {
        self.open.pop();
        match (self.open.is_empty(), self.nesting) {
            (false, _) => Next::MoreOrEnd,
            (true, Nesting::Lines) => Next::Row,
            (true, Nesting::Array) => Next::CommaOrEnd,
        }
    }

    fn error(&self, what: String) -> SyntaxError {
        SyntaxError {
            what,
            line: self.line,
            column: self.column,
        }
    }
}

/// Bytes of numbers, `true`, `false` and `null`; whether they are such is for the decoder to see.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// The rows of a file, with its errors as errors of reading.
pub(super) struct Rows<R> {
    source: R,
    syntax: Syntax,
}

impl<R> Rows<R> {
    pub(super) fn new(source: R, nesting: Nesting) -> Self {
        Rows {
            source,
            syntax: Syntax::new(nesting),
        }
    }
}

impl<R: Read> Read for Rows<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(out)?;
        let result = match count {
            0 if !out.is_empty() => self.syntax.end(),
            _ => self.syntax.feed(out.get_mut(..count).unwrap_or_default()),
        };
        result.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows, read a few bytes at a time.
    fn rows(text: &str, nesting: Nesting) -> Result<String, String> {
        let mut rows = Rows::new(text.as_bytes(), nesting);
        let mut all = Vec::new();
        let mut piece = [0; 3];
        loop {
            match rows.read(&mut piece) {
                Ok(0) => return Ok(String::from_utf8(all).unwrap()),
                Ok(count) => all.extend_from_slice(&piece[..count]),
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    #[test]
    fn the_signs_around_rows_become_blanks() {
        assert_eq!(
            rows(
                "[\n{\"a\": [1, {}]},\n{\"b\": \"],[\\\"\"}\n]\n",
                Nesting::Array
            )
            .unwrap(),
            " \n{\"a\": [1, {}]} \n{\"b\": \"],[\\\"\"}\n \n"
        );
        assert_eq!(rows("[]", Nesting::Array).unwrap(), "  ");
        let lines = "{\"a\": -1.5e3}\n{} {\"b\": [null, true]}";
        assert_eq!(rows(lines, Nesting::Lines).unwrap(), lines);
        assert_eq!(rows("\u{feff}[{}]", Nesting::Array).unwrap(), "    {} ");
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        for (text, nesting, place) in [
            (
                "[{}\n {}]",
                Nesting::Array,
                "comma or the end of the array after a row at line 2 column 2",
            ),
            (
                "[{},\n]",
                Nesting::Array,
                "an object for each row at line 2 column 1",
            ),
            (
                "[{}] x",
                Nesting::Array,
                "nothing after the end of the array at line 1 column 6",
            ),
            ("[{}][{}]", Nesting::Array, "column 5"),
            (
                "[1]",
                Nesting::Array,
                "an object for each row, or the end of the array at line 1 column 2",
            ),
            ("[{}", Nesting::Array, "ends before its array does"),
            ("[{},", Nesting::Array, "ends after a comma"),
            ("", Nesting::Array, "ends before its array does"),
            (
                "{}",
                Nesting::Array,
                "an array of objects at line 1 column 1",
            ),
            ("{},{}", Nesting::Lines, "column 3"),
            ("{\"a\": 1 \"b\": 2}", Nesting::Lines, "column 9"),
            (
                "{\"a\" 1}",
                Nesting::Lines,
                "a colon after a key at line 1 column 6",
            ),
            ("{\"a\": [1 2]}", Nesting::Lines, "column 10"),
            (
                "{\"a\": [1,]}",
                Nesting::Lines,
                "a value at line 1 column 10",
            ),
            ("{\"a\": 1,}", Nesting::Lines, "column 9"),
            ("{\"a\": [1}", Nesting::Lines, "column 9"),
            ("{,}", Nesting::Lines, "column 2"),
            ("{\"a\n\": 1}", Nesting::Lines, "control character"),
            ("{}\n\u{feff}{}", Nesting::Lines, "line 2 column 1"),
        ] {
            let error = rows(text, nesting).unwrap_err();
            assert!(error.contains(place), "{text:?}: {error}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep =
            |levels: usize| format!("{{\"a\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(rows(&deep(DEEPEST - 1), Nesting::Lines).is_ok());
        assert!(rows(&deep(DEEPEST), Nesting::Lines).is_err());
    }
}
