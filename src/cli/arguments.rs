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

use super::conversion;
use super::failure::{Failure, first_paragraph};
use super::sql_size::{check_size, quoted};
use super::suggest::existing;
use crate::plan::PoolArgument;
use crate::{
    Argument, ArgumentType, BindError, Call, Function, Module, ParameterType, is_lossless,
};

/// `NAME=COLUMN`, `NAME=COLUMN::TYPE` or `NAME=lit:VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgOption {
    parameter: String,
    source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A column's name, perhaps with `::` and the type that its values are converted to.
    Column(String),
    Literal(String),
}

impl FromStr for ArgOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Column names may hold anything, `=` too: the first one separates.
        let (parameter, source) = text
            .split_once('=')
            .ok_or("write NAME=COLUMN, NAME=COLUMN::TYPE or NAME=lit:VALUE")?;
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
    let sources: Vec<(String, Given)> = sources(module, udf, options, schema)?
        .into_iter()
        .map(|(parameter, source)| Ok((parameter, Given::find(&source, schema)?)))
        .collect::<Result<_, Failure>>()?;
    let offered: Vec<ArgumentType> = sources.iter().map(|(_, given)| given.offer()).collect();
    let resolved = module
        .resolve(udf, &offered)
        .map_err(|error| explain(error, module, udf, &sources))?;
    let mut bound = Vec::with_capacity(sources.len());
    let mut arguments = Vec::with_capacity(sources.len());
    for ((parameter, given), to) in sources.iter().zip(&resolved.types) {
        match given {
            Given::Column { field, convert } => {
                let (argument, expression) =
                    column(field, convert.as_ref(), to.as_ref(), qualifier);
                bound.push(argument);
                arguments.push(PoolArgument::Each(expression));
            }
            Given::Literal(text) => {
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

/// What a parameter takes, looked up in the input.
enum Given {
    Column {
        field: Arc<Field>,
        convert: Option<DataType>,
    },
    Literal(String),
}

impl Given {
    /// `::` separates a type only where the input has no column of the whole name.
    fn find(source: &Source, schema: &Schema) -> Result<Self, Failure> {
        let text = match source {
            Source::Literal(text) => return Ok(Given::Literal(text.clone())),
            Source::Column(text) => text,
        };
        let (field, convert) = match (find_column(schema, text), text.rsplit_once("::")) {
            (Ok(field), _) => (field, None),
            (Err(_), Some((name, wanted))) => {
                let field = find_column(schema, name)?;
                (field, Some(conversion(field, wanted)?))
            }
            (Err(failure), None) => return Err(failure),
        };
        Ok(Given::Column {
            field: Arc::clone(field),
            convert,
        })
    }

    fn offer(&self) -> ArgumentType {
        match self {
            Given::Column { field, convert } => {
                ArgumentType::Typed(convert.as_ref().unwrap_or(field.data_type()).clone())
            }
            Given::Literal(text) => ArgumentType::Literal(text.clone()),
        }
    }
}

/// The type that a column's values are to be converted to.
fn conversion(field: &Field, wanted: &str) -> Result<DataType, Failure> {
    // The parser calls itself for nested types.
    const LONGEST: usize = 1_000;
    let to = Some(wanted)
        .filter(|text| text.len() <= LONGEST)
        .and_then(|text| text.parse::<DataType>().ok())
        .ok_or_else(|| {
            Failure::usage(format!("{wanted:?} is not an Arrow type")).hint(
                "write it as messages do: Int64, Float64, Utf8, Boolean, Date32, Timestamp(ms), Decimal128(10, 2)",
            )
        })?;
    match conversion::is_possible(field.data_type(), &to) {
        true => Ok(to),
        false => Err(Failure::usage(format!(
            "the column `{}` is {}, which cannot be converted to {to}",
            field.name(),
            field.data_type()
        ))),
    }
}

/// Says how a column is converted, where that is what is missing.
fn explain(error: BindError, module: &Module, udf: &str, sources: &[(String, Given)]) -> Failure {
    // Of several overloads the widest takes most of what a column may hold.
    let widest = module
        .manifest()
        .overloads(udf)
        .filter(|function| function.parameters.len() == sources.len())
        .max_by_key(|function| width(function));
    let unfit = widest.and_then(|function| {
        let pairs = function.parameters.iter().zip(sources);
        pairs
            .filter_map(
                |(parameter, (_, given))| match (&parameter.accepts, given) {
                    (ParameterType::Exact(to), Given::Column { field, convert }) => {
                        Some((&parameter.name, to.data_type(), field, convert))
                    }
                    _ => None,
                },
            )
            .find(|(_, to, field, convert)| {
                let found = convert.as_ref().unwrap_or(field.data_type());
                !is_lossless(found, to) && conversion::is_possible(field.data_type(), to)
            })
            .map(|(parameter, to, field, _)| {
                format!(
                    "--arg {parameter}={}::{to} converts the column `{}`",
                    field.name(),
                    field.name()
                )
            })
    });
    let failure = Failure::from(error);
    match unfit {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Bytes that the values of all parameters take, as far as their types say.
fn width(function: &Function) -> usize {
    let widths = function.parameters.iter().map(|p| match &p.accepts {
        ParameterType::Exact(field) => field.data_type().primitive_width().unwrap_or(0),
        ParameterType::Any => 0,
    });
    widths.fold(0, usize::saturating_add)
}

fn column(
    field: &Arc<Field>,
    convert: Option<&DataType>,
    to: Option<&DataType>,
    qualifier: &str,
) -> (Argument, Expr) {
    let mut field = Arc::clone(field);
    let mut expression = Expr::Column(Column::new(Some(qualifier), field.name()));
    let retyped =
        |field: &Field, to: &DataType| Field::new(field.name(), to.clone(), field.is_nullable());
    if let Some(to) = convert.filter(|to| *to != field.data_type()) {
        expression = conversion::converted(expression, field.name(), to);
        field = Arc::new(retyped(&field, to));
    }
    if let Some(to) = to.filter(|to| *to != field.data_type()) {
        expression = cast(expression, to.clone());
        field = Arc::new(retyped(&field, to));
    }
    (Argument::column(field), expression)
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
        Failure::usage(format!("the constant {} for `{parameter}` is not an SQL literal: {reason}", quoted(text)))
            .hint("the parameter takes any type, so write the literal as in SQL: 3, 1.5, true, 'text', null, DATE '2020-01-01'")
    };
    check_size(text).map_err(wrong)?;
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
