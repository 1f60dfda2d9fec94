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
use crate::forms::Form;
use crate::lifecycle::{Answerer, INPUT_PATIENCE, Reply, Unanswered};
use crate::model::TaskId;
use crate::record::NotedQuestion;
use crate::session::{Answer, Question, QuestionId, QuestionKind, Session};

mod exec;
mod given;
mod person;
mod sampling;
mod words;

use given::Used;

pub use given::{Action, Given, GivenError};
pub use sampling::SamplingOptions;
pub(super) use words::{command, dismissed, page, trouble, visit_first};

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
    /// The task that is followed.
    task: Option<TaskId>,
    /// Whether anything was asked.
    is_asked: bool,
    /// How often a question was answered.
    rounds: HashMap<String, u32>,
    /// What of the answers given beforehand was used.
    used: Used,
    /// A question that nobody answered.
    left: Option<Unanswered>,
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
    pub(super) fn left(&self) -> Option<Unanswered> {
        self.state.borrow_mut().left.take()
    }

    /// Tells which answers given beforehand nothing was asked for.
    pub(super) fn tell_unused(&self) {
        let state = self.state.borrow();
        let Some(unused) = self.options.given.unused(&state.used) else { return };
        if state.is_asked {
            self.context.printer.warn(&format!("{unused}: no question asked for that"));
        } else {
            self.context.printer.note(&format!("{unused}: nothing was asked"));
        }
    }

    /// Tells which answers come too early, as the command leaves its task to itself.
    pub(super) fn tell_unused_by_detached(&self, task: &TaskId) {
        let rule = match self.options.otherwise {
            OnInput::Defaults | OnInput::Decline | OnInput::Cancel | OnInput::Exec(_) => Some("--on-input".to_owned()),
            OnInput::Ask | OnInput::Fail | OnInput::Wait => None,
        };
        let unused = self.options.given.unused(&self.state.borrow().used);
        let told: Vec<String> = unused.into_iter().chain(rule).collect();
        if !told.is_empty() {
            let watch = self.context.command_for("watch", task);
            let told = told.join(" and ");
            let printer = &self.context.printer;
            printer.warn(&format!(
                "{told}: whatever the task asks comes after this command has left; give it to `{watch}`"
            ));
        }
    }

    async fn reply(&self, question: &Question) -> Reply {
        self.state.borrow_mut().is_asked = true;
        let reply = self.try_reply(question).await.unwrap_or_else(|why| Reply::Leave(Some(why)));
        let why = match &reply {
            Reply::Leave(why) => why.clone(),
            // What no other command can know, none will answer.
            Reply::Wait if !self.recorder.has_row() => None,
            Reply::Wait => {
                self.tell_how_to_answer(question);
                return reply;
            }
            Reply::Answer(_) | Reply::Settled => return reply,
        };
        self.state.borrow_mut().left = Some(Unanswered { question: question.clone(), why });
        reply
    }

    /// From here on this task is followed.
    pub(super) fn follows(&self, task: &TaskId) {
        self.state.borrow_mut().task = Some(task.clone());
    }

    /// Somebody elsewhere is to answer, and may not know how.
    fn tell_how_to_answer(&self, question: &Question) {
        if let Some(id) = question.task.clone().or_else(|| self.state.borrow().task.clone()) {
            self.context.printer.note(&format!("answer it with: {}", command(&self.context, question, &id)));
        }
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
            Ok(None) => {
                match (self.options.given.unfit(question, &self.state.borrow().used), &self.options.otherwise) {
                    (Some(why), OnInput::Fail) => return Err(why),
                    (Some(why), OnInput::Ask) => self.context.printer.warn(&why),
                    _ => {}
                }
            }
            // The person can do better.
            Err(why) if self.options.otherwise == OnInput::Ask => self.context.printer.error(&why),
            Err(why) => return Err(why),
        }
        let answer = match &self.options.otherwise {
            OnInput::Fail => return Ok(Reply::Leave(None)),
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
