//! The formats, and how a file's is found out.

use std::path::Path;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};

use super::{InputError, Source};

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Apache Parquet
    Parquet,
    /// Comma-separated values with a header line
    Csv,
    /// JSON, one object a line
    #[value(alias = "ndjson")]
    Jsonl,
    /// JSON, one array of objects
    Json,
    /// Arrow IPC file, also known as Feather version 2
    Arrow,
    /// Arrow IPC stream
    #[value(alias = "arrows")]
    ArrowStream,
    /// A table for people; output only
    Table,
}

impl Format {
    /// For options that name the format of an input, which a table cannot be.
    pub(crate) fn input_parser() -> ValueParser {
        let inputs = Self::value_variants()
            .iter()
            .filter(|format| **format != Format::Table)
            .filter_map(Self::to_possible_value);
        let parser = PossibleValuesParser::new(inputs);
        ValueParser::new(parser.try_map(|name| Self::from_str(&name, false)))
    }

    /// The format that a file name stands for.
    pub(crate) fn of_name(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "parquet" | "pq" => Some(Format::Parquet),
            "csv" | "tsv" => Some(Format::Csv),
            "jsonl" | "ndjson" | "jsonlines" => Some(Format::Jsonl),
            "json" => Some(Format::Json),
            "arrow" | "feather" | "ipc" => Some(Format::Arrow),
            "arrows" | "stream" => Some(Format::ArrowStream),
            _ => None,
        }
    }

    /// The format of an input: by its first bytes where they tell, else by its name.
    ///
    /// The bytes come first because `.arrow` and `.ipc` are in use for files and streams alike, and
    /// `.json` for arrays and lines.
    pub(crate) fn of_source(source: &Source) -> Result<Self, InputError> {
        let name = source.name();
        let start = source.start()?;
        let by_name = Self::of_name(name);
        let by_bytes = match start.as_slice() {
            [b'P', b'A', b'R', b'1', ..] => Some(Format::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Some(Format::Arrow),
            [0xff, 0xff, 0xff, 0xff, ..] => Some(Format::ArrowStream),
            text if by_name.is_none_or(Format::is_json) => {
                match after_mark(text).trim_ascii_start() {
                    [b'[', ..] => Some(Format::Json),
                    [b'{', ..] => Some(Format::Jsonl),
                    _ => None,
                }
            }
            _ => None,
        };
        // What comes through a pipe has no name. Text that is nothing else is most likely CSV.
        let text = match std::str::from_utf8(&start) {
            Ok(text) => !text.trim().is_empty(),
            // The last character may go on.
            Err(e) => e.error_len().is_none() && e.valid_up_to() > 0,
        };
        let by_look = (!source.is_named() && text).then_some(Format::Csv);
        by_bytes.or(by_name).or(by_look).ok_or_else(|| {
            InputError::unsupported(
                name,
                "its format is not known from its name or first bytes; name it with --input-format",
            )
        })
    }

    fn is_json(self) -> bool {
        matches!(self, Format::Json | Format::Jsonl)
    }

    /// Whether a terminal would show nonsense.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow | Format::ArrowStream)
    }

    /// Whether it has a place for lists.
    pub(crate) fn has_lists(self) -> bool {
        !matches!(self, Format::Csv | Format::Table)
    }

    /// The name in messages and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
            Format::Json => "json",
            Format::Arrow => "arrow",
            Format::ArrowStream => "arrow-stream",
            Format::Table => "table",
        }
    }
}

/// Text without the byte order mark that some programs begin it with.
fn after_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}
