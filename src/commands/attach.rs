//! Attaching to a task that an earlier command started.

use std::rc::Rc;

use tokio::time::Instant;

use super::answering::{self, Answers, OnInput};
use super::follow::{self, WaitOptions, Watch};
use super::lookup::Found;
use super::recorder::Recorded;
use super::routes::Route;
use super::troubles;
use crate::lifecycle::{Ending, Event, Leaving, Reporter};
use crate::model::{Task, TaskOutcome, TaskStatus};
use crate::present::Trouble;
use crate::session::{Session, Subscription};

/// Follows a task to its end. What the record has of the end is not asked for again.
///
/// # Errors
/// Where the server does not know the task or cannot be asked. A task that fails is no error.
pub(super) async fn attach(
    route: &Route,
    found: &Found,
    options: &WaitOptions,
    deadline: Option<Instant>,
    reporter: Box<dyn Reporter>,
) -> Result<(Ending, Task), Box<Trouble>> {
    if let Some(end) = recorded_end(found) {
        return Ok(end);
    }
    let context = &route.context;
    let recorder = found.follower(context);
    context.now_following(&found.id);
    let mut commands = context.interrupts.hand_to_follower(options.on_interrupt(context));
    let look = first_sight(route, found);
    let sight = tokio::select! {
        sight = follow::until(deadline, look) => sight.ok_or(Leaving::Deadline),
        Some(_) = commands.recv() => Err(Leaving::Asked),
    };
    let (session, subscription, task) = match sight {
        Ok(sight) => sight?,
        Err(leaving) => return Ok((Ending::Left(leaving), found.last_sight())),
    };
    // Only with the connection is it known whether the server ends with us.
    if !options.cancel_on_interrupt {
        commands = context.interrupts.hand_to_follower(options.on_interrupt(context));
    }
    // A held server puts its open questions to everybody anew.
    let is_asking = task.status == TaskStatus::InputRequired || options.input.otherwise != OnInput::Fail;
    let is_open = !task.status.is_terminal() && is_asking && session.renewals() == 0;
    if context.holding.get().is_none() && is_open {
        recorder.open_questions().into_iter().filter_map(answering::recorded).for_each(|open| session.reopen(open));
    }
    let mut reporter = Box::new(Recorded(recorder.clone(), reporter));
    reporter.report(&Event::Created { task: task.clone(), immediate: None });
    let tool = found.known.as_ref().map(|known| known.tool.as_str());
    let answers = Answers::new(context, &options.input, tool, recorder.clone());
    let watch = Watch { subscription, reporter, commands, recorder, answers };
    Ok(follow::to_the_end(context, &session, task, options, deadline, watch).await)
}

/// Connects and looks at the task for the first time.
async fn first_sight(route: &Route, found: &Found) -> Result<(Rc<Session>, Subscription, Task), Box<Trouble>> {
    let recorder = found.recorder(&route.context);
    let session = route.connect(found, &recorder).await?;
    let subscription = session.subscribe();
    // What is told of the task from here on is not to be missed.
    subscription.follow(&found.id);
    match session.task(&found.id).await {
        Ok(task) => Ok((session, subscription, task)),
        Err(error) => {
            let renewed = session.renewals() > 0;
            recorder.refused(&error, renewed);
            let refused = troubles::TaskRefused { id: found.id.clone(), renewed, source: error };
            Err(Box::new(troubles::of_error(&route.context, &refused.into())))
        }
    }
}

/// The end that the record has: a result once fetched is there after the server forgot it.
fn recorded_end(found: &Found) -> Option<(Ending, Task)> {
    let known = found.known.as_ref()?;
    let ending = match (found.outcome(), &known.status) {
        (Some(outcome @ TaskOutcome::Result(_)), status) => {
            let status = status.clone().unwrap_or(TaskStatus::Completed);
            Ending::Done { status, outcome: outcome.clone(), cancel_asked: false, unanswered: None }
        }
        (Some(outcome @ TaskOutcome::Error(_)), _) => {
            Ending::Done { status: TaskStatus::Failed, outcome: outcome.clone(), cancel_asked: false, unanswered: None }
        }
        (_, Some(TaskStatus::Cancelled)) => Ending::Cancelled { message: known.message.clone() },
        _ => return None,
    };
    Some((ending, found.last_sight()))
}
