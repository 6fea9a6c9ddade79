//! The batches that a function is tried on.

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::datatypes::DataType;

use super::values::{Kind, Maker, extremes, has_validity, is_wide, pick, with_nulls};

/// Rows of an ordinary batch.
const ROWS: usize = 100;
/// Rows of a batch in which extremes meet each other.
const MOST_ROWS: usize = 1_024;
/// The same for types of many fields.
const MOST_WIDE_ROWS: usize = 64;
/// Rows of a batch of long values.
const LONG_ROWS: usize = 4;

/// Columns under a name.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) name: &'static str,
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
}

impl Batch {
    /// Some of the rows, without a copy: the columns get an offset.
    pub(super) fn slice(&self, start: usize, rows: usize) -> Batch {
        let start = start.min(self.rows);
        let rows = rows.min(self.rows.saturating_sub(start));
        Batch {
            name: self.name,
            columns: self.columns.iter().map(|c| c.slice(start, rows)).collect(),
            rows,
        }
    }

    pub(super) fn named(self, name: &'static str) -> Batch {
        Batch { name, ..self }
    }
}

/// The batches for one choice of types.
pub(super) struct Batches {
    pub(super) everyday: Batch,
    pub(super) extremes: Batch,
    pub(super) long: Batch,
    /// All values null that may be. `None` where none may.
    pub(super) all_null: Option<Batch>,
    /// Nulls here and there, with extremes between and under them; the second is the same with other
    /// values under the nulls.
    pub(super) mixed: Option<(Batch, Batch)>,
}

impl Batches {
    /// `nulls` says for each column whether it may hold some.
    pub(super) fn new(types: &[DataType], nulls: &[bool]) -> Result<Self, String> {
        let mut maker = Maker::new();
        let mut columns = |kind, rows: &dyn Fn(&DataType) -> usize| {
            types
                .iter()
                .map(|t| maker.array(t, rows(t), kind))
                .collect::<Result<Vec<_>, _>>()
        };
        let everyday = same_length("everyday values", columns(Kind::Everyday, &|_| ROWS)?, ROWS);
        let long = same_length(
            "long values",
            columns(Kind::Long, &|_| LONG_ROWS)?,
            LONG_ROWS,
        );
        let pool = columns(Kind::Extreme, &extremes)?;
        let lengths: Vec<usize> = pool.iter().map(|p| p.len()).collect();
        let most = match types.iter().any(is_wide) {
            true => MOST_WIDE_ROWS,
            false => MOST_ROWS,
        };
        let (places, rows) = meetings(&lengths, most, &mut maker);
        let extremes = Batch {
            name: "extreme values",
            columns: picked(&pool, &places)?,
            rows,
        };
        let may: Vec<bool> = nulls
            .iter()
            .zip(types)
            .map(|(nulls, t)| *nulls && has_validity(t))
            .collect();
        let some = may.contains(&true);
        let all_null = some.then(|| {
            let columns = extremes.columns.iter().zip(&may);
            Batch {
                name: "nothing but nulls",
                columns: columns
                    .map(|(column, may)| match may {
                        // Every other one keeps extremes under its nulls.
                        true => with_nulls(column, vec![false; rows])
                            .unwrap_or_else(|| new_null_array(column.data_type(), rows)),
                        false => ArrayRef::clone(column),
                    })
                    .collect(),
                rows,
            }
        });
        let mixed = match some {
            true => Some(mixed(&pool, &places, &may, rows)?),
            false => None,
        };
        Ok(Batches {
            everyday,
            extremes,
            long,
            all_null,
            mixed,
        })
    }
}

/// Columns may be shorter than was asked for where their values are large.
fn same_length(name: &'static str, columns: Vec<ArrayRef>, wanted: usize) -> Batch {
    let rows = columns.iter().map(|c| c.len()).min().unwrap_or(wanted);
    Batch {
        name,
        columns: columns.iter().map(|c| c.slice(0, rows)).collect(),
        rows,
    }
}

/// Which extremes stand in each row: every one with every other where that is not too many rows.
fn meetings(lengths: &[usize], most: usize, maker: &mut Maker) -> (Vec<Vec<u32>>, usize) {
    let all = lengths
        .iter()
        .try_fold(1_usize, |product, n| product.checked_mul(*n))
        .unwrap_or(usize::MAX);
    let rows = match lengths.is_empty() {
        true => ROWS,
        false => all.clamp(1, most),
    };
    let mut stride = 1_usize;
    let places = lengths
        .iter()
        .map(|length| {
            let own = stride;
            stride = stride.saturating_mul(*length);
            (0..rows)
                .map(|row| {
                    let place = match (all <= most, row < *length) {
                        (true, _) => row.checked_div(own).unwrap_or(0),
                        // Each at least once, then by chance.
                        (false, true) => row,
                        (false, false) => maker.below(*length),
                    };
                    u32::try_from(place.checked_rem(*length).unwrap_or(0)).unwrap_or(0)
                })
                .collect()
        })
        .collect();
    (places, rows)
}

fn picked(pool: &[ArrayRef], places: &[Vec<u32>]) -> Result<Vec<ArrayRef>, String> {
    pool.iter()
        .zip(places)
        .map(|(pool, places)| pick(pool, &UInt32Array::from(places.clone())))
        .collect::<Result<_, _>>()
        .map_err(|e| format!("extreme values cannot be put together: {e}"))
}

fn mixed(
    pool: &[ArrayRef],
    places: &[Vec<u32>],
    may: &[bool],
    rows: usize,
) -> Result<(Batch, Batch), String> {
    // Another pattern for each column, so that nulls stand beside each other and alone.
    let valid = |column: usize| -> Vec<bool> {
        (0..rows)
            .map(|row| {
                row.saturating_mul(7)
                    .saturating_add(column.saturating_mul(5))
                    % 11
                    > 2
            })
            .collect()
    };
    let other_places: Vec<Vec<u32>> = places
        .iter()
        .zip(pool)
        .enumerate()
        .map(|(column, (places, pool))| {
            let length = u32::try_from(pool.len()).unwrap_or(1);
            let moved = |place: u32| place.wrapping_add(1).checked_rem(length).unwrap_or(0);
            places
                .iter()
                .zip(valid(column))
                .map(|(place, valid)| if valid { *place } else { moved(*place) })
                .collect()
        })
        .collect();
    let batch = |places: &[Vec<u32>], name| -> Result<Batch, String> {
        let columns = picked(pool, places)?;
        let columns = columns.into_iter().enumerate();
        Ok(Batch {
            name,
            columns: columns
                .map(|(i, column)| match may.get(i) {
                    Some(true) => with_nulls(&column, valid(i)).unwrap_or(column),
                    _ => column,
                })
                .collect(),
            rows,
        })
    };
    Ok((
        batch(places, "nulls among extreme values")?,
        batch(&other_places, "nulls over other values")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extreme_meets_every_other() {
        let (places, rows) = meetings(&[3, 4], MOST_ROWS, &mut Maker::new());
        assert_eq!(rows, 12);
        let mut pairs: Vec<(u32, u32)> = (0..rows).map(|r| (places[0][r], places[1][r])).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 12);
        let (places, rows) = meetings(&[24, 24, 24], MOST_ROWS, &mut Maker::new());
        assert_eq!(rows, MOST_ROWS);
        assert!((0..24).all(|n| places.iter().all(|column| column.contains(&n))));
    }

    #[test]
    fn mixed_batches_differ_only_under_nulls() {
        let types = [DataType::Int64, DataType::Utf8];
        let batches = Batches::new(&types, &[true, false]).unwrap();
        let (one, other) = batches.mixed.unwrap();
        assert_eq!(one.columns[0].to_data(), other.columns[0].to_data());
        let bytes = |b: &Batch| b.columns[0].to_data().buffers()[0].clone();
        assert_ne!(bytes(&one), bytes(&other));
        assert!(one.columns[0].null_count() > 0);
        assert_eq!(one.columns[1].null_count(), 0);
        assert_eq!(batches.all_null.unwrap().columns[0].null_count(), one.rows);
    }
}
