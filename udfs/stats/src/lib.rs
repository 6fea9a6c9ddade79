//! Running statistics: each row is answered from the rows up to it, in the order of the input.
//!
//! Every function keeps a state of its own (a *sequence*: one slot, input order), so that the answers do
//! not depend on how the rows are cut into batches. A null is skipped and gives null; so does a value
//! that is no number (NaN). The functions that end in `_int` take `int64` columns.

mod extremes;
mod totals;
mod weighted;
mod zscore;

pub use extremes::{RunningMax, RunningMin};
pub use totals::{RunningCount, RunningSum};
pub use weighted::{WeightedMean, WeightedMeanArgs};
pub use zscore::{RunningZscore, ZscoreArgs};
