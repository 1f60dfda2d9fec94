//! What the server does about a request.
//!
//! A script is `{"capabilities"?, "tools"?, "session"?, "start"?: [step…], "rules": [{"method", "nth"? or "task"?, "steps":
//! [step…]}]}`. A rule for one `task` goes before one with `nth` (from 1), which goes before one without. Requests without a
//! rule get an ordinary answer. `GET` and `DELETE` are methods too, over HTTP. In every text of a step `$ID` (as JSON) and `$TOKEN` stand for the request's id and
//! progress token, and `$RECEIVED` for the last task that the client has made of a request of the server's.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

/// One thing to do.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Answer with this result.
    Reply(Value),
    /// Answer with this error.
    Error(Value),
    /// Answer with a new task, called after the request.
    NewTask {},
    /// Send this message.
    Send(Value),
    /// Write this text: a line on stdout, or part of an event stream.
    Raw(String),
    /// Write a text of this many bytes as the text content of an answer.
    Big(usize),
    /// Write this character this many times, without a line end.
    Flood(usize),
    /// Wait for so many milliseconds.
    Sleep(u64),
    /// Wait until an answer to the server's request of this id has come.
    Await(Value),
    /// Write this line to stderr.
    Stderr(String),
    /// Write so many bytes to stderr, without a line end and not UTF-8 either.
    StderrFlood(usize),
    /// Send so many progress notifications, with a message of so many bytes each.
    Progress(u64, usize),
    /// End the process.
    Exit(i32),
    /// HTTP: answer with this status, these headers and this body.
    Http {
        status: u16,
        #[serde(default)]
        headers: HashMap<String, String>,
        #[serde(default)]
        body: String,
    },
    /// HTTP: begin a stream of events; what follows goes into it.
    Sse {},
    /// HTTP: reset the connection.
    Reset {},
    /// HTTP: leave the stream open.
    Hold {},
}

#[derive(Debug, Deserialize)]
struct Rule {
    method: String,
    nth: Option<u32>,
    task: Option<String>,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
struct Script {
    capabilities: Option<Value>,
    tools: Option<Value>,
    #[serde(default)]
    pub session: bool,
    #[serde(default)]
    start: Vec<Step>,
    #[serde(default)]
    rules: Vec<Rule>,
}

/// A loaded script and what was received so far.
pub struct Server {
    script: Script,
    counts: Mutex<HashMap<String, u32>>,
    transcript: Mutex<File>,
    started: Instant,
    answered: tokio::sync::watch::Sender<Vec<Value>>,
}

impl Server {
    pub fn load(script: &Path, transcript: &Path) -> Self {
        let text = std::fs::read_to_string(script).expect("the script can be read");
        let transcript =
            File::options().create(true).append(true).open(transcript).expect("the transcript can be written");
        Self {
            script: serde_json::from_str(&text).expect("the script is well-formed"),
            counts: Mutex::default(),
            transcript: Mutex::new(transcript),
            started: Instant::now(),
            answered: tokio::sync::watch::Sender::new(Vec::new()),
        }
    }

    /// Whether sessions are given out over HTTP.
    pub fn has_sessions(&self) -> bool {
        self.script.session
    }

    pub fn start(&self) -> Vec<Step> {
        self.script.start.clone()
    }

    /// Notes what was received, and how often its method was received by now.
    pub fn receive(&self, method: &str, headers: &Value, message: &Value) -> u32 {
        let at = u64::try_from(self.started.elapsed().as_millis()).expect("short");
        let line = json!({"at": at, "method": method, "headers": headers, "message": message});
        let mut transcript = self.transcript.lock().expect("not poisoned");
        // In one write, for whoever reads it meanwhile.
        transcript.write_all(format!("{line}\n").as_bytes()).expect("the transcript can be written");
        if let Some(task) = message["result"]["task"]["taskId"].as_str() {
            *RECEIVED.lock().expect("not poisoned") = task.to_owned();
        }
        if method.is_empty() {
            self.answered.send_modify(|answered| answered.push(message["id"].clone()));
        }
        let mut counts = self.counts.lock().expect("not poisoned");
        let count = counts.entry(method.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Waits for the answer to a request of ours.
    pub async fn answer_to(&self, id: &Value) {
        let mut answered = self.answered.subscribe();
        let _ = answered.wait_for(|answered| answered.contains(id)).await;
    }

    /// What to do about the `nth` message of this method; `None` for a notification without a rule.
    pub fn steps(&self, method: &str, nth: u32, message: &Value) -> Option<Vec<Step>> {
        let of_method = || self.script.rules.iter().filter(|rule| rule.method == method);
        let task = message["params"]["taskId"].as_str();
        let of_task = of_method().find(|rule| rule.task.is_some() && rule.task.as_deref() == task);
        let of_count = || of_method().find(|rule| rule.nth == Some(nth));
        let any = || of_method().find(|rule| rule.nth.is_none() && rule.task.is_none());
        match of_task.or_else(of_count).or_else(any) {
            Some(rule) => Some(rule.steps.clone()),
            None if message.get("id").is_some() && message.get("method").is_some() => Some(vec![self.ordinary(method)]),
            None => None,
        }
    }

    fn ordinary(&self, method: &str) -> Step {
        match method {
            "initialize" => Step::Reply(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": self.script.capabilities.clone().unwrap_or_else(|| json!({
                    "tools": {},
                    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
                })),
                "serverInfo": {"name": "fake", "version": "1"},
            })),
            "tools/list" => Step::Reply(json!({"tools": self.script.tools.clone().unwrap_or_else(|| json!([
                {"name": "bake", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
                {"name": "plain", "inputSchema": {"type": "object"}},
            ]))})),
            "ping" => Step::Reply(json!({})),
            _ => Step::Error(json!({"code": -32601, "message": format!("no such method: {method}")})),
        }
    }
}

impl Step {
    /// The message that this step sends, if it sends one.
    pub fn message(&self, request: &Value) -> Option<String> {
        let id = request.get("id").cloned().unwrap_or_default();
        let value = match self {
            Self::Reply(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Self::Error(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
            Self::NewTask {} => {
                let task =
                    json!({"taskId": format!("task-of-{}", id.as_str().unwrap_or_default()), "status": "working"});
                json!({"jsonrpc": "2.0", "id": id, "result": {"task": task}})
            }
            Self::Send(message) => message.clone(),
            Self::Big(bytes) => {
                json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "x".repeat(*bytes)}]}})
            }
            _ => return None,
        };
        Some(fill(&value.to_string(), request))
    }
}

/// The last task that the client has made of a request of ours.
static RECEIVED: Mutex<String> = Mutex::new(String::new());

/// Puts the request's id and progress token in, and the last task that the client made.
pub fn fill(text: &str, request: &Value) -> String {
    let id = request.get("id").cloned().unwrap_or_default().to_string();
    let token = request["params"]["_meta"]["progressToken"].to_string();
    text.replace("\"$ID\"", &id)
        .replace("$ID", &id)
        .replace("\"$TOKEN\"", &token)
        .replace("$TOKEN", &token)
        .replace("$RECEIVED", &RECEIVED.lock().expect("not poisoned"))
}

/// A progress notification with a message of `bytes`.
pub fn progress(request: &Value, progress: u64, bytes: usize) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
        "progressToken": request["params"]["_meta"]["progressToken"],
        "progress": progress,
        "message": "m".repeat(bytes),
    }})
    .to_string()
}
