//! Whether rows fit a call, and a call a pool.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use super::Rows;
use super::slot::Recipe;
use crate::call::{Argument, Call};
use crate::module::{Function, Module, NullHandling, Parameter, ParameterType};

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
    let expected = leaves(call);
    if expected.len() != rows.columns.len() {
        return Err(format!(
            "{} columns for {} arguments that are not constant",
            rows.columns.len(),
            expected.len()
        ));
    }
    for (leaf, column) in expected.iter().zip(&rows.columns) {
        let (parameter, field) = (leaf.parameter, &leaf.argument.field);
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
    }
    Ok(())
}

/// Whether the columns of the rows that are computed have nulls only where they may.
pub(super) fn check_nulls(call: &Call, columns: &[ArrayRef]) -> Result<(), String> {
    nulls_fit(&leaves(call), columns)
}

/// As [`check_nulls`], for the call alone, all of whose arguments are columns or constants by now.
pub(super) fn check_own_nulls(call: &Call, columns: &[ArrayRef]) -> Result<(), String> {
    nulls_fit(&own_leaves(call), columns)
}

fn nulls_fit(leaves: &[Leaf<'_>], columns: &[ArrayRef]) -> Result<(), String> {
    for (leaf, column) in leaves.iter().zip(columns) {
        if column.null_count() == 0 {
            continue;
        }
        let parameter = leaf.parameter;
        if !leaf.argument.field.is_nullable() {
            return Err(format!(
                "the column for `{}` has nulls, the call was bound to a column without",
                parameter.name
            ));
        }
        let takes_nulls = match &parameter.accepts {
            ParameterType::Exact(field) => field.is_nullable(),
            ParameterType::Any => true,
        };
        if !takes_nulls && leaf.function.nulls == NullHandling::Handle {
            return Err(format!(
                "the column for `{}` has nulls, which the function does not take; fill them in first",
                parameter.name
            ));
        }
    }
    Ok(())
}

/// An argument that is a column.
struct Leaf<'c> {
    argument: &'c Argument,
    parameter: &'c Parameter,
    function: &'c Function,
}

/// The columns of a call and of the calls that compute its arguments, in their order.
fn leaves(call: &Call) -> Vec<Leaf<'_>> {
    let mut found = Vec::new();
    for (at, leaf) in arguments(call).enumerate() {
        match call.0.inner.get(at).and_then(Option::as_ref) {
            Some(inner) => found.extend(leaves(inner)),
            None if leaf.argument.constant.is_some() => {}
            None => found.push(leaf),
        }
    }
    found
}

/// The arguments of a call that are not constant, whatever computes them.
fn own_leaves(call: &Call) -> Vec<Leaf<'_>> {
    arguments(call)
        .filter(|leaf| leaf.argument.constant.is_none())
        .collect()
}

fn arguments(call: &Call) -> impl Iterator<Item = Leaf<'_>> {
    let bound = &*call.0;
    let arguments = bound.arguments.iter().zip(&bound.function.parameters);
    arguments.map(|(argument, parameter)| Leaf {
        argument,
        parameter,
        function: &bound.function,
    })
}

/// Types that lie in memory alike; names of nested fields do not matter.
fn same_type(a: &DataType, b: &DataType) -> bool {
    a == b || a.equals_datatype(b)
}
