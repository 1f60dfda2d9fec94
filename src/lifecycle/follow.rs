//! Follows one task to its end: the asking and waiting around `course`.

use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::answering::{Answerer, Attended, Attending, Unanswered};
use super::call::tell_rest;
use super::course::Course;
use super::event::{Event, Reporter};
use super::limits::{INPUT_PATIENCE, PATIENCE};
use crate::model::{RpcError, Task, TaskOutcome, TaskStatus, Ttl};
use crate::session::{Answer, Session, SessionError, Subscription};

/// How to follow.
#[derive(Clone, Copy, Debug)]
pub struct FollowOptions {
    /// The least pause between polls that the user wants; a server's longer wish counts.
    pub least_pause: Option<Duration>,
    /// When to stop waiting.
    pub deadline: Option<Instant>,
    /// How long the server may be out of reach before its task is left to itself; `None`: for ever.
    pub patience: Option<Duration>,
    /// How long the task may ask for input without a question that comes to us; `None`: for ever.
    pub input_patience: Option<Duration>,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self { least_pause: None, deadline: None, patience: Some(PATIENCE), input_patience: Some(INPUT_PATIENCE) }
    }
}

/// What the user may want meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Stop watching and leave the task running.
    Leave,
    /// Ask for cancellation and wait for what becomes of it.
    Cancel,
}

/// Why a task was left running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The user said so.
    Asked,
    /// The deadline has come.
    Deadline,
}

/// How following a task ended.
#[derive(Debug)]
pub enum Ending {
    /// The task has ended with an outcome.
    Done {
        /// `Completed` or `Failed`.
        status: TaskStatus,
        /// With what.
        outcome: TaskOutcome,
        /// Cancellation was asked for, but the task was faster.
        cancel_asked: bool,
        /// A question that was dismissed, because nobody was there to answer.
        unanswered: Option<Box<Unanswered>>,
    },
    /// The task has ended, but its result is not to be had.
    NoResult {
        /// `Completed` or `Failed`.
        status: TaskStatus,
        /// What the server said instead.
        error: RpcError,
    },
    /// The task was cancelled.
    Cancelled {
        /// The server's last words; not yet escaped.
        message: Option<String>,
    },
    /// Cancellation was asked for and the task has neither ended nor confirmed it in time.
    CancelUnconfirmed,
    /// The server does not know the task any more.
    Lost {
        /// What it said.
        error: RpcError,
        /// How long it had promised to keep it.
        ttl: Ttl,
        /// The session that the task belonged to is gone.
        with_session: bool,
    },
    /// The task waits for an answer that nobody here gives: to this question, where the server has put it to us.
    InputRequired(Option<Box<Unanswered>>),
    /// The task goes on without us.
    Left(Leaving),
    /// The server cannot be asked any more; the task may go on.
    Broken(SessionError),
}

/// A question that was put to the server, if one was.
type Asked<'a, T> = Option<Pin<Box<dyn Future<Output = Result<T, SessionError>> + 'a>>>;

/// Who has a part in waiting for a call or its task.
pub struct Attendance<'a> {
    /// Hears what the server says unasked.
    pub subscription: &'a Subscription,
    /// Is told what happens.
    pub reporter: &'a mut dyn Reporter,
    /// Answers what the server asks.
    pub answerer: &'a dyn Answerer,
    /// Brings what the user wants meanwhile. It may be closed: that asks for nothing.
    pub commands: &'a mut mpsc::UnboundedReceiver<Command>,
}

/// Follows `task` to its end.
pub async fn follow(
    session: &Session,
    task: Task,
    options: &FollowOptions,
    attendance: Attendance<'_>,
) -> (Ending, Task) {
    let Attendance { subscription, reporter, answerer, commands } = attendance;
    let id = task.id.clone();
    subscription.follow(&id);
    let mut results = FuturesUnordered::new();
    let mut poll: Asked<'_, Task> = None;
    let mut cancel: Asked<'_, Option<Task>> = None;
    let mut commands_open = true;
    let mut attending = Attending::new(session, answerer);
    let mut dismissed = None;
    let renewals = session.renewals();
    let mut course = Course::new(task, options, session.holds_results(), Instant::now());
    loop {
        for event in course.take_events() {
            reporter.report(&event);
        }
        if let Some(mut ending) = course.take_ending() {
            if let Ending::Done { unanswered, .. } = &mut ending {
                *unanswered = dismissed;
            }
            tell_rest(subscription, reporter);
            return (ending, course.task().clone());
        }
        let now = Instant::now();
        if course.result_is_due(now) {
            let id = &id;
            results.push(async move { (now, session.result(id).await) });
            course.result_asked(now);
        }
        if poll.is_none() && course.poll_is_due(now) {
            poll = Some(Box::pin(session.task(&id)));
            course.poll_asked(now);
        }
        let wake = [course.wake_at(poll.is_some()), options.deadline].into_iter().flatten().min();
        tokio::select! {
            // Answers first, so that a flood of notifications cannot hold them back.
            biased;
            Some((asked, result)) = results.next(), if !results.is_empty() => {
                course.session_renewed(session.renewals() != renewals);
                course.result(asked, result, Instant::now());
                if course.is_confirming() {
                    poll = None;
                }
            }
            reply = wait(&mut poll) => {
                poll = None;
                course.session_renewed(session.renewals() != renewals);
                course.polled(reply, Instant::now());
            }
            reply = wait(&mut cancel) => {
                cancel = None;
                course.cancel_replied(reply, Instant::now());
            }
            inquiry = subscription.question() => {
                reporter.report(&Event::Asked { question: inquiry.question().clone() });
                attending.take(inquiry);
                course.attending(attending.is_busy(), Instant::now());
            }
            attended = attending.next() => {
                course.attending(attending.is_busy(), Instant::now());
                match attended {
                    Attended::Answered(question, answer) => {
                        reporter.report(&Event::Answered { question, action: answer.action() });
                    }
                    Attended::Dismissed(unanswered) => {
                        let action = Answer::Cancel.action();
                        reporter.report(&Event::Answered { question: unanswered.question.clone(), action });
                        dismissed = Some(Box::new(unanswered));
                    }
                    Attended::Withdrawn(question) => reporter.report(&Event::Withdrawn { question }),
                    Attended::Undelivered(question, error) => {
                        let reason = error.to_string();
                        reporter.report(&Event::AnswerLost { question: question.clone(), reason });
                        // The reason has just been told.
                        let unanswered = Unanswered { question, why: None };
                        return (Ending::InputRequired(Some(Box::new(unanswered))), course.task().clone());
                    }
                    Attended::Left(unanswered) => {
                        return (Ending::InputRequired(Some(Box::new(unanswered))), course.task().clone());
                    }
                }
            }
            hint = subscription.next() => course.hinted(hint, poll.is_some(), Instant::now()),
            command = commands.recv(), if commands_open => match command {
                Some(Command::Leave) => return (Ending::Left(Leaving::Asked), course.task().clone()),
                Some(Command::Cancel) if cancel.is_none() => {
                    course.cancel_asked(Instant::now());
                    cancel = Some(Box::pin(session.cancel(&id)));
                }
                Some(Command::Cancel) => {}
                None => commands_open = false,
            },
            () = sleep_until(wake) => {
                let now = Instant::now();
                if options.deadline.is_some_and(|deadline| now >= deadline) {
                    return (Ending::Left(Leaving::Deadline), course.task().clone());
                }
                course.tick(now);
            }
        }
    }
}

async fn wait<T>(future: &mut Asked<'_, T>) -> Result<T, SessionError> {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
