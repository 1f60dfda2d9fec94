//! Calls a tool and waits for the first answer: a result, or a task to follow.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::time::Instant;

use super::answering::{Answerer, Attended, Attending, Reply, Unanswered};
use super::event::{Event, Reporter};
use super::follow::{Attendance, Command, Ending, Leaving};
use crate::model::{Task, TaskStatus, ToolResult};
use crate::session::{
    Answer, CallMode, CallReply, CallRequest, Hint, PendingCall, Question, QuestionId, Session, SessionError,
    Subscription,
};

/// How long telling the server of an abandoned call may take, and how long its answer may still come.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long a task may take to come before the questions that came first are answered.
const BEFORE_TASK: Duration = Duration::from_secs(1);

/// How the call itself ended.
#[derive(Debug)]
pub enum CallEnding {
    /// With a result.
    Result(ToolResult),
    /// With a task that works on it.
    Task(Task),
    /// The server was silent for too long; it was told that nobody waits any more.
    Silent(Duration),
    /// Nobody waits any more, and the server was told so.
    Left(Leaving),
    /// The same, but a task was made at the last moment, and this became of it.
    LeftTask(Task, Ending),
    /// With an error. Whether the tool has started may be unknown, see [`may_have_started`].
    Failed(SessionError),
}

/// Whether a call that ended so may have started the tool.
pub fn may_have_started(error: &SessionError) -> bool {
    match error {
        // An answer that cannot be read comes from a server that took the call.
        SessionError::Protocol { .. } => true,
        error => error.connection().is_some_and(|error| !error.was_never_sent() && !error.is_refusal()),
    }
}

/// Calls once. `idle_limit` is how long the server may be silent, progress counting as a sign of life; `deadline` is when
/// to stop waiting in any case.
///
/// A question that nobody answers is dismissed. Where a task is to come, its questions are left to whoever follows that, unless
/// it does not come.
pub async fn call(
    session: &Session,
    request: &CallRequest,
    idle_limit: Option<Duration>,
    deadline: Option<Instant>,
    attendance: Attendance<'_>,
) -> CallEnding {
    let Attendance { subscription, reporter, answerer, commands } = attendance;
    let first = if request.mode == CallMode::Task { BEFORE_TASK } else { Duration::ZERO };
    let dismissing = Dismissing { answerer, first };
    let mut attending = Attending::new(session, &dismissing);
    // What was asked before is not asked for this call.
    let earlier: Vec<QuestionId> = session.open_questions().into_iter().map(|question| question.id).collect();
    let mut set_aside = Vec::new();
    let mut pending = session.call(request, subscription).await;
    reporter.report(&Event::Called { tool: request.tool.clone() });
    let mut heard = Instant::now();
    let mut commands_open = true;
    loop {
        // While we are the one who is waited for, the server may well be silent.
        let idle = idle_limit.filter(|_| !attending.is_busy()).and_then(|limit| heard.checked_add(limit));
        let wake = [idle, deadline].into_iter().flatten().min();
        tokio::select! {
            // First, because a task's creation is told before its progress; what was said before a result is told then.
            biased;
            reply = pending.reply() => return answered(reply, subscription, reporter),
            inquiry = subscription.question() => {
                if earlier.contains(&inquiry.question().id) {
                    set_aside.push(inquiry);
                    continue;
                }
                if request.mode == CallMode::Plain {
                    reporter.report(&Event::Asked { question: inquiry.question().clone() });
                }
                attending.take(inquiry);
            }
            attended = attending.next() => {
                heard = Instant::now();
                match attended {
                    Attended::Answered(question, answer) => {
                        reporter.report(&Event::Answered { question, action: answer.action() });
                    }
                    Attended::Undelivered(question, error) => {
                        reporter.report(&Event::AnswerLost { question, reason: error.to_string() });
                    }
                    Attended::Withdrawn(question)
                    | Attended::Left(Unanswered { question, .. })
                    | Attended::Dismissed(Unanswered { question, .. }) => {
                        reporter.report(&Event::Withdrawn { question });
                    }
                }
            }
            hint = subscription.next() => {
                heard = Instant::now();
                if let Hint::Progress(progress) = hint {
                    reporter.report(&Event::Progress(progress));
                }
            }
            command = commands.recv(), if commands_open => match command {
                Some(command) => {
                    let reply = take_leave(pending, request.mode, "interrupted by the user").await;
                    let Some(CallReply::Task { task, immediate }) = reply else {
                        return CallEnding::Left(Leaving::Asked);
                    };
                    reporter.report(&Event::Created { task: task.clone(), immediate });
                    return match command {
                        Command::Leave => CallEnding::LeftTask(task, Ending::Left(Leaving::Asked)),
                        Command::Cancel => cancel(session, task, reporter).await,
                    };
                }
                None => commands_open = false,
            },
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    let reply = take_leave(pending, request.mode, "the time to wait is over").await;
                    return match reply.map(|reply| answered(Ok(reply), subscription, reporter)) {
                        Some(CallEnding::Task(task)) => CallEnding::LeftTask(task, Ending::Left(Leaving::Deadline)),
                        Some(ending) => ending,
                        None => CallEnding::Left(Leaving::Deadline),
                    };
                }
                let reply = take_leave(pending, request.mode, "no answer and no progress in time").await;
                return reply.map_or_else(
                    || CallEnding::Silent(idle_limit.unwrap_or_default()),
                    |reply| answered(Ok(reply), subscription, reporter),
                );
            }
        }
    }
}

fn answered(
    reply: Result<CallReply, SessionError>,
    subscription: &Subscription,
    reporter: &mut dyn Reporter,
) -> CallEnding {
    match reply {
        Ok(CallReply::Result(result)) => {
            tell_rest(subscription, reporter);
            CallEnding::Result(result)
        }
        Ok(CallReply::Task { task, immediate }) => {
            reporter.report(&Event::Created { task: task.clone(), immediate });
            CallEnding::Task(task)
        }
        Err(error) => CallEnding::Failed(error),
    }
}

/// Dismisses what nobody answers: a plain call cannot wait for somebody who comes later.
struct Dismissing<'a> {
    answerer: &'a dyn Answerer,
    /// How long a question waits first.
    first: Duration,
}

impl Answerer for Dismissing<'_> {
    fn answer<'a>(&'a self, question: &'a Question) -> LocalBoxFuture<'a, Reply> {
        Box::pin(async {
            tokio::time::sleep(self.first).await;
            match self.answerer.answer(question).await {
                Reply::Leave(_) => Reply::Answer(question.dismissal()),
                // Nobody elsewhere knows of it.
                Reply::Wait if self.first.is_zero() => Reply::Answer(question.dismissal()),
                reply => reply,
            }
        })
    }

    fn claims(&self, question: &Question, answer: &Answer) -> bool {
        self.answerer.claims(question, answer)
    }

    fn failed(&self, question: &Question, why: &str) {
        self.answerer.failed(question, why);
    }
}

/// Tells the server that nobody waits any more. An answer that crosses this on the way is taken all the same: it may name
/// a task that runs.
async fn take_leave(mut pending: PendingCall, mode: CallMode, reason: &str) -> Option<CallReply> {
    let end = Instant::now() + FAREWELL;
    let told = tokio::time::timeout_at(end, pending.cancel(reason));
    let _ = told.await;
    if mode == CallMode::Plain {
        return None;
    }
    tokio::time::timeout_at(end, pending.reply()).await.ok()?.ok()
}

/// Cancels a task that was made at the last moment.
async fn cancel(session: &Session, task: Task, reporter: &mut dyn Reporter) -> CallEnding {
    reporter.report(&Event::CancelAsked { id: task.id.clone() });
    let ending = match tokio::time::timeout(FAREWELL, session.cancel(&task.id)).await {
        Ok(Ok(Some(seen))) if seen.status == TaskStatus::Cancelled => {
            Ending::Cancelled { message: seen.status_message }
        }
        _ => Ending::CancelUnconfirmed,
    };
    CallEnding::LeftTask(task, ending)
}

/// Reports the progress that was heard and not told yet.
pub(super) fn tell_rest(subscription: &Subscription, reporter: &mut dyn Reporter) {
    while let Some(hint) = subscription.try_next() {
        if let Hint::Progress(progress) = hint {
            reporter.report(&Event::Progress(progress));
        }
    }
}
