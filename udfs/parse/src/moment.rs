//! Dates and times in the forms that people and programs write them.

use crate::{calendar, shown};

/// The order of a date in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NumericOrder {
    DayMonthYear,
    MonthDayYear,
    YearMonthDay,
}

/// How to read what a text leaves open.
#[derive(Clone, Copy)]
pub struct Reading {
    /// The order of dates such as 07/01/98; without it they are refused.
    pub order: Option<NumericOrder>,
    /// The first of the hundred years that two digits can stand for.
    pub two_digit_years_from: i32,
}

/// A moment as it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Days since 1970-01-01, where it was written.
    pub days: i32,
    /// Microseconds since midnight, where it was written.
    pub micros: i64,
    /// How many minutes that place is ahead of UTC.
    pub offset: i64,
}

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
const MICROS_PER_DAY: i64 = 24 * 60 * MICROS_PER_MINUTE;

impl Moment {
    /// Microseconds since 1970-01-01T00:00:00 in UTC.
    pub fn utc_micros(self) -> i64 {
        i64::from(self.days) * MICROS_PER_DAY + self.micros - self.offset * MICROS_PER_MINUTE
    }
}

impl Reading {
    /// Reads a date, with or without a time.
    ///
    /// # Errors
    /// Says what is wrong or missing.
    pub fn read(self, text: &str) -> Result<Moment, String> {
        let tokens = tokens(text)?;
        let mut rest = tokens.as_slice();
        let mut date = Vec::new();
        let mut time = None;
        while let [token, after @ ..] = rest {
            if time.is_none()
                && let Some((found, after)) = time_at(rest, date.last())?
            {
                time = Some(found);
                rest = after;
            } else {
                date.push(*token);
                rest = after;
            }
        }
        let days = self.date(&date)?;
        let (micros, offset) = time.unwrap_or_default();
        Ok(Moment {
            days,
            micros,
            offset,
        })
    }

    fn date(self, tokens: &[Token<'_>]) -> Result<i32, String> {
        let (weekday, tokens) = leading_weekday(tokens);
        let (elements, separators) = elements(tokens)?;
        let [year, month, day] = match elements.as_slice() {
            [Element::Number(digits)] if digits.len() == 8 => {
                [&digits[..4], &digits[4..6], &digits[6..]].map(Element::Number)
            }
            [Element::Number(year), Element::Number(day)] if year.len() == 4 && day.len() == 3 => {
                return checked_weekday(day_of_year(number(year)?, number(day)?)?, weekday);
            }
            [month @ Element::Month(_), day, year] => [*year, *month, *day],
            [first, month @ Element::Month(_), last] => match first {
                Element::Number(digits) if digits.len() > 2 => [*first, *month, *last],
                _ => [*last, *month, *first],
            },
            [Element::Number(a), Element::Number(b), Element::Number(c)] => {
                if separators.first() != separators.get(1) {
                    return Err("its numbers have different separators".to_owned());
                }
                let order = if a.len() == 4 {
                    NumericOrder::YearMonthDay
                } else {
                    self.order.ok_or(
                        "only `read_date` and `read_timestamp` read such numbers: their `order` \
                         says which is the day and which the month",
                    )?
                };
                match order {
                    NumericOrder::DayMonthYear => [c, b, a],
                    NumericOrder::MonthDayYear => [c, a, b],
                    NumericOrder::YearMonthDay => [a, b, c],
                }
                .map(|digits| Element::Number(digits))
            }
            [] => return Err("there is no date in it".to_owned()),
            _ => return Err("a date has a year, a month and a day".to_owned()),
        };
        let days = calendar::days(self.year(year)?, month.month()?, day.day()?)?;
        checked_weekday(days, weekday)
    }

    fn year(self, year: Element<'_>) -> Result<i32, String> {
        let Element::Number(digits) = year else {
            return Err("a month stands where the year should".to_owned());
        };
        let year: i32 = number(digits)?;
        match digits.len() {
            4 => Ok(year),
            2 => {
                let from = self.two_digit_years_from;
                Ok(from + (year - from).rem_euclid(100))
            }
            _ => Err(format!("{digits} is no year: it needs 4 digits, or 2")),
        }
    }
}

fn day_of_year(year: i32, day: i32) -> Result<i32, String> {
    let first = calendar::days(year, 1, 1)?;
    let last = calendar::days(year, 12, 31)?;
    let found = first + day - 1;
    if (first..=last).contains(&found) {
        Ok(found)
    } else {
        Err(format!("{year} has no day {day}"))
    }
}

fn checked_weekday(days: i32, named: Option<usize>) -> Result<i32, String> {
    let weekday = calendar::weekday(days);
    match named {
        Some(named) if named != weekday => Err(format!(
            "that day is a {}, not a {}",
            WEEKDAYS[weekday], WEEKDAYS[named]
        )),
        _ => Ok(days),
    }
}

const WEEKDAYS: [&str; 7] = [
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

/// A piece of a text, without the blanks around it.
#[derive(Clone, Copy, Debug)]
struct Token<'t> {
    kind: TokenKind<'t>,
    /// Whether it follows the token before without a blank.
    tight: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TokenKind<'t> {
    Digits(&'t str),
    Word(&'t str),
    Sign(char),
}

/// More tokens than any date has.
const MOST_TOKENS: usize = 40;

/// Cuts a text into tokens; a remark in parentheses at its end, as in e-mail, is left out.
fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut rest = text.trim_end();
    if let Some((before, _)) = rest
        .strip_suffix(')')
        .and_then(|inside| inside.rsplit_once('('))
    {
        rest = before;
    }
    let mut tokens = Vec::new();
    loop {
        let next = rest.trim_start();
        let tight = next.len() == rest.len();
        let Some(first) = next.chars().next() else {
            return Ok(tokens);
        };
        if tokens.len() == MOST_TOKENS {
            return Err("it is too long".to_owned());
        }
        let run = |wanted: fn(char) -> bool| {
            next.split_at(next.find(|other| !wanted(other)).unwrap_or(next.len()))
        };
        let (kind, after) = if first.is_ascii_digit() {
            let (digits, after) = run(|character| character.is_ascii_digit());
            (TokenKind::Digits(digits), after)
        } else if first.is_alphabetic() {
            let (word, after) = run(char::is_alphabetic);
            (TokenKind::Word(word), after)
        } else {
            (TokenKind::Sign(first), &next[first.len_utf8()..])
        };
        tokens.push(Token { kind, tight });
        rest = after;
    }
}

/// A part of a date.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Element<'t> {
    Number(&'t str),
    Month(u32),
}

impl Element<'_> {
    fn month(self) -> Result<u32, String> {
        match self {
            Self::Month(month) => Ok(month),
            Self::Number(digits) => one_or_two(digits, "month"),
        }
    }

    fn day(self) -> Result<u32, String> {
        match self {
            Self::Number(digits) => one_or_two(digits, "day"),
            Self::Month(_) => Err("it has two months".to_owned()),
        }
    }
}

fn one_or_two(digits: &str, what: &str) -> Result<u32, String> {
    if digits.len() > 2 {
        return Err(format!("{digits} is no {what}"));
    }
    number(digits)
}

fn number<T: std::str::FromStr>(digits: &str) -> Result<T, String> {
    digits
        .parse()
        .map_err(|_| format!("{digits} is too large a number"))
}

/// The day of the week at the start, 0 for Monday, and the tokens after it.
fn leading_weekday<'s, 't>(tokens: &'s [Token<'t>]) -> (Option<usize>, &'s [Token<'t>]) {
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
type Elements<'t> = (Vec<Element<'t>>, Vec<Option<char>>);

fn elements<'t>(tokens: &[Token<'t>]) -> Result<Elements<'t>, String> {
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

/// Microseconds since midnight, and the minutes that the place is ahead of UTC.
type Time = (i64, i64);

/// The time that tokens begin with, if they do, and the tokens after it. `before` is the token before
/// them.
fn time_at<'s, 't>(
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
    fn is_word(&self, wanted: &str) -> bool {
        matches!(self.kind, TokenKind::Word(word) if word.eq_ignore_ascii_case(wanted))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Reading = Reading {
        order: None,
        two_digit_years_from: 1969,
    };

    fn ordered(order: NumericOrder) -> Reading {
        Reading {
            order: Some(order),
            ..PLAIN
        }
    }

    /// 1998-01-07, a Wednesday.
    const DAY: i32 = 10_233;

    #[test]
    fn one_day_has_many_forms() {
        for text in [
            "1998-01-07",
            "19980107",
            "1998/1/7",
            "1998.01.07",
            "1998-007",
            "Jan 7 1998",
            "January 7, 1998",
            "JAN. 7, 1998",
            "Jan 7th, 1998",
            "7 January 1998",
            "7. Jan. 1998",
            "7-Jan-98",
            "07jan1998",
            "7th of January 1998",
            "1998 Jan 07",
            "1998-Jan-07",
            "Wed, 7 Jan 1998",
            "Wednesday 7 January 1998",
            "  Wed. Jan 7 1998  ",
        ] {
            let read = PLAIN.read(text);
            assert_eq!(
                read.map(|moment| (moment.days, moment.micros)),
                Ok((DAY, 0)),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_need_an_order() {
        let days = |order, text| ordered(order).read(text).map(|moment| moment.days);
        for text in [
            "07/01/98",
            "7.1.1998",
            "07-01-1998",
            "1998-01-07",
            "Jan 7 98",
        ] {
            assert_eq!(days(NumericOrder::DayMonthYear, text), Ok(DAY), "{text}");
        }
        assert_eq!(days(NumericOrder::MonthDayYear, "01/07/98"), Ok(DAY));
        assert_eq!(days(NumericOrder::YearMonthDay, "98/01/07"), Ok(DAY));
        for text in ["07/01/98", "25/12/1998"] {
            let said = PLAIN.read(text).expect_err(text);
            assert!(said.contains("`order`"), "{said}");
        }
        assert!(
            days(NumericOrder::MonthDayYear, "25/12/1998")
                .is_err_and(|said| said.contains("month 25"))
        );
    }

    #[test]
    fn two_digits_stand_for_a_year_of_a_hundred() {
        let year = |from, text: &str| {
            let reading = Reading {
                two_digit_years_from: from,
                ..PLAIN
            };
            let days = reading.read(text).expect(text).days;
            1970 + (f64::from(days) / 365.2425).floor() as i32
        };
        assert_eq!(year(1969, "1 Jul 69"), 1969);
        assert_eq!(year(1969, "1 Jul 68"), 2068);
        assert_eq!(year(1900, "1 Jul 99"), 1999);
        assert_eq!(year(1950, "1 Jul 00"), 2000);
        assert_eq!(year(1950, "1 Jul 0068"), 68);
    }

    #[test]
    fn one_moment_has_many_forms() {
        let wanted = i64::from(DAY) * MICROS_PER_DAY + 45_296 * MICROS_PER_SECOND;
        for text in [
            "1998-01-07T12:34:56Z",
            "1998-01-07 12:34:56",
            "1998-01-07t12:34:56.000000999z",
            "1998-01-07 13:34:56+01",
            "1998-01-07T04:34:56-08:00",
            "1998-01-07T04:34:56 −0800",
            "19980107T123456Z",
            "19980107T183456+0600",
            "1998-007T12:34:56Z",
            "Wed, 07 Jan 1998 12:34:56 GMT",
            "Wed, 7 Jan 98 04:34:56 -0800 (PST)",
            "7 Jan 1998 04:34:56 PST",
            "Wed Jan  7 12:34:56 1998",
            "Wed Jan  7 12:34:56 UTC 1998",
            "January 7, 1998, 12:34:56 PM",
            "12:34:56 7 January 1998",
            "7 Jan 1998 2:34:56 pm UTC+2",
            "Tue Jan 6 1998 23:34:56 GMT-1300",
        ] {
            let read = PLAIN.read(text).map(|moment| moment.utc_micros());
            assert_eq!(read, Ok(wanted), "{text}");
        }
        let micros = |text: &str| PLAIN.read(text).map(|moment| moment.micros);
        assert_eq!(micros("1998-01-07 00:00:00.5"), Ok(500_000));
        assert_eq!(micros("1998-01-07 12:00 AM"), Ok(0));
        assert_eq!(micros("1998-01-07 0:01"), Ok(MICROS_PER_MINUTE));
        assert_eq!(micros("1998-12-31T23:59:60Z"), Ok(MICROS_PER_DAY));
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            " ",
            "12:00",
            "Jan 1998",
            "1998",
            "199801",
            "Jan Feb 1998",
            "Thu, 7 Jan 1998",
            "32 Jan 1998",
            "Feb 29 1900",
            "7 Janvier 1998",
            "7 Ja 1998",
            "-1998-01-07",
            "1998--01-07",
            "1998-01/07",
            "1998-01-07-",
            "1998-01-07T",
            "1998-01-07T12",
            "1998-01-07T12:3",
            "1998-01-07T24:00:00",
            "1998-01-07T12:60",
            "1998-01-07 13:00 PM",
            "1998-01-07 0:30 AM",
            "1998-01-07T12:00:00+24:00",
            "1998-01-07T12:00:00+123",
            "1998-01-07T12:00:00Zulu",
            "1998-01-07 12:00 13:00",
            "19980107T12345",
            "1998-366",
            "7 Jan 998",
            "7 Jan 12345",
            "99999999999999999999 Jan 1998",
            "Jan 7 99999999999999999999",
            "7\u{663} Jan 1998",
            "日 Jan 1998",
            ")",
            "(1998-01-07)",
        ] {
            assert!(PLAIN.read(text).is_err(), "{text} {:?}", PLAIN.read(text));
        }
    }

    #[test]
    fn no_mixture_of_parts_does_harm() {
        let parts = [
            "1998",
            "07",
            "1",
            "12345678",
            "Jan",
            "Wed",
            "T",
            "Z",
            "UTC",
            "pm",
            "th",
            "of",
            ":",
            "-",
            "/",
            ".",
            ",",
            "+",
            " ",
            "−",
            "é",
            "(",
            ")",
            "00",
            "999999999999999999999999",
        ];
        let mut random = 99_u64;
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..=random % 13 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                text.push_str(parts[(random >> 33) as usize % parts.len()]);
            }
            random = random.wrapping_add(random >> 17);
            let read = ordered(NumericOrder::DayMonthYear).read(&text);
            assert!(
                read.is_err()
                    || read.is_ok_and(|moment| moment.micros <= MICROS_PER_DAY + MICROS_PER_SECOND)
            );
        }
    }
}
