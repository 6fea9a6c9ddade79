//! `wasmill run`: arguments, columns, formats, pools.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Float64Array, Int16Array, Int32Array, Int64Array, LargeStringArray,
    StringArray, StringViewArray,
};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};

use crate::cli::{Ended, Form, Workplace, batch, column, data, module, read_arrow, write_arrow};

/// `wasmill run MODULE UDF` with further arguments, separated by blanks.
pub fn run(workplace: &Workplace, name: &str, udf: &str, rest: &str) -> Ended {
    run_with(
        workplace,
        &module(name),
        udf,
        &rest.split_whitespace().collect::<Vec<_>>(),
    )
}

pub fn run_with(workplace: &Workplace, module: &Path, udf: &str, rest: &[&str]) -> Ended {
    let mut arguments = vec!["run".as_ref(), module.as_os_str(), udf.as_ref()];
    arguments.extend(rest.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    workplace.wasmill(arguments)
}

fn numbers(workplace: &Workplace) {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(12), Some(18), None, Some(7)]));
    let b: ArrayRef = Arc::new(Int64Array::from(vec![8, 12, 5, 0]));
    let small: ArrayRef = Arc::new(Int16Array::from(vec![4, 6, 8, 10]));
    write_arrow(
        &workplace.path("numbers.arrow"),
        Form::File,
        &[batch(vec![("a", a), ("b", b), ("x=y", small)])],
    );
}

#[test]
fn columns_named_like_the_parameters_are_its_arguments() {
    let workplace = Workplace::new();
    numbers(&workplace);
    run(&workplace, "math", "gcd", "-i numbers.arrow -o out.arrow").success();
    let (schema, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["a", "b", "x=y", "gcd"]);
    let gcd = column(&batches, "gcd").remove(0);
    assert_eq!(
        gcd.as_primitive::<Int64Type>(),
        &Int64Array::from(vec![Some(4), Some(6), None, Some(7)])
    );
}

#[test]
fn arguments_are_named_widened_and_constant() {
    let workplace = Workplace::new();
    numbers(&workplace);
    // An equals sign in a column's name, int16 to int64, a constant of the parameter's type.
    run(
        &workplace,
        "math",
        "div",
        "-i numbers.arrow -o out.arrow --arg a=x=y --arg b=lit:2 --as half --select half,b",
    )
    .success();
    let (schema, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["half", "b"]);
    assert_eq!(
        column(&batches, "half")[0]
            .as_primitive::<Int64Type>()
            .values()
            .as_ref(),
        [2, 3, 4, 5]
    );
    run(&workplace, "math", "haversine", "-i numbers.arrow -o out.arrow --arg lat1=lit:48.85 --arg lon1=lit:2.35 --arg lat2=lit:51.5 --arg lon2=lit:-0.12").success();
    let (_, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    let distances = column(&batches, "haversine").remove(0);
    assert!(
        distances
            .as_primitive::<Float64Type>()
            .values()
            .iter()
            .all(|d| (340.0..350.0).contains(d))
    );
}

#[test]
fn constants_for_any_type_are_sql_literals() {
    let workplace = Workplace::new();
    numbers(&workplace);
    for (literal, expected) in [
        ("3", DataType::Int64),
        ("1.5", DataType::Float64),
        ("true", DataType::Boolean),
        ("'text'", DataType::Utf8),
        ("null", DataType::Null),
        ("DATE '2020-01-01'", DataType::Date32),
    ] {
        let argument = format!("x=lit:{literal}");
        run_with(
            &workplace,
            &module("identity"),
            "identity",
            &["-i", "numbers.arrow", "-o", "out.arrow", "--arg", &argument],
        )
        .success();
        let (schema, batches) =
            read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
        assert_eq!(schema.field(3).data_type(), &expected, "{literal}");
        assert_eq!(batches[0].num_rows(), 4);
    }
}

#[test]
fn all_forms_of_text_are_taken() {
    let workplace = Workplace::new();
    let texts = ["straße", "twelve bytes", "thirteen byte"];
    let plain: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let large: ArrayRef = Arc::new(LargeStringArray::from(texts.to_vec()));
    let view: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
    let dictionary = arrow::compute::cast(
        &plain,
        &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    )
    .expect("cast");
    write_arrow(
        &workplace.path("in.arrow"),
        Form::File,
        &[batch(vec![
            ("plain", plain),
            ("large", large),
            ("view", view),
            ("dictionary", dictionary),
        ])],
    );
    for form in ["plain", "large", "view", "dictionary"] {
        let argument = format!("text={form}");
        run_with(
            &workplace,
            &module("math"),
            "upper",
            &[
                "-i",
                "in.arrow",
                "-o",
                "out.arrow",
                "--arg",
                &argument,
                "--select",
                "upper",
            ],
        )
        .success();
        let (_, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
        let upper = column(&batches, "upper").remove(0);
        assert_eq!(
            upper
                .as_string::<i32>()
                .iter()
                .flatten()
                .collect::<Vec<_>>(),
            ["STRASSE", "TWELVE BYTES", "THIRTEEN BYTE"],
            "{form}"
        );
    }
}

#[test]
fn the_result_may_take_the_name_of_a_column_that_is_left_out() {
    let workplace = Workplace::new();
    numbers(&workplace);
    let said = run(
        &workplace,
        "math",
        "gcd",
        "-i numbers.arrow -o out.arrow --as a",
    )
    .failure(2);
    assert!(said.contains("--as"), "{said}");
    run(
        &workplace,
        "math",
        "gcd",
        "-i numbers.arrow -o out.arrow --as a --select a",
    )
    .success();
    let (_, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    assert_eq!(batches[0].num_columns(), 1);
    assert_eq!(
        column(&batches, "a")[0]
            .as_primitive::<Int64Type>()
            .value(1),
        6
    );
}

#[test]
fn every_format_is_read_and_written() {
    let workplace = Workplace::new();
    numbers(&workplace);
    let mut input = "numbers.arrow".to_owned();
    for (round, output) in ["a.parquet", "b.csv", "c.arrows", "d.feather", "e.csv"]
        .into_iter()
        .enumerate()
    {
        run(
            &workplace,
            "math",
            "gcd",
            &format!("-i {input} -o {output} --as g{round}"),
        )
        .success();
        input = output.to_owned();
    }
    let text = std::fs::read_to_string(workplace.path("e.csv")).expect("a file");
    insta::assert_snapshot!(text, @r"
    a,b,x=y,g0,g1,g2,g3,g4
    12,8,4,4,4,4,4,4
    18,12,6,6,6,6,6,6
    ,5,8,,,,,
    7,0,10,7,7,7,7,7
    ");
    // A name that says nothing: the first bytes do, and --format.
    std::fs::copy(workplace.path("a.parquet"), workplace.path("unnamed")).expect("copied");
    run(
        &workplace,
        "math",
        "gcd",
        "-i unnamed -o also_unnamed --format csv --as again",
    )
    .success();
}

#[test]
fn several_files_are_read_in_the_order_given() {
    let workplace = Workplace::new();
    for (name, value) in [("z", 1), ("a", 2), ("m", 3)] {
        for extension in ["csv", "arrow"] {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![value; 3]));
            let rows = batch(vec![("x", values)]);
            let path = workplace.path(&format!("{name}.{extension}"));
            match extension {
                "arrow" => write_arrow(&path, Form::File, &[rows]),
                _ => {
                    std::fs::write(path, format!("x\n{value}\n{value}\n{value}\n")).expect("a file")
                }
            }
        }
    }
    for extension in ["csv", "arrow"] {
        let inputs = ["z", "a", "m"]
            .map(|n| format!("-i {n}.{extension}"))
            .join(" ");
        run(
            &workplace,
            "identity",
            "identity",
            &format!("{inputs} -o out.arrow --batch-size 2"),
        )
        .success();
        let (_, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
        let all: Vec<i64> = column(&batches, "identity")
            .iter()
            .flat_map(|c| c.as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(all, [1, 1, 1, 2, 2, 2, 3, 3, 3], "{extension}");
    }
}

#[test]
fn batches_have_the_size_asked_for() {
    let workplace = Workplace::new();
    let x: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
    write_arrow(
        &workplace.path("in.arrow"),
        Form::File,
        &[batch(vec![("x", x)])],
    );
    for (size, calls) in [("1", 10), ("3", 4), ("10", 1), ("8192", 1)] {
        let ended = run(
            &workplace,
            "identity",
            "identity",
            &format!("-i in.arrow -o out.csv --batch-size {size} --slots 2 --metrics json -q"),
        )
        .success();
        let metrics: serde_json::Value = serde_json::from_str(&ended.stdout()).expect("JSON");
        assert_eq!(metrics["schema_version"], 1);
        assert_eq!(metrics["rows"], 10);
        assert_eq!(metrics["pools"][0]["calls"], calls, "{size}");
        assert_eq!(metrics["pools"][0]["slots"], 2);
        assert_eq!(ended.stderr(), "");
        assert_eq!(
            std::fs::read_to_string(workplace.path("out.csv"))
                .expect("a file")
                .lines()
                .nth(10),
            Some("9,9")
        );
    }
}

#[test]
fn an_input_without_rows_gives_an_output_without_rows() {
    let workplace = Workplace::new();
    let none: ArrayRef = Arc::new(Int32Array::from(Vec::<i32>::new()));
    write_arrow(
        &workplace.path("in.arrow"),
        Form::File,
        &[batch(vec![("x", none)])],
    );
    for output in ["out.arrow", "out.arrows", "out.parquet", "out.csv"] {
        let ended = run(
            &workplace,
            "identity",
            "identity",
            &format!("-i in.arrow -o {output} --metrics json"),
        )
        .success();
        let metrics: serde_json::Value = serde_json::from_str(&ended.stdout()).expect("JSON");
        assert_eq!(
            (&metrics["rows"], &metrics["pools"][0]["calls"]),
            (&0.into(), &0.into()),
            "{output}"
        );
        assert!(workplace.path(output).exists(), "{output}");
    }
    let (schema, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    assert_eq!(schema.field(1).data_type(), &DataType::Int32);
    assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 0);
}

#[test]
fn three_million_flights_come_through_in_order() {
    let Some(flights) = data("real/flights-3m.parquet") else {
        return;
    };
    let workplace = Workplace::new();
    let input = flights.to_str().expect("UTF-8");
    let rest = [
        "-i",
        input,
        "-o",
        "out.arrow",
        "--arg",
        "a=delay",
        "--arg",
        "b=distance",
        "--as",
        "sum",
        "--select",
        "delay,distance,sum",
        "--slots",
        "2",
    ];
    run_with(&workplace, &module("math"), "add", &rest).success();
    let (_, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    assert_eq!(
        batches.iter().map(|b| b.num_rows()).sum::<usize>(),
        3_000_000
    );
    for batch in &batches {
        let number = |i: usize| batch.column(i).as_primitive::<Int64Type>();
        let sums = number(0)
            .iter()
            .zip(number(1))
            .map(|(a, b)| Some(a?.wrapping_add(b?)));
        assert!(sums.eq(number(2).iter()));
    }
}

#[test]
fn types_of_columns_that_pass_by_are_kept() {
    let workplace = Workplace::new();
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
    let x: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let view: ArrayRef = Arc::new(StringViewArray::from(vec![
        "a string that is longer than twelve bytes",
    ]));
    write_arrow(
        &workplace.path("in.arrow"),
        Form::File,
        &[batch(vec![("f", floats), ("x", x), ("view", view)])],
    );
    run(
        &workplace,
        "identity",
        "identity",
        "-i in.arrow -o between.parquet --arg x=x",
    )
    .success();
    run(
        &workplace,
        "identity",
        "identity",
        "-i between.parquet -o out.arrow --as again",
    )
    .success();
    let (schema, batches) = read_arrow(&workplace.path("out.arrow"), Form::File).expect("readable");
    let types: Vec<&DataType> = schema.fields().iter().map(|f| f.data_type()).collect();
    assert_eq!(
        types,
        [
            &DataType::Float64,
            &DataType::Int32,
            &DataType::Utf8View,
            &DataType::Int32,
            &DataType::Int32
        ]
    );
    assert_eq!(
        column(&batches, "again")[0]
            .as_primitive::<Int32Type>()
            .value(0),
        1
    );
}
