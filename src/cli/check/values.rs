//! Arrays of any type, made up: everyday values, extreme ones, long ones. The same calls in the same
//! order give the same arrays.

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{
    Array, ArrayData, ArrayRef, BinaryArray, BooleanArray, NullArray, StringArray, StructArray,
    UInt32Array, make_array,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit, i256};
use arrow::error::ArrowError;

mod flat;
mod nested;
#[cfg(test)]
mod tests;

use self::flat::{BYTES, DAYS, FLOATS, INTEGERS, SECONDS_A_DAY, TEXTS, scaled};

/// Which values are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Such as real columns hold: no nulls, nothing odd.
    Everyday,
    /// The ends of the range, zeros, what is not a number, odd texts; nulls inside nested values.
    Extreme,
    /// Texts and bytes of 100 KiB, lists of thousands of elements, empty ones between them.
    Long,
}

/// Fields of a struct that are long, so that rows of many fields still fit.
const LONG_FIELDS: usize = 4;
/// Rows of long values at most.
const LONG_ROWS: usize = 16;
/// Bytes that an array may take, so that no type can ask for all memory.
const MOST_BYTES: u64 = 32 << 20;

/// Makes arrays.
#[derive(Debug)]
pub(crate) struct Maker {
    dice: u64,
}

impl Maker {
    pub(crate) fn new() -> Self {
        Maker {
            dice: 0x5eed_0fa1_1000_0001,
        }
    }

    /// SplitMix64 (Steele, Lea and Flood 2014).
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        usize::try_from(self.roll().checked_rem(n).unwrap_or(0)).unwrap_or(0)
    }

    /// `rows` values without nulls at the top, fewer where they would take too much memory.
    ///
    /// # Errors
    /// When a single value would, or the type cannot be made.
    pub(crate) fn array(
        &mut self,
        data_type: &DataType,
        rows: usize,
        kind: Kind,
    ) -> Result<ArrayRef, String> {
        let fit = MOST_BYTES.checked_div(weight(data_type, 0)).unwrap_or(0);
        let rows = match kind {
            Kind::Long => rows.min(LONG_ROWS),
            _ => rows,
        };
        let rows = match usize::try_from(fit) {
            Ok(0) => return Err(format!("values of the type {data_type} are too large")),
            Ok(fit) => rows.min(fit),
            Err(_) => rows,
        };
        self.values(data_type, rows, kind, 0)
            .map_err(|e| format!("values of the type {data_type} cannot be made: {e}"))
    }

    fn values(
        &mut self,
        data_type: &DataType,
        rows: usize,
        kind: Kind,
        depth: usize,
    ) -> Result<ArrayRef, ArrowError> {
        use DataType as T;
        let t = data_type;
        Ok(match t {
            T::Null => Arc::new(NullArray::new(rows)),
            T::Boolean => match kind {
                Kind::Everyday => (0..rows)
                    .map(|_| Some(self.below(2) == 1))
                    .collect::<BooleanArray>()
                    .into_ref(),
                _ => (0..rows)
                    .map(|row| Some(row.is_multiple_of(2)))
                    .collect::<BooleanArray>()
                    .into_ref(),
            },
            T::Int8 => self.integers::<Int8Type>(t, rows, kind),
            T::Int16 => self.integers::<Int16Type>(t, rows, kind),
            T::Int32 => self.integers::<Int32Type>(t, rows, kind),
            T::Int64 => self.integers::<Int64Type>(t, rows, kind),
            T::UInt8 => self.integers::<UInt8Type>(t, rows, kind),
            T::UInt16 => self.integers::<UInt16Type>(t, rows, kind),
            T::UInt32 => self.integers::<UInt32Type>(t, rows, kind),
            T::UInt64 => self.integers::<UInt64Type>(t, rows, kind),
            T::Float16 | T::Float32 | T::Float64 => {
                let wide = self.primitive::<Float64Type>(&T::Float64, rows, kind, &FLOATS, |n| {
                    (n % 2_000_000) as f64 / 1_000.0 - 180.0
                });
                cast(&wide, t)?
            }
            T::Date32 => self.integers_among::<Date32Type>(t, rows, kind, &DAYS, |n| {
                18_000_i64.saturating_add((n % 2_000) as i64)
            }),
            T::Date64 => {
                let milliseconds = scaled(&DAYS, SECONDS_A_DAY.saturating_mul(1_000));
                self.integers_among::<Date64Type>(t, rows, kind, &milliseconds, |n| {
                    18_000_i64
                        .saturating_add((n % 2_000) as i64)
                        .saturating_mul(SECONDS_A_DAY * 1_000)
                })
            }
            T::Time32(TimeUnit::Second) => self.times::<Time32SecondType>(t, rows, kind, 1),
            T::Time32(_) => self.times::<Time32MillisecondType>(t, rows, kind, 1_000),
            T::Time64(TimeUnit::Microsecond) => {
                self.times::<Time64MicrosecondType>(t, rows, kind, 1_000_000)
            }
            T::Time64(_) => self.times::<Time64NanosecondType>(t, rows, kind, 1_000_000_000),
            T::Timestamp(unit, _) => match unit {
                TimeUnit::Second => self.instants::<TimestampSecondType>(t, rows, kind, 1),
                TimeUnit::Millisecond => {
                    self.instants::<TimestampMillisecondType>(t, rows, kind, 1_000)
                }
                TimeUnit::Microsecond => {
                    self.instants::<TimestampMicrosecondType>(t, rows, kind, 1_000_000)
                }
                TimeUnit::Nanosecond => {
                    self.instants::<TimestampNanosecondType>(t, rows, kind, 1_000_000_000)
                }
            },
            T::Duration(unit) => match unit {
                TimeUnit::Second => self.integers::<DurationSecondType>(t, rows, kind),
                TimeUnit::Millisecond => self.integers::<DurationMillisecondType>(t, rows, kind),
                TimeUnit::Microsecond => self.integers::<DurationMicrosecondType>(t, rows, kind),
                TimeUnit::Nanosecond => self.integers::<DurationNanosecondType>(t, rows, kind),
            },
            T::Interval(IntervalUnit::YearMonth) => {
                self.integers::<IntervalYearMonthType>(t, rows, kind)
            }
            T::Interval(IntervalUnit::DayTime) => {
                let extremes = [(0, 0), (1, -1), (i32::MIN, i32::MAX), (i32::MAX, i32::MIN)]
                    .map(|(days, ms)| IntervalDayTime::new(days, ms));
                self.primitive::<IntervalDayTimeType>(t, rows, kind, &extremes, |n| {
                    IntervalDayTime::new((n % 30) as i32, (n % 1_000) as i32)
                })
            }
            T::Interval(IntervalUnit::MonthDayNano) => {
                let extremes = [
                    (0, 0, 0),
                    (1, -1, 1),
                    (i32::MIN, i32::MAX, i64::MIN),
                    (i32::MAX, i32::MIN, i64::MAX),
                ]
                .map(|(months, days, ns)| IntervalMonthDayNano::new(months, days, ns));
                self.primitive::<IntervalMonthDayNanoType>(t, rows, kind, &extremes, |n| {
                    IntervalMonthDayNano::new((n % 12) as i32, (n % 30) as i32, (n % 1_000) as i64)
                })
            }
            T::Decimal32(digits, _) => self.decimals::<Decimal32Type>(t, rows, kind, *digits),
            T::Decimal64(digits, _) => self.decimals::<Decimal64Type>(t, rows, kind, *digits),
            T::Decimal128(digits, _) => self.decimals::<Decimal128Type>(t, rows, kind, *digits),
            T::Decimal256(digits, _) => {
                let nines = "9".repeat(usize::from(*digits));
                let most = i256::from_string(&nines).unwrap_or(i256::ONE);
                let extremes = [
                    i256::ZERO,
                    i256::ONE,
                    i256::MINUS_ONE,
                    most,
                    most.wrapping_neg(),
                ];
                self.primitive::<Decimal256Type>(t, rows, kind, &extremes, |n| {
                    i256::from_i128(i128::from(n % 100_000)).min(most)
                })
            }
            T::Utf8 | T::LargeUtf8 | T::Utf8View => {
                let texts: StringArray = (0..rows).map(|row| Some(self.text(row, kind))).collect();
                cast(&texts, t)?
            }
            T::Binary | T::LargeBinary | T::BinaryView => {
                let values: BinaryArray =
                    (0..rows).map(|row| Some(self.bytes(row, kind))).collect();
                cast(&values, t)?
            }
            T::FixedSizeBinary(size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                let mut bytes = Vec::with_capacity(rows.saturating_mul(size));
                for row in 0..rows {
                    let (fill, steps) = match (kind, row % 3) {
                        (Kind::Everyday, _) => (self.roll() as u8, true),
                        (_, 0) => (0, false),
                        (_, 1) => (0xff, false),
                        _ => (0, true),
                    };
                    bytes.extend((0..size).map(|i| match steps {
                        true => fill.wrapping_add(i as u8),
                        false => fill,
                    }));
                }
                built(t, rows, vec![Buffer::from_vec(bytes)], Vec::new())?
            }
            T::List(item) => self.list::<i32>(item, rows, kind, depth)?,
            T::LargeList(item) => self.list::<i64>(item, rows, kind, depth)?,
            T::ListView(item) => self.list_view::<i32>(item, rows, kind, depth)?,
            T::LargeListView(item) => self.list_view::<i64>(item, rows, kind, depth)?,
            T::FixedSizeList(item, size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                let items = self.child(item, rows.saturating_mul(size), kind, depth)?;
                built(t, rows, Vec::new(), vec![items.to_data()])?
            }
            T::Struct(fields) if fields.is_empty() => {
                Arc::new(StructArray::new_empty_fields(rows, None))
            }
            T::Struct(fields) => {
                let columns = fields
                    .iter()
                    .enumerate()
                    .map(|(i, field)| match kind {
                        Kind::Long if i < LONG_FIELDS => {
                            self.values(field.data_type(), rows, kind, depth)
                        }
                        _ => self.child(field, rows, kind, depth),
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new(fields.clone(), columns, None)?)
            }
            T::Map(entries, sorted) => self.map(entries, *sorted, rows, kind, depth)?,
            T::Dictionary(keys, values) => self.dictionary(t, keys, values, rows, kind, depth)?,
            T::RunEndEncoded(ends, values) => self.runs(t, [ends, values], rows, kind, depth)?,
            T::Union(fields, mode) => self.union(fields, *mode, rows, kind, depth)?,
        })
    }

    /// Values inside others: with nulls where they may have some.
    fn child(
        &mut self,
        field: &Field,
        rows: usize,
        kind: Kind,
        depth: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let kind = match kind {
            Kind::Long => Kind::Extreme,
            other => other,
        };
        let array = self.values(field.data_type(), rows, kind, deeper(depth))?;
        if kind == Kind::Everyday || !field.is_nullable() {
            return Ok(array);
        }
        let valid = (0..rows).map(|row| row % 4 != 3).collect();
        Ok(with_nulls(&array, valid).unwrap_or(array))
    }
}

/// How many values of the kind [`Kind::Extreme`] differ: as many rows show them all.
pub(crate) fn extremes(data_type: &DataType) -> usize {
    use DataType as T;
    match data_type {
        T::Null => 1,
        T::Boolean => 2,
        T::Utf8 | T::LargeUtf8 | T::Utf8View => TEXTS.len(),
        T::Binary | T::LargeBinary | T::BinaryView => BYTES.len(),
        t if t.is_integer() || matches!(t, T::Duration(_)) => INTEGERS.len(),
        t if t.is_floating() => FLOATS.len(),
        T::Struct(fields) => fields
            .iter()
            .map(|f| extremes(f.data_type()))
            .max()
            .unwrap_or(1),
        T::Date32 | T::Date64 | T::Timestamp(..) | T::Dictionary(..) => 16,
        _ => 8,
    }
}

/// The array with nulls where `valid` is false; the values under them stay. `None` for types that
/// have no validity of their own.
pub(crate) fn with_nulls(array: &ArrayRef, valid: Vec<bool>) -> Option<ArrayRef> {
    if !has_validity(array.data_type()) {
        return None;
    }
    let nulls = NullBuffer::from(valid);
    let data = array.to_data().into_builder().nulls(Some(nulls)).build();
    data.ok().map(make_array)
}

/// Whether values of the type can be made null without changing anything else.
pub(crate) fn has_validity(data_type: &DataType) -> bool {
    use DataType::{Null, RunEndEncoded, Union};
    !matches!(data_type, Null | Union(..) | RunEndEncoded(..))
}

/// Rows of an array, in any order, any number of times.
pub(crate) fn pick(array: &ArrayRef, places: &UInt32Array) -> Result<ArrayRef, ArrowError> {
    // Arrow's `take` loses the length of values without bytes, also inside others.
    let may_lose =
        array.data_type().is_nested() || matches!(array.data_type(), DataType::FixedSizeBinary(0));
    if !may_lose || places.is_empty() {
        return take(array, places, None);
    }
    let rows: Vec<ArrayRef> = places
        .values()
        .iter()
        .map(|place| array.slice(*place as usize, 1))
        .collect();
    concat(&rows.iter().map(AsRef::as_ref).collect::<Vec<_>>())
}

/// Whether putting rows of the type together takes long: it has many fields.
pub(crate) fn is_wide(data_type: &DataType) -> bool {
    weight(data_type, 0) > 8 << 10
}

/// About how many bytes one value takes.
fn weight(data_type: &DataType, depth: usize) -> u64 {
    use DataType as T;
    let inside = |field: &Field| weight(field.data_type(), deeper(depth));
    let elements = if depth < 2 { 5 } else { 1 };
    match data_type {
        T::FixedSizeBinary(size) => u64::try_from(*size).unwrap_or(0).saturating_add(1),
        T::FixedSizeList(item, size) => u64::try_from(*size)
            .unwrap_or(0)
            .saturating_mul(inside(item))
            .saturating_add(1),
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
            inside(item).saturating_mul(elements).saturating_add(8)
        }
        T::Map(entries, _) => inside(entries).saturating_mul(2).saturating_add(8),
        T::Struct(fields) => fields
            .iter()
            .fold(1, |sum: u64, field| sum.saturating_add(inside(field))),
        T::Union(fields, _) => fields
            .iter()
            .fold(5, |sum: u64, (_, field)| sum.saturating_add(inside(field))),
        T::Dictionary(_, values) => weight(values, deeper(depth)),
        T::RunEndEncoded(_, values) => inside(values),
        _ => 32,
    }
}

fn deeper(depth: usize) -> usize {
    depth.saturating_add(1)
}

fn cycled<T>(list: &[T], at: usize) -> Option<&T> {
    list.get(at.checked_rem(list.len())?)
}

fn built(
    data_type: &DataType,
    rows: usize,
    buffers: Vec<Buffer>,
    children: Vec<ArrayData>,
) -> Result<ArrayRef, ArrowError> {
    let data = ArrayData::builder(data_type.clone()).len(rows);
    Ok(make_array(
        data.buffers(buffers).child_data(children).build()?,
    ))
}

/// Shortens the arms above.
trait IntoRef {
    fn into_ref(self) -> ArrayRef;
}

impl<A: Array + 'static> IntoRef for A {
    fn into_ref(self) -> ArrayRef {
        Arc::new(self)
    }
}
