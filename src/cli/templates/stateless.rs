//! UDFs over text.

use wasmill_guest::udf;

/// The first letters of the words, in upper case: "new york city" becomes "NYC".
#[udf]
pub fn initials(text: &str) -> String {
    text.split_whitespace()
        .filter_map(|word| word.chars().next())
        .flat_map(char::to_uppercase)
        .collect()
}

/// Part of a whole in percent.
///
/// # Errors
/// The row fails when the whole is zero.
#[udf]
pub fn percent(part: f64, whole: f64) -> Result<f64, String> {
    if whole == 0.0 {
        return Err("the whole is zero".to_owned());
    }
    Ok(100.0 * part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initials_are_upper_case() {
        assert_eq!(initials("new york city"), "NYC");
        assert_eq!(initials(""), "");
    }

    #[test]
    fn nothing_is_part_of_zero() {
        assert_eq!(percent(1.0, 4.0), Ok(25.0));
        assert!(percent(1.0, 0.0).is_err());
    }
}
