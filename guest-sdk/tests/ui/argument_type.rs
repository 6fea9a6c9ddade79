use std::collections::HashMap;

use wasmill_guest::udf;

/// Takes what no column holds.
#[udf]
fn sizes(x: HashMap<String, i64>) -> i64 {
    x.len() as i64
}

fn main() {}
