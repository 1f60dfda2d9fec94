//! Sessions over a server in memory.

use serde_json::json;

use super::*;
use crate::rpc::ConnectionError;
use crate::testing::{Answer, serve};

fn settings() -> SessionSettings {
    let limit = Some(Duration::from_secs(5));
    SessionSettings { start_limit: limit, request_limit: limit, ..SessionSettings::default() }
}

fn gone() -> Answer {
    Answer::Fail(ConnectionError::SessionGone { status: 404, body: String::new() })
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_is_renewed_once_and_the_question_repeated() {
    let (connection, transcript) = serve(|method, _, nth| match (method, nth) {
        ("tasks/get", 1) => Some(gone()),
        ("tasks/get", _) => Some(Answer::Result(json!({"taskId": "t", "status": "working"}))),
        _ => None,
    });
    let session = Session::open(connection, settings()).await.unwrap();
    assert_eq!(session.task(&TaskId::new("t")).await.unwrap().id.as_str(), "t");
    assert_eq!((transcript.count("initialize"), transcript.count("notifications/initialized")), (2, 2));
    assert_eq!(transcript.count("tasks/get"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_lost_again_is_an_error() {
    let (connection, transcript) = serve(|method, _, _| (method == "tasks/get").then(gone));
    let session = Session::open(connection, settings()).await.unwrap();
    assert!(session.task(&TaskId::new("t")).await.unwrap_err().is_session_gone());
    assert_eq!(transcript.count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_fails_is_made_up_for_at_the_next_question() {
    // As in a rolling restart: the session is lost, and the new server is not there yet.
    let refused = || ConnectionError::Connect { url: "u".into(), reason: "refused".into() };
    let (connection, transcript) = serve(move |method, _, nth| match (method, nth) {
        ("tasks/get", 1) => Some(gone()),
        ("tasks/get", _) => Some(Answer::Result(json!({"taskId": "t", "status": "working"}))),
        ("initialize", 2 | 3) => Some(Answer::Fail(refused())),
        _ => None,
    });
    let session = Session::open(connection, settings()).await.unwrap();
    for _ in 0..2 {
        assert!(session.task(&TaskId::new("t")).await.unwrap_err().is_passing());
    }
    assert_eq!(transcript.count("tasks/get"), 1, "nothing is asked without a session");
    assert_eq!(session.task(&TaskId::new("t")).await.unwrap().id.as_str(), "t");
    assert_eq!((transcript.count("initialize"), session.renewals()), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn questions_wait_for_a_new_session_that_is_being_opened() {
    let (connection, transcript) = serve(move |method, _, nth| match (method, nth) {
        ("tasks/get", 1) => Some(gone()),
        ("tasks/get", _) => Some(Answer::Result(json!({"taskId": "t", "status": "working"}))),
        ("tasks/result", _) => Some(Answer::Result(json!({"content": []}))),
        ("initialize", 2) => {
            let profile = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
            Some(Answer::Result(profile).after(2_000))
        }
        _ => None,
    });
    let session = Session::open(connection, settings()).await.unwrap();
    let id = TaskId::new("t");
    let later = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        session.result(&id).await
    };
    let (task, result) = tokio::join!(session.task(&id), later);
    task.unwrap();
    result.unwrap();
    assert_eq!(transcript.times("tasks/result"), [2_000]);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_never_sent_twice() {
    let (connection, transcript) = serve(|method, _, _| (method == "tools/call").then(gone));
    let session = Session::open(connection, settings()).await.unwrap();
    let request = CallRequest { tool: "bake".into(), arguments: json!({}), mode: CallMode::Task, ttl: None };
    let subscription = session.subscribe();
    let error = session.call(&request, &subscription).await.reply().await.unwrap_err();
    assert!(error.is_session_gone());
    assert_eq!(transcript.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_server_is_a_clear_timeout() {
    let (connection, _) = serve(|method, _, _| (method != "initialize").then_some(Answer::Never));
    let session = Session::open(connection, settings()).await.unwrap();
    let error = session.tools().await.unwrap_err();
    assert_eq!(error.to_string(), "no answer to `tools/list` within 5.0s");
    assert_eq!(session.peer.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn versions_that_nobody_shares_are_named() {
    let (connection, _) = serve(|method, _, _| {
        (method == "initialize").then(|| Answer::Result(json!({"protocolVersion": "2031-01-01", "capabilities": {}})))
    });
    let error = Session::open(connection, settings()).await.unwrap_err().to_string();
    assert!(error.contains("2031-01-01") && error.contains("2025-11-25"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_sight_of_a_task_before_its_name_is_known_is_kept() {
    let (connection, _) = serve(|method, _, _| {
        let task = json!({"taskId": "t", "status": "completed"});
        (method == "tools/call").then(|| {
            Answer::Telling(
                vec![("notifications/tasks/status", task.clone())],
                Box::new(Answer::Result(json!({"task": {"taskId": "t", "status": "working"}}))),
            )
        })
    });
    let session = Session::open(connection, settings()).await.unwrap();
    let request = CallRequest { tool: "bake".into(), arguments: json!({}), mode: CallMode::Task, ttl: None };
    let subscription = session.subscribe();
    let reply = session.call(&request, &subscription).await.reply().await.unwrap();
    let CallReply::Task { task, .. } = reply else { panic!("{reply:?}") };
    subscription.follow(&task.id);
    let Hint::Task(seen) = subscription.next().await else { panic!("no sight") };
    assert!(seen.status.is_terminal());
}

#[tokio::test(start_paused = true)]
async fn progress_goes_to_the_call_whose_token_it_carries() {
    let (connection, transcript) = serve(|method, params, _| {
        let token = params["_meta"]["progressToken"].clone();
        (method == "tools/call").then(|| {
            let notice =
                |token, progress| ("notifications/progress", json!({"progressToken": token, "progress": progress}));
            Answer::Telling(
                vec![notice(json!("foreign"), json!(1)), notice(token.clone(), json!("odd")), notice(token, json!(-3))],
                Box::new(Answer::Result(json!({"content": []}))),
            )
        })
    });
    let session = Session::open(connection, settings()).await.unwrap();
    let request = CallRequest { tool: "bake".into(), arguments: json!({}), mode: CallMode::Plain, ttl: None };
    let subscription = session.subscribe();
    session.call(&request, &subscription).await.reply().await.unwrap();
    let Hint::Progress(progress) = subscription.next().await else { panic!("no progress") };
    assert_eq!((progress.progress, progress.total, progress.message), (-3.0, None, None));
    assert_eq!(transcript.of("tools/call")[0].1["task"], Value::Null);
}
