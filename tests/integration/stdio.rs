//! A server over stdio: its noise, its silence, its death, and what is left of it.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Bench, fake, finish, program, run, signal, until, wait};

fn working() -> Value {
    json!({"reply": {"task": {"taskId": "t-loaf", "status": "working", "ttl": 60000, "pollInterval": 200}}})
}

#[test]
fn noise_on_stdout_is_skipped_and_not_answered() {
    let noise = "Warming up the oven\n\n[1] 12:00 INFO\n{not json\n42\n\"x\"\n";
    let bench = Bench::new(&json!({
        "start": [{"raw": "\u{feff}"}, {"raw": noise}],
        "rules": [
            {"method": "initialize", "steps": [{"raw": noise}, {"raw": "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"n\",\"version\":\"1\"}}}\r\n"}]},
            {"method": "tools/call", "steps": [{"raw": "{\"jsonrpc\":\n"}, {"raw": noise}, {"reply": {"content": [{"type": "text", "text": "bread"}]}}]},
        ],
    }));
    let outcome = run(&["-s", &bench.stdio(), "call", "plain"]);
    outcome.exits(0).prints("bread\n").says("no messages; they are skipped");
    assert_eq!(outcome.stderr.matches("skipped").count(), 1);
    let methods: Vec<Value> = bench.received().into_iter().map(|seen| seen["method"].clone()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list", "tools/call", "EOF"]);
}

#[test]
fn the_last_line_needs_no_end() {
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [
        {"raw": "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"crumb\"}]}}"}, {"exit": 0},
    ]}]}));
    run(&["-s", &bench.stdio(), "call", "plain"]).exits(0).prints("crumb\n");
}

#[test]
fn a_talkative_stderr_blocks_nobody() {
    let flood = json!({"stderr_flood": 300 * 1024});
    let bench = Bench::new(&json!({"rules": [
        {"method": "initialize", "steps": [flood, {"reply": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}}]},
        {"method": "tools/list", "steps": [flood, {"reply": {"tools": [{"name": "plain"}]}}]},
        {"method": "tools/call", "steps": [flood, {"reply": {"content": []}}]},
    ]}));
    let outcome = run(&["-s", &bench.stdio(), "call", "plain"]);
    assert_eq!(outcome.exits(0).stderr, "");
    run(&["-s", &bench.stdio(), "-v", "call", "plain"]).exits(0).says("server stderr | the last line");
}

#[test]
fn a_server_that_dies_early_is_reported_with_its_last_words() {
    let bench = Bench::new(&json!({"start": [{"stderr": "port 7 busy\u{1b}[2J"}, {"sleep": 100}, {"exit": 3}]}));
    let outcome = run(&["-s", &bench.stdio(), "tools"]);
    outcome.exits(3).says("exit status: 3").says("port 7 busy\\u{1b}[2J");
    assert!(outcome.took < Duration::from_secs(2), "{:?}", outcome.took);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    run(&["-s", "no-such-program-anywhere --x", "tools"])
        .exits(3)
        .says("`no-such-program-anywhere`: no such program was found in PATH");
    run(&["-s", "sh", "--cwd", "/no/such/folder", "tools"]).exits(2).says("/no/such/folder is not a folder");
}

#[test]
fn a_slow_start_has_a_limit_of_its_own() {
    let bench = Bench::new(&json!({"rules": [{"method": "initialize", "steps": []}]}));
    let outcome = run(&["-s", &bench.stdio(), "--start-timeout", "400ms", "tools"]);
    outcome.exits(3).says("no answer to `initialize` within 0.4s").says("--start-timeout allows more time");
    bench.assert_nothing_lives();
}

#[test]
fn a_server_that_dies_in_the_middle_takes_the_task_along_and_says_so() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": {"taskId": "t-loaf", "status": "working", "pollInterval": 60000}}}]},
        {"method": "tasks/result", "steps": [{"stderr": "out of flour"}, {"sleep": 300}, {"exit": 7}]},
    ]}));
    let outcome = run(&["-s", &bench.stdio(), "call", "bake"]);
    outcome.exits(3).says("lost sight of task t-loaf").says("exit status: 7").says("out of flour");
    bench.assert_nothing_lives();
}

#[test]
fn the_environment_is_inherited_and_added_to() {
    let server = r#"sh -c 'printf "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"$OVEN $HOME $KEPT\"}}\n"; cat > /dev/null'"#;
    let mut command = program(&["-s", server, "--env", "OVEN=on", "tools"]);
    command.env("KEPT", "kept").env("HOME", "/nowhere");
    finish(command).exits(4).says("on /nowhere kept (1)");
}

#[test]
fn a_large_line_passes_and_an_endless_one_does_not() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "nth": 1, "steps": [{"big": 12 << 20}]},
    ]}));
    let outcome = run(&["-s", &bench.stdio(), "call", "plain"]);
    assert_eq!(outcome.exits(0).stdout.len(), (12 << 20) + 1);
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"flood": 4 << 20}]}]}));
    let outcome = run(&["-s", &bench.stdio(), "--max-message", "1M", "call", "plain"]);
    outcome.exits(3).says("larger than the limit of 1048576 bytes").says("--max-message allows more");
    bench.assert_nothing_lives();
}

#[test]
fn a_dialogue_goes_on_while_a_call_runs() {
    let ask = |id: Value, method: &str| json!({"send": {"jsonrpc": "2.0", "id": id, "method": method, "params": {}}});
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [
        ask(json!(0), "ping"), {"await": 0},
        ask(json!("r"), "roots/list"), {"await": "r"},
        ask(json!("s"), "sampling/createMessage"), {"await": "s"},
        ask(json!(77), "foo/bar"), {"await": 77},
        {"raw": "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/stderr\"}\n"},
        {"send": {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": {"a": 1}}, "extra": 1}},
        {"send": {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}},
        {"send": [{"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": "$ID", "result": {"content": [{"type": "text", "text": "batched"}]}}]},
    ]}]}));
    run(&["-s", &bench.stdio(), "call", "plain"]).exits(0).prints("batched\n");
    let answers: Vec<Value> = bench.of("").into_iter().map(|seen| seen["message"].clone()).collect();
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": 0, "result": {}}));
    let codes: Vec<&Value> = answers[1..].iter().map(|answer| &answer["error"]["code"]).collect();
    assert_eq!(codes, [-32601, -32601, -32601]);
}

#[test]
fn an_error_without_an_id_is_the_answer_to_the_only_request() {
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [
        {"send": {"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "too much salt"}}},
    ]}]}));
    run(&["-s", &bench.stdio(), "call", "plain"]).exits(4).says("too much salt (-32600)");
}

/// A wrapper whose grandchild ignores the end of its stdin.
fn wrapped(bench: &Bench) -> String {
    let marker = bench.path("grandchild").display().to_string();
    format!("sh -c '{} sleep {marker} & {}; wait'", fake(), bench.stdio())
}

#[test]
fn a_wrapper_and_its_grandchild_end_with_a_call() {
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"reply": {"content": []}}]}]}));
    run(&["-s", &wrapped(&bench), "call", "plain"]).exits(0);
    bench.assert_nothing_lives();
}

#[test]
fn a_grandchild_does_not_survive_the_wrapper() {
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"exit": 9}]}]}));
    let marker = bench.path("grandchild").display().to_string();
    let server = format!("sh -c '{} sleep {marker} > /dev/null 2>&1 & {}'", fake(), bench.stdio());
    run(&["-s", &server, "call", "plain"]).exits(3).says("exit status: 9");
    bench.assert_nothing_lives();
}

#[test]
fn every_signal_leaves_nothing_behind_and_cancels_what_nobody_can_come_back_to() {
    for kind in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        let bench = Bench::new(&json!({"rules": [
            {"method": "tools/call", "steps": [working()]},
            {"method": "tasks/result", "steps": []},
            {"method": "tasks/get", "steps": [{"reply": {"taskId": "t-loaf", "status": "working", "pollInterval": 200}}]},
            {"method": "tasks/cancel", "steps": [{"reply": {"taskId": "t-loaf", "status": "cancelled"}}]},
        ]}));
        let child = program(&["-s", &wrapped(&bench), "call", "bake"]).spawn().unwrap();
        until("a poll", || !bench.of("tasks/get").is_empty());
        signal(&child, kind);
        let outcome = wait(child, std::time::Instant::now());
        outcome.exits(7).says("t-loaf");
        assert_eq!(bench.of("tasks/cancel").len(), 1, "{kind}");
        bench.assert_nothing_lives();
    }
}

#[test]
fn an_interrupt_before_there_is_a_task_tells_the_server() {
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": []}]}));
    let child = program(&["-s", &bench.stdio(), "call", "plain"]).spawn().unwrap();
    until("the call", || !bench.of("tools/call").is_empty());
    signal(&child, Signal::SIGINT);
    wait(child, std::time::Instant::now()).exits(130);
    let call = bench.of("tools/call")[0]["message"]["id"].clone();
    assert_eq!(bench.of("notifications/cancelled")[0]["message"]["params"]["requestId"], call);
    bench.assert_nothing_lives();
}

#[test]
fn the_second_interrupt_ends_everything_at_once() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [working()]},
        {"method": "tasks/result", "steps": []},
        {"method": "tasks/get", "steps": [{"reply": {"taskId": "t-loaf", "status": "working", "pollInterval": 200}}]},
        {"method": "tasks/cancel", "steps": []},
    ]}));
    let child = program(&["-s", &wrapped(&bench), "call", "bake"]).spawn().unwrap();
    until("a poll", || !bench.of("tasks/get").is_empty());
    signal(&child, Signal::SIGINT);
    until("the cancellation", || !bench.of("tasks/cancel").is_empty());
    signal(&child, Signal::SIGINT);
    let outcome = wait(child, std::time::Instant::now());
    assert!(outcome.exits(7).says("was ended with its server").took < Duration::from_secs(2), "{outcome:?}");
    bench.assert_nothing_lives();
}
