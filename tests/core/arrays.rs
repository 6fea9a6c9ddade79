//! Random arrays of every Arrow type.

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;

/// A small random number generator; the same seed gives the same arrays.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// SplitMix64 (Steele, Lea and Flood 2014).
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n.max(1) as u64) as usize
    }

    fn text(&mut self) -> String {
        const PIECES: [&str; 8] = [
            "a",
            "é",
            "漢字",
            "😀",
            "twelve bytes",
            "thirteen byte",
            "",
            "\0",
        ];
        let n = self.below(4);
        (0..n).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }

    fn nulls(&mut self, len: usize) -> Option<NullBuffer> {
        match self.below(3) {
            0 => None,
            _ => Some(
                (0..len)
                    .map(|_| self.below(4) != 0)
                    .collect::<Vec<_>>()
                    .into(),
            ),
        }
    }
}

fn field(name: &str, t: DataType, nullable: bool) -> FieldRef {
    Arc::new(Field::new(name, t, nullable))
}

/// Every type, nested ones with an example of each kind of child.
pub fn all_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Microsecond, Some("+05:30".into())),
        Timestamp(TimeUnit::Nanosecond, Some("America/Denver".into())),
        Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        Duration(TimeUnit::Second),
        Duration(TimeUnit::Nanosecond),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        Decimal32(9, 2),
        Decimal64(18, -3),
        Decimal128(38, 10),
        Decimal256(76, 10),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(0),
        FixedSizeBinary(5),
    ];
    types.extend(nested());
    types
}

fn nested() -> Vec<DataType> {
    use DataType::*;
    let item = |t: DataType| field("item", t, true);
    let dictionary = |k: DataType, v: DataType| Dictionary(Box::new(k), Box::new(v));
    let union = |mode| {
        Union(
            UnionFields::try_new(
                vec![3, 7],
                vec![Field::new("i", Int32, true), Field::new("s", Utf8, true)],
            )
            .expect("ids"),
            mode,
        )
    };
    let map = |sorted| {
        let entries =
            Struct(vec![Field::new("k", Utf8, false), Field::new("v", Int64, true)].into());
        Map(field("entries", entries, false), sorted)
    };
    let pair = Struct(vec![Field::new("a", Int32, true), Field::new("b", Utf8, false)].into());
    let runs = |ends: DataType, values: DataType| {
        RunEndEncoded(
            field("run_ends", ends, false),
            field("values", values, true),
        )
    };
    vec![
        List(item(Int64)),
        List(item(Utf8)),
        LargeList(item(Utf8View)),
        ListView(item(Int32)),
        LargeListView(item(Utf8)),
        List(item(List(item(Boolean)))),
        FixedSizeList(item(Int16), 3),
        FixedSizeList(item(Utf8), 0),
        FixedSizeList(field("item", Boolean, false), 2),
        pair.clone(),
        Struct(Fields::empty()),
        List(item(pair.clone())),
        Struct(vec![Field::new("outer", pair, true)].into()),
        map(false),
        map(true),
        union(UnionMode::Sparse),
        union(UnionMode::Dense),
        List(item(union(UnionMode::Dense))),
        dictionary(Int8, Utf8),
        dictionary(Int32, LargeUtf8),
        dictionary(UInt64, Int64),
        dictionary(UInt16, Utf8View),
        List(item(dictionary(Int16, Utf8))),
        Struct(vec![Field::new("d", dictionary(Int32, Utf8), true)].into()),
        runs(Int16, Utf8),
        runs(Int32, Int64),
        runs(Int64, Boolean),
        List(item(runs(Int32, Utf8))),
        List(item(Null)),
    ]
}

fn primitive<T: ArrowPrimitiveType>(
    dice: &mut Dice,
    len: usize,
    t: &DataType,
    mut value: impl FnMut(&mut Dice) -> T::Native,
) -> ArrayRef {
    let values: Vec<T::Native> = (0..len).map(|_| value(dice)).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), dice.nulls(len)).with_data_type(t.clone()))
}

/// A random array with nulls where the type has them.
pub fn random(dice: &mut Dice, t: &DataType, len: usize) -> ArrayRef {
    use DataType::*;
    macro_rules! any {
        ($ty:ty) => {
            primitive::<$ty>(dice, len, t, |d| {
                <$ty as ArrowPrimitiveType>::Native::from_le_bytes(bytes(d))
            })
        };
    }
    match t {
        Null => Arc::new(NullArray::new(len)),
        Boolean => {
            let values: Vec<bool> = (0..len).map(|_| dice.below(2) == 1).collect();
            Arc::new(BooleanArray::new(values.into(), dice.nulls(len)))
        }
        Int8 => any!(Int8Type),
        Int16 => any!(Int16Type),
        Int32 => any!(Int32Type),
        Int64 => any!(Int64Type),
        UInt8 => any!(UInt8Type),
        UInt16 => any!(UInt16Type),
        UInt32 => any!(UInt32Type),
        UInt64 => any!(UInt64Type),
        Float16 => primitive::<Float16Type>(dice, len, t, |d| {
            <Float16Type as ArrowPrimitiveType>::Native::from_bits((d.roll() & 0x3fff) as u16)
        }),
        Float32 => primitive::<Float32Type>(dice, len, t, |d| (d.roll() >> 40) as f32 / 7.0),
        Float64 => primitive::<Float64Type>(dice, len, t, |d| (d.roll() >> 12) as f64 / 7.0),
        Date32 => any!(Date32Type),
        Date64 => any!(Date64Type),
        Time32(TimeUnit::Second) => {
            primitive::<Time32SecondType>(dice, len, t, |d| d.below(86_400) as i32)
        }
        Time32(_) => {
            primitive::<Time32MillisecondType>(dice, len, t, |d| d.below(86_400_000) as i32)
        }
        Time64(TimeUnit::Microsecond) => {
            primitive::<Time64MicrosecondType>(dice, len, t, |d| d.below(86_400_000_000) as i64)
        }
        Time64(_) => {
            primitive::<Time64NanosecondType>(dice, len, t, |d| d.below(86_400_000_000_000) as i64)
        }
        Timestamp(TimeUnit::Second, _) => any!(TimestampSecondType),
        Timestamp(TimeUnit::Millisecond, _) => any!(TimestampMillisecondType),
        Timestamp(TimeUnit::Microsecond, _) => any!(TimestampMicrosecondType),
        Timestamp(TimeUnit::Nanosecond, _) => any!(TimestampNanosecondType),
        Duration(TimeUnit::Second) => any!(DurationSecondType),
        Duration(TimeUnit::Millisecond) => any!(DurationMillisecondType),
        Duration(TimeUnit::Microsecond) => any!(DurationMicrosecondType),
        Duration(TimeUnit::Nanosecond) => any!(DurationNanosecondType),
        Interval(IntervalUnit::YearMonth) => any!(IntervalYearMonthType),
        Interval(IntervalUnit::DayTime) => primitive::<IntervalDayTimeType>(dice, len, t, |d| {
            IntervalDayTime::new(d.roll() as i32, d.roll() as i32)
        }),
        Interval(IntervalUnit::MonthDayNano) => {
            primitive::<IntervalMonthDayNanoType>(dice, len, t, |d| {
                IntervalMonthDayNano::new(d.roll() as i32, d.roll() as i32, d.roll() as i64)
            })
        }
        Decimal32(..) => primitive::<Decimal32Type>(dice, len, t, |d| {
            d.below(1_999_999_999) as i32 - 999_999_999
        }),
        Decimal64(..) => primitive::<Decimal64Type>(dice, len, t, |d| {
            d.below(1_999_999_999_999_999_999) as i64 - 999_999_999_999_999_999
        }),
        Decimal128(..) => primitive::<Decimal128Type>(dice, len, t, |d| match d.below(4) {
            0 => 10_i128.pow(38) - 1,
            1 => 1 - 10_i128.pow(38),
            _ => i128::from(d.roll() as i64) * 1_000_000_007,
        }),
        Decimal256(..) => primitive::<Decimal256Type>(dice, len, t, |d| match d.below(4) {
            0 => i256::from_i128(10).wrapping_pow(76) - i256::ONE,
            1 => i256::ONE - i256::from_i128(10).wrapping_pow(76),
            _ => i256::from_i128(i128::from(d.roll() as i64)),
        }),
        Utf8 => Arc::new(texts(dice, len).into_iter().collect::<StringArray>()),
        LargeUtf8 => Arc::new(texts(dice, len).into_iter().collect::<LargeStringArray>()),
        Utf8View => Arc::new(texts(dice, len).into_iter().collect::<StringViewArray>()),
        Binary => Arc::new(
            texts(dice, len)
                .into_iter()
                .map(|t| t.map(String::into_bytes))
                .collect::<BinaryArray>(),
        ),
        LargeBinary => Arc::new(
            texts(dice, len)
                .into_iter()
                .map(|t| t.map(String::into_bytes))
                .collect::<LargeBinaryArray>(),
        ),
        BinaryView => Arc::new(
            texts(dice, len)
                .into_iter()
                .map(|t| t.map(String::into_bytes))
                .collect::<BinaryViewArray>(),
        ),
        FixedSizeBinary(n) => {
            let values: Vec<u8> = (0..len * *n as usize).map(|_| dice.roll() as u8).collect();
            let nulls = dice.nulls(len);
            if *n == 0 {
                let nulls = nulls.unwrap_or_else(|| NullBuffer::new_valid(len));
                return make_array(
                    ArrayData::builder(t.clone())
                        .len(len)
                        .add_buffer(values.into())
                        .nulls(Some(nulls))
                        .build()
                        .expect("valid"),
                );
            }
            Arc::new(FixedSizeBinaryArray::new(*n, values.into(), nulls))
        }
        List(f) => list::<i32>(dice, f, len),
        LargeList(f) => list::<i64>(dice, f, len),
        ListView(f) => list_view::<i32>(dice, f, len),
        LargeListView(f) => list_view::<i64>(dice, f, len),
        FixedSizeList(f, n) => {
            let child = child(dice, f, len * *n as usize);
            let nulls = dice.nulls(len);
            Arc::new(
                FixedSizeListArray::try_new_with_length(Arc::clone(f), *n, child, nulls, len)
                    .expect("valid"),
            )
        }
        Struct(fields) if fields.is_empty() => {
            Arc::new(StructArray::new_empty_fields(len, dice.nulls(len)))
        }
        Struct(fields) => {
            let children = fields.iter().map(|f| child(dice, f, len)).collect();
            Arc::new(StructArray::new(fields.clone(), children, dice.nulls(len)))
        }
        Map(entries, sorted) => {
            let lengths: Vec<usize> = (0..len).map(|_| dice.below(3)).collect();
            let offsets = OffsetBuffer::<i32>::from_lengths(lengths.iter().copied());
            let Struct(fields) = entries.data_type() else {
                unreachable!()
            };
            let total = lengths.iter().sum();
            let children = fields.iter().map(|f| child(dice, f, total)).collect();
            let pairs = StructArray::new(fields.clone(), children, None);
            Arc::new(MapArray::new(
                Arc::clone(entries),
                offsets,
                pairs,
                dice.nulls(len),
                *sorted,
            ))
        }
        Union(fields, mode) => {
            let ids: Vec<i8> = fields.iter().map(|(id, _)| id).collect();
            let type_ids: Vec<i8> = (0..len).map(|_| ids[dice.below(ids.len())]).collect();
            match mode {
                UnionMode::Sparse => {
                    let children = fields.iter().map(|(_, f)| child(dice, f, len)).collect();
                    Arc::new(
                        UnionArray::try_new(fields.clone(), type_ids.into(), None, children)
                            .expect("valid"),
                    )
                }
                UnionMode::Dense => {
                    let mut counts = std::collections::HashMap::new();
                    let offsets: Vec<i32> = type_ids
                        .iter()
                        .map(|id| {
                            let n = counts.entry(*id).or_insert(0);
                            *n += 1;
                            *n - 1
                        })
                        .collect();
                    let children = fields
                        .iter()
                        .map(|(id, f)| {
                            child(dice, f, counts.get(&id).copied().unwrap_or(0) as usize)
                        })
                        .collect();
                    Arc::new(
                        UnionArray::try_new(
                            fields.clone(),
                            type_ids.into(),
                            Some(offsets.into()),
                            children,
                        )
                        .expect("valid"),
                    )
                }
            }
        }
        Dictionary(keys, values) => {
            let size = 1 + dice.below(20);
            let values = random(dice, values, size);
            let indices: Vec<Option<u64>> = (0..len)
                .map(|_| (dice.below(5) != 0).then(|| dice.below(size) as u64))
                .collect();
            let indices: ArrayRef = Arc::new(UInt64Array::from(indices));
            let indices = arrow::compute::cast(&indices, keys).expect("keys");
            let data = indices
                .to_data()
                .into_builder()
                .data_type(t.clone())
                .child_data(vec![values.to_data()]);
            make_array(data.build().expect("valid"))
        }
        RunEndEncoded(ends, values) => {
            let mut run_ends: Vec<i64> = Vec::new();
            let mut at = 0;
            while at < len {
                at += 1 + dice.below(4);
                run_ends.push(at as i64);
            }
            let values = random(dice, values.data_type(), run_ends.len());
            let run_ends: ArrayRef = Arc::new(Int64Array::from(run_ends));
            let run_ends = arrow::compute::cast(&run_ends, ends.data_type()).expect("ends");
            let data = ArrayData::builder(t.clone())
                .len(len)
                .add_child_data(run_ends.to_data())
                .add_child_data(values.to_data());
            make_array(data.build().expect("valid"))
        }
    }
}

fn child(dice: &mut Dice, f: &Field, len: usize) -> ArrayRef {
    let array = random(dice, f.data_type(), len);
    if f.is_nullable() {
        return array;
    }
    make_array(
        array
            .to_data()
            .into_builder()
            .nulls(None)
            .build()
            .expect("valid"),
    )
}

fn list<O: OffsetSizeTrait>(dice: &mut Dice, f: &FieldRef, len: usize) -> ArrayRef {
    let lengths: Vec<usize> = (0..len).map(|_| dice.below(4)).collect();
    let offsets = OffsetBuffer::<O>::from_lengths(lengths.iter().copied());
    let values = child(dice, f, lengths.iter().sum());
    Arc::new(GenericListArray::new(
        Arc::clone(f),
        offsets,
        values,
        dice.nulls(len),
    ))
}

fn list_view<O: OffsetSizeTrait>(dice: &mut Dice, f: &FieldRef, len: usize) -> ArrayRef {
    let total = 10;
    let values = child(dice, f, total);
    let mut offsets = Vec::new();
    let mut sizes = Vec::new();
    for _ in 0..len {
        let offset = dice.below(total);
        offsets.push(O::usize_as(offset));
        sizes.push(O::usize_as(dice.below(total - offset + 1)));
    }
    let (offsets, sizes): (ScalarBuffer<O>, ScalarBuffer<O>) = (offsets.into(), sizes.into());
    Arc::new(GenericListViewArray::new(
        Arc::clone(f),
        offsets,
        sizes,
        values,
        dice.nulls(len),
    ))
}

fn texts(dice: &mut Dice, len: usize) -> Vec<Option<String>> {
    (0..len)
        .map(|_| (dice.below(5) != 0).then(|| dice.text()))
        .collect()
}

fn bytes<const N: usize>(dice: &mut Dice) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&dice.roll().to_le_bytes()[..N]);
    bytes
}
