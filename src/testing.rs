//! A server in memory for the tests of the floors above `rpc`, on paused time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::rpc::connection::{Outgoing, TransportEnds};
use crate::rpc::{Connection, ConnectionError, Inbound, RequestId, message};

/// What the server does about a request.
pub(crate) enum Answer {
    Result(Value),
    Error(i64, &'static str),
    Fail(ConnectionError),
    Never,
    After(Duration, Box<Answer>),
    /// First these notifications (method, params), then that.
    Telling(Vec<(&'static str, Value)>, Box<Answer>),
}

impl Answer {
    pub(crate) fn after(self, millis: u64) -> Self {
        Self::After(Duration::from_millis(millis), Box::new(self))
    }
}

/// What the server received: when (in milliseconds since its start), the method and the parameters.
#[derive(Clone, Default)]
pub(crate) struct Transcript(Arc<Mutex<Vec<(u64, String, Value)>>>);

impl Transcript {
    pub(crate) fn of(&self, method: &str) -> Vec<(u64, Value)> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|(_, seen, _)| seen == method).map(|(at, _, params)| (*at, params.clone())).collect()
    }

    pub(crate) fn times(&self, method: &str) -> Vec<u64> {
        self.of(method).into_iter().map(|(at, _)| at).collect()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.of(method).len()
    }
}

/// Serves `answer(method, params, nth of this method from 1)`. The handshake is answered with `capabilities` unless
/// `answer` takes it.
pub(crate) fn serve(
    mut answer: impl FnMut(&str, &Value, usize) -> Option<Answer> + Send + 'static,
) -> (Connection, Transcript) {
    let (connection, TransportEnds { mut outbound, inbound }) = Connection::pair();
    let transcript = Transcript::default();
    let seen = transcript.clone();
    let start = Instant::now();
    tokio::spawn(async move {
        let mut counts = HashMap::<String, usize>::new();
        while let Some(order) = outbound.recv().await {
            let Some(Outgoing { id, text, delivered }) = order.into_message() else { continue };
            if let Some(delivered) = delivered {
                let _ = delivered.send(Ok(()));
            }
            let value: Value = serde_json::from_str(&text).unwrap();
            let method = value["method"].as_str().unwrap_or_default().to_owned();
            let at = u64::try_from(start.elapsed().as_millis()).unwrap();
            seen.0.lock().unwrap().push((at, method.clone(), value["params"].clone()));
            let Some(id) = id else { continue };
            let nth = counts.entry(method.clone()).and_modify(|count| *count += 1).or_insert(1);
            let reaction = answer(&method, &value["params"], *nth).unwrap_or_else(|| standard(&method));
            tokio::spawn(react(inbound.clone(), id, reaction));
        }
    });
    (connection, transcript)
}

fn standard(method: &str) -> Answer {
    match method {
        "initialize" => Answer::Result(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}, "list": {}, "cancel": {}}},
            "serverInfo": {"name": "oven", "version": "1"},
        })),
        _ => Answer::Error(-32601, "no such method"),
    }
}

async fn react(inbound: mpsc::Sender<Inbound>, id: RequestId, mut reaction: Answer) {
    loop {
        let reply = match reaction {
            Answer::Never => return,
            Answer::After(pause, then) => {
                tokio::time::sleep(pause).await;
                reaction = *then;
                continue;
            }
            Answer::Telling(notices, then) => {
                for (method, params) in notices {
                    send(&inbound, json!({"method": method, "params": params})).await;
                }
                reaction = *then;
                continue;
            }
            Answer::Fail(error) => {
                let _ = inbound.send(Inbound::Failed { id, error: Arc::new(error) }).await;
                return;
            }
            Answer::Result(result) => json!({"id": id.to_value(), "result": result}),
            Answer::Error(code, text) => json!({"id": id.to_value(), "error": {"code": code, "message": text}}),
        };
        send(&inbound, reply).await;
        return;
    }
}

async fn send(inbound: &mpsc::Sender<Inbound>, value: Value) {
    for message in message::read(&value.to_string()).unwrap() {
        let _ = inbound.send(Inbound::Message(message)).await;
    }
}
