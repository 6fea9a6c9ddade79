//! Functions whose types are fixed by `bind`.

use wasmill_guest::testing::{Instance, column, handle};
use wasmill_guest::{AnyColumn, ArrowType, BindArgs, Binding, Bound, Field, udf};

/// A struct whose first field is taken.
#[derive(ArrowType)]
struct Span {
    from: i32,
    words: Vec<String>,
}

fn bind_first(args: &BindArgs<'_>) -> Result<Field, String> {
    match args.fields() {
        [only] if only.format == "+s" => {
            let mut first = only.children[0].clone();
            first.nullable = true;
            Ok(first)
        }
        _ => Err("first takes a struct".to_owned()),
    }
}

#[udf(batch, bind = bind_first)]
fn first(x: AnyColumn<'_>, binding: Binding) -> Result<Bound<'_>, String> {
    assert_eq!(binding.arguments()[0].format, "+s");
    assert_eq!(
        binding.result().map(|field| field.name.as_str()),
        Some("from")
    );
    x.child(0).map(Bound::from).ok_or("no child".to_owned())
}

#[test]
fn bind_fixes_the_type_of_the_result() {
    let (instance, udf) = (Instance::new(), &handle!(first)[0]);
    let refused = instance.bind(udf, &[Field::of::<i64>("x")]);
    assert_eq!(refused.err().as_deref(), Some("first takes a struct"));

    let types = instance
        .bind(udf, &[Field::of::<Span>("x")])
        .expect("a struct");
    assert_eq!(types.result, Some(Field::new("from", "i", true)));
    let spans = (1..3).map(|start| {
        Some(Span {
            from: start,
            words: vec![],
        })
    });
    let answer = instance.call_bound(&types, udf, 2, &[column(spans)]);
    assert_eq!(answer.expect("the call works").rows::<i32>(), [1, 2]);
    let record = udf.record.to_json();
    assert!(
        record.contains(r#""args":[{"name":"x","any":true}],"result":{"bound":true}"#),
        "{record}"
    );
    assert!(
        record.contains(r#""bind":"wasmill_bind_first""#),
        "{record}"
    );
}
