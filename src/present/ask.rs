//! A person at the terminal, and how to stop asking one.
//!
//! Prompts run on the thread that writes to the terminal, so that nothing is written into them: what is said meanwhile waits
//! in its queue, and the bar has stepped aside. The protocol goes on beside. A prompt reads keys and cannot be told to stop,
//! so that it is woken by a signal where nobody wants its answer any more.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use console::Term;
use dialoguer::theme::{ColorfulTheme, SimpleTheme, Theme};
use dialoguer::{Input, MultiSelect, Select};
use tokio::sync::oneshot;

use super::Printer;
use crate::model::text;

/// How long a prompt may take to stop.
const STOPS_WITHIN: Duration = Duration::from_millis(500);
/// Columns where the terminal does not say.
const COLUMNS: usize = 80;
/// Columns that a list needs beside its items, and a heading beside its words.
const MARGIN: usize = 8;

/// Why there is no answer from the terminal.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Nobody wants it any more.
    #[error("the question is no longer asked")]
    Stopped,
    /// Ctrl-C, which has been passed on.
    #[error("interrupted")]
    Interrupted,
    /// The terminal is out of order.
    #[error("cannot ask at the terminal: {0}")]
    Terminal(String),
}

/// Whether there is a person to ask: keys come from a terminal, and what is shown goes to one that can be drawn on.
pub fn can_ask() -> bool {
    let is_plain = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !is_plain
}

/// Asks a person, and waits for the answer. Dropping the future stops the asking.
///
/// # Errors
/// Where there is no answer.
pub async fn ask<T: Send + 'static>(
    printer: &Printer,
    questions: impl FnOnce(&Person) -> Result<T, NoAnswer> + Send + 'static,
) -> Result<T, NoAnswer> {
    let stop = Arc::new(Stop::default());
    let _wakes = wakes()?;
    let _stopping = Stopping(Arc::clone(&stop));
    let (sender, receiver) = oneshot::channel();
    let is_colourful = printer.is_colourful();
    printer.send_question(Box::new(move || {
        let person = Person::new(Arc::clone(&stop), is_colourful);
        let answer = person.listen(questions);
        let _ = sender.send(answer);
    }));
    receiver.await.unwrap_or(Err(NoAnswer::Stopped))
}

/// Whether to stop asking, and whom to wake for it.
#[derive(Debug, Default)]
struct Stop {
    wanted: AtomicBool,
    #[cfg(unix)]
    asking: Mutex<Option<nix::sys::pthread::Pthread>>,
    #[cfg(not(unix))]
    asking: Mutex<Option<()>>,
}

/// Stops the asking when it is dropped.
struct Stopping(Arc<Stop>);

impl Drop for Stopping {
    fn drop(&mut self) {
        self.0.wanted.store(true, Ordering::SeqCst);
        let end = Instant::now() + STOPS_WITHIN;
        // Again and again, as a prompt may just be between two looks at the keyboard.
        while self.0.wake() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Stop {
    /// Wakes the prompt; whether there is one.
    #[cfg(unix)]
    fn wake(&self) -> bool {
        let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.is_some_and(|thread| nix::sys::pthread::pthread_kill(thread, nix::sys::signal::Signal::SIGURG).is_ok())
    }

    /// Where a prompt cannot be woken it ends with the next key.
    #[cfg(not(unix))]
    fn wake(&self) -> bool {
        false
    }

    fn is_asking(&self, asking: bool) {
        let mut thread = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(unix)]
        let this = nix::sys::pthread::pthread_self();
        #[cfg(not(unix))]
        let this = ();
        *thread = asking.then_some(this);
    }
}

/// Has the signal that wakes a prompt do nothing but that.
#[cfg(unix)]
fn wakes() -> Result<impl Sized, NoAnswer> {
    let urgent = tokio::signal::unix::SignalKind::from_raw(nix::sys::signal::Signal::SIGURG as i32);
    tokio::signal::unix::signal(urgent).map_err(|error| NoAnswer::Terminal(error.to_string()))
}

#[cfg(not(unix))]
fn wakes() -> Result<impl Sized, NoAnswer> {
    Ok(())
}

/// Whoever sits at the terminal. What is shown must be escaped.
pub struct Person {
    stop: Arc<Stop>,
    theme: Box<dyn Theme>,
    term: Term,
}

impl Person {
    fn new(stop: Arc<Stop>, is_colourful: bool) -> Self {
        let theme: Box<dyn Theme> =
            if is_colourful { Box::new(ColorfulTheme::default()) } else { Box::new(SimpleTheme) };
        Self { stop, theme, term: Term::stderr() }
    }

    fn listen<T>(&self, questions: impl FnOnce(&Self) -> Result<T, NoAnswer>) -> Result<T, NoAnswer> {
        keep_interrupts();
        self.stop.is_asking(true);
        // What was typed before the question was not meant for it.
        forget_keys();
        let answer = self.check().and_then(|()| questions(self));
        self.stop.is_asking(false);
        if answer.is_err() {
            let _ = self.term.show_cursor();
            self.say("");
        }
        answer
    }

    fn check(&self) -> Result<(), NoAnswer> {
        if self.stop.wanted.load(Ordering::SeqCst) { Err(NoAnswer::Stopped) } else { Ok(()) }
    }

    fn heard<T>(&self, outcome: dialoguer::Result<T>) -> Result<T, NoAnswer> {
        let outcome = outcome.map_err(|dialoguer::Error::IO(error)| match error.kind() {
            std::io::ErrorKind::Interrupted => {
                take_interrupt();
                NoAnswer::Interrupted
            }
            _ => NoAnswer::Terminal(error.to_string()),
        });
        self.check()?;
        if matches!(outcome, Err(NoAnswer::Interrupted)) {
            pass_interrupt_on();
        }
        outcome
    }

    /// How wide the terminal is.
    pub fn columns(&self) -> usize {
        match self.term.size().1 {
            0 => COLUMNS,
            columns => usize::from(columns),
        }
    }

    /// A list is drawn anew for each key, and a heading with what was typed: more than a line would stay behind.
    fn fitting(&self, words: &str) -> String {
        text::truncate(words, self.columns().saturating_sub(MARGIN)).into_owned()
    }

    /// Shows a line.
    pub fn say(&self, line: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }

    /// Shows a line that warns.
    pub fn warn(&self, line: &str) {
        self.say(&format!("{} {line}", console::style("warning:").for_stderr().yellow().bold()));
    }

    /// A line of text; `initial` can be changed.
    ///
    /// # Errors
    /// Where there is no answer.
    pub fn line(&self, prompt: &str, initial: &str) -> Result<String, NoAnswer> {
        self.check()?;
        let mut input =
            Input::<String>::with_theme(self.theme.as_ref()).with_prompt(self.fitting(prompt)).allow_empty(true);
        if !initial.is_empty() {
            input = input.with_initial_text(initial);
        }
        self.heard(input.interact_text_on(&self.term))
    }

    /// One of several; `None` where the person presses Escape.
    ///
    /// # Errors
    /// Where there is no answer.
    pub fn choose(&self, prompt: &str, items: &[String], default: usize) -> Result<Option<usize>, NoAnswer> {
        self.check()?;
        let select = Select::with_theme(self.theme.as_ref()).with_prompt(self.fitting(prompt)).default(default);
        self.heard(select.items(items.iter().map(|item| self.fitting(item))).interact_on_opt(&self.term))
    }

    /// Some of several; `None` where the person presses Escape.
    ///
    /// # Errors
    /// Where there is no answer.
    pub fn choose_some(
        &self,
        prompt: &str,
        items: &[String],
        defaults: &[bool],
    ) -> Result<Option<Vec<usize>>, NoAnswer> {
        self.check()?;
        let select = MultiSelect::with_theme(self.theme.as_ref()).with_prompt(self.fitting(prompt));
        let select = select.items(items.iter().map(|item| self.fitting(item)));
        self.heard(select.defaults(defaults).interact_on_opt(&self.term))
    }
}

#[cfg(unix)]
fn forget_keys() {
    let _ = nix::sys::termios::tcflush(std::io::stdin(), nix::sys::termios::FlushArg::TCIFLUSH);
}

#[cfg(not(unix))]
fn forget_keys() {}

/// The reading of keys raises SIGINT on its own thread, for Ctrl-C and for whatever else wakes it. Here it waits until it is
/// known which of them it was.
#[cfg(unix)]
fn keep_interrupts() {
    let _ = interrupts().thread_block();
}

#[cfg(unix)]
fn take_interrupt() {
    // Raised once more, as not every interruption raises it, and there is never more than one that waits.
    if nix::sys::signal::raise(nix::sys::signal::Signal::SIGINT).is_ok() {
        let _ = interrupts().wait();
    }
}

/// It was Ctrl-C: whoever listens for that shall hear of it.
#[cfg(unix)]
fn pass_interrupt_on() {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGINT);
}

#[cfg(unix)]
fn interrupts() -> nix::sys::signal::SigSet {
    std::iter::once(nix::sys::signal::Signal::SIGINT).collect()
}

#[cfg(not(unix))]
fn keep_interrupts() {}

#[cfg(not(unix))]
fn take_interrupt() {}

#[cfg(not(unix))]
fn pass_interrupt_on() {}
