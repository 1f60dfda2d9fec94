//! `mcp-task list`: the recorded tasks as their servers see them now, and those that the named server lists beside them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Context, get};
use crate::model::{Task, TaskId, TaskStatus, duration, text};
use crate::present::{Exit, Output, table};
use crate::record::Known;

mod refresh;

/// Which tasks.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Those that have not ended alone.
    pub live: bool,
    /// Those that stand so alone, unless that is empty.
    pub states: Vec<State>,
    /// Those of one tool alone.
    pub tool: Option<String>,
    /// The newest ones alone.
    pub limit: Option<usize>,
    /// Ask no server.
    pub offline: bool,
}

/// How a line of the list stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// As the server says.
    Seen(TaskStatus),
    /// It can no longer be had.
    Lost,
    /// The call was sent, and its answer never seen.
    Unanswered,
}

/// One line of the list.
struct Line {
    known: Option<Known>,
    /// As the server just showed it.
    task: Option<Task>,
    /// Tasks that the call, if it has no answer, may have started.
    candidates: Vec<Task>,
}

/// Runs the command.
///
/// # Errors
/// Where the record cannot be read, and where nothing is recorded of a named server and it cannot be asked.
pub async fn run(context: &Context, options: &ListOptions) -> anyhow::Result<Exit> {
    let rows = |context: &Context| -> anyhow::Result<Vec<Known>> {
        let mut rows = context.with_record(|record| record.all())?;
        rows.retain(|known| context.is_on_typed_server(known));
        Ok(rows)
    };
    let known = rows(context)?;
    let mut news = if options.offline { refresh::News::default() } else { refresh::refresh(context, &known).await };
    // What was learned is in the record by now.
    let mut lines: Vec<Line> = rows(context)?
        .into_iter()
        .map(|known| Line {
            task: news.sights.remove(&known.row),
            candidates: news.candidates.remove(&known.row).unwrap_or_default(),
            known: Some(known),
        })
        .collect();
    for task in news.others {
        let is_same = |line: &&mut Line| line.known.as_ref().is_some_and(|known| known.task.as_ref() == Some(&task.id));
        match lines.iter_mut().find(is_same) {
            Some(line) => line.task = Some(task),
            None => lines.push(Line { known: None, task: Some(task), candidates: Vec::new() }),
        }
    }
    let exit = match news.trouble {
        // What is recorded is shown all the same.
        Some(trouble) if !lines.is_empty() => {
            trouble.tell(&context.printer);
            trouble.exit
        }
        Some(trouble) => return Ok(trouble.show(&context.printer)),
        None => Exit::Done,
    };
    lines.retain(|line| options.wants(line));
    lines.sort_by_key(|line| std::cmp::Reverse(line.began_at()));
    lines.truncate(options.limit.unwrap_or(usize::MAX));
    show(context, &lines);
    Ok(exit)
}

impl ListOptions {
    fn wants(&self, line: &Line) -> bool {
        let state = line.state();
        let is_live = matches!(&state, State::Seen(status) if !status.is_terminal());
        let tool = line.known.as_ref().map(|known| known.tool.as_str());
        (!self.live || is_live)
            && (self.states.is_empty()
                || self.states.contains(&state)
                || (line.is_waiting() && self.states.contains(&State::Seen(TaskStatus::InputRequired))))
            && (self.tool.is_none() || self.tool.as_deref() == tool)
    }
}

/// For people.
impl std::fmt::Display for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Seen(status) => status.fmt(formatter),
            Self::Lost => formatter.write_str("lost"),
            Self::Unanswered => formatter.write_str("sent, answer never seen"),
        }
    }
}

impl Line {
    fn state(&self) -> State {
        let of_record = || match self.known.as_ref() {
            Some(Known { lost: Some(_), .. }) => State::Lost,
            Some(Known { status: Some(status), .. }) => State::Seen(status.clone()),
            _ => State::Unanswered,
        };
        self.task.as_ref().map_or_else(of_record, |task| State::Seen(task.status.clone()))
    }

    /// Whether the server waits for an answer. Some do so while they call the task working.
    fn is_waiting(&self) -> bool {
        let State::Seen(status) = self.state() else { return false };
        let has_questions = self.known.as_ref().is_some_and(|known| known.open_questions > 0);
        status == TaskStatus::InputRequired || (has_questions && !status.is_terminal())
    }

    fn id(&self) -> Option<&str> {
        let known = || self.known.as_ref()?.task.as_ref();
        self.task.as_ref().map(|task| &task.id).or_else(known).map(|id| id.as_str())
    }

    /// For the order alone, as the two kinds are told by two clocks: when our call was sent, else when the server says that the
    /// task was created, in milliseconds since 1970.
    fn began_at(&self) -> Option<i64> {
        let created = || {
            let created_at = self.task.as_ref()?.created_at.as_deref()?;
            created_at.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
        };
        self.known.as_ref().map(|known| known.sent_at).or_else(created)
    }

    fn message(&self) -> &str {
        let task = self.task.as_ref().and_then(|task| task.status_message.as_deref());
        let known = || self.known.as_ref().and_then(|known| known.lost.as_deref().or(known.message.as_deref()));
        task.or_else(known).unwrap_or_default()
    }

    fn to_json(&self, context: &Context) -> Value {
        let known = self.known.as_ref();
        let named = context.server_name();
        let state = self.state();
        let status = match &state {
            State::Seen(status) => Some(status),
            State::Lost | State::Unanswered => known.and_then(|known| known.status.as_ref()),
        };
        let candidate = |task: &Task| json!({"taskId": task.id.as_str(), "status": task.status.as_str()});
        json!({
            "taskId": self.id(),
            "server": known.map(|known| known.server.name.as_str()).or(named.as_deref()),
            "tool": known.map(|known| known.tool.as_str()),
            "status": status.map(TaskStatus::as_str),
            "statusMessage": self.message(),
            "sentAt": known.map(|known| stamp(known.sent_at)),
            "seenAt": known.map(|known| stamp(known.seen_at)),
            "waiting": self.is_waiting(),
            "lost": state == State::Lost,
            "hasResult": known.is_some_and(|known| known.has_outcome),
            "candidates": self.candidates.iter().map(candidate).collect::<Vec<_>>(),
            "task": self.task.as_ref().map(|task| task.raw.value()),
        })
    }

    fn cells(&self, context: &Context, now: i64) -> Vec<String> {
        let known = self.known.as_ref();
        let ttl = self.task.as_ref().map(|task| task.ttl).or_else(|| known.map(|known| known.ttl));
        let server = known.map(|known| known.server.name.clone()).or_else(|| context.server_name());
        vec![
            self.id().unwrap_or("-").to_owned(),
            known.map(|known| known.tool.clone()).unwrap_or_default(),
            if self.is_waiting() { TaskStatus::InputRequired.to_string() } else { self.state().to_string() },
            known.map_or_else(String::new, |known| age(now, known.sent_at)),
            ttl.map(get::ttl).unwrap_or_default(),
            server.unwrap_or_default(),
            self.message().to_owned(),
        ]
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
            let rows = lines.iter().map(|line| line.cells(context, now)).collect();
            let headings = ["TASK", "TOOL", "STATUS", "SENT", "TTL", "SERVER", "MESSAGE"];
            let dispensable = ["TTL", "MESSAGE", "SERVER", "SENT", "TOOL"];
            printer.data(&table::fitting(&headings, &dispensable, rows));
            lines.iter().for_each(|line| show_candidates(context, line, now));
            show_waiting(context, lines);
        }
    }
}

/// The server lists tasks that nobody knows, and a call was sent that nobody knows the task of.
fn show_candidates(context: &Context, line: &Line, now: i64) {
    let ([newest, ..], Some(known)) = (line.candidates.as_slice(), &line.known) else { return };
    let all: Vec<String> = line.candidates.iter().map(|task| format!("{} ({})", task.id, task.status)).collect();
    let (tool, sent, all) = (text::line(&known.tool), age(now, known.sent_at), all.join(", "));
    context.printer.note(&format!("the call of `{tool}` sent {sent} may have started {all}"));
    context.printer.hint(&context.command_for("watch", &newest.id));
}

/// A task that asks is not to be overlooked.
fn show_waiting(context: &Context, lines: &[Line]) {
    let mut waiting = lines.iter().filter(|line| line.is_waiting());
    let Some(task) = waiting.next().and_then(|line| Some(TaskId::new(line.id()?))) else { return };
    let count = waiting.count() + 1;
    let verb = if count == 1 { "waits" } else { "wait" };
    context.printer.note(&format!("{} {verb} for an answer", text::plural(count, "task")));
    context.printer.hint(&context.command_for("answer", &task));
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
