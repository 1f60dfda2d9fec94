//! What the record forgets, and when.

use std::time::Duration;

use rusqlite::params;

use super::{Record, RecordError};

/// What is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// How long after it was last heard of.
    pub age: Duration,
    /// How many rows.
    pub rows: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { age: Duration::from_secs(90 * 24 * 3_600), rows: 10_000 }
    }
}

/// Tasks that have ended, that can no longer be had, or whose call was never answered.
const OVER: &str = "(status IN ('completed', 'failed', 'cancelled') OR lost IS NOT NULL OR task_id IS NULL)";

impl Record {
    /// Forgets what is older or more than `keep` allows; never a task that may still run. How many rows went.
    ///
    /// # Errors
    /// Where the record cannot be written.
    pub fn prune(&mut self, keep: Keep) -> Result<usize, RecordError> {
        let age = i64::try_from(keep.age.as_millis()).unwrap_or(i64::MAX);
        let rows = i64::try_from(keep.rows).unwrap_or(i64::MAX);
        self.change(|transaction, now| {
            let old = format!("DELETE FROM tasks WHERE seen_at < ?1 AND {OVER}");
            let many = format!(
                "DELETE FROM tasks WHERE id <= (SELECT id FROM tasks ORDER BY id DESC LIMIT 1 OFFSET ?1) AND {OVER}"
            );
            // Past its ttl a task is the server's to forget, whatever we saw of it last.
            let expired = "DELETE FROM tasks WHERE ttl >= 0 AND seen_at < ?1 - ttl";
            Ok(transaction.execute(&old, params![now.saturating_sub(age)])?
                + transaction.execute(expired, params![now.saturating_sub(age)])?
                + transaction.execute(&many, params![rows])?)
        })
    }
}
