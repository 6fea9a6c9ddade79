use wasmill_guest::udf;

/// For any type.
#[udf]
fn same<T>(x: T) -> T {
    x
}

fn main() {}
