//! Functions that fail in every way a function can, and such as use too much of something.

use std::hint::black_box;

use wasmill_guest::{Column, Failure, InitArgs, Writer, log, udf};

/// 100 / y; a zero fails the row.
#[udf]
pub fn div(y: i64) -> Result<i64, &'static str> {
    100_i64.checked_div(y).ok_or("division by zero")
}

/// x, but panics at 3.
#[udf]
pub fn boom(x: i64) -> i64 {
    assert!(x != 3, "boom at {x}");
    x
}

/// Never ends.
#[udf]
pub fn spin(x: i64) -> i64 {
    let mut turns = x;
    while black_box(true) {
        turns = turns.wrapping_add(1);
    }
    turns
}

/// Calls itself without end.
#[udf]
#[allow(unconditional_recursion)]
pub fn recurse(x: i64) -> i64 {
    black_box(recurse(black_box(x.wrapping_add(1)))).wrapping_add(1)
}

/// Allocates and touches so many bytes; gives them back.
#[udf]
pub fn hog(bytes: i64) -> i64 {
    let bytes = usize::try_from(bytes.max(0)).unwrap_or(usize::MAX);
    let block = black_box(vec![1_u8; bytes]);
    block.len() as i64
}

/// Logs so many lines.
#[udf]
pub fn chatty(lines: i64) -> i64 {
    for line in 0..lines {
        log::info!("line {line}");
    }
    lines
}

/// Writes as many rows as there are plus the first `delta`.
#[udf(batch)]
pub fn wrong_rows(delta: Column<'_, i64>, out: &mut Writer<i64>) {
    let rows = delta.len() as i64 + delta.get(0);
    out.fill(usize::try_from(rows).unwrap_or(0), |row| row as i64);
}

/// Fails the whole call with its first text.
#[udf(batch)]
pub fn fail_call(x: Column<'_, str>, _out: &mut Writer<i64>) -> Result<(), String> {
    Err(x.get(0).to_owned())
}

/// Bytes that are no text: an invalid byte, a NUL, a control character.
const RAW: &[u8] = b"raw \xff\0\x1b[31m end";

/// A message that is not UTF-8.
pub struct Raw;

impl Failure for Raw {
    fn code(&self) -> i32 {
        -7
    }

    fn write_message(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(RAW);
    }
}

/// Fails the whole call with bytes that are no text.
#[udf(batch)]
pub fn fail_call_raw(_x: Column<'_, str>, _out: &mut Writer<i64>) -> Result<(), Raw> {
    Err(Raw)
}

/// Fails the whole call with a text of so many bytes.
#[udf(batch)]
pub fn fail_call_long(bytes: Column<'_, i64>, _out: &mut Writer<i64>) -> Result<(), String> {
    Err("x".repeat(usize::try_from(bytes.get(0)).unwrap_or(0)))
}

/// Fails every row with bytes that are no text, which breaks the contract.
#[udf]
pub fn fail_row_raw(_x: i64) -> Result<i64, Raw> {
    Err(Raw)
}

/// How to fail.
#[derive(InitArgs)]
pub struct InitFailsArgs {
    /// How often to fail; no effect, since an instance knows of no other.
    #[init(default = 1)]
    pub times: i64,
    /// What to say.
    #[init(default = "init failed on purpose")]
    pub message: String,
}

/// Cannot be made.
pub enum InitFails {}

#[udf(state = "resource")]
impl InitFails {
    /// Always fails.
    pub fn init(args: InitFailsArgs) -> Result<Self, String> {
        Err(format!("{} ({} times)", args.message, args.times))
    }

    /// Is never called.
    pub fn never(&self, _x: i64) -> i64 {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fail_for_zero() {
        assert_eq!((div(50), div(0)), (Ok(2), Err("division by zero")));
    }

    #[test]
    #[should_panic(expected = "boom at 3")]
    fn boom_panics_at_3() {
        assert_eq!(boom(2), 2);
        boom(3);
    }

    #[test]
    fn hog_and_chatty_give_back_their_argument() {
        assert_eq!(hog(1000), 1000);
        assert_eq!(chatty(2), 2);
    }

    #[test]
    fn the_raw_message_is_no_text() {
        let mut message = Vec::new();
        Raw.write_message(&mut message);
        assert!(String::from_utf8(message).is_err());
    }

    #[test]
    fn init_fails_with_its_message() {
        let args = InitFailsArgs {
            times: 2,
            message: "no".to_owned(),
        };
        assert_eq!(InitFails::init(args).err().as_deref(), Some("no (2 times)"));
    }
}
