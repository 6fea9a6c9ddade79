//! The pool stage in a logical plan.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::{DFSchema, DFSchemaRef, Result, ScalarValue, TableReference, plan_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

use super::{PoolRef, RowErrorAction, RowErrorPolicy};
use crate::{Call, Volatility};

/// Where an argument of a call comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PoolArgument {
    /// An expression over the stage's input.
    Each(Expr),
    /// A constant that the call was bound to: it is part of the call and shown here for people.
    Constant(ScalarValue),
    /// Another call, made in the same visit to the slot. It is part of the call, too.
    Call(InnerCall),
}

/// A call that computes an argument of another.
#[derive(Debug, Clone)]
pub struct InnerCall {
    /// The function with its types fixed.
    call: Call,
    arguments: Vec<PoolArgument>,
}

impl InnerCall {
    fn key(&self) -> (&str, &[FieldRef], &[PoolArgument]) {
        let udf = &self.call.function().name;
        (udf, self.call.arguments(), &self.arguments)
    }
}

impl PartialEq for InnerCall {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for InnerCall {}

impl Hash for InnerCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PoolArgument {
    /// The expressions that are evaluated for each batch.
    pub(super) fn expressions(&self) -> Vec<&Expr> {
        match self {
            PoolArgument::Each(expression) => vec![expression],
            PoolArgument::Constant(_) => Vec::new(),
            PoolArgument::Call(inner) => {
                let arguments = inner.arguments.iter();
                arguments.flat_map(PoolArgument::expressions).collect()
            }
        }
    }

    fn expressions_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            PoolArgument::Each(expression) => vec![expression],
            PoolArgument::Constant(_) => Vec::new(),
            PoolArgument::Call(inner) => {
                let arguments = inner.arguments.iter_mut();
                arguments.flat_map(PoolArgument::expressions_mut).collect()
            }
        }
    }

    /// How many calls it is.
    fn calls(&self) -> usize {
        match self {
            PoolArgument::Call(inner) => {
                let own = inner.arguments.iter().map(PoolArgument::calls);
                own.fold(1, usize::saturating_add)
            }
            _ => 0,
        }
    }
}

impl fmt::Display for PoolArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolArgument::Each(expression) => expression.fmt(f),
            PoolArgument::Constant(value) => value.fmt(f),
            PoolArgument::Call(inner) => write_call(f, &inner.call, &inner.arguments),
        }
    }
}

/// One call of a pool stage and the column that comes of it.
#[derive(Debug, Clone)]
pub struct PoolCall {
    /// Which pool serves it.
    pub pool: PoolRef,
    /// The function with its types fixed.
    pub call: Call,
    /// One per argument of the call, of the type that it takes.
    pub arguments: Vec<PoolArgument>,
    /// Rows that the call sees; the others get null. All rows where there is none.
    pub mask: Option<Expr>,
    /// What becomes of rows that the guest cannot compute.
    pub on_error: RowErrorPolicy,
    /// Qualifier of the result column, which keeps it apart from input columns of the same name.
    pub qualifier: Option<TableReference>,
    /// The result column.
    pub output: FieldRef,
}

impl PoolCall {
    /// What tells two calls apart: two of the same key may be taken for each other.
    fn key(&self) -> CallKey<'_> {
        CallKey {
            pool: &self.pool,
            udf: &self.call.function().name,
            types: self.call.arguments(),
            arguments: &self.arguments,
            mask: self.mask.as_ref(),
            on_error: &self.on_error,
            qualifier: self.qualifier.as_ref(),
            output: &self.output,
        }
    }

    /// How many calls of the guest it makes for a batch.
    pub(super) fn count(&self) -> usize {
        let inner = self.arguments.iter().map(PoolArgument::calls);
        inner.fold(1, usize::saturating_add)
    }

    /// The call with the argument that is the result of `inner` computed by it; `None` where no argument
    /// is, or its type is another.
    pub(super) fn fused_with(&self, inner: &PoolCall) -> Option<PoolCall> {
        let is_result = |argument: &PoolArgument| matches!(argument, PoolArgument::Each(Expr::Column(c)) if c.name == *inner.output.name());
        let at = self.arguments.iter().position(is_result)?;
        let takes = self.call.arguments().get(at)?.data_type();
        if takes != inner.call.result().data_type() {
            return None;
        }
        let mut fused = self.clone();
        *fused.arguments.get_mut(at)? = PoolArgument::Call(InnerCall {
            call: inner.call.clone(),
            arguments: inner.arguments.clone(),
        });
        let calls = fused.arguments.iter().map(|argument| match argument {
            PoolArgument::Call(inner) => Some(inner.call.clone()),
            _ => None,
        });
        fused.call = fused.call.fused(calls.collect());
        Some(fused)
    }

    /// The expressions in a fixed order: the arguments, the mask, the columns kept of failed rows.
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.arguments
            .iter()
            .flat_map(PoolArgument::expressions)
            .chain(&self.mask)
            .chain(self.on_error.kept())
    }

    fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let arguments = self
            .arguments
            .iter_mut()
            .flat_map(PoolArgument::expressions_mut);
        arguments
            .chain(&mut self.mask)
            .chain(self.on_error.kept_mut())
    }
}

#[derive(PartialEq, Eq, Hash)]
struct CallKey<'a> {
    pool: &'a PoolRef,
    udf: &'a str,
    types: &'a [FieldRef],
    arguments: &'a [PoolArgument],
    mask: Option<&'a Expr>,
    on_error: &'a RowErrorPolicy,
    qualifier: Option<&'a TableReference>,
    output: &'a FieldRef,
}

impl fmt::Display for PoolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, &self.call, &self.arguments)?;
        if let Some(mask) = &self.mask {
            write!(f, " where {mask}")?;
        }
        match self.on_error.action {
            RowErrorAction::Fail => {}
            RowErrorAction::Null => f.write_str(" else null")?,
            RowErrorAction::DeadLetter { .. } => f.write_str(" else null and dead letter")?,
        }
        write!(f, " as {} in {}", self.output.name(), self.pool)?;
        match self.call.function().volatility {
            Volatility::Immutable => Ok(()),
            Volatility::Stable => f.write_str(" stable"),
            Volatility::Volatile => f.write_str(" volatile"),
        }
    }
}

fn write_call(f: &mut fmt::Formatter<'_>, call: &Call, arguments: &[PoolArgument]) -> fmt::Result {
    write!(f, "{}(", call.function().name)?;
    for (i, argument) in arguments.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(f, "{comma}{argument}")?;
    }
    f.write_str(")")
}

/// Logical node: all columns of the input, then one column per call.
#[derive(Debug, Clone)]
pub struct PoolStage {
    input: LogicalPlan,
    calls: Vec<PoolCall>,
    batch_size: NonZeroUsize,
    ordered: bool,
    schema: DFSchemaRef,
}

impl PoolStage {
    /// A stage over `input`; the guests see at most `batch_size` rows per call. Results that a mask or
    /// the policy for failed rows may make null become nullable.
    ///
    /// # Errors
    /// When a result column has the qualified name of another column, or a call is given another
    /// number of arguments than it takes.
    pub fn try_new(
        input: LogicalPlan,
        mut calls: Vec<PoolCall>,
        batch_size: NonZeroUsize,
    ) -> Result<Self> {
        let mut fields: Vec<(Option<TableReference>, FieldRef)> = input
            .schema()
            .iter()
            .map(|(q, f)| (q.cloned(), Arc::clone(f)))
            .collect();
        for call in &mut calls {
            let expected = call.call.arguments().len();
            if call.arguments.len() != expected {
                return plan_err!(
                    "the call of {} takes {expected} arguments and has {}",
                    call.call.function().name,
                    call.arguments.len()
                );
            }
            let may_be_null = call.mask.is_some() || call.on_error.makes_nulls();
            if may_be_null && !call.output.is_nullable() {
                call.output = Arc::new(call.output.as_ref().clone().with_nullable(true));
            }
            fields.push((call.qualifier.clone(), Arc::clone(&call.output)));
        }
        let metadata = input.schema().metadata().clone();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
        Ok(PoolStage {
            input,
            calls,
            batch_size,
            ordered: true,
            schema,
        })
    }

    /// Gives rows as soon as they are computed, not in the order of the input. A slow batch then holds
    /// nothing up. Which row a failing run names does not depend on it.
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    /// Its input without the calls that `drop` picks; `None` where it picks none.
    pub(super) fn without(&self, drop: impl Fn(&PoolCall) -> bool) -> Result<Option<LogicalPlan>> {
        let kept: Vec<PoolCall> = self.calls.iter().filter(|c| !drop(c)).cloned().collect();
        if kept.len() == self.calls.len() {
            return Ok(None);
        }
        if kept.is_empty() {
            return Ok(Some(self.input.clone()));
        }
        let stage = self.rebuilt(self.input.clone(), kept)?;
        Ok(Some(stage.into_plan()))
    }

    /// A stage like this with other calls over another input.
    pub(super) fn rebuilt(&self, input: LogicalPlan, calls: Vec<PoolCall>) -> Result<Self> {
        let stage = PoolStage::try_new(input, calls, self.batch_size)?;
        Ok(PoolStage {
            ordered: self.ordered,
            ..stage
        })
    }

    /// What it reads.
    pub(super) fn input(&self) -> &LogicalPlan {
        &self.input
    }

    /// Whether rows of a call depend on earlier rows. Then all rows reach it, in order.
    pub fn is_sequence(&self) -> bool {
        self.calls
            .iter()
            .any(|call| call.call.function().is_sequence())
    }

    /// Whether rows keep the order of the input.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// The stage as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension {
            node: Arc::new(self),
        })
    }

    /// Its calls, in the order of their result columns.
    pub fn calls(&self) -> &[PoolCall] {
        &self.calls
    }

    /// The most rows that a guest sees per call.
    pub fn batch_size(&self) -> NonZeroUsize {
        self.batch_size
    }

    fn key(&self) -> (&LogicalPlan, Vec<CallKey<'_>>, NonZeroUsize, bool) {
        (
            &self.input,
            self.calls.iter().map(PoolCall::key).collect(),
            self.batch_size,
            self.ordered,
        )
    }
}

impl PartialEq for PoolStage {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for PoolStage {}

impl Hash for PoolStage {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for PoolStage {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        // Any order that agrees with equality will do; unequal stages that print alike have none.
        let text = |s: &Self| s.calls.iter().map(ToString::to_string).collect::<Vec<_>>();
        match text(self).cmp(&text(other)) {
            Ordering::Equal => None,
            order => Some(order),
        }
    }
}

impl UserDefinedLogicalNodeCore for PoolStage {
    fn name(&self) -> &str {
        "PoolStage"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.calls
            .iter()
            .flat_map(PoolCall::expressions)
            .cloned()
            .collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolStage: calls=[")?;
        for (i, call) in self.calls.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{call}")?;
        }
        let unordered = if self.ordered { "" } else { ", unordered" };
        write!(f, "], batch_size={}{unordered}", self.batch_size)
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let Some(input) = inputs.pop().filter(|_| inputs.is_empty()) else {
            return plan_err!("a pool stage has one input");
        };
        let expected: usize = self.calls.iter().map(|c| c.expressions().count()).sum();
        if exprs.len() != expected {
            return plan_err!(
                "a pool stage of {expected} expressions was given {}",
                exprs.len()
            );
        }
        let mut exprs = exprs.into_iter();
        let mut calls = self.calls.clone();
        for call in &mut calls {
            for (place, expression) in call.expressions_mut().zip(exprs.by_ref()) {
                *place = expression;
            }
        }
        self.rebuilt(without_twin(input), calls)
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let outputs = self.calls.iter().map(|call| call.output.name().clone());
        match self.is_sequence() {
            // A filter below would take rows from the sequence.
            true => self
                .schema
                .fields()
                .iter()
                .map(|f| f.name().clone())
                .collect(),
            false => outputs.collect(),
        }
    }

    fn supports_limit_pushdown(&self) -> bool {
        // Each row gives one row.
        true
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // Columns of the arguments and masks are added by the caller, who sees `expressions`.
        let inputs = self.input.schema().fields().len();
        Some(vec![
            output_columns
                .iter()
                .copied()
                .filter(|i| *i < inputs)
                .collect(),
        ])
    }
}

/// A limit without an equal one right below it, which each pass of the optimizer would add.
fn without_twin(plan: LogicalPlan) -> LogicalPlan {
    match &plan {
        LogicalPlan::Limit(outer) => match outer.input.as_ref() {
            LogicalPlan::Limit(inner)
                if outer.skip.is_none() && inner.skip.is_none() && outer.fetch == inner.fetch =>
            {
                outer.input.as_ref().clone()
            }
            _ => plan,
        },
        _ => plan,
    }
}
