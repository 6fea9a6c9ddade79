//! Init arguments against the JSON Schema that a state declares.
//!
//! The keywords are those that `docs/abi.md` lists; others are ignored. The schema comes from the
//! guest, so nesting is bounded and no keyword can make checking slow (no patterns, no references).

use std::cmp::Ordering;

use serde_json::Value;

/// How deep schema and arguments may nest.
const MAX_DEPTH: usize = 64;

/// Checks `args` and fills in defaults.
///
/// # Errors
/// The path of the first value that does not fit, and why.
pub(crate) fn check_init_args(schema: &Value, args: Value) -> Result<Value, (String, String)> {
    check(schema, args, "$", 0)
}

fn check(
    schema: &Value,
    value: Value,
    path: &str,
    depth: usize,
) -> Result<Value, (String, String)> {
    let refuse = |reason: String| Err((path.to_owned(), reason));
    if depth > MAX_DEPTH {
        return refuse(format!("nests deeper than {MAX_DEPTH}"));
    }
    if let Some(types) = schema.get("type") {
        let names: Vec<&str> = match types {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            other => other.as_str().into_iter().collect(),
        };
        if !names.is_empty() && !names.iter().any(|name| is_type(&value, name)) {
            return refuse(format!(
                "must be {}, found {}",
                names.join(" or "),
                type_of(&value)
            ));
        }
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(&value)
    {
        let list: Vec<String> = allowed.iter().take(20).map(Value::to_string).collect();
        return refuse(format!("must be one of {}", list.join(", ")));
    }
    if let Some(least) = schema.get("minimum")
        && order(&value, least) == Some(Ordering::Less)
    {
        return refuse(format!("must be at least {least}, found {value}"));
    }
    if let Some(most) = schema.get("maximum")
        && order(&value, most) == Some(Ordering::Greater)
    {
        return refuse(format!("must be at most {most}, found {value}"));
    }
    if let (Value::String(text), Some(least)) =
        (&value, schema.get("minLength").and_then(Value::as_u64))
        && (text.chars().count() as u64) < least
    {
        return refuse(format!("must have at least {least} characters"));
    }
    match value {
        Value::Array(items) => {
            if let Some(least) = schema.get("minItems").and_then(Value::as_u64)
                && (items.len() as u64) < least
            {
                return refuse(format!("must have at least {least} items"));
            }
            let Some(item_schema) = schema.get("items") else {
                return Ok(Value::Array(items));
            };
            let checked: Result<Vec<_>, _> = items
                .into_iter()
                .enumerate()
                .map(|(i, item)| {
                    check(
                        item_schema,
                        item,
                        &format!("{path}[{i}]"),
                        depth.saturating_add(1),
                    )
                })
                .collect();
            Ok(Value::Array(checked?))
        }
        Value::Object(mut members) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                let at = format!("{path}.{name}");
                match members.remove(name) {
                    Some(found) => {
                        members.insert(
                            name.clone(),
                            check(property, found, &at, depth.saturating_add(1))?,
                        );
                    }
                    None => {
                        if let Some(default) = property.get("default") {
                            members.insert(name.clone(), default.clone());
                        }
                    }
                }
            }
            for name in schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
            {
                if !members.contains_key(name) {
                    return Err((format!("{path}.{name}"), "is missing".to_owned()));
                }
            }
            match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => {
                    let known: Vec<&str> = properties
                        .into_iter()
                        .flatten()
                        .map(|(name, _)| name.as_str())
                        .collect();
                    if let Some(name) = members
                        .keys()
                        .find(|name| !properties.is_some_and(|p| p.contains_key(name.as_str())))
                    {
                        let hint = match super::resolve::nearest(name, &known) {
                            Some(near) => format!("did you mean `{near}`?"),
                            None if known.is_empty() => "it takes none".to_owned(),
                            None => format!("it takes {}", known.join(", ")),
                        };
                        return Err((format!("{path}.{name}"), format!("is not known; {hint}")));
                    }
                }
                Some(more @ Value::Object(_)) => {
                    for (name, member) in &mut members {
                        if !properties.is_some_and(|p| p.contains_key(name)) {
                            *member = check(
                                more,
                                std::mem::take(member),
                                &format!("{path}.{name}"),
                                depth.saturating_add(1),
                            )?;
                        }
                    }
                }
                _ => {}
            }
            Ok(Value::Object(members))
        }
        other => Ok(other),
    }
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        // Stricter than JSON Schema, which takes 3.0: guests read integers as integers.
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// How two numbers compare; whole ones exactly, however large they are.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    let whole = |value: &Value| {
        let signed = value.as_i64().map(i128::from);
        signed.or_else(|| value.as_u64().map(i128::from))
    };
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type":"object","additionalProperties":false,"required":["words"],"properties":{
            "words":{"type":"array","items":{"type":"string","minLength":1},"minItems":1},
            "k":{"type":"integer","minimum":1,"maximum":9,"default":2},
            "mode":{"enum":["fast","exact"]}}})
    }

    #[test]
    fn large_whole_numbers_are_compared_exactly() {
        let schema = json!({"type":"object","properties":{
            "n":{"type":"integer","minimum":i64::MIN,"maximum":i64::MAX}}});
        assert!(check_init_args(&schema, json!({"n": i64::MAX})).is_ok());
        let (path, reason) =
            check_init_args(&schema, json!({"n": 1_u64 << 63})).expect_err("too large");
        assert_eq!(path, "$.n");
        assert!(reason.contains("9223372036854775807"), "{reason}");
    }

    #[test]
    fn defaults_are_filled_in() {
        let args = check_init_args(&schema(), json!({"words":["a"]}));
        assert_eq!(args, Ok(json!({"words":["a"],"k":2})));
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_path() {
        for (args, path) in [
            (json!([]), "$"),
            (json!({}), "$.words"),
            (json!({"words":[]}), "$.words"),
            (json!({"words":["a",1]}), "$.words[1]"),
            (json!({"words":["a",""]}), "$.words[1]"),
            (json!({"words":["a"],"k":0}), "$.k"),
            (json!({"words":["a"],"k":10}), "$.k"),
            (json!({"words":["a"],"k":1.5}), "$.k"),
            (json!({"words":["a"],"mode":"slow"}), "$.mode"),
            (json!({"word":["a"],"words":["a"]}), "$.word"),
        ] {
            let (found, reason) =
                check_init_args(&schema(), args.clone()).expect_err(&args.to_string());
            assert_eq!(found, path, "{args}: {reason}");
        }
    }
}
