//! A pool stage in a plan of Apache DataFusion. `docs/embedding.md` explains it part by part.
//!
//! `cargo xtask udfs`, then `cargo run --example plan`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionConfig;
use wasmill::plan::{
    DeadLetters, PoolArgument, PoolCall, PoolStage, Pools, RowErrorAction, RowErrorPolicy,
    core_error, query_planner,
};
use wasmill::{Argument, ArgumentType, Engine, EngineConfig, Module, Pool};

/// Plans and runs one stage.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(&EngineConfig::default())?;
    let math = Module::from_file(&engine, "target/udfs/math.wasm")?;
    let columns = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
    let types = columns
        .each_ref()
        .map(|field| ArgumentType::Typed(field.data_type().clone()));
    let div = math.resolve("div", &types)?.function;
    let call = math.bind(&div, columns.map(Argument::column).to_vec())?;

    // Pools belong to whoever runs the plan. The plan names them.
    let mut pools = Pools::default();
    let pool = Pool::builder(&math).name("divisions").start()?;
    let pool = pools.add(pool);

    let column = |name| Expr::Column(Column::new(Some("t"), name));
    let output = Field::new("quotient", call.result().data_type().clone(), true);
    let div = PoolCall {
        pool,
        arguments: vec![
            PoolArgument::Each(column("a")),
            PoolArgument::Each(column("b")),
        ],
        mask: Some(column("a").gt(lit(0_i64))),
        on_error: RowErrorPolicy {
            action: RowErrorAction::DeadLetter { keep: Vec::new() },
            limit: None,
        },
        qualifier: Some(TableReference::bare("udf")),
        output: Arc::new(output),
        call,
    };

    let scan = LogicalPlanBuilder::scan("t", provider_as_source(Arc::new(table()?)), None)?;
    let rows = NonZeroUsize::new(8_192).expect("some");
    let stage = PoolStage::try_new(scan.build()?, vec![div], rows)?.into_plan();

    let letters = DeadLetters(Arc::new(|failed: RecordBatch| {
        println!("{} failed rows", failed.num_rows());
        Ok(())
    }));
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_extension(Arc::new(pools))
        .with_extension(Arc::new(letters));
    let session = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_query_planner(query_planner())
        .build();

    let plan = session.create_physical_plan(&stage).await?;
    println!("{}", displayable(plan.as_ref()).indent(false));
    match collect(plan, session.task_ctx()).await {
        Ok(batches) => println!("{:?}", batches[0].column(2)),
        Err(error) => match core_error(&error) {
            Some(wasmill) => println!("{:?}: {wasmill}", wasmill.class()),
            None => println!("{error}"),
        },
    }
    Ok(())
}

fn table() -> Result<MemTable, Box<dyn Error>> {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![100, 100, -1]));
    let b: ArrayRef = Arc::new(Int64Array::from(vec![7, 0, 1]));
    let batch = RecordBatch::try_from_iter([("a", a), ("b", b)])?;
    Ok(MemTable::try_new(batch.schema(), vec![vec![batch]])?)
}
