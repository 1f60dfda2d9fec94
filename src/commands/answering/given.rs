//! Answers that were given beforehand: `--answer field=value`, and the file of `--answers`.
//!
//! The file holds an object, `{"field": value, …}`, whose fields go to every form that has them, or a list of answers, each
//! for one question: `{"message": "part of the question's words", "action": "accept", "content": {…}}`. The first entry of
//! the list whose `message` is in the question, or that has none, answers it and is used up. `action` is `accept` where it
//! is left out. One such answer without the list is never used up, and gives way to a form that has fields of these names.

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
    /// What `fields` are where they are no fields.
    entry: Option<Entry>,
    entries: Vec<Entry>,
}

/// What of them was used.
#[derive(Debug, Default)]
pub(super) struct Used {
    /// The keys of `--answer`.
    keys: Vec<String>,
    /// The entries of the list.
    entries: Vec<usize>,
    /// Anything of the file.
    file: bool,
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
            Value::Object(fields) => {
                let is_entry = fields.contains_key("action") || fields.get("content").is_some_and(Value::is_object);
                // What is wrong with it matters only where it is meant as one.
                given.entry = is_entry.then(|| read_entry(&fields).ok()).flatten();
                given.fields = fields;
            }
            Value::Array(entries) => {
                let read = |(at, entry): (usize, &Value)| {
                    let entry = entry.as_object().ok_or_else(|| "it is not an object".to_owned());
                    entry.and_then(read_entry).map_err(|what| GivenError::Entry { number: at + 1, what })
                };
                given.entries = entries.iter().enumerate().map(read).collect::<Result<_, _>>()?;
            }
            _ => return Err(GivenError::Shape),
        }
        Ok(given)
    }

    /// The answer to a question, if one was given.
    pub(super) fn answer(&self, question: &Question, used: &mut Used) -> Result<Option<Answer>, NoAnswer> {
        let mut entries = self.entries.iter().enumerate();
        if let Some((at, entry)) = entries.find(|(at, entry)| !used.entries.contains(at) && entry.is_for(question)) {
            used.entries.push(at);
            return self.by_entry(entry, question, used).map(Some);
        }
        let form = form(question);
        let is_asked = |name: &str| form.as_ref().is_some_and(|form| form.field(name).is_some());
        if let Some(entry) = self.entry.as_ref().filter(|entry| entry.is_for(question))
            && !self.fields.keys().any(|name| is_asked(name))
        {
            return self.by_entry(entry, question, used).map(Some);
        }
        let Some(form) = &form else { return Ok(None) };
        let fields: Map<String, Value> = self
            .fields
            .iter()
            .filter(|(name, _)| is_asked(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if fields.is_empty() && !self.items.iter().any(|item| is_asked(item.key())) {
            return self.meant(form).map_or(Ok(None), Err);
        }
        used.file |= !fields.is_empty();
        self.filled(question, fields, used).map(Some)
    }

    fn by_entry(&self, entry: &Entry, question: &Question, used: &mut Used) -> Result<Answer, NoAnswer> {
        used.file = true;
        match entry.action {
            Action::Accept => {
                let form = form(question);
                let is_unknown = |name: &&String| form.as_ref().is_some_and(|form| form.field(name).is_none());
                match (entry.content.keys().find(is_unknown), &form) {
                    (Some(name), Some(form)) => Err(no_such_field("--answers", name, form)),
                    _ => self.filled(question, entry.content.clone(), used),
                }
            }
            Action::Decline => Ok(Answer::Decline),
            Action::Cancel => Ok(Answer::Cancel),
        }
    }

    /// Whether a field's name is misspelt.
    fn meant(&self, form: &Form) -> Option<NoAnswer> {
        let names = || form.fields().iter().map(|field| field.name.as_str());
        let is_near = |key: &&str| !text::near_misses(key, names()).is_empty();
        let typed = self.items.iter().map(Item::key).find(is_near);
        typed.map(|key| no_such_field("--answer", key, form)).or_else(|| {
            let key = self.fields.keys().map(String::as_str).find(is_near)?;
            Some(no_such_field("--answers", key, form))
        })
    }

    /// Why nothing of what was given is an answer to a question; `None` where nothing was given.
    pub(super) fn unfit(&self, question: &Question, used: &Used) -> Option<NoAnswer> {
        if !self.entries.is_empty() {
            let left = self.entries.len() - used.entries.len();
            return Some(if left == 0 {
                "every answer of --answers has been used".to_owned()
            } else {
                "--answers has no entry for this question: no `message` is part of its words".to_owned()
            });
        }
        let mut given: Vec<&str> = self.items.iter().map(Item::key).collect();
        given.extend(self.fields.keys().map(String::as_str));
        if given.is_empty() {
            return None;
        }
        let Some(form) = form(question) else {
            return Some("--answer and --answers have fields, and this question has none".to_owned());
        };
        let quoted = |names: Vec<&str>| {
            names.iter().map(|name| format!("`{}`", text::line(name))).collect::<Vec<_>>().join(", ")
        };
        let wanted = form.fields().iter().map(|field| field.name.as_str()).collect();
        Some(format!(
            "no field that was given is asked for: given is {}, asked for is {}",
            quoted(given),
            quoted(wanted)
        ))
    }

    /// What was given for nothing.
    pub(super) fn unused(&self, used: &Used) -> Option<String> {
        let mut keys: Vec<&str> = self.items.iter().map(Item::key).collect();
        keys.retain(|key| !used.keys.iter().any(|used| used == key));
        keys.dedup();
        let mut unused: Vec<String> = keys.iter().map(|key| format!("--answer {}=…", text::line(key))).collect();
        let is_given = self.entry.is_some() || !self.fields.is_empty() || !self.entries.is_empty();
        if is_given && !used.file {
            unused.push("--answers".to_owned());
        }
        (!unused.is_empty()).then(|| unused.join(", "))
    }

    /// The question's defaults, these fields on top and those of `--answer` above all.
    fn filled(&self, question: &Question, fields: Map<String, Value>, used: &mut Used) -> Result<Answer, NoAnswer> {
        let Some(form) = form(question) else { return accept(question, fields) };
        let items: Vec<Item> = self.items.iter().filter(|item| form.field(item.key()).is_some()).cloned().collect();
        used.keys.extend(items.iter().map(|item| item.key().to_owned()));
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

impl Entry {
    fn is_for(&self, question: &Question) -> bool {
        question.message().contains(&self.message)
    }
}

fn form(question: &Question) -> Option<Form> {
    match &question.kind {
        QuestionKind::Form { schema, .. } => Some(Form::new(schema)),
        QuestionKind::Url { .. } | QuestionKind::Sampling => None,
    }
}

fn no_such_field(option: &str, name: &str, form: &Form) -> NoAnswer {
    let names = form.fields().iter().map(|field| field.name.as_str());
    let near = text::near_misses(name, names);
    let near = near.first().map_or_else(String::new, |near| format!("; did you mean `{}`?", text::line(near)));
    format!("{option}: the question has no field `{}`{near}", text::line(name))
}

fn read_entry(entry: &Map<String, Value>) -> Result<Entry, String> {
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

    fn answered(given: &Given, message: &str, used: &mut Used) -> String {
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
            assert_eq!(answered(&given, "m", &mut Used::default()), r#"{"grams":123456789012345678901,"flour":"rye"}"#);
        }
        let given = |typed: &str| Given::new(vec![Item::parse(typed).unwrap()], None).unwrap();
        assert_eq!(answered(&given("salt=1"), "m", &mut Used::default()), "Ok(None)");
        assert!(answered(&given("flower=rye"), "m", &mut Used::default()).contains("did you mean `flour`?"));
    }

    #[test]
    fn the_entries_of_a_list_are_used_up() {
        let file = r#"[{"message": "second", "content": {"flour": "oat"}}, {"content": {"flour": "rye"}}, {"action": "decline"}]"#;
        let (given, mut used) = (Given::new(Vec::new(), Some(file)).unwrap(), Used::default());
        assert_eq!(answered(&given, "the first", &mut used), r#"{"grams":500,"flour":"rye"}"#);
        assert_eq!(answered(&given, "the second", &mut used), r#"{"grams":500,"flour":"oat"}"#);
        assert_eq!(answered(&given, "the third", &mut used), "Ok(Some(Decline))");
        assert_eq!(answered(&given, "the fourth", &mut used), "Ok(None)");
    }

    #[test]
    fn one_answer_without_a_list_is_for_every_question() {
        let given = |file: &str| Given::new(Vec::new(), Some(file)).unwrap();
        let mut used = Used::default();
        let no = given(r#"{"action": "decline", "message": "first"}"#);
        for (message, answer) in [("the first", "Ok(Some(Decline))"), ("first", "Ok(Some(Decline))"), ("m", "Ok(None)")]
        {
            assert_eq!(answered(&no, message, &mut used), answer);
        }
        assert!(no.unused(&used).is_none() && no.unfit(&question("m"), &used).is_some());
        let yes = given(r#"{"content": {"flour": "oat", "grams": 1}}"#);
        assert_eq!(answered(&yes, "m", &mut used), r#"{"grams":1,"flour":"oat"}"#);
    }

    #[test]
    fn what_was_given_for_nothing_is_known() {
        let items = ["flour=rye", "salt=1"].map(|typed| Item::parse(typed).unwrap()).to_vec();
        let (given, mut used) = (Given::new(items, Some(r#"{"sugar": 1}"#)).unwrap(), Used::default());
        assert_eq!(given.unused(&used).unwrap(), "--answer flour=…, --answer salt=…, --answers");
        answered(&given, "m", &mut used);
        assert_eq!(given.unused(&used).unwrap(), "--answer salt=…, --answers");
        let why = Given::new(Vec::new(), Some(r#"{"sugar": 1}"#)).unwrap().unfit(&question("m"), &used).unwrap();
        assert!(why.ends_with("given is `sugar`, asked for is `flour`, `grams`"), "{why}");
        assert_eq!(Given::default().unfit(&question("m"), &used), None);
        let list = Given::new(Vec::new(), Some(r#"[{"message": "x"}]"#)).unwrap();
        assert!(list.unfit(&question("m"), &used).unwrap().contains("no `message` is part of its words"));
    }

    #[test]
    fn a_misfit_names_its_field() {
        let file = |text: &str| answered(&Given::new(Vec::new(), Some(text)).unwrap(), "m", &mut Used::default());
        for misspelt in [r#"{"flower": "rye"}"#, r#"[{"content": {"flour": "rye", "gram": 1}}]"#] {
            assert!(file(misspelt).contains("did you mean `"), "{misspelt}");
        }
        let given = Given::new(vec![Item::parse("flour=rice").unwrap()], None).unwrap();
        assert!(answered(&given, "m", &mut Used::default()).contains("`flour` should be one of"));
        let error = |file: &str| Given::new(Vec::new(), Some(file)).unwrap_err().to_string();
        assert!(error("[{\"action\": \"maybe\"}]").contains("answer 1: `action` is accept"));
        assert!(error("[{\"contents\": {}}]").contains("`contents`"));
        assert!(error("7").contains("an object of fields"));
        assert!(error("{").contains("not JSON"));
    }
}
