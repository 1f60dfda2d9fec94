//! The stream for what a server says unasked. Spec 2025-11-25, basic/transports, "Listening for Messages".

use std::sync::Arc;

use tokio::sync::oneshot;

use super::answer::{pause, take};
use super::events::{Cursor, Events};
use super::link::Link;
use super::request::is_event_stream;

/// How often in a row the stream may break without a single event. What is lost by giving up are hints alone.
const FRUITLESS: u32 = 20;

/// Keeps the stream open for as long as the server offers it. `ready` is told once its headers are there.
pub(super) async fn run(link: Arc<Link>, ready: oneshot::Sender<()>) {
    listen(&link, ready).await;
    link.listening(Some(false)).await;
}

async fn listen(link: &Link, ready: oneshot::Sender<()>) {
    let mut ready = Some(ready);
    let mut cursor = Cursor::default();
    let mut fruitless = 0;
    while fruitless < FRUITLESS {
        let opened = link.open_stream(cursor.last_id.as_deref()).await;
        if opened.as_ref().is_ok_and(is_event_stream) {
            link.listening(Some(true)).await;
        }
        if let Some(ready) = ready.take() {
            let _ = ready.send(());
        }
        fruitless += 1;
        match opened {
            Ok(response) if is_event_stream(&response) => {
                let mut events = Events::of(response, link.settings.max_message);
                while let Some(Ok(event)) = events.next().await {
                    fruitless = 0;
                    take(link, event, None).await;
                }
                let reached = events.cursor();
                cursor = Cursor { last_id: reached.last_id.or(cursor.last_id), retry: reached.retry.or(cursor.retry) };
            }
            Ok(response) if response.status().is_server_error() => {}
            Err(error) if error.is_passing() => {}
            // 405, 404, 400 and the like: this server has no such stream.
            Ok(_) | Err(_) => return,
        }
        tokio::time::sleep(pause(cursor.retry, fruitless)).await;
    }
}
