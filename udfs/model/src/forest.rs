//! Decision trees, whose leaves add up to scores.

/// Trees that were checked: every walk from a root ends in a leaf, and asks for known features only.
pub(crate) struct Forest {
    nodes: Vec<Node>,
    trees: Vec<Tree>,
    /// The scores of a walk through no tree.
    start: Vec<f64>,
    /// What the sums of the leaves are multiplied by.
    scale: f64,
    /// Whether features lose what does not fit 32 bits first.
    narrow: bool,
    features: usize,
}

struct Tree {
    root: u32,
    /// The score that its leaves add to.
    score: usize,
}

/// A node of a tree. Its children come after it in the list of nodes.
enum Node {
    Leaf(f64),
    Split(Split, u32, u32),
}

/// The question of a node: is the feature at most the threshold? Then go left.
pub(crate) struct Split {
    pub feature: u32,
    pub threshold: f64,
    pub missing: Missing,
    /// Where missing values go.
    pub missing_left: bool,
}

/// Which values are missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Missing {
    /// NaN.
    Nan,
    /// NaN and 0.
    NanAndZero,
    /// None: NaN is seen as 0.
    Never,
}

/// Up to here a value is seen as 0 where zeros are missing (`kZeroThreshold` of LightGBM).
const ZERO: f64 = 1e-35_f32 as f64;

impl Split {
    fn goes_left(&self, value: f64) -> bool {
        let (value, missing) = match self.missing {
            Missing::Nan => (value, value.is_nan()),
            Missing::NanAndZero => (value, value.is_nan() || value.abs() <= ZERO),
            Missing::Never if value.is_nan() => (0.0, false),
            Missing::Never => (value, false),
        };
        if missing {
            self.missing_left
        } else {
            value <= self.threshold
        }
    }
}

impl Forest {
    /// A forest without trees: `start` has a score for each output.
    pub fn new(features: usize, start: Vec<f64>) -> Self {
        Self {
            nodes: Vec::new(),
            trees: Vec::new(),
            start,
            scale: 1.0,
            narrow: false,
            features,
        }
    }

    /// Makes features lose what does not fit 32 bits, as a library does that keeps them so.
    pub fn narrow_features(&mut self) {
        self.narrow = true;
    }

    /// Multiplies the sums of all leaves.
    pub fn scale(&mut self, scale: f64) {
        self.scale = scale;
    }

    /// Number of features of a row.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Number of scores.
    pub fn scores(&self) -> usize {
        self.start.len()
    }

    /// Number of trees.
    pub fn trees(&self) -> usize {
        self.trees.len()
    }

    /// Adds a leaf.
    pub fn leaf(&mut self, value: f64) -> Result<u32, String> {
        self.push(Node::Leaf(value))
    }

    /// Adds a split; its children, which follow, are said with [`Forest::children`].
    pub fn split(&mut self, split: Split) -> Result<u32, String> {
        if split.feature as usize >= self.features {
            return Err(format!(
                "a tree of the model asks for feature {}, and there are {}",
                split.feature, self.features
            ));
        }
        self.push(Node::Split(split, 0, 0))
    }

    fn push(&mut self, node: Node) -> Result<u32, String> {
        let number = u32::try_from(self.nodes.len());
        self.nodes.push(node);
        number.map_err(|_| "the model has more than 2^32 nodes".to_owned())
    }

    /// Says which nodes come after a split: both must have been added later than it.
    pub fn children(&mut self, split: u32, left_child: u32, right_child: u32) {
        debug_assert!(split < left_child && split < right_child);
        if let Some(Node::Split(_, left, right)) = self.nodes.get_mut(split as usize) {
            (*left, *right) = (left_child, right_child);
        }
    }

    /// Makes a tree of the nodes under a root, for one of the scores.
    pub fn tree(&mut self, root: u32, score: usize) -> Result<(), String> {
        if score >= self.start.len() {
            return Err(format!(
                "a tree of the model is for class {score}, and there are {}",
                self.start.len()
            ));
        }
        self.trees.push(Tree { root, score });
        Ok(())
    }

    /// The scores of a row; `feature` gives its features, NaN where one is missing.
    pub fn score(&self, feature: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.start.len()];
        for tree in &self.trees {
            sums[tree.score] += self.leaf_of(tree, &feature);
        }
        let scaled = sums.iter().zip(&self.start);
        scaled
            .map(|(sum, start)| start + sum * self.scale)
            .collect()
    }

    fn leaf_of(&self, tree: &Tree, feature: &impl Fn(usize) -> f64) -> f64 {
        let mut at = tree.root;
        loop {
            match &self.nodes[at as usize] {
                Node::Leaf(value) => return *value,
                Node::Split(split, left, right) => {
                    let value = feature(split.feature as usize);
                    let value = if self.narrow {
                        f64::from(value as f32)
                    } else {
                        value
                    };
                    // Children come after their parents, so that this ends.
                    at = if split.goes_left(value) {
                        *left
                    } else {
                        *right
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(missing: Missing) -> Split {
        Split {
            feature: 0,
            threshold: 0.5,
            missing,
            missing_left: false,
        }
    }

    #[test]
    fn missing_values_go_where_they_learned_to() {
        for (missing, nan_left, zero_left) in [
            (Missing::Nan, false, true),
            (Missing::NanAndZero, false, false),
            (Missing::Never, true, true),
        ] {
            assert_eq!(split(missing).goes_left(f64::NAN), nan_left, "{missing:?}");
            assert_eq!(split(missing).goes_left(0.0), zero_left, "{missing:?}");
            assert_eq!(split(missing).goes_left(1e-36), zero_left, "{missing:?}");
            assert!(split(missing).goes_left(0.5) && !split(missing).goes_left(0.6));
        }
    }

    #[test]
    fn leaves_add_up_by_score() {
        let mut forest = Forest::new(1, vec![10.0, 20.0]);
        for score in [0, 1, 1] {
            let root = forest.split(split(Missing::Nan)).expect("a known feature");
            let left = forest.leaf(1.0).expect("room");
            let right = forest.leaf(2.0).expect("room");
            forest.children(root, left, right);
            forest.tree(root, score).expect("a known score");
        }
        assert_eq!(forest.score(|_| 0.0), [11.0, 22.0]);
        assert_eq!(forest.score(|_| f64::NAN), [12.0, 24.0]);
        forest.scale(0.5);
        assert_eq!(forest.score(|_| 0.0), [10.5, 21.0]);
        let unknown = Split {
            feature: 1,
            ..split(Missing::Nan)
        };
        assert!(forest.split(unknown).is_err());
        assert!(forest.tree(0, 2).is_err());
    }

    #[test]
    fn narrow_features_are_compared_as_32_bits() {
        let mut forest = Forest::new(1, vec![0.0]);
        let root = forest.split(split(Missing::Nan)).expect("a known feature");
        let left = forest.leaf(1.0).expect("room");
        let right = forest.leaf(2.0).expect("room");
        forest.children(root, left, right);
        forest.tree(root, 0).expect("a known score");
        assert_eq!(forest.score(|_| 0.5_f64.next_up()), [2.0]);
        forest.narrow_features();
        assert_eq!(forest.score(|_| 0.5_f64.next_up()), [1.0]);
    }
}
