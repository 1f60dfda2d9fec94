//! What the program does, one file per command. They take plain settings, never clap's, and return how to leave.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::holder::HolderId;
use crate::model::{TaskId, text};
use crate::present::{Printer, Progress};
use crate::record::{Known, Record, RecordError, ServerNote};
use crate::rpc::Tap;
use crate::session::{Abilities, Root};
use crate::transport::Keeper;
use crate::transport::http::SharedSession;

pub mod answer;
pub mod answering;
pub mod call;
pub mod cancel;
pub mod get;
pub mod held;
pub mod interrupt;
pub mod list;
pub mod log;
pub mod lookup;
pub mod recorder;
pub mod result;
pub mod server;
pub mod sessions;
pub mod tools;
pub mod trace;
pub mod troubles;
pub mod watch;

mod attach;
mod candidates;
mod credentials;
mod follow;
mod routes;

pub use answering::SamplingOptions;
pub use follow::WaitOptions;
pub use held::{HoldSettings, Holding};
pub use interrupt::Interrupts;
pub use server::{ConnectionSettings, ServerTarget};

/// What every command works with. A copy is cheap, and may lead to another server than the original.
#[derive(Clone, Debug)]
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
    /// How stdio servers are kept alive between commands.
    pub hold: HoldSettings,
    /// Who speaks for a language model, where the server may ask for that.
    pub sampling: Option<SamplingOptions>,
    /// The folders that the server is told of.
    pub roots: Vec<Root>,
    /// The HTTP session, old or new.
    pub http_session: SharedSession,
    /// The protocol version of the old session, where there is one to go back to.
    pub old_protocol: Option<String>,
    /// The holder of the server that a recorded task runs on.
    pub holder: Option<HolderId>,
    /// The held server, once there is a connection to it.
    pub holding: Arc<OnceLock<Holding>>,
    /// What all copies have in common.
    pub shared: Arc<Shared>,
}

/// What all copies of a [`Context`] have in common.
#[derive(Debug, Default)]
pub struct Shared {
    /// The file of `--trace`, once it is open: one for all connections.
    tap: OnceLock<Tap>,
    /// The tasks that are followed right now.
    followed: Mutex<Vec<Followed>>,
    /// Every held server that was used.
    holdings: Mutex<Vec<Holding>>,
    /// The record of tasks, once it is open: most calls are plain and need none.
    record: Mutex<Option<Record>>,
}

/// A task that is followed right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Which.
    pub id: TaskId,
    /// Its server is a process of ours, so that it ends with us.
    pub ends_with_us: bool,
}

impl Context {
    /// Works with the record of tasks, which is opened when it is first needed.
    ///
    /// # Errors
    /// Where it cannot be opened, and whatever `work` comes to.
    fn with_record<T>(&self, work: impl FnOnce(&mut Record) -> Result<T, RecordError>) -> Result<T, RecordError> {
        let mut shared = lock(&self.shared.record);
        match &mut *shared {
            Some(record) => work(record),
            None => work(shared.insert(Record::open(&self.state_dir)?)),
        }
    }

    fn now_following(&self, id: &TaskId) {
        let followed = Followed { id: id.clone(), ends_with_us: self.server_is_child() };
        let mut all = lock(&self.shared.followed);
        all.retain(|one| one.id != *id);
        all.push(followed);
    }

    fn no_longer_following(&self, id: &TaskId) {
        lock(&self.shared.followed).retain(|one| one.id != *id);
    }

    /// The tasks that are followed right now.
    pub fn followed(&self) -> Vec<Followed> {
        lock(&self.shared.followed).clone()
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
        let is_held = self.holder.is_some() || self.holding.get().is_some();
        !is_held && self.server.as_ref().is_some_and(|(_, target)| target.is_local())
    }

    /// What the server may ask for.
    fn abilities(&self) -> Abilities {
        Abilities { sampling: self.sampling.is_some(), roots: self.roots.clone() }
    }

    /// The session that tasks belong to, as the record keeps it: the HTTP session, or the holder of the server.
    fn session(&self) -> Option<String> {
        self.http_session.id().or_else(|| self.holding.get().map(|holding| holding.id.to_string()))
    }

    /// The session of a recorded task, as the record keeps it.
    fn session_gone_back_to(&self) -> Option<String> {
        self.http_session.id().or_else(|| self.holder.as_ref().map(ToString::to_string))
    }

    /// A command line that does `what` to a task of this server; escaped. The record knows the server.
    pub fn command_for(&self, what: &str, id: &TaskId) -> String {
        let guard = if id.as_str().starts_with('-') { "-- " } else { "" };
        let command = format!("mcp-task {what} {guard}{}", shell_words::quote(id.as_str()));
        // An id with control characters cannot be typed anyhow.
        text::line(&command).into_owned()
    }
}

/// Every change is one assignment, so a panic elsewhere leaves the value whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
