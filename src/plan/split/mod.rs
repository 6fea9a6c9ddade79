//! The splitting rule: calls of UDFs leave the expressions of a plan and become pool stages.
//!
//! ```text
//! Projection: f(a + 1) * 2 AS x, b          Projection: t * 2 AS x, b
//!   TableScan                        ─▶       PoolStage: f(u) AS t
//!                                               Projection: a + 1 AS u, b
//!                                                 TableScan
//! ```
//!
//! It runs first, before DataFusion simplifies, merges or moves anything, so that what a user wrote
//! decides which rows a call sees; and again when subqueries have become joins, for calls that read
//! columns of an outer query.

mod chain;
mod constants;
mod correlated;
mod expressions;
mod fuse;
mod names;
mod prune;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, EmptyRelation, Expr, Filter, Join, Limit, LogicalPlan,
    LogicalPlanBuilder, Projection, Sort, SubqueryAlias, Union, Values, Window,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use self::chain::{Chain, Computed, trimmed};
use self::correlated::{is_correlated, is_lateral};
use self::expressions::{Splitter, has_call, has_sequence, with_columns};
pub use self::fuse::FuseCalls;
use self::names::Names;
pub use self::prune::PruneCalls;

/// Optimizer rule: replaces calls of UDFs by columns of pool stages.
#[derive(Debug, Default)]
pub struct SplitCalls;

impl OptimizerRule for SplitCalls {
    fn name(&self) -> &str {
        "split_pool_calls"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        correlated::check(&plan)?;
        if !plan_has_call(&plan)? {
            return Ok(Transformed::no(plan));
        }
        let options = config.options();
        let mut planner = Planner {
            names: Names::of(&plan)?,
            config: &options,
        };
        Ok(Transformed::yes(planner.rewritten(plan)?))
    }
}

/// Whether a plan has a call that can be planned now.
fn plan_has_call(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if is_correlated(node) {
            return Ok(TreeNodeRecursion::Jump);
        }
        node.apply_expressions(|expression| {
            found |= has_call(expression) || subqueries_have_call(expression)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

fn subqueries_have_call(expression: &Expr) -> Result<bool> {
    let mut found = false;
    expression.apply(|e| {
        let subquery = match e {
            Expr::ScalarSubquery(subquery) => Some(subquery),
            Expr::InSubquery(inside) => Some(&inside.subquery),
            Expr::Exists(exists) => Some(&exists.subquery),
            Expr::SetComparison(comparison) => Some(&comparison.subquery),
            _ => None,
        };
        if let Some(subquery) = subquery.filter(|s| s.outer_ref_columns.is_empty()) {
            found |= plan_has_call(&subquery.subquery)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// A plan that may have more columns than the one it stands for, and what they hold.
struct Extended {
    plan: LogicalPlan,
    computed: Vec<Computed>,
}

impl From<LogicalPlan> for Extended {
    fn from(plan: LogicalPlan) -> Self {
        Extended {
            plan,
            computed: Vec::new(),
        }
    }
}

struct Planner<'c> {
    names: Names,
    config: &'c ConfigOptions,
}

impl Planner<'_> {
    /// The plan without calls, with the columns that it had.
    fn rewritten(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let schema = Arc::clone(plan.schema());
        trimmed(self.extended(plan)?.plan, &schema)
    }

    /// The plan without calls, perhaps with more columns.
    fn extended(&mut self, plan: LogicalPlan) -> Result<Extended> {
        if is_correlated(&plan) || !plan_has_call(&plan)? {
            return Ok(plan.into());
        }
        let plan = plan
            .map_subqueries(|subquery| self.rewritten(subquery).map(Transformed::yes))?
            .data;
        match plan {
            LogicalPlan::Projection(p) => self.projection(p),
            LogicalPlan::Filter(f) => self.filter(f),
            LogicalPlan::Sort(s) => self.sort(s),
            LogicalPlan::Aggregate(a) => self.aggregate(a),
            LogicalPlan::Window(w) => self.window(w),
            LogicalPlan::Join(j) => self.join(j),
            LogicalPlan::Distinct(Distinct::On(on)) => self.distinct_on(on),
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Limit(limit) if !has_calls(&LogicalPlan::Limit(limit.clone())) => {
                let input = self.extended(owned(limit.input))?;
                let plan = LogicalPlan::Limit(Limit {
                    input: Arc::new(input.plan),
                    ..limit
                });
                Ok(Extended { plan, ..input })
            }
            LogicalPlan::SubqueryAlias(alias) => self.alias(alias),
            other => self.other(other),
        }
    }

    fn splitter(&mut self, input: Extended) -> Splitter<'_> {
        let chain = Chain::new(&mut self.names, input.plan, input.computed);
        Splitter::new(chain, self.config)
    }

    /// Expressions without calls, over a plan that computes these.
    fn split(&mut self, input: Extended, expressions: Vec<Expr>) -> Result<(Extended, Vec<Expr>)> {
        let mut splitter = self.splitter(input);
        let expressions = splitter.split_all(expressions)?;
        let (plan, computed) = splitter.chain.build()?;
        Ok((Extended { plan, computed }, expressions))
    }

    fn projection(&mut self, projection: Projection) -> Result<Extended> {
        let input = self.extended(owned(projection.input))?;
        let preserver = NamePreserver::new_for_projection();
        let names: Vec<_> = projection.expr.iter().map(|e| preserver.save(e)).collect();
        let (input, expressions) = self.split(input, projection.expr)?;
        let mut expressions: Vec<Expr> = expressions
            .into_iter()
            .zip(names)
            .map(|(e, name)| name.restore(e))
            .collect();
        let computed = carried(input.computed, &mut expressions);
        let projection = Projection::try_new(expressions, Arc::new(input.plan))?;
        Ok(Extended {
            plan: LogicalPlan::Projection(projection),
            computed,
        })
    }

    fn filter(&mut self, filter: Filter) -> Result<Extended> {
        let mut input = self.extended(owned(filter.input))?;
        let predicates = if has_sequence(&filter.predicate) {
            // All rows reach a sequence, whatever the other conditions say.
            vec![filter.predicate]
        } else {
            let (costly, cheap): (Vec<_>, Vec<_>) = split_conjunction_owned(filter.predicate)
                .into_iter()
                .partition(has_call);
            conjunction(cheap).into_iter().chain(costly).collect()
        };
        for predicate in predicates {
            let (below, predicate) = self.split(input, vec![predicate])?;
            let Some(predicate) = conjunction(predicate) else {
                return plan_err!("a filter has lost its condition");
            };
            let plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(below.plan))?);
            input = Extended {
                plan,
                computed: below.computed,
            };
        }
        Ok(input)
    }

    fn sort(&mut self, sort: Sort) -> Result<Extended> {
        let input = self.extended(owned(sort.input))?;
        let keys = sort.expr.iter().map(|key| key.expr.clone()).collect();
        let (input, keys) = self.split(input, keys)?;
        let expr = sort
            .expr
            .into_iter()
            .zip(keys)
            .map(|(key, expr)| SortExpr { expr, ..key })
            .collect();
        let plan = LogicalPlan::Sort(Sort {
            expr,
            input: Arc::new(input.plan),
            fetch: sort.fetch,
        });
        Ok(Extended {
            plan,
            computed: input.computed,
        })
    }

    fn aggregate(&mut self, aggregate: Aggregate) -> Result<Extended> {
        let schema = aggregate.schema;
        let input = self.extended(owned(aggregate.input))?;
        let groups = aggregate.group_expr.len();
        let all: Vec<Expr> = aggregate
            .group_expr
            .into_iter()
            .chain(aggregate.aggr_expr)
            .collect();
        let (input, mut all) = self.split(input, all)?;
        let aggregates = all.split_off(groups.min(all.len()));
        let plan = Aggregate::try_new(Arc::new(input.plan), all, aggregates)?;
        Ok(renamed(LogicalPlan::Aggregate(plan), &schema)?.into())
    }

    fn window(&mut self, window: Window) -> Result<Extended> {
        let schema = window.schema;
        let below = Arc::clone(window.input.schema());
        let input = self.extended(owned(window.input))?;
        let (input, expressions) = self.split(input, window.window_expr)?;
        let input = Arc::new(input.plan);
        let added = input.schema().fields().len();
        let plan = Window::try_new(expressions, input)?;
        // Columns that were added below stand before those of the window.
        let fields = plan.schema.columns().into_iter();
        let kept = below.columns().into_iter().chain(fields.skip(added));
        let columns = named(kept, &schema);
        let plan = LogicalPlanBuilder::from(LogicalPlan::Window(plan))
            .project(columns)?
            .build()?;
        Ok(plan.into())
    }

    fn join(&mut self, join: Join) -> Result<Extended> {
        if is_lateral(&join.left) || is_lateral(&join.right) {
            // Its condition waits until it has become a join of its own.
            return Ok(LogicalPlan::Join(Join {
                left: Arc::new(self.rewritten(owned(join.left))?),
                right: Arc::new(self.rewritten(owned(join.right))?),
                ..join
            })
            .into());
        }
        let schema = Arc::clone(&join.schema);
        let both = Arc::new(join.left.schema().join(join.right.schema())?);
        let sides = [
            Arc::clone(join.left.schema()),
            Arc::clone(join.right.schema()),
        ];
        let (left, right): (Vec<Expr>, Vec<Expr>) = join.on.into_iter().unzip();
        let mut left_input = self.extended(owned(join.left))?;
        let mut right_input = self.extended(owned(join.right))?;
        let keys;
        (left_input, keys) = self.split(left_input, left)?;
        let other_keys;
        (right_input, other_keys) = self.split(right_input, right)?;

        let mut kept = Vec::new();
        let mut above = Vec::new();
        for condition in join.filter.map(split_conjunction_owned).unwrap_or_default() {
            if !has_call(&condition) {
                kept.push(condition);
                continue;
            }
            let columns = condition.column_refs();
            let [l, r] = &sides;
            let only = |side: &DFSchemaRef| columns.iter().all(|c| side.has_column(c));
            let mut split = vec![condition.clone()];
            if only(l) {
                (left_input, split) = self.split(left_input, split)?;
            } else if only(r) {
                (right_input, split) = self.split(right_input, split)?;
            } else if let Some(calls) = calls_by_side(&condition, &sides)? {
                (left_input, right_input, split) =
                    self.computed_at_sides(left_input, right_input, split, calls)?;
            } else if join.join_type == JoinType::Inner {
                // Rows that a condition of an inner join refuses are the same above it.
                above.push(condition);
                continue;
            } else {
                // Which rows need the call is known in the join only.
                split = vec![self.in_place(condition, &both)?];
            }
            kept.extend(split);
        }
        let on = keys.into_iter().zip(other_keys).collect();
        let joined = LogicalPlan::Join(Join::try_new(
            Arc::new(left_input.plan),
            Arc::new(right_input.plan),
            on,
            conjunction(kept),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?);
        let joined = trimmed(joined, &schema)?;
        match conjunction(above) {
            None => Ok(joined.into()),
            Some(predicate) => {
                let filter = Filter::try_new(predicate, Arc::new(joined))?;
                self.filter(filter)
            }
        }
    }

    /// An expression over the columns of a schema with its calls made where they stand.
    fn in_place(&mut self, expression: Expr, schema: &DFSchemaRef) -> Result<Expr> {
        let columns = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: false,
            schema: Arc::clone(schema),
        });
        self.splitter(columns.into()).in_place(expression)
    }

    /// Conditions of a join with each call computed at the side that it reads.
    fn computed_at_sides(
        &mut self,
        left: Extended,
        right: Extended,
        conditions: Vec<Expr>,
        [of_left, of_right]: [Vec<Expr>; 2],
    ) -> Result<(Extended, Extended, Vec<Expr>)> {
        let (left, left_columns) = self.split(left, of_left.clone())?;
        let (right, right_columns) = self.split(right, of_right.clone())?;
        let columns = left_columns.into_iter().chain(right_columns);
        let replaced: Vec<(Expr, Expr)> =
            of_left.into_iter().chain(of_right).zip(columns).collect();
        let conditions = conditions
            .into_iter()
            .map(|c| expressions::replaced(c, &replaced))
            .collect::<Result<_>>()?;
        Ok((left, right, conditions))
    }

    fn distinct_on(&mut self, on: DistinctOn) -> Result<Extended> {
        let input = self.extended(owned(on.input))?;
        let preserver = NamePreserver::new_for_projection();
        let names: Vec<_> = on.select_expr.iter().map(|e| preserver.save(e)).collect();
        let (keys, selected) = (on.on_expr.len(), on.select_expr.len());
        let sorts = on.sort_expr.unwrap_or_default();
        let all = on
            .on_expr
            .into_iter()
            .chain(on.select_expr)
            .chain(sorts.iter().map(|s| s.expr.clone()))
            .collect();
        let (input, all) = self.split(input, all)?;
        let mut all = all.into_iter();
        let keys = all.by_ref().take(keys).collect();
        let selected = all.by_ref().take(selected).zip(names);
        let selected = selected.map(|(e, name)| name.restore(e)).collect();
        let sorts: Vec<_> = sorts
            .into_iter()
            .zip(all)
            .map(|(sort, expr)| SortExpr { expr, ..sort })
            .collect();
        let sorts = (!sorts.is_empty()).then_some(sorts);
        let plan = DistinctOn::try_new(keys, selected, sorts, Arc::new(input.plan))?;
        Ok(LogicalPlan::Distinct(Distinct::On(plan)).into())
    }

    /// Rows of calls are a union of projections of one row each.
    fn values(&mut self, values: Values) -> Result<Extended> {
        let fields: Vec<_> = values.schema.iter().collect();
        let mut rows = Vec::with_capacity(values.values.len());
        for row in values.values {
            let nothing = LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: true,
                schema: Arc::new(DFSchema::empty()),
            });
            let (input, row) = self.split(nothing.into(), row)?;
            let row = row
                .into_iter()
                .zip(&fields)
                .map(|(e, (relation, field))| {
                    use datafusion::logical_expr::ExprSchemable;
                    let typed = e.cast_to(field.data_type(), input.plan.schema())?;
                    Ok(typed.alias_qualified(relation.cloned(), field.name()))
                })
                .collect::<Result<_>>()?;
            let row = Projection::try_new(row, Arc::new(input.plan))?;
            rows.push(Arc::new(LogicalPlan::Projection(row)));
        }
        Ok(match rows.as_slice() {
            [row] => row.as_ref().clone().into(),
            _ => LogicalPlan::Union(Union::try_new_with_loose_types(rows)?).into(),
        })
    }

    fn alias(&mut self, alias: SubqueryAlias) -> Result<Extended> {
        let input = self.extended(owned(alias.input))?;
        let renamed = |c: &Column| Some(Column::new(Some(alias.alias.clone()), &c.name));
        let computed = input
            .computed
            .into_iter()
            .filter_map(|known| moved(known, &renamed))
            .collect();
        let plan = SubqueryAlias::try_new(Arc::new(input.plan), alias.alias.clone())?;
        Ok(Extended {
            plan: LogicalPlan::SubqueryAlias(plan),
            computed,
        })
    }

    /// Any other node: calls of its own expressions are computed below it.
    fn other(&mut self, plan: LogicalPlan) -> Result<Extended> {
        let inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
        let expressions = plan.expressions();
        if !has_calls(&plan) {
            let inputs = inputs
                .into_iter()
                .map(|input| self.rewritten(input))
                .collect::<Result<_>>()?;
            return Ok(match plan.with_new_exprs(expressions, inputs)? {
                LogicalPlan::Union(union) => LogicalPlan::Union(with_nulls(union)?).into(),
                plan => plan.into(),
            });
        }
        match <[LogicalPlan; 1]>::try_from(inputs) {
            Ok([input]) => {
                let input = self.extended(input)?;
                let schema = Arc::clone(plan.schema());
                let (input, expressions) = self.split(input, expressions)?;
                let plan = plan.with_new_exprs(expressions, vec![input.plan])?;
                Ok(trimmed(plan, &schema)?.into())
            }
            Err(_) => plan_err!(
                "functions of WebAssembly modules cannot be called in `{}`; compute them in a subquery",
                plan.display()
            ),
        }
    }
}

/// The calls of a join's condition by the side that they read; `None` where one reads both, or is needed
/// for some rows only.
fn calls_by_side(condition: &Expr, [l, r]: &[DFSchemaRef; 2]) -> Result<Option<[Vec<Expr>; 2]>> {
    let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
    let mut possible = true;
    expressions::each_unconditional_call(condition, &mut |call, unconditional| {
        let columns = call.column_refs();
        if unconditional && columns.iter().all(|c| l.has_column(c)) {
            of_left.push(call.clone());
        } else if unconditional && columns.iter().all(|c| r.has_column(c)) {
            of_right.push(call.clone());
        } else {
            possible = false;
        }
    })?;
    Ok(possible.then_some([of_left, of_right]))
}

/// A union whose columns may be null where those of an input may: calls for some rows only change that.
fn with_nulls(union: Union) -> Result<Union> {
    let may_be_null = |at: usize| {
        let mut fields = union.inputs.iter().map(|input| input.schema().field(at));
        fields.any(|field| field.is_nullable())
    };
    let fields = union
        .schema
        .iter()
        .enumerate()
        .map(|(at, (qualifier, field))| {
            let field = field.as_ref().clone().with_nullable(may_be_null(at));
            (qualifier.cloned(), Arc::new(field))
        });
    let metadata = union.schema.metadata().clone();
    let schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), metadata)?);
    Ok(Union { schema, ..union })
}

/// Whether a node's own expressions have calls.
fn has_calls(plan: &LogicalPlan) -> bool {
    plan.expressions().iter().any(has_call)
}

fn owned(plan: Arc<LogicalPlan>) -> LogicalPlan {
    Arc::unwrap_or_clone(plan)
}

/// The columns of a plan under the names of a schema.
fn renamed(plan: LogicalPlan, to: &DFSchema) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    if columns == to.columns() {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan)
        .project(named(columns.into_iter(), to))?
        .build()
}

fn named(columns: impl Iterator<Item = Column>, to: &DFSchema) -> Vec<Expr> {
    columns
        .zip(to.columns())
        .map(|(from, to)| match from == to {
            true => Expr::Column(from),
            false => Expr::Column(from).alias_qualified(to.relation, to.name),
        })
        .collect()
}

/// What is still known above a projection, which passes on the columns that this takes.
fn carried(computed: Vec<Computed>, projected: &mut Vec<Expr>) -> Vec<Computed> {
    let outputs: Vec<(Column, Column)> = projected
        .iter()
        .filter_map(|e| {
            let from = match e {
                Expr::Column(column) => column,
                Expr::Alias(alias) => alias.expr.try_as_col()?,
                _ => return None,
            };
            let (relation, name) = e.qualified_name();
            Some((from.clone(), Column::new(relation, name)))
        })
        .collect();
    let find = |column: &Column| {
        let found = outputs.iter().find(|(from, _)| from == column);
        found.map(|(_, to)| to.clone())
    };
    computed
        .into_iter()
        .filter_map(|known| {
            let own = known.column.clone();
            // Its own column is added where the projection does not have it.
            let passed = find(&own).unwrap_or_else(|| own.clone());
            let known = moved(known, &|c: &Column| match *c == own {
                true => Some(passed.clone()),
                false => find(c),
            })?;
            if passed == own && find(&own).is_none() {
                projected.push(Expr::Column(own));
            }
            Some(known)
        })
        .collect()
}

/// What is known, in terms of other columns.
fn moved(known: Computed, to: &impl Fn(&Column) -> Option<Column>) -> Option<Computed> {
    let arguments = known
        .arguments
        .iter()
        .map(|a| with_columns(a, to))
        .collect::<Option<_>>()?;
    Some(Computed {
        column: to(&known.column)?,
        arguments,
        ..known
    })
}
