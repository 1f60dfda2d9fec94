//! What a server asks a person for: a form's fields, and from what was typed or given to values that fit.
//! Spec 2025-11-25, client/elicitation, "Requested Schema".
//!
//! Pure: a prompt shows a [`Field`] and hands back text or choices, a script hands in [`Item`]s, and both end in the same
//! check. Keywords that nobody knows are ignored; a field of a type that the specification does not allow is asked for as
//! JSON.

use serde_json::{Map, Number, Value};

use crate::arguments::{self, ArgumentError, Item, Schema};

mod address;
pub mod secrets;

pub use address::Address;

/// A form.
#[derive(Clone, Debug)]
pub struct Form {
    schema: Schema,
    fields: Vec<Field>,
}

/// One field of it. Text of the server is not yet escaped.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its key in the answer.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What it is about.
    pub description: Option<String>,
    /// Whether an answer must have it.
    pub required: bool,
    /// What it is where nobody says otherwise.
    pub default: Option<Value>,
    /// What it may be.
    pub kind: FieldKind,
    /// What it may be beyond its type, in words.
    pub bounds: Vec<String>,
}

/// What a field may be.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// Yes or no.
    Boolean,
    /// One of these.
    Choice(Vec<Choice>),
    /// Some of these.
    Choices(Vec<Choice>),
    /// Something that the specification does not allow in a form.
    Other,
}

/// Something to choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What goes into the answer.
    pub value: Value,
    /// What people call it; not yet escaped.
    pub title: String,
}

impl Form {
    /// Reads `requestedSchema`.
    pub fn new(schema: &Value) -> Self {
        let schema = Schema::of_question(schema);
        let required = schema.required();
        let names = schema.names();
        let fields = names.iter().map(|name| read_field(name, &schema, required.contains(name))).collect();
        Self { fields, schema }
    }

    /// Its fields, in the server's order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The defaults of all fields that have one.
    pub fn defaults(&self) -> Map<String, Value> {
        let with_default = self.fields.iter().filter_map(|field| Some((field.name.clone(), field.default.clone()?)));
        with_default.collect()
    }

    /// Puts `items` on top of `base`.
    ///
    /// # Errors
    /// Where an item does not fit its field. Whether all together fit is for [`finish`](Self::finish).
    pub fn fill(&self, base: Map<String, Value>, items: &[Item]) -> Result<Map<String, Value>, ArgumentError> {
        arguments::build(base, items, &self.schema)
    }

    /// An answer that is ready to be sent: the defaults, `given` on top and `items` above all.
    ///
    /// # Errors
    /// [`ArgumentError::Misfit`] with what does not fit, by field.
    pub fn complete(&self, given: Map<String, Value>, items: &[Item]) -> Result<Map<String, Value>, ArgumentError> {
        let mut content = self.defaults();
        content.extend(given);
        self.finish(self.fill(content, items)?)
    }

    /// The value that text stands for in a field, alone.
    ///
    /// # Errors
    /// [`ArgumentError::Misfit`] where it does not fit.
    pub fn read(&self, field: &Field, typed: &str) -> Result<Value, ArgumentError> {
        let item = Item::text(&field.name, typed);
        let mut content = self.fill(Map::new(), &[item])?;
        self.settle(&mut content);
        let value = content.remove(&field.name).unwrap_or_default();
        self.check_field(field, &value)?;
        Ok(value)
    }

    /// Whether a value fits a field, alone.
    ///
    /// # Errors
    /// [`ArgumentError::Misfit`] where it does not.
    pub fn check_field(&self, field: &Field, value: &Value) -> Result<(), ArgumentError> {
        let content = Map::from_iter([(field.name.clone(), value.clone())]);
        arguments::check_one(&content, &self.schema, &field.name)
    }

    /// Makes an answer ready to be sent: titles become the values that they stand for, `4.0` becomes `4` where a whole number
    /// is asked for, and all together is checked.
    ///
    /// # Errors
    /// [`ArgumentError::Misfit`] with everything that does not fit, by field.
    pub fn finish(&self, mut content: Map<String, Value>) -> Result<Map<String, Value>, ArgumentError> {
        self.settle(&mut content);
        arguments::check(&content, &self.schema)?;
        Ok(content)
    }

    fn settle(&self, content: &mut Map<String, Value>) {
        for field in &self.fields {
            if let Some(value) = content.get_mut(&field.name) {
                field.settle(value);
            }
        }
    }
}

impl Field {
    /// What people read: its title or else its name; not yet escaped.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Whether its value is typed rather than chosen.
    pub fn is_typed(&self) -> bool {
        match self.kind {
            FieldKind::Text | FieldKind::Integer | FieldKind::Number | FieldKind::Other => true,
            FieldKind::Boolean | FieldKind::Choice(_) | FieldKind::Choices(_) => false,
        }
    }

    fn settle(&self, value: &mut Value) {
        match (&self.kind, value) {
            (FieldKind::Integer, Value::Number(number)) => {
                if let Some(whole) = whole(number) {
                    *number = whole;
                }
            }
            (FieldKind::Choice(choices), value) => choose(choices, value),
            (FieldKind::Choices(choices), Value::Array(values)) => {
                values.iter_mut().for_each(|value| choose(choices, value));
            }
            _ => {}
        }
    }
}

/// `4.0` as `4`; no other digit changes.
fn whole(number: &Number) -> Option<Number> {
    let text = number.to_string();
    let (digits, fraction) = text.split_once('.')?;
    let is_whole = !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0');
    is_whole.then(|| serde_json::from_str(digits).ok()).flatten()
}

/// A title stands for its value, unless it is itself a value.
fn choose(choices: &[Choice], value: &mut Value) {
    if choices.iter().any(|choice| choice.value == *value) {
        return;
    }
    let Some(text) = value.as_str() else { return };
    let mut titled = choices.iter().filter(|choice| choice.title == text);
    if let (Some(choice), None) = (titled.next(), titled.next()) {
        *value = choice.value.clone();
    }
}

fn read_field(name: &str, schema: &Schema, required: bool) -> Field {
    let of_it = schema.property(name).cloned().unwrap_or_default();
    let text = |key: &str| of_it.get(key).and_then(Value::as_str).map(str::to_owned).filter(|text| !text.is_empty());
    let is = |kind: &str| match of_it.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        one => one.is_some_and(|one| one == kind),
    };
    let list = |key: &str| of_it.get(key).and_then(Value::as_array);
    let kind = if let Some(choices) = choices(&of_it) {
        FieldKind::Choice(choices)
    } else if is("array") {
        let items = of_it.get("items").and_then(|items| schema.resolve(items));
        items.and_then(choices).map_or(FieldKind::Other, FieldKind::Choices)
    } else if is("boolean") {
        FieldKind::Boolean
    } else if is("integer") {
        FieldKind::Integer
    } else if is("number") {
        FieldKind::Number
    } else if is("string") || (of_it.get("type").is_none() && list("anyOf").is_none() && list("allOf").is_none()) {
        FieldKind::Text
    } else {
        FieldKind::Other
    };
    Field {
        name: name.to_owned(),
        title: text("title"),
        description: text("description"),
        required,
        default: of_it.get("default").filter(|default| !default.is_null()).cloned(),
        bounds: bounds(&of_it),
        kind,
    }
}

/// A value as people write it: text without its quotes, anything else as JSON.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The choices of `enum`, with the older `enumNames`, or of titled `const`s.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let names = schema.get("enumNames").and_then(Value::as_array);
        let title = |at: usize, value: &Value| {
            let named = names.and_then(|names| names.get(at)).and_then(Value::as_str);
            named.map_or_else(|| plain(value), str::to_owned)
        };
        let choices = values.iter().enumerate();
        return Some(choices.map(|(at, value)| Choice { value: value.clone(), title: title(at, value) }).collect());
    }
    let titled = ["oneOf", "anyOf"].into_iter().find_map(|key| schema.get(key).and_then(Value::as_array))?;
    let choice = |branch: &Value| {
        let value = branch.get("const")?.clone();
        let title = branch.get("title").and_then(Value::as_str).map_or_else(|| plain(&value), str::to_owned);
        Some(Choice { value, title })
    };
    titled.iter().map(choice).collect()
}

/// What a value is bound to, in words.
fn bounds(schema: &Value) -> Vec<String> {
    let number = |key: &str| schema.get(key).filter(|value| value.is_number()).map(Value::to_string);
    let range = |least: &str, most: &str, unit: &str| match (number(least), number(most)) {
        (Some(least), Some(most)) if least == most => Some(format!("exactly {least}{unit}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most}{unit}")),
        (Some(least), None) => Some(format!("at least {least}{unit}")),
        (None, Some(most)) => Some(format!("at most {most}{unit}")),
        (None, None) => None,
    };
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let format = text("format").map(|format| arguments::format_in_words(format).to_owned());
    let all = [
        format,
        range("minimum", "maximum", ""),
        number("exclusiveMinimum").map(|least| format!("more than {least}")),
        number("exclusiveMaximum").map(|most| format!("less than {most}")),
        range("minLength", "maxLength", " characters"),
        range("minItems", "maxItems", " of them"),
        text("pattern").map(|pattern| format!("matching {pattern}")),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
