//! The ways to the servers of recorded tasks. Tasks of one session share one connection.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, Shared};

use super::held::{Need, ServerGone};
use super::lookup::Found;
use super::recorder::Recorder;
use super::{Context, server, troubles};
use crate::present::Trouble;
use crate::session::Session;

/// A session that is being opened, for whoever shares it.
type Connecting = Shared<LocalBoxFuture<'static, Result<Rc<Session>, Rc<anyhow::Error>>>>;

/// The way to a server.
#[derive(Clone)]
pub(super) struct Route {
    /// Leads to the server; the same for all who share the way.
    pub(super) context: Context,
    /// Opened when it is first waited for.
    session: Connecting,
}

/// All ways that a command takes.
#[derive(Default)]
pub(super) struct Routes(RefCell<HashMap<Key, Route>>);

/// The server and the session with it.
type Key = (Option<String>, Option<String>);

impl Route {
    fn new(context: &Context, is_known: bool, need: Need) -> Self {
        let going = context.clone();
        let session = async move { open(&going, is_known, need).await.map(Rc::new).map_err(Rc::new) };
        Self { context: context.clone(), session: session.boxed_local().shared() }
    }

    /// The way to one task's server.
    pub(super) fn to(context: &Context, found: &Found) -> Self {
        Self::new(context, found.known.is_some(), Need::Look)
    }

    /// The session with a task's server. Where that is gone, the task is noted as lost with it.
    ///
    /// # Errors
    /// What keeps the server from being talked to.
    pub(super) async fn connect(&self, found: &Found, recorder: &Recorder) -> Result<Rc<Session>, Box<Trouble>> {
        let trouble = |error: &anyhow::Error| Box::new(troubles::of_error(&self.context, error));
        self.session.clone().await.map_err(|error| match found.lost_with_server(&error, recorder) {
            Some(lost) => trouble(&lost.into()),
            None => trouble(&error),
        })
    }
}

impl Routes {
    /// The way to a task's server, where `context` leads.
    pub(super) fn to(&self, context: &Context, found: &Found) -> Route {
        let key = (context.server_name(), context.session_gone_back_to());
        let mut routes = self.0.borrow_mut();
        routes.entry(key).or_insert_with(|| Route::to(context, found)).clone()
    }
}

/// Opens a session with the server of a task, which is known from the record or else the typed server's to know.
///
/// # Errors
/// [`ServerGone`] where the server of a recorded task is no more, and whatever keeps a living one from being talked to.
pub(super) async fn open(context: &Context, is_known: bool, need: Need) -> anyhow::Result<Session> {
    if is_known && context.server_is_child() {
        return Err(ServerGone { why: "it ended with the command that started it".to_owned() }.into());
    }
    server::connect(context, need).await
}
