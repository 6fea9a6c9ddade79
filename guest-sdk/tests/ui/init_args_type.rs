use wasmill_guest::{InitArgs, udf};

struct Secret;

#[derive(InitArgs)]
struct Args {
    secret: Secret,
}

struct Counter;

#[udf]
impl Counter {
    fn init(_args: Args) -> Self {
        Self
    }

    fn count(&self) -> i64 {
        1
    }
}

fn main() {}
