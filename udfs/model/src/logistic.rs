//! Logistic regression.

use serde_json::Value;

use crate::json::{finite, list, member, number, numbers, texts};
use crate::output::Output;

/// Coefficients and intercepts: one row for two classes, or one for each class.
pub(crate) struct Logistic {
    rows: Vec<(Vec<f64>, f64)>,
    names: Vec<String>,
}

/// Reads `{"coefficients": [[…]], "intercept": […], "classes": […], "features": […]}`, of which the
/// last two may be missing; for two classes, coefficients and intercept may also be one list and one
/// number. The classes come back as they are named.
pub(crate) fn read(model: &Value) -> Result<(Logistic, Output, Option<Vec<String>>), String> {
    let coefficients = list(model, "coefficients")?;
    let rows: Vec<Vec<f64>> = if coefficients.iter().all(Value::is_number) {
        vec![numbers(model, "coefficients")?]
    } else {
        coefficients
            .iter()
            .map(|row| row.as_array()?.iter().map(finite).collect())
            .collect::<Option<_>>()
            .ok_or("\"coefficients\" of the model are neither numbers nor lists of numbers")?
    };
    let intercepts = if member(model, "intercept")?.is_array() {
        numbers(model, "intercept")?
    } else {
        vec![number(model, "intercept")?]
    };
    if intercepts.len() != rows.len() {
        return Err(format!(
            "the model has {} rows of coefficients and {} intercepts",
            rows.len(),
            intercepts.len()
        ));
    }
    let features = rows.first().map_or(0, Vec::len);
    if features == 0 || rows.iter().any(|row| row.len() != features) {
        return Err("the model's rows of coefficients are empty or differ in length".to_owned());
    }
    let names = match model.get("features") {
        Some(_) => texts(model, "features")?,
        None => Vec::new(),
    };
    if !names.is_empty() && names.len() != features {
        return Err(format!(
            "the model names {} features and has {features} coefficients",
            names.len()
        ));
    }
    let classes = match model.get("classes") {
        Some(_) => Some(texts(model, "classes")?),
        None => None,
    };
    let output = match rows.len() {
        1 => Output::TwoClasses { steepness: 1.0 },
        _ => Output::Softmax,
    };
    let rows = rows.into_iter().zip(intercepts).collect();
    Ok((Logistic { rows, names }, output, classes))
}

impl Logistic {
    /// Number of features of a row.
    pub fn features(&self) -> usize {
        self.rows.first().map_or(0, |(row, _)| row.len())
    }

    /// Number of scores.
    pub fn scores(&self) -> usize {
        self.rows.len()
    }

    /// The scores of a row; `feature` gives its features.
    ///
    /// # Errors
    /// Names a feature that is missing or infinite.
    pub fn score(&self, feature: impl Fn(usize) -> f64) -> Result<Vec<f64>, String> {
        if let Some(bad) = (0..self.features()).find(|number| !feature(*number).is_finite()) {
            let name = self.names.get(bad);
            return Err(format!(
                "feature {bad}{} is {}, and logistic regression needs numbers: fill in the values \
                 that are missing",
                name.map(|name| format!(" ({name})")).unwrap_or_default(),
                if feature(bad).is_nan() {
                    "missing"
                } else {
                    "infinite"
                },
            ));
        }
        let score = |(row, intercept): &(Vec<f64>, f64)| {
            let products = row.iter().enumerate();
            products.fold(*intercept, |sum, (number, coefficient)| {
                sum + coefficient * feature(number)
            })
        };
        Ok(self.rows.iter().map(score).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_classes_may_be_written_without_brackets() {
        for model in [
            json!({"coefficients": [2.0, -1.0], "intercept": 0.5}),
            json!({"coefficients": [[2.0, -1.0]], "intercept": [0.5]}),
        ] {
            let (logistic, output, classes) = read(&model).expect("a good model");
            assert_eq!(output, Output::TwoClasses { steepness: 1.0 });
            assert_eq!(classes, None);
            assert_eq!(logistic.score(|n| [3.0, 4.0][n]), Ok(vec![2.5]));
        }
    }

    #[test]
    fn a_missing_feature_is_named() {
        let model = json!({"coefficients": [1, 2], "intercept": 0, "features": ["age", "height"]});
        let (logistic, ..) = read(&model).expect("a good model");
        let error = logistic.score(|n| [1.0, f64::NAN][n]).expect_err("missing");
        assert!(error.contains("feature 1 (height) is missing"), "{error}");
        let error = logistic
            .score(|n| [f64::INFINITY, 1.0][n])
            .expect_err("infinite");
        assert!(error.contains("feature 0 (age) is infinite"), "{error}");
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        for (model, said) in [
            (json!({"coefficients": [1, 2]}), "intercept"),
            (json!({"coefficients": [], "intercept": 1}), "empty"),
            (
                json!({"coefficients": [[1], [2, 3]], "intercept": [1, 2]}),
                "differ",
            ),
            (
                json!({"coefficients": [[1], [2]], "intercept": [1]}),
                "1 intercepts",
            ),
            (
                json!({"coefficients": [[1], 2], "intercept": [1]}),
                "lists of numbers",
            ),
            (
                json!({"coefficients": [[null]], "intercept": [1]}),
                "lists of numbers",
            ),
            (
                json!({"coefficients": [1], "intercept": 1, "features": ["a", "b"]}),
                "names 2",
            ),
            (
                json!({"coefficients": [1], "intercept": 1, "classes": [true]}),
                "classes",
            ),
        ] {
            let error = read(&model).err().expect("a bad shape");
            assert!(error.contains(said), "{error}");
        }
    }
}
