//! What a server says unasked: progress, sights of tasks, log lines, and requests.
//!
//! Called from the reading loop, so nothing here waits: what comes is sorted into bounded queues, and who follows a task
//! is woken. A notification is a hint and may be lost without harm, so a full queue drops its oldest.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

use super::desk::{Desk, Inquiry};
use super::question::{Question, QuestionId, QuestionKind, SAMPLE};
use super::receiver::Receiver;
use super::{Abilities, SessionSettings, legacy, list_roots, wire};
use crate::model::rpc_error::codes;
use crate::model::{RawJson, RpcError, Task, TaskId};
use crate::rpc::peer::{Handler, RequestReply, method_not_found};
use crate::rpc::{IncomingNotification, IncomingRequest, RequestId};

/// Hints kept for one subscription.
const QUEUE: usize = 1_024;
/// Sights kept of tasks that nobody follows yet: a notification may come before the answer that names the task.
const EARLY: usize = 64;

/// How far a request has come. Spec 2025-11-25, basic/utilities/progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Any number at all; servers send negative ones and go backwards.
    pub progress: f64,
    /// What `progress` will be at the end, if known.
    pub total: Option<f64>,
    /// The server's words; not yet escaped.
    pub message: Option<String>,
    /// The notification's parameters as the server wrote them.
    pub raw: Value,
}

/// Something heard about a call or its task.
#[derive(Clone, Debug)]
pub enum Hint {
    /// Progress.
    Progress(Progress),
    /// A sight of the task.
    Task(Task),
}

/// Something that a server said which belongs to no call. Not yet escaped.
#[derive(Clone, Debug)]
pub enum Remark {
    /// A log message.
    Log {
        /// `info`, `warning`, …
        level: String,
        /// Who logs, if given.
        logger: Option<String>,
        /// The message, or JSON.
        text: String,
    },
    /// A question, which waits for whoever follows its task.
    Asked(Question),
    /// What a person was to do at an address is done.
    Completed,
    /// A request that this client did not offer to serve; it was refused.
    Refused {
        /// What was asked for.
        method: String,
    },
    /// An error that answers no request of ours.
    Orphan(RpcError),
}

type RemarkFunction = dyn Fn(Remark) + Send + Sync;

/// Where remarks go. The function is called from the reading loop and must not wait.
#[derive(Clone, Default)]
pub struct Remarks(Option<Arc<RemarkFunction>>);

impl Remarks {
    /// Remarks go to `function`.
    pub fn new(function: impl Fn(Remark) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }

    fn tell(&self, remark: Remark) {
        if let Some(function) = &self.0 {
            function(remark);
        }
    }
}

impl fmt::Debug for Remarks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Remarks(on)" } else { "Remarks(off)" })
    }
}

#[derive(Debug)]
pub(super) struct Inbox {
    state: Arc<Mutex<State>>,
    desk: Desk,
    receiver: Receiver,
    abilities: Abilities,
    is_shared: bool,
    remarks: Remarks,
}

#[derive(Debug, Default)]
struct State {
    /// By progress token.
    queues: HashMap<String, Queue>,
    early: VecDeque<Task>,
}

#[derive(Debug, Default)]
struct Queue {
    task: Option<TaskId>,
    hints: VecDeque<Hint>,
    wake: Arc<Notify>,
}

impl Queue {
    fn push(&mut self, hint: Hint) {
        if self.hints.len() == QUEUE {
            self.hints.pop_front();
        }
        self.hints.push_back(hint);
        self.wake.notify_one();
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    /// `is_shared` is whether what is not served here may be somebody else's to serve.
    pub(super) fn new(settings: &SessionSettings, is_shared: bool) -> Self {
        let (abilities, remarks) = (settings.abilities.clone(), settings.remarks.clone());
        Self {
            state: Arc::default(),
            desk: Desk::default(),
            receiver: Receiver::default(),
            abilities,
            is_shared,
            remarks,
        }
    }

    /// The tasks that this client runs for the server.
    pub(super) fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// The questions that nobody has answered.
    pub(super) fn desk(&self) -> &Desk {
        &self.desk
    }

    pub(super) fn subscribe(&self, token: String) -> Subscription {
        let queue = Queue::default();
        let wake = Arc::clone(&queue.wake);
        lock(&self.state).queues.insert(token.clone(), queue);
        Subscription {
            token,
            wake,
            desk: self.desk.clone(),
            receiver: self.receiver.clone(),
            state: Arc::clone(&self.state),
        }
    }

    fn progress(&self, params: &Value) {
        let Some(progress) = params.get("progress").and_then(Value::as_f64) else { return };
        let hint = Hint::Progress(Progress {
            progress,
            total: params.get("total").and_then(Value::as_f64),
            message: params.get("message").and_then(Value::as_str).map(str::to_owned),
            raw: params.clone(),
        });
        let token = params.get("progressToken").and_then(Value::as_str);
        let related = wire::related_task(params);
        let mut state = lock(&self.state);
        if let Some(queue) = token.and_then(|token| state.queues.get_mut(token)) {
            queue.push(hint);
        } else if let Some(id) = related {
            // The token was given by an earlier process; the task says whose progress it is.
            for queue in state.queues.values_mut().filter(|queue| queue.task.as_ref() == Some(&id)) {
                queue.push(hint.clone());
            }
        }
    }

    fn task(&self, task: Task) {
        let mut state = lock(&self.state);
        let mut followed = false;
        for queue in state.queues.values_mut().filter(|queue| queue.task.as_ref() == Some(&task.id)) {
            queue.push(Hint::Task(task.clone()));
            followed = true;
        }
        if !followed {
            if state.early.len() == EARLY {
                state.early.pop_front();
            }
            state.early.push_back(task);
        }
    }

    fn log(&self, params: &Value) {
        let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
        let data = params.get("data").cloned().unwrap_or_default();
        self.remarks.tell(Remark::Log {
            level: text("level").unwrap_or_else(|| "info".to_owned()),
            logger: text("logger"),
            text: data.as_str().map_or_else(|| data.to_string(), str::to_owned),
        });
    }
}

impl Handler for Inbox {
    fn request(&self, request: IncomingRequest) -> RequestReply {
        let refuse = || {
            self.remarks.tell(Remark::Refused { method: request.method.clone() });
            method_not_found(&request.method)
        };
        if request.method == SAMPLE && !self.abilities.sampling && !self.is_shared {
            return refuse();
        }
        if request.method == legacy::LIST_ROOTS && !self.abilities.roots.is_empty() {
            return RequestReply::Now(Ok(list_roots(&self.abilities.roots)));
        }
        match Question::read(&request) {
            Some(Ok(question)) => {
                if let QuestionKind::Url { elicitation, .. } = &question.kind {
                    self.desk.expect(elicitation);
                }
                if !self.desk.put(question.clone()) {
                    let error = RpcError::new(codes::INTERNAL_ERROR, "too many questions are open");
                    return RequestReply::Now(Err(error));
                }
                self.remarks.tell(Remark::Asked(question));
                RequestReply::Later
            }
            Some(Err(error)) => RequestReply::Now(Err(error)),
            None => self.receiver.serve(&request, &self.desk).unwrap_or_else(refuse),
        }
    }

    fn notification(&self, notification: IncomingNotification) {
        let params = notification.params.as_ref().map_or(Value::Null, RawJson::value);
        match notification.method.as_str() {
            "notifications/progress" => self.progress(&params),
            "notifications/tasks/status" => {
                if let Some(task) = notification.params.as_ref().and_then(wire::read_task) {
                    self.task(task);
                }
            }
            "notifications/message" => self.log(&params),
            "notifications/elicitation/complete" => {
                let id = params.get("elicitationId").and_then(Value::as_str).unwrap_or_default();
                if self.desk.complete(id) {
                    self.remarks.tell(Remark::Completed);
                }
            }
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId").and_then(RequestId::read) {
                    self.desk.withdraw(&QuestionId(id));
                }
            }
            _ => {}
        }
    }

    fn orphan(&self, error: &RpcError) {
        self.remarks.tell(Remark::Orphan(error.clone()));
    }
}

/// Hears what belongs to one call and, once it is named, its task. Dropping it ends that.
#[derive(Debug)]
pub struct Subscription {
    token: String,
    wake: Arc<Notify>,
    desk: Desk,
    receiver: Receiver,
    state: Arc<Mutex<State>>,
}

impl Subscription {
    /// The progress token of the call.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// From now on hears of this task too, what was said of it before included.
    pub fn follow(&self, id: &TaskId) {
        let mut state = lock(&self.state);
        let (of_it, rest): (Vec<Task>, Vec<Task>) = state.early.drain(..).partition(|task| task.id == *id);
        state.early = rest.into();
        if let Some(queue) = state.queues.get_mut(&self.token) {
            queue.task = Some(id.clone());
            for task in of_it {
                queue.push(Hint::Task(task));
            }
        }
        drop(state);
        self.desk.look_again();
    }

    /// Waits for the next question that is asked for this call or task.
    pub async fn question(&self) -> Inquiry {
        let task = || lock(&self.state).queues.get(&self.token).and_then(|queue| queue.task.clone());
        let mut inquiry = self.desk.take(task).await;
        inquiry.accept(&self.receiver);
        inquiry
    }

    /// Waits for the next hint.
    pub async fn next(&self) -> Hint {
        loop {
            match self.try_next() {
                Some(hint) => return hint,
                None => self.wake.notified().await,
            }
        }
    }

    /// The next hint, if one is there.
    pub fn try_next(&self) -> Option<Hint> {
        lock(&self.state).queues.get_mut(&self.token)?.hints.pop_front()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        lock(&self.state).queues.remove(&self.token);
    }
}
