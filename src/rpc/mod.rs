//! JSON-RPC 2.0: messages, the framing of lines, and a peer with any number of requests in flight.
//!
//! This floor knows no method of MCP but `ping`, and no transport: a transport hands it a [`Connection`], which is a
//! pair of channels.

pub mod connection;
pub mod framing;
pub mod message;
pub mod peer;

pub use connection::{Connection, ConnectionError, Direction, Inbound, Outbound, RequestHead, Tap};
pub use message::{IncomingNotification, IncomingRequest, Message, RequestId};
pub use peer::{CallError, Handler, InFlight, Peer, RequestReply};
