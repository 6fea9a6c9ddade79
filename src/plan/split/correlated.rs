//! Subqueries that read columns of an outer query. DataFusion must make them joins first, which it can
//! only while there are no pool stages in them.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use crate::plan::function::WasmFunction;

/// Whether a plan is a subquery that reads columns of an outer query.
pub(super) fn is_correlated(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Subquery(s) if reads_outside(s))
}

/// Whether a side of a join reads columns of the other side.
pub(super) fn is_lateral(side: &LogicalPlan) -> bool {
    match side {
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        side => is_correlated(side),
    }
}

fn reads_outside(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty()
}

/// Refuses calls on the results of an aggregate in subqueries that become joins. DataFusion asks, while it
/// plans, what such a call gives where there are no rows, and gets a wrong answer where it is not told.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        for input in node.inputs() {
            if let LogicalPlan::Subquery(lateral) = input {
                check_subquery(lateral)?;
            }
        }
        node.apply_expressions(|expression| {
            expression.apply(|e| {
                if let Expr::ScalarSubquery(subquery) = e {
                    check_subquery(subquery)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map(|_| ())
}

fn check_subquery(subquery: &Subquery) -> Result<()> {
    let mut call: Option<Expr> = None;
    let mut node = subquery.subquery.as_ref();
    while reads_outside(subquery) {
        node = match node {
            LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => {
                for expression in node.expressions() {
                    call = call.or(first_call(&expression)?);
                }
                match node.inputs().as_slice() {
                    [input] => input,
                    _ => break,
                }
            }
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                return match call {
                    Some(call) => plan_err!(
                        "`{call}` is called on an aggregate in a subquery that reads columns of the outer query; call it outside, as f((SELECT count(*) …)) instead of (SELECT f(count(*)) …)"
                    ),
                    None => Ok(()),
                };
            }
            _ => break,
        };
    }
    Ok(())
}

/// The first call of a UDF in an expression.
fn first_call(expression: &Expr) -> Result<Option<Expr>> {
    let mut found = None;
    expression.apply(|e| {
        Ok(match e {
            Expr::ScalarFunction(f) if WasmFunction::of(&f.func).is_some() => {
                found = Some(e.clone());
                TreeNodeRecursion::Stop
            }
            _ => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
