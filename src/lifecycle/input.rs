//! How long a task may ask for input without a question that comes to us.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::TaskStatus;

/// How it stands.
#[derive(Debug)]
pub(super) struct Input {
    patience: Option<Duration>,
    /// Since when the task asks.
    since: Option<Instant>,
    /// A question is being attended to.
    attending: bool,
}

impl Input {
    /// `patience` is how long; `None`: for ever.
    pub(super) fn new(patience: Option<Duration>) -> Self {
        Self { patience, since: None, attending: false }
    }

    /// The task was seen in this status.
    pub(super) fn see(&mut self, status: &TaskStatus, now: Instant) {
        match status {
            TaskStatus::InputRequired => _ = self.since.get_or_insert(now),
            _ => self.since = None,
        }
    }

    /// Whether a question is being attended to. Where the last one was just dealt with, which is told, the server has a while
    /// to take notice.
    pub(super) fn attending(&mut self, attending: bool, now: Instant) -> bool {
        let is_over = self.attending && !attending && self.since.is_some();
        if is_over {
            self.since = Some(now);
        }
        self.attending = attending;
        is_over
    }

    /// Whether the task has asked for so long that its question will not come to us.
    pub(super) fn is_in_vain(&self, now: Instant) -> bool {
        let end = self.since.zip(self.patience).and_then(|(since, patience)| since.checked_add(patience));
        !self.attending && end.is_some_and(|end| now >= end)
    }
}
