//! The course of one task: what an observation means, and what to do next. Pure but for the clock it is handed.
//!
//! In the 2025-11-25 era two questions run side by side. `tasks/get` is asked again and again at the task's [`Pace`];
//! `tasks/result` is asked once and left standing, so that a task's end needs no poll to be seen. Servers differ in what
//! they do with the second: some answer at once that the task is not done, some lose it, some never answer. So it speeds
//! things up, and where it fails the polls are enough.

use std::time::Duration;

use tokio::time::Instant;

use super::event::Event;
use super::follow::Ending;
use super::pace::Pace;
use crate::model::rpc_error::codes;
use crate::model::{RpcError, Task, TaskOutcome, TaskStatus, ToolResult, text};
use crate::rpc::ConnectionError;
use crate::session::{Hint, SessionError};

/// A refusal of `tasks/result` within this time means that the server does not let it wait.
const FAST: Duration = Duration::from_secs(1);
/// An error that `tasks/result` ends with after this time may be the task's own.
const NOT_AT_ONCE: Duration = Duration::from_millis(200);
/// How long the standing question may still be answered once a poll says that the task has ended or is unknown.
const GRACE: Duration = Duration::from_secs(1);
/// How long a task that has ended may take to hand out its result, before it is asked for anew.
const RESULT_GRACE: Duration = Duration::from_secs(10);
/// How often a task that has ended is asked for its result.
const RESULT_ATTEMPTS: u32 = 4;
/// How long polls may fail in passing before the task is left to itself.
const PATIENCE: Duration = Duration::from_secs(300);
/// How many polls in a row may be answered with an error that says nothing clear.
const ODD_ANSWERS: u32 = 3;
/// How long a question may stand unanswered, as it may be withdrawn when it is refused.
const INPUT_PATIENCE: Duration = Duration::from_secs(3);
/// How long a cancellation may take.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
/// The longest pause between attempts after failures.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// Whether `tasks/result` is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// At this time.
    At(Instant),
    /// It stands since then.
    Standing(Instant),
    /// Not before the task has ended: the server does not let it wait.
    AtTheEnd,
    /// Not at all.
    Never,
}

/// What stands for the task's outcome until a last poll has said how it ended.
#[derive(Debug)]
enum Outcome {
    Result(ToolResult),
    Error(RpcError),
}

/// The course of one task.
#[derive(Debug)]
pub(super) struct Course {
    task: Task,
    pace: Pace,
    next_poll: Instant,
    asking: Asking,
    result_attempts: u32,
    result_backoff: Duration,
    ended: Option<(TaskStatus, Instant)>,
    gone: Option<(RpcError, Instant)>,
    outcome: Option<Outcome>,
    /// An error of `tasks/result` that may be the task's own. It is where the server then forgets the task: some hand out
    /// an outcome once.
    refusal: Option<RpcError>,
    cancel_asked: Option<Instant>,
    cancel_hinted: bool,
    first_fault: Option<Instant>,
    faults: u32,
    odd_answers: u32,
    input_since: Option<Instant>,
    woken: bool,
    session_renewed: bool,
    ending: Option<Ending>,
    events: Vec<Event>,
}

impl Course {
    /// Starts from the first sight of a task. `holds` is whether this era's results are asked for apart.
    pub(super) fn new(task: Task, user_pause: Option<Duration>, holds: bool, now: Instant) -> Self {
        let mut pace = Pace::new(user_pause);
        pace.hear(task.poll_interval);
        let next_poll = now + pace.next_pause();
        let mut course = Self {
            pace,
            next_poll,
            asking: if holds { Asking::At(now) } else { Asking::Never },
            result_attempts: 0,
            result_backoff: Duration::from_millis(250),
            ended: None,
            gone: None,
            outcome: None,
            refusal: None,
            cancel_asked: None,
            cancel_hinted: false,
            first_fault: None,
            faults: 0,
            odd_answers: 0,
            input_since: (task.status == TaskStatus::InputRequired).then_some(now),
            woken: false,
            session_renewed: false,
            ending: None,
            events: Vec::new(),
            task,
        };
        if course.task.status.is_terminal() {
            course.end(course.task.status.clone(), now);
        }
        course
    }

    pub(super) fn task(&self) -> &Task {
        &self.task
    }

    /// Events since the last time.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// How it ended, once it has.
    pub(super) fn take_ending(&mut self) -> Option<Ending> {
        self.ending.take()
    }

    /// Whether the outcome is there and a last poll shall say how the task ended. A poll that was asked before the outcome
    /// came cannot know.
    pub(super) fn is_confirming(&self) -> bool {
        self.outcome.is_some()
    }

    /// Whether a poll is due.
    pub(super) fn poll_is_due(&self, now: Instant) -> bool {
        self.ended.is_none() && self.gone.is_none() && now >= self.next_poll
    }

    /// Whether `tasks/result` is to be asked now.
    pub(super) fn result_is_due(&self, now: Instant) -> bool {
        matches!(self.asking, Asking::At(at) if now >= at)
    }

    /// `tasks/result` was asked.
    pub(super) fn result_asked(&mut self, now: Instant) {
        self.asking = Asking::Standing(now);
    }

    /// When something is due again, answers aside.
    pub(super) fn wake_at(&self, polling: bool) -> Option<Instant> {
        let poll = (!polling && self.ended.is_none() && self.gone.is_none()).then_some(self.next_poll);
        let ask = match self.asking {
            Asking::At(at) => Some(at),
            _ => None,
        };
        let gone = self.gone.as_ref().map(|(_, since)| *since + GRACE);
        let ended = self.ended.as_ref().map(|(status, since)| *since + grace(status));
        let cancel = self.cancel_asked.filter(|_| self.ended.is_none()).map(|since| since + CANCEL_PATIENCE);
        [poll, ask, gone, ended, cancel].into_iter().flatten().min()
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant) {
        if let Some((error, since)) = &self.gone
            && now >= *since + GRACE
        {
            self.ending = Some(self.lost(error.clone()));
            return;
        }
        if let Some((status, since)) = self.ended.clone()
            && now >= since + grace(&status)
        {
            if status == TaskStatus::Cancelled {
                self.ending = Some(Ending::Cancelled { message: self.task.status_message.clone() });
            } else {
                self.ask_again(now, RpcError::new(0, "the server does not hand out the result"));
            }
            return;
        }
        if let Some(since) = self.cancel_asked
            && self.ended.is_none()
            && now >= since + CANCEL_PATIENCE
        {
            self.ending = Some(Ending::CancelUnconfirmed);
        }
    }

    /// A poll came back.
    pub(super) fn polled(&mut self, reply: Result<Task, SessionError>, session_renewed: bool, now: Instant) {
        self.session_renewed |= session_renewed;
        self.woken = false;
        match reply {
            Ok(task) => {
                self.first_fault = None;
                self.faults = 0;
                self.odd_answers = 0;
                self.see(task, now);
                self.next_poll = now + self.pace.next_pause();
                if let Some(outcome) = self.outcome.take() {
                    self.settle(outcome);
                } else if self.task.status.is_terminal() {
                    self.end(self.task.status.clone(), now);
                    return;
                } else if self.input_since.is_some_and(|since| now >= since + INPUT_PATIENCE) {
                    self.ending = Some(Ending::InputRequired);
                }
                // It goes on, so the error was a refusal to wait.
                self.refusal = None;
            }
            Err(error) => match self.outcome.take() {
                // The outcome is there already; that the task cannot be seen any more changes nothing.
                Some(outcome) => self.settle(outcome),
                None => self.poll_failed(error, now),
            },
        }
    }

    fn poll_failed(&mut self, error: SessionError, now: Instant) {
        if let Some(rpc) = error.rpc().filter(|rpc| is_unknown_task(rpc)) {
            let rpc = rpc.clone();
            if let Some(refusal) = self.refusal.take() {
                return self.settle(Outcome::Error(refusal));
            }
            // The end of a task and of its record can come together; then the standing question brings the result.
            if matches!(self.asking, Asking::Standing(_)) {
                self.gone = Some((rpc, now));
            } else {
                self.ending = Some(self.lost(rpc));
            }
            return;
        }
        if error.is_session_gone() {
            self.session_renewed = true;
            self.ending = Some(self.lost(RpcError::new(0, error.to_string())));
            return;
        }
        let passing = if error.is_passing() {
            let since = *self.first_fault.get_or_insert(now);
            now < since + PATIENCE
        } else if error.rpc().is_some_and(|rpc| rpc.code != codes::METHOD_NOT_FOUND) {
            self.odd_answers += 1;
            self.odd_answers < ODD_ANSWERS
        } else {
            false
        };
        if !passing {
            self.ending = Some(Ending::Broken(error));
            return;
        }
        self.faults += 1;
        let asked = error.connection().and_then(ConnectionError::retry_after).unwrap_or_default();
        let backoff = Duration::from_millis(500) * 2u32.saturating_pow(self.faults.min(10) - 1);
        let pause = self.pace.next_pause().max(asked).max(backoff.min(LONGEST_BACKOFF));
        self.next_poll = now + pause;
        let reason = error.to_string();
        self.events.push(Event::PollFailed { id: self.task.id.clone(), reason, retry_in: pause });
    }

    /// The server said something unasked.
    pub(super) fn hinted(&mut self, hint: Hint, now: Instant) {
        match hint {
            Hint::Progress(progress) => self.events.push(Event::Progress(progress)),
            // A notification that was overtaken by the end.
            Hint::Task(_) if self.ended.is_some() => {}
            Hint::Task(task) if task.status.is_terminal() => {
                self.cancel_hinted |= task.status == TaskStatus::Cancelled;
                // Not relied on: it makes us look, once.
                if !self.woken {
                    self.woken = true;
                    self.next_poll = now;
                }
            }
            Hint::Task(task) => self.see(task, now),
        }
    }

    /// `tasks/result` was answered.
    pub(super) fn result(&mut self, reply: Result<ToolResult, SessionError>, now: Instant) {
        let Asking::Standing(since) = self.asking else { return };
        self.asking = Asking::AtTheEnd;
        let error = match reply {
            Ok(result) => return self.result_came(result, now),
            Err(error) => error,
        };
        if self.gone.is_some() {
            // The poll's word stands: the task is not known.
            self.gone = self.gone.take().map(|(error, _)| (error, now - GRACE));
            return self.tick(now);
        }
        match error {
            SessionError::Rpc { error, .. } => self.result_refused(error, now - since, now),
            error if error.is_passing() || error.is_session_gone() => {
                self.asking = Asking::At(now + self.result_backoff);
                self.result_backoff = (self.result_backoff * 2).min(LONGEST_BACKOFF);
            }
            error
                if error.connection().is_some_and(ConnectionError::ends_the_connection)
                    || self.is_refused_at_the_end(&error) =>
            {
                self.ending = Some(Ending::Broken(error));
            }
            // An answer of no use: while the task runs, polls do without; at its end it is asked for again.
            error if self.ended.is_some() => self.ask_again(now, RpcError::new(0, error.to_string())),
            _ => {}
        }
    }

    fn is_refused_at_the_end(&self, error: &SessionError) -> bool {
        self.ended.is_some() && matches!(error.connection(), Some(ConnectionError::Unauthorized { .. }))
    }

    fn result_came(&mut self, result: ToolResult, now: Instant) {
        if let Some((status, _)) = self.ended.clone() {
            self.settle_as(status, Outcome::Result(result));
        } else if self.gone.is_some() {
            // There is nobody to confirm it any more.
            self.settle(Outcome::Result(result));
        } else if self.cancel_asked.is_some() || self.cancel_hinted || result.is_empty() {
            // A cancelled task's `tasks/result` is answered with all sorts of things, a bare `_meta` among them.
            self.outcome = Some(Outcome::Result(result));
            self.next_poll = now;
        } else {
            self.settle(Outcome::Result(result));
        }
    }

    fn result_refused(&mut self, error: RpcError, held: Duration, now: Instant) {
        if let Some((status, _)) = self.ended.clone() {
            return match status {
                TaskStatus::Completed => self.ask_again(now, error),
                status => {
                    let own = self.refusal.take().filter(|_| is_unknown_task(&error));
                    self.settle_as(status, Outcome::Error(own.unwrap_or(error)));
                }
            };
        }
        let not_done = matches!(
            error.code,
            codes::INVALID_PARAMS | codes::INTERNAL_ERROR | codes::RESOURCE_NOT_FOUND | codes::METHOD_NOT_FOUND
        );
        if not_done {
            // At once: this server does not let it wait. Later: the task has ended somehow, and a poll will say how.
            if held >= FAST {
                self.next_poll = now;
            }
            if held >= NOT_AT_ONCE && error.code == codes::INTERNAL_ERROR && !is_unknown_task(&error) {
                self.refusal = Some(error);
            }
        } else {
            // The task's own error. Whether it failed or was cancelled is for a last poll to say.
            self.outcome = Some(Outcome::Error(error));
            self.next_poll = now;
        }
    }

    /// The user wants it cancelled.
    pub(super) fn cancel_asked(&mut self, now: Instant) {
        self.cancel_asked.get_or_insert(now);
        self.events.push(Event::CancelAsked { id: self.task.id.clone() });
    }

    /// `tasks/cancel` was answered.
    pub(super) fn cancel_replied(&mut self, reply: Result<Option<Task>, SessionError>, now: Instant) {
        match reply {
            Ok(Some(task)) if task.id == self.task.id => {
                self.see(task, now);
                if self.task.status.is_terminal() {
                    return self.end(self.task.status.clone(), now);
                }
            }
            Ok(_) => {}
            Err(error) => {
                self.events.push(Event::CancelRefused { id: self.task.id.clone(), reason: error.to_string() });
            }
        }
        if self.ended.is_none() {
            self.next_poll = now;
        }
    }

    /// A newer sight of the task.
    fn see(&mut self, task: Task, now: Instant) {
        self.pace.hear(task.poll_interval);
        let changed = task.status != self.task.status || task.status_message != self.task.status_message;
        let newly_asking = task.status == TaskStatus::InputRequired && self.task.status != TaskStatus::InputRequired;
        if newly_asking && self.asking == Asking::AtTheEnd {
            // Some servers put their question only to who waits for the result.
            self.asking = Asking::At(now);
        }
        match task.status {
            TaskStatus::InputRequired => _ = self.input_since.get_or_insert(now),
            _ => self.input_since = None,
        }
        self.task = Task { id: self.task.id.clone(), ..task };
        if changed {
            self.events.push(Event::Changed { task: self.task.clone() });
        }
    }

    /// The task has ended; its outcome may be yet to come.
    fn end(&mut self, status: TaskStatus, now: Instant) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some((status.clone(), now));
        match (&status, self.asking) {
            (TaskStatus::Cancelled, Asking::Standing(_)) => {}
            (TaskStatus::Cancelled, _) => {
                self.asking = Asking::Never;
                self.ending = Some(Ending::Cancelled { message: self.task.status_message.clone() });
            }
            (_, Asking::AtTheEnd) => self.asking = Asking::At(now),
            (_, Asking::At(at)) => self.asking = Asking::At(at.min(now)),
            (_, Asking::Standing(_) | Asking::Never) => {}
        }
    }

    /// A task that has ended would not hand out its result.
    fn ask_again(&mut self, now: Instant, error: RpcError) {
        self.result_attempts += 1;
        if self.result_attempts >= RESULT_ATTEMPTS {
            let status = self.ended.as_ref().map_or(TaskStatus::Completed, |(status, _)| status.clone());
            self.ending = Some(Ending::NoResult { status, error });
            return;
        }
        let pause = Duration::from_millis(125) * 2u32.pow(self.result_attempts);
        self.asking = Asking::At(now + pause);
        if let Some((_, since)) = &mut self.ended {
            *since = now + pause;
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        let status = if self.task.status.is_terminal() {
            self.task.status.clone()
        } else if self.cancel_asked.is_some() && matches!(outcome, Outcome::Error(_)) {
            TaskStatus::Cancelled
        } else {
            match &outcome {
                Outcome::Result(result) if !result.is_error => TaskStatus::Completed,
                _ => TaskStatus::Failed,
            }
        };
        self.settle_as(status, outcome);
    }

    fn settle_as(&mut self, status: TaskStatus, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Result(result) => TaskOutcome::Result(result),
            Outcome::Error(error) => TaskOutcome::Error(error),
        };
        self.ending = Some(match status {
            TaskStatus::Cancelled => Ending::Cancelled { message: self.task.status_message.clone() },
            status => Ending::Done { status, outcome, cancel_asked: self.cancel_asked.is_some() },
        });
    }

    fn lost(&self, error: RpcError) -> Ending {
        Ending::Lost { error, ttl: self.task.ttl, with_session: self.session_renewed }
    }
}

fn grace(status: &TaskStatus) -> Duration {
    if *status == TaskStatus::Cancelled { GRACE } else { RESULT_GRACE }
}

/// Whether an error says that the server does not know the task. -32602 is the specification's; others are in use, and
/// one of them means much else besides, so its words must agree.
pub fn is_unknown_task(error: &RpcError) -> bool {
    match error.code {
        codes::INVALID_PARAMS | codes::RESOURCE_NOT_FOUND => true,
        codes::INTERNAL_ERROR => {
            let words = text::line(&error.message).to_lowercase();
            ["not found", "unknown", "expired", "no such", "not exist"].iter().any(|clue| words.contains(clue))
        }
        _ => false,
    }
}
