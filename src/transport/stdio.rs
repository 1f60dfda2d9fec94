//! A server as a child process: one message a line on its stdin and stdout. Spec 2025-11-25, basic/transports, "stdio".
//!
//! The child leads its own process group, and a task of ours watches over it from birth to reaping. Whatever makes us
//! leave, the shutdown is the same: close stdin, wait, TERM, wait, KILL, all for the whole group, because the command is
//! often a wrapper (`npx`, `uvx`, `sh -c`) and the server is its grandchild.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::keeper::{Keeper, Kept};
use super::{Notice, Notices};
use crate::rpc::connection::{Outgoing, TransportEnds};
use crate::rpc::framing::{LineEnding, LineFramer};
use crate::rpc::message;
use crate::rpc::{Connection, ConnectionError, Direction, Inbound, Outbound, Tap};

/// How much of a server's stderr is kept, in bytes.
const STDERR_TAIL: usize = 16 * 1024;
/// How long a server may take to leave once its stdin is closed; several never do, so this is short.
const AFTER_CLOSE: Duration = Duration::from_millis(250);
/// How long it may take after TERM.
const AFTER_TERM: Duration = Duration::from_secs(2);
/// How long to wait for what is still in the pipes of a process that has ended.
const AFTER_EXIT: Duration = Duration::from_millis(300);
/// How long a broken pipe waits for the exit that most likely explains it.
const BEFORE_EXIT: Duration = Duration::from_millis(500);
/// How much of a line of noise is told.
const NOISE_CHARACTERS: usize = 300;
/// How much of a line of stderr is told.
const STDERR_LINE: usize = 4 * 1024;

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct ServerCommand {
    /// The program, looked up in `PATH` unless it holds a slash.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables on top of our own environment, which the server inherits.
    pub env: Vec<(String, String)>,
    /// Its working directory; ours if `None`.
    pub cwd: Option<PathBuf>,
}

/// How to talk to it.
#[derive(Clone, Debug)]
pub struct StdioSettings {
    /// The most bytes that one message may have.
    pub max_message: usize,
    /// Sees every message.
    pub tap: Tap,
    /// Hears of noise and stderr.
    pub notices: Notices,
}

/// Starts `command`. The child ends when the connection is dropped or `keeper` drains.
///
/// # Errors
/// [`ConnectionError::Spawn`] where the program cannot be started, [`ConnectionError::Configuration`] where its working
/// directory does not exist.
pub fn connect(
    command: &ServerCommand,
    settings: StdioSettings,
    keeper: &Keeper,
) -> Result<Connection, ConnectionError> {
    let mut child = spawn(command)?;
    let (connection, ends) = Connection::pair();
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin().take(), child.stdout().take(), child.stderr().take())
    else {
        return Err(ConnectionError::Configuration("the server's process came without its pipes".to_owned()));
    };
    let kept = keeper.register(child.id().unwrap_or_default());
    let tail = StderrTail::default();
    let stderr = tokio::spawn(drain_stderr(stderr, tail.clone(), settings.notices.clone()));
    let TransportEnds { outbound, inbound } = ends;
    let stdout = tokio::spawn(read_messages(stdout, inbound.clone(), settings.clone()));
    let supervisor = Supervisor { child, stdout, stderr, tail, inbound, keeper: keeper.clone() };
    tokio::spawn(supervisor.run(write_messages(stdin, outbound, settings.tap), kept));
    Ok(connection)
}

fn spawn(command: &ServerCommand) -> Result<Box<dyn ChildWrapper>, ConnectionError> {
    if let Some(cwd) = &command.cwd
        && !cwd.is_dir()
    {
        let message = format!("the server's working directory {} is not a folder", cwd.display());
        return Err(ConnectionError::Configuration(message));
    }
    let mut child = Command::new(&command.program);
    child.args(&command.arguments).envs(command.env.iter().map(|(name, value)| (name, value)));
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(cwd) = &command.cwd {
        child.current_dir(cwd);
    }
    let mut wrapped = CommandWrap::from(child);
    #[cfg(unix)]
    wrapped.wrap(process_wrap::tokio::ProcessGroup::leader());
    #[cfg(windows)]
    wrapped.wrap(process_wrap::tokio::JobObject);
    wrapped.spawn().map_err(|source| ConnectionError::Spawn { program: command.program.clone(), source })
}

/// How reading the child's stdout ended.
enum OutputEnd {
    Eof,
    TooLarge(usize),
    Failed(std::io::Error),
}

/// What made the supervisor stop serving.
enum End {
    Exited(Option<ExitStatus>),
    Output(OutputEnd),
    Input(std::io::Error),
    Released,
}

struct Supervisor {
    child: Box<dyn ChildWrapper>,
    stdout: JoinHandle<OutputEnd>,
    stderr: JoinHandle<()>,
    tail: StderrTail,
    inbound: mpsc::Sender<Inbound>,
    keeper: Keeper,
}

impl Supervisor {
    /// `writer` owns the child's stdin, so dropping it closes that.
    async fn run(mut self, writer: impl Future<Output = std::io::Result<()>>, kept: Kept) {
        let mut writer = Box::pin(writer);
        let end = tokio::select! {
            status = self.child.wait() => End::Exited(status.ok()),
            output = &mut self.stdout => End::Output(output.unwrap_or(OutputEnd::Eof)),
            written = &mut writer => written.map_or_else(End::Input, |()| End::Released),
            () = self.keeper.stopping() => End::Released,
        };
        if let Some(reason) = self.reason(end).await {
            // The peer may be gone or busy; a shutdown must not wait for it.
            let _ = timeout(AFTER_EXIT, self.inbound.send(Inbound::Closed(Arc::new(reason)))).await;
        }
        drop(writer);
        shut_down(self.child.as_mut(), &kept).await;
        self.stdout.abort();
        self.stderr.abort();
        kept.release();
    }

    /// What to tell the peer. A process that ends takes its pipes along, so where a pipe breaks the exit is awaited: it
    /// is what a person wants to know.
    async fn reason(&mut self, end: End) -> Option<ConnectionError> {
        let fault = match end {
            End::Released => return None,
            End::Exited(status) => return Some(self.exited(status).await),
            End::Output(OutputEnd::TooLarge(limit)) => return Some(ConnectionError::MessageTooLarge { limit }),
            End::Output(OutputEnd::Failed(error)) | End::Input(error) => Some(error),
            End::Output(OutputEnd::Eof) => None,
        };
        if let Ok(status) = timeout(BEFORE_EXIT, self.child.wait()).await {
            return Some(self.exited(status.ok()).await);
        }
        Some(match fault {
            Some(error) => ConnectionError::Pipe(error),
            None => ConnectionError::OutputClosed { stderr: self.tail.text() },
        })
    }

    async fn exited(&mut self, status: Option<ExitStatus>) -> ConnectionError {
        if !self.stdout.is_finished() {
            let _ = timeout(AFTER_EXIT, &mut self.stdout).await;
        }
        let _ = timeout(AFTER_EXIT, &mut self.stderr).await;
        let status = status.map_or_else(|| "an unknown status".to_owned(), |status| status.to_string());
        ConnectionError::ServerExited { status, stderr: self.tail.text() }
    }
}

/// Waits, TERM, waits, KILL, reaps; stdin is closed already.
async fn shut_down(child: &mut dyn ChildWrapper, kept: &Kept) {
    let gone = timeout(AFTER_CLOSE, child.wait()).await.is_ok() && !kept.group_lives();
    if gone {
        return;
    }
    terminate(child);
    let ended = timeout(AFTER_TERM, async {
        let _ = child.wait().await;
        while kept.group_lives() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    if ended.await.is_err() {
        let _ = child.start_kill();
        let _ = timeout(AFTER_TERM, child.wait()).await;
    }
}

#[cfg(unix)]
fn terminate(child: &mut dyn ChildWrapper) {
    let _ = child.signal(nix::sys::signal::Signal::SIGTERM as i32);
}

#[cfg(not(unix))]
fn terminate(child: &mut dyn ChildWrapper) {
    let _ = child.start_kill();
}

/// Ends well when the peer is gone.
async fn write_messages(
    mut stdin: ChildStdin,
    mut outbound: mpsc::UnboundedReceiver<Outbound>,
    tap: Tap,
) -> std::io::Result<()> {
    while let Some(order) = outbound.recv().await {
        let Some(Outgoing { mut text, delivered, .. }) = order.into_message() else { continue };
        tap.see(Direction::Sent, &text);
        text.push('\n');
        stdin.write_all(text.as_bytes()).await?;
        stdin.flush().await?;
        if let Some(delivered) = delivered {
            let _ = delivered.send(Ok(()));
        }
    }
    Ok(())
}

async fn read_messages(mut stdout: ChildStdout, inbound: mpsc::Sender<Inbound>, settings: StdioSettings) -> OutputEnd {
    let mut framer = LineFramer::new(LineEnding::Lf, settings.max_message);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = match stdout.read(&mut buffer).await {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) => return OutputEnd::Failed(error),
        };
        let pushed = framer.push(&buffer[..read]);
        while let Some(line) = framer.next_line() {
            take_line(&line, &inbound, &settings).await;
        }
        if let Err(too_long) = pushed {
            return OutputEnd::TooLarge(too_long.limit);
        }
    }
    if let Some(line) = framer.finish() {
        take_line(&line, &inbound, &settings).await;
    }
    OutputEnd::Eof
}

/// A line that is no message is told once and otherwise skipped; nothing is ever written back about it, because a server
/// that logs what it hears would start a storm.
async fn take_line(line: &[u8], inbound: &mpsc::Sender<Inbound>, settings: &StdioSettings) {
    let text = String::from_utf8_lossy(line);
    if text.trim().is_empty() {
        return;
    }
    match message::read(&text) {
        Ok(messages) => {
            settings.tap.see(Direction::Received, &text);
            for message in messages {
                let _ = inbound.send(Inbound::Message(message)).await;
            }
        }
        Err(_) => settings.notices.tell(Notice::Noise(text.chars().take(NOISE_CHARACTERS).collect())),
    }
}

/// The end of a server's stderr.
#[derive(Clone, Debug, Default)]
struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &bytes[bytes.len().saturating_sub(STDERR_TAIL)..];
        let excess = (tail.len() + bytes.len()).saturating_sub(STDERR_TAIL);
        tail.drain(..excess);
        tail.extend(bytes);
    }

    fn text(&self) -> String {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(tail.make_contiguous()).into_owned()
    }
}

/// Reads stderr to its end, always, so that a talkative server never blocks on it.
async fn drain_stderr(mut stderr: impl AsyncRead + Unpin, tail: StderrTail, notices: Notices) {
    let mut buffer = vec![0; 16 * 1024];
    let mut line = Vec::new();
    while let Ok(read) = stderr.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        tail.push(&buffer[..read]);
        for byte in &buffer[..read] {
            if *byte == b'\n' {
                tell_stderr(&mut line, &notices);
            } else if line.len() < STDERR_LINE {
                line.push(*byte);
            }
        }
    }
    tell_stderr(&mut line, &notices);
}

fn tell_stderr(line: &mut Vec<u8>, notices: &Notices) {
    let text = String::from_utf8_lossy(line).trim_end().to_owned();
    line.clear();
    if !text.is_empty() {
        notices.tell(Notice::Stderr(text));
    }
}
