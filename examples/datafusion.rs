//! UDFs in a program on DataFusion: SQL, the DataFrame API, settings of runs, what a query did.
//!
//! `cargo xtask udfs`, then `cargo run --example datafusion`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::{CsvReadOptions, SessionConfig, SessionContext, col, lit};
use wasmill::plan::{RunObserver, UdfOptions, WasmFunctions, register};
use wasmill::{Admission, Engine, EngineConfig, Module, Policy, Run, RunConfig};

/// Registers, creates and calls functions.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What all queries of the session have in common: who they run for, and how long they wait for room.
    let runs = RunConfig {
        tenant: "sales".to_owned(),
        admission: Admission::Wait(Duration::from_secs(30)),
        ..RunConfig::default()
    };
    // Told of each run once its pools stand; its metrics can be read at any time.
    let observer = RunObserver(Arc::new(|run: &Run| {
        println!("{} uses {} pools", run.name(), run.pools().len());
    }));
    let config = SessionConfig::new()
        .with_information_schema(true)
        .with_extension(Arc::new(runs))
        .with_extension(Arc::new(observer));

    // Functions that SQL may create: from this folder, and with no more than these limits.
    let engine = Engine::new(&EngineConfig::default())?;
    let options = UdfOptions::default()
        .slots(NonZeroUsize::new(2).ok_or("no slots")?)
        .policy(Policy {
            memory: 64 << 20,
            ..Policy::default()
        });
    let functions = WasmFunctions::new(&engine, options.clone()).allow_folder("target/udfs")?;
    let context =
        SessionContext::new_with_config(config).with_function_factory(Arc::new(functions));

    // Functions that the program registers itself.
    let module = Module::from_file(&engine, "target/udfs/math.wasm")?;
    let names = register(&context, &module, options)?;
    println!("registered {}", names.join(", "));
    context
        .register_csv("airports", "data/airports.csv", CsvReadOptions::new())
        .await?;

    // SQL: the haversine formula runs in the sandbox, the rest in DataFusion.
    context
        .sql(
            "SELECT name, round(haversine(lat, lon, 51.4775, -0.4614)) AS km_to_london
             FROM airports ORDER BY km_to_london LIMIT 3",
        )
        .await?
        .show()
        .await?;

    // SQL makes a function, too.
    context
        .sql("CREATE FUNCTION shout(TEXT) RETURNS TEXT LANGUAGE WASM AS 'math.wasm#upper'")
        .await?;
    context
        .sql("SELECT shout(name) AS name FROM airports ORDER BY name LIMIT 3")
        .await?
        .show()
        .await?;

    // The same through the DataFrame API.
    let distance = context.state().scalar_functions()["haversine"].clone();
    let to_london = distance.call(vec![col("lat"), col("lon"), lit(51.4775), lit(-0.4614)]);
    context
        .table("airports")
        .await?
        .filter(col("alt").gt(lit(5_000)))?
        .select(vec![col("name"), to_london.alias("km_to_london")])?
        .sort(vec![col("km_to_london").sort(true, false)])?
        .limit(0, Some(3))?
        .show()
        .await?;
    Ok(())
}
