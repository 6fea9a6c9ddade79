use wasmill_guest::udf;

struct Counter;

#[udf]
impl Counter {
    fn init() -> i64 {
        1
    }

    fn count(&self) -> i64 {
        1
    }
}

fn main() {}
