//! The state that holds a model, and its UDFs.

use serde_json::Value;
use wasmill_guest::{InitArgs, ListRef, log, udf};

use crate::forest::Forest;
use crate::logistic::Logistic;
use crate::output::{Output, greatest};
use crate::{lightgbm, logistic, xgboost};

/// A trained model.
#[derive(InitArgs)]
pub struct ModelArgs {
    /// The model: the content of a JSON file that XGBoost's `save_model` wrote (`jq '{model: .}' m.json`
    /// makes init arguments of it), what LightGBM's `dump_model` returned, or logistic regression as
    /// `{"coefficients": [[…], …], "intercept": […], "classes": […], "features": […]}`. Logistic
    /// regression has one row of coefficients for two classes, else one for each class (multinomial);
    /// the names of classes and features may be left out.
    pub model: Value,
    /// Names of the classes, in the order of their numbers. Without it they are those of the model, or
    /// their numbers.
    pub classes: Option<Vec<String>>,
}

/// A loaded model.
pub struct Model {
    kind: Kind,
    output: Output,
    classes: Vec<String>,
}

enum Kind {
    Logistic(Logistic),
    Forest(Forest),
}

#[udf]
impl Model {
    /// Loads the model and logs its size.
    ///
    /// # Errors
    /// When the JSON is no model of a known kind, or the names of the classes are too many or too few.
    pub fn init(args: ModelArgs) -> Result<Self, String> {
        let (kind, output, named) = read(&args.model)?;
        let scores = match &kind {
            Kind::Logistic(logistic) => logistic.scores(),
            Kind::Forest(forest) => forest.scores(),
        };
        let count = output.classes(scores);
        let classes = args
            .classes
            .or(named)
            .unwrap_or_else(|| (0..count).map(|number| number.to_string()).collect());
        if classes.len() != count {
            return Err(format!(
                "the model has {count} classes, and {} are named",
                classes.len()
            ));
        }
        match &kind {
            Kind::Logistic(logistic) => log::info!(
                "model: logistic regression, {} features, {count} classes",
                logistic.features()
            ),
            Kind::Forest(forest) => log::info!(
                "model: {} trees, {} features, {count} classes",
                forest.trees(),
                forest.features()
            ),
        }
        Ok(Self {
            kind,
            output,
            classes,
        })
    }

    /// What the model predicts for a row: the value of a regression, or the number of the most probable
    /// class, from 0.
    ///
    /// # Errors
    /// The row fails when it has more or fewer features than the model, and, for logistic regression,
    /// when one of them is missing.
    pub fn predict(&self, features: ListRef<'_, Option<f64>>) -> Result<f64, String> {
        self.value(&features)
    }

    /// `predict` from features of 32 bits.
    ///
    /// # Errors
    /// As for `predict`.
    pub fn predict_f32(&self, features: ListRef<'_, Option<f32>>) -> Result<f64, String> {
        self.value(&features)
    }

    /// A probability for each class, in the order of their numbers.
    ///
    /// # Errors
    /// As for `predict`; every row fails when the model has no classes.
    pub fn predict_proba(&self, features: ListRef<'_, Option<f64>>) -> Result<Vec<f64>, String> {
        self.probabilities(&features)
    }

    /// `predict_proba` from features of 32 bits.
    ///
    /// # Errors
    /// As for `predict_proba`.
    pub fn predict_proba_f32(
        &self,
        features: ListRef<'_, Option<f32>>,
    ) -> Result<Vec<f64>, String> {
        self.probabilities(&features)
    }

    /// Name of the most probable class.
    ///
    /// # Errors
    /// As for `predict_proba`.
    pub fn predict_class(&self, features: ListRef<'_, Option<f64>>) -> Result<String, String> {
        self.class(&features)
    }

    /// `predict_class` from features of 32 bits.
    ///
    /// # Errors
    /// As for `predict_proba`.
    pub fn predict_class_f32(&self, features: ListRef<'_, Option<f32>>) -> Result<String, String> {
        self.class(&features)
    }
}

/// The features of a row.
trait Features {
    fn count(&self) -> usize;
    /// A feature; NaN where it is missing.
    fn feature(&self, number: usize) -> f64;
}

impl Features for ListRef<'_, Option<f64>> {
    fn count(&self) -> usize {
        self.len()
    }

    fn feature(&self, number: usize) -> f64 {
        self.get(number).flatten().unwrap_or(f64::NAN)
    }
}

impl Features for ListRef<'_, Option<f32>> {
    fn count(&self) -> usize {
        self.len()
    }

    fn feature(&self, number: usize) -> f64 {
        self.get(number).flatten().map_or(f64::NAN, f64::from)
    }
}

impl Model {
    fn value(&self, features: &impl Features) -> Result<f64, String> {
        let scores = self.scores(features)?;
        match self.output {
            Output::Value(link) => Ok(link.value(scores.first().copied().unwrap_or(f64::NAN))),
            output => Ok(greatest(&output.probabilities(scores)) as f64),
        }
    }

    fn probabilities(&self, features: &impl Features) -> Result<Vec<f64>, String> {
        if self.classes.is_empty() {
            return Err("the model predicts a value and has no classes: use `predict`".to_owned());
        }
        Ok(self.output.probabilities(self.scores(features)?))
    }

    fn class(&self, features: &impl Features) -> Result<String, String> {
        let best = greatest(&self.probabilities(features)?);
        Ok(self.classes.get(best).cloned().unwrap_or_default())
    }

    fn scores(&self, features: &impl Features) -> Result<Vec<f64>, String> {
        let wanted = match &self.kind {
            Kind::Logistic(logistic) => logistic.features(),
            Kind::Forest(forest) => forest.features(),
        };
        if features.count() != wanted {
            return Err(format!(
                "the row has {} features, and the model takes {wanted}",
                features.count()
            ));
        }
        let feature = |number: usize| features.feature(number);
        match &self.kind {
            Kind::Logistic(logistic) => logistic.score(feature),
            Kind::Forest(forest) => Ok(forest.score(feature)),
        }
    }
}

/// Finds out whose model it is, and reads it; with the names of the classes, where it has some.
fn read(model: &Value) -> Result<(Kind, Output, Option<Vec<String>>), String> {
    if model.get("learner").is_some() {
        let (forest, output) = xgboost::read(model)?;
        return Ok((Kind::Forest(forest), output, None));
    }
    if model.get("tree_info").is_some() {
        let (forest, output) = lightgbm::read(model)?;
        return Ok((Kind::Forest(forest), output, None));
    }
    if model.get("coefficients").is_some() {
        let (logistic, output, classes) = logistic::read(model)?;
        return Ok((Kind::Logistic(logistic), output, classes));
    }
    Err(
        "`model` is of no known kind: it needs \"learner\" (XGBoost's save_model to a .json file), \
         \"tree_info\" (LightGBM's dump_model) or \"coefficients\" (logistic regression)"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wasmill_guest::testing::{Instance, StateHandle, TestColumn, column, handle};

    /// A model, rows, and what the library that made the model predicts for them; written by
    /// `tests/make_fixtures.py`.
    struct Fixture(Value);

    impl Fixture {
        fn rows(&self) -> Vec<Option<Vec<Option<f64>>>> {
            let rows = self.0["rows"].as_array().expect("rows");
            rows.iter()
                .map(|row| {
                    let row = row.as_array().expect("a row");
                    Some(row.iter().map(Value::as_f64).collect())
                })
                .collect()
        }

        fn check(&self, name: &str) {
            let (instance, state) = (Instance::new(), handle!(Model));
            let rows = self.rows();
            let len = rows.len();
            let init = self.0["init"].to_string();
            let model = instance.init(&state, &init).expect(name);
            let features = || [column(rows.clone())];
            let call = |method: usize| {
                instance
                    .call_on(model, &state.methods[method], len, &features())
                    .expect(name)
            };
            let predicted = call(0);
            assert!(predicted.errors().is_empty(), "{name}");
            assert_close(&predicted.rows(), &numbers(&self.0["predict"]), name);
            let probabilities = call(2);
            let Some(wanted) = self.0["predict_proba"].as_array() else {
                assert_eq!(probabilities.errors().len(), len, "{name}");
                return;
            };
            for (found, wanted) in probabilities.rows::<Vec<f64>>().iter().zip(wanted) {
                assert_close(found, &numbers(wanted), name);
            }
            let classes = call(4);
            let wanted: Vec<String> = match self.0["predict_class"].as_array() {
                Some(names) => names
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
                None => numbers(&self.0["predict"])
                    .iter()
                    .map(f64::to_string)
                    .collect(),
            };
            assert_eq!(classes.rows::<&str>(), wanted, "{name}");
        }
    }

    fn numbers(list: &Value) -> Vec<f64> {
        let list = list.as_array().expect("a list");
        list.iter().filter_map(Value::as_f64).collect()
    }

    fn assert_close(found: &[f64], wanted: &[f64], name: &str) {
        assert_eq!(found.len(), wanted.len(), "{name}");
        // XGBoost calculates with 32 bits.
        let tolerance = if name.starts_with("xgboost") {
            1e-6
        } else {
            1e-12
        };
        for (found, wanted) in found.iter().zip(wanted) {
            let error = (found - wanted).abs() / wanted.abs().max(1.0);
            assert!(error < tolerance, "{name}: {found} is not {wanted}");
        }
    }

    macro_rules! fixtures {
        ($($name:ident),* $(,)?) => {$(
            #[test]
            fn $name() {
                let text = include_str!(concat!("../tests/", stringify!($name), ".json"));
                Fixture(serde_json::from_str(text).expect("JSON")).check(stringify!($name));
            }
        )*};
    }

    /// The predictions are those of the library.
    mod agrees_with_library {
        use super::*;

        fixtures!(
            lightgbm_binary,
            lightgbm_forest,
            lightgbm_multiclass,
            lightgbm_none_missing,
            lightgbm_one_against_rest,
            lightgbm_regression,
            lightgbm_sqrt,
            lightgbm_thresholds,
            lightgbm_tweedie,
            lightgbm_zero_as_missing,
            logistic_three,
            logistic_two,
            xgboost_binary,
            xgboost_dart,
            xgboost_forest,
            xgboost_multiclass,
            xgboost_poisson,
            xgboost_regression,
        );
    }

    fn two_features(init: &Value) -> Result<(Instance, StateHandle), String> {
        let instance = Instance::new();
        let model = instance.init(&handle!(Model), &init.to_string())?;
        Ok((instance, model))
    }

    #[test]
    fn rows_that_do_not_fit_fail_alone() {
        let init = json!({"model": {"coefficients": [1.0, -1.0], "intercept": 0.0},
            "classes": ["cold", "warm"]});
        let (instance, model) = two_features(&init).expect("a good model");
        let rows: TestColumn = column([
            Some(vec![Some(2.0), Some(1.0)]),
            Some(vec![Some(2.0)]),
            Some(vec![]),
            None,
            Some(vec![Some(1.0), None]),
            Some(vec![Some(1.0), Some(2.0)]),
        ]);
        let answer = instance
            .call_on(model, &handle!(Model).methods[4], 6, &[rows])
            .expect("the call works");
        let failed: Vec<u32> = answer.errors().iter().map(|error| error.row).collect();
        assert_eq!(failed, [1, 2, 4]);
        assert!(answer.errors()[0].message.contains("1 features"));
        let classes = answer.rows::<&str>();
        assert_eq!((classes[0], classes[5]), ("warm", "cold"));
    }

    #[test]
    fn features_of_32_bits_are_the_same() {
        let init = json!({"model": {"coefficients": [1.0, -1.0], "intercept": 0.0}});
        let (instance, model) = two_features(&init).expect("a good model");
        let wide = || {
            column([
                Some(vec![Some(0.75), Some(0.5)]),
                Some(vec![None, Some(0.5)]),
            ])
        };
        let narrow = || {
            column([
                Some(vec![Some(0.75_f32), Some(0.5)]),
                Some(vec![None, Some(0.5)]),
            ])
        };
        for method in [0, 2, 4] {
            let call = |method: usize, features| {
                instance
                    .call_on(model, &handle!(Model).methods[method], 2, &[features])
                    .expect("the call works")
            };
            let (wide, narrow) = (call(method, wide()), call(method + 1, narrow()));
            assert_eq!(wide.errors(), narrow.errors());
            match method {
                0 => assert_eq!(wide.rows::<f64>()[0], narrow.rows::<f64>()[0]),
                2 => assert_eq!(wide.rows::<Vec<f64>>(), narrow.rows::<Vec<f64>>()),
                _ => assert_eq!(wide.rows::<&str>(), narrow.rows::<&str>()),
            }
        }
    }

    #[test]
    fn init_says_what_is_wrong() {
        for (init, said) in [
            (json!({"model": 7}), "no known kind"),
            (json!({"model": {"trees": []}}), "dump_model"),
            (
                json!({"model": {"coefficients": [1.0], "intercept": 0.0}, "classes": ["one"]}),
                "2 classes, and 1",
            ),
            (json!({}), "model"),
        ] {
            let error = two_features(&init).err().expect("no model");
            assert!(error.contains(said), "{error}");
        }
    }
}
