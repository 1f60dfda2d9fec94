//! Stdio servers that live on between commands: holders, what they keep, and what is left when they end.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Bench, Outcome, finish, program, signal, until, wait};

/// A state folder of its own in which servers are held. All that lives there is gone when it is dropped.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command.env("MCP_TASK_STATE_DIR", self.0.path()).env_remove("MCP_TASK_NO_HOLD");
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        finish(self.command(arguments))
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Starts a task and returns its id.
    fn detach(&self, arguments: &[&str]) -> String {
        self.run(&[arguments, &["--detach"]].concat()).exits(0).stdout.trim().to_owned()
    }

    fn sessions(&self) -> Value {
        self.run(&["sessions", "list", "--json"]).exits(0).json()
    }

    /// The processes that inherited this folder's name, and their command lines.
    fn living(&self) -> Vec<(Pid, String)> {
        let needle = format!("MCP_TASK_STATE_DIR={}\0", self.0.path().display());
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ours = processes.filter_map(|process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            let environment =
                String::from_utf8_lossy(&std::fs::read(process.path().join("environ")).ok()?).into_owned();
            let line = String::from_utf8_lossy(&std::fs::read(process.path().join("cmdline")).ok()?).replace('\0', " ");
            (format!("{environment}\0").contains(&needle) && !line.is_empty()).then_some((Pid::from_raw(pid), line))
        });
        ours.collect()
    }

    fn pid_of(&self, what: &str) -> Pid {
        let living = self.living();
        living.iter().find(|(_, line)| line.contains(what)).unwrap_or_else(|| panic!("no {what} in {living:?}")).0
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.0.path().join("holders")).into_iter().flatten().flatten();
        files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "sock")).collect()
    }

    fn assert_nothing_lives(&self) {
        until("the end of all processes", || self.living().is_empty());
        assert_eq!(self.sockets(), Vec::<PathBuf>::new());
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command(&["sessions", "stop"]).output();
        for (pid, _) in self.living() {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}

fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "ttl": 600_000, "pollInterval": 100})
}

/// A server whose one task is done at the third look, and hands its result out once, as some do.
fn bakery() -> Bench {
    Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tasks/get", "nth": 1, "steps": [{"reply": task("t-loaf", "working")}]},
        {"method": "tasks/get", "nth": 2, "steps": [{"reply": task("t-loaf", "working")}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "completed")}]},
        {"method": "tasks/result", "nth": 1, "steps": [
            {"sleep": 600}, {"reply": {"content": [{"type": "text", "text": "a loaf"}]}},
        ]},
        {"method": "tasks/result", "steps": [{"error": {"code": -32602, "message": "the result was taken"}}]},
    ]}))
}

#[test]
fn a_detached_task_is_watched_from_another_shell() {
    let (bench, home) = (bakery(), Home::new());
    let detached = home.run(&["-s", &bench.stdio(), "call", "bake", "--detach"]);
    detached.exits(0).prints("t-loaf\n").says("mcp-task watch t-loaf");
    home.run(&["watch", "t-loaf"]).exits(0).prints("a loaf\n");
    assert_eq!((bench.of("initialize").len(), bench.of("notifications/initialized").len()), (1, 1));
    assert_eq!((bench.of("tools/call").len(), bench.of("tasks/result").len()), (1, 1));
    home.run(&["sessions", "stop"]).exits(0);
    home.assert_nothing_lives();
    bench.assert_nothing_lives();
    home.run(&["result", "t-loaf"]).exits(0).prints("a loaf\n");
}

#[test]
fn a_killed_shell_takes_neither_task_nor_server_with_it() {
    let (bench, home) = (bakery(), Home::new());
    let child = home.start(&["-s", &bench.stdio(), "call", "bake"]);
    // The server hands the result out once, and it is on its way to a command that is no more.
    until("the question for the result", || !bench.of("tasks/result").is_empty());
    signal(&child, Signal::SIGKILL);
    wait(child, Instant::now());
    home.run(&["watch", "--last"]).exits(0).prints("a loaf\n");
    assert_eq!((bench.of("initialize").len(), bench.of("tools/call").len()), (1, 1));
}

#[test]
fn leaving_a_task_that_is_not_recorded_leaves_it_running() {
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "working")}]},
        {"method": "tasks/result", "steps": [{"sleep": 600_000}]},
    ]}));
    let home = Home::new();
    let server = bench.stdio();
    home.detach(&["-s", &server, "call", "bake"]);
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(home.0.path().join(format!("tasks.sqlite3{end}")));
    }
    let child = home.start(&["-s", &server, "watch", "t-loaf"]);
    until("the question for the result", || !bench.of("tasks/result").is_empty());
    signal(&child, Signal::SIGINT);
    wait(child, Instant::now()).exits(8);
    assert!(bench.of("tasks/cancel").is_empty());
}

#[test]
fn while_some_wait_others_are_answered() {
    let home = Home::new();
    let long = home.detach(&["-s", "demo", "call", "hunt-primes", "seconds=600", "--ttl", "1h"]);
    let other = home.detach(&["-s", "demo", "call", "hunt-primes", "seconds=500"]);
    let watchers = [0; 3].map(|_| home.start(&["watch", &long]));
    until("the watchers", || home.sessions()[0]["commands"] == 3);
    signal(&watchers[0], Signal::SIGKILL);
    let status = home.run(&["get", &other, "--json"]).exits(0).json()["status"].clone();
    assert_eq!(status, "working");
    home.run(&["-s", "demo", "tools"]).exits(0);
    home.run(&["cancel", &other]).exits(0).prints(&format!("task {other} is cancelled\n"));
    home.run(&["watch", &other]).exits(7);
    until("one watcher less", || home.sessions()[0]["commands"] == 2);
    assert_eq!(home.sessions()[0]["tasks"], json!([long]), "the cancelled one needs no server");
    home.run(&["cancel", &long]).exits(0);
    let exits = watchers.map(|watcher| wait(watcher, Instant::now()).code);
    assert_eq!(exits, [137, 7, 7]);
    assert_eq!(home.sessions().as_array().map(Vec::len), Some(1));
}

#[test]
fn many_at_once_start_one_holder_and_none_is_lost() {
    const MANY: usize = 100;
    let home = Home::new();

    let calls: Vec<Child> =
        (0..MANY).map(|_| home.start(&["-s", "demo", "call", "hunt-primes", "seconds=1", "--detach"])).collect();
    let mut ids: Vec<String> =
        calls.into_iter().map(|call| wait(call, Instant::now()).exits(0).stdout.trim().to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), MANY);
    let listed = home.run(&["list", "--offline", "--json"]).exits(0).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(MANY));
    assert_eq!(home.living().iter().filter(|(_, line)| line.contains("hold-server")).count(), 1);
    let watched = home.run(&["watch", "--json"]).exits(0).json();
    let ended: Vec<&Value> =
        watched.as_array().unwrap().iter().filter(|row| row["result"]["content"].is_array()).collect();
    let before = listed.as_array().unwrap().iter().filter(|row| row["hasResult"] == true).count();
    assert_eq!(ended.len() + before, MANY);
    assert!(home.run(&["list", "--json"]).json().as_array().unwrap().iter().all(|row| row["hasResult"] == true));
}

#[test]
fn a_killed_holder_is_told_and_the_next_call_has_a_new_one() {
    let (bench, home) = (bakery(), Home::new());
    home.detach(&["-s", &bench.stdio(), "call", "bake"]);
    kill(home.pid_of("hold-server"), Signal::SIGKILL).unwrap();
    // The server's stdin has ended with its holder.
    bench.assert_nothing_lives();
    let lost = "task t-loaf is lost with its server: the process that held it was killed";
    assert_eq!(home.run(&["list", "--json", "--offline"]).json()[0]["lost"], false);
    assert_eq!(home.run(&["list", "--json"]).json()[0]["lost"], true, "the list looks whether its holder lives");
    home.run(&["watch", "t-loaf"]).exits(10).says(lost);
    for command in ["get", "result", "cancel", "watch"] {
        home.run(&[command, "t-loaf"]).exits(10).says(lost);
    }
    assert_eq!(home.run(&["list", "--json"]).json()[0]["lost"], true);
    assert_eq!(home.sessions(), json!([]));
    assert_eq!(home.sockets().len(), 1, "nobody was there to remove it");
    home.detach(&["-s", &bench.stdio(), "call", "bake"]);
    home.run(&["watch", "--last"]).exits(0).prints("a loaf\n");
}

#[test]
fn a_killed_server_is_told_to_those_who_wait_and_those_who_come() {
    let bench = Bench::new(&json!({"start": [{"stderr": "the oven is hot"}], "rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "working")}]},
        {"method": "tasks/result", "steps": []},
    ]}));
    let home = Home::new();
    home.detach(&["-s", &bench.stdio(), "call", "bake"]);
    let watcher = home.start(&["watch", "t-loaf"]);
    until("a poll", || !bench.of("tasks/get").is_empty());
    kill(home.pid_of("fake-mcp"), Signal::SIGKILL).unwrap();
    wait(watcher, Instant::now()).exits(3).says("the oven is hot").says("signal");
    home.assert_nothing_lives();
    home.run(&["watch", "t-loaf"]).exits(10).says("lost with its server").says("signal");
    home.run(&["get", "t-loaf"]).exits(10).says("signal");
}

#[test]
fn a_server_that_nobody_needs_is_ended() {
    let (bench, home) = (bakery(), Home::new());
    home.run(&["-s", &bench.stdio(), "call", "bake", "--hold-idle", "300ms"]).exits(0).prints("a loaf\n");
    home.assert_nothing_lives();
    bench.assert_nothing_lives();
    assert_eq!(home.run(&["list", "--json"]).json()[0]["status"], "completed");
    // A task that may still run keeps its server.
    let id = home.detach(&["-s", "demo", "call", "hunt-primes", "seconds=2", "--hold-idle", "1ms"]);
    std::thread::sleep(Duration::from_millis(300));
    home.run(&["watch", &id]).exits(0);
    home.assert_nothing_lives();
}

#[test]
fn a_server_that_runs_no_task_is_not_held() {
    let (bench, home) = (bakery(), Home::new());
    let server = bench.stdio();
    home.run(&["-s", &server, "tools"]).exits(0);
    home.run(&["-s", &server, "call", "nothing-like-it"]).exits(2);
    home.run(&["-s", &server, "call", "bake", "--hold-idle", "0"]).exits(0).prints("a loaf\n");
    home.assert_nothing_lives();
    bench.assert_nothing_lives();
    home.detach(&["-s", &server, "call", "bake"]);
    let before = bench.of("initialize").len();
    home.run(&["-s", &server, "tools"]).exits(0);
    assert_eq!(bench.of("initialize").len(), before, "a look uses what is there");
}

#[test]
fn sessions_of_a_name_are_apart() {
    let home = Home::new();
    let one = home.detach(&["-s", "demo", "call", "hunt-primes", "seconds=60", "--session", "one"]);
    let two = home.detach(&["-s", "demo", "call", "hunt-primes", "seconds=60", "--session", "two"]);
    let none = home.detach(&["-s", "demo", "call", "hunt-primes", "seconds=60"]);
    assert_eq!(home.sessions().as_array().map(Vec::len), Some(3));
    home.run(&["sessions", "stop", "one"]).exits(0);
    home.run(&["sessions", "stop", "one"]).exits(2).says("no server is held under the key or name `one`");
    home.run(&["get", &one]).exits(10).says("stopped by `mcp-task sessions stop`");
    for id in [two, none] {
        home.run(&["get", &id]).exits(0);
    }
    home.run(&["sessions", "stop"]).exits(0);
    home.assert_nothing_lives();
}

/// A holder of a version to come.
const STRANGER: &str = r#"
import os, socket, sys
os.unlink(sys.argv[1])
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print(".", end="", flush=True)
while True:
    one, _ = listener.accept()
    one.recv(4096)
    one.sendall(b'{"holder":99,"program":"9.9.9","instance":"00"}\n')
    one.close()
"#;

#[test]
fn a_holder_of_another_version_is_refused_helpfully() {
    let home = Home::new();
    home.detach(&["-s", "demo", "call", "hunt-primes", "seconds=60"]);
    kill(home.pid_of("hold-server"), Signal::SIGKILL).unwrap();
    until("the end of all processes", || home.living().is_empty());
    let socket = home.sockets().remove(0);
    let mut stranger =
        Command::new("python3").args(["-c", STRANGER]).arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
    stranger.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    home.run(&["-s", "demo", "call", "hunt-primes", "seconds=1"])
        .exits(3)
        .says("it was started by mcp-task 9.9.9")
        .says("mcp-task sessions stop");
    home.run(&["-s", "demo", "tools"]).exits(0).says("9.9.9");
    home.run(&["-s", "demo", "call", "hunt-primes", "seconds=1", "--no-hold"]).exits(0);
    home.run(&["sessions", "list"]).exits(0).says("cannot be used: it was started by mcp-task 9.9.9");
    home.run(&["sessions", "stop"]).exits(0);
    assert_eq!(stranger.wait().unwrap().signal(), Some(15));
}

#[test]
fn what_a_terminal_ends_does_not_end_the_server() {
    let (bench, home) = (bakery(), Home::new());
    let child = home.start(&["-s", &bench.stdio(), "call", "bake"]);
    until("a poll", || !bench.of("tasks/get").is_empty());
    signal(&child, Signal::SIGHUP);
    wait(child, Instant::now()).exits(8).says("mcp-task watch t-loaf");
    home.run(&["watch", "t-loaf"]).exits(0).prints("a loaf\n");
}

#[test]
fn the_socket_is_the_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.detach(&["-s", "demo", "call", "hunt-primes", "seconds=60"]);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let socket = home.sockets().remove(0);
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
}

/// The acceptance line of a real server behind `npx`: the wrapper, its shell and the server are held together.
#[test]
fn a_real_server_behind_a_wrapper_is_held() {
    let home = Home::new();
    let server = "npx --prefix .servers/node mcp-server-everything stdio";
    let id = home.detach(&["-s", server, "call", "simulate-research-query", "topic=rust"]);
    let watched = home.run(&["watch", &id]);
    assert!(watched.exits(0).stdout.starts_with("# Research Report: rust\n"), "{watched:?}");
    let child = home.start(&["-s", server, "call", "simulate-research-query", "topic=bread"]);
    until("the second task", || {
        home.run(&["list", "--live", "--json"]).json().as_array().is_some_and(|all| all.len() == 1)
    });
    signal(&child, Signal::SIGKILL);
    wait(child, Instant::now());
    let watched = home.run(&["watch", "--last"]);
    assert!(watched.exits(0).stdout.starts_with("# Research Report: bread\n"), "{watched:?}");
    home.run(&["sessions", "stop"]).exits(0);
    home.assert_nothing_lives();
}

/// A server that asks for its task as soon as somebody waits for the result.
fn asking() -> Bench {
    let question = json!({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {
        "message": "Which flour?", "requestedSchema": {"type": "object", "properties": {"flour": {"type": "string"}}, "required": ["flour"]},
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-loaf"}}}});
    Bench::new(&json!({"rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task("t-loaf", "working")}}, {"sleep": 200}, {"send": question}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "working")}]},
        {"method": "tasks/result", "steps": [{"await": 0}, {"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ]}))
}

fn answers_to(bench: &Bench) -> Vec<Value> {
    let answered = bench.of("").into_iter().map(|seen| seen["message"]["result"].clone());
    answered.filter(|result| result["action"].is_string()).collect()
}

#[test]
fn a_question_that_came_while_nobody_was_there_is_answered_from_another_shell() {
    let (bench, home) = (asking(), Home::new());
    home.detach(&["-s", &bench.stdio(), "call", "bake"]);
    until("the question", || {
        let rows = home.run(&["list", "--json"]).json();
        rows[0]["waiting"] == true
    });
    home.run(&["list"]).exits(0).says("hint: mcp-task answer t-loaf");
    let shown = home.run(&["answer", "t-loaf", "--json"]).exits(0).json();
    assert_eq!(shown[0]["message"], "Which flour?");
    home.run(&["answer", "t-loaf", "flour=rye"]).exits(0);
    home.run(&["answer", "t-loaf", "flour=oat"]).exits(2).says("asks nothing");
    home.run(&["watch", "t-loaf"]).exits(0).prints("a loaf\n");
    let answers = answers_to(&bench);
    assert_eq!((answers.len(), &answers[0]["content"]), (1, &json!({"flour": "rye"})));
    let rows = home.run(&["list", "--json"]).json();
    assert_eq!(rows[0]["waiting"], false);
}

#[test]
fn of_several_commands_that_are_asked_one_answers() {
    let (bench, home) = (asking(), Home::new());
    home.detach(&["-s", &bench.stdio(), "call", "bake"]);
    let watchers: Vec<Child> = (0..3)
        .map(|nth| {
            let answer = format!("exec:sh -c 'sleep 0.{}; echo {{\\\"flour\\\":\\\"{nth}\\\"}}'", nth + 2);
            home.start(&["watch", "t-loaf", "--on-input", &answer])
        })
        .collect();
    for watcher in watchers {
        wait(watcher, Instant::now()).exits(0).prints("a loaf\n");
    }
    assert_eq!(answers_to(&bench).len(), 1, "{:?}", bench.of(""));
}

#[test]
fn a_call_is_not_asked_what_was_asked_before_it() {
    let home = Home::new();
    let question = |id: u32| {
        json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {
        "message": format!("Question {id}?"), "requestedSchema": {"type": "object", "properties": {}}}})
    };
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "nth": 1, "steps": [{"send": question(0)}, {"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tools/call", "steps": [{"send": question(1)}, {"await": 1}, {"reply": {"content": [{"type": "text", "text": "done"}]}}]},
    ]}));
    home.detach(&["-s", &bench.stdio(), "call", "bake"]);
    home.run(&["-s", &bench.stdio(), "call", "plain", "--on-input", "defaults"]).exits(0).prints("done\n");
    let answered: Vec<Value> = bench.of("").into_iter().map(|seen| seen["message"]["id"].clone()).collect();
    assert_eq!(answered, [json!(1)]);
}

#[test]
fn a_plain_call_that_is_killed_leaves_no_question_behind() {
    let home = Home::new();
    let question = json!({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {
        "message": "Shall it go on?", "requestedSchema": {"type": "object", "properties": {}}}});
    let bench = Bench::new(&json!({"rules": [
        {"method": "tools/call", "nth": 1, "steps": [{"reply": {"task": task("t-loaf", "working")}}]},
        {"method": "tools/call", "steps": [{"send": question}, {"await": 0}, {"reply": {"content": []}}]},
        {"method": "tasks/get", "steps": [{"reply": task("t-loaf", "working")}]},
        {"method": "tasks/result", "steps": [{"await": 0}, {"reply": {"content": [{"type": "text", "text": "a loaf"}]}}]},
    ]}));
    home.detach(&["-s", &bench.stdio(), "call", "bake"]);
    let mut call = home.start(&["-s", &bench.stdio(), "call", "plain", "--on-input", "exec:sleep 60"]);
    until("the call", || bench.of("tools/call").len() == 2);
    signal(&call, Signal::SIGKILL);
    call.wait().unwrap();
    // Nobody can come back to it: the server is told, and the next command hears nothing of it.
    until("an answer", || answers_to(&bench).len() == 1);
    assert_eq!(answers_to(&bench)[0], json!({"action": "cancel"}));
    let cancelled = bench.of("notifications/cancelled");
    assert_eq!(cancelled[0]["message"]["params"]["requestId"], bench.of("tools/call")[1]["message"]["id"]);
    let watched = home.run(&["watch", "t-loaf"]);
    watched.exits(0).prints("a loaf\n");
    assert!(!watched.stderr.contains("Shall it go on?"), "{watched:?}");
}
