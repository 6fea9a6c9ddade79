//! Pool stages and projections on top of a plan, one level of calls above the other.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Projection, cast, lit, when,
};

use super::names::Names;
use crate::Argument;
use crate::plan::function::{WasmFunction, argument};
use crate::plan::in_place::InPlaceCall;
use crate::plan::{PoolArgument, PoolCall, PoolStage};

/// Rows that a call or an expression is evaluated on. `None`: all.
pub(super) type Mask = Option<Expr>;

/// A call whose result is a column of the plan below.
#[derive(Debug, Clone)]
pub(super) struct Computed {
    pub(super) function: WasmFunction,
    pub(super) arguments: Vec<Expr>,
    pub(super) mask: Mask,
    pub(super) column: Column,
}

impl Computed {
    fn is(&self, function: &WasmFunction, arguments: &[Expr], mask: &Mask) -> bool {
        // What is known for all rows is known for some.
        (self.mask.is_none() || self.mask == *mask)
            && self.arguments == arguments
            && self.function == *function
    }
}

/// Where a column comes from: after so many stages, and after so many projections above the last of
/// them. Columns of the input come first.
type Place = (usize, usize);

/// Stages and projections that are being built on top of an input.
pub(super) struct Chain<'n> {
    names: &'n mut Names,
    input: LogicalPlan,
    /// The input's columns and all that were added.
    schema: DFSchema,
    places: HashMap<String, Place>,
    /// After each number of stages, the layers of projections.
    layers: Vec<Vec<Vec<(Expr, String)>>>,
    /// The calls of each stage, with their batch sizes.
    stages: Vec<Vec<StageCall>>,
    computed: Vec<Computed>,
}

struct StageCall {
    call: PoolCall,
    batch_size: NonZeroUsize,
    unordered: bool,
}

impl<'n> Chain<'n> {
    /// Nothing yet, on top of a plan in which some calls are computed already.
    pub(super) fn new(names: &'n mut Names, input: LogicalPlan, computed: Vec<Computed>) -> Self {
        let schema = input.schema().as_ref().clone();
        Chain {
            names,
            input,
            schema,
            places: HashMap::new(),
            layers: Vec::new(),
            stages: Vec::new(),
            computed,
        }
    }

    /// The plan, and the calls that it computes for all rows.
    pub(super) fn build(self) -> Result<(LogicalPlan, Vec<Computed>)> {
        let mut plan = self.input;
        let mut stages = self.stages.into_iter();
        let mut layers = self.layers.into_iter();
        loop {
            for layer in layers.next().unwrap_or_default() {
                let columns = plan.schema().columns().into_iter().map(Expr::Column);
                let added = layer.into_iter().map(|(e, name)| e.alias(name));
                let all = columns.chain(added).collect();
                plan = LogicalPlan::Projection(Projection::try_new(all, Arc::new(plan))?);
            }
            match stages.next() {
                Some(calls) => plan = with_stages(plan, calls)?,
                None if layers.len() == 0 => break,
                None => {}
            }
        }
        let computed = self.computed.into_iter();
        let for_all = computed.filter(|c| c.mask.is_none() && c.function.is_mergeable());
        Ok((plan, for_all.collect()))
    }

    /// The field of an expression over the columns so far.
    fn field(&self, expression: &Expr) -> Result<FieldRef> {
        Ok(expression.to_field(&self.schema)?.1)
    }

    fn place(&self, expression: &Expr) -> Place {
        let mut last = (0, 0);
        for column in expression.column_refs() {
            if let Some(place) = self.places.get(&column.name) {
                last = last.max(*place);
            }
        }
        last
    }

    fn add_column(&mut self, name: &str, field: &Field, place: Place) -> Result<()> {
        let field = field.clone().with_name(name);
        let added = DFSchema::from_unqualified_fields(vec![field].into(), HashMap::new())?;
        self.schema.merge(&added);
        self.places.insert(name.to_owned(), place);
        Ok(())
    }

    /// A column, a literal, or what is as cheap, that has the value of an expression where the mask holds; elsewhere it may
    /// be null.
    pub(super) fn column(&mut self, expression: Expr, mask: &Mask) -> Result<Expr> {
        // Inside of an expression nobody reads the name.
        let expression = expression.unalias();
        if matches!(expression, Expr::Column(_) | Expr::Literal(..)) {
            return Ok(expression);
        }
        let guarded = match mask {
            Some(mask) if !cannot_fail(&expression) => {
                if self.field(&expression)?.data_type() == &DataType::Boolean {
                    // DataFusion turns a CASE of booleans into AND and OR, which may evaluate both sides.
                    let number = cast(expression, DataType::Int8);
                    let number = self.column(number, &Some(mask.clone()))?;
                    return Ok(number.eq(lit(1_i8)));
                }
                when(mask.clone(), expression).end()?
            }
            _ => expression,
        };
        let known = self.layers.iter().flatten().flatten();
        for (expression, name) in known {
            if *expression == guarded && !expression.is_volatile() {
                return Ok(Expr::Column(Column::new_unqualified(name)));
            }
        }
        let name = self.names.fresh("value");
        let field = self.field(&guarded)?;
        let (stage, depth) = self.place(&guarded);
        let layers = at(&mut self.layers, stage);
        at(layers, depth).push((guarded, name.clone()));
        self.add_column(&name, &field, (stage, depth.saturating_add(1)))?;
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    /// A condition for masks: as it is where it costs nothing and cannot fail, else its column.
    pub(super) fn condition(&mut self, condition: Expr, mask: &Mask) -> Result<Expr> {
        match cannot_fail(&condition) {
            true => Ok(condition),
            false => self.column(condition, mask),
        }
    }

    /// The column of a call's result.
    pub(super) fn call(
        &mut self,
        function: &WasmFunction,
        arguments: Vec<Expr>,
        mask: &Mask,
    ) -> Result<Expr> {
        let types = arguments
            .iter()
            .map(|a| Ok(self.field(a)?.data_type().clone()))
            .collect::<Result<Vec<_>>>()?;
        let casts = function.casts(&types).into_iter().zip(types);
        let arguments = arguments
            .into_iter()
            .zip(casts)
            .map(|(a, (to, from))| self.column(if to == from { a } else { cast(a, to) }, mask))
            .collect::<Result<Vec<_>>>()?;
        if function.is_mergeable()
            && let Some(known) = self
                .computed
                .iter()
                .find(|c| c.is(function, &arguments, mask))
        {
            return Ok(Expr::Column(known.column.clone()));
        }
        let bound = arguments
            .iter()
            .map(|a| {
                let constant = match a {
                    Expr::Literal(value, _) => Some(value),
                    _ => None,
                };
                argument(&self.field(a)?, constant)
            })
            .collect::<Result<_>>()?;
        let call = function.bind(bound)?;
        let pool = self.names.pool(function.pool(&call)?);
        let name = self.names.fresh(&call.function().name);
        let column = Column::new_unqualified(&name);
        let places = arguments.iter().chain(mask).map(|e| self.place(e));
        let (below, _) = places.max().unwrap_or_default();
        let output = call.result().as_ref().clone().with_name(&name);
        let options = function.options();
        // A call that is done once becomes a scalar subquery, which DataFusion takes for one that may be null.
        let once = self.is_one_row();
        let nullable =
            output.is_nullable() || mask.is_some() || once || options.on_error.makes_nulls();
        let output = output.with_nullable(nullable);
        self.add_column(&name, &output, (below.saturating_add(1), 0))?;
        let staged = StageCall {
            batch_size: function.batch_size(&call),
            unordered: options.unordered && !function.is_sequence(),
            call: PoolCall {
                pool,
                call,
                arguments: arguments.iter().map(to_argument).collect(),
                mask: mask.clone(),
                on_error: options.on_error.clone(),
                qualifier: None,
                output: Arc::new(output),
            },
        };
        at(&mut self.stages, below).push(staged);
        self.computed.push(Computed {
            function: function.clone(),
            arguments,
            mask: mask.clone(),
            column: column.clone(),
        });
        Ok(Expr::Column(column))
    }

    /// A call that is made where it stands.
    pub(super) fn in_place(
        &mut self,
        function: &WasmFunction,
        arguments: Vec<Expr>,
    ) -> Result<Expr> {
        if function.is_sequence() {
            return plan_err!(
                "`{}` keeps a sequence, and in a lambda, or a join's condition over both sides, rows have no order; compute it in a subquery",
                function.shown_name()
            );
        }
        let fields = arguments.iter().map(|a| self.field(a));
        let fields = fields.collect::<Result<Vec<_>>>()?;
        let types: Vec<DataType> = fields.iter().map(|f| f.data_type().clone()).collect();
        let casts = function.casts(&types);
        let bound = fields.iter().zip(&casts).map(|(field, to)| {
            let cast = field.as_ref().clone().with_data_type(to.clone());
            Argument::column(Arc::new(cast))
        });
        let call = function.bind(bound.collect())?;
        let args = arguments.into_iter().zip(casts.into_iter().zip(types)).map(
            |(argument, (to, from))| match to == from {
                true => argument,
                false => cast(argument, to),
            },
        );
        let pool = self.names.pool(function.pool(&call)?);
        let in_place = InPlaceCall::new(
            function.shown_name(),
            call.clone(),
            pool,
            function.options().on_error.clone(),
            function.batch_size(&call),
            function.volatility(),
        );
        Ok(Expr::ScalarFunction(ScalarFunction {
            args: args.collect(),
            func: Arc::new(in_place.into()),
        }))
    }

    /// Names of the plan.
    pub(super) fn names(&mut self) -> &mut Names {
        self.names
    }

    /// Whether the input has one row for sure, and no column.
    pub(super) fn is_one_row(&self) -> bool {
        matches!(&self.input, LogicalPlan::EmptyRelation(e) if e.produce_one_row)
    }
}

fn to_argument(expression: &Expr) -> PoolArgument {
    match expression {
        Expr::Literal(value, _) => PoolArgument::Constant(value.clone()),
        other => PoolArgument::Each(other.clone()),
    }
}

/// The `index`th of a list, which is made longer where needed.
fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index.saturating_add(1), T::default);
    }
    // The list was just made long enough.
    let last = list.len().saturating_sub(1).min(index);
    match list.get_mut(last) {
        Some(item) => item,
        None => unreachable!("the list has more than `index` items"),
    }
}

/// Stages for calls of one level: those of one batch size share a stage.
fn with_stages(mut plan: LogicalPlan, calls: Vec<StageCall>) -> Result<LogicalPlan> {
    let mut groups: Vec<((NonZeroUsize, bool), Vec<PoolCall>)> = Vec::new();
    for StageCall {
        call,
        batch_size,
        unordered,
    } in calls
    {
        let key = (batch_size, unordered);
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, calls)) => calls.push(call),
            None => groups.push((key, vec![call])),
        }
    }
    for ((batch_size, unordered), calls) in groups {
        let stage = PoolStage::try_new(plan, calls, batch_size)?;
        let stage = if unordered { stage.unordered() } else { stage };
        plan = stage.into_plan();
    }
    Ok(plan)
}

/// Whether an expression can be evaluated on rows that do not need it, and twice: it has no way to fail,
/// and costs little.
pub(super) fn cannot_fail(expression: &Expr) -> bool {
    const LARGEST: usize = 32;
    let mut safe = true;
    let mut size = 0_usize;
    let walked = expression.apply(|e| {
        size = size.saturating_add(1);
        safe &= size <= LARGEST;
        safe &= match e {
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::InList(_)
            | Expr::Case(_)
            | Expr::Between(_) => true,
            Expr::BinaryExpr(binary) => matches!(
                binary.op,
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::And
                    | Operator::Or
                    | Operator::IsDistinctFrom
                    | Operator::IsNotDistinctFrom
            ),
            _ => false,
        };
        Ok(if safe {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    safe && walked.is_ok()
}

/// A plan without the columns that were added below.
pub(super) fn trimmed(plan: LogicalPlan, to: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().fields().len() == to.fields().len() {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan)
        .project(to.columns().into_iter().map(Expr::Column))?
        .build()
}
