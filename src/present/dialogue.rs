//! A server's question, put to a person at the terminal: who asks and why, the fields one by one, a look at the whole, and at
//! every step the ways out.

use serde_json::{Map, Value};

use super::ask::{NoAnswer, Person};
use crate::forms::{self, Choice, Field, FieldKind, Form};
use crate::model::text;

/// The longest default that is offered to be changed; beyond it is taken or replaced.
const EDITABLE: usize = 40;

/// Who asks, and why. Not yet escaped.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The server.
    pub server: String,
    /// The tool that was called.
    pub tool: Option<String>,
    /// The task.
    pub task: Option<String>,
    /// Why.
    pub message: String,
    /// What to beware of; escaped.
    pub warnings: Vec<String>,
}

/// What the person decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// To answer with this.
    Send(Map<String, Value>),
    /// To say no.
    Decline,
    /// To dismiss the question.
    Cancel,
}

/// What came of one field, or of a menu.
enum Step<T> {
    Done(T),
    Out(Decision),
}

impl Asker {
    fn introduce(&self, person: &Person) {
        let tool = self.tool.as_deref().map_or_else(String::new, |tool| format!(", for {}", text::line(tool)));
        let task = self.task.as_deref().map_or_else(String::new, |task| format!(", task {}", text::line(task)));
        person.say(&format!("{} asks{tool}{task}:", text::line(&self.server)));
        for line in text::block(&self.message).lines() {
            person.say(&format!("  {line}"));
        }
        self.warnings.iter().for_each(|warning| person.warn(warning));
    }
}

/// Has a form filled in.
///
/// # Errors
/// Where there is no decision.
pub fn fill_in(person: &Person, asker: &Asker, form: &Form) -> Result<Decision, NoAnswer> {
    asker.introduce(person);
    let fields = form.fields();
    let begin = if fields.is_empty() { "Accept" } else { "Answer" };
    match menu(person, "What do you want to do?", &[begin])? {
        Step::Out(decision) => return Ok(decision),
        Step::Done(_) if fields.is_empty() => return Ok(Decision::Send(Map::new())),
        Step::Done(_) => {}
    }
    // Some of the keys do nothing at some of the fields, so both ways are named where both are needed.
    let (typed, listed): (Vec<&Field>, Vec<&Field>) = fields.iter().partition(|field| field.is_typed());
    if !listed.is_empty() {
        person.say("  (Escape at a list shows the ways out.)");
    }
    if !typed.is_empty() {
        person.say("  (An empty line leaves out what is optional, and shows the ways out of what is not.)");
    }
    let mut content = Map::new();
    for field in fields {
        if let Some(decision) = fill_field(person, form, field, &mut content)? {
            return Ok(decision);
        }
    }
    loop {
        let misfit = match form.finish(content.clone()) {
            Ok(_) => None,
            Err(misfit) => Some(misfit.to_string()),
        };
        review(person, form, &content);
        if let Some(misfit) = &misfit {
            person.say(&format!("  {misfit}"));
        }
        let ways: &[&str] = if misfit.is_some() { &["Change a field"] } else { &["Send", "Change a field"] };
        match menu(person, "Is that right?", ways)? {
            Step::Out(decision) => return Ok(decision),
            Step::Done(0) if misfit.is_none() => {
                return Ok(Decision::Send(form.finish(content.clone()).unwrap_or(content)));
            }
            Step::Done(_) => {
                let names: Vec<String> = fields.iter().map(|field| text::line(field.label()).into_owned()).collect();
                if let Some(at) = person.choose("Which?", &names, 0)?
                    && let Some(decision) = fill_field(person, form, &fields[at], &mut content)?
                {
                    return Ok(decision);
                }
            }
        }
    }
}

/// Shows something and asks whether it may pass.
///
/// # Errors
/// Where there is no decision.
pub fn lets_pass(person: &Person, asker: &Asker, prompt: &str) -> Result<bool, NoAnswer> {
    asker.introduce(person);
    let ways = ["yes", "no"].map(str::to_owned);
    Ok(person.choose(prompt, &ways, 0)? == Some(0))
}

/// An address that a person is to visit.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The whole address, as it is shown; escaped.
    pub url: String,
    /// Where it leads, in plain words; escaped.
    pub host: String,
}

/// What the person decided about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// To have it opened.
    Open,
    /// To open it by hand.
    ByHand,
    /// To say no.
    Decline,
    /// To dismiss the question.
    Cancel,
}

/// Shows an address and asks whether to go there.
///
/// # Errors
/// Where there is no decision.
pub fn consent(person: &Person, asker: &Asker, visit: &Visit) -> Result<Consent, NoAnswer> {
    asker.introduce(person);
    person.say("It wants you to open this address, where what you enter does not pass through this program:");
    person.say(&format!("  {}", visit.url));
    person.say(&format!("  which leads to {}", console::style(&visit.host).for_stderr().bold()));
    Ok(match menu(person, "Do you want to go there?", &["Open it in the browser", "I open it myself"])? {
        Step::Done(0) => Consent::Open,
        Step::Done(_) => Consent::ByHand,
        Step::Out(Decision::Decline) => Consent::Decline,
        Step::Out(_) => Consent::Cancel,
    })
}

/// The ways on, and the ways out, which are always there.
fn menu(person: &Person, prompt: &str, ways: &[&str]) -> Result<Step<usize>, NoAnswer> {
    let outs = ["Decline: say no", "Cancel: dismiss the question"];
    let items: Vec<String> = ways.iter().chain(&outs).map(|way| (*way).to_owned()).collect();
    Ok(match person.choose(prompt, &items, 0)? {
        Some(chosen) if chosen < ways.len() => Step::Done(chosen),
        Some(chosen) if chosen == ways.len() => Step::Out(Decision::Decline),
        Some(_) | None => Step::Out(Decision::Cancel),
    })
}

/// Asks for one field until it fits, is left out, or the person wants out.
fn fill_field(
    person: &Person,
    form: &Form,
    field: &Field,
    content: &mut Map<String, Value>,
) -> Result<Option<Decision>, NoAnswer> {
    if let Some(description) = &field.description {
        person.say(&format!("  {}", text::line(description)));
    }
    loop {
        let now = content.get(&field.name).or(field.default.as_ref()).cloned();
        let step = match &field.kind {
            FieldKind::Boolean => {
                let yes_or_no = [(Value::Bool(true), "yes".to_owned()), (Value::Bool(false), "no".to_owned())];
                choose_one(person, field, &yes_or_no, now.as_ref())?
            }
            FieldKind::Choice(choices) => {
                let choices: Vec<(Value, String)> =
                    choices.iter().map(|choice| (choice.value.clone(), choice.title.clone())).collect();
                choose_one(person, field, &choices, now.as_ref())?
            }
            FieldKind::Choices(choices) => {
                let titles: Vec<String> = choices.iter().map(|choice| text::line(&choice.title).into_owned()).collect();
                let is_now =
                    |value: &Value| now.as_ref().and_then(Value::as_array).is_some_and(|now| now.contains(value));
                let checked: Vec<bool> = choices.iter().map(|choice| is_now(&choice.value)).collect();
                match person.choose_some(&heading(person, field, "space marks"), &titles, &checked)? {
                    None => out_or_on(person, field, None)?,
                    Some(chosen) if chosen.is_empty() && !field.required => Step::Done(Entry::LeftOut),
                    Some(chosen) => {
                        let values = chosen.into_iter().map(|at| choices[at].value.clone());
                        Step::Done(Entry::Value(values.collect()))
                    }
                }
            }
            FieldKind::Text | FieldKind::Integer | FieldKind::Number | FieldKind::Other => {
                type_in(person, form, field, now.as_ref())?
            }
        };
        match step {
            Step::Out(decision) => return Ok(Some(decision)),
            Step::Done(Entry::Again) => {}
            Step::Done(Entry::LeftOut) => {
                content.remove(&field.name);
                return Ok(None);
            }
            Step::Done(Entry::Value(value)) => match form.check_field(field, &value) {
                Ok(()) => {
                    content.insert(field.name.clone(), value);
                    return Ok(None);
                }
                Err(misfit) => person.say(&format!("  {misfit}")),
            },
        }
    }
}

/// What came of asking for a field.
enum Entry {
    /// This.
    Value(Value),
    /// Nothing, and it may be so.
    LeftOut,
    /// It is to be asked for again.
    Again,
}

fn choose_one(
    person: &Person,
    field: &Field,
    choices: &[(Value, String)],
    now: Option<&Value>,
) -> Result<Step<Entry>, NoAnswer> {
    let mut items: Vec<String> = choices.iter().map(|(_, title)| text::line(title).into_owned()).collect();
    if !field.required {
        items.push("(leave out)".to_owned());
    }
    if items.is_empty() {
        return out_or_on(person, field, None);
    }
    let at = choices.iter().position(|(value, _)| Some(value) == now);
    // Without a default an optional field is left out by whoever merely presses on.
    let default = at.unwrap_or(if field.required { 0 } else { items.len() - 1 });
    Ok(match person.choose(&heading(person, field, ""), &items, default)? {
        None => out_or_on(person, field, None)?,
        Some(chosen) => {
            Step::Done(choices.get(chosen).map_or(Entry::LeftOut, |(value, _)| Entry::Value(value.clone())))
        }
    })
}

fn type_in(person: &Person, form: &Form, field: &Field, now: Option<&Value>) -> Result<Step<Entry>, NoAnswer> {
    let shown = now.map(forms::plain).unwrap_or_default();
    // What cannot be shown as it is cannot be changed either.
    let is_editable = text::line(&shown) == shown && text::width(&shown) <= EDITABLE;
    let initial = if is_editable { shown.as_str() } else { "" };
    let beside = match now {
        Some(now) if !is_editable => {
            format!("now {}", text::truncate(&text::line(&now.to_string()), EDITABLE))
        }
        _ => String::new(),
    };
    let typed = person.line(&heading(person, field, &beside), initial)?;
    match (typed.is_empty(), now) {
        (true, Some(now)) if !is_editable => Ok(Step::Done(Entry::Value(now.clone()))),
        (true, _) if !field.required => Ok(Step::Done(Entry::LeftOut)),
        (true, _) => out_or_on(person, field, form.read(field, "").ok()),
        (false, _) => Ok(Step::Done(match form.read(field, &typed) {
            Ok(value) => Entry::Value(value),
            Err(misfit) => {
                person.say(&format!("  {misfit}"));
                Entry::Again
            }
        })),
    }
}

/// Nothing was typed where something must be.
fn out_or_on(person: &Person, field: &Field, empty: Option<Value>) -> Result<Step<Entry>, NoAnswer> {
    let label = text::line(field.label());
    let again = format!("Answer {label} after all");
    let leave = if empty.is_some() { "Leave it empty" } else { "Leave it out" };
    let may_leave = empty.is_some() || !field.required;
    let ways: &[&str] = if may_leave { &[&again, leave] } else { &[&again] };
    Ok(match menu(person, &format!("{label} is not answered"), ways)? {
        Step::Out(decision) => Step::Out(decision),
        Step::Done(0) => Step::Done(Entry::Again),
        Step::Done(_) => Step::Done(empty.map_or(Entry::LeftOut, Entry::Value)),
    })
}

/// `Grams (a whole number, 1 to 999, optional)`; escaped. Where that is too long for the line, what is in the brackets is said
/// on one of its own.
fn heading(person: &Person, field: &Field, beside: &str) -> String {
    let kind = match field.kind {
        FieldKind::Integer => "a whole number",
        FieldKind::Number => "a number",
        FieldKind::Other => "JSON",
        _ => "",
    };
    let optional = if field.required { "" } else { "optional" };
    let bounds = field.bounds.iter().map(String::as_str);
    let about: Vec<&str> =
        std::iter::once(kind).chain(bounds).chain([optional, beside]).filter(|word| !word.is_empty()).collect();
    let label = text::line(field.label());
    if about.is_empty() {
        return label.into_owned();
    }
    let about = format!("({})", text::line(&about.join(", ")));
    let whole = format!("{label} {about}");
    // What is typed needs room too.
    if text::width(&whole) <= person.columns() * 2 / 3 {
        return whole;
    }
    person.say(&format!("  {about}"));
    label.into_owned()
}

/// What people call a choice.
fn titled(choices: &[Choice], value: &Value) -> String {
    let choice = choices.iter().find(|choice| choice.value == *value);
    choice.map_or_else(|| value.to_string(), |choice| choice.title.clone())
}

/// The whole answer, to be looked at before it is sent.
fn review(person: &Person, form: &Form, content: &Map<String, Value>) {
    person.say("Your answer:");
    for field in form.fields() {
        let value = match (content.get(&field.name), &field.kind) {
            (None, _) => "(left out)".to_owned(),
            (Some(value), FieldKind::Choice(choices)) => titled(choices, value),
            (Some(Value::Array(values)), FieldKind::Choices(_)) if values.is_empty() => "none of them".to_owned(),
            (Some(Value::Array(values)), FieldKind::Choices(choices)) => {
                values.iter().map(|value| titled(choices, value)).collect::<Vec<_>>().join(", ")
            }
            (Some(value), _) => value.to_string(),
        };
        person.say(&format!("  {}: {}", text::line(field.label()), text::line(&value)));
    }
}
