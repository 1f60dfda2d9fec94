//! Words of a language model, which a program of the user's says: `--sampling exec:COMMAND`. With `--sampling-review` a person
//! looks at what is asked and at what is said before either goes on.
//! Spec 2025-11-25, client/sampling.

use serde_json::{Value, json};

use super::{NoAnswer, exec, person};
use crate::commands::Context;
use crate::lifecycle::Reply;
use crate::model::RpcError;
use crate::model::rpc_error::codes;
use crate::session::{Answer, Question};

/// `--sampling` and `--sampling-review`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingOptions {
    /// The program that speaks, and its arguments.
    pub command: Vec<String>,
    /// Whether a person looks at it.
    pub review: bool,
}

/// Has the program answer.
pub(super) async fn answer(context: &Context, tool: Option<&str>, question: &Question) -> Result<Reply, NoAnswer> {
    let Some(options) = &context.sampling else { return Ok(Reply::Leave(None)) };
    let params = question.params.value();
    if params.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty()) {
        let error = RpcError::new(codes::INVALID_PARAMS, "this client does not offer tools to a language model");
        return Ok(Reply::Answer(Answer::Refuse(error)));
    }
    let asker = |message: &str| person::asker(context, tool, question, message);
    if options.review && !person::lets_pass(context, asker(&request(&params)), "Shall it be put to the model?").await? {
        return Ok(Reply::Answer(rejected()));
    }
    let words = exec::run(context, &options.command, tool, question).await?;
    let result = read(&words, options.command.first().map_or("", String::as_str))?;
    if options.review && !person::lets_pass(context, asker(&said(&result)), "Shall this be sent to the server?").await?
    {
        return Ok(Reply::Answer(rejected()));
    }
    Ok(Reply::Answer(Answer::Message(result)))
}

fn rejected() -> Answer {
    Answer::Refuse(RpcError::new(codes::USER_REJECTED, "User rejected sampling request"))
}

/// What the program printed: a whole `CreateMessageResult`, or the words alone.
fn read(printed: &str, program: &str) -> Result<Value, NoAnswer> {
    let whole = serde_json::from_str::<Value>(printed).ok();
    let whole =
        whole.filter(|value| value.get("content").is_some_and(|content| content.is_object() || content.is_array()));
    let Some(mut result) = whole else {
        let text = printed.strip_suffix('\n').unwrap_or(printed);
        if text.trim().is_empty() {
            return Err("the program that speaks for a language model said nothing".to_owned());
        }
        let content = json!({"type": "text", "text": text});
        return Ok(json!({"role": "assistant", "content": content, "model": program, "stopReason": "endTurn"}));
    };
    if let Some(result) = result.as_object_mut() {
        result.entry("role").or_insert_with(|| json!("assistant"));
        result.entry("model").or_insert_with(|| json!(program));
    }
    Ok(result)
}

/// What is asked, for a person to look at.
fn request(params: &Value) -> String {
    let system = params.get("systemPrompt").and_then(Value::as_str).map(|words| format!("system: {words}"));
    let messages = params.get("messages").and_then(Value::as_array).into_iter().flatten().map(message);
    let most = params.get("maxTokens").map(|most| format!("(at most {most} tokens)"));
    system.into_iter().chain(messages).chain(most).collect::<Vec<_>>().join("\n")
}

/// What was said, for a person to look at.
fn said(result: &Value) -> String {
    format!("The answer is:\n{}", message(result))
}

fn message(message: &Value) -> String {
    let role = message.get("role").and_then(Value::as_str).unwrap_or("?");
    let block = |block: &Value| match block.get("text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => format!("[{}]", block.get("type").and_then(Value::as_str).unwrap_or("something")),
    };
    let content = match message.get("content") {
        Some(Value::Array(blocks)) => blocks.iter().map(block).collect::<Vec<_>>().join("\n"),
        Some(one) => block(one),
        None => String::new(),
    };
    format!("{role}: {content}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_result_and_a_result_stays() {
        let words = read("Bread\nrises\n", "cat").unwrap();
        assert_eq!(words["content"], json!({"type": "text", "text": "Bread\nrises"}));
        assert_eq!((&words["role"], &words["model"]), (&json!("assistant"), &json!("cat")));
        let whole = json!({"content": {"type": "text", "text": "x"}, "model": "m", "stopReason": "maxTokens"});
        let read_whole = read(&whole.to_string(), "cat").unwrap();
        assert_eq!((&read_whole["model"], &read_whole["role"]), (&json!("m"), &json!("assistant")));
        assert_eq!(read("{\"n\": 1}", "cat").unwrap()["content"]["text"], "{\"n\": 1}");
        assert!(read(" \n", "cat").is_err());
    }
}
