//! `mcp-task cancel ID…`: asks for cancellation and says what became of it.

use std::time::Duration;

use serde_json::json;

use super::lookup::{self, Found};
use super::{Context, troubles};
use crate::lifecycle::{Ending, Pace};
use crate::model::{RawJson, Task, TaskId, TaskStatus};
use crate::present::{Exit, Output, Trouble};
use crate::session::{Session, SessionError, is_unknown_task};

/// How long a task may take to end once it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command. The exit number is the first that is not "done".
///
/// # Errors
/// Where a server cannot be asked at all.
pub async fn run(context: &Context, typed: &[String], last: bool) -> anyhow::Result<Exit> {
    let wanted: Vec<Option<&str>> = if last { vec![None] } else { typed.iter().map(|id| Some(id.as_str())).collect() };
    let mut exit = Exit::Done;
    for typed in wanted {
        // One that fails does not keep the others from being asked.
        let one = match lookup::find(context, typed, last) {
            Ok((context, found)) => cancel(&context, &found).await,
            Err(error) => Err(error),
        };
        let one = one.unwrap_or_else(|error| troubles::of_error(context, &error).show(&context.printer));
        if exit == Exit::Done {
            exit = one;
        }
    }
    Ok(exit)
}

async fn cancel(context: &Context, found: &Found) -> anyhow::Result<Exit> {
    let id = &found.id;
    let recorder = found.recorder(context);
    let session = found.connect(context, &recorder).await?;
    let refusal = match session.cancel(id).await {
        Ok(_) => None,
        Err(error) if error.rpc().is_some() => Some(error),
        Err(error) => return Err(refused(id, &session, error)),
    };
    // Whatever the answer was, the task itself says what became of it.
    let exit = match settled(&session, id).await {
        Ok(task) => {
            recorder.seen(&task);
            show(context, &task, refusal.as_ref())
        }
        Err(error) => match refusal {
            Some(refusal) => {
                recorder.refused(&refusal, session.renewals() > 0);
                return Err(refused(id, &session, refusal));
            }
            // A server that took the cancellation may forget the task at once.
            None if error.rpc().is_some_and(is_unknown_task) => {
                let task = Task { status: TaskStatus::Cancelled, ..found.last_sight() };
                recorder.ended(&Ending::Cancelled { message: None }, &task);
                show(context, &task, None)
            }
            None => return Err(refused(id, &session, error)),
        },
    };
    session.close(true).await;
    Ok(exit)
}

fn refused(id: &TaskId, session: &Session, source: SessionError) -> anyhow::Error {
    troubles::TaskRefused { id: id.clone(), renewed: session.renewals() > 0, source }.into()
}

/// The task once it has ended, or as it stands when patience is over.
async fn settled(session: &Session, id: &TaskId) -> Result<Task, SessionError> {
    let end = tokio::time::Instant::now() + PATIENCE;
    let mut pace = Pace::new(None);
    loop {
        let task = session.task(id).await?;
        pace.hear(task.poll_interval);
        let pause = pace.next_pause();
        if task.status.is_terminal() || tokio::time::Instant::now() + pause > end {
            return Ok(task);
        }
        tokio::time::sleep(pause).await;
    }
}

fn show(context: &Context, task: &Task, refusal: Option<&SessionError>) -> Exit {
    let (id, printer) = (&task.id, &context.printer);
    match (&task.status, refusal) {
        (TaskStatus::Cancelled, _) => {
            match printer.output() {
                Output::Text => printer.data(&format!("task {id} is cancelled")),
                Output::Json if task.raw == RawJson::empty_object() => {
                    printer.json(&json!({"taskId": id.as_str(), "status": "cancelled"}));
                }
                Output::Json => printer.raw_json(&task.raw),
                Output::Jsonl => printer.json_line(&json!({"event": "cancelled", "taskId": id.as_str()})),
            }
            Exit::Done
        }
        (status, _) if status.is_terminal() => {
            let message = format!("task {id} had already ended: {status}");
            Trouble::new("not_cancelled", Exit::Server, message)
                .task(id)
                .hint(context.command_for("result", id))
                .show(printer)
        }
        (_, Some(error)) => {
            let message = format!("task {id} is not cancelled: {error}");
            Trouble {
                code: error.rpc().map(|rpc| rpc.code),
                ..Trouble::new("not_cancelled", Exit::Server, message).task(id)
            }
            .show(printer)
        }
        (status, None) => {
            let message = format!("task {id} was asked to stop and has not done so yet: {status}");
            Trouble::new("still_running", Exit::StillRunning, message)
                .task(id)
                .hint(context.command_for("watch", id))
                .show(printer)
        }
    }
}
