//! `--arg NAME=COLUMN::TYPE`: columns converted on request, with an error that names the row.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use datafusion::common::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// A value that is none of the type asked for.
#[derive(Debug, thiserror::Error)]
#[error("row {row}: {value:?} of the column `{column}` cannot be converted to {to}")]
pub(crate) struct ConversionError {
    row: u64,
    value: String,
    column: String,
    to: DataType,
}

impl ConversionError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> String {
        format!(
            "leave such rows out with --where \"arrow_try_cast({}, '{}') IS NOT NULL\"",
            sql_name(&self.column),
            self.to
        )
    }
}

/// A column's name as SQL takes it.
fn sql_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Whether Arrow converts values of one type to the other at all.
pub(crate) fn is_possible(from: &DataType, to: &DataType) -> bool {
    can_cast_types(from, to)
}

/// The column's values as `to`. Rows are counted from 0, so the expression is for one pass over the rows,
/// in their order.
pub(crate) fn converted(column: Expr, name: &str, to: &DataType) -> Expr {
    let conversion = Conversion {
        column: name.to_owned(),
        to: to.clone(),
        signature: Signature::any(1, Volatility::Immutable),
        rows_before: AtomicU64::new(0),
    };
    ScalarUDF::new_from_impl(conversion).call(vec![column])
}

#[derive(Debug)]
struct Conversion {
    column: String,
    to: DataType,
    signature: Signature,
    rows_before: AtomicU64,
}

impl PartialEq for Conversion {
    fn eq(&self, other: &Self) -> bool {
        self.column == other.column && self.to == other.to
    }
}

impl Eq for Conversion {}

impl Hash for Conversion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.to.hash(state);
    }
}

impl ScalarUDFImpl for Conversion {
    fn name(&self) -> &str {
        "convert"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> PlanResult<FieldRef> {
        // Values that cannot be converted are errors, so no null is made.
        let nullable = args.arg_fields.iter().any(|f| f.is_nullable());
        let field = Field::new(self.name(), self.to.clone(), nullable);
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let rows = args.number_rows;
        let before = self.rows_before.fetch_add(rows as u64, Ordering::Relaxed);
        let values = ColumnarValue::values_to_arrays(&args.args)?;
        let Some(values) = values.first() else {
            return Err(DataFusionError::Internal("a conversion of nothing".into()));
        };
        let made =
            cast(values, &self.to, false).map_err(|error| self.explain(values, before, error))?;
        Ok(ColumnarValue::Array(made))
    }
}

impl Conversion {
    /// The first row that cannot be converted; `error` where none is found.
    fn explain(&self, values: &ArrayRef, before: u64, error: ArrowError) -> DataFusionError {
        let nulls = values.logical_nulls();
        let was_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let failed = cast(values, &self.to, true)
            .ok()
            .and_then(|tried| (0..values.len()).find(|row| tried.is_null(*row) && !was_null(*row)));
        let Some(row) = failed else {
            return error.into();
        };
        DataFusionError::External(Box::new(ConversionError {
            row: before.saturating_add(row as u64),
            value: shown(values, row),
            column: self.column.clone(),
            to: self.to.clone(),
        }))
    }
}

fn cast(values: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe,
        ..CastOptions::default()
    };
    cast_with_options(values, to, &options)
}

/// A value as people read it, of which a message needs no more than the beginning.
fn shown(values: &ArrayRef, row: usize) -> String {
    const LONGEST: usize = 80;
    let text = array_value_to_string(values, row).unwrap_or_default();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
