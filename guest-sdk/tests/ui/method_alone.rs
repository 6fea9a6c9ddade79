use wasmill_guest::udf;

struct Counter;

impl Counter {
    /// Counts.
    #[udf]
    fn count(&self) -> i64 {
        1
    }
}

fn main() {}
