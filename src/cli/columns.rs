//! `--select` and `--as`: which columns the output has, and in which order.

use arrow::datatypes::Schema;

use super::arguments::find_column;
use super::failure::Failure;

/// A column of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputColumn {
    /// One of the input's.
    Input(String),
    /// The UDF's result.
    Result,
}

/// The output's columns: those selected, or all of the input's and the result.
pub(crate) fn choose(
    select: &[String],
    result: &str,
    schema: &Schema,
) -> Result<Vec<OutputColumn>, Failure> {
    if select.is_empty() {
        if schema.column_with_name(result).is_some() {
            let message = format!(
                "the input has a column `{result}` already, which is also the name of the result"
            );
            return Err(Failure::usage(message).hint("give the result another name with --as NAME, or leave the input's column out with --select"));
        }
        let inputs = schema
            .fields()
            .iter()
            .map(|f| OutputColumn::Input(f.name().clone()));
        return Ok(inputs.chain([OutputColumn::Result]).collect());
    }
    let names = select
        .iter()
        .map(|text| split("--select", text))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let mut chosen: Vec<OutputColumn> = Vec::with_capacity(names.len());
    for name in names {
        let shown = name.clone();
        let column = if name == result {
            OutputColumn::Result
        } else {
            find_column(schema, &name).map_err(|failure| note_result(failure, result))?;
            OutputColumn::Input(name)
        };
        if chosen.contains(&column) {
            return Err(Failure::usage(format!(
                "--select names the column `{shown}` twice"
            )));
        }
        chosen.push(column);
    }
    Ok(chosen)
}

fn note_result(mut failure: Failure, result: &str) -> Failure {
    failure.hint = failure
        .hint
        .map(|hint| format!("{hint}, and `{result}` for the result"));
    failure
}

/// Splits at commas. A name that holds commas or quotes stands in double quotes, with its own double.
pub(crate) fn split(option: &str, text: &str) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted).ok_or_else(|| {
                Failure::usage(format!("{option} {text}: a double quote is not closed"))
            })?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                (name.to_owned(), after)
            }
        };
        names.push(name);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(names),
            None => {
                return Err(Failure::usage(format!(
                    "{option} {text}: a comma is missing before {after:?}"
                )));
            }
        }
    }
}

/// The name up to the closing quote, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(next) => {
                name.push('"');
                rest = next;
            }
            None => return Some((name, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn schema() -> Schema {
        Schema::new(
            ["a", "b", "c,d"]
                .map(|name| Field::new(name, DataType::Int32, true))
                .to_vec(),
        )
    }

    fn input(name: &str) -> OutputColumn {
        OutputColumn::Input(name.into())
    }

    #[test]
    fn all_columns_and_the_result_by_default() {
        let all = choose(&[], "y", &schema()).unwrap();
        assert_eq!(
            all,
            [input("a"), input("b"), input("c,d"), OutputColumn::Result]
        );
        assert!(choose(&[], "a", &schema()).is_err());
    }

    #[test]
    fn names_are_taken_in_the_order_given() {
        let chosen = choose(&["y,b".into(), "\"c,d\"".into()], "y", &schema()).unwrap();
        assert_eq!(chosen, [OutputColumn::Result, input("b"), input("c,d")]);
        // The input's column of that name is left out, so nothing clashes.
        assert_eq!(
            choose(&["a".into()], "a", &schema()).unwrap(),
            [OutputColumn::Result]
        );
    }

    #[test]
    fn wrong_selections_are_refused() {
        for wrong in ["x", "a,a", "\"a", "\"a\"b", ""] {
            assert!(choose(&[wrong.into()], "y", &schema()).is_err(), "{wrong}");
        }
    }
}
