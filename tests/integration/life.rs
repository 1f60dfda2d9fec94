//! Lives of tasks, end to end over both transports: what the user sees and what the server received. The course of a task
//! in all its variants is tested beside `lifecycle::follow`, on paused time.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Bench, Outcome, program, run, signal, until, wait};

fn task(status: &str) -> Value {
    json!({"taskId": "t-oven", "status": status, "statusMessage": "crust", "ttl": 60000, "pollInterval": 300})
}

fn script(rules: Value) -> Value {
    let mut all = vec![json!({"method": "tools/call", "steps": [{"reply": {"task": task("working")}}]})];
    all.extend(rules.as_array().unwrap().iter().cloned());
    json!({"rules": all})
}

/// The same script over each transport.
fn over_both(script: &Value, arguments: &[&str], check: impl Fn(&Outcome, &Bench)) {
    let bench = Bench::new(script);
    let stdio = bench.stdio();
    check(&run(&[&["-s", &stdio], arguments].concat()), &bench);
    bench.assert_nothing_lives();
    let bench = Bench::new(script);
    let server = bench.http();
    check(&run(&[&["-s", &server.url], arguments].concat()), &bench);
}

#[test]
fn a_task_is_followed_to_its_result() {
    let script = script(json!([
        {"method": "tasks/get", "steps": [{"reply": task("working")}]},
        {"method": "tasks/result", "steps": [{"sleep": 800}, {"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ]));
    over_both(&script, &["call", "bake", "--ttl", "10m"], |outcome, bench| {
        outcome.exits(0).prints("a loaf\n").says("task t-oven (kept for 1m 00s)").says("working: crust");
        let call = &bench.of("tools/call")[0]["message"]["params"];
        assert_eq!(call["task"], json!({"ttl": 600_000}));
        assert!(call["_meta"]["progressToken"].is_string());
        assert_eq!(bench.of("tasks/get")[0]["message"]["params"], json!({"taskId": "t-oven"}));
        assert_eq!(bench.of("tasks/result").len(), 1);
        assert_eq!(bench.of("tasks/get").len(), 2, "at 300 and 600 ms");
    });
}

#[test]
fn a_failed_task_shows_its_result_or_its_error() {
    let payload =
        json!({"content": [{"type": "text", "text": "row 4"}], "structuredContent": {"burnt": 3}, "isError": true});
    let failed = |step: Value| {
        script(json!([
            {"method": "tasks/get", "steps": [{"reply": task("failed")}]},
            {"method": "tasks/result", "steps": [{"sleep": 500}, step]},
        ]))
    };
    over_both(&failed(json!({"reply": payload})), &["call", "bake", "--json"], |outcome, _| {
        assert_eq!(outcome.exits(6).json(), payload);
    });
    over_both(&failed(json!({"reply": payload})), &["call", "bake"], |outcome, _| {
        outcome.exits(6).prints("").says("row 4");
    });
    let error = json!({"code": -32050, "message": "crust burnt", "data": [1.0]});
    over_both(&failed(json!({"error": error})), &["call", "bake", "--json"], |outcome, _| {
        let shown = &outcome.exits(5).json()["error"];
        assert_eq!(
            (&shown["code"], &shown["data"], &shown["taskId"]),
            (&json!(-32050), &json!([1.0]), &json!("t-oven"))
        );
    });
}

#[test]
fn an_unusual_reply_is_told_by_its_shape() {
    let replied = |reply: Value| {
        json!({"rules": [
            {"method": "tools/call", "steps": [{"reply": reply}]},
            {"method": "tasks/result", "steps": [{"reply": {"content": [{"type": "text", "text": "a bun"}]}}]},
        ]})
    };
    let bun = json!({"taskId": "t-bun", "status": "working"});
    over_both(&replied(json!({"task": bun})), &["call", "plain"], |outcome, _| {
        outcome.exits(0).prints("a bun\n").says("task t-bun");
    });
    over_both(
        &replied(json!({"resultType": "task", "taskId": "t-bun", "status": "working"})),
        &["call", "bake"],
        |outcome, _| {
            outcome.exits(0).prints("a bun\n");
        },
    );
    over_both(
        &replied(json!({"content": [{"type": "text", "text": "at once"}]})),
        &["call", "bake", "--task"],
        |outcome, _| {
            outcome.exits(0).prints("at once\n");
        },
    );
    over_both(&replied(json!({"resultType": "zzz"})), &["call", "bake"], |outcome, _| {
        outcome.exits(4).says("unknown `resultType` \"zzz\"");
    });
}

#[test]
fn an_expired_task_and_an_unknown_one_have_their_number() {
    let expired = json!({"error": {"code": -32602, "message": "expired"}});
    let script = script(json!([
        {"method": "tasks/get", "nth": 1, "steps": [{"reply": task("working")}]},
        {"method": "tasks/get", "steps": [expired]},
        {"method": "tasks/result", "steps": [expired]},
        {"method": "tasks/cancel", "steps": [expired]},
    ]));
    over_both(&script, &["call", "bake"], |outcome, _| {
        outcome.exits(10).says("no longer knows task t-oven").says("ttl 1m 00s").says("hint: --ttl");
    });
    for command in ["get", "watch", "result", "cancel"] {
        let bench = Bench::new(&json!({"rules": [
            {"method": "tasks/get", "steps": [expired]},
            {"method": "tasks/cancel", "steps": [expired]},
        ]}));
        run(&["-s", &bench.stdio(), command, "t-oven"]).exits(10).says("expired (-32602)");
    }
}

#[test]
fn polls_that_fail_in_passing_do_not_end_a_task() {
    let script = script(json!([
        {"method": "tasks/get", "nth": 1, "steps": [{"http": {"status": 503, "headers": {"Retry-After": "1"}}}]},
        {"method": "tasks/get", "nth": 2, "steps": [{"reset": {}}]},
        {"method": "tasks/get", "steps": [{"reply": {"taskId": "t-oven", "status": "completed"}}]},
        {"method": "tasks/result", "nth": 1, "steps": [{"error": {"code": -32602, "message": "not completed yet"}}]},
        {"method": "tasks/result", "steps": [{"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ]));
    let bench = Bench::new(&script);
    run(&["-s", &bench.http().url, "call", "bake"]).exits(0).prints("a loaf\n").says("HTTP 503");
    let at: Vec<u64> = bench.of("tasks/get").iter().map(|seen| seen["at"].as_u64().unwrap()).collect();
    assert!(at[1] >= at[0] + 1_000, "Retry-After is kept to: {at:?}");
}

#[test]
fn a_task_lost_with_its_session_is_looked_for_and_not_started_again() {
    let bench = Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("working")}}]},
        {"method": "tasks/get", "nth": 1, "steps": [{"http": {"status": 404}}]},
        {"method": "tasks/get", "steps": [{"error": {"code": -32602, "message": "not found"}}]},
        {"method": "tasks/result", "steps": [{"http": {"status": 404}}]},
    ]}));
    run(&["-s", &bench.http().url, "call", "bake"]).exits(10).says("task t-oven was lost with its session: not found");
    let ids: Vec<Value> =
        bench.of("tasks/get").iter().map(|seen| seen["message"]["params"]["taskId"].clone()).collect();
    assert_eq!((bench.of("tools/call").len(), ids), (1, vec![json!("t-oven"), json!("t-oven")]));
}

#[test]
fn over_http_an_interrupt_leaves_the_task_and_says_how_to_come_back() {
    let rules = json!([
        {"method": "tasks/get", "steps": [{"reply": task("working")}]},
        {"method": "tasks/result", "steps": [{"sse": {}}, {"hold": {}}]},
        {"method": "tasks/cancel", "steps": [{"reply": task("cancelled")}]},
    ]);
    for kind in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let bench = Bench::new(&json!({"session": true, "rules": script(rules.clone())["rules"]}));
        let server = bench.http();
        let child = program(&["-s", &server.url, "call", "bake"]).spawn().unwrap();
        until("a poll", || !bench.of("tasks/get").is_empty());
        signal(&child, kind);
        let outcome = wait(child, Instant::now());
        outcome.exits(8).says("task t-oven goes on").says("hint: mcp-task watch t-oven");
        assert_eq!((bench.of("tasks/cancel").len(), bench.of("DELETE").len()), (0, 0), "the task and its session stay");
    }
    let bench = Bench::new(&script(rules));
    let server = bench.http();
    let child = program(&["-s", &server.url, "call", "bake", "--cancel-on-interrupt"]).spawn().unwrap();
    until("a poll", || !bench.of("tasks/get").is_empty());
    signal(&child, Signal::SIGINT);
    wait(child, Instant::now()).exits(7).says("task t-oven was cancelled");
    assert_eq!(bench.of("tasks/cancel").len(), 1);
}

#[test]
fn a_task_can_be_left_looked_at_and_fetched() {
    let rules = json!([
        {"method": "tasks/get", "nth": 1, "steps": [{"reply": task("working")}]},
        {"method": "tasks/get", "nth": 2, "steps": [{"reply": task("working")}]},
        {"method": "tasks/get", "steps": [{"reply": task("completed")}]},
        {"method": "tasks/result", "steps": [{"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
        {"method": "tasks/list", "steps": [{"reply": {"tasks": [task("working")]}}]},
    ]);
    let bench = Bench::new(&script(rules));
    let server = bench.http();
    let with = |arguments: &[&str]| run(&[&["-s", &server.url], arguments].concat());
    with(&["call", "bake", "--detach"]).exits(0).prints("t-oven\n").says("watch t-oven");
    let shown = with(&["get", "t-oven"]);
    assert!(shown.exits(0).stdout.starts_with("task     t-oven\nstatus   working\nmessage  crust\n"), "{shown:?}");
    with(&["result", "t-oven", "--no-wait"]).exits(8).says("has not ended").prints("");
    with(&["result", "t-oven", "--no-wait"]).exits(0).prints("a loaf\n");
    with(&["watch", "t-oven"]).exits(0).prints("a loaf\n");
    let list = with(&["list", "--json"]).exits(0).json();
    assert_eq!(
        (&list[0]["taskId"], &list[0]["task"], &list[0]["tool"]),
        (&json!("t-oven"), &task("working"), &json!("bake"))
    );
}

#[test]
fn cancel_says_what_became_of_it() {
    let cancelled = |get: &str, cancel: Value| {
        Bench::new(&json!({"rules": [
            {"method": "tasks/cancel", "steps": [cancel]},
            {"method": "tasks/get", "steps": [{"reply": task(get)}]},
        ]}))
    };
    let bench = cancelled("cancelled", json!({"reply": task("cancelled")}));
    run(&["-s", &bench.stdio(), "cancel", "t-oven"]).exits(0).prints("task t-oven is cancelled\n");
    let bench = cancelled("completed", json!({"error": {"code": -32602, "message": "already completed"}}));
    run(&["-s", &bench.stdio(), "cancel", "t-oven"]).exits(4).says("had already ended: completed");
    let bench = cancelled("working", json!({"error": {"code": -32601, "message": "cannot"}}));
    run(&["-s", &bench.stdio(), "cancel", "t-oven"]).exits(4).says("is not cancelled").says("cannot (-32601)");
}

#[test]
fn a_task_that_asks_nobody_here_is_left_waiting() {
    let script = script(json!([
        {"method": "tasks/get", "steps": [{"reply": task("input_required")}]},
        {"method": "tasks/result", "steps": [{"sleep": 600_000}]},
    ]));
    let bench = Bench::new(&script);
    let outcome = run(&["-s", &bench.stdio(), "call", "bake"]);
    outcome.exits(9).says("task t-oven waits for an answer, but its question does not come to this command");
    assert!(outcome.took < Duration::from_secs(8), "{outcome:?}");
}

#[test]
fn a_plain_call_that_stays_silent_is_given_up() {
    let bench =
        Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"progress": [3, 1]}, {"sleep": 600_000}]}]}));
    let outcome = run(&["-s", &bench.stdio(), "call", "plain", "--idle-timeout", "500ms"]);
    outcome.exits(3).says("no answer and no progress from `plain` within 0.5s").says("--idle-timeout");
    assert_eq!(bench.of("notifications/cancelled").len(), 1);
}

#[test]
fn a_task_that_is_made_while_we_leave_is_not_lost() {
    let bench = Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"sleep": 700}, {"reply": {"task": task("working")}}]},
        {"method": "tasks/cancel", "steps": [{"reply": task("cancelled")}]},
    ]}));
    let server = bench.http();
    let outcome = run(&["-s", &server.url, "call", "bake", "--timeout", "400ms"]);
    outcome.exits(8).says("the time to wait is over; task t-oven goes on").says("watch t-oven");
    let start = Instant::now();
    let calls = bench.of("tools/call").len();
    let child = program(&["-s", &server.url, "call", "bake"]).spawn().unwrap();
    until("the call", || bench.of("tools/call").len() > calls);
    signal(&child, Signal::SIGINT);
    wait(child, start).exits(8).says("stopped watching; task t-oven goes on").says("watch t-oven");
    let child = program(&["-s", &server.url, "call", "bake", "--cancel-on-interrupt"]).spawn().unwrap();
    until("the call", || bench.of("tools/call").len() > calls + 1);
    signal(&child, Signal::SIGINT);
    wait(child, start).exits(7).says("task t-oven was cancelled");
    assert_eq!(bench.of("tasks/cancel").len(), 1);
}

#[test]
fn the_time_to_wait_counts_from_the_start() {
    let bench = Bench::new(&json!({"start": [{"sleep": 30_000}]}));
    let outcome = run(&["-s", &bench.stdio(), "call", "bake", "--timeout", "300ms"]);
    assert!(outcome.exits(3).says("was not called").took < Duration::from_secs(5), "{outcome:?}");
    assert_eq!(bench.of("tools/call").len(), 0);
    bench.assert_nothing_lives();
}

#[test]
fn an_interrupt_is_heard_before_the_first_look() {
    let bench = Bench::new(&json!({"session": true, "rules": [{"method": "tasks/get", "steps": [{"hold": {}}]}]}));
    let server = bench.http();
    let start = Instant::now();
    let child = program(&["-s", &server.url, "watch", "t-oven"]).spawn().unwrap();
    until("the look", || !bench.of("tasks/get").is_empty());
    signal(&child, Signal::SIGINT);
    wait(child, start).exits(8).says("stopped watching; task t-oven goes on");
}

#[test]
fn a_signal_that_is_to_be_ignored_is() {
    let bench = Bench::new(&script(json!([
        {"method": "tasks/get", "steps": [{"reply": task("working")}]},
        {"method": "tasks/result", "steps": [{"sleep": 1000}, {"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ])));
    let server = bench.http();
    // As `nohup` and a script's background jobs do.
    let environment = program(&[]);
    let shell = format!("trap '' HUP; exec {} -s {} call bake", env!("CARGO_BIN_EXE_mcp-task"), server.url);
    let start = Instant::now();
    let mut with_shell = std::process::Command::new("sh");
    with_shell.args(["-c", &shell]).env_clear().stdin(std::process::Stdio::null());
    with_shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    with_shell.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let child = with_shell.spawn().unwrap();
    until("a poll", || !bench.of("tasks/get").is_empty());
    signal(&child, Signal::SIGHUP);
    wait(child, start).exits(0).prints("a loaf\n");
}
