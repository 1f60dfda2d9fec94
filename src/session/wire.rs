//! Objects that look the same in every era, read leniently: a field that is odd or missing costs itself, no more.

use std::time::Duration;

use serde_json::Value;

use crate::model::{RawJson, Task, TaskId, TaskStatus, TaskSupport, Tool, Ttl};

/// Reads an entry of `tools/list`; `None` without a name.
pub(super) fn read_tool(raw: &RawJson) -> Option<Tool> {
    let value = raw.value();
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let title =
        text("title").or_else(|| value.pointer("/annotations/title").and_then(Value::as_str).map(str::to_owned));
    let task_support = match value.pointer("/execution/taskSupport").and_then(Value::as_str) {
        Some("required") => TaskSupport::Required,
        Some("optional") => TaskSupport::Optional,
        _ => TaskSupport::Forbidden,
    };
    Some(Tool {
        name: text("name")?,
        title,
        description: text("description"),
        input_schema: value
            .get("inputSchema")
            .filter(|schema| schema.is_object())
            .cloned()
            .unwrap_or_else(|| serde_json::json!({})),
        task_support,
        raw: raw.clone(),
    })
}

/// Reads a task object, flat or nested in `task`; `None` without an id.
pub(super) fn read_task(raw: &RawJson) -> Option<Task> {
    let value = raw.value();
    let nested = value.get("task").filter(|task| task.get("taskId").is_some());
    let task = nested.unwrap_or(&value);
    let text = |key: &str| task.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Task {
        id: TaskId::new(text("taskId")?),
        status: TaskStatus::from_wire(text("status").as_deref().unwrap_or("working")),
        status_message: text("statusMessage").filter(|message| !message.trim().is_empty()),
        created_at: text("createdAt"),
        last_updated_at: text("lastUpdatedAt"),
        ttl: read_ttl(task.get("ttl").or_else(|| task.get("ttlMs"))),
        poll_interval: task.get("pollInterval").or_else(|| task.get("pollIntervalMs")).and_then(Value::as_f64),
        raw: nested.map_or_else(|| raw.clone(), RawJson::from_value),
    })
}

fn read_ttl(ttl: Option<&Value>) -> Ttl {
    match ttl {
        Some(Value::Null) => Ttl::Unlimited,
        Some(ttl) => match ttl.as_f64() {
            Some(millis) if millis >= 0.0 => {
                Duration::try_from_secs_f64(millis / 1_000.0).map_or(Ttl::Unlimited, Ttl::Limited)
            }
            _ => Ttl::Unstated,
        },
        None => Ttl::Unstated,
    }
}

/// The key of `_meta` that says which task a message belongs to.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Says in `_meta` which task a result belongs to.
pub(super) fn relate(result: &mut Value, task: &TaskId) {
    if let Some(result) = result.as_object_mut() {
        let meta = result.entry("_meta").or_insert_with(|| serde_json::json!({}));
        if !meta.is_object() {
            *meta = serde_json::json!({});
        }
        meta[RELATED_TASK] = serde_json::json!({"taskId": task.as_str()});
    }
}

/// The task that a message says it belongs to.
pub(super) fn related_task(params: &Value) -> Option<TaskId> {
    params.get("_meta")?.get(RELATED_TASK)?.get("taskId")?.as_str().map(TaskId::new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(value: Value) -> Option<Task> {
        read_task(&RawJson::from_value(&value))
    }

    #[test]
    fn tasks_come_flat_and_nested_and_with_gaps() {
        let flat = task(json!({"taskId": "t", "status": "working", "ttl": null, "pollInterval": 2.5})).unwrap();
        assert_eq!((flat.ttl, flat.poll_interval), (Ttl::Unlimited, Some(2.5)));
        let nested = task(json!({"task": {"taskId": "t", "status": "failed", "ttl": 60000}})).unwrap();
        assert_eq!((nested.status, nested.ttl), (TaskStatus::Failed, Ttl::Limited(Duration::from_secs(60))));
        let bare = task(json!({"taskId": "t"})).unwrap();
        assert_eq!((bare.status, bare.ttl, bare.poll_interval), (TaskStatus::Working, Ttl::Unstated, None));
        assert!(task(json!({"status": "working"})).is_none());
        assert!(task(json!(7)).is_none());
        for odd in [json!(-1), json!("soon"), json!(1e300)] {
            task(json!({"taskId": "t", "ttl": odd, "pollInterval": odd})).unwrap();
        }
    }

    #[test]
    fn a_result_is_related_to_its_task_whatever_its_meta_is() {
        let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "t"}});
        for mut result in [json!({}), json!({"_meta": 3})] {
            relate(&mut result, &TaskId::new("t"));
            assert_eq!(result["_meta"], related);
        }
    }

    #[test]
    fn a_tool_without_a_word_on_tasks_forbids_them() {
        let tool = read_tool(&RawJson::from_value(&json!({"name": "a", "inputSchema": 3}))).unwrap();
        assert_eq!((tool.task_support, tool.input_schema), (TaskSupport::Forbidden, json!({})));
    }
}
