//! Lines at the foot of a terminal's stderr that show how far calls have come, one for each.
//!
//! What a line says is composed by a pure function of a view and a width; drawing them, ten times a second at most and on
//! a thread of its own, is indicatif's part. So any number of notifications costs no more than keeping the views.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::lines::{number, percent, story, usable_total};
use super::parked::Parked;
use super::printer::{Printer, Rate};
use super::table;
use crate::lifecycle::{Event, Reporter};
use crate::model::{Task, TaskStatus, duration, text};
use crate::session::Progress;

/// Nothing is drawn before: most calls are over by then.
const QUIET: Duration = Duration::from_millis(250);
/// Time between two drawings.
const TICK: Duration = Duration::from_millis(100);
/// Drawings a second, at most.
const HZ: u8 = 10;
/// Columns where the terminal does not say.
const COLUMNS: usize = 80;
/// Rows where it does not.
const ROWS: usize = 24;
/// Rows that are left to what is written above the lines.
const SPARE_ROWS: usize = 2;

/// The foot of the terminal. Copies share it.
#[derive(Clone, Debug)]
pub struct Foot(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    printer: Printer,
    views: Views,
    start: JoinHandle<()>,
}

/// In the order in which they were added.
type Views = Arc<Mutex<Vec<Arc<Mutex<View>>>>>;

impl Foot {
    /// Draws on `printer`'s stderr, from a moment from now on.
    pub fn new(printer: Printer) -> Self {
        let views = Views::default();
        let start = tokio::spawn({
            let (printer, views) = (printer.clone(), Arc::clone(&views));
            async move {
                tokio::time::sleep(QUIET).await;
                printer.show_bar(Box::new(move || draw(views)));
            }
        });
        Self(Arc::new(Inner { printer, views, start }))
    }

    /// A line for one call, under a name where it is one of several.
    pub fn bar(&self, name: Option<String>) -> Bar {
        let mut view = View::new(Instant::now());
        view.name = name.clone().unwrap_or_default();
        view.is_one_of_several = name.is_some();
        let view = Arc::new(Mutex::new(view));
        lock(&self.0.views).push(Arc::clone(&view));
        Bar { foot: self.clone(), view, name }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.start.abort();
        self.printer.hide_bar();
    }
}

/// One line.
#[derive(Debug)]
pub struct Bar {
    foot: Foot,
    view: Arc<Mutex<View>>,
    name: Option<String>,
}

impl Reporter for Bar {
    fn report(&mut self, event: &Event) {
        match event {
            Event::Called { tool } if self.name.is_none() => lock(&self.view).name = text::line(tool).into_owned(),
            Event::Progress(progress) => lock(&self.view).progress(progress, Instant::now()),
            Event::Changed { task } => lock(&self.view).see(task, Instant::now()),
            other => {
                if let Event::Created { task, .. } = other {
                    lock(&self.view).see(task, Instant::now());
                }
                // The status is in the line already.
                let lines = story(other, self.name.as_deref());
                let shown = if matches!(other, Event::Created { .. }) { &lines[..lines.len() - 1] } else { &lines[..] };
                for line in shown {
                    self.foot.0.printer.note(line);
                }
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        lock(&self.foot.0.views).retain(|view| !Arc::ptr_eq(view, &self.view));
    }
}

fn draw(views: Views) -> ProgressBar {
    let bar =
        ProgressBar::with_draw_target(None, ProgressDrawTarget::term_like_with_hz(Box::new(Parked::stderr()), HZ));
    let lines = move |_: &ProgressState, lines: &mut dyn std::fmt::Write| {
        let columns = table::width().map_or(COLUMNS, usize::from);
        let rows = table::height().map_or(ROWS, usize::from);
        // One column is left free: some terminals wrap when the last is written.
        let composed = compose(&lock(&views), Instant::now(), columns.saturating_sub(1), rows);
        let _ = lines.write_str(&composed.join("\n"));
    };
    if let Ok(style) = ProgressStyle::with_template("{lines}") {
        bar.set_style(style.with_key("lines", lines));
    }
    bar.enable_steady_tick(TICK);
    bar
}

/// A line for each view, and one for those that there is no room for.
fn compose(views: &[Arc<Mutex<View>>], now: Instant, columns: usize, rows: usize) -> Vec<String> {
    let room = rows.saturating_sub(SPARE_ROWS).max(1);
    let shown = if views.len() > room { room - 1 } else { views.len() };
    let composed = views.iter().take(shown).map(|view| {
        let mut view = lock(view);
        view.frame = view.frame.wrapping_add(1);
        view.compose(now, columns)
    });
    let mut lines: Vec<String> = composed.collect();
    if shown < views.len() {
        let rest = text::plural(views.len() - shown, "task");
        lines.push(text::truncate(&format!("… and {rest} more"), columns).into_owned());
    }
    lines
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of the call.
#[derive(Debug)]
struct View {
    name: String,
    /// Its name tells it from the others, and comes before all else.
    is_one_of_several: bool,
    started: Instant,
    status: Option<TaskStatus>,
    message: String,
    progress: Option<Progress>,
    rate: Rate,
    expires: Option<Instant>,
    seen_first: Option<Instant>,
    frame: usize,
}

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Narrower than this a bar says nothing.
const LEAST_BAR: usize = 8;
const MOST_BAR: usize = 24;

impl View {
    fn new(now: Instant) -> Self {
        Self {
            name: String::new(),
            is_one_of_several: false,
            started: now,
            status: None,
            message: String::new(),
            progress: None,
            rate: Rate::default(),
            expires: None,
            seen_first: None,
            frame: 0,
        }
    }

    fn progress(&mut self, progress: &Progress, now: Instant) {
        if let Some(words) = progress.message.as_deref().filter(|words| !words.trim().is_empty()) {
            self.message = text::line(words.trim()).into_owned();
        }
        self.rate.count(now, progress.progress);
        self.progress = Some(progress.clone());
    }

    fn see(&mut self, task: &Task, now: Instant) {
        let first = *self.seen_first.get_or_insert(now);
        // Counted from our first sight, by our clock: the server's may be hours off.
        self.expires = task.ttl.limit().and_then(|ttl| first.checked_add(ttl));
        self.status = Some(task.status.clone());
        if let Some(words) = &task.status_message {
            self.message = text::line(words.trim()).into_owned();
        }
    }

    /// The line, at most `columns` wide. What matters most is kept where room is short: how far, how long, what.
    fn compose(&self, now: Instant, columns: usize) -> String {
        let elapsed = duration::human(now.saturating_duration_since(self.started));
        let known = self.progress.as_ref().and_then(|progress| usable_total(progress).map(|total| (progress, total)));
        let mut line = Line::new(columns, FRAMES[self.frame % FRAMES.len()]);
        if self.is_one_of_several {
            line.add_head(&self.name);
        }
        match known {
            Some((progress, total)) => {
                line.add(&format!("{:>3}%", percent(progress.progress, total)));
                let counted = line.add(&format!("{}/{}", number(progress.progress), number(total)));
                line.insert_bar(progress.progress / total);
                if let Some(rate) = self.rate.per_second().filter(|_| counted) {
                    let left = (total - progress.progress).max(0.0) / rate;
                    if let Ok(left) = Duration::try_from_secs_f64(left) {
                        line.add(&format!("eta {}", duration::human(left)));
                    }
                    line.add(&format!("{}/s", number(rate)));
                }
            }
            None => {
                line.add(&elapsed);
                if let Some(progress) = &self.progress {
                    line.add(&number(progress.progress));
                }
            }
        }
        match &self.status {
            Some(TaskStatus::Working) | None => {}
            Some(status) => _ = line.add(&status.to_string()),
        }
        let mut tail = Vec::new();
        if known.is_some() {
            tail.push(elapsed);
        }
        if let Some(expires) = self.expires {
            tail.push(format!("ttl {}", duration::human(expires.saturating_duration_since(now))));
        }
        let name_fits = line.room() > text::width(&self.name) + 30;
        if name_fits && !self.name.is_empty() && !self.is_one_of_several {
            line.insert_name(&self.name);
        }
        // The message takes what is left, but a ttl that runs out is worth more than the end of a long message.
        let tail: Vec<String> = tail.into_iter().filter(|part| line.room() > text::width(part) + 24).collect();
        let reserved: usize = tail.iter().map(|part| text::width(part) + 2).sum();
        line.add_cut(&self.message, reserved);
        for part in &tail {
            line.add(part);
        }
        line.text
    }
}

/// A line that never outgrows its columns.
struct Line {
    columns: usize,
    text: String,
    /// Where the spinner ends.
    head: usize,
}

impl Line {
    fn new(columns: usize, spinner: &str) -> Self {
        let text = text::truncate(spinner, columns).into_owned();
        Self { columns, head: text.len(), text }
    }

    fn room(&self) -> usize {
        self.columns.saturating_sub(text::width(&self.text))
    }

    /// Adds a part if it fits whole; whether it did.
    fn add(&mut self, part: &str) -> bool {
        let gap = if self.text.len() == self.head { " " } else { "  " };
        let fits = !part.is_empty() && text::width(part) + gap.len() <= self.room();
        if fits {
            self.text.push_str(gap);
            self.text.push_str(part);
        }
        fits
    }

    /// Adds a name of which nothing but half of the line is too much.
    fn add_head(&mut self, name: &str) {
        self.add(&text::truncate(name, self.columns / 2));
        self.head = self.text.len();
    }

    /// Adds as much of a part as fits beside `reserved` columns, if that is worth it.
    fn add_cut(&mut self, part: &str, reserved: usize) {
        let room = self.room().saturating_sub(reserved + 2);
        if room >= 4 {
            self.add(&text::truncate(part, room));
        }
    }

    fn insert_bar(&mut self, share: f64) {
        let width = (self.columns / 4).min(MOST_BAR);
        if width < LEAST_BAR || width >= self.room() {
            return;
        }
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a few columns")]
        let full = (share * (width - 2) as f64).round() as usize;
        let bar = format!(" [{}{}]", "█".repeat(full), "░".repeat(width - 2 - full));
        self.text.insert_str(self.head, &bar);
    }

    fn insert_name(&mut self, name: &str) {
        self.text.insert_str(self.head, &format!(" {name}"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn view(progress: &[(f64, Option<f64>)], message: &str) -> (View, Instant) {
        let start = Instant::now();
        let mut view = View::new(start);
        view.name = "bake".to_owned();
        let mut now = start;
        for (progress, total) in progress {
            now += Duration::from_secs(1);
            view.progress(
                &Progress { progress: *progress, total: *total, message: None, raw: serde_json::Value::Null },
                now,
            );
        }
        view.message = message.to_owned();
        (view, now)
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_total_shows_a_bar_with_rate_and_eta() {
        let (view, now) = view(&[(10.0, Some(100.0)), (20.0, Some(100.0)), (30.0, Some(100.0))], "kneading");
        assert_eq!(
            view.compose(now, 100),
            "⠋ bake [███████░░░░░░░░░░░░░░░]  30%  30/100  eta 7.0s  10/s  kneading  3.0s"
        );
        assert_eq!(view.compose(now, 39), "⠋ [██░░░░░]  30%  30/100  eta 7.0s");
        assert_eq!(view.compose(now, 20), "⠋  30%  30/100  10/s");
        assert_eq!(view.compose(now, 12), "⠋  30%  kne…");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_total_shows_a_spinner_time_message_and_ttl() {
        let (mut view, now) = view(&[], "面包 in the oven");
        view.seen_first = Some(now);
        view.expires = Some(now + Duration::from_secs(600));
        let later = now + Duration::from_secs(12);
        assert_eq!(view.compose(later, 80), "⠋ bake 12s  面包 in the oven  ttl 9m 48s");
        assert_eq!(view.compose(later, 20), "⠋ 12s  面包 in the …");
    }

    #[tokio::test(start_paused = true)]
    async fn odd_numbers_are_shown_soberly() {
        let (zero, now) = view(&[(3.0, Some(0.0))], "");
        assert_eq!(zero.compose(now, 40), "⠋ 1.0s  3");
        let (odd, now) = view(&[(-3.0, Some(5.0)), (7.0, Some(5.0)), (2.0, Some(5.0))], "");
        assert!(odd.compose(now, 80).contains(" 40%  2/5"), "{}", odd.compose(now, 80));
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_lines_are_drawn_as_there_is_room_for() {
        let (one, now) = view(&[], "");
        let views: Vec<_> = std::iter::once(one)
            .chain((1..9).map(|_| view(&[], "").0))
            .map(|view| Arc::new(Mutex::new(view)))
            .collect();
        assert_eq!(compose(&views, now, 40, 24).len(), 9);
        let few = compose(&views, now, 40, 6);
        assert_eq!((few.len(), few[3].as_str()), (4, "… and 6 tasks more"));
        assert_eq!(compose(&views, now, 40, 1), ["… and 9 tasks more"]);
        assert_eq!(compose(&[], now, 40, 1), [""; 0]);
    }

    proptest! {
        #[test]
        fn a_line_always_fits(
            numbers in proptest::collection::vec((any::<f64>(), any::<Option<f64>>()), 0..5),
            message in "\\PC{0,60}",
            name in "\\PC{0,20}",
            columns in 0usize..160,
        ) {
            let (mut view, now) = view(&numbers, &text::line(&message));
            view.name = text::line(&name).into_owned();
            view.expires = Some(now + Duration::from_secs(90));
            let line = view.compose(now + Duration::from_secs(3), columns);
            prop_assert!(text::width(&line) <= columns, "{} > {columns}: {line}", text::width(&line));
            prop_assert!(!line.contains("NaN%") && !line.contains('\n'));
        }
    }
}
