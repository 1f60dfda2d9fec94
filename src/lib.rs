//! mcp-task runs and follows Model Context Protocol tasks: long tool calls that a server answers with a task handle.
//!
//! This is the library behind the program of the same name; `main.rs` only hands over to [`cli::main`].
//!
//! # The map of the house
//!
//! Dependencies point down, never up. Who needs something from above is handed a value or a trait.
//!
//! | floor | what it is for | what it must not know |
//! |---|---|---|
//! | [`cli`] | the words of the command line, and from them plain settings | how a command does its work |
//! | [`commands`] | one file per command; [`commands::troubles`] gives what goes wrong its exit number and hint | clap |
//! | [`present`] | the only writer to stdout and stderr; bar, lines, JSON events, results | sessions, beyond the words of their events |
//! | [`lifecycle`] | a task's life: launch, polls, result, cancellation, end | how it is shown |
//! | [`session`] | a conversation with one server; here the protocol eras end | what anybody does with a task |
//! | [`holder`] | keeps a stdio server alive between commands, in a process of its own | tasks |
//! | [`record`] | every task ever started, in a database of the user's own | any protocol, any terminal |
//! | [`transport`] | a child's pipes, or HTTP | what messages mean |
//! | [`rpc`] | JSON-RPC: messages, framing, a peer with requests in flight | MCP |
//! | [`model`] | tasks, tools, results, durations; text made safe to show | any wire format |
//!
//! Beside them stand [`arguments`], which turns `key=value` into what a tool's schema asks for, [`forms`], which does so for
//! what a server asks a person, and [`demo`], the built-in server, which is built on [`rpc`] and [`model`] alone.
//!
//! # The way of a call
//!
//! [`cli`] reads the words and builds a [`commands::Context`]. [`commands::call`] opens a [`session::Session`] over a
//! [`transport`], finds the tool, builds and checks the [`arguments`], notes the call in the [`record`], and has the session decide between a plain call
//! and a task. [`lifecycle::call()`] sends it, once. Where a task comes back, [`lifecycle::follow()`] runs two questions
//! side by side, a poll at the server's pace and a standing one for the result, and asks the pure
//! `lifecycle::course` what each answer means. Whatever happens becomes a [`lifecycle::Event`], which is all that
//! [`present`] sees; how it ended becomes a result on stdout or a [`present::Trouble`], and either way a
//! [`present::Exit`].
//!
//! # The way of a question
//!
//! A request of the server reaches `session::inbox`, becomes a [`session::Question`] and lies on `session::desk` until the
//! subscription that follows its task takes it. [`lifecycle`] hands it to a [`lifecycle::Answerer`] and goes on polling;
//! [`commands::answering`] is the one there is, and decides between what was given beforehand, a program and the person, whom
//! [`present::dialogue`] asks on the thread that writes to the terminal. [`forms`] says what fits. Before an answer is sent it
//! is claimed in the [`record`], and a held server's [`holder`] lets the first through, so that each question is answered once.
//!
//! # Where to add things
//!
//! A command: a file in `commands`, a variant in `cli/args.rs`, a line in `cli/mod.rs`. A server's quirk: the reader in
//! `session`, with a test that shows it. A new exit number or hint: `commands/troubles.rs`. A protocol era: a module
//! beside `session/legacy.rs`; nothing above the session changes.

pub mod arguments;
pub mod cli;
pub mod commands;
pub mod demo;
pub mod forms;
pub mod holder;
pub mod lifecycle;
pub mod model;
pub mod present;
pub mod record;
pub mod rpc;
pub mod session;
pub mod transport;

#[cfg(test)]
mod testing;
