//! Dates and times in the forms that people and programs write them.

use crate::elements::{Element, WEEKDAYS, elements, leading_weekday};
use crate::time::{MICROS_PER_DAY, MICROS_PER_MINUTE, time_at};
use crate::tokens::{Token, number, tokens};
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
            _ => Err(format!(
                "{} is no year: it needs 4 digits, or 2",
                shown(digits)
            )),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MICROS_PER_SECOND;

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
