//! Numbers, times, texts and bytes.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::datatypes::DataType;

use super::{Kind, Maker, cycled};

/// Bytes of a long text.
const LONG_BYTES: usize = 100 << 10;

/// Integers at the ends of all ranges, and small ones.
pub(super) const INTEGERS: [i128; 22] = [
    0,
    1,
    -1,
    i8::MIN as i128,
    i8::MAX as i128,
    u8::MAX as i128,
    i16::MIN as i128,
    i16::MAX as i128,
    u16::MAX as i128,
    i32::MIN as i128,
    i32::MAX as i128,
    u32::MAX as i128,
    i64::MIN as i128,
    i64::MIN as i128 + 1,
    i64::MAX as i128,
    u64::MAX as i128,
    2,
    3,
    5,
    7,
    10,
    100,
];

pub(super) const FLOATS: [f64; 17] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    f64::EPSILON,
    0.1,
    0.5,
    9_007_199_254_740_993.0,
    3.402_823_5e38,
    -1e-10,
];

pub(super) const TEXTS: [&str; 30] = [
    "",
    "a",
    " ",
    "\0",
    "a\0b",
    "é",
    "e\u{301}",
    "漢字",
    "😀",
    "👩‍👩‍👧",
    "\u{202e}abc",
    "\u{feff}x",
    "ß",
    "İ",
    "twelve bytes",
    "thirteen byte",
    "0",
    "-1.5e300",
    "null",
    "2024-02-29T23:59:60Z",
    "{\"a\": [1, null, \"é\"]}",
    "a,\"b\"\r\n\tc",
    "(((([a-z]+)*)+",
    "%zz?&=#/../\\",
    "https://example.org:8080/a/b?q=1&x=%20#f",
    "[1, \"b\", null]",
    "$.a",
    "NFC",
    "2024-02-29",
    "POINT (1 2)",
];

const WORDS: [&str; 16] = [
    "river", "stone", "light", "market", "Paris", "winter", "green", "paper", "naïve", "seven",
    "engine", "cloud", "42", "horse", "2024", "window",
];

pub(super) const BYTES: [&[u8]; 8] = [
    b"",
    b"\0",
    b"\xff\xfe",
    b"text",
    b"\xf0\x9f\x98",
    b"twelve bytes",
    b"thirteen byte",
    b"\x1f\x8b\x08\0\0\0",
];

/// Days since 1970: the first and last of the years 1 and 9999, leap days, the ends of the range.
pub(super) const DAYS: [i64; 11] = [
    0,
    1,
    -1,
    -719_162,
    2_932_896,
    11_016,
    19_782,
    -25_509,
    24_837,
    i32::MIN as i64,
    i32::MAX as i64,
];

pub(super) const SECONDS_A_DAY: i64 = 86_400;

impl Maker {
    pub(super) fn primitive<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        rows: usize,
        kind: Kind,
        extremes: &[T::Native],
        everyday: impl Fn(u64) -> T::Native,
    ) -> ArrayRef {
        let values = (0..rows).map(|row| match kind {
            Kind::Everyday => everyday(self.roll()),
            _ => cycled(extremes, row).copied().unwrap_or_default(),
        });
        let array = PrimitiveArray::<T>::from_iter_values(values);
        Arc::new(array.with_data_type(data_type.clone()))
    }

    pub(super) fn integers<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        rows: usize,
        kind: Kind,
    ) -> ArrayRef
    where
        T::Native: TryFrom<i128>,
    {
        let extremes: Vec<T::Native> = INTEGERS
            .iter()
            .filter_map(|n| T::Native::try_from(*n).ok())
            .collect();
        self.primitive::<T>(data_type, rows, kind, &extremes, |n| {
            // Narrow and unsigned types take the part of the range that they have.
            let n = i128::from(n);
            let wide = T::Native::try_from((n % 2_000).saturating_sub(200));
            wide.or_else(|_| T::Native::try_from(n % 100))
                .unwrap_or_default()
        })
    }

    pub(super) fn integers_among<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        rows: usize,
        kind: Kind,
        extremes: &[i64],
        everyday: impl Fn(u64) -> i64,
    ) -> ArrayRef
    where
        T::Native: TryFrom<i64>,
    {
        let extremes: Vec<T::Native> = extremes
            .iter()
            .filter_map(|n| T::Native::try_from(*n).ok())
            .collect();
        self.primitive::<T>(data_type, rows, kind, &extremes, |n| {
            T::Native::try_from(everyday(n)).unwrap_or_default()
        })
    }

    /// Times of day.
    pub(super) fn times<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        rows: usize,
        kind: Kind,
        per_second: i64,
    ) -> ArrayRef
    where
        T::Native: TryFrom<i64>,
    {
        let day = SECONDS_A_DAY.saturating_mul(per_second);
        let extremes = [0, 1, day / 2, day.saturating_sub(1)];
        self.integers_among::<T>(data_type, rows, kind, &extremes, |n| {
            ((n % 86_400) as i64).saturating_mul(per_second)
        })
    }

    /// Timestamps.
    pub(super) fn instants<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        rows: usize,
        kind: Kind,
        per_second: i64,
    ) -> ArrayRef
    where
        T::Native: TryFrom<i64>,
    {
        let day = SECONDS_A_DAY.saturating_mul(per_second);
        let mut extremes = scaled(&DAYS, day);
        extremes.extend([1, -1, day.saturating_sub(1), i64::MIN, i64::MAX]);
        self.integers_among::<T>(data_type, rows, kind, &extremes, |n| {
            1_600_000_000_i64
                .saturating_add((n % 100_000_000) as i64)
                .saturating_mul(per_second)
        })
    }

    pub(super) fn decimals<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        rows: usize,
        kind: Kind,
        digits: u8,
    ) -> ArrayRef
    where
        T::Native: TryFrom<i128>,
    {
        let most = 10_i128
            .checked_pow(u32::from(digits))
            .unwrap_or(i128::MAX)
            .saturating_sub(1);
        let extremes: Vec<T::Native> = [0, 1, -1, most, most.saturating_neg(), most / 10]
            .iter()
            .filter_map(|n| T::Native::try_from(*n).ok())
            .collect();
        self.primitive::<T>(data_type, rows, kind, &extremes, |n| {
            T::Native::try_from(i128::from(n % 100_000).min(most)).unwrap_or_default()
        })
    }

    pub(super) fn text(&mut self, row: usize, kind: Kind) -> String {
        match (kind, row % 4) {
            (Kind::Everyday, _) => {
                let words: Vec<&str> = (0..self.below(6).saturating_add(1))
                    .filter_map(|_| cycled(&WORDS, self.below(WORDS.len())).copied())
                    .collect();
                words.join(" ")
            }
            (Kind::Extreme, _) => cycled(&TEXTS, row).copied().unwrap_or_default().to_owned(),
            (Kind::Long, 0) => "long text, ".repeat(LONG_BYTES.div_ceil(11)),
            (Kind::Long, 1) => String::new(),
            (Kind::Long, 2) => "é漢😀".repeat(LONG_BYTES / 9),
            (Kind::Long, _) => "a".repeat(LONG_BYTES),
        }
    }

    pub(super) fn bytes(&mut self, row: usize, kind: Kind) -> Vec<u8> {
        match (kind, row % 3) {
            (Kind::Everyday, _) => (0..self.below(24)).map(|_| self.roll() as u8).collect(),
            (Kind::Extreme, _) => cycled(&BYTES, row).copied().unwrap_or_default().to_vec(),
            (Kind::Long, 0) => (0..LONG_BYTES).map(|i| i as u8).collect(),
            (Kind::Long, 1) => Vec::new(),
            (Kind::Long, _) => vec![0; LONG_BYTES],
        }
    }
}

pub(super) fn scaled(list: &[i64], factor: i64) -> Vec<i64> {
    // What lies beyond the range is left out, so that dates stay whole days.
    list.iter().filter_map(|n| n.checked_mul(factor)).collect()
}
