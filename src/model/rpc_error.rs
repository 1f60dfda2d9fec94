//! A JSON-RPC error, the way a peer reports that a request went wrong.

use std::fmt;

use super::json::RawJson;

/// JSON-RPC 2.0, section 5.1.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// What kind of error; see [`codes`].
    pub code: i64,
    /// The peer's words; not yet escaped.
    pub message: String,
    /// Whatever the peer added.
    pub data: Option<RawJson>,
}

impl RpcError {
    /// An error of our own making, for a request that a server sent us.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// For people: the message escaped, the code behind it.
impl fmt::Display for RpcError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = super::text::line(&self.message);
        let message = if message.trim().is_empty() { "no message" } else { message.trim() };
        // Zero is no code of anybody's: these words are our own.
        if self.code == 0 { formatter.write_str(message) } else { write!(formatter, "{message} ({})", self.code) }
    }
}

impl std::error::Error for RpcError {}

/// The error codes that this client tells apart.
pub mod codes {
    /// The user would not answer. Spec 2025-11-25, client/sampling, "Error Handling".
    pub const USER_REJECTED: i64 = -1;
    /// Addresses must be opened first. Spec 2025-11-25, client/elicitation, "Error Handling".
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Not a request the receiver can take in its present state.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The receiver does not know the method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are wrong; for `tasks/*`: no such task.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Something broke in the receiver.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// `Resource not found`; some servers use it for tasks, and for "not completed yet".
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
}
