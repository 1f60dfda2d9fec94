//! Lives of tasks over a server in memory, on paused time.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::lifecycle::call::{CallEnding, call};
use crate::lifecycle::event::Event;
use crate::rpc::ConnectionError;
use crate::session::{CallMode, CallRequest, SessionSettings};
use crate::testing::{Answer, Transcript, serve};

fn sight(status: &str, interval: impl Into<Value>) -> Value {
    json!({"taskId": "t", "status": status, "ttl": 60_000, "pollInterval": interval.into()})
}

fn working(interval: impl Into<Value>) -> Option<Answer> {
    Some(Answer::Result(sight("working", interval)))
}

fn is(status: &str) -> Option<Answer> {
    Some(Answer::Result(sight(status, 1_000)))
}

fn loaf() -> Answer {
    Answer::Result(json!({"content": [{"type": "text", "text": "a loaf"}]}))
}

struct Lived {
    ending: Ending,
    events: Vec<Event>,
    transcript: Transcript,
    millis: u64,
}

/// Follows task `t`, first seen with `interval`, on a server that answers as `answer` says.
async fn live(
    interval: impl Into<Value>,
    mut answer: impl FnMut(&str, &Value, usize) -> Option<Answer> + Send + 'static,
    commands: &[(u64, Command)],
    options: FollowOptions,
) -> Lived {
    let (connection, transcript) =
        serve(move |method, params, nth| if method == "initialize" { None } else { answer(method, params, nth) });
    let limit = Some(Duration::from_secs(10));
    let settings = SessionSettings { start_limit: limit, request_limit: limit, ..SessionSettings::default() };
    let session = Session::open(connection, settings).await.unwrap();
    let task = crate::session::read_task_for_tests(&sight("working", interval.into()));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let commands = commands.to_vec();
    let start = Instant::now();
    tokio::spawn(async move {
        for (at, command) in commands {
            tokio::time::sleep_until(start + Duration::from_millis(at)).await;
            let _ = sender.send(command);
        }
    });
    let mut events = Vec::new();
    let subscription = session.subscribe();
    let attendance =
        Attendance { subscription: &subscription, reporter: &mut events, answerer: &(), commands: &mut receiver };
    let (ending, _) = follow(&session, task, &options, attendance).await;
    let millis = u64::try_from(start.elapsed().as_millis()).unwrap();
    Lived { ending, events, transcript, millis }
}

async fn simply(interval: u64, answer: impl FnMut(&str, &Value, usize) -> Option<Answer> + Send + 'static) -> Lived {
    live(interval, answer, &[], FollowOptions::default()).await
}

fn outcome(ending: &Ending) -> String {
    match ending {
        Ending::Done { status, outcome: TaskOutcome::Result(result), .. } => format!("{status}: {}", result.raw.text()),
        Ending::Done { status, outcome: TaskOutcome::Error(error), .. } => format!("{status}: {error}"),
        other => format!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_does_not_wait_for_a_poll() {
    let lived = simply(10_000, |method, _, _| match method {
        "tasks/result" => Some(loaf().after(2_000)),
        _ => working(10_000),
    })
    .await;
    assert_eq!(lived.millis, 2_000);
    assert_eq!(lived.transcript.count("tasks/get"), 0);
    assert!(outcome(&lived.ending).contains("a loaf"));
}

#[tokio::test(start_paused = true)]
async fn polls_keep_to_the_newest_interval_from_the_first_on() {
    let lived = simply(3_000, |method, _, nth| match (method, nth) {
        ("tasks/result", _) => Some(Answer::Never),
        (_, 1) => working(500),
        (_, 2) => working(0),
        (_, 3) => working(-1),
        (_, 4) => working(2.5),
        (_, 5) => working(1e300),
        _ => is("cancelled"),
    })
    .await;
    // 3000 first; then 500; nonsense is 500 easing to 750; 2.5 ms is the floor; 1e300 the ceiling of an hour.
    assert_eq!(lived.transcript.times("tasks/get"), [3_000, 3_500, 4_000, 4_750, 4_850, 3_604_850]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_shows_what_it_stored() {
    let lived = simply(1_000, |method, _, _| match method {
        "tasks/result" => Some(Answer::Error(-32602, "not completed yet")),
        _ => is("failed"),
    })
    .await;
    assert_eq!(outcome(&lived.ending), "failed: not completed yet (-32602)");
    assert_eq!(lived.transcript.count("tasks/result"), 2);

    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Error(-32603, "not done")),
        ("tasks/result", _) => {
            Some(Answer::Result(json!({"content": [], "structuredContent": {"burnt": 3}, "isError": true})))
        }
        _ => is("failed"),
    })
    .await;
    assert!(outcome(&lived.ending).contains("\"burnt\":3"), "{}", outcome(&lived.ending));

    let lived = simply(1_000, |method, _, _| match method {
        "tasks/result" => Some(Answer::Error(-32050, "crust burnt").after(300)),
        _ => is("failed"),
    })
    .await;
    assert_eq!(outcome(&lived.ending), "failed: crust burnt (-32050)");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_does_not_wait_is_fetched_at_the_end() {
    for code in [-32602, -32603, -32002, -32601] {
        let lived = simply(1_000, move |method, _, nth| match (method, nth) {
            ("tasks/result", 1) => Some(Answer::Error(code, "not completed yet")),
            ("tasks/result", _) => Some(loaf()),
            ("tasks/get", 3) => is("completed"),
            _ => working(1_000),
        })
        .await;
        assert_eq!((lived.millis, lived.transcript.count("tasks/get")), (3_000, 3), "{code}");
        assert!(outcome(&lived.ending).starts_with("completed: "), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_handed_out_once_is_the_tasks_own() {
    let lived = simply(1_000, |method, _, _| match method {
        "tasks/result" => Some(Answer::Error(-32603, "task failed: the bread is burnt").after(500)),
        _ => Some(Answer::Error(-32602, "task not found")),
    })
    .await;
    assert_eq!(outcome(&lived.ending), "failed: task failed: the bread is burnt (-32603)");
    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Error(-32603, "the bread is burnt").after(500)),
        ("tasks/result", _) => Some(Answer::Error(-32602, "task not found")),
        _ => is("failed"),
    })
    .await;
    assert_eq!(outcome(&lived.ending), "failed: the bread is burnt (-32603)");
    // A refusal to wait is none, and neither is the word that the task has gone.
    for refusal in [Answer::Error(-32603, "not completed"), Answer::Error(-32602, "expired").after(500)] {
        let mut refusal = Some(refusal);
        let lived = simply(1_000, move |method, _, _| match method {
            "tasks/result" => refusal.take().or(Some(Answer::Never)),
            _ => Some(Answer::Error(-32602, "task not found")),
        })
        .await;
        assert!(matches!(lived.ending, Ending::Lost { .. }), "{:?}", lived.ending);
    }
}

#[tokio::test(start_paused = true)]
async fn a_completed_task_may_need_a_moment_to_hand_out_its_result() {
    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        ("tasks/result", 1..=3) => Some(Answer::Error(-32602, "not completed yet")),
        ("tasks/result", _) => Some(loaf()),
        _ => is("completed"),
    })
    .await;
    assert!(outcome(&lived.ending).contains("a loaf"));
    let lived = simply(1_000, |method, _, _| match method {
        "tasks/result" => Some(Answer::Error(-32603, "no result stored")),
        _ => is("completed"),
    })
    .await;
    assert!(matches!(lived.ending, Ending::NoResult { status: TaskStatus::Completed, .. }), "{:?}", lived.ending);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_result_stream_is_opened_again() {
    let lived = simply(60_000, |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Fail(ConnectionError::StreamEnded { resumes: 0 }).after(400)),
        ("tasks/result", _) => Some(loaf().after(600)),
        _ => working(60_000),
    })
    .await;
    assert_eq!((lived.millis, lived.transcript.count("tasks/result")), (400 + 250 + 600, 2));
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_fails_in_passing_backs_off_and_goes_on() {
    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Error(-32602, "not completed yet")),
        ("tasks/result", _) => Some(loaf()),
        (_, 1) => working(1_000),
        (_, 2) => Some(Answer::Never),
        (_, 3) => Some(Answer::Fail(ConnectionError::Status {
            url: "u".into(),
            status: 503,
            retry_after: Some(Duration::from_secs(2)),
            body: String::new(),
        })),
        _ => Some(Answer::Result(json!({"taskId": "t", "status": "completed"}))),
    })
    .await;
    // Poll 2 waits its 10 s out; then a pause of at least the interval; then at least `Retry-After`.
    assert_eq!(lived.transcript.times("tasks/get"), [1_000, 2_000, 13_000, 15_000]);
    assert!(outcome(&lived.ending).contains("a loaf"));
    assert_eq!(lived.events.iter().filter(|event| matches!(event, Event::PollFailed { .. })).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn polls_that_always_fail_in_passing_are_given_up_in_the_end() {
    let lived = simply(1_000, |method, _, _| match method {
        "tasks/result" => Some(Answer::Never),
        _ => Some(Answer::Fail(ConnectionError::Broken { url: "u".into(), reason: "reset".into() })),
    })
    .await;
    assert!(matches!(lived.ending, Ending::Broken(_)));
    assert!((300_000..340_000).contains(&lived.millis), "{}", lived.millis);
}

#[tokio::test(start_paused = true)]
async fn lasting_refusals_stop_at_once() {
    for refusal in [401, 403] {
        let lived = simply(1_000, move |method, _, _| match method {
            "tasks/result" => Some(Answer::Never),
            _ => Some(Answer::Fail(ConnectionError::Unauthorized {
                url: "u".into(),
                status: refusal,
                challenge: None,
                body: String::new(),
            })),
        })
        .await;
        assert!(matches!(lived.ending, Ending::Broken(_)), "{:?}", lived.ending);
        assert_eq!(lived.transcript.count("tasks/get"), 1);
    }
    let lived = simply(1_000, |method, _, _| match method {
        "tasks/result" => Some(Answer::Never),
        _ => Some(Answer::Error(-32601, "no such method")),
    })
    .await;
    assert!(matches!(lived.ending, Ending::Broken(_)), "{:?}", lived.ending);
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_ttl_ran_out_is_lost() {
    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        ("tasks/result", _) => Some(Answer::Never),
        (_, 1..=2) => working(1_000),
        _ => Some(Answer::Error(-32602, "expired")),
    })
    .await;
    assert!(
        matches!(&lived.ending, Ending::Lost { ttl: Ttl::Limited(ttl), with_session: false, .. } if ttl.as_secs() == 60),
        "{:?}",
        lived.ending
    );
    assert_eq!(lived.millis, 4_000);
}

#[tokio::test(start_paused = true)]
async fn the_newest_ttl_counts_and_no_clock_of_the_server_does() {
    for (ttl, expected) in [
        (json!(3_000), Ttl::Limited(Duration::from_secs(3))),
        (json!(0), Ttl::Limited(Duration::ZERO)),
        (Value::Null, Ttl::Unlimited),
    ] {
        let stamps = [json!("2001-01-01T00:00:00Z"), json!("2999-01-01T00:00:00Z")];
        let lived = simply(1_000, move |method, _, nth| match (method, nth) {
            ("tasks/result", _) => Some(Answer::Never),
            (_, 1..=9) => {
                let (created, updated) = (&stamps[nth % 2], &stamps[(nth + 1) % 2]);
                Some(Answer::Result(json!({
                    "taskId": "t", "status": "working", "ttl": ttl, "pollInterval": 1_000,
                    "createdAt": created, "lastUpdatedAt": updated,
                })))
            }
            _ => Some(Answer::Error(-32602, "expired")),
        })
        .await;
        assert!(matches!(lived.ending, Ending::Lost { ttl, .. } if ttl == expected), "{:?}", lived.ending);
        assert_eq!(lived.transcript.count("tasks/get"), 10, "neither stamps nor a ttl that is over end the watching");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_just_after_the_task_was_forgotten_counts() {
    let lived = simply(1_000, |method, _, _| match method {
        "tasks/result" => Some(loaf().after(1_500)),
        _ => Some(Answer::Error(-32602, "no such task")),
    })
    .await;
    assert!(outcome(&lived.ending).contains("a loaf"), "{:?}", lived.ending);
}

fn session_gone() -> Answer {
    Answer::Fail(ConnectionError::SessionGone { status: 404, body: String::new() })
}

#[tokio::test(start_paused = true)]
async fn a_task_is_looked_for_in_a_new_session_and_never_started_again() {
    for found in [true, false] {
        let lived = simply(1_000, move |method, params, nth| {
            assert!(params["taskId"] == "t" || method == "notifications/initialized", "{method}");
            match (method, nth) {
                ("tasks/result", 1) => Some(session_gone()),
                ("tasks/result", _) if found => Some(loaf()),
                _ => Some(Answer::Error(-32602, "not found")),
            }
        })
        .await;
        assert_eq!((lived.transcript.count("tools/call"), lived.transcript.count("initialize")), (0, 2));
        match lived.ending {
            Ending::Done { .. } => assert!(found),
            Ending::Lost { with_session, .. } => assert!(with_session && !found),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_lost_at_the_very_end_is_renewed_for_the_result() {
    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Error(-32602, "not completed yet")),
        ("tasks/result", 2) => Some(session_gone()),
        ("tasks/result", _) => Some(loaf()),
        _ => is("completed"),
    })
    .await;
    assert!(outcome(&lived.ending).contains("a loaf"), "{:?}", lived.ending);
    assert_eq!(lived.transcript.count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_result_may_take_its_time_after_the_end_and_is_handed_out_once() {
    // The first question is answered by a large result on a slow line; the second finds nothing left.
    for second in [-32602, -32603] {
        for status in ["completed", "failed"] {
            let lived = simply(1_000, move |method, _, nth| match (method, nth) {
                ("tasks/result", 1) => Some(loaf().after(50_000)),
                ("tasks/result", _) => Some(Answer::Error(second, "unknown task")),
                _ => is(status),
            })
            .await;
            assert!(outcome(&lived.ending).contains("a loaf"), "{second} {status}: {:?}", lived.ending);
            assert_eq!((lived.millis, lived.transcript.count("tasks/result")), (50_000, 2));
        }
    }
    // One that was lost on the way is answered at the second attempt.
    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Never),
        ("tasks/result", _) => Some(loaf()),
        _ => is("completed"),
    })
    .await;
    assert!(outcome(&lived.ending).contains("a loaf"), "{:?}", lived.ending);
    assert_eq!(lived.millis, 11_000);
}

#[tokio::test(start_paused = true)]
async fn a_server_out_of_reach_at_the_end_is_waited_for_and_never_blamed() {
    let broken = || Answer::Fail(ConnectionError::Broken { url: "u".into(), reason: "reset".into() });
    let lived = simply(1_000, move |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Error(-32602, "not completed yet")),
        ("tasks/result", 2..=9) => Some(broken()),
        ("tasks/result", _) => Some(loaf()),
        _ => is("completed"),
    })
    .await;
    assert!(outcome(&lived.ending).contains("a loaf"), "{:?}", lived.ending);
    let lived = simply(1_000, move |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Error(-32602, "not completed yet")),
        ("tasks/result", _) => Some(broken()),
        _ => is("completed"),
    })
    .await;
    assert!(matches!(lived.ending, Ending::Broken(_)), "{:?}", lived.ending);
    assert!((300_000..340_000).contains(&lived.millis), "{}", lived.millis);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_was_overtaken_by_the_failure_is_not_the_tasks_own() {
    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        // Asked while the task ran, answered after the poll that said `failed`.
        ("tasks/result", 1) => Some(Answer::Error(-32603, "not completed yet").after(1_100)),
        ("tasks/result", _) => Some(Answer::Error(-32050, "the bread is burnt")),
        _ => is("failed"),
    })
    .await;
    assert_eq!(outcome(&lived.ending), "failed: the bread is burnt (-32050)");
}

#[tokio::test(start_paused = true)]
async fn whatever_a_cancelled_result_is_answered_with_the_task_is_cancelled() {
    for answer in ["error", "result", "silence", "empty"] {
        let lived = live(
            1_000,
            move |method, _, _| match method {
                "tasks/cancel" => is("cancelled"),
                "tasks/result" => Some(match answer {
                    "error" => Answer::Error(-32900, "cancelled").after(2_600),
                    "result" => loaf().after(2_600),
                    "empty" => Answer::Result(json!({"_meta": {}})).after(2_600),
                    _ => Answer::Never,
                }),
                _ => working(1_000),
            },
            &[(2_500, Command::Cancel)],
            FollowOptions::default(),
        )
        .await;
        assert!(matches!(lived.ending, Ending::Cancelled { .. }), "{answer}: {:?}", lived.ending);
        assert!(lived.millis <= 3_500, "{answer}: {}", lived.millis);
        assert_eq!(lived.transcript.count("tasks/cancel"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_outran_its_cancellation_is_done() {
    let lived = live(
        60_000,
        |method, _, _| match method {
            "tasks/cancel" => Some(Answer::Error(-32602, "already completed")),
            "tasks/result" => Some(loaf().after(2_510)),
            _ => is("completed"),
        },
        &[(2_500, Command::Cancel)],
        FollowOptions::default(),
    )
    .await;
    assert!(matches!(lived.ending, Ending::Done { cancel_asked: true, .. }), "{:?}", lived.ending);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_nothing_comes_of_is_not_waited_for_for_ever() {
    let lived = live(
        1_000,
        |method, _, _| match method {
            "tasks/result" => Some(Answer::Never),
            "tasks/cancel" => Some(Answer::Error(-32601, "no such method")),
            _ => working(1_000),
        },
        &[(2_500, Command::Cancel)],
        FollowOptions::default(),
    )
    .await;
    assert!(matches!(lived.ending, Ending::CancelUnconfirmed), "{:?}", lived.ending);
    assert!(lived.events.iter().any(|event| matches!(event, Event::CancelRefused { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_forgotten_once_its_cancellation_was_taken_is_cancelled() {
    for standing in [true, false] {
        let lived = live(
            1_000,
            move |method, _, nth| match (method, nth) {
                ("tasks/result", _) if standing => Some(Answer::Never),
                ("tasks/cancel", _) => Some(Answer::Result(json!({}))),
                ("tasks/get", 1..=2) => working(1_000),
                _ => Some(Answer::Error(-32602, "unknown task")),
            },
            &[(2_500, Command::Cancel)],
            FollowOptions::default(),
        )
        .await;
        assert!(matches!(lived.ending, Ending::Cancelled { .. }), "{:?}", lived.ending);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_with_the_task_it_cancels_has_cancelled_it() {
    let ended = || ConnectionError::ServerExited { status: "exit status: 0".into(), stderr: String::new() };
    for dying in ["tasks/cancel", "tasks/result", "tasks/get"] {
        let lived = live(
            1_000,
            move |method, _, nth| match (method, nth) {
                ("tasks/get", 1..=2) => working(1_000),
                (method, _) if method == dying => Some(Answer::Fail(ended()).after(2_600)),
                ("tasks/cancel", _) => Some(Answer::Result(json!({}))),
                _ => Some(Answer::Never),
            },
            &[(2_500, Command::Cancel)],
            FollowOptions::default(),
        )
        .await;
        assert!(matches!(lived.ending, Ending::Cancelled { .. }), "{dying}: {:?}", lived.ending);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_by_somebody_else_is_told_from_a_result() {
    for answer in ["empty", "error"] {
        let lived = simply(60_000, move |method, _, _| match method {
            "tasks/result" => Some(match answer {
                "empty" => Answer::Result(json!({"_meta": {}})).after(2_000),
                _ => Answer::Error(-32000, "Task was cancelled").after(2_000),
            }),
            _ => is("cancelled"),
        })
        .await;
        assert!(matches!(lived.ending, Ending::Cancelled { .. }), "{answer}: {:?}", lived.ending);
        assert_eq!(lived.millis, 2_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_from_before_the_outcome_does_not_say_how_the_task_ended() {
    let lived = simply(1_900, |method, _, nth| match (method, nth) {
        ("tasks/result", _) => Some(Answer::Result(json!({"_meta": {}})).after(2_000)),
        (_, 1) => Some(Answer::Result(sight("working", 1_900)).after(300)),
        _ => is("cancelled"),
    })
    .await;
    assert!(matches!(lived.ending, Ending::Cancelled { .. }), "{:?}", lived.ending);
    assert_eq!(lived.transcript.times("tasks/get"), [1_900, 2_000]);
}

#[tokio::test(start_paused = true)]
async fn a_status_notification_wakes_the_poll() {
    let notice = ("notifications/tasks/status", sight("completed", 60_000));
    let lived = simply(60_000, move |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => {
            let refusal = Answer::Error(-32602, "not completed yet");
            Some(Answer::Telling(vec![notice.clone()], Box::new(refusal)).after(2_000))
        }
        ("tasks/result", _) => Some(loaf()),
        _ => is("completed"),
    })
    .await;
    assert_eq!(lived.millis, 2_000);
}

#[tokio::test(start_paused = true)]
async fn a_notification_that_overtakes_a_poll_makes_it_look_again() {
    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Error(-32602, "not completed yet")),
        ("tasks/result", _) => Some(loaf()),
        (_, 1) => {
            let notice = ("notifications/tasks/status", sight("completed", 60_000));
            let stale = Answer::Result(sight("working", 60_000)).after(500);
            Some(Answer::Telling(vec![notice], Box::new(stale)))
        }
        _ => is("completed"),
    })
    .await;
    assert_eq!((lived.millis, lived.transcript.count("tasks/get")), (1_500, 2));
}

#[tokio::test(start_paused = true)]
async fn false_alarms_never_make_polling_fast() {
    let alarm = || ("notifications/tasks/status", sight("completed", 10_000));
    let lived = simply(10_000, move |method, _, nth| match (method, nth) {
        ("tasks/result", _) => {
            let refusal = Answer::Error(-32602, "not completed yet");
            Some(Answer::Telling(vec![alarm()], Box::new(refusal)))
        }
        (_, 1..=12) => {
            Some(Answer::Telling(vec![alarm(), alarm()], Box::new(Answer::Result(sight("working", 10_000)))))
        }
        _ => is("cancelled"),
    })
    .await;
    let times = lived.transcript.times("tasks/get");
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000, 10_000, 10_000]);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_ends_the_watching_not_the_task() {
    let lived = simply(1_000, |method, _, _| match method {
        "tasks/result" => Some(Answer::Never),
        _ => Some(Answer::Result(sight("input_required", 1_000))),
    })
    .await;
    assert!(matches!(lived.ending, Ending::InputRequired(None)), "{:?}", lived.ending);
    assert_eq!((lived.millis, lived.transcript.count("tasks/result")), (4_000, 1));
}

#[tokio::test(start_paused = true)]
async fn a_question_makes_a_refused_result_be_asked_again() {
    let lived = simply(1_000, |method, _, nth| match (method, nth) {
        ("tasks/result", 1) => Some(Answer::Error(-32602, "not completed yet")),
        ("tasks/result", _) => Some(loaf().after(500)),
        _ => Some(Answer::Result(sight("input_required", 1_000))),
    })
    .await;
    assert_eq!((lived.millis, lived.transcript.count("tasks/result")), (1_500, 2));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_and_the_user_leave_the_task_alone() {
    let server = |method: &str, _: &Value, _: usize| match method {
        "tasks/result" => Some(Answer::Never),
        _ => working(1_000),
    };
    let options = FollowOptions { deadline: Some(Instant::now() + Duration::from_millis(4_200)), ..Default::default() };
    let lived = live(1_000, server, &[], options).await;
    assert!(matches!(lived.ending, Ending::Left(Leaving::Deadline)));
    assert_eq!(lived.millis, 4_200);
    let lived = live(1_000, server, &[(1_700, Command::Leave)], FollowOptions::default()).await;
    assert!(matches!(lived.ending, Ending::Left(Leaving::Asked)));
    assert_eq!((lived.millis, lived.transcript.count("tasks/cancel")), (1_700, 0));
}

#[tokio::test(start_paused = true)]
async fn a_silent_result_may_take_its_time() {
    let lived = simply(5_000, |method, _, _| match method {
        "tasks/result" => Some(loaf().after(130_000)),
        _ => Some(Answer::Result(sight("a new word", 5_000))),
    })
    .await;
    assert_eq!((lived.millis, lived.transcript.count("tasks/result")), (130_000, 1));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_is_the_end_of_the_watching() {
    let lived = simply(5_000, |method, _, _| match method {
        "tasks/result" => Some(
            Answer::Fail(ConnectionError::ServerExited { status: "exit status: 3".into(), stderr: String::new() })
                .after(700),
        ),
        _ => working(5_000),
    })
    .await;
    assert!(matches!(lived.ending, Ending::Broken(_)));
    assert_eq!(lived.millis, 700);
}

async fn plain_call(
    answer: impl FnMut(&str, &Value, usize) -> Option<Answer> + Send + 'static,
    idle: Option<Duration>,
) -> (CallEnding, Transcript, u128) {
    let (connection, transcript) = serve(answer);
    let session = Session::open(connection, SessionSettings::default()).await.unwrap();
    let request = CallRequest { tool: "bake".into(), arguments: json!({}), mode: CallMode::Plain, ttl: None };
    let subscription = session.subscribe();
    let (_sender, mut commands) = mpsc::unbounded_channel();
    let start = Instant::now();
    let attendance =
        Attendance { subscription: &subscription, reporter: &mut (), answerer: &(), commands: &mut commands };
    let ending = call(&session, &request, idle, None, attendance).await;
    (ending, transcript, start.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn progress_keeps_a_plain_call_alive() {
    let token = Arc::new(std::sync::Mutex::new(Value::Null));
    let (ending, _, millis) = plain_call(
        move |method, params, _| {
            if method != "tools/call" {
                return None;
            }
            *token.lock().unwrap() = params["_meta"]["progressToken"].clone();
            let notice = json!({"progressToken": params["_meta"]["progressToken"], "progress": 1});
            let mut answer = loaf().after(10_000);
            for _ in 0..12 {
                answer =
                    Answer::Telling(vec![("notifications/progress", notice.clone())], Box::new(answer)).after(10_000);
            }
            Some(answer)
        },
        Some(Duration::from_secs(60)),
    )
    .await;
    assert!(matches!(ending, CallEnding::Result(_)), "{ending:?}");
    assert_eq!(millis, 130_000);
}

#[tokio::test(start_paused = true)]
async fn a_plain_call_that_stays_silent_is_given_up_and_the_server_told() {
    let (ending, transcript, millis) =
        plain_call(|method, _, _| (method == "tools/call").then_some(Answer::Never), Some(Duration::from_secs(60)))
            .await;
    assert!(matches!(ending, CallEnding::Silent(limit) if limit.as_secs() == 60), "{ending:?}");
    assert_eq!((millis, transcript.count("notifications/cancelled")), (60_000, 1));
}
