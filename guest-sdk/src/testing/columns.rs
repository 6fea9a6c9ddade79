//! Columns for tests, and whether they fit a UDF.

use std::any::Any;
use std::rc::Rc;

use crate::Field;
use crate::abi::ArrowArray;
use crate::manifest::{Param, Record, ResultType};
use crate::types::{Builder, NullableBuilder, Nulls, Output};

/// A column to pass to a call.
pub struct TestColumn {
    pub(super) field: Field,
    pub(super) array: ArrowArray,
    pub(super) constant: bool,
    /// What `array` points into.
    pub(super) builder: Rc<dyn Any>,
}

/// A column of these values; it is as the host would pass it.
pub fn column<T: Output>(values: impl IntoIterator<Item = Option<T>>) -> TestColumn
where
    T::Builder: 'static,
{
    let mut builder = Rc::<NullableBuilder<T::Builder>>::default();
    let unshared = Rc::get_mut(&mut builder).expect("the builder was made a line ago");
    unshared.begin(0);
    for value in values {
        value.push(unshared);
    }
    let array = unshared.finish(Nulls::NONE);
    TestColumn {
        field: Field::of::<T>(""),
        array,
        constant: false,
        builder,
    }
}

/// A constant: one row that stands for all.
pub fn constant<T: Output>(value: Option<T>) -> TestColumn
where
    T::Builder: 'static,
{
    TestColumn {
        constant: true,
        ..column([value])
    }
}

/// Compares the columns with the manifest and the number of rows; the answer is the type of the result, where it is known.
pub(super) fn check_types(record: &Record, rows: usize, args: &[TestColumn]) -> Option<Field> {
    let params = record
        .params
        .iter()
        .filter(|(_, param)| !matches!(param, Param::None));
    for ((name, param), column) in params.zip(args) {
        let wanted_rows = if column.constant { 1 } else { rows };
        assert_eq!(column.array.length as usize, wanted_rows, "rows of {name}");
        assert!(
            record.constants || !column.constant,
            "{} takes no constants",
            record.name
        );
        if let Param::Column { schema, .. } = param {
            let wanted = Field::from_schema((*name).to_owned(), schema);
            assert!(
                wanted.is_like(&column.field),
                "{}: argument {name} is {wanted:?}, not {:?}",
                record.name,
                column.field
            );
        }
    }
    match record.result {
        ResultType::Column(schema) => Some(Field::from_schema(String::new(), &schema)),
        ResultType::SameAs(argument) => args.get(argument as usize).map(|arg| arg.field.clone()),
        ResultType::Bound => None,
    }
}
