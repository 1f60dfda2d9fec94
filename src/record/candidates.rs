//! Tasks that a call without an answer may have started.

use rusqlite::params;

use super::{Known, Record, RecordError, RowId, note};
use crate::model::TaskId;

/// The trail's word for one.
const CANDIDATE: &str = "candidate";

impl Record {
    /// Notes tasks that a call without an answer may have started, each once.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn add_candidates<'a>(
        &mut self,
        row: RowId,
        tasks: impl IntoIterator<Item = &'a TaskId>,
    ) -> Result<(), RecordError> {
        self.change(|transaction, at| {
            for task in tasks {
                let known: bool = transaction.query_row(
                    "SELECT EXISTS (SELECT 1 FROM events WHERE task = ?1 AND kind = ?2 AND detail = ?3)",
                    params![row.0, CANDIDATE, task.as_str()],
                    |found| found.get(0),
                )?;
                if !known {
                    note(transaction, row, at, CANDIDATE, Some(task.as_str()))?;
                }
            }
            Ok(())
        })
    }

    /// The noted tasks whose ids begin with `prefix`, each with the newest call that may have started it and is still
    /// without an answer.
    ///
    /// # Errors
    /// Where the record cannot be read.
    pub fn find_candidates(&self, prefix: &str) -> Result<Vec<(TaskId, Known)>, RecordError> {
        let read = || -> rusqlite::Result<Vec<(TaskId, Known)>> {
            let sql = "SELECT detail, max(task) FROM events JOIN tasks ON tasks.id = events.task
                 WHERE kind = ?1 AND substr(detail, 1, length(?2)) = ?2 AND task_id IS NULL GROUP BY detail";
            let mut statement = self.connection.prepare(sql)?;
            let found = statement.query_map(params![CANDIDATE, prefix], |found| {
                Ok((TaskId::new(found.get::<_, String>(0)?), found.get::<_, i64>(1)?))
            })?;
            let mut candidates = Vec::new();
            for candidate in found {
                let (task, row) = candidate?;
                let call = self.rows(false, "WHERE id = ?1", params![row])?.pop();
                candidates.extend(call.map(|call| (task, call)));
            }
            Ok(candidates)
        };
        read().map_err(|source| self.fault(source))
    }
}
