//! One POST and what comes back for it.

use std::sync::Arc;

use reqwest::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{Response, Url};

use super::link::{Link, chain, fault, retry_after, shown};
use super::{answer, hand_over, old_sse};
use crate::rpc::connection::RequestHead;
use crate::rpc::{ConnectionError, Direction, Inbound, Message, RequestId, message};

/// How much of the body of an error is read, in bytes.
const ERROR_BODY: usize = 256 * 1024;

/// Sends a request and sees to it that the peer gets either an answer or the reason why there is none.
pub(super) async fn run(link: Arc<Link>, id: RequestId, text: String, head: RequestHead) {
    if let Err(error) = exchange(&link, &id, text, &head).await {
        hand_over(&link.inbound, Inbound::Failed { id, error: Arc::new(error) }).await;
    }
}

/// Sends a notification or a response. Any 2xx is a receipt.
pub(super) async fn deliver(link: &Link, text: String) -> Result<(), ConnectionError> {
    let had_session = link.has_session();
    let (response, url) = link.post(text, &[]).await?;
    if response.status().is_success() {
        return Ok(());
    }
    let refusal = Refusal::read(link, response, &url).await;
    Err(refusal.into_error(had_session))
}

async fn exchange(link: &Arc<Link>, id: &RequestId, text: String, head: &RequestHead) -> Result<(), ConnectionError> {
    let handshake = head.method == "initialize";
    if handshake {
        link.forget_session();
    }
    // The session that it goes out with: by the time of the answer another request may have renewed it.
    let had_session = link.has_session();
    let (response, url) = link.post(text.clone(), &head.headers).await?;
    if response.status().is_success() {
        if handshake {
            link.adopt_session(&response);
        }
        return take_answer(link, id, response, &url).await;
    }
    let refusal = Refusal::read(link, response, &url).await;
    if let Some(message) = refusal.answer_to(id, had_session) {
        link.received(message).await;
        return Ok(());
    }
    if handshake && matches!(refusal.status, 400 | 404 | 405) && old_sse::connect(link).await {
        // The handshake may be repeated: a server that does not take it here has not acted on it.
        let (response, url) = link.post(text, &head.headers).await?;
        return take_answer(link, id, response, &url).await;
    }
    Err(refusal.into_error(had_session))
}

async fn take_answer(link: &Arc<Link>, id: &RequestId, response: Response, url: &Url) -> Result<(), ConnectionError> {
    if !response.status().is_success() {
        return Err(Refusal::read(link, response, url).await.into_error(link.has_session()));
    }
    if is_event_stream(&response) {
        return answer::follow(link, id, response, url).await;
    }
    if link.old_endpoint().is_some() {
        return Ok(());
    }
    let status = response.status().as_u16();
    let body = read_body(response, url, link.settings.max_message, true).await?;
    let messages = message::read(&body).unwrap_or_default();
    if !messages.is_empty() {
        link.settings.tap.see(Direction::Received, &body);
    }
    let mut answered = false;
    for message in messages {
        let message = attribute(message, id);
        answered |= answers(&message, id);
        link.received(message).await;
    }
    if answered {
        return Ok(());
    }
    let is_receipt = status == 202 && body.trim().is_empty();
    let what = if body.trim().is_empty() { "an empty body".to_owned() } else { excerpt(&body) };
    let what = format!("HTTP {status}, {what}");
    let error = ConnectionError::NotAnAnswer { url: shown(url), what, is_receipt };
    if is_receipt { link.answered_elsewhere(id, error).await } else { Err(error) }
}

/// Whether `message` is the answer to `id`.
pub(super) fn answers(message: &Message, id: &RequestId) -> bool {
    matches!(message, Message::Response { id: Some(answered), .. } if answered == id)
}

/// An error that comes back for our own POST is the answer to it, whatever id the server wrote: real ones send `null`,
/// nothing, and `"server-error"`.
pub(super) fn attribute(message: Message, id: &RequestId) -> Message {
    match message {
        Message::Response { id: None, outcome } => Message::Response { id: Some(id.clone()), outcome },
        Message::Response { outcome: Err(error), .. } => {
            Message::Response { id: Some(id.clone()), outcome: Err(error) }
        }
        other => other,
    }
}

pub(super) fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    response.status().is_success() && kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// Reads a body of at most `limit` bytes. One that is larger is an error where the `whole` is needed, and cut where not.
async fn read_body(mut response: Response, url: &Url, limit: usize, whole: bool) -> Result<String, ConnectionError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| fault(url, &error))? {
        if body.len() + chunk.len() > limit {
            if whole {
                return Err(ConnectionError::MessageTooLarge { limit });
            }
            break;
        }
        body.extend_from_slice(&chunk);
    }
    let body = String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok(body.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(body))
}

fn excerpt(body: &str) -> String {
    let line: String = body.chars().take(200).collect();
    format!("`{}`", crate::model::text::line(&line))
}

/// An answer other than 2xx.
pub(super) struct Refusal {
    url: String,
    pub(super) status: u16,
    challenge: Option<String>,
    retry_after: Option<std::time::Duration>,
    body: String,
}

impl Refusal {
    pub(super) async fn read(link: &Link, response: Response, url: &Url) -> Self {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (status, challenge) = (response.status().as_u16(), header(WWW_AUTHENTICATE));
        let retry_after = retry_after(&response);
        let body = read_body(response, url, ERROR_BODY, false).await;
        let body = body.unwrap_or_else(|error| chain(&error));
        if !body.is_empty() {
            link.settings.tap.see(Direction::Received, &body);
        }
        Self { url: shown(url), status, challenge, retry_after, body }
    }

    /// The JSON-RPC error in the body, if it is an answer and not the transport's own trouble.
    fn answer_to(&self, id: &RequestId, has_session: bool) -> Option<Message> {
        let message = message::read(&self.body)
            .ok()?
            .into_iter()
            .find(|message| matches!(message, Message::Response { outcome: Err(_), .. }))?;
        if answers(&message, id) {
            return Some(message);
        }
        let passing = matches!(self.status, 408 | 425 | 429 | 500..);
        let authorization = matches!(self.status, 401 | 403);
        (!passing && !authorization && !self.is_session_gone(has_session)).then(|| attribute(message, id))
    }

    fn is_session_gone(&self, has_session: bool) -> bool {
        has_session
            && (self.status == 404 || (self.status == 400 && self.body.to_ascii_lowercase().contains("session")))
    }

    pub(super) fn into_error(self, has_session: bool) -> ConnectionError {
        let is_session_gone = self.is_session_gone(has_session);
        let Self { url, status, challenge, retry_after, body } = self;
        match status {
            401 | 403 => ConnectionError::Unauthorized { url, status, challenge, body },
            _ if is_session_gone => ConnectionError::SessionGone { status, body },
            _ => ConnectionError::Status { url, status, retry_after, body },
        }
    }
}
