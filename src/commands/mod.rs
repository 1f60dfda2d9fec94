//! What the program does, one file per command. They take plain settings, never clap's, and return how to leave.

use std::sync::{Mutex, PoisonError};

use crate::model::{Task, TaskId, text};
use crate::present::{Printer, Progress};
use crate::transport::Keeper;

pub mod call;
pub mod cancel;
pub mod get;
pub mod interrupt;
pub mod list;
pub mod result;
pub mod server;
pub mod tools;
pub mod trace;
pub mod troubles;
pub mod watch;

mod follow;

pub use follow::WaitOptions;
pub use interrupt::Interrupts;
pub use server::{ConnectionSettings, ServerTarget};

/// What every command works with.
#[derive(Debug)]
pub struct Context {
    /// Writes to stdout and stderr.
    pub printer: Printer,
    /// Knows the child processes.
    pub keeper: Keeper,
    /// Hears Ctrl-C and its kin.
    pub interrupts: Interrupts,
    /// The server as the user named it, and what that means.
    pub server: Option<(String, ServerTarget)>,
    /// How to connect to it.
    pub connection: ConnectionSettings,
    /// How progress is shown.
    pub progress: Progress,
    /// The task that is followed right now.
    pub current_task: Mutex<Option<TaskId>>,
}

impl Context {
    fn now_following(&self, task: &Task) {
        *self.current_task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.id.clone());
    }

    /// The task that is followed right now.
    pub fn followed(&self) -> Option<TaskId> {
        self.current_task.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the server lives and dies with this process, so that nobody can come back to its tasks.
    pub fn server_is_child(&self) -> bool {
        self.server.as_ref().is_some_and(|(_, target)| target.is_child())
    }

    /// A command line that does `what` to a task of this server; escaped.
    pub fn command_for(&self, what: &str, id: &TaskId) -> String {
        let server =
            self.server.as_ref().map_or_else(String::new, |(name, _)| format!("-s {} ", shell_words::quote(name)));
        let command = format!("mcp-task {server}{what} {}", shell_words::quote(id.as_str()));
        // An id with control characters cannot be typed anyhow.
        text::line(&command).into_owned()
    }
}
