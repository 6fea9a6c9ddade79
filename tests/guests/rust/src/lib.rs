//! The functions that `tests/core/languages.rs` runs in every language, in Rust.

use wasmill_guest::{AnyColumn, InitArgs, RowError, SameAs, StrWriter, log, udf};

/// Greatest common divisor: never negative, unless it does not fit.
#[udf]
pub fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}

/// Integer division, towards zero. Fails the row for a divisor of 0 and for overflow.
#[udf]
pub fn div(a: i64, b: i64) -> Result<i64, RowError> {
    if b == 0 {
        return Err(RowError::new(1, "division by zero"));
    }
    a.checked_div(b).ok_or(RowError::new(2, "overflow"))
}

/// Text with the letters a to z in upper case.
#[udf]
pub fn upper(text: &str, out: &mut StrWriter) {
    if !out.push_ascii(text, |byte| byte.to_ascii_uppercase()) {
        text.chars()
            .for_each(|character| out.push(character.to_ascii_uppercase()));
    }
}

/// Number of characters (Unicode scalar values) of a text.
#[udf]
pub fn char_length(text: &str) -> i64 {
    text.chars().count() as i64
}

/// The argument, unchanged.
#[udf(batch)]
pub fn identity(x: AnyColumn<'_>) -> SameAs<'_, 0> {
    x.into()
}

/// x, but panics at 3.
#[udf]
pub fn boom(x: i64) -> i64 {
    assert!(x != 3, "boom at {x}");
    x
}

/// A straight line.
#[derive(InitArgs)]
pub struct AffineArgs {
    /// What to multiply by.
    pub scale: i64,
    /// What to add.
    #[init(default = 0)]
    pub offset: i64,
}

/// Multiplies and adds.
pub struct Affine(AffineArgs);

#[udf]
impl Affine {
    /// Logs that it begins.
    pub fn init(args: AffineArgs) -> Self {
        log::info("affine begins");
        Self(args)
    }

    /// x * scale + offset; wraps around.
    pub fn apply(&self, x: i64) -> i64 {
        x.wrapping_mul(self.0.scale).wrapping_add(self.0.offset)
    }

    /// Logs that it ends.
    pub fn close(self) {
        log::info("affine ends");
    }
}

/// Adds up.
pub struct RunningSum(i64);

#[udf]
impl RunningSum {
    /// Begins at 0.
    pub fn init() -> Self {
        Self(0)
    }

    /// Sum of this value and all before it; wraps around. A null gives null and adds nothing.
    pub fn running_sum(&mut self, x: Option<i64>) -> Option<i64> {
        self.0 = self.0.wrapping_add(x?);
        Some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_functions_answer() {
        assert_eq!(gcd(12, -18), 6);
        assert_eq!(gcd(i64::MIN, -1), 1);
        assert_eq!(div(7, -2), Ok(-3));
        assert_eq!(div(7, 0).map_err(|error| error.code), Err(1));
        assert_eq!(div(i64::MIN, -1).map_err(|error| error.code), Err(2));
        assert_eq!(char_length("naïve 🦀"), 7);
        assert_eq!(boom(2), 2);
    }

    #[test]
    fn only_ascii_letters_change() {
        let mut out = StrWriter::default();
        upper("naïve z{a` 🦀", &mut out);
        assert_eq!(out.as_str(), "NAïVE Z{A` 🦀");
    }

    #[test]
    fn states_work() {
        let affine = Affine::init(AffineArgs {
            scale: 3,
            offset: 4,
        });
        assert_eq!(affine.apply(5), 19);
        affine.close();
        let mut sum = RunningSum::init();
        assert_eq!(
            [Some(1), None, Some(2)].map(|x| sum.running_sum(x)),
            [Some(1), None, Some(3)]
        );
    }
}
