//! Following a task to its end and telling how it ended, for every command that waits.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::answering::{self, Answers, InputOptions};
use super::recorder::Recorder;
use super::{Context, troubles};
use crate::lifecycle::{Attendance, Command, Ending, FollowOptions, Leaving, Reporter, Unanswered, follow};
use crate::model::{Task, TaskId, TaskOutcome, TaskStatus, ToolResult};
use crate::present::{Exit, Output, result};
use crate::session::{Session, Subscription};

/// How long a task may take to take its cancellation when its server ends with us.
const FAREWELL: Duration = Duration::from_secs(1);

/// How to wait, for every command that does.
#[derive(Clone, Debug, Default)]
pub struct WaitOptions {
    /// How long; `None`: to the end.
    pub timeout: Option<Duration>,
    /// The least pause between polls.
    pub least_pause: Option<Duration>,
    /// How long the server may be out of reach; `None`: for ever.
    pub patience: Option<Duration>,
    /// On Ctrl-C ask for cancellation first.
    pub cancel_on_interrupt: bool,
    /// Where to save what is no text.
    pub save: Option<PathBuf>,
    /// How to answer what the server asks.
    pub input: InputOptions,
}

impl WaitOptions {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// What the first Ctrl-C means. Where the server ends with us, leaving a task running is not to be had.
    pub(super) fn on_interrupt(&self, context: &Context) -> Command {
        if self.cancel_on_interrupt || context.server_is_child() { Command::Cancel } else { Command::Leave }
    }
}

/// What a command hears and tells while it waits.
pub(super) struct Watch {
    pub(super) subscription: Subscription,
    pub(super) reporter: Box<dyn Reporter>,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) recorder: Recorder,
    pub(super) answers: Answers,
}

/// Follows `task` to its end, or to where following it ends.
pub(super) async fn to_the_end(
    context: &Context,
    session: &Session,
    task: Task,
    options: &WaitOptions,
    deadline: Option<Instant>,
    mut watch: Watch,
) -> (Ending, Task) {
    context.now_following(&task.id);
    let follow_options = FollowOptions {
        least_pause: options.least_pause,
        deadline,
        patience: options.patience,
        input_patience: options.input.patience(),
    };
    let Watch { subscription, reporter, commands, recorder, answers } = &mut watch;
    answers.follows(&task.id);
    let attendance = Attendance { subscription, reporter: reporter.as_mut(), answerer: answers, commands };
    let following = follow(session, task.clone(), &follow_options, attendance);
    // Who reads events and leaves has seen enough. A server that ends with us is followed all the same.
    let had_enough = context.printer.output() == Output::Jsonl && !context.server_is_child();
    let (mut ending, task) = tokio::select! {
        followed = following => followed,
        () = context.printer.stdout_closes(), if had_enough => (Ending::Left(Leaving::Asked), task),
    };
    if matches!(ending, Ending::Left(_)) && context.server_is_child() {
        ending = cancel_with_server(session, &task.id).await.unwrap_or(ending);
    }
    if !matches!(ending, Ending::Left(_)) {
        context.no_longer_following(&task.id);
    }
    if let Ending::Done { unanswered, .. } = &mut ending
        && unanswered.is_none()
    {
        // One that came before the task.
        *unanswered = answers.left().map(Box::new);
    }
    if matches!(ending, Ending::Done { .. }) {
        answers.tell_unused();
    }
    recorder.ended(&ending, &task);
    if matches!(ending, Ending::Left(_) | Ending::CancelUnconfirmed) && context.server_is_child() {
        recorder.lost("its server ended with the command that started it");
    }
    (ending, task)
}

/// The server ends with us, so the task is told first.
async fn cancel_with_server(session: &Session, id: &TaskId) -> Option<Ending> {
    let cancelled = tokio::time::timeout(FAREWELL, session.cancel(id)).await;
    let message = Some("the time to wait is over, and its server ends with this program".to_owned());
    cancelled.is_ok_and(|reply| reply.is_ok()).then_some(Ending::Cancelled { message })
}

/// `work`, unless the deadline comes first.
pub(super) async fn until<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

/// Shows what a task came to and says how to leave.
///
/// # Errors
/// Where a file of `--save` cannot be written.
pub(super) fn show(context: &Context, ending: &Ending, task: &Task, options: &WaitOptions) -> anyhow::Result<Exit> {
    if context.printer.stdout_is_closed() && matches!(ending, Ending::Left(_)) {
        return Ok(Exit::Done);
    }
    if let Ending::Done { outcome: TaskOutcome::Result(tool_result), status, cancel_asked, unanswered } = ending {
        if *cancel_asked {
            context.printer.note(&format!("task {} finished before it could be cancelled", task.id));
        }
        let exit = show_result(context, Some(&task.id), tool_result, *status == TaskStatus::Failed, options)?;
        return Ok(unanswered.as_ref().map_or(exit, |question| dismissed(context, question, exit)));
    }
    Ok(troubles::of_ending(context, ending, task).show(&context.printer))
}

/// A result is what the tool made of being left without an answer. How to leave then.
pub(super) fn dismissed(context: &Context, unanswered: &Unanswered, exit: Exit) -> Exit {
    if !matches!(exit, Exit::Done | Exit::ToolError) {
        return exit;
    }
    let trouble = answering::dismissed(unanswered);
    // The one document of `--json` is the result.
    if context.printer.output() == Output::Jsonl {
        trouble.write(&context.printer);
    }
    trouble.tell(&context.printer);
    trouble.exit
}

/// Shows the result of a task or of a plain call. `failed` is the task's own word.
pub(super) fn show_result(
    context: &Context,
    task: Option<&TaskId>,
    tool_result: &ToolResult,
    failed: bool,
    options: &WaitOptions,
) -> anyhow::Result<Exit> {
    let exit = exit_of_result(tool_result, failed);
    if exit == Exit::ToolError {
        context.printer.error("the tool reports an error");
    }
    result::show(&context.printer, task, tool_result, options.save.as_deref())?;
    Ok(exit)
}

/// How to leave after a tool's result. `failed` is the task's own word.
pub(super) fn exit_of_result(tool_result: &ToolResult, failed: bool) -> Exit {
    if tool_result.is_error || failed { Exit::ToolError } else { Exit::Done }
}
