//! From the logical pool stage to the physical one.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ExprSchemable, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::admit;
use super::in_sequence::in_sequence;
use super::physical::PhysicalCall;
use super::{PoolArgument, PoolStage, PoolStageExec};

/// A query planner that knows pool stages, for `SessionStateBuilder::with_query_planner`.
pub fn query_planner() -> Arc<dyn QueryPlanner + Send + Sync> {
    Arc::new(PoolQueryPlanner)
}

/// Plans [`PoolStage`] nodes; for sessions that have a query planner of their own.
#[derive(Debug, Default)]
pub struct PoolStagePlanner;

#[async_trait]
impl ExtensionPlanner for PoolStagePlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(stage) = node.as_any().downcast_ref::<PoolStage>() else {
            return Ok(None);
        };
        let ([logical], [input]) = (logical_inputs, physical_inputs) else {
            return plan_err!("a pool stage has one input");
        };
        let physical =
            |expr| planner.create_physical_expr(expr, logical.schema(), session, planning_ctx);
        let calls = stage
            .calls()
            .iter()
            .map(|call| {
                Ok(PhysicalCall {
                    pool: call.pool.clone(),
                    call: call.call.clone(),
                    arguments: call
                        .arguments
                        .iter()
                        .flat_map(PoolArgument::expressions)
                        .map(physical)
                        .collect::<Result<_>>()?,
                    shown: call.to_string(),
                    mask: call.mask.as_ref().map(physical).transpose()?,
                    on_error: call.on_error.clone(),
                    kept: call
                        .on_error
                        .kept()
                        .iter()
                        .map(|kept| Ok((kept.to_field(logical.schema())?.1, physical(kept)?)))
                        .collect::<Result<_>>()?,
                    failures: Arc::default(),
                    output: Arc::clone(&call.output),
                })
            })
            .collect::<Result<_>>()?;
        let input = match stage.is_sequence() {
            true => in_sequence(Arc::clone(input))?,
            false => Arc::clone(input),
        };
        let stage = PoolStageExec::try_new(input, calls, stage.batch_size(), stage.is_ordered())?;
        Ok(Some(Arc::new(stage)))
    }
}

struct PoolQueryPlanner;

impl fmt::Debug for PoolQueryPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PoolQueryPlanner")
    }
}

#[async_trait]
impl QueryPlanner for PoolQueryPlanner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(PoolStagePlanner)]);
        let plan = match session.as_any().downcast_ref::<SessionState>() {
            Some(state) if has_sequence(logical_plan)? => {
                // Nothing may deal rows out to several partitions below a sequence.
                let mut state = state.clone();
                state.config_mut().options_mut().execution.target_partitions = 1;
                planner.create_physical_plan(logical_plan, &state).await?
            }
            _ => planner.create_physical_plan(logical_plan, session).await?,
        };
        admit::check(&plan, session.config())?;
        Ok(plan)
    }
}

/// Whether a plan has a stage whose rows depend on earlier rows.
fn has_sequence(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Extension(extension) = node
            && let Some(stage) = extension.node.as_any().downcast_ref::<PoolStage>()
        {
            found |= stage.is_sequence();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
