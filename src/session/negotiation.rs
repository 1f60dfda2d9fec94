//! Plain or as a task: the server's word, the tool's word and the user's.
//! Spec 2025-11-25, basic/utilities/tasks, "Tool-Level Negotiation".

use super::profile::TaskCapability;
use crate::model::{TaskSupport, text};

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskWish {
    /// Whatever server and tool allow, a task where they do.
    #[default]
    Auto,
    /// A task, or nothing.
    Task,
    /// A plain call, or nothing.
    Plain,
}

/// How a call goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    /// Plain.
    Plain,
    /// As a task.
    Task,
}

/// Why a call cannot go out as wished. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// The tool must not be called as a task.
    #[error("tool `{}` cannot be called as a task", text::line(.0))]
    TaskForbidden(String),
    /// The tool must be called as a task.
    #[error("tool `{}` can only be called as a task", text::line(.0))]
    TaskRequired(String),
    /// The server takes no tool call as a task.
    #[error("the server does not offer to run `{}` as a task (no `tasks.requests.tools.call` capability)", text::line(.0))]
    NoCapability(String),
    /// The tool must be called as a task, but the server takes none.
    #[error(
        "tool `{}` can only be called as a task, but the server does not offer tasks (no `tasks.requests.tools.call` capability)",
        text::line(.0)
    )]
    RequiredWithoutCapability(String),
}

impl Disagreement {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TaskForbidden(_) | Self::NoCapability(_) => "leave out --task",
            Self::TaskRequired(_) => "leave out --no-task",
            Self::RequiredWithoutCapability(_) => "--no-task sends a plain call all the same",
        }
    }
}

/// Decides. `support` is `None` where the server lists no tools at all, so that nothing is known.
pub(super) fn plan(
    capability: &TaskCapability,
    name: &str,
    support: Option<TaskSupport>,
    wish: TaskWish,
) -> Result<CallMode, Disagreement> {
    let name = || name.to_owned();
    // `tasks: {}` says nothing about requests; real servers that write it do run tasks, so the tool's word decides.
    let silent = capability.declared && !capability.requests;
    let able = capability.calls || silent;
    match (wish, support) {
        (TaskWish::Task, Some(TaskSupport::Forbidden)) => Err(Disagreement::TaskForbidden(name())),
        (TaskWish::Task, _) if able => Ok(CallMode::Task),
        (TaskWish::Task, _) => Err(Disagreement::NoCapability(name())),
        (TaskWish::Plain, Some(TaskSupport::Required)) if able => Err(Disagreement::TaskRequired(name())),
        (TaskWish::Plain, _) => Ok(CallMode::Plain),
        (TaskWish::Auto, Some(TaskSupport::Required)) if able => Ok(CallMode::Task),
        (TaskWish::Auto, Some(TaskSupport::Required)) => Err(Disagreement::RequiredWithoutCapability(name())),
        (TaskWish::Auto, Some(TaskSupport::Optional)) if capability.calls => Ok(CallMode::Task),
        (TaskWish::Auto, _) => Ok(CallMode::Plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        use TaskSupport::{Forbidden, Optional, Required};
        let full = TaskCapability { declared: true, requests: true, calls: true, ..TaskCapability::default() };
        let silent = TaskCapability { declared: true, ..TaskCapability::default() };
        let other = TaskCapability { declared: true, requests: true, ..TaskCapability::default() };
        let none = TaskCapability::default();
        let outcome = |capability, support, wish| match plan(capability, "t", support, wish) {
            Ok(CallMode::Task) => "task",
            Ok(CallMode::Plain) => "plain",
            Err(Disagreement::TaskForbidden(_)) => "forbidden",
            Err(Disagreement::TaskRequired(_)) => "required",
            Err(Disagreement::NoCapability(_)) => "no capability",
            Err(Disagreement::RequiredWithoutCapability(_)) => "required, no capability",
        };
        let rows = [
            (&full, Some(Required), ["task", "task", "required"]),
            (&full, Some(Optional), ["task", "task", "plain"]),
            (&full, Some(Forbidden), ["plain", "forbidden", "plain"]),
            (&full, None, ["plain", "task", "plain"]),
            (&silent, Some(Required), ["task", "task", "required"]),
            (&silent, Some(Optional), ["plain", "task", "plain"]),
            (&silent, Some(Forbidden), ["plain", "forbidden", "plain"]),
            (&other, Some(Required), ["required, no capability", "no capability", "plain"]),
            (&none, Some(Required), ["required, no capability", "no capability", "plain"]),
            (&none, Some(Optional), ["plain", "no capability", "plain"]),
            (&none, Some(Forbidden), ["plain", "forbidden", "plain"]),
            (&none, None, ["plain", "no capability", "plain"]),
        ];
        for (capability, support, expected) in rows {
            let found =
                [TaskWish::Auto, TaskWish::Task, TaskWish::Plain].map(|wish| outcome(capability, support, wish));
            assert_eq!(found, expected, "{capability:?} {support:?}");
        }
    }
}
