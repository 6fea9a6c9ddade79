//! Options of what is read and written, for each verb that does.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::Failure;
use super::io::{self, CsvDialect, Encoding, Format, ReadOptions, shown};
use super::options::{Compression, delimiter};
use super::without_effect;

/// How inputs are read.
#[derive(Debug, Args)]
pub(crate) struct InputOptions {
    /// Format of the input [default: by content, then extension]
    #[arg(long, value_parser = Format::input_parser(), value_name = "FORMAT")]
    input_format: Option<Format>,

    /// Text that stands for a null in CSV input, beside nothing at all; may be given several times
    #[arg(long, value_name = "TEXT")]
    null: Vec<String>,

    /// What separates the fields of CSV input: one character, or \t [default: a comma; a tab in .tsv files]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,

    /// CSV input without a header line: the columns are column_1, column_2 and so on
    #[arg(long)]
    no_header: bool,
}

impl InputOptions {
    /// As readers take them.
    pub(crate) fn read(&self) -> ReadOptions {
        ReadOptions {
            format: self.input_format,
            csv: CsvDialect {
                delimiter: self.delimiter,
                header: !self.no_header,
                nulls: self.null.clone(),
            },
            ..ReadOptions::default()
        }
    }

    /// Refuses what says how CSV is written, where the input is something else.
    pub(crate) fn check(&self, format: Format) -> Result<(), Failure> {
        let options = [
            ("--null", !self.null.is_empty()),
            ("--delimiter", self.delimiter.is_some()),
            ("--no-header", self.no_header),
        ];
        without_effect::check_dialect(options, format)
    }
}

/// Where the result goes, and how it is written.
#[derive(Debug, Args)]
pub(crate) struct OutputOptions {
    /// Output file, its address in a store, or - for the standard output [default: -]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Format of the output [default: by extension; table on a terminal, csv into a pipe]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,

    /// Compression of Parquet output
    #[arg(long, value_enum, value_name = "CODEC", default_value_t)]
    compression: Compression,

    /// Whether the compression was asked for on the command line, where it must have an effect.
    #[arg(skip)]
    pub(crate) compression_asked: bool,
}

impl OutputOptions {
    /// How the output is encoded.
    pub(crate) fn encoding(&self) -> Result<Encoding, Failure> {
        let encoding = Encoding {
            compression: self.compression.codec(),
            ..Encoding::of(self.chosen_format()?)
        };
        if self.compression_asked {
            without_effect::check_compression(encoding.format)?;
        }
        Ok(encoding)
    }

    /// The file, where the output is not the standard output.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output
            .as_deref()
            .filter(|path| *path != Path::new(io::STANDARD))
    }

    fn chosen_format(&self) -> Result<Format, Failure> {
        match (self.format, self.file()) {
            (Some(format), _) => Ok(format),
            (None, Some(path)) => format_of(path),
            (None, None) if std::io::stdout().is_terminal() => Ok(Format::Table),
            (None, None) => Ok(Format::Csv),
        }
    }
}

/// The format that an output's name stands for.
pub(crate) fn format_of(path: &Path) -> Result<Format, Failure> {
    Format::of_name(&shown(path)).ok_or_else(|| {
        Failure::usage(format!(
            "the format of {} is not known from its name",
            shown(path).display()
        ))
        .hint("name it with --format, or use the extension .parquet, .csv, .json, .jsonl, .arrow or .arrows")
    })
}
