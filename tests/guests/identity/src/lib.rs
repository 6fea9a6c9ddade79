//! A guest that gives back what it gets, whatever the type.

use wasmill_guest::{AnyColumn, SameAs, udf};

/// The argument, unchanged.
#[udf(batch)]
pub fn identity(x: AnyColumn<'_>) -> SameAs<'_, 0> {
    x.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmill_guest::testing::{Instance, TestColumn, column, handle};

    fn identity_of(x: TestColumn) -> wasmill_guest::testing::Answer {
        let answer = Instance::new().call(&handle!(identity)[0], 2, &[x]);
        answer.expect("the call works")
    }

    #[test]
    fn values_and_nulls_of_any_type_come_back() {
        let numbers = [Some(7_i64), None];
        assert_eq!(identity_of(column(numbers)).rows::<Option<i64>>(), numbers);
        let texts = [None, Some("é")];
        assert_eq!(identity_of(column(texts)).rows::<Option<&str>>(), texts);
        let lists = [Some(vec![Some(1_i32), None]), Some(vec![])];
        assert_eq!(
            identity_of(column(lists.clone())).rows::<Option<Vec<Option<i32>>>>(),
            lists
        );
    }
}
