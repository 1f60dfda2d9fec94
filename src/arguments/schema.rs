//! The part of JSON Schema that says what a typed text should become.

use serde_json::{Map, Value};

/// How deep references are followed; a schema may go round in circles.
const DEPTH: usize = 16;
/// How deep `anyOf` and its kin are entered. They branch, so the depth is an exponent.
const BRANCHING: usize = 5;

/// A tool's input schema, or what a question asks for.
#[derive(Clone, Debug)]
pub struct Schema {
    root: Value,
    words: &'static Words,
}

/// How people call what the schema is about.
#[derive(Debug)]
pub(super) struct Words {
    /// One thing in it.
    pub(super) one: &'static str,
    /// Who asks for it.
    pub(super) asker: &'static str,
    /// What the asker does with it.
    pub(super) takes: &'static str,
    /// Whether `format` is to be kept to.
    pub(super) formats: bool,
}

const OF_TOOL: Words = Words { one: "argument", asker: "the tool", takes: "takes", formats: false };
const OF_QUESTION: Words = Words { one: "field", asker: "the question", takes: "asks for", formats: true };

/// What a place in the arguments may hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kind {
    /// JSON Schema's type names; empty: nothing is said.
    pub(super) types: Vec<String>,
    /// The values of `enum` and `const`.
    pub(super) choices: Vec<Value>,
    /// Of a list: its items.
    pub(super) items: Option<Box<Kind>>,
}

impl Schema {
    /// Takes a schema as the tool gives it.
    pub fn new(root: &Value) -> Self {
        Self { root: root.clone(), words: &OF_TOOL }
    }

    /// Takes the schema of a question to a person, who is bound to formats, too.
    pub fn of_question(root: &Value) -> Self {
        Self { root: root.clone(), words: &OF_QUESTION }
    }

    pub(super) fn words(&self) -> &'static Words {
        self.words
    }

    /// The schema itself.
    pub fn value(&self) -> &Value {
        &self.root
    }

    /// The names of the arguments, in the schema's order.
    pub fn names(&self) -> Vec<&str> {
        self.root
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// The arguments that must be there.
    pub fn required(&self) -> Vec<&str> {
        self.root.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Whether arguments that the schema does not name are refused.
    pub fn is_closed(&self) -> bool {
        self.root.get("additionalProperties") == Some(&Value::Bool(false))
    }

    /// `string`, `integer or null`, `one of "a", "b"`, `list of string`: for people.
    pub fn describe(&self, name: &str) -> String {
        self.at(&[name.to_owned()]).describe()
    }

    /// What the schema says of an argument for people; not escaped.
    pub fn description(&self, name: &str) -> Option<&str> {
        self.property(name)?.get("description").and_then(Value::as_str)
    }

    /// The default of an argument.
    pub fn default(&self, name: &str) -> Option<&Value> {
        self.property(name)?.get("default")
    }

    /// A value for an example call, as one would type it.
    pub fn sample(&self, name: &str) -> Option<String> {
        let property = self.property(name)?;
        let stated =
            property.get("default").or_else(|| property.pointer("/examples/0")).or_else(|| property.pointer("/enum/0"));
        if let Some(value) = stated {
            return Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        let kind = self.at(&[name.to_owned()]);
        let sample = match kind.types.first().map(String::as_str) {
            Some("string") => "text",
            Some("integer" | "number") => "1",
            Some("boolean") => "true",
            Some("array") => "[]",
            Some("object") => "{}",
            _ => return None,
        };
        Some(sample.to_owned())
    }

    /// The schema of an argument, references followed.
    pub fn property(&self, name: &str) -> Option<&Value> {
        self.resolve(self.root.get("properties")?.get(name)?)
    }

    /// Splits `a.b` into its parts, but for an argument that is really called so.
    pub(super) fn path(&self, key: &str) -> Vec<String> {
        let is_name = self.root.get("properties").is_some_and(|properties| properties.get(key).is_some());
        if is_name || key.split('.').any(str::is_empty) {
            vec![key.to_owned()]
        } else {
            key.split('.').map(str::to_owned).collect()
        }
    }

    /// What the place at `path` may hold.
    pub(super) fn at(&self, path: &[String]) -> Kind {
        let mut schema = &self.root;
        for part in path {
            match self.child(schema, part, BRANCHING) {
                Some(child) => schema = child,
                None => return Kind::default(),
            }
        }
        self.kind(schema, BRANCHING)
    }

    /// The values that the place at `path`, like `a.b` or `list.0`, is bound to; none: it is not.
    pub(super) fn choices(&self, path: &str) -> Vec<Value> {
        let mut parts: Vec<String> = path.split('.').map(str::to_owned).collect();
        let is_item = parts.last().is_some_and(|part| part.parse::<usize>().is_ok());
        if is_item {
            parts.pop();
        }
        let kind = self.at(&parts);
        if is_item { kind.items.map(|items| items.choices).unwrap_or_default() } else { kind.choices }
    }

    fn child<'a>(&'a self, schema: &'a Value, name: &str, depth: usize) -> Option<&'a Value> {
        let schema = self.resolve(schema)?;
        let direct = schema.get("properties").and_then(|properties| properties.get(name));
        direct.or_else(|| {
            let depth = depth.checked_sub(1)?;
            branches(schema).find_map(|branch| self.child(branch, name, depth))
        })
    }

    /// Follows `$ref` within the document.
    pub(crate) fn resolve<'a>(&'a self, mut schema: &'a Value) -> Option<&'a Value> {
        for _ in 0..DEPTH {
            match schema.get("$ref").and_then(Value::as_str) {
                Some(reference) => schema = self.root.pointer(reference.strip_prefix('#')?)?,
                None => return Some(schema),
            }
        }
        None
    }

    fn kind(&self, schema: &Value, depth: usize) -> Kind {
        let mut kind = Kind::default();
        let (Some(schema), Some(depth)) = (self.resolve(schema), depth.checked_sub(1)) else { return kind };
        match schema.get("type") {
            Some(Value::String(one)) => kind.types.push(one.clone()),
            Some(Value::Array(many)) => kind.types.extend(many.iter().filter_map(Value::as_str).map(str::to_owned)),
            _ => {}
        }
        kind.choices.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten().cloned());
        kind.choices.extend(schema.get("const").cloned());
        kind.items =
            schema.get("items").filter(|items| items.is_object()).map(|items| Box::new(self.kind(items, depth)));
        for branch in branches(schema) {
            let branch = self.kind(branch, depth);
            for name in branch.types {
                if !kind.types.contains(&name) {
                    kind.types.push(name);
                }
            }
            kind.choices.extend(branch.choices);
            kind.items = kind.items.or(branch.items);
        }
        kind
    }
}

fn branches(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema.get(key).and_then(Value::as_array)).flatten()
}

impl Kind {
    pub(super) fn allows(&self, name: &str) -> bool {
        self.types.iter().any(|allowed| allowed == name)
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        if !self.choices.is_empty() {
            let choices: Vec<String> = self.choices.iter().map(Value::to_string).collect();
            return format!("one of {}", choices.join(", "));
        }
        let names: Vec<String> = self
            .types
            .iter()
            .map(|name| match (name.as_str(), &self.items) {
                ("array", Some(items)) if !items.types.is_empty() => format!("list of {}", items.describe()),
                ("array", _) => "list".to_owned(),
                (name, _) => name.to_owned(),
            })
            .collect();
        if names.is_empty() { "any value".to_owned() } else { names.join(" or ") }
    }
}

/// An object, for callers that have none.
pub(super) fn as_object(arguments: &Map<String, Value>) -> Value {
    Value::Object(arguments.clone())
}
