//! Pool stages in DataFusion plans: masks, constants, functions without arguments, what `EXPLAIN` shows.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionConfig;
use wasmill::plan::{PoolArgument, PoolCall, PoolRef, PoolStage, Pools, core_error, query_planner};
use wasmill::{Argument, ArgumentType, Engine, EngineConfig, ErrorClass, Module, Pool};

use crate::cli::{batch, module};

fn load(name: &str) -> Module {
    let engine = Engine::new(&EngineConfig::default()).expect("an engine");
    Module::from_file(&engine, module(name)).expect("a module")
}

fn pool(module: &Module, name: &str, slots: usize) -> Pool {
    Pool::builder(module)
        .name(name)
        .slots(NonZeroUsize::new(slots).expect("slots"))
        .start()
        .expect("a pool")
}

fn scan(partitions: Vec<Vec<RecordBatch>>) -> LogicalPlan {
    let schema = partitions[0][0].schema();
    let table = MemTable::try_new(schema, partitions).expect("a table");
    LogicalPlanBuilder::scan("t", provider_as_source(Arc::new(table)), None)
        .expect("a scan")
        .build()
        .expect("a plan")
}

fn col(name: &str) -> Expr {
    Expr::Column(Column::new(Some("t"), name))
}

/// A call of a function over int64 columns.
fn call(module: &Module, pool: PoolRef, udf: &str, columns: &[&str], output: &str) -> PoolCall {
    let fields: Vec<Field> = columns
        .iter()
        .map(|c| Field::new(*c, DataType::Int64, true))
        .collect();
    let types: Vec<ArgumentType> = fields
        .iter()
        .map(|f| ArgumentType::Typed(f.data_type().clone()))
        .collect();
    let function = module.resolve(udf, &types).expect("resolved").function;
    let call = module
        .bind(
            &function,
            fields.into_iter().map(Argument::column).collect(),
        )
        .expect("bound");
    let output = Arc::new(
        call.result()
            .as_ref()
            .clone()
            .with_name(output)
            .with_nullable(true),
    );
    let arguments = columns.iter().map(|c| PoolArgument::Each(col(c))).collect();
    PoolCall {
        pool,
        call,
        arguments,
        mask: None,
        on_error: Default::default(),
        qualifier: Some(TableReference::bare("udf")),
        output,
    }
}

struct Ran {
    batches: Vec<RecordBatch>,
    plan: Arc<dyn ExecutionPlan>,
}

async fn run(plan: LogicalPlan, pools: Pools) -> Result<Ran> {
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_extension(Arc::new(pools));
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_query_planner(query_planner())
        .build();
    let plan = state.create_physical_plan(&plan).await?;
    let batches = collect(Arc::clone(&plan), state.task_ctx()).await?;
    Ok(Ran { batches, plan })
}

fn stage(input: LogicalPlan, calls: Vec<PoolCall>, batch_size: usize) -> LogicalPlan {
    PoolStage::try_new(input, calls, NonZeroUsize::new(batch_size).expect("a size"))
        .expect("a stage")
        .into_plan()
}

fn column(batches: &[RecordBatch], name: &str) -> Vec<Option<i64>> {
    batches
        .iter()
        .flat_map(|b| {
            b.column_by_name(name)
                .expect(name)
                .as_primitive::<Int64Type>()
                .iter()
                .collect::<Vec<_>>()
        })
        .collect()
}

fn division() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![100, 100, 100]));
    let b: ArrayRef = Arc::new(Int64Array::from(vec![1, 0, 2]));
    batch(vec![("a", a), ("b", b)])
}

#[tokio::test]
async fn a_masked_call_sees_only_the_rows_that_the_mask_selects() {
    let math = load("math");
    let mut pools = Pools::default();
    let reference = pools.add(pool(&math, "div", 1));
    let mut div = call(&math, reference, "div", &["a", "b"], "q");
    div.mask = Some(col("b").not_eq(lit(0_i64)));
    let ran = run(stage(scan(vec![vec![division()]]), vec![div], 8_192), pools)
        .await
        .expect("it runs");
    assert_eq!(column(&ran.batches, "q"), [Some(100), None, Some(50)]);
}

#[tokio::test]
async fn without_the_mask_the_row_fails_and_the_error_of_the_core_is_found() {
    let math = load("math");
    let mut pools = Pools::default();
    let reference = pools.add(pool(&math, "div", 1));
    let div = call(&math, reference, "div", &["a", "b"], "q");
    let error = run(stage(scan(vec![vec![division()]]), vec![div], 8_192), pools)
        .await
        .err()
        .expect("an error");
    let error = DataFusionError::Shared(Arc::new(error)).context("while testing");
    let core = core_error(&error).expect("the core's error");
    assert_eq!(core.class(), ErrorClass::Failed);
    assert!(core.to_string().contains("row 1)"), "{core}");
}

#[tokio::test]
async fn calls_of_one_stage_share_a_pool_and_unused_columns_are_not_read() {
    let math = load("math");
    let mut pools = Pools::default();
    let started = pool(&math, "numbers", 2);
    let reference = pools.add(started.clone());
    let calls = vec![
        call(&math, reference.clone(), "add", &["a", "a"], "twice"),
        call(&math, reference, "gcd", &["a", "a"], "same"),
    ];
    let plan = stage(scan(vec![vec![division(), division()]]), calls, 4);
    let result = |name: &str| Expr::Column(Column::new(Some("udf"), name));
    let plan = LogicalPlanBuilder::from(plan)
        .project(vec![result("same"), result("twice")])
        .expect("projected")
        .build()
        .expect("a plan");
    let ran = run(plan, pools).await.expect("it runs");
    assert_eq!(column(&ran.batches, "twice"), [Some(200); 6]);
    assert_eq!(column(&ran.batches, "same"), [Some(100); 6]);
    let metrics = started.metrics();
    assert_eq!((metrics.starts, metrics.calls, metrics.rows), (2, 4, 12));
    let shown = displayable(ran.plan.as_ref()).indent(false).to_string();
    insta::with_settings!({ filters => vec![("module [0-9a-f]{12}", "module [digest]"), (r"partition_sizes=\[\d+\]", "[sizes]")] }, {
        insta::assert_snapshot!(shown, @r"
    ProjectionExec: expr=[same@2 as same, twice@1 as twice]
      PoolStageExec: calls=[add(t.a, t.a) as twice in numbers (module [digest], 2 slots), gcd(t.a, t.a) as same in numbers (module [digest], 2 slots)], pass=[a], batch_size=4
        DataSourceExec: partitions=1, [sizes]
    ");
    });
}

#[tokio::test]
async fn functions_without_arguments_and_with_constants_answer_every_row() {
    let probe = load("probe");
    for rows in [0, 1, 5] {
        let x: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let mut pools = Pools::default();
        let reference = pools.add(pool(&probe, "probe", 1));
        let seven = call(&probe, reference.clone(), "seven", &[], "seven");
        let constant: ArrayRef = Arc::new(Int64Array::from(vec![2]));
        let function = probe.manifest().overloads("add").next().expect("add");
        let arguments = vec![
            Argument::constant(Arc::clone(&constant)),
            Argument::column(Field::new("x", DataType::Int64, true)),
        ];
        let bound = probe.bind(function, arguments).expect("bound");
        let add = PoolCall {
            pool: reference,
            output: Arc::new(Field::new("sum", DataType::Int64, true)),
            call: bound,
            arguments: vec![
                PoolArgument::Constant(ScalarValue::Int64(Some(2))),
                PoolArgument::Each(col("x")),
            ],
            mask: None,
            on_error: Default::default(),
            qualifier: None,
        };
        let ran = run(
            stage(scan(vec![vec![batch(vec![("x", x)])]]), vec![seven, add], 2),
            pools,
        )
        .await
        .expect("it runs");
        let sevens: Vec<i32> = ran
            .batches
            .iter()
            .flat_map(|b| {
                b.column_by_name("seven")
                    .expect("seven")
                    .as_primitive::<Int32Type>()
                    .values()
                    .to_vec()
            })
            .collect();
        assert_eq!(sevens, vec![7; usize::try_from(rows).expect("small")]);
        assert_eq!(
            column(&ran.batches, "sum"),
            (0..rows).map(|x| Some(x + 2)).collect::<Vec<_>>()
        );
        assert!(ran.batches.iter().all(|b| b.column(0).len() <= 2));
    }
}

#[tokio::test]
async fn a_plan_whose_pool_is_not_started_says_so() {
    let math = load("math");
    let reference = PoolRef::of(&pool(&math, "gone", 1));
    let plan = stage(
        scan(vec![vec![division()]]),
        vec![call(&math, reference, "gcd", &["a", "b"], "g")],
        8_192,
    );
    let error = run(plan, Pools::default()).await.err().expect("an error");
    assert!(error.to_string().contains("gone"), "{error}");
}
