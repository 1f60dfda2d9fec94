//! What a held server asks, and which command is to answer.
//!
//! A question for a task is put to every command, as any may be the one that follows it; one that names no task to the
//! command that waits for an answer itself. The first answer goes to the server, and the other commands are told that none is
//! wanted any more. What nobody answers waits for the next command; where it names no task but came to whoever waited for one,
//! for the next that asks about this one, and where it came to whoever had called a tool, it is dismissed: nobody could know
//! whose it is. What the handshake did not offer is refused here, because no single command can know what others serve.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use super::state::{ClientId, Order, request_text, response_text};
use crate::model::rpc_error::codes;
use crate::model::{RawJson, RpcError};
use crate::rpc::message::IncomingRequest;
use crate::rpc::{RequestId, message};

const LIST_ROOTS: &str = "roots/list";
const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
const CANCELLED: &str = "notifications/cancelled";

/// See above.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// The client's capabilities, as the handshake had them.
    offered: Value,
    /// What `roots/list` is answered with.
    roots: Option<Value>,
    open: VecDeque<Question>,
    /// The commands that run tasks for the server, by task.
    owners: HashMap<String, ClientId>,
    /// The tasks that commands have asked about.
    interests: Vec<(ClientId, String)>,
}

/// What a command waits for the server with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The answer to its call, under the id that the server knows.
    Call(RequestId),
    /// This task.
    Task(String),
}

/// A request of the server that nobody has answered.
#[derive(Debug)]
struct Question {
    id: RequestId,
    method: String,
    text: String,
    audience: Audience,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Audience {
    /// Whoever is there.
    All,
    /// One command, and what it waited with.
    One(ClientId, Option<Waiting>),
    /// The next command that asks about this task.
    About(String),
    /// The next command that comes.
    Next,
}

impl Audience {
    fn is_one(&self, client: ClientId) -> bool {
        matches!(self, Self::One(one, _) if *one == client)
    }
}

impl Questions {
    /// What the handshake offers the server.
    pub(super) fn offer(&mut self, params: Option<&RawJson>) {
        self.offered = params
            .map(RawJson::value)
            .and_then(|mut params| Some(params.get_mut("capabilities")?.take()))
            .unwrap_or_default();
    }

    /// A command tells which folders there are. The newest counts.
    pub(super) fn roots(&mut self, roots: Value) -> Vec<Order> {
        let changed = self.roots.as_ref().is_some_and(|known| *known != roots);
        self.roots = Some(roots);
        let told = changed && self.is_offered(LIST_ROOTS);
        told.then(|| Order::Server(message::notification(ROOTS_CHANGED, &Value::Null))).into_iter().collect()
    }

    fn is_offered(&self, method: &str) -> bool {
        let has = |pointer: &str| self.offered.pointer(pointer).is_some_and(|offered| !offered.is_null());
        match method {
            "elicitation/create" => has("/elicitation"),
            "sampling/createMessage" => has("/sampling"),
            LIST_ROOTS => has("/roots"),
            "tasks/get" | "tasks/result" => has("/tasks"),
            "tasks/list" => has("/tasks/list"),
            "tasks/cancel" => has("/tasks/cancel"),
            _ => false,
        }
    }

    /// The server asks. `waiting` is the command that waits for an answer of the server itself, if one does, and with what.
    pub(super) fn asked(
        &mut self,
        request: IncomingRequest,
        clients: &[ClientId],
        waiting: Option<&(ClientId, Waiting)>,
    ) -> Vec<Order> {
        if !self.is_offered(&request.method) {
            let error = RpcError::new(codes::METHOD_NOT_FOUND, format!("Method not found: {}", request.method));
            return vec![Order::Server(message::response(&request.id, &Err(error)))];
        }
        if request.method == LIST_ROOTS {
            let roots = self.roots.clone().unwrap_or_else(|| json!({"roots": []}));
            return vec![Order::Server(message::response(&request.id, &Ok(roots)))];
        }
        let params = request.params.as_ref();
        let task = params.and_then(|params| params.value().get("taskId")?.as_str().map(str::to_owned));
        let owner = || self.owners.get(task.as_deref()?).copied().filter(|owner| clients.contains(owner));
        let to = match request.method.as_str() {
            "tasks/get" | "tasks/result" | "tasks/cancel" => match owner() {
                Some(owner) => Some((owner, None)),
                None => {
                    let error = RpcError::new(codes::INVALID_PARAMS, "Task not found");
                    return vec![Order::Server(message::response(&request.id, &Err(error)))];
                }
            },
            "tasks/list" => match self.owners.values().copied().find(|owner| clients.contains(owner)) {
                Some(owner) => Some((owner, None)),
                None => return vec![Order::Server(message::response(&request.id, &Ok(json!({"tasks": []}))))],
            },
            _ => waiting.cloned().map(|(client, waiting)| (client, Some(waiting))),
        };
        let text = request_text(&request.id, &request.method, params);
        let names_task = params.is_some_and(|params| {
            params.value().pointer("/_meta/io.modelcontextprotocol~1related-task/taskId").is_some()
        });
        let (audience, told) = match (names_task, to.or_else(|| Some((*clients.last()?, None)))) {
            (true, _) => (Audience::All, clients.to_vec()),
            (false, Some((client, waiting))) => (Audience::One(client, waiting), vec![client]),
            (false, None) => (Audience::Next, Vec::new()),
        };
        let orders = told.into_iter().map(|client| Order::Client(client, text.clone())).collect();
        self.open.push_back(Question { id: request.id, method: request.method, text, audience });
        orders
    }

    /// A command asks about a task. What was asked for it and has lost its command is put to this one.
    pub(super) fn asks_about(&mut self, client: ClientId, task: &str) -> Vec<Order> {
        if !self.interests.iter().any(|(by, about)| *by == client && about == task) {
            self.interests.push((client, task.to_owned()));
        }
        let about = |question: &&mut Question| matches!(&question.audience, Audience::About(about) if about == task);
        let orders = self.open.iter_mut().filter(about).map(|question| {
            question.audience = Audience::One(client, Some(Waiting::Task(task.to_owned())));
            Order::Client(client, question.text.clone())
        });
        orders.collect()
    }

    /// A call has come to a task: what was asked for the one is asked for the other.
    pub(super) fn became(&mut self, call: &RequestId, task: &str) {
        for question in &mut self.open {
            if let Audience::One(_, Some(waiting)) = &mut question.audience
                && *waiting == Waiting::Call(call.clone())
            {
                *waiting = Waiting::Task(task.to_owned());
            }
        }
    }

    /// A command has come.
    pub(super) fn joined(&mut self, client: ClientId) -> Vec<Order> {
        let for_it =
            self.open.iter_mut().filter(|question| matches!(question.audience, Audience::All | Audience::Next));
        for_it
            .map(|question| {
                if question.audience == Audience::Next {
                    question.audience = Audience::One(client, None);
                }
                Order::Client(client, question.text.clone())
            })
            .collect()
    }

    /// A command has left; `others` are still there, the newest last.
    pub(super) fn left(&mut self, client: ClientId, others: &[ClientId]) -> Vec<Order> {
        self.owners.retain(|_, owner| *owner != client);
        self.interests.retain(|(by, _)| *by != client);
        let mut orders = Vec::new();
        let interests = &self.interests;
        self.open.retain_mut(|question| {
            if !question.audience.is_one(client) {
                return true;
            }
            let Audience::One(_, waiting) = std::mem::replace(&mut question.audience, Audience::Next) else {
                return true;
            };
            let heir = match &waiting {
                Some(Waiting::Call(_)) => {
                    orders.push(Order::Server(response_text(&question.id, &dismissal(&question.method))));
                    return false;
                }
                Some(Waiting::Task(task)) => {
                    interests.iter().find_map(|(other, about)| (about == task).then_some(*other))
                }
                None => others.last().copied(),
            };
            question.audience = match (heir, waiting) {
                (Some(heir), waiting) => {
                    orders.push(Order::Client(heir, question.text.clone()));
                    Audience::One(heir, waiting)
                }
                (None, Some(Waiting::Task(task))) => Audience::About(task),
                (None, _) => Audience::Next,
            };
            true
        });
        orders
    }

    /// A command answers. Whoever comes second is not heard.
    pub(super) fn answered(
        &mut self,
        by: ClientId,
        id: &RequestId,
        outcome: &Result<RawJson, RpcError>,
        clients: &[ClientId],
    ) -> Vec<Order> {
        let Some(at) = self.open.iter().position(|question| question.id == *id) else { return Vec::new() };
        let question = self.open.remove(at);
        if let Some(task) =
            outcome.as_ref().ok().and_then(|result| result.value().pointer("/task/taskId")?.as_str().map(str::to_owned))
        {
            self.owners.insert(task, by);
        }
        let params = json!({"requestId": id.to_value(), "reason": "answered by another command"});
        let withdrawal = message::notification(CANCELLED, &params);
        let is_public = question.is_some_and(|question| question.audience == Audience::All);
        let others = clients.iter().filter(|client| is_public && **client != by);
        let told = others.map(|client| Order::Client(*client, withdrawal.clone()));
        std::iter::once(Order::Server(response_text(id, outcome))).chain(told).collect()
    }

    /// The server takes a question back: those that were asked are told. `None` where it is about something else.
    pub(super) fn withdrawn(&mut self, params: &Value, clients: &[ClientId]) -> Option<Vec<Order>> {
        let id = params.get("requestId").and_then(RequestId::read)?;
        let at = self.open.iter().position(|question| question.id == id)?;
        self.open.remove(at);
        let text = message::notification(CANCELLED, params);
        Some(clients.iter().map(|client| Order::Client(*client, text.clone())).collect())
    }
}

/// What says that nobody answers a question.
fn dismissal(method: &str) -> Result<RawJson, RpcError> {
    match method {
        "elicitation/create" => Ok(RawJson::from_value(&json!({"action": "cancel"}))),
        _ => Err(RpcError::new(codes::USER_REJECTED, "nobody is there who could answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Message;

    const ONE: ClientId = ClientId(1);
    const TWO: ClientId = ClientId(2);

    fn request(text: &str) -> IncomingRequest {
        match message::read(text).unwrap().remove(0) {
            Message::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn questions() -> Questions {
        let mut questions = Questions::default();
        questions
            .offer(Some(&RawJson::from_value(&json!({"capabilities": {"elicitation": {}, "tasks": {"list": {}}}}))));
        questions
    }

    const OF_TASK: &str = r#"{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}"#;
    const OF_NONE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#;

    #[test]
    fn a_question_for_a_task_is_put_to_all_and_answered_once() {
        let mut questions = questions();
        let to = |client| Order::Client(client, OF_TASK.into());
        assert_eq!(questions.asked(request(OF_TASK), &[ONE], None), [to(ONE)]);
        assert_eq!(questions.joined(TWO), [to(TWO)]);
        let answer = Ok(RawJson::from_value(&json!({"action": "cancel"})));
        let id = RequestId::Number(0.into());
        let orders = questions.answered(TWO, &id, &answer, &[ONE, TWO]);
        assert_eq!(orders[0], Order::Server(r#"{"jsonrpc":"2.0","id":0,"result":{"action":"cancel"}}"#.into()));
        let Order::Client(ONE, told) = &orders[1] else { panic!("{orders:?}") };
        assert!(told.contains(CANCELLED) && orders.len() == 2);
        assert_eq!(questions.answered(ONE, &id, &answer, &[ONE, TWO]), []);
        assert_eq!(questions.joined(ONE), []);
    }

    #[test]
    fn one_for_no_task_is_put_to_who_waits_and_then_to_who_asks_about_the_same_task() {
        let mut questions = questions();
        let to = |client| Order::Client(client, OF_NONE.into());
        let waiting = (ONE, Waiting::Task("t".to_owned()));
        assert_eq!(questions.asked(request(OF_NONE), &[ONE, TWO], Some(&waiting)), [to(ONE)]);
        assert_eq!(questions.joined(ClientId(3)), []);
        assert_eq!(questions.asks_about(TWO, "t"), []);
        assert_eq!(questions.left(ONE, &[TWO]), [to(TWO)], "it asked about the task");
        assert_eq!(questions.left(TWO, &[]), []);
        assert_eq!(questions.joined(ONE), []);
        assert_eq!(questions.asks_about(ONE, "other"), []);
        assert_eq!(questions.asks_about(ONE, "t"), [to(ONE)]);
        assert_eq!(questions.asks_about(ONE, "t"), []);
        let taken_back = questions.withdrawn(&json!({"requestId": 1}), &[ONE]).unwrap();
        assert!(matches!(&taken_back[..], [Order::Client(ONE, _)]));
        assert_eq!(questions.withdrawn(&json!({"requestId": 1}), &[ONE]), None);
    }

    #[test]
    fn one_for_a_call_ends_with_whoever_called() {
        let mut questions = questions();
        let call = RequestId::Text("h-1".to_owned());
        let waiting = (ONE, Waiting::Call(call.clone()));
        questions.asked(request(OF_NONE), &[ONE, TWO], Some(&waiting));
        let dismissed = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"cancel"}}"#;
        assert_eq!(questions.left(ONE, &[TWO]), [Order::Server(dismissed.into())]);
        assert_eq!(questions.left(TWO, &[]), []);
        // One that has come to a task is kept for it.
        questions.asked(request(OF_NONE), &[ONE], Some(&waiting));
        questions.became(&call, "t");
        assert_eq!(questions.left(ONE, &[]), []);
        assert_eq!(questions.joined(TWO), []);
        assert_eq!(questions.asks_about(TWO, "t"), [Order::Client(TWO, OF_NONE.into())]);
    }

    #[test]
    fn one_for_nobody_goes_to_the_next_that_comes() {
        let mut questions = questions();
        let to = |client| Order::Client(client, OF_NONE.into());
        assert_eq!(questions.asked(request(OF_NONE), &[], None), []);
        assert_eq!(questions.joined(ONE), [to(ONE)]);
        assert_eq!(questions.left(ONE, &[TWO]), [to(TWO)]);
        assert_eq!(questions.left(TWO, &[]), []);
        assert_eq!(questions.joined(ONE), [to(ONE)]);
    }

    #[test]
    fn what_was_not_offered_is_refused() {
        let mut questions = questions();
        let refused = |questions: &mut Questions, method: &str| {
            let asked = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"{method}"}}"#);
            match &questions.asked(request(&asked), &[ONE], None)[..] {
                [Order::Server(text)] => text.contains("-32601"),
                _ => false,
            }
        };
        for method in ["sampling/createMessage", "roots/list", "tasks/cancel", "foo/bar"] {
            assert!(refused(&mut questions, method), "{method}");
        }
        questions.offer(Some(&RawJson::from_value(&json!({"capabilities": {"roots": {}}}))));
        let list = request(r#"{"jsonrpc":"2.0","id":6,"method":"roots/list"}"#);
        let mut told = |roots: Value| (questions.roots(roots).len(), questions.asked(list.clone(), &[ONE], None));
        let answer = |roots: Value| vec![Order::Server(message::response(&RequestId::Number(6.into()), &Ok(roots)))];
        let (one, two) = (json!({"roots": [1]}), json!({"roots": [2]}));
        assert_eq!(told(one.clone()), (0, answer(one.clone())));
        assert_eq!(told(one.clone()), (0, answer(one)));
        assert_eq!(told(two.clone()), (1, answer(two)), "a change is told");
        questions
            .offer(Some(&RawJson::from_value(&json!({"capabilities": {"elicitation": {}, "tasks": {"list": {}}}}))));
        for method in ["elicitation/create", "tasks/list"] {
            assert!(!refused(&mut questions, method), "{method}");
        }
    }
}
