//! The pool stage in a physical plan.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, exec_datafusion_err, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionMapping;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

use super::row_errors::{Failures, RowErrorPolicy, dead_letter_schema};
use super::stream::{self, Extensions, PartitionNumber, StagePartition, StageShape, StartedCall};
use super::{PoolRef, Pools};
use crate::Call;
use crate::pool::Lane;

/// One call of a pool stage, ready to be evaluated.
#[derive(Debug, Clone)]
pub(super) struct PhysicalCall {
    pub(super) pool: PoolRef,
    pub(super) call: Call,
    /// The call as plans print it.
    pub(super) shown: String,
    /// The arguments that are not constant.
    pub(super) arguments: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) mask: Option<Arc<dyn PhysicalExpr>>,
    pub(super) on_error: RowErrorPolicy,
    /// The columns kept of failed rows.
    pub(super) kept: Vec<(FieldRef, Arc<dyn PhysicalExpr>)>,
    /// How many rows failed, in all partitions.
    pub(super) failures: Arc<Failures>,
    pub(super) output: FieldRef,
}

/// Physical node: sends each batch's arguments through pools and appends their results.
///
/// Keeps the partitions of its input, and its order unless told otherwise. Batches are cut to exactly the stage's batch
/// size before they are sent, the last of a partition may be shorter. Results come back in input
/// order, so the first error reported is that of the earliest row. Guests run on the threads of
/// their slots, never on the runtime's.
#[derive(Debug, Clone)]
pub struct PoolStageExec {
    input: Arc<dyn ExecutionPlan>,
    calls: Arc<[PhysicalCall]>,
    batch_size: NonZeroUsize,
    ordered: bool,
    /// Whether rows depend on earlier rows.
    sequence: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PoolStageExec {
    pub(super) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        calls: Vec<PhysicalCall>,
        batch_size: NonZeroUsize,
        ordered: bool,
    ) -> Result<Self> {
        let properties = Arc::new(properties(&input, &calls, ordered));
        let sequence = calls.iter().any(|c| c.call.function().is_sequence());
        Ok(PoolStageExec {
            sequence,
            input,
            calls: calls.into(),
            batch_size,
            ordered,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The most rows that a guest sees per call.
    pub fn batch_size(&self) -> NonZeroUsize {
        self.batch_size
    }

    /// The pools that serve the stage, in the order of its calls.
    pub fn pools(&self) -> impl Iterator<Item = &PoolRef> {
        self.calls.iter().map(|call| &call.pool)
    }

    /// Names of the columns that pass by outside the guests.
    fn passing(&self) -> Vec<String> {
        self.input
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect()
    }

    fn start(&self, pools: &Pools) -> Result<Vec<StartedCall>> {
        self.calls
            .iter()
            .map(|call| {
                let pool = pools.get(&call.pool).cloned().ok_or_else(|| {
                    exec_datafusion_err!(
                        "the pool {} is not started in this run; add it to the session's `Pools` before the plan is executed",
                        call.pool
                    )
                })?;
                let (fields, kept): (Vec<_>, Vec<_>) = call.kept.iter().cloned().unzip();
                Ok(StartedCall {
                    lane: Lane::new(&pool),
                    pool,
                    call: call.call.clone(),
                    arguments: call.arguments.clone(),
                    mask: call.mask.clone(),
                    on_error: call.on_error.clone(),
                    kept,
                    letters: dead_letter_schema(&call.call, &fields),
                    failures: Arc::clone(&call.failures),
                })
            })
            .collect()
    }
}

fn output_schema(input: &Schema, calls: &[PhysicalCall]) -> SchemaRef {
    let outputs = calls.iter().map(|call| Arc::clone(&call.output));
    let fields: Vec<FieldRef> = input.fields().iter().cloned().chain(outputs).collect();
    Arc::new(Schema::new_with_metadata(fields, input.metadata().clone()))
}

fn properties(
    input: &Arc<dyn ExecutionPlan>,
    calls: &[PhysicalCall],
    ordered: bool,
) -> PlanProperties {
    let schema = output_schema(&input.schema(), calls);
    // Input columns keep their positions, so what is known of them holds for the output as it is: which
    // are equal, which are constant, and their order.
    let indices: Vec<usize> = (0..input.schema().fields().len()).collect();
    let known = input.equivalence_properties();
    let mut equivalences = match ProjectionMapping::from_indices(&indices, &input.schema()) {
        Ok(passing) => known.project(&passing, schema),
        Err(_) => EquivalenceProperties::new(schema),
    };
    if !ordered {
        equivalences.clear_orderings();
    }
    PlanProperties::new(
        equivalences,
        input.output_partitioning().clone(),
        input.pipeline_behavior(),
        input.boundedness(),
    )
}

impl DisplayAs for PoolStageExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: Vec<&str> = self.calls.iter().map(|call| call.shown.as_str()).collect();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(
                f,
                "PoolStageExec: calls=[{}], pass=[{}], batch_size={}{}",
                calls.join(", "),
                self.passing().join(", "),
                self.batch_size,
                if self.ordered { "" } else { ", unordered" }
            ),
            DisplayFormatType::TreeRender => {
                writeln!(f, "calls={}", calls.join(", "))?;
                writeln!(f, "batch_size={}", self.batch_size)
            }
        }
    }
}

impl ExecutionPlan for PoolStageExec {
    fn name(&self) -> &str {
        "PoolStageExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.ordered]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![match self.sequence {
            true => Distribution::SinglePartition,
            false => Distribution::UnspecifiedDistribution,
        }]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // Parallelism comes from the slots. More partitions would only renumber the rows.
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expression in self.calls.iter().flat_map(|call| {
            let kept = call.kept.iter().map(|(_, expression)| expression);
            call.arguments.iter().chain(&call.mask).chain(kept)
        }) {
            if f(expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return plan_err!("a pool stage has one input");
        };
        let properties = match options.children_properties {
            ChildrenPropertiesMode::Keep => Arc::clone(&self.properties),
            ChildrenPropertiesMode::Recompute => {
                Arc::new(properties(&input, &self.calls, self.ordered))
            }
        };
        Ok(Arc::new(PoolStageExec {
            input,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            ..Self::clone(&self)
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let pools = context
            .session_config()
            .get_extension::<Pools>()
            .unwrap_or_default();
        let stage = StagePartition::new(
            self.start(&pools)?,
            StageShape {
                input: self.input.schema(),
                output: self.schema(),
                batch_size: self.batch_size,
                ordered: self.ordered,
            },
            PartitionNumber {
                number: partition,
                of: self.properties.output_partitioning().partition_count(),
            },
            Extensions::of(context.session_config()),
            &self.metrics,
        );
        let input = self.input.execute(partition, context)?;
        let schema = self.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            stream::run(stage, input),
        )))
    }
}
