//! The tasks of the demo server and what became of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::model::{RpcError, TaskStatus};

/// How long a task is kept where nobody says.
const DEFAULT_TTL: Duration = Duration::from_secs(600);
/// The longest that a task is kept.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3_600);

/// Every task, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    known: Mutex<BTreeMap<u64, Arc<Entry>>>,
}

/// What a task's state is right now.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) status: TaskStatus,
    pub(super) message: String,
    pub(super) updated: String,
    /// What the call came to, once it has.
    pub(super) outcome: Option<Result<Value, RpcError>>,
}

/// One task.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) created: String,
    pub(super) ttl: Duration,
    expires: Instant,
    state: watch::Sender<State>,
}

impl Tasks {
    pub(super) fn create(&self, ttl_millis: Option<f64>, message: &str) -> Arc<Entry> {
        let wished = ttl_millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1_000.0).ok());
        let ttl = wished.unwrap_or(DEFAULT_TTL).min(LONGEST_TTL);
        let now = now();
        let state =
            State { status: TaskStatus::Working, message: message.to_owned(), updated: now.clone(), outcome: None };
        let mut known = self.known();
        let key = known.last_key_value().map_or(0, |(key, _)| key + 1);
        let entry = Arc::new(Entry {
            id: format!("demo-{:08x}", getrandom::u32().unwrap_or_default()),
            created: now,
            ttl,
            expires: Instant::now() + ttl,
            state: watch::Sender::new(state),
        });
        known.insert(key, Arc::clone(&entry));
        entry
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        self.all().into_iter().find(|entry| entry.id == id)
    }

    /// Those that have not expired.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        let mut known = self.known();
        known.retain(|_, entry| Instant::now() < entry.expires);
        known.values().cloned().collect()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Entry>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Changes status and message; whether that was possible. Terminal is final.
    pub(super) fn update(&self, status: TaskStatus, message: &str, outcome: Option<Result<Value, RpcError>>) -> bool {
        self.state.send_if_modified(|state| {
            if state.status.is_terminal() {
                return false;
            }
            *state = State { status, message: message.to_owned(), updated: now(), outcome };
            true
        })
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> State {
        let mut changes = self.state.subscribe();
        match changes.wait_for(|state| state.status.is_terminal()).await {
            Ok(state) => state.clone(),
            Err(_) => self.state(),
        }
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
