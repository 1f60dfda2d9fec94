//! JSON-RPC messages: reading what a peer wrote, writing what we say.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value, json};

use crate::model::{RawJson, RpcError};

/// The id of a request: opaque, compared but never calculated with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestId {
    /// A number, as servers like to use.
    Number(Number),
    /// Text, as this client uses.
    Text(String),
}

impl RequestId {
    /// Reads an id; `None` where it is no text and no number.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(Self::Number(number.clone())),
            Value::String(text) => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    /// The id as a JSON value.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone()),
        }
    }
}

/// For logs and errors.
impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => formatter.write_str(&crate::model::text::line(text)),
        }
    }
}

/// A request from the peer.
#[derive(Clone, Debug)]
pub struct IncomingRequest {
    /// The id that the answer must carry.
    pub id: RequestId,
    /// What is asked for.
    pub method: String,
    /// With what; absent is common.
    pub params: Option<RawJson>,
}

/// A notification from the peer.
#[derive(Clone, Debug)]
pub struct IncomingNotification {
    /// What is told.
    pub method: String,
    /// About what; absent is common.
    pub params: Option<RawJson>,
}

/// One message from a peer.
#[derive(Clone, Debug)]
pub enum Message {
    /// It asks.
    Request(IncomingRequest),
    /// It tells.
    Notification(IncomingNotification),
    /// It answers.
    Response {
        /// Which request; `None` where the peer could not or would not say (`null`, absent).
        id: Option<RequestId>,
        /// The result or the error.
        outcome: Result<RawJson, RpcError>,
    },
}

/// Why a text is not a message.
#[derive(Debug, thiserror::Error)]
pub enum NotAMessage {
    /// No JSON at all.
    #[error("not JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// JSON, but no request, notification or response.
    #[error("JSON, but neither a request nor a notification nor a response")]
    Shape,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Value>,
}

/// Tells a field that is `null` from one that is not there.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads one message, or each of a batch (JSON-RPC section 6; MCP had batches in 2025-03-26 alone). Members of a batch
/// that are no messages are left out.
///
/// # Errors
/// Where the text is no JSON, or JSON that is no message.
pub fn read(text: &str) -> Result<Vec<Message>, NotAMessage> {
    if text.trim_start().starts_with('[') {
        let members: Vec<Box<RawValue>> = serde_json::from_str(text)?;
        let messages: Vec<Message> = members.iter().filter_map(|member| read_one(member.get()).ok()).collect();
        return if messages.is_empty() { Err(NotAMessage::Shape) } else { Ok(messages) };
    }
    read_one(text).map(|message| vec![message])
}

fn read_one(text: &str) -> Result<Message, NotAMessage> {
    let envelope: Envelope = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return Err(NotAMessage::Shape),
        Err(error) => return Err(error.into()),
    };
    let id = envelope.id.as_ref().and_then(RequestId::read);
    let params = envelope.params.map(RawJson::from);
    match (envelope.method, id) {
        (Some(method), Some(id)) => Ok(Message::Request(IncomingRequest { id, method, params })),
        (Some(method), None) => Ok(Message::Notification(IncomingNotification { method, params })),
        (None, id) => {
            let outcome = match (envelope.error, envelope.result) {
                (Some(error), _) if !error.is_null() => Err(read_error(&error)),
                (_, Some(result)) => Ok(RawJson::from(result)),
                _ => return Err(NotAMessage::Shape),
            };
            Ok(Message::Response { id, outcome })
        }
    }
}

/// Takes an error object as it comes: servers send text for the code, a bare string for the object, and no message.
fn read_error(error: &Value) -> RpcError {
    let code = error.get("code").and_then(|code| {
        let text = code.as_str().map_or_else(|| code.to_string(), str::to_owned);
        #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
        text.parse::<i64>().ok().or_else(|| text.parse::<f64>().ok().map(|code| code as i64))
    });
    let message = error.get("message").or(Some(error)).and_then(Value::as_str).unwrap_or_default();
    RpcError {
        code: code.unwrap_or(0),
        message: message.to_owned(),
        data: error.get("data").filter(|data| !data.is_null()).map(RawJson::from_value),
    }
}

/// The text of a request.
pub fn request(id: &RequestId, method: &str, params: &Value) -> String {
    if params.is_null() {
        json!({"jsonrpc": "2.0", "id": id.to_value(), "method": method}).to_string()
    } else {
        json!({"jsonrpc": "2.0", "id": id.to_value(), "method": method, "params": params}).to_string()
    }
}

/// The text of a notification.
pub fn notification(method: &str, params: &Value) -> String {
    if params.is_null() {
        json!({"jsonrpc": "2.0", "method": method}).to_string()
    } else {
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
    }
}

/// The text of an answer.
pub fn response(id: &RequestId, outcome: &Result<Value, RpcError>) -> String {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id.to_value(), "result": result}),
        Err(RpcError { code, message, data: None }) => {
            json!({"jsonrpc": "2.0", "id": id.to_value(), "error": {"code": code, "message": message}})
        }
        Err(RpcError { code, message, data: Some(data) }) => json!({
            "jsonrpc": "2.0",
            "id": id.to_value(),
            "error": {"code": code, "message": message, "data": data.value()},
        }),
    }
    .to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Message {
        read(text).expect("a message").remove(0)
    }

    #[test]
    fn tells_the_kinds_apart() {
        assert!(matches!(one(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#), Message::Request(_)));
        assert!(matches!(one(r#"{"method":"x","extra":1}"#), Message::Notification(_)));
        assert!(matches!(one(r#"{"id":"a","result":null}"#), Message::Response { id: Some(_), outcome: Ok(_) }));
        assert!(matches!(
            one(r#"{"id":null,"error":{"code":-32600}}"#),
            Message::Response { id: None, outcome: Err(_) }
        ));
        for text in ["42", "\"x\"", "{}", "{not json", "[]", "[1]", "null", "{\"id\":1}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_batch_is_unpacked() {
        let messages = read(r#" [{"method":"a"}, 5, {"id":1,"result":{}}]"#).unwrap();
        assert_eq!(messages.len(), 2);
    }

    #[test]
    fn a_result_keeps_its_text() {
        let Message::Response { outcome: Ok(result), .. } = one(r#"{"id":1,"result":{"b": 1.0, "a":1E3}}"#) else {
            panic!("a response");
        };
        assert_eq!(result.text(), r#"{"b": 1.0, "a":1E3}"#);
    }

    #[test]
    fn odd_errors_are_taken() {
        let error = |text| match one(text) {
            Message::Response { outcome: Err(error), .. } => (error.code, error.message),
            other => panic!("{other:?}"),
        };
        assert_eq!(error(r#"{"id":1,"error":{"code":"-32000","message":"m"}}"#), (-32000, "m".into()));
        assert_eq!(error(r#"{"error":"Session not found"}"#), (0, "Session not found".into()));
        assert_eq!(error(r#"{"id":1,"error":{"code":-32600.0}}"#), (-32600, String::new()));
    }

    proptest! {
        #[test]
        fn reading_never_panics(text: String) {
            let _ = read(&text);
        }

        #[test]
        fn what_we_write_is_read_again(id: String, method in "[a-z/]{1,20}", text: String) {
            let id = RequestId::Text(id);
            let written = request(&id, &method, &json!({"text": text}));
            prop_assert!(!written.contains('\n'));
            let Message::Request(read) = one(&written) else { panic!("a request") };
            prop_assert_eq!(read.id, id);
            prop_assert_eq!(read.params.unwrap().value(), json!({"text": text}));
        }
    }
}
