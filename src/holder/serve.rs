//! The holder's own process: the waiting around [`State`].

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use interprocess::local_socket::traits::tokio::Listener as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::folder::{Folder, HolderId, Note};
use super::socket::{self, Listener, Stream};
use super::state::{ClientId, Order, State};
use super::wire::{self, Plan};
use crate::model::duration;
use crate::rpc::framing::{LineEnding, LineFramer};
use crate::rpc::{Connection, ConnectionError, Inbound, Outbound, Tap, message};
use crate::transport::stdio::{self, ServerCommand, StdioSettings};
use crate::transport::{Keeper, Notice, Notices};

/// How many lines may wait for a command that does not read.
const LINES: usize = 16 * 1024;
/// How many of them may be notifications.
const HINTS: usize = 2 * 1024;
/// How long a new command may take to greet.
const GREETING: Duration = Duration::from_secs(5);
/// How long a server that has ended is told of, to the commands that are there.
const LAST_WORD: Duration = Duration::from_millis(500);
/// And where nobody has come yet: whoever started it is on the way.
const FIRST_WORD: Duration = Duration::from_secs(5);

/// What happens to a holder.
enum Incident {
    Joined(ClientId, mpsc::Sender<String>),
    Said(ClientId, String),
    Left(ClientId),
    Noticed(Notice),
}

/// Reads the plan from stdin, starts the server, says so on stdout, and serves until the end.
///
/// # Errors
/// Where it does not come to serving; whoever started it was told.
pub async fn serve() -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await?;
    let plan: Plan = serde_json::from_str(&line)?;
    let id = HolderId::new(plan.key.clone());
    let keeper = Keeper::default();
    let (incidents, happening) = mpsc::channel(256);
    match start(&plan, &id, &keeper, &incidents) {
        Ok((connection, listener)) => {
            tell_parent(&json!({"ready": true}));
            let holder = Holder {
                plan: &plan,
                id: &id,
                state: State::new(Duration::from_millis(plan.idle), format!("mt-{}", id.instance), Instant::now()),
                clients: HashMap::new(),
                incidents,
                has_served: false,
            };
            holder.run(connection, listener, happening, &keeper).await;
            Ok(())
        }
        Err(error) => {
            tell_parent(&json!({"error": error.to_string()}));
            Err(std::io::Error::other(error.to_string()))
        }
    }
}

/// The one thing that a holder ever writes.
fn tell_parent(word: &Value) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(format!("{word}\n").as_bytes()).and_then(|()| stdout.flush());
}

fn start(
    plan: &Plan,
    id: &HolderId,
    keeper: &Keeper,
    incidents: &mpsc::Sender<Incident>,
) -> Result<(Connection, Listener), ConnectionError> {
    let command = ServerCommand {
        program: plan.program.clone(),
        arguments: plan.arguments.clone(),
        env: plan.env.clone(),
        cwd: Some(plan.cwd.clone()),
    };
    let hear = incidents.clone();
    // A line too many is lost, as on a screen.
    let notices = Notices::new(move |notice| drop(hear.try_send(Incident::Noticed(notice))));
    let settings = StdioSettings { max_message: plan.max_message, tap: Tap::default(), notices };
    let folder = Folder::at(&plan.folder);
    let socket = folder.socket(&plan.key);
    let fail = |what: &str, error: std::io::Error| {
        ConnectionError::Configuration(format!("cannot {what} {}: {error}", socket.display()))
    };
    let listener = socket::listen(&socket).map_err(|error| fail("listen at", error))?;
    let started = stdio::connect(&command, settings, keeper).and_then(|connection| {
        folder.write_note(&note(plan, id)).map_err(|error| fail("write the note beside", error))?;
        Ok(connection)
    });
    match started {
        Ok(connection) => Ok((connection, listener)),
        Err(error) => {
            let _ = std::fs::remove_file(&socket);
            Err(error)
        }
    }
}

fn note(plan: &Plan, id: &HolderId) -> Note {
    Note {
        id: id.clone(),
        server: plan.server.clone(),
        session: plan.session.clone(),
        cwd: plan.cwd.clone(),
        pid: std::process::id(),
        started_at: jiff::Timestamp::now().as_millisecond(),
        ended: None,
    }
}

struct Holder<'a> {
    plan: &'a Plan,
    id: &'a HolderId,
    state: State,
    clients: HashMap<ClientId, mpsc::Sender<String>>,
    incidents: mpsc::Sender<Incident>,
    /// Whether a command has ever come.
    has_served: bool,
}

impl Holder<'_> {
    async fn run(
        mut self,
        connection: Connection,
        listener: Listener,
        mut happening: mpsc::Receiver<Incident>,
        keeper: &Keeper,
    ) {
        let why = self.hold(connection, &listener, &mut happening).await;
        // In this order: who finds the socket gone, or is sent away, may start anew, and its word must not be ours.
        let folder = Folder::at(&self.plan.folder);
        let ended = Note { ended: Some(why), ..folder.note(self.id).unwrap_or_else(|| note(self.plan, self.id)) };
        let _ = folder.write_note(&ended);
        let _ = std::fs::remove_file(folder.socket(&self.plan.key));
        drop(listener);
        keeper.drain().await;
        // Those who wait for the end have it now.
        self.clients.clear();
        tokio::task::yield_now().await;
    }

    /// Serves until there is no more need or no more server; which of them.
    async fn hold(
        &mut self,
        connection: Connection,
        listener: &Listener,
        happening: &mut mpsc::Receiver<Incident>,
    ) -> String {
        let Connection { outbound, mut inbound } = connection;
        let mut next_client = 1;
        let mut asked_to_end = asked_to_end();
        loop {
            let now = Instant::now();
            let ends_at = self.state.ends_at(now);
            let orders = tokio::select! {
                Some(incident) = happening.recv() => self.happened(incident),
                said = inbound.recv() => match said {
                    Some(Inbound::Message(message)) => self.state.server_said(message),
                    Some(Inbound::Failed { .. }) => Vec::new(),
                    Some(Inbound::Closed(reason)) => return self.server_ended(&reason, listener, happening).await,
                    None => return self.server_ended(&ConnectionError::Closed, listener, happening).await,
                },
                accepted = listener.accept() => {
                    if let Ok(stream) = accepted {
                        self.attend(ClientId(next_client), stream);
                        next_client += 1;
                    }
                    Vec::new()
                }
                () = tokio::time::sleep_until(ends_at.unwrap_or(now)), if ends_at.is_some() => {
                    let idle = duration::human(Duration::from_millis(self.plan.idle));
                    return format!("it was not used for {idle}");
                }
                () = &mut asked_to_end => return "it was told to end by a signal".to_owned(),
            };
            for order in orders {
                match order {
                    Order::Server(text) => {
                        let _ = outbound.send(Outbound::Message { text, delivered: None });
                    }
                    Order::Hint(client, text) => self.hint(client, text),
                    // One that reads nothing at all loses its place; its socket closes with it.
                    Order::Client(client, text) => {
                        if self.clients.get(&client).is_some_and(|lines| lines.try_send(text).is_err()) {
                            self.clients.remove(&client);
                        }
                    }
                    Order::Stop => return "it was stopped by `mcp-task sessions stop`".to_owned(),
                }
            }
        }
    }

    fn happened(&mut self, incident: Incident) -> Vec<Order> {
        let now = Instant::now();
        match incident {
            Incident::Joined(client, lines) => {
                self.has_served = true;
                self.clients.insert(client, lines);
                self.state.joined(client)
            }
            Incident::Said(client, line) => {
                let messages = message::read(&line).unwrap_or_default();
                messages.into_iter().flat_map(|message| self.state.client_said(client, message, now)).collect()
            }
            Incident::Left(client) => {
                self.clients.remove(&client);
                self.state.left(client, now)
            }
            Incident::Noticed(notice) => {
                let params = match notice {
                    Notice::Noise(line) => json!({"noise": line}),
                    Notice::Stderr(line) => json!({"stderr": line}),
                    Notice::Resuming(_) => return Vec::new(),
                };
                let text = message::notification(wire::NOTICE, &params);
                self.clients.keys().map(|client| Order::Hint(*client, text.clone())).collect()
            }
        }
    }

    fn hint(&self, client: ClientId, text: String) {
        let room = self.clients.get(&client).filter(|lines| LINES - lines.capacity() < HINTS);
        let _ = room.map(|lines| lines.try_send(text));
    }

    /// Tells every command how the server ended. A server that ends at once is told to whoever is on the way.
    async fn server_ended(
        &mut self,
        reason: &ConnectionError,
        listener: &Listener,
        happening: &mut mpsc::Receiver<Incident>,
    ) -> String {
        let (status, stderr) = match reason {
            ConnectionError::ServerExited { status, stderr } => (status.clone(), stderr.clone()),
            other => (other.to_string(), String::new()),
        };
        let last = message::notification(wire::ENDED, &json!({"status": status, "stderr": stderr}));
        let end = Instant::now() + FIRST_WORD;
        while !self.has_served {
            tokio::select! {
                Some(incident) = happening.recv() => {
                    let _ = self.happened(incident);
                }
                accepted = listener.accept() => {
                    let _ = accepted.map(|stream| self.attend(ClientId(0), stream));
                }
                () = tokio::time::sleep_until(end) => break,
            }
        }
        for lines in self.clients.values() {
            let _ = lines.try_send(last.clone());
        }
        let end = Instant::now() + LAST_WORD;
        while !self.clients.is_empty() {
            tokio::select! {
                Some(incident) = happening.recv() => {
                    let _ = self.happened(incident);
                }
                () = tokio::time::sleep_until(end) => break,
            }
        }
        format!("it ended with {status}")
    }

    fn attend(&self, client: ClientId, stream: Stream) {
        tokio::spawn(attend(client, stream, self.id.instance.clone(), self.incidents.clone(), self.plan.max_message));
    }
}

/// One command, from its greeting to its end.
async fn attend(
    client: ClientId,
    stream: Stream,
    instance: String,
    incidents: mpsc::Sender<Incident>,
    max_message: usize,
) {
    if socket::peer(&stream).is_err() {
        return;
    }
    let (mut reading, mut writing) = socket::split(stream);
    let mut greeting = String::new();
    let greeted = timeout(GREETING, (&mut reading).take(4_096).read_line(&mut greeting)).await;
    let ours = format!("{}\n", wire::greeting(Some(&instance)));
    if !matches!(greeted, Ok(Ok(1..))) || writing.write_all(ours.as_bytes()).await.is_err() {
        return;
    }
    // One of another version has read by now which we are.
    if wire::read_greeting(&greeting).is_err() {
        return;
    }
    let (lines, mut waiting) = mpsc::channel::<String>(LINES);
    if incidents.send(Incident::Joined(client, lines)).await.is_err() {
        return;
    }
    let writer = async move {
        while let Some(mut line) = waiting.recv().await {
            line.push('\n');
            if writing.write_all(line.as_bytes()).await.is_err() {
                break;
            }
        }
    };
    let reader = async {
        let mut framer = LineFramer::new(LineEnding::Lf, max_message);
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = reading.read(&mut buffer).await {
            if framer.push(&buffer[..read]).is_err() {
                break;
            }
            while let Some(line) = framer.next_line() {
                let line = String::from_utf8_lossy(&line).into_owned();
                if incidents.send(Incident::Said(client, line)).await.is_err() {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = writer => {}
        () = reader => {}
    }
    let _ = incidents.send(Incident::Left(client)).await;
}

/// Ends at a signal that asks to end. The terminal's do not come: a holder has none.
#[cfg(unix)]
fn asked_to_end() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    use tokio::signal::unix::{SignalKind, signal};
    Box::pin(async {
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(mut terminate), Ok(mut interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            _ => std::future::pending().await,
        }
    })
}

#[cfg(not(unix))]
fn asked_to_end() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(std::future::pending())
}
