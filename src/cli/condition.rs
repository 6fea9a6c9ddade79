//! `--where`: an SQL condition over the input's columns.

use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{ExprSchemable, LogicalPlanBuilder};
use datafusion::sql::sqlparser::parser::ParserError;

use super::arguments::find_column;
use super::conversion::ConversionError;
use super::failure::{Exit, Failure, first_paragraph};
use super::io::{InputError, OutputError};
use super::sql_size::{check_size, quoted};
use crate::Error;
use crate::plan::find_error;

/// The rows for which the condition holds.
pub(crate) fn filter(
    rows: LogicalPlanBuilder,
    text: &str,
    input: &Schema,
    state: &SessionState,
) -> Result<LogicalPlanBuilder, Failure> {
    let wrong = |reason: String| {
        Failure::usage(format!("the condition --where {} cannot be used: {reason}", quoted(text)))
            .hint("write it as in SQL, over the columns of the input: \"delay > 0 AND origin = 'JFK'\"; names with capital letters stand in double quotes")
    };
    let refused = |error: DataFusionError| match error.find_root() {
        DataFusionError::SchemaError(e, _) => match e.as_ref() {
            SchemaError::FieldNotFound { field, .. } => match find_column(input, field.name()) {
                Err(failure) => failure,
                Ok(_) => wrong(e.to_string()),
            },
            other => wrong(other.to_string()),
        },
        DataFusionError::SQL(e, _) => match e.as_ref() {
            ParserError::ParserError(reason) | ParserError::TokenizerError(reason) => {
                wrong(reason.clone())
            }
            ParserError::RecursionLimitExceeded => wrong("it nests too deep".to_owned()),
        },
        other => wrong(first_paragraph(&other.strip_backtrace())),
    };
    check_size(text).map_err(wrong)?;
    let condition = state
        .create_logical_expr(text, rows.schema())
        .map_err(refused)?;
    let data_type = condition.get_type(rows.schema()).map_err(refused)?;
    if data_type != DataType::Boolean {
        return Err(wrong(format!("it is {data_type}, and Boolean is expected")));
    }
    Ok(rows.filter(condition)?)
}

/// What is wrong with a condition that was read and cannot be planned.
pub(crate) fn unplannable(text: &str, error: &DataFusionError) -> Failure {
    let reason = error.find_root().strip_backtrace();
    let reason = reason.lines().next().unwrap_or_default();
    let reason: String = reason.chars().take(200).collect();
    Failure::usage(format!("the condition --where {} cannot be used: {reason}", quoted(text)))
        .hint("compare columns with values of their types; a CSV column with a placeholder is text unless --null names it")
}

/// The failure of a run. What only an expression can have met is told of the condition, the only one that
/// the user wrote.
pub(crate) fn explain(condition: Option<&str>, error: DataFusionError) -> Failure {
    let known = find_error::<Error>(&error).is_some()
        || find_error::<ConversionError>(&error).is_some()
        || find_error::<InputError>(&error).is_some()
        || find_error::<OutputError>(&error).is_some();
    match (condition, uncomputable(error.find_root())) {
        (Some(text), Some((reason, hint))) if !known => Failure {
            exit: Exit::Failed,
            message: format!(
                "the condition --where {} cannot be computed for a row: {reason}",
                quoted(text)
            ),
            hint: Some(hint.to_owned()),
        },
        _ => error.into(),
    }
}

/// What happened to an expression, and what to do about it.
pub(crate) fn uncomputable(root: &DataFusionError) -> Option<(String, &'static str)> {
    let DataFusionError::ArrowError(error, _) = root else {
        return None;
    };
    Some(match error.as_ref() {
        ArrowError::CastError(reason) | ArrowError::ParseError(reason) => (
            reason.clone(),
            "TRY_CAST instead of CAST gives a null where a value cannot be converted",
        ),
        ArrowError::DivideByZero => (
            "division by zero".to_owned(),
            "divide by NULLIF(x, 0), which gives a null there",
        ),
        ArrowError::ArithmeticOverflow(reason) => (
            reason.clone(),
            "compute with a wider type, as in CAST(x AS DOUBLE)",
        ),
        ArrowError::ComputeError(reason) => (
            reason.clone(),
            "CASE WHEN … THEN … END computes it only where it can be",
        ),
        _ => return None,
    })
}
