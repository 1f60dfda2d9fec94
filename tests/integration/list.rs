//! `list`: the record merged with what the servers say now, filters, and what is found again after a crash.

use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Bench, Outcome, finish, program, signal, until, wait};

fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "createdAt": "2026-01-01T00:00:00Z", "ttl": 60_000, "pollInterval": 50})
}

/// Runs with the bench's own state folder.
fn run(bench: &Bench, arguments: &[&str]) -> Outcome {
    let mut command = program(arguments);
    command.env("MCP_TASK_STATE_DIR", bench.path("state"));
    finish(command)
}

fn list(bench: &Bench, arguments: &[&str]) -> Value {
    run(bench, &[&["list", "--json"], arguments].concat()).exits(0).json()
}

fn column(rows: &Value, key: &str) -> Vec<String> {
    rows.as_array().unwrap().iter().map(|row| row[key].as_str().unwrap_or("-").to_owned()).collect()
}

/// A server with sessions that gives out three tasks. Of these it lists two, on two pages and round in a circle, beside one
/// that somebody else started. Whichever session asks first gets the pages, so that they say what a look at each task says.
fn kitchen() -> Bench {
    let created = |nth: u32, id: &str| json!({"method": "tools/call", "nth": nth, "steps": [{"reply": {"task": task(id, "working")}}]});
    let page = |nth: u32, id: &str, status: &str, cursor: &str| json!({"method": "tasks/list", "nth": nth, "steps": [{"reply": {"tasks": [task(id, status)], "nextCursor": cursor}}]});
    Bench::new(&json!({"session": true, "rules": [
        created(1, "t-loaf"), created(2, "t-bun"), created(3, "t-rye"),
        page(1, "t-loaf", "completed", "a"), page(2, "t-foreign", "working", "b"), page(3, "t-bun", "input_required", "a"),
        {"method": "tasks/list", "steps": [{"reply": {"tasks": []}}]},
        {"method": "tasks/get", "task": "t-loaf", "steps": [{"reply": task("t-loaf", "completed")}]},
        {"method": "tasks/get", "task": "t-bun", "steps": [{"reply": task("t-bun", "input_required")}]},
        {"method": "tasks/get", "steps": [{"error": {"code": -32602, "message": "no such task"}}]},
    ]}))
}

fn start(bench: &Bench, url: &str) {
    for _ in 0..3 {
        run(bench, &["-s", url, "call", "bake", "--detach"]).exits(0);
    }
}

#[test]
fn tasks_are_listed_as_their_servers_see_them_now() {
    let bench = kitchen();
    let server = bench.http();
    start(&bench, &server.url);
    let offline = list(&bench, &["--offline"]);
    assert_eq!(column(&offline, "status"), ["working"; 3], "nobody was asked");
    assert!(bench.of("tasks/list").is_empty() && bench.of("tasks/get").is_empty());
    let rows = list(&bench, &[]);
    assert_eq!(column(&rows, "taskId"), ["t-rye", "t-bun", "t-loaf"], "others' tasks are not ours to list");
    assert_eq!((&rows[0]["lost"], &rows[2]["status"]), (&json!(true), &json!("completed")));
    assert_eq!(bench.of("initialize").len(), 3, "each in the session of its call");
    run(&bench, &["watch", "--timeout", "100ms"]).exits(8).says("1 task ended whose results were not fetched");
    // What has ended or is lost is not asked for again.
    let asked = bench.of("tasks/get").len();
    let rows = list(&bench, &[]);
    assert_eq!(column(&rows, "status"), ["working", "input_required", "completed"]);
    assert_eq!(bench.of("tasks/get").len(), asked + 1);
}

#[test]
fn a_named_server_shows_what_it_has_besides() {
    let bench = kitchen();
    let server = bench.http();
    let rows = run(&bench, &["-s", &server.url, "list", "--json"]).exits(0).json();
    assert_eq!(column(&rows, "taskId").len(), 3, "{rows}");
    assert_eq!(bench.of("tasks/list").len(), 3, "the circle of cursors was left");
    assert_eq!(rows[0]["tool"], Value::Null);
    assert_eq!(bench.of("DELETE").len(), 0, "a task runs there");
}

#[test]
fn the_list_can_be_narrowed() {
    let bench = kitchen();
    let server = bench.http();
    start(&bench, &server.url);
    list(&bench, &[]);
    let ids = |arguments: &[&str]| column(&list(&bench, &[&["--offline"], arguments].concat()), "taskId");
    assert_eq!(ids(&["--live"]), ["t-bun"]);
    assert_eq!(ids(&["--status", "lost,completed"]), ["t-rye", "t-loaf"]);
    assert_eq!(ids(&["--status", "lost", "--status", "input_required"]), ["t-rye", "t-bun"]);
    assert_eq!(ids(&["--tool", "bake", "--limit", "2"]), ["t-rye", "t-bun"]);
    assert_eq!(ids(&["--tool", "fry"]), Vec::<String>::new());
    run(&bench, &["list", "--status", "burnt"]).exits(2).says("input_required");
}

#[test]
fn a_server_that_does_not_answer_holds_nobody_up_for_long() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tasks/list", "steps": [{"sleep": 600_000}]},
        {"method": "tasks/get", "steps": [{"sleep": 600_000}]},
    ]}));
    let (server, gone) = (bench.http(), bench.http());
    run(&bench, &["-s", &server.url, "call", "bake", "--detach"]).exits(0);
    run(&bench, &["-s", &gone.url, "call", "bake", "--detach"]).exits(0);
    drop(gone);
    let listed = run(&bench, &["list"]);
    listed.exits(0).says("did not answer within 3").says("Connection refused").says("shown as last seen");
    assert_eq!(listed.stdout.matches("t-loaf").count(), 2, "{listed:?}");
}

#[test]
fn a_task_that_a_killed_call_started_is_found_again() {
    let bench = Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "nth": 1, "steps": [{"reply": {"task": task("t-known", "working")}}]},
        {"method": "tools/call", "steps": [{"sleep": 600_000}]},
        {"method": "tasks/list", "steps": [{"reply": {"tasks": [
            task("t-known", "working"), task("t-old", "completed"), task("t-found", "working"),
        ]}}]},
        {"method": "tasks/get", "task": "t-found", "steps": [{"reply": task("t-found", "completed")}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-known", "working")}]},
        {"method": "tasks/result", "steps": [{"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ]}));
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake", "--detach"]).exits(0);
    let mut command = program(&["-s", &server.url, "call", "bake"]);
    let child = command.env("MCP_TASK_STATE_DIR", bench.path("state")).spawn().unwrap();
    until("the call", || bench.of("tools/call").len() == 2);
    signal(&child, Signal::SIGKILL);
    wait(child, Instant::now());
    run(&bench, &["watch", "t-found"]).exits(10);
    let listed = run(&bench, &["list"]);
    listed.exits(0).says("may have started t-found (working), t-old (completed)").says("hint: mcp-task watch t-found");
    let candidates = &list(&bench, &["--status", "unanswered"])[0]["candidates"];
    assert_eq!(column(candidates, "taskId"), ["t-found", "t-old"]);
    // A look decides nothing; following it does.
    run(&bench, &["get", "t-f"]).exits(10);
    assert!(run(&bench, &["get", "t-found"]).exits(0).stdout.contains("completed"));
    assert_eq!(column(&list(&bench, &["--offline"]), "taskId"), ["-", "t-known"]);
    run(&bench, &["watch", "t-found"]).exits(0).prints("a loaf\n");
    let session = |at: usize| bench.of("tasks/result")[at]["headers"]["mcp-session-id"].clone();
    assert_eq!(session(0), "s2", "in the session of the call");
    let rows = list(&bench, &["--offline"]);
    assert_eq!(
        (&rows[0]["taskId"], &rows[0]["tool"], &rows[0]["hasResult"]),
        (&json!("t-found"), &json!("bake"), &json!(true))
    );
    run(&bench, &["result", "--last"]).exits(0).prints("a loaf\n");
    assert_eq!(bench.of("tools/call").len(), 2);
}

#[test]
fn the_task_of_a_lost_answer_is_found_by_the_id_that_was_offered() {
    let bench = Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"reset": {}}]},
        {"method": "tasks/list", "steps": [{"reply": {"tasks": [task("t-loaf", "working")]}}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "completed")}]},
        {"method": "tasks/result", "steps": [{"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ]}));
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake"]).exits(3).says("`mcp-task watch t-loaf` follows");
    run(&bench, &["watch", "t-loaf"]).exits(0).prints("a loaf\n");
    run(&bench, &["watch"]).exits(0).says("no task is unfinished");
}

/// A server on which calls get lost and whose tasks are listed beside.
fn lossy(ids: &[&str]) -> Bench {
    let listed: Vec<Value> = ids.iter().map(|id| task(id, "working")).collect();
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let of_each = ids.iter().flat_map(|id| {
        [
            json!({"method": "tasks/get", "task": id, "steps": [{"reply": task(id, "completed")}]}),
            json!({"method": "tasks/result", "task": id, "steps": [{"reply": text(id)}]}),
        ]
    });
    let mut rules: Vec<Value> = of_each.collect();
    rules.push(json!({"method": "tools/call", "steps": [{"reset": {}}]}));
    rules.push(json!({"method": "tasks/list", "steps": [{"reply": {"tasks": listed}}]}));
    Bench::new(&json!({"session": true, "rules": rules}))
}

#[test]
fn a_lost_call_has_one_task_whoever_else_is_watched() {
    let bench = lossy(&["t-loaf", "t-bun", "t-rye"]);
    let server = bench.http();
    let lose = || run(&bench, &["-s", &server.url, "call", "bake", "--task"]).exits(3).says("may have started").code;
    lose();
    let watched = run(&bench, &["watch", "t-loaf", "t-bun", "--json"]).exits(0).json();
    assert_eq!(column(&watched, "taskId"), ["t-loaf", "t-bun"]);
    let rows = list(&bench, &["--offline"]);
    let taken = column(&rows, "taskId");
    assert_eq!(taken.len(), 1, "the call started one of them at most: {rows}");
    run(&bench, &["result", "--last"]).exits(0).prints(&format!("{}\n", taken[0]));
    // Two lost calls have room for two tasks.
    lose();
    lose();
    let rest: Vec<&str> = ["t-loaf", "t-bun", "t-rye"].into_iter().filter(|id| *id != taken[0]).collect();
    run(&bench, &["watch", rest[0], rest[1]]).exits(0);
    let mut taken = column(&list(&bench, &["--offline"]), "taskId");
    taken.sort();
    assert_eq!(taken, ["t-bun", "t-loaf", "t-rye"]);
    for id in taken {
        run(&bench, &["result", &id]).exits(0).prints(&format!("{id}\n"));
    }
}

#[test]
fn a_whole_id_goes_before_the_beginning_of_another() {
    let bench = lossy(&["t-loaf-10", "t-loaf-1"]);
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake", "--task"]).exits(3);
    run(&bench, &["watch", "t-loaf-10"]).exits(0).prints("t-loaf-10\n");
    run(&bench, &["-s", &server.url, "call", "bake", "--task"]).exits(3);
    let about_prefix = run(&bench, &["get", "t-loa"]);
    about_prefix.exits(2).says("is the beginning of 2 tasks").says("t-loaf-10  bake").says("t-loaf-1  bake");
    run(&bench, &["watch", "t-loaf-1"]).exits(0).prints("t-loaf-1\n");
}

#[test]
fn a_call_whose_row_was_taken_for_another_task_gets_its_own() {
    let bench = Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"sleep": 4_000}, {"reply": {"task": task("t-late", "working")}}]},
        {"method": "tasks/list", "steps": [{"reply": {"tasks": [task("t-early", "working")]}}]},
        {"method": "tasks/get", "task": "t-early", "steps": [{"reply": task("t-early", "completed")}]},
        {"method": "tasks/get", "task": "t-late", "steps": [{"reply": task("t-late", "completed")}]},
        {"method": "tasks/result", "task": "t-early", "steps": [{"reply": {"content": [{"type": "text", "text": "early"}]}}]},
        {"method": "tasks/result", "task": "t-late", "steps": [{"reply": {"content": [{"type": "text", "text": "late"}]}}]},
    ]}));
    let server = bench.http();
    let mut command = program(&["-s", &server.url, "call", "bake", "--task"]);
    let child = command.env("MCP_TASK_STATE_DIR", bench.path("state")).spawn().unwrap();
    until("the call", || bench.of("tools/call").len() == 1);
    list(&bench, &[]);
    run(&bench, &["watch", "t-early"]).exits(0).prints("early\n");
    wait(child, Instant::now()).exits(0).prints("late\n");
    assert_eq!(column(&list(&bench, &["--offline"]), "taskId"), ["t-late", "t-early"]);
    run(&bench, &["result", "t-early"]).exits(0).prints("early\n");
    run(&bench, &["result", "t-late"]).exits(0).prints("late\n");
}

#[test]
fn a_list_that_fails_keeps_no_task_from_being_asked_about() {
    for step in [json!({"error": {"code": -32603, "message": "no list today"}}), json!({"sleep": 600_000})] {
        let bench = Bench::new(&json!({"rules": [
            {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
            {"method": "tasks/list", "steps": [step]},
            {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "completed")}]},
        ]}));
        let server = bench.http();
        run(&bench, &["-s", &server.url, "call", "bake", "--detach"]).exits(0);
        assert_eq!(column(&list(&bench, &[]), "status"), ["completed"]);
    }
}

#[test]
fn the_newest_come_first_whoever_started_them() {
    for (created, newest) in [("2001-01-01T00:00:00Z", "t-loaf"), ("2999-01-01T00:00:00.123456789+00:00", "t-foreign")]
    {
        let mut foreign = task("t-foreign", "working");
        foreign["createdAt"] = json!(created);
        let bench = Bench::new(&json!({"rules": [
            {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
            {"method": "tasks/list", "steps": [{"reply": {"tasks": [foreign, task("t-loaf", "working")]}}]},
        ]}));
        let server = bench.http();
        run(&bench, &["-s", &server.url, "call", "bake", "--detach"]).exits(0);
        let rows = run(&bench, &["-s", &server.url, "list", "--limit", "1", "--json"]).exits(0).json();
        assert_eq!(column(&rows, "taskId"), [newest]);
    }
}

#[test]
fn a_token_goes_to_no_other_server_than_it_was_given_for() {
    let rules = json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "working")}]},
    ]});
    let (bench, other) = (Bench::new(&rules), Bench::new(&rules));
    let (mine, theirs) = (bench.http(), other.http());
    for url in [&mine.url, &theirs.url] {
        run(&bench, &["-s", url, "call", "bake", "--detach"]).exits(0);
    }
    let had = |bench: &Bench| bench.received().iter().any(|seen| seen["headers"]["authorization"] != Value::Null);
    let secret = |arguments: &[&str], server: Option<&str>| {
        let mut command = program(arguments);
        command.env("MCP_TASK_STATE_DIR", bench.path("state")).env("MCP_TASK_BEARER", "hush-hush");
        server.map(|server| command.env("MCP_TASK_SERVER", server));
        finish(command)
    };
    // Nobody can tell whose it is.
    secret(&["list"], None).exits(0).says("is sent to none of 2 servers");
    secret(&["watch", "--timeout", "200ms"], None).exits(8).says("is sent to none of 2 servers");
    assert!(!had(&bench) && !had(&other));
    secret(&["list"], Some(&mine.url)).exits(0);
    secret(&["watch", "--timeout", "200ms"], Some(&mine.url)).exits(8);
    assert!(had(&bench) && !had(&other));
    // A task that is named means its server.
    secret(&["-s", &theirs.url, "get", "t-loaf"], Some(&mine.url)).exits(0);
    assert!(had(&other));
}
