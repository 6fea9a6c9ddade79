//! A guest for behaviour tests: functions that fail, count, take time or memory, and say what they saw.

mod failures;
mod faulty;
mod states;

pub use failures::{
    InitFails, InitFailsArgs, boom, chatty, div, fail_call, fail_call_long, fail_call_raw,
    fail_row_raw, hog, recurse, spin, wrong_rows,
};
pub use faulty::{Faulty, FaultyArgs};
pub use states::{Bump, Counter, CounterArgs, MaxBatch, Pair, Scale, ScaleArgs, Slow, SlowArgs};

use wasmill_guest::udf;

/// 7, without any argument.
#[udf]
pub fn seven() -> i32 {
    7
}

/// Sum; wraps around.
#[udf]
pub fn add(a: i64, b: i64) -> i64 {
    a.wrapping_add(b)
}

/// The value, or −1 for a null: never null itself.
#[udf]
pub fn not_null(x: Option<i64>) -> i64 {
    x.unwrap_or(-1)
}

/// Text n times.
#[udf]
pub fn repeat(x: &str, n: i64) -> String {
    x.repeat(usize::try_from(n).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_functions_answer() {
        assert_eq!(seven(), 7);
        assert_eq!(add(i64::MAX, 1), i64::MIN);
        assert_eq!((not_null(Some(3)), not_null(None)), (3, -1));
        assert_eq!(repeat("ab", 3), "ababab");
        assert_eq!(repeat("ab", -3), "");
    }
}
