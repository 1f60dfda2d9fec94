//! What can go wrong in a conversation.

use std::sync::Arc;
use std::time::Duration;

use crate::model::rpc_error::codes;
use crate::model::{RpcError, duration, text};
use crate::rpc::ConnectionError;

/// Why a question has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SessionError {
    /// The server answered with an error.
    #[error("the server refused `{method}`: {error}")]
    Rpc {
        /// What was asked.
        method: &'static str,
        /// The server's error.
        error: RpcError,
    },
    /// There was no answer.
    #[error(transparent)]
    Connection(Arc<ConnectionError>),
    /// There was no answer in time.
    #[error("no answer to `{method}` within {}", duration::human(*limit))]
    TimedOut {
        /// What was asked.
        method: &'static str,
        /// The time it had.
        limit: Duration,
    },
    /// The answer is not one that the protocol allows.
    #[error("the server broke the protocol in its answer to `{method}`: {what}")]
    Protocol {
        /// What was asked.
        method: &'static str,
        /// What is wrong; escaped.
        what: String,
    },
    /// No protocol version is shared.
    #[error("the server speaks protocol version {}, this client {ours}", text::line(theirs))]
    NoCommonVersion {
        /// The versions that this client speaks.
        ours: String,
        /// What the server offers.
        theirs: String,
    },
}

impl SessionError {
    pub(super) fn protocol(method: &'static str, what: impl Into<String>) -> Self {
        Self::Protocol { method, what: what.into() }
    }

    /// The JSON-RPC error, where the server answered with one.
    pub fn rpc(&self) -> Option<&RpcError> {
        match self {
            Self::Rpc { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The connection's error, where the answer failed to come.
    pub fn connection(&self) -> Option<&ConnectionError> {
        match self {
            Self::Connection(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the same question, asked again a little later, may well be answered.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Connection(error) => error.is_passing(),
            _ => false,
        }
    }

    /// Whether nobody need ask again over this connection.
    pub fn ends_the_asking(&self) -> bool {
        self.connection()
            .is_some_and(|error| error.ends_the_connection() || matches!(error, ConnectionError::Unauthorized { .. }))
    }

    /// Whether the session is of no more use, though the server may not say so: a question was acknowledged, and the
    /// stream that the answer goes to is an earlier process's.
    pub(super) fn is_session_spoilt(&self) -> bool {
        self.is_session_gone()
            || matches!(self.connection(), Some(ConnectionError::NotAnAnswer { is_receipt: true, .. }))
    }

    /// Whether the server's process has ended.
    pub fn is_servers_end(&self) -> bool {
        self.connection().is_some_and(ConnectionError::is_servers_end)
    }

    /// Whether the server has lost the session.
    pub fn is_session_gone(&self) -> bool {
        matches!(self.connection(), Some(ConnectionError::SessionGone { .. }))
    }

    /// Whether the server does not know the method.
    pub fn is_method_not_found(&self) -> bool {
        self.rpc().is_some_and(|error| error.code == codes::METHOD_NOT_FOUND)
    }
}

/// Whether an error says that the server does not know the task. -32602 is the specification's; others are in use, and
/// one of them means much else besides, so its words must agree.
pub fn is_unknown_task(error: &RpcError) -> bool {
    match error.code {
        codes::INVALID_PARAMS | codes::RESOURCE_NOT_FOUND => true,
        codes::INTERNAL_ERROR => {
            let words = text::line(&error.message).to_lowercase();
            ["not found", "unknown", "expired", "no such", "not exist"].iter().any(|clue| words.contains(clue))
        }
        _ => false,
    }
}
