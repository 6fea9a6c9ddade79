//! Values out of text: the parts of URLs and user agents, dates and times.
//!
//! Dates are read in the forms of ISO 8601 (`1998-01-07`, `19980107`, `1998-007`), of e-mail
//! (`Wed, 7 Jan 1998`), and of people (`Jan 7 1998`, `7th of January 98`); names of months and days are
//! English, whole or short, in any case. Dates in numbers such as `07/01/98` are read by a state that is
//! told their order. Times may have seconds, fractions, AM or PM, and an offset from UTC or one of the
//! zones that e-mail knows; week dates and durations are not read. A day of the week must fit the date.

mod address;
mod agent;
mod calendar;
mod elements;
mod moment;
mod time;
mod tokens;

use moment::{Moment, NumericOrder, Reading};
use wasmill_guest::{Date, InitArgs, Microsecond, Timestamp, Utc, udf};

pub use address::{UrlParts, parse_url, url_host, url_param};
pub use agent::{UserAgent, parse_user_agent};

/// Two-digit years stand for 1969 to 2068, as in POSIX.
const PLAIN: Reading = Reading {
    order: None,
    two_digit_years_from: 1969,
};

/// The date in a text. A time beside it is checked and left out: the date is the one that is written,
/// whatever the zone. Two-digit years stand for 1969 to 2068.
///
/// # Errors
/// The row fails when the text is no date, or one in numbers whose order is open, such as 07/01/98:
/// `read_date` is for those.
#[udf]
pub fn parse_date(text: &str) -> Result<Date, String> {
    date(PLAIN, text)
}

/// The moment in a text, in microseconds; digits beyond are cut off. Without an offset or zone it is in
/// UTC, without a time it is midnight. Two-digit years stand for 1969 to 2068.
///
/// # Errors
/// The row fails when the text is no date and time, or one in numbers whose order is open, such as
/// 07/01/98: `read_timestamp` is for those.
#[udf]
pub fn parse_timestamp(text: &str) -> Result<Timestamp<Microsecond, Utc>, String> {
    timestamp(PLAIN, text)
}

/// How to read what dates leave open.
#[derive(InitArgs)]
pub struct DatesArgs {
    /// The order of dates in numbers, such as 07/01/98. A year of four digits in front is always
    /// followed by month and day.
    pub order: Order,
    /// The first of the hundred years that two-digit years stand for: with 1930, 29 is 2029, and 30 is
    /// 1930.
    #[init(default = 1969, minimum = 1, maximum = 9900)]
    pub two_digit_years_from: i32,
}

/// The order of a date in numbers.
#[derive(InitArgs, Clone, Copy)]
pub enum Order {
    /// Day, month, year.
    #[init(rename = "day_first")]
    DayFirst,
    /// Month, day, year.
    #[init(rename = "month_first")]
    MonthFirst,
    /// Year, month, day.
    #[init(rename = "year_first")]
    YearFirst,
}

/// Reads dates whose order is known.
pub struct Dates(Reading);

#[udf(name = "dates")]
impl Dates {
    /// Remembers the order.
    ///
    /// # Errors
    /// When the hundred years of two-digit years do not lie between 1 and 9999.
    pub fn init(args: DatesArgs) -> Result<Self, String> {
        if !(1..=9900).contains(&args.two_digit_years_from) {
            return Err(format!(
                "`two_digit_years_from` is {}: give a year from 1 to 9900",
                args.two_digit_years_from
            ));
        }
        let order = match args.order {
            Order::DayFirst => NumericOrder::DayMonthYear,
            Order::MonthFirst => NumericOrder::MonthDayYear,
            Order::YearFirst => NumericOrder::YearMonthDay,
        };
        Ok(Self(Reading {
            order: Some(order),
            two_digit_years_from: args.two_digit_years_from,
        }))
    }

    /// The date in a text, as `parse_date` gives it, also where it is all numbers.
    ///
    /// # Errors
    /// The row fails when the text is no date.
    pub fn read_date(&self, text: &str) -> Result<Date, String> {
        date(self.0, text)
    }

    /// The moment in a text, as `parse_timestamp` gives it, also where its date is all numbers.
    ///
    /// # Errors
    /// The row fails when the text is no date and time.
    pub fn read_timestamp(&self, text: &str) -> Result<Timestamp<Microsecond, Utc>, String> {
        timestamp(self.0, text)
    }
}

fn date(reading: Reading, text: &str) -> Result<Date, String> {
    read(reading, text).map(|moment| Date(moment.days))
}

fn timestamp(reading: Reading, text: &str) -> Result<Timestamp<Microsecond, Utc>, String> {
    read(reading, text).map(|moment| Timestamp::new(moment.utc_micros()))
}

fn read(reading: Reading, text: &str) -> Result<Moment, String> {
    let read = reading.read(text);
    read.map_err(|why| format!("\"{}\" cannot be read as a date: {why}", shown(text)))
}

/// As much of a text as a message needs.
fn shown(text: &str) -> &str {
    match text.char_indices().nth(60) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use wasmill_guest::testing::{Instance, column, handle};

    use super::*;

    #[test]
    fn dates_and_moments_count_from_the_epoch() {
        assert_eq!(parse_date("Jun 12 1998"), Ok(Date(10_389)));
        assert_eq!(parse_date("1969-12-31T23:00:00-08:00"), Ok(Date(-1)));
        assert_eq!(
            parse_timestamp("1970-01-01T00:00:00.000001+00:01").map(|moment| moment.value),
            Ok(1 - 60_000_000)
        );
    }

    #[test]
    fn a_failure_quotes_the_text_but_not_all_of_it() {
        let said = parse_date("soon").expect_err("no date");
        assert_eq!(
            said,
            "\"soon\" cannot be read as a date: \"soon\" is no month"
        );
        let said = parse_date(&"é".repeat(10_000)).expect_err("no date");
        assert!(said.len() < 400, "{said}");
    }

    #[test]
    fn a_state_knows_the_order() {
        let (instance, state) = (Instance::new(), handle!(Dates));
        let handle = instance
            .init(
                &state,
                r#"{"order":"month_first","two_digit_years_from":1900}"#,
            )
            .expect("a state");
        let texts = ["06/12/98", "12/31/00", "31/12/00"].map(|text| Some(text.to_owned()));
        let answer = instance
            .call_on(handle, &state.methods[0], 3, &[column(texts)])
            .expect("the call works");
        assert_eq!(answer.rows::<Date>()[..2], [Date(10_389), Date(-25_203)]);
        assert_eq!(answer.errors().len(), 1);
        let refused = |args| instance.init(&state, args).err().unwrap_or_default();
        let said = refused(r#"{"order":"day_first","two_digit_years_from":0}"#);
        assert!(said.contains("from 1 to 9900"), "{said}");
        assert!(refused(r#"{"order":"sideways","two_digit_years_from":1}"#).contains("day_first"));
    }
}
