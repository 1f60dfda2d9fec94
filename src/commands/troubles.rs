//! The one place that gives everything that goes wrong its kind, its exit number and its hint.

use super::held::ServerGone;
use super::lookup::LookupError;
use super::server::TargetError;
use super::{Context, answering, tools::UnknownTool};
use crate::arguments::ArgumentError;
use crate::holder::HoldError;
use crate::lifecycle::{Ending, Leaving};
use crate::model::{RpcError, Task, TaskId, TaskOutcome, TaskStatus, Ttl, duration, text};
use crate::present::{Exit, Trouble};
use crate::rpc::ConnectionError;
use crate::session::{Disagreement, SessionError, is_unknown_task};

/// Something wrong with what the user asked for. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct UsageError {
    /// What.
    pub message: String,
    /// What to do instead.
    pub hint: Option<String>,
}

impl UsageError {
    /// Without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// With what to do instead.
    pub fn hinting(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()) }
    }
}

/// A tool call whose answer got lost.
#[derive(Debug, thiserror::Error)]
#[error("the call's answer was lost, so `{tool}` may have started: {source}")]
pub struct LostCall {
    /// The tool; escaped.
    pub tool: String,
    /// How.
    pub source: SessionError,
    /// Tasks that the server lists and no other call accounts for, the newest first.
    pub candidates: Vec<Task>,
}

/// A server that does not show a task.
#[derive(Debug, thiserror::Error)]
#[error("{}task {id}: {source}", if *renewed { "lost with its session: " } else { "" })]
pub struct TaskRefused {
    /// Which.
    pub id: TaskId,
    /// The session that the task belonged to was lost, and it was looked for in a new one.
    pub renewed: bool,
    /// What the server said.
    pub source: SessionError,
}

/// A plain call during which the server stayed silent.
#[derive(Debug, thiserror::Error)]
#[error("no answer and no progress from `{tool}` within {}", duration::human(*limit))]
pub struct SilentCall {
    /// The tool; escaped.
    pub tool: String,
    /// The time that it had.
    pub limit: std::time::Duration,
}

/// What an error means for the user.
pub fn of_error(context: &Context, error: &anyhow::Error) -> Trouble {
    let message = chain(error);
    let found = error.chain().find_map(|cause| {
        let trouble = if let Some(error) = cause.downcast_ref::<LostCall>() {
            of_lost_call(context, error)
        } else if let Some(error) = cause.downcast_ref::<SilentCall>() {
            let _ = error;
            Trouble::new("timeout", Exit::Connection, "")
                .hint("the server was told that nobody waits any more; --idle-timeout allows more time")
        } else if let Some(error) = cause.downcast_ref::<TaskRefused>() {
            of_session(&error.source).task(&error.id)
        } else if let Some(error) = cause.downcast_ref::<LookupError>() {
            of_lookup(error)
        } else if let Some(error) = cause.downcast_ref::<HoldError>() {
            of_holder(error)
        } else if cause.downcast_ref::<ServerGone>().is_some() {
            Trouble::new("connection", Exit::Connection, "")
        } else if let Some(error) = cause.downcast_ref::<SessionError>() {
            of_session(error)
        } else if let Some(error) = cause.downcast_ref::<UsageError>() {
            let mut trouble = Trouble::new("usage", Exit::Usage, "");
            trouble.hint.clone_from(&error.hint);
            trouble
        } else if let Some(error) = cause.downcast_ref::<Disagreement>() {
            Trouble::new("usage", Exit::Usage, "").hint(error.hint())
        } else if let Some(error) = cause.downcast_ref::<UnknownTool>() {
            Trouble::new("usage", Exit::Usage, "").hint(error.hint(context))
        } else if cause.downcast_ref::<ArgumentError>().is_some() {
            Trouble::new("usage", Exit::Usage, "")
        } else if let Some(error) = cause.downcast_ref::<TargetError>() {
            let hint = match error {
                TargetError::Missing => "name one with -s: `demo`, a URL or a command line; or set MCP_TASK_SERVER",
                _ => "-s takes `demo`, a URL or a command line",
            };
            Trouble::new("usage", Exit::Usage, "").hint(hint)
        } else {
            return None;
        };
        Some(trouble)
    });
    let mut trouble = found.unwrap_or_else(|| Trouble::new("unexpected", Exit::Unexpected, ""));
    trouble.message = message;
    trouble
}

/// An error and its causes; a cause that repeats the words of the error above it is left out.
fn chain(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain() {
        let words = cause.to_string();
        if told.is_empty() {
            told = words;
        } else if !told.contains(&words) {
            told.push_str(": ");
            told.push_str(&words);
        }
    }
    told
}

fn of_lost_call(context: &Context, lost: &LostCall) -> Trouble {
    let mut trouble = of_session(&lost.source);
    let look = match lost.candidates.as_slice() {
        [] => "look on the server whether it did before you call again; the call is not repeated by itself".to_owned(),
        candidates => {
            let listed: Vec<String> = candidates.iter().map(|task| format!("{} ({})", task.id, task.status)).collect();
            let watch = context.command_for("watch", &candidates[0].id);
            format!("the server lists {}; `{watch}` follows the newest", listed.join(", "))
        }
    };
    trouble.hint = Some(trouble.hint.map_or_else(|| look.clone(), |hint| format!("{look}; {hint}")));
    trouble
}

fn of_lookup(error: &LookupError) -> Trouble {
    let trouble = Trouble::new("task_unknown", Exit::TaskUnknown, "");
    match error {
        LookupError::Unknown(_) => {
            trouble.hint("`mcp-task list` shows the known tasks; -s names the server of another")
        }
        LookupError::Nothing(_) => trouble.hint("`mcp-task call` starts one"),
        LookupError::ServerEnded { id, .. } => trouble.task(id),
    }
}

fn of_holder(error: &HoldError) -> Trouble {
    let trouble = Trouble::new("connection", Exit::Connection, "");
    match error {
        HoldError::Refused(_) => trouble.hint(
            "`mcp-task sessions stop` ends it, and its tasks; --no-hold starts the server for this command alone",
        ),
        HoldError::Start(_) | HoldError::Server(_) => {
            trouble.hint("--no-hold starts the server for this command alone")
        }
    }
}

/// What an error of a conversation means.
fn of_session(error: &SessionError) -> Trouble {
    let trouble = |kind, exit| Trouble::new(kind, exit, error.to_string());
    match error {
        SessionError::Rpc { method, error: rpc } => {
            let about_task = method.starts_with("tasks/") && *method != "tasks/list";
            let mut trouble = if about_task && is_unknown_task(rpc) {
                trouble("task_unknown", Exit::TaskUnknown)
            } else {
                trouble("server", Exit::Server)
            };
            trouble.code = Some(rpc.code);
            trouble.data.clone_from(&rpc.data);
            if trouble.exit == Exit::TaskUnknown {
                trouble = trouble.hint("`mcp-task list` shows the known tasks");
            }
            trouble
        }
        SessionError::TimedOut { method, .. } => {
            let flag = if *method == "initialize" { "--start-timeout" } else { "--request-timeout" };
            trouble("timeout", Exit::Connection).hint(format!("{flag} allows more time"))
        }
        SessionError::Protocol { .. } => trouble("protocol", Exit::Server),
        SessionError::NoCommonVersion { .. } => trouble("protocol", Exit::Server),
        SessionError::Connection(connection) => of_connection(connection, trouble("connection", Exit::Connection)),
    }
}

fn of_connection(error: &ConnectionError, trouble: Trouble) -> Trouble {
    let with = |kind, exit| Trouble { kind, exit, ..trouble.clone() };
    match error {
        ConnectionError::Unauthorized { status: 401, .. } => {
            with("authorization", Exit::Unauthorized).hint("--bearer TOKEN or MCP_TASK_BEARER gives a token")
        }
        ConnectionError::Unauthorized { .. } => with("authorization", Exit::Unauthorized)
            .hint("the server knows you but does not let you do this; check the token's rights"),
        ConnectionError::NotAnAnswer { .. } => with("protocol", Exit::Server),
        ConnectionError::MessageTooLarge { .. } => trouble.hint("--max-message allows more"),
        ConnectionError::Configuration(_) => with("usage", Exit::Usage),
        ConnectionError::Status { status: 404 | 405, .. } => {
            trouble.hint("check the path of the URL; many servers answer at /mcp")
        }
        ConnectionError::Spawn { program, .. } if looks_like_address(program) => {
            trouble.hint(format!("did you mean -s http://{}?", text::line(program)))
        }
        ConnectionError::Spawn { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            trouble.hint("check the spelling of the program, or give its path")
        }
        ConnectionError::Connect { url, reason }
            if url.starts_with("https:") && reason.contains("InvalidContentType") =>
        {
            trouble.hint("the server does not seem to speak TLS; try http://")
        }
        ConnectionError::Connect { .. } => trouble.hint("check that the server runs and that the address is right"),
        ConnectionError::Redirect { location, .. } => {
            trouble.hint(format!("if you trust it, use -s {}", text::line(location)))
        }
        ConnectionError::SessionGone { .. } => trouble.hint("the server was restarted or has forgotten us; try again"),
        _ => trouble,
    }
}

/// `localhost:3000/mcp` and the like: a URL that lacks its scheme.
fn looks_like_address(program: &str) -> bool {
    let (host, path) = program.split_once('/').unwrap_or((program, ""));
    let port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    port || (path.starts_with("mcp") && host.contains('.') && !host.starts_with('.')) || host == "localhost"
}

/// What the end of a task means, where it did not bring a result.
pub fn of_ending(context: &Context, ending: &Ending, task: &Task) -> Trouble {
    let id = &task.id;
    let new = |kind, exit, message: String| Trouble::new(kind, exit, message).task(id);
    match ending {
        Ending::Done { outcome: TaskOutcome::Error(error), .. } => {
            with_error(new("task_failed", Exit::TaskFailed, format!("the task failed: {error}")), error)
        }
        Ending::NoResult { status: TaskStatus::Failed, .. } | Ending::Done { .. } => {
            let words =
                task.status_message.as_deref().map_or_else(String::new, |words| format!(": {}", text::line(words)));
            new("task_failed", Exit::TaskFailed, format!("the task failed{words}; the server keeps nothing about it"))
        }
        Ending::NoResult { error, .. } => {
            let error_trouble =
                new("server", Exit::Server, format!("the task is completed, but its result is not to be had: {error}"));
            with_error(error_trouble, error)
        }
        Ending::Cancelled { message } => {
            let words = message.as_deref().map_or_else(String::new, |words| format!(": {}", text::line(words)));
            new("cancelled", Exit::Cancelled, format!("task {id} was cancelled{words}"))
        }
        Ending::CancelUnconfirmed if context.server_is_child() => {
            let message =
                format!("task {id} did not end when asked to; its server ends with this program, and the task with it");
            new("cancelled", Exit::Cancelled, message)
        }
        Ending::CancelUnconfirmed => {
            new("still_running", Exit::StillRunning, format!("task {id} was asked to stop and has not done so yet"))
                .hint(context.command_for("watch", id))
        }
        Ending::Lost { error, ttl, with_session } => {
            let message = match (ttl, with_session) {
                (_, true) => format!("task {id} was lost with its session: {error}"),
                (Ttl::Limited(ttl), false) => {
                    format!(
                        "the server no longer knows task {id}: it has expired (ttl {}) or was removed: {error}",
                        duration::human(*ttl)
                    )
                }
                (_, false) => format!("the server no longer knows task {id}: {error}"),
            };
            let trouble = with_error(new("task_unknown", Exit::TaskUnknown, message), error);
            match ttl {
                Ttl::Limited(_) if !with_session => trouble.hint("--ttl asks the server to keep a task for longer"),
                _ => trouble,
            }
        }
        Ending::InputRequired(Some(unanswered)) => answering::trouble(context, unanswered, id),
        Ending::InputRequired(None) => {
            let words =
                task.status_message.as_deref().map_or_else(String::new, |words| format!(": {}", text::line(words)));
            let message =
                format!("task {id} waits for an answer, but its question does not come to this command{words}");
            new("input_required", Exit::InputNeeded, message).hint(context.command_for("answer", id))
        }
        Ending::Left(leaving) => {
            let why = why_left(*leaving);
            if task.status == TaskStatus::InputRequired && !context.server_is_child() {
                let message = format!("{why}; task {id} waits for an answer");
                return new("still_running", Exit::StillRunning, message).hint(context.command_for("answer", id));
            }
            let trouble = new("still_running", Exit::StillRunning, format!("{why}; task {id} goes on"));
            if context.server_is_child() {
                let message = format!("{why}; task {id} ends with its server, which this program started");
                Trouble { message, ..trouble }
            } else {
                trouble.hint(context.command_for("watch", id))
            }
        }
        Ending::Broken(error) => {
            let trouble = of_session(error).task(id);
            let message = format!("lost sight of task {id}: {error}");
            if context.server_is_child() || error.is_servers_end() {
                return Trouble { message, ..trouble };
            }
            let hint = format!("the task may go on: {}", context.command_for("watch", id));
            Trouble { message, hint: Some(hint), ..trouble }
        }
    }
}

/// Why a task is no longer followed.
pub(super) fn why_left(leaving: Leaving) -> &'static str {
    match leaving {
        Leaving::Asked => "stopped watching",
        Leaving::Deadline => "the time to wait is over",
    }
}

fn with_error(mut trouble: Trouble, error: &RpcError) -> Trouble {
    trouble.code = (error.code != 0).then_some(error.code);
    trouble.data.clone_from(&error.data);
    trouble
}
