//! `mcp-task watch [ID…]`: attaches to tasks, shows their progress and then their results.

use super::Context;
use super::attach::attach;
use super::follow::{self, WaitOptions};
use super::lookup::{self, Found};
use super::routes::Route;
use crate::model::text;
use crate::present::{Exit, Progress, Stage};

mod several;

/// When watching several tasks ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// When all have ended.
    #[default]
    All,
    /// When one has, well or badly.
    Any,
    /// When one has ended badly, or all well.
    Failure,
}

/// What to watch and how.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// The tasks as typed; none: all that have not ended.
    pub ids: Vec<String>,
    /// The newest task.
    pub last: bool,
    /// When it ends.
    pub until: Until,
    /// How to wait.
    pub wait: WaitOptions,
}

/// Runs the command. About several tasks the exit number is that of the worst, see [`Exit::worse`].
///
/// # Errors
/// Where a single task is not known or the record cannot be read. A task that fails is no error.
pub async fn run(context: &Context, options: &WatchOptions) -> anyhow::Result<Exit> {
    match options.ids.as_slice() {
        [] if !options.last => {
            let unfinished = lookup::unfinished(context)?;
            if unfinished.is_empty() {
                context.printer.note("no task is unfinished");
            }
            tell_of_unanswered(context)?;
            Ok(several::run(context, unfinished, options).await)
        }
        [] | [_] => {
            let (context, found) = lookup::find(context, options.ids.first().map(String::as_str), options.last)?;
            one(&context, &found, &options.wait, context.progress).await
        }
        ids => {
            let found = ids.iter().map(|id| lookup::find(context, Some(id), false));
            Ok(several::run(context, found.collect(), options).await)
        }
    }
}

/// Watches a single task, which is shown as `call` shows it.
pub(super) async fn one(
    context: &Context,
    found: &Found,
    options: &WaitOptions,
    progress: Progress,
) -> anyhow::Result<Exit> {
    let reporter = Stage::new(&context.printer, progress).reporter(None);
    let route = Route::to(context, found);
    match attach(&route, found, options, options.deadline(), reporter).await {
        Ok((ending, task)) => follow::show(&route.context, &ending, &task, options),
        Err(trouble) => Ok(trouble.show(&context.printer)),
    }
}

/// Calls without an answer are no tasks to be watched, but they must not be forgotten either.
fn tell_of_unanswered(context: &Context) -> anyhow::Result<()> {
    let rows = context.with_record(|record| record.all())?;
    let count = rows.iter().filter(|known| known.is_unanswered() && context.is_on_typed_server(known)).count();
    if count > 0 {
        let calls = text::plural(count, "call");
        context.printer.note(&format!("besides, the answer of {calls} was never seen; `mcp-task list` tells more"));
    }
    Ok(())
}
