//! Which pool stages a query becomes, what it answers, and for how many rows guests were asked: the plan
//! of each case is a snapshot.

use std::fmt::Write as _;

use super::session::Session;

/// Plan, answer and work of a query.
async fn told(session: &Session, sql: &str) -> String {
    let mut text = format!("{sql}\n\n{}\n\n", session.plan(sql).await);
    text += &session.rows(sql).await;
    text.push('\n');
    for pool in session.pools() {
        write!(
            text,
            "\n{}: {} inits, {} rows",
            pool.pool, pool.inits, pool.rows
        )
        .expect("text");
    }
    text
}

macro_rules! cases {
    ($($name:ident: $sql:literal;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let told = told(&Session::new(1), $sql).await;
                insta::assert_snapshot!(stringify!($name), told);
            }
        )*
    };
}

cases! {
    p01_a_call: "SELECT a, double(a) AS b FROM t";
    p02_a_call_in_a_call: "SELECT a, double(triple(a)) AS b FROM t";
    p03_without_alias: "SELECT double(double(a)) FROM t";
    p04_arithmetic_stays_outside: "SELECT double(a + 1) * 2 AS x, b FROM t";
    p05_unused_calls_vanish: "SELECT a FROM (SELECT a, double(b) AS r FROM t)";
    p06_order_of_columns: "SELECT a, r, b FROM (SELECT a, b, c, char_length(c) AS r FROM t)";
    p07_only_what_is_read: "SELECT char_length(c) FROM t";
    p08_filter_on_a_boolean: "SELECT a FROM t WHERE identity(a > 2)";
    p09_filter_on_a_comparison: "SELECT a FROM t WHERE repeat(c, a) <> 'xxx'";
    p10_equal_calls_are_one: "SELECT double(a) AS x, double(a) + 1 AS y FROM t";
    p10_volatile_calls_are_two: "SELECT bump() AS x, bump() + 100 AS y FROM t";
    p11_two_methods_of_one_state: "SELECT double(a), plus_two(b) FROM t";
    p12_filters_go_first: "SELECT x FROM (SELECT double(a) AS x, b FROM t) WHERE b > 4";
    p13_of_two_conditions_the_cheap_one: "SELECT a FROM t WHERE double(a) > 1 AND b > 4";
    p14_case: "SELECT CASE WHEN a > 1 THEN double(a) ELSE triple(b) END AS x FROM t";
    p15_coalesce: "SELECT COALESCE(b, double(a)) AS x FROM t";
    p16_limit: "SELECT double(a) FROM t LIMIT 1";
    p17_sort: "SELECT a FROM t ORDER BY double(a) DESC";
    p17_group: "SELECT double(a) AS g, count(*) FROM t GROUP BY double(a) ORDER BY g";
    p17_aggregate: "SELECT sum(double(a)) FROM t";
    p17_join: "SELECT l.a FROM t l JOIN t r ON double(l.a) = r.a ORDER BY 1";
    p18_two_init_arguments: "SELECT double(a), triple(a) FROM t";
    p19_constants: "SELECT double(3)";
    p19_constants_beside_a_table: "SELECT double(3) AS x, a FROM t";
    p20_names_like_temporaries: "SELECT __scale_1, double(__scale_1) AS __scale_2 FROM (SELECT a AS __scale_1 FROM t)";
    and_stops_at_false: "SELECT b > 4 AND double(a) > 4 AS x FROM t";
    or_stops_at_true: "SELECT b > 4 OR double(a) > 4 AS x FROM t";
    a_condition_that_can_fail: "SELECT CASE WHEN b <> 0 THEN CASE WHEN 10 / b > 1 THEN double(10 / b) END END AS x FROM t";
    a_call_decides_about_another: "SELECT CASE WHEN double(a) > 4 THEN triple(a) END AS x FROM t";
    one_of_the_branches_is_needed_anyway: "SELECT CASE WHEN a > 2 THEN double(a) END AS x, double(a) AS y FROM t";
    a_filter_and_a_projection_share_a_call: "SELECT double(a) AS x FROM t WHERE double(a) > 4";
    a_filter_of_an_aggregate: "SELECT sum(double(a)) FILTER (WHERE a > 3) FROM t";
    a_window: "SELECT a, sum(double(a)) OVER (ORDER BY triple(a)) AS x FROM t ORDER BY a";
    a_call_for_no_row_below_a_join: "SELECT a, (SELECT max(u.a) FROM t u WHERE u.b = t.a) AS m, CASE WHEN 3 = 2 THEN double(a) END AS y FROM t ORDER BY a";
    nested_calls_below_a_window: "SELECT a, sum(b) OVER (PARTITION BY b ORDER BY gcd(a, gcd(a, b)), a) AS x FROM t ORDER BY a";
    a_subquery: "SELECT a FROM t WHERE double(a) IN (SELECT triple(a) FROM t) ORDER BY a";
    a_correlated_subquery: "SELECT a, (SELECT max(double(u.a)) FROM t u WHERE u.a = t.a) AS x FROM t ORDER BY a";
    a_call_on_an_outer_column: "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.b = double(t.a)) ORDER BY a";
    values: "VALUES (double(1)), (2)";
    rollup: "SELECT double(a) AS g, count(*) AS n FROM t WHERE a < 3 GROUP BY ROLLUP (double(a)) ORDER BY g";
    distinct_on: "SELECT DISTINCT ON (double(a) % 4) a FROM t ORDER BY double(a) % 4, a";
    a_union: "SELECT double(a) AS x FROM t UNION ALL SELECT triple(a) FROM t ORDER BY x";
    a_field_of_a_struct: "SELECT s['n'] AS n, s['twice'] AS twice FROM (SELECT ctr_pair() AS s FROM t)";
    an_outer_join: "SELECT l.a, r.b FROM t l LEFT JOIN t r ON double(l.a) = r.a AND double(r.b) > 4 ORDER BY l.a";
    an_outer_join_with_a_call_over_both_sides: "SELECT l.a, r.a AS other FROM t l LEFT JOIN t r ON l.a < r.a AND gcd(l.a, r.a) > 1 ORDER BY l.a, r.a";
    three_calls_in_one_visit: "SELECT double(double(plus_two(b))) AS x FROM t";
    a_stateless_call_joins_the_visit: "SELECT sevenfold(probe.add(a, b)) AS x FROM t";
    two_inner_calls: "SELECT gcd(gcd(a, 4), gcd(b, 6)) AS x FROM t";
    inner_texts: "SELECT char_length(upper(c)) AS x FROM t";
    an_inner_call_that_others_read: "SELECT double(double(a)) AS x, double(a) AS y FROM t";
    inner_calls_under_a_mask: "SELECT CASE WHEN a > 2 THEN double(double(a)) END AS x FROM t";
}

#[tokio::test]
async fn a_lambda_calls_in_place() {
    let session = Session::new(1);
    session
        .rows("SET datafusion.sql_parser.dialect = 'DuckDB'")
        .await;
    let told = told(
        &session,
        "SELECT array_transform([a, 10], x -> double(x) + 1) AS x FROM t",
    )
    .await;
    insta::assert_snapshot!("a_lambda_calls_in_place", told);
    // The most rows per call is a promise here, too.
    session.rows("SET wasmill.batch_size = '4'").await;
    let sql = "SELECT array_transform([a, a, a], x -> max_batch())[1] AS x FROM t";
    assert_eq!(session.values(sql).await, [Some(4); 5]);
}

#[tokio::test]
async fn a_row_that_fails_in_an_inner_call_names_that_call() {
    let session = Session::new(1);
    let error = session
        .try_rows("SELECT gcd(math.div(100, b), 2) FROM t")
        .await;
    let error = error.expect_err("a division by zero").strip_backtrace();
    assert!(
        error.contains("`div` of math") && error.contains("row 1"),
        "{error}"
    );
    // Where rows may fail each call is judged by itself.
    session.rows("SET wasmill.on_error = 'null'").await;
    let rows = session
        .values("SELECT gcd(math.div(100, b), 2) FROM t")
        .await;
    assert_eq!(rows, [Some(2), None, None, Some(2), Some(2)]);
}

#[tokio::test]
async fn values_that_mean_nothing_come_back_from_inner_calls_too() {
    use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
    use arrow::datatypes::Decimal128Type;

    let session = Session::new(1);
    // Beyond the two digits of its type, as files have it.
    let wild = Decimal128Array::from(vec![Some(12_345), None]).with_precision_and_scale(2, 0);
    let wild: ArrayRef = std::sync::Arc::new(wild.expect("a decimal"));
    session.table("wild", crate::cli::batch(vec![("d", wild)]));
    let rows = session
        .try_rows("SELECT identity(identity(d)) FROM wild")
        .await
        .expect("rows");
    let back = rows[0].column(0).as_primitive::<Decimal128Type>();
    assert_eq!((back.value(0), back.is_null(1)), (12_345, true));
    let pools = session.pools();
    assert_eq!((pools[0].calls, pools[0].rows), (2, 4));
}
