//! What a session has: modules, tables, init arguments.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use crate::cli::failure::Failure;
use crate::cli::guests::GuestOptions;
use crate::cli::io::{STANDARD, shown};
use crate::cli::options::threads;
use crate::cli::tables::InputOptions;
use crate::plan::{ErrorLimit, RowErrorAction};

/// Options of sessions, for each verb that has one.
#[derive(Debug, Args)]
pub(crate) struct SessionOptions {
    /// Module whose UDFs the query may call, as NAME(…) and MODULE.NAME(…); may be given several times
    ///
    /// A module is called like its file, or NAME. Where two have a UDF of one name, the later module's has
    /// that name.
    #[arg(short, long, value_name = "[NAME=]MODULE")]
    pub(super) module: Vec<ModuleOption>,

    /// Table of the query: a file, a folder, a pattern in quotes, an address, or -; may be given several times
    ///
    /// It is called like the file, or NAME; the standard input is called stdin. One NAME for several inputs
    /// makes them one table. The query may name files as well, in quotes: FROM 'x.parquet'.
    #[arg(short, long, value_name = "[NAME=]FILE")]
    pub(super) table: Vec<TableOption>,

    #[command(flatten)]
    pub(super) reading: InputOptions,

    /// Arguments of init: JSON, or @FILE; with a name for one state or UDF only; may be given several times
    #[arg(long, value_name = "[NAME=]JSON|@FILE")]
    pub(super) init: Vec<InitOption>,

    /// Rows that a UDF cannot compute: fail, or null, which goes on with a null as its result
    #[arg(long, value_name = "POLICY", default_value = "fail")]
    pub(super) on_error: OnSqlError,

    /// Most rows that may fail before the query does: a number, or a share like 0.5%
    #[arg(long, value_name = "N|P%", value_parser = ErrorLimit::from_str)]
    pub(super) max_errors: Option<ErrorLimit>,

    /// Folder from which CREATE FUNCTION may load modules too, beside the current folder and those of --module
    #[arg(long, value_name = "FOLDER")]
    pub(super) allow_modules: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) guests: GuestOptions,

    /// Threads that read, plan, compute and write, and parts that a query is computed in; slots have threads of their own [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub(super) threads: Option<NonZeroUsize>,

    /// Show lines of source in backtraces, where the module has them; only for modules that you trust
    #[arg(long)]
    pub(super) debug_lines: bool,
}

impl SessionOptions {
    /// Whether a table is the standard input.
    pub(super) fn reads_stdin(&self) -> bool {
        self.table.iter().any(|t| t.path == Path::new(STANDARD))
    }
}

/// `[NAME=]MODULE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModuleOption {
    /// The module's name, where it is not the file's.
    pub(super) name: Option<String>,
    /// The file.
    pub(super) path: PathBuf,
}

impl FromStr for ModuleOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = named(text)?;
        Ok(ModuleOption {
            name,
            path: path.into(),
        })
    }
}

/// `[NAME=]FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableOption {
    name: Option<String>,
    path: PathBuf,
}

impl FromStr for TableOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = named(text)?;
        Ok(TableOption {
            name,
            path: path.into(),
        })
    }
}

/// A name and what it is the name of. Paths with an equals sign in their first part begin with `./`.
fn named(text: &str) -> Result<(Option<String>, &str), String> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !name.contains(['/', '\\', '.', '*']) => (Some(name), path),
        _ => (None, text),
    };
    match name {
        Some("") => Err("the name before `=` is missing".to_owned()),
        _ if path.is_empty() => Err("the file is missing".to_owned()),
        _ => Ok((name.map(str::to_owned), path)),
    }
}

/// `[NAME=]JSON` or `[NAME=]@FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InitOption {
    /// A state or UDF.
    pub(super) name: Option<String>,
    /// The JSON, or `@FILE`.
    pub(super) text: String,
}

impl FromStr for InitOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let (name, text) = match text.split_once('=') {
            Some((name, rest)) if !name.is_empty() && name.chars().all(is_name) => {
                (Some(name.to_owned()), rest)
            }
            _ => (None, text),
        };
        Ok(InitOption {
            name,
            text: text.to_owned(),
        })
    }
}

/// `fail` or `null`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OnSqlError(pub(super) RowErrorAction);

impl FromStr for OnSqlError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fail" => Ok(OnSqlError(RowErrorAction::Fail)),
            "null" => Ok(OnSqlError(RowErrorAction::Null)),
            _ => Err("write fail or null; dead letters are for `wasmill run`".to_owned()),
        }
    }
}

/// A table and its inputs.
pub(super) struct NamedTable {
    pub(super) name: String,
    pub(super) inputs: Vec<PathBuf>,
}

/// The tables that are meant, each with all of its inputs.
pub(super) fn tables(options: &[TableOption]) -> Result<Vec<NamedTable>, Failure> {
    let mut tables: Vec<NamedTable> = Vec::new();
    for TableOption { name, path } in options {
        let (name, was_given) = match name {
            Some(name) => (name.clone(), true),
            None => (name_of(path)?, false),
        };
        match tables.iter_mut().find(|table| table.name == name) {
            Some(table) if was_given => table.inputs.push(path.clone()),
            Some(_) => {
                return Err(Failure::usage(format!("two tables are called `{name}`"))
                    .hint("name one of them, as in -t NAME=FILE"));
            }
            None => tables.push(NamedTable {
                name,
                inputs: vec![path.clone()],
            }),
        }
    }
    Ok(tables)
}

/// What an input is called without a name.
fn name_of(path: &Path) -> Result<String, Failure> {
    if path == Path::new(STANDARD) {
        return Ok("stdin".to_owned());
    }
    let path = shown(path);
    let part = match path.is_dir() {
        true => path.file_name(),
        false => path.file_stem(),
    };
    let name = part.map(|part| part.to_string_lossy().into_owned());
    name.filter(|name| !name.contains(['*', '?', '[']))
        .ok_or_else(|| {
            let shown = path.display();
            Failure::usage(format!("{shown} gives a table no name"))
                .hint(format!("name it, as in -t 'NAME={shown}'"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_the_first_equals_sign() {
        let parse = |text: &str| text.parse::<TableOption>().map(|t| (t.name, t.path));
        let named = |name: &str, path: &str| Ok((Some(name.to_owned()), PathBuf::from(path)));
        let bare = |path: &str| Ok((None, PathBuf::from(path)));
        assert_eq!(parse("t=a.csv"), named("t", "a.csv"));
        assert_eq!(parse("t=a=b.csv"), named("t", "a=b.csv"));
        assert_eq!(parse("a.csv"), bare("a.csv"));
        assert_eq!(parse("./day=1/a.csv"), bare("./day=1/a.csv"));
        assert_eq!(parse("s3://b/day=1/"), bare("s3://b/day=1/"));
        assert!(parse("=a.csv").is_err());
        assert!(parse("t=").is_err());
    }

    #[test]
    fn init_arguments_may_have_a_name() {
        let parse = |text: &str| text.parse::<InitOption>().map(|i| (i.name, i.text));
        let bare = |text: &str| Ok((None, text.to_owned()));
        assert_eq!(parse(r#"{"a": "b=c"}"#), bare(r#"{"a": "b=c"}"#));
        assert_eq!(parse("@a=b.json"), bare("@a=b.json"));
        let named = Ok((Some("Scale".to_owned()), "@k.json".to_owned()));
        assert_eq!(parse("Scale=@k.json"), named);
    }

    #[test]
    fn tables_are_called_like_their_files() {
        let parse = |texts: &[&str]| {
            let options: Vec<TableOption> = texts.iter().map(|t| t.parse().unwrap()).collect();
            tables(&options).map(|tables| {
                let name = |table: NamedTable| (table.name, table.inputs.len());
                tables.into_iter().map(name).collect::<Vec<_>>()
            })
        };
        let found = parse(&["data/flights.parquet", "-", "t=a.csv", "t=b.csv"]).unwrap();
        let expected = [("flights", 1), ("stdin", 1), ("t", 2)];
        assert_eq!(found, expected.map(|(name, n)| (name.to_owned(), n)));
        assert!(parse(&["a/x.csv", "b/x.csv"]).is_err());
        assert!(parse(&["day-*.csv"]).is_err());
    }
}
