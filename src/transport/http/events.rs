//! Server-sent events, read line by line.
//!
//! `eventsource-stream` parses, but not from raw chunks: its cost is then quadratic in an event's size, it panics on a
//! byte-order mark, and it forgets `retry` and `id` of an event without `data`. So our framer cuts the lines, drops the
//! mark, bounds an event's size and keeps those two; the library sees whole lines.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use eventsource_stream::{EventStream, Eventsource};
use futures_util::{Stream, StreamExt};

use crate::rpc::framing::{LineEnding, LineFramer};

/// A stream of events.
pub(super) struct Events {
    events: EventStream<Pin<Box<Lines>>>,
    place: Arc<Mutex<Place>>,
}

/// One event with data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// `message` where the server named none.
    pub(super) name: String,
    /// The data lines, joined by LF.
    pub(super) data: String,
    /// The id that the server gave this very event.
    pub(super) id: Option<String>,
}

/// Where a stream stands, for taking it up again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The last id of a complete event.
    pub(super) last_id: Option<String>,
    /// The pause that the server asks for.
    pub(super) retry: Option<Duration>,
}

/// The cursor, and what the last complete event said about it.
#[derive(Debug, Default)]
struct Place {
    cursor: Cursor,
    event_id: Option<String>,
}

/// Why a stream of events broke.
#[derive(Debug, thiserror::Error)]
pub(super) enum EventsError {
    #[error("an event is larger than the limit of {0} bytes")]
    TooLarge(usize),
    #[error("{0}")]
    Source(String),
}

impl Events {
    /// Reads `source`, which yields chunks of bytes; an event may have `limit` bytes.
    pub(super) fn new<S>(source: S, limit: usize) -> Self
    where
        S: Stream<Item = Result<Vec<u8>, String>> + Send + 'static,
    {
        let place = Arc::<Mutex<Place>>::default();
        let lines = Lines {
            source: Box::pin(source),
            framer: LineFramer::new(LineEnding::Any, limit),
            pending_id: None,
            event_size: 0,
            limit,
            place: Arc::clone(&place),
            ended: false,
        };
        Self { events: Box::pin(lines).eventsource(), place }
    }

    /// Reads a response.
    pub(super) fn of(response: reqwest::Response, limit: usize) -> Self {
        let chunks = response.bytes_stream().map(|chunk| match chunk {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(super::link::chain(&error)),
        });
        Self::new(chunks, limit)
    }

    /// The next event that has data; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Result<Event, EventsError>> {
        match self.events.next().await? {
            Ok(event) => Some(Ok(Event { name: event.event, data: event.data, id: lock(&self.place).event_id.take() })),
            Err(eventsource_stream::EventStreamError::Transport(error)) => Some(Err(error)),
            Err(error) => Some(Err(EventsError::Source(error.to_string()))),
        }
    }

    /// Where the stream stands.
    pub(super) fn cursor(&self) -> Cursor {
        lock(&self.place).cursor.clone()
    }
}

fn lock(place: &Mutex<Place>) -> std::sync::MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whole lines, each with its LF, for the parser.
struct Lines {
    source: Pin<Box<dyn Stream<Item = Result<Vec<u8>, String>> + Send>>,
    framer: LineFramer,
    /// The id of the event being read. It counts once the event is complete, lest half an event be skipped on resuming.
    pending_id: Option<String>,
    event_size: usize,
    limit: usize,
    place: Arc<Mutex<Place>>,
    ended: bool,
}

impl Lines {
    /// Notes what the line says about the cursor and returns it with its LF.
    fn accept(&mut self, line: &[u8]) -> Result<String, EventsError> {
        let line = String::from_utf8_lossy(line);
        self.event_size += line.len();
        if self.event_size > self.limit {
            return Err(EventsError::TooLarge(self.limit));
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let mut place = lock(&self.place);
        match field {
            "id" if !value.contains('\0') => self.pending_id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                place.cursor.retry = value.parse().ok().map(Duration::from_millis);
            }
            "" if line.is_empty() => {
                self.event_size = 0;
                place.event_id = self.pending_id.take();
                if let Some(id) = &place.event_id {
                    place.cursor.last_id = Some(id.clone()).filter(|id| !id.is_empty());
                }
            }
            _ => {}
        }
        drop(place);
        Ok(format!("{line}\n"))
    }
}

impl Stream for Lines {
    type Item = Result<String, EventsError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.framer.next_line() {
                return Poll::Ready(Some(self.accept(&line)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match ready!(self.source.as_mut().poll_next(context)) {
                Some(Ok(bytes)) => {
                    if let Err(too_long) = self.framer.push(&bytes) {
                        return Poll::Ready(Some(Err(EventsError::TooLarge(too_long.limit))));
                    }
                }
                Some(Err(reason)) => return Poll::Ready(Some(Err(EventsError::Source(reason)))),
                None => {
                    // An event that no blank line ends is incomplete and is dropped, as the standard has it.
                    self.ended = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn events(chunks: Vec<Vec<u8>>, limit: usize) -> Events {
        Events::new(stream::iter(chunks.into_iter().map(Ok)), limit)
    }

    async fn all(chunks: &[&[u8]]) -> (Vec<(String, String)>, Cursor) {
        let mut events = events(chunks.iter().map(|chunk| chunk.to_vec()).collect(), 1_000);
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            seen.push((event.name, event.data));
        }
        (seen, events.cursor())
    }

    fn message(data: &str) -> (String, String) {
        ("message".to_owned(), data.to_owned())
    }

    #[tokio::test]
    async fn a_byte_order_mark_is_no_panic() {
        assert_eq!(all(&[b"\xef\xbb\xbfdata: x\n\n"]).await.0, [message("x")]);
        assert_eq!(all(&[b"\xef\xbb", b"\xbfdata: x\n\n"]).await.0, [message("x")]);
    }

    #[tokio::test]
    async fn retry_and_id_of_an_event_without_data_count() {
        let (seen, cursor) = all(&[b"id: e1\nretry: 700\n\n"]).await;
        assert!(seen.is_empty());
        assert_eq!(cursor, Cursor { last_id: Some("e1".into()), retry: Some(Duration::from_millis(700)) });
    }

    #[tokio::test]
    async fn half_an_event_does_not_move_the_cursor() {
        let (seen, cursor) = all(&[b"id: e1\ndata: a\n\nid: e2\ndata: {\"ha"]).await;
        assert_eq!(seen, [message("a")]);
        assert_eq!(cursor.last_id.as_deref(), Some("e1"));
    }

    /// Fed raw chunks, the library scans the event from its start for each: 16 MiB in 8 KiB chunks are 2048 scans of 8
    /// MiB on average. Counted here as lines handed on, since a test must not measure time.
    #[tokio::test]
    async fn a_large_event_reaches_the_parser_as_whole_lines() {
        let data = "x".repeat(16 * 1024 * 1024);
        let bytes = format!("data: {data}\n\n").into_bytes();
        let chunks: Vec<Result<Vec<u8>, String>> = bytes.chunks(8 * 1024).map(|chunk| Ok(chunk.to_vec())).collect();
        let mut lines = Lines {
            source: Box::pin(stream::iter(chunks.clone())),
            framer: LineFramer::new(LineEnding::Any, 32 << 20),
            pending_id: None,
            event_size: 0,
            limit: 32 << 20,
            place: Arc::default(),
            ended: false,
        };
        let mut count = 0;
        while let Some(line) = lines.next().await {
            line.unwrap();
            count += 1;
        }
        assert_eq!(count, 2);
        let mut events = Events::new(stream::iter(chunks), 32 << 20);
        assert_eq!(events.next().await.unwrap().unwrap().data.len(), data.len());
    }

    #[tokio::test]
    async fn an_event_is_bounded_over_all_its_lines() {
        let mut events = events(vec![b"data: 12345678\ndata: 12345678\n\n".to_vec()], 20);
        assert!(matches!(events.next().await, Some(Err(EventsError::TooLarge(20)))));
    }

    #[tokio::test]
    async fn lines_may_be_cut_anywhere_and_end_anyhow() {
        let text = "id: 0\r\ndata:\r\n\r\n: ping\r\n\r\nevent: heartbeat\r\ndata: x\r\n\r\ndata:{\r\ndata: \"面\"\r\ndata: }\r\n\r\n";
        let whole = all(&[text.as_bytes()]).await;
        assert_eq!(whole.0.last(), Some(&message("{\n\"面\"\n}")));
        assert!(whole.0.contains(&("heartbeat".to_owned(), "x".to_owned())));
        for cut in 0..text.len() {
            assert_eq!(all(&[&text.as_bytes()[..cut], &text.as_bytes()[cut..]]).await, whole);
        }
    }
}
