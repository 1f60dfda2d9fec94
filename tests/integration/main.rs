//! The program as a user runs it: what it prints, how it leaves, and what the server received.
//!
//! `cli` needs no server; `stdio`, `http`, `life`, `list`, `record`, `several` and `output` use the scripted one, `held` that one
//! and the built-in one in processes that outlive their commands, `real` the servers that others wrote, `terminal` a
//! pseudo-terminal, and `picture` the one that the README shows.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asked;
mod cli;
mod held;
mod http;
mod life;
mod list;
mod offers;
mod output;
mod picture;
mod questions;
mod real;
mod receiver;
mod record;
mod several;
mod stdio;
mod support;
mod terminal;
