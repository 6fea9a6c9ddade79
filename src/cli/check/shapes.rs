//! Which types and constants a function is tried with.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

use super::values::{Kind, Maker};
use crate::{Argument, BindError, Call, Function, Module, NullHandling, ParameterType};

/// Shapes that are tried at most.
const MOST_SHAPES: usize = 12;
/// Times that `bind` is asked at most.
const MOST_QUESTIONS: usize = 96;

/// A type for each parameter, and a value for those that are constant.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) types: Vec<DataType>,
    pub(super) constants: Vec<Option<ArrayRef>>,
}

impl Shape {
    fn columns(types: Vec<DataType>) -> Self {
        let constants = vec![None; types.len()];
        Shape { types, constants }
    }

    /// The same with one more constant.
    pub(super) fn with_constant(&self, parameter: usize, value: ArrayRef) -> Self {
        let mut shape = self.clone();
        if let Some(place) = shape.constants.get_mut(parameter) {
            *place = Some(value);
        }
        shape
    }

    /// The parameters that are columns.
    pub(super) fn column_places(&self) -> Vec<usize> {
        let constants = self.constants.iter().enumerate();
        constants
            .filter(|(_, constant)| constant.is_none())
            .map(|(place, _)| place)
            .collect()
    }

    /// The types as people read them.
    pub(super) fn text(&self) -> String {
        let parts = self.types.iter().zip(&self.constants);
        let parts: Vec<String> = parts
            .map(|(t, constant)| match constant {
                Some(_) => format!("constant {t}"),
                None => t.to_string(),
            })
            .collect();
        parts.join(", ")
    }

    /// Binds the function to these arguments; columns may hold nulls where the function takes them and
    /// `nulls` says so.
    pub(super) fn bind(
        &self,
        module: &Module,
        function: &Arc<Function>,
        nulls: bool,
    ) -> Result<Call, BindError> {
        let arguments =
            self.types
                .iter()
                .zip(&self.constants)
                .enumerate()
                .map(|(i, (t, constant))| match constant {
                    Some(value) => Argument::constant(Arc::clone(value)),
                    None => {
                        let name = function.parameters.get(i).map_or("", |p| p.name.as_str());
                        let nullable = *t == DataType::Null || nulls && takes_nulls(function, i);
                        Argument::column(Field::new(name, t.clone(), nullable))
                    }
                });
        module.bind(function, arguments.collect())
    }
}

/// Whether a parameter may be null.
pub(super) fn takes_nulls(function: &Function, parameter: usize) -> bool {
    function.nulls == NullHandling::Propagate
        || match function.parameters.get(parameter).map(|p| &p.accepts) {
            Some(ParameterType::Exact(field)) => field.is_nullable(),
            Some(ParameterType::Any) => true,
            None => false,
        }
}

/// What `bind` said to the choices of types.
pub(super) struct Shapes {
    pub(super) accepted: Vec<Shape>,
    /// Why the first choice was refused.
    pub(super) refused: Option<String>,
    /// What is wrong with `bind`.
    pub(super) failed: Option<BindError>,
}

/// The shapes that a function accepts.
pub(super) fn shapes(module: &Module, function: &Arc<Function>) -> Shapes {
    let mut found = Shapes {
        accepted: Vec::new(),
        refused: None,
        failed: None,
    };
    let choices = choices(function);
    let mut questions = 0_usize;
    for types in &choices {
        found.ask(
            module,
            function,
            Shape::columns(types.clone()),
            &mut questions,
        );
    }
    // Some arguments may have to be constant: a path, a pattern, the name of a type.
    if found.accepted.is_empty() && found.failed.is_none() && function.parameters.len() <= 4 {
        let subsets = 1_u32
            .checked_shl(u32::try_from(function.parameters.len()).unwrap_or(0))
            .unwrap_or(1);
        for types in &choices {
            let mut maker = Maker::new();
            for subset in 1..subsets {
                let mut shape = Shape::columns(types.clone());
                for (i, t) in types.iter().enumerate() {
                    let chosen = u32::try_from(i).is_ok_and(|i| subset >> i & 1 == 1);
                    if chosen && let Ok(value) = maker.array(t, 1, Kind::Everyday) {
                        shape = shape.with_constant(i, value);
                    }
                }
                found.ask(module, function, shape, &mut questions);
            }
        }
    }
    found
}

impl Shapes {
    fn ask(
        &mut self,
        module: &Module,
        function: &Arc<Function>,
        shape: Shape,
        questions: &mut usize,
    ) {
        let done = self.accepted.len() >= MOST_SHAPES || *questions >= MOST_QUESTIONS;
        if done || self.failed.is_some() {
            return;
        }
        *questions = questions.saturating_add(1);
        match shape.bind(module, function, true) {
            Ok(_) => self.accepted.push(shape),
            Err(BindError::Refused { message, .. }) => {
                self.refused.get_or_insert(message);
            }
            Err(BindError::Type { reason, .. }) => {
                self.refused.get_or_insert(reason);
            }
            Err(error) => self.failed = Some(error),
        }
    }
}

/// Types for the parameters: the declared ones, and a choice for those that take any.
fn choices(function: &Function) -> Vec<Vec<DataType>> {
    let any = function
        .parameters
        .iter()
        .filter(|p| p.accepts == ParameterType::Any)
        .count();
    let common = common_types();
    let fillings: Vec<(DataType, DataType)> = match any {
        0 => vec![(DataType::Null, DataType::Null)],
        1 => common
            .into_iter()
            .chain(further_types())
            .map(|t| (t.clone(), t))
            .collect(),
        _ => {
            // All alike first, then each beside each other.
            let alike = common.iter().map(|t| (t.clone(), t.clone()));
            let mixed = common.iter().flat_map(|a| {
                let others = common.iter().filter(move |b| *b != a);
                others.map(move |b| (a.clone(), b.clone()))
            });
            alike.chain(mixed).collect()
        }
    };
    fillings
        .iter()
        .map(|(first, rest)| {
            let mut any = 0_usize;
            let types = function.parameters.iter().map(|p| match &p.accepts {
                ParameterType::Exact(field) => field.data_type().clone(),
                ParameterType::Any => {
                    any = any.saturating_add(1);
                    if any == 1 {
                        first.clone()
                    } else {
                        rest.clone()
                    }
                }
            });
            types.collect()
        })
        .collect()
}

fn common_types() -> Vec<DataType> {
    let pair = [("a", DataType::Int64), ("b", DataType::Utf8)];
    let pair: Fields = pair
        .into_iter()
        .map(|(name, t)| Field::new(name, t, true))
        .collect();
    vec![
        DataType::Int64,
        DataType::Utf8,
        DataType::new_list(DataType::Int64, true),
        DataType::Struct(pair),
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ]
}

fn further_types() -> Vec<DataType> {
    vec![
        DataType::Float64,
        DataType::Boolean,
        DataType::Binary,
        DataType::Decimal128(38, 10),
        DataType::Date32,
        DataType::Null,
    ]
}

/// A type that a parameter of any type may get where only one is needed.
pub(crate) fn plain_types() -> Vec<DataType> {
    common_types()
}
