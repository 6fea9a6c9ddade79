use wasmill_guest::{Column, Writer, udf};

#[udf]
fn pattern((a, b): (i64, i64)) -> i64 {
    a + b
}

#[udf]
fn anything(x: impl Into<i64>) -> i64 {
    x.into()
}

#[udf]
fn writes(x: i64, out: &mut Vec<i64>) {
    out.push(x);
}

#[udf]
fn whole_column(x: Column<'_, i64>) -> i64 {
    x.get(0)
}

#[udf(batch)]
fn single_row(x: i64, out: &mut Writer<i64>) {
    out.push(x);
}

#[udf(batch)]
fn no_writer(x: Column<'_, i64>) -> Vec<i64> {
    x.values().to_vec()
}

fn main() {}
