//! From the logical pool stage to the physical one.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Result, plan_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ExprSchemable, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

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
                        .filter_map(PoolArgument::expression)
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
        let stage = PoolStageExec::try_new(
            Arc::clone(input),
            calls,
            stage.batch_size(),
            stage.is_ordered(),
        )?;
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
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(PoolStagePlanner)])
            .create_physical_plan(logical_plan, session)
            .await
    }
}
