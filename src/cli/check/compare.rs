//! Whether two answers are the same.

use arrow::array::{Array, ArrayRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::{Output, RowError};

/// Characters of a value that are shown.
pub(super) const SHOWN: usize = 60;

/// The first row in which two answers differ, and how; `None` when they are the same. All that is not a
/// number counts as the same, whatever its bits.
pub(super) fn difference(one: &Output, other: &Output) -> Option<String> {
    if one.array.len() != other.array.len() {
        let (a, b) = (one.array.len(), other.array.len());
        return Some(format!("{a} rows and {b} rows"));
    }
    if let Some(text) = row_error_difference(&one.row_errors, &other.row_errors) {
        return Some(text);
    }
    if one.array.to_data() == other.array.to_data() {
        return None;
    }
    (0..one.array.len()).find_map(|row| {
        let (a, b) = (value(&one.array, row), value(&other.array, row));
        (a != b).then(|| {
            format!(
                "row {row} is {} and {}",
                bounded(&a, SHOWN),
                bounded(&b, SHOWN)
            )
        })
    })
}

fn row_error_difference(one: &[RowError], other: &[RowError]) -> Option<String> {
    let place = (0..one.len().max(other.len())).find(|i| one.get(*i) != other.get(*i))?;
    let said = |error: Option<&RowError>| match error {
        Some(e) => format!("row {} fails ({})", e.row, bounded(&e.message, SHOWN)),
        None => "no further row fails".to_owned(),
    };
    Some(format!(
        "{}, and {}",
        said(one.get(place)),
        said(other.get(place))
    ))
}

/// Some rows of an answer.
pub(super) fn part(output: &Output, start: usize, rows: usize) -> Output {
    let end = start.saturating_add(rows);
    let errors = output.row_errors.iter();
    Output {
        array: output.array.slice(start, rows),
        row_errors: errors
            .filter(|e| (start..end).contains(&e.row))
            .map(|e| RowError {
                row: e.row.saturating_sub(start),
                ..e.clone()
            })
            .collect(),
        failed: output.failed.clone(),
    }
}

/// A value as text, the whole of it; equal texts stand for equal values.
pub(super) fn value(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "null".to_owned();
    }
    let options = FormatOptions::default().with_null("null");
    match ArrayFormatter::try_new(array.as_ref(), &options) {
        Ok(formatter) => match formatter.value(row).try_to_string() {
            Ok(text) if is_text(array) => format!("{text:?}"),
            Ok(text) => text,
            // Dates beyond the calendar have no text, but the reason names the number.
            Err(error) => error.to_string(),
        },
        Err(_) => format!("{:?}", array.slice(row, 1).to_data()),
    }
}

/// The beginning of a text.
pub(super) fn bounded(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", text.get(..end).unwrap_or(""), text.len()),
    }
}

fn is_text(array: &ArrayRef) -> bool {
    use arrow::datatypes::DataType::{LargeUtf8, Utf8, Utf8View};
    matches!(array.data_type(), Utf8 | LargeUtf8 | Utf8View)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Float64Array;

    use super::*;

    fn output(values: Vec<Option<f64>>) -> Output {
        Output {
            array: Arc::new(Float64Array::from(values)),
            row_errors: Vec::new(),
            failed: None,
        }
    }

    #[test]
    fn equal_answers_do_not_differ_and_others_name_the_row() {
        let answer = output(vec![Some(1.0), None, Some(f64::NAN)]);
        let other_nan = output(vec![Some(1.0), None, Some(-f64::NAN)]);
        assert_eq!(difference(&answer, &other_nan), None);
        let zero = |x| output(vec![Some(x)]);
        assert_eq!(
            difference(&zero(0.0), &zero(-0.0)).as_deref(),
            Some("row 0 is 0.0 and -0.0")
        );
        assert_eq!(
            difference(&answer, &output(vec![Some(1.0), Some(0.0), None])).as_deref(),
            Some("row 1 is null and 0.0")
        );
    }

    #[test]
    fn row_errors_are_part_of_an_answer() {
        let mut one = output(vec![None, None, Some(1.0)]);
        one.row_errors.push(RowError {
            row: 1,
            code: 1,
            message: "no".to_owned(),
        });
        let other = output(vec![None, None, Some(1.0)]);
        assert!(difference(&one, &other).is_some());
        assert_eq!(difference(&one, &one.clone()), None);
        assert_eq!(part(&one, 1, 2).row_errors[0].row, 0);
        assert!(part(&one, 2, 1).row_errors.is_empty());
    }
}
