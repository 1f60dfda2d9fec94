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
struct Signals([tokio::signal::unix::Signal; 4]);

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::quit())?,
        ]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup, quit] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
    }
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
