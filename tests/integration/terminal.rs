//! A real pseudo-terminal: what is drawn, what stays, and what Ctrl-C and closing the window do.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use serde_json::json;

use crate::several::{done, kitchen, start};
use crate::support::{Bench, root, state, until};

pub struct Terminal {
    /// Kept open for as long as the program runs.
    _master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    screen: Arc<Mutex<Screen>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

struct Screen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    /// Every content the screen had.
    seen: Vec<String>,
}

impl Terminal {
    pub fn run(columns: u16, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut words = vec![env!("CARGO_BIN_EXE_mcp-task")];
        words.extend(arguments);
        Self::start(columns, &words, environment)
    }

    fn start(columns: u16, words: &[&str], environment: &[(&str, &str)]) -> Self {
        let size = PtySize { rows: 30, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(words[0]);
        command.args(&words[1..]);
        command.cwd(root());
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TERM", "xterm-256color");
        command.env("MCP_TASK_STATE_DIR", state());
        command.env("MCP_TASK_NO_HOLD", "1");
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("the program starts");
        drop(pair.slave);
        let mut output = pair.master.try_clone_reader().expect("a reader");
        let keyboard = pair.master.take_writer().expect("a keyboard");
        let parser = vt100::Parser::new(
            std::num::NonZero::new(30).expect("rows"),
            std::num::NonZero::new(columns).expect("columns"),
            0,
        );
        let screen = Arc::new(Mutex::new(Screen { parser, bytes: Vec::new(), seen: Vec::new() }));
        let reader = std::thread::spawn({
            let screen = Arc::clone(&screen);
            move || {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = output.read(&mut buffer) {
                    let mut screen = screen.lock().expect("not poisoned");
                    screen.bytes.extend(&buffer[..read]);
                    screen.parser.process(&buffer[..read]);
                    let contents = screen.parser.screen().contents();
                    screen.seen.push(contents);
                }
            }
        });
        Self { _master: pair.master, child, keyboard, screen, reader: Some(reader) }
    }

    pub fn type_keys(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).and_then(|()| self.keyboard.flush()).expect("the terminal takes keys");
    }

    /// The exit number, once there is one.
    pub fn poll(&mut self) -> Option<u32> {
        self.child.try_wait().expect("the child can be asked").map(|status| status.exit_code())
    }

    /// The exit number.
    pub fn wait(&mut self) -> u32 {
        let end = Instant::now() + Duration::from_secs(60);
        let code = loop {
            if let Some(code) = self.poll() {
                break code;
            }
            assert!(Instant::now() < end, "the program hangs: {}", self.contents());
            std::thread::sleep(Duration::from_millis(10));
        };
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader ends");
        }
        code
    }

    pub fn contents(&self) -> String {
        self.screen.lock().expect("not poisoned").parser.screen().contents()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.screen.lock().expect("not poisoned").bytes.clone()
    }

    pub fn saw(&self, what: &str) -> bool {
        self.screen.lock().expect("not poisoned").seen.iter().any(|contents| contents.contains(what))
    }
}

/// A folder with files in it for the demo to hash.
fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["flour", "salt", "water", "yeast", "面包", "🍞"] {
        std::fs::write(folder.path().join(name), name).expect("a file");
    }
    folder
}

#[test]
fn a_known_total_is_a_bar_that_leaves_the_result_alone() {
    for columns in [120, 80, 40, 20] {
        let folder = files();
        let path = format!("path={}", folder.path().display());
        let mut terminal = Terminal::run(columns, &["call", "-s", "demo", "hash-files", &path], &[]);
        assert_eq!(terminal.wait(), 0);
        assert!(terminal.saw("%"), "{columns}: {:?}", String::from_utf8_lossy(&terminal.bytes()));
        assert!(columns < 40 || terminal.saw("█"), "{columns}");
        let screen = terminal.contents();
        let flat = screen.replace('\n', "");
        assert!(flat.contains("Hashed 6 files (29 bytes)"), "{screen}");
        assert!(!screen.contains('%') && !screen.contains('█') && !screen.contains('⠋'), "{columns}: {screen}");
        // What was drawn was drawn on one line: a line that wraps leaves its first half behind.
        let seen = terminal.screen.lock().unwrap().seen.clone();
        assert!(seen.iter().all(|contents| contents.matches('%').count() <= 1), "{columns}: {seen:#?}");
    }
}

#[test]
fn an_unknown_total_is_a_spinner_with_the_servers_words_and_the_ttl() {
    let mut terminal = Terminal::run(100, &["call", "-s", "demo", "hunt-primes", "seconds=2", "--ttl", "90s"], &[]);
    assert_eq!(terminal.wait(), 0);
    assert!(
        terminal.saw("Largest pair so far") && terminal.saw("ttl 1m"),
        "{:#?}",
        terminal.screen.lock().unwrap().seen
    );
    assert!(terminal.contents().contains("Found ") && !terminal.contents().contains("ttl"));
}

#[test]
fn a_quick_call_draws_nothing() {
    let mut terminal = Terminal::run(80, &["call", "-s", "demo", "count-words", "text=a b"], &[]);
    assert_eq!(terminal.wait(), 0);
    assert_eq!(String::from_utf8(terminal.bytes()).unwrap(), "2 words\r\n");
}

#[test]
fn a_plain_terminal_gets_plain_text() {
    for environment in [[("TERM", "dumb")], [("NO_COLOR", "1")]] {
        let mut terminal = Terminal::run(80, &["call", "-s", "demo", "count-words", "txt=a"], &environment);
        assert_eq!(terminal.wait(), 2);
        assert!(!terminal.bytes().contains(&0x1b), "{}", terminal.contents());
    }
    let mut terminal = Terminal::run(80, &["call", "-s", "demo", "hunt-primes", "seconds=1"], &[("TERM", "dumb")]);
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.bytes().contains(&0x1b) && terminal.saw("working: "), "{}", terminal.contents());
}

#[test]
fn what_a_server_writes_is_escaped_for_a_person() {
    let evil = "a\u{1b}]52;c;aGk=\u{7}\u{202e}b";
    let answer = json!({"content": [{"type": "text", "text": evil}], "structuredContent": {"a": evil}});
    let bench = Bench::new(&json!({"rules": [{"method": "tools/call", "steps": [{"reply": answer}]}]}));
    let mut terminal = Terminal::run(80, &["-s", &bench.stdio(), "call", "plain"], &[]);
    assert_eq!(terminal.wait(), 0);
    assert!(terminal.contents().contains("a\\u{1b}]52;c;aGk=\\u{7}\\u{202e}b"), "{}", terminal.contents());
    let mut terminal = Terminal::run(80, &["-s", &bench.stdio(), "call", "plain", "--json"], &[]);
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.bytes().contains(&0x1b), "{}", terminal.contents());
}

fn endless(session: bool) -> Bench {
    let task = json!({"taskId": "t-oven", "status": "working", "pollInterval": 200});
    Bench::new(&json!({"session": session, "rules": [
        {"method": "tools/call", "steps": [{"reply": {"task": task}}]},
        {"method": "tasks/get", "steps": [{"reply": task}]},
        {"method": "tasks/result", "steps": [{"sleep": 600_000}]},
        {"method": "tasks/cancel", "steps": [{"reply": {"taskId": "t-oven", "status": "cancelled"}}]},
    ]}))
}

#[test]
fn control_c_leaves_the_task_and_says_how_to_come_back() {
    let bench = endless(true);
    let server = bench.http();
    let mut terminal = Terminal::run(100, &["-s", &server.url, "call", "bake"], &[]);
    until("a poll", || !bench.of("tasks/get").is_empty());
    terminal.type_keys(b"\x03");
    assert_eq!(terminal.wait(), 8);
    let screen = terminal.contents();
    assert!(screen.contains("hint: mcp-task watch t-oven"), "{screen}");
    assert!(bench.of("tasks/cancel").is_empty());
}

#[test]
fn several_tasks_have_a_line_each_and_leave_as_they_end() {
    let tasks = [("t-loaf", 1_500, done("a loaf")), ("t-bun", 600, done("a bun")), ("t-rye", 600_000, done("rye"))];
    let bench = kitchen(&tasks);
    let server = bench.http();
    start(&bench, &server.url, 3);
    let folder = bench.path("state").display().to_string();
    let mut terminal = Terminal::run(60, &["watch"], &[("MCP_TASK_STATE_DIR", &folder)]);
    until("two results", || terminal.contents().contains("a loaf"));
    terminal.type_keys(b"\x03");
    assert_eq!(terminal.wait(), 8);
    let seen = terminal.screen.lock().unwrap().seen.clone();
    let with = |wanted: &[&str], gone: &[&str]| {
        let is_line = |contents: &String, id: &str| contents.contains(&format!("bake {id} "));
        seen.iter().any(|contents| {
            wanted.iter().all(|id| is_line(contents, id)) && !gone.iter().any(|id| is_line(contents, id))
        })
    };
    assert!(with(&["t-loaf", "t-bun", "t-rye"], &[]), "{seen:#?}");
    assert!(with(&["t-loaf", "t-rye"], &["t-bun"]), "{seen:#?}");
    assert!(with(&["t-rye"], &["t-loaf", "t-bun"]), "{seen:#?}");
    let screen = terminal.contents();
    assert!(screen.contains("a bun") && screen.contains("hint: mcp-task watch t-rye"), "{screen}");
    assert!(!screen.contains("bake t-rye "), "no line of progress is left behind: {screen}");
}

#[test]
fn control_c_ends_a_child_with_its_task() {
    let bench = endless(false);
    let mut terminal = Terminal::run(100, &["-s", &bench.stdio(), "call", "bake"], &[]);
    until("a poll", || !bench.of("tasks/get").is_empty());
    terminal.type_keys(b"\x03");
    assert_eq!(terminal.wait(), 7);
    assert_eq!(bench.of("tasks/cancel").len(), 1);
    bench.assert_nothing_lives();
}

/// The window is a process of its own here, so that all of it can be closed at once.
#[test]
fn closing_the_window_leaves_no_process_behind() {
    let bench = endless(false);
    let program = env!("CARGO_BIN_EXE_mcp-task");
    let spawn = format!("import pty; pty.spawn(['{program}', '-s', '{}', 'call', 'bake'])", bench.stdio());
    let mut window = std::process::Command::new("python3")
        .args(["-c", &spawn])
        .env("MCP_TASK_STATE_DIR", state())
        .env("MCP_TASK_NO_HOLD", "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("python3 runs");
    until("a poll", || !bench.of("tasks/get").is_empty());
    window.kill().and_then(|()| window.wait()).expect("the window closes");
    bench.assert_nothing_lives();
    assert_eq!(bench.of("tasks/cancel").len(), 1);
}

#[test]
fn a_bar_on_the_terminal_does_not_touch_a_redirected_stdout() {
    let folder = files();
    let out =
        folder.path().parent().unwrap().join(format!("{}.out", folder.path().file_name().unwrap().to_string_lossy()));
    let line = format!(
        "{} call -s demo hash-files path={} --json > {}",
        env!("CARGO_BIN_EXE_mcp-task"),
        folder.path().display(),
        out.display()
    );
    let mut terminal = Terminal::start(80, &["sh", "-c", &line], &[]);
    assert_eq!(terminal.wait(), 0);
    assert!(terminal.saw("█"), "{}", terminal.contents());
    let written = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    let result: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(result["structuredContent"]["files"], 6);
}
