//! `mcp-task watch ID`: attaches to a task, shows its progress and then its result.

use super::follow::{self, WaitOptions, Watch};
use super::{Context, server};
use crate::lifecycle::Event;
use crate::model::TaskId;
use crate::present::{Exit, Progress, reporter};

/// Runs the command.
///
/// # Errors
/// Where the server does not know the task or cannot be asked. A task that fails is no error.
pub async fn run(context: &Context, id: &TaskId, options: &WaitOptions) -> anyhow::Result<Exit> {
    attach(context, id, options, context.progress).await
}

pub(super) async fn attach(
    context: &Context,
    id: &TaskId,
    options: &WaitOptions,
    progress: Progress,
) -> anyhow::Result<Exit> {
    let deadline = options.deadline();
    let session = server::connect(context).await?;
    let commands = context.interrupts.hand_to_follower(options.on_interrupt(context));
    let subscription = session.subscribe();
    subscription.follow(id);
    let task = session.task(id).await?;
    let mut reporter = reporter(&context.printer, progress);
    reporter.report(&Event::Created { task: task.clone(), immediate: None });
    let watch = Watch { subscription, reporter, commands };
    let (exit, lives) = follow::to_the_end(context, &session, task, options, deadline, watch).await?;
    session.close(lives).await;
    Ok(exit)
}
