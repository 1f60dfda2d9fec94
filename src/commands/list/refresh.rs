//! Asks the servers of recorded tasks how these stand, all servers at once and none for long.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, FuturesUnordered};

use crate::commands::held::{Need, ServerGone};
use crate::commands::lookup::Found;
use crate::commands::recorder::Recorder;
use crate::commands::{Context, candidates, credentials, routes, troubles};
use crate::model::{Task, TaskId, duration, text};
use crate::present::Trouble;
use crate::record::{Known, RowId};
use crate::session::{Session, SessionError};

/// How long a server may take that was not named.
const LIMIT: Duration = Duration::from_secs(3);
/// How much of that its list may take, so that there is time for the tasks themselves.
const LIST_LIMIT: Duration = Duration::from_millis(1500);
/// How many questions about single tasks a server has at a time.
const AT_ONCE: usize = 16;

/// What the servers said.
#[derive(Default)]
pub(super) struct News {
    /// Recorded tasks as they stand now.
    pub(super) sights: HashMap<RowId, Task>,
    /// Tasks of the typed server that are not recorded.
    pub(super) others: Vec<Task>,
    /// Tasks that calls without an answer may have started.
    pub(super) candidates: HashMap<RowId, Vec<Task>>,
    /// Why the typed server could not be asked.
    pub(super) trouble: Option<Box<Trouble>>,
}

/// One session with a server, and what is recorded of it that may have changed.
struct Visit {
    context: Context,
    /// It is the one that was typed, and not one that the record leads to.
    is_typed: bool,
    rows: Vec<Known>,
}

/// Asks. What comes of it is recorded, too.
pub(super) async fn refresh(context: &Context, rows: &[Known]) -> News {
    let news = RefCell::new(News::default());
    let mut visits: FuturesUnordered<_> = visits(context, rows).into_iter().map(|visit| visit.make(&news)).collect();
    while visits.next().await.is_some() {}
    drop(visits);
    news.into_inner()
}

/// The sessions to visit: that of the typed server, and those of recorded tasks that may have gone on.
fn visits(context: &Context, rows: &[Known]) -> Vec<Visit> {
    let mut visits: HashMap<(Option<String>, Option<String>), Visit> = HashMap::new();
    if context.server_was_typed {
        let visit = Visit { context: context.clone(), is_typed: true, rows: Vec::new() };
        visits.insert((context.server_name(), None), visit);
    }
    for known in rows.iter().filter(|known| known.is_live() || known.is_unanswered()) {
        // A name that means no server any more is told by whoever needs it.
        let Ok(way) = context.going_back_to(known) else { continue };
        // What ends with the command that started it is that command's alone to ask.
        if way.server_is_child() {
            continue;
        }
        let key = (way.server_name(), way.session_gone_back_to());
        let new = || Visit { context: way, is_typed: false, rows: Vec::new() };
        visits.entry(key).or_insert_with(new).rows.push(known.clone());
    }
    let mut visits: Vec<Visit> = visits.into_values().collect();
    credentials::keep_for_one(context, visits.iter_mut().map(|visit| &mut visit.context));
    visits
}

impl Visit {
    async fn make(self, news: &RefCell<News>) {
        let asking = self.ask(news);
        let asked = if self.is_typed { Ok(asking.await) } else { tokio::time::timeout(LIMIT, asking).await };
        let server = || text::line(&self.context.server_name().unwrap_or_default()).into_owned();
        match asked {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.could_not(&error, news),
            Err(_) => {
                let limit = duration::human(LIMIT);
                let note = format!("{} did not answer within {limit}; its tasks are shown as last seen", server());
                self.context.printer.note(&note);
            }
        }
    }

    /// The server could not be asked.
    fn could_not(&self, error: &anyhow::Error, news: &RefCell<News>) {
        let mut is_gone = error.is::<ServerGone>();
        for known in &self.rows {
            let (found, recorder) = (found(known), self.recorder(known));
            is_gone |= known.is_live() && found.is_some_and(|found| found.lost_with_server(error, &recorder).is_some());
        }
        if is_gone {
            // A server that does not run has nothing to tell, and none is started for this.
            return;
        }
        let trouble = Box::new(troubles::of_error(&self.context, error));
        if self.is_typed {
            news.borrow_mut().trouble = Some(trouble);
        } else {
            let note = format!("{}; its tasks are shown as last seen", trouble.message);
            self.context.printer.note(&note);
        }
    }

    async fn ask(&self, news: &RefCell<News>) -> anyhow::Result<()> {
        let session = routes::open(&self.context, !self.is_typed, Need::Living).await?;
        let listed = self.listed(&session).await?;
        let mut tasks: HashMap<TaskId, Task> =
            listed.iter().flatten().map(|task| (task.id.clone(), task.clone())).collect();
        let mut missing = Vec::new();
        for known in &self.rows {
            match known.task.as_ref().map(|id| (id, tasks.remove(id))) {
                Some((_, Some(task))) => self.seen(known, task, news),
                Some((id, None)) => missing.push((known, id)),
                None => {}
            }
        }
        // A list may leave some out, so that only the server's word about the task itself counts.
        let singles = stream::iter(missing).map(|(known, id)| self.look(&session, known, id, news));
        singles.buffer_unordered(AT_ONCE).for_each(async |()| {}).await;
        self.offer(listed.unwrap_or_default(), news);
        let keep = !self.is_typed
            || tasks.values().any(|task| !task.status.is_terminal())
            || self.rows.iter().any(Known::is_live);
        if self.is_typed {
            news.borrow_mut().others = tasks.into_values().collect();
        }
        session.close(keep).await;
        Ok(())
    }

    /// What the server lists, if anything. Where it lists nothing in time or refuses to, its tasks can still be asked about one by
    /// one.
    async fn listed(&self, session: &Session) -> Result<Option<Vec<Task>>, SessionError> {
        if self.is_typed {
            return session.tasks().await;
        }
        match tokio::time::timeout(LIST_LIMIT, session.tasks()).await {
            Ok(Err(error)) if error.connection().is_some() => Err(error),
            Ok(Ok(listed)) => Ok(listed),
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }

    async fn look(&self, session: &Session, known: &Known, id: &TaskId, news: &RefCell<News>) {
        match session.task(id).await {
            Ok(task) => self.seen(known, task, news),
            Err(error) => self.recorder(known).refused(&error, session.renewals() > 0),
        }
    }

    fn seen(&self, known: &Known, task: Task, news: &RefCell<News>) {
        self.recorder(known).seen(&task);
        news.borrow_mut().sights.insert(known.row, task);
    }

    /// Offers tasks to the calls that never saw an answer.
    fn offer(&self, listed: Vec<Task>, news: &RefCell<News>) {
        let unanswered: Vec<&Known> = self.rows.iter().filter(|known| known.is_unanswered()).collect();
        if unanswered.is_empty() {
            return;
        }
        let candidates = candidates::among(&self.context, listed);
        for known in unanswered.into_iter().filter(|_| !candidates.is_empty()) {
            Recorder::of_lost_call(&self.context, known.row).candidates(candidates.iter().map(|task| &task.id));
            news.borrow_mut().candidates.insert(known.row, candidates.clone());
        }
    }

    fn recorder(&self, known: &Known) -> Recorder {
        Recorder::of_known(&self.context, Some(known.row))
    }
}

fn found(known: &Known) -> Option<Found> {
    Some(Found { id: known.task.clone()?, known: Some(known.clone()), lost_call: None })
}
