//! Values of JSON text as values of Arrow types. `None` stands for no value, and for `null`.

use crate::text::{self, Kind};

/// A value of the kind that is wanted; `None` for nothing and for `null`.
fn of_kind(value: Option<&str>, wanted: Kind) -> Result<Option<&str>, String> {
    let Some(value) = value else {
        return Ok(None);
    };
    match Kind::of(value) {
        Kind::Null => Ok(None),
        kind if kind == wanted => Ok(Some(value)),
        kind => Err(format!("there is {}, not {}", kind.name(), wanted.name())),
    }
}

pub fn as_text(value: Option<&str>) -> Result<Option<String>, String> {
    let Some(value) = value else {
        return Ok(None);
    };
    Ok(match Kind::of(value) {
        Kind::Null => None,
        Kind::Text => Some(text::decode(value)?.into_owned()),
        _ => Some(value.to_owned()),
    })
}

pub fn as_int(value: Option<&str>) -> Result<Option<i64>, String> {
    let Some(number) = of_kind(value, Kind::Number)? else {
        return Ok(None);
    };
    match whole_number(number) {
        Some(int) => Ok(Some(int)),
        None => Err(format!(
            "{} is not a whole number of 64 bits",
            start(number)
        )),
    }
}

/// The whole number that a JSON number is, if it is one; worked out with its digits, so that nothing
/// is rounded.
fn whole_number(number: &str) -> Option<i64> {
    if let Ok(int) = number.parse() {
        return Some(int);
    }
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut digits = format!("{whole}{fraction}");
    if digits.bytes().all(|byte| matches!(byte, b'0' | b'-')) {
        return Some(0);
    }
    let zeros = exponent
        .parse::<i64>()
        .ok()?
        .checked_sub(fraction.len() as i64)?;
    if zeros > 18 {
        return None;
    }
    if zeros >= 0 {
        digits.extend((0..zeros).map(|_| '0'));
        return digits.parse().ok();
    }
    let len = digits
        .len()
        .checked_sub(usize::try_from(zeros.unsigned_abs()).ok()?)?;
    let (kept, lost) = digits.split_at_checked(len)?;
    lost.bytes().all(|byte| byte == b'0').then_some(())?;
    kept.parse().ok()
}

pub fn as_float(value: Option<&str>) -> Result<Option<f64>, String> {
    let Some(number) = of_kind(value, Kind::Number)? else {
        return Ok(None);
    };
    match number.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(Some(float)),
        _ => Err(format!("{} is out of range", start(number))),
    }
}

pub fn as_bool(value: Option<&str>) -> Result<Option<bool>, String> {
    Ok(of_kind(value, Kind::Boolean)?.map(|value| value == "true"))
}

/// As much of a number as a message needs.
fn start(number: &str) -> &str {
    number.get(..40).unwrap_or(number)
}
