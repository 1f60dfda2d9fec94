//! From what the user typed for a task to the task and its server.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;

use super::held::{Need, ServerGone};
use super::recorder::Recorder;
use super::troubles::UsageError;
use super::{Context, ServerTarget, credentials, routes};
use crate::holder::HolderId;
use crate::model::{RawJson, Task, TaskId, TaskOutcome, TaskStatus, Ttl, text};
use crate::record::{Known, RecordError, RowId};
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
    let typed = match typed {
        Some(typed) => typed,
        None if last => {
            let server = context.server_name().filter(|_| context.server_was_typed);
            let newest = context.with_record(|record| record.newest(server.as_deref()))?;
            let nothing = LookupError::Nothing(if server.is_some() { " on this server" } else { "" });
            return recorded(context, newest.ok_or(nothing)?);
        }
        None => return Err(UsageError::hinting("no task is named", "give an id, a prefix of one, or --last").into()),
    };
    let matches = match matches(context, typed) {
        Ok(matches) => matches,
        Err(error) if context.server.is_some() => {
            context.printer.warn(&format!("known tasks are not looked at: {error}"));
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    match (meant(typed, matches)?, &context.server) {
        (Some(Match { id, call, is_candidate: true }), _) => {
            Ok((context.going_back_to(&call)?, Found { id, known: None, lost_call: Some(call.row) }))
        }
        (Some(Match { id, call, is_candidate: false }), _) => {
            if context.server_was_typed && id.as_str() != typed {
                context.printer.note(&format!("`{}` is taken for the beginning of {id}", text::line(typed)));
            }
            recorded(context, call)
        }
        (None, Some(_)) => Ok((context.clone(), Found { id: TaskId::new(typed), known: None, lost_call: None })),
        (None, None) => Err(LookupError::Unknown(typed.to_owned()).into()),
    }
}

/// Finds several tasks, each for itself.
pub fn find_all(context: &Context, typed: &[String]) -> Vec<anyhow::Result<(Context, Found)>> {
    let mut all: Vec<_> = typed.iter().map(|typed| find(context, Some(typed), false)).collect();
    credentials::keep_for_one(context, all.iter_mut().flatten().map(|(way, _)| way));
    all
}

/// A task that may be meant.
struct Match {
    id: TaskId,
    /// The call that started it.
    call: Known,
    /// That call has no answer, and may have started it or not.
    is_candidate: bool,
}

/// The tasks whose ids are or begin with what was typed, those that are surely known first.
fn matches(context: &Context, typed: &str) -> Result<Vec<Match>, RecordError> {
    let (known, candidates) =
        context.with_record(|record| Ok((record.find(typed)?, record.find_candidates(typed)?)))?;
    let known = known.into_iter().filter_map(|call| Some(Match { id: call.task.clone()?, call, is_candidate: false }));
    let candidates = candidates.into_iter().map(|(id, call)| Match { id, call, is_candidate: true });
    Ok(known.chain(candidates).filter(|found| context.is_on_typed_server(&found.call)).collect())
}

/// The one that is meant: the exact id, else the only one that begins so.
fn meant(typed: &str, mut matches: Vec<Match>) -> anyhow::Result<Option<Match>> {
    let is_exact = |found: &Match| found.id.as_str() == typed;
    if matches.iter().any(is_exact) {
        matches.retain(is_exact);
    } else if typed.chars().count() < PREFIX {
        return Ok(None);
    }
    // Ids that a server gives out again, after it was restarted, mean the newest.
    let mut seen = HashSet::new();
    matches.retain(|found| seen.insert((found.call.server.name.clone(), found.id.clone())));
    if matches.len() > 1 {
        let shown: Vec<String> = matches.iter().take(12).map(Match::line).collect();
        let message =
            format!("`{}` is the beginning of {} tasks:\n  {}", text::line(typed), matches.len(), shown.join("\n  "));
        return Err(UsageError::hinting(message, "write more of the id, or name the server with -s").into());
    }
    Ok(matches.pop())
}

impl Match {
    fn line(&self) -> String {
        format!("{}  {}  on {}", self.id, text::line(&self.call.tool), text::line(&self.call.server.name))
    }
}

/// The recorded tasks that have not ended, the oldest first, and the ways to their servers. Those whose server ends with the
/// command that started it are that command's alone to watch.
///
/// # Errors
/// Where the record cannot be read.
pub fn unfinished(context: &Context) -> anyhow::Result<Vec<anyhow::Result<(Context, Found)>>> {
    let mut rows = context.with_record(|record| record.all())?;
    rows.retain(|known| known.is_live() && context.is_on_typed_server(known));
    let mut all: Vec<_> = rows.into_iter().rev().map(|known| recorded(context, known)).collect();
    let before = all.len();
    all.retain(|found| !found.as_ref().is_ok_and(|(way, _)| way.server_is_child()));
    let left_out = before - all.len();
    if left_out > 0 {
        let tasks = text::plural(left_out, "task");
        context.printer.note(&format!(
            "besides, {tasks} cannot be watched from here: the server ends with the command that started it (--no-hold)"
        ));
    }
    credentials::keep_for_one(context, all.iter_mut().flatten().map(|(way, _)| way));
    Ok(all)
}

/// A recorded task and the way to its server.
fn recorded(context: &Context, known: Known) -> anyhow::Result<(Context, Found)> {
    let id = known.task.clone().unwrap_or_else(|| TaskId::new(""));
    let known = context.with_record(|record| record.whole(known.row))?.unwrap_or(known);
    Ok((context.going_back_to(&known)?, Found { id, known: Some(known), lost_call: None }))
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
        Ok(context.with_credentials_of(self.server.as_ref()))
    }
}

impl Found {
    /// Whether the record tells of it.
    pub fn is_recorded(&self) -> bool {
        self.known.is_some() || self.lost_call.is_some()
    }

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
