//! The scripted server on stdin and stdout.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::script::{Server, Step, fill, progress};

pub async fn serve(server: Arc<Server>) {
    perform(&server, server.start(), &json!({})).await;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            server.receive("unreadable", &json!({}), &json!(line));
            continue;
        };
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let nth = server.receive(&method, &json!({}), &message);
        if let Some(steps) = server.steps(&method, nth, &message) {
            let server = Arc::clone(&server);
            tokio::spawn(async move { perform(&server, steps, &message).await });
        }
    }
    server.receive("EOF", &json!({}), &json!({}));
}

async fn perform(server: &Server, steps: Vec<Step>, request: &Value) {
    for step in steps {
        if let Some(message) = step.message(request) {
            write(format!("{message}\n").as_bytes());
            continue;
        }
        match step {
            Step::Raw(text) => write(fill(&text, request).as_bytes()),
            Step::Flood(bytes) => {
                for _ in 0..bytes / 65_536 {
                    write(&[b'x'; 65_536]);
                    tokio::task::yield_now().await;
                }
            }
            Step::Sleep(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Step::Await(id) => server.answer_to(&id).await,
            Step::Stderr(line) => eprintln_raw(format!("{line}\n").as_bytes()),
            Step::StderrFlood(bytes) => {
                let mut flood = vec![b'e'; bytes];
                flood[bytes / 2] = 0xff;
                flood.extend(b"\xfe\nthe last line\n");
                eprintln_raw(&flood);
            }
            Step::Progress(count, bytes) => {
                for nth in 0..count {
                    write(format!("{}\n", progress(request, nth, bytes)).as_bytes());
                    if nth % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
            Step::Exit(code) => leave(code),
            other => panic!("not over stdio: {other:?}"),
        }
    }
}

fn write(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
        leave(0);
    }
}

fn eprintln_raw(bytes: &[u8]) {
    let _ = std::io::stderr().lock().write_all(bytes);
}

#[expect(clippy::exit, reason = "dying at once is what this server is asked to do")]
fn leave(code: i32) -> ! {
    std::process::exit(code)
}
