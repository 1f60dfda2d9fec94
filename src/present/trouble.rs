//! Something that did not come out well, as people read it and as `--json` has it.

use serde_json::{Value, json};

use super::exit::Exit;
use super::printer::{Output, Printer};
use crate::model::{RawJson, TaskId};

/// What went wrong, to what, and what to do next.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// A word for programs: `usage`, `connection`, `server`, `task_failed`, …
    pub kind: &'static str,
    /// The number to leave with.
    pub exit: Exit,
    /// What happened; escaped.
    pub message: String,
    /// The server's error code.
    pub code: Option<i64>,
    /// Whatever the server added to its error.
    pub data: Option<RawJson>,
    /// The task that it is about.
    pub task: Option<TaskId>,
    /// What to do next.
    pub hint: Option<String>,
}

impl Trouble {
    /// A trouble of its kind; the rest is to be filled in.
    pub fn new(kind: &'static str, exit: Exit, message: impl Into<String>) -> Self {
        Self { kind, exit, message: message.into(), code: None, data: None, task: None, hint: None }
    }

    /// With what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the task that it is about.
    #[must_use]
    pub fn task(mut self, id: &TaskId) -> Self {
        self.task = Some(id.clone());
        self
    }

    /// The same, under the name of the one of several that it is about; the name is escaped.
    #[must_use]
    pub fn called(&self, name: &str) -> Self {
        Self { message: format!("{name}: {}", self.message), ..self.clone() }
    }

    /// As `--json` has it: every key always there.
    pub fn to_json(&self) -> Value {
        json!({"error": {
            "kind": self.kind,
            "code": self.code,
            "message": self.message,
            "data": self.data.as_ref().map(RawJson::value),
            "taskId": self.task.as_ref().map(TaskId::as_str),
            "hint": self.hint,
        }})
    }

    /// Shows it and says how to leave.
    pub fn show(&self, printer: &Printer) -> Exit {
        self.write(printer);
        self.tell(printer);
        self.exit
    }

    /// Writes it to stdout, where that carries JSON.
    pub fn write(&self, printer: &Printer) {
        match printer.output() {
            Output::Text => {}
            Output::Json => printer.json(&self.to_json()),
            Output::Jsonl => {
                let mut line = self.to_json();
                if let Some(object) = line.as_object_mut() {
                    object.shift_insert(0, "event".to_owned(), json!("error"));
                }
                printer.json_line(&line);
            }
        }
    }

    /// Tells a person of it, and leaves stdout alone.
    pub fn tell(&self, printer: &Printer) {
        match self.exit {
            // As it was wished: nothing went wrong.
            Exit::StillRunning | Exit::Cancelled => printer.plain_error(&self.message),
            _ => printer.error(&self.message),
        }
        // What is asked is in the message already.
        if let Some(data) = self.data.as_ref().filter(|_| self.exit != Exit::InputNeeded)
            && printer.output() == Output::Text
        {
            printer.plain_error(&format!("  data: {}", crate::model::text::line(data.text())));
        }
        if let Some(hint) = &self.hint {
            printer.hint(hint);
        }
    }
}
