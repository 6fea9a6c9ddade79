//! What the raw scores of a model mean.

/// From scores to what is predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    /// One score is a value.
    Value(Link),
    /// One score is for the second of two classes.
    TwoClasses {
        /// What the score is multiplied by before it becomes a probability.
        steepness: f64,
    },
    /// A score for each class; together they make probabilities.
    Softmax,
    /// A score for each class; each makes a probability of its own, and they need not add up to 1.
    OneAgainstRest {
        /// What the scores are multiplied by.
        steepness: f64,
    },
}

/// From a score to a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Link {
    Identity,
    Exp,
    Logistic,
    /// The square, with the sign of the score.
    SignedSquare,
}

impl Link {
    pub fn value(self, score: f64) -> f64 {
        match self {
            Self::Identity => score,
            Self::Exp => score.exp(),
            Self::Logistic => logistic(score),
            Self::SignedSquare => score * score.abs(),
        }
    }
}

pub(crate) fn logistic(score: f64) -> f64 {
    1.0 / (1.0 + (-score).exp())
}

impl Output {
    /// How many classes there are, by the number of scores; 0 for values.
    pub fn classes(self, scores: usize) -> usize {
        match self {
            Self::Value(_) => 0,
            Self::TwoClasses { .. } => 2,
            Self::Softmax | Self::OneAgainstRest { .. } => scores,
        }
    }

    /// One probability for each class; nothing for values.
    pub fn probabilities(self, mut scores: Vec<f64>) -> Vec<f64> {
        match self {
            Self::Value(_) => Vec::new(),
            Self::TwoClasses { steepness } => {
                let second = logistic(steepness * scores.first().copied().unwrap_or(0.0));
                vec![1.0 - second, second]
            }
            Self::Softmax => {
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                scores
                    .iter_mut()
                    .for_each(|score| *score = (*score - top).exp());
                let total: f64 = scores.iter().sum();
                scores.iter_mut().for_each(|score| *score /= total);
                scores
            }
            Self::OneAgainstRest { steepness } => {
                scores
                    .iter_mut()
                    .for_each(|score| *score = logistic(steepness * *score));
                scores
            }
        }
    }
}

/// Place of the greatest, the first of equal ones.
pub(crate) fn greatest(values: &[f64]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_hold_for_extreme_scores() {
        let certain = Output::TwoClasses { steepness: 1.0 }.probabilities(vec![-1e6]);
        assert_eq!(certain, [1.0, 0.0]);
        let three = Output::Softmax.probabilities(vec![1e6, -1e6, 1e6]);
        assert_eq!(three, [0.5, 0.0, 0.5]);
        assert_eq!(greatest(&three), 0);
        assert_eq!(greatest(&[0.1, 0.3, 0.2]), 1);
        let own = Output::OneAgainstRest { steepness: 2.0 }.probabilities(vec![0.0, 1e6]);
        assert_eq!(own, [0.5, 1.0]);
    }

    #[test]
    fn values_are_linked_to_scores() {
        assert_eq!(Link::Identity.value(-3.0), -3.0);
        assert_eq!(Link::Exp.value(0.0), 1.0);
        assert_eq!(Link::Logistic.value(0.0), 0.5);
        assert_eq!(Link::SignedSquare.value(-3.0), -9.0);
        assert!(Output::Value(Link::Exp).probabilities(vec![1.0]).is_empty());
    }
}
