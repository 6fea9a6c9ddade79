//! Exponentially weighted means.

use wasmill_guest::{InitArgs, udf};

/// How fast older values lose weight: exactly one of `alpha`, `half_life` and `span`.
#[derive(InitArgs)]
pub struct WeightedMeanArgs {
    /// The share of the newest value: above 0, at most 1.
    pub alpha: Option<f64>,
    /// After how many values a weight has halved: above 0.
    pub half_life: Option<f64>,
    /// The span of an N-value moving average that is about as smooth: at least 1. Alpha is then
    /// 2 / (span + 1).
    pub span: Option<f64>,
    /// Whether the weights are made to add up to 1 also at the start. Otherwise the first value stands
    /// for all that were before it.
    #[init(default = true)]
    pub adjust: bool,
}

/// The mean so far.
pub struct WeightedMean {
    alpha: f64,
    adjust: bool,
    mean: f64,
    /// Total weight of the values so far, where the newest has 1; 0 without values.
    weight: f64,
}

#[udf]
impl WeightedMean {
    /// Starts without values.
    ///
    /// # Errors
    /// When not exactly one of `alpha`, `half_life` and `span` is given, or it is out of range.
    pub fn init(args: WeightedMeanArgs) -> Result<Self, String> {
        Ok(Self {
            alpha: alpha(&args)?,
            adjust: args.adjust,
            mean: 0.0,
            weight: 0.0,
        })
    }

    /// Mean of the values up to each, of which older ones weigh less; nulls do not age them. NaN and
    /// infinite values are skipped and give null.
    pub fn ewm_mean(&mut self, x: f64) -> Option<f64> {
        if !x.is_finite() {
            return None;
        }
        let share = if self.weight == 0.0 || self.adjust {
            self.weight = 1.0 + (1.0 - self.alpha) * self.weight;
            1.0 / self.weight
        } else {
            self.alpha
        };
        let change = x - self.mean;
        if change.is_finite() {
            self.mean += share * change;
        } else {
            // Only values near both ends of the range are that far apart.
            self.mean = share * x + (1.0 - share) * self.mean;
        }
        Some(self.mean)
    }

    /// `ewm_mean` of integers; those beyond 2^53 are rounded.
    pub fn ewm_mean_int(&mut self, x: i64) -> Option<f64> {
        self.ewm_mean(x as f64)
    }
}

fn alpha(args: &WeightedMeanArgs) -> Result<f64, String> {
    match (args.alpha, args.half_life, args.span) {
        (Some(alpha), None, None) if alpha > 0.0 && alpha <= 1.0 => Ok(alpha),
        (Some(alpha), None, None) => Err(format!(
            "`alpha` is {alpha}, but must be above 0 and at most 1"
        )),
        (None, Some(values), None) if values > 0.0 => {
            // 1 - 2^(-1/values), without cancellation for long half-lives.
            Ok(-(-std::f64::consts::LN_2 / values).exp_m1())
        }
        (None, Some(values), None) => Err(format!("`half_life` is {values}, but must be above 0")),
        (None, None, Some(span)) if span >= 1.0 => Ok(2.0 / (span + 1.0)),
        (None, None, Some(span)) => Err(format!("`span` is {span}, but must be at least 1")),
        _ => Err("give exactly one of `alpha`, `half_life` and `span`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(
        alpha: Option<f64>,
        half_life: Option<f64>,
        span: Option<f64>,
    ) -> Result<WeightedMean, String> {
        WeightedMean::init(WeightedMeanArgs {
            alpha,
            half_life,
            span,
            adjust: true,
        })
    }

    #[test]
    fn values_at_both_ends_of_the_range_have_a_mean() {
        let args = WeightedMeanArgs {
            alpha: Some(0.5),
            half_life: None,
            span: None,
            adjust: false,
        };
        let mut mean = WeightedMean::init(args).expect("good arguments");
        assert_eq!(mean.ewm_mean(f64::MAX), Some(f64::MAX));
        assert_eq!(mean.ewm_mean(-f64::MAX), Some(0.0));
    }

    #[test]
    fn adjusted_means_are_those_of_the_definition() {
        let values: Vec<f64> = (0..50).map(|n| f64::from(n * 29 % 23) - 7.0).collect();
        let mut state = state(Some(0.3), None, None).expect("good arguments");
        for end in 1..=values.len() {
            let weights = (0..end).map(|age| 0.7_f64.powi((end - 1 - age) as i32));
            let total: f64 = weights.clone().sum();
            let sum: f64 = weights.zip(&values).map(|(weight, x)| weight * x).sum();
            let found = state.ewm_mean(values[end - 1]).expect("a mean");
            assert!((found - sum / total).abs() < 1e-12);
        }
    }

    #[test]
    fn unadjusted_means_start_from_the_first_value() {
        let mut state = state(Some(0.25), None, None).expect("good arguments");
        state.adjust = false;
        assert_eq!(state.ewm_mean_int(8), Some(8.0));
        assert_eq!(state.ewm_mean(f64::NAN), None);
        assert_eq!(state.ewm_mean(f64::INFINITY), None);
        assert_eq!(state.ewm_mean_int(16), Some(10.0));
        assert_eq!(state.ewm_mean_int(6), Some(9.0));
    }

    #[test]
    fn the_three_ways_to_say_how_fast_agree() {
        let alpha = |state: Result<WeightedMean, String>| state.expect("good arguments").alpha;
        assert_eq!(alpha(state(None, None, Some(3.0))), 0.5);
        assert!((alpha(state(None, Some(1.0), None)) - 0.5).abs() < 1e-15);
        assert_eq!(alpha(state(None, None, Some(1.0))), 1.0);
        let slow = alpha(state(None, Some(1e12), None));
        assert!((slow - 6.931471805599453e-13).abs() < 1e-24, "{slow}");
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused() {
        for (alpha, half_life, span) in [
            (None, None, None),
            (Some(0.5), None, Some(3.0)),
            (Some(0.0), None, None),
            (Some(1.1), None, None),
            (Some(f64::NAN), None, None),
            (None, Some(0.0), None),
            (None, None, Some(0.5)),
        ] {
            assert!(state(alpha, half_life, span).is_err());
        }
    }
}
