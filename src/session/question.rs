//! What a server asks its user, and how that is answered, the same whatever era it speaks.
//! Spec 2025-11-25, client/elicitation and client/sampling.

use std::fmt;

use serde_json::{Map, Value, json};

use super::wire;
use crate::model::rpc_error::codes;
use crate::model::{RawJson, RpcError, TaskId, text};
use crate::rpc::{IncomingRequest, RequestId};

pub(super) const ELICIT: &str = "elicitation/create";
pub(super) const SAMPLE: &str = "sampling/createMessage";

/// Names a question within its session. It survives this process: whoever knows it can answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuestionId(pub(super) RequestId);

impl QuestionId {
    /// As the record keeps it.
    pub fn to_json(&self) -> Value {
        self.0.to_value()
    }

    /// From what the record kept.
    pub fn from_json(value: &Value) -> Option<Self> {
        RequestId::read(value).map(Self)
    }
}

/// For people.
impl fmt::Display for QuestionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Something that a server asks. Its text is not yet escaped.
#[derive(Clone, Debug)]
pub struct Question {
    /// Names it.
    pub id: QuestionId,
    /// The task that it is asked for, where the server says.
    pub task: Option<TaskId>,
    /// The task that this client runs for it, where the server follows it instead of waiting.
    pub as_task: Option<TaskId>,
    /// What is asked.
    pub kind: QuestionKind,
    /// The method and the parameters as the server wrote them.
    pub method: &'static str,
    /// The parameters.
    pub params: RawJson,
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum QuestionKind {
    /// Fields to be filled in.
    Form {
        /// Why.
        message: String,
        /// `requestedSchema`.
        schema: Value,
    },
    /// An address to be opened.
    Url {
        /// Why.
        message: String,
        /// Where to.
        url: String,
        /// What `notifications/elicitation/complete` will call it.
        elicitation: String,
    },
    /// Words of a language model.
    Sampling,
}

/// What a question is answered with.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Yes: with the fields of a form, without anything for an address.
    Accept(Option<Map<String, Value>>),
    /// No.
    Decline,
    /// Neither: the question was dismissed.
    Cancel,
    /// A language model's `CreateMessageResult`.
    Message(Value),
    /// An error instead of an answer.
    Refuse(RpcError),
}

impl Question {
    /// Reads a request. `None` where the method asks no question.
    ///
    /// # Errors
    /// The error to answer with where the question cannot be understood.
    pub(super) fn read(request: &IncomingRequest) -> Option<Result<Self, RpcError>> {
        let method = match request.method.as_str() {
            ELICIT => ELICIT,
            SAMPLE => SAMPLE,
            _ => return None,
        };
        Some(Self::of(QuestionId(request.id.clone()), method, request.params.clone()))
    }

    /// A question that the record kept. `None` for one that the server follows as a task: that ended with who ran it.
    pub fn recorded(id: QuestionId, method: &str, params: RawJson) -> Option<Self> {
        if params.value().get("task").is_some_and(Value::is_object) {
            return None;
        }
        let method = if method == SAMPLE { SAMPLE } else { ELICIT };
        Self::of(id, method, Some(params)).ok()
    }

    fn of(id: QuestionId, method: &'static str, params: Option<RawJson>) -> Result<Self, RpcError> {
        let params = params.unwrap_or_else(RawJson::empty_object);
        let value = params.value();
        let kind = if method == SAMPLE { QuestionKind::Sampling } else { read_elicitation(&value)? };
        Ok(Self { id, task: wire::related_task(&value), as_task: None, kind, method, params })
    }

    /// Why it is asked, in the server's words; empty for sampling.
    pub fn message(&self) -> &str {
        match &self.kind {
            QuestionKind::Form { message, .. } | QuestionKind::Url { message, .. } => message,
            QuestionKind::Sampling => "",
        }
    }

    /// What it is answered with where nobody wants to.
    pub fn dismissal(&self) -> Answer {
        match self.kind {
            QuestionKind::Sampling => Answer::Refuse(RpcError::new(codes::USER_REJECTED, "nobody here answers")),
            QuestionKind::Form { .. } | QuestionKind::Url { .. } => Answer::Cancel,
        }
    }

    /// What is sent for an answer.
    pub(super) fn response(&self, answer: &Answer) -> Result<Value, RpcError> {
        let mut result = match answer {
            Answer::Accept(Some(content)) => json!({"action": "accept", "content": content}),
            Answer::Accept(None) => json!({"action": "accept"}),
            Answer::Decline => json!({"action": "decline"}),
            Answer::Cancel => json!({"action": "cancel"}),
            Answer::Message(message) => message.clone(),
            Answer::Refuse(error) => return Err(error.clone()),
        };
        // Spec 2025-11-25, basic/utilities/tasks, "Associating Task-Related Messages".
        if let Some(task) = &self.task {
            wire::relate(&mut result, task);
        }
        Ok(result)
    }
}

/// What an error says is needed before the request can be served.
pub(super) fn needed_first(error: &RpcError) -> Vec<Question> {
    if error.code != codes::URL_ELICITATION_REQUIRED {
        return Vec::new();
    }
    let data = error.data.as_ref().map_or(Value::Null, RawJson::value);
    let listed = data.get("elicitations").and_then(Value::as_array).into_iter().flatten();
    let read = |(at, params): (usize, &Value)| {
        let id = QuestionId(RequestId::Text(format!("needed-{at}")));
        Question::of(id, ELICIT, Some(RawJson::from_value(params))).ok()
    };
    let is_visit = |question: &Question| matches!(question.kind, QuestionKind::Url { .. });
    listed.enumerate().filter_map(read).filter(is_visit).collect()
}

fn read_elicitation(params: &Value) -> Result<QuestionKind, RpcError> {
    let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = text("message").unwrap_or_default();
    match params.get("mode").and_then(Value::as_str) {
        None | Some("form") => {
            let schema = params.get("requestedSchema").cloned().unwrap_or_else(|| json!({}));
            if !schema.is_object() {
                return Err(RpcError::new(codes::INVALID_PARAMS, "`requestedSchema` is not an object"));
            }
            Ok(QuestionKind::Form { message, schema })
        }
        Some("url") => {
            let url = text("url").ok_or_else(|| RpcError::new(codes::INVALID_PARAMS, "there is no `url`"))?;
            Ok(QuestionKind::Url { message, url, elicitation: text("elicitationId").unwrap_or_default() })
        }
        Some(other) => {
            let message = format!("this client knows no elicitation mode `{}`", text::line(other));
            Err(RpcError::new(codes::INVALID_PARAMS, message))
        }
    }
}

impl Answer {
    /// The action's word on the wire, for the record and for people.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Accept(_) => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
            Self::Message(_) => "message",
            Self::Refuse(_) => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(params: Value) -> Result<Question, RpcError> {
        let request = IncomingRequest {
            id: RequestId::Number(0.into()),
            method: ELICIT.to_owned(),
            params: Some(RawJson::from_value(&params)),
        };
        Question::read(&request).unwrap()
    }

    #[test]
    fn an_answer_names_the_task_of_its_question() {
        let meta = json!({"io.modelcontextprotocol/related-task": {"taskId": "t"}});
        let asked = question(json!({"message": "m", "requestedSchema": {"type": "object"}, "_meta": meta})).unwrap();
        assert_eq!(asked.task, Some(TaskId::new("t")));
        let content = Map::from_iter([("n".to_owned(), json!(1))]);
        assert_eq!(
            asked.response(&Answer::Accept(Some(content))),
            Ok(json!({"action": "accept", "content": {"n": 1}, "_meta": meta}))
        );
        assert_eq!(asked.response(&Answer::Cancel), Ok(json!({"action": "cancel", "_meta": meta})));
        let asked = question(json!({"message": "m"})).unwrap();
        assert_eq!(asked.response(&Answer::Decline), Ok(json!({"action": "decline"})));
    }

    #[test]
    fn a_question_that_cannot_be_understood_is_an_error() {
        assert!(question(json!({"mode": "telepathy", "message": "m"})).unwrap_err().message.contains("telepathy"));
        assert_eq!(question(json!({"mode": "url", "message": "m"})).unwrap_err().code, -32602);
        assert_eq!(question(json!({"requestedSchema": [1]})).unwrap_err().code, -32602);
        assert!(matches!(question(json!({})).unwrap().kind, QuestionKind::Form { .. }));
    }
}
