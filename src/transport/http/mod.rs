//! Streamable HTTP as the `initialize` eras speak it, and the older HTTP+SSE where a server has nothing else.
//! Spec 2025-11-25, basic/transports, "Streamable HTTP".
//!
//! Each message is a task of its own, so that a slow answer holds nobody up; what they share is `Link`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Notices;
use crate::model::Secret;
use crate::rpc::connection::TransportEnds;
use crate::rpc::{Connection, ConnectionError, Inbound, Outbound, RequestId, Tap};

mod answer;
mod events;
mod link;
mod listen;
mod old_sse;
mod request;

use link::Link;

/// How long ending a session may take.
const END_SESSION: Duration = Duration::from_secs(1);

/// The session that the server gave out, shared with whoever wants to come back to it in another process.
#[derive(Clone, Debug, Default)]
pub struct SharedSession(Arc<Mutex<Option<String>>>);

impl SharedSession {
    /// A session from before.
    pub fn known(id: Option<String>) -> Self {
        Self(Arc::new(Mutex::new(id)))
    }

    /// Its id; `None` where the server gives out none.
    pub fn id(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, id: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }
}

/// Where a server is and how to talk to it.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The endpoint, used as given.
    pub url: Url,
    /// Headers on every request.
    pub headers: Vec<(String, Secret)>,
    /// A bearer token.
    pub bearer: Option<Secret>,
    /// A file of PEM certificates to trust beside the system's.
    pub ca_cert: Option<PathBuf>,
    /// How long connecting may take; `None`: as long as the system tries.
    pub connect_timeout: Option<Duration>,
    /// The session to go on with, and where a new one is told.
    pub session: SharedSession,
    /// The most bytes that one message may have.
    pub max_message: usize,
    /// Sees every message.
    pub tap: Tap,
    /// Hears of broken streams.
    pub notices: Notices,
}

/// Makes a connection. Nothing is sent before the first message.
///
/// # Errors
/// [`ConnectionError::Configuration`] where a header, the certificate file or the TLS set-up cannot be used.
pub fn connect(settings: HttpSettings) -> Result<Connection, ConnectionError> {
    let (connection, TransportEnds { outbound, inbound }) = Connection::pair();
    let link = Arc::new(Link::new(settings, inbound)?);
    tokio::spawn(serve(link, outbound));
    Ok(connection)
}

async fn serve(link: Arc<Link>, mut outbound: mpsc::UnboundedReceiver<Outbound>) {
    let mut running = Running::default();
    while let Some(order) = outbound.recv().await {
        match order {
            Outbound::Request { id, text, head } => {
                let work = request::run(Arc::clone(&link), id.clone(), text, head);
                running.start(Some(id), work);
            }
            Outbound::Message { text, delivered } => {
                let link = Arc::clone(&link);
                running.start(None, async move {
                    let outcome = request::deliver(&link, text).await.map_err(Arc::new);
                    if let Some(delivered) = delivered {
                        let _ = delivered.send(outcome);
                    }
                });
            }
            Outbound::Abandon(id) => {
                running.stop(&id);
                link.no_longer_elsewhere(&id);
            }
            Outbound::Negotiated { version } => link.negotiated(version),
            Outbound::Listen { ready } if link.old_endpoint().is_none() => {
                running.stop_listening();
                // Whatever waits for an answer on the stream before waits in vain.
                link.listening(Some(false)).await;
                link.listening(None).await;
                running.listener = Some(tokio::spawn(listen::run(Arc::clone(&link), ready)).abort_handle());
            }
            Outbound::Listen { ready } => {
                let _ = ready.send(());
            }
            Outbound::EndSession { done } => {
                let _ = tokio::time::timeout(END_SESSION, link.end_session()).await;
                let _ = done.send(());
            }
        }
    }
    running.stop_all();
    link.close();
}

/// The tasks that run for a connection.
#[derive(Default)]
struct Running {
    requests: HashMap<RequestId, AbortHandle>,
    others: Vec<AbortHandle>,
    /// Reads the stream of unasked messages, which belongs to one session.
    listener: Option<AbortHandle>,
}

impl Running {
    fn start(&mut self, id: Option<RequestId>, work: impl Future<Output = ()> + Send + 'static) {
        self.requests.retain(|_, handle| !handle.is_finished());
        self.others.retain(|handle| !handle.is_finished());
        let handle = tokio::spawn(work).abort_handle();
        match id {
            Some(id) => drop(self.requests.insert(id, handle)),
            None => self.others.push(handle),
        }
    }

    fn stop(&mut self, id: &RequestId) {
        if let Some(handle) = self.requests.remove(id) {
            handle.abort();
        }
    }

    fn stop_listening(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.abort();
        }
    }

    fn stop_all(mut self) {
        self.stop_listening();
        for handle in self.requests.into_values().chain(self.others) {
            handle.abort();
        }
    }
}

/// Hands a message to the peer; a peer that is gone needs none.
async fn hand_over(inbound: &mpsc::Sender<Inbound>, message: Inbound) {
    let _ = inbound.send(message).await;
}
