//! The demo server in the words of 2025-11-25.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::tasks::{Entry, State, Tasks};
use super::tools::{self, Tool, Work};
use crate::model::rpc_error::codes;
use crate::model::{RawJson, RpcError, TaskStatus};
use crate::rpc::peer::{Handler, RequestReply};
use crate::rpc::{IncomingNotification, IncomingRequest, Peer, RequestId};

const VERSION: &str = "2025-11-25";
/// How often a client should look, in milliseconds.
const POLL_INTERVAL: u64 = 1_000;
/// The key of `_meta` that says which task a message belongs to.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

#[derive(Default)]
pub(super) struct Server {
    tasks: Arc<Tasks>,
    peer: OnceLock<Peer>,
}

impl Server {
    /// Requests that come before this are answered with an error.
    pub(super) fn connect(&self, peer: Peer) {
        let _ = self.peer.set(peer);
    }

    fn dispatch(&self, peer: &Peer, id: &RequestId, method: &str, params: &Value) -> Option<Result<Value, RpcError>> {
        Some(match method {
            "initialize" => Ok(hello()),
            "tools/list" => Ok(json!({"tools": tools::TOOLS.iter().map(describe).collect::<Vec<_>>()})),
            "tools/call" => return self.call(peer, id, params),
            "tasks/list" => Ok(json!({"tasks": self.tasks.all().iter().map(|entry| sight(entry)).collect::<Vec<_>>()})),
            "tasks/get" => self.find(params).map(|entry| sight(&entry)),
            "tasks/cancel" => self.find(params).and_then(|entry| cancel(&entry)),
            "tasks/result" => match self.find(params) {
                Ok(entry) => {
                    tokio::spawn(hand_out(peer.clone(), id.clone(), entry));
                    return None;
                }
                Err(error) => Err(error),
            },
            other => Err(RpcError::new(codes::METHOD_NOT_FOUND, format!("Method not found: {other}"))),
        })
    }

    fn find(&self, params: &Value) -> Result<Arc<Entry>, RpcError> {
        let id = params["taskId"].as_str().unwrap_or_default();
        let unknown = || RpcError::new(codes::INVALID_PARAMS, format!("Failed to find task: {id}"));
        self.tasks.find(id).ok_or_else(unknown)
    }

    fn call(&self, peer: &Peer, id: &RequestId, params: &Value) -> Option<Result<Value, RpcError>> {
        let name = params["name"].as_str().unwrap_or_default();
        let Some(tool) = tools::TOOLS.iter().find(|tool| tool.name == name) else {
            return Some(Err(RpcError::new(codes::INVALID_PARAMS, format!("Unknown tool: {name}"))));
        };
        let arguments = params["arguments"].clone();
        let token = params["_meta"].get("progressToken").cloned();
        let as_task = params.get("task").filter(|task| task.is_object());
        let Some(task) = as_task else {
            let (peer, id) = (peer.clone(), id.clone());
            tokio::spawn(async move {
                let work = Work::new(reporter(peer.clone(), token, None));
                let outcome = tool.run(&work, &arguments).await;
                let _ = peer.respond(&id, &outcome).await;
            });
            return None;
        };
        if tool.task_support == "forbidden" {
            let message = format!("Tool {name} does not support task-augmented execution");
            return Some(Err(RpcError::new(codes::METHOD_NOT_FOUND, message)));
        }
        let entry = self.tasks.create(task["ttl"].as_f64(), tool.opening);
        let reply = json!({"task": sight(&entry)});
        tokio::spawn(carry_out(peer.clone(), tool, arguments, token, entry));
        Some(Ok(reply))
    }
}

impl Handler for Server {
    fn request(&self, request: IncomingRequest) -> RequestReply {
        let params = request.params.as_ref().map_or(Value::Null, RawJson::value);
        let Some(peer) = self.peer.get() else {
            return RequestReply::Now(Err(RpcError::new(codes::INTERNAL_ERROR, "not ready")));
        };
        match self.dispatch(peer, &request.id, &request.method, &params) {
            Some(outcome) => RequestReply::Now(outcome),
            None => RequestReply::Later,
        }
    }

    fn notification(&self, _notification: IncomingNotification) {}

    fn orphan(&self, _error: &RpcError) {}
}

fn hello() -> Value {
    json!({
        "protocolVersion": VERSION,
        "capabilities": {
            "tools": {},
            "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
        },
        "serverInfo": {"name": "mcp-task-demo", "title": "mcp-task demo server", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "Tools that do real work at a human pace, to try a task client on.",
    })
}

fn describe(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": (tool.schema)(),
        "execution": {"taskSupport": tool.task_support},
    })
}

fn sight(entry: &Entry) -> Value {
    let state = entry.state();
    json!({
        "taskId": entry.id,
        "status": state.status.as_str(),
        "statusMessage": state.message,
        "createdAt": entry.created,
        "lastUpdatedAt": state.updated,
        "ttl": crate::model::duration::millis(entry.ttl),
        "pollInterval": POLL_INTERVAL,
    })
}

fn cancel(entry: &Entry) -> Result<Value, RpcError> {
    if entry.update(TaskStatus::Cancelled, "Cancelled by the client.", None) {
        return Ok(sight(entry));
    }
    let status = entry.state().status;
    Err(RpcError::new(
        codes::INVALID_PARAMS,
        format!("Cannot cancel task: already in terminal status '{}'", status.as_str()),
    ))
}

/// Does the work behind a task.
async fn carry_out(peer: Peer, tool: &'static Tool, arguments: Value, token: Option<Value>, entry: Arc<Entry>) {
    let work = Work::new(reporter(peer.clone(), token, Some(Arc::clone(&entry))));
    let outcome = tokio::select! {
        outcome = tool.run(&work, &arguments) => outcome,
        _ = entry.ended() => {
            let _ = peer.notify("notifications/tasks/status", &sight(&entry)).await;
            return;
        }
    };
    let (status, message) = match &outcome {
        Ok(result) if result["isError"] == true => (TaskStatus::Failed, "The tool reports an error.".to_owned()),
        Ok(_) => (TaskStatus::Completed, "Done.".to_owned()),
        Err(error) => (TaskStatus::Failed, error.message.clone()),
    };
    if entry.update(status, &message, Some(outcome)) {
        let _ = peer.notify("notifications/tasks/status", &sight(&entry)).await;
    }
}

/// Answers `tasks/result` once the task has ended.
async fn hand_out(peer: Peer, id: RequestId, entry: Arc<Entry>) {
    let State { status, outcome, .. } = entry.ended().await;
    let outcome = match outcome {
        Some(Ok(mut result)) => {
            result["_meta"][RELATED_TASK] = json!({"taskId": entry.id});
            Ok(result)
        }
        Some(Err(error)) => Err(error),
        None => {
            Err(RpcError::new(codes::INTERNAL_ERROR, format!("Task {} has no result: {}", entry.id, status.as_str())))
        }
    };
    let _ = peer.respond(&id, &outcome).await;
}

/// What the tools tell their progress to.
fn reporter(
    peer: Peer,
    token: Option<Value>,
    entry: Option<Arc<Entry>>,
) -> impl Fn(u64, Option<u64>, &str) + Send + Sync {
    move |progress, total, message| {
        if let Some(entry) = &entry {
            entry.update(TaskStatus::Working, message, None);
        }
        let Some(token) = &token else { return };
        let mut params = json!({"progressToken": token, "progress": progress, "message": message});
        if let Some(total) = total {
            params["total"] = json!(total);
        }
        if let Some(entry) = &entry {
            params["_meta"] = json!({RELATED_TASK: {"taskId": entry.id}});
        }
        peer.tell("notifications/progress", &params);
    }
}
