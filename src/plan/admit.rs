//! The root of a plan with pools: admits them all before anything is read, and ends them with the run.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions, reset_plan_states,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion::prelude::SessionConfig;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::in_place::{Serving, each_in_place};
use super::{PoolRef, PoolStageExec, Pools, to_datafusion};
use crate::{Cancel, PoolBuilder, PoolMetrics, Run, RunConfig};

/// Told of each run when its pools have been started: an extension of the session's configuration.
#[derive(Clone)]
pub struct RunObserver(pub Arc<dyn Fn(&Run) + Send + Sync>);

impl fmt::Debug for RunObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunObserver")
    }
}

/// Physical node: the root of a plan that starts its own pools.
///
/// When it is executed it starts a run with all pools of the plan, all or none, before any of its input
/// is executed. The run's configuration is a [`RunConfig`] that the session's configuration carries as an
/// extension, and the default without one. The run ends with the last row, with the first error, or when
/// the streams are dropped; what it reserved is back before the stream's end is seen.
///
/// A plan that is executed twice is two runs. A run's share of memory is mirrored in DataFusion's memory
/// pool.
#[derive(Debug)]
pub struct AdmitExec {
    input: Arc<dyn ExecutionPlan>,
    pools: Arc<[PoolRef]>,
    metrics: ExecutionPlanMetricsSet,
    executions: Mutex<Executions>,
}

#[derive(Debug, Default)]
struct Executions {
    /// Whether the input itself has been executed; later executions take copies.
    begun: bool,
    /// Those of which not every partition has been asked for.
    open: Vec<Arc<Execution>>,
}

impl AdmitExec {
    fn new(input: Arc<dyn ExecutionPlan>, pools: Arc<[PoolRef]>) -> Self {
        AdmitExec {
            input,
            pools,
            metrics: ExecutionPlanMetricsSet::new(),
            executions: Mutex::default(),
        }
    }

    /// The pools that a run of the plan starts.
    pub fn pools(&self) -> &[PoolRef] {
        &self.pools
    }

    /// The execution that this partition belongs to.
    fn execution(&self, partition: usize, context: &Arc<TaskContext>) -> Result<Arc<Execution>> {
        let mut executions = self
            .executions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let found = executions
            .open
            .iter()
            .position(|e| Arc::ptr_eq(&e.context, context) && e.is_untaken(partition));
        let execution = match found.and_then(|at| executions.open.get(at)) {
            Some(execution) => Arc::clone(execution),
            None => {
                let input = if executions.begun {
                    reset_plan_states(Arc::clone(&self.input))?
                } else {
                    Arc::clone(&self.input)
                };
                executions.begun = true;
                let execution = Arc::new(Execution {
                    context: Arc::clone(context),
                    partitions: self.input.output_partitioning().partition_count(),
                    input,
                    pools: Arc::clone(&self.pools),
                    metrics: self.metrics.clone(),
                    taken: Mutex::default(),
                    ended: AtomicUsize::new(0),
                    failure: OnceLock::new(),
                    started: OnceCell::new(),
                });
                executions.open.push(Arc::clone(&execution));
                execution
            }
        };
        if execution.take(partition) {
            executions.open.retain(|e| !Arc::ptr_eq(e, &execution));
        }
        Ok(execution)
    }
}

impl DisplayAs for AdmitExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pools: Vec<String> = self.pools.iter().map(ToString::to_string).collect();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "AdmitExec: pools=[{}]", pools.join(", "))
            }
            DisplayFormatType::TreeRender => writeln!(f, "pools={}", pools.join(", ")),
        }
    }
}

impl ExecutionPlan for AdmitExec {
    fn name(&self) -> &str {
        "AdmitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
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
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return plan_err!("the node that admits pools has one input");
        };
        Ok(Arc::new(AdmitExec::new(input, Arc::clone(&self.pools))))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, recompute)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (input, pools) = (Arc::clone(&self.input), Arc::clone(&self.pools));
        Ok(Arc::new(AdmitExec::new(input, pools)))
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
        let part = Part {
            execution: self.execution(partition, &context)?,
            over: false,
        };
        let stream = futures::stream::once(part.rows(partition)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            stream,
        )))
    }
}

/// One execution of the plan.
struct Execution {
    context: Arc<TaskContext>,
    partitions: usize,
    input: Arc<dyn ExecutionPlan>,
    pools: Arc<[PoolRef]>,
    metrics: ExecutionPlanMetricsSet,
    taken: Mutex<HashSet<usize>>,
    /// Partitions that have come to their end.
    ended: AtomicUsize,
    /// What ended the run.
    failure: OnceLock<Arc<DataFusionError>>,
    started: OnceCell<Result<Started, Arc<DataFusionError>>>,
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("partitions", &self.partitions)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// A run with its pools.
struct Started {
    run: Run,
    /// What the input is executed with.
    context: Arc<TaskContext>,
    /// The run's share in DataFusion's account; taken by whoever ends the run.
    reservation: Mutex<Option<MemoryReservation>>,
    /// Calls that are evaluated in place find their pools through these.
    _serving: Vec<Serving>,
}

impl Execution {
    fn is_untaken(&self, partition: usize) -> bool {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        !taken.contains(&partition)
    }

    /// The error that ended the run: what fails after it fails because the run was cancelled.
    fn first_failure(&self, error: DataFusionError) -> DataFusionError {
        let first = self.failure.get_or_init(|| Arc::new(error));
        DataFusionError::Shared(Arc::clone(first))
    }

    /// Whether all partitions have been asked for now.
    fn take(&self, partition: usize) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(partition);
        taken.len() >= self.partitions
    }

    async fn started(&self) -> Result<&Started> {
        let start = || async { self.start().await.map_err(Arc::new) };
        match self.started.get_or_init(start).await {
            Ok(started) => Ok(started),
            Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }

    async fn start(&self) -> Result<Started> {
        let config = self.context.session_config();
        let mut run_config = run_config(config);
        // Whoever gives up while slots start must not leave them starting.
        let giving_up = CancelOnDrop::new(&mut run_config);
        let builders = builders(&self.pools);
        let run = spawn_blocking(move || Run::start(run_config, builders))
            .await
            .map_err(|e| exec_datafusion_err!("starting the pools: {e}"))?
            .map_err(to_datafusion)?;
        giving_up.disarm();
        let reservation = match self.mirror() {
            Ok(reservation) => reservation,
            Err(error) => {
                finish(run).await;
                return Err(error);
            }
        };
        let mut pools = Pools::default();
        for (name, pool) in self.pools.iter().zip(run.pools()) {
            pools.insert(name.clone(), pool.clone());
        }
        let mut serving = Vec::new();
        each_in_place(&self.input, &mut |call| {
            if let Some(pool) = pools.get(call.pool()) {
                serving.push(call.serve(pool));
            }
        })?;
        if let Some(observer) = config.get_extension::<RunObserver>() {
            (observer.0)(&run);
        }
        let config = config.clone().with_extension(Arc::new(pools));
        let context = TaskContext::new(
            self.context.task_id(),
            self.context.session_id(),
            config,
            self.context.scalar_functions().clone(),
            self.context.higher_order_functions().clone(),
            self.context.aggregate_functions().clone(),
            self.context.window_functions().clone(),
            self.context.runtime_env(),
        );
        Ok(Started {
            run,
            context: Arc::new(context),
            reservation: Mutex::new(Some(reservation)),
            _serving: serving,
        })
    }

    /// Takes what the run has reserved from DataFusion's memory pool.
    fn mirror(&self) -> Result<MemoryReservation> {
        let bytes = self.pools.iter().fold(0_u64, |sum, pool| {
            let own = pool.plan().map_or(0, |planned| {
                let slots = u64::try_from(planned.forecast.slots).unwrap_or(u64::MAX);
                let memory = planned.builder.slot_memory().saturating_mul(slots);
                memory.saturating_add(planned.forecast.queue_bytes)
            });
            sum.saturating_add(own)
        });
        let names: Vec<&str> = self.pools.iter().map(|p| p.name.as_str()).collect();
        let reservation = MemoryConsumer::new(format!("Wasmill pools {}", names.join(", ")))
            .register(self.context.memory_pool());
        reservation.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok(reservation)
    }

    /// Ends the run: what it reserved is back when this returns.
    fn over(&self, cancel: bool) {
        if let Some(Ok(started)) = self.started.get() {
            if cancel {
                started.run.cancel();
            }
            let metrics = started.run.clone().finish();
            let mut reservation = started
                .reservation
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            // The first to end it gives back its share and tells what it did.
            if reservation.take().is_some() {
                for pool in &metrics.pools {
                    self.tell(pool);
                }
            }
        }
    }

    /// Shows a pool's metrics beside the node.
    fn tell(&self, pool: &PoolMetrics) {
        let counts = [
            ("slots", pool.slots as u64),
            ("starts", pool.starts),
            ("inits", pool.inits),
            ("restarts", pool.restarts),
            ("calls", pool.calls),
            ("rows", pool.rows),
            ("failed_rows", pool.failed_rows),
            ("bytes_in", pool.bytes_in),
            ("bytes_out", pool.bytes_out),
            ("peak_memory_bytes", pool.peak_memory_bytes),
        ];
        for (what, value) in counts {
            let counter =
                MetricBuilder::new(&self.metrics).global_counter(format!("{}.{what}", pool.pool));
            counter.add(usize::try_from(value).unwrap_or(usize::MAX));
        }
        let times = [
            ("wait", pool.wait_seconds),
            ("copy_in", pool.copy_in_seconds),
            ("guest", pool.guest_seconds),
            ("copy_out", pool.copy_out_seconds),
            ("init", pool.init_seconds),
        ];
        for (what, seconds) in times {
            let time =
                MetricBuilder::new(&self.metrics).subset_time(format!("{}.{what}", pool.pool), 0);
            time.add_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        }
    }
}

/// The configuration of a session's runs.
fn run_config(config: &SessionConfig) -> RunConfig {
    let given = config.get_extension::<RunConfig>();
    given.map(|c| c.as_ref().clone()).unwrap_or_default()
}

fn builders(pools: &[PoolRef]) -> Vec<PoolBuilder> {
    let planned = pools.iter().filter_map(PoolRef::plan);
    planned.map(|planned| planned.builder.clone()).collect()
}

/// Refuses a plan with pools that the machine can never hold.
pub(super) fn check(plan: &Arc<dyn ExecutionPlan>, config: &SessionConfig) -> Result<()> {
    plan.apply(|node| {
        if let Some(admit) = node.downcast_ref::<AdmitExec>() {
            Run::check(&run_config(config), builders(&admit.pools)).map_err(to_datafusion)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

async fn finish(run: Run) {
    // A task that panicked has told so itself.
    drop(spawn_blocking(move || run.finish()).await);
}

/// A partition of an execution, until it has come to its end.
struct Part {
    execution: Arc<Execution>,
    over: bool,
}

impl Part {
    async fn rows(
        self,
        partition: usize,
    ) -> Result<impl futures::Stream<Item = Result<RecordBatch>> + Send> {
        let mut part = self;
        let begun = async {
            let started = part.execution.started().await?;
            let context = Arc::clone(&started.context);
            part.execution.input.execute(partition, context)
        };
        let input = match begun.await {
            Ok(input) => input,
            Err(error) => {
                let error = part.execution.first_failure(error);
                part.end(true).await;
                return Err(error);
            }
        };
        // The input goes first when the whole is dropped.
        Ok(futures::stream::unfold(
            Some((input, part)),
            |state| async move {
                let (mut input, mut part) = state?;
                match input.next().await {
                    Some(Ok(batch)) => Some((Ok(batch), Some((input, part)))),
                    Some(Err(error)) => {
                        let error = part.execution.first_failure(error);
                        drop(input);
                        part.end(true).await;
                        Some((Err(error), None))
                    }
                    None => {
                        drop(input);
                        part.end(false).await;
                        None
                    }
                }
            },
        ))
    }

    /// The end of the partition. With an error, or with the last partition, it is the end of the run.
    async fn end(&mut self, failed: bool) {
        self.over = true;
        let ended = self.execution.ended.fetch_add(1, Ordering::AcqRel);
        if failed || ended.saturating_add(1) >= self.execution.partitions {
            let execution = Arc::clone(&self.execution);
            drop(spawn_blocking(move || execution.over(failed)).await);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.over {
            let ended = self.execution.ended.fetch_add(1, Ordering::AcqRel);
            if ended.saturating_add(1) >= self.execution.partitions {
                self.execution.over(true);
            }
        }
    }
}

/// Cancels a run that is being started, unless it has started.
struct CancelOnDrop {
    cancel: Option<Cancel>,
    ledger: crate::Ledger,
}

impl CancelOnDrop {
    fn new(config: &mut RunConfig) -> Self {
        let cancel = config.cancel.child();
        config.cancel = cancel.clone();
        CancelOnDrop {
            cancel: Some(cancel),
            ledger: config.ledger(),
        }
    }

    fn disarm(mut self) {
        self.cancel = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(cancel) = &self.cancel {
            cancel.cancel();
            self.ledger.wake();
        }
    }
}

/// Physical optimizer rule: puts an [`AdmitExec`] on top of plans that start their own pools. It belongs
/// after all others.
#[derive(Debug, Default)]
pub struct AdmitPools;

impl PhysicalOptimizerRule for AdmitPools {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // `EXPLAIN ANALYZE` shows the metrics of what is below it.
        if plan.downcast_ref::<AnalyzeExec>().is_some() {
            let children: Vec<_> = plan.children().into_iter().map(Arc::clone).collect();
            let admitted = children.into_iter().map(admitted).collect::<Result<_>>()?;
            let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            return plan.replace_children(admitted, recompute);
        }
        admitted(plan)
    }

    fn name(&self) -> &str {
        "admit_pools"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn admitted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut pools: Vec<PoolRef> = Vec::new();
    let mut is_admitted = false;
    let mut add = |pool: &PoolRef| {
        if pool.plan().is_some() && !pools.contains(pool) {
            pools.push(pool.clone());
        }
    };
    plan.apply(|node| {
        is_admitted |= node.downcast_ref::<AdmitExec>().is_some();
        if let Some(stage) = node.downcast_ref::<PoolStageExec>() {
            stage.pools().for_each(&mut add);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    each_in_place(&plan, &mut |call| add(call.pool()))?;
    if pools.is_empty() || is_admitted {
        return Ok(plan);
    }
    Ok(Arc::new(AdmitExec::new(plan, pools.into())))
}
