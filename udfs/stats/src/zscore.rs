//! Running z-scores, by Welford's method: no pass over earlier rows, and no squares that cancel out.

use wasmill_guest::{InitArgs, udf};

/// What a value is compared with.
#[derive(InitArgs)]
pub struct ZscoreArgs {
    /// Whether the value itself counts among those it is compared with. Leave it out to find values
    /// that are unlike all before them.
    #[init(default = true)]
    pub include_current: bool,
    /// Null is answered until there are that many values to compare with.
    #[init(default = 2, minimum = 1)]
    pub min_count: u32,
    /// 1 for the standard deviation of a sample (divides by n - 1), 0 for that of a population.
    #[init(default = 1, minimum = 0, maximum = 1)]
    pub ddof: u8,
}

/// Mean and spread of the values so far.
pub struct RunningZscore {
    args: ZscoreArgs,
    moments: Moments,
}

#[udf]
impl RunningZscore {
    /// Starts without values.
    pub fn init(args: ZscoreArgs) -> Self {
        Self {
            args,
            moments: Moments::default(),
        }
    }

    /// How many standard deviations a value is above the mean of the values up to it; null while there
    /// are too few of them, and where all are equal. NaN and infinite values are skipped and give null.
    pub fn running_zscore(&mut self, x: f64) -> Option<f64> {
        if !x.is_finite() {
            return None;
        }
        if self.args.include_current {
            self.moments.add(x);
        }
        let score = self.moments.score(x, &self.args);
        if !self.args.include_current {
            self.moments.add(x);
        }
        score
    }

    /// `running_zscore` of integers; those beyond 2^53 are rounded.
    pub fn running_zscore_int(&mut self, x: i64) -> Option<f64> {
        self.running_zscore(x as f64)
    }
}

/// The values are counted in a unit, a power of two, so that squares of very large and very small ones
/// stay among the numbers of 64 bits, and nothing is rounded for it.
#[derive(Default)]
struct Moments {
    count: u64,
    /// 0 as long as all values are.
    unit: f64,
    mean: f64,
    /// Sum of the squares of the distances from the mean.
    squares: f64,
}

impl Moments {
    fn add(&mut self, x: f64) {
        let x = self.in_unit(x);
        self.count += 1;
        let from_old_mean = x - self.mean;
        self.mean += from_old_mean / self.count as f64;
        self.squares += from_old_mean * (x - self.mean);
    }

    fn score(&mut self, x: f64, args: &ZscoreArgs) -> Option<f64> {
        let x = self.in_unit(x);
        let freedom = self.count.saturating_sub(u64::from(args.ddof));
        if self.count < u64::from(args.min_count) || freedom == 0 {
            return None;
        }
        let deviation = (self.squares / freedom as f64).sqrt();
        (deviation > 0.0).then(|| (x - self.mean) / deviation)
    }

    /// `x` in the unit, which grows when `x` would be too large in it.
    fn in_unit(&mut self, x: f64) -> f64 {
        /// Squares of values up to that many units are far from overflow, however many there are.
        const MOST: f64 = (1_u128 << 127) as f64;
        if x == 0.0 {
            return 0.0;
        }
        if self.unit == 0.0 {
            self.unit = power_of_two(x);
        } else if (x / self.unit).abs() > MOST {
            let grown = power_of_two(x);
            let shrink = self.unit / grown;
            self.unit = grown;
            self.mean *= shrink;
            self.squares *= shrink * shrink;
        }
        x / self.unit
    }
}

/// The power of two at or below the magnitude of `x`.
fn power_of_two(x: f64) -> f64 {
    const EXPONENT: u64 = 0x7ff << 52;
    f64::from_bits(x.to_bits() & EXPONENT).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmill_guest::testing::{Instance, column, handle};

    fn args() -> ZscoreArgs {
        ZscoreArgs {
            include_current: true,
            min_count: 2,
            ddof: 1,
        }
    }

    /// By the definition, over all values up to each.
    fn expected(values: &[f64], args: &ZscoreArgs) -> Vec<Option<f64>> {
        let score = |at: usize| {
            let with = &values[..at + usize::from(args.include_current)];
            let freedom = with.len().checked_sub(usize::from(args.ddof))?;
            if with.len() < args.min_count as usize || freedom == 0 {
                return None;
            }
            let mean = with.iter().sum::<f64>() / with.len() as f64;
            let squares: f64 = with.iter().map(|x| (x - mean) * (x - mean)).sum();
            let deviation = (squares / freedom as f64).sqrt();
            (deviation > 0.0).then(|| (values[at] - mean) / deviation)
        };
        (0..values.len()).map(score).collect()
    }

    fn assert_close(found: &[Option<f64>], expected: &[Option<f64>]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            match (found, expected) {
                (Some(found), Some(expected)) => {
                    assert!((found - expected).abs() < 1e-9, "{found} {expected}");
                }
                _ => assert_eq!(found, expected),
            }
        }
    }

    #[test]
    fn scores_are_those_of_the_definition() {
        let values: Vec<f64> = (0..200)
            .map(|n| f64::from(n * n % 37) - 11.5 + 1e6)
            .collect();
        for include_current in [true, false] {
            for ddof in [0, 1] {
                for min_count in [1, 2, 20] {
                    let args = || ZscoreArgs {
                        include_current,
                        min_count,
                        ddof,
                    };
                    let mut state = RunningZscore::init(args());
                    let found: Vec<_> = values.iter().map(|x| state.running_zscore(*x)).collect();
                    assert_close(&found, &expected(&values, &args()));
                }
            }
        }
    }

    #[test]
    fn scores_do_not_depend_on_the_unit_of_the_values() {
        let values: Vec<f64> = (0..50).map(|n| f64::from(n * n % 37) - 11.5).collect();
        let wanted = expected(&values, &args());
        for scale in [
            2_f64.powi(-1020),
            2_f64.powi(-700),
            2_f64.powi(660),
            2_f64.powi(1017),
        ] {
            let mut state = RunningZscore::init(args());
            let found: Vec<_> = values
                .iter()
                .map(|x| state.running_zscore(x * scale))
                .collect();
            assert_close(&found, &wanted);
        }
    }

    #[test]
    fn large_values_after_small_ones_have_scores() {
        let mut state = RunningZscore::init(args());
        for x in [0.0, 1e-300, 1.0, 2.0] {
            state.running_zscore(x);
        }
        // Beside these the others are 0.
        let score = state.running_zscore(1e300).expect("a score");
        assert!((score - 4.0 / 5_f64.sqrt()).abs() < 1e-9, "{score}");
        let score = state.running_zscore(-f64::MAX).expect("a score");
        assert!((score + 5.0 / 6_f64.sqrt()).abs() < 1e-9, "{score}");
        assert!(state.running_zscore(f64::MAX).is_some_and(f64::is_finite));
    }

    #[test]
    fn equal_values_have_no_score() {
        let mut state = RunningZscore::init(args());
        for _ in 0..10 {
            assert_eq!(state.running_zscore(0.1), None);
        }
        assert!(state.running_zscore_int(3).is_some_and(|score| score > 2.0));
    }

    #[test]
    fn what_is_no_finite_number_is_skipped() {
        let values = [1.0, f64::NAN, 3.0, f64::INFINITY, 8.0];
        let mut state = RunningZscore::init(args());
        let found: Vec<_> = values.iter().map(|x| state.running_zscore(*x)).collect();
        let wanted = expected(&[1.0, 3.0, 8.0], &args());
        assert_close(&found, &[wanted[0], None, wanted[1], None, wanted[2]]);
    }

    #[test]
    fn batches_may_be_cut_anywhere_and_nulls_are_skipped() {
        let values: Vec<Option<f64>> = (0..100)
            .map(|n| (n % 7 != 0).then(|| f64::from(n * 31 % 17)))
            .collect();
        let (instance, state) = (Instance::new(), handle!(RunningZscore));
        let mut answers = Vec::new();
        for size in [1, 3, 100] {
            let handle = instance.init(&state, "{}").expect("a state");
            let mut all = Vec::new();
            for batch in values.chunks(size) {
                let x = column(batch.iter().copied());
                let answer = instance
                    .call_on(handle, &state.methods[0], batch.len(), &[x])
                    .expect("the call works");
                // The host makes rows null whose argument is.
                let rows = answer.rows::<Option<f64>>().into_iter();
                all.extend(rows.zip(batch).map(|(row, x)| x.and(row)));
            }
            answers.push(all);
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
        let there: Vec<f64> = values.iter().flatten().copied().collect();
        let mut wanted = expected(&there, &args()).into_iter();
        let wanted: Vec<_> = values
            .iter()
            .map(|x| x.and_then(|_| wanted.next().flatten()))
            .collect();
        assert_close(&answers[0], &wanted);
    }
}
