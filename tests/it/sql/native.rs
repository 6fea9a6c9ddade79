//! The functions of the test guests as DataFusion's own kind of functions, to compare with.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, PrimitiveArray, StringArray,
};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;

type Body = fn(&[ArrayRef]) -> ArrayRef;

/// A function that computes arrays.
#[derive(Debug)]
struct Native {
    name: &'static str,
    signature: Signature,
    /// `None`: that of the argument.
    result: Option<DataType>,
    body: Body,
}

/// One function per name.
impl PartialEq for Native {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Native {}

impl Hash for Native {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Native {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone().unwrap_or_else(|| types[0].clone()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.into_iter().map(|a| a.into_array(rows));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array((self.body)(&arrays)))
    }
}

/// Registers `identity`, `gcd`, `add`, `div`, `char_length`, `upper`, `km_per_minute`, `not_null`,
/// `double`, `plus_two` and `triple`, as they are in [`super::session::Session::new`].
pub(crate) fn register(context: &SessionContext) {
    use DataType::{Float64, Int32, Int64, Utf8};
    let two = || vec![Int64, Int64];
    let all: [(&'static str, Vec<DataType>, DataType, Body); 10] = [
        ("gcd", two(), Int64, |a| numbers(a, |a, b| Some(gcd(a, b)))),
        ("add", two(), Int64, |a| {
            numbers(a, |a, b| Some(a.wrapping_add(b)))
        }),
        // Where it fails in the guest it is null here: it must not be seen.
        ("div", two(), Int64, |a| numbers(a, i64::checked_div)),
        ("double", vec![Int64], Int64, |a| {
            number(a, |x| x.wrapping_mul(2))
        }),
        ("plus_two", vec![Int64], Int64, |a| {
            number(a, |x| x.wrapping_add(2))
        }),
        ("triple", vec![Int64], Int64, |a| {
            number(a, |x| x.wrapping_mul(3))
        }),
        ("not_null", vec![Int64], Int64, |a| {
            let x = a[0].as_primitive::<Int64Type>().iter();
            Arc::new(Int64Array::from_iter_values(x.map(|x| x.unwrap_or(-1))))
        }),
        ("char_length", vec![Utf8], Int32, |a| {
            let x = a[0].as_string::<i32>().iter();
            let lengths = x.map(|x| Some(i32::try_from(x?.chars().count()).expect("short")));
            Arc::new(lengths.collect::<Int32Array>())
        }),
        ("upper", vec![Utf8], Utf8, |a| {
            let x = a[0].as_string::<i32>().iter();
            Arc::new(x.map(|x| Some(x?.to_uppercase())).collect::<StringArray>())
        }),
        ("km_per_minute", two(), Float64, |a| {
            let metres = a[0].as_primitive::<Int64Type>().iter();
            let minutes = a[1].as_primitive::<Int64Type>().iter();
            let speed = |(m, t): (Option<i64>, Option<i64>)| {
                let (m, t) = (m?, t?);
                (t > 0).then(|| m as f64 / 1000.0 / t as f64)
            };
            Arc::new(metres.zip(minutes).map(speed).collect::<Float64Array>())
        }),
    ];
    for (name, parameters, result, body) in all {
        context.register_udf(ScalarUDF::from(Native {
            name,
            signature: Signature::exact(parameters, Volatility::Immutable),
            result: Some(result),
            body,
        }));
    }
    context.register_udf(ScalarUDF::from(Native {
        name: "identity",
        signature: Signature::any(1, Volatility::Immutable),
        result: None,
        body: |a| Arc::clone(&a[0]),
    }));
}

fn number(a: &[ArrayRef], f: fn(i64) -> i64) -> ArrayRef {
    let result: PrimitiveArray<Int64Type> = a[0].as_primitive::<Int64Type>().unary(f);
    Arc::new(result)
}

fn numbers(a: &[ArrayRef], f: fn(i64, i64) -> Option<i64>) -> ArrayRef {
    let x = a[0].as_primitive::<Int64Type>().iter();
    let y = a[1].as_primitive::<Int64Type>().iter();
    Arc::new(x.zip(y).map(|(x, y)| f(x?, y?)).collect::<Int64Array>())
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}
