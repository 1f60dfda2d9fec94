//! What commands and holders say to each other beside the server's own messages.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::folder::Key;

/// Changes whenever what follows does, so that programs of two versions find out before they misunderstand each other.
pub(super) const VERSION: u64 = 2;
/// The hidden command that is a holder.
pub(crate) const COMMAND: &str = "hold-server";

/// Methods that begin so are for the holder, or from it; the server never sees them.
pub(super) const OWN: &str = "mcp-task/";
/// To the holder: a task needs the server. `{"task", "for": milliseconds}`.
pub(super) const LEASE: &str = "mcp-task/lease";
/// To the holder: the folders that the server may be told of, an answer to `roots/list`.
pub(super) const ROOTS: &str = "mcp-task/roots";
/// To the holder: it does no more. `{"task"}`.
pub(super) const RELEASE: &str = "mcp-task/release";
/// To the holder: whoever started it has no more use for it.
pub(super) const UNNEEDED: &str = "mcp-task/unneeded";
/// To the holder, a request: how do you stand? `{"commands", "tasks"}`, the asking command left out.
pub(super) const STATUS: &str = "mcp-task/status";
/// To the holder, a request: end, and the server with you.
pub(super) const STOP: &str = "mcp-task/stop";
/// From the holder: a line of the server that is no message. `{"stderr"}` or `{"noise"}`.
pub(super) const NOTICE: &str = "mcp-task/notice";
/// From the holder: the server has ended. `{"status", "stderr"}`.
pub(super) const ENDED: &str = "mcp-task/ended";

/// What a new holder is told on its stdin.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The folder of the sockets.
    pub folder: PathBuf,
    /// Names the server.
    pub key: Key,
    /// The server, for people.
    pub server: String,
    /// The user's name for the session.
    pub session: Option<String>,
    /// The program to start.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables on top of the environment.
    pub env: Vec<(String, String)>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// The most bytes of one message.
    pub max_message: usize,
    /// How long it stays without command and lease, in milliseconds.
    pub idle: u64,
}

/// The first line in both directions; the holder's names its instance.
pub(super) fn greeting(instance: Option<&str>) -> String {
    json!({"holder": VERSION, "program": env!("CARGO_PKG_VERSION"), "instance": instance}).to_string()
}

/// The instance in a holder's greeting, empty in a command's, or why the other side cannot be talked to.
pub(super) fn read_greeting(greeting: &str) -> Result<String, String> {
    let value: Value = serde_json::from_str(greeting).unwrap_or_default();
    if value["holder"] == VERSION {
        return Ok(value["instance"].as_str().unwrap_or_default().to_owned());
    }
    let program = value["program"].as_str().unwrap_or("of another version");
    Err(format!("it was started by mcp-task {program}, and this is mcp-task {}", env!("CARGO_PKG_VERSION")))
}
