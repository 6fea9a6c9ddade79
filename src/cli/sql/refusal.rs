//! What is wrong with a statement, for people: how the command ends, and what to do.

use std::path::Path;

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

use super::session::Session;
use crate::cli::condition::uncomputable;
use crate::cli::conversion::ConversionError;
use crate::cli::failure::{Exit, Failure, first_paragraph};
use crate::cli::io::{Format, InputError, OutputError};
use crate::cli::suggest::existing;
use crate::plan::{CreateFunctionError, find_error};
use crate::{Error, Fault};

/// What the parser says.
pub(super) fn unreadable(error: &DataFusionError) -> Failure {
    let reason = match error.find_root() {
        DataFusionError::SQL(error, _) => match error.as_ref() {
            ParserError::ParserError(reason) | ParserError::TokenizerError(reason) => {
                reason.clone()
            }
            ParserError::RecursionLimitExceeded => "it nests too deep".to_owned(),
        },
        other => other.strip_backtrace(),
    };
    Failure::usage(format!("the query cannot be read: {reason}"))
}

/// What became of a statement.
pub(super) fn explained(error: DataFusionError, session: &Session) -> Failure {
    if let Some(core) = find_error::<Error>(&error) {
        let failure = Failure::from(core);
        return match core {
            Error::Call(e) if matches!(*e.fault, Fault::Row { .. }) => failure
                .hint("SET wasmill.on_error = 'null', or --on-error null, goes on with a null"),
            _ => failure,
        };
    }
    if let Some(input) = find_error::<InputError>(&error) {
        return unreadable_file(input, session);
    }
    if find_error::<OutputError>(&error).is_some()
        || find_error::<ConversionError>(&error).is_some()
    {
        return error.into();
    }
    if let Some(refused) = find_error::<CreateFunctionError>(&error) {
        let exit = match refused {
            CreateFunctionError::Unreadable { .. } => Exit::Io,
            CreateFunctionError::Digest { .. } => Exit::Module,
            _ => Exit::Usage,
        };
        return Failure {
            exit,
            message: refused.to_string(),
            hint: None,
        };
    }
    let root = error.find_root();
    if let Some((reason, hint)) = uncomputable(root) {
        return Failure {
            exit: Exit::Failed,
            message: format!("the query cannot be computed for a row: {reason}"),
            hint: Some(hint.to_owned()),
        };
    }
    match root {
        DataFusionError::SQL(..) => unreadable(&error),
        DataFusionError::Plan(reason) => unplannable(reason, session),
        DataFusionError::SchemaError(reason, _) => in_two(&reason.to_string()),
        DataFusionError::Configuration(reason) => Failure::usage(without_trace(reason)),
        DataFusionError::NotImplemented(reason) => {
            Failure::usage(format!("this cannot be done: {}", without_trace(reason)))
        }
        DataFusionError::Execution(reason) if reason.starts_with("Function does not exist") => {
            Failure::usage("there is no such function").hint("SHOW FUNCTIONS lists them")
        }
        DataFusionError::Execution(reason) if reason.contains("already exists") => {
            Failure::usage(without_trace(reason)).hint("write CREATE OR REPLACE, or drop it first")
        }
        _ => error.into(),
    }
}

/// A file that a table was to be, beside the tables that there are.
fn unreadable_file(error: &InputError, session: &Session) -> Failure {
    let (InputError::Read { path, .. } | InputError::Unsupported { path, .. }) = error else {
        return Failure::io(error.to_string());
    };
    let tables = session.tables();
    let failure = Failure::io(error.to_string());
    match tables.is_empty() || path.exists() {
        true => failure,
        false => {
            let asked = path.to_string_lossy();
            failure.hint(existing(
                "tables",
                &asked,
                tables.iter().map(String::as_str),
            ))
        }
    }
}

fn unplannable(reason: &str, session: &Session) -> Failure {
    let reason = without_trace(reason);
    let missing = reason
        .strip_prefix("table '")
        .and_then(|rest| rest.split_once("' not found"));
    if let Some((name, _)) = missing {
        let short = name.strip_prefix("datafusion.").unwrap_or(name);
        let short = short.strip_prefix("public.").unwrap_or(short);
        if Format::of_name(Path::new(short)).is_some() {
            return Failure::usage(format!("there is no table `{short}`")).hint(format!(
                "the name of a file stands in quotes: FROM '{short}'"
            ));
        }
        let tables = session.tables();
        let hint = match tables.as_slice() {
            [] => {
                "give one with -t NAME=FILE, or name a file in quotes: FROM 'x.parquet'".to_owned()
            }
            tables => existing("tables", short, tables.iter().map(String::as_str)),
        };
        return Failure::usage(format!("there is no table `{short}`")).hint(hint);
    }
    let unknown = reason
        .strip_prefix("Invalid function '")
        .and_then(|rest| rest.split_once('\''));
    match unknown {
        Some((name, _)) => {
            let near = nearest_function(name, session);
            let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            Failure::usage(format!("there is no function `{name}`"))
                .hint(format!("{near}SHOW FUNCTIONS lists all functions"))
        }
        None => Failure::usage(reason),
    }
}

/// The function whose name is the likeliest to be meant. Exchanged letters are one mistake.
fn nearest_function(asked: &str, session: &Session) -> Option<String> {
    let asked = asked.to_lowercase();
    let most = asked.chars().count().div_ceil(3);
    session
        .function_names()
        .into_iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&asked, &name.to_lowercase()),
                name,
            )
        })
        .filter(|(mistakes, _)| *mistakes <= most)
        .min()
        .map(|(_, name)| name)
}

/// A message, and what it goes on with as a hint.
fn in_two(text: &str) -> Failure {
    let text = first_paragraph(text).replace('\n', " ");
    match text.split_once(". ") {
        Some((what, hint)) => Failure::usage(what.to_owned()).hint(hint.to_owned()),
        None => Failure::usage(text.trim_end_matches('.').to_owned()),
    }
}

/// Without what a library adds for its developers.
fn without_trace(reason: &str) -> String {
    let text = reason
        .split_once(DataFusionError::BACK_TRACE_SEP)
        .map_or(reason, |(text, _)| text);
    first_paragraph(text)
}
