//! The eras that open with `initialize`. Spec 2025-11-25: basic/lifecycle, server/tools, basic/utilities/tasks.
//!
//! Pure shapes, but for the handshake. Nothing outside `session` can name them.

use serde_json::{Value, json};
use tokio::time::timeout;

use super::error::SessionError;
use super::negotiation::CallMode;
use super::profile::{Era, Profile, TaskCapability};
use super::{Abilities, CallReply, CallRequest, SessionSettings, wire};
use crate::model::{RawJson, TaskId, ToolResult, text};
use crate::rpc::{Peer, RequestHead, RequestId};

pub(super) const INITIALIZE: &str = "initialize";
pub(super) const LIST_TOOLS: &str = "tools/list";
pub(super) const CALL_TOOL: &str = "tools/call";
pub(super) const GET_TASK: &str = "tasks/get";
pub(super) const TASK_RESULT: &str = "tasks/result";
pub(super) const LIST_TASKS: &str = "tasks/list";
pub(super) const CANCEL_TASK: &str = "tasks/cancel";
pub(super) const LIST_ROOTS: &str = "roots/list";
pub(super) const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
pub(super) const CANCELLED: &str = "notifications/cancelled";
const INITIALIZED: &str = "notifications/initialized";

/// Newest first; the first is the one asked for.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The handshake. Spec 2025-11-25, basic/lifecycle, "Initialization".
pub(super) async fn open(peer: &Peer, settings: &SessionSettings) -> Result<Profile, SessionError> {
    let limit = settings.start_limit;
    let params = json!({
        "protocolVersion": VERSIONS[0],
        "capabilities": capabilities(&settings.abilities),
        "clientInfo": {"name": "mcp-task", "title": "mcp-task", "version": env!("CARGO_PKG_VERSION")},
    });
    let shake = async {
        let head = RequestHead { method: INITIALIZE.to_owned(), ..RequestHead::default() };
        let reply = peer.request(&params, head).await.map_err(|error| SessionError::of(INITIALIZE, error))?;
        let profile = read_profile(&reply)?;
        peer.negotiated(&profile.version);
        peer.notify(INITIALIZED, &Value::Null).await.map_err(SessionError::Connection)?;
        Ok(profile)
    };
    match limit {
        None => shake.await,
        Some(limit) => match timeout(limit, shake).await {
            Ok(outcome) => outcome,
            Err(_) => Err(SessionError::TimedOut { method: INITIALIZE, limit }),
        },
    }
}

/// Spec 2025-11-25, basic/lifecycle, "Capability Negotiation".
fn capabilities(abilities: &Abilities) -> Value {
    let mut capabilities = json!({"elicitation": {"form": {}, "url": {}}});
    if abilities.sampling {
        capabilities["sampling"] = json!({});
    }
    let mut requests = json!({"elicitation": {"create": {}}});
    if abilities.sampling {
        requests["sampling"] = json!({"createMessage": {}});
    }
    capabilities["tasks"] = json!({"list": {}, "cancel": {}, "requests": requests});
    if !abilities.roots.is_empty() {
        capabilities["roots"] = json!({"listChanged": true});
    }
    capabilities
}

fn read_profile(reply: &RawJson) -> Result<Profile, SessionError> {
    let value = reply.value();
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let version = text("/protocolVersion");
    if version.is_empty() {
        return Err(SessionError::protocol(INITIALIZE, "it has no `protocolVersion`"));
    }
    if !VERSIONS.contains(&version.as_str()) {
        return Err(SessionError::NoCommonVersion { ours: VERSIONS.join(", "), theirs: version });
    }
    let has = |pointer: &str| value.pointer(pointer).is_some_and(|declared| !declared.is_null() && declared != false);
    Ok(Profile {
        era: Era::Legacy,
        version,
        server_name: text("/serverInfo/name"),
        server_version: text("/serverInfo/version"),
        tools: has("/capabilities/tools"),
        tasks: TaskCapability {
            declared: has("/capabilities/tasks"),
            requests: has("/capabilities/tasks/requests"),
            calls: has("/capabilities/tasks/requests/tools/call"),
            list: has("/capabilities/tasks/list"),
            cancel: has("/capabilities/tasks/cancel"),
        },
    })
}

/// Spec 2025-11-25, server/tools, "Calling Tools", and basic/utilities/tasks, "Creating Tasks".
pub(super) fn call_params(request: &CallRequest, token: &str) -> Value {
    let mut params = json!({
        "name": request.tool,
        "arguments": request.arguments,
        "_meta": {"progressToken": token},
    });
    if request.mode == CallMode::Task {
        params["task"] = request.ttl.map_or_else(|| json!({}), |ttl| json!({"ttl": ttl}));
    }
    params
}

pub(super) fn task_params(id: &TaskId) -> Value {
    json!({"taskId": id.as_str()})
}

pub(super) fn cancelled_params(id: &RequestId, reason: &str) -> Value {
    json!({"requestId": id.to_value(), "reason": reason})
}

const IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
/// Where early implementations put the task.
const EARLY_TASK: &str = "modelcontextprotocol.io/task";

/// Tells a task from a result by the shape: a task is `task.taskId`, a flat `taskId` with a `status` or with
/// `resultType: "task"`, or an early implementation's `_meta`. Anything else must look like a result.
pub(super) fn read_call_reply(reply: RawJson) -> Result<CallReply, SessionError> {
    let protocol = |what: String| SessionError::protocol(CALL_TOOL, what);
    let value = reply.value();
    if !value.is_object() {
        return Err(protocol("the result is not an object".to_owned()));
    }
    let is_result = value.get("content").is_some() || value.get("structuredContent").is_some();
    let result_type = value.get("resultType").and_then(Value::as_str);
    let nested = value.get("task").is_some_and(Value::is_object);
    let flat = value.get("taskId").is_some() && (value.get("status").is_some() || result_type == Some("task"));
    if nested || (flat && !is_result) || result_type == Some("task") {
        let task = wire::read_task(&reply).ok_or_else(|| protocol("the task has no `taskId`".to_owned()))?;
        let immediate =
            value.pointer(&format!("/_meta/{}", IMMEDIATE_RESPONSE.replace('/', "~1"))).and_then(Value::as_str);
        return Ok(CallReply::Task { task, immediate: immediate.map(str::to_owned) });
    }
    if let Some(early) = value.get("_meta").and_then(|meta| meta.get(EARLY_TASK))
        && let Some(task) = wire::read_task(&RawJson::from_value(early))
    {
        return Ok(CallReply::Task { task, immediate: None });
    }
    match result_type {
        None | Some("complete") => {}
        Some(other) => return Err(protocol(format!("unknown `resultType` \"{}\"", text::line(other)))),
    }
    // Before 2024-11-05 a result was `toolResult`; `{}` and a lone `_meta` are how some servers say "nothing to say".
    let empty = value
        .as_object()
        .is_some_and(|object| object.keys().all(|key| matches!(key.as_str(), "_meta" | "isError" | "resultType")));
    if is_result || empty || value.get("toolResult").is_some() {
        return Ok(CallReply::Result(ToolResult::read(reply)));
    }
    let keys: Vec<&str> = value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).take(8).collect();
    Err(protocol(format!("it is neither a result nor a task (it has `{}`)", text::line(&keys.join("`, `")))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(value: Value) -> String {
        match read_call_reply(RawJson::from_value(&value)) {
            Ok(CallReply::Result(result)) => format!("result of {}", result.content.len()),
            Ok(CallReply::Task { task, .. }) => format!("task {} {}", task.id, task.status),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_reply_is_told_by_its_shape() {
        let task = json!({"taskId": "t-bun", "status": "working"});
        for (reply, expected) in [
            (json!({"task": task}), "task t-bun working"),
            (json!({"task": task, "content": []}), "task t-bun working"),
            (json!({"resultType": "task", "taskId": "t-bun"}), "task t-bun working"),
            (json!({"taskId": "t-bun", "status": "failed"}), "task t-bun failed"),
            (
                json!({"content": [], "_meta": {"modelcontextprotocol.io/task": {"taskId": "t-bun"}}}),
                "task t-bun working",
            ),
            (json!({"content": [{"type": "text", "text": "x"}]}), "result of 1"),
            (json!({"structuredContent": {"taskId": "x", "status": "y"}}), "result of 0"),
            (json!({}), "result of 0"),
        ] {
            assert_eq!(kind(reply.clone()), expected, "{reply}");
        }
    }

    #[test]
    fn a_shape_that_is_neither_is_an_error_that_names_it() {
        assert!(kind(json!({"resultType": "zzz", "content": []})).contains("unknown `resultType` \"zzz\""));
        assert!(kind(json!({"task": {"status": "working"}})).contains("no `taskId`"));
        assert!(kind(json!({"cake": 1})).contains("`cake`"));
        assert!(kind(json!([1])).contains("not an object"));
    }

    #[test]
    fn a_plain_call_says_nothing_of_tasks() {
        let mut request =
            CallRequest { tool: "a".into(), arguments: json!({"n": 1}), mode: CallMode::Plain, ttl: Some(5) };
        assert_eq!(call_params(&request, "p").get("task"), None);
        request.mode = CallMode::Task;
        assert_eq!(call_params(&request, "p")["task"], json!({"ttl": 5}));
        request.ttl = None;
        assert_eq!(call_params(&request, "p")["task"], json!({}));
    }
}
