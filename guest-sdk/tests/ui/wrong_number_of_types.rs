use wasmill_guest::udf;

/// For pairs of types.
#[udf(types(i32, i64))]
fn first<T, U>(x: T, _y: U) -> T {
    x
}

fn main() {}
