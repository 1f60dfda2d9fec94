//! One side of a JSON-RPC connection: any number of requests in flight, the other side's requests answered at once.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::connection::{Connection, ConnectionError, Inbound, Outbound, RequestHead};
use super::message::{self, IncomingNotification, IncomingRequest, Message, RequestId};
use crate::model::rpc_error::codes;
use crate::model::{RawJson, RpcError};

/// Why a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The other side answered with an error.
    #[error(transparent)]
    Rpc(RpcError),
    /// There was no answer.
    #[error(transparent)]
    Connection(Arc<ConnectionError>),
}

/// What to do with a request of the other side.
#[derive(Debug)]
pub enum RequestReply {
    /// Answer it now.
    Now(Result<Value, RpcError>),
    /// Somebody kept it and will answer it with [`Peer::respond`].
    Later,
}

/// What takes the other side's requests and notifications. Both are called from the reading loop, so neither may wait;
/// that is what keeps a slow terminal from stopping the protocol.
pub trait Handler: Send + Sync {
    /// A request other than `ping`.
    fn request(&self, request: IncomingRequest) -> RequestReply;
    /// A notification.
    fn notification(&self, notification: IncomingNotification);
    /// An error response that belongs to no request of ours.
    fn orphan(&self, error: &RpcError);
}

type Reply = Result<RawJson, CallError>;
type PendingMap = HashMap<RequestId, oneshot::Sender<Reply>>;

#[derive(Default)]
struct Pending {
    requests: PendingMap,
    closed: Option<Arc<ConnectionError>>,
}

struct Shared {
    outbound: mpsc::UnboundedSender<Outbound>,
    pending: Arc<Mutex<Pending>>,
    /// Random, so that two processes on one HTTP session never use one id: that hangs real servers.
    id_prefix: String,
    next_id: AtomicU64,
}

/// A handle to a connection. Cheap to clone; the connection's reading ends when the last clone is gone.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
}

/// See [`Peer::downgrade`]. The default one is of no connection.
#[derive(Clone, Default)]
pub struct WeakPeer(Weak<Shared>);

impl WeakPeer {
    /// The peer, while the connection is open.
    pub fn upgrade(&self) -> Option<Peer> {
        self.0.upgrade().map(|shared| Peer { shared })
    }
}

impl fmt::Debug for WeakPeer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WeakPeer")
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Peer").field("ids", &self.shared.id_prefix).finish_non_exhaustive()
    }
}

impl Peer {
    /// Starts reading `connection`.
    pub fn start(connection: Connection, handler: Arc<dyn Handler>) -> Self {
        let pending = Arc::<Mutex<Pending>>::default();
        let reader = Reader { pending: Arc::clone(&pending), outbound: connection.outbound.downgrade(), handler };
        let shared = Arc::new(Shared {
            outbound: connection.outbound,
            pending,
            id_prefix: random_prefix(),
            next_id: AtomicU64::new(1),
        });
        tokio::spawn(reader.run(connection.inbound));
        Self { shared }
    }

    /// Text that no other process and no earlier call of this one was given.
    pub fn unique_token(&self) -> String {
        format!("{}-{}", self.shared.id_prefix, self.shared.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends a request. It is sent at once, the answer is to be awaited; dropping [`InFlight`] before the answer leaves
    /// nothing behind.
    pub fn request(&self, params: &Value, head: RequestHead) -> InFlight {
        let id = RequestId::Text(self.unique_token());
        let (sender, receiver) = oneshot::channel();
        let mut in_flight = InFlight { id: id.clone(), receiver, shared: Arc::clone(&self.shared), answered: false };
        let closed = {
            let mut pending = lock(&self.shared.pending);
            match &pending.closed {
                Some(error) => Some(Arc::clone(error)),
                None => {
                    pending.requests.insert(id.clone(), sender);
                    None
                }
            }
        };
        if let Some(error) = closed {
            let (sender, receiver) = oneshot::channel();
            let _ = sender.send(Err(CallError::Connection(error)));
            in_flight.receiver = receiver;
            return in_flight;
        }
        let text = message::request(&id, &head.method, params);
        if self.shared.outbound.send(Outbound::Request { id: id.clone(), text, head }).is_err() {
            settle(&self.shared.pending, &id, Err(CallError::Connection(Arc::new(ConnectionError::Closed))));
        }
        in_flight
    }

    /// Sends a notification and waits until the transport has delivered it.
    ///
    /// # Errors
    /// Where the transport could not deliver it.
    pub async fn notify(&self, method: &str, params: &Value) -> Result<(), Arc<ConnectionError>> {
        self.deliver(message::notification(method, params)).await
    }

    async fn deliver(&self, text: String) -> Result<(), Arc<ConnectionError>> {
        let (delivered, receiver) = oneshot::channel();
        let closed = || Arc::new(ConnectionError::Closed);
        self.shared.outbound.send(Outbound::Message { text, delivered: Some(delivered) }).map_err(|_| closed())?;
        receiver.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Sends a notification without waiting for its delivery.
    pub fn tell(&self, method: &str, params: &Value) {
        let text = message::notification(method, params);
        let _ = self.shared.outbound.send(Outbound::Message { text, delivered: None });
    }

    /// Answers a request that a [`Handler`] kept, and waits until the transport has delivered the answer.
    ///
    /// # Errors
    /// Where the transport could not deliver it.
    pub async fn respond(&self, id: &RequestId, outcome: &Result<Value, RpcError>) -> Result<(), Arc<ConnectionError>> {
        self.deliver(message::response(id, outcome)).await
    }

    /// Answers a request that a [`Handler`] kept, without waiting for the delivery.
    pub fn tell_response(&self, id: &RequestId, outcome: &Result<Value, RpcError>) {
        let _ = self.shared.outbound.send(Outbound::Message { text: message::response(id, outcome), delivered: None });
    }

    /// A handle that does not keep the connection open.
    pub fn downgrade(&self) -> WeakPeer {
        WeakPeer(Arc::downgrade(&self.shared))
    }

    /// Tells the transport that the handshake agreed on `version`.
    pub fn negotiated(&self, version: &str) {
        let _ = self.shared.outbound.send(Outbound::Negotiated { version: version.to_owned() });
    }

    /// Asks the transport for its stream of messages that belong to no request. The future ends when the stream is open
    /// or it is plain that there is none; the stream is asked for at once.
    pub fn listen(&self) -> impl Future<Output = ()> + 'static {
        let (ready, receiver) = oneshot::channel();
        let _ = self.shared.outbound.send(Outbound::Listen { ready });
        async {
            let _ = receiver.await;
        }
    }

    /// Has the transport end the server's session, and waits until that is done or has failed.
    pub async fn end_session(&self) {
        let (done, receiver) = oneshot::channel();
        let _ = self.shared.outbound.send(Outbound::EndSession { done });
        let _ = receiver.await;
    }

    /// How many requests wait for their answer.
    pub fn in_flight(&self) -> usize {
        lock(&self.shared.pending).requests.len()
    }
}

/// A request that was sent. Await it for its answer.
#[must_use = "the answer is to be awaited"]
pub struct InFlight {
    id: RequestId,
    receiver: oneshot::Receiver<Reply>,
    shared: Arc<Shared>,
    answered: bool,
}

impl InFlight {
    /// The request's id, as `notifications/cancelled` wants it.
    pub fn id(&self) -> &RequestId {
        &self.id
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InFlight").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Future for InFlight {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        let reply = std::task::ready!(Pin::new(&mut self.receiver).poll(context));
        self.answered = true;
        Poll::Ready(reply.unwrap_or_else(|_| Err(CallError::Connection(Arc::new(ConnectionError::Closed)))))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.answered && lock(&self.shared.pending).requests.remove(&self.id).is_some() {
            let _ = self.shared.outbound.send(Outbound::Abandon(self.id.clone()));
        }
    }
}

struct Reader {
    pending: Arc<Mutex<Pending>>,
    /// Weak, so that the connection closes when the last [`Peer`] is dropped.
    outbound: mpsc::WeakUnboundedSender<Outbound>,
    handler: Arc<dyn Handler>,
}

impl Reader {
    async fn run(self, mut inbound: mpsc::Receiver<Inbound>) {
        let reason = loop {
            match inbound.recv().await {
                Some(Inbound::Message(message)) => self.dispatch(message),
                Some(Inbound::Failed { id, error }) => settle(&self.pending, &id, Err(CallError::Connection(error))),
                Some(Inbound::Closed(error)) => break error,
                None => break Arc::new(ConnectionError::Closed),
            }
        };
        let requests = {
            let mut pending = lock(&self.pending);
            pending.closed = Some(Arc::clone(&reason));
            std::mem::take(&mut pending.requests)
        };
        for sender in requests.into_values() {
            let _ = sender.send(Err(CallError::Connection(Arc::clone(&reason))));
        }
    }

    fn dispatch(&self, message: Message) {
        match message {
            Message::Request(request) => {
                let id = request.id.clone();
                let reply = if request.method == "ping" {
                    RequestReply::Now(Ok(json!({})))
                } else {
                    self.handler.request(request)
                };
                if let RequestReply::Now(outcome) = reply {
                    let text = message::response(&id, &outcome);
                    if let Some(outbound) = self.outbound.upgrade() {
                        let _ = outbound.send(Outbound::Message { text, delivered: None });
                    }
                }
            }
            Message::Notification(notification) => self.handler.notification(notification),
            Message::Response { id: Some(id), outcome } => {
                settle(&self.pending, &id, outcome.map_err(CallError::Rpc));
            }
            Message::Response { id: None, outcome } => self.unaddressed(outcome),
        }
    }

    /// A response without an id can only be meant for the one request that waits; with several, nobody can tell.
    fn unaddressed(&self, outcome: Result<RawJson, RpcError>) {
        let only = {
            let pending = lock(&self.pending);
            (pending.requests.len() == 1).then(|| pending.requests.keys().next().cloned()).flatten()
        };
        match (only, outcome) {
            (Some(id), outcome) => settle(&self.pending, &id, outcome.map_err(CallError::Rpc)),
            (None, Err(error)) => self.handler.orphan(&error),
            (None, Ok(_)) => {}
        }
    }
}

fn settle(pending: &Mutex<Pending>, id: &RequestId, reply: Reply) {
    let sender = lock(pending).requests.remove(id);
    if let Some(sender) = sender {
        let _ = sender.send(reply);
    }
}

/// The map is whole after every statement, so a panic elsewhere does not spoil it.
fn lock(pending: &Mutex<Pending>) -> std::sync::MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn random_prefix() -> String {
    // Without randomness from the system the process id still keeps processes of one machine apart.
    let random = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
    format!("mt-{random:016x}")
}

/// What a [`Handler`] says to a request it does not know.
pub fn method_not_found(method: &str) -> RequestReply {
    RequestReply::Now(Err(RpcError::new(codes::METHOD_NOT_FOUND, format!("Method not found: {method}"))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rpc::connection::TransportEnds;

    #[derive(Default)]
    struct Recorder {
        heard: Mutex<Vec<String>>,
    }

    impl Handler for Recorder {
        fn request(&self, request: IncomingRequest) -> RequestReply {
            method_not_found(&request.method)
        }
        fn notification(&self, notification: IncomingNotification) {
            self.heard.lock().unwrap().push(notification.method);
        }
        fn orphan(&self, error: &RpcError) {
            self.heard.lock().unwrap().push(error.to_string());
        }
    }

    fn peer() -> (Peer, TransportEnds, Arc<Recorder>) {
        let (connection, ends) = Connection::pair();
        let recorder = Arc::new(Recorder::default());
        (Peer::start(connection, recorder.clone()), ends, recorder)
    }

    fn head(method: &str) -> RequestHead {
        RequestHead { method: method.to_owned(), ..RequestHead::default() }
    }

    async fn sent(ends: &mut TransportEnds) -> Value {
        match ends.outbound.recv().await.expect("the peer lives") {
            Outbound::Request { text, .. } | Outbound::Message { text, .. } => serde_json::from_str(&text).unwrap(),
            Outbound::Abandon(id) => json!({"abandoned": id.to_value()}),
            other => panic!("not expected: {other:?}"),
        }
    }

    async fn receive(ends: &TransportEnds, value: Value) {
        for message in message::read(&value.to_string()).unwrap() {
            ends.inbound.send(Inbound::Message(message)).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_may_come_in_any_order() {
        let (peer, mut ends, _) = peer();
        let (first, second) = (peer.request(&Value::Null, head("a")), peer.request(&Value::Null, head("b")));
        let (one, two) = (sent(&mut ends).await, sent(&mut ends).await);
        assert_ne!(one["id"], two["id"]);
        receive(&ends, json!({"id": two["id"], "result": {"n": 2}})).await;
        receive(&ends, json!({"id": one["id"], "result": {"n": 1}})).await;
        assert_eq!(first.await.unwrap().value(), json!({"n": 1}));
        assert_eq!(second.await.unwrap().value(), json!({"n": 2}));
        assert_eq!(peer.in_flight(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn two_peers_never_share_an_id() {
        let (one, _ends, _) = peer();
        let (two, _other_ends, _) = peer();
        assert_ne!(one.unique_token(), two.unique_token());
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_is_answered_while_a_request_waits() {
        let (peer, mut ends, _) = peer();
        let _waiting = peer.request(&Value::Null, head("slow"));
        sent(&mut ends).await;
        receive(&ends, json!({"jsonrpc": "2.0", "id": 0, "method": "ping"})).await;
        assert_eq!(sent(&mut ends).await, json!({"jsonrpc": "2.0", "id": 0, "result": {}}));
        receive(&ends, json!({"jsonrpc": "2.0", "id": "x", "method": "foo/bar"})).await;
        let refusal = sent(&mut ends).await;
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!("x"), &json!(-32601)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_request_leaves_nothing_behind() {
        let (peer, mut ends, recorder) = peer();
        let waiting = peer.request(&Value::Null, head("slow"));
        let request = sent(&mut ends).await;
        assert!(tokio::time::timeout(Duration::from_secs(5), waiting).await.is_err());
        assert_eq!(peer.in_flight(), 0);
        assert_eq!(sent(&mut ends).await, json!({"abandoned": request["id"]}));
        receive(&ends, json!({"id": request["id"], "result": {}})).await;
        receive(&ends, json!({"method": "notifications/x"})).await;
        tokio::task::yield_now().await;
        assert_eq!(*recorder.heard.lock().unwrap(), ["notifications/x"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_without_an_id_goes_to_the_only_request() {
        let (peer, mut ends, recorder) = peer();
        let only = peer.request(&Value::Null, head("a"));
        sent(&mut ends).await;
        receive(&ends, json!({"id": null, "error": {"code": -32600, "message": "too much salt"}})).await;
        assert_eq!(only.await.unwrap_err().to_string(), "too much salt (-32600)");
        let (_one, _two) = (peer.request(&Value::Null, head("a")), peer.request(&Value::Null, head("b")));
        receive(&ends, json!({"id": null, "error": {"code": -32600, "message": "whose?"}})).await;
        tokio::task::yield_now().await;
        assert_eq!(*recorder.heard.lock().unwrap(), ["whose? (-32600)"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_peer_closes_the_connection() {
        let (peer, mut ends, _) = peer();
        let clone = peer.clone();
        drop(peer);
        assert!(ends.outbound.try_recv().is_err());
        drop(clone);
        assert!(ends.outbound.recv().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_connection_ends_every_request() {
        let (peer, ends, _) = peer();
        let waiting = peer.request(&Value::Null, head("a"));
        let error = ConnectionError::ServerExited { status: "exit status: 3".into(), stderr: "port 7 busy".into() };
        ends.inbound.send(Inbound::Closed(Arc::new(error))).await.unwrap();
        let message = waiting.await.unwrap_err().to_string();
        assert!(message.contains("exit status: 3") && message.contains("port 7 busy"), "{message}");
        assert!(peer.request(&Value::Null, head("b")).await.is_err());
    }
}
