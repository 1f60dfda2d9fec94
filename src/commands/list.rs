//! `mcp-task list`: the recorded tasks, and those that the server lists where one is named.

use std::time::Duration;

use serde_json::{Value, json};

use super::held::Need;
use super::{Context, get, server, troubles};
use crate::model::{Task, TaskStatus, duration};
use crate::present::{Exit, Output, table};
use crate::record::{Known, Record};

/// Which tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListOptions {
    /// Those that have not ended alone.
    pub live: bool,
}

/// One line of the list.
struct Line {
    known: Option<Known>,
    task: Option<Task>,
}

/// Runs the command.
///
/// # Errors
/// Where the record cannot be read or the named server cannot be asked.
pub async fn run(context: &Context, options: ListOptions) -> anyhow::Result<Exit> {
    let mut record = Record::open(&context.state_dir)?;
    let here = |known: &Known| context.is_on_typed_server(known);
    let mut lines: Vec<Line> =
        record.all()?.into_iter().filter(here).map(|known| Line { known: Some(known), task: None }).collect();
    // A server that would be started for this has no tasks yet.
    let mut exit = Exit::Done;
    if context.server_was_typed && !context.server_is_child() {
        let listed = match listed(context).await {
            Ok(listed) => listed,
            // What is recorded is shown all the same.
            Err(error) if !lines.is_empty() => {
                let trouble = troubles::of_error(context, &error);
                context.printer.error(&trouble.message);
                exit = trouble.exit;
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        for task in listed {
            let same =
                |line: &&mut Line| line.known.as_ref().is_some_and(|known| known.task.as_ref() == Some(&task.id));
            match lines.iter_mut().find(same) {
                Some(line) => {
                    if let Some(known) = &line.known {
                        record.seen(known.row, &task)?;
                    }
                    line.task = Some(task);
                }
                None => lines.push(Line { known: None, task: Some(task) }),
            }
        }
    }
    lines.retain(|line| !options.live || line.is_live());
    show(context, &lines);
    Ok(exit)
}

/// What the server lists; nothing where it has no list.
async fn listed(context: &Context) -> anyhow::Result<Vec<Task>> {
    let session = server::connect(context, Need::Look).await?;
    let tasks = session.tasks().await?.unwrap_or_default();
    session.close(tasks.iter().any(|task| !task.status.is_terminal())).await;
    Ok(tasks)
}

impl Line {
    fn status(&self) -> Option<&TaskStatus> {
        self.task.as_ref().map(|task| &task.status).or_else(|| self.known.as_ref()?.status.as_ref())
    }

    fn is_live(&self) -> bool {
        let is_lost = self.task.is_none() && self.known.as_ref().is_some_and(|known| known.lost.is_some());
        !is_lost && self.status().is_some_and(|status| !status.is_terminal())
    }

    /// For people.
    fn state(&self) -> String {
        let lost = self.task.is_none().then_some(self.known.as_ref()).flatten().and_then(|known| known.lost.as_ref());
        match (self.status(), lost) {
            (_, Some(_)) => "lost".to_owned(),
            (Some(status), None) => status.to_string(),
            (None, None) => "sent, answer never seen".to_owned(),
        }
    }

    fn id(&self) -> Option<&str> {
        let known = || self.known.as_ref()?.task.as_ref();
        self.task.as_ref().map(|task| &task.id).or_else(known).map(|id| id.as_str())
    }

    fn message(&self) -> &str {
        let task = self.task.as_ref().and_then(|task| task.status_message.as_deref());
        let known = || self.known.as_ref().and_then(|known| known.lost.as_deref().or(known.message.as_deref()));
        task.or_else(known).unwrap_or_default()
    }

    fn to_json(&self, context: &Context) -> Value {
        let known = self.known.as_ref();
        let named = context.server_name();
        json!({
            "taskId": self.id(),
            "server": known.map(|known| known.server.name.as_str()).or(named.as_deref()),
            "tool": known.map(|known| known.tool.as_str()),
            "status": self.status().map(TaskStatus::as_str),
            "statusMessage": self.message(),
            "sentAt": known.map(|known| stamp(known.sent_at)),
            "seenAt": known.map(|known| stamp(known.seen_at)),
            "lost": known.is_some_and(|known| known.lost.is_some()) && self.task.is_none(),
            "hasResult": known.is_some_and(|known| known.has_outcome),
            "task": self.task.as_ref().map(|task| task.raw.value()),
        })
    }
}

fn show(context: &Context, lines: &[Line]) {
    let printer = &context.printer;
    match printer.output() {
        Output::Json => printer.json(&lines.iter().map(|line| line.to_json(context)).collect()),
        Output::Jsonl => lines.iter().for_each(|line| printer.json_line(&line.to_json(context))),
        Output::Text if lines.is_empty() => printer.note("no tasks are known"),
        Output::Text => {
            let now = jiff::Timestamp::now().as_millisecond();
            let rows = lines.iter().map(|line| {
                let known = line.known.as_ref();
                let age = known.map_or_else(String::new, |known| age(now, known.sent_at));
                let ttl = line.task.as_ref().map(|task| task.ttl).or_else(|| known.map(|known| known.ttl));
                let server = known.map(|known| known.server.name.clone()).unwrap_or_default();
                vec![
                    line.id().unwrap_or("-").to_owned(),
                    known.map(|known| known.tool.clone()).unwrap_or_default(),
                    line.state(),
                    age,
                    ttl.map(get::ttl).unwrap_or_default(),
                    server,
                    line.message().to_owned(),
                ]
            });
            let headings = ["TASK", "TOOL", "STATUS", "SENT", "TTL", "SERVER", "MESSAGE"];
            let dispensable = ["TTL", "MESSAGE", "SERVER", "SENT", "TOOL"];
            printer.data(&table::fitting(&headings, &dispensable, rows.collect()));
        }
    }
}

/// `3m 05s ago`, by our own clock at both ends.
pub(super) fn age(now: i64, then: i64) -> String {
    let millis = u64::try_from(now.saturating_sub(then)).unwrap_or(0);
    format!("{} ago", duration::human(Duration::from_millis(millis)))
}

/// A moment as RFC 3339, to the second.
pub(super) fn stamp(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis)
        .map_or_else(|_| String::new(), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
