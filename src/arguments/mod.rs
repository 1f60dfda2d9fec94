//! A call's arguments, from how people type them to the JSON that the tool's input schema asks for.
//!
//! `key=text` becomes what the schema says of `key`, text where it says nothing; `key:=JSON` is taken as it stands;
//! `key=@FILE` and `key:=@FILE` read a file; `a.b=…` reaches into objects. Digits are never changed.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use crate::model::text;

mod check;
mod coerce;
mod schema;

pub use check::{check, check_one, format_in_words};
pub use schema::Schema;

/// Why arguments cannot be sent. Nothing was.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// Not `key=…`.
    #[error("`{}` is not an argument; write key=text, key:=JSON, key=@FILE or key:=@FILE", text::line(.0))]
    Syntax(String),
    /// `:=` with something that is no JSON.
    #[error("the value of `{}` is not JSON: {reason}", text::line(key))]
    Json {
        /// The argument.
        key: String,
        /// Where it goes wrong.
        reason: String,
    },
    /// The file of `=@` cannot be read.
    #[error("cannot read the file `{}` for `{}`: {reason}", text::line(file), text::line(key))]
    File {
        /// The argument.
        key: String,
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// The same argument twice, where it is no list.
    #[error("`{}` is given twice", text::line(.0))]
    Twice(String),
    /// `a.b=` where `a` is something other than an object.
    #[error("`{}` cannot be set: `{}` is not an object", text::line(key), text::line(parent))]
    NotAnObject {
        /// The argument.
        key: String,
        /// What should be an object.
        parent: String,
    },
    /// `--input` holds something else than an object.
    #[error("--input must be a JSON object, it is {0}")]
    InputShape(&'static str),
    /// The text does not fit what the schema asks for.
    #[error("{}", list(.0))]
    Misfit(Vec<String>),
}

/// The most bytes of a file that an argument names.
const FILE_LIMIT: u64 = 256 << 20;

fn list(misfits: &[String]) -> String {
    match misfits {
        [one] => one.clone(),
        many => format!("this does not fit:\n  - {}", many.join("\n  - ")),
    }
}

/// One `key=…` as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    key: String,
    value: Typed,
}

#[derive(Clone, Debug, PartialEq)]
enum Typed {
    Text(String),
    Json(Value),
}

impl Item {
    /// Reads one argument, and its file where it names one.
    ///
    /// # Errors
    /// Where it is no argument, its JSON is none or its file cannot be read.
    pub fn parse(typed: &str) -> Result<Self, ArgumentError> {
        let (key, value) = typed.split_once('=').ok_or_else(|| ArgumentError::Syntax(typed.to_owned()))?;
        let (key, is_json) = key.strip_suffix(':').map_or((key, false), |key| (key, true));
        if key.is_empty() {
            return Err(ArgumentError::Syntax(typed.to_owned()));
        }
        let text = match value.strip_prefix('@') {
            Some(file) => read_file(key, file)?,
            None => value.to_owned(),
        };
        let value = if is_json { Typed::Json(parse_json(key, &text)?) } else { Typed::Text(text) };
        Ok(Self { key: key.to_owned(), value })
    }

    /// `key=text`, already taken apart.
    pub fn text(key: &str, text: &str) -> Self {
        Self { key: key.to_owned(), value: Typed::Text(text.to_owned()) }
    }

    /// What it is for.
    pub fn key(&self) -> &str {
        &self.key
    }
}

fn read_file(key: &str, file: &str) -> Result<String, ArgumentError> {
    let fail = |reason: String| ArgumentError::File { key: key.to_owned(), file: file.to_owned(), reason };
    let mut bytes = Vec::new();
    std::fs::File::open(Path::new(file))
        .and_then(|opened| opened.take(FILE_LIMIT + 1).read_to_end(&mut bytes))
        .map_err(|error| fail(format!("{error} (text that begins with @ is written {key}:='\"@…\"')")))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_LIMIT) {
        return Err(fail(format!("it has more than {} MiB", FILE_LIMIT >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| fail("it is not UTF-8 text".to_owned()))
}

fn parse_json(key: &str, text: &str) -> Result<Value, ArgumentError> {
    serde_json::from_str(text).map_err(|error| ArgumentError::Json { key: key.to_owned(), reason: error.to_string() })
}

/// Reads `--input`: an object.
///
/// # Errors
/// Where it is no JSON, or no object.
pub fn parse_input(text: &str) -> Result<Map<String, Value>, ArgumentError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match parse_json("--input", text)? {
        Value::Object(object) => Ok(object),
        Value::Array(_) => Err(ArgumentError::InputShape("a list")),
        _ => Err(ArgumentError::InputShape("a single value")),
    }
}

/// Puts `items` on top of `base`, each as `schema` asks for it.
///
/// # Errors
/// Where an item does not fit the schema or the object it goes into.
pub fn build(
    mut base: Map<String, Value>,
    items: &[Item],
    schema: &Schema,
) -> Result<Map<String, Value>, ArgumentError> {
    let mut given: Vec<Vec<String>> = Vec::new();
    for item in items {
        let path = schema.path(&item.key);
        let kind = schema.at(&path);
        let value = match &item.value {
            Typed::Json(value) => value.clone(),
            Typed::Text(text) => {
                coerce::coerce(&item.key, text, &kind).map_err(|misfit| ArgumentError::Misfit(vec![misfit]))?
            }
        };
        let again = given.contains(&path);
        let slot = slot(&mut base, &path, &item.key)?;
        match (again, slot) {
            // A list is given item by item by repeating its key.
            (true, Value::Array(list)) => match value {
                Value::Array(more) => list.extend(more),
                one => list.push(one),
            },
            (true, _) => return Err(ArgumentError::Twice(item.key.clone())),
            (false, slot) => *slot = value,
        }
        given.push(path);
    }
    Ok(base)
}

/// The place of `path`, made where it is not there.
fn slot<'a>(base: &'a mut Map<String, Value>, path: &[String], key: &str) -> Result<&'a mut Value, ArgumentError> {
    let (last, parents) = path.split_last().expect("a key has a part");
    let mut object = base;
    for (depth, part) in parents.iter().enumerate() {
        let child = object.entry(part.clone()).or_insert_with(|| Value::Object(Map::new()));
        object = child
            .as_object_mut()
            .ok_or_else(|| ArgumentError::NotAnObject { key: key.to_owned(), parent: path[..=depth].join(".") })?;
    }
    Ok(object.entry(last.clone()).or_insert(Value::Null))
}

#[cfg(test)]
mod tests;
