//! Models of XGBoost, as `save_model` writes them to a file that ends in `.json`.

use serde_json::Value;

use crate::forest::{Forest, Missing, Split};
use crate::json::{list, member, number, numbers, whole};
use crate::output::{Link, Output};

/// Reads trees and objective.
pub(crate) fn read(model: &Value) -> Result<(Forest, Output), String> {
    let learner = member(model, "learner")?;
    let parameters = member(learner, "learner_model_param")?;
    if whole(parameters, "num_target").unwrap_or(1) > 1 {
        return Err("the model predicts several targets: train one for each".to_owned());
    }
    let objective = member(learner, "objective")?;
    let objective = member(objective, "name")?.as_str().unwrap_or_default();
    let output = output(objective)?;
    let scores = match output {
        Output::Softmax => whole(parameters, "num_class")?.max(1),
        _ => 1,
    };
    let booster = member(learner, "gradient_booster")?;
    let (booster, weights) = match member(booster, "name")?.as_str() {
        Some("gbtree") => (booster, None),
        Some("dart") => (
            member(booster, "gbtree")?,
            Some(numbers(booster, "weight_drop")?),
        ),
        _ => {
            return Err(
                "the model's booster is not one of trees: \"gbtree\" and \"dart\" are known"
                    .to_owned(),
            );
        }
    };
    let trees = member(booster, "model")?;
    let classes = numbers(trees, "tree_info")?;
    let trees = list(trees, "trees")?;
    if scores > trees.len().max(1) {
        return Err(format!(
            "the model has {scores} classes and only {} trees",
            trees.len()
        ));
    }
    let features = whole(parameters, "num_feature")?;
    let mut forest = Forest::new(features, start(parameters, output, scores)?);
    forest.narrow_features();
    for (number, tree) in trees.iter().enumerate() {
        let weight = match &weights {
            Some(weights) => weights.get(number).copied(),
            None => Some(1.0),
        };
        let (Some(class), Some(weight)) = (classes.get(number), weight) else {
            return Err(format!(
                "tree {number} of the model lacks its class or weight"
            ));
        };
        Nodes::of(tree)
            .and_then(|nodes| nodes.add_to(&mut forest, weight))
            .and_then(|root| forest.tree(root, *class as usize))
            .map_err(|why| format!("tree {number}: {why}"))?;
    }
    Ok((forest, output))
}

fn output(objective: &str) -> Result<Output, String> {
    Ok(match objective {
        "binary:logistic" => Output::TwoClasses { steepness: 1.0 },
        "multi:softprob" | "multi:softmax" => Output::Softmax,
        "reg:squarederror"
        | "reg:linear"
        | "reg:absoluteerror"
        | "reg:pseudohubererror"
        | "reg:squaredlogerror"
        | "reg:quantileerror"
        | "rank:pairwise"
        | "rank:ndcg"
        | "rank:map" => Output::Value(Link::Identity),
        "reg:logistic" => Output::Value(Link::Logistic),
        "count:poisson" | "reg:gamma" | "reg:tweedie" => Output::Value(Link::Exp),
        other => {
            return Err(format!(
                "the objective \"{other}\" is not known: binary:logistic, multi:softprob, \
                 multi:softmax, reg:squarederror and the other regressions, count:poisson and \
                 rank:… are"
            ));
        }
    })
}

/// The scores before the first tree. The file has them as predictions: one for all classes, or a list.
fn start(parameters: &Value, output: Output, scores: usize) -> Result<Vec<f64>, String> {
    let base = member(parameters, "base_score")?;
    let listed = base
        .as_str()
        .and_then(|text| serde_json::from_str::<Vec<f64>>(text).ok());
    let predictions = match listed {
        Some(listed) if listed.len() == scores => listed,
        Some(listed) if listed.len() != 1 => {
            return Err(format!(
                "the base score of the model has {} numbers for {scores} classes",
                listed.len()
            ));
        }
        _ => vec![number(parameters, "base_score")?; scores],
    };
    let score = |prediction: f64| match output {
        Output::TwoClasses { .. } | Output::Value(Link::Logistic) => {
            (prediction / (1.0 - prediction)).ln()
        }
        Output::Value(Link::Exp) => prediction.ln(),
        _ => prediction,
    };
    let start: Vec<f64> = predictions.into_iter().map(score).collect();
    if start.iter().any(|score| !score.is_finite()) {
        return Err(format!("the base score {base} does not fit the objective"));
    }
    Ok(start)
}

/// The nodes of a tree, as parallel lists.
struct Nodes {
    left: Vec<f64>,
    right: Vec<f64>,
    features: Vec<f64>,
    /// Thresholds of splits, and values of leaves.
    values: Vec<f64>,
    missing_left: Vec<f64>,
}

impl Nodes {
    fn of(tree: &Value) -> Result<Self, String> {
        let nodes = Self {
            left: numbers(tree, "left_children")?,
            right: numbers(tree, "right_children")?,
            features: numbers(tree, "split_indices")?,
            values: numbers(tree, "split_conditions")?,
            missing_left: numbers(tree, "default_left")?,
        };
        let len = nodes.left.len();
        if [
            &nodes.right,
            &nodes.features,
            &nodes.values,
            &nodes.missing_left,
        ]
        .iter()
        .any(|list| list.len() != len)
        {
            return Err("its lists differ in length".to_owned());
        }
        // Older versions have no such list.
        if numbers(tree, "split_type").is_ok_and(|kinds| kinds.iter().any(|kind| *kind != 0.0)) {
            return Err(
                "it splits by categories: train on one feature of 0 or 1 for each category"
                    .to_owned(),
            );
        }
        Ok(nodes)
    }

    /// Adds the nodes to a forest, parents before children; the answer is the root.
    fn add_to(&self, forest: &mut Forest, weight: f64) -> Result<u32, String> {
        let mut places = vec![None; self.left.len()];
        let mut splits = Vec::new();
        let mut waiting = vec![0.0];
        while let Some(number) = waiting.pop() {
            // Whatever is not the number of a node is past the end.
            let node = if number >= 0.0 {
                number as usize
            } else {
                usize::MAX
            };
            match places.get(node) {
                None => return Err(format!("there is no node {number}")),
                Some(Some(_)) => return Err(format!("node {number} has two parents")),
                Some(None) => {}
            }
            let place = if self.left[node] < 0.0 {
                forest.leaf(self.values[node] * weight)?
            } else {
                waiting.extend([self.left[node], self.right[node]]);
                splits.push(node);
                forest.split(Split {
                    feature: self.features[node] as u32,
                    // XGBoost goes left below the threshold, this forest up to it.
                    threshold: f64::from((self.values[node] as f32).next_down()),
                    missing: Missing::Nan,
                    missing_left: self.missing_left[node] != 0.0,
                })?
            };
            places[node] = Some(place);
        }
        for split in splits {
            let place = |node: f64| places.get(node as usize).copied().flatten();
            if let (Some(split), Some(left), Some(right)) = (
                places[split],
                place(self.left[split]),
                place(self.right[split]),
            ) {
                forest.children(split, left, right);
            }
        }
        places
            .first()
            .copied()
            .flatten()
            .ok_or_else(|| "it is empty".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn model(tree: &Value) -> Value {
        json!({"learner": {
            "learner_model_param": {"base_score": "[5E-1]", "num_class": "0", "num_feature": "2", "num_target": "1"},
            "objective": {"name": "reg:squarederror"},
            "gradient_booster": {"name": "gbtree", "model": {"tree_info": [0], "trees": [tree]}},
        }})
    }

    fn tree() -> Value {
        json!({
            "left_children": [1, -1, 3, -1, -1], "right_children": [2, -1, 4, -1, -1],
            "split_indices": [0, 0, 1, 0, 0], "split_conditions": [1.5, 10.0, -2.0, 20.0, 30.0],
            "default_left": [true, false, false, false, false],
        })
    }

    #[test]
    fn values_on_a_threshold_go_right() {
        let (forest, output) = read(&model(&tree())).expect("a good model");
        assert_eq!(output, Output::Value(Link::Identity));
        let score = |a: f64, b: f64| forest.score(|feature| [a, b][feature])[0];
        assert_eq!(score(1.4, 0.0), 10.5);
        assert_eq!(score(1.5, -2.0), 30.5);
        assert_eq!(score(1.5, f64::from((-2.0_f32).next_down())), 20.5);
        assert_eq!(score(f64::NAN, 0.0), 10.5);
        assert_eq!(score(2.0, f64::NAN), 30.5);
    }

    #[test]
    fn broken_trees_are_refused() {
        for (key, value, said) in [
            ("left_children", json!([1, -1, 0, -1, -1]), "two parents"),
            ("right_children", json!([1, -1, 4, -1, -1]), "two parents"),
            ("right_children", json!([9, -1, 4, -1, -1]), "no node 9"),
            ("right_children", json!([-1, -1, 4, -1, -1]), "no node -1"),
            ("right_children", json!([1]), "length"),
            ("split_indices", json!([2, 0, 1, 0, 0]), "feature 2"),
            ("split_type", json!([1, 0, 0, 0, 0]), "categories"),
            ("split_conditions", json!("no"), "not a list"),
            ("split_conditions", json!([1, 2, 3, 4, null]), "null"),
        ] {
            let mut tree = tree();
            tree[key] = value;
            let error = read(&model(&tree)).err().expect("a broken tree");
            assert!(error.contains(said) && error.contains("tree 0"), "{error}");
        }
        let empty = json!({"left_children": [], "right_children": [], "split_indices": [],
            "split_conditions": [], "default_left": []});
        assert!(read(&model(&empty)).is_err());
    }

    #[test]
    fn models_of_other_kinds_are_refused_with_a_reason() {
        for (pointer, value, said) in [
            (
                "/learner/objective/name",
                json!("survival:aft"),
                "survival:aft",
            ),
            (
                "/learner/gradient_booster/name",
                json!("gblinear"),
                "gbtree",
            ),
            (
                "/learner/learner_model_param/num_target",
                json!("2"),
                "targets",
            ),
            (
                "/learner/learner_model_param/base_score",
                json!("[1,2]"),
                "base score",
            ),
            (
                "/learner/learner_model_param/base_score",
                json!("x"),
                "base_score",
            ),
            (
                "/learner/gradient_booster/model/tree_info",
                json!([1]),
                "class 1",
            ),
            (
                "/learner/gradient_booster/model/tree_info",
                json!([]),
                "class",
            ),
        ] {
            let mut model = model(&tree());
            *model.pointer_mut(pointer).expect("a member") = value;
            let error = read(&model).err().expect("another kind");
            assert!(error.contains(said), "{error}");
        }
        assert!(read(&json!({"learner": 7})).is_err());
    }
}
