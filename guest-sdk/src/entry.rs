//! What the macros leave in a guest, and the constants they compute for the manifest.

use crate::abi::{BindFrame, CallFrame, Frame, InitFrame};
use crate::column::BatchParam;
use crate::manifest::{Param, Record, ResultType};
use crate::rows::Args;
use crate::types::{ArrowType, Input};

/// One overload of one UDF.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What the manifest says.
    pub record: &'static Record,
    /// What the host calls.
    pub call: for<'f> extern "C" fn(Frame<'f, CallFrame>) -> i32,
    /// What fixes types.
    pub bind: Option<for<'f> extern "C" fn(Frame<'f, BindFrame>) -> i32>,
}

/// A state and its methods.
#[derive(Clone, Copy)]
pub struct StateEntry {
    /// Makes the state.
    pub init: for<'f> extern "C" fn(Frame<'f, InitFrame>) -> i32,
    /// Ends the state.
    pub close: Option<extern "C" fn(u32)>,
    /// The methods.
    pub methods: &'static [Entry],
}

/// The parameter of a row function. Nulls are always welcome: without `Option` they are dealt with.
#[must_use]
pub const fn row_param<T: Input<'static>>() -> Param {
    Param::Column {
        schema: T::SCHEMA,
        nullable: true,
    }
}

/// The parameter of a batch function. When the function answers for nulls, a column without `Option`
/// cannot have any.
#[must_use]
pub const fn batch_param<P: BatchParam<'static>>(handles_nulls: bool) -> Param {
    match P::PARAM {
        Param::Column { schema, .. } => Param::Column {
            schema,
            nullable: !handles_nulls || P::TAKES_NULLS,
        },
        other => other,
    }
}

/// The result of a row function. Where some arguments take nulls and some do not, the SDK makes nulls.
#[must_use]
pub const fn row_result<A: Args<'static>, T: ArrowType>() -> ResultType {
    ResultType::Column(if A::TAKES_NULLS && A::HAS_PLAIN {
        T::SCHEMA.nullable()
    } else {
        T::SCHEMA
    })
}

/// The word of the manifest.
#[must_use]
pub const fn nulls(handles: bool) -> &'static str {
    if handles { "handle" } else { "propagate" }
}

/// How many of the parameters the host passes.
#[must_use]
pub const fn argument_count(params: &[(&str, Param)]) -> u32 {
    let mut count = 0;
    let mut at = 0;
    while at < params.len() {
        if !matches!(params[at].1, Param::None) {
            count += 1;
        }
        at += 1;
    }
    count
}
