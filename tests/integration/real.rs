//! Servers that others wrote, over each transport they have. `tests/setup` installs them.

use std::process::Command;

use crate::support::{Outcome, Running, free_port, root, run};

pub const EVERYTHING: &str = ".servers/node/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
const EVERYTHING_OLD: &str =
    ".servers/everything-2026.1.26/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
pub const SDK_EXAMPLES: &str = ".servers/node/node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server";
const PYTHON: &str = ".servers/py3/bin/python";
const RMCP: &str = ".servers/rmcp-legacy/debug/rmcp-legacy";

/// Starts a server whose last argument or environment variable is its port.
pub fn serve(program: &str, arguments: &[&str], port_variable: Option<&str>, path: &str) -> Running {
    let port = free_port();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    match port_variable {
        Some(variable) => command.env(variable, port.to_string()),
        None => command.arg(port.to_string()),
    };
    Running::start(&mut command, port, path)
}

fn call(server: &str, arguments: &[&str]) -> Outcome {
    run(&[&["-s", server, "call"], arguments].concat())
}

/// The task is made without being asked for, and its report printed.
#[track_caller]
fn researches(server: &str) {
    let outcome = call(server, &["simulate-research-query", "topic=rust", "--ttl", "5m"]);
    outcome.exits(0).says("task ").says("(kept for 5m 00s)").says("working: Gathering sources...");
    assert!(outcome.stdout.starts_with("# Research Report: rust\n"), "{outcome:?}");
}

#[test]
fn everything_over_stdio() {
    let server = format!("node {EVERYTHING} stdio");
    researches(&server);
    call(&server, &["echo", "message=hi"]).exits(0).prints("Echo: hi\n");
    call(&server, &["echo", "message=hi", "--task"]).exits(2).says("cannot be called as a task");
    call(&server, &["simulate-research-query", "topic=rust", "--no-task"])
        .exits(2)
        .says("can only be called as a task");
    call(&server, &["get-tiny-image"]).exits(0).says("");
}

#[test]
fn everything_over_http() {
    let server = serve("node", &[EVERYTHING, "streamableHttp"], Some("PORT"), "/mcp");
    researches(&server.url);
    call(&server.url, &["echo", "message=hi"]).exits(0).prints("Echo: hi\n");
    let detached = call(&server.url, &["simulate-research-query", "topic=rust", "--detach"]);
    assert!(!detached.exits(0).stdout.trim().is_empty());
    run(&["-s", &server.url, "get", "nope"]).exits(10);
    let cancelled = call(&server.url, &["simulate-research-query", "topic=rust", "--timeout", "1s"]);
    cancelled.exits(8).says("goes on");
}

#[test]
fn everything_over_the_older_transport() {
    let server = serve("node", &[EVERYTHING, "sse"], Some("PORT"), "/sse");
    researches(&server.url);
    call(&server.url, &["echo", "message=hi"]).exits(0).prints("Echo: hi\n");
}

#[test]
fn everything_of_january() {
    researches(&format!("node {EVERYTHING_OLD} stdio"));
    let server = serve("node", &[EVERYTHING_OLD, "streamableHttp"], Some("PORT"), "/mcp");
    researches(&server.url);
}

#[test]
fn everything_through_npx_leaves_no_process() {
    let server = "npx --prefix .servers/node mcp-server-everything stdio";
    call(server, &["echo", "message=hi"]).exits(0).prints("Echo: hi\n");
}

#[test]
fn the_typescript_sdk() {
    let file = format!("{SDK_EXAMPLES}/simpleStreamableHttp.js");
    let server = serve("node", &[&file], Some("MCP_PORT"), "/mcp");
    call(&server.url, &["delay", "duration=700"]).exits(0).prints("Completed 700ms delay\n");
    call(&server.url, &["greet", "name=Ada"]).exits(0).prints("Hello, Ada!\n");
    call(&server.url, &["delay", "duration=soon"]).exits(2).says("`duration` should be");
}

/// A question that comes on the stream of its own, for a task that may be born waiting.
#[test]
fn the_typescript_sdk_that_asks() {
    let file = format!("{SDK_EXAMPLES}/simpleTaskInteractive.js");
    let server = serve("node", &[&file], Some("PORT"), "/mcp");
    let delete = |arguments: &[&str]| call(&server.url, &[&["confirm_delete", "filename=x"], arguments].concat());
    delete(&["--answer", "confirm=true"]).exits(0).prints("Deleted 'x'\n").says("Are you sure you want to delete 'x'?");
    delete(&["--answer", "confirm=maybe"]).exits(9).says("`confirm` should be boolean, not `maybe`");
    let program = "exec:sh -c 'echo {\\\"confirm\\\":false}'";
    assert_ne!(delete(&["--on-input", program]).exits(0).stdout, "Deleted 'x'\n");
    delete(&[]).exits(9).says("confirm: true or false").says("confirm=…");
    run(&["-s", &server.url, "answer", "--last", "confirm=true"]).exits(0).says("answered (accept)");
    run(&["-s", &server.url, "watch", "--last"]).exits(0).prints("Deleted 'x'\n");
}

/// Its task calls itself working while it asks.
#[test]
fn the_typescript_sdk_that_asks_while_it_works() {
    let file = format!("{SDK_EXAMPLES}/simpleStreamableHttp.js");
    let server = serve("node", &[&file], Some("MCP_PORT"), "/mcp");
    let collect =
        |arguments: &[&str]| call(&server.url, &[&["collect-user-info-task", "infoType=contact"], arguments].concat());
    let answered = collect(&["--answer", "name=Ada", "--answer", "email=ada@a.example"]);
    assert!(answered.exits(0).stdout.contains("\"name\": \"Ada\""), "{answered:?}");
    collect(&["--answer", "email=ada@a.example"]).exits(9).says("`name` is missing");
}

#[track_caller]
fn clarifies(server: &str) {
    let research = |arguments: &[&str]| {
        call(server, &[&["simulate-research-query", "topic=python", "ambiguous=true"], arguments].concat())
    };
    let report = research(&["--answer", "interpretation=snake"]);
    assert!(report.exits(0).stdout.contains("\"snake\""), "{report:?}");
    research(&["--answer", "interpretation=cake"]).exits(9).says("`interpretation` should be one of \"programming\"");
}

#[test]
fn everything_asks_what_is_meant() {
    clarifies(&format!("node {EVERYTHING} stdio"));
    let server = serve("node", &[EVERYTHING, "streamableHttp"], Some("PORT"), "/mcp");
    clarifies(&server.url);
    let research = ["simulate-research-query", "topic=python", "ambiguous=true"];
    call(&server.url, &research).exits(9);
    run(&["-s", &server.url, "answer", "--last", "interpretation=comedy"]).exits(0);
    let report = run(&["-s", &server.url, "watch", "--last"]);
    assert!(report.exits(0).stdout.contains("\"comedy\""), "{report:?}");
}

/// It asks at once, does not say for which task, and calls that working.
#[test]
fn everything_of_january_asks_too() {
    clarifies(&format!("node {EVERYTHING_OLD} stdio"));
}

#[track_caller]
fn bakes(server: &str, bake: &str, burn: &str, burnt: i32, words: &str) {
    call(server, &[bake, "loaves=3"]).exits(0).prints("3 loaves\n").says("task ");
    call(server, &[burn]).exits(burnt).says("task ").says(words).prints("");
    call(server, &[bake, "loaves=three"]).exits(2).says("`loaves` should be integer, not `three`");
}

#[test]
fn arcade() {
    let tools = "tests/servers/arcade_tools.py";
    bakes(&format!("{PYTHON} {tools} stdio"), "Bakery_Bake", "Bakery_Burn", 6, "ValueError");
    let server = serve(PYTHON, &[tools, "http"], None, "/mcp");
    bakes(&server.url, "Bakery_Bake", "Bakery_Burn", 6, "ValueError");
    run(&["-s", &server.url, "get", "nope"]).exits(10);
}

#[test]
fn fastmcp() {
    let tools = "tests/servers/fastmcp_tasks.py";
    bakes(&format!("{PYTHON} {tools} stdio"), "bake", "burn", 6, "the bread is burnt");
    let server = serve(PYTHON, &[tools, "http"], None, "/mcp");
    bakes(&server.url, "bake", "burn", 6, "the bread is burnt");
    call(&server.url, &["greet", "name=Ada"]).exits(0).prints("Good morning, Ada\n");
    let id = call(&server.url, &["bake", "loaves=100", "--detach"]);
    let cancelled = run(&["-s", &server.url, "cancel", id.exits(0).stdout.trim()]);
    cancelled.exits(0).says("");
}

#[test]
fn fastmcp_that_asks() {
    let tools = "tests/servers/fastmcp_tasks.py";
    let over_stdio = format!("{PYTHON} {tools} stdio");
    let over_http = serve(PYTHON, &[tools, "http"], None, "/mcp");
    for server in [&over_stdio, &over_http.url] {
        call(server, &["season", "--answer", "grams=7"]).exits(0).prints("7 g of salt\n").says("How much salt?");
        call(server, &["season", "--on-input", "decline"]).exits(0).prints("no salt\n");
        call(server, &["season", "--answer", "grams=lots"]).exits(9).says("`grams` should be integer, not `lots`");
    }
    call(&over_http.url, &["season"]).exits(9).says("grams=…");
    run(&["-s", &over_http.url, "answer", "--last", "grams=9"]).exits(0);
    run(&["-s", &over_http.url, "watch", "--last"]).exits(0).prints("9 g of salt\n");
}

#[test]
fn the_python_sdk_that_asks() {
    let port = free_port();
    let mut command = Command::new(root().join(PYTHON));
    command.args(["-m", "mcp_simple_task_interactive", "--port", &port.to_string()]);
    command.current_dir(root().join(".servers/sdist/mcp-1.30.0/examples/servers/simple-task-interactive"));
    let server = Running::start(&mut command, port, "/mcp");
    let delete = ["confirm_delete", "filename=x"];
    call(&server.url, &[&delete[..], &["--answer", "confirm=true"]].concat()).exits(0).prints("Deleted 'x'\n");
    call(&server.url, &delete).exits(9).says("confirm=…");
    run(&["-s", &server.url, "answer", "--last", "confirm=true"]).exits(0);
    run(&["-s", &server.url, "watch", "--last"]).exits(0).prints("Deleted 'x'\n");
}

#[test]
fn the_python_sdk() {
    let port = free_port();
    let mut command = Command::new(root().join(PYTHON));
    command.args(["-m", "mcp_simple_task", "--port", &port.to_string()]);
    command.current_dir(root().join(".servers/sdist/mcp-1.30.0/examples/servers/simple-task"));
    let server = Running::start(&mut command, port, "/mcp");
    call(&server.url, &["long_running_task"])
        .exits(0)
        .prints("Task completed!\n")
        .says("working: Processing step 1...");
}

#[test]
fn the_rust_sdk_of_before() {
    bakes(&format!("{RMCP} stdio"), "bake", "burn", 5, "the bread is burnt");
    let server = serve(RMCP, &["http"], None, "/mcp");
    bakes(&server.url, "bake", "burn", 5, "the bread is burnt");
}

/// Its one tool is born with a question, which can be answered in the later era alone.
#[test]
fn pmcp() {
    let port = free_port();
    let mut command = Command::new(root().join(".servers/pmcp/bin/s50_v2_tasks_server"));
    let server = Running::start(command.arg(format!("127.0.0.1:{port}")), port, "/");
    let outcome = call(&server.url, &["research"]);
    outcome.exits(9).says("input required").says("waits for an answer");
    let list = run(&["-s", &server.url, "list", "--json"]).exits(0).json();
    let id = list[0]["taskId"].as_str().expect("an id").to_owned();
    run(&["-s", &server.url, "cancel", &id]).exits(0).prints(&format!("task {id} is cancelled\n"));
    run(&["-s", &server.url, "watch", &id]).exits(7);
}

/// A real product whose backend refuses us: the task fails, and the reason is shown.
#[test]
fn apify() {
    let backend = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = backend.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in backend.incoming().flatten() {
            let body = r#"{"error":{"type":"user-or-token-not-found","message":"no"}}"#;
            let head = "HTTP/1.1 401 X\r\nContent-Type: application/json\r\nConnection: close\r\n";
            let refusal = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
            let mut stream = stream;
            let mut head = [0; 4096];
            let _ = std::io::Read::read(&mut stream, &mut head);
            let _ = std::io::Write::write_all(&mut stream, refusal.as_bytes());
        }
    });
    let node = ".servers/apify/node_modules/.bin/node";
    let program = ".servers/apify/node_modules/@apify/actors-mcp-server/dist/stdio.js";
    let server = format!("{node} {program} --telemetry-enabled=false --tools=call-actor,docs");
    let base = format!("APIFY_API_BASE_URL=http://127.0.0.1:{port}");
    let input = r#"input={"query":"x"}"#;
    let outcome =
        call(&server, &["call-actor", "actor=apify/rag-web-browser", input, "--env", "APIFY_TOKEN=x", "--env", &base]);
    outcome.exits(6).says("task ").says("failed").says("the tool reports an error");
}
