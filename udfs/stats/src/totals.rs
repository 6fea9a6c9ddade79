//! Running sums and counts.

use wasmill_guest::udf;

/// The sum so far, of each of the two kinds of numbers.
#[derive(Default)]
pub struct RunningSum {
    sum: f64,
    /// What rounding has taken from `sum`.
    lost: f64,
    whole: i128,
}

#[udf]
impl RunningSum {
    /// Starts at 0.
    pub fn init() -> Self {
        Self::default()
    }

    /// Sum of the values up to each. Rounding errors do not add up (Neumaier's summation). NaN is
    /// skipped and gives null.
    pub fn running_sum(&mut self, x: f64) -> Option<f64> {
        if x.is_nan() {
            return None;
        }
        let sum = self.sum + x;
        self.lost += if self.sum.abs() >= x.abs() {
            (self.sum - sum) + x
        } else {
            (x - sum) + self.sum
        };
        self.sum = sum;
        // Beyond the finite numbers there is nothing to correct.
        Some(if sum.is_finite() {
            sum + self.lost
        } else {
            sum
        })
    }

    /// Sum of the integers up to each, exact.
    ///
    /// # Errors
    /// The row fails where the sum does not fit 64 bits.
    pub fn running_sum_int(&mut self, x: i64) -> Result<i64, String> {
        // Only the rows of centuries could fill 128 bits.
        self.whole = self.whole.saturating_add(i128::from(x));
        i64::try_from(self.whole)
            .map_err(|_| format!("the sum {} does not fit 64 bits", self.whole))
    }
}

/// How many values there were.
#[derive(Default)]
pub struct RunningCount(i64);

#[udf]
impl RunningCount {
    /// Starts at 0.
    pub fn init() -> Self {
        Self::default()
    }

    /// Number of values up to each, itself included. NaN is skipped and gives null.
    pub fn running_count(&mut self, x: f64) -> Option<i64> {
        if x.is_nan() {
            return None;
        }
        self.0 += 1;
        Some(self.0)
    }

    /// `running_count` of integers.
    pub fn running_count_int(&mut self, _x: i64) -> i64 {
        self.0 += 1;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_are_not_lost_beside_great_ones() {
        let mut state = RunningSum::init();
        let sums: Vec<_> = [1e16, 1.0, 1.0, -1e16]
            .iter()
            .map(|x| state.running_sum(*x))
            .collect();
        assert_eq!(sums, [Some(1e16), Some(1e16), Some(1e16 + 2.0), Some(2.0)]);
        let mut state = RunningSum::init();
        let last = (0..1_000_000).map(|_| state.running_sum(0.1)).last();
        assert_eq!(last, Some(Some(100_000.0)));
    }

    #[test]
    fn nan_is_skipped_and_infinity_stays() {
        let mut state = RunningSum::init();
        assert_eq!(state.running_sum(1.5), Some(1.5));
        assert_eq!(state.running_sum(f64::NAN), None);
        assert_eq!(state.running_sum(1.0), Some(2.5));
        assert_eq!(state.running_sum(f64::INFINITY), Some(f64::INFINITY));
        assert_eq!(state.running_sum(1.0), Some(f64::INFINITY));
    }

    #[test]
    fn a_sum_that_does_not_fit_fails_its_row_only() {
        let mut state = RunningSum::init();
        assert_eq!(state.running_sum_int(i64::MAX), Ok(i64::MAX));
        assert!(state.running_sum_int(1).is_err());
        assert_eq!(state.running_sum_int(-2), Ok(i64::MAX - 1));
    }

    #[test]
    fn counting_starts_at_one() {
        let mut state = RunningCount::init();
        assert_eq!(state.running_count(7.0), Some(1));
        assert_eq!(state.running_count(f64::NAN), None);
        assert_eq!(state.running_count(7.0), Some(2));
        assert_eq!(state.running_count_int(7), 3);
    }
}
