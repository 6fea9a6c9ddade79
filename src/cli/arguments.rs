//! From `--arg` to the arguments of a call.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, cast};
use datafusion::prelude::SessionContext;

use super::failure::{Failure, first_paragraph};
use super::suggest::existing;
use crate::plan::PoolArgument;
use crate::{Argument, ArgumentType, Call, Function, Module};

/// `NAME=COLUMN` or `NAME=lit:VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgOption {
    parameter: String,
    source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Column(String),
    Literal(String),
}

impl FromStr for ArgOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Column names may hold anything, `=` too: the first one separates.
        let (parameter, source) = text
            .split_once('=')
            .ok_or("write NAME=COLUMN or NAME=lit:VALUE")?;
        if parameter.is_empty() {
            return Err("the parameter's name is missing before `=`".to_owned());
        }
        let source = match source.strip_prefix("lit:") {
            Some(literal) => Source::Literal(literal.to_owned()),
            None => Source::Column(source.to_owned()),
        };
        Ok(ArgOption {
            parameter: parameter.to_owned(),
            source,
        })
    }
}

/// A call bound to its arguments, and where they come from.
pub(crate) struct BoundCall {
    pub(crate) call: Call,
    pub(crate) arguments: Vec<PoolArgument>,
}

/// Binds a UDF to columns of `schema` and constants. Parameters without an option take the column of
/// their name.
pub(crate) fn bind(
    module: &Module,
    udf: &str,
    options: &[ArgOption],
    schema: &Schema,
    qualifier: &str,
    state: &SessionState,
) -> Result<BoundCall, Failure> {
    let sources = sources(module, udf, options, schema)?;
    let offered: Vec<ArgumentType> = sources
        .iter()
        .map(|(_, source)| offer(source, schema))
        .collect::<Result<_, _>>()?;
    let resolved = module.resolve(udf, &offered)?;
    let mut bound = Vec::with_capacity(sources.len());
    let mut arguments = Vec::with_capacity(sources.len());
    for ((parameter, source), to) in sources.iter().zip(&resolved.types) {
        match source {
            Source::Column(name) => {
                let (argument, expression) = column(schema, name, to.as_ref(), qualifier)?;
                bound.push(argument);
                arguments.push(PoolArgument::Each(expression));
            }
            Source::Literal(text) => {
                let value = constant(parameter, text, to.as_ref(), state)?;
                let shown = ScalarValue::try_from_array(&value, 0).map_err(Failure::from)?;
                // An array of the type Null has no validity of its own, and nothing but nulls.
                let nullable = value.logical_null_count() > 0;
                let field = Field::new(parameter, value.data_type().clone(), nullable);
                bound.push(Argument {
                    field: Arc::new(field),
                    constant: Some(value),
                });
                arguments.push(PoolArgument::Constant(shown));
            }
        }
    }
    let call = module.bind(&resolved.function, bound)?;
    Ok(BoundCall { call, arguments })
}

/// Each parameter, in order, with what it takes.
fn sources(
    module: &Module,
    udf: &str,
    options: &[ArgOption],
    schema: &Schema,
) -> Result<Vec<(String, Source)>, Failure> {
    for (i, option) in options.iter().enumerate() {
        if options
            .iter()
            .take(i)
            .any(|o| o.parameter == option.parameter)
        {
            return Err(Failure::usage(format!(
                "the parameter `{}` is given twice",
                option.parameter
            )));
        }
    }
    let overloads: Vec<&Function> = module.manifest().overloads(udf).map(Arc::as_ref).collect();
    if overloads.is_empty() {
        // For its message, which knows the names that exist.
        module.resolve(udf, &[])?;
    }
    // Overloads may differ in the names and number of their parameters; the one that uses most of
    // what is there is meant.
    let mut best: Option<Vec<(String, Source)>> = None;
    let mut refused: Option<Failure> = None;
    for function in overloads {
        match match_parameters(function, options, schema) {
            Ok(sources) if best.as_ref().is_none_or(|b| b.len() < sources.len()) => {
                best = Some(sources)
            }
            Ok(_) => {}
            Err(failure) => refused = refused.or(Some(failure)),
        }
    }
    best.ok_or_else(|| {
        refused.unwrap_or_else(|| Failure::usage(format!("{} has no UDF `{udf}`", module.name())))
    })
}

fn match_parameters(
    function: &Function,
    options: &[ArgOption],
    schema: &Schema,
) -> Result<Vec<(String, Source)>, Failure> {
    let names = || function.parameters.iter().map(|p| p.name.as_str());
    for option in options {
        if !names().any(|name| name == option.parameter) {
            let hint = existing("parameters", &option.parameter, names());
            return Err(Failure::usage(format!(
                "`{}` has no parameter `{}`",
                function.name, option.parameter
            ))
            .hint(hint));
        }
    }
    names()
        .map(|name| {
            let source = match options.iter().find(|o| o.parameter == name) {
                Some(option) => option.source.clone(),
                None if schema.column_with_name(name).is_some() => Source::Column(name.to_owned()),
                None => {
                    let message = format!("the parameter `{name}` of `{}` has no argument, and the input no column of that name", function.name);
                    let columns = existing("columns", name, columns(schema));
                    return Err(Failure::usage(message).hint(format!("give one with --arg {name}=COLUMN or --arg {name}=lit:VALUE; {columns}")));
                }
            };
            Ok((name.to_owned(), source))
        })
        .collect()
}

fn columns(schema: &Schema) -> impl Iterator<Item = &str> {
    schema.fields().iter().map(|f| f.name().as_str())
}

/// The column of a name, or what there is instead.
pub(crate) fn find_column<'s>(schema: &'s Schema, name: &str) -> Result<&'s Arc<Field>, Failure> {
    schema
        .fields()
        .iter()
        .find(|f| f.name() == name)
        .ok_or_else(|| {
            Failure::usage(format!("the input has no column `{name}`")).hint(existing(
                "columns",
                name,
                columns(schema),
            ))
        })
}

fn offer(source: &Source, schema: &Schema) -> Result<ArgumentType, Failure> {
    Ok(match source {
        Source::Column(name) => ArgumentType::Typed(find_column(schema, name)?.data_type().clone()),
        Source::Literal(text) => ArgumentType::Literal(text.clone()),
    })
}

fn column(
    schema: &Schema,
    name: &str,
    to: Option<&DataType>,
    qualifier: &str,
) -> Result<(Argument, Expr), Failure> {
    let field = find_column(schema, name)?;
    let expression = Expr::Column(Column::new(Some(qualifier), name));
    match to {
        Some(to) if to != field.data_type() => {
            let field = Field::new(name, to.clone(), field.is_nullable());
            Ok((Argument::column(field), cast(expression, to.clone())))
        }
        _ => Ok((Argument::column(Arc::clone(field)), expression)),
    }
}

/// A constant as an array of one row: read as the parameter's type, or as SQL where it has none.
fn constant(
    parameter: &str,
    text: &str,
    to: Option<&DataType>,
    state: &SessionState,
) -> Result<ArrayRef, Failure> {
    let Some(to) = to else {
        return sql_literal(parameter, text, state);
    };
    if text.trim().eq_ignore_ascii_case("null") {
        return Ok(new_null_array(to, 1));
    }
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(&StringArray::from(vec![text]), to, &strict).map_err(|e| {
        Failure::usage(format!(
            "the constant {text:?} for `{parameter}` is not {to}: {e}"
        ))
    })
}

fn sql_literal(parameter: &str, text: &str, state: &SessionState) -> Result<ArrayRef, Failure> {
    let wrong = |reason: String| {
        Failure::usage(format!("the constant {text:?} for `{parameter}` is not an SQL literal: {reason}"))
            .hint("the parameter takes any type, so write the literal as in SQL: 3, 1.5, true, 'text', null, DATE '2020-01-01'")
    };
    let empty = DFSchema::empty();
    let expression = state
        .create_logical_expr(text, &empty)
        .map_err(|_| wrong("it cannot be read as one".to_owned()))?;
    let context = SessionContext::new_with_state(state.clone());
    let physical = context
        .create_physical_expr(expression, &empty)
        .map_err(|_| wrong("it is not a constant".to_owned()))?;
    let nothing = arrow::array::RecordBatch::new_empty(Arc::new(Schema::empty()));
    let value = physical
        .evaluate(&nothing)
        .map_err(|e| wrong(first_paragraph(&e.strip_backtrace())))?;
    match value {
        datafusion::logical_expr::ColumnarValue::Scalar(value) => {
            value.to_array().map_err(|e| wrong(e.strip_backtrace()))
        }
        datafusion::logical_expr::ColumnarValue::Array(_) => {
            Err(wrong("it is not a constant".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_equals_sign_separates() {
        let parsed: ArgOption = "a=b=c".parse().unwrap();
        assert_eq!(
            parsed,
            ArgOption {
                parameter: "a".into(),
                source: Source::Column("b=c".into())
            }
        );
        let parsed: ArgOption = "a=lit:x=1".parse().unwrap();
        assert_eq!(parsed.source, Source::Literal("x=1".into()));
        assert!("a".parse::<ArgOption>().is_err());
        assert!("=a".parse::<ArgOption>().is_err());
    }
}
