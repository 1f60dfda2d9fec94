//! Threads that write, so that a terminal or a pipe that takes nothing never stalls the protocol.
//!
//! There is one for each stream, and one alone where both are a terminal: then a bar may stand on it, which has to step
//! aside for every line. What was said first is written first, over both streams, unless the other stream is stuck.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::sync::watch;

/// How long a line waits for what was said before it on the other stream.
const PRECEDENCE: Duration = Duration::from_millis(300);

/// Makes a bar, on the thread that draws beside it.
pub(super) type MakeBar = Box<dyn FnOnce() -> ProgressBar + Send>;

/// Something to write.
pub(super) enum Job {
    /// A line of data for stdout.
    Data(String),
    /// A line for stderr.
    Talk(String),
    /// A bar is drawn below all lines from now on.
    ShowBar(MakeBar),
    /// No more.
    HideBar,
    /// A person is asked something. The bar steps aside, and what is said meanwhile waits.
    Ask(Box<dyn FnOnce() + Send>),
}

/// How stdout fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stdout {
    /// As it should.
    Open,
    /// Its reader has left.
    Closed,
    /// It cannot be written, though somebody wants it: a full disk, say.
    Failed(String),
}

/// The writing threads, each started when there is something to write.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Both streams are a terminal.
    one_terminal: bool,
    data: Lane,
    talk: Lane,
    stdout: watch::Sender<Stdout>,
}

/// What waits for one thread.
#[derive(Debug, Default)]
struct Lane {
    queue: Mutex<Queue>,
    written: Mutex<u64>,
    progress: Condvar,
    /// The same number, for who waits without blocking a thread.
    flushed: watch::Sender<u64>,
    stuck: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    /// How many jobs there were.
    count: u64,
    sender: Option<mpsc::Sender<(u64, Job)>>,
}

impl Writer {
    pub(super) fn new(one_terminal: bool) -> Self {
        let stdout = watch::Sender::new(Stdout::Open);
        Self { shared: Arc::new(Shared { one_terminal, data: Lane::default(), talk: Lane::default(), stdout }) }
    }

    /// Has a job done, after all that were sent before.
    pub(super) fn send(&self, job: Job) {
        let shared = &self.shared;
        let is_data = matches!(job, Job::Data(_)) && !shared.one_terminal;
        let (lane, other) = if is_data { (&shared.data, &shared.talk) } else { (&shared.talk, &shared.data) };
        let before = lock(&other.queue).count;
        let mut queue = lock(&lane.queue);
        queue.count += 1;
        let sender = queue.sender.get_or_insert_with(|| {
            let (sender, jobs) = mpsc::channel();
            let shared = Arc::clone(shared);
            std::thread::spawn(move || shared.work(is_data, jobs));
            sender
        });
        let _ = sender.send((before, job));
    }

    /// How many jobs wait for stdout and stderr.
    pub(super) fn waiting(&self) -> (u64, u64) {
        (self.shared.data.waiting(), self.shared.talk.waiting())
    }

    /// How stdout fares.
    pub(super) fn stdout(&self) -> watch::Receiver<Stdout> {
        self.shared.stdout.subscribe()
    }

    /// Waits until all data is written. On a terminal that includes what is said beside it.
    pub(super) async fn data_written(&self) {
        self.shared.data.flushed().await;
        if self.shared.one_terminal {
            self.shared.talk.flushed().await;
        }
    }

    /// Waits until all talk is written.
    pub(super) async fn talk_written(&self) {
        self.shared.talk.flushed().await;
    }
}

impl Shared {
    fn work(&self, is_data: bool, jobs: mpsc::Receiver<(u64, Job)>) {
        let (lane, other) = if is_data { (&self.data, &self.talk) } else { (&self.talk, &self.data) };
        let mut bar: Option<ProgressBar> = None;
        for (before, job) in jobs {
            other.let_pass(before);
            match (job, &bar) {
                (Job::Data(line), Some(bar)) => bar.suspend(|| self.write_data(&line)),
                (Job::Data(line), None) => self.write_data(&line),
                (Job::Talk(line), Some(bar)) => bar.suspend(|| write_talk(&line)),
                (Job::Talk(line), None) => write_talk(&line),
                (Job::Ask(ask), Some(bar)) => bar.suspend(ask),
                (Job::Ask(ask), None) => ask(),
                (Job::ShowBar(make), _) => bar = Some(make()),
                (Job::HideBar, _) => {
                    if let Some(bar) = bar.take() {
                        bar.finish_and_clear();
                    }
                }
            }
            lane.advance();
        }
    }

    /// A reader that has left is no error: what is left to say has no taker.
    fn write_data(&self, line: &str) {
        if *self.stdout.borrow() != Stdout::Open {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        let end: &[u8] = if line.ends_with('\n') { b"" } else { b"\n" };
        let written =
            stdout.write_all(line.as_bytes()).and_then(|()| stdout.write_all(end)).and_then(|()| stdout.flush());
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                self.stdout.send_replace(Stdout::Closed);
            }
            Err(error) => {
                self.stdout.send_replace(Stdout::Failed(error.to_string()));
            }
        }
    }
}

fn write_talk(line: &str) {
    // In one write, so that lines of several processes do not mix. With stderr closed there is nobody to tell.
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

impl Lane {
    fn waiting(&self) -> u64 {
        let count = lock(&self.queue).count;
        count.saturating_sub(*lock(&self.written))
    }

    fn advance(&self) {
        let mut written = lock(&self.written);
        *written += 1;
        self.stuck.store(false, Ordering::Relaxed);
        self.flushed.send_replace(*written);
        self.progress.notify_all();
    }

    /// Waits until the first `count` jobs are done; not for long, and not again while nothing moves.
    fn let_pass(&self, count: u64) {
        let written = lock(&self.written);
        if *written >= count || self.stuck.load(Ordering::Relaxed) {
            return;
        }
        let waited = self.progress.wait_timeout_while(written, PRECEDENCE, |written| *written < count);
        if waited.is_ok_and(|(_, result)| result.timed_out()) {
            self.stuck.store(true, Ordering::Relaxed);
        }
    }

    async fn flushed(&self) {
        let count = lock(&self.queue).count;
        let _ = self.flushed.subscribe().wait_for(|written| *written >= count).await;
    }
}

/// Every change is one assignment, so a panic elsewhere leaves the state whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
