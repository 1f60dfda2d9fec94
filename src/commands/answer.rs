//! `mcp-task answer ID [ARG…]`: shows what a task asks, or answers it, from any shell.
//!
//! A question may be had in three ways: the holder of its server still has it, the record knows it from the command that it
//! was put to, or the server puts it anew to whoever waits for the result.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::Context;
use super::answering::{self, Action};
use super::lookup::Found;
use super::recorder::Recorder;
use super::routes::Route;
use super::troubles::{TaskRefused, UsageError};
use crate::arguments::Item;
use crate::forms::Form;
use crate::model::{Task, TaskStatus, text};
use crate::present::{Exit, Output, Trouble};
use crate::session::{Answer, Question, QuestionKind, Session};

/// How long a server may take to put its question anew.
const ASKS_WITHIN: Duration = Duration::from_secs(3);
/// How long a task may take to take notice of an answer, and how often to look.
const NOTICES_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What to answer.
#[derive(Clone, Debug, Default)]
pub struct AnswerOptions {
    /// `field=…` as typed.
    pub items: Vec<Item>,
    /// `--input`, read.
    pub input: Option<Map<String, Value>>,
    /// What to do; left out: accept, where there are fields, else a mere look.
    pub action: Option<Action>,
    /// Which question, where there are several: its id as JSON or as text.
    pub question: Option<String>,
}

impl AnswerOptions {
    fn is_a_look(&self) -> bool {
        self.items.is_empty() && self.input.is_none() && self.action.is_none()
    }
}

/// Runs the command.
///
/// # Errors
/// Where the task is not known, its server cannot be asked, or the answer does not fit.
pub async fn run(context: &Context, found: &Found, options: &AnswerOptions) -> anyhow::Result<Exit> {
    let recorder = found.follower(context);
    let route = Route::to(context, found);
    let session = match route.connect(found, &recorder).await {
        Ok(session) => session,
        Err(trouble) => return Ok(trouble.show(&context.printer)),
    };
    // What is asked from here on is not to be missed.
    let subscription = session.subscribe();
    subscription.follow(&found.id);
    let task = match session.task(&found.id).await {
        Ok(task) => task,
        Err(source) => {
            let renewed = session.renewals() > 0;
            recorder.refused(&source, renewed);
            return Err(TaskRefused { id: found.id.clone(), renewed, source }.into());
        }
    };
    recorder.seen(&task);
    let questions = questions(&route.context, &session, &task, &recorder).await;
    if options.is_a_look() {
        show(&route.context, &task, &questions);
        session.close(true).await;
        return Ok(Exit::Done);
    }
    let question = match meant(&questions, &task, options) {
        Ok(question) => question,
        Err(error) => {
            session.close(true).await;
            return Err(error.into());
        }
    };
    let answer = answer(question, options)?;
    if !recorder.claims(question, answer.action()) {
        let message = format!("task {}: another command has answered meanwhile", task.id);
        return Ok(Trouble::new("usage", Exit::Usage, message).task(&task.id).show(&context.printer));
    }
    if let Err(error) = session.answer_recorded(question, &answer).await {
        recorder.unanswered(question, &error.to_string());
        return Err(error.into());
    }
    let task = noticed(&session, task).await;
    recorder.seen(&task);
    tell(context, &task, &answer);
    session.close(true).await;
    Ok(Exit::Done)
}

/// What the task asks, by whatever way it is to be had.
async fn questions(context: &Context, session: &Rc<Session>, task: &Task, recorder: &Recorder) -> Vec<Question> {
    let live = || {
        let of_task = |question: &Question| question.task.is_none() || question.task.as_ref() == Some(&task.id);
        session.open_questions().into_iter().filter(of_task).collect::<Vec<_>>()
    };
    if task.status.is_terminal() {
        return Vec::new();
    }
    let mut questions = live();
    // The holder knows what is still asked; elsewhere that is what was recorded.
    if context.holding.get().is_none() && session.renewals() == 0 {
        let recorded = recorder.open_questions().into_iter().filter_map(answering::recorded);
        for question in recorded {
            if questions.iter().all(|known| known.id != question.id) {
                questions.push(question);
            }
        }
    }
    if questions.is_empty() && task.status == TaskStatus::InputRequired {
        let id = task.id.clone();
        let waiting = Rc::clone(session);
        let asking = async move { waiting.result(&id).await };
        let asked = async {
            while live().is_empty() {
                tokio::time::sleep(LOOK_EVERY / 4).await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(ASKS_WITHIN, asked) => {}
            // An answer is no question; it is the follower's to fetch.
            _ = asking => {}
        }
        questions = live();
    }
    for question in &questions {
        recorder.asked(question);
    }
    questions
}

/// The question that is meant: the named one, the only one, or the only one that has all the given fields.
fn meant<'a>(questions: &'a [Question], task: &Task, options: &AnswerOptions) -> Result<&'a Question, UsageError> {
    if let Some(wanted) = &options.question {
        let is_it = |question: &&Question| {
            let id = question.id.to_json();
            let shown = id.to_string();
            id.as_str() == Some(wanted) || shown == *wanted
        };
        return questions.iter().find(is_it).ok_or_else(|| {
            let message = format!("task {} asks no question `{}`", task.id, text::line(wanted));
            UsageError::hinting(message, format!("`mcp-task answer {}` shows what it asks", task.id))
        });
    }
    let has_fields = |question: &&Question| match &question.kind {
        QuestionKind::Form { schema, .. } => {
            let form = Form::new(schema);
            options.items.iter().all(|item| form.field(item.key()).is_some())
        }
        QuestionKind::Url { .. } | QuestionKind::Sampling => options.items.is_empty(),
    };
    match (questions, questions.iter().filter(has_fields).collect::<Vec<_>>().as_slice()) {
        ([], _) => {
            let status = &task.status;
            Err(UsageError::new(format!("task {} asks nothing that comes to this command: it is {status}", task.id)))
        }
        ([only], _) => Ok(only),
        (_, [only]) => Ok(*only),
        _ => {
            let message = format!("task {} asks {}", task.id, text::plural(questions.len(), "question"));
            Err(UsageError::hinting(message, "name one with --question; without arguments they are shown"))
        }
    }
}

fn answer(question: &Question, options: &AnswerOptions) -> anyhow::Result<Answer> {
    match options.action {
        Some(Action::Decline | Action::Cancel) if matches!(question.kind, QuestionKind::Sampling) => {
            return Ok(question.dismissal());
        }
        Some(Action::Decline) => return Ok(Answer::Decline),
        Some(Action::Cancel) => return Ok(Answer::Cancel),
        _ => {}
    }
    match &question.kind {
        QuestionKind::Form { schema, .. } => {
            let content = Form::new(schema).complete(options.input.clone().unwrap_or_default(), &options.items)?;
            Ok(Answer::Accept(Some(content)))
        }
        QuestionKind::Url { .. } => Ok(Answer::Accept(None)),
        QuestionKind::Sampling => {
            let message = "the server wants a language model to say something";
            Err(UsageError::hinting(message, "`mcp-task watch --sampling exec:COMMAND` lets a program say it").into())
        }
    }
}

/// Waits a moment for the task to take notice.
async fn noticed(session: &Session, task: Task) -> Task {
    let end = Instant::now() + NOTICES_WITHIN;
    let mut seen = task;
    while Instant::now() < end && seen.status == TaskStatus::InputRequired {
        tokio::time::sleep(LOOK_EVERY).await;
        match session.task(&seen.id).await {
            Ok(task) => seen = task,
            Err(_) => break,
        }
    }
    seen
}

fn tell(context: &Context, task: &Task, answer: &Answer) {
    let printer = &context.printer;
    match printer.output() {
        Output::Json => printer.raw_json(&task.raw),
        Output::Jsonl => {
            printer.json_line(&json!({"event": "answered", "taskId": task.id.as_str(), "action": answer.action()}))
        }
        Output::Text => {}
    }
    printer.note(&format!("answered ({}); task {} is now {}", answer.action(), task.id, task.status));
    if !task.status.is_terminal() {
        printer.note(&format!("follow it with: {}", context.command_for("watch", &task.id)));
    }
}

fn show(context: &Context, task: &Task, questions: &[Question]) {
    let printer = &context.printer;
    let row = |question: &Question| {
        json!({
            "id": question.id.to_json(),
            "taskId": task.id.as_str(),
            "method": question.method,
            "message": question.message(),
            "schema": match &question.kind {
                QuestionKind::Form { schema, .. } => schema.clone(),
                QuestionKind::Url { .. } | QuestionKind::Sampling => Value::Null,
            },
            "params": question.params.value(),
        })
    };
    match printer.output() {
        Output::Json => printer.json(&questions.iter().map(row).collect()),
        Output::Jsonl => questions.iter().for_each(|question| printer.json_line(&row(question))),
        Output::Text => {
            for question in questions {
                printer.data(&answering::page(question));
                printer.hint(&answering::command(context, question, &task.id));
            }
        }
    }
    if questions.is_empty() {
        let why = if task.status == TaskStatus::InputRequired {
            "waits for an answer, but its question does not come to this command"
        } else {
            "asks nothing"
        };
        printer.note(&format!("task {} {why} ({})", task.id, task.status));
    }
}
