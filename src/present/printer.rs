//! The only place that writes to stdout and stderr, by way of threads that may wait where we must not.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::writer::{Job, MakeBar, Stdout, Writer};
use crate::model::{RawJson, text};

/// What stdout carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Text for people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One JSON event a line, as it happens.
    Jsonl,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A bar that is redrawn.
    Bar,
    /// A line per change.
    Lines,
    /// Not at all.
    None,
}

/// How much to tell, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Voice {
    /// What stdout carries.
    pub output: Output,
    /// Errors alone.
    pub quiet: bool,
    /// How often `-v` was given.
    pub verbosity: u8,
}

/// Lines that may wait for a slow stderr, of those that a server said; what goes beyond is dropped and counted.
const RELAY: u64 = 512;
/// Lines of any kind that may.
const TALK: u64 = 8_192;
/// Lines that may wait for a slow stdout before progress is left out.
const DATA: u64 = 1_024;
/// How long leaving waits for a stderr that takes nothing.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Writes to stdout and stderr. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Printer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    voice: Voice,
    colour: bool,
    stdout_is_terminal: bool,
    noise_told: AtomicBool,
    writer: Writer,
    /// Lines that were not shown.
    dropped: AtomicU64,
}

impl Printer {
    /// A printer for this process's own stdout and stderr.
    pub fn new(voice: Voice) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let stdout_is_terminal = std::io::stdout().is_terminal();
        let stderr_is_terminal = std::io::stderr().is_terminal();
        Self(Arc::new(Inner {
            voice,
            colour: !plain && stderr_is_terminal,
            stdout_is_terminal,
            noise_told: AtomicBool::new(false),
            writer: Writer::new(stdout_is_terminal && stderr_is_terminal),
            dropped: AtomicU64::new(0),
        }))
    }

    /// What stdout carries.
    pub fn output(&self) -> Output {
        self.0.voice.output
    }

    /// How often `-v` was given.
    pub fn verbosity(&self) -> u8 {
        self.0.voice.verbosity
    }

    /// Whether a person reads stdout.
    pub fn stdout_is_terminal(&self) -> bool {
        self.0.stdout_is_terminal
    }

    /// Whether nobody reads stdout any more.
    pub fn stdout_is_closed(&self) -> bool {
        *self.0.writer.stdout().borrow() == Stdout::Closed
    }

    /// Waits until nobody reads stdout any more.
    pub async fn stdout_closes(&self) {
        let mut stdout = self.0.writer.stdout();
        while stdout.wait_for(|stdout| *stdout == Stdout::Closed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Writes a line of data to stdout. A reader that has left is no error: what is left to say has no taker.
    pub fn data(&self, line: &str) {
        self.0.writer.send(Job::Data(line.to_owned()));
    }

    /// Whether stdout is so far behind that what may be left out should be.
    pub fn stdout_is_behind(&self) -> bool {
        let (data, talk) = self.0.writer.waiting();
        data.max(talk) >= DATA
    }

    /// Writes text that a server wrote: as it is for a program, escaped for a person.
    pub fn server_text(&self, server_text: &str) {
        if self.0.stdout_is_terminal {
            self.data(&text::block(server_text));
        } else {
            self.data(server_text);
        }
    }

    /// Writes a JSON document of ours: indented for a person.
    pub fn json(&self, value: &Value) {
        if self.0.stdout_is_terminal {
            // Beyond the control characters that JSON escapes by itself there are those that turn text around.
            self.data(&text::block(&serde_json::to_string_pretty(value).unwrap_or_default()));
        } else {
            self.data(&value.to_string());
        }
    }

    /// Writes JSON on one line, as `-o jsonl` wants it.
    pub fn json_line(&self, value: &Value) {
        let line = value.to_string();
        if self.0.stdout_is_terminal { self.data(&text::line(&line)) } else { self.data(&line) }
    }

    /// Writes a JSON document of the server: to the letter for a program, indented for a person. Either way no digit
    /// changes.
    pub fn raw_json(&self, raw: &RawJson) {
        if self.0.stdout_is_terminal {
            self.json(&raw.value());
        } else {
            self.data(raw.text());
        }
    }

    /// Tells something by the way.
    pub fn note(&self, message: &str) {
        if !self.0.voice.quiet {
            self.talk(message);
        }
    }

    /// Tells what `-v` asks for.
    pub fn verbose(&self, message: &str) {
        if self.0.voice.verbosity > 0 && !self.0.voice.quiet {
            self.talk(message);
        }
    }

    /// Tells of something that may be wrong.
    pub fn warn(&self, message: &str) {
        if !self.0.voice.quiet {
            self.talk(&format!("{} {message}", self.paint("33;1", "warning:")));
        }
    }

    /// Tells what went wrong.
    pub fn error(&self, message: &str) {
        self.talk(&format!("{} {message}", self.paint("31;1", "error:")));
    }

    /// Tells more about what went wrong.
    pub fn plain_error(&self, message: &str) {
        self.talk(message);
    }

    /// Tells what to do next.
    pub fn hint(&self, message: &str) {
        self.talk(&format!("{} {message}", self.paint("36;1", "hint:")));
    }

    /// Tells once that a server writes things to stdout that are no messages.
    pub fn noise(&self, line: &str) {
        let first = !self.0.noise_told.swap(true, Ordering::Relaxed);
        if self.0.voice.verbosity > 0 {
            self.relay(format!("server stdout | {}", text::line(line)));
        } else if first && !self.0.voice.quiet {
            let note = "note: the server writes lines to its standard output that are no messages; they are skipped (-v shows them)";
            self.relay(note.to_owned());
        }
    }

    /// Tells what a server said unasked. Where too many lines wait for a slow stderr they are dropped and counted.
    pub fn relay(&self, line: String) {
        if !self.0.voice.quiet {
            self.talk_within(RELAY, line);
        }
    }

    /// Waits until all data is written, within `limit`, and a moment for the rest. Whether the data was.
    pub async fn finish(&self, limit: Option<Duration>) -> bool {
        let data = self.0.writer.data_written();
        let all = match limit {
            Some(limit) => timeout(limit, data).await.is_ok(),
            None => {
                data.await;
                true
            }
        };
        let failure = match &*self.0.writer.stdout().borrow() {
            Stdout::Failed(error) => Some(format!("cannot write to stdout: {error}")),
            Stdout::Open | Stdout::Closed => None,
        };
        if let Some(failure) = &failure {
            self.error(failure);
        }
        self.tell_dropped();
        let _ = timeout(LAST_WORDS, self.0.writer.talk_written()).await;
        all && failure.is_none()
    }

    /// Has `ask` run on the thread that writes to the terminal, after all that was said before.
    pub(super) fn send_question(&self, ask: Box<dyn FnOnce() + Send>) {
        self.0.writer.send(Job::Ask(ask));
    }

    /// Whether colours are wanted.
    pub(super) fn is_colourful(&self) -> bool {
        self.0.colour
    }

    /// Shows a bar below what is written from now on.
    pub(super) fn show_bar(&self, make: MakeBar) {
        self.0.writer.send(Job::ShowBar(make));
    }

    pub(super) fn hide_bar(&self) {
        self.0.writer.send(Job::HideBar);
    }

    fn talk(&self, message: &str) {
        self.talk_within(TALK, message.to_owned());
    }

    fn talk_within(&self, limit: u64, line: String) {
        if self.0.writer.waiting().1 >= limit {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.tell_dropped();
            self.0.writer.send(Job::Talk(line));
        }
    }

    fn tell_dropped(&self) {
        let count = usize::try_from(self.0.dropped.swap(0, Ordering::Relaxed)).unwrap_or(usize::MAX);
        if count > 0 {
            self.0.writer.send(Job::Talk(format!("note: {} not shown", text::plural(count, "line"))));
        }
    }

    fn paint(&self, code: &str, word: &str) -> String {
        if self.0.colour { format!("\u{1b}[{code}m{word}\u{1b}[0m") } else { word.to_owned() }
    }
}

/// The rate of something that was counted at several times, over the last few of them.
#[derive(Debug, Default)]
pub(super) struct Rate {
    samples: VecDeque<(tokio::time::Instant, f64)>,
}

impl Rate {
    /// How many seconds count.
    const WINDOW: Duration = Duration::from_secs(15);
    /// How far apart samples are kept.
    const APART: Duration = Duration::from_millis(200);

    pub(super) fn count(&mut self, now: tokio::time::Instant, value: f64) {
        if self.samples.back().is_some_and(|(_, last)| value < *last) {
            // Going backwards starts anew.
            self.samples.clear();
        }
        let crowded = self.samples.iter().rev().nth(1).is_some_and(|(before, _)| now - *before < Self::APART);
        if crowded {
            self.samples.pop_back();
        }
        self.samples.push_back((now, value));
        while self.samples.len() > 2 && now - self.samples[0].0 > Self::WINDOW {
            self.samples.pop_front();
        }
    }

    /// Per second; `None` where too little is known.
    pub(super) fn per_second(&self) -> Option<f64> {
        let ((from, first), (to, last)) = (self.samples.front()?, self.samples.back()?);
        let seconds = (*to - *from).as_secs_f64();
        let rate = (last - first) / seconds;
        (seconds >= 0.2 && rate.is_finite() && rate > 0.0).then_some(rate)
    }
}
