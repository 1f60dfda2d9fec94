//! Progress as plain lines: one per change, for logs and pipes.

use std::time::Duration;

use tokio::time::Instant;

use super::printer::Printer;
use crate::lifecycle::{Event, Reporter};
use crate::model::{Task, Ttl, duration, text};
use crate::session::{Progress, Question, QuestionKind};

/// The least time between two lines about progress.
const APART: Duration = Duration::from_secs(1);
/// The most characters of a server's message.
const MESSAGE: usize = 300;

/// Writes lines.
#[derive(Debug)]
pub struct Lines {
    printer: Printer,
    name: Option<String>,
    next_progress: Option<Instant>,
    last: String,
}

impl Lines {
    /// Writes to `printer`'s stderr, under a name where the call is one of several.
    pub fn new(printer: Printer, name: Option<String>) -> Self {
        Self { printer, name, next_progress: None, last: String::new() }
    }

    fn line(&mut self, line: String) {
        if line != self.last {
            self.printer.note(&line);
            self.last = line;
        }
    }
}

impl Reporter for Lines {
    fn report(&mut self, event: &Event) {
        match event {
            Event::Called { .. } => {}
            Event::Progress(progress) => {
                let now = Instant::now();
                if self.next_progress.is_none_or(|next| now >= next) {
                    self.next_progress = Some(now + APART);
                    self.line(under(self.name.as_deref(), told(progress)));
                }
            }
            other => {
                for line in story(other, self.name.as_deref()) {
                    self.line(line);
                }
            }
        }
    }
}

/// What is told of an event other than progress, whatever shows it. One of several tasks is told under its name.
pub(super) fn story(event: &Event, name: Option<&str>) -> Vec<String> {
    let told = match event {
        Event::Called { .. } | Event::Progress(_) => Vec::new(),
        Event::Created { task, immediate } => {
            let mut lines = Vec::new();
            if name.is_none() {
                lines.push(format!("task {}{}", task.id, keep(task)));
            }
            lines.extend(immediate.as_ref().map(|words| format!("server says: {}", message(words))));
            lines.push(status(task));
            lines
        }
        Event::Changed { task } => vec![status(task)],
        Event::PollFailed { reason, retry_in, gives_up_in, .. } => {
            let end = gives_up_in.map_or_else(String::new, |left| format!(", giving up in {}", duration::human(left)));
            vec![format!("cannot see the task: {reason}; next look in {}{end}", duration::human(*retry_in))]
        }
        Event::Asked { question } => vec![format!("the server asks: {}", asked(question))],
        Event::Answered { action, .. } => vec![format!("answered: {action}")],
        Event::Withdrawn { .. } => vec!["the question is no longer asked".to_owned()],
        Event::AnswerLost { reason, .. } => vec![format!("the answer could not be delivered: {reason}")],
        Event::CancelAsked { id } => vec![format!("asking to cancel task {id}")],
        Event::CancelRefused { id, reason } => vec![format!("task {id} is not cancelled: {reason}")],
    };
    told.into_iter().map(|line| under(name, line)).collect()
}

fn under(name: Option<&str>, line: String) -> String {
    match name {
        Some(name) => format!("{name}: {line}"),
        None => line,
    }
}

fn keep(task: &Task) -> String {
    match task.ttl {
        Ttl::Limited(ttl) => format!(" (kept for {})", duration::human(ttl)),
        Ttl::Unlimited => " (kept without limit)".to_owned(),
        Ttl::Unstated => String::new(),
    }
}

fn status(task: &Task) -> String {
    match &task.status_message {
        Some(words) => format!("{}: {}", task.status, message(words)),
        None => task.status.to_string(),
    }
}

/// What a question is about, on one line.
fn asked(question: &Question) -> String {
    match &question.kind {
        QuestionKind::Sampling => "a language model is to say something".to_owned(),
        QuestionKind::Form { .. } | QuestionKind::Url { .. } => message(question.message()),
    }
}

/// A server's words on one line, within reason.
pub(super) fn message(words: &str) -> String {
    text::truncate(&text::line(words), MESSAGE).into_owned()
}

fn told(progress: &Progress) -> String {
    let mut line = format!("progress {}", number(progress.progress));
    if let Some(total) = usable_total(progress) {
        line.push_str(&format!("/{} ({}%)", number(total), percent(progress.progress, total)));
    }
    if let Some(words) = progress.message.as_deref().filter(|words| !words.trim().is_empty()) {
        line.push_str(&format!(": {}", message(words)));
    }
    line
}

/// A total that a share can be computed of.
pub(super) fn usable_total(progress: &Progress) -> Option<f64> {
    progress.total.filter(|total| total.is_finite() && *total > 0.0)
}

/// Whole percent, whatever the numbers are.
pub(super) fn percent(progress: f64, total: f64) -> u8 {
    let share = (progress / total * 100.0).clamp(0.0, 100.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped; no number becomes zero")]
    if share.is_nan() { 0 } else { share.floor() as u8 }
}

/// `36`, `1.5`, `12.3k`: at most a few characters.
pub(super) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1e15 {
        format!("{value:.1e}")
    } else if magnitude >= 1e9 {
        format!("{:.1}G", value / 1e9)
    } else if magnitude >= 1e7 {
        format!("{:.1}M", value / 1e6)
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_progress_can_be_told() {
        let told = |progress, total, message: Option<&str>| {
            told(&Progress { progress, total, message: message.map(str::to_owned), raw: serde_json::Value::Null })
        };
        assert_eq!(told(3.0, Some(7.0), Some("dough\u{1b}[2J")), "progress 3/7 (42%): dough\\u{1b}[2J");
        assert_eq!(told(7.0, Some(5.0), None), "progress 7/5 (100%)");
        assert_eq!(told(-3.0, Some(5.0), None), "progress -3/5 (0%)");
        assert_eq!(told(1.0, Some(0.0), Some(" ")), "progress 1");
        assert_eq!(told(1e308, Some(1e308), None), "progress 1.0e308/1.0e308 (100%)");
        assert_eq!(told(f64::NAN, Some(5.0), None), "progress NaN/5 (0%)");
        assert_eq!(told(12.5, None, None), "progress 12.5");
    }
}
