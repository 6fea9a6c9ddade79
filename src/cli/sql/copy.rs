//! `COPY … TO 'file'`: a query whose rows go where the statement says, by the writers of `-o`.

use std::path::{Path, PathBuf};

use datafusion::sql::parser::{CopyToSource, CopyToStatement, DFParser, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use super::perform::Target;
use super::refusal;
use crate::cli::failure::Failure;
use crate::cli::io::{Encoding, Format};
use crate::cli::suggest::existing;
use crate::cli::tables::format_of;

/// The query of a `COPY`, and where its rows go.
pub(super) fn taken_apart(
    copy: CopyToStatement,
    asked: &Target,
) -> Result<(Statement, Target), Failure> {
    let CopyToStatement {
        source,
        target,
        partitioned_by,
        stored_as,
        options,
    } = copy;
    if !partitioned_by.is_empty() {
        return Err(
            Failure::usage("COPY writes one file, and PARTITIONED BY means several")
                .hint("write one COPY with a WHERE for each part"),
        );
    }
    if let Some((option, _)) = options.first() {
        return Err(Failure::usage(format!("COPY takes no option, and has `{option}`"))
            .hint("files are written as `wasmill sql` writes them; --compression chooses the codec of Parquet"));
    }
    let path = PathBuf::from(target);
    let format = match stored_as {
        Some(name) => named_format(&name)?,
        None => format_of(&path)?,
    };
    let query = match source {
        CopyToSource::Query(query) => Statement::Statement(Box::new(SqlStatement::Query(query))),
        CopyToSource::Relation(table) => DFParser::parse_sql(&format!("SELECT * FROM {table}"))
            .map_err(|e| refusal::unreadable(&e))?
            .pop_front()
            .ok_or_else(|| Failure::usage("COPY names no table"))?,
    };
    let target = Target {
        output: Some(path).filter(|path| path != Path::new("-")),
        encoding: Encoding {
            format,
            ..asked.encoding.clone()
        },
        plain_plans: false,
    };
    Ok((query, target))
}

/// The format after `STORED AS`.
fn named_format(name: &str) -> Result<Format, Failure> {
    use clap::ValueEnum as _;
    Format::from_str(name, true).map_err(|_| {
        let names: Vec<&str> = Format::value_variants().iter().map(|f| f.name()).collect();
        Failure::usage(format!("COPY cannot store as {name}"))
            .hint(existing("formats", name, names))
    })
}
