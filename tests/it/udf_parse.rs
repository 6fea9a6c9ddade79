//! The module `parse` over the dates of real movies.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Date32Type, TimeUnit, TimestampMicrosecondType, UInt16Type};

use crate::cli::{Workplace, module};
use crate::cli_run::run_with;
use crate::texts::{movie_fields, run_on_texts, texts_of, write_texts};

#[test]
fn the_dates_of_all_movies_are_those_of_their_iso_form() {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let Some(dates) = movie_fields("Release Date") else {
        return;
    };
    let workplace = Workplace::new();
    write_texts(&workplace, "dates.arrow", "text", &dates);
    let result = run_on_texts(&workplace, "parse", "parse_date", &["-i", "dates.arrow"]);
    let found = result
        .iter()
        .flat_map(|array| array.as_primitive::<Date32Type>().iter());
    // "Jun 12 1998" as "1998-06-12", which arrow-rs reads.
    let iso = dates.iter().map(|date| {
        let date = date.as_deref()?;
        let month = MONTHS.iter().position(|month| date.starts_with(month))? + 1;
        Some(format!("{}-{month:02}-{}", date.get(7..)?, date.get(4..6)?))
    });
    let iso: ArrayRef = Arc::new(StringArray::from_iter(iso));
    let wanted = arrow::compute::cast(&iso, &DataType::Date32).expect("dates");
    assert_eq!(wanted.null_count(), 0);
    let wanted = wanted.as_primitive::<Date32Type>().iter();
    assert!(found.eq(wanted));
}

#[test]
fn moments_are_in_utc_and_an_order_is_asked_for() {
    let workplace = Workplace::new();
    let texts = [
        "1998-01-07T12:34:56.5+01:00",
        "Wed, 7 Jan 98 03:34:56 -0800 (PST)",
    ];
    write_texts(
        &workplace,
        "in.arrow",
        "text",
        &texts.map(|text| Some(text.to_owned())),
    );
    let result =
        run_on_texts(&workplace, "parse", "parse_timestamp", &["-i", "in.arrow"]).remove(0);
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    assert_eq!(result.data_type(), &utc);
    let values = result.as_primitive::<TimestampMicrosecondType>().values();
    assert_eq!(values.as_ref(), [884_172_896_500_000, 884_172_896_000_000]);

    write_texts(
        &workplace,
        "in.arrow",
        "text",
        &[Some("07/01/98".to_owned())],
    );
    let rest = ["-i", "in.arrow", "-o", "out.arrow"];
    let said = run_with(&workplace, &module("parse"), "parse_date", &rest).failure(1);
    assert!(said.contains("`order`"), "{said}");
    for (order, days) in [("day_first", 10_233), ("month_first", 10_408)] {
        let init = format!(r#"{{"order":"{order}"}}"#);
        let rest = ["-i", "in.arrow", "--init", init.as_str()];
        let result = run_on_texts(&workplace, "parse", "read_date", &rest).remove(0);
        assert_eq!(
            result.as_primitive::<Date32Type>().value(0),
            days,
            "{order}"
        );
    }
}

#[test]
fn a_url_becomes_a_struct() {
    let workplace = Workplace::new();
    let texts = ["HTTPS://Example.org/a%20b?q=x+y#z", "mailto:a@example.org"];
    write_texts(
        &workplace,
        "in.arrow",
        "url",
        &texts.map(|text| Some(text.to_owned())),
    );
    let result = run_on_texts(&workplace, "parse", "parse_url", &["-i", "in.arrow"]).remove(0);
    let parts = result.as_struct();
    let part = |name: &str| texts_of(&[parts.column_by_name(name).expect(name).clone()]);
    assert_eq!(part("host"), [Some("example.org".to_owned()), None]);
    assert_eq!(part("query"), [Some("q=x+y".to_owned()), None]);
    let ports = parts
        .column_by_name("port")
        .expect("a port")
        .as_primitive::<UInt16Type>();
    assert_eq!(ports.iter().collect::<Vec<_>>(), [Some(443), None]);
    let rest = ["-i", "in.arrow", "--arg", "name=lit:q"];
    let values = texts_of(&run_on_texts(&workplace, "parse", "url_param", &rest));
    assert_eq!(values, [Some("x y".to_owned()), None]);
}
