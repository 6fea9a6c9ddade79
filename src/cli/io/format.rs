//! The formats, and how a file's is found out.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::ValueEnum;

use super::InputError;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Apache Parquet
    Parquet,
    /// Comma-separated values with a header line
    Csv,
    /// Arrow IPC file, also known as Feather version 2
    Arrow,
    /// Arrow IPC stream
    ArrowStream,
}

impl Format {
    /// The format that a file name stands for.
    pub(crate) fn of_name(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "parquet" | "pq" => Some(Format::Parquet),
            "csv" => Some(Format::Csv),
            "arrow" | "feather" | "ipc" => Some(Format::Arrow),
            "arrows" | "stream" => Some(Format::ArrowStream),
            _ => None,
        }
    }

    /// The format of a file that exists: by its first bytes where they tell, else by its name.
    ///
    /// The bytes come first because `.arrow` and `.ipc` are in use for files and streams alike.
    pub(crate) fn of_file(path: &Path) -> Result<Self, InputError> {
        let mut start = Vec::new();
        let file = File::open(path).map_err(InputError::read(path))?;
        let about = file.metadata().map_err(InputError::read(path))?;
        if about.is_dir() {
            return Err(InputError::unsupported(
                path,
                "it is a folder; name the files in it",
            ));
        }
        if !about.is_file() {
            return Err(InputError::unsupported(path, "it is not a regular file"));
        }
        file.take(8)
            .read_to_end(&mut start)
            .map_err(InputError::read(path))?;
        let by_name = Self::of_name(path);
        let by_bytes = match start.as_slice() {
            [b'P', b'A', b'R', b'1', ..] => Some(Format::Parquet),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Some(Format::Arrow),
            [0xff, 0xff, 0xff, 0xff, ..] => Some(Format::ArrowStream),
            _ => None,
        };
        by_bytes.or(by_name).ok_or_else(|| {
            InputError::unsupported(
                path,
                "its format is not known from its name or first bytes; name it with --input-format",
            )
        })
    }

    /// The name in messages and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Arrow => "arrow",
            Format::ArrowStream => "arrow-stream",
        }
    }
}
