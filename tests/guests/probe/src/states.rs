//! States: counters, a factor, a slow start, and one that remembers batch sizes.

use std::hint::black_box;

use wasmill_guest::{ArrowType, InitArgs, Rows, Writer, log, udf};

/// Where a counter begins and how it goes on.
#[derive(InitArgs)]
pub struct CounterArgs {
    /// The value before the first.
    #[init(default = 0)]
    pub start: i64,
    /// What each row adds.
    #[init(default = 1)]
    pub step: i64,
}

/// A number and its double, to be taken apart.
#[derive(ArrowType, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The number.
    pub n: i64,
    /// Twice the number.
    pub twice: i64,
}

/// Counts rows.
pub struct Counter {
    value: i64,
    step: i64,
}

#[udf]
impl Counter {
    /// Begins at `start`.
    pub fn init(args: CounterArgs) -> Self {
        Self {
            value: args.start,
            step: args.step,
        }
    }

    /// `start + step` for the first row, and so on.
    pub fn ctr(&mut self) -> i64 {
        self.value += self.step;
        self.value
    }

    /// As `ctr`, in a struct.
    pub fn ctr_pair(&mut self) -> Pair {
        let n = self.ctr();
        Pair { n, twice: 2 * n }
    }
}

/// Counts rows, but says that rows are independent.
pub struct Bump(Counter);

#[udf(state = "resource", volatility = "volatile")]
impl Bump {
    /// Begins at `start`.
    pub fn init(args: CounterArgs) -> Self {
        Self(Counter::init(args))
    }

    /// The next number of this slot.
    pub fn bump(&mut self) -> i64 {
        self.0.ctr()
    }
}

/// A factor.
#[derive(InitArgs)]
pub struct ScaleArgs {
    /// What to multiply by.
    pub k: i64,
}

/// Multiplies.
pub struct Scale(i64);

#[udf]
impl Scale {
    /// Logs the factor.
    pub fn init(args: ScaleArgs) -> Self {
        log::info!("scale init k={}", args.k);
        Self(args.k)
    }

    /// x times k.
    pub fn scale(&self, x: i64) -> i64 {
        x.wrapping_mul(self.0)
    }

    /// x and k.
    pub fn plus(&self, x: i64) -> i64 {
        x.wrapping_add(self.0)
    }

    /// Logs the end.
    pub fn close(self) {
        log::info!("scale close k={}", self.0);
    }
}

/// How slow to be.
#[derive(InitArgs)]
pub struct SlowArgs {
    /// Turns of an empty loop.
    #[init(default = 0)]
    pub spin: u64,
}

/// Takes its time to start.
pub struct Slow(u64);

#[udf]
impl Slow {
    /// Spins, then logs one line.
    pub fn init(args: SlowArgs) -> Self {
        let mut turns = 0;
        for turn in 0..args.spin {
            turns = black_box(turn) + 1;
        }
        log::info("slow init");
        Self(turns)
    }

    /// x plus 1.
    pub fn slow(&self, x: i64) -> i64 {
        debug_assert!(self.0 < u64::MAX);
        x.wrapping_add(1)
    }
}

/// Remembers the largest batch.
pub struct MaxBatch(i64);

#[udf(state = "resource", volatility = "volatile")]
impl MaxBatch {
    /// Has seen nothing.
    pub fn init() -> Self {
        Self(0)
    }

    /// The largest number of rows per call so far, this call included.
    #[udf(batch)]
    pub fn max_batch(&mut self, rows: Rows, out: &mut Writer<i64>) {
        self.0 = self.0.max(rows.0 as i64);
        out.fill(rows.0, |_| self.0);
    }
}

/// Weights of a score.
#[derive(InitArgs)]
pub struct ScoreArgs {
    /// What a minute of delay counts.
    #[init(default = 0.5)]
    pub delay: f64,
    /// What a mile of distance counts.
    #[init(default = 0.01)]
    pub distance: f64,
}

/// A model as small as can be: two weights.
pub struct Score(ScoreArgs);

#[udf]
impl Score {
    /// Keeps the weights.
    pub fn init(args: ScoreArgs) -> Self {
        Self(args)
    }

    /// The weighted sum, squeezed to between -1 and 1.
    pub fn score(&self, delay: i64, distance: i64) -> f64 {
        let sum = delay as f64 * self.0.delay - distance as f64 * self.0.distance;
        1.0 / (1.0 + sum.abs()) * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_counts_from_its_start() {
        let mut counter = Counter::init(CounterArgs { start: 10, step: 5 });
        assert_eq!((counter.ctr(), counter.ctr()), (15, 20));
        assert_eq!(counter.ctr_pair(), Pair { n: 25, twice: 50 });
    }

    #[test]
    fn a_bump_is_a_counter() {
        let mut bump = Bump::init(CounterArgs { start: 0, step: 1 });
        assert_eq!((bump.bump(), bump.bump()), (1, 2));
    }

    #[test]
    fn resources_use_their_arguments() {
        assert_eq!(Scale::init(ScaleArgs { k: 3 }).scale(4), 12);
        assert_eq!(Slow::init(SlowArgs { spin: 100 }).slow(4), 5);
    }
}
