use wasmill_guest::udf;

/// Returns nothing.
#[udf]
fn nothing(_x: i64) {}

fn main() {}
