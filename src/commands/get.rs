//! `mcp-task get ID`: how a task stands now.

use super::Context;
use super::lookup::{Found, LookupError};
use super::troubles::TaskRefused;
use crate::model::{Task, Ttl, duration, text};
use crate::present::{Exit, Output};

/// Runs the command.
///
/// # Errors
/// Where the server does not know the task or cannot be asked.
pub async fn run(context: &Context, found: &Found) -> anyhow::Result<Exit> {
    let recorder = found.recorder(context);
    let session = match (found.connect(context, &recorder).await, found.ended()) {
        (Ok(session), _) => session,
        // Nothing changes any more.
        (Err(error), Some(task)) if error.is::<LookupError>() => {
            show(context, &task);
            return Ok(Exit::Done);
        }
        (Err(error), _) => return Err(error),
    };
    let task = match session.task(&found.id).await {
        Ok(task) => task,
        Err(error) => {
            let renewed = session.renewals() > 0;
            recorder.refused(&error, renewed);
            return Err(TaskRefused { id: found.id.clone(), renewed, source: error }.into());
        }
    };
    recorder.seen(&task);
    show(context, &task);
    // A look never ends the session: the result may yet be fetched in it.
    session.close(true).await;
    Ok(Exit::Done)
}

fn show(context: &Context, task: &Task) {
    let printer = &context.printer;
    match printer.output() {
        Output::Json => printer.raw_json(&task.raw),
        Output::Jsonl => printer.json_line(&task.raw.value()),
        Output::Text => {
            let mut lines = vec![format!("task     {}", task.id), format!("status   {}", task.status)];
            let mut field = |name: &str, value: Option<&str>| {
                lines.extend(value.map(|value| format!("{name:<8} {}", text::line(value))));
            };
            field("message", task.status_message.as_deref());
            field("created", task.created_at.as_deref());
            field("updated", task.last_updated_at.as_deref());
            lines.push(format!("ttl      {}", ttl(task.ttl)));
            printer.data(&lines.join("\n"));
        }
    }
}

pub(super) fn ttl(ttl: Ttl) -> String {
    match ttl {
        Ttl::Limited(ttl) => duration::human(ttl),
        Ttl::Unlimited => "no limit".to_owned(),
        Ttl::Unstated => "not stated".to_owned(),
    }
}
