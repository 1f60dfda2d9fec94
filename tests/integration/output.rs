//! What goes to stdout and what to stderr, whatever the server writes and whoever reads.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Bench, finish, program, run, signal, until, wait};
use nix::sys::signal::Signal;

fn answering(result: Value) -> Bench {
    Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"reply": result}]}]}))
}

#[test]
fn odd_blocks_are_kept_and_named() {
    let result = json!({"content": [
        {"type": "text", "text": "dough", "annotations": {"x": 1}},
        {"type": "resource_link", "uri": "file:///recipe"},
        {"type": "hologram", "layers": [{"z": 1.0}]},
    ], "_meta": {"y": 2}});
    let bench = answering(result.clone());
    run(&["-s", &bench.stdio(), "call", "plain"])
        .exits(0)
        .prints("dough\n[resource link file:///recipe]\n[hologram]\n");
    let outcome = run(&["-s", &bench.stdio(), "call", "plain", "--json"]);
    assert_eq!(outcome.exits(0).json(), result);
}

#[test]
fn json_is_the_servers_own_to_the_digit() {
    let own = r#"{"z":1.0,"content":[],"structuredContent":{"n":12345678901234567890123,"e":1e400,"a":0.10}}"#;
    let raw = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{own}}}\n");
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"raw": raw}]}]}));
    run(&["-s", &bench.stdio(), "call", "plain", "--json"]).exits(0).prints(&format!("{own}\n"));
    let text = run(&["-s", &bench.stdio(), "call", "plain"]);
    assert!(text.exits(0).stdout.contains("12345678901234567890123") && text.stdout.contains("0.10"), "{text:?}");
}

#[test]
fn files_are_saved_where_asked() {
    let bench = answering(json!({"content": [{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]}));
    let folder = bench.path("out");
    let name = folder.display().to_string();
    run(&["-s", &bench.stdio(), "call", "plain", "--save", &name])
        .exits(0)
        .prints(&format!("[image, image/png, 5 bytes] saved as {name}/image-1.png\n"));
    assert_eq!(std::fs::read(folder.join("image-1.png")).unwrap(), b"hello");
}

#[test]
fn a_file_that_cannot_be_written_does_not_cost_the_result() {
    let bench = answering(
        json!({"content": [{"type": "text", "text": "dough"}, {"type": "image", "data": "%%", "mimeType": "image/png"}]}),
    );
    let folder = bench.path("out").display().to_string();
    run(&["-s", &bench.stdio(), "call", "plain", "--save", &folder])
        .exits(1)
        .prints("dough\n[image, image/png, 1 byte]\n")
        .says("not Base64");
}

#[test]
fn a_full_disk_is_no_reader_that_left() {
    let bench = answering(json!({"content": [{"type": "text", "text": "dough"}]}));
    let mut command = program(&["-s", &bench.stdio(), "call", "plain"]);
    command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
    finish(command).exits(1).says("cannot write to stdout");
}

#[test]
fn nothing_that_a_server_writes_moves_the_cursor() {
    let evil = "no yeast\u{1b}[1A\u{1b}[2K\u{1b}]52;c;aGk=\u{7}\u{9b}31m\u{202e}";
    let task = json!({"taskId": format!("t{evil}"), "status": "working", "statusMessage": evil, "pollInterval": 100});
    let bench = Bench::new(&json!({
        "tools": [{"name": "bake", "title": evil, "description": evil, "execution": {"taskSupport": "optional"},
                   "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "description": evil}, "e": {"type": evil}}}}],
        "rules": [
            {"method": "initialize", "steps": [{"stderr": evil}, {"reply": {"protocolVersion": "2025-11-25", "serverInfo": {"name": evil, "version": evil},
                "capabilities": {"tools": {}, "tasks": {"list": {}, "requests": {"tools": {"call": {}}}}}}}]},
            {"method": "tools/call", "steps": [{"raw": format!("{evil}\n")}, {"reply": {"task": task}}]},
            {"method": "tasks/get", "steps": [
                {"send": {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "x", "progress": 1, "message": evil}}},
                {"reply": task}]},
            {"method": "tasks/list", "steps": [{"reply": {"tasks": [task]}}]},
            {"method": "tasks/result", "steps": [{"sleep": 400}, {"error": {"code": -32000, "message": evil, "data": evil}}]},
        ],
    }));
    let server = bench.stdio();
    for arguments in [
        &["-v", "call", "bake"][..],
        &["call", "bake", "--json"],
        &["tools"],
        &["tools", "bake"],
        &["get", "x"],
        &["list"],
        &["call", "bake", "b=1"],
        &["call", "bake", "e=1"],
    ] {
        let outcome = run(&[&["-s", &server], arguments].concat());
        let text = format!("{}{}", outcome.stdout, outcome.stderr);
        // A program that reads JSON gets the text to the letter; JSON itself escapes C0.
        let exact = arguments.contains(&"--json");
        let bad = text
            .chars()
            .find(|c| if exact { c.is_ascii_control() } else { c.is_control() || *c == '\u{202e}' } && *c != '\n');
        assert_eq!(bad, None, "{arguments:?}: {text:?}");
    }
}

#[test]
fn progress_never_reaches_stdout_and_carries_no_colour_off_a_terminal() {
    let bench = Bench::new(
        &json!({"rules": [{"method": "tools/call", "steps": [{"progress": [20, 4]}, {"reply": {"content": [], "structuredContent": {"n": 1}}}]}]}),
    );
    let outcome = run(&["-s", &bench.stdio(), "call", "plain", "--json"]);
    assert_eq!(outcome.exits(0).json()["structuredContent"]["n"], 1);
    assert!(!outcome.stderr.contains('\u{1b}'));
    outcome.says("progress 0: mmmm");
    let quiet = run(&["-s", &bench.stdio(), "-q", "call", "plain"]);
    assert_eq!(quiet.exits(0).stderr, "");
    let none = run(&["-s", &bench.stdio(), "--progress", "none", "call", "plain"]);
    assert_eq!(none.exits(0).stderr, "");
}

#[test]
fn any_progress_is_taken_and_none_of_it_holds_the_answer_up() {
    let notice =
        |params: Value| json!({"send": {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}});
    let of = |progress: Value, total: Value| {
        notice(json!({"progressToken": "$TOKEN", "progress": progress, "total": total}))
    };
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [
        of(json!(1), json!(0)), of(json!(1), json!(null)), of(json!(-3), json!(5)), of(json!(7), json!(5)), of(json!(2), json!(5)),
        of(json!(1e308), json!(1e308)), of(json!("7"), json!("8")), notice(json!({"progressToken": "foreign", "progress": 1})), notice(json!({})),
        {"progress": [20_000, 4096]},
        {"reply": {"content": [{"type": "text", "text": "done"}]}},
        of(json!(9), json!(9)),
    ]}]}));
    for how in ["lines", "bar"] {
        let outcome = run(&["-s", &bench.stdio(), "--progress", how, "call", "plain"]);
        outcome.exits(0).prints("done\n");
        assert!(!outcome.stderr.contains("NaN") && outcome.stderr.lines().count() < 60, "{outcome:?}");
    }
}

#[test]
fn events_are_lines_of_json() {
    let task = |status: &str| json!({"taskId": "t", "status": status, "pollInterval": 100});
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("working")}}, {"progress": [2, 1]}]},
        {"method": "tasks/get", "steps": [{"reply": task("completed")}]},
        {"method": "tasks/result", "steps": [{"sleep": 500}, {"reply": {"content": [], "structuredContent": {"n": 1.0}}}]},
    ]}));
    let outcome = run(&["-s", &bench.stdio(), "-o", "jsonl", "call", "bake"]);
    let events: Vec<Value> = outcome.exits(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["called", "created", "progress", "progress", "status", "result"]);
    assert!(outcome.stdout.contains(r#""structuredContent":{"n":1.0}"#));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let tools: Vec<Value> =
        (0..5_000).map(|n| json!({"name": format!("tool-{n}"), "description": "d".repeat(100)})).collect();
    let bench = Bench::new(&json!({"tools": tools}));
    let mut command = program(&["-s", &bench.stdio(), "tools", "--json"]);
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let outcome = wait(child, start);
    assert_eq!(outcome.exits(0).stderr, "");
    bench.assert_nothing_lives();
    let mut command = program(&["-s", &bench.stdio(), "tools", "no-such-tool"]);
    let mut child = command.spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    wait(child, start).exits(2);
}

#[test]
fn a_stderr_that_nobody_reads_does_not_stall_the_protocol() {
    // 64 KiB fill a pipe; the server logs far more than that, and all of it is asked for, the task's changes too.
    let sights: Vec<Value> = (0..40)
        .map(|n| {
            let sight = json!({"taskId": "t-oven", "status": "working", "statusMessage": format!("{n} {}", "crust".repeat(900))});
            json!({"send": {"method": "notifications/tasks/status", "params": sight}})
        })
        .collect();
    let call = [
        vec![json!({"stderr_flood": 10}), json!({"raw": "noise\n".repeat(40_000)})],
        vec![json!({"reply": {"task": {"taskId": "t-oven", "status": "working", "pollInterval": 200}}})],
        sights,
    ];
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": call.concat()},
        {"method": "tasks/get", "steps": [{"reply": {"taskId": "t-oven", "status": "working", "pollInterval": 200}}]},
        {"method": "tasks/result", "steps": [{"sleep": 1500}, {"reply": {"content": [{"type": "text", "text": "done"}]}}]},
    ]}));
    for progress in ["none", "lines"] {
        let mut command = program(&["-s", &bench.stdio(), "-v", "--progress", progress, "call", "bake"]);
        let (reader, writer) = std::io::pipe().unwrap();
        command.stderr(Stdio::from(writer));
        let outcome = finish(command);
        assert!(outcome.exits(0).took < Duration::from_secs(20), "{outcome:?}");
        outcome.prints("done\n");
        drop(reader);
    }
    assert!(bench.of("tasks/get").len() >= 10, "polling went on");
}

/// A task that tells progress without end, each time with some KiB.
fn talkative() -> Bench {
    Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"sse": {}}, {"reply": {"task": {"taskId": "t-oven", "status": "working", "pollInterval": 200}}}]},
        {"method": "GET", "steps": [{"sse": {}}, {"hold": {}}]},
        {"method": "tasks/get", "steps": [{"sse": {}},
            {"raw": format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": "?", "progress": 1, "message": "x".repeat(4_000),
                "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-oven"}},
            }})).repeat(60)},
            {"reply": {"taskId": "t-oven", "status": "working", "pollInterval": 200}}]},
        {"method": "tasks/result", "steps": [{"hold": {}}]},
    ]}))
}

#[test]
fn a_stdout_that_nobody_reads_stalls_neither_polling_nor_an_interrupt() {
    let bench = talkative();
    let server = bench.http();
    let start = Instant::now();
    let child = program(&["-s", &server.url, "-o", "jsonl", "call", "bake"]).spawn().unwrap();
    // By then a pipe of 64 KiB was full three times over, and nobody has read any of it.
    until("polls", || bench.of("tasks/get").len() >= 5);
    signal(&child, Signal::SIGINT);
    let waiting = Instant::now();
    let mut child = child;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(waiting.elapsed() < Duration::from_secs(5), "the interrupt is not heard");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(8));
    let outcome = wait(child, start);
    assert!(outcome.says("watch t-oven").stdout.len() > 60_000, "the pipe was full");
}

#[test]
fn a_reader_of_events_that_leaves_ends_the_watching() {
    let bench = talkative();
    let server = bench.http();
    let start = Instant::now();
    let mut child = program(&["-s", &server.url, "-o", "jsonl", "call", "bake"]).spawn().unwrap();
    until("a poll", || !bench.of("tasks/get").is_empty());
    drop(child.stdout.take());
    assert_eq!(wait(child, start).exits(0).stdout, "");
    assert!(bench.of("tasks/cancel").is_empty() && bench.of("DELETE").is_empty(), "the task goes on");
}
