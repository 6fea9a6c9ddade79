use wasmill_guest::udf;

struct Opaque;

/// Returns what no column holds.
#[udf]
fn opaque(_x: i64) -> Opaque {
    Opaque
}

fn main() {}
