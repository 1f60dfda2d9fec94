//! From typed text to the JSON that the schema asks for.
//!
//! The rule: where a string is allowed the text is the string, exactly, except that text which is a JSON list or object
//! becomes one where the schema allows that too. Where no string is allowed, the text must be JSON of an allowed type; a
//! list may also be given by its one item. Nothing is split, trimmed or guessed.

use serde_json::Value;

use super::schema::Kind;
use crate::model::text;

/// The value of `text` at a place of this kind, or why there is none.
pub(super) fn coerce(key: &str, typed: &str, kind: &Kind) -> Result<Value, String> {
    let json: Option<Value> = serde_json::from_str(typed).ok();
    if kind.types.is_empty() {
        // `enum` without a type: the text, unless only its JSON is among the choices.
        let as_text = Value::String(typed.to_owned());
        let only_json = json.filter(|json| !kind.choices.contains(&as_text) && kind.choices.contains(json));
        return Ok(only_json.unwrap_or(as_text));
    }
    if kind.allows("string") {
        let structured = json.filter(|json| match json {
            Value::Array(_) => kind.allows("array"),
            Value::Object(_) => kind.allows("object"),
            _ => false,
        });
        return Ok(structured.unwrap_or_else(|| Value::String(typed.to_owned())));
    }
    if let Some(json) = json.filter(|json| fits(json, kind)) {
        return Ok(json);
    }
    if kind.allows("array") && !typed.trim_start().starts_with('[') {
        let item = kind.items.as_deref().cloned().unwrap_or_default();
        return coerce(key, typed, &item).map(|item| Value::Array(vec![item]));
    }
    Err(format!(
        "`{}` should be {}, not `{}`{}",
        text::line(key),
        text::line(&kind.describe()),
        text::line(typed),
        example(kind)
    ))
}

fn fits(json: &Value, kind: &Kind) -> bool {
    match json {
        Value::Null => kind.allows("null"),
        Value::Bool(_) => kind.allows("boolean"),
        Value::Number(_) => kind.allows("number") || kind.allows("integer"),
        Value::String(_) => false,
        Value::Array(_) => kind.allows("array"),
        Value::Object(_) => kind.allows("object"),
    }
}

fn example(kind: &Kind) -> &'static str {
    if kind.allows("object") {
        "; write it as JSON: {\"key\": …}"
    } else if kind.allows("array") {
        "; write it as JSON: [ … ], or repeat the key for each item"
    } else if kind.allows("boolean") {
        "; write true or false"
    } else {
        ""
    }
}
