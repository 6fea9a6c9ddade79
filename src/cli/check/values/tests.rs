//! Tests of made-up arrays.

use super::*;
use arrow::datatypes::{FieldRef, Fields, UnionMode};

fn field(name: &str, t: DataType, nullable: bool) -> FieldRef {
    Arc::new(Field::new(name, t, nullable))
}

fn types() -> Vec<DataType> {
    use DataType::*;
    let item = |t: DataType| field("item", t, true);
    let entries = |key| {
        let pair = vec![Field::new("k", key, false), Field::new("v", Int64, true)];
        field("entries", Struct(pair.into()), false)
    };
    let union = |mode| {
        let fields = vec![Field::new("i", Int32, true), Field::new("s", Utf8, true)];
        Union(
            arrow::datatypes::UnionFields::try_new(vec![3, 7], fields).unwrap(),
            mode,
        )
    };
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        UInt8,
        Int64,
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
        Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
        Duration(TimeUnit::Microsecond),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        Decimal32(9, 2),
        Decimal32(1, 0),
        Decimal64(18, -3),
        Decimal128(38, 10),
        Decimal256(76, 0),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(0),
        FixedSizeBinary(5),
        List(item(Int64)),
        LargeList(item(Utf8View)),
        ListView(item(Int32)),
        LargeListView(item(Utf8)),
        List(item(List(item(Boolean)))),
        FixedSizeList(item(Int16), 3),
        FixedSizeList(item(Utf8), 0),
        Struct(Fields::empty()),
        Struct(vec![Field::new("a", Int32, true), Field::new("b", Utf8, false)].into()),
        Map(entries(Utf8), false),
        Map(entries(Boolean), false),
        Map(entries(Int8), true),
        Dictionary(Box::new(Int8), Box::new(Utf8)),
        Dictionary(Box::new(UInt64), Box::new(Decimal128(5, 1))),
        union(UnionMode::Sparse),
        union(UnionMode::Dense),
    ];
    types
        .extend([Int16, Int32, Int64].map(|ends| {
            RunEndEncoded(field("run_ends", ends, false), field("values", Utf8, true))
        }));
    types
}

#[test]
fn arrays_of_every_type_are_made_and_valid() {
    let mut maker = Maker::new();
    for data_type in types() {
        for kind in [Kind::Everyday, Kind::Extreme, Kind::Long] {
            for rows in [0, 1, 5, 16] {
                let array = maker.array(&data_type, rows, kind).unwrap();
                assert_eq!(array.data_type(), &data_type);
                assert_eq!(array.len(), rows, "{data_type} {kind:?}");
                assert_eq!(
                    array.null_count(),
                    0,
                    "{data_type} {kind:?} has nulls of its own"
                );
                array.to_data().validate_full().unwrap();
            }
        }
    }
}

#[test]
fn rows_can_be_picked_and_made_null_in_every_type_with_validity() {
    let mut maker = Maker::new();
    for data_type in types() {
        let array = maker.array(&data_type, 6, Kind::Extreme).unwrap();
        let picked = pick(&array, &UInt32Array::from(vec![5, 0, 0])).unwrap();
        assert_eq!(
            picked.slice(0, 1).to_data(),
            array.slice(5, 1).to_data(),
            "{data_type}"
        );
        let nulls = with_nulls(&picked, vec![true, false, true]);
        assert_eq!(nulls.is_some(), has_validity(&data_type), "{data_type}");
        assert!(nulls.is_none_or(|n| n.null_count() == 1));
    }
}

#[test]
fn the_ends_of_ranges_are_among_the_extremes() {
    use arrow::array::AsArray;
    let mut maker = Maker::new();
    let rows = extremes(&DataType::Int64);
    let numbers = maker.array(&DataType::Int64, rows, Kind::Extreme).unwrap();
    let numbers = numbers.as_primitive::<Int64Type>();
    assert!(numbers.values().contains(&i64::MIN) && numbers.values().contains(&i64::MAX));
    let small = maker.array(&DataType::UInt8, rows, Kind::Extreme).unwrap();
    let small = small.as_primitive::<UInt8Type>();
    assert!(small.values().contains(&0) && small.values().contains(&255));
    let decimals = maker
        .array(&DataType::Decimal128(38, 0), 8, Kind::Extreme)
        .unwrap();
    let most = 10_i128.pow(38) - 1;
    assert!(
        decimals
            .as_primitive::<Decimal128Type>()
            .values()
            .contains(&most)
    );
}

#[test]
fn types_of_any_size_and_depth_take_little_memory() {
    let mut maker = Maker::new();
    let huge = DataType::FixedSizeBinary(i32::MAX);
    assert!(maker.array(&huge, 1, Kind::Extreme).is_err());
    let mut deep = DataType::Utf8;
    for _ in 0..60 {
        deep = DataType::List(field("item", deep, true));
    }
    for kind in [Kind::Everyday, Kind::Extreme, Kind::Long] {
        let array = maker.array(&deep, 500, kind).unwrap();
        assert!(array.get_array_memory_size() < 256 << 20);
    }
}
