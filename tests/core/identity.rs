//! Arrays of every type cross the boundary in both directions unchanged.

use arrow::array::{Array, ArrayRef, make_array};
use arrow::datatypes::{DataType, Field};
use proptest::prelude::*;
use wasmill::{Argument, Rows};

use crate::arrays::{Dice, all_types, random};
use crate::guests::{bind, identity, pool, through};

fn check(pool: &wasmill::Pool, t: &DataType, array: &ArrayRef) {
    let call = bind(
        pool.module(),
        "identity",
        &[Field::new("x", t.clone(), true)],
    );
    let back = through(pool, &call, array).unwrap_or_else(|e| panic!("{t}: {e}"));
    assert_eq!(back.data_type(), t);
    assert_eq!(&back, array, "{t}");
    back.to_data()
        .validate_full()
        .unwrap_or_else(|e| panic!("{t}: {e}"));
}

#[test]
fn every_type_crosses_as_whole_slice_and_empty_array() {
    let module = identity();
    let pool = pool(&module);
    let mut dice = Dice::new(1);
    for t in all_types() {
        for len in [1, 7, 64, 100] {
            let array = random(&mut dice, &t, len);
            check(&pool, &t, &array);
            for (offset, length) in [
                (0, 1),
                (1, len - 1),
                (len / 2, len - len / 2),
                (3.min(len), 0),
            ] {
                check(&pool, &t, &array.slice(offset, length));
            }
        }
        check(&pool, &t, &arrow::array::new_null_array(&t, 5));
        check(&pool, &t, &arrow::array::new_empty_array(&t));
    }
}

#[test]
fn types_that_have_no_validity_keep_their_nulls_elsewhere() {
    let module = identity();
    let pool = pool(&module);
    let t = DataType::Null;
    check(
        &pool,
        &t,
        &make_array(arrow::array::ArrayData::new_null(&t, 3)),
    );
}

#[test]
fn constants_of_every_type_stand_for_all_rows() {
    let module = identity();
    let pool = pool(&module);
    let function = module.manifest().overloads("identity").next();
    let function = function.expect("identity");
    let mut dice = Dice::new(2);
    let bytes = |name: &str| Field::new(name, DataType::FixedSizeBinary(0), true);
    let without_bytes =
        DataType::Struct(vec![bytes("nothing"), Field::new("n", DataType::Int64, true)].into());
    let types = all_types()
        .into_iter()
        .chain([DataType::FixedSizeBinary(0), without_bytes]);
    for t in types {
        for constant in [
            random(&mut dice, &t, 1),
            arrow::array::new_null_array(&t, 1),
        ] {
            let call = module
                .bind(function, vec![Argument::constant(constant.clone())])
                .unwrap_or_else(|e| panic!("{t}: {e}"));
            let back = pool
                .call(&call, Rows::new(vec![], 5))
                .unwrap_or_else(|e| panic!("{t}: {e}"))
                .array;
            let rows = [&constant as &dyn Array; 5];
            let expected = arrow::compute::concat(&rows).expect("five rows");
            assert_eq!(&back, &expected, "{t}");
        }
    }
}

fn any_type() -> impl Strategy<Value = DataType> {
    prop::sample::select(all_types())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_slices_of_random_types_come_back_equal(t in any_type(), seed: u64, len in 0_usize..200, from in 0_usize..200, take in 0_usize..200) {
        thread_local!(static POOL: wasmill::Pool = pool(&identity()));
        let array = random(&mut Dice::new(seed), &t, len);
        let from = from.min(len);
        let array = array.slice(from, take.min(len - from));
        POOL.with(|pool| check(pool, &t, &array));
    }
}
