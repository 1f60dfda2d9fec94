//! Knows every child process that lives, so that none outlives us on any way out.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// A count of living children and the means to end them all. Clones share the count.
#[derive(Clone, Debug)]
pub struct Keeper {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stop: watch::Sender<bool>,
    groups: watch::Sender<usize>,
    living: Mutex<HashSet<u32>>,
}

impl Default for Keeper {
    fn default() -> Self {
        let shared =
            Shared { stop: watch::Sender::new(false), groups: watch::Sender::new(0), living: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }
}

impl Keeper {
    /// Registers the process group of a new child.
    pub(super) fn register(&self, group: u32) -> Kept {
        living(&self.shared).insert(group);
        self.shared.groups.send_modify(|count| *count += 1);
        Kept { group, shared: Arc::clone(&self.shared) }
    }

    /// Ends once [`drain`](Self::drain) was called.
    pub(super) async fn stopping(&self) {
        let mut stop = self.shared.stop.subscribe();
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// Has every child shut down (close stdin, TERM, KILL) and waits until none is left. The time is bounded by the
    /// shutdown of the slowest child, a few seconds.
    pub async fn drain(&self) {
        self.shared.stop.send_replace(true);
        let mut groups = self.shared.groups.subscribe();
        let _ = groups.wait_for(|count| *count == 0).await;
    }

    /// Kills every child's whole group at once.
    pub fn kill(&self) {
        for group in living(&self.shared).iter() {
            kill_group(*group);
        }
    }
}

/// One living child. Dropped without [`release`](Self::release), as when the runtime ends, it kills the child's group.
#[derive(Debug)]
pub(super) struct Kept {
    group: u32,
    shared: Arc<Shared>,
}

impl Kept {
    /// Whether anybody of the child's group is left, the child itself aside once it was reaped.
    #[cfg(unix)]
    pub(super) fn group_lives(&self) -> bool {
        // No signal: it only asks, and a group is found as long as it has a member.
        i32::try_from(self.group)
            .is_ok_and(|group| nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), None).is_ok())
    }

    /// The job object ends with the child's handle.
    #[cfg(not(unix))]
    pub(super) fn group_lives(&self) -> bool {
        false
    }

    /// The child and its group have ended.
    pub(super) fn release(self) {
        living(&self.shared).remove(&self.group);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if living(&self.shared).remove(&self.group) {
            kill_group(self.group);
        }
        self.shared.groups.send_modify(|count| *count -= 1);
    }
}

fn living(shared: &Shared) -> std::sync::MutexGuard<'_, HashSet<u32>> {
    shared.living.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
fn kill_group(group: u32) {
    // Zero would be our own group.
    if let Some(group) = i32::try_from(group).ok().filter(|group| *group > 0) {
        let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), nix::sys::signal::Signal::SIGKILL);
    }
}

/// On Windows the job object ends the group when its last handle closes.
#[cfg(not(unix))]
fn kill_group(_group: u32) {}
