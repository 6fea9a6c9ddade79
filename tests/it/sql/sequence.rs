//! Sequences: one slot, the input's order, and no filter past them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use datafusion::datasource::MemTable;

use super::session::Session;
use crate::cli::batch;

/// Numbers from `from`, in one batch.
fn numbers(from: i64, rows: i64) -> arrow::array::RecordBatch {
    let x: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows));
    let y: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (from..from + rows).map(|n| -n),
    ));
    batch(vec![("x", x), ("y", y)])
}

fn session() -> Session {
    let session = Session::new(4);
    let partitions = (0..4).map(|p| vec![numbers(p * 100, 60), numbers(p * 100 + 60, 40)]);
    let partitions: Vec<_> = partitions.collect();
    let schema = partitions[0][0].schema();
    let table = MemTable::try_new(schema, partitions).expect("a table");
    session
        .context
        .register_table("s", Arc::new(table))
        .expect("a table");
    session
}

#[tokio::test]
async fn rows_are_counted_in_the_order_of_the_input() {
    let s = session();
    let n = s.values("SELECT ctr() - x FROM s").await;
    assert_eq!(n, vec![Some(1); 400]);
    assert_eq!(s.pools().iter().map(|p| p.inits).sum::<u64>(), 1);
}

#[tokio::test]
async fn a_declared_order_holds_under_anything() {
    let s = session();
    for sql in [
        "SELECT sum(CASE WHEN n = 400 - x THEN 1 ELSE 0 END) FROM (SELECT x, ctr() AS n FROM (SELECT * FROM s ORDER BY y) q) r",
        "SELECT count(*) FROM (SELECT x, ctr() AS n FROM (SELECT x FROM s ORDER BY y) q) r WHERE n = 400 - x",
        "SELECT count(DISTINCT n + x) + 399 FROM (SELECT x, ctr() AS n FROM (SELECT x, y FROM s ORDER BY x DESC) q) r",
    ] {
        assert_eq!(
            s.values(sql).await,
            [Some(400)],
            "{sql}\n{}",
            s.physical(sql).await
        );
    }
}

#[tokio::test]
async fn filters_above_a_sequence_stay_there() {
    let s = session();
    let n = s
        .values("SELECT n FROM (SELECT x, ctr() AS n FROM s) q WHERE x >= 395")
        .await;
    assert_eq!(n, [396, 397, 398, 399, 400].map(Some));
    assert_eq!(s.rows_computed(), 400);
    let n = s
        .values("SELECT x FROM s WHERE x > 100 AND ctr() < 104")
        .await;
    assert_eq!(n, [101, 102].map(Some));
    // Conditions do not keep rows from it either.
    let n = s
        .values("SELECT CASE WHEN x > 397 THEN ctr() END FROM s WHERE x % 2 = 1")
        .await;
    assert_eq!(n.iter().flatten().collect::<Vec<_>>(), [&200]);
}

#[tokio::test]
async fn two_calls_of_one_sequence_are_two_calls() {
    let s = session();
    let sums = s
        .values("SELECT a + b FROM (SELECT ctr() AS a, ctr() AS b FROM t) q")
        .await;
    assert_eq!(sums.len(), 5);
    assert_eq!(s.rows_computed(), 10);
}
