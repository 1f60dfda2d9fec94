//! The words of the domain: tasks, tools, results, durations, and text made safe to show.
//!
//! The lowest floor. It knows no wire format of a protocol era, no transport and no terminal.

pub mod content;
pub mod duration;
pub mod json;
pub mod rpc_error;
pub mod secret;
pub mod task;
pub mod text;
pub mod tool;

pub use content::{ContentBlock, ToolResult};
pub use json::RawJson;
pub use rpc_error::RpcError;
pub use secret::Secret;
pub use task::{Task, TaskId, TaskOutcome, TaskStatus, Ttl};
pub use tool::{TaskSupport, Tool};
