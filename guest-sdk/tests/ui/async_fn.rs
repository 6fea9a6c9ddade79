use wasmill_guest::udf;

/// Waits.
#[udf]
async fn wait(x: i64) -> i64 {
    x
}

fn main() {}
