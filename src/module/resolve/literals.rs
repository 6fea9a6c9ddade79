//! Literals: text that becomes a value of the type that a parameter takes.

use std::sync::Arc;

use arrow::array::StringArray;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;

use super::ArgumentType;
use crate::module::{Function, ParameterType};

/// Reads a literal as a type would; `None` when it cannot be. The cost prefers the type that is most
/// like the literal: integers for digits, text last.
pub(super) fn cost(text: &str, to: &DataType) -> Option<u32> {
    if !is_readable(text, to) {
        return None;
    }
    Some(match to {
        DataType::Boolean => 10,
        DataType::Int64 => 11,
        t if t.is_integer() => 12,
        DataType::Float64 => 13,
        t if t.is_floating() => 14,
        t if t.is_numeric() || t.is_temporal() => 15,
        DataType::Utf8 => 20,
        _ => 21,
    })
}

fn is_readable(text: &str, to: &DataType) -> bool {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let array = StringArray::from(vec![text]);
    text.trim().eq_ignore_ascii_case("null") || cast_with_options(&array, to, &options).is_ok()
}

/// What is wrong with the first literal that no overload can read.
pub(super) fn unreadable(
    arguments: &[ArgumentType],
    overloads: &[&Arc<Function>],
) -> Option<String> {
    arguments.iter().enumerate().find_map(|(i, argument)| {
        let ArgumentType::Literal(text) = argument else {
            return None;
        };
        let mut types: Vec<&DataType> = Vec::new();
        for function in overloads
            .iter()
            .filter(|f| f.parameters.len() == arguments.len())
        {
            let parameter = function.parameters.get(i)?;
            let ParameterType::Exact(field) = &parameter.accepts else {
                return None;
            };
            if is_readable(text, field.data_type()) {
                return None;
            }
            if !types.contains(&field.data_type()) {
                types.push(field.data_type());
            }
        }
        (!types.is_empty()).then(|| why(text, &types))
    })
}

/// Why a literal is of none of these types.
fn why(text: &str, types: &[&DataType]) -> String {
    let names: Vec<String> = types.iter().map(ToString::to_string).collect();
    let names = names.join(" or ");
    let trimmed = text.trim();
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let is_number = is_whole || trimmed.parse::<f64>().is_ok();
    if is_whole && let Some(range) = types.iter().filter_map(|t| range(t)).next_back() {
        format!("{trimmed} is out of range: {range}")
    } else if !types.iter().all(|t| t.is_numeric()) {
        format!("{text:?} cannot be read as {names}")
    } else if !is_number {
        format!("{text:?} is not a number")
    } else if types.iter().all(|t| t.is_integer()) {
        format!("{trimmed} is not a whole number, as {names} is")
    } else {
        format!("{trimmed} is out of the range of {names}")
    }
}

/// Where the numbers of an integer type begin and end.
fn range(of: &DataType) -> Option<String> {
    let (least, most): (i128, i128) = match of {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    };
    Some(format!("{of} goes from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_that_fit_no_type_are_told_why() {
        use DataType::{Boolean, Decimal128, Float64, Int8, Int32, Int64, UInt8, Utf8};
        for (text, types, expected) in [
            (
                "1.5",
                vec![&Int32, &Int64],
                "1.5 is not a whole number, as Int32 or Int64 is",
            ),
            ("abc", vec![&Float64], "\"abc\" is not a number"),
            ("", vec![&Int64], "\"\" is not a number"),
            (
                "300",
                vec![&Int8],
                "300 is out of range: Int8 goes from -128 to 127",
            ),
            (
                "-1",
                vec![&UInt8],
                "-1 is out of range: UInt8 goes from 0 to 255",
            ),
            (
                "9999999999999999999",
                vec![&Int32, &Int64],
                "9999999999999999999 is out of range: Int64 goes from -9223372036854775808 to 9223372036854775807",
            ),
            (
                "1000",
                vec![&Decimal128(3, 1)],
                "1000 is out of the range of Decimal128(3, 1)",
            ),
            (
                "maybe",
                vec![&Boolean],
                "\"maybe\" cannot be read as Boolean",
            ),
        ] {
            assert!(types.iter().all(|t| !is_readable(text, t)), "{text}");
            assert_eq!(why(text, &types), expected);
        }
        assert!(is_readable("abc", &Utf8) && is_readable(" NULL ", &Int8));
    }
}
