//! Whole calls, as the host makes them: nulls, row errors, overloads, states, constants, reuse.

use wasmill_guest::testing::{
    Answer, Entry, FailedRow, Instance, TestColumn, column, constant, handle,
};
use wasmill_guest::{
    AnyColumn, ArrowType, Column, ListRef, RowError, RowErrors, Rows, SameAs, StrWriter, Writer,
    udf,
};

fn call(udf: &Entry, rows: usize, args: &[TestColumn]) -> Answer {
    Instance::new()
        .call(udf, rows, args)
        .expect("the call works")
}

fn numbers(values: impl IntoIterator<Item = i64>) -> TestColumn {
    column(values.into_iter().map(Some))
}

#[udf(types(i32, i64))]
fn twice<T: std::ops::Add<Output = T> + Copy>(x: T) -> T {
    x + x
}

#[test]
fn each_overload_reads_its_own_type() {
    let rows = 0..100;
    let answer = call(&handle!(twice)[0], 100, &[column(rows.clone().map(Some))]);
    assert_eq!(
        answer.rows::<i32>(),
        rows.map(|x| 2 * x).collect::<Vec<i32>>()
    );
    let answer = call(&handle!(twice)[1], 2, &[numbers([1, i64::MAX / 2])]);
    assert_eq!(answer.rows::<i64>(), [2, i64::MAX - 1]);
}

#[udf]
fn reciprocal(x: i64) -> Result<i64, RowError> {
    if x == 0 {
        return Err(RowError::new(9, "no reciprocal"));
    }
    Ok(100 / x)
}

#[test]
fn rows_fail_one_by_one_and_nulls_are_left_out() {
    let values: Vec<_> = (0..70)
        .map(|row| (row % 7 != 3).then_some(row % 5))
        .collect();
    let answer = call(&handle!(reciprocal)[0], 70, &[column(values.clone())]);
    let failed: Vec<_> = answer.errors().into_iter().map(|error| error.row).collect();
    let zeros = (0..70_u32).filter(|row| values[*row as usize] == Some(0));
    assert_eq!(failed, zeros.collect::<Vec<_>>());
    assert_eq!(answer.errors()[0].code, 9);
    assert_eq!(answer.errors()[0].message, "no reciprocal");
    assert_eq!(answer.null_count(), 0);
    let results = answer.rows::<i64>();
    for (value, result) in values.iter().zip(results) {
        if let Some(value @ 1..) = value {
            assert_eq!(result, 100 / value);
        }
    }
}

#[udf]
fn or_zero(x: Option<i64>) -> i64 {
    x.unwrap_or(0)
}

#[udf]
fn only_even(x: Option<i64>) -> Option<i64> {
    x.filter(|x| x % 2 == 0)
}

#[test]
fn options_take_and_give_nulls() {
    let answer = call(
        &handle!(or_zero)[0],
        3,
        &[column([Some(1_i64), None, Some(3)])],
    );
    assert_eq!(answer.rows::<i64>(), [1, 0, 3]);

    let values = (0..40_i64).map(|row| (row != 35).then_some(row));
    let answer = call(&handle!(only_even)[0], 40, &[column(values)]);
    let wanted: Vec<_> = (0..40).map(|row| (row % 2 == 0).then_some(row)).collect();
    assert_eq!(answer.rows::<Option<i64>>(), wanted);
    assert_eq!(answer.null_count(), 20);
}

#[test]
fn no_bitmap_is_given_where_nothing_is_null() {
    let answer = call(&handle!(only_even)[0], 2, &[numbers([2, 4])]);
    assert_eq!((answer.null_count(), answer.array().n_buffers), (0, 2));
    // SAFETY: the array has two buffers, of which the first is the bitmap.
    assert!(unsafe { *answer.array().buffers }.is_null());
}

#[udf]
fn mixed(a: i64, b: Option<i64>) -> i64 {
    a + b.unwrap_or(1000)
}

#[test]
fn a_plain_argument_beside_an_option_makes_its_rows_null() {
    let a = column([Some(1_i64), None, Some(3)]);
    let b = column([None, Some(2_i64), Some(2)]);
    let answer = call(&handle!(mixed)[0], 3, &[a, b]);
    assert_eq!(answer.rows::<Option<i64>>(), [Some(1001), None, Some(5)]);
    let record = handle!(mixed)[0].record.to_json();
    assert!(
        record.contains(r#""result":{"format":"l","nullable":true}"#),
        "{record}"
    );
    assert!(record.contains(r#""nulls":"handle""#), "{record}");
}

#[test]
fn nulls_of_an_earlier_call_do_not_come_back() {
    let instance = Instance::new();
    for nulls in [1, 0, 2, 0] {
        let a = column((0..3_i64).map(|row| (row >= nulls).then_some(row)));
        let answer = instance.call(&handle!(mixed)[0], 3, &[a, numbers([0, 0, 0])]);
        let answer = answer.expect("the call works");
        assert_eq!(answer.null_count(), nulls as usize);
        instance.reset();
    }
}

#[udf]
fn spell(text: &str, out: &mut StrWriter) -> Result<(), &'static str> {
    for character in text.chars() {
        out.push(character);
        out.push('-');
        if character == '!' {
            return Err("no shouting");
        }
    }
    Ok(())
}

#[udf]
fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

#[test]
fn text_is_written_and_borrowed() {
    let texts = || column([Some("ab"), None, Some("c!"), Some("")]);
    let answer = call(&handle!(spell)[0], 4, &[texts()]);
    assert_eq!(answer.rows::<&str>(), ["a-b-", "", "", ""]);
    let failed = FailedRow {
        row: 2,
        code: 1,
        message: "no shouting".to_owned(),
    };
    assert_eq!(answer.errors(), [failed]);
    let answer = call(&handle!(first_word)[0], 1, &[column([Some("a b")])]);
    assert_eq!(answer.rows::<&str>(), ["a"]);
}

#[derive(ArrowType, Clone, Debug, PartialEq)]
struct Span {
    #[arrow(name = "from")]
    start: i32,
    words: Vec<String>,
    weight: Option<f64>,
    raw: Vec<u8>,
    flag: bool,
}

#[udf]
fn widen(spans: Vec<Span>) -> Vec<Span> {
    let widened = spans.into_iter().map(|span| Span {
        start: span.start - 1,
        weight: span.weight.map(|weight| weight * 2.0),
        ..span
    });
    widened.collect()
}

#[test]
fn lists_of_structs_go_in_and_out() {
    let span = |start: i32, weight| Span {
        start,
        words: vec!["x".to_owned(), format!("w{start}")],
        weight,
        raw: vec![0, 255],
        flag: start % 2 == 0,
    };
    let rows = [
        vec![span(1, Some(0.5)), span(2, None)],
        vec![],
        vec![span(3, None)],
    ];
    let answer = call(&handle!(widen)[0], 3, &[column(rows.clone().map(Some))]);
    let wanted: Vec<_> = rows.into_iter().map(widen).collect();
    assert_eq!(answer.rows::<Vec<Span>>(), wanted);
    let record = handle!(widen)[0].record.to_json();
    assert!(
        record.contains(r#"{"name":"from","format":"i","nullable":false}"#),
        "{record}"
    );
}

#[udf]
fn total(items: ListRef<'_, i64>) -> i64 {
    items.as_slice().iter().sum::<i64>() + items.iter().sum::<i64>()
}

#[udf]
fn letters(words: ListRef<'_, str>) -> i64 {
    words.iter().map(|word| word.len() as i64).sum()
}

#[test]
fn lists_are_read_where_they_are() {
    let answer = call(
        &handle!(total)[0],
        2,
        &[column([Some(vec![1_i64, 2]), Some(vec![])])],
    );
    assert_eq!(answer.rows::<i64>(), [6, 0]);
    let answer = call(
        &handle!(letters)[0],
        1,
        &[column([Some(vec!["ab", "", "cde"])])],
    );
    assert_eq!(answer.rows::<i64>(), [5]);
}

#[udf(constants)]
fn plus(a: i64, b: i64) -> i64 {
    a + b
}

#[test]
fn constants_stand_for_all_rows() {
    let answer = call(
        &handle!(plus)[0],
        3,
        &[numbers([1, 2, 3]), constant(Some(10_i64))],
    );
    assert_eq!(answer.rows::<i64>(), [11, 12, 13]);
    let answer = call(
        &handle!(plus)[0],
        2,
        &[constant::<i64>(None), numbers([1, 2])],
    );
    assert_eq!((answer.len(), answer.errors().len()), (2, 0));
}

#[udf(batch)]
fn running(x: Column<'_, i64>, rows: Rows, out: &mut Writer<i64>, errors: &mut RowErrors) {
    assert_eq!(x.len(), rows.0);
    let mut sum = 0;
    for (row, x) in x.values().iter().enumerate() {
        sum += x;
        if *x < 0 {
            errors.fail(row, &"negative");
        }
        out.push(sum);
    }
}

#[udf(batch)]
fn identity(x: AnyColumn<'_>) -> SameAs<'_, 0> {
    x.into()
}

#[udf(batch)]
fn refuse(_x: AnyColumn<'_>, out: &mut Writer<str>) -> Result<(), String> {
    out.push("half a result");
    Err("whole call".to_owned())
}

#[test]
fn batch_functions_see_whole_columns() {
    let answer = call(&handle!(running)[0], 3, &[numbers([1, -2, 3])]);
    assert_eq!(answer.rows::<i64>(), [1, -1, 2]);
    assert_eq!(answer.errors()[0].row, 1);

    let argument = numbers([4, 5]);
    let answer = call(&handle!(identity)[0], 2, &[argument]);
    assert_eq!(answer.rows::<i64>(), [4, 5]);
}

#[test]
fn a_batch_function_fails_the_whole_call() {
    let answer = Instance::new().call(&handle!(refuse)[0], 1, &[numbers([1])]);
    assert_eq!(answer.err().as_deref(), Some("whole call"));
}

#[test]
fn a_wrong_number_of_arguments_is_refused() {
    let answer = Instance::new().call(&handle!(plus)[0], 1, &[numbers([1])]);
    assert!(
        answer
            .err()
            .is_some_and(|message| message.contains("number of arguments"))
    );
}

#[test]
fn a_result_can_be_the_argument_of_the_same_function() {
    let instance = Instance::new();
    let first = instance
        .call(&handle!(twice)[1], 2, &[numbers([1, 2])])
        .expect("the call works");
    let second = instance
        .call(&handle!(twice)[1], 2, &[numbers([5, 6])])
        .expect("the call works");
    assert_eq!(first.rows::<i64>(), [2, 4]);
    assert_eq!(second.rows::<i64>(), [10, 12]);
}
