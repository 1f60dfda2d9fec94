//! The client as the receiver: a server that follows its questions as tasks of ours.

use serde_json::{Value, json};

use crate::questions::{answers, asking, question};
use crate::real::{EVERYTHING, serve};
use crate::support::{Bench, Outcome, run};

fn as_task(ttl: Value) -> Value {
    let mut asked = question(json!(0), "Which flour?");
    asked["params"]["task"] = json!({"ttl": ttl});
    json!({"send": asked})
}

fn ask(id: u32, method: &str, params: Value) -> Value {
    json!({"send": {"jsonrpc": "2.0", "id": id, "method": method, "params": params}})
}

fn about(id: u32, method: &str) -> Value {
    ask(id, method, json!({"taskId": "$RECEIVED"}))
}

fn until(id: u32) -> Value {
    json!({"await": id})
}

fn call(bench: &Bench, program: &str) -> Outcome {
    run(&["-s", &bench.stdio(), "call", "bake", "--on-input", program])
}

fn answer(bench: &Bench, id: u32) -> Value {
    let all = answers(bench, &json!(id));
    assert_eq!(all.len(), 1, "{id}: {all:?}");
    all[0].clone()
}

const SLOWLY: &str = r#"exec:sh -c 'sleep 0.7; echo "{\"flour\":\"rye\"}"'"#;

#[test]
fn a_question_may_be_followed_as_a_task_of_ours() {
    let bench = asking(&[
        as_task(json!(60_000)),
        until(0),
        about(1, "tasks/get"),
        until(1),
        ask(2, "tasks/list", json!({})),
        until(2),
        about(3, "tasks/result"),
        until(3),
        about(4, "tasks/get"),
        until(4),
        about(5, "tasks/cancel"),
        until(5),
        about(6, "tasks/result"),
        until(6),
        ask(7, "tasks/get", json!({"taskId": "nobody's"})),
        until(7),
        ask(8, "tasks/list", json!({"cursor": "x"})),
        until(8),
    ]);
    call(&bench, SLOWLY).exits(0).prints("a loaf\n");
    let declared = bench.of("initialize")[0]["message"]["params"]["capabilities"]["tasks"].clone();
    assert_eq!(declared, json!({"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}}));
    let task = &answer(&bench, 0)["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60_000)));
    for key in ["createdAt", "lastUpdatedAt"] {
        assert!(task[key].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{task}");
    }
    let seen = &answer(&bench, 1)["result"];
    assert_eq!((&seen["taskId"], &seen["status"]), (&task["taskId"], &json!("working")));
    assert_eq!(answer(&bench, 2)["result"]["tasks"][0]["taskId"], task["taskId"]);
    let result = &answer(&bench, 3)["result"];
    assert_eq!((&result["action"], &result["content"]["flour"]), (&json!("accept"), &json!("rye")));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task["taskId"]);
    assert_eq!(answer(&bench, 4)["result"]["status"], "completed");
    assert_eq!(answer(&bench, 6)["result"], *result, "it is handed out as often as it is asked for");
    for id in [5, 7, 8] {
        assert_eq!(answer(&bench, id)["error"]["code"], -32602, "{id}");
    }
    let told = bench.of("notifications/tasks/status");
    assert_eq!((told.len(), &told[0]["message"]["params"]["status"]), (1, &json!("completed")));
}

#[test]
fn a_server_can_cancel_it() {
    let bench = asking(&[
        as_task(Value::Null),
        until(0),
        json!({"sleep": 300}),
        about(1, "tasks/result"),
        about(2, "tasks/cancel"),
        until(1),
        until(2),
        about(3, "tasks/get"),
        until(3),
    ]);
    call(&bench, "exec:sleep 600").exits(0).says("the question is no longer asked");
    assert_eq!(answer(&bench, 2)["result"]["status"], "cancelled");
    assert_eq!(answer(&bench, 3)["result"]["status"], "cancelled");
    assert!(answer(&bench, 1)["error"]["message"].as_str().unwrap().contains("cancelled"));
    bench.assert_nothing_lives();
}

#[test]
fn it_is_forgotten_after_its_time() {
    let bench = asking(&[
        as_task(json!(200)),
        until(0),
        about(1, "tasks/result"),
        until(1),
        about(2, "tasks/get"),
        until(2),
        ask(3, "tasks/list", json!({})),
        until(3),
    ]);
    call(&bench, "exec:sleep 600").exits(0);
    assert_eq!(answer(&bench, 0)["result"]["task"]["ttl"], 200);
    assert_eq!(
        (&answer(&bench, 1)["error"]["code"], &answer(&bench, 2)["error"]["code"]),
        (&json!(-32602), &json!(-32602))
    );
    assert_eq!(answer(&bench, 3)["result"]["tasks"], json!([]));
}

#[test]
fn it_is_told_where_nobody_answers() {
    let bench = asking(&[as_task(json!(60_000)), until(0), about(1, "tasks/result"), until(1)]);
    let outcome = run(&["-s", &bench.stdio(), "call", "bake"]);
    outcome.exits(9).prints("a loaf\n").says("nobody answered, so the question was dismissed: Which flour?");
    assert_eq!(answer(&bench, 1)["result"]["action"], "cancel");
}

#[test]
fn a_real_server_follows_its_questions() {
    let over_stdio = format!("node {EVERYTHING} stdio");
    let over_http = serve("node", &[EVERYTHING, "streamableHttp"], Some("PORT"), "/mcp");
    for server in [&over_stdio, &over_http.url] {
        let sampled = run(&[
            "-s",
            server,
            "--sampling",
            "exec:echo dough rises",
            "call",
            "trigger-sampling-request-async",
            "prompt=rye",
        ]);
        assert!(sampled.exits(0).stdout.contains("dough rises"), "{sampled:?}");
        let asked = run(&[
            "-s",
            server,
            "call",
            "trigger-elicitation-request-async",
            "--on-input",
            "exec:echo '{\"name\": \"Ada\"}'",
        ]);
        assert!(asked.exits(0).stdout.contains("Ada"), "{asked:?}");
    }
}
