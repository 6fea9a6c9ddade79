//! A session with the test guests, and what its queries did.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::json;
use wasmill::plan::{RunObserver, UdfOptions, install, register, register_as};
use wasmill::{Engine, EngineConfig, Module, PoolMetrics, Run};

use crate::cli::{batch, module};

/// A test guest, compiled once.
pub(crate) fn load(name: &str) -> Module {
    static ENGINE: LazyLock<Engine> =
        LazyLock::new(|| Engine::new(&EngineConfig::default()).expect("an engine"));
    static LOADED: Mutex<BTreeMap<String, Module>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED.lock().expect("not poisoned");
    let load = || Module::from_file(&ENGINE, module(name)).expect("a module");
    loaded.entry(name.to_owned()).or_insert_with(load).clone()
}

/// A session that remembers the runs of its queries.
pub(crate) struct Session {
    pub(crate) context: SessionContext,
    runs: Arc<Mutex<Vec<Run>>>,
}

impl Session {
    /// A session with the functions of the guests `math`, `probe` and `identity`, one state of `probe` with
    /// two init arguments (`double` and `plus_two`, `triple`), and the table `t`.
    pub(crate) fn new(partitions: usize) -> Self {
        let session = Session::empty(SessionConfig::new().with_target_partitions(partitions));
        for name in ["identity", "math", "probe"] {
            register(&session.context, &load(name), UdfOptions::default()).expect("functions");
        }
        let scaled = [
            ("double", "scale", 2),
            ("plus_two", "plus", 2),
            ("sevenfold", "scale", 7),
            ("triple", "scale", 3),
        ];
        for (name, udf, k) in scaled {
            let options = UdfOptions::default().init_args(json!({ "k": k }));
            register_as(&session.context, name, &load("probe"), udf, options).expect("scale");
        }
        session.table("t", numbers());
        session
    }

    /// A session without functions.
    pub(crate) fn empty(config: SessionConfig) -> Self {
        let runs = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&runs);
        let observer = RunObserver(Arc::new(move |run: &Run| {
            seen.lock().expect("not poisoned").push(run.clone());
        }));
        let state = SessionStateBuilder::new()
            .with_config(config.with_extension(Arc::new(observer)))
            .with_default_features()
            .build();
        let context = SessionContext::new_with_state(state);
        install(&context);
        Session { context, runs }
    }

    pub(crate) fn table(&self, name: &str, rows: RecordBatch) {
        self.context.register_batch(name, rows).expect("a table");
    }

    pub(crate) async fn try_rows(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        self.context.sql(sql).await?.collect().await
    }

    /// The rows as a table.
    pub(crate) async fn rows(&self, sql: &str) -> String {
        let rows = self.try_rows(sql).await;
        let rows = rows.unwrap_or_else(|e| panic!("{sql}: {e}"));
        pretty_format_batches(&rows).expect("a table").to_string()
    }

    /// The values of the first column as JSON.
    pub(crate) async fn values(&self, sql: &str) -> Vec<Option<i64>> {
        use arrow::array::AsArray;
        use arrow::datatypes::Int64Type;
        let rows = self.try_rows(sql).await;
        let rows = rows.unwrap_or_else(|e| panic!("{sql}: {e}"));
        rows.iter()
            .flat_map(|b| {
                b.column(0)
                    .as_primitive::<Int64Type>()
                    .iter()
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// The logical plan after optimizing.
    pub(crate) async fn plan(&self, sql: &str) -> String {
        let plan = self
            .context
            .sql(sql)
            .await
            .and_then(|d| d.into_optimized_plan());
        without_digests(
            &plan
                .unwrap_or_else(|e| panic!("{sql}: {e}"))
                .display_indent()
                .to_string(),
        )
    }

    pub(crate) async fn physical(&self, sql: &str) -> String {
        let plan = self.context.sql(sql).await.expect(sql);
        let plan = plan.create_physical_plan().await.expect(sql);
        without_digests(&displayable(plan.as_ref()).indent(false).to_string())
    }

    /// Runs since the last time.
    pub(crate) fn runs(&self) -> usize {
        std::mem::take(&mut *self.runs.lock().expect("not poisoned")).len()
    }

    /// What the pools of all runs since the last time counted.
    pub(crate) fn pools(&self) -> Vec<PoolMetrics> {
        let runs = std::mem::take(&mut *self.runs.lock().expect("not poisoned"));
        runs.iter().flat_map(|run| run.metrics().pools).collect()
    }

    /// Rows that guests computed since the last time.
    pub(crate) fn rows_computed(&self) -> u64 {
        self.pools().iter().map(|p| p.rows).sum()
    }
}

/// Digests differ from build to build.
fn without_digests(plan: &str) -> String {
    let mut shown = String::new();
    let mut rest = plan;
    while let Some((before, after)) = rest.split_once("(module ") {
        shown.push_str(before);
        shown.push_str("(module …");
        rest = after.get(12..).unwrap_or_default();
    }
    shown + rest
}

/// Five rows: a from 1 to 5, b with a zero and a null, c a text.
pub(crate) fn numbers() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
    let b: ArrayRef = Arc::new(Int64Array::from(vec![
        Some(10),
        Some(0),
        None,
        Some(2),
        Some(5),
    ]));
    let c: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "x", "z", "y"]));
    batch(vec![("a", a), ("b", b), ("c", c)])
}
