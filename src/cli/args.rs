//! The words of the command line and their help. What they mean is for [`settings`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::settings;
use crate::commands::answering::OnInput;
use crate::model::duration;

/// Run and follow Model Context Protocol tasks.
#[derive(Debug, Parser)]
#[command(name = "mcp-task", version, max_term_width = 100, propagate_version = false, arg_required_else_help = true)]
#[command(after_help = "Try it: mcp-task call -s demo hash-files path=.")]
pub struct App {
    #[command(subcommand)]
    pub action: Action,
    #[command(flatten)]
    pub global: Global,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The server: `demo`, an http(s) URL, or a command line
    #[arg(short, long, global = true, env = "MCP_TASK_SERVER", value_name = "SERVER")]
    pub server: Option<String>,
    /// Whether the server was typed, not taken from the environment.
    #[arg(skip)]
    pub server_was_typed: bool,
    /// A variable for the server's process, on top of this one's environment (repeatable)
    #[arg(long, global = true, value_name = "K=V", value_parser = settings::env_pair)]
    pub env: Vec<(String, String)>,
    /// The working directory of the server's process
    #[arg(long, global = true, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// A header for an HTTP server (repeatable)
    #[arg(long, global = true, value_name = "NAME: VALUE", value_parser = settings::header_pair)]
    pub header: Vec<(String, String)>,
    /// A bearer token for an HTTP server; the environment variable keeps it out of the process list
    #[arg(long, global = true, env = "MCP_TASK_BEARER", hide_env_values = true, value_name = "TOKEN")]
    pub bearer: Option<String>,
    /// A program that speaks for a language model, exec:COMMAND, where the server asks for that: it gets the request as JSON
    /// and prints words, or a whole result as JSON. Without it the server is told that there is none
    #[arg(long, global = true, env = "MCP_TASK_SAMPLING", value_name = "exec:COMMAND", value_parser = settings::sampling)]
    pub sampling: Option<SamplingCommand>,
    /// Show at the terminal what the model is asked and what it says, before either goes on
    #[arg(long, global = true, env = "MCP_TASK_SAMPLING_REVIEW", value_parser = clap::builder::FalseyValueParser::new())]
    pub sampling_review: bool,
    /// A folder that the server is told it may work in (repeatable)
    #[arg(long, global = true, value_name = "DIR")]
    pub root: Vec<PathBuf>,
    /// PEM certificates to trust beside the system's
    #[arg(long, global = true, env = "MCP_TASK_CA_CERT", value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,
    /// What stdout carries
    #[arg(short, long, global = true, env = "MCP_TASK_OUTPUT", value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
    /// The same as --output json, which it goes before
    #[arg(long, global = true)]
    pub json: bool,
    /// How progress is shown on stderr: a bar on a terminal, lines elsewhere
    #[arg(long, global = true, env = "MCP_TASK_PROGRESS", value_name = "HOW", default_value = "auto")]
    pub progress: ProgressFormat,
    /// Tell of errors only
    #[arg(short, long, global = true, overrides_with = "quiet")]
    pub quiet: bool,
    /// Tell more: the server's stderr and log messages
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Write every message of both directions to a file, one JSON object a line, secrets masked
    #[arg(long, global = true, env = "MCP_TASK_TRACE", value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// End a stdio server with this command, instead of holding it for later ones once a task may run on it
    #[arg(long, global = true, env = "MCP_TASK_NO_HOLD", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_hold: bool,
    /// How long a held server stays when no command uses it and no task needs it; 0: not at all
    #[arg(long, global = true, env = "MCP_TASK_HOLD_IDLE", value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    pub hold_idle: Duration,
    /// A held server of its own, beside others that are started alike
    #[arg(long, global = true, env = "MCP_TASK_SESSION", value_name = "NAME")]
    pub session: Option<String>,
    /// The folder of the record of tasks
    #[arg(long, global = true, env = "MCP_TASK_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Record a hash of the arguments, not the arguments
    #[arg(long, global = true, env = "MCP_TASK_NO_RECORD_ARGS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_record_args: bool,
    /// How long starting a server and the handshake may take; 0: for ever
    #[arg(long, global = true, env = "MCP_TASK_START_TIMEOUT", value_name = "DURATION", default_value = "180s", value_parser = duration::parse)]
    pub start_timeout: Duration,
    /// How long a look-up or a poll may take; 0: for ever. Tool calls and waiting for results are not bound by it
    #[arg(long, global = true, env = "MCP_TASK_REQUEST_TIMEOUT", value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub request_timeout: Duration,
    /// The largest message to take, in bytes; K, M and G may follow
    #[arg(long, global = true, env = "MCP_TASK_MAX_MESSAGE", value_name = "SIZE", default_value = "64M", value_parser = settings::size)]
    pub max_message: usize,
}

/// The words of `--sampling`.
#[derive(Clone, Debug)]
pub struct SamplingCommand(pub Vec<String>);

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Call a tool, as a task where server and tool allow; wait, show progress, print the result
    Call(Box<Call>),
    /// Attach to tasks until they end, and print their results as they come
    Watch(Watch),
    /// List the known tasks as they stand now, and those that the server lists where one is named
    List(List),
    /// Show the recorded life of one or all tasks
    Log {
        #[command(flatten)]
        task: TaskArgument,
    },
    /// Show how a task stands
    Get {
        #[command(flatten)]
        task: TaskArgument,
    },
    /// Print a task's result, waiting for it
    Result {
        #[command(flatten)]
        task: TaskArgument,
        /// Do not wait for a task that has not ended
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        wait: Wait,
    },
    /// Show what a task asks, or answer it
    Answer(Answer),
    /// Ask for tasks to be cancelled and say what became of them
    Cancel {
        /// The tasks, by their ids or beginnings of them
        #[arg(value_name = "ID", required_unless_present = "last")]
        ids: Vec<String>,
        /// The newest task
        #[arg(long, conflicts_with = "ids")]
        last: bool,
    },
    /// List the server's tools, or show one in full with an example call
    Tools {
        /// One tool
        name: Option<String>,
    },
    /// Show or stop the stdio servers that are kept alive between commands
    Sessions {
        #[command(subcommand)]
        action: SessionsAction,
    },
    /// Serve the demo tools over stdio
    #[command(hide = true)]
    DemoServer,
    /// Keep a server alive; what it is comes on stdin
    #[command(hide = true, name = crate::holder::COMMAND)]
    HoldServer,
}

/// `sessions`.
#[derive(Debug, Subcommand)]
pub enum SessionsAction {
    /// List them
    List,
    /// End them and their servers, and with them the tasks that still run there
    Stop {
        /// Which, by key, the beginning of one, or name; none: all
        #[arg(value_name = "KEY|NAME")]
        names: Vec<String>,
    },
}

/// `list`.
#[derive(Debug, Args)]
pub struct List {
    /// Those that have not ended alone
    #[arg(long)]
    pub live: bool,
    /// Those that stand so alone (repeatable, or with commas between)
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub status: Vec<ListedStatus>,
    /// Those of one tool alone
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// The newest so many alone
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Ask no server: show what was last seen
    #[arg(long)]
    pub offline: bool,
}

/// `list --status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ListedStatus {
    /// Being worked on
    Working,
    /// Waiting for an answer
    InputRequired,
    /// Ended with a result
    Completed,
    /// Ended badly
    Failed,
    /// Ended by a cancellation
    Cancelled,
    /// No longer to be had
    Lost,
    /// Sent, and the answer never seen
    Unanswered,
}

/// `watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// The tasks, by their ids or beginnings of them; none: all that have not ended
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// The newest task
    #[arg(long, conflicts_with = "ids")]
    pub last: bool,
    /// Until all have ended; leave with the exit number of the worst. So it is without any of these three
    #[arg(long, conflicts_with_all = ["any", "fail_fast"])]
    pub all: bool,
    /// Until one has ended, well or badly; leave with its exit number
    #[arg(long, conflicts_with = "fail_fast")]
    pub any: bool,
    /// Until one has ended badly, or all well
    #[arg(long)]
    pub fail_fast: bool,
    #[command(flatten)]
    pub wait: Wait,
}

/// Which task.
#[derive(Debug, Args)]
pub struct TaskArgument {
    /// The task, by its id or the beginning of it (4 characters at least)
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// The newest task
    #[arg(long, conflicts_with = "id")]
    pub last: bool,
}

/// `answer`.
#[derive(Debug, Args)]
#[command(after_help = "Without arguments and flags the open questions are shown; --json has their schemas.")]
pub struct Answer {
    /// The task, by its id or the beginning of it (4 characters at least)
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// The newest task
    #[arg(long)]
    pub last: bool,
    /// The answer's fields, written like a tool's arguments: field=text, field:=JSON, field=@FILE
    #[arg(value_name = "ARG")]
    pub items: Vec<String>,
    /// The answer's fields as a JSON object: JSON, @FILE, or - for stdin; ARGs go on top
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub input: Option<String>,
    /// Accept; fields that are not given have their defaults
    #[arg(long)]
    pub accept: bool,
    /// Say no
    #[arg(long, conflicts_with_all = ["accept", "items", "input"])]
    pub decline: bool,
    /// Dismiss the question
    #[arg(long, conflicts_with_all = ["accept", "decline", "items", "input"])]
    pub cancel: bool,
    /// Which question, where the task asks several
    #[arg(long, value_name = "QUESTION")]
    pub question: Option<String>,
}

/// `call`.
#[derive(Debug, Args)]
#[command(after_help = "Arguments:
  key=text    text, or what the tool's input schema asks for: a number, a list, …
  key:=JSON   JSON as it stands
  key=@FILE   the text of a file; key:=@FILE its JSON
  a.b=text    into the object `a`
  key=a key=b a list, item by item")]
pub struct Call {
    /// The tool
    pub tool: String,
    /// Its arguments
    #[arg(value_name = "ARG")]
    pub arguments: Vec<String>,
    /// Arguments as a JSON object: JSON, @FILE, or - for stdin; ARGs go on top
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub input: Option<String>,
    /// Send the arguments without checking them against the tool's schema
    #[arg(long)]
    pub no_validate: bool,
    /// How long the server shall keep the task: 90s, 10m, 1h30m, or milliseconds
    #[arg(long, env = "MCP_TASK_TTL", value_name = "DURATION", value_parser = duration::parse_ttl)]
    pub ttl: Option<Duration>,
    /// Call as a task, or not at all
    #[arg(long, conflicts_with = "no_task")]
    pub task: bool,
    /// Call plainly, not as a task
    #[arg(long)]
    pub no_task: bool,
    /// Print the task's id and return at once
    #[arg(long)]
    pub detach: bool,
    /// How long a call may stay without answer and without progress before it is given up; 0: for ever
    #[arg(long, env = "MCP_TASK_IDLE_TIMEOUT", value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    pub idle_timeout: Duration,
    #[command(flatten)]
    pub wait: Wait,
}

/// What every command that waits takes.
#[derive(Debug, Args)]
pub struct Wait {
    /// Stop waiting after this time; the task stays; 0: never
    #[arg(long, env = "MCP_TASK_TIMEOUT", value_name = "DURATION", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// The least pause between two looks at the task; a server's longer wish counts
    #[arg(long, env = "MCP_TASK_POLL", value_name = "DURATION", value_parser = duration::parse)]
    pub poll: Option<Duration>,
    /// How long the server may be out of reach before its task is left to itself; 0: for ever
    #[arg(long, env = "MCP_TASK_PATIENCE", value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    pub patience: Duration,
    /// On Ctrl-C ask for the task to be cancelled before leaving
    #[arg(long)]
    pub cancel_on_interrupt: bool,
    #[command(flatten)]
    pub input: Input,
    /// Save images, sounds and embedded resources as files in this folder
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
}

/// How to answer what a server asks.
#[derive(Debug, Args)]
pub struct Input {
    /// The answer to one field of a question, like an argument: field=text, field:=JSON, field=@FILE (repeatable)
    #[arg(long, value_name = "K=V")]
    pub answer: Vec<String>,
    /// A JSON file with answers: an object of fields, or {"message", "action", "content"}, or a list of such answers with one
    /// for each question
    #[arg(long, env = "MCP_TASK_ANSWERS", value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// What to do about questions that are not answered beforehand: ask (the person at the terminal; so it is where there is
    /// one), fail (leave the task waiting, exit 9; so it is elsewhere), defaults, decline, cancel, wait (for an answer from
    /// elsewhere), or exec:COMMAND, which gets the request as JSON and prints the answer; it runs without a shell, so that
    /// pipes need one: exec:sh -c '…'
    #[arg(long, env = "MCP_TASK_ON_INPUT", value_name = "HOW", value_parser = settings::on_input)]
    pub on_input: Option<OnInput>,
}

/// `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text content as it is
    Text,
    /// One JSON document, the server's own
    Json,
    /// One JSON event a line, as it happens
    Jsonl,
}

/// `--progress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressFormat {
    /// A bar on a terminal, lines elsewhere
    Auto,
    /// A bar, on a terminal; elsewhere lines
    Bar,
    /// A line per change
    Lines,
    /// Nothing
    None,
}
