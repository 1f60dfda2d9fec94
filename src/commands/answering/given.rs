//! Answers that were given beforehand: `--answer field=value`, and the file of `--answers`.
//!
//! The file holds an object, `{"field": value, …}`, whose fields go to every form that has them, or a list of answers, each
//! for one question: `{"message": "part of the question's words", "action": "accept", "content": {…}}`. The first entry of
//! the list whose `message` is in the question, or that has none, answers it and is used up. `action` is `accept` where it
//! is left out.

use serde_json::{Map, Value};

use super::{NoAnswer, accept};
use crate::arguments::Item;
use crate::forms::Form;
use crate::model::text;
use crate::session::{Answer, Question, QuestionKind};

/// See above.
#[derive(Clone, Debug, Default)]
pub struct Given {
    items: Vec<Item>,
    fields: Map<String, Value>,
    entries: Vec<Entry>,
}

/// The answer to one question.
#[derive(Clone, Debug)]
struct Entry {
    message: String,
    action: Action,
    content: Map<String, Value>,
}

/// What is done about a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// With its fields.
    Accept,
    /// Say no.
    Decline,
    /// Dismiss the question.
    Cancel,
}

/// The file of `--answers` cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenError {
    /// No JSON.
    #[error("the answers are not JSON: {0}")]
    Syntax(String),
    /// Neither an object nor a list of objects.
    #[error("the answers must be an object of fields, or a list with an object for each question")]
    Shape,
    /// An entry of the list is odd.
    #[error("answer {number}: {what}")]
    Entry {
        /// Which, from 1.
        number: usize,
        /// What is wrong; escaped.
        what: String,
    },
}

impl Given {
    /// The items of `--answer`, and the text of the file.
    ///
    /// # Errors
    /// Where the text cannot be used.
    pub fn new(items: Vec<Item>, file: Option<&str>) -> Result<Self, GivenError> {
        let mut given = Self { items, ..Self::default() };
        let Some(file) = file else { return Ok(given) };
        let file = file.strip_prefix('\u{feff}').unwrap_or(file);
        match serde_json::from_str(file).map_err(|error| GivenError::Syntax(error.to_string()))? {
            Value::Object(fields) => given.fields = fields,
            Value::Array(entries) => {
                let read = |(at, entry): (usize, &Value)| {
                    read_entry(entry).map_err(|what| GivenError::Entry { number: at + 1, what })
                };
                given.entries = entries.iter().enumerate().map(read).collect::<Result<_, _>>()?;
            }
            _ => return Err(GivenError::Shape),
        }
        Ok(given)
    }

    /// The answer to a question, if one was given. `used` remembers the entries of the list.
    pub(super) fn answer(&self, question: &Question, used: &mut Vec<usize>) -> Result<Option<Answer>, NoAnswer> {
        let mut entries = self.entries.iter().enumerate();
        let fits = |entry: &Entry| question.message().contains(&entry.message);
        if let Some((at, entry)) = entries.find(|(at, entry)| !used.contains(at) && fits(entry)) {
            used.push(at);
            return match entry.action {
                Action::Accept => self.filled(question, entry.content.clone()).map(Some),
                Action::Decline => Ok(Some(Answer::Decline)),
                Action::Cancel => Ok(Some(Answer::Cancel)),
            };
        }
        let QuestionKind::Form { schema, .. } = &question.kind else { return Ok(None) };
        let form = Form::new(schema);
        let is_asked = |name: &str| form.field(name).is_some();
        let fields: Map<String, Value> = self
            .fields
            .iter()
            .filter(|(name, _)| is_asked(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if fields.is_empty() && !self.items.iter().any(|item| is_asked(item.key())) {
            return self.meant(&form).map_or(Ok(None), Err);
        }
        self.filled(question, fields).map(Some)
    }

    /// Whether one of `--answer` is misspelt.
    fn meant(&self, form: &Form) -> Option<NoAnswer> {
        let names: Vec<&str> = form.fields().iter().map(|field| field.name.as_str()).collect();
        self.items.iter().find_map(|item| {
            let near = text::near_misses(item.key(), names.iter().copied());
            let near = near.first().map(|near| text::line(near))?;
            let key = text::line(item.key());
            Some(format!("--answer {key}=…: the question has no such field; did you mean `{near}`?"))
        })
    }

    /// The question's defaults, these fields on top and those of `--answer` above all.
    fn filled(&self, question: &Question, fields: Map<String, Value>) -> Result<Answer, NoAnswer> {
        let QuestionKind::Form { schema, .. } = &question.kind else { return accept(question, fields) };
        let form = Form::new(schema);
        let items: Vec<Item> = self.items.iter().filter(|item| form.field(item.key()).is_some()).cloned().collect();
        let content = form.complete(fields, &items).map_err(|misfit| format!("no answer is sent: {misfit}"))?;
        Ok(Answer::Accept(Some(content)))
    }
}

impl Action {
    /// Reads the wire's word.
    pub(super) fn read(word: &str) -> Result<Self, String> {
        match word {
            "accept" => Ok(Self::Accept),
            "decline" => Ok(Self::Decline),
            "cancel" => Ok(Self::Cancel),
            other => Err(format!("`action` is accept, decline or cancel, not `{}`", text::line(other))),
        }
    }
}

fn read_entry(entry: &Value) -> Result<Entry, String> {
    let Some(entry) = entry.as_object() else { return Err("it is not an object".to_owned()) };
    if let Some(unknown) = entry.keys().find(|key| !matches!(key.as_str(), "message" | "action" | "content")) {
        return Err(format!("there is no `{}`; it takes `message`, `action` and `content`", text::line(unknown)));
    }
    let action = Action::read(entry.get("action").map_or("accept", |action| action.as_str().unwrap_or_default()))?;
    let content = match entry.get("content") {
        None => Map::new(),
        Some(Value::Object(content)) => content.clone(),
        Some(_) => return Err("`content` is not an object".to_owned()),
    };
    let message = entry.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Entry { message, action, content })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::RawJson;
    use crate::session::QuestionId;

    fn question(message: &str) -> Question {
        let schema = json!({"type": "object", "required": ["flour"], "properties": {
            "flour": {"type": "string", "enum": ["rye", "oat"]}, "grams": {"type": "integer", "default": 500}}});
        let params = RawJson::from_value(&json!({"message": message, "requestedSchema": schema}));
        Question::recorded(QuestionId::from_json(&json!(1)).unwrap(), "elicitation/create", params).unwrap()
    }

    fn answered(given: &Given, message: &str, used: &mut Vec<usize>) -> String {
        match given.answer(&question(message), used) {
            Ok(Some(Answer::Accept(Some(content)))) => Value::Object(content).to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn fields_go_to_every_form_that_has_them() {
        let items = ["flour=rye", "salt=1"].map(|typed| Item::parse(typed).unwrap()).to_vec();
        let given =
            Given::new(items, Some(r#"{"flour": "oat", "grams": 123456789012345678901, "sugar": true}"#)).unwrap();
        for _ in 0..2 {
            assert_eq!(answered(&given, "m", &mut Vec::new()), r#"{"grams":123456789012345678901,"flour":"rye"}"#);
        }
        let given = |typed: &str| Given::new(vec![Item::parse(typed).unwrap()], None).unwrap();
        assert_eq!(answered(&given("salt=1"), "m", &mut Vec::new()), "Ok(None)");
        assert!(answered(&given("flower=rye"), "m", &mut Vec::new()).contains("did you mean `flour`?"));
    }

    #[test]
    fn the_entries_of_a_list_are_used_up() {
        let file = r#"[{"message": "second", "content": {"flour": "oat"}}, {"content": {"flour": "rye"}}, {"action": "decline"}]"#;
        let (given, mut used) = (Given::new(Vec::new(), Some(file)).unwrap(), Vec::new());
        assert_eq!(answered(&given, "the first", &mut used), r#"{"grams":500,"flour":"rye"}"#);
        assert_eq!(answered(&given, "the second", &mut used), r#"{"grams":500,"flour":"oat"}"#);
        assert_eq!(answered(&given, "the third", &mut used), "Ok(Some(Decline))");
        assert_eq!(answered(&given, "the fourth", &mut used), "Ok(None)");
    }

    #[test]
    fn a_misfit_names_its_field() {
        let given = Given::new(vec![Item::parse("flour=rice").unwrap()], None).unwrap();
        assert!(answered(&given, "m", &mut Vec::new()).contains("`flour` should be one of"));
        let error = |file: &str| Given::new(Vec::new(), Some(file)).unwrap_err().to_string();
        assert!(error("[{\"action\": \"maybe\"}]").contains("answer 1: `action` is accept"));
        assert!(error("[{\"contents\": {}}]").contains("`contents`"));
        assert!(error("7").contains("an object of fields"));
        assert!(error("{").contains("not JSON"));
    }
}
