//! `mcp-task cancel ID…`: asks for cancellation and says what became of it.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::lookup::{self, Found};
use super::routes::{Route, Routes};
use super::{Context, troubles};
use crate::lifecycle::{Ending, Pace};
use crate::model::{RawJson, Task, TaskId, TaskStatus};
use crate::present::{Exit, Output, Printer, Trouble};
use crate::session::{Session, SessionError, is_unknown_task};

/// How long a task may take to end once it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// What became of a task that was asked to stop.
struct Verdict {
    id: Option<TaskId>,
    /// A word for programs: `cancelled`, `requested`, `alreadyEnded`, `refused` or, where it could not be asked, `failed`.
    outcome: &'static str,
    /// Its last sight, where there was one.
    task: Option<Task>,
    /// Why it is not cancelled.
    trouble: Option<Box<Trouble>>,
}

/// Runs the command. One task that cannot be asked does not keep the others from being asked; the exit number is that of the
/// worst, see [`Exit::worse`].
pub async fn run(context: &Context, typed: &[String], last: bool) -> Exit {
    let wanted = if last { vec![lookup::find(context, None, true)] } else { lookup::find_all(context, typed) };
    let is_document = context.printer.output() == Output::Json && wanted.len() > 1;
    let routes = Routes::default();
    let mut asking = FuturesUnordered::new();
    for (index, found) in wanted.into_iter().enumerate() {
        let verdict = one(context, &routes, found);
        asking.push(async move { (index, verdict.await) });
    }
    let mut verdicts: Vec<(usize, Verdict)> = Vec::new();
    while let Some((index, verdict)) = asking.next().await {
        verdict.show(&context.printer, is_document);
        verdicts.push((index, verdict));
    }
    verdicts.sort_by_key(|(index, _)| *index);
    if is_document {
        context.printer.json(&verdicts.iter().map(|(_, verdict)| verdict.row()).collect());
    }
    verdicts.iter().fold(Exit::Done, |exit, (_, verdict)| exit.worse(verdict.exit()))
}

async fn one(context: &Context, routes: &Routes, found: anyhow::Result<(Context, Found)>) -> Verdict {
    let failed = |id, trouble| Verdict { id, outcome: "failed", task: None, trouble: Some(trouble) };
    match found {
        Ok((context, found)) => match cancel(&routes.to(&context, &found), &found).await {
            Ok(verdict) => verdict,
            Err(trouble) => failed(Some(found.id), trouble),
        },
        Err(error) => failed(None, Box::new(troubles::of_error(context, &error))),
    }
}

async fn cancel(route: &Route, found: &Found) -> Result<Verdict, Box<Trouble>> {
    let (id, context) = (&found.id, &route.context);
    let recorder = found.recorder(context);
    let session = route.connect(found, &recorder).await?;
    let refused = |source| {
        let refused = troubles::TaskRefused { id: id.clone(), renewed: session.renewals() > 0, source };
        Box::new(troubles::of_error(context, &refused.into()))
    };
    let refusal = match session.cancel(id).await {
        Ok(_) => None,
        Err(error) if error.rpc().is_some() => Some(error),
        Err(error) => return Err(refused(error)),
    };
    // Whatever the answer was, the task itself says what became of it.
    match settled(&session, id).await {
        Ok(task) => {
            recorder.seen(&task);
            Ok(Verdict::of(context, task, refusal.as_ref()))
        }
        Err(error) => match refusal {
            Some(refusal) => {
                recorder.refused(&refusal, session.renewals() > 0);
                Err(refused(refusal))
            }
            // A server that took the cancellation may forget the task at once.
            None if error.rpc().is_some_and(is_unknown_task) => {
                let task = Task { status: TaskStatus::Cancelled, ..found.last_sight() };
                recorder.ended(&Ending::Cancelled { message: None }, &task);
                Ok(Verdict::of(context, task, None))
            }
            None => Err(refused(error)),
        },
    }
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

impl Verdict {
    /// Told by how the task stands, and by what the server said to the cancellation where it refused it.
    fn of(context: &Context, task: Task, refusal: Option<&SessionError>) -> Self {
        let id = &task.id;
        let trouble = |kind, exit, message: String| Trouble::new(kind, exit, message).task(id);
        let (outcome, trouble) = match (&task.status, refusal) {
            (TaskStatus::Cancelled, _) => ("cancelled", None),
            (status, _) if status.is_terminal() => {
                let message = format!("task {id} had already ended: {status}");
                let trouble = trouble("not_cancelled", Exit::Server, message);
                ("alreadyEnded", Some(trouble.hint(context.command_for("result", id))))
            }
            (_, Some(error)) => {
                let trouble = trouble("not_cancelled", Exit::Server, format!("task {id} is not cancelled: {error}"));
                ("refused", Some(Trouble { code: error.rpc().map(|rpc| rpc.code), ..trouble }))
            }
            (status, None) => {
                let message = format!("task {id} was asked to stop and has not done so yet: {status}");
                let trouble = trouble("still_running", Exit::StillRunning, message);
                ("requested", Some(trouble.hint(context.command_for("watch", id))))
            }
        };
        Self { id: Some(id.clone()), outcome, trouble: trouble.map(Box::new), task: Some(task) }
    }

    fn exit(&self) -> Exit {
        self.trouble.as_ref().map_or(Exit::Done, |trouble| trouble.exit)
    }

    /// Shows it as it comes. `later`: one document for all is written at the end.
    fn show(&self, printer: &Printer, later: bool) {
        match (&self.trouble, &self.task) {
            (Some(trouble), _) if later => trouble.tell(printer),
            (Some(trouble), _) => _ = trouble.show(printer),
            (None, Some(task)) => match printer.output() {
                Output::Text => printer.data(&format!("task {} is cancelled", task.id)),
                Output::Json if later => {}
                Output::Json if task.raw == RawJson::empty_object() => {
                    printer.json(&json!({"taskId": task.id.as_str(), "status": "cancelled"}));
                }
                Output::Json => printer.raw_json(&task.raw),
                Output::Jsonl => printer.json_line(&json!({"event": "cancelled", "taskId": task.id.as_str()})),
            },
            (None, None) => {}
        }
    }

    /// What `--json` tells of one of several.
    fn row(&self) -> Value {
        json!({
            "taskId": self.id.as_ref().map(TaskId::as_str),
            "outcome": self.outcome,
            "status": self.task.as_ref().map(|task| task.status.as_str()),
            "exit": self.exit().number(),
            "error": self.trouble.as_ref().map(|trouble| trouble.to_json()["error"].take()),
        })
    }
}
