//! From what the user typed for a task to the task and its server.

use serde_json::json;

use std::sync::Arc;

use super::held::{Need, ServerGone};
use super::recorder::Recorder;
use super::troubles::UsageError;
use super::{Context, ServerTarget, routes};
use crate::holder::HolderId;
use crate::model::{RawJson, Task, TaskId, TaskOutcome, TaskStatus, Ttl, text};
use crate::record::{Known, RowId};
use crate::session::Session;
use crate::transport::http::SharedSession;

/// The least that a prefix must have.
const PREFIX: usize = 4;

/// A task that a command is about.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its id.
    pub id: TaskId,
    /// What the record has of it.
    pub known: Option<Known>,
    /// The call without an answer that may have started it, where the record does not have it.
    pub lost_call: Option<RowId>,
}

/// No task is meant by what was typed.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// Neither id nor prefix of any.
    #[error("no recorded task has an id that is or begins with `{}`", text::line(.0))]
    Unknown(String),
    /// Nothing is recorded.
    #[error("no task is recorded{0}")]
    Nothing(&'static str),
    /// The task was on a server that is no more.
    #[error("task {id} is lost with its server: {why}")]
    ServerEnded {
        /// Which.
        id: TaskId,
        /// How the server ended; escaped.
        why: String,
    },
}

/// Finds the task, and the way to its server. Where the user names a server, an id that the record does not have is that
/// server's to know.
///
/// # Errors
/// Where no task, or more than one, is meant.
pub fn find(context: &Context, typed: Option<&str>, last: bool) -> anyhow::Result<(Context, Found)> {
    let known = match typed {
        Some(typed) => match context.with_record(|record| record.find(typed)) {
            Ok(rows) => meant(typed, rows.into_iter().filter(|known| context.is_on_typed_server(known)).collect())?,
            Err(error) if context.server.is_some() => {
                context.printer.warn(&format!("known tasks are not looked at: {error}"));
                None
            }
            Err(error) => return Err(error.into()),
        },
        None if last => {
            let server = context.server_name().filter(|_| context.server_was_typed);
            let newest = context.with_record(|record| record.newest(server.as_deref()))?;
            Some(newest.ok_or(LookupError::Nothing(if server.is_some() { " on this server" } else { "" }))?)
        }
        None => return Err(UsageError::hinting("no task is named", "give an id, a prefix of one, or --last").into()),
    };
    let typed = match (known, typed) {
        (Some(known), _) => return recorded(context, known),
        (None, typed) => typed.unwrap_or_default(),
    };
    if let Some(found) = candidate(context, typed)? {
        return Ok(found);
    }
    match context.server {
        Some(_) => Ok((context.clone(), Found { id: TaskId::new(typed), known: None, lost_call: None })),
        None => Err(LookupError::Unknown(typed.to_owned()).into()),
    }
}

/// A task that a call without an answer may have started, and the way to the server of that call.
fn candidate(context: &Context, typed: &str) -> anyhow::Result<Option<(Context, Found)>> {
    let Ok(mut found) = context.with_record(|record| record.find_candidates(typed)) else { return Ok(None) };
    found.retain(|(id, call)| {
        let is_meant = id.as_str() == typed || typed.chars().count() >= PREFIX;
        is_meant && context.is_on_typed_server(call)
    });
    if found.iter().any(|(id, _)| id.as_str() == typed) {
        found.retain(|(id, _)| id.as_str() == typed);
    }
    match found.as_slice() {
        [] => Ok(None),
        [(id, call)] => {
            let found = Found { id: id.clone(), known: None, lost_call: Some(call.row) };
            Ok(Some((context.going_back_to(call)?, found)))
        }
        many => {
            let ids: Vec<String> = many.iter().map(|(id, _)| id.to_string()).collect();
            let message = format!("`{}` is the beginning of several tasks: {}", text::line(typed), ids.join(", "));
            Err(UsageError::hinting(message, "write more of the id").into())
        }
    }
}

/// The recorded tasks that have not ended, the oldest first, and the ways to their servers.
///
/// # Errors
/// Where the record cannot be read.
pub fn unfinished(context: &Context) -> anyhow::Result<Vec<anyhow::Result<(Context, Found)>>> {
    let mut rows = context.with_record(|record| record.all())?;
    rows.retain(|known| known.is_live() && context.is_on_typed_server(known));
    Ok(rows.into_iter().rev().map(|known| recorded(context, known)).collect())
}

/// A recorded task and the way to its server.
fn recorded(context: &Context, known: Known) -> anyhow::Result<(Context, Found)> {
    let id = known.task.clone().unwrap_or_else(|| TaskId::new(""));
    let known = context.with_record(|record| record.whole(known.row))?.unwrap_or(known);
    Ok((context.going_back_to(&known)?, Found { id, known: Some(known), lost_call: None }))
}

/// The one row that is meant: the exact id, else the only one that begins so.
fn meant(typed: &str, mut rows: Vec<Known>) -> anyhow::Result<Option<Known>> {
    let is_exact = |known: &Known| known.task.as_ref().is_some_and(|id| id.as_str() == typed);
    if rows.iter().any(is_exact) {
        rows.retain(is_exact);
    } else if typed.chars().count() < PREFIX {
        return Ok(None);
    }
    // Ids that a server gives out again, after it was restarted, mean the newest.
    let mut seen = std::collections::HashSet::new();
    rows.retain(|known| seen.insert((known.server.name.clone(), known.task.clone())));
    if rows.len() > 1 {
        let shown: Vec<String> = rows.iter().take(12).map(line).collect();
        let message =
            format!("`{}` is the beginning of {} tasks:\n  {}", text::line(typed), rows.len(), shown.join("\n  "));
        return Err(UsageError::hinting(message, "write more of the id, or name the server with -s").into());
    }
    Ok(rows.pop())
}

fn line(known: &Known) -> String {
    let id = known.task.as_ref().map_or_else(String::new, ToString::to_string);
    format!("{id}  {}  on {}", text::line(&known.tool), text::line(&known.server.name))
}

impl Context {
    /// The way to the server of a recorded task, in the session that the task belongs to.
    pub(super) fn going_back_to(&self, known: &Known) -> anyhow::Result<Self> {
        let mut context = Self { holding: Arc::default(), ..self.clone() };
        if !context.server_was_typed || context.server.is_none() {
            context.server = Some((known.server.name.clone(), ServerTarget::parse(&known.server.name)?));
        }
        if context.server.as_ref().is_some_and(|(_, target)| target.is_local()) {
            context.holder = known.session.as_deref().and_then(HolderId::parse);
        } else if known.session.is_some() {
            context.http_session = SharedSession::known(known.session.clone());
            context.old_protocol = Some(known.protocol.clone());
        }
        Ok(context)
    }
}

impl Found {
    /// The task as it was last seen.
    pub(super) fn last_sight(&self) -> Task {
        let known = self.known.as_ref();
        Task {
            id: self.id.clone(),
            status: known.and_then(|known| known.status.clone()).unwrap_or(TaskStatus::Working),
            status_message: known.and_then(|known| known.message.clone()),
            created_at: None,
            last_updated_at: None,
            ttl: known.map_or(Ttl::Unstated, |known| known.ttl),
            poll_interval: None,
            raw: RawJson::empty_object(),
        }
    }

    /// The task's end, where the record has seen it: nothing changes any more.
    pub(super) fn ended(&self) -> Option<Task> {
        let task = self.last_sight();
        let message = task.status_message.clone();
        let raw = json!({"taskId": task.id.as_str(), "status": task.status.as_str(), "statusMessage": message});
        task.status.is_terminal().then(|| Task { raw: RawJson::from_value(&raw), ..task })
    }

    /// What the task came to, where the record has it.
    pub(super) fn outcome(&self) -> Option<&TaskOutcome> {
        self.known.as_ref().and_then(|known| known.outcome.as_ref())
    }

    /// Opens a session with the task's server. Where that is gone, the task is noted as lost with it.
    ///
    /// # Errors
    /// [`LookupError::ServerEnded`] where there is no such server any more, and whatever keeps a living one from being
    /// talked to.
    pub(super) async fn connect(&self, context: &Context, recorder: &Recorder) -> anyhow::Result<Session> {
        let connected = routes::open(context, self.known.is_some(), Need::Look).await;
        connected.map_err(|error| match self.lost_with_server(&error, recorder) {
            Some(lost) => lost.into(),
            None => error,
        })
    }

    /// Whether a connection that failed means that the task is lost with its server. If so, that is noted.
    pub(super) fn lost_with_server(&self, error: &anyhow::Error, recorder: &Recorder) -> Option<LookupError> {
        let ServerGone { why } = error.downcast_ref()?;
        let lost = LookupError::ServerEnded { id: self.id.clone(), why: why.clone() };
        recorder.lost(&lost.to_string());
        Some(lost)
    }

    /// Where the record tells of it, or of the call that may have started it.
    pub(super) fn row(&self) -> Option<RowId> {
        self.known.as_ref().map(|known| known.row).or(self.lost_call)
    }

    /// A writer of the record of this task.
    pub(super) fn recorder(&self, context: &Context) -> Recorder {
        Recorder::of_known(context, self.known.as_ref().map(|known| known.row))
    }

    /// The same for whoever follows the task to its end: one that a call without an answer may have started is taken for its
    /// own from there on.
    pub(super) fn follower(&self, context: &Context) -> Recorder {
        match self.lost_call {
            Some(row) => Recorder::of_lost_call(context, row),
            None => self.recorder(context),
        }
    }
}
