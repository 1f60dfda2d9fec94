//! The program as a user runs it: what it prints, how it leaves, and what the server received.
//!
//! `cli` needs no server, `stdio`, `http`, `life`, `record` and `output` the
//! scripted one, `real` the servers that others wrote,
//! `terminal` a pseudo-terminal.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli;
mod held;
mod http;
mod life;
mod output;
mod picture;
mod real;
mod record;
mod stdio;
mod support;
mod terminal;
