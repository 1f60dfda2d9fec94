//! What servers ask while a task runs: answered beforehand, by a program, from another shell, or left with exit 9.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Bench, Outcome, finish, program, signal, until, wait};

fn task(status: &str) -> Value {
    json!({"taskId": "t-loaf", "status": status, "ttl": 60_000, "pollInterval": 50})
}

fn schema() -> Value {
    json!({"type": "object", "title": "Dough", "additionalProperties": false, "required": ["flour"], "properties": {
        "flour": {"type": "string", "title": "Flour", "oneOf": [{"const": "rye", "title": "Rye"}, {"const": "oat", "title": "Oat"}]},
        "grams": {"type": "integer", "minimum": 1, "maximum": 999, "default": 500, "x-hint": "scales"},
        "colour": {"type": "string", "format": "colour"},
    }})
}

pub fn question(id: Value, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {
        "message": message, "requestedSchema": schema(),
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-loaf"}}}})
}

fn loaf() -> Value {
    json!({"content": [{"type": "text", "text": "a loaf"}]})
}

/// A server that asks this to whoever waits for the result, and then hands that out.
pub fn asking(steps: &[Value]) -> Bench {
    let steps = [steps, &[json!({"reply": loaf()})]].concat();
    Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("working")}}]},
        {"method": "tasks/get", "steps": [{"reply": task("input_required")}]},
        {"method": "tasks/result", "nth": 1, "steps": steps},
        {"method": "tasks/result", "steps": [{"await": 0}, {"reply": loaf()}]},
    ]}))
}

pub fn flour() -> Bench {
    asking(&[json!({"send": question(json!(0), "Which flour?")}), json!({"await": 0})])
}

/// Runs with the bench's own state folder.
fn run(bench: &Bench, arguments: &[&str]) -> Outcome {
    let mut command = program(arguments);
    command.env("MCP_TASK_STATE_DIR", bench.path("state"));
    finish(command)
}

/// Calls the tool over stdio.
fn call(bench: &Bench, arguments: &[&str]) -> Outcome {
    run(bench, &[&["-s", &bench.stdio(), "call", "bake"], arguments].concat())
}

/// The answers that the server got to its requests of this id.
pub fn answers(bench: &Bench, id: &Value) -> Vec<Value> {
    let all = bench.received().into_iter().map(|seen| seen["message"].clone());
    all.filter(|message| message["method"].is_null() && message["id"] == *id).collect()
}

/// The content of the one answer to question 0.
#[track_caller]
pub fn content(bench: &Bench) -> Value {
    let all = answers(bench, &json!(0));
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(
        all[0]["result"]["_meta"],
        json!({"io.modelcontextprotocol/related-task": {"taskId": "t-loaf"}}),
        "the answer names the task"
    );
    all[0]["result"]["content"].clone()
}

#[test]
fn an_answer_is_given_beforehand() {
    let answered = |arguments: &[&str]| {
        let bench = flour();
        call(&bench, arguments).exits(0).prints("a loaf\n").says("Which flour?").says("answered: accept");
        content(&bench)
    };
    assert_eq!(answered(&["--answer", "flour=rye", "--answer", "salt=1"]), json!({"flour": "rye", "grams": 500}));
    assert_eq!(answered(&["--answer", "flour=Oat", "--answer", "grams=7.0"]), json!({"flour": "oat", "grams": 7}));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, r#"{"flour": "rye", "grams": 8, "sugar": true}"#).unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(answered(&["--answers", path]), json!({"flour": "rye", "grams": 8}));
    std::fs::write(&file, r#"[{"message": "salt"}, {"message": "flour", "content": {"flour": "oat"}}]"#).unwrap();
    assert_eq!(answered(&["--answers", path]), json!({"flour": "oat", "grams": 500}));
}

#[test]
fn an_answer_that_does_not_fit_is_not_sent() {
    for (answer, misfit) in [
        ("flour=rice", "`flour` should be one of \"rye\", \"oat\""),
        ("grams=1000", "`grams`: 1000 is greater than the maximum of 999"),
        ("grams=42xyz", "`grams` should be integer, not `42xyz`"),
        ("grams=NaN", "`grams` should be integer"),
        ("colour=red", "`flour` is missing"),
    ] {
        let bench = flour();
        call(&bench, &["--answer", answer]).exits(9).says(misfit).prints("");
        assert_eq!(answers(&bench, &json!(0)), Vec::<Value>::new());
    }
    let bench = flour();
    call(&bench, &["--answers", "nowhere.json"]).exits(2).says("nowhere.json");
    call(&bench, &["--on-input", "hope"]).exits(2).says("exec:COMMAND");
    assert!(bench.received().is_empty());
}

#[test]
fn a_program_answers() {
    let reply = |script: &str| {
        let bench = flour();
        let command = format!("exec:sh -c {}", shell_words::quote(script));
        (call(&bench, &["--on-input", &command]), bench)
    };
    // It gets the request, and what it says to people reaches them.
    let script = "read request; echo \"$request\" | grep -q '\"tool\":\"bake\".*\"taskId\":\"t-loaf\".*Which flour' && \
                  echo kneading >&2 && echo '{\"action\":\"accept\",\"content\":{\"flour\":\"rye\"}}'";
    let (outcome, bench) = reply(script);
    outcome.exits(0).prints("a loaf\n").says("sh | kneading");
    assert_eq!(content(&bench), json!({"flour": "rye"}));
    let (outcome, bench) = reply("echo '{\"flour\": \"oat\", \"grams\": 12}'");
    outcome.exits(0);
    assert_eq!(content(&bench), json!({"flour": "oat", "grams": 12}));
    let (outcome, bench) = reply("echo '{\"action\":\"decline\"}'");
    outcome.exits(0).says("answered: decline");
    assert_eq!(content(&bench), Value::Null);
    for (script, words) in [
        ("exit 3", "which was to answer, ended with exit status: 3"),
        ("echo maybe", "the program's answer is not JSON"),
        ("echo '{\"flour\": 7}'", "`flour`"),
        ("echo '{\"action\": \"perhaps\"}'", "`action` is accept, decline or cancel, not `perhaps`"),
    ] {
        let (outcome, bench) = reply(script);
        outcome.exits(9).says(words);
        assert_eq!(answers(&bench, &json!(0)).len(), 0, "{script}");
    }
    let bench = flour();
    call(&bench, &["--on-input", "exec:no-such-program"]).exits(9).says("`no-such-program`");
}

#[test]
fn a_rule_answers() {
    let rule = |rule: &str| {
        let bench = flour();
        call(&bench, &["--on-input", rule]).exits(0);
        answers(&bench, &json!(0))[0]["result"]["action"].clone()
    };
    assert_eq!((rule("decline"), rule("cancel")), (json!("decline"), json!("cancel")));
    // There is no default for the flour.
    let bench = flour();
    call(&bench, &["--on-input", "defaults"])
        .exits(9)
        .says("the question's own defaults are no answer: `flour` is missing");
    assert!(answers(&bench, &json!(0)).is_empty());
    let mut easy = question(json!(0), "Sure?");
    easy["params"]["requestedSchema"] =
        json!({"type": "object", "properties": {"ok": {"type": "boolean", "default": true}}, "required": ["ok"]});
    let bench = asking(&[json!({"send": easy}), json!({"await": 0})]);
    call(&bench, &["--on-input", "defaults"]).exits(0);
    assert_eq!(content(&bench), json!({"ok": true}));
}

#[test]
fn without_an_answer_the_task_stays_and_nothing_waits_for_stdin() {
    for silent_pipe in [false, true] {
        let bench = flour();
        let server = bench.http();
        let mut command = program(&["-s", &server.url, "call", "bake", "--json"]);
        command.env("MCP_TASK_STATE_DIR", bench.path("state"));
        command.stdin(if silent_pipe { Stdio::piped() } else { Stdio::null() });
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let outcome = wait(child, start);
        drop(stdin);
        outcome.exits(9).says("task t-loaf waits for an answer: Which flour?");
        outcome.says("flour: one of rye, oat").says("hint: mcp-task answer t-loaf flour=…");
        assert!(outcome.took < Duration::from_secs(2), "{outcome:?}");
        let error = &outcome.json()["error"];
        assert_eq!((&error["kind"], &error["taskId"]), (&json!("input_required"), &json!("t-loaf")));
        assert_eq!(error["data"]["requestedSchema"], schema());
        assert!(bench.of("tasks/cancel").is_empty());
    }
}

#[test]
fn another_shell_answers_a_day_later() {
    let bench = flour();
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake"]).exits(9);
    let rows = run(&bench, &["list", "--json"]).exits(0).json();
    assert_eq!((&rows[0]["status"], &rows[0]["waiting"]), (&json!("input_required"), &json!(true)));
    run(&bench, &["list"]).exits(0).says("1 task waits for an answer").says("hint: mcp-task answer t-loaf");
    let shown = run(&bench, &["answer", "t-loaf"]);
    shown.exits(0).says("hint: mcp-task answer t-loaf flour=…");
    assert!(
        shown.stdout.contains("Which flour?")
            && shown.stdout.contains("where it is left out: 500")
            && shown.stdout.contains("rye: Rye"),
        "{shown:?}"
    );
    let shown = run(&bench, &["answer", "--last", "--json"]).exits(0).json();
    assert_eq!((&shown[0]["schema"], &shown[0]["message"]), (&schema(), &json!("Which flour?")));
    run(&bench, &["answer", "t-loaf", "flour=rice"]).exits(2).says("`flour` should be one of");
    run(&bench, &["answer", "t-loaf", "flower=rye"]).exits(2).says("there is no field `flower`; did you mean `flour`?");
    assert!(answers(&bench, &json!(0)).is_empty());
    run(&bench, &["answer", "--last", "flour=rye", "grams=1"]).exits(0).says("answered (accept)");
    assert_eq!(content(&bench), json!({"flour": "rye", "grams": 1}));
    assert_eq!(bench.of("initialize").len(), 1, "in the session of the call");
    run(&bench, &["answer", "t-loaf", "flour=rye"]).exits(2).says("asks nothing");
    run(&bench, &["watch", "t-loaf"]).exits(0).prints("a loaf\n");
    let trail = run(&bench, &["log", "t-loaf"]);
    assert!(trail.exits(0).stdout.contains("asked") && trail.stdout.contains("Which flour?"), "{trail:?}");
    assert!(trail.stdout.contains("answered"), "{trail:?}");
}

#[test]
fn who_waits_hears_of_an_answer_from_elsewhere() {
    let bench = flour();
    let server = bench.http();
    let mut command = program(&["-s", &server.url, "call", "bake", "--on-input", "wait"]);
    let child = command.env("MCP_TASK_STATE_DIR", bench.path("state")).spawn().unwrap();
    until("the question", || run(&bench, &["answer", "--last", "--json"]).stdout.contains("Which flour?"));
    run(&bench, &["answer", "--last", "flour=oat"]).exits(0);
    let waited = wait(child, Instant::now());
    waited.exits(0).prints("a loaf\n").says("answer it with: mcp-task answer t-loaf flour=…");
    assert_eq!(content(&bench), json!({"grams": 500, "flour": "oat"}));
    // Where nobody answers in time, that is what is left to do.
    let bench = flour();
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake", "--on-input", "wait", "--progress", "none", "--timeout", "1s"])
        .exits(8)
        .says("answer it with: mcp-task answer t-loaf flour=…")
        .says("task t-loaf waits for an answer")
        .says("hint: mcp-task answer t-loaf");
    run(&bench, &["answer", "flour=oat"]).exits(2).says("no task is named: `flour=oat` is a field");
}

#[test]
fn questions_come_in_sequence_and_at_once() {
    let bench = asking(&[
        json!({"send": question(json!(0), "First?")}),
        json!({"send": question(json!("0"), "Second?")}),
        json!({"await": 0}),
        json!({"await": "0"}),
        json!({"send": question(json!(1), "Third?")}),
        json!({"await": 1}),
    ]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let entries = json!([
        {"message": "Second", "content": {"flour": "oat"}}, {"message": "First", "content": {"flour": "rye"}},
        {"action": "decline"}]);
    std::fs::write(&file, entries.to_string()).unwrap();
    call(&bench, &["--answers", file.path().to_str().unwrap()]).exits(0).prints("a loaf\n");
    let flour = |id: Value| answers(&bench, &id)[0]["result"]["content"]["flour"].clone();
    assert_eq!((flour(json!(0)), flour(json!("0"))), (json!("rye"), json!("oat")));
    assert_eq!(answers(&bench, &json!(1))[0]["result"]["action"], "decline");
}

#[test]
fn a_withdrawn_question_ends_the_program_that_was_asked() {
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0, "reason": "never mind"}});
    let bench = asking(&[
        json!({"send": question(json!(0), "Which flour?")}),
        json!({"sleep": 400}),
        json!({"send": cancelled}),
        json!({"sleep": 200}),
    ]);
    let marker = bench.path("asked");
    let command = format!("exec:sh -c 'touch {}; sleep 600'", marker.display());
    call(&bench, &["--on-input", &command]).exits(0).prints("a loaf\n").says("the question is no longer asked");
    assert!(marker.exists() && answers(&bench, &json!(0)).is_empty());
    bench.assert_nothing_lives();
}

#[test]
fn a_ping_is_answered_while_a_program_is_asked() {
    let ping = |id: u32| json!({"send": {"jsonrpc": "2.0", "id": id, "method": "ping"}});
    let unknown = |id: u32, method: &str| json!({"send": {"jsonrpc": "2.0", "id": id, "method": method}});
    let bench = asking(&[
        json!({"send": question(json!(0), "Which flour?")}),
        ping(70),
        json!({"await": 70}),
        unknown(71, "roots/list"),
        unknown(72, "sampling/createMessage"),
        unknown(73, "foo/bar"),
        json!({"await": 71}),
        json!({"await": 72}),
        json!({"await": 73}),
        json!({"await": 0}),
    ]);
    call(&bench, &["--on-input", "exec:sh -c 'sleep 0.7; echo {\\\"flour\\\":\\\"rye\\\"}'"])
        .exits(0)
        .prints("a loaf\n");
    assert_eq!(answers(&bench, &json!(70))[0]["result"], json!({}));
    for id in 71..74 {
        assert_eq!(answers(&bench, &json!(id))[0]["error"]["code"], -32601);
    }
    let at = |id: u32| {
        bench.received().iter().find(|seen| seen["message"]["id"] == id && seen["method"] == "").unwrap()["at"]
            .as_u64()
            .unwrap()
    };
    assert!(at(73) < at(0), "nothing waits for the program");
}

#[test]
fn a_question_on_the_stream_of_its_own_is_answered() {
    let bench = Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("working")}}]},
        {"method": "GET", "steps": [{"sse": {}}, {"sleep": 300}, {"send": question(json!(0), "Which flour?")}, {"hold": {}}]},
        {"method": "tasks/get", "steps": [{"reply": task("working")}]},
        {"method": "tasks/result", "steps": [{"await": 0}, {"reply": loaf()}]},
    ]}));
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake", "--answer", "flour=rye"]).exits(0).prints("a loaf\n");
    assert_eq!(content(&bench), json!({"grams": 500, "flour": "rye"}));
}

#[test]
fn a_plain_call_that_nobody_answers_is_dismissed() {
    let mut asked = question(json!(0), "Which flour?");
    asked["params"].as_object_mut().unwrap().remove("_meta");
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"send": asked}, {"await": 0}, {"reply": loaf()}]},
    ]}));
    let plain = |arguments: &[&str]| run(&bench, &[&["-s", &bench.stdio(), "call", "plain"], arguments].concat());
    plain(&[])
        .exits(9)
        .prints("a loaf\n")
        .says("nobody answered, so the question was dismissed: Which flour?")
        .says("--answer");
    assert_eq!(answers(&bench, &json!(0))[0]["result"], json!({"action": "cancel"}));
    plain(&["--answer", "flower=rye"])
        .exits(9)
        .says("has no field `flower`; did you mean `flour`?; so the question was");
    // A program that reads events hears of it, after the result.
    let told = plain(&["-o", "jsonl"]).exits(9).stdout.clone();
    let last: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["error"]["kind"]), (&json!("error"), &json!("input_required")));
    assert_eq!(last["error"]["data"]["message"], "Which flour?");
    let asked_before = answers(&bench, &json!(0)).len();
    plain(&["--answer", "flour=rye"]).exits(0).prints("a loaf\n");
    let answer = &answers(&bench, &json!(0))[asked_before]["result"];
    assert_eq!((&answer["content"]["flour"], &answer["_meta"]), (&json!("rye"), &Value::Null));
}

#[test]
fn answers_that_fit_nothing_are_told_of() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for (text, words) in [
        (r#"{"flower": "rye"}"#, "the question has no field `flower`; did you mean `flour`?"),
        (r#"{"salt": 1}"#, "given is `salt`, asked for is `flour`, `grams`, `colour`"),
        (r#"[{"message": "salt"}]"#, "no `message` is part of its words"),
        (r#"{"content": {"flour": "rye", "graams": 1}}"#, "did you mean `grams`?"),
    ] {
        let bench = flour();
        std::fs::write(&file, text).unwrap();
        call(&bench, &["--answers", path]).exits(9).says(words).says("answer t-loaf flour=");
        assert_eq!(answers(&bench, &json!(0)), Vec::<Value>::new(), "{text}");
    }
    let bench = flour();
    std::fs::write(&file, r#"{"action": "decline"}"#).unwrap();
    call(&bench, &["--answers", path]).exits(0).says("answered: decline");
    let bench = flour();
    call(&bench, &["--answer", "flour=rye", "--answer", "salt=1"]).exits(0).says("--answer salt=…: no question asked");
    let bench = asking(&[]);
    call(&bench, &["--answer", "flour=rye"]).exits(0).says("--answer flour=…: nothing was asked");
}

#[test]
fn a_detached_call_tells_that_its_answers_come_too_early() {
    let bench = flour();
    let server = bench.http();
    let arguments = ["-s", &server.url, "call", "bake", "--detach", "--answer", "flour=rye", "--on-input", "decline"];
    run(&bench, &arguments)
        .exits(0)
        .prints("t-loaf\n")
        .says("warning: --answer flour=… and --on-input: whatever the task asks comes after this command has left; give it to");
}

#[test]
fn a_server_that_asks_the_same_for_ever_is_left() {
    let steps: Vec<Value> =
        (0..20).flat_map(|id| [json!({"send": question(json!(id), "Which flour?")}), json!({"await": id})]).collect();
    let bench = asking(&steps);
    call(&bench, &["--answer", "flour=rye"]).exits(9).says("has asked the same 10 times");
    assert_eq!(answers(&bench, &json!(9)).len(), 1);
    assert_eq!(answers(&bench, &json!(10)).len(), 0);
}

#[test]
fn a_question_is_an_event() {
    let bench = flour();
    let outcome = call(&bench, &["--answer", "flour=rye", "-o", "jsonl"]);
    let events: Vec<Value> = outcome.exits(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().find(|event| event["event"] == kind).unwrap_or_else(|| panic!("{events:?}"));
    let asked = of("asked");
    assert_eq!((&asked["taskId"], &asked["question"]), (&json!("t-loaf"), &json!(0)));
    assert_eq!(asked["params"]["requestedSchema"], schema());
    assert_eq!(of("answered")["action"], "accept");
}

#[test]
fn ctrl_c_leaves_a_question_open() {
    let bench = flour();
    let server = bench.http();
    let mut command = program(&["-s", &server.url, "call", "bake", "--on-input", "wait"]);
    let child = command.env("MCP_TASK_STATE_DIR", bench.path("state")).spawn().unwrap();
    until("the question", || run(&bench, &["answer", "--last", "--json"]).stdout.contains("Which flour?"));
    signal(&child, Signal::SIGINT);
    wait(child, Instant::now()).exits(8).says("mcp-task watch t-loaf");
    run(&bench, &["answer", "t-loaf", "flour=rye"]).exits(0);
}

#[test]
fn a_question_ends_with_its_task() {
    let bench = Bench::new(&json!({"session": true, "rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("working")}}]},
        {"method": "tasks/get", "nth": 1, "steps": [{"reply": task("input_required")}]},
        {"method": "tasks/get", "steps": [{"reply": task("completed")}]},
        {"method": "tasks/result", "nth": 1, "steps": [{"send": question(json!(0), "Which flour?")}, {"hold": {}}]},
        {"method": "tasks/result", "steps": [{"reply": loaf()}]},
    ]}));
    let server = bench.http();
    run(&bench, &["-s", &server.url, "call", "bake"]).exits(9);
    until("the end of the task", || !run(&bench, &["get", "t-loaf"]).stdout.contains("input"));
    run(&bench, &["result", "t-loaf"]).exits(0).prints("a loaf\n");
    assert_eq!(run(&bench, &["list", "--json"]).json()[0]["waiting"], false);
    assert!(answers(&bench, &json!(0)).is_empty());
}

#[test]
fn an_answer_that_is_refused_is_told_once() {
    let mut asked = question(json!(0), "Which flour?");
    asked["params"].as_object_mut().unwrap().remove("_meta");
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"sse": {}}, {"send": asked}, {"sleep": 500}, {"reply": loaf()}]},
        {"method": "", "steps": [{"http": {"status": 500}}]},
    ]}));
    let server = bench.http();
    let outcome = run(&bench, &["-s", &server.url, "call", "plain", "--answer", "flour=rye"]);
    outcome.exits(0).prints("a loaf\n");
    assert_eq!(outcome.stderr.matches("the answer could not be delivered").count(), 1, "{outcome:?}");
    assert_eq!(answers(&bench, &json!(0)).len(), 1);
}

#[test]
fn a_plain_call_waits_for_nobody_elsewhere() {
    let mut asked = question(json!(0), "Which flour?");
    asked["params"].as_object_mut().unwrap().remove("_meta");
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"send": asked}, {"await": 0}, {"reply": loaf()}]},
    ]}));
    run(&bench, &["-s", &bench.stdio(), "call", "plain", "--on-input", "wait"]).exits(9).prints("a loaf\n");
    assert_eq!(answers(&bench, &json!(0))[0]["result"]["action"], "cancel");
}
