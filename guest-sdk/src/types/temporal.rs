//! Dates, times, timestamps and durations.

use std::marker::PhantomData;

use super::fixed::{Fixed, fixed_type};
use super::{Input, Output};
use crate::manifest::FormatPart;

/// Days since 1970-01-01.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(
    /// Days.
    pub i32,
);
fixed_type!([] Date, &[FormatPart::Text("tdD")], Self(0));

/// Milliseconds since 1970-01-01, a multiple of a day.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date64(
    /// Milliseconds.
    pub i64,
);
fixed_type!([] Date64, &[FormatPart::Text("tdm")], Self(0));

/// What the number in a temporal value counts.
pub trait TimeUnit: Copy + 'static {
    /// The integer of a [`Time`] in this unit.
    type Time: Fixed + for<'a> Input<'a> + Output;
    /// The letter of the unit in format strings.
    const LETTER: &'static str;
}

/// Zone of a [`Timestamp`].
///
/// ```
/// use wasmill_guest::{Microsecond, Timestamp, Zone};
///
/// #[derive(Clone, Copy)]
/// struct Denver;
/// impl Zone for Denver {
///     const NAME: &str = "America/Denver";
/// }
/// type Moment = Timestamp<Microsecond, Denver>;
/// assert_eq!(Moment::new(1).value, 1);
/// ```
pub trait Zone: Copy + 'static {
    /// Name in the time zone database, an offset such as `+05:30`, or empty for none.
    const NAME: &'static str;
}

macro_rules! markers {
    ($trait:ident: $($(#[$doc:meta])* $name:ident { $($item:item)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name;
        impl $trait for $name { $($item)* }
    )*};
}

markers! { TimeUnit:
    /// Seconds.
    Second { type Time = i32; const LETTER: &'static str = "s"; }
    /// Thousandths of a second.
    Millisecond { type Time = i32; const LETTER: &'static str = "m"; }
    /// Millionths of a second.
    Microsecond { type Time = i64; const LETTER: &'static str = "u"; }
    /// Billionths of a second.
    Nanosecond { type Time = i64; const LETTER: &'static str = "n"; }
}

markers! { Zone:
    /// No zone: a time on the wall.
    NoZone { const NAME: &'static str = ""; }
    /// Coordinated universal time.
    Utc { const NAME: &'static str = "UTC"; }
}

/// A moment, counted from 1970-01-01T00:00:00.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp<U, Z = NoZone> {
    /// How many units after the epoch, in UTC when there is a zone.
    pub value: i64,
    kind: PhantomData<(U, Z)>,
}

impl<U, Z> Timestamp<U, Z> {
    /// A moment that many units after the epoch.
    #[must_use]
    pub const fn new(value: i64) -> Self {
        Self {
            value,
            kind: PhantomData,
        }
    }
}

fixed_type!(
    [U: TimeUnit, Z: Zone] Timestamp<U, Z>,
    &[
        FormatPart::Text("ts"),
        FormatPart::Text(U::LETTER),
        FormatPart::Text(":"),
        FormatPart::Text(Z::NAME),
    ],
    Self::new(0)
);

/// A span of time.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration<U> {
    /// How many units.
    pub value: i64,
    kind: PhantomData<U>,
}

impl<U> Duration<U> {
    /// A span of that many units.
    #[must_use]
    pub const fn new(value: i64) -> Self {
        Self {
            value,
            kind: PhantomData,
        }
    }
}

fixed_type!(
    [U: TimeUnit] Duration<U>,
    &[FormatPart::Text("tD"), FormatPart::Text(U::LETTER)],
    Self::new(0)
);

/// A time of day.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time<U: TimeUnit> {
    /// How many units after midnight.
    pub value: U::Time,
}

impl<U: TimeUnit> Time<U> {
    /// The time that many units after midnight.
    #[must_use]
    pub const fn new(value: U::Time) -> Self {
        Self { value }
    }
}

fixed_type!(
    [U: TimeUnit] Time<U>,
    &[FormatPart::Text("tt"), FormatPart::Text(U::LETTER)],
    Self::new(U::Time::ZERO)
);
