//! A task as every protocol era means it.

use std::fmt;
use std::time::Duration;

use super::content::ToolResult;
use super::json::RawJson;
use super::rpc_error::RpcError;

/// A task's id: opaque text chosen by the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(String);

impl TaskId {
    /// Wraps what the server sent.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id exactly as the server wrote it, for the wire and for data output.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// For people: the id with control characters escaped.
impl fmt::Display for TaskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&super::text::line(&self.0))
    }
}

/// Where a task stands. Spec 2025-11-25, basic/utilities/tasks, "Task Status Lifecycle".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Being worked on.
    Working,
    /// The server waits for an answer from us.
    InputRequired,
    /// Done; there is a result.
    Completed,
    /// Ended with a JSON-RPC error or, in the 2025-11-25 era, with a result that says `isError`.
    Failed,
    /// Ended by a cancellation.
    Cancelled,
    /// A word that no known specification has; treated as not yet ended.
    Unknown(String),
}

impl TaskStatus {
    /// Reads the wire's word.
    pub fn from_wire(word: &str) -> Self {
        match word {
            "working" => Self::Working,
            "input_required" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            other => Self::Unknown(other.to_owned()),
        }
    }

    /// The wire's word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unknown(word) => word,
        }
    }

    /// Whether a task never leaves this status.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// For people: `input required`; an unknown word is escaped.
impl fmt::Display for TaskStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InputRequired => formatter.write_str("input required"),
            other => formatter.write_str(&super::text::line(other.as_str())),
        }
    }
}

/// How long the server keeps a task, counted from its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// The server did not say.
    Unstated,
    /// `null`: no limit.
    Unlimited,
    /// This long.
    Limited(Duration),
}

impl Ttl {
    /// The limit, if there is one.
    pub fn limit(self) -> Option<Duration> {
        match self {
            Self::Limited(limit) => Some(limit),
            Self::Unstated | Self::Unlimited => None,
        }
    }
}

/// One sight of a task.
#[derive(Clone, Debug)]
pub struct Task {
    /// The server's id for it.
    pub id: TaskId,
    /// Where it stands.
    pub status: TaskStatus,
    /// The server's words about it; not yet escaped.
    pub status_message: Option<String>,
    /// ISO 8601 by the server's clock, as written. Never to be compared with ours.
    pub created_at: Option<String>,
    /// ISO 8601 by the server's clock, as written.
    pub last_updated_at: Option<String>,
    /// How long the server keeps it.
    pub ttl: Ttl,
    /// The pause in milliseconds that the server asks for between polls: any number at all, see
    /// [`Pace`](crate::lifecycle::Pace) for how it is taken.
    pub poll_interval: Option<f64>,
    /// The object that the server sent.
    pub raw: RawJson,
}

/// What the request behind a task came to.
#[derive(Clone, Debug)]
pub enum TaskOutcome {
    /// The tool's result, which may say `isError`.
    Result(ToolResult),
    /// The JSON-RPC error that the request ended with.
    Error(RpcError),
    /// Nothing: a cancelled task has no outcome, and some servers lose that of a failed one.
    Nothing,
}
