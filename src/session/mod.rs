//! A conversation with one server, the same whatever era it speaks.
//!
//! This is where the protocol eras end: the floors above ask for tools, tasks and results and never see how they are
//! written on the wire. The shapes of an era are private to its module, `legacy` being the one that opens with
//! `initialize` (2024-11-05 to 2025-11-25).
//!
//! A server may lose its session at any time. Whatever may safely be asked again is then asked once more in a new one,
//! which is opened once however many questions find out together; a tool call is not. A new session is told by
//! [`Session::renewals`], because a task that is not found in it was lost with the old one. Nobody but
//! [`Session::close`] ends a session on the server, and only where no task needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;

use crate::model::{RawJson, Task, TaskId, Tool, ToolResult};
use crate::rpc::{CallError, Connection, InFlight, Peer, RequestHead};

mod desk;
mod error;
mod inbox;
mod legacy;
mod negotiation;
mod pages;
mod profile;
mod question;
mod receiver;
mod wire;

pub use desk::Inquiry;
pub use error::{SessionError, is_unknown_task};
pub use inbox::{Hint, Progress, Remark, Remarks, Subscription};
pub use negotiation::{CallMode, Disagreement, TaskWish};
pub use profile::{Era, Profile, TaskCapability};
pub use question::{Answer, Question, QuestionId, QuestionKind};

use inbox::Inbox;

/// How long a call waits for the stream of unasked messages to open, which questions may depend on.
const LISTEN: Duration = Duration::from_secs(1);

/// How to converse.
#[derive(Clone, Debug, Default)]
pub struct SessionSettings {
    /// How long the handshake may take, which includes starting the server; `None`: for ever.
    pub start_limit: Option<Duration>,
    /// How long any other short request may take; `None`: for ever. It never bounds a tool call or a waiting
    /// `tasks/result`.
    pub request_limit: Option<Duration>,
    /// What the server is told that it may ask for.
    pub abilities: Abilities,
    /// Other processes share the session: what nobody here serves is theirs to answer.
    pub is_shared: bool,
    /// Hears what the server says beside its answers.
    pub remarks: Remarks,
}

/// What a server may ask for beside the answers of a person, which it always may.
#[derive(Clone, Debug, Default)]
pub struct Abilities {
    /// Words of a language model.
    pub sampling: bool,
    /// The folders that it is told of; none: it may not ask.
    pub roots: Vec<Root>,
}

/// A folder that a server may work in. Spec 2025-11-25, client/roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// A `file` address.
    pub uri: String,
    /// What people call it.
    pub name: String,
}

/// What `roots/list` is answered with.
pub fn list_roots(roots: &[Root]) -> Value {
    let roots: Vec<Value> = roots.iter().map(|root| json!({"uri": root.uri, "name": root.name})).collect();
    json!({"roots": roots})
}

/// What a call asks for.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The tool's name.
    pub tool: String,
    /// An object.
    pub arguments: Value,
    /// Plain or as a task, see [`Session::plan_call`].
    pub mode: CallMode,
    /// How long the server shall keep the task, in milliseconds; `None`: as it likes.
    pub ttl: Option<u64>,
}

/// What a call is answered with. Told by the shape of the answer, not by what was asked for.
#[derive(Debug)]
pub enum CallReply {
    /// The result.
    Result(ToolResult),
    /// A task that works on it.
    Task {
        /// Its first sight.
        task: Task,
        /// Words that the server gives a model to go on with (`model-immediate-response`).
        immediate: Option<String>,
    },
}

/// A session. It ends when it is dropped; [`close`](Self::close) also tells the server.
#[derive(Debug)]
pub struct Session {
    peer: Peer,
    inbox: Arc<Inbox>,
    settings: SessionSettings,
    profile: Profile,
    listening: Mutex<Option<oneshot::Receiver<()>>>,
    renewed: AtomicU32,
    /// Whether the server has lost the session and no new one is open yet. Locked during a handshake, so that requests that
    /// lose the session together renew it once, and later ones wait for it.
    handshake_due: Mutex<bool>,
}

impl Session {
    /// Opens a session over `connection`.
    ///
    /// # Errors
    /// Where the server cannot be reached or does not answer in time, and where no protocol version is shared.
    pub async fn open(connection: Connection, settings: SessionSettings) -> Result<Self, SessionError> {
        let inbox = Arc::new(Inbox::new(&settings, settings.is_shared));
        let peer = Peer::start(connection, inbox.clone());
        inbox.receiver().speak_through(peer.downgrade());
        let profile = legacy::open(&peer, &settings).await?;
        Ok(Self::new(peer, inbox, settings, profile))
    }

    /// Goes on with a session that an earlier process opened, whose handshake agreed on `version`. Nothing is sent; where
    /// the server has lost it, the first question finds out and opens a new one.
    pub fn resume(connection: Connection, settings: SessionSettings, version: &str) -> Self {
        // What the server was offered then is not known here, and it asks for nothing else.
        let inbox = Arc::new(Inbox::new(&settings, true));
        let peer = Peer::start(connection, inbox.clone());
        inbox.receiver().speak_through(peer.downgrade());
        peer.negotiated(version);
        if !settings.abilities.roots.is_empty() {
            // The server may know those of an earlier command.
            peer.tell(legacy::ROOTS_CHANGED, &Value::Null);
        }
        Self::new(peer, inbox, settings, Profile::of_old_session(version))
    }

    fn new(peer: Peer, inbox: Arc<Inbox>, settings: SessionSettings, profile: Profile) -> Self {
        let listening = Mutex::new(Some(listen(&peer)));
        let (renewed, handshake_due) = (AtomicU32::new(0), Mutex::new(false));
        Self { peer, inbox, settings, profile, listening, renewed, handshake_due }
    }

    /// What the server is and can do.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Every tool of the server, in its order.
    ///
    /// # Errors
    /// Where a page cannot be had.
    pub async fn tools(&self) -> Result<Vec<Tool>, SessionError> {
        let mut pages = pages::Pages::new(legacy::LIST_TOOLS);
        while let Some(params) = pages.next() {
            let page = self.ask(legacy::LIST_TOOLS, params).await?;
            pages.take(&page, wire::read_tool)?;
        }
        Ok(pages.into_items(|tool| tool.name.clone()))
    }

    /// Decides whether a call goes out plain or as a task. Spec 2025-11-25, basic/utilities/tasks, "Tool-Level
    /// Negotiation".
    ///
    /// # Errors
    /// Where the wish and the server's word cannot both hold.
    pub fn plan_call(&self, name: &str, tool: Option<&Tool>, wish: TaskWish) -> Result<CallMode, Disagreement> {
        negotiation::plan(&self.profile.tasks, name, tool.map(|tool| tool.task_support), wish)
    }

    /// Hears progress and sights of tasks. To be made before the call that they belong to.
    pub fn subscribe(&self) -> Subscription {
        self.inbox.subscribe(self.peer.unique_token())
    }

    /// Calls a tool. The request is sent here, once; it is never sent again, whatever happens.
    pub async fn call(&self, request: &CallRequest, subscription: &Subscription) -> PendingCall {
        if request.mode == CallMode::Task
            && let Some(listening) = self.listening.lock().await.take()
        {
            let _ = timeout(LISTEN, listening).await;
        }
        let params = legacy::call_params(request, subscription.token());
        let in_flight = self.send(legacy::CALL_TOOL, &params);
        PendingCall { in_flight, peer: self.peer.clone() }
    }

    /// A sight of a task.
    ///
    /// # Errors
    /// Where the server does not know it or cannot be asked.
    pub async fn task(&self, id: &TaskId) -> Result<Task, SessionError> {
        let reply = self.ask(legacy::GET_TASK, legacy::task_params(id)).await?;
        wire::read_task(&reply).ok_or_else(|| SessionError::protocol(legacy::GET_TASK, "the answer holds no task"))
    }

    /// A task's result. The question stands until the server answers it, for as long as that takes. Only in eras that ask
    /// for it apart, see [`holds_results`](Self::holds_results).
    ///
    /// # Errors
    /// [`SessionError::Rpc`] is either what the task ended with or a refusal to wait: the caller must tell.
    pub async fn result(&self, id: &TaskId) -> Result<ToolResult, SessionError> {
        let params = legacy::task_params(id);
        let reply = self.ask_within(legacy::TASK_RESULT, &params, None, SessionError::is_session_gone).await?;
        Ok(ToolResult::read(reply))
    }

    /// Whether this era's results are asked for apart from the task, see [`result`](Self::result).
    pub fn holds_results(&self) -> bool {
        match self.profile.era {
            Era::Legacy => true,
        }
    }

    /// How often the server has lost the session and a new one was opened.
    pub fn renewals(&self) -> u32 {
        self.renewed.load(Ordering::Relaxed)
    }

    /// Asks for a task's cancellation. The sight of the task that comes back, if one does.
    ///
    /// # Errors
    /// Where the server refuses or cannot be asked.
    pub async fn cancel(&self, id: &TaskId) -> Result<Option<Task>, SessionError> {
        let reply = self.ask(legacy::CANCEL_TASK, legacy::task_params(id)).await?;
        Ok(wire::read_task(&reply))
    }

    /// Every task that the server lists; `None` where it has no list.
    ///
    /// # Errors
    /// Where a page cannot be had.
    pub async fn tasks(&self) -> Result<Option<Vec<Task>>, SessionError> {
        if !self.profile.tasks.list {
            return Ok(None);
        }
        let mut pages = pages::Pages::new(legacy::LIST_TASKS);
        while let Some(params) = pages.next() {
            match self.ask(legacy::LIST_TASKS, params).await {
                Ok(page) => pages.take(&page, wire::read_task)?,
                Err(error) if error.is_method_not_found() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(pages.into_items(|task| task.id.as_str().to_owned())))
    }

    /// The questions of the server that nobody has answered.
    pub fn open_questions(&self) -> Vec<Question> {
        self.inbox.desk().questions()
    }

    /// A question that an earlier process was asked is still open. Where the server puts it anew, that counts.
    pub fn reopen(&self, question: Question) {
        self.inbox.desk().put_old(question);
    }

    /// Answers a question, once: it is not put to anybody here again, whatever becomes of the answer.
    ///
    /// # Errors
    /// Where the answer could not be delivered.
    pub async fn answer(&self, inquiry: Inquiry, answer: &Answer) -> Result<(), SessionError> {
        let question = inquiry.question().clone();
        // Before the answer is on its way, as what it leads to may be here before its receipt.
        inquiry.settle();
        self.answer_recorded(&question, answer).await
    }

    /// What a refused call needs first: addresses to be opened (spec 2025-11-25, client/elicitation, "URL Elicitation Required
    /// Error"). Empty where it needs nothing of the kind.
    pub fn needed_first(&self, error: &SessionError) -> Vec<Question> {
        let needed = error.rpc().map(question::needed_first).unwrap_or_default();
        for question in &needed {
            if let QuestionKind::Url { elicitation, .. } = &question.kind {
                self.inbox.desk().expect(elicitation);
            }
        }
        needed
    }

    /// Waits until the server says that all this is complete, which it may never do.
    pub async fn completed(&self, questions: &[Question]) {
        for question in questions {
            if let QuestionKind::Url { elicitation, .. } = &question.kind {
                self.inbox.desk().completed(elicitation).await;
            }
        }
    }

    /// A question was answered elsewhere.
    pub fn forget(&self, inquiry: Inquiry) {
        inquiry.settle();
    }

    /// Answers a question that an earlier process was asked, which works as long as the server waits for it.
    ///
    /// # Errors
    /// Where the answer could not be delivered.
    pub async fn answer_recorded(&self, question: &Question, answer: &Answer) -> Result<(), SessionError> {
        let response = question.response(answer);
        if let Some(task) = &question.as_task {
            self.inbox.receiver().finish(task, response);
            return Ok(());
        }
        let delivery = self.peer.respond(&question.id.0, &response);
        match self.settings.request_limit {
            None => delivery.await.map_err(SessionError::Connection),
            Some(limit) => match timeout(limit, delivery).await {
                Ok(delivered) => delivered.map_err(SessionError::Connection),
                Err(_) => Err(SessionError::TimedOut { method: question.method, limit }),
            },
        }
    }

    /// Ends the session on the server's side too, unless `keep`: tasks may live and die with it.
    pub async fn close(&self, keep: bool) {
        if !keep {
            self.peer.end_session().await;
        }
    }

    fn send(&self, method: &str, params: &Value) -> InFlight {
        self.peer.request(params, RequestHead { method: method.to_owned(), ..RequestHead::default() })
    }

    /// Asks a question that may safely be asked again. Where the server has lost the session, a new one is opened and the
    /// question repeated, once.
    async fn ask(&self, method: &'static str, params: Value) -> Result<RawJson, SessionError> {
        self.ask_within(method, &params, self.settings.request_limit, SessionError::is_session_spoilt).await
    }

    async fn ask_within(
        &self,
        method: &'static str,
        params: &Value,
        limit: Option<Duration>,
        is_lost: fn(&SessionError) -> bool,
    ) -> Result<RawJson, SessionError> {
        let seen = self.ready().await?;
        match self.ask_once(method, params, limit).await {
            Err(error) if is_lost(&error) => {
                self.renew(seen).await?;
                self.ask_once(method, params, limit).await
            }
            outcome => outcome,
        }
    }

    async fn ask_once(
        &self,
        method: &'static str,
        params: &Value,
        limit: Option<Duration>,
    ) -> Result<RawJson, SessionError> {
        let in_flight = self.send(method, params);
        let reply = match limit {
            None => in_flight.await,
            Some(limit) => match timeout(limit, in_flight).await {
                Ok(reply) => reply,
                Err(_) => return Err(SessionError::TimedOut { method, limit }),
            },
        };
        reply.map_err(|error| SessionError::of(method, error))
    }

    /// Waits for a handshake that is under way and makes up for one that has failed. How many there were.
    async fn ready(&self) -> Result<u32, SessionError> {
        let mut due = self.handshake_due.lock().await;
        self.shake_hands(&mut due).await?;
        Ok(self.renewals())
    }

    /// Opens a new session on the server, unless somebody else did so since `seen` renewals.
    async fn renew(&self, seen: u32) -> Result<(), SessionError> {
        let mut due = self.handshake_due.lock().await;
        *due |= self.renewals() == seen;
        self.shake_hands(&mut due).await
    }

    async fn shake_hands(&self, due: &mut bool) -> Result<(), SessionError> {
        if *due {
            legacy::open(&self.peer, &self.settings).await?;
            *due = false;
            self.inbox.desk().clear();
            *self.listening.lock().await = Some(listen(&self.peer));
            self.renewed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Opens the stream of unasked messages without waiting for it.
fn listen(peer: &Peer) -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    let opened = peer.listen();
    tokio::spawn(async move {
        opened.await;
        let _ = sender.send(());
    });
    receiver
}

/// A tool call that was sent.
#[derive(Debug)]
pub struct PendingCall {
    in_flight: InFlight,
    peer: Peer,
}

impl PendingCall {
    /// Waits for the answer. May be dropped and called again.
    ///
    /// # Errors
    /// Where the server answers with an error, not at all, or with something that is neither a result nor a task.
    pub async fn reply(&mut self) -> Result<CallReply, SessionError> {
        match (&mut self.in_flight).await {
            Ok(reply) => legacy::read_call_reply(reply),
            Err(error) => Err(SessionError::of(legacy::CALL_TOOL, error)),
        }
    }

    /// Tells the server that nobody waits any more. It may work on regardless, and its answer may still come.
    pub async fn cancel(&self, reason: &str) {
        let params = legacy::cancelled_params(self.in_flight.id(), reason);
        let _ = self.peer.notify(legacy::CANCELLED, &params).await;
    }
}

impl SessionError {
    fn of(method: &'static str, error: CallError) -> Self {
        match error {
            CallError::Rpc(error) => Self::Rpc { method, error },
            CallError::Connection(error) => Self::Connection(error),
        }
    }
}

#[cfg(test)]
mod tests;

/// Reads a task as the wire has it.
#[cfg(test)]
pub(crate) fn read_task_for_tests(value: &Value) -> Task {
    wire::read_task(&RawJson::from_value(value)).expect("a task")
}
