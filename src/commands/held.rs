//! Stdio servers that live on between commands: when a command uses one, and what it tells the process that holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Context, lock};
use crate::holder::{self, Control, Folder, Held, HeldSettings, HoldError, HolderId, Key, Plan};
use crate::model::{TaskId, Ttl, duration, text};
use crate::rpc::Connection;
use crate::session::list_roots;
use crate::transport::stdio::ServerCommand;

/// How long leaving waits for its last words to a holder to be on their way.
const FAREWELL: Duration = Duration::from_millis(200);

/// How stdio servers are kept alive between commands.
#[derive(Clone, Debug, Default)]
pub struct HoldSettings {
    /// How long a server stays without command and task; `None`: it is not held at all.
    pub idle: Option<Duration>,
    /// Tells servers apart that are started alike.
    pub session: Option<String>,
}

/// What a command wants a server for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A look: a held server is used where there is one.
    Look,
    /// A look at a server that lives: none is started for it.
    Living,
    /// Tasks that are to outlive the command: the server is to be held.
    Tasks,
}

/// A held server that this program uses.
#[derive(Clone, Debug)]
pub struct Holding {
    /// Which holder it is.
    pub id: HolderId,
    control: Control,
    /// It was started for this program, which has told it of no task yet.
    is_idle: Arc<AtomicBool>,
}

impl Holding {
    /// The server is needed until the task has ended.
    pub(super) fn lease(&self, id: &TaskId, ttl: Ttl) {
        self.is_idle.store(false, Ordering::Relaxed);
        self.control.lease(id, ttl);
    }

    /// The task has ended, and what it came to is known.
    pub(super) fn release(&self, id: &TaskId) {
        self.control.release(id);
    }
}

/// The held server that a recorded task ran on is gone.
#[derive(Debug, thiserror::Error)]
#[error("its server has ended: {why}")]
pub struct ServerGone {
    /// What is known of its end; escaped.
    pub why: String,
}

/// A connection to the held server, where there is or should be one.
///
/// # Errors
/// [`ServerGone`] where a task's own is no more, [`HoldError`] where it cannot be used.
pub(super) async fn connect(
    context: &Context,
    command: &ServerCommand,
    need: Need,
    settings: HeldSettings,
) -> anyhow::Result<Option<Connection>> {
    let folder = folder(context);
    if let Some(id) = &context.holder {
        let held = holder::attach(&folder, &id.key, settings).await?.filter(|held| held.id == *id);
        let held = held.ok_or_else(|| ServerGone { why: text::line(&folder.fate(id)).into_owned() })?;
        return Ok(Some(context.use_held(held, false)));
    }
    let Some(idle) = context.hold.idle else { return Ok(None) };
    let plan = plan(context, command, idle)?;
    let found = match need {
        Need::Tasks => holder::start(&plan, context.connection.start_limit, settings).await.map(Some),
        Need::Look | Need::Living => {
            holder::attach(&folder, &plan.key, settings).await.map(|held| held.map(|held| (held, false)))
        }
    };
    match found {
        Ok(found) => Ok(found.map(|(held, started)| context.use_held(held, started))),
        Err(error @ HoldError::Refused(_)) if need == Need::Tasks => Err(error.into()),
        // Without a holder the server still serves this one command. One that does not start at all fails again, in words
        // of its own.
        Err(HoldError::Server(_)) => Ok(None),
        Err(error) => {
            context.printer.warn(&format!("the server ends with this command: {error}"));
            Ok(None)
        }
    }
}

/// Where holders are found.
pub(super) fn folder(context: &Context) -> Folder {
    Folder::within(&context.state_dir)
}

fn plan(context: &Context, command: &ServerCommand, idle: Duration) -> anyhow::Result<Plan> {
    let here = std::env::current_dir()?;
    let cwd = command.cwd.as_ref().map_or_else(|| here.clone(), |cwd| here.join(cwd));
    let cwd = cwd.canonicalize().unwrap_or(cwd);
    let words: Vec<String> = std::iter::once(&command.program).chain(&command.arguments).cloned().collect();
    let session = context.hold.session.clone();
    let offers = [(context.sampling.is_some(), "sampling"), (!context.roots.is_empty(), "roots")];
    let offers: Vec<&str> = offers.into_iter().filter(|(offered, _)| *offered).map(|(_, what)| what).collect();
    Ok(Plan {
        folder: std::path::absolute(folder(context).path())?,
        key: Key::of(&words, &command.env, &cwd, session.as_deref(), &offers),
        server: context.server_name().unwrap_or_default(),
        session,
        program: command.program.clone(),
        arguments: command.arguments.clone(),
        env: command.env.clone(),
        cwd,
        max_message: context.connection.max_message,
        idle: duration::millis(idle),
    })
}

impl Context {
    fn use_held(&self, held: Held, started_here: bool) -> Connection {
        let Held { connection, control, id } = held;
        self.printer.verbose(&format!("the server is held for later commands, under the key {}", id.key.as_str()));
        let holding = Holding { id, control, is_idle: Arc::new(AtomicBool::new(started_here)) };
        lock(&self.shared.holdings).push(holding.clone());
        if !self.roots.is_empty() {
            holding.control.roots(&list_roots(&self.roots));
        }
        let _ = self.holding.set(holding);
        connection
    }

    /// Says what is left to say to the holders of servers: one that was started for nothing may go.
    pub async fn say_farewell(&self) {
        let holdings = std::mem::take(&mut *lock(&self.shared.holdings));
        for holding in holdings {
            if holding.is_idle.load(Ordering::Relaxed) {
                holding.control.unneeded();
            }
            let _ = tokio::time::timeout(FAREWELL, holding.control.flush()).await;
        }
    }
}
