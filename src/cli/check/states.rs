//! Init arguments for the states of a module, and how their `close` ends.

use crate::module::check_init_args;
use crate::{LocalSlot, State};
use serde_json::{Map, Value};

/// What to give to `init`: the arguments of the command line where the state takes them, else none.
///
/// # Errors
/// Why the state cannot be made, and what to do about it.
pub(super) fn init_args(state: &State, given: Option<&Value>) -> Result<Value, String> {
    let accepts = |args: &Value| check_init_args(&state.init_args, args.clone());
    let none = Value::Object(Map::new());
    let (path, reason) = match given.map(|given| (given, accepts(given))) {
        Some((given, Ok(_))) => return Ok(given.clone()),
        Some((_, Err(refused))) => match accepts(&none) {
            Ok(_) => return Ok(none),
            Err(_) => refused,
        },
        None => match accepts(&none) {
            Ok(_) => return Ok(none),
            Err(refused) => refused,
        },
    };
    Err(format!(
        "the state `{}` needs init arguments ({path} {reason}); give them with {}",
        state.name,
        example(&state.init_args)
    ))
}

/// Whether `init` may have good reason to refuse to do without arguments: some are optional and have
/// no default.
pub(super) fn may_need_arguments(state: &State) -> bool {
    let properties = state.init_args.get("properties").and_then(Value::as_object);
    properties.is_some_and(|p| p.values().any(|schema| schema.get("default").is_none()))
}

/// `--init` with places for what is required.
pub(super) fn example(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array);
    let parts: Vec<String> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| {
            let property = schema.get("properties").and_then(|p| p.get(name));
            let kind = property.and_then(|p| p.get("type")).and_then(Value::as_str);
            let choice = property
                .and_then(|p| p.get("enum")?.get(0))
                .map(Value::to_string);
            let place = match kind {
                _ if choice.is_some() => choice.as_deref().unwrap_or_default(),
                Some("array") => "[…]",
                Some("object") => "{…}",
                Some("string") => "\"…\"",
                Some("boolean") => "true",
                Some("integer" | "number") => "0",
                _ => "…",
            };
            format!("{}: {place}", Value::from(name))
        })
        .collect();
    if !parts.is_empty() {
        return format!("--init '{{{}}}' or --init @FILE", parts.join(", "));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let names: Vec<String> = properties
        .into_iter()
        .flatten()
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    format!(
        "--init JSON or --init @FILE, an object of {}",
        names.join(", ")
    )
}

/// Closes a slot; gives what went wrong with `close`.
pub(super) fn close(slot: LocalSlot) -> Option<String> {
    let error = slot.close().err()?;
    Some(format!("close failed: {}", error.fault))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::StateKind;

    fn state(init_args: Value) -> State {
        State {
            name: "S".to_owned(),
            kind: StateKind::Resource,
            init_args,
            closes: false,
            snapshot: false,
            init: "init".to_owned(),
            close: None,
        }
    }

    #[test]
    fn given_arguments_go_to_states_that_take_them() {
        let words = state(json!({
            "type": "object", "required": ["words"], "additionalProperties": false,
            "properties": { "words": { "type": "array" }, "fold": { "type": "boolean", "default": true } }
        }));
        let given = json!({ "words": ["a"] });
        assert_eq!(init_args(&words, Some(&given)), Ok(given.clone()));
        let reason = init_args(&words, None).unwrap_err();
        assert!(reason.contains(r#"--init '{"words": […]}'"#), "{reason}");
        assert!(init_args(&words, Some(&json!({ "words": 1 }))).is_err());
        let plain = state(json!({ "additionalProperties": false, "properties": {} }));
        assert_eq!(init_args(&plain, Some(&given)), Ok(json!({})));
        assert!(may_need_arguments(&words) && !may_need_arguments(&plain));
    }
}
