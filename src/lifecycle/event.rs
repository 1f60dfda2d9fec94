//! What happens in a task's life, for whoever shows or records it.

use std::time::Duration;

use crate::model::{Task, TaskId};
use crate::session::{Progress, Question};

/// Something that happened. Text of the server is not yet escaped.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call was sent. Plain calls hear nothing further but progress.
    Called {
        /// The tool.
        tool: String,
    },
    /// The server answered with a task, or a known task is followed again.
    Created {
        /// Its first sight.
        task: Task,
        /// Words for a model to go on with.
        immediate: Option<String>,
    },
    /// Status or message changed.
    Changed {
        /// The newest sight.
        task: Task,
    },
    /// Progress was told.
    Progress(Progress),
    /// The server asks something. Not yet escaped.
    Asked {
        /// What.
        question: Question,
    },
    /// A question was answered.
    Answered {
        /// Which.
        question: Question,
        /// How: the wire's word for it.
        action: &'static str,
    },
    /// A question needs no answer any more.
    Withdrawn {
        /// Which.
        question: Question,
    },
    /// An answer could not be delivered.
    AnswerLost {
        /// To which question.
        question: Question,
        /// Why; escaped.
        reason: String,
    },
    /// A poll failed in passing.
    PollFailed {
        /// Which task's.
        id: TaskId,
        /// Why; escaped.
        reason: String,
        /// When it is tried again.
        retry_in: Duration,
        /// When it is given up, if it goes on like this; `None`: never.
        gives_up_in: Option<Duration>,
    },
    /// Cancellation was asked for.
    CancelAsked {
        /// Of which task.
        id: TaskId,
    },
    /// The server did not take the cancellation.
    CancelRefused {
        /// Of which task.
        id: TaskId,
        /// Why; escaped.
        reason: String,
    },
}

/// Takes events as they happen. It is called between two waits, so a slow terminal slows the following of tasks, never
/// the reading of messages.
pub trait Reporter {
    /// Takes one.
    fn report(&mut self, event: &Event);
}

/// Takes none.
impl Reporter for () {
    fn report(&mut self, _event: &Event) {}
}

/// Keeps all, for tests.
impl Reporter for Vec<Event> {
    fn report(&mut self, event: &Event) {
        self.push(event.clone());
    }
}
