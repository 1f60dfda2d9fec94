//! Several tasks at once: `watch` and `cancel` of many, across servers.

use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Bench, Outcome, finish, program, signal, until, wait};

fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "ttl": 60_000, "pollInterval": 50})
}

/// A server that gives out these tasks one after the other. Each is done after so many milliseconds, with this step.
pub fn kitchen(tasks: &[(&str, u64, Value)]) -> Bench {
    let rules = tasks.iter().enumerate().flat_map(|(index, (id, after, step))| {
        [
            json!({"method": "tools/call", "nth": index + 1, "steps": [{"reply": {"task": task(id, "working")}}]}),
            json!({"method": "tasks/get", "task": id, "steps": [{"reply": task(id, "working")}]}),
            json!({"method": "tasks/result", "task": id, "steps": [{"sleep": after}, step]}),
        ]
    });
    Bench::new(&json!({"session": true, "rules": rules.collect::<Vec<_>>()}))
}

pub fn done(text: &str) -> Value {
    json!({"reply": {"content": [{"type": "text", "text": text}]}})
}

fn bad(text: &str) -> Value {
    json!({"reply": {"content": [{"type": "text", "text": text}], "isError": true}})
}

/// Runs with the bench's own state folder.
fn run(bench: &Bench, arguments: &[&str]) -> Outcome {
    let mut command = program(arguments);
    command.env("MCP_TASK_STATE_DIR", bench.path("state"));
    finish(command)
}

/// Starts all tasks of a bench.
pub fn start(bench: &Bench, url: &str, count: usize) {
    for _ in 0..count {
        run(bench, &["-s", url, "call", "bake", "--detach"]).exits(0);
    }
}

#[test]
fn all_that_have_not_ended_are_watched_and_shown_as_they_end() {
    let bench = kitchen(&[("t-loaf", 600, done("a loaf")), ("t-bun", 200, done("a bun")), ("t-rye", 900, bad("ash"))]);
    let server = bench.http();
    start(&bench, &server.url, 3);
    let watched = run(&bench, &["watch"]);
    watched.exits(6).prints("a bun\na loaf\n").says("bake t-bun: completed").says("bake t-rye: failed").says("ash");
    assert_eq!(bench.of("initialize").len(), 3, "one a detached call, and none to watch them all");
    let again = run(&bench, &["watch", "--json"]);
    assert_eq!(again.exits(0).says("no task is unfinished").json(), json!([]));
}

#[test]
fn one_document_tells_of_all_in_the_order_in_which_they_were_named() {
    let error = json!({"error": {"code": -32050, "message": "burnt", "data": 1.50}});
    let bench = kitchen(&[("t-loaf", 300, done("a loaf")), ("t-toast", 50, error)]);
    let server = bench.http();
    start(&bench, &server.url, 2);
    let watched = run(&bench, &["watch", "t-loaf", "t-none", "t-toast", "t-loaf", "--json"]);
    let rows = watched.exits(10).json();
    assert_eq!(rows.as_array().unwrap().len(), 3, "a task named twice is one: {rows}");
    assert_eq!(
        (&rows[0]["taskId"], &rows[0]["tool"], &rows[0]["server"]),
        (&json!("t-loaf"), &json!("bake"), &json!(server.url))
    );
    assert_eq!(
        (&rows[0]["status"], &rows[0]["exit"], &rows[0]["error"]),
        (&json!("completed"), &json!(0), &Value::Null)
    );
    assert_eq!(rows[0]["result"], json!({"content": [{"type": "text", "text": "a loaf"}]}));
    assert_eq!((&rows[1]["exit"], &rows[1]["error"]["kind"]), (&json!(10), &json!("task_unknown")));
    assert_eq!(
        (&rows[2]["status"], &rows[2]["exit"], &rows[2]["error"]["code"]),
        (&json!("failed"), &json!(5), &json!(-32050))
    );
    watched.says("bake t-toast: the task failed: burnt").says("begins with `t-none`");
}

#[test]
fn every_event_names_its_task() {
    let bench = kitchen(&[("t-loaf", 300, done("a loaf")), ("t-bun", 50, done("a bun"))]);
    let server = bench.http();
    start(&bench, &server.url, 2);
    let watched = run(&bench, &["watch", "-o", "jsonl"]);
    let events: Vec<Value> = watched.exits(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["taskId"].is_string()), "{events:?}");
    let results: Vec<&Value> =
        events.iter().filter(|event| event["event"] == "result").map(|event| &event["taskId"]).collect();
    assert_eq!(results, ["t-bun", "t-loaf"]);
}

#[test]
fn watching_ends_with_the_first_where_that_is_wanted() {
    let tasks = [("t-loaf", 600_000, done("a loaf")), ("t-bun", 300, bad("ash")), ("t-rye", 100, done("rye"))];
    let bench = kitchen(&tasks);
    let server = bench.http();
    start(&bench, &server.url, 3);
    run(&bench, &["watch", "--any"]).exits(0).prints("rye\n").says("2 tasks go on").says("hint: mcp-task watch");
    run(&bench, &["watch", "t-loaf", "t-bun", "t-rye", "--any"]).exits(0).prints("rye\n");
    run(&bench, &["watch", "--fail-fast"]).exits(6).prints("").says("ash").says("task t-loaf goes on");
    let waited = run(&bench, &["watch", "t-loaf", "t-bun", "--timeout", "300ms", "--json"]);
    let rows = waited.exits(6).json();
    assert_eq!((&rows[0]["exit"], &rows[0]["error"]["kind"]), (&json!(8), &json!("still_running")));
    run(&bench, &["watch", "--any", "--fail-fast"]).exits(2);
}

#[test]
fn a_server_out_of_reach_does_not_keep_others_from_being_watched() {
    let (bench, other) = (kitchen(&[("t-loaf", 100, done("a loaf"))]), kitchen(&[("t-bun", 300, done("a bun"))]));
    let (server, gone) = (other.http(), bench.http());
    start(&bench, &gone.url, 1);
    start(&bench, &server.url, 1);
    drop(gone);
    run(&bench, &["watch"]).exits(3).prints("a bun\n").says("task t-loaf: cannot connect to");
    run(&bench, &["-s", &server.url, "watch"]).exits(0).says("no task is unfinished");
    run(&bench, &["watch", "--any"]).exits(3);
}

#[test]
fn a_call_without_an_answer_is_not_forgotten() {
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"reset": {}}]}]}));
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake", "--task"]).exits(3).says("may have started");
    run(&bench, &["watch"]).exits(0).says("the answer of 1 call was never seen");
}

#[test]
fn many_are_cancelled_at_once_and_each_says_what_became_of_it() {
    let slow = |id: &str| {
        [
            json!({"method": "tasks/get", "task": id, "steps": [{"reply": task(id, "working")}]}),
            json!({"method": "tasks/cancel", "task": id, "steps": [{"reply": task(id, "working")}]}),
        ]
    };
    let of = |method: &str, id: &str, step: Value| json!({"method": method, "task": id, "steps": [step]});
    let mut rules = vec![
        of("tasks/cancel", "t-loaf", json!({"reply": task("t-loaf", "cancelled")})),
        of("tasks/get", "t-loaf", json!({"reply": task("t-loaf", "cancelled")})),
        of("tasks/cancel", "t-bun", json!({"error": {"code": -32602, "message": "it is done"}})),
        of("tasks/get", "t-bun", json!({"reply": task("t-bun", "completed")})),
        of("tasks/cancel", "t-ash", json!({"error": {"code": -32602, "message": "task not found"}})),
        of("tasks/get", "t-ash", json!({"error": {"code": -32602, "message": "task not found"}})),
    ];
    rules.extend([slow("t-rye"), slow("t-oat")].concat());
    let bench = Bench::new(&json!({"rules": rules}));
    let server = bench.http();
    let command = ["-s", &server.url, "cancel", "t-loaf", "t-rye", "t-bun", "t-oat", "t-ash"];
    let cancelled = run(&bench, &[&command[..], &["--json"]].concat());
    let rows = cancelled.exits(4).json();
    let told: Vec<_> = rows.as_array().unwrap().iter().map(|row| (&row["outcome"], &row["exit"])).collect();
    let told_as = |outcome: &str, exit: u8| (json!(outcome), json!(exit));
    let expected = [
        told_as("cancelled", 0),
        told_as("requested", 8),
        told_as("alreadyEnded", 4),
        told_as("requested", 8),
        told_as("failed", 10),
    ];
    assert_eq!(told, expected.iter().map(|(outcome, exit)| (outcome, exit)).collect::<Vec<_>>());
    assert_eq!(bench.of("initialize").len(), 1, "one connection for all");
    let cancels: Vec<u64> = bench.of("tasks/cancel").iter().map(|seen| seen["at"].as_u64().unwrap()).collect();
    let first_wait = bench.of("tasks/get").iter().map(|seen| seen["at"].as_u64().unwrap()).max().unwrap();
    assert!(cancels.iter().all(|at| *at < first_wait), "nobody waits for another's end to be asked: {cancels:?}");
    run(&bench, &["-s", &server.url, "cancel", "t-loaf", "t-bun"]).exits(4).prints("task t-loaf is cancelled\n");
}

#[test]
fn each_task_is_asked_about_at_its_own_pace() {
    let at_pace = |id: &str, status: &str, interval: u64| json!({"taskId": id, "status": status, "ttl": null, "pollInterval": interval});
    let created =
        |nth: u32, task: &Value| json!({"method": "tools/call", "nth": nth, "steps": [{"reply": {"task": task}}]});
    let (fast, slow) = (at_pace("t-fast", "working", 300), at_pace("t-slow", "working", 60_000));
    let bench = Bench::new(&json!({"session": true, "rules": [
        created(1, &fast), created(2, &slow),
        {"method": "tasks/get", "task": "t-fast", "steps": [{"reply": fast}]},
        {"method": "tasks/get", "task": "t-slow", "steps": [{"reply": slow}]},
        {"method": "tasks/result", "task": "t-fast", "steps": [{"sleep": 1_600}, done("fast")]},
        {"method": "tasks/result", "steps": [{"sleep": 600_000}]},
    ]}));
    let server = bench.http();
    start(&bench, &server.url, 2);
    run(&bench, &["watch", "--any"]).exits(0).prints("fast\n");
    let asked = |id: &str| -> Vec<u64> {
        let looks = bench.of("tasks/get");
        looks
            .iter()
            .filter(|seen| seen["message"]["params"]["taskId"] == id)
            .map(|seen| seen["at"].as_u64().unwrap())
            .collect()
    };
    let looks = asked("t-fast");
    assert!(looks.len() >= 3 && looks.windows(2).all(|pair| pair[1] - pair[0] >= 295), "{looks:?}");
    assert_eq!(asked("t-slow").len(), 1, "the first look");
}

#[test]
fn a_task_that_ends_with_its_command_is_left_to_that() {
    let bench = kitchen(&[("t-loaf", 600_000, done("a loaf"))]);
    let mut command = program(&["-s", &bench.stdio(), "call", "bake"]);
    let child = command.env("MCP_TASK_STATE_DIR", bench.path("state")).spawn().unwrap();
    until("the question for the result", || !bench.of("tasks/result").is_empty());
    run(&bench, &["watch"]).exits(0).says("1 task cannot be watched from here");
    let rows = run(&bench, &["list", "--json"]).exits(0).json();
    assert_eq!((&rows[0]["status"], &rows[0]["lost"]), (&json!("working"), &json!(false)));
    signal(&child, Signal::SIGTERM);
    wait(child, Instant::now()).exits(7);
}
