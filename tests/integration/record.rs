//! Tasks outlive the command: what a later shell knows and can do. Each test has a state folder of its own.

use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Bench, Outcome, finish, program, signal, until, wait};

fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "ttl": 60000, "pollInterval": 200})
}

/// A server with sessions whose tasks are done as soon as somebody looks.
fn bakery() -> Bench {
    Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "nth": 1, "steps": [{"reply": {"task": task("t-loaf-1", "working")}}]},
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf-2", "working")}}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf-1", "completed")}]},
        {"method": "tasks/result", "steps": [{"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ]}))
}

/// Runs with the bench's own state folder.
fn run(bench: &Bench, arguments: &[&str]) -> Outcome {
    let mut command = program(arguments);
    command.env("MCP_TASK_STATE_DIR", bench.path("state"));
    finish(command)
}

fn list(bench: &Bench) -> Value {
    run(bench, &["list", "--offline", "--json"]).exits(0).json()
}

#[test]
fn another_shell_comes_back_in_the_same_session() {
    let bench = bakery();
    let server = bench.http();
    let detached = run(&bench, &["-s", &server.url, "call", "bake", "--detach"]);
    let id = detached.exits(0).stdout.trim().to_owned();
    detached.says("mcp-task watch t-loaf-1");
    run(&bench, &["watch", &id]).exits(0).prints("a loaf\n");
    assert_eq!((bench.of("initialize").len(), bench.of("DELETE").len()), (1, 0), "others may watch the task in it");
    let look = &bench.of("tasks/get")[0]["headers"];
    assert_eq!((&look["mcp-session-id"], &look["mcp-protocol-version"]), (&json!("s1"), &json!("2025-11-25")));
}

#[test]
fn a_result_once_fetched_is_shown_after_the_server_is_gone() {
    let bench = bakery();
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake"]).exits(0);
    drop(server);
    let result = json!({"content": [{"type": "text", "text": "a loaf"}]});
    for command in ["watch", "result"] {
        assert_eq!(run(&bench, &[command, "t-loaf", "--json"]).exits(0).json(), result);
    }
    run(&bench, &["result", "--last", "--no-wait"]).exits(0).prints("a loaf\n");
    let known = &list(&bench)[0];
    assert_eq!(
        (&known["status"], &known["hasResult"], &known["tool"]),
        (&json!("completed"), &json!(true), &json!("bake"))
    );
}

#[test]
fn a_server_in_the_environment_does_not_hide_what_is_recorded() {
    let bench = bakery();
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake", "--detach"]).exits(0);
    for arguments in [&["list", "--json"][..], &["watch", "t-loaf"]] {
        let mut command = program(arguments);
        command.env("MCP_TASK_STATE_DIR", bench.path("state")).env("MCP_TASK_SERVER", "no-such-program");
        assert!(finish(command).exits(0).stdout.contains("loaf"));
    }
    run(&bench, &["-s", "http://127.0.0.1:1/mcp", "watch", "--last"]).exits(10).says("on this server");
}

#[test]
fn a_killed_command_leaves_its_task_known() {
    let bench = Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-rye", "working")}}]},
        {"method": "tasks/get", "nth": 1, "steps": [{"reply": task("t-rye", "working")}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-rye", "completed")}]},
        {"method": "tasks/result", "nth": 1, "steps": [{"sse": {}}, {"hold": {}}]},
        {"method": "tasks/result", "steps": [{"reply": {"content": [{"type": "text", "text": "rye"}]}}]},
    ]}));
    let server = bench.http();
    let mut command = program(&["-s", &server.url, "call", "bake"]);
    let child = command.env("MCP_TASK_STATE_DIR", bench.path("state")).spawn().unwrap();
    until("a poll", || !bench.of("tasks/get").is_empty());
    signal(&child, Signal::SIGKILL);
    wait(child, Instant::now());
    assert_eq!(list(&bench)[0]["status"], "working");
    run(&bench, &["watch", "--last"]).exits(0).prints("rye\n");
    assert_eq!(bench.of("tools/call").len(), 1);
}

#[test]
fn a_command_killed_before_the_answer_leaves_an_honest_line() {
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"sleep": 600_000}]}]}));
    let server = bench.http();
    let mut command = program(&["-s", &server.url, "call", "bake", "n=7", "--no-validate"]);
    let child = command.env("MCP_TASK_STATE_DIR", bench.path("state")).spawn().unwrap();
    until("the call", || !bench.of("tools/call").is_empty());
    signal(&child, Signal::SIGKILL);
    wait(child, Instant::now());
    let listed = run(&bench, &["list"]);
    assert!(listed.exits(0).stdout.contains("sent, answer never seen"), "{listed:?}");
    let log = run(&bench, &["log", "--json"]).exits(0).json();
    assert_eq!((&log[0]["event"], &log[0]["tool"], &log[0]["taskId"]), (&json!("sent"), &json!("bake"), &Value::Null));
}

#[test]
fn a_call_that_became_no_task_is_not_recorded() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "nth": 1, "steps": [{"reply": {"content": []}}]},
        {"method": "tools/call", "steps": [{"error": {"code": -32602, "message": "no"}}]},
    ]}));
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake"]).exits(0);
    run(&bench, &["-s", &server.url, "call", "bake"]).exits(4);
    assert_eq!(list(&bench), json!([]));
}

#[test]
fn the_beginning_of_an_id_is_enough_where_it_is_one_tasks_alone() {
    let bench = bakery();
    let server = bench.http();
    for _ in 0..2 {
        run(&bench, &["-s", &server.url, "call", "bake", "--detach"]).exits(0);
    }
    run(&bench, &["get", "t-loaf"]).exits(2).says("is the beginning of 2 tasks").says("t-loaf-1").says("t-loaf-2");
    run(&bench, &["get", "t-loaf-1"]).exits(0);
    run(&bench, &["get", "t-l"]).exits(10).says("`t-l`").says("hint: `mcp-task list`");
    run(&bench, &["get", "t-bun"]).exits(10);
    run(&bench, &["get"]).exits(2).says("--last");
    let newest = run(&bench, &["get", "--last"]);
    newest.exits(0);
    assert_eq!(bench.of("tasks/get").last().unwrap()["message"]["params"]["taskId"], "t-loaf-2");
    let other = Bench::new(&json!({}));
    run(&other, &["get", "--last"]).exits(10).says("no task is recorded");
}

#[test]
fn a_lost_session_is_renewed_once_and_the_verdict_said() {
    let gone = json!([{"http": {"status": 404}}]);
    for found in [true, false] {
        let later = if found {
            json!({"reply": task("t-loaf", "completed")})
        } else {
            json!({"error": {"code": -32602, "message": "not found"}})
        };
        let bench = Bench::new(&json!({"session": true, "rules": [
            {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
            {"method": "tasks/get", "nth": 1, "steps": gone},
            {"method": "tasks/get", "steps": [later]},
            {"method": "tasks/result", "steps": [{"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
        ]}));
        let server = bench.http();
        run(&bench, &["-s", &server.url, "call", "bake", "--detach"]).exits(0);
        let outcome = run(&bench, &["watch", "--last"]);
        if found {
            outcome.exits(0).prints("a loaf\n");
        } else {
            outcome.exits(10).says("lost with its session").says("not found");
            assert_eq!(list(&bench)[0]["lost"], true);
        }
        assert_eq!((bench.of("initialize").len(), bench.of("tools/call").len()), (2, 1));
    }
}

#[test]
fn a_task_on_a_server_that_ended_with_its_command_is_said_to_be_lost() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "working")}]},
        {"method": "tasks/result", "steps": []},
    ]}));
    run(&bench, &["-s", &bench.stdio(), "call", "bake", "--timeout", "500ms"]).exits(8);
    for command in ["watch", "get", "result", "cancel"] {
        run(&bench, &[command, "t-loaf"])
            .exits(10)
            .says("lost with its server: it ended with the command that started it");
    }
    assert_eq!(bench.of("tools/call").len(), 1);
}

#[test]
fn the_trail_tells_a_tasks_life() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tasks/get", "nth": 1, "steps": [{"http": {"status": 503}}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "cancelled")}]},
        {"method": "tasks/result", "steps": [{"sse": {}}, {"hold": {}}]},
    ]}));
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake"]).exits(7);
    let log = run(&bench, &["log", "t-loaf", "--json"]).exits(0).json();
    let events: Vec<&str> = log.as_array().unwrap().iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["sent", "created", "poll failed", "status", "ended"]);
    run(&bench, &["-s", &server.url, "log", "t-nobody"]).exits(10).says("t-nobody");
    let shown = run(&bench, &["log"]);
    assert!(shown.exits(0).stdout.starts_with("TIME"), "{shown:?}");
    run(&bench, &["watch", "t-loaf"]).exits(7).says("was cancelled");
}

#[test]
fn arguments_are_kept_out_where_that_is_wanted_and_secrets_always() {
    let bench = bakery();
    let server = bench.http();
    let url = server.url.replace("http://", "http://me:hush-hush@");
    let arguments =
        ["-s", &url, "--bearer", "hush-hush", "--no-record-args", "call", "bake", "word=hush-hush", "--no-validate"];
    run(&bench, &arguments).exits(0);
    // The row is that server's all the same.
    run(&bench, &["-s", &url, "get", "--last"]).exits(0);
    for entry in std::fs::read_dir(bench.path("state")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("hush-hush"));
    }
}

#[test]
fn what_is_recorded_is_listed_though_the_server_is_gone() {
    let bench = bakery();
    let server = bench.http();
    let url = server.url.clone();
    run(&bench, &["-s", &url, "call", "bake", "--detach"]).exits(0);
    drop(server);
    let outcome = run(&bench, &["-s", &url, "list"]);
    assert!(outcome.exits(3).says("Connection refused").stdout.contains("t-loaf-1"), "{outcome:?}");
}

#[test]
fn two_watchers_see_the_same_end() {
    let bench = Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "working")}]},
        {"method": "tasks/result", "steps": [{"sleep": 1200}, {"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ]}));
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake", "--detach"]).exits(0);
    let start = Instant::now();
    let watch = || program(&["watch", "t-loaf"]).env("MCP_TASK_STATE_DIR", bench.path("state")).spawn().unwrap();
    let (one, other) = (watch(), watch());
    for watcher in [one, other] {
        wait(watcher, start).exits(0).prints("a loaf\n");
    }
    assert_eq!((bench.of("initialize").len(), bench.of("DELETE").len()), (1, 0));
    let ids: std::collections::HashSet<String> =
        bench.of("tasks/result").iter().map(|seen| seen["message"]["id"].to_string()).collect();
    assert_eq!(ids.len(), 2, "no id is used by two");
}

#[test]
fn a_hundred_at_once_are_all_recorded() {
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"new_task": {}}]}]}));
    let server = bench.http();
    let children: Vec<_> = (0..100)
        .map(|_| {
            let mut command = program(&["-s", &server.url, "--progress", "none", "call", "bake", "--detach"]);
            command.env("MCP_TASK_STATE_DIR", bench.path("state")).spawn().unwrap()
        })
        .collect();
    let start = Instant::now();
    for child in children {
        let outcome = wait(child, start);
        assert!(!outcome.exits(0).stderr.contains("recorded"), "{outcome:?}");
    }
    let known = list(&bench);
    let ids: std::collections::HashSet<&str> =
        known.as_array().unwrap().iter().map(|known| known["taskId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 100);
}
