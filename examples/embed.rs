//! The core library at work, without DataFusion. `docs/embedding.md` explains it part by part.
//!
//! `cargo xtask udfs`, then `cargo run --example embed --no-default-features`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Float64Type, SchemaRef};
use serde_json::json;
use wasmill::{
    Argument, ArgumentType, Call, Engine, EngineConfig, ErrorClass, Fault, Grant, Module, Policy,
    Pool, Rows, Stage,
};

/// Runs the parts, one after the other.
pub fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(&EngineConfig {
        cache_dir: EngineConfig::default_cache_dir(),
        ..EngineConfig::default()
    })?;
    let math = Module::from_file(&engine, "target/udfs/math.wasm")?;
    let tokenize = Module::from_file(&engine, "target/udfs/tokenize.wasm")?;

    let haversine = bind_haversine(&math)?;
    let distances = Pool::builder(&math).name("distances").start()?;
    let count = bind(&tokenize, "count_tokens", &[DataType::Utf8])?;
    let tokens = start_tokenizer(&tokenize, &count)?;
    stage(&distances, &haversine, &tokens, &count)?;
    println!("{}", tokens.metrics());

    let div = bind(&math, "div", &[DataType::Int64, DataType::Int64])?;
    rows(&math, &div)?;
    local_slot(&math, haversine)?;
    errors(&tokenize);
    Ok(())
}

/// A call over columns of these types, which may hold nulls.
fn bind(module: &Module, udf: &str, types: &[DataType]) -> Result<Call, wasmill::Error> {
    let offered: Vec<_> = types.iter().cloned().map(ArgumentType::Typed).collect();
    let resolved = module.resolve(udf, &offered)?;
    let arguments = types
        .iter()
        .map(|data_type| Argument::column(Field::new("argument", data_type.clone(), true)))
        .collect();
    Ok(module.bind(&resolved.function, arguments)?)
}

/// Distances to New York: two columns, two constants.
fn bind_haversine(math: &Module) -> Result<Call, wasmill::Error> {
    let place = ArgumentType::Typed(DataType::Float64);
    let resolved = math.resolve(
        "haversine",
        &[
            place.clone(),
            place,
            ArgumentType::Literal("40.64".to_owned()),
            ArgumentType::Literal("-73.78".to_owned()),
        ],
    )?;
    let column = |name| Argument::column(Field::new(name, DataType::Float64, true));
    let constant = |value| Argument::constant(Arc::new(Float64Array::from(vec![value])));
    Ok(math.bind(
        &resolved.function,
        vec![
            column("lat"),
            column("lon"),
            constant(40.64),
            constant(-73.78),
        ],
    )?)
}

/// Two slots, each with a vocabulary of its own, and little to use up.
fn start_tokenizer(module: &Module, call: &Call) -> Result<Pool, wasmill::Error> {
    let policy = Policy {
        memory: 64 << 20,
        call_time: Duration::from_secs(2),
        ..Policy::default()
    };
    let pool = Pool::builder(module)
        .name("tokens")
        .state_for(call)
        .init_args(json!({ "vocabulary": ["[UNK]", "airport", "field", "lan", "##ing"] }))
        .slots(NonZeroUsize::new(2).expect("two"))
        .policy(policy)
        .on_log(Arc::new(|line| {
            println!("{} {}: {}", line.pool, line.level, line.text);
        }))
        .start()?;
    for notice in pool.notices() {
        println!("{notice}");
    }
    Ok(pool)
}

/// Batches with two more columns.
fn stage(
    distances: &Pool,
    haversine: &Call,
    tokens: &Pool,
    count: &Call,
) -> Result<(), wasmill::Error> {
    let (schema, batches) = airports();
    let stage = Stage::new(&schema)
        .call(distances, haversine, &["lat", "lon"], "km_to_jfk")?
        .call(tokens, count, &["name"], "tokens")?
        .batch_size(NonZeroUsize::new(8_192).expect("some"));
    for batch in stage.run(batches.into_iter().map(Ok)) {
        let batch = batch?;
        println!("{} rows, {} columns", batch.num_rows(), batch.num_columns());
        println!("{:?}", batch.column(3).as_primitive::<Float64Type>());
    }
    Ok(())
}

fn airports() -> (SchemaRef, Vec<RecordBatch>) {
    let name: ArrayRef = Arc::new(StringArray::from(vec!["Landing Field", "Airport"]));
    let lat: ArrayRef = Arc::new(Float64Array::from(vec![Some(51.47), None]));
    let lon: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.46), None]));
    let columns = [("name", name), ("lat", lat), ("lon", lon)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true)));
    let batch = batch.expect("columns of one length");
    (batch.schema(), vec![batch])
}

/// Rows without a stage: some of them masked, one that fails.
fn rows(math: &Module, div: &Call) -> Result<(), wasmill::Error> {
    let pool = Pool::builder(math).name("divisions").start()?;
    let a: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![100, 100, 100]));
    let b: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![7, 0, 0]));
    let wanted = BooleanArray::from(vec![true, true, false]);
    let output = pool.call(div, Rows::new(vec![a, b], 3).masked(wanted))?;
    println!("{} nulls", output.array.null_count());
    for failed in &output.row_errors {
        println!("row {} failed: {}", failed.row, failed.message);
    }
    pool.close();
    Ok(())
}

/// A slot on a thread of this program's own.
fn local_slot(math: &Module, haversine: Call) -> Result<(), Box<dyn Error>> {
    let math = math.clone();
    let worker = std::thread::Builder::new().stack_size(4 << 20).spawn(
        move || -> Result<f64, wasmill::Error> {
            let mut slot = Pool::builder(&math).name("local").start_local()?;
            let (_, batches) = airports();
            let columns = batches[0].columns()[1..].to_vec();
            let output = slot.call(&haversine, &Rows::new(columns, 2))?;
            Ok(output.array.as_primitive::<Float64Type>().value(0))
        },
    )?;
    let km = worker.join().expect("the worker did not panic")?;
    println!("{km:.0} km");
    Ok(())
}

/// What errors say.
fn errors(tokenize: &Module) {
    let started = Pool::builder(tokenize)
        .name("broken")
        .state("Tokenizer")
        .init_args(json!({ "vocabulary": [] }))
        .start();
    match started.map_err(wasmill::Error::from) {
        Ok(_) => println!("started"),
        Err(error) if error.class() == ErrorClass::Usage => println!("your mistake: {error}"),
        Err(wasmill::Error::Call(call)) if matches!(*call.fault, Fault::Time { .. }) => {
            println!("too slow: {}", call.place);
        }
        Err(error) => println!("failed: {error}"),
    }

    let started = Pool::builder(tokenize)
        .policy(with_models("no/such/folder".into()))
        .start();
    if let Err(error) = started {
        println!("{error}");
    }
}

/// A folder that guests may read, by the name `/models`.
fn with_models(folder: PathBuf) -> Policy {
    Policy {
        grants: vec![Grant {
            host: folder,
            guest: "/models".to_owned(),
            writable: false,
        }],
        environment: vec![("LANG".to_owned(), "C".to_owned())],
        ..Policy::default()
    }
}
