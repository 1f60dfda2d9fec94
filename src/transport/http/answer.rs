//! An answer that comes as a stream of events, taken up again where it broke off.
//! Spec 2025-11-25, basic/transports, "Resumability and Redelivery".

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Response, Url};

use super::events::{Cursor, Event, Events, EventsError};
use super::link::{Link, shown};
use super::request::{answers, attribute, is_event_stream};
use crate::rpc::{ConnectionError, Direction, Message, RequestId, message};
use crate::transport::Notice;

/// How often in a row a stream may be taken up again without a single new event.
const FRUITLESS: u32 = 10;
/// The pause before taking a stream up again, where the server asks for none.
const RETRY: Duration = Duration::from_secs(1);
/// The longest such pause of our own making.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The longest that a server may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(3_600);
/// How many ids of events are remembered, to know those that come again.
const REMEMBERED: usize = 10_000;
/// How long the rest of a stream is read after the answer, so that the connection can be used again.
const AFTERMATH: Duration = Duration::from_secs(1);

/// Reads events until the answer to `id` is there; what else comes is handed on as well.
pub(super) async fn follow(
    link: &Arc<Link>,
    id: &RequestId,
    response: Response,
    url: &Url,
) -> Result<(), ConnectionError> {
    let mut progress = Progress::default();
    let mut response = response;
    loop {
        let mut events = Events::of(response, link.settings.max_message);
        let broken = loop {
            match events.next().await {
                Some(Ok(event)) => {
                    if progress.is_new(&event) && take(link, event, Some(id)).await {
                        let _ = tokio::time::timeout(AFTERMATH, async {
                            while let Some(Ok(event)) = events.next().await {
                                take(link, event, None).await;
                            }
                        })
                        .await;
                        return Ok(());
                    }
                }
                Some(Err(EventsError::TooLarge(limit))) => return Err(ConnectionError::MessageTooLarge { limit }),
                Some(Err(EventsError::Source(reason))) => break Some(reason),
                None => break None,
            }
        };
        progress.stand_at(events.cursor());
        if progress.cursor.last_id.is_none() {
            return Err(match broken {
                Some(reason) => ConnectionError::Broken { url: shown(url), reason },
                None => ConnectionError::StreamEnded { resumes: 0 },
            });
        }
        response = resume(link, &mut progress).await?;
    }
}

/// Hands on what an event says; whether the answer to `id` was in it.
pub(super) async fn take(link: &Link, event: Event, id: Option<&RequestId>) -> bool {
    if event.name != "message" && !event.name.is_empty() {
        return false;
    }
    let Ok(messages) = message::read(&event.data) else {
        return false;
    };
    link.settings.tap.see(Direction::Received, &event.data);
    let mut answered = false;
    for message in messages {
        let message = match id {
            Some(id) if matches!(message, Message::Response { id: None, .. }) => attribute(message, id),
            _ => message,
        };
        answered |= id.is_some_and(|id| answers(&message, id));
        link.received(message).await;
    }
    answered
}

/// The pause before the attempt after `fruitless` that brought nothing: what the server asks for, and longer each time.
pub(super) fn pause(retry: Option<Duration>, fruitless: u32) -> Duration {
    let asked = retry.unwrap_or(RETRY).min(LONGEST_ASKED);
    let grown = asked.max(Duration::from_millis(100)) * 2u32.saturating_pow(fruitless.saturating_sub(2));
    grown.min(LONGEST_RETRY).max(asked)
}

async fn resume(link: &Link, progress: &mut Progress) -> Result<Response, ConnectionError> {
    while progress.fruitless < FRUITLESS {
        let pause = pause(progress.cursor.retry, progress.fruitless);
        link.settings.notices.tell(Notice::Resuming(pause));
        tokio::time::sleep(pause).await;
        progress.fruitless += 1;
        match link.open_stream(progress.cursor.last_id.as_deref()).await {
            Ok(response) if is_event_stream(&response) => return Ok(response),
            Ok(response) if response.status().is_server_error() || response.status().as_u16() == 429 => {}
            // Whatever the reason, the request itself was taken before: this is a lost answer, not a refusal.
            Ok(_) => break,
            Err(error) if error.is_passing() => {}
            Err(_) => break,
        }
    }
    Err(ConnectionError::StreamEnded { resumes: progress.fruitless })
}

/// Where the answer stands over all its streams.
#[derive(Default)]
struct Progress {
    cursor: Cursor,
    fruitless: u32,
    /// Ids of the events of the streams before this one; a server that replays more than it should sends them again.
    earlier: HashSet<String>,
    current: HashSet<String>,
}

impl Progress {
    fn is_new(&mut self, event: &Event) -> bool {
        let Some(id) = &event.id else { return true };
        if self.earlier.contains(id) {
            return false;
        }
        if self.earlier.len() + self.current.len() < REMEMBERED {
            self.current.insert(id.clone());
        }
        self.fruitless = 0;
        true
    }

    /// A stream has ended. One that brought no id leaves the last known one standing.
    fn stand_at(&mut self, cursor: Cursor) {
        if cursor.last_id.is_some() && cursor.last_id != self.cursor.last_id {
            // It has moved on, if by an event without data alone.
            self.fruitless = 0;
            self.cursor.last_id = cursor.last_id;
        }
        if cursor.retry.is_some() {
            self.cursor.retry = cursor.retry;
        }
        self.earlier.extend(self.current.drain());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_never_shorter_than_asked_for() {
        let asked = Some(Duration::from_millis(700));
        let pauses: Vec<u128> = (0..6).map(|fruitless| pause(asked, fruitless).as_millis()).collect();
        assert_eq!(pauses, [700, 700, 700, 1400, 2800, 5600]);
        assert_eq!(pause(Some(Duration::ZERO), 4), Duration::from_millis(400));
        assert_eq!(pause(Some(Duration::from_secs(300)), 0), Duration::from_secs(300));
        assert_eq!(pause(Some(Duration::from_secs(9_999)), 40), LONGEST_ASKED);
        assert_eq!(pause(None, 40), LONGEST_RETRY);
    }

    #[test]
    fn what_was_seen_before_the_break_is_not_seen_again() {
        let event = |id: &str| Event { name: String::new(), data: "x".into(), id: Some(id.into()) };
        let mut progress = Progress::default();
        assert!(progress.is_new(&event("1")) && progress.is_new(&event("1")));
        progress.stand_at(Cursor { last_id: Some("1".into()), retry: None });
        assert!(!progress.is_new(&event("1")));
        assert!(progress.is_new(&event("2")));
        progress.stand_at(Cursor::default());
        assert_eq!(progress.cursor.last_id.as_deref(), Some("1"));
        // An event without an id of its own is never taken for one that comes again.
        assert!(progress.is_new(&Event { name: String::new(), data: "x".into(), id: None }));
        // A stream that brings nothing but a new place to stand is no fruitless one.
        progress.fruitless = 9;
        progress.stand_at(Cursor { last_id: Some("2".into()), retry: None });
        assert_eq!(progress.fruitless, 0);
    }
}
