//! `mcp-task result ID`: a task's result, waited for unless that is not wanted.

use super::follow::WaitOptions;
use super::lookup::Found;
use super::{Context, watch};
use crate::present::{Exit, Progress, Trouble};

/// Runs the command.
///
/// # Errors
/// Where the server does not know the task or cannot be asked. A task that fails is no error.
pub async fn run(context: &Context, found: &Found, wait: bool, options: &WaitOptions) -> anyhow::Result<Exit> {
    if wait {
        return watch::one(context, found, options, context.progress).await;
    }
    if found.outcome().is_some() {
        return watch::one(context, found, options, Progress::None).await;
    }
    let id = &found.id;
    let session = found.connect(context, &found.recorder(context)).await?;
    let task = session.task(id).await?;
    if !task.status.is_terminal() {
        let message = format!("task {id} has not ended: {}", task.status);
        let hint = context.command_for("watch", id);
        session.close(true).await;
        return Ok(Trouble::new("still_running", Exit::StillRunning, message)
            .task(id)
            .hint(hint)
            .show(&context.printer));
    }
    drop(session);
    watch::one(context, found, options, Progress::None).await
}
