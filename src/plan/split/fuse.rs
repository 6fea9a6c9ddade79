//! Nested calls of one module become one call of a stage, which is one visit to a slot.

use std::collections::HashMap;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::names::as_stage;
use crate::plan::{PoolCall, PoolStage, RowErrorAction};

/// Optimizer rule: computes a call whose result only another call of its pool reads in the visit of that
/// one, so that the result never leaves the slot's memory.
///
/// The calls must be made for the same rows, and rows that fail must end the run: other policies need the
/// inner call's own results.
#[derive(Debug, Default)]
pub struct FuseCalls;

/// Calls in one visit at most: what a deadline and a guest's memory were meant for is one call.
const MOST_CALLS: usize = 8;

impl OptimizerRule for FuseCalls {
    fn name(&self) -> &str {
        "fuse_pool_calls"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let reads = times_read(&plan)?;
        let mut changed = false;
        plan.transform_up_with_subqueries(|node| {
            let Some(above) = as_stage(&node) else {
                // Nodes above remember the columns that they had.
                return match changed {
                    true => node.recompute_schema().map(Transformed::yes),
                    false => Ok(Transformed::no(node)),
                };
            };
            let Some(below) = as_stage(above.input()) else {
                return Ok(Transformed::no(node));
            };
            match fused(above, below, &reads)? {
                Some(plan) => {
                    changed = true;
                    Ok(Transformed::yes(plan))
                }
                None => Ok(Transformed::no(node)),
            }
        })
    }
}

/// How often each column's bare name is read in a plan, also without being named.
fn times_read(plan: &LogicalPlan) -> Result<HashMap<String, usize>> {
    let mut reads: HashMap<String, usize> = HashMap::new();
    let mut read = |name: &str| {
        let count = reads.entry(name.to_owned()).or_default();
        *count = count.saturating_add(1);
    };
    plan.schema().fields().iter().for_each(|f| read(f.name()));
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|e| {
                if let Expr::Column(c) | Expr::OuterReferenceColumn(_, c) = e {
                    read(&c.name);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if super::prune::reads_all(node) {
            let names = node
                .inputs()
                .into_iter()
                .flat_map(|i| i.schema().fields().iter());
            names.for_each(|f| read(f.name()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads)
}

/// The upper stage with what it can compute itself of the lower; `None` where that is nothing.
fn fused(
    above: &PoolStage,
    below: &PoolStage,
    reads: &HashMap<String, usize>,
) -> Result<Option<LogicalPlan>> {
    if above.batch_size() != below.batch_size() || above.is_ordered() != below.is_ordered() {
        return Ok(None);
    }
    let is_read_once = |call: &PoolCall| reads.get(call.output.name()) == Some(&1);
    let mut taken: Vec<&PoolCall> = Vec::new();
    let mut calls = Vec::with_capacity(above.calls().len());
    for call in above.calls() {
        let mut call = call.clone();
        for inner in below.calls().iter().filter(|c| is_read_once(c)) {
            if let Some(both) = with_inner(&call, inner) {
                call = both;
                taken.push(inner);
            }
        }
        calls.push(call);
    }
    if taken.is_empty() {
        return Ok(None);
    }
    let is_taken = |call: &PoolCall| {
        let name = call.output.name();
        taken.iter().any(|taken| taken.output.name() == name)
    };
    let Some(input) = below.without(is_taken)? else {
        return Ok(None);
    };
    Ok(Some(above.rebuilt(input, calls)?.into_plan()))
}

/// A call that computes one of its arguments itself; `None` where it cannot.
fn with_inner(call: &PoolCall, inner: &PoolCall) -> Option<PoolCall> {
    let fails = |call: &PoolCall| {
        call.on_error.action == RowErrorAction::Fail && call.on_error.limit.is_none()
    };
    let pool = call.pool.shared_with(&inner.pool);
    let together = call.mask == inner.mask
        && fails(call)
        && fails(inner)
        && call.qualifier.is_none()
        && inner.qualifier.is_none();
    if pool.is_none() || !together || call.count().saturating_add(inner.count()) > MOST_CALLS {
        return None;
    }
    let fused = call.fused_with(inner)?;
    Some(PoolCall {
        pool: pool?,
        ..fused
    })
}
