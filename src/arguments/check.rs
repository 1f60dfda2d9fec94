//! Arguments against the tool's input schema, before anything is sent.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Map, Value};

use super::ArgumentError;
use super::schema::{Schema, Words, as_object};
use crate::model::text;

/// Misfits told at once; more would bury the first.
const MOST: usize = 12;

/// What is odd but no reason not to send; for people.
pub type Note = String;

/// Checks `arguments`.
///
/// # Errors
/// [`ArgumentError::Misfit`] with every argument that does not fit and what it should be.
pub fn check(arguments: &Map<String, Value>, schema: &Schema) -> Result<Vec<Note>, ArgumentError> {
    let validator = match validator(schema) {
        Ok(validator) => validator,
        Err(error) => {
            let reason = text::line(&error.to_string()).into_owned();
            let Words { one, asker, .. } = schema.words();
            return Ok(vec![format!("{asker}'s schema cannot be used, so the {one}s go unchecked: {reason}")]);
        }
    };
    let instance = as_object(arguments);
    let mut misfits: Vec<String> = Vec::new();
    for error in validator.iter_errors(&instance) {
        for misfit in tell(&error, arguments, schema) {
            if misfits.len() < MOST && !misfits.contains(&misfit) {
                misfits.push(misfit);
            }
        }
    }
    if misfits.is_empty() { Ok(strangers(arguments, schema)) } else { Err(ArgumentError::Misfit(misfits)) }
}

/// Checks what is said of one argument alone, whatever else is missing.
///
/// # Errors
/// [`ArgumentError::Misfit`] where it does not fit.
pub fn check_one(arguments: &Map<String, Value>, schema: &Schema, name: &str) -> Result<(), ArgumentError> {
    // What cannot be checked is told by `check`.
    let Ok(validator) = validator(schema) else { return Ok(()) };
    let instance = as_object(arguments);
    let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let of_it = |error: &ValidationError<'_>| {
        let at = error.instance_path().to_string();
        at.strip_prefix(&pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let misfits: Vec<String> = validator
        .iter_errors(&instance)
        .filter(|error| of_it(error))
        .flat_map(|error| tell(&error, arguments, schema))
        .take(MOST)
        .collect();
    if misfits.is_empty() { Ok(()) } else { Err(ArgumentError::Misfit(misfits)) }
}

fn validator(schema: &Schema) -> Result<jsonschema::Validator, ValidationError<'static>> {
    jsonschema::options().should_validate_formats(schema.words().formats).build(schema.value())
}

/// Arguments that the schema allows without knowing them, which are mostly typing errors.
fn strangers(arguments: &Map<String, Value>, schema: &Schema) -> Vec<Note> {
    let names = schema.names();
    if names.is_empty() {
        return Vec::new();
    }
    let unknown = arguments.keys().filter(|key| !names.contains(&key.as_str()));
    unknown
        .map(|key| {
            let Words { one, asker, .. } = schema.words();
            format!("{asker} does not list `{}` as {} {one}{}", text::line(key), article(one), meant(key, schema))
        })
        .collect()
}

fn tell(error: &ValidationError<'_>, arguments: &Map<String, Value>, schema: &Schema) -> Vec<String> {
    let path = path(&error.instance_path().to_string());
    let named = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![missing(&named(name), name, path.is_empty(), arguments, schema)]
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .map(|name| {
                let near = if path.is_empty() { meant(name, schema) } else { String::new() };
                format!("there is no {} `{}`{near}", schema.words().one, text::line(&named(name)))
            })
            .collect(),
        ValidationErrorKind::Type { kind } => {
            vec![format!("`{}` should be {}, not {}", text::line(&path), types(kind), shown(error.instance()))]
        }
        ValidationErrorKind::Enum { options } => {
            vec![no_choice(&path, error.instance(), options.as_array().map_or(&[], Vec::as_slice))]
        }
        ValidationErrorKind::OneOfNotValid { .. } | ValidationErrorKind::AnyOf { .. }
            if !schema.choices(&path).is_empty() =>
        {
            vec![no_choice(&path, error.instance(), &schema.choices(&path))]
        }
        ValidationErrorKind::Format { format } => {
            let meant = text::line(format_in_words(format));
            vec![format!("`{}` should be {meant}, not {}", text::line(&path), shown(error.instance()))]
        }
        _ => vec![format!("`{}`: {}", text::line(&path), text::truncate(&text::line(&error.to_string()), 300))],
    }
}

/// What a `format` of JSON Schema asks for; not yet escaped, as it may be a word of the server's.
pub fn format_in_words(format: &str) -> &str {
    match format {
        "email" => "an email address",
        "uri" => "a URI",
        "date" => "a date, like 2031-02-28",
        "date-time" => "a date and time, like 2031-02-28T18:30:00Z",
        other => other,
    }
}

fn no_choice(path: &str, given: &Value, choices: &[Value]) -> String {
    let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
    let near = given.as_str().map_or_else(String::new, |wanted| {
        did_you_mean(&text::near_misses(wanted, choices.iter().map(|choice| choice.trim_matches('"'))))
    });
    let choices = text::line(&choices.join(", ")).into_owned();
    format!("`{}` should be one of {choices}, not {}{near}", text::line(path), shown(given))
}

fn missing(shown: &str, name: &str, at_root: bool, arguments: &Map<String, Value>, schema: &Schema) -> String {
    if !at_root {
        return format!("`{}` is missing", text::line(shown));
    }
    let names = schema.names();
    let strangers = arguments.keys().map(String::as_str).filter(|given| !names.contains(given));
    let near = text::near_misses(name, strangers);
    let near = near.first().map_or_else(String::new, |near| format!("; is `{}` meant for it?", text::line(near)));
    let about = schema
        .description(name)
        .map_or_else(String::new, |about| format!(": {}", text::truncate(&text::line(about), 120)));
    format!("`{}` is missing ({}{about}){near}", text::line(shown), text::line(&schema.describe(name)))
}

/// `an argument`, `a field`.
fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// `; did you mean …?`, and where nothing is near the names there are.
fn meant(name: &str, schema: &Schema) -> String {
    let (names, Words { asker, takes, .. }) = (schema.names(), schema.words());
    let near = text::near_misses(name, names.iter().copied());
    if !near.is_empty() {
        return did_you_mean(&near);
    }
    if names.is_empty() {
        return format!("; {asker} {takes} none");
    }
    let names: Vec<String> = names.iter().take(12).map(|name| format!("`{}`", text::line(name))).collect();
    format!("; {asker} {takes} {}", names.join(", "))
}

fn did_you_mean(near: &[&str]) -> String {
    if near.is_empty() {
        return String::new();
    }
    let near: Vec<String> = near.iter().map(|name| format!("`{}`", text::line(name))).collect();
    format!("; did you mean {}?", near.join(" or "))
}

fn types(kind: &TypeKind) -> String {
    let name = |one: JsonType| one.to_string().replace("array", "a list").replace("object", "an object");
    match kind {
        TypeKind::Single(one) => name(*one),
        TypeKind::Multiple(many) => many.iter().map(name).collect::<Vec<_>>().join(" or "),
    }
}

fn shown(value: &Value) -> String {
    let value = value.to_string();
    text::truncate(&text::line(&value), 80).into_owned()
}

/// `/cells/0/x` as `cells.0.x`.
fn path(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
    parts.collect::<Vec<_>>().join(".")
}
