//! The parts of a date, whatever their order.

use crate::shown;
use crate::tokens::{Token, TokenKind, number};

/// The days of the week, in the order of their numbers.
pub const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The place of a name of which a word is at least the first three letters.
fn named(names: &[&str], word: &str) -> Option<usize> {
    let starts = |name: &&str| {
        let start = name.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    names.iter().position(starts).filter(|_| word.len() >= 3)
}

/// A part of a date.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element<'t> {
    Number(&'t str),
    Month(u32),
}

impl Element<'_> {
    /// The month that the part stands for.
    pub fn month(self) -> Result<u32, String> {
        match self {
            Self::Month(month) => Ok(month),
            Self::Number(digits) => one_or_two(digits, "month"),
        }
    }

    /// The day that the part stands for.
    pub fn day(self) -> Result<u32, String> {
        match self {
            Self::Number(digits) => one_or_two(digits, "day"),
            Self::Month(_) => Err("it has two months".to_owned()),
        }
    }
}

fn one_or_two(digits: &str, what: &str) -> Result<u32, String> {
    if digits.len() > 2 {
        return Err(format!("{} is no {what}", shown(digits)));
    }
    number(digits)
}

/// The day of the week at the start, 0 for Monday, and the tokens after it.
pub fn leading_weekday<'s, 't>(tokens: &'s [Token<'t>]) -> (Option<usize>, &'s [Token<'t>]) {
    let [first, rest @ ..] = tokens else {
        return (None, tokens);
    };
    let TokenKind::Word(word) = first.kind else {
        return (None, tokens);
    };
    match (named(&WEEKDAYS, word), rest) {
        (None, _) => (None, tokens),
        (weekday, [sign, rest @ ..]) if matches!(sign.kind, TokenKind::Sign(',' | '.')) => {
            (weekday, rest)
        }
        (weekday, rest) => (weekday, rest),
    }
}

/// The parts of a date, and the sign between each two of them, which may be missing.
pub type Elements<'t> = (Vec<Element<'t>>, Vec<Option<char>>);

/// Puts the parts together.
///
/// # Errors
/// Says which token has no place in a date.
pub fn elements<'t>(tokens: &[Token<'t>]) -> Result<Elements<'t>, String> {
    let (mut elements, mut separators) = (Vec::new(), Vec::new());
    let mut separator = None;
    let mut after_digits = false;
    for token in tokens {
        let element = match token.kind {
            TokenKind::Digits(digits) => Element::Number(digits),
            TokenKind::Word(word) => match named(&MONTHS, word) {
                Some(month) => Element::Month(month as u32 + 1),
                None if after_digits && token.tight && is_ordinal(word) => {
                    after_digits = false;
                    continue;
                }
                None if word.eq_ignore_ascii_case("of") => continue,
                None => return Err(format!("\"{}\" is no month", shown(word))),
            },
            TokenKind::Sign(sign) => {
                separator = match (separator, sign) {
                    (None, '-' | '/' | '.' | ',') if !elements.is_empty() => Some(sign),
                    // As in "7 Jan., 1998".
                    (Some('.'), ',') => Some(sign),
                    _ => return Err(format!("there is a \"{sign}\" too many")),
                };
                after_digits = false;
                continue;
            }
        };
        if !elements.is_empty() {
            separators.push(separator.take());
        }
        after_digits = matches!(element, Element::Number(_));
        elements.push(element);
    }
    match separator {
        // As in "7 Jan 1998, 12:00".
        None | Some(',') => Ok((elements, separators)),
        Some(sign) => Err(format!("there is a \"{sign}\" too many")),
    }
}

fn is_ordinal(word: &str) -> bool {
    ["st", "nd", "rd", "th"]
        .iter()
        .any(|ending| ending.eq_ignore_ascii_case(word))
}
