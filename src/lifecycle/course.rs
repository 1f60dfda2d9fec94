//! The course of one task: what an observation means, and what to do next. Pure but for the clock it is handed.
//!
//! In the 2025-11-25 era two questions run side by side. `tasks/get` is asked again and again at the task's [`Pace`];
//! `tasks/result` is asked once and left standing, so that a task's end needs no poll to be seen. Servers differ in what
//! they do with the second: some answer at once that the task is not done, some lose it, some never answer. So it speeds
//! things up, and where it fails the polls are enough.
//!
//! | phase | `tasks/get` | `tasks/result` | what ends it |
//! |---|---|---|---|
//! | running | at the pace, or woken | stands, is reopened, or waits for the end | a poll's terminal status → ended; an outcome → the ending, or confirming |
//! | confirming: the outcome is there, how the task ended is not | once | no more | any answer to the poll |
//! | ended: how is known, the outcome is not there | no more | stands; asked anew beside it, or after a refusal | the outcome |
//! | gone: a poll does not find the task | no more | what stands may still be answered | an outcome; an error; a second |
//!
//! A question in flight is never withdrawn: the answer to it may be the only one the server gives.

use std::time::Duration;

use tokio::time::Instant;

use super::event::Event;
use super::follow::{Ending, FollowOptions};
use super::input::Input;
use super::limits::{
    BESIDE, CANCEL_PATIENCE, FAST, GRACE, LATE, LONGEST_BACKOFF, NOT_AT_ONCE, ODD_ANSWERS, RESULT_ATTEMPTS,
};
use super::pace::{FLOOR, Pace};
use crate::model::rpc_error::codes;
use crate::model::{RpcError, Task, TaskOutcome, TaskStatus, ToolResult};
use crate::rpc::ConnectionError;
use crate::session::{Hint, SessionError, is_unknown_task};

/// Whether `tasks/result` is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// At this time.
    At(Instant),
    /// It was; the answer says what next.
    Asked,
    /// Not before the task has ended: the server does not let it wait.
    AtTheEnd,
    /// Not at all: this era brings the result along with the task.
    Never,
}

/// See the table above.
#[derive(Debug)]
enum Phase {
    Running,
    Confirming(TaskOutcome),
    Ended { status: TaskStatus, since: Instant },
    Gone { error: RpcError, since: Instant },
}

/// How cancellation stands, and since when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancelling {
    No,
    Asked(Instant),
    Accepted(Instant),
}

/// The course of one task.
#[derive(Debug)]
pub(super) struct Course {
    task: Task,
    phase: Phase,
    pace: Pace,
    /// How long the server may be out of reach.
    patience: Option<Duration>,
    next_poll: Instant,
    last_poll: Instant,
    /// A notification came while a poll was on its way, which may have been asked too early.
    look_again: bool,
    /// Notifications of the end that polls did not bear out.
    false_alarms: u32,
    woken: bool,
    asking: Asking,
    /// How many questions for the result are in flight, and when the newest was asked.
    standing: usize,
    last_asked: Instant,
    asked_beside: bool,
    result_attempts: u32,
    result_backoff: Duration,
    /// An error of `tasks/result` that may be the task's own. It is where the server then forgets the task: some hand out
    /// an outcome once.
    refusal: Option<RpcError>,
    /// Why a task that has ended would not hand out its result.
    withheld: Option<RpcError>,
    cancelling: Cancelling,
    cancel_hinted: bool,
    first_fault: Option<Instant>,
    faults: u32,
    odd_answers: u32,
    input: Input,
    session_renewed: bool,
    ending: Option<Ending>,
    events: Vec<Event>,
}

impl Course {
    /// Starts from the first sight of a task. `holds` is whether this era's results are asked for apart.
    pub(super) fn new(task: Task, options: &FollowOptions, holds: bool, now: Instant) -> Self {
        let mut pace = Pace::new(options.least_pause);
        pace.hear(task.poll_interval);
        let next_poll = now + pace.next_pause();
        let mut course = Self {
            phase: Phase::Running,
            pace,
            patience: options.patience,
            next_poll,
            last_poll: now,
            look_again: false,
            false_alarms: 0,
            woken: false,
            asking: if holds { Asking::At(now) } else { Asking::Never },
            standing: 0,
            last_asked: now,
            asked_beside: false,
            result_attempts: 0,
            result_backoff: Duration::from_millis(250),
            refusal: None,
            withheld: None,
            cancelling: Cancelling::No,
            cancel_hinted: false,
            first_fault: None,
            faults: 0,
            odd_answers: 0,
            input: Input::new(options.input_patience),
            session_renewed: false,
            ending: None,
            events: Vec::new(),
            task,
        };
        course.input.see(&course.task.status, now);
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
        matches!(self.phase, Phase::Confirming(_))
    }

    fn is_polled(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Confirming(_))
    }

    /// Whether a poll is due.
    pub(super) fn poll_is_due(&self, now: Instant) -> bool {
        self.is_polled() && now >= self.next_poll
    }

    /// The task is being polled.
    pub(super) fn poll_asked(&mut self, now: Instant) {
        self.last_poll = now;
    }

    /// Whether `tasks/result` is to be asked now.
    pub(super) fn result_is_due(&self, now: Instant) -> bool {
        matches!(self.asking, Asking::At(at) if now >= at)
    }

    /// `tasks/result` was asked.
    pub(super) fn result_asked(&mut self, now: Instant) {
        self.asking = Asking::Asked;
        self.last_asked = now;
        self.standing += 1;
    }

    /// When something is due again, answers aside.
    pub(super) fn wake_at(&self, polling: bool) -> Option<Instant> {
        let poll = (!polling && self.is_polled()).then_some(self.next_poll);
        let ask = match self.asking {
            Asking::At(at) => Some(at),
            _ => None,
        };
        let phase = match &self.phase {
            Phase::Running | Phase::Confirming(_) => self.cancel_since().map(|since| since + CANCEL_PATIENCE),
            Phase::Ended { since, .. } if !self.asked_beside && self.standing > 0 => Some(*since + BESIDE),
            Phase::Ended { since, .. } => self.last_wait(*since).filter(|_| self.standing > 0),
            Phase::Gone { since, .. } => Some(*since + GRACE),
        };
        [poll, ask, phase].into_iter().flatten().min()
    }

    /// Whether a question of the server is being attended to.
    pub(super) fn attending(&mut self, attending: bool, now: Instant) {
        if self.input.attending(attending, now) {
            self.next_poll = self.next_poll.min(now + FLOOR);
        }
    }

    /// When an ended task's result is given up, questions unanswered.
    fn last_wait(&self, since: Instant) -> Option<Instant> {
        if self.withheld.is_some() {
            Some(since + LATE)
        } else {
            since.max(self.last_asked).checked_add(self.patience?)
        }
    }

    fn cancel_since(&self) -> Option<Instant> {
        match self.cancelling {
            Cancelling::No => None,
            Cancelling::Asked(since) | Cancelling::Accepted(since) => Some(since),
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant) {
        match &self.phase {
            Phase::Running | Phase::Confirming(_) => {
                if self.cancel_since().is_some_and(|since| now >= since + CANCEL_PATIENCE) {
                    self.ending = Some(Ending::CancelUnconfirmed);
                }
            }
            Phase::Ended { since, status } => {
                if !self.asked_beside && self.standing > 0 && now >= *since + BESIDE {
                    // It may have been lost on the way, or be a large one that is on it.
                    self.asked_beside = true;
                    self.asking = Asking::At(now);
                } else if self.standing > 0 && self.last_wait(*since).is_some_and(|end| now >= end) {
                    let silence = || RpcError::new(0, "the server does not hand out the result");
                    let error = self.withheld.take().unwrap_or_else(silence);
                    self.ending = Some(Ending::NoResult { status: status.clone(), error });
                }
            }
            Phase::Gone { since, error } => {
                if now >= *since + GRACE {
                    self.ending = Some(self.lost(error.clone()));
                }
            }
        }
    }

    /// Whether the server has lost the session meanwhile, and a new one was opened.
    pub(super) fn session_renewed(&mut self, renewed: bool) {
        self.session_renewed = renewed;
    }

    /// A poll came back.
    pub(super) fn polled(&mut self, reply: Result<Task, SessionError>, now: Instant) {
        let look_again = std::mem::take(&mut self.look_again);
        self.false_alarms += u32::from(std::mem::take(&mut self.woken));
        let confirming = match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Confirming(outcome) => Some(outcome),
            phase => {
                self.phase = phase;
                None
            }
        };
        match (reply, confirming) {
            (Ok(task), confirming) => {
                self.first_fault = None;
                self.faults = 0;
                self.odd_answers = 0;
                self.see(task, now);
                self.next_poll = now + self.pace.next_pause();
                if let Some(outcome) = confirming {
                    self.settle(outcome);
                } else if self.task.status.is_terminal() {
                    self.end(self.task.status.clone(), now);
                    return;
                } else if self.input.is_in_vain(now) {
                    self.ending = Some(Ending::InputRequired(None));
                } else if look_again {
                    self.wake(now);
                }
                // It goes on, so the error was a refusal to wait.
                self.refusal = None;
            }
            // The outcome is there already; that the task cannot be seen any more changes nothing.
            (Err(_), Some(outcome)) => self.settle(outcome),
            (Err(error), None) => self.poll_failed(error, now),
        }
    }

    fn poll_failed(&mut self, error: SessionError, now: Instant) {
        if let Some(rpc) = error.rpc().filter(|rpc| is_unknown_task(rpc)) {
            let rpc = rpc.clone();
            if let Some(refusal) = self.refusal.take() {
                return self.settle(TaskOutcome::Error(refusal));
            }
            // The end of a task and of its record can come together; then the standing question brings the result.
            if self.standing > 0 {
                self.phase = Phase::Gone { error: rpc, since: now };
            } else {
                self.ending = Some(self.lost(rpc));
            }
            return;
        }
        if self.ends_with_its_server(&error) {
            return self.cancelled();
        }
        let passing = if error.is_passing() || error.is_session_gone() {
            self.is_patient(now)
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
        let gives_up_in = self.first_fault.zip(self.patience).map(|(since, patience)| (since + patience) - now);
        let (id, reason) = (self.task.id.clone(), error.to_string());
        self.events.push(Event::PollFailed { id, reason, retry_in: pause, gives_up_in });
    }

    /// Notes a fault that may pass; whether there is patience left.
    fn is_patient(&mut self, now: Instant) -> bool {
        let since = *self.first_fault.get_or_insert(now);
        self.patience.is_none_or(|patience| now < since + patience)
    }

    /// Whether a server that was asked to cancel has ended, and its task with it.
    fn ends_with_its_server(&self, error: &SessionError) -> bool {
        self.cancelling != Cancelling::No && error.connection().is_some_and(ConnectionError::is_servers_end)
    }

    /// The server said something unasked. `polling` is whether a poll is on its way.
    pub(super) fn hinted(&mut self, hint: Hint, polling: bool, now: Instant) {
        match hint {
            Hint::Progress(progress) => self.events.push(Event::Progress(progress)),
            // A notification that was overtaken by the end.
            Hint::Task(_) if !self.is_polled() => {}
            Hint::Task(task) if task.status.is_terminal() => {
                self.cancel_hinted |= task.status == TaskStatus::Cancelled;
                // Not relied on: it makes us look.
                if polling {
                    self.look_again = true;
                } else {
                    self.wake(now);
                }
            }
            Hint::Task(task) => self.see(task, now),
        }
    }

    /// Looks before it is time; later each time that was for nothing.
    fn wake(&mut self, now: Instant) {
        let apart = self.false_alarms.checked_sub(1).map_or(Duration::ZERO, |alarms| FLOOR * 2u32.pow(alarms.min(15)));
        self.woken = true;
        self.next_poll = self.next_poll.min((self.last_poll + apart).max(now));
    }

    /// The `tasks/result` asked at `asked` was answered.
    pub(super) fn result(&mut self, asked: Instant, reply: Result<ToolResult, SessionError>, now: Instant) {
        self.standing = self.standing.saturating_sub(1);
        if self.asking == Asking::Asked && self.standing == 0 {
            self.asking = Asking::AtTheEnd;
        }
        let error = match reply {
            Ok(result) => return self.result_came(result, now),
            Err(error) => error,
        };
        match &self.phase {
            Phase::Gone { error, .. } => {
                if self.standing == 0 {
                    // The poll's word stands: the task is not known.
                    self.ending = Some(self.lost(error.clone()));
                }
            }
            Phase::Ended { status, since } => {
                let (status, early) = (status.clone(), asked < *since);
                self.result_failed_at_the_end(&status, early, error, now);
            }
            Phase::Running | Phase::Confirming(_) => self.result_failed(asked, error, now),
        }
    }

    fn result_came(&mut self, result: ToolResult, now: Instant) {
        let doubtful = self.cancelling != Cancelling::No || self.cancel_hinted || result.is_empty();
        match &self.phase {
            Phase::Ended { status, .. } => self.settle_as(status.clone(), TaskOutcome::Result(result)),
            // There is nobody to confirm it any more.
            Phase::Gone { .. } => self.settle(TaskOutcome::Result(result)),
            // A cancelled task's `tasks/result` is answered with all sorts of things, a bare `_meta` among them.
            Phase::Running | Phase::Confirming(_) if doubtful => self.confirm(TaskOutcome::Result(result), now),
            Phase::Running | Phase::Confirming(_) => self.settle(TaskOutcome::Result(result)),
        }
    }

    /// A last poll shall say how the task ended.
    fn confirm(&mut self, outcome: TaskOutcome, now: Instant) {
        self.phase = Phase::Confirming(outcome);
        self.next_poll = now;
    }

    /// `tasks/result` failed before a poll knew of the end.
    fn result_failed(&mut self, asked: Instant, error: SessionError, now: Instant) {
        match error {
            SessionError::Rpc { error, .. } => self.result_refused(error, now - asked, now),
            error if error.is_passing() || error.is_session_gone() => self.ask_after_backoff(now),
            error if self.ends_with_its_server(&error) => self.cancelled(),
            error if error.connection().is_some_and(ConnectionError::ends_the_connection) => {
                self.ending = Some(Ending::Broken(error));
            }
            // An answer of no use: polls do without.
            _ => {}
        }
    }

    fn result_refused(&mut self, error: RpcError, held: Duration, now: Instant) {
        let not_done = matches!(
            error.code,
            codes::INVALID_PARAMS | codes::INTERNAL_ERROR | codes::RESOURCE_NOT_FOUND | codes::METHOD_NOT_FOUND
        );
        if !not_done {
            // The task's own error. Whether it failed or was cancelled is for a last poll to say.
            return self.confirm(TaskOutcome::Error(error), now);
        }
        // At once: this server does not let it wait. Later: the task has ended somehow, and a poll will say how.
        if held >= FAST {
            self.next_poll = now;
        }
        if held >= NOT_AT_ONCE && error.code == codes::INTERNAL_ERROR && !is_unknown_task(&error) {
            self.refusal = Some(error);
        }
    }

    /// `tasks/result` failed though the task has ended. `early` is whether it was asked before we knew.
    fn result_failed_at_the_end(&mut self, status: &TaskStatus, early: bool, error: SessionError, now: Instant) {
        match error {
            SessionError::Rpc { error, .. } if *status == TaskStatus::Completed => self.ask_again(error, now),
            SessionError::Rpc { error, .. } if is_unknown_task(&error) && self.refusal.is_some() => {
                let own = self.refusal.take().unwrap_or(error);
                self.settle_as(status.clone(), TaskOutcome::Error(own));
            }
            // It may have been refused for being early, or be the task's own: asking anew tells.
            SessionError::Rpc { error, .. } if early && error.code == codes::INTERNAL_ERROR => {
                self.refusal = Some(error.clone()).filter(|error| !is_unknown_task(error));
                self.ask_again(error, now);
            }
            SessionError::Rpc { error, .. } if is_unknown_task(&error) && (early || self.standing > 0) => {
                self.ask_again(error, now);
            }
            SessionError::Rpc { error, .. } => self.settle_as(status.clone(), TaskOutcome::Error(error)),
            error if error.is_passing() || error.is_session_gone() => {
                if self.is_patient(now) {
                    self.ask_after_backoff(now);
                } else {
                    self.ending = Some(Ending::Broken(error));
                }
            }
            error if error.ends_the_asking() => self.ending = Some(Ending::Broken(error)),
            // An answer of no use.
            error => self.ask_again(RpcError::new(0, error.to_string()), now),
        }
    }

    fn ask_after_backoff(&mut self, now: Instant) {
        if self.standing == 0 {
            self.asking = Asking::At(now + self.result_backoff);
            self.result_backoff = (self.result_backoff * 2).min(LONGEST_BACKOFF);
        }
    }

    /// A task that has ended would not hand out its result.
    fn ask_again(&mut self, error: RpcError, now: Instant) {
        if self.standing > 0 {
            // The other question may have taken the only answer there is.
            self.withheld = Some(error);
            return;
        }
        self.result_attempts += 1;
        if self.result_attempts < RESULT_ATTEMPTS {
            self.asking = Asking::At(now + Duration::from_millis(125) * 2u32.pow(self.result_attempts));
        } else if self.session_renewed && is_unknown_task(&error) {
            self.ending = Some(self.lost(error));
        } else if let Phase::Ended { status, .. } = &self.phase {
            self.ending = Some(Ending::NoResult { status: status.clone(), error });
        }
    }

    /// The user wants it cancelled.
    pub(super) fn cancel_asked(&mut self, now: Instant) {
        if self.cancelling == Cancelling::No {
            self.cancelling = Cancelling::Asked(now);
        }
        self.events.push(Event::CancelAsked { id: self.task.id.clone() });
    }

    /// `tasks/cancel` was answered.
    pub(super) fn cancel_replied(&mut self, reply: Result<Option<Task>, SessionError>, now: Instant) {
        match reply {
            Ok(task) => {
                self.cancelling = Cancelling::Accepted(self.cancel_since().unwrap_or(now));
                if let Some(task) = task.filter(|task| task.id == self.task.id && self.is_polled()) {
                    self.see(task, now);
                    if self.task.status.is_terminal() {
                        return self.end(self.task.status.clone(), now);
                    }
                }
            }
            Err(error) if self.ends_with_its_server(&error) => self.cancelled(),
            Err(error) => {
                self.events.push(Event::CancelRefused { id: self.task.id.clone(), reason: error.to_string() });
            }
        }
        self.next_poll = now;
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
        self.input.see(&task.status, now);
        self.task = Task { id: self.task.id.clone(), ..task };
        if changed {
            self.events.push(Event::Changed { task: self.task.clone() });
        }
    }

    /// The task has ended; its outcome may be yet to come.
    fn end(&mut self, status: TaskStatus, now: Instant) {
        if status == TaskStatus::Cancelled {
            return self.cancelled();
        }
        self.phase = Phase::Ended { status, since: now };
        self.first_fault = None;
        match self.asking {
            Asking::AtTheEnd => self.asking = Asking::At(now),
            Asking::At(at) => self.asking = Asking::At(at.min(now)),
            Asking::Asked | Asking::Never => {}
        }
    }

    fn cancelled(&mut self) {
        self.ending = Some(Ending::Cancelled { message: self.task.status_message.clone() });
    }

    fn settle(&mut self, outcome: TaskOutcome) {
        let status = if self.task.status.is_terminal() {
            self.task.status.clone()
        } else if self.cancelling != Cancelling::No && matches!(outcome, TaskOutcome::Error(_)) {
            TaskStatus::Cancelled
        } else {
            match &outcome {
                TaskOutcome::Result(result) if !result.is_error => TaskStatus::Completed,
                _ => TaskStatus::Failed,
            }
        };
        self.settle_as(status, outcome);
    }

    fn settle_as(&mut self, status: TaskStatus, outcome: TaskOutcome) {
        if status == TaskStatus::Cancelled {
            return self.cancelled();
        }
        self.ending =
            Some(Ending::Done { status, outcome, cancel_asked: self.cancelling != Cancelling::No, unanswered: None });
    }

    /// The server does not know the task. One that took its cancellation may have forgotten it at once.
    fn lost(&self, error: RpcError) -> Ending {
        match self.cancelling {
            Cancelling::Accepted(_) => Ending::Cancelled { message: None },
            _ => Ending::Lost { error, ttl: self.task.ttl, with_session: self.session_renewed },
        }
    }
}
