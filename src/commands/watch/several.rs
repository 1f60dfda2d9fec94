//! Several tasks at once: each on its own clock, over one connection for all that belong to one session, and shown as they
//! end.

use std::collections::HashSet;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use serde_json::Value;

use super::{Until, WatchOptions};
use crate::commands::attach::attach;
use crate::commands::follow::{self, WaitOptions};
use crate::commands::lookup::Found;
use crate::commands::routes::Routes;
use crate::commands::{Context, troubles};
use crate::lifecycle::{Ending, Leaving};
use crate::model::{RawJson, Task, TaskOutcome, TaskStatus, text};
use crate::present::{Exit, Output, Stage, Trouble, result};

/// The least of an id that tells a task from the others.
const SHORT_ID: usize = 8;

/// How watching a task ended.
type Verdict = Result<(Ending, Task), Box<Trouble>>;

/// One of the tasks.
struct Target {
    /// What it is called beside the others; escaped.
    name: String,
    /// The task and the way to it. `None` where what was typed means none: the verdict tells why.
    found: Option<(Context, Found)>,
    /// How watching it ended, once it has.
    verdict: Option<Verdict>,
}

/// Watches them. One that fails does not keep the others from being watched, unless that is wanted.
pub(super) async fn run(
    context: &Context,
    found: Vec<anyhow::Result<(Context, Found)>>,
    options: &WatchOptions,
) -> Exit {
    let mut targets = targets(context, found);
    let (stage, routes) = (Stage::new(&context.printer, context.progress), Routes::default());
    let (wait, deadline) = (&options.wait, options.wait.deadline());
    let mut running = FuturesUnordered::new();
    let mut exit = Exit::Done;
    for (index, target) in targets.iter().enumerate() {
        if let Some((context, found)) = &target.found {
            let route = routes.to(context, found);
            let (found, reporter) = (found.clone(), stage.reporter(Some(target.name.clone())));
            running.push(async move { (index, attach(&route, &found, wait, deadline, reporter).await) });
        }
        if let Some(verdict) = &target.verdict {
            exit = exit.worse(target.show(context, verdict, wait));
        }
    }
    let mut is_over = options.until == Until::Failure && exit != Exit::Done;
    while !is_over && let Some((index, verdict)) = running.next().await {
        let target = &mut targets[index];
        let of_it = target.show(context, &verdict, wait);
        is_over = match options.until {
            Until::All => false,
            Until::Any => has_ended(&verdict),
            Until::Failure => of_it != Exit::Done,
        };
        exit = if is_over { of_it } else { exit.worse(of_it) };
        target.verdict = Some(verdict);
    }
    // What is shown at the foot of the terminal goes before the last words.
    drop((running, stage));
    for target in &mut targets {
        if let (None, Some((_, found))) = (&target.verdict, &target.found) {
            target.verdict = Some(Ok((Ending::Left(Leaving::Asked), found.last_sight())));
        }
    }
    show_left(context, &targets);
    if context.printer.output() == Output::Json {
        let rows: Vec<Row<'_>> = targets.iter().filter_map(|target| target.row(context)).collect();
        context.printer.raw_json(&RawJson::from_value(&rows));
    }
    if context.printer.stdout_is_closed() && exit == Exit::StillRunning { Exit::Done } else { exit }
}

/// Every task once, under a name that tells it from the others.
fn targets(context: &Context, found: Vec<anyhow::Result<(Context, Found)>>) -> Vec<Target> {
    let mut seen = HashSet::new();
    let mut targets: Vec<Target> = Vec::new();
    for found in found {
        match found {
            Ok(found)
                if !seen.insert((
                    found.0.server_name(),
                    found.1.known.as_ref().map(|known| known.row),
                    found.1.id.clone(),
                )) => {}
            Ok(found) => targets.push(Target { name: String::new(), found: Some(found), verdict: None }),
            Err(error) => {
                let trouble = Box::new(troubles::of_error(context, &error));
                targets.push(Target { name: String::new(), found: None, verdict: Some(Err(trouble)) });
            }
        }
    }
    let ids: Vec<String> = targets.iter().filter_map(Target::id).collect();
    for target in &mut targets {
        if let Some((_, found)) = &target.found {
            let tool = found.known.as_ref().map(|known| text::line(&known.tool)).filter(|tool| !tool.is_empty());
            let id = short(found.id.as_str(), &ids);
            target.name = tool.map_or_else(|| id.clone(), |tool| format!("{tool} {id}"));
        }
    }
    targets
}

/// As much of an id as tells it from the others; escaped.
fn short(id: &str, all: &[String]) -> String {
    let same = |other: &str| id.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let shared = all.iter().filter(|other| *other != id).map(|other| same(other) + 1).max().unwrap_or_default();
    let short: String = id.chars().take(shared.max(SHORT_ID)).collect();
    text::line(&short).into_owned()
}

/// Whether it is over with the task itself, not with watching it alone.
fn has_ended(verdict: &Verdict) -> bool {
    match verdict {
        Ok((ending, _)) => matches!(
            ending,
            Ending::Done { .. } | Ending::NoResult { .. } | Ending::Cancelled { .. } | Ending::Lost { .. }
        ),
        Err(trouble) => trouble.exit == Exit::TaskUnknown,
    }
}

impl Target {
    fn id(&self) -> Option<String> {
        self.found.as_ref().map(|(_, found)| found.id.as_str().to_owned())
    }

    /// Shows a verdict as it comes and says how to leave. Tasks that go on are left for [`show_left`].
    fn show(&self, context: &Context, verdict: &Verdict, options: &WaitOptions) -> Exit {
        let printer = &context.printer;
        // One document for all is written at the end.
        let is_document = printer.output() == Output::Json;
        let show = |trouble: &Trouble, told: &Trouble| {
            if !is_document {
                trouble.write(printer);
            }
            told.tell(printer);
            trouble.exit
        };
        match verdict {
            // Its own words name the task.
            Err(trouble) => show(trouble, trouble),
            Ok((Ending::Left(_), _)) => Exit::StillRunning,
            Ok((Ending::Done { status, outcome: TaskOutcome::Result(of_tool), unanswered, .. }, task)) => {
                printer.note(&format!("{}: {status}", self.name));
                let failed = *status == TaskStatus::Failed;
                let shown = if is_document {
                    let saved = result::save(printer, of_tool, options.save.as_deref());
                    saved.map(|()| follow::exit_of_result(of_tool, failed))
                } else {
                    follow::show_result(context, Some(&task.id), of_tool, failed, options)
                };
                let shown = shown.map(|exit| match unanswered {
                    Some(question) => follow::dismissed(context, question, exit),
                    None => exit,
                });
                // A file that cannot be written must not cost the other results.
                shown.unwrap_or_else(|error| {
                    let trouble = troubles::of_error(context, &error);
                    show(&trouble, &trouble.called(&self.name))
                })
            }
            Ok((ending, task)) => {
                let trouble = troubles::of_ending(self.context(context), ending, task);
                show(&trouble, &trouble.called(&self.name))
            }
        }
    }

    /// The one that leads to the task, or else to anything.
    fn context<'a>(&'a self, any: &'a Context) -> &'a Context {
        self.found.as_ref().map_or(any, |(context, _)| context)
    }

    fn row(&self, context: &Context) -> Option<Row<'_>> {
        let known = self.found.as_ref().and_then(|(_, found)| found.known.as_ref());
        let (status, outcome) = match self.verdict.as_ref()? {
            Err(trouble) => {
                let last = known.and_then(|known| known.status.as_ref()).map(|status| status.as_str().to_owned());
                (last, Err(trouble.as_ref().clone()))
            }
            Ok((ending, task)) => {
                let status = Some(status_of(ending, task).as_str().to_owned());
                match ending {
                    Ending::Done { status: of_task, outcome: TaskOutcome::Result(of_tool), .. } => {
                        let failed = *of_task == TaskStatus::Failed;
                        (status, Ok((&of_tool.raw, follow::exit_of_result(of_tool, failed))))
                    }
                    ending => (status, Err(troubles::of_ending(self.context(context), ending, task))),
                }
            }
        };
        let exit = outcome.as_ref().map_or_else(|trouble| trouble.exit, |(_, exit)| *exit);
        Some(Row {
            task_id: self.id(),
            tool: known.map(|known| known.tool.as_str()),
            server: self.context(context).server_name(),
            status,
            exit: exit.number(),
            result: outcome.as_ref().ok().map(|(result, _)| *result),
            error: outcome.as_ref().err().map(|trouble| trouble.to_json()["error"].take()),
        })
    }
}

fn status_of<'a>(ending: &'a Ending, task: &'a Task) -> &'a TaskStatus {
    match ending {
        Ending::Done { status, .. } | Ending::NoResult { status, .. } => status,
        Ending::Cancelled { .. } => &TaskStatus::Cancelled,
        _ => &task.status,
    }
}

/// Tells of those that go on, all in one.
fn show_left(context: &Context, targets: &[Target]) {
    let printer = &context.printer;
    let left = targets.iter().filter_map(|target| match &target.verdict {
        Some(Ok((ending @ Ending::Left(leaving), task))) => {
            Some((*leaving, troubles::of_ending(target.context(context), ending, task)))
        }
        _ => None,
    });
    let left: Vec<(Leaving, Trouble)> = left.collect();
    if printer.output() == Output::Jsonl {
        left.iter().for_each(|(_, trouble)| trouble.write(printer));
    }
    match left.as_slice() {
        [] => {}
        [(_, trouble)] => trouble.tell(printer),
        [(leaving, _), ..] => {
            let message = format!("{}; {} go on", troubles::why_left(*leaving), text::plural(left.len(), "task"));
            Trouble::new("still_running", Exit::StillRunning, message).hint("mcp-task watch").tell(printer);
        }
    }
}

/// What `--json` tells of one task.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    task_id: Option<String>,
    tool: Option<&'a str>,
    server: Option<String>,
    status: Option<String>,
    exit: u8,
    result: Option<&'a RawJson>,
    error: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_as_short_as_tells_it_from_the_others() {
        let all = ["019a-0001-aaaa", "019a-0001-aabb", "zz", "loaf\u{1b}"].map(str::to_owned);
        assert_eq!(short(&all[0], &all), "019a-0001-aaa");
        assert_eq!(short(&all[1], &all), "019a-0001-aab");
        assert_eq!(short("zz", &all), "zz");
        assert_eq!(short(&all[3], &all), "loaf\\u{1b}");
        assert_eq!(short("0123456789", &["0123456789".to_owned()]), "01234567");
    }
}
