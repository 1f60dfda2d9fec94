//! `mcp-task sessions list|stop`: the stdio servers that are kept alive between commands.

use std::time::Duration;

use serde_json::{Value, json};

use super::list::{age, stamp};
use super::troubles::UsageError;
use super::{Context, held};
use crate::holder::{self, HeldSettings, HoldError, Note, Status};
use crate::model::{duration, text};
use crate::present::{Exit, Output, Trouble, table};

/// How long a holder may take to say how it stands.
const ANSWER: Duration = Duration::from_secs(2);
/// How long a holder and its server may take to end: closing, asking and killing take this much at most.
const END: Duration = Duration::from_secs(15);

/// A server that is held right now.
struct Session {
    note: Note,
    state: State,
}

enum State {
    /// It serves.
    Serving(holder::Held, Status),
    /// It is there, but cannot be talked to, and why.
    Refusing(String),
}

/// Lists what is held.
///
/// # Errors
/// None so far.
pub async fn list(context: &Context) -> anyhow::Result<Exit> {
    let sessions = living(context).await;
    let printer = &context.printer;
    match printer.output() {
        Output::Json => printer.json(&sessions.iter().map(Session::to_json).collect()),
        Output::Jsonl => sessions.iter().for_each(|session| printer.json_line(&session.to_json())),
        Output::Text if sessions.is_empty() => printer.note("no server is held"),
        Output::Text => {
            let now = jiff::Timestamp::now().as_millisecond();
            let rows = sessions.iter().map(|session| {
                let note = &session.note;
                let (commands, tasks) = match &session.state {
                    State::Serving(_, status) => (status.commands.to_string(), status.tasks.len().to_string()),
                    State::Refusing(_) => ("?".to_owned(), "?".to_owned()),
                };
                let name = note.session.clone().unwrap_or_default();
                let started = age(now, note.started_at);
                let key = note.id.key.as_str().to_owned();
                vec![key, name, note.server.clone(), started, commands, tasks, note.cwd.display().to_string()]
            });
            let headings = ["KEY", "NAME", "SERVER", "STARTED", "COMMANDS", "TASKS", "FOLDER"];
            let dispensable = ["FOLDER", "STARTED", "NAME", "COMMANDS"];
            printer.data(&table::fitting(&headings, &dispensable, rows.collect()));
        }
    }
    for session in &sessions {
        if let State::Refusing(why) = &session.state {
            printer.warn(&format!("{} cannot be used: {why}", session.note.id.key.as_str()));
        }
    }
    Ok(Exit::Done)
}

/// Ends what is held: all of it, or what is named by a key, the beginning of one, or a name.
///
/// # Errors
/// Where nothing has that name.
pub async fn stop(context: &Context, names: &[String]) -> anyhow::Result<Exit> {
    let mut sessions = living(context).await;
    if let Some(stranger) = names.iter().find(|name| !sessions.iter().any(|session| session.is_called(name))) {
        let message = format!("no server is held under the key or name `{}`", text::line(stranger));
        return Err(UsageError::hinting(message, "`mcp-task sessions list` shows them").into());
    }
    if !names.is_empty() {
        sessions.retain(|session| names.iter().any(|name| session.is_called(name)));
    }
    if sessions.is_empty() {
        context.printer.note("no server is held");
    }
    // Each takes its time to end, so all are asked at once.
    let ends = sessions.into_iter().map(|session| session.end(context));
    let mut exit = Exit::Done;
    for (note, has_ended) in futures_util::future::join_all(ends).await {
        let (key, server) = (note.id.key.as_str(), text::line(&note.server).into_owned());
        if has_ended {
            match context.printer.output() {
                Output::Text => context.printer.data(&format!("stopped {key}  {server}")),
                Output::Json | Output::Jsonl => context.printer.json_line(&json!({"stopped": key, "server": server})),
            }
        } else {
            let message = format!("{key} ({server}) has not ended within {}", duration::human(END));
            let hint = format!("its process is {}", note.pid);
            exit = Trouble::new("still_running", Exit::StillRunning, message).hint(hint).show(&context.printer);
        }
    }
    Ok(exit)
}

/// What is held right now, the newest first.
async fn living(context: &Context) -> Vec<Session> {
    let folder = held::folder(context);
    let notes = folder.notes().into_iter().filter(|note| note.ended.is_none());
    let asked = notes.map(async |note| {
        let settings = HeldSettings { max_message: context.connection.max_message, ..HeldSettings::default() };
        let state = match holder::attach(&folder, &note.id.key, settings).await {
            Ok(Some(held)) if held.id == note.id => {
                let status = tokio::time::timeout(ANSWER, held.control.status()).await.ok().flatten()?;
                State::Serving(held, status)
            }
            Ok(_) => return None,
            Err(HoldError::Refused(why)) => State::Refusing(why),
            Err(error) => State::Refusing(error.to_string()),
        };
        Some(Session { note, state })
    });
    futures_util::future::join_all(asked).await.into_iter().flatten().collect()
}

impl Session {
    fn is_called(&self, name: &str) -> bool {
        let key = self.note.id.key.as_str();
        self.note.session.as_deref() == Some(name) || (name.len() >= 4 && key.starts_with(name))
    }

    async fn end(self, context: &Context) -> (Note, bool) {
        let has_ended = match self.state {
            State::Serving(held, _) => held.control.stop(END).await,
            State::Refusing(_) => holder::terminate(&held::folder(context), &self.note.id.key).await,
        };
        (self.note, has_ended)
    }

    fn to_json(&self) -> Value {
        let status = match &self.state {
            State::Serving(_, status) => Some(status),
            State::Refusing(_) => None,
        };
        json!({
            "key": self.note.id.key.as_str(),
            "name": self.note.session,
            "server": self.note.server,
            "cwd": self.note.cwd,
            "pid": self.note.pid,
            "startedAt": stamp(self.note.started_at),
            "commands": status.map(|status| status.commands),
            "tasks": status.map(|status| &status.tasks),
        })
    }
}
