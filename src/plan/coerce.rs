//! Which types the arguments of a call are cast to.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::{ArgumentType, Function, Module, ParameterType, is_lossless};

/// The types that `types` are cast to for the overload that is meant; `None` where none is, or several
/// are.
///
/// First choice are casts that lose nothing, as everywhere else. SQL writes every whole number as Int64
/// and every other as Float64, so numbers are then also cast as DataFusion casts them for its own
/// functions: a value that the parameter's type does not have is an error of the row's cast. Large texts,
/// bytes and lists are cast to plain ones likewise, and dictionaries as their values would be.
pub(super) fn parameter_types(
    module: &Module,
    udf: &str,
    types: &[DataType],
) -> Option<Vec<DataType>> {
    let offered: Vec<_> = types.iter().cloned().map(ArgumentType::Typed).collect();
    if let Ok(resolved) = module.resolve(udf, &offered) {
        return resolved.types.into_iter().collect();
    }
    let mut fits: Vec<(u32, Vec<DataType>)> = module
        .manifest()
        .overloads(udf)
        .filter_map(|function| as_sql_would(function, types))
        .collect();
    fits.sort_by_key(|(cost, _)| *cost);
    match fits.as_slice() {
        [(a, _), (b, _), ..] if a == b => None,
        [(_, best), ..] => Some(best.clone()),
        [] => None,
    }
}

fn as_sql_would(function: &Arc<Function>, types: &[DataType]) -> Option<(u32, Vec<DataType>)> {
    if function.parameters.len() != types.len() {
        return None;
    }
    let mut cost = 0_u32;
    let mut casts = Vec::with_capacity(types.len());
    for (parameter, from) in function.parameters.iter().zip(types) {
        let to = match &parameter.accepts {
            ParameterType::Any => from,
            ParameterType::Exact(field) => field.data_type(),
        };
        cost = cost.saturating_add(sql_cost(from, to)?);
        casts.push(to.clone());
    }
    Some((cost, casts))
}

fn sql_cost(from: &DataType, to: &DataType) -> Option<u32> {
    if from == to {
        return Some(0);
    }
    if is_lossless(from, to) {
        return Some(1);
    }
    match (from, to) {
        // Only more than two gigabytes in one batch do not fit.
        (DataType::LargeUtf8, DataType::Utf8) | (DataType::LargeBinary, DataType::Binary) => {
            return Some(100);
        }
        (DataType::LargeList(from), DataType::List(to)) if from.data_type() == to.data_type() => {
            return Some(100);
        }
        (DataType::Dictionary(_, values), _) => {
            return sql_cost(values, to).map(|cost| cost.saturating_add(1));
        }
        _ => {}
    }
    let width = |t: &DataType| t.primitive_width().and_then(|w| u32::try_from(w).ok());
    let is_decimal = |t: &DataType| {
        matches!(
            t,
            DataType::Decimal32(..)
                | DataType::Decimal64(..)
                | DataType::Decimal128(..)
                | DataType::Decimal256(..)
        )
    };
    // Of several the widest keeps most.
    let narrowness = 32_u32.saturating_sub(width(to)?);
    let base = match (from, to) {
        _ if from.is_integer() && to.is_integer() => 100,
        _ if from.is_floating() && to.is_floating() => 100,
        _ if from.is_integer() && is_decimal(to) => 200,
        _ if from.is_integer() && to.is_floating() => 300,
        _ if is_decimal(from) && to.is_floating() => 300,
        _ => return None,
    };
    Some(narrowness.saturating_add(base))
}
