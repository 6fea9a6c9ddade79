use wasmill_guest::udf;

struct Counter;

#[udf]
impl Counter {
    fn count(&self) -> i64 {
        1
    }
}

fn main() {}
