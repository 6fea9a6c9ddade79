//! `CREATE FUNCTION`, `DROP FUNCTION`, `SHOW FUNCTIONS`, `SET wasmill.…`, and what they refuse.

use std::fs;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::prelude::SessionConfig;
use wasmill::plan::{UdfOptions, WasmFunctions, register};
use wasmill::{Engine, EngineConfig};

use super::session::{Session, load, numbers};
use crate::cli::module;

/// A session that may load modules from a folder with `math.wasm`, `probe.wasm` and a link that leads
/// elsewhere.
fn session() -> (Session, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["math", "probe"] {
        fs::copy(module(name), folder.path().join(format!("{name}.wasm"))).expect("a copy");
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(module("math"), folder.path().join("link.wasm")).expect("a link");
    let engine = Engine::new(&EngineConfig::default()).expect("an engine");
    let options = UdfOptions::default();
    let functions = WasmFunctions::new(&engine, options)
        .allow_folder(folder.path())
        .expect("the folder");
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_information_schema(true);
    let mut session = Session::empty(config);
    session.context = session.context.with_function_factory(Arc::new(functions));
    session.table("t", numbers());
    (session, folder)
}

async fn refused(session: &Session, sql: &str) -> String {
    match session.try_rows(sql).await {
        Ok(_) => panic!("{sql} was not refused"),
        Err(error) => plain(&error),
    }
}

fn plain(error: &DataFusionError) -> String {
    error.strip_backtrace()
}

#[tokio::test]
async fn a_function_is_made_used_replaced_and_dropped() {
    let (s, _folder) = session();
    s.rows(
        "CREATE FUNCTION common(BIGINT, BIGINT) RETURNS BIGINT LANGUAGE WASM AS 'math.wasm#gcd'",
    )
    .await;
    assert_eq!(
        s.values("SELECT common(a, 6) FROM t").await,
        [1, 2, 3, 2, 1].map(Some)
    );
    let exists = refused(
        &s,
        "CREATE FUNCTION common() LANGUAGE WASM AS 'math.wasm#add'",
    )
    .await;
    assert!(exists.contains("CREATE OR REPLACE"), "{exists}");
    s.rows("CREATE OR REPLACE FUNCTION common() LANGUAGE WASM AS 'math.wasm#add'")
        .await;
    assert_eq!(
        s.values("SELECT common(a, 6) FROM t").await,
        [7, 8, 9, 10, 11].map(Some)
    );
    let shown = s.rows("SHOW FUNCTIONS LIKE 'common'").await;
    assert!(shown.contains("Sum. Integers wrap around."), "{shown}");
    s.rows("DROP FUNCTION common").await;
    let gone = refused(&s, "SELECT common(a, 6) FROM t").await;
    assert!(gone.contains("common"), "{gone}");
}

#[tokio::test]
async fn settings_and_init_arguments_stand_in_the_body() {
    let (s, _folder) = session();
    s.rows(r#"CREATE FUNCTION double() LANGUAGE WASM AS 'probe.wasm#scale?init={"k":2}'"#)
        .await;
    s.rows(r#"CREATE FUNCTION triple() LANGUAGE WASM AS 'probe.wasm#scale?slots=2&init={"k":3}'"#)
        .await;
    let sum = s.values("SELECT double(a) + triple(a) FROM t").await;
    assert_eq!(sum, [5, 10, 15, 20, 25].map(Some));
    let mut inits: Vec<u64> = s.pools().iter().map(|p| p.inits).collect();
    inits.sort_unstable();
    assert_eq!(inits, [1, 2]);
    s.rows("CREATE FUNCTION batch() LANGUAGE WASM AS 'probe.wasm#max_batch?batch_size=2'")
        .await;
    s.values("SELECT batch() FROM t").await;
    assert_eq!(s.pools().iter().map(|p| p.calls).sum::<u64>(), 3);
}

#[tokio::test]
async fn a_digest_can_be_pinned() {
    let (s, folder) = session();
    let engine = Engine::new(&EngineConfig::default()).expect("an engine");
    let module = wasmill::Module::from_file(&engine, folder.path().join("math.wasm"));
    let digest = module.expect("a module").digest().to_string();
    s.rows(&format!(
        "CREATE FUNCTION f() LANGUAGE WASM AS 'math.wasm#gcd?sha256={digest}'"
    ))
    .await;
    let other = "0".repeat(64);
    let wrong = format!("CREATE FUNCTION g() LANGUAGE WASM AS 'math.wasm#gcd?sha256={other}'");
    let error = refused(&s, &wrong).await;
    assert!(
        error.contains(&digest) && error.contains("pin its new digest"),
        "{error}"
    );
}

#[tokio::test]
async fn each_refusal_says_what_to_do() {
    let (s, folder) = session();
    let inside = folder.path().canonicalize().expect("a folder");
    fs::write(inside.join("text.wasm"), "no module").expect("a file");
    for (sql, says) in [
        (
            "CREATE FUNCTION f() LANGUAGE PYTHON AS 'x'",
            "LANGUAGE WASM",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS 'none.wasm#f'",
            "it was looked for in",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS '/etc/passwd'",
            "allow_folder",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS '../math.wasm#gcd'",
            "cannot be read",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS 'link.wasm#gcd'",
            "cannot be read",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS 'https://example.org/f.wasm#f'",
            "may not be loaded",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS 'text.wasm#f'",
            "does not begin as",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS 'math.wasm#gdc'",
            "did you mean `gcd`",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS 'math.wasm'",
            "no UDF `f`",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS '#gcd'",
            "names no module",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS 'math.wasm#gcd?slot=2'",
            "did you mean wasmill.slots",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM AS 'math.wasm#gcd?slots=4000'",
            "are allowed here",
        ),
        (
            "CREATE FUNCTION f(TEXT) RETURNS BIGINT LANGUAGE WASM AS 'math.wasm#gcd'",
            "does not take",
        ),
        (
            "CREATE FUNCTION f(BIGINT, BIGINT) RETURNS TEXT LANGUAGE WASM AS 'math.wasm#gcd'",
            "returns Int64",
        ),
        (
            "CREATE FUNCTION f() LANGUAGE WASM IMMUTABLE AS 'probe.wasm#ctr'",
            "VOLATILE",
        ),
        ("SET wasmill.slot = '2'", "did you mean wasmill.slots"),
        ("SET wasmill.memory = '64'", "a size with its unit"),
        ("SET wasmill.on_error = 'ignore'", "fail, or null"),
    ] {
        let error = refused(&s, sql).await;
        assert!(error.contains(says), "{sql}: {error}");
    }
    assert!(s.pools().is_empty());
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_when_it_is_planned() {
    let (s, _folder) = session();
    s.rows("CREATE FUNCTION common() LANGUAGE WASM AS 'math.wasm#gcd'")
        .await;
    s.rows("CREATE FUNCTION scale() LANGUAGE WASM AS 'probe.wasm#scale'")
        .await;
    for (sql, says) in [
        ("SELECT comon(a, 1) FROM t", "Did you mean 'common'"),
        ("SELECT common(c, 1) FROM t", "cast the arguments"),
        ("SELECT common(a) FROM t", "it takes"),
        ("SELECT scale(a) FROM t", "k"),
    ] {
        let planned = s.context.sql(sql).await;
        let error = plain(&planned.err().unwrap_or_else(|| panic!("{sql} was planned")));
        assert!(error.contains(says), "{sql}: {error}");
    }
    s.rows("SET wasmill.slots = '4000'").await;
    let error = refused(&s, "SELECT common(a, 1) FROM t").await;
    assert!(error.contains("are allowed here"), "{error}");
    assert!(s.pools().is_empty());
}

#[tokio::test]
async fn settings_hold_for_functions_that_are_there() {
    let (s, _folder) = session();
    s.rows("CREATE FUNCTION div() LANGUAGE WASM AS 'math.wasm#div'")
        .await;
    let error = refused(&s, "SELECT div(100, b) FROM t").await;
    assert!(error.contains("row 1"), "{error}");
    s.rows("SET wasmill.on_error = 'null'").await;
    s.rows("SET wasmill.batch_size = '2'").await;
    let rows = s.values("SELECT div(100, b) FROM t").await;
    assert_eq!(rows, [Some(10), None, None, Some(50), Some(20)]);
    s.pools();
    s.rows("SELECT div(100, b) FROM t").await;
    assert_eq!(s.pools().iter().map(|p| p.calls).sum::<u64>(), 3);
    s.rows("SET wasmill.max_errors = '0'").await;
    let error = refused(&s, "SELECT div(100, b) FROM t").await;
    assert!(error.contains("at most 0 may"), "{error}");
    s.rows("SET wasmill.memory = '100KiB'").await;
    let error = refused(&s, "SELECT div(100, b) FROM t").await;
    assert!(error.contains("memory"), "{error}");
}

#[tokio::test]
async fn explain_analyze_shows_what_the_pools_did() {
    let (s, _folder) = session();
    s.rows(r#"CREATE FUNCTION double() LANGUAGE WASM AS 'probe.wasm#scale?init={"k":2}'"#)
        .await;
    let shown = s
        .rows("EXPLAIN ANALYZE SELECT double(a) FROM t WHERE a > 1")
        .await;
    for what in [
        "AdmitExec",
        "PoolStageExec",
        "Scale.inits=1",
        "Scale.rows=4",
        "Scale.guest=",
    ] {
        assert!(shown.contains(what), "{what} in {shown}");
    }
    let shown = s.rows("EXPLAIN SELECT double(a) FROM t").await;
    for what in [
        "PoolStage: calls=[scale(t.a)",
        "1 slots",
        "256 MiB",
        "batch_size=8192",
    ] {
        assert!(shown.contains(what), "{what} in {shown}");
    }
    // Explaining runs nothing.
    assert_eq!(s.pools().len(), 1);
}

#[tokio::test]
async fn a_plan_that_is_executed_twice_is_two_runs() {
    let (s, _folder) = session();
    s.rows("CREATE FUNCTION ctr() LANGUAGE WASM AS 'probe.wasm#ctr'")
        .await;
    let plan = s
        .context
        .sql("SELECT sum(ctr()) FROM t")
        .await
        .expect("a query");
    let plan = plan.create_physical_plan().await.expect("a plan");
    for _ in 0..3 {
        let context = s.context.task_ctx();
        let rows = datafusion::physical_plan::collect(Arc::clone(&plan), context);
        let rows = rows.await.expect("rows");
        let sum = arrow::util::pretty::pretty_format_batches(&rows).expect("a table");
        assert!(sum.to_string().contains("| 15 "), "{sum}");
    }
    assert_eq!(s.pools().len(), 3);
}

#[tokio::test]
async fn a_name_keeps_its_meaning_when_settings_change() {
    let (s, _folder) = session();
    register(&s.context, &load("math"), UdfOptions::default()).expect("functions");
    s.rows("CREATE OR REPLACE FUNCTION gcd() LANGUAGE WASM AS 'math.wasm#add'")
        .await;
    for size in 1..12 {
        s.rows(&format!("SET wasmill.batch_size = '{size}'")).await;
        let both = s
            .values("SELECT 100 * gcd(a, 6) + math.gcd(a, 6) FROM t")
            .await;
        assert_eq!(both, [701, 802, 903, 1002, 1101].map(Some));
    }
}
