use wasmill_guest::{ArrowType, InitArgs};

#[derive(ArrowType)]
enum Color {
    Red,
}

#[derive(ArrowType)]
struct Pair(i64, i64);

#[derive(ArrowType)]
struct Generic<T> {
    value: T,
}

#[derive(InitArgs)]
struct Positional(i64);

#[derive(InitArgs)]
enum Shape {
    Circle(f64),
}

fn main() {}
