//! Partitions one after the other, for stages whose rows depend on earlier rows.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    EquivalenceProperties, OrderingRequirements, Partitioning, PhysicalExpr,
};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

/// The rows of all partitions of a plan in one, in the order of the plan: sorted as it is, and where it is
/// not, partition after partition. Sorts that make the order stay, whatever the nodes above need.
pub(super) fn in_sequence(input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let input = pinned(&input)?.unwrap_or(input);
    Ok(match input.output_partitioning().partition_count() {
        0 | 1 => input,
        _ => Arc::new(InSequenceExec::new(input)),
    })
}

/// The plan with its order pinned where it is made; `None` where it has none.
fn pinned(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_made_here = plan.downcast_ref::<SortExec>().is_some()
        || plan.downcast_ref::<SortPreservingMergeExec>().is_some();
    // Columns that the order is by may be gone above.
    if !is_made_here
        && let [child] = plan.children().as_slice()
        && plan.maintains_input_order() == [true]
        && let Some(child) = pinned(child)?
    {
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        return Arc::clone(plan)
            .replace_children(vec![child], recompute)
            .map(Some);
    }
    let Some(ordering) = plan.output_ordering().cloned() else {
        return Ok(None);
    };
    let plan = Arc::clone(plan);
    let merged: Arc<dyn ExecutionPlan> = match plan.output_partitioning().partition_count() {
        0 | 1 => plan,
        _ => Arc::new(SortPreservingMergeExec::new(ordering, plan)),
    };
    Ok(Some(Arc::new(InSequenceExec::new(merged))))
}

/// Physical node: reads the partitions of its input one after the other, in the order that they have.
#[derive(Debug)]
struct InSequenceExec {
    input: Arc<dyn ExecutionPlan>,
    order: Option<OrderingRequirements>,
    properties: Arc<PlanProperties>,
}

impl InSequenceExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let order = input.output_ordering().cloned();
        Self::in_order(input, order.map(OrderingRequirements::from))
    }

    fn in_order(input: Arc<dyn ExecutionPlan>, order: Option<OrderingRequirements>) -> Self {
        let one = input.output_partitioning().partition_count() <= 1;
        let equivalences = match one {
            true => input.equivalence_properties().clone(),
            false => EquivalenceProperties::new(input.schema()),
        };
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        InSequenceExec {
            input,
            order,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for InSequenceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InSequenceExec")
    }
}

impl ExecutionPlan for InSequenceExec {
    fn name(&self) -> &str {
        "InSequenceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // Rows of one partition keep theirs, so sorts below are needed.
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop().filter(|_| children.is_empty()) {
            Some(input) => Ok(Arc::new(InSequenceExec::in_order(
                input,
                self.order.clone(),
            ))),
            None => plan_err!("a sequence of partitions has one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, recompute)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return plan_err!("a sequence of partitions is one partition");
        }
        let input = Arc::clone(&self.input);
        let partitions = input.output_partitioning().partition_count();
        let rows = stream::iter(0..partitions)
            .map(move |partition| input.execute(partition, Arc::clone(&context)))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
