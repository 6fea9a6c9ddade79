use wasmill_guest::{AnyColumn, SameAs, udf};

#[udf(volatility = "sometimes")]
fn volatility(x: i64) -> i64 {
    x
}

#[udf(strict)]
fn unknown(x: i64) -> i64 {
    x
}

#[udf(name = "no spaces")]
fn name(x: i64) -> i64 {
    x
}

#[udf(batch_size = 0)]
fn batch_size(x: i64) -> i64 {
    x
}

#[udf(nulls = "handle")]
fn nulls(x: i64) -> i64 {
    x
}

#[udf(batch, total)]
fn total(x: AnyColumn<'_>) -> SameAs<'_, 0> {
    x.into()
}

fn main() {}
