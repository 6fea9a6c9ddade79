//! Exact decimal numbers of up to 38 digits.

use super::fixed::fixed_type;
use crate::manifest::FormatPart;

/// A decimal number with `PRECISION` digits, of which `SCALE` stand behind the point: the value is
/// the integer inside divided by 10 to the power of `SCALE`.
///
/// ```
/// use wasmill_guest::Decimal;
///
/// let price = Decimal::<10, 2>(1999);
/// assert_eq!(price.0, 1999); // 19.99
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal<const PRECISION: u8, const SCALE: i8>(
    /// The digits as one integer.
    pub i128,
);

impl<const P: u8, const S: i8> Decimal<P, S> {
    /// The number, unless it has more than `PRECISION` digits.
    #[must_use]
    pub const fn checked(digits: i128) -> Option<Self> {
        if digits.unsigned_abs() < 10_u128.pow(P as u32) {
            Some(Self(digits))
        } else {
            None
        }
    }

    const FORMAT: &'static [FormatPart] = {
        assert!(P >= 1 && P <= 38, "a decimal has 1 to 38 digits");
        &[
            FormatPart::Text("d:"),
            FormatPart::Number(P as i64),
            FormatPart::Text(","),
            FormatPart::Number(S as i64),
        ]
    };
}

fixed_type!([const P: u8, const S: i8] Decimal<P, S>, Self::FORMAT, Self(0));
