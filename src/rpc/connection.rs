//! The seam between this floor and the transports: a pair of channels.
//!
//! A transport reads [`Outbound`] and writes [`Inbound`]. It carries messages and knows which request a fault belongs
//! to; it does not know what the messages mean.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::message::{Message, RequestId};
use crate::model::text;

/// How many messages may wait between a transport and the peer before reading pauses.
const INBOUND_CAPACITY: usize = 256;

/// What the peer hands to a transport.
#[derive(Debug)]
pub enum Outbound {
    /// A request.
    Request {
        /// Its id, so that a fault can be reported for it.
        id: RequestId,
        /// The message.
        text: String,
        /// What a transport with headers says about it.
        head: RequestHead,
    },
    /// A notification or a response: nothing comes back for it but word of its delivery.
    Message {
        /// The message.
        text: String,
        /// Told when the message is written or accepted, or why not.
        delivered: Option<oneshot::Sender<Result<(), Arc<ConnectionError>>>>,
    },
    /// Nobody waits for this request any more: drop what is kept for it.
    Abandon(RequestId),
    /// The handshake is done: what a transport with headers says from here on.
    Negotiated {
        /// The protocol version that both sides speak.
        version: String,
    },
    /// Open the stream for messages that belong to no request, where the transport has one.
    Listen {
        /// Told when the stream is open, or that there is none.
        ready: oneshot::Sender<()>,
    },
    /// We are done with the server's session for good; it may be ended there too.
    EndSession {
        /// Told when the server was told, or could not be.
        done: oneshot::Sender<()>,
    },
}

/// A message to be sent, for a transport that has nothing but messages.
#[derive(Debug)]
pub struct Outgoing {
    /// The id, where it is a request.
    pub id: Option<RequestId>,
    /// The message.
    pub text: String,
    /// Told when the message is written.
    pub delivered: Option<oneshot::Sender<Result<(), Arc<ConnectionError>>>>,
}

impl Outbound {
    /// The message in it. Without sessions and without a stream of its own there is nothing to do about the rest, and
    /// whoever waits for that is told so.
    pub fn into_message(self) -> Option<Outgoing> {
        match self {
            Self::Request { id, text, .. } => Some(Outgoing { id: Some(id), text, delivered: None }),
            Self::Message { text, delivered } => Some(Outgoing { id: None, text, delivered }),
            Self::Listen { ready: done } | Self::EndSession { done } => {
                let _ = done.send(());
                None
            }
            Self::Abandon(_) | Self::Negotiated { .. } => None,
        }
    }
}

/// What a transport with headers says about a request beside its body.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The method.
    pub method: String,
    /// Further headers, name and value.
    pub headers: Vec<(String, String)>,
}

/// What a transport hands to the peer.
#[derive(Debug)]
pub enum Inbound {
    /// A message.
    Message(Message),
    /// This request will get no answer.
    Failed {
        /// Which.
        id: RequestId,
        /// Why.
        error: Arc<ConnectionError>,
    },
    /// The connection has ended; nothing follows.
    Closed(Arc<ConnectionError>),
}

/// A connection as the peer sees it.
#[derive(Debug)]
pub struct Connection {
    /// To the other side.
    pub outbound: mpsc::UnboundedSender<Outbound>,
    /// From the other side.
    pub inbound: mpsc::Receiver<Inbound>,
}

/// The transport's ends of a [`Connection`].
#[derive(Debug)]
pub struct TransportEnds {
    /// From the peer.
    pub outbound: mpsc::UnboundedReceiver<Outbound>,
    /// To the peer.
    pub inbound: mpsc::Sender<Inbound>,
}

impl Connection {
    /// A connection and the ends that its transport serves; also how tests play a server in memory.
    pub fn pair() -> (Self, TransportEnds) {
        let (outbound_sender, outbound) = mpsc::unbounded_channel();
        let (inbound, inbound_receiver) = mpsc::channel(INBOUND_CAPACITY);
        (Self { outbound: outbound_sender, inbound: inbound_receiver }, TransportEnds { outbound, inbound })
    }
}

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From us to the server.
    Sent,
    /// From the server to us.
    Received,
}

/// What [`Tap`] calls for each message.
type TapFunction = dyn Fn(Direction, &str) + Send + Sync;

/// Sees the text of every message of both directions; for `--trace`.
#[derive(Clone, Default)]
pub struct Tap(Option<Arc<TapFunction>>);

impl Tap {
    /// A tap that calls `function`.
    pub fn new(function: impl Fn(Direction, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }

    /// Shows one message to the tap.
    pub fn see(&self, direction: Direction, text: &str) {
        if let Some(function) = &self.0 {
            function(direction, text);
        }
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Tap(on)" } else { "Tap(off)" })
    }
}

/// What went wrong below JSON-RPC.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The server's program could not be started.
    #[error("cannot start `{}`: {}", text::line(program), spawn_reason(source))]
    Spawn {
        /// The program, as it was to be looked up.
        program: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The server's process ended.
    #[error("the server ended with {status}{}", stderr_tail(stderr))]
    ServerExited {
        /// `exit status: 1` and the like.
        status: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// The server closed its stdout but lives on.
    #[error("the server closed its standard output{}", stderr_tail(stderr))]
    OutputClosed {
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// The process that kept the server is gone.
    #[error("the process that held the server has ended, and the server with it")]
    HolderGone,
    /// A message was larger than the bound.
    #[error("the server sent a message larger than the limit of {limit} bytes")]
    MessageTooLarge {
        /// The bound in bytes.
        limit: usize,
    },
    /// Reading from or writing to the server's process failed.
    #[error("cannot talk to the server's process: {0}")]
    Pipe(#[source] std::io::Error),
    /// No connection came about: the request was not sent.
    #[error("cannot connect to {url}: {reason}")]
    Connect {
        /// Where to.
        url: String,
        /// Why not.
        reason: String,
    },
    /// The exchange broke after the request may have been sent.
    #[error("the connection to {url} broke: {reason}")]
    Broken {
        /// With whom.
        url: String,
        /// How.
        reason: String,
    },
    /// An HTTP status that is no answer.
    #[error("{url} answered HTTP {status}{}", body_excerpt(body))]
    Status {
        /// Who.
        url: String,
        /// The status.
        status: u16,
        /// `Retry-After`, if given in seconds.
        retry_after: Option<Duration>,
        /// The start of the body.
        body: String,
    },
    /// 401 or 403.
    #[error("{url} asks for authorization (HTTP {status}){}", body_excerpt(body))]
    Unauthorized {
        /// Who.
        url: String,
        /// 401 or 403.
        status: u16,
        /// The `WWW-Authenticate` header.
        challenge: Option<String>,
        /// The start of the body.
        body: String,
    },
    /// The server does not know our session (any more).
    #[error("the server no longer knows the session (HTTP {status}){}", body_excerpt(body))]
    SessionGone {
        /// 404 or 400.
        status: u16,
        /// The start of the body.
        body: String,
    },
    /// A redirect that must not be followed.
    #[error("{url} redirects (HTTP {status}) to {}", text::line(location))]
    Redirect {
        /// Who.
        url: String,
        /// The status.
        status: u16,
        /// Where to.
        location: String,
    },
    /// The stream of a request ended before its answer, and could not be resumed.
    #[error("the answer's stream ended before the response{}", if *resumes > 0 { format!(", {resumes} attempts to resume it later") } else { String::new() })]
    StreamEnded {
        /// How often it was tried to resume.
        resumes: u32,
    },
    /// The one stream that everything comes on is gone, and with it whatever was to come.
    #[error("the stream that brings the server's messages ended: {reason}")]
    StreamLost {
        /// How.
        reason: String,
    },
    /// The answer to a request has no message for it.
    #[error("{url} answered without a JSON-RPC response ({what})")]
    NotAnAnswer {
        /// Who.
        url: String,
        /// What came instead.
        what: String,
        /// It was a mere receipt: the server means to answer elsewhere, and there is nowhere else.
        is_receipt: bool,
    },
    /// A setting of the connection cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// We closed the connection ourselves.
    #[error("the connection is closed")]
    Closed,
}

impl ConnectionError {
    /// Whether the same request, asked again a little later, may well succeed.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Broken { .. } | Self::StreamEnded { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            _ => false,
        }
    }

    /// Whether no request over this connection can be answered any more.
    pub fn ends_the_connection(&self) -> bool {
        matches!(
            self,
            Self::ServerExited { .. }
                | Self::OutputClosed { .. }
                | Self::HolderGone
                | Self::StreamLost { .. }
                | Self::MessageTooLarge { .. }
                | Self::Pipe(_)
                | Self::Closed
        )
    }

    /// Whether the server's process has ended, or as good as.
    pub fn is_servers_end(&self) -> bool {
        matches!(self, Self::ServerExited { .. } | Self::OutputClosed { .. } | Self::HolderGone)
    }

    /// Whether the server answered that it does not take the request, so that it has not acted on it.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Unauthorized { .. } | Self::SessionGone { .. } => true,
            // 408 is an answer about time, and says nothing of what was done.
            Self::Status { status, .. } => matches!(status, 400..=499) && *status != 408,
            _ => false,
        }
    }

    /// Whether the request certainly never reached the server's program.
    pub fn was_never_sent(&self) -> bool {
        matches!(self, Self::Spawn { .. } | Self::Connect { .. } | Self::Redirect { .. } | Self::Configuration(_))
    }

    /// The pause that the server asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

fn spawn_reason(source: &std::io::Error) -> String {
    if source.kind() == std::io::ErrorKind::NotFound {
        "no such program was found in PATH".to_owned()
    } else {
        source.to_string()
    }
}

fn stderr_tail(stderr: &str) -> String {
    let shown = stderr.trim();
    if shown.is_empty() {
        return "; it wrote nothing to stderr".to_owned();
    }
    let lines: Vec<&str> = shown.lines().collect();
    let from = lines.len().saturating_sub(20);
    let mut tail = String::from("; its last words on stderr:");
    for line in &lines[from..] {
        tail.push_str("\n  | ");
        tail.push_str(&text::truncate(&text::line(line), 400));
    }
    tail
}

fn body_excerpt(body: &str) -> String {
    let body = body.trim();
    // A page for browsers says nothing that the status does not.
    if body.is_empty() || body.starts_with('<') {
        String::new()
    } else {
        format!(": {}", text::truncate(&text::line(body), 300))
    }
}
