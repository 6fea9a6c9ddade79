//! Random queries give what they give with the same functions as DataFusion's own, and guests compute no
//! more rows than the query needs.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRng, TestRunner};
use serde_json::json;
use wasmill::plan::{UdfOptions, register, register_as};

use super::native;
use super::session::{Session, load};
use crate::cli::batch;

/// A row without its `id`.
type Row = (
    Option<i64>,
    Option<i64>,
    Option<f64>,
    Option<String>,
    Option<bool>,
);

/// Two tables and how the query is run.
#[derive(Debug, Clone)]
struct Setting {
    t: Vec<Row>,
    u: Vec<Row>,
    table_partitions: usize,
    rows_per_batch: usize,
    target_partitions: usize,
    engine_batch: usize,
    guest_batch: usize,
    slots: usize,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let small = || option::weighted(0.8, -3_i64..6);
    let row = (
        small(),
        small(),
        option::weighted(0.8, (-4_i32..4).prop_map(|f| f64::from(f) / 2.0)),
        option::weighted(0.8, "[abß]{0,2}"),
        option::weighted(0.8, any::<bool>()),
    );
    vec(row, 0..24)
}

fn settings() -> impl Strategy<Value = Setting> {
    let sizes = (1..4_usize, 1..8_usize, 1..4_usize);
    let batches = (prop_oneof![2..9_usize, Just(8192)], 1..9_usize, 1..3_usize);
    (rows(), rows(), sizes, batches).prop_map(|(t, u, sizes, batches)| Setting {
        t,
        u,
        table_partitions: sizes.0,
        rows_per_batch: sizes.1,
        target_partitions: sizes.2,
        engine_batch: batches.0,
        guest_batch: batches.1,
        slots: batches.2,
    })
}

impl Setting {
    fn config(&self) -> SessionConfig {
        SessionConfig::new()
            .with_target_partitions(self.target_partitions)
            .with_batch_size(self.engine_batch)
    }

    fn register_tables(&self, context: &SessionContext) {
        for (name, rows) in [("t", &self.t), ("u", &self.u)] {
            let whole = table(rows);
            let mut partitions = vec![Vec::new(); self.table_partitions];
            let starts = (0..whole.num_rows()).step_by(self.rows_per_batch);
            for (at, start) in starts.enumerate() {
                let rows = self.rows_per_batch.min(whole.num_rows() - start);
                partitions[at % self.table_partitions].push(whole.slice(start, rows));
            }
            let table = MemTable::try_new(whole.schema(), partitions).expect("a table");
            context
                .register_table(name, Arc::new(table))
                .expect("a table");
        }
    }

    /// With the functions of guests.
    fn ours(&self) -> Session {
        let session = Session::empty(self.config());
        let count = |n| NonZeroUsize::new(n).expect("at least one");
        let options = || {
            UdfOptions::default()
                .slots(count(self.slots))
                .batch_size(count(self.guest_batch))
        };
        for name in ["identity", "math", "probe"] {
            let module = load(name);
            register(&session.context, &module, options()).expect("functions");
        }
        // `add` and `div` are those of `math`, which has more overloads.
        for name in ["add", "div"] {
            register_as(&session.context, name, &load("math"), name, options()).expect(name);
        }
        for (name, udf, k) in [
            ("double", "scale", 2),
            ("plus_two", "plus", 2),
            ("triple", "scale", 3),
        ] {
            let options = options().init_args(json!({ "k": k }));
            register_as(&session.context, name, &load("probe"), udf, options).expect(name);
        }
        self.register_tables(&session.context);
        session
    }

    /// With DataFusion's own kind of functions.
    fn native(&self) -> SessionContext {
        let context = SessionContext::new_with_config(self.config());
        native::register(&context);
        self.register_tables(&context);
        context
    }
}

fn table(rows: &[Row]) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.len() as i64));
    let i: ArrayRef = Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>());
    let j: ArrayRef = Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>());
    let f: ArrayRef = Arc::new(rows.iter().map(|r| r.2).collect::<Float64Array>());
    let s: ArrayRef = Arc::new(rows.iter().map(|r| r.3.as_deref()).collect::<StringArray>());
    let b: ArrayRef = Arc::new(rows.iter().map(|r| r.4).collect::<BooleanArray>());
    batch(vec![
        ("id", id),
        ("i", i),
        ("j", j),
        ("f", f),
        ("s", s),
        ("b", b),
    ])
}

/// An expression, as SQL over the columns of a table.
type Sql = BoxedStrategy<String>;

/// A whole number.
fn int(of: &'static str, depth: u32) -> Sql {
    let leaf = prop_oneof![
        4 => prop::sample::select(vec!["i", "j"]).prop_map(move |c| format!("{of}.{c}")),
        1 => (-2_i64..4).prop_map(|n| n.to_string()),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let int = || int(of, depth - 1);
    let condition = || condition(of, depth - 1);
    let one = prop::sample::select(vec!["double", "triple", "plus_two", "not_null", "identity"]);
    let two = prop::sample::select(vec!["gcd", "add"]);
    let operator = prop::sample::select(vec!["+", "-", "*"]);
    prop_oneof![
        2 => leaf,
        4 => (one, int()).prop_map(|(f, a)| format!("{f}({a})")),
        2 => (two, int(), int()).prop_map(|(f, a, b)| format!("{f}({a}, {b})")),
        1 => (int(), operator, int()).prop_map(|(a, o, b)| format!("({a} {o} {b})")),
        2 => (condition(), int(), int())
            .prop_map(|(c, a, b)| format!("CASE WHEN {c} THEN {a} ELSE {b} END")),
        1 => (condition(), int(), condition(), int())
            .prop_map(|(c, a, d, b)| format!("CASE WHEN {c} THEN {a} WHEN {d} THEN {b} END")),
        1 => (int(), int(), int(), int(), int())
            .prop_map(|(x, a, p, b, q)| format!("CASE {x} WHEN {a} THEN {p} WHEN {b} THEN {q} END")),
        1 => (int(), int()).prop_map(|(a, b)| format!("CASE WHEN {b} <> 0 THEN div({a}, {b}) END")),
        1 => (int(), int(), int()).prop_map(|(a, b, c)| format!("COALESCE({a}, {b}, {c})")),
        1 => (int(), int()).prop_map(|(a, b)| format!("NULLIF({a}, {b})")),
        1 => (int(), int(), int()).prop_map(|(a, b, c)| format!("nvl2({a}, {b}, {c})")),
        1 => text(of, depth - 1).prop_map(|s| format!("CAST(char_length({s}) AS BIGINT)")),
    ]
    .boxed()
}

/// A text.
fn text(of: &'static str, depth: u32) -> Sql {
    let leaf = prop_oneof![4 => Just(format!("{of}.s")), 1 => Just("'aß'".to_owned())];
    if depth == 0 {
        return leaf.boxed();
    }
    let text = || text(of, depth - 1);
    let one = prop::sample::select(vec!["upper", "identity"]);
    prop_oneof![
        2 => leaf,
        3 => (one, text()).prop_map(|(f, s)| format!("{f}({s})")),
        1 => (condition(of, depth - 1), text(), text())
            .prop_map(|(c, a, b)| format!("CASE WHEN {c} THEN {a} ELSE {b} END")),
        1 => (text(), text()).prop_map(|(a, b)| format!("COALESCE({a}, {b})")),
        1 => (text(), text()).prop_map(|(a, b)| format!("({a} || {b})")),
    ]
    .boxed()
}

/// A float.
fn float(of: &'static str, depth: u32) -> Sql {
    let leaf = Just(format!("{of}.f"));
    if depth == 0 {
        return leaf.boxed();
    }
    let int = || int(of, depth - 1);
    prop_oneof![
        leaf,
        (int(), int()).prop_map(|(a, b)| format!("km_per_minute({a}, {b})")),
        float(of, depth - 1).prop_map(|f| format!("identity({f})")),
        (condition(of, depth - 1), float(of, depth - 1))
            .prop_map(|(c, f)| format!("CASE WHEN {c} THEN {f} END")),
    ]
    .boxed()
}

/// A condition.
fn condition(of: &'static str, depth: u32) -> Sql {
    let leaf = prop_oneof![
        2 => Just(format!("{of}.b")),
        1 => Just(format!("{of}.i > 1")),
        1 => Just(format!("{of}.j IS NULL")),
        1 => Just(format!("{of}.s LIKE 'a%'")),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let int = || int(of, depth - 1);
    let condition = || condition(of, depth - 1);
    let comparison = prop::sample::select(vec!["=", "<>", "<", ">=", "IS DISTINCT FROM"]);
    let junction = prop::sample::select(vec!["AND", "OR"]);
    // DataFusion gets a CASE of columns in the list of an IN wrong.
    let items = ["i", "j"].map(|c| [format!("{of}.{c}"), format!("double({of}.{c})")]);
    let item = || prop::sample::select(items.concat());
    prop_oneof![
        2 => leaf,
        3 => (int(), comparison, int()).prop_map(|(a, c, b)| format!("({a} {c} {b})")),
        3 => (condition(), junction, condition()).prop_map(|(a, o, b)| format!("({a} {o} {b})")),
        1 => condition().prop_map(|c| format!("(NOT {c})")),
        1 => condition().prop_map(|c| format!("identity({c})")),
        1 => (int(), item(), item()).prop_map(|(a, b, c)| format!("({a} IN ({b}, {c}, 2))")),
        1 => (int(), int(), int()).prop_map(|(a, b, c)| format!("({a} BETWEEN {b} AND {c})")),
        1 => int().prop_map(|a| format!("({a} IS NULL)")),
        1 => float(of, depth - 1).prop_map(|f| format!("({f} > 0.5)")),
        1 => text(of, depth - 1).prop_map(|s| format!("({s} LIKE '%A')")),
    ]
    .boxed()
}

/// A query whose rows have one order only.
fn query() -> Sql {
    const DEPTH: u32 = 3;
    let int = || int("t", DEPTH);
    let condition = || condition("t", DEPTH);
    let small = |of| self::int(of, 2);
    let wheres =
        || option::of(condition()).prop_map(|c| c.map_or(String::new(), |c| format!("WHERE {c}")));
    let limit = prop_oneof![
        Just(String::new()),
        (0..9_u32, 0..4_u32).prop_map(|(n, m)| format!("LIMIT {n} OFFSET {m}")),
    ];
    let kind = prop::sample::select(vec!["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    prop_oneof![
        6 => (int(), condition(), text("t", DEPTH), float("t", DEPTH), wheres(), limit).prop_map(|(a, b, s, f, w, l)| {
            format!("SELECT t.id, {a} AS x, {b} AS y, {s} AS z, {f} AS w, t.i FROM t {w} ORDER BY id {l}")
        }),
        2 => (int(), int(), wheres()).prop_map(|(k, x, w)| {
            format!("SELECT id, {x} AS x FROM t {w} ORDER BY {k} DESC, id LIMIT 5")
        }),
        3 => (int(), int(), condition(), text("t", DEPTH), wheres(), -2..4_i64).prop_map(|(g, x, c, s, w, n)| {
            format!("SELECT {g} AS g, count(*) AS n, sum({x}) FILTER (WHERE {c}) AS x, min({s}) AS s, count(DISTINCT {x}) AS d FROM t {w} GROUP BY {g} HAVING double(max({x})) IS NULL OR max({x}) > {n} ORDER BY g")
        }),
        2 => (small("t"), small("u"), kind, option::of(self::condition("t", 1)), option::of(self::condition("u", 1)), small("t"), small("u")).prop_map(|(l, r, k, c, d, x, y)| {
            let c = c.map_or(String::new(), |c| format!(" AND {c}"));
            let d = d.map_or(String::new(), |d| format!(" AND {d}"));
            format!("SELECT t.id AS a, u.id AS b, {x} AS x, {y} AS y FROM t {k} u ON {l} = {r}{c}{d} ORDER BY a, b")
        }),
        1 => (small("t"), small("u"), small("u")).prop_map(|(l, r, y)| {
            format!("SELECT t.id AS a, u.id AS b FROM t JOIN u ON {l} < {r} AND add(t.i, u.j) > {y} ORDER BY a, b")
        }),
        2 => (small("t"), small("u"), self::condition("u", 2), any::<bool>()).prop_map(|(l, r, c, not)| {
            // DataFusion gets `NULL NOT IN (…)` wrong where it knows the null when it plans.
            let l = if not { format!("add(t.id, not_null({l})) NOT") } else { l };
            format!("SELECT id FROM t WHERE {l} IN (SELECT {r} FROM u WHERE {c}) ORDER BY id")
        }),
        1 => (small("t"), self::condition("u", 2), any::<bool>()).prop_map(|(l, c, not)| {
            let not = if not { "NOT" } else { "" };
            format!("SELECT id FROM t WHERE {not} EXISTS (SELECT 1 FROM u WHERE u.i = {l} AND {c}) ORDER BY id")
        }),
        1 => (small("u"), small("t")).prop_map(|(x, y)| {
            format!("SELECT id, (SELECT max({x}) FROM u WHERE u.j = t.i) AS m, {y} AS y FROM t ORDER BY id")
        }),
        1 => (small("u"), small("t")).prop_map(|(x, y)| {
            format!("SELECT id, {y} + (SELECT sum({x}) FROM u) AS y FROM t ORDER BY id")
        }),
        2 => (int(), small("t"), small("t")).prop_map(|(x, p, o)| {
            format!("SELECT id, sum({x}) OVER (PARTITION BY {p} ORDER BY {o}, id) AS x, row_number() OVER (ORDER BY {o} DESC, id) AS n FROM t ORDER BY id")
        }),
        1 => (small("t"), small("u"), wheres()).prop_map(|(x, y, w)| {
            format!("SELECT x, count(*) AS n FROM (SELECT {x} AS x FROM t {w} UNION ALL SELECT {y} FROM u) q GROUP BY x ORDER BY x")
        }),
        1 => (int(), small("t"), condition()).prop_map(|(x, k, c)| {
            format!("WITH q AS (SELECT id, {x} AS x FROM t) SELECT DISTINCT ON (k) k, x, q.id FROM (SELECT {k} AS k, t.id FROM t WHERE {c}) r JOIN q ON q.id = r.id ORDER BY k, q.id")
        }),
    ]
    .boxed()
}

/// The answer of a query, with its types.
async fn answer(context: &SessionContext, sql: &str) -> Result<String, String> {
    let answered: datafusion::error::Result<String> = async {
        let frame = context.sql(sql).await?;
        let types: Vec<DataType> = frame
            .schema()
            .fields()
            .iter()
            .map(|f| f.data_type().clone())
            .collect();
        let rows = pretty_format_batches(&frame.collect().await?)?;
        Ok(format!("{types:?}\n{rows}"))
    }
    .await;
    answered.map_err(|e| e.strip_backtrace())
}

/// So many cases, the same each time; or as many times that as `WASMILL_CASES` says, others each time.
fn cases(cases: u32) -> TestRunner {
    let times = std::env::var("WASMILL_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    let config = Config {
        cases: cases * times.unwrap_or(1),
        failure_persistence: None,
        ..Config::default()
    };
    match times {
        Some(_) => TestRunner::new(config),
        None => {
            let random = TestRng::deterministic_rng(config.rng_algorithm);
            TestRunner::new_with_rng(config, random)
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(16 << 20)
        .enable_all()
        .build()
        .expect("a runtime")
}

#[test]
fn answers_are_those_of_native_functions() {
    let runtime = runtime();
    let (mut planned, mut all) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let checked = cases(100).run(&(settings(), query()), |(setting, sql)| {
        let (expected, answer) = runtime.block_on(async {
            let expected = answer(&setting.native(), &sql).await;
            (expected, answer(&setting.ours().context, &sql).await)
        });
        all.fetch_add(1, Ordering::Relaxed);
        // What DataFusion itself cannot plan says nothing about us.
        if let Ok(expected) = expected {
            planned.fetch_add(1, Ordering::Relaxed);
            prop_assert_eq!(answer, Ok(expected), "{}", sql);
        }
        Ok(())
    });
    checked.unwrap_or_else(|e| panic!("{e}"));
    let (planned, all) = (planned.get_mut(), all.get_mut());
    assert!(
        *planned * 4 > *all * 3,
        "{planned} of {all} queries were compared"
    );
}

/// An expression with one call of each of three functions, and conditions for the rows that need them.
fn conditional() -> impl Strategy<Value = (String, [String; 3])> {
    let plain = |depth| condition_without_calls(depth);
    (plain(2), plain(2), 0..4_u8).prop_map(|(c, d, shape)| match shape {
        0 => (
            format!("CASE WHEN {c} THEN double(t.i) WHEN {d} THEN triple(t.j) ELSE plus_two(t.i) END"),
            [
                format!("({c}) IS TRUE"),
                format!("({c}) IS NOT TRUE AND ({d}) IS TRUE"),
                format!("({c}) IS NOT TRUE AND ({d}) IS NOT TRUE"),
            ],
        ),
        1 => (
            format!("COALESCE(CASE WHEN {c} THEN t.i END, CASE WHEN {d} THEN double(t.id) END, plus_two(t.id))"),
            [
                format!("CASE WHEN {c} THEN t.i END IS NULL AND ({d}) IS TRUE"),
                "FALSE".to_owned(),
                format!("CASE WHEN {c} THEN t.i END IS NULL AND ({d}) IS NOT TRUE"),
            ],
        ),
        2 => (
            format!("({c}) AND double(t.id) > 4 AND ({d})"),
            [
                format!("({c}) IS NOT FALSE AND ({d}) IS NOT FALSE"),
                "FALSE".to_owned(),
                "FALSE".to_owned(),
            ],
        ),
        _ => (
            format!("({c}) OR triple(t.id) > 4"),
            [
                "FALSE".to_owned(),
                format!("({c}) IS NOT TRUE"),
                "FALSE".to_owned(),
            ],
        ),
    })
}

fn condition_without_calls(depth: u32) -> Sql {
    let leaf = prop_oneof![
        Just("t.b".to_owned()),
        Just("t.i > 1".to_owned()),
        Just("t.j IS NULL".to_owned()),
        Just("t.f <= 0.5".to_owned()),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let condition = || condition_without_calls(depth - 1);
    let junction = prop::sample::select(vec!["AND", "OR"]);
    prop_oneof![
        leaf,
        (condition(), junction, condition()).prop_map(|(a, o, b)| format!("({a} {o} {b})")),
        condition().prop_map(|c| format!("(NOT {c})")),
    ]
    .boxed()
}

#[test]
fn guests_compute_the_rows_that_need_it_only() {
    let runtime = runtime();
    let checked = cases(60).run(&(settings(), conditional()), |(setting, (x, needs))| {
        let sql = format!("SELECT id, {x} AS x FROM t ORDER BY id");
        runtime.block_on(async {
            let native = setting.native();
            let session = setting.ours();
            let expected = answer(&native, &sql).await;
            prop_assert_eq!(answer(&session.context, &sql).await, expected, "{}", sql);
            let mut needed = 0;
            for condition in &needs {
                let sql = format!("SELECT 1 FROM t WHERE {condition}");
                let rows = native.sql(&sql).await.expect(&sql);
                needed += rows.count().await.expect(&sql);
            }
            prop_assert_eq!(session.rows_computed(), needed as u64, "{}", sql);
            Ok(())
        })
    });
    checked.unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn what_is_known_of_columns_passes_a_stage() {
    let setting = Setting {
        t: vec![(Some(1), None, None, None, None); 3],
        u: Vec::new(),
        table_partitions: 2,
        rows_per_batch: 1,
        target_partitions: 1,
        engine_batch: 8192,
        guest_batch: 8,
        slots: 1,
    };
    // Below the stage DataFusion knows that `b` is always null, and sorts by `a` only.
    let sql = "SELECT t.id AS a, u.id AS b, double(t.i) AS x FROM t LEFT JOIN u ON t.i = u.i AND 1 = 2 ORDER BY a, b";
    let (expected, answer) = runtime().block_on(async {
        let expected = answer(&setting.native(), sql).await;
        (expected, answer(&setting.ours().context, sql).await)
    });
    assert!(expected.is_ok(), "{expected:?}");
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn columns_of_a_union_may_be_null_where_a_call_may_be() {
    let session = Session::new(1);
    for sql in [
        "SELECT x, count(*) FROM (SELECT COALESCE(a, 0) AS x FROM t UNION ALL SELECT not_null(0) FROM t) q GROUP BY x",
        "SELECT x, count(*) FROM (SELECT COALESCE(a, 0) AS x FROM t UNION ALL SELECT COALESCE(b, not_null(a)) FROM t) q GROUP BY x",
    ] {
        let rows = session.try_rows(sql).await;
        assert!(rows.is_ok(), "{sql}: {rows:?}");
    }
}
