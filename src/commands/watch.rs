//! `mcp-task watch ID`: attaches to a task, shows its progress and then its result.

use super::follow::{self, WaitOptions, Watch};
use super::lookup::Found;
use super::recorder::Recorded;
use super::{Context, troubles};
use crate::lifecycle::{Ending, Event, Leaving};
use crate::model::{TaskOutcome, TaskStatus};
use crate::present::{Exit, Progress, Stage};

/// Runs the command.
///
/// # Errors
/// Where the server does not know the task or cannot be asked. A task that fails is no error.
pub async fn run(context: &Context, found: &Found, options: &WaitOptions) -> anyhow::Result<Exit> {
    attach(context, found, options, context.progress).await
}

pub(super) async fn attach(
    context: &Context,
    found: &Found,
    options: &WaitOptions,
    progress: Progress,
) -> anyhow::Result<Exit> {
    if let Some(exit) = recorded(context, found, options)? {
        return Ok(exit);
    }
    let recorder = found.recorder(context);
    let id = &found.id;
    let deadline = options.deadline();
    context.now_following(id);
    let mut commands = context.interrupts.hand_to_follower(options.on_interrupt(context));
    let first_look = async {
        let session = found.connect(context, &recorder).await?;
        let subscription = session.subscribe();
        subscription.follow(id);
        match session.task(id).await {
            Ok(task) => Ok((session, subscription, task)),
            Err(error) => {
                let renewed = session.renewals() > 0;
                recorder.refused(&error, renewed);
                Err(anyhow::Error::new(troubles::TaskRefused { id: id.clone(), renewed, source: error }))
            }
        }
    };
    let leaving = tokio::select! {
        first = follow::until(deadline, first_look) => first.ok_or(Leaving::Deadline),
        Some(_) = commands.recv() => Err(Leaving::Asked),
    };
    let (session, subscription, task) = match leaving {
        Ok(first) => first?,
        Err(leaving) => {
            let ending = Ending::Left(leaving);
            return Ok(troubles::of_ending(context, &ending, &found.last_sight()).show(&context.printer));
        }
    };
    let mut reporter = Box::new(Recorded(recorder.clone(), Stage::new(&context.printer, progress).reporter(None)));
    crate::lifecycle::Reporter::report(reporter.as_mut(), &Event::Created { task: task.clone(), immediate: None });
    let watch = Watch { subscription, reporter, commands, recorder };
    let exit = follow::to_the_end(context, &session, task, options, deadline, watch).await?;
    session.close(true).await;
    Ok(exit)
}

/// What the record has of the end: a result once fetched is shown again after the server forgot it.
fn recorded(context: &Context, found: &Found, options: &WaitOptions) -> anyhow::Result<Option<Exit>> {
    let Some(known) = &found.known else { return Ok(None) };
    Ok(match (found.outcome(), &known.status) {
        (Some(TaskOutcome::Result(result)), status) => {
            let failed = *status == Some(TaskStatus::Failed);
            Some(follow::show_result(context, result, failed, options)?)
        }
        (Some(TaskOutcome::Error(error)), _) => {
            let outcome = TaskOutcome::Error(error.clone());
            let ending = Ending::Done { status: TaskStatus::Failed, outcome, cancel_asked: false };
            Some(troubles::of_ending(context, &ending, &found.last_sight()).show(&context.printer))
        }
        (_, Some(TaskStatus::Cancelled)) => {
            let ending = Ending::Cancelled { message: known.message.clone() };
            Some(troubles::of_ending(context, &ending, &found.last_sight()).show(&context.printer))
        }
        _ => None,
    })
}
