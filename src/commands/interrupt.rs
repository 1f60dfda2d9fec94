//! Ctrl-C, SIGTERM, SIGHUP and SIGQUIT. The first may be a command's to handle; the next ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{mpsc, watch};

use crate::lifecycle::Command;

/// Counts interrupts.
#[derive(Clone, Debug)]
pub struct Interrupts {
    count: watch::Receiver<u32>,
    /// The interrupt that ends the program, whatever it is doing.
    last: Arc<AtomicU32>,
}

impl Interrupts {
    /// Starts to listen; from here on the signals no longer kill.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn listen() -> std::io::Result<Self> {
        let (sender, count) = watch::channel(0);
        let mut signals = Signals::new()?;
        tokio::spawn(async move {
            loop {
                signals.next().await;
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self { count, last: Arc::new(AtomicU32::new(1)) })
    }

    /// Waits for the interrupt that ends the program.
    pub async fn last(&self) {
        let mut count = self.count.clone();
        while count.wait_for(|count| *count >= self.last.load(Ordering::Relaxed)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for one more interrupt than there were.
    pub async fn another(&self) {
        let mut count = self.count.clone();
        let so_far = *count.borrow();
        while count.wait_for(|count| *count > so_far).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether there was one.
    pub fn any(&self) -> bool {
        *self.count.borrow() > 0
    }

    /// From now on the first interrupt is `command` to whoever follows a task, and the next one ends the program.
    pub fn hand_to_follower(&self, command: Command) -> mpsc::UnboundedReceiver<Command> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut count = self.count.clone();
        self.last.store(2, Ordering::Relaxed);
        tokio::spawn(async move {
            let first = async move { count.wait_for(|count| *count >= 1).await.is_ok() };
            tokio::select! {
                true = first => {
                    let _ = sender.send(command);
                    // Kept open, because nothing follows that closing could tell.
                    sender.closed().await;
                }
                () = sender.closed() => {}
            }
        });
        receiver
    }
}

#[cfg(unix)]
struct Signals(Vec<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let ignored = ignored();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
        let heard = kinds.into_iter().filter(|kind| ignored >> (kind.as_raw_value() - 1) & 1 == 0);
        heard.map(signal).collect::<std::io::Result<_>>().map(Self)
    }

    async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let any = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if any { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// The signals that whoever started us wants ignored (`nohup`, a shell's background job), as a set of bits. Where the
/// system does not tell, none.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
