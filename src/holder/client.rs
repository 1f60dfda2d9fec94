//! What commands use: the way to a holder that lives, or a new one.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::folder::{Folder, HolderId, Key};
use super::socket::{self, Reading, Stream, Writing};
use super::wire::{self, Plan};
use crate::model::{RawJson, TaskId, Ttl, duration, text};
use crate::rpc::connection::{Outgoing, TransportEnds};
use crate::rpc::framing::{LineEnding, LineFramer};
use crate::rpc::{Connection, ConnectionError, Direction, Inbound, Message, Outbound, RequestId, Tap, message};
use crate::transport::{Notice, Notices};

/// How long a holder may take to greet.
const GREETING: Duration = Duration::from_secs(5);
/// How much longer than its server's a holder's line may be.
const SLACK: usize = 4 * 1024;

/// Why there is no way to a server that is or should be held.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// The socket is there but does not serve us.
    #[error("the process that holds the server cannot be used: {0}")]
    Refused(String),
    /// It did not come up.
    #[error("the process that is to hold the server did not start: {0}")]
    Start(String),
    /// The server did not come up.
    #[error("{0}")]
    Server(String),
}

/// How to listen to a holder.
#[derive(Clone, Debug, Default)]
pub struct HeldSettings {
    /// The most bytes that one message may have.
    pub max_message: usize,
    /// Sees every message.
    pub tap: Tap,
    /// Hears of noise and stderr.
    pub notices: Notices,
}

/// A connection to a held server.
#[derive(Debug)]
pub struct Held {
    /// The server.
    pub connection: Connection,
    /// Its holder.
    pub control: Control,
    /// Which holder that is.
    pub id: HolderId,
}

/// How a holder stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// How many commands are attached, the asking one left out.
    pub commands: u64,
    /// The tasks that the server is needed for; not yet escaped.
    pub tasks: Vec<String>,
}

/// What is said to a holder, beside the server's own messages.
enum Word {
    Line(String),
    /// A request, and who takes its answer.
    Ask(&'static str, oneshot::Sender<Value>),
    /// Tell when everything before it is written.
    Flush(oneshot::Sender<()>),
}

/// Speaks to a holder. The connection stays while one of these lives.
#[derive(Clone, Debug)]
pub struct Control(mpsc::UnboundedSender<Word>);

impl Control {
    /// The server is needed for a task, for as long as it keeps it.
    pub fn lease(&self, task: &TaskId, ttl: Ttl) {
        let length = match ttl {
            Ttl::Limited(ttl) => Some(duration::millis(ttl)),
            Ttl::Unlimited | Ttl::Unstated => None,
        };
        self.tell(wire::LEASE, &json!({"task": task.as_str(), "for": length}));
    }

    /// The folders that the server may be told of, as an answer to `roots/list`.
    pub fn roots(&self, roots: &Value) {
        self.tell(wire::ROOTS, roots);
    }

    /// The task has ended.
    pub fn release(&self, task: &TaskId) {
        self.tell(wire::RELEASE, &json!({"task": task.as_str()}));
    }

    /// There is no further use for a holder that was started for this command alone.
    pub fn unneeded(&self) {
        self.tell(wire::UNNEEDED, &Value::Null);
    }

    /// Waits until all that was said is on its way.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.0.send(Word::Flush(done)).is_ok() {
            let _ = written.await;
        }
    }

    /// How the holder stands; `None` where it does not say.
    pub async fn status(&self) -> Option<Status> {
        let value = self.ask(wire::STATUS).await?;
        let tasks = value["tasks"].as_array().into_iter().flatten();
        Some(Status {
            commands: value["commands"].as_u64().unwrap_or_default(),
            tasks: tasks.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    /// Ends the holder and its server, and waits until they are gone. Whether they are within `limit`.
    pub async fn stop(&self, limit: Duration) -> bool {
        let stop = async {
            let _ = self.ask(wire::STOP).await;
            self.0.closed().await;
        };
        timeout(limit, stop).await.is_ok()
    }

    async fn ask(&self, method: &'static str) -> Option<Value> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Word::Ask(method, answer)).ok()?;
        answered.await.ok()
    }

    fn tell(&self, method: &str, params: &Value) {
        let _ = self.0.send(Word::Line(message::notification(method, params)));
    }
}

/// Connects to a holder. `None` where none lives.
///
/// # Errors
/// Where something lives there that does not serve us.
pub async fn attach(folder: &Folder, key: &Key, settings: HeldSettings) -> Result<Option<Held>, HoldError> {
    let refused = |error: std::io::Error| HoldError::Refused(error.to_string());
    let Some(stream) = socket::connect(&folder.socket(key)).await.map_err(refused)? else { return Ok(None) };
    socket::peer(&stream).map_err(refused)?;
    let greeted = timeout(GREETING, greet(stream)).await;
    let greeted = greeted.map_err(|_| HoldError::Refused("it does not answer".to_owned()))??;
    let Some((reading, writing, instance)) = greeted else { return Ok(None) };
    let (connection, TransportEnds { outbound, inbound }) = Connection::pair();
    let (control, words) = mpsc::unbounded_channel();
    let wires = Wires { asked: Arc::default(), tap: settings.tap.clone() };
    let reader = wires.clone().read(reading, inbound, settings);
    tokio::spawn(async move {
        tokio::select! {
            () = reader => {}
            () = wires.write(writing, outbound, words) => {}
        }
    });
    Ok(Some(Held { connection, control: Control(control), id: HolderId { key: key.clone(), instance } }))
}

/// `None` where the holder is about to end.
async fn greet(stream: Stream) -> Result<Option<(Reading, Writing, String)>, HoldError> {
    let (mut reading, mut writing) = socket::split(stream);
    let mut line = String::new();
    let ours = format!("{}\n", wire::greeting(None));
    if writing.write_all(ours.as_bytes()).await.is_err() || !matches!(reading.read_line(&mut line).await, Ok(1..)) {
        return Ok(None);
    }
    match wire::read_greeting(&line) {
        Ok(instance) => Ok(Some((reading, writing, instance))),
        Err(reason) => Err(HoldError::Refused(text::line(&reason).into_owned())),
    }
}

/// Both directions of a socket.
#[derive(Clone)]
struct Wires {
    /// Who waits for the holder's own answers.
    asked: Arc<std::sync::Mutex<std::collections::HashMap<RequestId, oneshot::Sender<Value>>>>,
    tap: Tap,
}

impl Wires {
    async fn read(self, mut reading: Reading, inbound: mpsc::Sender<Inbound>, settings: HeldSettings) {
        let mut framer = LineFramer::new(LineEnding::Lf, settings.max_message.saturating_add(SLACK));
        let mut buffer = vec![0; 64 * 1024];
        let end = 'end: loop {
            let read = match reading.read(&mut buffer).await {
                Ok(0) | Err(_) => break ConnectionError::HolderGone,
                Ok(read) => read,
            };
            if let Err(too_long) = framer.push(&buffer[..read]) {
                break ConnectionError::MessageTooLarge { limit: too_long.limit };
            }
            while let Some(line) = framer.next_line() {
                let line = String::from_utf8_lossy(&line);
                for message in message::read(&line).unwrap_or_default() {
                    match self.own(message, &settings.notices) {
                        Own::Not(message) => {
                            self.tap.see(Direction::Received, &line);
                            // A peer that is gone hears nothing, but the holder may still be spoken to.
                            let _ = inbound.send(Inbound::Message(message)).await;
                        }
                        Own::Done => {}
                        Own::End(end) => break 'end end,
                    }
                }
            }
        };
        let _ = inbound.send(Inbound::Closed(Arc::new(end))).await;
    }

    /// Takes what the holder itself says.
    fn own(&self, message: Message, notices: &Notices) -> Own {
        let told = match message {
            Message::Response { id: Some(id), outcome } => {
                let Some(asker) = self.asked().remove(&id) else {
                    return Own::Not(Message::Response { id: Some(id), outcome });
                };
                let _ = asker.send(outcome.map_or(Value::Null, |answer| answer.value()));
                return Own::Done;
            }
            Message::Notification(told) if told.method.starts_with(wire::OWN) => told,
            message => return Own::Not(message),
        };
        let params = told.params.as_ref().map_or(Value::Null, RawJson::value);
        let text = |key: &str| params[key].as_str().map(str::to_owned);
        if told.method == wire::ENDED {
            let (status, stderr) = (text("status").unwrap_or_default(), text("stderr").unwrap_or_default());
            return Own::End(ConnectionError::ServerExited { status, stderr });
        }
        if told.method == wire::NOTICE {
            text("noise").into_iter().for_each(|line| notices.tell(Notice::Noise(line)));
            text("stderr").into_iter().for_each(|line| notices.tell(Notice::Stderr(line)));
        }
        Own::Done
    }

    /// Ends when neither a peer nor a [`Control`] is left.
    async fn write(
        self,
        mut writing: Writing,
        mut outbound: mpsc::UnboundedReceiver<Outbound>,
        mut words: mpsc::UnboundedReceiver<Word>,
    ) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        loop {
            let (line, delivered) = tokio::select! {
                Some(order) = outbound.recv() => match order.into_message() {
                    Some(Outgoing { text, delivered, .. }) => {
                        self.tap.see(Direction::Sent, &text);
                        (text, delivered)
                    }
                    None => continue,
                },
                Some(word) = words.recv() => match word {
                    Word::Line(line) => (line, None),
                    Word::Ask(method, asker) => {
                        let id = RequestId::Text(format!("own-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
                        let line = message::request(&id, method, &Value::Null);
                        self.asked().insert(id, asker);
                        (line, None)
                    }
                    Word::Flush(done) => {
                        let _ = done.send(());
                        continue;
                    }
                },
                else => return,
            };
            if writing.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                // The reader finds out why.
                return std::future::pending().await;
            }
            let _ = delivered.map(|delivered| delivered.send(Ok(())));
        }
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<RequestId, oneshot::Sender<Value>>> {
        self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Whose a message is.
enum Own {
    /// The server's.
    Not(Message),
    /// The holder's, and dealt with.
    Done,
    /// The holder's last.
    End(ConnectionError),
}

/// Starts a holder, unless one has come up meanwhile, and connects to it. Whether it was started here.
///
/// # Errors
/// Where the holder or its server does not start within `limit`.
pub async fn start(plan: &Plan, limit: Option<Duration>, settings: HeldSettings) -> Result<(Held, bool), HoldError> {
    let fail = |error: std::io::Error| HoldError::Start(error.to_string());
    let folder = Folder::at(&plan.folder);
    if let Some(held) = attach(&folder, &plan.key, settings.clone()).await? {
        return Ok((held, false));
    }
    folder.make(&plan.key).map_err(fail)?;
    // Of many that start at once one starts the holder, and the others find it.
    let file = folder.lock_file(&plan.key).map_err(fail)?;
    let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
    let lock = locked.map_err(|error| HoldError::Start(error.to_string()))?.map_err(fail)?;
    if let Some(held) = attach(&folder, &plan.key, settings.clone()).await? {
        return Ok((held, false));
    }
    folder.prune();
    let program = std::env::current_exe().map_err(fail)?;
    let ready = launch(&program, plan);
    match limit {
        None => ready.await?,
        Some(limit) => timeout(limit, ready)
            .await
            .map_err(|_| HoldError::Start(format!("it was not ready within {}", duration::human(limit))))??,
    }
    let held = attach(&folder, &plan.key, settings).await?;
    drop(lock);
    held.map(|held| (held, true)).ok_or_else(|| HoldError::Start("it ended at once".to_owned()))
}

/// Starts the process and waits for its word. It leads a session of its own, so that it survives the terminal.
async fn launch(program: &Path, plan: &Plan) -> Result<(), HoldError> {
    let fail = |error: std::io::Error| HoldError::Start(error.to_string());
    let mut command = tokio::process::Command::new(program);
    // Its own folder may be any but one that somebody wants to unmount.
    command.arg(wire::COMMAND).current_dir(&plan.folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut wrapped = process_wrap::tokio::CommandWrap::from(command);
    #[cfg(unix)]
    wrapped.wrap(process_wrap::tokio::ProcessSession);
    let mut child = wrapped.spawn().map_err(fail)?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin().take(), child.stdout().take()) else {
        return Err(HoldError::Start("it came without its pipes".to_owned()));
    };
    let plan = serde_json::to_string(plan).unwrap_or_default();
    stdin.write_all(format!("{plan}\n").as_bytes()).await.map_err(fail)?;
    drop(stdin);
    let line = BufReader::new(stdout).lines().next_line().await.map_err(fail)?.unwrap_or_default();
    let word: Value = serde_json::from_str(&line).unwrap_or_default();
    match (word["ready"].as_bool(), word["error"].as_str()) {
        (Some(true), _) => Ok(()),
        (_, Some(error)) => Err(HoldError::Server(error.to_owned())),
        _ => Err(HoldError::Start("it ended without a word".to_owned())),
    }
}

/// Asks a holder that cannot be talked to, as it is of another version, to end by a signal. Whether it could be asked.
pub async fn terminate(folder: &Folder, key: &Key) -> bool {
    let Ok(Some(stream)) = socket::connect(&folder.socket(key)).await else { return false };
    // By the socket, as a process id that was written down may be another's by now.
    let Ok(Some(pid)) = socket::peer(&stream) else { return false };
    end_process(pid)
}

#[cfg(unix)]
fn end_process(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).map(nix::unistd::Pid::from_raw);
    pid.is_some_and(|pid| nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).is_ok())
}

#[cfg(not(unix))]
fn end_process(_pid: u32) -> bool {
    false
}
