//! The built-in demo server (`-s demo`): real work at a human pace, over stdio, from the same binary.
//!
//! It is what a newcomer meets first and what the README shows, so it keeps to the specification to the letter. The
//! tools know nothing of the protocol, the task store nothing of the wire; `legacy` puts both into the words of an era.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::rpc::connection::{Outgoing, TransportEnds};
use crate::rpc::{Connection, Inbound, Peer, message};

mod legacy;
mod tasks;
mod tools;

/// Serves on stdin and stdout until stdin ends.
///
/// # Errors
/// Where stdin cannot be read.
pub async fn serve() -> std::io::Result<()> {
    let (connection, TransportEnds { mut outbound, inbound }) = Connection::pair();
    let server = Arc::new(legacy::Server::default());
    let peer = Peer::start(connection, server.clone());
    server.connect(peer);
    let writer = tokio::spawn(async move {
        let mut stdout = tokio::io::stdout();
        while let Some(order) = outbound.recv().await {
            let Some(Outgoing { text, .. }) = order.into_message() else { continue };
            if stdout.write_all(format!("{text}\n").as_bytes()).await.is_err() || stdout.flush().await.is_err() {
                break;
            }
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        for message in message::read(&line).unwrap_or_default() {
            if inbound.send(Inbound::Message(message)).await.is_err() {
                break;
            }
        }
    }
    writer.abort();
    Ok(())
}
