//! Runs the program the way a shell would, against scripted and real servers, in an environment of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// No run takes as long as this.
const LIMIT: Duration = Duration::from_secs(120);

/// A folder of its own for one test, with a scripted server in it.
pub struct Bench {
    pub folder: TempDir,
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    pub stdout: String,
    pub stderr: String,
    /// The exit number; a signal's is 128 and more.
    pub code: i32,
    pub took: Duration,
}

impl Bench {
    /// Writes `script` for the scripted server.
    pub fn new(script: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("script.json"), script.to_string()).expect("the script is written");
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script_and_transcript(&self) -> String {
        format!("{} {}", self.path("script.json").display(), self.path("transcript.jsonl").display())
    }

    /// `-s` for the scripted server over stdio.
    pub fn stdio(&self) -> String {
        format!("{} stdio {}", fake(), self.script_and_transcript())
    }

    /// Starts the scripted server over HTTP.
    pub fn http(&self) -> Running {
        self.serve("http")
    }

    /// Starts it over TLS, with a certificate that nobody has signed in `ca.pem`.
    pub fn https(&self) -> Running {
        self.serve("https")
    }

    fn serve(&self, scheme: &str) -> Running {
        let mut child = Command::new(fake())
            .args([scheme.into(), self.path("script.json"), self.path("transcript.jsonl")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the scripted server starts");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut port).expect("a port");
        Running { child, url: format!("{scheme}://127.0.0.1:{}/mcp", port.trim()) }
    }

    /// What the scripted server received: method, headers, message, time.
    pub fn received(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("transcript.jsonl")).unwrap_or_default();
        // The server may be writing the last line right now.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("a transcript line")).collect()
    }

    /// What of it has this method.
    pub fn of(&self, method: &str) -> Vec<Value> {
        self.received().into_iter().filter(|seen| seen["method"] == method).collect()
    }

    /// Processes whose command line names this test's folder.
    pub fn living(&self) -> Vec<String> {
        let needle = self.folder.path().display().to_string();
        processes().into_iter().filter(|line| line.contains(&needle)).collect()
    }

    /// Waits for them to be gone, and fails if they are not.
    pub fn assert_nothing_lives(&self) {
        let end = Instant::now() + Duration::from_secs(3);
        while !self.living().is_empty() {
            assert!(Instant::now() < end, "still alive: {:?}", self.living());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn processes() -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .collect()
}

/// The scripted server's program.
pub fn fake() -> &'static str {
    env!("CARGO_BIN_EXE_fake-mcp")
}

/// A server that runs until it is dropped.
pub struct Running {
    child: Child,
    pub url: String,
}

impl Running {
    /// Starts a real server and waits until it takes connections on `port`.
    pub fn start(command: &mut Command, port: u16, path: &str) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let running = Self { child, url: format!("http://127.0.0.1:{port}{path}") };
        let end = Instant::now() + Duration::from_secs(60);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "{command:?} does not listen on {port}");
            std::thread::sleep(Duration::from_millis(50));
        }
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

/// The program, in an environment of its own.
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-task"));
    command.args(arguments).env_clear().current_dir(root());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", std::env::temp_dir());
    // The tests of held servers take this back.
    command.env("MCP_TASK_STATE_DIR", state()).env("MCP_TASK_NO_HOLD", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The record of all runs of these tests, apart from the user's own; made anew each time.
pub fn state() -> &'static Path {
    static STATE: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("state");
        let _ = std::fs::remove_dir_all(&folder);
        folder
    });
    &STATE
}

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs the program to its end.
pub fn run(arguments: &[&str]) -> Outcome {
    finish(program(arguments))
}

/// Runs the program with this on its stdin.
pub fn run_with_input(arguments: &[&str], input: &str) -> Outcome {
    let mut command = program(arguments);
    let start = Instant::now();
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("stdin takes it");
    wait(child, start)
}

/// Runs a prepared command to its end.
pub fn finish(mut command: Command) -> Outcome {
    let start = Instant::now();
    let child = command.spawn().expect("the program starts");
    wait(child, start)
}

/// Waits for the program's end, however it comes.
pub fn wait(mut child: Child, start: Instant) -> Outcome {
    let stdout = read_aside(child.stdout.take());
    let stderr = read_aside(child.stderr.take());
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child can be asked") {
            break status;
        }
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("the program hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = start.elapsed();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status).map_or(0, |signal| 128 + signal);
    Outcome {
        stdout: stdout.join().expect("stdout is read"),
        stderr: stderr.join().expect("stderr is read"),
        code: status.code().unwrap_or(signal),
        took,
    }
}

fn read_aside(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8(bytes).expect("the program writes UTF-8")
    })
}

/// Sends a signal to a process that this test started.
pub fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    nix::sys::signal::kill(pid, signal).expect("the process lives");
}

/// Waits until `ready` says so.
pub fn until(what: &str, ready: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !ready() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Outcome {
    /// stdout as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless the exit number is this.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Fails unless stderr has these words.
    #[track_caller]
    pub fn says(&self, words: &str) -> &Self {
        assert!(self.stderr.contains(words), "no `{words}` in {self:#?}");
        self
    }

    /// Fails unless stdout is exactly this.
    #[track_caller]
    pub fn prints(&self, text: &str) -> &Self {
        assert_eq!(self.stdout, text, "{self:#?}");
        self
    }
}
