//! Opens the inputs as one table.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::{Session, TableProvider};

use super::csv_read::CsvDialect;
use super::decode::Decoder;
use super::decoded_table::DecodedTable;
use super::ipc_read::Framing;
use super::json_syntax::Nesting;
use super::parquet_table::ParquetTable;
use super::source::blocking;
use super::{Format, InputError, Source, expand};

/// The input as a table.
pub(crate) struct Input {
    /// Reads the inputs in the order they were given, in one partition.
    pub(crate) table: Arc<dyn TableProvider>,
    /// Rows of all inputs, where the format says so.
    pub(crate) rows: Option<usize>,
    /// The format of all of them.
    pub(crate) format: Format,
}

/// How inputs are to be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadOptions {
    /// Their format, where it is not to be found out.
    pub(crate) format: Option<Format>,
    /// They are still being written, and a row waits no longer than that for others.
    pub(crate) patience: Option<Duration>,
    /// How CSV is written.
    pub(crate) csv: CsvDialect,
    /// They may be read several times: the standard input is kept in a file.
    pub(crate) again: bool,
}

/// Opens inputs of one format whose columns agree: files, folders, patterns, objects, or `-`.
pub(crate) async fn open(
    session: &dyn Session,
    inputs: &[PathBuf],
    options: ReadOptions,
) -> Result<Input, InputError> {
    let ReadOptions {
        format,
        patience,
        csv,
        again,
    } = options;
    let sources = expand::sources(inputs).await?;
    let sources = blocking(move || {
        sources.iter().try_for_each(Source::check_not_empty)?;
        Ok(sources)
    })
    .await?;
    let format = match format {
        Some(format) => format,
        None => {
            let sources = sources.clone();
            blocking(move || common_format(&sources)).await?
        }
    };
    let sources = match again {
        true => blocking(move || sources.iter().map(Source::repeatable).collect()).await?,
        false => sources,
    };
    let name = sources.first().map_or("the input".as_ref(), Source::name);
    let decoder = match format {
        Format::Csv if let Some(patience) = patience => Decoder::LiveCsv(csv, patience),
        Format::Jsonl if let Some(patience) = patience => Decoder::LiveJson(patience),
        _ if patience.is_some() => {
            let reason = format!(
                "{} cannot be read while it is written; csv and jsonl can",
                format.name()
            );
            return Err(InputError::unsupported(name, reason));
        }
        Format::Parquet => {
            let table = ParquetTable::open(session, &sources).await?;
            return Ok(Input {
                rows: table.rows(),
                table: Arc::new(table),
                format,
            });
        }
        Format::Arrow => Decoder::Ipc(Framing::File),
        Format::ArrowStream => Decoder::Ipc(Framing::Stream),
        Format::Csv => Decoder::Csv(csv),
        Format::Jsonl => Decoder::Json(Nesting::Lines),
        Format::Json => Decoder::Json(Nesting::Array),
        Format::Table => {
            return Err(InputError::unsupported(name, "tables are for output only"));
        }
    };
    let table = blocking(move || {
        let sources = match format {
            Format::Arrow => sources
                .iter()
                .map(Source::seekable)
                .collect::<Result<Vec<_>, _>>()?,
            _ => sources,
        };
        DecodedTable::open(&sources, decoder)
    });
    Ok(Input {
        table: Arc::new(table.await?),
        rows: None,
        format,
    })
}

fn common_format(sources: &[Source]) -> Result<Format, InputError> {
    let mut common: Option<(Format, &Source)> = None;
    for source in sources {
        let format = Format::of_source(source)?;
        match common {
            Some((expected, first)) if expected != format => {
                let reason = format!(
                    "it is {}, and {} is {}; give files of one format",
                    format.name(),
                    first.name().display(),
                    expected.name()
                );
                return Err(InputError::unsupported(source.name(), reason));
            }
            _ => common = Some((format, source)),
        }
    }
    Ok(common.map_or(Format::Parquet, |(format, _)| format))
}
