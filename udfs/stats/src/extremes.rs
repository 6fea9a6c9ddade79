//! Running minima and maxima.

use wasmill_guest::udf;

/// The least value so far, of each of the two kinds of numbers.
#[derive(Default)]
pub struct RunningMin {
    least: Option<f64>,
    least_int: Option<i64>,
}

#[udf]
impl RunningMin {
    /// Starts without values.
    pub fn init() -> Self {
        Self::default()
    }

    /// Least of the values up to each. NaN is skipped and gives null.
    pub fn running_min(&mut self, x: f64) -> Option<f64> {
        if x.is_nan() {
            return None;
        }
        self.least = Some(self.least.map_or(x, |least| least.min(x)));
        self.least
    }

    /// Least of the integers up to each.
    pub fn running_min_int(&mut self, x: i64) -> i64 {
        *self
            .least_int
            .insert(self.least_int.map_or(x, |least| least.min(x)))
    }
}

/// The greatest value so far, of each of the two kinds of numbers.
#[derive(Default)]
pub struct RunningMax {
    greatest: Option<f64>,
    greatest_int: Option<i64>,
}

#[udf]
impl RunningMax {
    /// Starts without values.
    pub fn init() -> Self {
        Self::default()
    }

    /// Greatest of the values up to each. NaN is skipped and gives null.
    pub fn running_max(&mut self, x: f64) -> Option<f64> {
        if x.is_nan() {
            return None;
        }
        self.greatest = Some(self.greatest.map_or(x, |greatest| greatest.max(x)));
        self.greatest
    }

    /// Greatest of the integers up to each.
    pub fn running_max_int(&mut self, x: i64) -> i64 {
        *self
            .greatest_int
            .insert(self.greatest_int.map_or(x, |greatest| greatest.max(x)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_only_move_outwards() {
        let values = [3.0, f64::NAN, -1.0, 7.0, f64::INFINITY, f64::NEG_INFINITY];
        let (mut min, mut max) = (RunningMin::init(), RunningMax::init());
        let least: Vec<_> = values.iter().map(|x| min.running_min(*x)).collect();
        let greatest: Vec<_> = values.iter().map(|x| max.running_max(*x)).collect();
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(
            least,
            [
                Some(3.0),
                None,
                Some(-1.0),
                Some(-1.0),
                Some(-1.0),
                Some(low)
            ]
        );
        assert_eq!(
            greatest,
            [
                Some(3.0),
                None,
                Some(3.0),
                Some(7.0),
                Some(high),
                Some(high)
            ]
        );
    }

    #[test]
    fn integers_are_compared_as_integers() {
        // Both are 2^53 as a float.
        let (a, b) = (9_007_199_254_740_992, 9_007_199_254_740_993);
        let mut max = RunningMax::init();
        assert_eq!([max.running_max_int(a), max.running_max_int(b)], [a, b]);
        let mut min = RunningMin::init();
        assert_eq!([min.running_min_int(b), min.running_min_int(a)], [b, a]);
        assert_eq!(min.running_min_int(i64::MAX), a);
    }
}
