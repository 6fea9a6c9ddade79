//! Queries as runs: admission, warm pools, many at once, and what is left when they end.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use serde_json::json;
use wasmill::plan::{UdfOptions, install, register, register_as};
use wasmill::{Admission, Ledger, Machine, Policy, RunConfig, Share, WarmLimits, WarmPools};

use super::session::load;
use crate::cli::batch;

/// A machine of two CPUs.
fn ledger(memory: u64) -> Ledger {
    Ledger::new(Machine {
        cpus: Share::whole(2),
        memory,
        devices: Vec::new(),
    })
}

/// A session with `double`, `slow` (a millisecond per call) and others, whose runs use this configuration.
fn session(config: RunConfig, slots: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .with_extension(Arc::new(config));
    with_functions(SessionContext::new_with_config(config), slots)
}

fn with_functions(context: SessionContext, slots: usize) -> SessionContext {
    install(&context);
    let options = || {
        let policy = Policy {
            memory: 16 << 20,
            ..Policy::default()
        };
        let slots = NonZeroUsize::new(slots).expect("slots");
        UdfOptions::default().slots(slots).policy(policy)
    };
    register(&context, &load("math"), options()).expect("functions");
    register(&context, &load("probe"), options()).expect("functions");
    let double = options().init_args(json!({ "k": 2 }));
    register_as(&context, "double", &load("probe"), "scale", double).expect("double");
    let partitions = (0..4).map(|p| {
        let x = (0..3).map(|b| {
            let first = p * 300 + b * 100;
            let x: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 100));
            batch(vec![("x", x)])
        });
        x.collect::<Vec<_>>()
    });
    let partitions: Vec<_> = partitions.collect();
    let table = MemTable::try_new(partitions[0][0].schema(), partitions).expect("a table");
    context
        .register_table("n", Arc::new(table))
        .expect("a table");
    context
}

async fn number(context: &SessionContext, sql: &str) -> Result<i64, String> {
    let rows = async { context.sql(sql).await?.collect().await };
    let rows = rows.await.map_err(|e| e.strip_backtrace())?;
    Ok(rows[0].column(0).as_primitive::<Int64Type>().value(0))
}

const SUM: i64 = 1_199 * 1_200 / 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_queries_share_warm_pools() {
    let ledger = ledger(512 << 20);
    let warm = WarmPools::new(WarmLimits::default());
    let config = RunConfig {
        ledger: Some(ledger.clone()),
        warm: Some(warm.clone()),
        admission: Admission::Wait(Duration::from_secs(120)),
        ..RunConfig::default()
    };
    let context = session(config, 2);
    let queries = (0..200).map(|n| {
        let context = context.clone();
        tokio::spawn(async move {
            let (sql, expected) = match n % 4 {
                0 => ("SELECT sum(double(x)) FROM n", 2 * SUM),
                1 => ("SELECT sum(double(double(x))) FROM n", 4 * SUM),
                2 => ("SELECT sum(double(gcd(x, 0))) FROM n", 2 * SUM),
                _ => ("SELECT count(*) FROM n WHERE double(x) > 1000", 699),
            };
            assert_eq!(number(&context, sql).await, Ok(expected), "{sql}");
        })
    });
    let queries: Vec<_> = queries.collect();
    for query in queries {
        query.await.expect("a right answer");
    }
    let held = ledger.usage();
    assert!(held.holders.len() <= 2, "{held:?}");
    drop(context);
    warm.reset();
    assert!(ledger.usage().holders.is_empty(), "{:?}", ledger.usage());
}

#[tokio::test]
async fn pools_that_can_never_fit_are_refused_when_the_query_is_planned() {
    let ledger = ledger(64 << 20);
    let config = RunConfig {
        ledger: Some(ledger.clone()),
        ..RunConfig::default()
    };
    let context = session(config, 8);
    let query = context
        .sql("SELECT sum(double(x)) FROM n")
        .await
        .expect("a query");
    let error = query
        .create_physical_plan()
        .await
        .expect_err("an error")
        .strip_backtrace();
    for part in ["memory", "Scale"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    // It can still be explained.
    let rows = context
        .sql("EXPLAIN SELECT sum(double(x)) FROM n")
        .await
        .expect("a query");
    assert!(!rows.collect().await.expect("a plan").is_empty());
    assert!(ledger.usage().holders.is_empty());
}

#[tokio::test]
async fn a_run_takes_its_share_of_the_memory_pool_of_datafusion() {
    let ledger = ledger(1 << 30);
    let config = RunConfig {
        ledger: Some(ledger.clone()),
        ..RunConfig::default()
    };
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(100 << 20, 1.0)
        .build_arc()
        .expect("a runtime");
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_extension(Arc::new(config)))
        .with_runtime_env(Arc::clone(&runtime))
        .with_default_features()
        .build();
    let context = with_functions(SessionContext::new_with_state(state), 2);
    // Two slots of 16 MiB and 64 MiB of queue fit; with a second pool they do not.
    assert_eq!(
        number(&context, "SELECT sum(double(x)) FROM n").await,
        Ok(2 * SUM)
    );
    let error = number(&context, "SELECT sum(double(gcd(x, 0))) FROM n").await;
    let error = error.expect_err("too much");
    assert!(error.contains("Wasmill pools"), "{error}");
    assert_eq!(runtime.memory_pool.reserved(), 0);
    assert!(ledger.usage().holders.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_ends_a_query_gives_everything_back() {
    let ledger = ledger(512 << 20);
    let config = RunConfig {
        ledger: Some(ledger.clone()),
        ..RunConfig::default()
    };
    let context = session(config, 2);
    // An error in the middle of it.
    let error = number(&context, "SELECT sum(boom(x)) FROM n")
        .await
        .expect_err("a panic");
    assert!(error.contains("boom"), "{error}");
    assert!(ledger.usage().holders.is_empty());
    // Nobody reads on.
    let query = context
        .sql("SELECT double(x) FROM n")
        .await
        .expect("a query");
    let mut stream = query.execute_stream().await.expect("a stream");
    stream.next().await.expect("rows").expect("rows");
    drop(stream);
    wait_for(|| ledger.usage().holders.is_empty()).await;
    // Somebody gives up while a guest runs for ever.
    let query = context.sql("SELECT spin(x) FROM n").await.expect("a query");
    let collected = tokio::time::timeout(Duration::from_millis(200), query.collect()).await;
    assert!(collected.is_err());
    wait_for(|| ledger.usage().holders.is_empty()).await;
    // And a query after all this is right.
    assert_eq!(
        number(&context, "SELECT sum(double(x)) FROM n").await,
        Ok(2 * SUM)
    );
    assert!(ledger.usage().holders.is_empty());
}

async fn wait_for(done: impl Fn() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come");
}

#[tokio::test]
async fn a_limit_sends_little_to_the_guests() {
    let context = session(RunConfig::default(), 1);
    let rows = context
        .sql("SELECT double(x) FROM n LIMIT 1")
        .await
        .expect("a query");
    let plan = rows.create_physical_plan().await.expect("a plan");
    let rows = datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await;
    assert_eq!(
        rows.expect("rows")
            .iter()
            .map(|b| b.num_rows())
            .sum::<usize>(),
        1
    );
    let shown = datafusion::physical_plan::displayable(plan.as_ref());
    let metrics = plan.metrics().and_then(|m| m.sum_by_name("Scale.rows"));
    let sent = metrics.map_or(u64::MAX as usize, |m| m.as_usize());
    assert!(sent <= 200, "{sent} rows\n{}", shown.indent(false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_that_ends_a_run_is_told_not_what_it_cancelled() {
    let context = session(RunConfig::default(), 2);
    for _ in 0..20 {
        // Only the first partition has the row that fails; the others are busy then.
        let failed = number(&context, "SELECT 10 / (slow(x) - 1) FROM n").await;
        let message = failed.expect_err("a division by zero");
        assert!(message.contains("Divide by zero"), "{message}");
    }
}
