//! Everyday row functions over numbers and text.

use std::ops::{Add, Rem};

use wasmill_guest::{RowError, StrWriter, udf};

/// What the overloads of [`gcd`] need of an integer.
pub trait Integer: Copy {
    /// The magnitude's type: unsigned division has no overflow to look out for.
    type Magnitude: Copy + Default + PartialEq + Rem<Output = Self::Magnitude>;
    /// The magnitude.
    #[must_use]
    fn magnitude(self) -> Self::Magnitude;
    /// The integer of this magnitude; the least of the type where it does not fit.
    #[must_use]
    fn from_magnitude(magnitude: Self::Magnitude) -> Self;
}

macro_rules! integers {
    ($($type:ty => $magnitude:ty),*) => {$(
        impl Integer for $type {
            type Magnitude = $magnitude;

            fn magnitude(self) -> $magnitude {
                self.unsigned_abs()
            }

            fn from_magnitude(magnitude: $magnitude) -> Self {
                magnitude as $type
            }
        }
    )*};
}
integers!(i32 => u32, i64 => u64);

/// Greatest common divisor: never negative, except that of the least value and itself or 0, which does
/// not fit its type.
#[udf(types(i32, i64))]
pub fn gcd<T: Integer>(a: T, b: T) -> T {
    let zero = T::Magnitude::default();
    let (mut a, mut b) = (a.magnitude(), b.magnitude());
    // Two steps of Euclid's a turn, since every turn costs a check of the host.
    while b != zero {
        a = a % b;
        if a == zero {
            return T::from_magnitude(b);
        }
        b = b % a;
    }
    T::from_magnitude(a)
}

/// What the overloads of [`add`] need of a number.
pub trait Number: Copy {
    /// The sum; integers wrap around.
    #[must_use]
    fn sum(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($type:ty => $sum:expr),*) => {$(
        impl Number for $type {
            fn sum(self, other: Self) -> Self {
                $sum(self, other)
            }
        }
    )*};
}
numbers!(i32 => i32::wrapping_add, i64 => i64::wrapping_add, f64 => f64::add);

/// Sum. Integers wrap around.
#[udf(types(i32, i64, f64), total)]
pub fn add<T: Number>(a: T, b: T) -> T {
    a.sum(b)
}

/// Mean radius of the Earth in kilometres.
const EARTH_RADIUS_KM: f64 = 6371.0088;

/// Great-circle distance in kilometres between two places given in degrees (haversine formula on a
/// sphere of 6371.0088 km).
#[udf]
pub fn haversine(lat1: f64, lon1: f64, lat2: f64, lon2: f64) -> f64 {
    let half_lat = ((lat2 - lat1).to_radians() / 2.0).sin();
    let half_lon = ((lon2 - lon1).to_radians() / 2.0).sin();
    let across = lat1.to_radians().cos() * lat2.to_radians().cos() * half_lon * half_lon;
    let chord = (half_lat * half_lat + across).clamp(0.0, 1.0);
    2.0 * EARTH_RADIUS_KM * chord.sqrt().asin()
}

/// Number of characters (Unicode scalar values) of a text.
#[udf]
pub fn char_length(text: &str) -> i32 {
    // All bytes but those that continue a character.
    let bytes = text.as_bytes();
    let (steps, rest) = bytes.as_chunks::<8>();
    let mut continuing: u32 = steps.iter().map(|step| continuing_bytes(*step)).sum();
    if let Some(last) = bytes.last_chunk::<8>() {
        // The last 8 bytes without those that were counted.
        let counted = 8 * (8 - rest.len() as u32);
        let last = u64::from_le_bytes(*last).checked_shr(counted).unwrap_or(0);
        continuing += continuing_bytes(last.to_le_bytes());
    } else {
        continuing += rest
            .iter()
            .map(|byte| u32::from(*byte & 0xc0 == 0x80))
            .sum::<u32>();
    }
    bytes.len() as i32 - continuing as i32
}

/// How many of the bytes are of the form 10xxxxxx, which goes on with a character.
fn continuing_bytes(bytes: [u8; 8]) -> u32 {
    const TOP_BITS: u64 = 0x8080_8080_8080_8080;
    let bytes = u64::from_le_bytes(bytes);
    (bytes & !(bytes << 1) & TOP_BITS).count_ones()
}

/// Text in upper case, by the rules of Unicode that need no language.
#[udf]
pub fn upper(text: &str, out: &mut StrWriter) {
    if !out.push_ascii(text, |byte| byte.to_ascii_uppercase()) {
        text.chars()
            .flat_map(char::to_uppercase)
            .for_each(|character| out.push(character));
    }
}

/// x, but at least `low` and at most `high`. Fails the row when `low` is above `high`. A limit that is
/// NaN does not limit, and the NaN of x becomes `low`, or else `high`.
#[udf]
pub fn clamp(x: f64, low: f64, high: f64) -> Result<f64, RowError> {
    if low > high {
        return Err(RowError::new(2, "the lower limit is above the upper one"));
    }
    Ok(x.max(low).min(high))
}

/// Speed in kilometres per minute; null when a part is missing or no time has passed.
#[udf]
pub fn km_per_minute(metres: Option<i64>, minutes: Option<i64>) -> Option<f64> {
    let (metres, minutes) = (metres?, minutes?);
    (minutes > 0).then(|| metres as f64 / 1000.0 / minutes as f64)
}

/// Integer division, towards zero. Fails the row for a divisor of 0 and for overflow.
#[udf]
pub fn div(a: i64, b: i64) -> Result<i64, RowError> {
    if b == 0 {
        return Err(RowError::new(1, "division by zero"));
    }
    a.checked_div(b).ok_or(RowError::new(2, "overflow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gcd_divides_both_and_takes_any_sign() {
        assert_eq!(gcd(12_i64, 18), 6);
        assert_eq!(gcd(-12_i32, 18), 6);
        assert_eq!(gcd(0_i32, 0), 0);
        assert_eq!(gcd(7_i64, 0), 7);
    }

    #[test]
    fn gcd_of_the_least_value_does_not_trap() {
        assert_eq!(gcd(i64::MIN, -1), 1);
        assert_eq!(gcd(i32::MIN, 0), i32::MIN);
    }

    #[test]
    fn add_wraps_around() {
        assert_eq!(add(i32::MAX, 1), i32::MIN);
        assert_eq!(add(1.5, 2.0), 3.5);
    }

    #[test]
    fn haversine_knows_paris_and_london() {
        let km = haversine(48.8566, 2.3522, 51.5074, -0.1278);
        assert!((km - 343.6).abs() < 0.5, "{km}");
        assert_eq!(haversine(10.0, 20.0, 10.0, 20.0), 0.0);
        let half_way_round = haversine(0.0, 0.0, 0.0, 180.0);
        assert!((half_way_round - std::f64::consts::PI * EARTH_RADIUS_KM).abs() < 1e-6);
    }

    #[test]
    fn characters_are_not_bytes() {
        assert_eq!(char_length(""), 0);
        assert_eq!(char_length("naïve 🦀"), 7);
        for text in [
            "é",
            "日本語",
            "a🦀b",
            "naïve café 日本語 🦀🦀 and more",
            "12345678",
            "1234567é",
        ] {
            assert_eq!(char_length(text) as usize, text.chars().count(), "{text}");
        }
    }

    #[test]
    fn upper_case_may_be_longer() {
        let upper_of = |text| {
            let mut out = StrWriter::default();
            upper(text, &mut out);
            out.as_str().to_owned()
        };
        assert_eq!(upper_of("wasm 1"), "WASM 1");
        assert_eq!(upper_of("straße ŉ"), "STRASSE ʼN");
        assert_eq!(upper_of(""), "");
    }

    #[test]
    fn clamp_refuses_crossed_limits() {
        assert_eq!(clamp(5.0, 0.0, 1.0), Ok(1.0));
        let nan = f64::NAN;
        assert_eq!(clamp(5.0, nan, 1.0), Ok(1.0));
        assert_eq!(clamp(5.0, 0.0, nan), Ok(5.0));
        assert_eq!(clamp(nan, 0.0, 1.0), Ok(0.0));
        assert_eq!(clamp(nan, nan, 1.0), Ok(1.0));
        assert_eq!(clamp(5.0, 1.0, 0.0).map_err(|error| error.code), Err(2));
    }

    #[test]
    fn speed_needs_both_parts() {
        assert_eq!(km_per_minute(Some(3000), Some(2)), Some(1.5));
        assert_eq!(km_per_minute(None, Some(2)), None);
        assert_eq!(km_per_minute(Some(3000), Some(0)), None);
    }

    #[test]
    fn division_fails_by_row() {
        assert_eq!(div(7, -2), Ok(-3));
        assert_eq!(
            div(7, 0).map_err(|error| error.message),
            Err("division by zero".into())
        );
        assert_eq!(div(i64::MIN, -1).map_err(|error| error.code), Err(2));
    }
}
