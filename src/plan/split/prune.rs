//! Calls whose results nobody reads go, and with them their pools.

use std::collections::HashSet;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::names::as_stage;

/// Optimizer rule: drops the calls of pool stages whose result columns are read nowhere.
#[derive(Debug, Default)]
pub struct PruneCalls;

impl OptimizerRule for PruneCalls {
    fn name(&self) -> &str {
        "prune_pool_calls"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !plan.exists(|node| Ok(as_stage(node).is_some()))? {
            return Ok(Transformed::no(plan));
        }
        let read = names_read(&plan)?;
        let mut pruned = false;
        plan.transform_up_with_subqueries(|node| {
            let Some(stage) = as_stage(&node) else {
                // Nodes above remember the columns that they had.
                return match pruned {
                    true => node.recompute_schema().map(Transformed::yes),
                    false => Ok(Transformed::no(node)),
                };
            };
            match stage.without(|call| !read.contains(call.output.name()))? {
                Some(plan) => {
                    pruned = true;
                    Ok(Transformed::yes(plan))
                }
                None => Ok(Transformed::no(node)),
            }
        })
    }
}

/// The bare names of all columns that something reads.
fn names_read(plan: &LogicalPlan) -> Result<HashSet<String>> {
    let mut read: HashSet<String> = names(plan).collect();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|e| {
                if let Expr::Column(c) | Expr::OuterReferenceColumn(_, c) = e {
                    read.insert(c.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if reads_all(node) {
            read.extend(node.inputs().into_iter().flat_map(names));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(read)
}

/// Whether a node reads columns without naming them.
pub(super) fn reads_all(node: &LogicalPlan) -> bool {
    let passes = matches!(
        node,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Distinct(Distinct::On(_))
    );
    !passes && as_stage(node).is_none()
}

fn names(plan: &LogicalPlan) -> impl Iterator<Item = String> {
    plan.schema().fields().iter().map(|f| f.name().clone())
}
