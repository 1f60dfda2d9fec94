//! Questions that servers put while a task runs, so that any later command can answer them, and only one does.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::{Record, RecordError, RowId, note};
use crate::model::{RawJson, TaskId};

/// How a question was settled that the server took back.
pub const WITHDRAWN: &str = "withdrawn";

/// A question as the record has it. Its text is not escaped.
#[derive(Clone, Debug, PartialEq)]
pub struct NotedQuestion {
    /// The server's id for it.
    pub id: Value,
    /// What kind it is.
    pub method: String,
    /// What is asked.
    pub params: RawJson,
    /// When, by our clock, in milliseconds since 1970.
    pub asked_at: i64,
}

impl Record {
    /// Notes a question. One that is known is not noted again, unless its id now asks something else.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn asked(&mut self, row: RowId, id: &Value, method: &str, asked: &RawJson) -> Result<(), RecordError> {
        self.change(|transaction, at| {
            let changed = transaction.execute(
                "INSERT INTO questions (task, question, method, params, asked_at) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (task, question) DO UPDATE
                 SET method = excluded.method, params = excluded.params, asked_at = excluded.asked_at, settled = NULL
                 WHERE params <> excluded.params OR settled = 'withdrawn'",
                params![row.0, id.to_string(), method, asked.text(), at],
            )?;
            if changed == 0 {
                return Ok(());
            }
            let message = asked.value().get("message").and_then(Value::as_str).map(str::to_owned);
            note(transaction, row, at, "asked", message.as_deref().or(Some(method)))
        })
    }

    /// Notes a question for a task of `server` that somebody may know. Nothing is noted where nobody does.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn asked_for(
        &mut self,
        server: &str,
        task: &TaskId,
        id: &Value,
        method: &str,
        asked: &RawJson,
    ) -> Result<(), RecordError> {
        let sql = "SELECT max(id) FROM tasks WHERE server = ?1 AND task_id = ?2";
        let row: Option<i64> = self
            .connection
            .query_row(sql, params![server, task.as_str()], |found| found.get(0))
            .optional()
            .map_err(|source| self.fault(source))?
            .flatten();
        row.map_or(Ok(()), |row| self.asked(RowId(row), id, method, asked))
    }

    /// Notes how a question was settled, `accept` or the like. Whether it was open: of several that answer at once, one is told
    /// so.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn settle(&mut self, row: RowId, id: &Value, how: &str) -> Result<bool, RecordError> {
        self.change(|transaction, at| {
            let changed = transaction.execute(
                "UPDATE questions SET settled = ?3 WHERE task = ?1 AND question = ?2 AND settled IS NULL",
                params![row.0, id.to_string(), how],
            )?;
            if changed > 0 {
                let kind = if how == WITHDRAWN { "question withdrawn" } else { "answered" };
                note(transaction, row, at, kind, Some(how).filter(|how| *how != WITHDRAWN))?;
            }
            Ok(changed > 0)
        })
    }

    /// An answer that was noted could not be delivered: the question is open again.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn reopen(&mut self, row: RowId, id: &Value, why: &str) -> Result<(), RecordError> {
        self.change(|transaction, at| {
            transaction.execute(
                "UPDATE questions SET settled = NULL WHERE task = ?1 AND question = ?2",
                params![row.0, id.to_string()],
            )?;
            note(transaction, row, at, "answer not delivered", Some(why))
        })
    }

    /// Whether a question was settled, by whomever.
    ///
    /// # Errors
    /// Where the record cannot be read.
    pub fn is_settled(&self, row: RowId, id: &Value) -> Result<bool, RecordError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM questions WHERE task = ?1 AND question = ?2 AND settled IS NOT NULL)";
        let settled = self.connection.query_row(sql, params![row.0, id.to_string()], |found| found.get(0));
        settled.map_err(|source| self.fault(source))
    }

    /// The questions of a task that nobody has settled, the oldest first.
    ///
    /// # Errors
    /// Where the record cannot be read.
    pub fn open_questions(&self, row: RowId) -> Result<Vec<NotedQuestion>, RecordError> {
        let read = || -> rusqlite::Result<Vec<NotedQuestion>> {
            let sql = "SELECT question, method, params, asked_at FROM questions WHERE task = ?1 AND settled IS NULL ORDER BY id";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([row.0], |found| {
                let (id, asked): (String, String) = (found.get(0)?, found.get(2)?);
                let params = serde_json::from_str::<Box<serde_json::value::RawValue>>(&asked).map(RawJson::from);
                Ok(NotedQuestion {
                    id: serde_json::from_str(&id).unwrap_or_default(),
                    method: found.get(1)?,
                    params: params.unwrap_or_else(|_| RawJson::empty_object()),
                    asked_at: found.get(3)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|source| self.fault(source))
    }
}

/// What a task asked is of no interest any more once it has ended.
pub(super) fn withdraw_all(connection: &Connection, row: RowId) -> rusqlite::Result<()> {
    let sql = "UPDATE questions SET settled = ?2 WHERE task = ?1 AND settled IS NULL";
    connection.execute(sql, params![row.0, WITHDRAWN]).map(|_| ())
}
