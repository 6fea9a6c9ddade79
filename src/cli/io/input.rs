//! Opens the input files as one table.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider};

use super::arrow_table::ArrowTable;
use super::file_table::FileTable;
use super::ipc_read::Framing;
use super::{Format, InputError};

/// The input as a table.
pub(crate) struct Input {
    /// Reads the files in the order they were given, in one partition.
    pub(crate) table: Arc<dyn TableProvider>,
    /// Rows of all files, where the format says so.
    pub(crate) rows: Option<usize>,
}

/// Opens files of one format whose columns agree.
pub(crate) async fn open(
    session: &dyn Session,
    files: &[PathBuf],
    format: Option<Format>,
) -> Result<Input, InputError> {
    let format = match format {
        Some(format) => format,
        None => common_format(files)?,
    };
    match format {
        Format::Arrow | Format::ArrowStream => {
            let framing = if format == Format::Arrow {
                Framing::File
            } else {
                Framing::Stream
            };
            Ok(Input {
                table: Arc::new(ArrowTable::open(files, framing)?),
                rows: None,
            })
        }
        Format::Parquet | Format::Csv => {
            let table = FileTable::open(session, files, format).await?;
            Ok(Input {
                rows: table.rows(),
                table: Arc::new(table),
            })
        }
    }
}

fn common_format(files: &[PathBuf]) -> Result<Format, InputError> {
    let mut common: Option<(Format, &PathBuf)> = None;
    for path in files {
        let format = Format::of_file(path)?;
        match common {
            Some((expected, first)) if expected != format => {
                let reason = format!(
                    "it is {}, and {} is {}; give files of one format",
                    format.name(),
                    first.display(),
                    expected.name()
                );
                return Err(InputError::unsupported(path, reason));
            }
            _ => common = Some((format, path)),
        }
    }
    Ok(common.map_or(Format::Parquet, |(format, _)| format))
}
