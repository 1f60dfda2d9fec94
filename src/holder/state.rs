//! Who asked what, who is attached, what is leased: everything that a holder knows, without any waiting.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::questions::{Questions, Waiting};
use super::wire;
use crate::model::{RawJson, RpcError};
use crate::rpc::message::IncomingRequest;
use crate::rpc::{Message, RequestId, message};

/// How long whoever started the holder may take to come.
const FIRST_COMMAND: Duration = Duration::from_secs(10);
/// The longest lease: a task that no server ever forgets is not waited for for ever.
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3_600);
/// A question whose answer some servers give once. It is kept when whoever asked it leaves, for whoever asks it next. Only
/// one that may be asked any number of times can be in here.
const KEPT_QUESTION: &str = "tasks/result";
/// How many bytes of answers without a taker are kept.
const KEPT_BYTES: usize = 32 << 20;

/// Names an attached command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ClientId(pub(super) u64);

/// Something to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Say this to the server.
    Server(String),
    /// Say this to a command; it waits for it.
    Client(ClientId, String),
    /// Say this to a command, or leave it: a notification may be lost without harm.
    Hint(ClientId, String),
    /// End, and the server too.
    Stop,
}

/// How the server's handshake stands.
#[derive(Debug, Default)]
enum Handshake {
    #[default]
    Undone,
    /// It was asked under this id; these commands wait for the answer.
    Asked(RequestId, Vec<(ClientId, RequestId)>),
    /// Later commands are given the same answer.
    Done(RawJson),
}

/// A request that is on its way to the server or back.
#[derive(Debug)]
struct Pending {
    /// Who asked, and under which id.
    askers: Vec<(ClientId, RequestId)>,
    /// What a [`KEPT_QUESTION`] asks.
    kept: Option<String>,
    /// A call of a tool, and whether it is plain: its answer is all that comes of it.
    call: Option<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Plain,
    Task,
}

/// See above.
#[derive(Debug)]
pub(super) struct State {
    clients: Vec<ClientId>,
    pending: HashMap<RequestId, Pending>,
    /// Answers to kept questions that came when nobody was there, the oldest first.
    answers: VecDeque<(String, RawJson)>,
    handshake: Handshake,
    initialized: bool,
    questions: Questions,
    /// The command that last asked something which the server may have questions about.
    waiting: Option<(ClientId, Waiting)>,
    leases: HashMap<String, Instant>,
    id_prefix: String,
    next_id: u64,
    idle: Duration,
    /// Since when nobody is attached.
    alone_since: Instant,
    unneeded: bool,
    /// No command has come yet.
    is_new: bool,
}

impl State {
    pub(super) fn new(idle: Duration, id_prefix: String, now: Instant) -> Self {
        Self {
            clients: Vec::new(),
            pending: HashMap::new(),
            answers: VecDeque::new(),
            handshake: Handshake::Undone,
            initialized: false,
            questions: Questions::default(),
            waiting: None,
            leases: HashMap::new(),
            id_prefix,
            next_id: 1,
            idle,
            alone_since: now,
            unneeded: false,
            is_new: true,
        }
    }

    /// When to end if nothing happens; `None` while a command is attached.
    pub(super) fn ends_at(&self, now: Instant) -> Option<Instant> {
        if !self.clients.is_empty() {
            return None;
        }
        let idle = match (self.unneeded, self.is_new) {
            (true, _) => Duration::ZERO,
            (false, true) => self.idle.max(FIRST_COMMAND),
            (false, false) => self.idle,
        };
        let leased = self.leases.values().copied().filter(|end| *end > now).max();
        Some(leased.map_or(self.alone_since + idle, |leased| leased.max(self.alone_since + idle)))
    }

    /// How many commands are attached beside `asking`, and which tasks are leased.
    fn status(&self, asking: ClientId, now: Instant) -> Value {
        let mut tasks: Vec<&str> =
            self.leases.iter().filter(|(_, end)| **end > now).map(|(task, _)| task.as_str()).collect();
        tasks.sort_unstable();
        let commands = self.clients.iter().filter(|client| **client != asking).count();
        json!({"commands": commands, "tasks": tasks})
    }

    /// A command has come. What the server asked while nobody was there is put to it.
    pub(super) fn joined(&mut self, client: ClientId) -> Vec<Order> {
        self.unneeded = false;
        self.is_new = false;
        self.clients.push(client);
        self.questions.joined(client)
    }

    /// A command has left. Its own questions have no taker any more; those of the server wait for another command. A plain
    /// call of its is called off, as nobody can come back to it.
    pub(super) fn left(&mut self, client: ClientId, now: Instant) -> Vec<Order> {
        self.clients.retain(|attached| *attached != client);
        self.waiting.take_if(|(waiting, _)| *waiting == client);
        let mut orders = Vec::new();
        self.pending.retain(|id, pending| {
            pending.askers.retain(|(asker, _)| *asker != client);
            let is_left = pending.askers.is_empty();
            if is_left && pending.call == Some(Call::Plain) {
                let params = json!({"requestId": id.to_value(), "reason": "nobody waits for it any more"});
                orders.push(Order::Server(message::notification("notifications/cancelled", &params)));
            }
            pending.kept.is_some() || !is_left
        });
        if let Handshake::Asked(_, waiting) = &mut self.handshake {
            waiting.retain(|(asked_by, _)| *asked_by != client);
        }
        if self.clients.is_empty() {
            self.alone_since = now;
        }
        orders.extend(self.questions.left(client, &self.clients));
        orders
    }

    /// A command said something.
    pub(super) fn client_said(&mut self, client: ClientId, message: Message, now: Instant) -> Vec<Order> {
        match message {
            Message::Request(request) => match request.method.as_str() {
                "initialize" => self.handshake(client, request.id, request.params.as_ref()),
                wire::STOP => {
                    let done = message::response(&request.id, &Ok(json!({})));
                    vec![Order::Client(client, done), Order::Stop]
                }
                wire::STATUS => {
                    let status = Ok(self.status(client, now));
                    vec![Order::Client(client, message::response(&request.id, &status))]
                }
                method if method.starts_with(wire::OWN) => {
                    let error = RpcError::new(-32601, "the holder does not know this");
                    vec![Order::Client(client, message::response(&request.id, &Err(error)))]
                }
                _ => self.asked(client, request),
            },
            Message::Notification(told) => {
                let params = || told.params.as_ref().map_or(Value::Null, RawJson::value);
                match told.method.as_str() {
                    wire::LEASE => self.lease(&params(), now),
                    wire::RELEASE => {
                        self.leases.remove(params()["task"].as_str().unwrap_or_default());
                        Vec::new()
                    }
                    wire::ROOTS => self.questions.roots(params()),
                    wire::UNNEEDED => {
                        self.unneeded = self.clients.len() == 1;
                        Vec::new()
                    }
                    method if method.starts_with(wire::OWN) => Vec::new(),
                    "notifications/initialized" if std::mem::replace(&mut self.initialized, true) => Vec::new(),
                    "notifications/cancelled" => self.cancelled(client, params()),
                    method => vec![Order::Server(notification_text(method, told.params.as_ref()))],
                }
            }
            Message::Response { id: Some(id), outcome } => {
                self.questions.answered(client, &id, &outcome, &self.clients)
            }
            Message::Response { id: None, .. } => Vec::new(),
        }
    }

    fn asked(&mut self, client: ClientId, request: IncomingRequest) -> Vec<Order> {
        let params = request.params.as_ref();
        let is_call = request.method == "tools/call";
        let is_read = is_call || request.method.starts_with("tasks/");
        let value = params.filter(|_| is_read).map_or(Value::Null, RawJson::value);
        let call = is_call.then(|| if value.get("task").is_some() { Call::Task } else { Call::Plain });
        let mut orders = Vec::new();
        if let Some(task) = value["taskId"].as_str() {
            if request.method == KEPT_QUESTION {
                self.waiting = Some((client, Waiting::Task(task.to_owned())));
            }
            orders = self.questions.asks_about(client, task);
        }
        let kept = (request.method == KEPT_QUESTION).then(|| params.map_or("", RawJson::text).to_owned());
        if let Some(question) = &kept {
            if let Some(at) = self.answers.iter().position(|(asked, _)| asked == question)
                && let Some((_, answer)) = self.answers.remove(at)
            {
                orders.push(Order::Client(client, response_text(&request.id, &Ok(answer))));
                return orders;
            }
            // One that asks twice does so for a reason.
            let same = |pending: &&mut Pending| {
                pending.kept.as_ref() == Some(question) && pending.askers.iter().all(|(asker, _)| *asker != client)
            };
            if let Some(pending) = self.pending.values_mut().find(same) {
                pending.askers.push((client, request.id));
                return orders;
            }
        }
        let id = self.new_id();
        if call.is_some() {
            self.waiting = Some((client, Waiting::Call(id.clone())));
        }
        orders.push(Order::Server(request_text(&id, &request.method, params)));
        self.pending.insert(id, Pending { askers: vec![(client, request.id)], kept, call });
        orders
    }

    fn handshake(&mut self, client: ClientId, id: RequestId, params: Option<&RawJson>) -> Vec<Order> {
        match &mut self.handshake {
            Handshake::Done(answer) => vec![Order::Client(client, response_text(&id, &Ok(answer.clone())))],
            Handshake::Asked(_, waiting) => {
                waiting.push((client, id));
                Vec::new()
            }
            Handshake::Undone => {
                let ours = self.new_id();
                self.questions.offer(params);
                self.handshake = Handshake::Asked(ours.clone(), vec![(client, id)]);
                vec![Order::Server(request_text(&ours, "initialize", params))]
            }
        }
    }

    fn lease(&mut self, params: &Value, now: Instant) -> Vec<Order> {
        let length = params["for"].as_u64().map_or(LONGEST_LEASE, Duration::from_millis).min(LONGEST_LEASE);
        if let Some(task) = params["task"].as_str() {
            self.leases.insert(task.to_owned(), now + length);
        }
        Vec::new()
    }

    /// The server knows the request by our id.
    fn cancelled(&mut self, client: ClientId, mut params: Value) -> Vec<Order> {
        let theirs = params["requestId"].clone();
        let asked = |pending: &Pending| pending.askers.iter().any(|(by, id)| *by == client && id.to_value() == theirs);
        let Some((ours, pending)) = self.pending.iter().find(|(_, pending)| asked(pending)) else { return Vec::new() };
        if pending.kept.is_some() {
            return Vec::new();
        }
        params["requestId"] = ours.to_value();
        vec![Order::Server(message::notification("notifications/cancelled", &params))]
    }

    /// The server said something.
    pub(super) fn server_said(&mut self, message: Message) -> Vec<Order> {
        match message {
            Message::Response { id, outcome } => self.answered(id, outcome),
            Message::Notification(told) => {
                let params = || told.params.as_ref().map_or(Value::Null, RawJson::value);
                if told.method == "notifications/cancelled"
                    && let Some(orders) = self.questions.withdrawn(&params(), &self.clients)
                {
                    return orders;
                }
                let text = notification_text(&told.method, told.params.as_ref());
                self.clients.iter().map(|client| Order::Hint(*client, text.clone())).collect()
            }
            Message::Request(request) if request.method == "ping" => {
                vec![Order::Server(message::response(&request.id, &Ok(json!({}))))]
            }
            Message::Request(request) => self.questions.asked(request, &self.clients, self.waiting.as_ref()),
        }
    }

    fn answered(&mut self, id: Option<RequestId>, outcome: Result<RawJson, RpcError>) -> Vec<Order> {
        // An answer without an id can only be meant for the one request that waits.
        let only = || (self.pending.len() == 1).then(|| self.pending.keys().next().cloned()).flatten();
        let Some(id) = id.or_else(only) else { return Vec::new() };
        if let Handshake::Asked(asked, waiting) = &mut self.handshake
            && *asked == id
        {
            let waiting = std::mem::take(waiting);
            self.handshake = outcome.as_ref().map_or(Handshake::Undone, |answer| Handshake::Done(answer.clone()));
            let told = waiting.into_iter().map(|(client, id)| Order::Client(client, response_text(&id, &outcome)));
            return told.collect();
        }
        let Some(pending) = self.pending.remove(&id) else { return Vec::new() };
        if pending.call.is_some()
            && let Some(task) = outcome.as_ref().ok().map(RawJson::value)
            && let Some(task) = task.pointer("/task/taskId").and_then(Value::as_str)
        {
            self.questions.became(&id, task);
            if let Some((_, waiting)) = &mut self.waiting
                && *waiting == Waiting::Call(id.clone())
            {
                *waiting = Waiting::Task(task.to_owned());
            }
        }
        if let (true, Some(question), Ok(answer)) = (pending.askers.is_empty(), pending.kept, &outcome) {
            self.keep(question, answer.clone());
        }
        let told = pending.askers.into_iter();
        told.map(|(client, id)| Order::Client(client, response_text(&id, &outcome))).collect()
    }

    fn keep(&mut self, question: String, answer: RawJson) {
        self.answers.push_back((question, answer));
        while self.answers.iter().map(|(_, answer)| answer.text().len()).sum::<usize>() > KEPT_BYTES {
            self.answers.pop_front();
        }
    }

    fn new_id(&mut self) -> RequestId {
        let id = RequestId::Text(format!("{}-{}", self.id_prefix, self.next_id));
        self.next_id += 1;
        id
    }
}

/// To the letter as it came, but for the id.
pub(super) fn request_text(id: &RequestId, method: &str, params: Option<&RawJson>) -> String {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{},"method":{}"#, id.to_value(), Value::from(method));
    params.map_or_else(|| format!("{head}}}"), |params| format!(r#"{head},"params":{}}}"#, params.text()))
}

fn notification_text(method: &str, params: Option<&RawJson>) -> String {
    let head = format!(r#"{{"jsonrpc":"2.0","method":{}"#, Value::from(method));
    params.map_or_else(|| format!("{head}}}"), |params| format!(r#"{head},"params":{}}}"#, params.text()))
}

pub(super) fn response_text(id: &RequestId, outcome: &Result<RawJson, RpcError>) -> String {
    match outcome {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, id.to_value(), result.text()),
        Err(error) => message::response(id, &Err(error.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Message {
        message::read(text).unwrap().remove(0)
    }

    fn state() -> (State, Instant) {
        let now = Instant::now();
        (State::new(Duration::from_secs(300), "h".to_owned(), now), now)
    }

    const ONE: ClientId = ClientId(1);
    const TWO: ClientId = ClientId(2);

    #[tokio::test(start_paused = true)]
    async fn answers_find_who_asked_whatever_the_ids_are() {
        let (mut state, now) = state();
        state.joined(ONE);
        state.joined(TWO);
        let ask = |state: &mut State, client| {
            state.client_said(client, read(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"n":1.0}}"#), now)
        };
        assert_eq!(
            ask(&mut state, ONE),
            [Order::Server(r#"{"jsonrpc":"2.0","id":"h-1","method":"m","params":{"n":1.0}}"#.into())]
        );
        ask(&mut state, TWO);
        let answer = read(r#"{"jsonrpc":"2.0","id":"h-2","result":{"x":1.50}}"#);
        assert_eq!(
            state.server_said(answer),
            [Order::Client(TWO, r#"{"jsonrpc":"2.0","id":7,"result":{"x":1.50}}"#.into())]
        );
        let cancel = read(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
        let Order::Server(text) = &state.client_said(ONE, cancel, now)[0] else { panic!() };
        assert!(text.contains(r#""requestId":"h-1""#), "{text}");
        state.left(ONE, now);
        assert_eq!(state.server_said(read(r#"{"jsonrpc":"2.0","id":"h-1","result":{}}"#)), []);
    }

    #[tokio::test(start_paused = true)]
    async fn the_handshake_is_made_once_and_shared() {
        let (mut state, now) = state();
        let hello = |id: u32| read(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{}}}}"#));
        state.joined(ONE);
        state.joined(TWO);
        assert_eq!(state.client_said(ONE, hello(1), now).len(), 1);
        assert_eq!(state.client_said(TWO, hello(2), now), []);
        let told = state.server_said(read(r#"{"jsonrpc":"2.0","id":"h-1","result":{"v":1}}"#));
        assert_eq!(told.len(), 2, "both are told");
        let ready = || read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(state.client_said(ONE, ready(), now).len(), 1);
        assert_eq!(state.client_said(TWO, ready(), now), []);
        let third = state.client_said(ONE, hello(9), now);
        assert_eq!(third, [Order::Client(ONE, r#"{"jsonrpc":"2.0","id":9,"result":{"v":1}}"#.into())]);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_nobody_and_nothing_needs_it() {
        let (mut state, now) = state();
        let at = |state: &State, now| state.ends_at(now).map(|end| (end - now).as_secs());
        assert_eq!(at(&state, now), Some(300));
        state.joined(ONE);
        assert_eq!(at(&state, now), None);
        let tell = |method: &str, params: &str| {
            read(&format!(r#"{{"jsonrpc":"2.0","method":"mcp-task/{method}","params":{params}}}"#))
        };
        state.client_said(ONE, tell("lease", r#"{"task":"t","for":900000}"#), now);
        state.left(ONE, now);
        assert_eq!((at(&state, now), state.status(TWO, now)), (Some(900), json!({"commands": 0, "tasks": ["t"]})));
        let later = now + Duration::from_secs(100);
        state.joined(TWO);
        state.client_said(TWO, tell("release", r#"{"task":"t"}"#), later);
        state.left(TWO, later);
        assert_eq!(at(&state, later), Some(300));
        state.joined(ONE);
        state.client_said(ONE, tell("unneeded", "{}"), later);
        state.left(ONE, later);
        assert_eq!(at(&state, later), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_started_it_has_time_to_come() {
        let now = Instant::now();
        let mut state = State::new(Duration::from_millis(1), "h".to_owned(), now);
        assert_eq!(state.ends_at(now), Some(now + FIRST_COMMAND));
        state.joined(ONE);
        state.left(ONE, now);
        assert_eq!(state.ends_at(now), Some(now + Duration::from_millis(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_asks_waits_for_somebody() {
        let (mut state, now) = state();
        let ask = r#"{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{}}"#;
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"elicitation":{}}}}"#;
        state.client_said(ONE, read(hello), now);
        assert_eq!(state.server_said(read(ask)), []);
        assert_eq!(state.joined(ONE), [Order::Client(ONE, ask.into())]);
        assert_eq!(state.left(ONE, now), []);
        assert_eq!(state.joined(TWO), [Order::Client(TWO, ask.into())]);
        state.client_said(TWO, read(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#), now);
        state.left(TWO, now);
        assert_eq!(state.joined(ONE), []);
        assert_eq!(state.server_said(read(r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#)).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_finds_a_taker_though_whoever_asked_has_left() {
        let (mut state, now) = state();
        let ask = |id: u32| {
            read(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tasks/result","params":{{"taskId":"t"}}}}"#))
        };
        let answer = |id: &str| read(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"n":1.0}}}}"#));
        let to =
            |client, id: u32| Order::Client(client, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":1.0}}}}"#));
        state.joined(ONE);
        assert_eq!(state.client_said(ONE, ask(1), now).len(), 1);
        state.left(ONE, now);
        // Still under way: the next one waits for the same answer.
        state.joined(TWO);
        assert_eq!(state.client_said(TWO, ask(5), now), []);
        assert_eq!(state.server_said(answer("h-1")), [to(TWO, 5)]);
        // One that asks a second time asks the server.
        assert_eq!(state.client_said(TWO, ask(6), now).len(), 1);
        assert_eq!(state.client_said(TWO, ask(7), now).len(), 1);
        state.left(TWO, now);
        // Answered while nobody was there.
        assert_eq!(state.server_said(answer("h-2")), []);
        state.joined(ONE);
        assert_eq!(state.client_said(ONE, ask(9), now), [to(ONE, 9)]);
        // An error is no answer worth keeping.
        state.left(ONE, now);
        state.server_said(read(r#"{"jsonrpc":"2.0","id":"h-3","error":{"code":-32603,"message":"not yet"}}"#));
        state.joined(TWO);
        assert_eq!(state.client_said(TWO, ask(1), now).len(), 1);
    }
}
