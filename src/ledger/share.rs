//! Parts of a CPU or of a device.

use std::fmt;
use std::str::FromStr;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount of CPUs or devices, exact to a thousandth. Written as a decimal number, in text and in
/// serialised form.
///
/// ```
/// use wasmill::Share;
///
/// let half: Share = "0.5".parse()?;
/// assert_eq!(half, Share::thousandths(500));
/// assert_eq!(Share::whole(2).to_string(), "2");
/// # Ok::<(), wasmill::ShareError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Share(u32);

/// Thousandths in one.
const PER_ONE: u32 = 1_000;

impl Share {
    /// Nothing.
    pub const ZERO: Share = Share(0);
    /// One whole CPU or device.
    pub const ONE: Share = Share(PER_ONE);

    /// So many whole ones; more than 4,294,967 are taken for the most that can be expressed.
    pub const fn whole(n: u32) -> Share {
        Share(n.saturating_mul(PER_ONE))
    }

    /// So many thousandths.
    pub const fn thousandths(n: u32) -> Share {
        Share(n)
    }

    /// How many thousandths.
    pub const fn as_thousandths(self) -> u32 {
        self.0
    }

    /// The sum, at most what can be expressed.
    pub(super) const fn plus(self, other: Share) -> Share {
        Share(self.0.saturating_add(other.0))
    }

    /// The difference, at least nothing.
    pub(super) const fn minus(self, other: Share) -> Share {
        Share(self.0.saturating_sub(other.0))
    }

    /// So many times as much, at most what can be expressed.
    pub(super) fn times(self, n: usize) -> Share {
        Share(self.0.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX)))
    }

    /// Whether it is a whole number of ones.
    pub(super) const fn is_whole(self) -> bool {
        self.0.is_multiple_of(PER_ONE)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.checked_div(PER_ONE).unwrap_or(0);
        let part = self.0.checked_rem(PER_ONE).unwrap_or(0);
        if part == 0 {
            return f.pad(&whole.to_string());
        }
        f.pad(format!("{whole}.{part:03}").trim_end_matches('0'))
    }
}

/// A text that is not a [`Share`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// Not digits with at most one point among them.
    #[error("`{text}` is not a decimal number; write for instance 2 or 0.5")]
    NotANumber {
        /// The text.
        text: String,
    },
    /// Finer than a thousandth.
    #[error("`{text}` has more than three decimal places; write for instance 0.333")]
    TooFine {
        /// The text.
        text: String,
    },
    /// More than can be expressed.
    #[error("`{text}` is too large; at most 4294967 can be expressed")]
    TooLarge {
        /// The text.
        text: String,
    },
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Share, ShareError> {
        let owned = || text.to_owned();
        let (whole, places) = match text.split_once('.') {
            Some((whole, places)) => (whole, Some(places)),
            None => (text, None),
        };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !places.is_none_or(digits) {
            return Err(ShareError::NotANumber { text: owned() });
        }
        let places = places.unwrap_or("").trim_end_matches('0');
        if places.len() > 3 {
            return Err(ShareError::TooFine { text: owned() });
        }
        let thousandths = format!("{places:0<3}").parse().unwrap_or(0);
        // Only digits are left, so the one thing that can be wrong is their number.
        whole
            .parse::<u32>()
            .ok()
            .and_then(|n| n.checked_mul(PER_ONE)?.checked_add(thousandths))
            .map(Share)
            .ok_or_else(|| ShareError::TooLarge { text: owned() })
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.checked_div(PER_ONE) {
            Some(whole) if self.is_whole() => serializer.serialize_u32(whole),
            _ => serializer.serialize_f64(f64::from(self.0) / f64::from(PER_ONE)),
        }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        deserializer.deserialize_f64(ShareVisitor)
    }
}

struct ShareVisitor;

impl Visitor<'_> for ShareVisitor {
    type Value = Share;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of at most three decimal places, from 0 to 4294967")
    }

    fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Share, E> {
        u32::try_from(n)
            .ok()
            .and_then(|n| n.checked_mul(PER_ONE))
            .map(Share)
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(n), &self))
    }

    fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<Share, E> {
        match u64::try_from(n) {
            Ok(n) => self.visit_u64(n),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(n), &self)),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<Share, E> {
        // The shortest decimal that gives this number is the one that somebody wrote.
        n.to_string()
            .parse()
            .map_err(|_| E::invalid_value(Unexpected::Float(n), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_written_as_it_is_read() {
        for text in ["0", "2", "0.5", "1.25", "0.001", "4294967.295"] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        assert_eq!("0.500000".parse(), Ok(Share::thousandths(500)));
        assert_eq!("007.10".parse(), Ok(Share::thousandths(7_100)));
    }

    #[test]
    fn a_text_that_is_no_share_is_refused_with_the_reason() {
        let text = |s: &str| s.to_owned();
        for bad in [
            "", ".", ".5", "2.", "-1", "+1", "1e3", "1,5", "NaN", " 1", "1.2.3",
        ] {
            assert_eq!(
                bad.parse::<Share>(),
                Err(ShareError::NotANumber { text: text(bad) })
            );
        }
        let fine = "0.1234";
        assert_eq!(
            fine.parse::<Share>(),
            Err(ShareError::TooFine { text: text(fine) })
        );
        for large in ["4294967.296", "4294968", "99999999999999999999"] {
            assert_eq!(
                large.parse::<Share>(),
                Err(ShareError::TooLarge { text: text(large) })
            );
        }
    }

    #[test]
    fn a_share_is_serialised_as_a_number() {
        for (share, json) in [(Share::thousandths(333), "0.333"), (Share::whole(2), "2")] {
            assert_eq!(serde_json::to_string(&share).unwrap(), json);
            assert_eq!(serde_json::from_str::<Share>(json).unwrap(), share);
        }
        assert_eq!(
            serde_json::from_str::<Share>("2.0").unwrap(),
            Share::whole(2)
        );
        for bad in ["-1", "-0.5", "0.0001", "1e300", "4294968", "\"1\"", "null"] {
            assert!(serde_json::from_str::<Share>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_thousandth_survives_text_and_serialisation() {
        for n in 0..=3_000 {
            let share = Share::thousandths(n);
            assert_eq!(share.to_string().parse(), Ok(share));
            let json = serde_json::to_string(&share).unwrap();
            assert_eq!(serde_json::from_str::<Share>(&json).unwrap(), share);
        }
    }

    #[test]
    fn whole_numbers_beyond_the_range_stop_at_its_end() {
        assert_eq!(Share::whole(u32::MAX), Share::thousandths(u32::MAX));
    }
}
