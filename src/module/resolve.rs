//! Which overload a call means, and which casts its arguments need.

mod literals;

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::{Function, Module, ParameterType};
use crate::error::BindError;

/// What is offered for one parameter.
#[derive(Debug, Clone)]
pub enum ArgumentType {
    /// A column or a typed constant.
    Typed(DataType),
    /// A literal's text, which may become any type that it can be read as.
    Literal(String),
}

/// The overload that was picked.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The function.
    pub function: Arc<Function>,
    /// The type that each argument must be cast to; the type it has where no cast is needed. `None`
    /// for a literal offered to a parameter of any type, whose type the caller decides.
    pub types: Vec<Option<DataType>>,
}

impl Module {
    /// Picks the overload of `udf` that takes `arguments` with the fewest casts, all of them lossless.
    ///
    /// # Errors
    /// [`BindError::UnknownUdf`] with the nearest name, [`BindError::Arguments`] when no overload fits
    /// or two fit equally well.
    pub fn resolve(&self, udf: &str, arguments: &[ArgumentType]) -> Result<Resolved, BindError> {
        let overloads: Vec<_> = self.manifest().overloads(udf).collect();
        if overloads.is_empty() {
            return Err(BindError::UnknownUdf {
                module: self.name().to_owned(),
                udf: udf.to_owned(),
                hint: self.hint(udf),
            });
        }
        let refused = |reason| BindError::Arguments {
            module: self.name().to_owned(),
            udf: udf.to_owned(),
            found: describe(arguments, &overloads),
            reason,
        };
        let mut fits: Vec<(Cost, Resolved)> = overloads
            .iter()
            .filter_map(|f| {
                fit(f, arguments).map(|(cost, types)| {
                    (
                        cost,
                        Resolved {
                            function: Arc::clone(f),
                            types,
                        },
                    )
                })
            })
            .collect();
        fits.sort_by_key(|(cost, _)| *cost);
        match fits.as_slice() {
            [] => {
                let takes: Vec<String> = overloads
                    .iter()
                    .map(|f| format!("{udf}({})", f.signature()))
                    .collect();
                let advice = literals::unreadable(arguments, &overloads)
                    .unwrap_or_else(|| "cast the arguments to one of these".to_owned());
                Err(refused(format!(
                    "it takes {}; {advice}",
                    takes.join(" or ")
                )))
            }
            [(a, first), (b, second), ..] if a == b => Err(refused(format!(
                "{udf}({}) and {udf}({}) fit equally well; cast the arguments to one of these",
                first.function.signature(),
                second.function.signature()
            ))),
            [(_, best), ..] => Ok(best.clone()),
        }
    }

    fn hint(&self, udf: &str) -> String {
        let names = self.manifest().names();
        match nearest(udf, &names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                const SHOWN: usize = 30;
                let shown: Vec<String> =
                    names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
                let more = match names.len().saturating_sub(SHOWN) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("it has {}{more}", shown.join(", "))
            }
        }
    }
}

/// The arguments under the names of their parameters, which overloads usually share.
fn describe(arguments: &[ArgumentType], overloads: &[&Arc<Function>]) -> String {
    let named = overloads
        .iter()
        .find(|f| f.parameters.len() == arguments.len());
    let types = arguments.iter().enumerate().map(|(i, argument)| {
        let shown = match argument {
            ArgumentType::Typed(t) => t.to_string(),
            ArgumentType::Literal(text) => format!("literal {text:?}"),
        };
        match named.and_then(|f| f.parameters.get(i)) {
            Some(parameter) => format!("{}: {shown}", parameter.name),
            None => shown,
        }
    });
    types.collect::<Vec<_>>().join(", ")
}

/// How far columns are cast, then how far literals are read from their looks.
type Cost = (u32, u32);

/// The cost of calling `function` with `arguments`: how far columns are cast, and after that how far
/// from their looks literals are read.
fn fit(function: &Function, arguments: &[ArgumentType]) -> Option<(Cost, Vec<Option<DataType>>)> {
    if function.parameters.len() != arguments.len() {
        return None;
    }
    let mut cost: Cost = (0, 0);
    let mut types = Vec::with_capacity(arguments.len());
    for (parameter, argument) in function.parameters.iter().zip(arguments) {
        let (step, to) = match (&parameter.accepts, argument) {
            (ParameterType::Any, ArgumentType::Typed(t)) => ((0, 0), Some(t.clone())),
            (ParameterType::Any, ArgumentType::Literal(_)) => ((0, 0), None),
            (ParameterType::Exact(field), ArgumentType::Typed(t)) => (
                (lossless_cost(t, field.data_type())?, 0),
                Some(field.data_type().clone()),
            ),
            // Among the types that a literal can be read as, the one that says most is meant.
            (ParameterType::Exact(field), ArgumentType::Literal(text)) => (
                (0, literals::cost(text, field.data_type())?),
                Some(field.data_type().clone()),
            ),
        };
        cost = (cost.0.saturating_add(step.0), cost.1.saturating_add(step.1));
        types.push(to);
    }
    Some((cost, types))
}

/// Whether every value of `from` is a value of `to`.
pub fn is_lossless(from: &DataType, to: &DataType) -> bool {
    lossless_cost(from, to).is_some()
}

fn lossless_cost(from: &DataType, to: &DataType) -> Option<u32> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256,
        Dictionary, FixedSizeBinary, Float16, Float32, Float64, Int8, Int16, Int32, Int64,
        LargeBinary, LargeUtf8, Null, RunEndEncoded, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    if from == to {
        return Some(0);
    }
    if same_layout(from, to) {
        return Some(1);
    }
    let is_text = |t: &DataType| matches!(t, Utf8 | LargeUtf8 | Utf8View);
    let is_bytes = |t: &DataType| matches!(t, Binary | LargeBinary | BinaryView);
    let digits = |t: &DataType| match t {
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => Some((*p, *s)),
        _ => None,
    };
    match (from, to) {
        (Null, _) => Some(20),
        (Dictionary(_, values), _) if !matches!(to, Dictionary(..)) => {
            lossless_cost(values, to).map(|c| c.saturating_add(1))
        }
        (RunEndEncoded(_, values), _) if !matches!(to, RunEndEncoded(..)) => {
            lossless_cost(values.data_type(), to).map(|c| c.saturating_add(1))
        }
        _ if is_text(from) && is_text(to) => Some(1),
        (FixedSizeBinary(_), _) if is_bytes(to) => Some(1),
        _ if is_bytes(from) && is_bytes(to) => Some(1),
        (Int8, Int16)
        | (Int16, Int32)
        | (Int32, Int64)
        | (UInt8, UInt16)
        | (UInt16, UInt32)
        | (UInt32, UInt64) => Some(1),
        (Int8, Int32) | (Int16, Int64) | (UInt8, UInt32) | (UInt16, UInt64) => Some(2),
        (Int8, Int64) | (UInt8, UInt64) => Some(3),
        (UInt8, Int16) | (UInt16, Int32) | (UInt32, Int64) => Some(2),
        (UInt8, Int32) | (UInt16, Int64) => Some(3),
        (UInt8, Int64) => Some(4),
        (Float16, Float32) | (Float32, Float64) => Some(1),
        (Float16, Float64) => Some(2),
        (Int8 | Int16 | UInt8 | UInt16, Float32) => Some(8),
        (Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32, Float64) => Some(7),
        (Date32, Date64) => Some(1),
        _ => {
            let ((p, s), (p2, s2)) = (digits(from)?, digits(to)?);
            let whole = |p: u8, s: i8| i16::from(p).saturating_sub(i16::from(s));
            (s2 >= s && whole(p2, s2) >= whole(p, s)).then_some(2)
        }
    }
}

/// Equal but for names of nested fields, metadata, and nulls that are allowed but not needed.
fn same_layout(from: &DataType, to: &DataType) -> bool {
    let field = |a: &arrow::datatypes::FieldRef, b: &arrow::datatypes::FieldRef| {
        (b.is_nullable() || !a.is_nullable())
            && (a.data_type() == b.data_type() || same_layout(a.data_type(), b.data_type()))
    };
    match (from, to) {
        (DataType::List(a), DataType::List(b))
        | (DataType::LargeList(a), DataType::LargeList(b))
        | (DataType::ListView(a), DataType::ListView(b))
        | (DataType::LargeListView(a), DataType::LargeListView(b)) => field(a, b),
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) => n == m && field(a, b),
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.name() == b.name() && field(a, b))
        }
        _ => false,
    }
}

/// The name that was probably meant, if one is near.
pub(crate) fn nearest<'a>(asked: &str, names: &[&'a str]) -> Option<&'a str> {
    let lower = asked.to_lowercase();
    let (distance, name) = names
        .iter()
        .map(|name| (strsim::osa_distance(&lower, &name.to_lowercase()), *name))
        .min_by_key(|(d, _)| *d)?;
    (distance <= asked.chars().count().max(3) / 3).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_never_loses_a_value() {
        use DataType::*;
        for (from, to) in [
            (Int16, Int64),
            (UInt32, Int64),
            (Int32, Float64),
            (Utf8View, Utf8),
            (LargeUtf8, Utf8),
            (Decimal32(5, 2), Decimal128(10, 3)),
            (Null, Int8),
        ] {
            assert!(is_lossless(&from, &to), "{from} to {to}");
        }
        for (from, to) in [
            (Int64, Int32),
            (Int64, Float64),
            (UInt64, Int64),
            (Float64, Float32),
            (Utf8, Int32),
            (Decimal128(10, 3), Decimal128(10, 4)),
            (Utf8, Binary),
        ] {
            assert!(!is_lossless(&from, &to), "{from} to {to}");
        }
        let dictionary = Dictionary(Box::new(Int32), Box::new(Utf8));
        assert!(is_lossless(&dictionary, &LargeUtf8));
    }

    #[test]
    fn the_nearest_name_is_suggested_only_when_it_is_near() {
        let names = ["haversine", "gcd", "char_length"];
        assert_eq!(nearest("haversin", &names), Some("haversine"));
        assert_eq!(nearest("GCD", &names), Some("gcd"));
        assert_eq!(nearest("gdc", &names), Some("gcd"));
        assert_eq!(nearest("charlength", &names), Some("char_length"));
        assert_eq!(nearest("tokenize", &names), None);
    }
}
