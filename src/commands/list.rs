//! `mcp-task list`: the tasks that the server lists.

use super::troubles::UsageError;
use super::{Context, get, server};
use crate::model::text;
use crate::present::{Exit, Output, table};

/// Runs the command.
///
/// # Errors
/// Where the server has no list or cannot be asked.
pub async fn run(context: &Context) -> anyhow::Result<Exit> {
    let session = server::connect(context).await?;
    let Some(tasks) = session.tasks().await? else {
        return Err(UsageError::hinting(
            "this server keeps no list of tasks",
            "a task can still be seen by its id: mcp-task get ID",
        )
        .into());
    };
    let printer = &context.printer;
    match printer.output() {
        Output::Json => printer.json(&tasks.iter().map(|task| task.raw.value()).collect()),
        Output::Jsonl => tasks.iter().for_each(|task| printer.json_line(&task.raw.value())),
        Output::Text if tasks.is_empty() => printer.note("the server lists no tasks"),
        Output::Text => {
            let rows = tasks.iter().map(|task| {
                let message = task.status_message.as_deref().unwrap_or_default();
                vec![
                    task.id.to_string(),
                    task.status.to_string(),
                    get::ttl(task.ttl),
                    task.created_at.clone().unwrap_or_default(),
                    text::truncate(&text::line(message), 60).into_owned(),
                ]
            });
            printer.data(&table::table(&["TASK", "STATUS", "TTL", "CREATED", "MESSAGE"], rows));
        }
    }
    session.close(tasks.iter().any(|task| !task.status.is_terminal())).await;
    Ok(Exit::Done)
}
