//! Whether rows fit a call, and a call a pool.

use arrow::array::Array;
use arrow::datatypes::DataType;

use super::Rows;
use super::slot::Recipe;
use crate::call::Call;
use crate::module::{Module, NullHandling, ParameterType};

/// Whether rows and call fit this pool and each other.
pub(super) fn check(recipe: &Recipe, call: &Call, rows: &Rows) -> Result<(), String> {
    if call.module().digest() != recipe.module.digest() {
        let named = |module: &Module| format!("{} ({})", module.name(), module.digest().short());
        return Err(format!(
            "the call is of {}, the pool runs {}; bind it to the pool's module",
            named(call.module()),
            named(&recipe.module)
        ));
    }
    if let Some(state) = &call.function().state
        && recipe.state.as_ref().map(|s| &s.name) != Some(&state.name)
    {
        return Err(format!(
            "the call works on the state `{}`, which the pool does not hold; name it with `PoolBuilder::state`",
            state.name
        ));
    }
    if rows.rows > i32::MAX as usize {
        return Err(format!(
            "{} rows in one call; the most is {}",
            rows.rows,
            i32::MAX
        ));
    }
    if let Some(mask) = &rows.mask
        && mask.len() != rows.rows
    {
        return Err(format!(
            "the mask has {} rows, the call {}",
            mask.len(),
            rows.rows
        ));
    }
    let expected = call
        .0
        .arguments
        .iter()
        .zip(&call.function().parameters)
        .filter(|(a, _)| a.constant.is_none());
    let count = expected.clone().count();
    if count != rows.columns.len() {
        return Err(format!(
            "{} columns for {count} arguments that are not constant",
            rows.columns.len()
        ));
    }
    for ((argument, parameter), column) in expected.zip(&rows.columns) {
        let field = &argument.field;
        if column.len() != rows.rows {
            return Err(format!(
                "the column for `{}` has {} rows, the call {}",
                parameter.name,
                column.len(),
                rows.rows
            ));
        }
        if !same_type(column.data_type(), field.data_type()) {
            return Err(format!(
                "the column for `{}` is {}, the call was bound to {}",
                parameter.name,
                column.data_type(),
                field.data_type()
            ));
        }
        if column.null_count() > 0 {
            if !field.is_nullable() {
                return Err(format!(
                    "the column for `{}` has nulls, the call was bound to a column without",
                    parameter.name
                ));
            }
            let takes_nulls = match &parameter.accepts {
                ParameterType::Exact(field) => field.is_nullable(),
                ParameterType::Any => true,
            };
            if !takes_nulls && call.function().nulls == NullHandling::Handle {
                return Err(format!(
                    "the column for `{}` has nulls, which the function does not take; fill them in first",
                    parameter.name
                ));
            }
        }
    }
    Ok(())
}

/// Types that lie in memory alike; names of nested fields do not matter.
fn same_type(a: &DataType, b: &DataType) -> bool {
    a == b || a.equals_datatype(b)
}
