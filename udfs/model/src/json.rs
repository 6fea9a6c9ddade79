//! Reading values of free JSON, with errors that say where something is wrong.

use serde_json::Value;

/// A member of an object.
pub(crate) fn member<'a>(object: &'a Value, key: &str) -> Result<&'a Value, String> {
    object
        .get(key)
        .ok_or_else(|| format!("the model has no \"{key}\" where one is needed"))
}

/// A list.
pub(crate) fn list<'a>(object: &'a Value, key: &str) -> Result<&'a [Value], String> {
    member(object, key)?
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| format!("\"{key}\" of the model is not a list"))
}

/// A finite number. XGBoost writes some numbers as text, and some of those in brackets.
pub(crate) fn number(object: &Value, key: &str) -> Result<f64, String> {
    let value = member(object, key)?;
    let number = match value {
        Value::String(text) => text.trim_matches(['[', ']']).parse().ok(),
        value => value.as_f64(),
    };
    number
        .filter(|number| number.is_finite())
        .ok_or_else(|| format!("\"{key}\" of the model is {value}, which is not one number"))
}

/// A number that counts or numbers something.
pub(crate) fn whole(object: &Value, key: &str) -> Result<usize, String> {
    let number = number(object, key)?;
    if number >= 0.0 && number <= f64::from(i32::MAX) && number.fract() == 0.0 {
        return Ok(number as usize);
    }
    Err(format!(
        "\"{key}\" of the model is {number}, and should be a whole number that is not negative"
    ))
}

/// A list of finite numbers; `true` and `false` are 1 and 0.
pub(crate) fn numbers(object: &Value, key: &str) -> Result<Vec<f64>, String> {
    list(object, key)?
        .iter()
        .map(|value| match value {
            Value::Bool(yes) => Ok(f64::from(u8::from(*yes))),
            value => finite(value).ok_or_else(|| {
                format!("\"{key}\" of the model holds {value}, which is not a finite number")
            }),
        })
        .collect()
}

/// A finite number.
pub(crate) fn finite(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

/// A list of texts; numbers are written as text.
pub(crate) fn texts(object: &Value, key: &str) -> Result<Vec<String>, String> {
    list(object, key)?
        .iter()
        .map(|value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(format!(
                "\"{key}\" of the model holds {other}, which is neither text nor a number"
            )),
        })
        .collect()
}
