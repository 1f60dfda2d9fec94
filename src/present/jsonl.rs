//! Events as JSON, one a line, as they happen.

use serde_json::{Value, json};

use super::printer::Printer;
use crate::lifecycle::{Event, Reporter};
use crate::model::{Task, TaskId, duration};
use crate::session::Question;

/// Writes events to stdout.
#[derive(Debug)]
pub struct Jsonl {
    printer: Printer,
    task: Option<TaskId>,
}

impl Jsonl {
    /// Writes to `printer`'s stdout.
    pub fn new(printer: Printer) -> Self {
        Self { printer, task: None }
    }

    fn task_of<'a>(&'a self, question: &'a Question) -> Option<&'a str> {
        question.task.as_ref().or(self.task.as_ref()).map(TaskId::as_str)
    }
}

impl Reporter for Jsonl {
    fn report(&mut self, event: &Event) {
        if let Event::Created { task, .. } = event {
            self.task = Some(task.id.clone());
        }
        let line = match event {
            Event::Called { tool } => json!({"event": "called", "tool": tool}),
            Event::Created { task, immediate } => {
                json!({"event": "created", "taskId": task.id.as_str(), "task": seen(task), "immediateResponse": immediate})
            }
            Event::Changed { task } => json!({"event": "status", "taskId": task.id.as_str(), "task": seen(task)}),
            // Progress is a hint: a reader who is far behind is better served by what follows.
            Event::Progress(_) if self.printer.stdout_is_behind() => return,
            Event::Progress(progress) => json!({
                "event": "progress",
                "taskId": self.task.as_ref().map(TaskId::as_str),
                // As the server wrote them: no digit changes.
                "progress": progress.raw.get("progress"),
                "total": progress.raw.get("total"),
                "message": progress.message,
            }),
            Event::PollFailed { id, reason, retry_in, gives_up_in } => json!({
                "event": "pollFailed",
                "taskId": id.as_str(),
                "message": reason,
                "retryInMs": duration::millis(*retry_in),
                "givesUpInMs": gives_up_in.map(duration::millis),
            }),
            Event::Asked { question } => json!({
                "event": "asked",
                "taskId": self.task_of(question),
                "question": question.id.to_json(),
                "method": question.method,
                "params": question.params.value(),
            }),
            Event::Answered { question, action } => json!({
                "event": "answered",
                "taskId": self.task_of(question),
                "question": question.id.to_json(),
                "action": action,
            }),
            Event::Withdrawn { question } => json!({
                "event": "questionWithdrawn",
                "taskId": self.task_of(question),
                "question": question.id.to_json(),
            }),
            Event::AnswerLost { question, reason } => json!({
                "event": "answerLost",
                "taskId": self.task_of(question),
                "question": question.id.to_json(),
                "message": reason,
            }),
            Event::CancelAsked { id } => json!({"event": "cancelAsked", "taskId": id.as_str()}),
            Event::CancelRefused { id, reason } => {
                json!({"event": "cancelRefused", "taskId": id.as_str(), "message": reason})
            }
        };
        self.printer.json_line(&line);
    }
}

fn seen(task: &Task) -> Value {
    task.raw.value()
}
