//! Values as sqllogictest files write them, in the way of DataFusion's own driver.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type, Schema as ArrowSchema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use sqllogictest::ColumnType;

/// The letter that a `query` line has for a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter(char);

impl ColumnType for Letter {
    fn from_char(value: char) -> Option<Self> {
        Some(match value {
            'B' | 'D' | 'I' | 'P' | 'R' | 'T' => Letter(value),
            _ => Letter('?'),
        })
    }

    fn to_char(&self) -> char {
        self.0
    }
}

pub(super) fn letters(schema: &ArrowSchema) -> Vec<Letter> {
    let types = schema.fields().iter().map(|f| f.data_type());
    types.map(|t| Letter(letter(t))).collect()
}

fn letter(of: &DataType) -> char {
    match of {
        DataType::Boolean => 'B',
        t if t.is_integer() => 'I',
        t if t.is_numeric() => 'R',
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => 'D',
        DataType::Timestamp(..) => 'P',
        t if t.is_string() => 'T',
        DataType::Dictionary(_, values) if values.is_string() => 'T',
        _ => '?',
    }
}

pub(super) fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, ArrowError> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| value(column, row));
            rows.push(values.collect::<Result<_, _>>()?);
        }
    }
    Ok(rows)
}

fn value(column: &dyn Array, row: usize) -> Result<String, ArrowError> {
    if column.is_null(row) {
        return Ok("NULL".to_owned());
    }
    Ok(match column.data_type() {
        DataType::Null => "NULL".to_owned(),
        DataType::Float16 => float(column.as_primitive::<Float16Type>().value(row)),
        DataType::Float32 => float(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            value(dictionary.values(), key)?
        }
        of => {
            let shown = datafusion::config::FormatOptions {
                null: "NULL".to_owned(),
                ..Default::default()
            };
            let options = FormatOptions::try_from(&shown).expect("valid options");
            let shown = ArrayFormatter::try_new(column, &options)?
                .value(row)
                .to_string();
            match of {
                t if t.is_decimal() => without_trailing_zeros(&shown),
                t if t.is_string() && shown.is_empty() => "(empty)".to_owned(),
                t if t.is_string() => shown.trim_end_matches('\n').replace('\0', "\\0"),
                _ => shown,
            }
        }
    })
}

/// Twelve digits after the point, since the last ones depend on the order of additions.
fn float(value: impl Into<f64> + std::fmt::Display) -> String {
    const DIGITS: usize = 12;
    let shortest = value.to_string();
    let value: f64 = value.into();
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    match shortest.split_once('.') {
        Some((_, digits)) if digits.len() > DIGITS => {
            without_trailing_zeros(&format!("{value:.DIGITS$}"))
        }
        _ => without_trailing_zeros(&shortest),
    }
}

fn without_trailing_zeros(number: &str) -> String {
    let short = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    match short {
        "-0" => "0".to_owned(),
        short => short.to_owned(),
    }
}

#[test]
fn floats_have_at_most_twelve_digits_after_the_point() {
    let written = [0.1 + 0.2, 1e22, -0.0, 2.50, f64::NAN, f64::NEG_INFINITY];
    let read = [
        "0.3",
        "10000000000000000000000",
        "0",
        "2.5",
        "NaN",
        "-Infinity",
    ];
    assert_eq!(written.map(float), read);
}
