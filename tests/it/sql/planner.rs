//! Which pool stages a query becomes.

use super::session::Session;

#[tokio::test]
async fn explore() {
    let s = Session::new(2);
    for sql in [
        "SELECT a, gcd(a, 6) AS b FROM t",
        "SELECT a, double(double(a)) AS b FROM t",
        "SELECT double(a+1)*2 AS x, b FROM t",
        "SELECT a FROM (SELECT a, double(b) AS r FROM t)",
        "SELECT a, r, b FROM (SELECT a, b, c, double(b) AS r FROM t)",
        "SELECT a FROM t WHERE double(a) > 4",
        "SELECT double(a) AS x, double(a)+1 AS y FROM t",
        "SELECT double(a), triple(b) FROM t",
        "SELECT x FROM (SELECT double(a) AS x, b FROM t) WHERE b > 4",
        "SELECT a FROM t WHERE double(a) > 1 AND b > 4",
        "SELECT CASE WHEN a>1 THEN double(a) ELSE triple(b) END FROM t",
        "SELECT COALESCE(b, double(a)) FROM t",
        "SELECT double(a) FROM t LIMIT 1",
        "SELECT a FROM t ORDER BY double(a)",
        "SELECT double(a), count(*) FROM t GROUP BY double(a)",
        "SELECT sum(double(a)) FROM t",
        "SELECT l.a FROM t l JOIN t r ON double(l.a) = r.a",
        "SELECT double(3)",
        "SELECT double(3), a FROM t",
        "SELECT a, double(a) FROM t WHERE double(a) > 4 ORDER BY double(a)",
        "SELECT sum(double(a)) OVER (ORDER BY triple(a)) FROM t",
        "SELECT seven() FROM t",
        "SELECT ctr(), ctr() FROM t",
        "SELECT a FROM t WHERE double(a) IN (SELECT triple(a) FROM t)",
        "SELECT a, (SELECT max(double(u.a)) FROM t u WHERE u.a < t.a) FROM t",
        "VALUES (double(1)), (2)",
        "SELECT gcd(a, b) FROM t GROUP BY ROLLUP(gcd(a,b))",
        "SELECT DISTINCT ON (double(a)) a FROM t ORDER BY double(a), b",
        "SELECT l.a FROM t l LEFT JOIN t r ON l.a = r.a AND double(r.b) > 3 AND gcd(l.a, r.b) > 0",
    ] {
        println!("--- {sql}");
        let plan = s
            .context
            .sql(sql)
            .await
            .and_then(|d| d.into_optimized_plan());
        match plan {
            Ok(p) => println!("{}", p.display_indent()),
            Err(e) => {
                println!("ERR {e}");
                continue;
            }
        }
        match s.try_rows(sql).await {
            Ok(r) => println!(
                "{}",
                arrow::util::pretty::pretty_format_batches(&r).unwrap()
            ),
            Err(e) => println!("ERR {e}"),
        }
        for p in s.pools() {
            println!(
                "{} inits {} calls {} rows {}",
                p.pool, p.inits, p.calls, p.rows
            );
        }
    }
}
