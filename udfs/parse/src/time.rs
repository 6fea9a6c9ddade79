//! The time in a text, and its offset from UTC.

use crate::tokens::{Token, TokenKind, number};

pub const MICROS_PER_SECOND: i64 = 1_000_000;
pub const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
pub const MICROS_PER_DAY: i64 = 24 * 60 * MICROS_PER_MINUTE;

/// Microseconds since midnight, and the minutes that the place is ahead of UTC.
pub type Time = (i64, i64);

/// The time that tokens begin with, if they do, and the tokens after it. `before` is the token before
/// them.
///
/// # Errors
/// When what looks like a time is none.
pub fn time_at<'s, 't>(
    tokens: &'s [Token<'t>],
    before: Option<&Token<'_>>,
) -> Result<Option<(Time, &'s [Token<'t>])>, String> {
    let after_digits = before.is_some_and(|token| matches!(token.kind, TokenKind::Digits(_)));
    let (marked, tokens) = match tokens {
        [first, rest @ ..] if after_digits && first.tight && first.is_word("T") => (true, rest),
        _ => (false, tokens),
    };
    let (mut hour, minute, second, mut rest): (i64, i64, Option<i64>, _) = match tokens {
        [hour, colon, minute, rest @ ..] if colon.kind == TokenKind::Sign(':') => {
            let (hour, minute) = (hour.digits(1..=2)?, minute.digits(2..=2)?);
            match rest {
                [colon, second, rest @ ..] if colon.kind == TokenKind::Sign(':') => (
                    number(hour)?,
                    number(minute)?,
                    Some(number(second.digits(2..=2)?)?),
                    rest,
                ),
                _ => (number(hour)?, number(minute)?, None, rest),
            }
        }
        // The basic format of ISO 8601.
        [first, rest @ ..] if marked => {
            let digits = first.digits(4..=6)?;
            let second = match digits.len() {
                6 => Some(number(&digits[4..])?),
                4 => None,
                _ => return Err(WRONG_TIME.to_owned()),
            };
            (number(&digits[..2])?, number(&digits[2..4])?, second, rest)
        }
        _ if marked => return Err(WRONG_TIME.to_owned()),
        _ => return Ok(None),
    };
    let mut fraction = 0;
    if let (Some(_), [point, digits, after @ ..]) = (second, rest)
        && matches!(point.kind, TokenKind::Sign('.' | ','))
        && let (true, true, TokenKind::Digits(digits)) = (point.tight, digits.tight, digits.kind)
    {
        fraction = micros_of_fraction(digits);
        rest = after;
    }
    if let [half, after @ ..] = rest
        && (half.is_word("AM") || half.is_word("PM"))
    {
        if !(1..=12).contains(&hour) {
            return Err(format!("there is no {hour} o'clock with AM or PM"));
        }
        hour = hour % 12 + if half.is_word("PM") { 12 } else { 0 };
        rest = after;
    }
    let second = second.unwrap_or(0);
    // A leap second is the first of the next minute.
    if hour > 23 || minute > 59 || second > 60 {
        return Err(format!("there is no time {hour}:{minute:02}:{second:02}"));
    }
    let (offset, rest) = offset_at(rest)?;
    let micros = ((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + fraction;
    Ok(Some(((micros, offset), rest)))
}

const WRONG_TIME: &str = "a time is written as 9:30, 09:30:15 or 09:30:15.25";

/// Microseconds of the digits after the decimal point; more than six are cut off.
fn micros_of_fraction(digits: &str) -> i64 {
    let digits = digits.bytes().map(|digit| i64::from(digit - b'0'));
    digits
        .chain(std::iter::repeat(0))
        .take(6)
        .fold(0, |micros, digit| micros * 10 + digit)
}

/// The minutes ahead of UTC that tokens begin with, 0 where they do not, and the tokens after them.
fn offset_at<'s, 't>(tokens: &'s [Token<'t>]) -> Result<(i64, &'s [Token<'t>]), String> {
    let mut rest = tokens;
    if let [
        Token {
            kind: TokenKind::Word(word),
            ..
        },
        after @ ..,
    ] = tokens
        && let Some((name, offset)) = ZONES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(word))
    {
        let more = after
            .first()
            .is_some_and(|sign| sign.tight && sign.sign_of_offset().is_some());
        if !more || *name == "Z" || *offset != 0 {
            return Ok((*offset, after));
        }
        // As in "UTC+02:00".
        rest = after;
    }
    let [sign, digits, after @ ..] = rest else {
        return Ok((0, rest));
    };
    let (Some(factor), true) = (sign.sign_of_offset(), digits.tight) else {
        return Ok((0, rest));
    };
    let digits = digits.digits(1..=4)?;
    let (hours, minutes, after): (i64, i64, _) = match (digits.len(), after) {
        (2, [colon, minutes, after @ ..]) if colon.kind == TokenKind::Sign(':') => {
            (number(digits)?, number(minutes.digits(2..=2)?)?, after)
        }
        (4, _) => (number(&digits[..2])?, number(&digits[2..])?, after),
        (1 | 2, _) => (number(digits)?, 0, after),
        _ => return Err(format!("{digits} is no offset from UTC")),
    };
    if hours > 23 || minutes > 59 {
        return Err(format!(
            "there is no offset of {hours} hours and {minutes} minutes"
        ));
    }
    Ok((factor * (hours * 60 + minutes), after))
}

/// The zones that RFC 5322 names, with their minutes ahead of UTC.
const ZONES: [(&str, i64); 12] = [
    ("Z", 0),
    ("UTC", 0),
    ("GMT", 0),
    ("UT", 0),
    ("EST", -300),
    ("EDT", -240),
    ("CST", -360),
    ("CDT", -300),
    ("MST", -420),
    ("MDT", -360),
    ("PST", -480),
    ("PDT", -420),
];

impl<'t> Token<'t> {
    /// The digits of a part of a time.
    fn digits(&self, len: std::ops::RangeInclusive<usize>) -> Result<&'t str, String> {
        match self.kind {
            TokenKind::Digits(digits) if len.contains(&digits.len()) => Ok(digits),
            _ => Err(WRONG_TIME.to_owned()),
        }
    }

    fn sign_of_offset(&self) -> Option<i64> {
        match self.kind {
            TokenKind::Sign('+') => Some(1),
            TokenKind::Sign('-' | '−') => Some(-1),
            _ => None,
        }
    }
}
