//! Asking a program: it gets the request as JSON on its stdin and prints the answer as JSON.
//!
//! The request is `{"server", "tool", "taskId", "id", "method", "params"}`, the answer `{"action", "content"}` or the content
//! alone. A program that fails answers nothing.

use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};

use super::given::Action;
use super::{NoAnswer, accept};
use crate::commands::Context;
use crate::model::{TaskId, text};
use crate::present::Printer;
use crate::session::{Answer, Question};

/// The most bytes of an answer.
const LIMIT: u64 = 16 << 20;

/// Runs the program and returns what it printed. It is killed, and all that it started, where this is dropped.
pub(super) async fn run(
    context: &Context,
    command: &[String],
    tool: Option<&str>,
    question: &Question,
) -> Result<String, NoAnswer> {
    let name = command.first().map(|name| text::line(name).into_owned()).unwrap_or_default();
    let failed = |what: &str, error: std::io::Error| format!("`{name}`, which was to answer, {what}: {error}");
    let child = spawn(command).map_err(|error| failed("cannot be started", error))?;
    let mut program = Program { child, has_ended: false };
    let child = &mut program.child;
    let request = json!({
        "server": context.server_name(),
        "tool": tool,
        "taskId": question.task.as_ref().map(TaskId::as_str),
        "id": question.id.to_json(),
        "method": question.method,
        "params": question.params.value(),
    });
    let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // One that does not want to know closes its stdin.
            let _ = stdin.write_all(format!("{request}\n").as_bytes()).await;
        }
    };
    let read = async {
        let mut words = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(LIMIT).read_to_end(&mut words).await?;
        }
        std::io::Result::Ok(words)
    };
    let ((), words, ()) = tokio::join!(write, read, relay(&context.printer, &name, stderr));
    let words = words.map_err(|error| failed("cannot be heard", error))?;
    let status = child.wait().await.map_err(|error| failed("is out of sight", error))?;
    program.has_ended = true;
    if !status.success() {
        return Err(format!("`{name}`, which was to answer, ended with {status}"));
    }
    String::from_utf8(words).map_err(|_| format!("`{name}`, which was to answer, printed something that is not UTF-8"))
}

/// Dropping it ends the program and all that it started.
struct Program {
    child: Box<dyn ChildWrapper>,
    has_ended: bool,
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = self.child.start_kill();
        }
    }
}

fn spawn(command: &[String]) -> std::io::Result<Box<dyn ChildWrapper>> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "it has no name"));
    };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut wrapped = CommandWrap::from(command);
    #[cfg(unix)]
    wrapped.wrap(process_wrap::tokio::ProcessGroup::leader());
    #[cfg(windows)]
    wrapped.wrap(process_wrap::tokio::JobObject);
    wrapped.spawn()
}

/// What the program says to people goes to people.
async fn relay(printer: &Printer, name: &str, stderr: Option<impl AsyncRead + Unpin>) {
    let Some(stderr) = stderr else { return };
    let mut lines = BufReader::new(stderr).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        printer.relay(format!("{name} | {}", text::line(&String::from_utf8_lossy(&line))));
    }
}

/// Reads what the program printed.
pub(super) fn read(question: &Question, words: &str) -> Result<Answer, NoAnswer> {
    let value: Value =
        serde_json::from_str(words).map_err(|error| format!("the program's answer is not JSON: {error}"))?;
    let Value::Object(mut answer) = value else { return Err("the program's answer is not a JSON object".to_owned()) };
    let is_wrapped = answer.keys().all(|key| key == "action" || key == "content");
    match answer.get("action").and_then(Value::as_str).filter(|_| is_wrapped) {
        None => accept(question, answer),
        Some(word) => match Action::read(word).map_err(|what| format!("the program's answer: {what}"))? {
            Action::Decline => Ok(Answer::Decline),
            Action::Cancel => Ok(Answer::Cancel),
            Action::Accept => match answer.remove("content") {
                Some(Value::Object(content)) => accept(question, content),
                None => accept(question, serde_json::Map::new()),
                Some(_) => Err("the program's answer: `content` is not an object".to_owned()),
            },
        },
    }
}
