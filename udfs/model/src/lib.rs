//! Trained models: logistic regression, and gradient-boosted trees of XGBoost and LightGBM, read once
//! per slot from the JSON that those libraries write.
//!
//! # Making the init arguments
//!
//! The model goes into the init argument `model`. From a file that XGBoost's `save_model("m.json")`
//! wrote: `jq '{model: .}' m.json > init.json`, then `--init @init.json`. From LightGBM, in Python:
//!
//! ```python
//! json.dump({"model": booster.dump_model()}, open("init.json", "w"))
//! ```
//!
//! From scikit-learn's `LogisticRegression`:
//!
//! ```python
//! json.dump({"model": {
//!     "coefficients": model.coef_.tolist(), "intercept": model.intercept_.tolist(),
//!     "classes": [str(name) for name in model.classes_],
//!     "features": [str(name) for name in getattr(model, "feature_names_in_", [])],
//! }}, open("init.json", "w"))
//! ```
//!
//! # Features
//!
//! The features of a row are a list of `float64`, in the order of the training; the functions that end in
//! `_f32` take a list of `float32`. A null or NaN in it is a missing value, which the trees send where
//! they learned to. A list of another length fails its row.

mod classifier;
mod forest;
mod json;
mod lightgbm;
mod logistic;
mod output;
mod xgboost;

pub use classifier::{Model, ModelArgs};
