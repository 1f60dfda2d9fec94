//! `mcp-task watch [ID…]`: attaches to tasks, shows their progress and then their results.

use super::Context;
use super::attach::attach;
use super::follow::{self, WaitOptions};
use super::lookup::{self, Found};
use super::routes::Route;
use crate::model::text;
use crate::present::{Exit, Progress, Stage};
use crate::record::Known;

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
            tell_of_the_rest(context)?;
            Ok(several::run(context, unfinished, options).await)
        }
        [] | [_] => {
            let (context, found) = lookup::find(context, options.ids.first().map(String::as_str), options.last)?;
            one(&context, &found, &options.wait, context.progress).await
        }
        ids => Ok(several::run(context, lookup::find_all(context, ids), options).await),
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

/// What there is nothing to watch about must not be forgotten either.
fn tell_of_the_rest(context: &Context) -> anyhow::Result<()> {
    let rows = context.with_record(|record| record.all())?;
    let count = |is_meant: fn(&Known) -> bool| {
        rows.iter().filter(|known| is_meant(known) && context.is_on_typed_server(known)).count()
    };
    let unanswered = count(Known::is_unanswered);
    if unanswered > 0 {
        let calls = text::plural(unanswered, "call");
        context.printer.note(&format!("besides, the answer of {calls} was never seen; `mcp-task list` tells more"));
    }
    let unfetched = count(Known::is_unfetched);
    if unfetched > 0 {
        let tasks = text::plural(unfetched, "task");
        context.printer.note(&format!(
            "besides, {tasks} ended whose results were not fetched; `mcp-task list` names them, `mcp-task result ID` \
             fetches one"
        ));
    }
    Ok(())
}
