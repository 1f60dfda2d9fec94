//! The demo server's tools. They do real work and take a few seconds at it, so that there is something to watch.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::model::RpcError;
use crate::model::duration::human;
use crate::model::rpc_error::codes;
use crate::model::text::plural;

/// How long the hashing of even a few small files takes.
const HASHING: Duration = Duration::from_secs(4);
/// The code of the tool that fails; any outside of JSON-RPC's own range would do.
const BURNT: i64 = -32050;

type Outcome = Result<Value, RpcError>;
type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// One tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) schema: fn() -> Value,
    pub(super) task_support: &'static str,
    /// The first status message of its tasks.
    pub(super) opening: &'static str,
    run: for<'a> fn(&'a Work, &'a Value) -> Running<'a>,
}

impl Tool {
    pub(super) fn run<'a>(&self, work: &'a Work, arguments: &'a Value) -> Running<'a> {
        (self.run)(work, arguments)
    }
}

type Report = dyn Fn(u64, Option<u64>, &str) + Send + Sync;

/// What a running tool tells of itself.
pub(super) struct Work {
    report: Box<Report>,
}

impl Work {
    pub(super) fn new(report: impl Fn(u64, Option<u64>, &str) + Send + Sync + 'static) -> Self {
        Self { report: Box::new(report) }
    }

    fn tell(&self, progress: usize, total: Option<usize>, message: &str) {
        (self.report)(progress as u64, total.map(|total| total as u64), message);
    }
}

pub(super) static TOOLS: [Tool; 5] = [
    Tool {
        name: "hash-files",
        title: "Hash files",
        description: "Computes the SHA-256 of every file below a folder. Knows its total, so it shows a bar.",
        schema: || {
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The folder", "default": "."},
                    "all": {"type": "boolean", "description": "Hidden folders, target and node_modules too", "default": false},
                    "list": {"type": "boolean", "description": "Print every hash, not the summary alone", "default": false},
                },
                "additionalProperties": false,
            })
        },
        task_support: "optional",
        opening: "Looking for files",
        run: |work, arguments| Box::pin(hash_files(work, arguments)),
    },
    Tool {
        name: "hunt-primes",
        title: "Hunt twin primes",
        description: "Looks for twin primes for a few seconds. Cannot know its total, so it shows a spinner.",
        schema: || {
            json!({
                "type": "object",
                "properties": {"seconds": {"type": "number", "minimum": 0, "maximum": 3600, "default": 4, "description": "How long to look"}},
                "additionalProperties": false,
            })
        },
        task_support: "optional",
        opening: "Warming up",
        run: |work, arguments| Box::pin(hunt_primes(work, arguments)),
    },
    Tool {
        name: "check-json",
        title: "Check JSON",
        description: "Says whether a text is JSON. Reports a text that is not by `isError`, the way a tool fails.",
        schema: a_text,
        task_support: "optional",
        opening: "Reading",
        run: |work, arguments| Box::pin(check_json(work, arguments)),
    },
    Tool {
        name: "burn-toast",
        title: "Burn toast",
        description: "Always fails with a JSON-RPC error, the way a task fails.",
        schema: || json!({"type": "object", "properties": {}, "additionalProperties": false}),
        task_support: "required",
        opening: "The toaster is on",
        run: |work, _| Box::pin(burn_toast(work)),
    },
    Tool {
        name: "count-words",
        title: "Count words",
        description: "Counts the words of a text at once. A plain tool that cannot be called as a task.",
        schema: a_text,
        task_support: "forbidden",
        opening: "",
        run: |_, arguments| Box::pin(count_words(arguments)),
    },
];

/// The arguments of a tool that takes one text.
fn a_text() -> Value {
    json!({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text; try @FILE"}},
        "required": ["text"],
        "additionalProperties": false,
    })
}

fn done(text: String, structured: Value) -> Value {
    json!({"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": false})
}

fn failed(text: String) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

fn text_argument<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, RpcError> {
    let missing = || RpcError::new(codes::INVALID_PARAMS, format!("argument `{name}` must be a string"));
    arguments[name].as_str().ok_or_else(missing)
}

async fn hash_files(work: &Work, arguments: &Value) -> Outcome {
    let folder = PathBuf::from(arguments["path"].as_str().unwrap_or("."));
    let (all, list) = (arguments["all"] == true, arguments["list"] == true);
    let start = Instant::now();
    let files = match blocking({
        let folder = folder.clone();
        move || files_below(&folder, all)
    })
    .await
    {
        Ok(files) if !files.is_empty() => files,
        Ok(_) => return Ok(failed(format!("There are no files below {}.", folder.display()))),
        Err(error) => return Ok(failed(format!("Cannot read {}: {error}", folder.display()))),
    };
    let total = files.len();
    let mut lines = Vec::with_capacity(total);
    let (mut bytes, mut unreadable) = (0, Vec::new());
    let mut manifest = Sha256::new();
    for (index, file) in files.into_iter().enumerate() {
        let name = file.strip_prefix(&folder).unwrap_or(&file).display().to_string();
        match blocking(move || std::fs::read(&file)).await {
            Ok(contents) => {
                bytes += contents.len();
                let line = format!("{}  {name}", hex(&Sha256::digest(&contents)));
                manifest.update(line.as_bytes());
                manifest.update(b"\n");
                lines.push(line);
            }
            Err(error) => unreadable.push(format!("{name}: {error}")),
        }
        work.tell(index + 1, Some(total), &name);
        // Not before its share of the whole time is over, so that a small folder can be watched too.
        let share = HASHING.mul_f64((index + 1) as f64 / total as f64);
        tokio::time::sleep_until(
            start + share.min(Duration::from_millis(250) * u32::try_from(index + 1).unwrap_or(u32::MAX)),
        )
        .await;
    }
    let manifest = hex(&manifest.finalize());
    let mut text = format!("Hashed {} ({bytes} bytes) in {}.\n", plural(lines.len(), "file"), human(start.elapsed()));
    text.push_str(&format!("SHA-256 of the list: {manifest}"));
    if list {
        text = format!("{}\n\n{text}", lines.join("\n"));
    }
    if !unreadable.is_empty() {
        text.push_str(&format!("\nNot readable:\n  {}", unreadable.join("\n  ")));
    }
    Ok(done(text, json!({"files": lines.len(), "bytes": bytes, "sha256": manifest, "unreadable": unreadable.len()})))
}

/// In order of their names, so that two runs agree. Links are not followed.
fn files_below(folder: &Path, all: bool) -> std::io::Result<Vec<PathBuf>> {
    let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let kind = entry.file_type()?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if kind.is_file() {
            files.push(entry.path());
        } else if kind.is_dir() && (all || !(name.starts_with('.') || name == "target" || name == "node_modules")) {
            // A folder below that cannot be read does not spoil the rest.
            files.extend(files_below(&entry.path(), all).unwrap_or_default());
        }
    }
    Ok(files)
}

/// Files are read off the thread that answers requests.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn hunt_primes(work: &Work, arguments: &Value) -> Outcome {
    let seconds = arguments["seconds"].as_f64().unwrap_or(4.0).clamp(0.0, 3_600.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut candidate, mut found, mut largest) = (3u64, 0usize, (3, 5));
    while Instant::now() < end {
        // A little work, then a little rest: the pace is for people, and the thread also answers requests.
        for _ in 0..2_000 {
            if is_prime(candidate) && is_prime(candidate + 2) {
                found += 1;
                largest = (candidate, candidate + 2);
            }
            candidate += 2;
        }
        work.tell(found, None, &format!("Largest pair so far: {} and {}", largest.0, largest.1));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let text = format!(
        "Found {} below {candidate}; the largest: {} and {}.",
        plural(found, "twin prime"),
        largest.0,
        largest.1
    );
    Ok(done(text, json!({"found": found, "below": candidate, "largest": [largest.0, largest.1]})))
}

fn is_prime(number: u64) -> bool {
    !number.is_multiple_of(2)
        && (3..)
            .step_by(2)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|divisor| !number.is_multiple_of(divisor))
}

async fn check_json(work: &Work, arguments: &Value) -> Outcome {
    let text = text_argument(arguments, "text")?;
    work.tell(0, None, "Reading");
    tokio::time::sleep(Duration::from_millis(600)).await;
    Ok(match serde_json::from_str::<Value>(text) {
        Ok(value) => {
            let kind = match value {
                Value::Null => "null",
                Value::Bool(_) => "a boolean",
                Value::Number(_) => "a number",
                Value::String(_) => "a string",
                Value::Array(_) => "a list",
                Value::Object(_) => "an object",
            };
            done(format!("This is JSON: {kind}."), json!({"valid": true}))
        }
        Err(error) => failed(format!("This is not JSON: {error}.")),
    })
}

async fn burn_toast(work: &Work) -> Outcome {
    for (second, state) in ["Bread is in", "Golden", "Brown", "Smoke"].into_iter().enumerate() {
        work.tell(second, None, state);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let mut error = RpcError::new(BURNT, "The toast is burnt");
    error.data = Some(crate::model::RawJson::from_value(&json!({"colour": "black", "edible": false})));
    Err(error)
}

async fn count_words(arguments: &Value) -> Outcome {
    let text = text_argument(arguments, "text")?;
    let words = text.split_whitespace().count();
    Ok(done(plural(words, "word"), json!({"words": words, "characters": text.chars().count()})))
}
