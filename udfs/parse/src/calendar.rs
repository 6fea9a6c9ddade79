//! The proleptic Gregorian calendar, years 1 to 9999.

/// Days from 0001-01-01 to 1970-01-01.
const EPOCH: i32 = 719_162;

/// Days of the year before each month, in a year without leap day.
const BEFORE_MONTH: [i32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Days from 1970-01-01 to a day.
///
/// # Errors
/// Says what there is not.
pub fn days(year: i32, month: u32, day: u32) -> Result<i32, String> {
    if !(1..=9999).contains(&year) {
        return Err(format!("year {year} is not from 1 to 9999"));
    }
    let before = month
        .checked_sub(1)
        .and_then(|month| BEFORE_MONTH.get(month as usize));
    let Some(before) = before else {
        return Err(format!("there is no month {month}"));
    };
    if day == 0 || day > length(year, month) {
        return Err(format!("there is no day {day} in month {month} of {year}"));
    }
    let past = year - 1;
    let years = past * 365 + past / 4 - past / 100 + past / 400;
    let leap_day = i32::from(month > 2 && is_leap(year));
    Ok(years + before + leap_day + day as i32 - 1 - EPOCH)
}

fn length(year: i32, month: u32) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The day of the week: 0 for Monday, to 6.
pub fn weekday(days: i32) -> usize {
    // 1970-01-01 was a Thursday.
    (i64::from(days) + 3).rem_euclid(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_follows_the_one_before() {
        let mut wanted = days(1, 1, 1).expect("a day");
        for year in 1..=9999 {
            for month in 1..=12 {
                for day in 1..=length(year, month) {
                    assert_eq!(days(year, month, day), Ok(wanted), "{year}-{month}-{day}");
                    wanted += 1;
                }
            }
        }
        assert_eq!(days(1970, 1, 1), Ok(0));
        assert_eq!(days(2000, 2, 29), Ok(11_016));
        assert_eq!(weekday(0), 3);
        assert_eq!(weekday(-4), 6);
    }

    #[test]
    fn days_that_are_not_there_are_refused() {
        for (year, month, day) in [
            (1900, 2, 29),
            (2001, 4, 31),
            (2001, 13, 1),
            (2001, 0, 1),
            (2001, 1, 0),
            (0, 1, 1),
            (10_000, 1, 1),
        ] {
            assert!(days(year, month, day).is_err(), "{year}-{month}-{day}");
        }
    }
}
