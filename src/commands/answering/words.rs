//! What people are told of questions: what is asked, how to answer it, and what became of it.

use super::{Context, NoAnswer};
use crate::forms::{self, FieldKind, Form};
use crate::lifecycle::Unanswered;
use crate::model::rpc_error::codes;
use crate::model::{RawJson, TaskId, text};
use crate::present::{Exit, Trouble};
use crate::session::{Question, QuestionKind};

/// The most fields, and the most choices of one, that are told in a line.
const IN_A_LINE: usize = 12;

/// A question that a task waits with: what is asked, why nobody here answered, and how to answer it.
pub(in crate::commands) fn trouble(context: &Context, unanswered: &Unanswered, id: &TaskId) -> Trouble {
    let Unanswered { question, why } = unanswered;
    let why = why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    let message = format!("task {id} waits for an answer: {}{why}", describe(question));
    let mut trouble = Trouble::new("input_required", Exit::InputNeeded, message).task(id);
    trouble.data = Some(question.params.clone());
    match &question.kind {
        QuestionKind::Sampling => {
            let watch = context.command_for("watch", id);
            trouble.hint(format!("{watch} --sampling exec:COMMAND"))
        }
        QuestionKind::Form { .. } | QuestionKind::Url { .. } => trouble.hint(command(context, question, id)),
    }
}

/// A question that was dismissed, as nobody would be there later to answer it.
pub(in crate::commands) fn dismissed(unanswered: &Unanswered) -> Trouble {
    let Unanswered { question, why } = unanswered;
    let told = match (why, &question.kind) {
        (Some(why), QuestionKind::Sampling) => format!("{why}; so the server was refused"),
        (None, QuestionKind::Sampling) => "no language model is there, so the server was refused".to_owned(),
        (Some(why), _) => format!("{why}; so the question was dismissed"),
        (None, _) => "nobody answered, so the question was dismissed".to_owned(),
    };
    let hint = match &question.kind {
        QuestionKind::Form { .. } => {
            "--answer FIELD=… or --answers FILE answers beforehand; --on-input says what to do otherwise"
        }
        QuestionKind::Url { .. } => "a person at a terminal is asked; --on-input exec:COMMAND asks a program",
        QuestionKind::Sampling => "--sampling exec:COMMAND names the program that speaks for a language model",
    };
    let mut trouble =
        Trouble::new("input_required", Exit::InputNeeded, format!("{told}: {}", describe(question))).hint(hint);
    trouble.data = Some(question.params.clone());
    trouble
}

/// A call that the server refuses until a person has been somewhere, and nobody went.
pub(in crate::commands) fn visit_first(tool: &str, needed: &[Question], why: Option<NoAnswer>) -> Trouble {
    let asked: Vec<String> = needed.iter().map(describe).collect();
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let message = format!("`{tool}` was not called, something must be done first{why}: {}", asked.join("; "));
    let data: Vec<&RawJson> = needed.iter().map(|question| &question.params).collect();
    let mut trouble = Trouble::new("input_required", Exit::InputNeeded, message);
    trouble.code = Some(codes::URL_ELICITATION_REQUIRED);
    trouble.data = Some(RawJson::from_value(&serde_json::json!({"elicitations": data})));
    trouble.hint("open the address, and call again when that is done")
}

/// The command that answers a question of a task.
pub(in crate::commands) fn command(context: &Context, question: &Question, id: &TaskId) -> String {
    let command = context.command_for("answer", id);
    let QuestionKind::Form { schema, .. } = &question.kind else { return command };
    let form = Form::new(schema);
    let fields = form.fields().iter().filter(|field| field.required || form.fields().len() == 1);
    let arguments: Vec<String> = fields.map(|field| format!(" {}=…", text::line(&field.name))).collect();
    if arguments.is_empty() { format!("{command} --accept") } else { format!("{command}{}", arguments.concat()) }
}

/// What is asked, in a few words; escaped.
pub(in crate::commands) fn describe(question: &Question) -> String {
    let words = text::truncate(&text::line(question.message()), 300).into_owned();
    let message = if words.trim().is_empty() { "it says no words".to_owned() } else { words };
    match &question.kind {
        QuestionKind::Sampling => "it wants a language model to say something".to_owned(),
        QuestionKind::Url { url, .. } => format!("{message} (at {})", text::line(url)),
        QuestionKind::Form { schema, .. } => {
            let form = Form::new(schema);
            let fields = form.fields().iter().map(field).collect();
            if form.fields().is_empty() { message } else { format!("{message} ({})", some_of(fields, "; ")) }
        }
    }
}

/// A question in full, for a person to read: a line for each field; escaped.
pub(in crate::commands) fn page(question: &Question) -> String {
    let mut lines = vec![format!("question {}: {}", question.id, text::line(question.message()))];
    match &question.kind {
        QuestionKind::Sampling => lines.push("  it wants a language model to say something".to_owned()),
        QuestionKind::Url { url, .. } => lines.push(format!("  {}", text::line(url))),
        QuestionKind::Form { schema, .. } => {
            for one in Form::new(schema).fields() {
                lines.push(format!("  {}", field(one)));
                let about = [one.title.as_deref(), one.description.as_deref()];
                let about: Vec<&str> = about.into_iter().flatten().filter(|words| *words != one.name).collect();
                if !about.is_empty() {
                    lines.push(format!("      {}", text::line(&about.join(": "))));
                }
                if let FieldKind::Choice(choices) | FieldKind::Choices(choices) = &one.kind {
                    let titled = choices.iter().filter(|choice| choice.value.as_str() != Some(&choice.title));
                    lines.extend(titled.map(|choice| {
                        format!("      {}: {}", text::line(&forms::plain(&choice.value)), text::line(&choice.title))
                    }));
                }
                if let Some(default) = &one.default {
                    lines.push(format!("      where it is left out: {}", text::line(&default.to_string())));
                }
            }
        }
    }
    lines.join("\n")
}

/// `flour: one of rye, oat; optional`.
fn field(field: &forms::Field) -> String {
    let kind = match &field.kind {
        FieldKind::Text => "text".to_owned(),
        FieldKind::Integer => "a whole number".to_owned(),
        FieldKind::Number => "a number".to_owned(),
        FieldKind::Boolean => "true or false".to_owned(),
        FieldKind::Choice(choices) | FieldKind::Choices(choices) => {
            let values = choices.iter().map(|choice| forms::plain(&choice.value)).collect();
            let of = if matches!(field.kind, FieldKind::Choice(_)) { "one" } else { "some" };
            format!("{of} of {}", some_of(values, ", "))
        }
        FieldKind::Other => "JSON".to_owned(),
    };
    let bounds = field.bounds.iter().map(|bound| format!(", {bound}")).collect::<String>();
    let optional = if field.required { "" } else { ", optional" };
    text::line(&format!("{}: {kind}{bounds}{optional}", field.name)).into_owned()
}

/// As many as a line should have, and how many more there are.
fn some_of(mut words: Vec<String>, between: &str) -> String {
    let more = words.len().saturating_sub(IN_A_LINE);
    words.truncate(IN_A_LINE);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(between)
}
