//! Which server, and how to get a session with it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use reqwest::Url;

use super::held::{self, Need, ServerGone};
use super::{Context, trace};
use crate::holder::HeldSettings;
use crate::model::{Secret, text};
use crate::rpc::{ConnectionError, Tap};
use crate::session::{Remark, Remarks, Session, SessionError, SessionSettings};
use crate::transport::http::HttpSettings;
use crate::transport::stdio::{ServerCommand, StdioSettings};
use crate::transport::{Notice, Notices, http, stdio};

/// When a slow start is remarked upon.
const SLOW_START: Duration = Duration::from_secs(5);

/// A server, as `-s` names it.
#[derive(Clone, Debug)]
pub enum ServerTarget {
    /// The built-in one.
    Demo,
    /// A program to start.
    Command(Vec<String>),
    /// An endpoint.
    Http(Url),
}

/// `-s` names no server.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Nothing was given.
    #[error("no server is named")]
    Missing,
    /// A URL that is none.
    #[error("`{url}` is not a URL: {reason}")]
    Url {
        /// As typed.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// Quotes that do not close.
    #[error("the command line `{0}` has a quote that does not close")]
    Quotes(String),
    /// Text without a word.
    #[error("the server's name is empty")]
    Empty,
}

impl ServerTarget {
    /// Reads `demo`, a URL or a command line.
    ///
    /// # Errors
    /// Where it is none of them.
    pub fn parse(named: &str) -> Result<Self, TargetError> {
        let named = named.trim();
        if named == "demo" {
            return Ok(Self::Demo);
        }
        let lower = named.to_ascii_lowercase();
        if lower.starts_with("http://") || lower.starts_with("https://") {
            let url = |reason: String| TargetError::Url { url: text::line(named).into_owned(), reason };
            let parsed = Url::parse(named).map_err(|error| url(error.to_string()))?;
            return if parsed.has_host() { Ok(Self::Http(parsed)) } else { Err(url("it has no host".to_owned())) };
        }
        let words = shell_words::split(named).map_err(|_| TargetError::Quotes(text::line(named).into_owned()))?;
        if words.is_empty() { Err(TargetError::Empty) } else { Ok(Self::Command(words)) }
    }

    /// Whether it is a process of this machine that we start.
    pub fn is_local(&self) -> bool {
        !matches!(self, Self::Http(_))
    }
}

/// How to connect.
#[derive(Clone, Debug, Default)]
pub struct ConnectionSettings {
    /// Variables for a server's process.
    pub env: Vec<(String, String)>,
    /// Its working directory.
    pub cwd: Option<PathBuf>,
    /// Headers for an HTTP server.
    pub headers: Vec<(String, Secret)>,
    /// A bearer token for it.
    pub bearer: Option<Secret>,
    /// Further certificates to trust.
    pub ca_cert: Option<PathBuf>,
    /// The most bytes of one message.
    pub max_message: usize,
    /// How long starting and the handshake may take; `None`: for ever.
    pub start_limit: Option<Duration>,
    /// How long another short request may take; `None`: for ever.
    pub request_limit: Option<Duration>,
    /// Where to write every message.
    pub trace: Option<PathBuf>,
}

/// Opens a session with the server that the user named.
///
/// # Errors
/// Where no server is named or it cannot be talked to.
pub async fn connect(context: &Context, need: Need) -> anyhow::Result<Session> {
    let (_, target) = context.server.as_ref().ok_or(TargetError::Missing)?;
    let name = context.server_name().unwrap_or_default();
    let opening = open(context, target, need);
    tokio::pin!(opening);
    let session = tokio::select! {
        session = &mut opening => session,
        () = tokio::time::sleep(SLOW_START) => {
            let limit = context.connection.start_limit.map_or_else(String::new, |limit| {
                format!("; --start-timeout gives it {}", crate::model::duration::human(limit))
            });
            context.printer.note(&format!("waiting for the server to start{limit}"));
            opening.await
        }
    };
    session.with_context(|| format!("cannot use the server `{}`", text::truncate(&text::line(&name), 200)))
}

async fn open(context: &Context, target: &ServerTarget, need: Need) -> anyhow::Result<Session> {
    let settings = &context.connection;
    let tap = match (&settings.trace, context.shared.tap.get()) {
        (_, Some(tap)) => tap.clone(),
        (None, None) => Tap::default(),
        (Some(path), None) => {
            let tap = trace::open(path, secrets(settings, target))?;
            context.shared.tap.get_or_init(|| tap).clone()
        }
    };
    let notices = notices(context);
    let connection = match target {
        ServerTarget::Http(url) => http::connect(HttpSettings {
            url: url.clone(),
            headers: settings.headers.clone(),
            bearer: settings.bearer.clone(),
            ca_cert: settings.ca_cert.clone(),
            session: context.http_session.clone(),
            connect_timeout: settings.start_limit,
            max_message: settings.max_message,
            tap,
            notices,
        }),
        ServerTarget::Demo | ServerTarget::Command(_) => {
            let command = command(target, settings)?;
            let max_message = settings.max_message;
            let held = HeldSettings { max_message, tap: tap.clone(), notices: notices.clone() };
            match held::connect(context, &command, need, held).await? {
                Some(connection) => Ok(connection),
                None if need == Need::Living => return Err(ServerGone { why: "it does not run".to_owned() }.into()),
                None => stdio::connect(&command, StdioSettings { max_message, tap, notices }, &context.keeper),
            }
        }
    };
    let connection = connection.map_err(|error| SessionError::Connection(error.into()))?;
    let remarks = remarks(context);
    let session = SessionSettings {
        start_limit: settings.start_limit,
        request_limit: settings.request_limit,
        abilities: context.abilities(),
        is_shared: context.holding.get().is_some(),
        remarks,
    };
    if let (Some(protocol), true) = (&context.old_protocol, context.http_session.id().is_some()) {
        return Ok(Session::resume(connection, session, protocol));
    }
    let session = Session::open(connection, session).await?;
    let profile = session.profile();
    context.printer.verbose(&format!(
        "connected to {} {} (protocol {})",
        text::line(&profile.server_name),
        text::line(&profile.server_version),
        profile.version
    ));
    Ok(session)
}

fn command(target: &ServerTarget, settings: &ConnectionSettings) -> Result<ServerCommand, SessionError> {
    let (program, arguments) = match target {
        ServerTarget::Command(words) => match words.split_first() {
            Some((program, arguments)) => (program.clone(), arguments.to_vec()),
            None => (String::new(), Vec::new()),
        },
        ServerTarget::Demo | ServerTarget::Http(_) => {
            let own = std::env::current_exe().map_err(|error| {
                let message = format!("cannot find the own program, which is the demo server: {error}");
                SessionError::Connection(ConnectionError::Configuration(message).into())
            })?;
            (own.to_string_lossy().into_owned(), vec!["demo-server".to_owned()])
        }
    };
    Ok(ServerCommand { program, arguments, env: settings.env.clone(), cwd: settings.cwd.clone() })
}

/// What must not show up in a trace.
fn secrets(settings: &ConnectionSettings, target: &ServerTarget) -> Vec<Secret> {
    let headers = settings.headers.iter().map(|(_, value)| value.clone());
    let password = match target {
        ServerTarget::Http(url) => url.password().map(Secret::new),
        ServerTarget::Demo | ServerTarget::Command(_) => None,
    };
    settings.bearer.iter().cloned().chain(headers).chain(password).collect()
}

fn notices(context: &Context) -> Notices {
    let printer = context.printer.clone();
    Notices::new(move |notice| match notice {
        Notice::Noise(line) => printer.noise(&line),
        Notice::Stderr(line) => {
            if printer.verbosity() > 0 {
                printer.relay(format!("server stderr | {}", text::line(&line)));
            }
        }
        Notice::Resuming(pause) => {
            if printer.verbosity() > 0 {
                let pause = crate::model::duration::human(pause);
                printer.relay(format!("the stream of an answer broke off; taking it up again in {pause}"));
            }
        }
    })
}

fn remarks(context: &Context) -> Remarks {
    let printer = context.printer.clone();
    let (shared, server) = (context.clone(), context.server_name().unwrap_or_default());
    Remarks::new(move |remark| match remark {
        Remark::Log { level, logger, text: words } => {
            if printer.verbosity() > 0 {
                let logger = logger.map_or_else(String::new, |logger| format!(" {}", text::line(&logger)));
                printer.relay(format!("server log | {}{logger}: {}", text::line(&level), text::line(&words)));
            }
        }
        // Whoever follows the task answers; whoever comes later finds what nobody answered.
        Remark::Asked(question) => {
            if let Some(task) = &question.task {
                let (id, method, params) = (question.id.to_json(), question.method, &question.params);
                let _ = shared.with_record(|record| record.asked_for(&server, task, &id, method, params));
            }
        }
        Remark::Completed => {
            printer.relay("note: the server says that what was asked at the address is done".to_owned())
        }
        Remark::Refused { method } => {
            printer.relay(format!(
                "note: the server asked for `{}`, which this client did not offer; it was refused",
                text::line(&method)
            ));
        }
        Remark::Orphan(error) => {
            printer.relay(format!("note: the server reports an error that answers no request: {error}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_demo_a_url_or_a_command_line() {
        assert!(matches!(ServerTarget::parse("demo"), Ok(ServerTarget::Demo)));
        assert!(matches!(ServerTarget::parse(" HTTP://127.0.0.1:1/mcp "), Ok(ServerTarget::Http(_))));
        let Ok(ServerTarget::Command(words)) = ServerTarget::parse("npx -y 'some server' a\\ b") else { panic!() };
        assert_eq!(words, ["npx", "-y", "some server", "a b"]);
        assert!(matches!(ServerTarget::parse("http://"), Err(TargetError::Url { .. })));
        assert!(matches!(ServerTarget::parse("a 'b"), Err(TargetError::Quotes(_))));
        assert!(matches!(ServerTarget::parse("  "), Err(TargetError::Empty)));
    }
}
