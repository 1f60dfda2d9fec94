//! The only place that writes to stdout and stderr.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::Value;

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

/// Lines that a server said and that wait for a slow terminal; what goes beyond is dropped and counted.
const RELAY: usize = 512;
/// How long leaving waits for them.
const RELAY_FLUSH: Duration = Duration::from_millis(300);

/// Writes to stdout and stderr. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Printer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    voice: Voice,
    colour: bool,
    stdout_is_terminal: bool,
    stdout_closed: AtomicBool,
    stdout_failed: AtomicBool,
    noise_told: AtomicBool,
    bar: Mutex<Option<ProgressBar>>,
    relay: Mutex<Option<Relay>>,
}

#[derive(Debug)]
struct Relay {
    lines: SyncSender<String>,
    thread: std::thread::JoinHandle<()>,
    dropped: usize,
}

impl Printer {
    /// A printer for this process's own stdout and stderr.
    pub fn new(voice: Voice) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self(Arc::new(Inner {
            voice,
            colour: !plain && std::io::stderr().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stdout_closed: AtomicBool::new(false),
            stdout_failed: AtomicBool::new(false),
            noise_told: AtomicBool::new(false),
            bar: Mutex::default(),
            relay: Mutex::default(),
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
        self.0.stdout_closed.load(Ordering::Relaxed)
    }

    /// Whether data could not be written though somebody wants it: a full disk, say.
    pub fn stdout_has_failed(&self) -> bool {
        self.0.stdout_failed.load(Ordering::Relaxed)
    }

    /// Writes a line of data to stdout. A reader that has left is no error: what is left to say has no taker.
    pub fn data(&self, line: &str) {
        if self.stdout_is_closed() {
            return;
        }
        let mut fault = None;
        self.beside_bar(|| {
            let mut stdout = std::io::stdout().lock();
            let written = stdout.write_all(line.as_bytes()).and_then(|()| match line.ends_with('\n') {
                true => stdout.flush(),
                false => stdout.write_all(b"\n").and_then(|()| stdout.flush()),
            });
            match written {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                    self.0.stdout_closed.store(true, Ordering::Relaxed);
                }
                Err(error) => fault = Some(error),
            }
        });
        if let Some(error) = fault
            && !self.0.stdout_failed.swap(true, Ordering::Relaxed)
        {
            self.error(&format!("cannot write to stdout: {error}"));
        }
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
        if self.0.voice.verbosity > 0 {
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
            self.relay("note: the server writes lines to its standard output that are no messages; they are skipped (-v shows them)".to_owned());
        }
    }

    /// Hands a line to a thread of its own, so that a slow terminal never stalls the protocol. Where too many wait, the
    /// newest are dropped and counted.
    pub fn relay(&self, line: String) {
        let mut relay = self.0.relay.lock().unwrap_or_else(PoisonError::into_inner);
        let relay = relay.get_or_insert_with(|| self.start_relay());
        if relay.dropped > 0 {
            let count = std::mem::take(&mut relay.dropped);
            if let Err(TrySendError::Full(_)) =
                relay.lines.try_send(format!("note: {} not shown", text::plural(count, "line")))
            {
                relay.dropped = count;
            }
        }
        if let Err(TrySendError::Full(_)) = relay.lines.try_send(line) {
            relay.dropped += 1;
        }
    }

    fn start_relay(&self) -> Relay {
        let (lines, receiver) = sync_channel::<String>(RELAY);
        let printer = self.clone();
        let thread = std::thread::spawn(move || {
            for line in receiver {
                printer.talk(&line);
            }
        });
        Relay { lines, thread, dropped: 0 }
    }

    /// Writes out what waits, within a bound: a terminal that takes nothing does not keep us.
    pub fn finish(&self) {
        let relay = self.0.relay.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Relay { lines, thread, .. }) = relay {
            drop(lines);
            let end = std::time::Instant::now() + RELAY_FLUSH;
            while !thread.is_finished() && std::time::Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Shows `bar` below what is written from now on.
    pub(super) fn attach_bar(&self, bar: ProgressBar) {
        *self.0.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
    }

    pub(super) fn detach_bar(&self) {
        let bar = self.0.bar.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }

    fn talk(&self, message: &str) {
        self.beside_bar(|| {
            let mut stderr = std::io::stderr().lock();
            // In one write, so that lines of several threads do not mix. With stderr closed there is nobody to tell.
            let _ = stderr.write_all(format!("{message}\n").as_bytes());
        });
    }

    fn beside_bar(&self, write: impl FnOnce()) {
        let bar = self.0.bar.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match bar {
            Some(bar) => bar.suspend(write),
            None => write(),
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
