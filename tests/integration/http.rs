//! A server over HTTP: answers of every shape, streams that break, sessions that go, redirects, refusals.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Bench, finish, program, run};

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

fn on_call(steps: Value) -> Bench {
    Bench::new(&json!({"rules": [{"method": "tools/call", "steps": steps}]}))
}

#[test]
fn the_headers_are_those_of_the_specification() {
    let bench =
        Bench::new(&json!({"session": true, "rules": [{"method": "tools/call", "steps": [{"reply": text("ok")}]}]}));
    let server = bench.http();
    run(&["-s", &server.url, "--header", "X-Oven: hot", "--bearer", "hush-hush", "call", "plain"])
        .exits(0)
        .prints("ok\n");
    let received = bench.received();
    let of = |method: &str| received.iter().find(|seen| seen["method"] == method).unwrap()["headers"].clone();
    let first = of("initialize");
    assert_eq!(first["accept"], "application/json, text/event-stream");
    assert_eq!((first.get("mcp-session-id"), first.get("mcp-protocol-version")), (None, None));
    for method in ["notifications/initialized", "tools/list", "tools/call", "DELETE"] {
        let headers = of(method);
        assert_eq!(
            (&headers["mcp-session-id"], &headers["mcp-protocol-version"]),
            (&json!("s1"), &json!("2025-11-25")),
            "{method}"
        );
        assert_eq!(
            (&headers["x-oven"], &headers["authorization"]),
            (&json!("hot"), &json!("Bearer hush-hush")),
            "{method}"
        );
    }
}

#[test]
fn a_stream_of_events_is_read_by_the_rules() {
    let answer = "{\n\"jsonrpc\": \"2.0\",\n\"id\": $ID,\n\"result\": {\"content\":\n[{\"type\": \"text\", \"text\": \"面包\"}]}\n}";
    let lines: String = answer.lines().map(|line| format!("data: {line}\r\n")).collect();
    let bench = on_call(json!([{"sse": {}},
        {"raw": "\u{feff}id: 0\r\ndata:\r\n\r\n: ping\r\n\r\nevent: heartbeat\r\ndata: x\r\n\r\n"},
        {"raw": format!("{lines}\r\n")}, {"hold": {}},
    ]));
    run(&["-s", &bench.http().url, "call", "plain"]).exits(0).prints("面包\n");
    let bench = on_call(
        json!([{"sse": {}}, {"raw": "data:{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"tight\"}]}}\n\n"}]),
    );
    run(&["-s", &bench.http().url, "call", "plain"]).exits(0).prints("tight\n");
}

#[test]
fn a_stream_that_ends_before_the_answer_is_a_lost_call() {
    for end in [
        json!([{"sse": {}}, {"raw": ": hm\n\n"}]),
        json!([{"sse": {}}, {"raw": ": hm\n\n"}, {"reset": {}}]),
        json!([{"reset": {}}]),
    ] {
        let bench = on_call(end.clone());
        let outcome = run(&["-s", &bench.http().url, "call", "plain"]);
        outcome.exits(3).says("`plain` may have started");
        assert!(outcome.took < Duration::from_secs(3), "{outcome:?}");
        assert_eq!(bench.of("tools/call").len(), 1, "{end}");
    }
}

#[test]
fn a_call_whose_answer_was_lost_finds_what_appeared() {
    let task = |id: &str, status: &str, at: &str| json!({"taskId": id, "status": status, "createdAt": at});
    let bad_gateway = json!([{"http": {"status": 502, "body": "<html>bad gateway</html>"}}]);
    for loss in [json!([{"reset": {}}]), bad_gateway] {
        let bench = Bench::new(&json!({"rules": [
            {"method": "tools/call", "steps": loss},
            {"method": "tasks/list", "steps": [{"reply": {"tasks": [
                task("t-old", "completed", "2026-01-01T00:00:01Z"),
                task("t-bun", "working", "2026-01-01T00:00:03Z"),
            ]}}]},
        ]}));
        let outcome = run(&["-s", &bench.http().url, "call", "bake"]);
        outcome.exits(3).says("`bake` may have started").says("t-bun (working), t-old (completed)").says("watch t-bun");
        assert_eq!(bench.of("tools/call").len(), 1);
    }
}

#[test]
fn a_planned_close_is_resumed_where_it_stopped() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"sse": {}}, {"raw": "id: e1\nretry: 300\ndata:\n\n"}]},
        // The first GET is the stream for unasked messages.
        {"method": "GET", "nth": 1, "steps": [{"http": {"status": 405}}]},
        {"method": "GET", "nth": 2, "steps": [{"sse": {}}]},
        {"method": "GET", "nth": 3, "steps": [{"sse": {}}, {"send": {"jsonrpc": "2.0", "id": "ANSWER", "result": text("resumed")}}]},
    ]}));
    // The answer needs the id of a request that the script cannot know, so it is told by the only pending one.
    let script = std::fs::read_to_string(bench.path("script.json"))
        .unwrap()
        .replace("\"id\":\"ANSWER\",\"jsonrpc\"", "\"id\":null,\"jsonrpc\"")
        .replace("\"jsonrpc\":\"2.0\",\"id\":\"ANSWER\"", "\"jsonrpc\":\"2.0\",\"id\":null");
    std::fs::write(bench.path("script.json"), script).unwrap();
    let outcome = run(&["-s", &bench.http().url, "call", "plain"]);
    outcome.exits(0).prints("resumed\n");
    let gets = bench.of("GET");
    let ids: Vec<&Value> = gets.iter().map(|get| &get["headers"]["last-event-id"]).collect();
    assert_eq!(ids, [&Value::Null, &json!("e1"), &json!("e1")]);
    let (call, second, third) = (at(&bench.of("tools/call")[0]), at(&gets[1]), at(&gets[2]));
    assert!(second >= call + 300 && third >= second + 300, "{call} {second} {third}");
}

fn at(seen: &Value) -> u64 {
    seen["at"].as_u64().unwrap()
}

#[test]
fn errors_on_http_are_the_answer_to_their_request() {
    let error =
        |id: &str| format!("{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":-32600,\"message\":\"too much salt\"}}}}");
    for id in ["\"id\":null,", "\"id\":\"server-error\",", "", "\"id\":$ID,"] {
        for status in [200, 400, 404, 422] {
            let bench = on_call(
                json!([{"http": {"status": status, "headers": {"Content-Type": "application/json"}, "body": error(id)}}]),
            );
            run(&["-s", &bench.http().url, "call", "plain"]).exits(4).says("too much salt (-32600)");
        }
    }
}

#[test]
fn an_answer_that_is_none_is_named() {
    let bench = on_call(
        json!([{"http": {"status": 200, "headers": {"Content-Type": "text/html"}, "body": "<p>hello\u{1b}[2J"}}]),
    );
    run(&["-s", &bench.http().url, "call", "plain"])
        .exits(4)
        .says("without a JSON-RPC response")
        .says("<p>hello\\u{1b}[2J");
    let bench = on_call(json!([{"http": {"status": 202}}]));
    run(&["-s", &bench.http().url, "call", "plain"]).exits(4).says("HTTP 202, an empty body");
}

#[test]
fn authorization_has_its_number() {
    for status in [401, 403] {
        let bench = Bench::new(
            &json!({"rules": [{"method": "initialize", "steps": [{"http": {"status": status, "body": "who are you"}}]}]}),
        );
        let outcome = run(&["-s", &bench.http().url, "tools", "--json"]);
        assert_eq!(outcome.exits(11).json()["error"]["kind"], "authorization");
        assert_eq!(bench.of("initialize").len(), 1);
        let bench = on_call(json!([{"http": {"status": status}}]));
        let outcome = run(&["-s", &bench.http().url, "call", "plain"]);
        assert!(!outcome.exits(11).stderr.contains("may have started"), "{outcome:?}");
    }
}

#[test]
fn a_session_that_has_gone_is_renewed_once() {
    let gone = |status: u16, body: &str| json!([{"http": {"status": status, "body": body}}]);
    for refusal in [gone(404, ""), gone(404, "{\"error\":\"Session not found\"}"), gone(400, "Unknown Mcp-Session-Id")]
    {
        let bench = Bench::new(&json!({"session": true, "rules": [
            {"method": "tools/list", "nth": 1, "steps": refusal},
            {"method": "tools/call", "steps": [{"reply": text("ok")}]},
        ]}));
        run(&["-s", &bench.http().url, "call", "plain"]).exits(0);
        let (hello, lists) = (bench.of("initialize"), bench.of("tools/list"));
        assert_eq!((hello.len(), hello[1]["headers"].get("mcp-session-id")), (2, None));
        let sessions: Vec<&Value> = lists.iter().map(|list| &list["headers"]["mcp-session-id"]).collect();
        assert_eq!(sessions, ["s1", "s2"]);
    }
    let bench = Bench::new(&json!({"session": true, "rules": [{"method": "tools/list", "steps": gone(404, "")}]}));
    run(&["-s", &bench.http().url, "tools"]).exits(3).says("no longer knows the session");
    assert_eq!((bench.of("initialize").len(), bench.of("tools/list").len()), (2, 2));
    // A call is not repeated: whether it was acted on is not known.
    let bench = Bench::new(&json!({"session": true, "rules": [{"method": "tools/call", "steps": gone(404, "")}]}));
    let outcome = run(&["-s", &bench.http().url, "call", "plain"]);
    outcome.exits(3).says("no longer knows the session");
    assert!(!outcome.stderr.contains("may have started"), "{outcome:?}");
    assert_eq!(bench.of("tools/call").len(), 1);
}

#[test]
fn redirects_keep_method_and_body_within_the_origin() {
    let to = |status: u16, location: &str| json!([{"http": {"status": status, "headers": {"Location": location}}}]);
    let bench = Bench::new(&json!({"rules": [
        {"method": "initialize", "nth": 1, "steps": to(308, "/mcp/")},
        {"method": "tools/call", "nth": 1, "steps": to(307, "/mcp/cake")},
        {"method": "tools/call", "nth": 2, "steps": [{"reply": text("cake")}]},
    ]}));
    run(&["-s", &bench.http().url, "call", "plain", "--no-validate", "a=1"]).exits(0).prints("cake\n");
    let calls = bench.of("tools/call");
    assert_eq!(calls[1]["headers"][":path"], "/mcp/cake");
    assert_eq!(calls[0]["message"], calls[1]["message"]);
    for (status, location) in [(301, "/new"), (302, "/new"), (307, "http://127.0.0.1:1/elsewhere")] {
        let bench = Bench::new(&json!({"rules": [{"method": "initialize", "steps": to(status, location)}]}));
        let outcome = run(&["-s", &bench.http().url, "tools"]);
        outcome.exits(3).says(&format!("redirects (HTTP {status})")).says(location);
        assert_eq!((bench.of("initialize").len(), bench.of("GET").len()), (1, 0));
    }
    let bench = Bench::new(&json!({"rules": [{"method": "initialize", "steps": to(307, "/mcp")}]}));
    run(&["-s", &bench.http().url, "tools"]).exits(3).says("more than 10 redirects");
}

#[test]
fn a_server_of_the_older_transport_is_spoken_to() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "initialize", "nth": 1, "steps": [{"http": {"status": 405}}]},
        {"method": "initialize", "nth": 2, "steps": [{"http": {"status": 202}}]},
        {"method": "tools/list", "steps": [{"http": {"status": 202}}]},
        {"method": "GET", "steps": [{"sse": {}}, {"raw": "event: endpoint\ndata: /messages?id=1\n\n"}, {"sleep": 200},
            {"raw": "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{\"protocolVersion\":\"2024-11-05\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"old\",\"version\":\"1\"}}}\n\n"},
            {"sleep": 300},
            {"raw": "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{\"tools\":[{\"name\":\"old-tool\"}]}}\n\n"}, {"hold": {}}]},
    ]}));
    let outcome = run(&["-s", &bench.http().url, "tools"]);
    assert!(outcome.exits(0).stdout.contains("old-tool"), "{outcome:?}");
    assert_eq!(bench.of("tools/list")[0]["headers"][":path"], "/messages?id=1");
}

#[test]
fn without_its_one_stream_the_older_transport_is_at_its_end() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "initialize", "nth": 1, "steps": [{"http": {"status": 405}}]},
        {"method": "initialize", "nth": 2, "steps": [{"http": {"status": 202}}]},
        {"method": "tools/list", "steps": [{"http": {"status": 202}}]},
        {"method": "GET", "steps": [{"sse": {}}, {"raw": "event: endpoint\ndata: /messages?id=1\n\n"}, {"sleep": 200},
            {"raw": "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{\"protocolVersion\":\"2024-11-05\",\"capabilities\":{\"tools\":{}}}}\n\n"},
            {"sleep": 300}]},
    ]}));
    let outcome = run(&["-s", &bench.http().url, "tools"]);
    outcome.exits(3).says("the stream that brings the server's messages ended: the server closed it");
}

#[test]
fn a_page_for_browsers_is_not_shown_and_the_path_is_suspected() {
    let page = "<!DOCTYPE html><html><body>Cannot POST /</body></html>";
    let bench = Bench::new(&json!({"rules": [
        {"method": "initialize", "steps": [{"http": {"status": 404, "body": page}}]},
        {"method": "GET", "steps": [{"http": {"status": 404, "body": page}}]},
    ]}));
    let outcome = run(&["-s", &bench.http().url, "tools"]);
    outcome.exits(3).says("answered HTTP 404").says("check the path");
    assert!(!outcome.stderr.contains("html"), "{outcome:?}");
}

#[test]
fn a_password_in_a_url_is_never_shown() {
    let bench = on_call(json!([{"http": {"status": 500}}]));
    let server = bench.http();
    let url = server.url.replace("http://", "http://me:hush-hush@");
    for arguments in [&["call", "plain"][..], &["tools", "nope"], &["call", "plain", "--json"]] {
        let outcome = run(&[&["-s", &url, "-v"], arguments].concat());
        assert!(outcome.code != 0 && !format!("{outcome:?}").contains("hush"), "{outcome:?}");
    }
    assert_eq!(bench.of("tools/call")[0]["headers"]["authorization"], "Basic bWU6aHVzaC1odXNo");
    let refused = run(&["-s", "http://me:hush-hush@127.0.0.1:1/mcp", "tools"]);
    assert!(!refused.exits(3).stderr.contains("hush"), "{refused:?}");
}

#[test]
fn what_the_server_asks_on_its_own_stream_is_answered() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "GET", "steps": [{"sse": {}}, {"send": {"jsonrpc": "2.0", "id": 0, "method": "ping"}}, {"hold": {}}]},
        {"method": "tools/call", "steps": [{"await": 0}, {"reply": text("ok")}]},
    ]}));
    run(&["-s", &bench.http().url, "call", "plain"]).exits(0);
    assert_eq!(bench.of("")[0]["message"], json!({"jsonrpc": "2.0", "id": 0, "result": {}}));
}

#[test]
fn an_answer_may_come_on_the_stream_for_unasked_messages() {
    let answer = json!({"jsonrpc": "2.0", "id": null, "result": text("elsewhere")});
    let receipt = json!([{"http": {"status": 202}}]);
    let bench = Bench::new(&json!({"rules": [
        {"method": "GET", "steps": [{"sse": {}}, {"sleep": 500}, {"send": answer}, {"hold": {}}]},
        {"method": "tools/call", "steps": receipt},
    ]}));
    run(&["-s", &bench.http().url, "call", "plain"]).exits(0).prints("elsewhere\n");
    let bench = Bench::new(&json!({"rules": [
        {"method": "GET", "nth": 1, "steps": [{"sse": {}}, {"sleep": 300}]},
        {"method": "tools/call", "steps": receipt},
    ]}));
    run(&["-s", &bench.http().url, "call", "plain"]).exits(4).says("HTTP 202, an empty body");
}

#[test]
fn a_large_event_passes_and_an_endless_one_does_not() {
    let bench = on_call(json!([{"sse": {}}, {"big": 12 << 20}]));
    let outcome = run(&["-s", &bench.http().url, "call", "plain"]);
    assert_eq!(outcome.exits(0).stdout.len(), (12 << 20) + 1);
    let bench = on_call(json!([{"sse": {}}, {"raw": "data: "}, {"flood": 8 << 20}, {"hold": {}}]));
    run(&["-s", &bench.http().url, "--max-message", "2M", "call", "plain"])
        .exits(3)
        .says("larger than the limit of 2097152 bytes");
    let bench = on_call(json!([{"big": 4 << 20}]));
    run(&["-s", &bench.http().url, "--max-message", "2M", "call", "plain"])
        .exits(3)
        .says("larger than the limit of 2097152 bytes");
}

#[test]
fn a_trace_has_both_directions_and_no_secret() {
    let bench = on_call(json!([{"reply": text("the token is hush-hush")}]));
    let trace = bench.path("trace.jsonl");
    let trace = trace.display().to_string();
    run(&["-s", &bench.http().url, "--bearer", "hush-hush", "--trace", &trace, "call", "plain"]).exits(0);
    let text = std::fs::read_to_string(&trace).unwrap();
    assert!(!text.contains("hush-hush") && text.contains("the token is ***"), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let way = |line: &Value| {
        (line["direction"].as_str().unwrap().to_owned(), line["message"]["method"].as_str().unwrap_or("").to_owned())
    };
    assert_eq!(way(&lines[0]), ("sent".to_owned(), "initialize".to_owned()));
    assert_eq!(lines.iter().filter(|line| line["direction"] == "received").count(), 3);
}

#[test]
fn a_certificate_of_ones_own_is_trusted_where_it_is_named() {
    let bench = on_call(json!([{"sse": {}}, {"reply": text("over TLS")}]));
    let server = bench.https();
    let pem = bench.path("ca.pem").display().to_string();
    run(&["-s", &server.url, "--ca-cert", &pem, "call", "plain"]).exits(0).prints("over TLS\n");
    run(&["-s", &server.url, "call", "plain"]).exits(3).says("invalid peer certificate");
    run(&["-s", &server.url, "--ca-cert", "/no/such.pem", "tools"])
        .exits(2)
        .says("cannot read the certificates in /no/such.pem");
    let script = bench.path("script.json").display().to_string();
    run(&["-s", &server.url, "--ca-cert", &script, "tools"]).exits(2).says("holds no PEM certificates");
}

#[test]
fn proxies_of_the_environment_are_used() {
    let bench = on_call(json!([{"reply": text("by proxy")}]));
    let proxy = bench.http();
    let mut command = program(&["-s", "http://bakery.invalid/mcp", "call", "plain"]);
    command.env("http_proxy", proxy.url.trim_end_matches("/mcp"));
    finish(command).exits(0).prints("by proxy\n");
    let call = &bench.of("tools/call")[0]["headers"];
    assert_eq!((&call[":path"], &call["host"]), (&json!("http://bakery.invalid/mcp"), &json!("bakery.invalid")));
    let mut command = program(&["-s", &proxy.url, "call", "plain"]);
    command.env("http_proxy", "http://127.0.0.1:1").env("no_proxy", "127.0.0.1");
    finish(command).exits(0);
}
