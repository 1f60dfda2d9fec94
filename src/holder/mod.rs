//! Keeps a stdio server alive between commands.
//!
//! A server's process lives as long as its stdin, and so do its tasks. A holder is a process of this same program that
//! starts the server, keeps its pipes and its handshake, and serves any number of commands at once over a socket that is
//! the user's alone. It renames the ids of requests, so that answers find the command that asked, and hands everybody what
//! the server says unasked. It knows nothing of tasks: commands take and drop leases, and without a lease or a command it
//! ends after an idle time, its server with it.
//!
//! [`client`] is what commands use, [`serve()`] the holder's own main loop around the pure `state`, [`folder`] where holders
//! are found and what is known of those that are gone.

pub mod client;
pub mod folder;
mod questions;
mod serve;
mod socket;
mod state;
mod wire;

pub use client::{Control, Held, HeldSettings, HoldError, Status, attach, start, terminate};
pub use folder::{Folder, HolderId, Key, Note};
pub use serve::serve;
pub(crate) use wire::COMMAND;
pub use wire::Plan;
