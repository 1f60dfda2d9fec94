//! Who answers what a server asks: what was given beforehand, else whom `--on-input` names.
//!
//! `given` holds the answers of `--answer` and `--answers`, `exec` asks a program, `person` whoever sits at the terminal.
//! Whatever comes of them is checked against the question's schema before it is sent. Nothing here reads stdin.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use serde_json::{Map, Value};

use super::Context;
use super::recorder::Recorder;
use crate::forms::{self, FieldKind, Form};
use crate::lifecycle::{Answerer, INPUT_PATIENCE, Reply};
use crate::model::rpc_error::codes;
use crate::model::{RawJson, TaskId, text};
use crate::present::{Exit, Trouble};
use crate::record::NotedQuestion;
use crate::session::{Answer, Question, QuestionId, QuestionKind, Session};

mod exec;
mod given;
mod person;
mod sampling;

pub use given::{Action, Given, GivenError};
pub use sampling::SamplingOptions;

/// How often the very same question is answered without a person: some servers ask for ever.
const ROUNDS: u32 = 10;

/// How often to look whether another command has answered.
const ELSEWHERE: Duration = Duration::from_millis(250);

/// How to answer what a server asks.
#[derive(Clone, Debug, Default)]
pub struct InputOptions {
    /// Answers that were given beforehand.
    pub given: Given,
    /// What to do where they say nothing.
    pub otherwise: OnInput,
}

/// `--on-input`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnInput {
    /// Ask the person at the terminal.
    Ask,
    /// Answer with the question's own defaults.
    Defaults,
    /// Say no.
    Decline,
    /// Dismiss the question.
    Cancel,
    /// Leave the task waiting.
    #[default]
    Fail,
    /// Go on; somebody else answers.
    Wait,
    /// Ask this program.
    Exec(Vec<String>),
}

impl InputOptions {
    /// How long a task may ask for input without a question that comes to us.
    pub(super) fn patience(&self) -> Option<Duration> {
        (self.otherwise != OnInput::Wait).then_some(INPUT_PATIENCE)
    }
}

/// Answers for one call or task.
pub(super) struct Answers {
    context: Context,
    options: InputOptions,
    tool: Option<String>,
    recorder: Recorder,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How often a question was answered.
    rounds: HashMap<String, u32>,
    /// Which entries of `--answers` were used.
    used: Vec<usize>,
    /// A question that nobody answered.
    left: Option<Question>,
}

/// Why there is no answer, beyond that nobody is asked; escaped.
type NoAnswer = String;

impl Answers {
    /// `recorder` writes about the task that the questions belong to.
    pub(super) fn new(context: &Context, options: &InputOptions, tool: Option<&str>, recorder: Recorder) -> Self {
        Self {
            recorder,
            context: context.clone(),
            options: options.clone(),
            tool: tool.map(str::to_owned),
            state: RefCell::default(),
        }
    }

    /// The question that nobody answered, if there was one.
    pub(super) fn left(&self) -> Option<Question> {
        self.state.borrow_mut().left.take()
    }

    async fn reply(&self, question: &Question) -> Reply {
        let reply = match self.try_reply(question).await {
            Ok(reply) => reply,
            Err(why) => {
                self.context.printer.error(&why);
                Reply::Leave
            }
        };
        // What no other command can know, none will answer.
        if reply == Reply::Leave || (reply == Reply::Wait && !self.recorder.has_row()) {
            self.state.borrow_mut().left = Some(question.clone());
        }
        reply
    }

    async fn try_reply(&self, question: &Question) -> Result<Reply, NoAnswer> {
        if matches!(question.kind, QuestionKind::Sampling) {
            return sampling::answer(&self.context, self.tool.as_deref(), question).await;
        }
        match self.given(question) {
            Ok(Some(answer)) => {
                self.count(question)?;
                return Ok(Reply::Answer(answer));
            }
            Ok(None) => {}
            // The person can do better.
            Err(why) if self.options.otherwise == OnInput::Ask => self.context.printer.error(&why),
            Err(why) => return Err(why),
        }
        let answer = match &self.options.otherwise {
            OnInput::Fail => return Ok(Reply::Leave),
            OnInput::Wait => return Ok(Reply::Wait),
            OnInput::Ask => return person::ask(&self.context, self.tool.as_deref(), question).await,
            OnInput::Decline => Answer::Decline,
            OnInput::Cancel => Answer::Cancel,
            OnInput::Defaults => defaults(question)?,
            OnInput::Exec(command) => {
                self.count(question)?;
                let words = exec::run(&self.context, command, self.tool.as_deref(), question).await?;
                return Ok(Reply::Answer(exec::read(question, &words)?));
            }
        };
        self.count(question)?;
        Ok(Reply::Answer(answer))
    }

    /// Has a person go to all these addresses, and waits until that is done; without a person no longer than `limit`.
    ///
    /// # Errors
    /// Where nobody does; with the reason, if there is one beyond that.
    pub(super) async fn meet(
        &self,
        session: &Session,
        needed: &[Question],
        limit: Option<Duration>,
    ) -> Result<(), Option<NoAnswer>> {
        for question in needed {
            match self.try_reply(question).await {
                Ok(Reply::Answer(Answer::Accept(_))) => {}
                Ok(_) => return Err(None),
                Err(why) => return Err(Some(why)),
            }
        }
        let by_person = async {
            match self.options.otherwise {
                OnInput::Ask => person::is_done(&self.context).await,
                // Without a person the server's word alone counts.
                _ => {
                    tokio::time::sleep(limit.unwrap_or(Duration::MAX)).await;
                    Ok(false)
                }
            }
        };
        tokio::select! {
            () = session.completed(needed) => Ok(()),
            done = by_person => match done {
                Ok(true) => Ok(()),
                Ok(false) => Err(None),
                Err(why) => Err(Some(why)),
            },
        }
    }

    /// Waits for another command to answer.
    async fn settled(&self, question: &Question) -> Reply {
        loop {
            tokio::time::sleep(ELSEWHERE).await;
            if self.recorder.is_settled(question) {
                return Reply::Settled;
            }
        }
    }

    /// The answer that was given beforehand.
    fn given(&self, question: &Question) -> Result<Option<Answer>, NoAnswer> {
        let mut state = self.state.borrow_mut();
        self.options.given.answer(question, &mut state.used)
    }

    /// Counts answers that no person gives.
    fn count(&self, question: &Question) -> Result<(), NoAnswer> {
        let mut state = self.state.borrow_mut();
        let mut params = question.params.value();
        if let Some(params) = params.as_object_mut() {
            params.remove("_meta");
        }
        let rounds = state.rounds.entry(params.to_string()).or_default();
        *rounds += 1;
        if *rounds > ROUNDS {
            return Err(format!("the server has asked the same {ROUNDS} times and was answered each time"));
        }
        Ok(())
    }
}

impl Answerer for Answers {
    fn answer<'a>(&'a self, question: &'a Question) -> LocalBoxFuture<'a, Reply> {
        Box::pin(async move {
            if self.recorder.is_settled(question) {
                return Reply::Settled;
            }
            tokio::select! {
                biased;
                reply = self.reply(question) => match reply {
                    Reply::Wait if self.recorder.has_row() => self.settled(question).await,
                    reply => reply,
                },
                reply = self.settled(question) => reply,
            }
        })
    }

    fn claims(&self, question: &Question, answer: &Answer) -> bool {
        self.recorder.claims(question, answer.action())
    }

    fn failed(&self, question: &Question, why: &str) {
        self.recorder.unanswered(question, why);
    }
}

/// The form's own defaults, where they make an answer.
fn defaults(question: &Question) -> Result<Answer, NoAnswer> {
    match &question.kind {
        QuestionKind::Form { schema, .. } => {
            let form = Form::new(schema);
            let content = form.finish(form.defaults());
            content
                .map(|content| Answer::Accept(Some(content)))
                .map_err(|misfit| format!("the question's own defaults are no answer: {misfit}"))
        }
        QuestionKind::Url { .. } | QuestionKind::Sampling => Err("a question of this kind has no defaults".to_owned()),
    }
}

/// An answer with this content, checked.
fn accept(question: &Question, content: Map<String, Value>) -> Result<Answer, NoAnswer> {
    match &question.kind {
        QuestionKind::Form { schema, .. } => {
            let content = Form::new(schema).finish(content).map_err(|misfit| format!("no answer is sent: {misfit}"))?;
            Ok(Answer::Accept(Some(content)))
        }
        QuestionKind::Url { .. } => Ok(Answer::Accept(None)),
        QuestionKind::Sampling => Err("a question to a language model has no fields".to_owned()),
    }
}

/// A question that the record kept.
pub(super) fn recorded(noted: NotedQuestion) -> Option<Question> {
    Question::recorded(QuestionId::from_json(&noted.id)?, &noted.method, noted.params)
}

/// A question that waits for somebody: what is asked, and how to answer it.
pub(super) fn trouble(context: &Context, question: &Question, task: Option<&TaskId>) -> Trouble {
    let whose = task.map_or_else(|| "the server".to_owned(), |id| format!("task {id}"));
    let message = format!("{whose} waits for an answer: {}", describe(question));
    let mut trouble = Trouble::new("input_required", Exit::InputNeeded, message);
    trouble.data = Some(question.params.clone());
    match (task, &question.kind) {
        (Some(id), QuestionKind::Sampling) => {
            let watch = context.command_for("watch", id);
            trouble.task(id).hint(format!("{watch} --sampling exec:COMMAND"))
        }
        (Some(id), _) => trouble.task(id).hint(command(context, question, id)),
        (None, _) => trouble,
    }
}

/// A question of a plain call that was dismissed.
pub(super) fn dismissed(question: &Question) -> Trouble {
    let message = format!("nobody answered, so the question was dismissed: {}", describe(question));
    Trouble::new("input_required", Exit::InputNeeded, message)
        .hint("--answer FIELD=… or --answers FILE answers beforehand; --on-input says what to do otherwise")
}

/// A call that the server refuses until a person has been somewhere, and nobody went.
pub(super) fn visit_first(tool: &str, needed: &[Question], why: Option<NoAnswer>) -> Trouble {
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
pub(super) fn command(context: &Context, question: &Question, id: &TaskId) -> String {
    let command = context.command_for("answer", id);
    let QuestionKind::Form { schema, .. } = &question.kind else { return command };
    let form = Form::new(schema);
    let fields = form.fields().iter().filter(|field| field.required || form.fields().len() == 1);
    let arguments: Vec<String> = fields.map(|field| format!(" {}=…", text::line(&field.name))).collect();
    if arguments.is_empty() { format!("{command} --accept") } else { format!("{command}{}", arguments.concat()) }
}

/// What is asked, in a few words; escaped.
pub(super) fn describe(question: &Question) -> String {
    let words = text::truncate(&text::line(question.message()), 300).into_owned();
    let message = if words.trim().is_empty() { "it says no words".to_owned() } else { words };
    match &question.kind {
        QuestionKind::Sampling => "it wants a language model to say something".to_owned(),
        QuestionKind::Url { url, .. } => format!("{message} (at {})", text::line(url)),
        QuestionKind::Form { schema, .. } => {
            let form = Form::new(schema);
            let fields: Vec<String> = form.fields().iter().take(12).map(field).collect();
            if fields.is_empty() { message } else { format!("{message} ({})", fields.join("; ")) }
        }
    }
}

/// A question in full, for a person to read: a line for each field; escaped.
pub(super) fn page(question: &Question) -> String {
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
            let values = choices.iter().take(12).map(|choice| forms::plain(&choice.value));
            let of = if matches!(field.kind, FieldKind::Choice(_)) { "one" } else { "some" };
            format!("{of} of {}", values.collect::<Vec<_>>().join(", "))
        }
        FieldKind::Other => "JSON".to_owned(),
    };
    let bounds = field.bounds.iter().map(|bound| format!(", {bound}")).collect::<String>();
    let optional = if field.required { "" } else { ", optional" };
    text::line(&format!("{}: {kind}{bounds}{optional}", field.name)).into_owned()
}
