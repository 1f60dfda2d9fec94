//! Tasks that a server has this client run: questions that it does not wait for, but follows.
//! Spec 2025-11-25, basic/utilities/tasks, with the client as the receiver.
//!
//! A question that comes with `task` is answered with a task at once, and its answer kept until the server fetches it. Such a
//! task is `working` while a person thinks or a program runs: `input_required` would mean that the server must tell us more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::desk::Desk;
use super::question::{Question, QuestionId};
use super::wire;
use crate::model::rpc_error::codes;
use crate::model::{RpcError, TaskId, TaskStatus};
use crate::rpc::peer::{RequestReply, WeakPeer};
use crate::rpc::{IncomingRequest, RequestId};

/// How long a task is kept where the server does not say, and at most.
const TTL: Duration = Duration::from_secs(3_600);
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3_600);
/// How often the server shall look, in milliseconds.
const POLL_INTERVAL: u64 = 500;
/// How many tasks a page has.
const PAGE: usize = 50;
const STATUS: &str = "notifications/tasks/status";

/// See above. Copies share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Receiver(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    tasks: HashMap<TaskId, Received>,
    /// In the order in which they came.
    order: Vec<TaskId>,
    peer: WeakPeer,
}

#[derive(Debug)]
struct Received {
    question: QuestionId,
    status: TaskStatus,
    message: &'static str,
    created_at: String,
    updated_at: String,
    ttl: Duration,
    outcome: Option<Result<Value, RpcError>>,
    /// Those that wait for the outcome.
    waiting: Vec<RequestId>,
}

impl Received {
    fn to_json(&self, id: &TaskId) -> Value {
        json!({
            "taskId": id.as_str(),
            "status": self.status.as_str(),
            "statusMessage": self.message,
            "createdAt": self.created_at,
            "lastUpdatedAt": self.updated_at,
            "ttl": crate::model::duration::millis(self.ttl),
            "pollInterval": POLL_INTERVAL,
        })
    }

    fn turn(&mut self, status: TaskStatus, message: &'static str, outcome: Result<Value, RpcError>) {
        self.status = status;
        self.message = message;
        self.updated_at = now();
        self.outcome = Some(outcome);
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

impl Receiver {
    /// How to reach the server.
    pub(super) fn speak_through(&self, peer: WeakPeer) {
        self.lock().peer = peer;
    }

    /// Makes a task of a question, if that is asked for, and tells the server. Done when somebody takes the question on: it is
    /// that process's task from there on.
    pub(super) fn take(&self, question: &mut Question, desk: &Desk) {
        let params = question.params.value();
        let Some(wish) = params.get("task").filter(|task| task.is_object()) else { return };
        let millis = wish.get("ttl").and_then(Value::as_f64).filter(|millis| *millis >= 0.0);
        let ttl = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1_000.0).ok());
        let ttl = ttl.unwrap_or(TTL).min(LONGEST_TTL);
        let random = getrandom::u64().unwrap_or_default();
        let mut state = self.lock();
        let id = TaskId::new(format!("mt-{random:016x}-{}", state.order.len()));
        let task = Received {
            question: question.id.clone(),
            status: TaskStatus::Working,
            message: "The question is being answered.",
            created_at: now(),
            updated_at: now(),
            ttl,
            outcome: None,
            waiting: Vec::new(),
        };
        let created = json!({"task": task.to_json(&id)});
        state.order.push(id.clone());
        state.tasks.insert(id.clone(), task);
        state.respond(&question.id.0, &Ok(created));
        drop(state);
        tokio::spawn({
            let (receiver, desk, id) = (self.clone(), desk.clone(), id.clone());
            async move {
                tokio::time::sleep(ttl).await;
                receiver.expire(&id, &desk);
            }
        });
        question.as_task = Some(id);
    }

    /// The question behind a task was answered.
    pub(super) fn finish(&self, id: &TaskId, outcome: Result<Value, RpcError>) {
        let mut state = self.lock();
        let Some(task) = state.tasks.get_mut(id).filter(|task| !task.status.is_terminal()) else { return };
        match outcome {
            Ok(result) => task.turn(TaskStatus::Completed, "Answered.", Ok(result)),
            Err(error) => task.turn(TaskStatus::Failed, "Not answered.", Err(error)),
        }
        state.tell(id);
    }

    /// Its time is over, and with it its question.
    fn expire(&self, id: &TaskId, desk: &Desk) {
        let mut state = self.lock();
        state.order.retain(|one| one != id);
        let Some(task) = state.tasks.remove(id) else { return };
        for waiting in &task.waiting {
            state.respond(waiting, &Err(unknown()));
        }
        drop(state);
        if !task.status.is_terminal() {
            desk.withdraw(&task.question);
        }
    }

    /// Serves what the server asks about its tasks; `None` for anything else.
    pub(super) fn serve(&self, request: &IncomingRequest, desk: &Desk) -> Option<RequestReply> {
        let params = request.params.as_ref().map_or(Value::Null, |params| params.value());
        let id = || TaskId::new(params.get("taskId").and_then(Value::as_str).unwrap_or_default());
        let mut state = self.lock();
        let reply = match request.method.as_str() {
            "tasks/get" => state.tasks.get(&id()).map(|task| task.to_json(&id())).ok_or_else(unknown),
            "tasks/list" => state.page(params.get("cursor")),
            "tasks/cancel" => state.cancel(&id(), desk),
            "tasks/result" => match state.tasks.get_mut(&id()) {
                None => Err(unknown()),
                Some(Received { outcome: Some(outcome), .. }) => of_task(outcome, &id()),
                Some(task) => {
                    task.waiting.push(request.id.clone());
                    return Some(RequestReply::Later);
                }
            },
            _ => return None,
        };
        Some(RequestReply::Now(reply))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn page(&self, cursor: Option<&Value>) -> Result<Value, RpcError> {
        let from = match cursor {
            None | Some(Value::Null) => 0,
            Some(cursor) => {
                let known = cursor.as_str().and_then(|cursor| self.order.iter().position(|id| id.as_str() == cursor));
                known.ok_or_else(|| RpcError::new(codes::INVALID_PARAMS, "no such cursor"))?
            }
        };
        let shown = self.order.iter().skip(from).take(PAGE);
        let tasks: Vec<Value> = shown.filter_map(|id| Some(self.tasks.get(id)?.to_json(id))).collect();
        let mut page = json!({"tasks": tasks});
        if let Some(next) = self.order.get(from + PAGE) {
            page["nextCursor"] = json!(next.as_str());
        }
        Ok(page)
    }

    fn cancel(&mut self, id: &TaskId, desk: &Desk) -> Result<Value, RpcError> {
        let task = self.tasks.get_mut(id).ok_or_else(unknown)?;
        if task.status.is_terminal() {
            let message = format!("Cannot cancel task: it has ended as {}", task.status.as_str());
            return Err(RpcError::new(codes::INVALID_PARAMS, message));
        }
        let error = RpcError::new(codes::INTERNAL_ERROR, "The task was cancelled");
        task.turn(TaskStatus::Cancelled, "Cancelled.", Err(error));
        desk.withdraw(&task.question);
        let sight = task.to_json(id);
        self.tell(id);
        Ok(sight)
    }

    /// Tells of a task's end, and those that wait what came of it.
    fn tell(&mut self, id: &TaskId) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        let waiting = std::mem::take(&mut task.waiting);
        let sight = task.to_json(id);
        let outcome = task.outcome.clone().unwrap_or_else(|| Err(unknown()));
        let outcome = of_task(&outcome, id);
        if let Some(peer) = self.peer.upgrade() {
            peer.tell(STATUS, &sight);
        }
        for request in &waiting {
            self.respond(request, &outcome);
        }
    }

    fn respond(&self, request: &RequestId, outcome: &Result<Value, RpcError>) {
        if let Some(peer) = self.peer.upgrade() {
            peer.tell_response(request, outcome);
        }
    }
}

fn unknown() -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, "Task not found")
}

/// The outcome as `tasks/result` hands it out: it names the task.
fn of_task(outcome: &Result<Value, RpcError>, id: &TaskId) -> Result<Value, RpcError> {
    let mut result = outcome.clone()?;
    wire::relate(&mut result, id);
    Ok(result)
}
