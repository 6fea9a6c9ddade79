//! Models of LightGBM, as `Booster.dump_model()` gives them.

use serde_json::Value;

use crate::forest::{Forest, Missing, Split};
use crate::json::{list, member, number, whole};
use crate::output::{Link, Output};

/// Reads trees and objective.
pub(crate) fn read(model: &Value) -> Result<(Forest, Output), String> {
    let output = output(model["objective"].as_str().unwrap_or_default())?;
    let scores = whole(model, "num_tree_per_iteration")?.max(1);
    if scores > 1 && !matches!(output, Output::Softmax | Output::OneAgainstRest { .. }) {
        return Err("the model has several scores, but its objective has one".to_owned());
    }
    let trees = list(model, "tree_info")?;
    if trees.len() % scores != 0 || scores > trees.len().max(1) {
        return Err(format!(
            "the model has {} trees, and should have as many or a multiple for its {scores} classes",
            trees.len()
        ));
    }
    let features = whole(model, "max_feature_idx")? + 1;
    let mut forest = Forest::new(features, vec![0.0; scores]);
    for (number, tree) in trees.iter().enumerate() {
        member(tree, "tree_structure")
            .and_then(|root| add(root, &mut forest))
            .and_then(|root| forest.tree(root, number % scores))
            .map_err(|why| format!("tree {number}: {why}"))?;
    }
    if model["average_output"] == true && !trees.is_empty() {
        forest.scale(scores as f64 / trees.len() as f64);
    }
    Ok((forest, output))
}

/// The objective's name, then its parameters: `binary sigmoid:1`.
fn output(objective: &str) -> Result<Output, String> {
    let mut words = objective.split_whitespace();
    let name = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let steepness = || {
        let text = rest.iter().find_map(|word| word.strip_prefix("sigmoid:"));
        text.map_or(Ok(1.0), |text| {
            text.parse()
                .map_err(|_| format!("the objective \"{objective}\" has no number as its sigmoid"))
        })
    };
    Ok(match name {
        "binary" => Output::TwoClasses {
            steepness: steepness()?,
        },
        "multiclass" => Output::Softmax,
        "multiclassova" => Output::OneAgainstRest {
            steepness: steepness()?,
        },
        "regression" if rest.contains(&"sqrt") => Output::Value(Link::SignedSquare),
        // An objective of the user's own is not named.
        "regression" | "regression_l1" | "huber" | "fair" | "quantile" | "mape" | "lambdarank"
        | "rank_xendcg" | "" => Output::Value(Link::Identity),
        "poisson" | "gamma" | "tweedie" => Output::Value(Link::Exp),
        "cross_entropy" => Output::Value(Link::Logistic),
        other => {
            return Err(format!(
                "the objective \"{other}\" is not known: binary, multiclass, multiclassova, \
                 regression and its kin, poisson, gamma, tweedie, cross_entropy, lambdarank and \
                 rank_xendcg are"
            ));
        }
    })
}

/// Adds a node and those under it. JSON cannot be nested so deep that the recursion were too deep.
fn add(node: &Value, forest: &mut Forest) -> Result<u32, String> {
    if node.get("split_feature").is_none() {
        if node["leaf_coeff"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
        {
            return Err("its leaves are linear models: train with linear_tree=false".to_owned());
        }
        return forest.leaf(number(node, "leaf_value")?);
    }
    if node["decision_type"] != "<=" {
        return Err(
            "it splits by categories: train on one feature of 0 or 1 for each category".to_owned(),
        );
    }
    let missing = match node["missing_type"].as_str() {
        Some("NaN") => Missing::Nan,
        Some("Zero") => Missing::NanAndZero,
        Some("None") => Missing::Never,
        _ => return Err("a node's \"missing_type\" is none of NaN, Zero and None".to_owned()),
    };
    let split = forest.split(Split {
        feature: whole(node, "split_feature")? as u32,
        threshold: number(node, "threshold")?,
        missing,
        missing_left: node["default_left"] == true,
    })?;
    let left = add(member(node, "left_child")?, forest)?;
    let right = add(member(node, "right_child")?, forest)?;
    forest.children(split, left, right);
    Ok(split)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn model() -> Value {
        json!({
            "num_tree_per_iteration": 1, "max_feature_idx": 1, "objective": "regression",
            "tree_info": [
                {"tree_structure": {
                    "split_feature": 1, "threshold": 0.5, "decision_type": "<=",
                    "default_left": false, "missing_type": "Zero",
                    "left_child": {"leaf_value": 1.0}, "right_child": {"leaf_value": 2.0},
                }},
                {"tree_structure": {"leaf_value": 10.0}},
            ],
        })
    }

    #[test]
    fn values_on_a_threshold_go_left() {
        let (forest, output) = read(&model()).expect("a good model");
        assert_eq!(output, Output::Value(Link::Identity));
        let score = |b: f64| forest.score(|feature| [f64::NAN, b][feature])[0];
        assert_eq!(score(0.5), 11.0);
        assert_eq!(score(0.5_f64.next_up()), 12.0);
        assert_eq!(score(0.0), 12.0);
        assert_eq!(score(f64::NAN), 12.0);
    }

    #[test]
    fn a_random_forest_is_averaged() {
        let mut model = model();
        model["average_output"] = json!(true);
        let (forest, _) = read(&model).expect("a good model");
        assert_eq!(forest.score(|_| 1.0), [6.0]);
    }

    #[test]
    fn objectives_say_what_scores_mean() {
        assert_eq!(
            output("binary sigmoid:2"),
            Ok(Output::TwoClasses { steepness: 2.0 })
        );
        assert_eq!(output("multiclass num_class:3"), Ok(Output::Softmax));
        assert_eq!(
            output("multiclassova num_class:3 sigmoid:1"),
            Ok(Output::OneAgainstRest { steepness: 1.0 })
        );
        assert_eq!(
            output("regression sqrt"),
            Ok(Output::Value(Link::SignedSquare))
        );
        assert!(output("binary sigmoid:x").is_err());
        assert!(output("cross_entropy_lambda").is_err());
    }

    #[test]
    fn broken_models_are_refused_with_a_reason() {
        let tree = "/tree_info/0/tree_structure";
        for (pointer, value, said) in [
            (format!("{tree}/decision_type"), json!("=="), "categories"),
            (format!("{tree}/missing_type"), json!("?"), "missing_type"),
            (format!("{tree}/split_feature"), json!(2), "feature 2"),
            (format!("{tree}/split_feature"), json!(-1), "split_feature"),
            (format!("{tree}/threshold"), json!("a||b"), "threshold"),
            (format!("{tree}/left_child"), json!({}), "leaf_value"),
            (
                format!("{tree}/left_child"),
                json!({"leaf_value": 1.0, "leaf_coeff": [2.0]}),
                "linear",
            ),
            ("/num_tree_per_iteration".to_owned(), json!(3), "one"),
            ("/objective".to_owned(), json!("unheard of"), "unheard"),
        ] {
            let mut model = model();
            *model.pointer_mut(&pointer).expect("a member") = value;
            let error = read(&model).err().expect("a broken model");
            assert!(error.contains(said), "{error}");
        }
    }
}
