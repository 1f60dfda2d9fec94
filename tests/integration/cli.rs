//! The command line itself, and the demo server.

use serde_json::json;

use crate::support::{Bench, finish, program, run, run_with_input};

#[test]
fn mistakes_on_the_command_line_are_usage() {
    for arguments in [
        &["call"][..],
        &["call", "x", "--ttl", "soon", "-s", "demo"],
        &["call", "x", "--task", "--no-task", "-s", "demo"],
        &["frobnicate"],
        &["tools", "-s", "'unclosed"],
        &["tools", "-s", "http://"],
        &["tools", "-s", ""],
    ] {
        let outcome = run(arguments);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{arguments:?}: {outcome:?}");
        assert!(!outcome.stderr.is_empty());
    }
    // A bare number is a task's ttl in milliseconds, as on the wire, and nothing else.
    run(&["-s", "demo", "call", "count-words", "text=a", "--timeout", "30"]).exits(2).says("is not a duration");
    run(&["-s", "demo", "call", "count-words", "text=a", "--timeout", "0", "--ttl", "30000"]).exits(0);
    run(&["-s", "demo", "call", "count-words", "--text", "a"]).exits(2).says("written `text=…`");
    run(&["-s", "demo", "call", "count-words", "--input", "Cargo.toml"]).exits(2).says("--input @Cargo.toml");
    run(&["-s", "localhost:9/mcp", "tools"]).exits(3).says("did you mean -s http://localhost:9/mcp?");
    run(&["-s", "demo", "tools", "--trace", "-"]).exits(2).says("--trace writes to a file");
    run(&["-s", "demo", "tools", "--trace", "/no/such/folder/t"]).exits(2).says("cannot write the trace");
    run(&["-s", "demo", "call", "count-words", "text=@/dev/zero"]).exits(2).says("more than 256 MiB");
    run(&["tools"]).exits(2).says("no server is named").says("hint: name one with -s");
    run(&["--help"]).exits(0);
    run(&["--version"]).exits(0);
}

#[test]
fn the_demo_hashes_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "abc").unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/b"), "").unwrap();
    let path = format!("path={}", folder.path().display());
    let outcome = run(&["call", "-s", "demo", "hash-files", &path, "list=true", "--json"]);
    outcome.exits(0).says("task demo-").says("(kept for 10m 00s)");
    let result = outcome.json();
    assert_eq!((&result["structuredContent"]["files"], &result["structuredContent"]["bytes"]), (&json!(2), &json!(3)));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"), "{text}");
    assert!(text.contains("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  sub/b\n"), "{text}");
}

#[test]
fn each_way_of_ending_has_its_number() {
    run(&["-s", "demo", "call", "count-words", "text=a b c"]).exits(0).prints("3 words\n");
    run(&["-s", "demo", "call", "burn-toast"])
        .exits(5)
        .says("error: the task failed: The toast is burnt (-32050)")
        .prints("");
    run(&["-s", "demo", "call", "burn-toast"]).says("data: {\"colour\":\"black\",\"edible\":false}");
    run(&["-s", "demo", "call", "check-json", "text={"]).exits(6).says("This is not JSON").prints("");
    run(&["-s", "demo", "get", "nope"]).exits(10).says("nope");
    run(&["-s", "demo", "call", "hunt-primes", "seconds=60", "--timeout", "300ms"])
        .exits(7)
        .says("the time to wait is over");
    run(&["-s", "http://127.0.0.1:1/mcp", "tools"]).exits(3).says("Connection refused");
    run(&["-s", "demo", "call", "count-words", "txt=a"]).exits(2).says("is `txt` meant for it?");
    run(&["-s", "demo", "call", "count-wrods"]).exits(2).says("did you mean `count-words`?");
    run(&["-s", "demo", "call", "count-words", "text=a", "--task"]).exits(2).says("cannot be called as a task");
    run(&["-s", "demo", "call", "burn-toast", "--no-task"]).exits(2).says("can only be called as a task");
    run(&["-s", "demo", "call", "hunt-primes", "--detach"]).exits(2).says("ends with this command");
}

#[test]
fn errors_are_json_where_json_is_asked_for() {
    let outcome = run(&["-s", "demo", "call", "burn-toast", "--json"]);
    let error = &outcome.exits(5).json()["error"];
    assert_eq!(error["kind"], "task_failed");
    assert_eq!((&error["code"], &error["data"]["colour"]), (&json!(-32050), &json!("black")));
    assert!(error["taskId"].as_str().unwrap().starts_with("demo-"));
    for arguments in [
        &["-s", "demo", "get", "nope", "--json"][..],
        &["-s", "http://127.0.0.1:1/", "tools", "--json"],
        &["-s", "demo", "call", "no-such-tool", "--json"],
        &["tools", "--json"],
    ] {
        let outcome = run(arguments);
        let error = &outcome.json()["error"];
        let keys: Vec<&String> = error.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["kind", "code", "message", "data", "taskId", "hint"], "{arguments:?}");
    }
}

#[test]
fn arguments_reach_the_server_to_the_digit() {
    let schema = json!({"type": "object", "properties": {
        "lot": {"type": "string"}, "ts": {"type": "string"}, "n": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}}, "cells": {"type": "array", "items": {"type": "object"}},
    }});
    let bench = Bench::new(&json!({
        "tools": [{"name": "t", "inputSchema": schema}],
        "rules": [{"method": "tools/call", "steps": [{"reply": {"content": [], "structuredContent": {"n": 1}}}]}],
    }));
    let server = bench.stdio();
    run(&["-s", &server, "call", "t", "lot=000123", "ts=17.50", "n=5", r#"tags=["a,b"]"#, r#"cells=[{"x":1,"y":2}]"#])
        .exits(0);
    let sent = bench.of("tools/call")[0]["message"]["params"]["arguments"].to_string();
    assert_eq!(sent, r#"{"lot":"000123","ts":"17.50","n":5,"tags":["a,b"],"cells":[{"x":1,"y":2}]}"#);

    run_with_input(
        &["-s", &server, "call", "t", "--input", "-", "n=7"],
        r#"{"x":1.0,"n":2,"big":12345678901234567890}"#,
    )
    .exits(0);
    let sent = bench.of("tools/call")[1]["message"]["params"]["arguments"].to_string();
    assert_eq!(sent, r#"{"x":1.0,"n":7,"big":12345678901234567890}"#);

    let file = bench.path("input.json");
    std::fs::write(&file, r#"{"lot":"a"}"#).unwrap();
    run(&["-s", &server, "call", "t", "--input", &format!("@{}", file.display())]).exits(0);
    run(&["-s", &server, "call", "t", "--input", r#"{"n":"x"}"#]).exits(2).says("`n` should be integer, not \"x\"");
    run(&["-s", &server, "call", "t", "--input", r#"{"n":"x"}"#, "--no-validate"]).exits(0);
    assert_eq!(bench.of("tools/call").len(), 4);
}

#[test]
fn a_flag_goes_before_the_environment() {
    let mut command = program(&["-s", "demo", "call", "count-words", "text=a", "--json"]);
    command.env("MCP_TASK_OUTPUT", "jsonl");
    assert_eq!(finish(command).exits(0).json()["structuredContent"]["words"], 1);
    // One that is set to nothing is not set.
    let mut command = program(&["-s", "demo", "call", "count-words", "text=a"]);
    command.env("MCP_TASK_OUTPUT", "").env("MCP_TASK_TTL", "").env("MCP_TASK_SERVER", "");
    finish(command).exits(0).prints("1 word\n");
}

#[test]
fn a_negotiation_that_cannot_work_is_not_tried() {
    let tools = |name: &str| json!({"name": name, "inputSchema": {}, "execution": {"taskSupport": name}});
    let rules = json!([
        {"method": "tools/list", "nth": 1, "steps": [{"reply": {"tools": [{"name": "sync", "inputSchema": {}}], "nextCursor": "2"}}]},
        {"method": "tools/list", "nth": 2, "steps": [{"reply": {"tools": [tools("optional"), tools("required")]}}]},
        {"method": "tools/call", "steps": [{"reply": {"content": [{"type": "text", "text": "ok"}]}}]},
    ]);
    let bench = || Bench::new(&json!({"rules": rules}));
    let as_task = |tool: &str, flags: &[&str]| {
        let bench = bench();
        let server = bench.stdio();
        let mut arguments = vec!["-s", &server, "call", tool];
        arguments.extend(flags);
        run(&arguments).exits(0);
        bench.of("tools/call")[0]["message"]["params"].get("task").is_some()
    };
    assert!(as_task("required", &[]));
    assert!(as_task("optional", &[]));
    assert!(!as_task("optional", &["--no-task"]));
    assert!(!as_task("sync", &[]));
    let bench = Bench::new(&json!({"rules": rules, "capabilities": {"tools": {}}}));
    run(&["-s", &bench.stdio(), "call", "required"]).exits(2).says("does not offer tasks").says("hint: --no-task");
    assert!(bench.of("tools/call").is_empty());
}

#[test]
fn lists_end_whatever_the_cursor_does() {
    let page = json!({"tools": [{"name": "only", "inputSchema": {}}], "nextCursor": ""});
    let bench = Bench::new(&json!({"rules": [{"method": "tools/list", "steps": [{"reply": page}]}]}));
    let outcome = run(&["-s", &bench.stdio(), "tools", "--json"]);
    assert_eq!(outcome.exits(0).json().as_array().unwrap().len(), 1);
    assert_eq!(bench.of("tools/list").len(), 2);
    assert_eq!(bench.of("tools/list")[1]["message"]["params"]["cursor"], "");
}
