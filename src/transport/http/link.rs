//! What every exchange with one HTTP server shares: the client, the headers, the session.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, Url, redirect};
use tokio::sync::{mpsc, watch};

use super::{HttpSettings, hand_over};
use crate::model::{Secret, text};
use crate::rpc::{ConnectionError, Direction, Inbound, Message, RequestId};

const SESSION_ID: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// A server that wants to be left alone for longer is asked again all the same.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3_600);
/// How many redirects are followed.
const REDIRECTS: usize = 10;

pub(super) struct Link {
    client: Client,
    pub(super) settings: HttpSettings,
    fixed_headers: HeaderMap,
    pub(super) inbound: mpsc::Sender<Inbound>,
    state: Mutex<State>,
    /// Whether the stream for unasked messages is open; `None` until that is known.
    listening: watch::Sender<Option<bool>>,
}

#[derive(Default)]
struct State {
    version: Option<String>,
    /// Where the 2024-11-05 transport takes messages, once it is in use.
    old_endpoint: Option<Url>,
    old_reader: Option<tokio::task::AbortHandle>,
    /// Requests whose POST was merely acknowledged: some servers put the answer on the stream for unasked messages.
    answered_elsewhere: Vec<(RequestId, ConnectionError)>,
}

impl Link {
    pub(super) fn new(settings: HttpSettings, inbound: mpsc::Sender<Inbound>) -> Result<Self, ConnectionError> {
        let client = client(&settings)?;
        let fixed_headers = fixed_headers(&settings)?;
        Ok(Self {
            client,
            settings,
            fixed_headers,
            inbound,
            state: Mutex::default(),
            listening: watch::Sender::new(Some(false)),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Every change is one assignment, so a panic elsewhere leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn negotiated(&self, version: String) {
        self.state().version = Some(version);
    }

    pub(super) fn has_session(&self) -> bool {
        self.settings.session.id().is_some()
    }

    pub(super) fn old_endpoint(&self) -> Option<Url> {
        self.state().old_endpoint.clone()
    }

    pub(super) fn use_old_endpoint(&self, endpoint: Url) {
        self.state().old_endpoint = Some(endpoint);
    }

    pub(super) fn keep_reader(&self, reader: tokio::task::AbortHandle) {
        self.state().old_reader = Some(reader);
    }

    /// Stops what reads beside the requests.
    pub(super) fn close(&self) {
        if let Some(reader) = self.state().old_reader.take() {
            reader.abort();
        }
    }

    /// Says whether the stream for unasked messages is open. What waits for an answer on it fails with it.
    pub(super) async fn listening(&self, open: Option<bool>) {
        self.listening.send_replace(open);
        if open == Some(false) {
            let waiting = std::mem::take(&mut self.state().answered_elsewhere);
            for (id, error) in waiting {
                hand_over(&self.inbound, Inbound::Failed { id, error: Arc::new(error) }).await;
            }
        }
    }

    /// Leaves a request to be answered on the stream for unasked messages.
    ///
    /// # Errors
    /// `otherwise`, where there is no such stream.
    pub(super) async fn answered_elsewhere(
        &self,
        id: &RequestId,
        otherwise: ConnectionError,
    ) -> Result<(), ConnectionError> {
        let mut listening = self.listening.subscribe();
        let open = listening.wait_for(Option::is_some).await.is_ok_and(|open| *open == Some(true));
        if !open {
            return Err(otherwise);
        }
        self.state().answered_elsewhere.push((id.clone(), otherwise));
        Ok(())
    }

    /// A new handshake starts without session and version.
    pub(super) fn forget_session(&self) {
        self.settings.session.set(None);
        self.state().version = None;
    }

    /// Keeps the session that the answer to a handshake names.
    pub(super) fn adopt_session(&self, response: &Response) {
        if let Some(session) = response.headers().get(SESSION_ID).and_then(|value| value.to_str().ok()) {
            self.settings.session.set(Some(session.to_owned()));
        }
    }

    /// Tells the server that the session may end. Whether it listens is its own affair.
    pub(super) async fn end_session(&self) {
        if self.has_session() {
            let _ = self.send(Method::DELETE, &self.settings.url, &[], None).await;
        }
    }

    /// POSTs a message to where this server takes them.
    pub(super) async fn post(
        &self,
        body: String,
        headers: &[(String, String)],
    ) -> Result<(Response, Url), ConnectionError> {
        self.settings.tap.see(Direction::Sent, &body);
        let url = self.old_endpoint().unwrap_or_else(|| self.settings.url.clone());
        self.send(Method::POST, &url, headers, Some(body)).await
    }

    /// Opens a stream of events, behind `last_event_id` where one is given.
    pub(super) async fn open_stream(&self, last_event_id: Option<&str>) -> Result<Response, ConnectionError> {
        let headers: Vec<(String, String)> =
            last_event_id.map(|id| ("last-event-id".to_owned(), id.to_owned())).into_iter().collect();
        let url = self.settings.url.clone();
        self.send(Method::GET, &url, &headers, None).await.map(|(response, _)| response)
    }

    /// Sends a request and follows redirects that keep its method and body, within the origin: a redirect elsewhere
    /// would carry the token and the message to a stranger.
    async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &[(String, String)],
        body: Option<String>,
    ) -> Result<(Response, Url), ConnectionError> {
        let mut url = url.clone();
        let headers = self.headers(&method, headers)?;
        for _ in 0..=REDIRECTS {
            let mut request = self.client.request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(body) = &body {
                request = request.body(body.clone());
            }
            let response = request.send().await.map_err(|error| fault(&url, &error))?;
            let status = response.status().as_u16();
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return Ok((response, url));
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let target =
                url.join(location).ok().filter(|target| matches!(status, 307 | 308) && same_origin(&url, target));
            match target {
                Some(target) => url = target,
                None => {
                    let location = url.join(location).map_or_else(|_| location.to_owned(), String::from);
                    return Err(ConnectionError::Redirect { url: shown(&url), status, location });
                }
            }
        }
        Err(ConnectionError::Broken { url: shown(&url), reason: format!("more than {REDIRECTS} redirects") })
    }

    fn headers(&self, method: &Method, extra: &[(String, String)]) -> Result<HeaderMap, ConnectionError> {
        let mut headers = HeaderMap::new();
        if *method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        } else if *method == Method::GET {
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        for (name, value) in
            [(SESSION_ID, self.settings.session.id()), (PROTOCOL_VERSION, self.state().version.clone())]
        {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        for (name, value) in extra {
            let (name, value) = header(name, value)?;
            headers.insert(name, value);
        }
        headers.extend(self.fixed_headers.clone());
        Ok(headers)
    }

    /// A request needs no answer any more, or has one.
    pub(super) fn no_longer_elsewhere(&self, id: &RequestId) {
        self.state().answered_elsewhere.retain(|(waiting, _)| waiting != id);
    }

    /// Hands a message to the peer.
    pub(super) async fn received(&self, message: Message) {
        if let Message::Response { id: Some(id), .. } = &message {
            self.no_longer_elsewhere(id);
        }
        hand_over(&self.inbound, Inbound::Message(message)).await;
    }
}

fn client(settings: &HttpSettings) -> Result<Client, ConnectionError> {
    let configuration = |error: &dyn std::error::Error| ConnectionError::Configuration(chain(error));
    // Fails where it was done before, which is just as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .user_agent(concat!("mcp-task/", env!("CARGO_PKG_VERSION")));
    if let Some(limit) = settings.connect_timeout {
        builder = builder.connect_timeout(limit);
    }
    if let Some(file) = &settings.ca_cert {
        let name = file.display();
        let pem = std::fs::read(file).map_err(|error| {
            ConnectionError::Configuration(format!("cannot read the certificates in {name}: {error}"))
        })?;
        let certificates = reqwest::Certificate::from_pem_bundle(&pem)
            .map_err(|error| ConnectionError::Configuration(format!("{name} holds no PEM certificates: {error}")))?;
        if certificates.is_empty() {
            return Err(ConnectionError::Configuration(format!("{name} holds no PEM certificates")));
        }
        builder = builder.tls_certs_merge(certificates);
    } else if settings.url.scheme() == "http" && !proxied() {
        // No TLS comes up, as redirects stay within the origin, so the system's certificates need not be read.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| configuration(&error))
}

/// Whether the environment names a proxy, which may itself speak TLS.
fn proxied() -> bool {
    ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"].iter().any(|name| std::env::var_os(name).is_some())
}

fn fixed_headers(settings: &HttpSettings) -> Result<HeaderMap, ConnectionError> {
    let mut headers = HeaderMap::new();
    let bearer = settings.bearer.as_ref().map(|token| Secret::new(format!("Bearer {}", token.expose())));
    let bearer = bearer.iter().map(|value| (AUTHORIZATION.as_str(), value));
    for (name, value) in bearer.chain(settings.headers.iter().map(|(name, value)| (name.as_str(), value))) {
        let (name, mut value) = header(name, value.expose())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The value is not named in the error: it may be a secret.
fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ConnectionError> {
    let refuse = |what: &str| {
        ConnectionError::Configuration(format!("the {what} of header `{}` cannot be sent", text::line(name)))
    };
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse("name"))?;
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| refuse("value"))?;
    Ok((header, value))
}

fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// A URL as people may see it: a name or password in it is the user's own.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// What reqwest says, as one of ours.
pub(super) fn fault(url: &Url, error: &reqwest::Error) -> ConnectionError {
    let url = shown(url);
    // The outermost words, `error sending request for url (…)`, repeat what we say ourselves.
    let reason = chain(std::error::Error::source(error).unwrap_or(error));
    if error.is_connect() {
        ConnectionError::Connect { url, reason: root_cause(error) }
    } else if error.is_builder() {
        ConnectionError::Configuration(format!("cannot ask {url}: {reason}"))
    } else {
        ConnectionError::Broken { url, reason }
    }
}

/// What a person understands of a connection that did not come about: `Connection refused`, not the layers above it.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string()
}

/// An error and its causes on one line, each told once.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !told.contains(&words) {
            told.push_str(": ");
            told.push_str(&words);
        }
        cause = error.source();
    }
    told
}

/// `Retry-After` in seconds; the form with a date is not read, as it takes two clocks that agree.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}
