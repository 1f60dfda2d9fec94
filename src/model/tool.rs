//! A tool as a server lists it.

use serde_json::Value;

use super::json::RawJson;

/// Whether a tool may be called as a task: `execution.taskSupport`, absent meaning forbidden.
/// Spec 2025-11-25, basic/utilities/tasks, "Tool-Level Negotiation".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSupport {
    /// Only as a task.
    Required,
    /// Either way.
    Optional,
    /// Never as a task.
    Forbidden,
}

impl TaskSupport {
    /// The wire's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
            Self::Forbidden => "forbidden",
        }
    }
}

/// One entry of `tools/list`.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The name to call it by.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does; not yet escaped.
    pub description: Option<String>,
    /// JSON Schema of its arguments; `{}` where the server gave none.
    pub input_schema: Value,
    /// Whether it may be called as a task.
    pub task_support: TaskSupport,
    /// The object that the server sent.
    pub raw: RawJson,
}
