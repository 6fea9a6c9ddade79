//! Which Arrow type each Rust type stands for, and that its values go in and out unchanged.

use wasmill_guest::testing::{Instance, column, handle};
use wasmill_guest::{
    ArrowType, Date, Date64, Decimal, Duration, Field, Input, Microsecond, Millisecond, Nanosecond,
    Output, Second, Time, Timestamp, Utc, Zone, udf,
};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Denver;

impl Zone for Denver {
    const NAME: &'static str = "America/Denver";
}

#[test]
fn format_strings_are_those_of_the_c_data_interface() {
    fn check<T: ArrowType>(format: &str) {
        assert_eq!(Field::of::<T>("").format, format);
    }
    check::<bool>("b");
    check::<i8>("c");
    check::<u8>("C");
    check::<i16>("s");
    check::<u16>("S");
    check::<i32>("i");
    check::<u32>("I");
    check::<i64>("l");
    check::<u64>("L");
    check::<f32>("f");
    check::<f64>("g");
    check::<&str>("u");
    check::<String>("u");
    check::<&[u8]>("z");
    check::<Vec<u8>>("z");
    check::<[u8; 16]>("w:16");
    check::<Decimal<38, 10>>("d:38,10");
    check::<Decimal<9, -2>>("d:9,-2");
    check::<Date>("tdD");
    check::<Date64>("tdm");
    check::<Time<Second>>("tts");
    check::<Time<Millisecond>>("ttm");
    check::<Time<Microsecond>>("ttu");
    check::<Time<Nanosecond>>("ttn");
    check::<Timestamp<Second>>("tss:");
    check::<Timestamp<Microsecond, Utc>>("tsu:UTC");
    check::<Timestamp<Nanosecond, Denver>>("tsn:America/Denver");
    check::<Duration<Millisecond>>("tDm");
}

#[test]
fn lists_have_an_item_that_is_nullable_for_options_only() {
    let list = Field::of::<Option<Vec<Option<i64>>>>("x");
    assert_eq!((list.format.as_str(), list.nullable), ("+l", true));
    assert_eq!(list.children, [Field::new("item", "l", true)]);
    let binaries = Field::of::<Vec<Vec<u8>>>("x");
    assert_eq!(binaries.children, [Field::new("item", "z", false)]);
}

macro_rules! round_trips {
    ($($name:ident: $type:ty = [$($value:expr),*];)*) => {$(
        #[udf]
        fn $name(x: Option<$type>) -> Option<$type> {
            x
        }
    )*

        #[test]
        fn values_go_in_and_out_unchanged() {$({
            let values: Vec<Option<$type>> = vec![$($value),*];
            check(&handle!($name)[0], &values);
        })*}
    };
}

fn check<T>(udf: &wasmill_guest::testing::Entry, values: &[Option<T>])
where
    T: Output + for<'a> Input<'a> + Clone + PartialEq + std::fmt::Debug,
    T::Builder: 'static,
{
    // More than a chunk of 32 rows, and a rest.
    let many: Vec<_> = values.iter().cycle().take(71).cloned().collect();
    let answer = Instance::new().call(udf, 71, &[column(many.clone())]);
    assert_eq!(answer.expect("the call works").rows::<Option<T>>(), many);
}

round_trips! {
    booleans: bool = [Some(true), None, Some(false), Some(true)];
    bytes: u8 = [Some(0), Some(255), None];
    floats: f64 = [Some(-0.5), None, Some(f64::INFINITY)];
    decimals: Decimal<38, 10> = [Some(Decimal(10_i128.pow(38) - 1)), None, Some(Decimal(-1))];
    dates: Date = [Some(Date(-1)), None];
    moments: Timestamp<Nanosecond, Denver> = [Some(Timestamp::new(i64::MIN)), None];
    times: Time<Second> = [Some(Time::new(86_399)), None];
    fixed: [u8; 3] = [Some([1, 2, 3]), None];
    binaries: Vec<u8> = [Some(vec![0, 255]), None, Some(vec![])];
    texts: String = [Some("é".to_owned()), Some(String::new()), None];
    lists: Vec<Option<i32>> = [Some(vec![Some(1), None]), None, Some(vec![])];
    nested: Vec<Vec<String>> = [Some(vec![vec!["a".to_owned()], vec![]]), None];
}

#[test]
fn a_decimal_knows_its_digits() {
    assert_eq!(Decimal::<3, 1>::checked(999), Some(Decimal(999)));
    assert_eq!(Decimal::<3, 1>::checked(-1000), None);
}
