//! `mcp-task get ID`: how a task stands now.

use super::lookup::Found;
use super::recorder::Recorder;
use super::troubles::TaskRefused;
use super::{Context, server};
use crate::model::{Task, Ttl, duration, text};
use crate::present::{Exit, Output};

/// Runs the command.
///
/// # Errors
/// Where the server does not know the task or cannot be asked.
pub async fn run(context: &Context, found: &Found) -> anyhow::Result<Exit> {
    let recorder = Recorder::of_known(context, found.known.as_ref().map(|known| known.row));
    if let Err(error) = found.can_be_asked(context) {
        if let Some(task) = found.ended() {
            show(context, &task);
            return Ok(Exit::Done);
        }
        recorder.lost(&error.to_string());
        return Err(error.into());
    }
    let session = server::connect(context).await?;
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
