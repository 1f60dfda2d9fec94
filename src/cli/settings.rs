//! From the words of the command line to the plain settings that commands take.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

use etcetera::BaseStrategy;

use super::args::{
    Answer, Call, Global, Input, List, ListedStatus, OutputFormat, ProgressFormat, SamplingCommand, TaskArgument, Wait,
    Watch,
};
use crate::arguments::{self, Item};
use crate::commands::answer::AnswerOptions;
use crate::commands::answering::{Action, Given, InputOptions, OnInput};
use crate::commands::call::CallOptions;
use crate::commands::list::{ListOptions, State};
use crate::commands::lookup::{self, Found};
use crate::commands::server::TargetError;
use crate::commands::troubles::UsageError;
use crate::commands::watch::{Until, WatchOptions};
use crate::commands::{ConnectionSettings, Context, HoldSettings, SamplingOptions, ServerTarget, WaitOptions};
use crate::model::{Secret, TaskStatus, duration, text};
use crate::present::printer::Voice;
use crate::present::{Output, Progress, ask};
use crate::session::{Root, TaskWish};

impl Global {
    pub(super) fn voice(&self) -> Voice {
        let output = match (self.json, self.output) {
            (true, _) | (_, OutputFormat::Json) => Output::Json,
            (_, OutputFormat::Jsonl) => Output::Jsonl,
            (_, OutputFormat::Text) => Output::Text,
        };
        Voice { output, quiet: self.quiet, verbosity: self.verbose }
    }

    pub(super) fn target(&self) -> Result<Option<(String, ServerTarget)>, TargetError> {
        self.server.as_ref().map(|named| Ok((named.clone(), ServerTarget::parse(named)?))).transpose()
    }

    pub(super) fn progress(&self, events_on_stdout: bool) -> Progress {
        let terminal = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match self.progress {
            _ if self.quiet => Progress::None,
            ProgressFormat::None => Progress::None,
            ProgressFormat::Lines => Progress::Lines,
            ProgressFormat::Bar | ProgressFormat::Auto if terminal => Progress::Bar,
            // The events tell it all already.
            ProgressFormat::Auto if events_on_stdout => Progress::None,
            ProgressFormat::Bar | ProgressFormat::Auto => Progress::Lines,
        }
    }

    /// Where the platform keeps what a program remembers, unless the user says otherwise.
    pub(super) fn state_dir(&self) -> Result<PathBuf, String> {
        if let Some(folder) = &self.state_dir {
            return Ok(folder.clone());
        }
        let strategy = etcetera::choose_base_strategy()
            .map_err(|error| format!("there is no home folder: {error}; --state-dir names another"))?;
        let folder = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
        Ok(folder.join("mcp-task"))
    }

    pub(super) fn hold(&self) -> HoldSettings {
        let idle = limit(self.hold_idle).filter(|_| !self.no_hold);
        HoldSettings { idle, session: self.session.clone() }
    }

    pub(super) fn sampling(&self) -> Result<Option<SamplingOptions>, String> {
        match &self.sampling {
            None if self.sampling_review => Err("--sampling-review needs --sampling".to_owned()),
            Some(_) if self.sampling_review && !ask::can_ask() => {
                Err("--sampling-review needs a terminal for stdin and stderr".to_owned())
            }
            given => Ok(given
                .as_ref()
                .map(|given| SamplingOptions { command: given.0.clone(), review: self.sampling_review })),
        }
    }

    /// The folders of `--root`, as the server is told of them.
    pub(super) fn roots(&self) -> Result<Vec<Root>, String> {
        let read = |folder: &PathBuf| {
            let shown = text::line(&folder.to_string_lossy()).into_owned();
            let whole = folder.canonicalize().map_err(|error| format!("--root {shown}: {error}"))?;
            if !whole.is_dir() {
                return Err(format!("--root {shown} is not a folder"));
            }
            let uri = url::Url::from_directory_path(&whole).map_err(|()| format!("--root {shown} has no address"))?;
            let name = whole.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
            Ok(Root { uri: uri.as_str().trim_end_matches('/').to_owned(), name })
        };
        self.root.iter().map(read).collect()
    }

    pub(super) fn connection(&self) -> ConnectionSettings {
        let headers = self.header.iter().map(|(name, value)| (name.clone(), Secret::new(value))).collect();
        ConnectionSettings {
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            headers,
            bearer: self.bearer.as_ref().map(Secret::new),
            ca_cert: self.ca_cert.clone(),
            max_message: self.max_message,
            start_limit: limit(self.start_timeout),
            request_limit: limit(self.request_timeout),
            trace: self.trace.clone(),
        }
    }
}

impl TaskArgument {
    pub(super) fn is_named(&self) -> bool {
        self.last || self.id.is_some()
    }

    pub(super) fn find(&self, context: &Context) -> anyhow::Result<(Context, Found)> {
        lookup::find(context, self.id.as_deref(), self.last)
    }
}

impl Call {
    /// Reads the files that the arguments name, and stdin where `--input -` asks for it.
    pub(super) async fn options(&self) -> anyhow::Result<CallOptions> {
        let arguments = self.arguments.iter().map(|typed| Item::parse(typed)).collect::<Result<Vec<_>, _>>()?;
        let input = match &self.input {
            None => serde_json::Map::new(),
            Some(input) => arguments::parse_input(&read_input(input).await?)?,
        };
        let wish = match (self.task, self.no_task) {
            (true, _) => TaskWish::Task,
            (_, true) => TaskWish::Plain,
            _ => TaskWish::Auto,
        };
        Ok(CallOptions {
            tool: self.tool.clone(),
            arguments,
            input,
            validate: !self.no_validate,
            wish,
            ttl: self.ttl.map(duration::millis),
            detach: self.detach,
            idle_limit: limit(self.idle_timeout),
            wait: self.wait.options()?,
        })
    }
}

impl Answer {
    pub(super) fn find(&self, context: &Context) -> anyhow::Result<(Context, Found)> {
        let id = self.id.as_deref().filter(|_| !self.last);
        let found = lookup::find(context, id, self.last);
        match id.filter(|id| Item::parse(id).is_ok()) {
            // An id may well have a `=` in it, but this one nobody knows.
            Some(field) if !found.as_ref().is_ok_and(|(_, found)| found.is_recorded()) => {
                let message = format!("no task is named: `{}` is a field", text::line(field));
                Err(UsageError::hinting(message, "give an id before the fields, a prefix of one, or --last").into())
            }
            _ => found,
        }
    }

    /// Reads the files that the fields name, and stdin where `--input -` asks for it.
    pub(super) async fn options(&self) -> anyhow::Result<AnswerOptions> {
        // With --last there is no id, and what stands in its place is a field.
        let first = self.id.iter().filter(|_| self.last);
        let items = first.chain(&self.items).map(|typed| Item::parse(typed)).collect::<Result<Vec<_>, _>>()?;
        let input = match &self.input {
            None => None,
            Some(input) => Some(arguments::parse_input(&read_input(input).await?)?),
        };
        let wished = [(self.accept, Action::Accept), (self.decline, Action::Decline), (self.cancel, Action::Cancel)];
        let action = wished.into_iter().find_map(|(wished, action)| wished.then_some(action));
        Ok(AnswerOptions { items, input, action, question: self.question.clone() })
    }
}

impl List {
    pub(super) fn options(self) -> ListOptions {
        let states = self.status.into_iter().map(|status| match status {
            ListedStatus::Working => State::Seen(TaskStatus::Working),
            ListedStatus::InputRequired => State::Seen(TaskStatus::InputRequired),
            ListedStatus::Completed => State::Seen(TaskStatus::Completed),
            ListedStatus::Failed => State::Seen(TaskStatus::Failed),
            ListedStatus::Cancelled => State::Seen(TaskStatus::Cancelled),
            ListedStatus::Lost => State::Lost,
            ListedStatus::Unanswered => State::Unanswered,
        });
        ListOptions {
            live: self.live,
            states: states.collect(),
            tool: self.tool,
            limit: self.limit,
            offline: self.offline,
        }
    }
}

impl Watch {
    pub(super) fn options(self) -> anyhow::Result<WatchOptions> {
        let until = match (self.any, self.fail_fast) {
            (true, _) => Until::Any,
            (_, true) => Until::Failure,
            _ => Until::All,
        };
        Ok(WatchOptions { wait: self.wait.options()?, ids: self.ids, last: self.last, until })
    }
}

impl Wait {
    pub(super) fn options(&self) -> anyhow::Result<WaitOptions> {
        Ok(WaitOptions {
            timeout: self.timeout.and_then(limit),
            least_pause: self.poll,
            patience: limit(self.patience),
            cancel_on_interrupt: self.cancel_on_interrupt,
            save: self.save.clone(),
            input: self.input.options()?,
        })
    }
}

impl Input {
    fn options(&self) -> anyhow::Result<InputOptions> {
        let items = self.answer.iter().map(|typed| Item::parse(typed)).collect::<Result<Vec<_>, _>>()?;
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file).map_err(|error| {
                UsageError::new(format!("cannot read --answers from {}: {error}", text::line(&file.to_string_lossy())))
            })
        };
        let file = self.answers.as_ref().map(read).transpose()?;
        let given =
            Given::new(items, file.as_deref()).map_err(|error| UsageError::new(format!("--answers: {error}")))?;
        let otherwise = match &self.on_input {
            Some(OnInput::Ask) if !ask::can_ask() => {
                let message = "--on-input ask needs a terminal for stdin and stderr";
                return Err(UsageError::hinting(message, "--answer FIELD=… answers without one").into());
            }
            Some(how) => how.clone(),
            None if ask::can_ask() => OnInput::Ask,
            None => OnInput::Fail,
        };
        Ok(InputOptions { given, otherwise })
    }
}

/// `--on-input`.
pub(super) fn on_input(typed: &str) -> Result<OnInput, String> {
    match typed {
        "ask" => Ok(OnInput::Ask),
        "defaults" => Ok(OnInput::Defaults),
        "decline" => Ok(OnInput::Decline),
        "cancel" => Ok(OnInput::Cancel),
        "fail" => Ok(OnInput::Fail),
        "wait" => Ok(OnInput::Wait),
        _ => command_of(typed)
            .unwrap_or_else(|| Err("write ask, defaults, decline, cancel, fail, wait or exec:COMMAND".to_owned()))
            .map(OnInput::Exec),
    }
}

/// `--sampling`.
pub(super) fn sampling(typed: &str) -> Result<SamplingCommand, String> {
    command_of(typed).unwrap_or_else(|| Err("write exec:COMMAND".to_owned())).map(SamplingCommand)
}

/// The words of `exec:COMMAND`, split as a shell would.
fn command_of(typed: &str) -> Option<Result<Vec<String>, String>> {
    let command = typed.strip_prefix("exec:")?;
    Some(match shell_words::split(command) {
        Ok(words) if !words.is_empty() => Ok(words),
        Ok(_) => Err("exec: needs a command".to_owned()),
        Err(_) => Err("the command has a quote that does not close".to_owned()),
    })
}

async fn read_input(input: &str) -> anyhow::Result<String> {
    if input == "-" {
        // Off the runtime's thread, so that Ctrl-C is heard while nobody writes.
        let read = tokio::task::spawn_blocking(|| {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        });
        return read.await?.map_err(|error| UsageError::new(format!("cannot read --input from stdin: {error}")).into());
    }
    match input.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| UsageError::new(format!("cannot read --input from {file}: {error}")).into()),
        None if !input.trim_start().starts_with('{') && std::path::Path::new(input).is_file() => {
            let message = format!("--input is no JSON, but the name of a file: {input}");
            Err(UsageError::hinting(message, format!("--input @{input} reads the file")).into())
        }
        None => Ok(input.to_owned()),
    }
}

/// Zero is no limit.
fn limit(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
}

/// `K=V`.
pub(super) fn env_pair(typed: &str) -> Result<(String, String), String> {
    match typed.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// `Name: value`, as curl has it. The value is not repeated in an error: it may be a secret.
pub(super) fn header_pair(typed: &str) -> Result<(String, String), String> {
    match typed.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write `Name: value`".to_owned()),
    }
}

/// `64M`, `512K`, `1G`, or bytes.
pub(super) fn size(typed: &str) -> Result<usize, String> {
    let typed = typed.trim();
    let (digits, shift) = match typed.char_indices().last() {
        Some((end, 'k' | 'K')) => (&typed[..end], 10),
        Some((end, 'm' | 'M')) => (&typed[..end], 20),
        Some((end, 'g' | 'G')) => (&typed[..end], 30),
        _ => (typed, 0),
    };
    let bytes =
        digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "write a number of bytes, or 512K, 64M, 1G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_pairs() {
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("10"), Ok(10));
        for bad in ["", "M", "0", "-1", "1T", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(env_pair("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(env_pair("=b").is_err());
        assert_eq!(header_pair("X-A:  b: c "), Ok(("X-A".to_owned(), "b: c".to_owned())));
        assert!(!header_pair("secret").unwrap_err().contains("secret"));
    }
}
