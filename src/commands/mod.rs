//! What the program does, one file per command. They take plain settings, never clap's, and return how to leave.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::model::{TaskId, text};
use crate::present::{Printer, Progress};
use crate::record::{Known, ServerNote};
use crate::rpc::Tap;
use crate::transport::Keeper;
use crate::transport::http::SharedSession;

pub mod call;
pub mod cancel;
pub mod get;
pub mod interrupt;
pub mod list;
pub mod log;
pub mod lookup;
pub mod recorder;
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
    /// Whether it was typed. One from the environment gives way to what the record knows of a task.
    pub server_was_typed: bool,
    /// How to connect to it.
    pub connection: ConnectionSettings,
    /// How progress is shown.
    pub progress: Progress,
    /// Where the record of tasks is.
    pub state_dir: PathBuf,
    /// Whether arguments are recorded, not their hash alone.
    pub record_arguments: bool,
    /// The HTTP session, old or new.
    pub http_session: SharedSession,
    /// The protocol version of the old session, where there is one to go back to.
    pub old_protocol: Option<String>,
    /// The file of `--trace`, once it is open: one for all connections.
    pub tap: OnceLock<Tap>,
    /// The task that is followed right now.
    pub current_task: Mutex<Option<TaskId>>,
}

impl Context {
    fn now_following(&self, id: &TaskId) {
        *self.current_task.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.clone());
    }

    /// The task that is followed right now.
    pub fn followed(&self) -> Option<TaskId> {
        self.current_task.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How to reach the server again, without any secret.
    fn server_note(&self) -> ServerNote {
        let name = self.server_name().unwrap_or_default();
        let cwd = self.connection.cwd.as_ref().map(|cwd| cwd.display().to_string());
        ServerNote { name, cwd }
    }

    /// The server as the user named it, without a password. `None` where none is named.
    pub fn server_name(&self) -> Option<String> {
        self.server.as_ref().map(|(name, _)| without_password(name))
    }

    /// Whether a recorded task is on the server that was typed, if one was.
    fn is_on_typed_server(&self, known: &Known) -> bool {
        !self.server_was_typed || self.server_name().is_none_or(|name| known.server.name == name)
    }

    /// Whether the server lives and dies with this process, so that nobody can come back to its tasks.
    pub fn server_is_child(&self) -> bool {
        self.server.as_ref().is_some_and(|(_, target)| target.is_child())
    }

    /// A command line that does `what` to a task of this server; escaped. The record knows the server.
    pub fn command_for(&self, what: &str, id: &TaskId) -> String {
        let guard = if id.as_str().starts_with('-') { "-- " } else { "" };
        let command = format!("mcp-task {what} {guard}{}", shell_words::quote(id.as_str()));
        // An id with control characters cannot be typed anyhow.
        text::line(&command).into_owned()
    }
}

/// A URL may carry a password, which is nobody's but the user's.
fn without_password(name: &str) -> String {
    match reqwest::Url::parse(name) {
        Ok(mut url) if url.password().is_some() => {
            let _ = url.set_password(None);
            url.into()
        }
        _ => name.to_owned(),
    }
}
