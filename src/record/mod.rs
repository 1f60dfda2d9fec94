//! The record of every task ever started, in a SQLite database of the user's own.
//!
//! A row is written before a call is sent and completed before the first poll, so that however this program dies there is
//! either a task's id or an honest "sent, answer never seen". Beside the rows stands a trail of life-cycle events, which
//! the specification asks requesters to keep (2025-11-25, basic/utilities/tasks, "Security Considerations").
//!
//! It knows no protocol and no terminal. What tells how to reach a server is kept without any secret.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::model::{RawJson, RpcError, Task, TaskId, TaskOutcome, TaskStatus, Ttl};

mod candidates;
mod prune;
mod questions;
mod schema;

pub use prune::Keep;
pub use questions::{NotedQuestion, WITHDRAWN};

/// How long a writer waits for others; hundreds may write at once.
const BUSY: Duration = Duration::from_secs(30);
/// The database's name in the state folder.
const FILE: &str = "tasks.sqlite3";

/// Why the record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The folder cannot be made or is not the user's own.
    #[error("cannot use the state folder {}: {source}", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The database cannot be read or written.
    #[error("cannot use the record of tasks in {}: {source}", file.display())]
    Database {
        /// Which.
        file: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },
    /// The database was written by a newer version of this program.
    #[error("the record of tasks in {} has version {found}, this program knows versions up to {known}", file.display())]
    Newer {
        /// Which.
        file: PathBuf,
        /// Its version.
        found: i64,
        /// The newest that is known.
        known: i64,
    },
}

/// Names a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(i64);

/// How to reach a server again, without any secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNote {
    /// As the user named it.
    pub name: String,
    /// The working directory of its process.
    pub cwd: Option<String>,
}

/// A call that is about to be sent.
#[derive(Clone, Debug)]
pub struct NewCall<'a> {
    /// Where to.
    pub server: &'a ServerNote,
    /// The protocol version agreed on.
    pub protocol: &'a str,
    /// What tasks of it belong to: the HTTP session, or the process that holds the server.
    pub session: Option<String>,
    /// The tool.
    pub tool: &'a str,
    /// The arguments, unless the user wants them left out.
    pub arguments: Option<&'a str>,
    /// The SHA-256 of the arguments, in hexadecimal digits.
    pub arguments_hash: &'a str,
}

/// A row: what is known of one call and its task.
#[derive(Clone, Debug)]
pub struct Known {
    /// Which row.
    pub row: RowId,
    /// Where the call went.
    pub server: ServerNote,
    /// The protocol version that was spoken.
    pub protocol: String,
    /// What it belongs to: the HTTP session, or the process that holds the server.
    pub session: Option<String>,
    /// The task, once the server has named it.
    pub task: Option<TaskId>,
    /// The tool.
    pub tool: String,
    /// The arguments, where they were kept. Read for single rows alone, as they may be large.
    pub arguments: Option<String>,
    /// When the call was sent, by our clock, in milliseconds since 1970.
    pub sent_at: i64,
    /// When something was last heard.
    pub seen_at: i64,
    /// How long the server keeps the task.
    pub ttl: Ttl,
    /// The last status; `None` before the task has a name.
    pub status: Option<TaskStatus>,
    /// The server's last words; not escaped.
    pub message: Option<String>,
    /// What the task came to, once that was fetched. Read for single rows alone, as it may be large.
    pub outcome: Option<TaskOutcome>,
    /// Whether there is an outcome in the record.
    pub has_outcome: bool,
    /// It can no longer be had, and why.
    pub lost: Option<String>,
    /// How many questions of the server wait for an answer.
    pub open_questions: u32,
}

impl Known {
    /// Whether the task may still run, as far as the record knows.
    pub fn is_live(&self) -> bool {
        self.task.is_some() && self.lost.is_none() && !self.status.as_ref().is_some_and(TaskStatus::is_terminal)
    }

    /// Whether the server waits for an answer, as far as the record knows.
    pub fn is_waiting(&self) -> bool {
        self.is_live() && (self.open_questions > 0 || self.status == Some(TaskStatus::InputRequired))
    }

    /// Whether the task has ended with something that nobody has fetched, or that was not to be had.
    pub fn is_unfetched(&self) -> bool {
        let has_ended = matches!(self.status, Some(TaskStatus::Completed | TaskStatus::Failed));
        has_ended && self.lost.is_none() && !self.has_outcome
    }

    /// Whether the call was sent and nobody has seen its answer.
    pub fn is_unanswered(&self) -> bool {
        self.task.is_none() && self.lost.is_none()
    }
}

/// One line of the trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The row that it belongs to.
    pub row: RowId,
    /// When, by our clock, in milliseconds since 1970.
    pub at: i64,
    /// `sent`, `created`, `status`, `result`, `failed`, `cancel`, `lost`, …
    pub kind: String,
    /// More about it; not escaped.
    pub detail: Option<String>,
}

/// The record.
#[derive(Debug)]
pub struct Record {
    connection: Connection,
    file: PathBuf,
}

impl Record {
    /// Opens the record in `folder`, making both where they are not there.
    ///
    /// # Errors
    /// Where the folder or the database cannot be used.
    pub fn open(folder: &Path) -> Result<Self, RecordError> {
        private_folder(folder).map_err(|source| RecordError::Folder { folder: folder.to_owned(), source })?;
        let file = folder.join(FILE);
        private_file(&file).map_err(|source| RecordError::Folder { folder: folder.to_owned(), source })?;
        let fault = |source| RecordError::Database { file: file.clone(), source };
        let mut connection = Connection::open(&file).map_err(fault)?;
        connection.busy_timeout(BUSY).map_err(fault)?;
        schema::prepare(&mut connection, &file)?;
        Ok(Self { connection, file })
    }

    fn fault(&self, source: rusqlite::Error) -> RecordError {
        RecordError::Database { file: self.file.clone(), source }
    }

    /// Notes a call that is about to be sent.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn sending(&mut self, call: &NewCall<'_>) -> Result<RowId, RecordError> {
        self.change(|transaction, at| {
            transaction.execute(
                "INSERT INTO tasks (server, cwd, protocol, session, tool, arguments, arguments_hash, sent_at, seen_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
                params![
                    call.server.name,
                    call.server.cwd,
                    call.protocol,
                    call.session,
                    call.tool,
                    call.arguments,
                    call.arguments_hash,
                    at
                ],
            )?;
            let row = RowId(transaction.last_insert_rowid());
            note(transaction, row, at, "sent", None)?;
            Ok(row)
        })
    }

    /// Notes the task that the server answered with, and tells whether the row is that task's. A call has one task: where it
    /// has another already, that stays, and nothing is noted.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn created(&mut self, row: RowId, task: &Task, session: Option<&str>) -> Result<bool, RecordError> {
        self.change(|transaction, at| {
            let changed = transaction.execute(
                "UPDATE tasks SET task_id = ?2, session = ?3 WHERE id = ?1 AND coalesce(task_id, ?2) = ?2",
                params![row.0, task.id.as_str(), session],
            )?;
            if changed > 0 {
                see(transaction, row, task, at)?;
                note(transaction, row, at, "created", Some(task.id.as_str()))?;
            }
            Ok(changed > 0)
        })
    }

    /// Notes a sight of the task. The trail gets a line where its status has changed.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn seen(&mut self, row: RowId, task: &Task) -> Result<(), RecordError> {
        self.change(|transaction, at| {
            let before: Option<String> = transaction
                .query_row("SELECT status FROM tasks WHERE id = ?1", [row.0], |found| found.get(0))
                .optional()?
                .flatten();
            see(transaction, row, task, at)?;
            if before.as_deref() != Some(task.status.as_str()) {
                note(transaction, row, at, "status", Some(task.status.as_str()))?;
            }
            Ok(())
        })
    }

    /// Notes what the task came to. A result once noted is never replaced.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn ended(&mut self, row: RowId, status: &TaskStatus, outcome: &TaskOutcome) -> Result<(), RecordError> {
        let (result, error) = match outcome {
            TaskOutcome::Result(result) => (Some(result.raw.text().to_owned()), None),
            TaskOutcome::Error(error) => (None, Some(write_error(error))),
            TaskOutcome::Nothing => (None, None),
        };
        self.change(|transaction, at| {
            transaction.execute(
                "UPDATE tasks SET status = ?2, seen_at = ?3, lost = NULL, result = coalesce(result, ?4), error = coalesce(error, ?5)
                 WHERE id = ?1",
                params![row.0, status.as_str(), at, result, error],
            )?;
            questions::withdraw_all(transaction, row)?;
            note(transaction, row, at, "ended", Some(status.as_str()))
        })
    }

    /// Adds a line to the trail.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn trail(&mut self, row: RowId, kind: &str, detail: Option<&str>) -> Result<(), RecordError> {
        self.change(|transaction, at| note(transaction, row, at, kind, detail))
    }

    /// Notes that the task can no longer be had.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn lost(&mut self, row: RowId, why: &str) -> Result<(), RecordError> {
        self.change(|transaction, at| {
            // A task that has ended stays so, whatever becomes of its server.
            let sql = format!(
                "UPDATE tasks SET lost = ?2, seen_at = ?3
                 WHERE id = ?1 AND lost IS NULL AND result IS NULL AND error IS NULL AND {NOT_ENDED}"
            );
            let changed = transaction.execute(&sql, params![row.0, why, at])?;
            if changed > 0 { note(transaction, row, at, "lost", Some(why)) } else { Ok(()) }
        })
    }

    /// Forgets a call that was answered without a task.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn forget(&mut self, row: RowId) -> Result<(), RecordError> {
        self.change(|transaction, _| transaction.execute("DELETE FROM tasks WHERE id = ?1", [row.0]).map(|_| ()))
    }

    /// Every row whose task's id begins with `prefix`, the newest first.
    ///
    /// # Errors
    /// Where the record cannot be read.
    pub fn find(&self, prefix: &str) -> Result<Vec<Known>, RecordError> {
        let condition = "WHERE substr(task_id, 1, length(?1)) = ?1 ORDER BY id DESC";
        self.rows(false, condition, params![prefix]).map_err(|source| self.fault(source))
    }

    /// The newest task, on `server` where that is given.
    ///
    /// # Errors
    /// Where the record cannot be read.
    pub fn newest(&self, server: Option<&str>) -> Result<Option<Known>, RecordError> {
        let condition = "WHERE task_id IS NOT NULL AND (?1 IS NULL OR server = ?1) ORDER BY id DESC LIMIT 1";
        let found = self.rows(false, condition, params![server]);
        found.map(|mut rows| rows.pop()).map_err(|source| self.fault(source))
    }

    /// Every row, the newest first.
    ///
    /// # Errors
    /// Where the record cannot be read.
    pub fn all(&self) -> Result<Vec<Known>, RecordError> {
        self.rows(false, "ORDER BY id DESC", params![]).map_err(|source| self.fault(source))
    }

    /// One row with its outcome.
    ///
    /// # Errors
    /// Where the record cannot be read.
    pub fn whole(&self, row: RowId) -> Result<Option<Known>, RecordError> {
        let found = self.rows(true, "WHERE id = ?1", params![row.0]);
        found.map(|mut rows| rows.pop()).map_err(|source| self.fault(source))
    }

    /// The trail of one row, or of all, the oldest first.
    ///
    /// # Errors
    /// Where the record cannot be read.
    pub fn entries(&self, row: Option<RowId>) -> Result<Vec<Entry>, RecordError> {
        let read = || -> rusqlite::Result<Vec<Entry>> {
            let mut statement = self
                .connection
                .prepare("SELECT task, at, kind, detail FROM events WHERE ?1 IS NULL OR task = ?1 ORDER BY id")?;
            let rows = statement.query_map([row.map(|row| row.0)], |found| {
                Ok(Entry { row: RowId(found.get(0)?), at: found.get(1)?, kind: found.get(2)?, detail: found.get(3)? })
            })?;
            rows.collect()
        };
        read().map_err(|source| self.fault(source))
    }

    fn rows(&self, whole: bool, condition: &str, values: impl rusqlite::Params) -> rusqlite::Result<Vec<Known>> {
        let large = if whole { "arguments, result, error" } else { "NULL AS arguments, NULL AS result, NULL AS error" };
        let sql = format!(
            "SELECT id, server, cwd, protocol, session, task_id, tool, sent_at, seen_at, ttl, status, message,
                    lost, result IS NOT NULL OR error IS NOT NULL AS has_outcome,
                    (SELECT count(*) FROM questions WHERE task = tasks.id AND settled IS NULL) AS open_questions,
                    {large} FROM tasks {condition}"
        );
        let mut statement = self.connection.prepare(&sql)?;
        statement.query_map(values, read_row)?.collect()
    }

    /// Makes a change that is there whole or not at all. It is immediate, so that two writers wait for each other rather
    /// than fail.
    fn change<T>(
        &mut self,
        work: impl FnOnce(&rusqlite::Transaction<'_>, i64) -> rusqlite::Result<T>,
    ) -> Result<T, RecordError> {
        let at = jiff::Timestamp::now().as_millisecond();
        let run = || {
            let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let done = work(&transaction, at)?;
            transaction.commit()?;
            Ok(done)
        };
        let done = run();
        done.map_err(|source| self.fault(source))
    }
}

fn note(connection: &Connection, row: RowId, at: i64, kind: &str, detail: Option<&str>) -> rusqlite::Result<()> {
    let sql = "INSERT INTO events (task, at, kind, detail) VALUES (?1, ?2, ?3, ?4)";
    connection.execute(sql, params![row.0, at, kind, detail]).map(|_| ())
}

/// Rows whose task was not seen to end.
const NOT_ENDED: &str = "(status IS NULL OR status NOT IN ('completed', 'failed', 'cancelled'))";

fn see(connection: &Connection, row: RowId, task: &Task, at: i64) -> rusqlite::Result<()> {
    // The end is final (spec, "Task Status Lifecycle"): a sight that another process writes late does not undo it.
    let sql = format!(
        "UPDATE tasks SET status = ?2, message = ?3, ttl = ?4, seen_at = ?5, lost = NULL
         WHERE id = ?1 AND (?6 OR {NOT_ENDED})"
    );
    let status = &task.status;
    let values = params![row.0, status.as_str(), task.status_message, write_ttl(task.ttl), at, status.is_terminal()];
    connection.execute(&sql, values)?;
    if status.is_terminal() { questions::withdraw_all(connection, row) } else { Ok(()) }
}

/// Milliseconds; -1 for no limit, nothing where the server did not say.
fn write_ttl(ttl: Ttl) -> Option<i64> {
    match ttl {
        Ttl::Unstated => None,
        Ttl::Unlimited => Some(-1),
        Ttl::Limited(ttl) => Some(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)),
    }
}

fn read_ttl(ttl: Option<i64>) -> Ttl {
    match ttl {
        None => Ttl::Unstated,
        Some(millis) => {
            u64::try_from(millis).map_or(Ttl::Unlimited, |millis| Ttl::Limited(Duration::from_millis(millis)))
        }
    }
}

fn write_error(error: &RpcError) -> String {
    serde_json::json!({
        "code": error.code,
        "message": error.message,
        "data": error.data.as_ref().map(RawJson::value),
    })
    .to_string()
}

fn read_error(text: &str) -> Option<RpcError> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(RpcError {
        code: value["code"].as_i64()?,
        message: value["message"].as_str()?.to_owned(),
        data: value.get("data").filter(|data| !data.is_null()).map(RawJson::from_value),
    })
}

fn read_row(found: &Row<'_>) -> rusqlite::Result<Known> {
    let status: Option<String> = found.get("status")?;
    let result: Option<String> = found.get("result")?;
    let error: Option<String> = found.get("error")?;
    let raw = result.and_then(|text| serde_json::from_str::<Box<serde_json::value::RawValue>>(&text).ok());
    let outcome = raw
        .map(|raw| TaskOutcome::Result(crate::model::ToolResult::read(RawJson::from(raw))))
        .or_else(|| error.as_deref().and_then(read_error).map(TaskOutcome::Error));
    Ok(Known {
        row: RowId(found.get("id")?),
        server: ServerNote { name: found.get("server")?, cwd: found.get("cwd")? },
        protocol: found.get("protocol")?,
        session: found.get("session")?,
        task: found.get::<_, Option<String>>("task_id")?.map(TaskId::new),
        tool: found.get("tool")?,
        arguments: found.get("arguments")?,
        sent_at: found.get("sent_at")?,
        seen_at: found.get("seen_at")?,
        ttl: read_ttl(found.get("ttl")?),
        status: status.as_deref().map(TaskStatus::from_wire),
        message: found.get("message")?,
        outcome,
        has_outcome: found.get("has_outcome")?,
        lost: found.get("lost")?,
        open_questions: found.get("open_questions")?,
    })
}

/// Makes the folder for the user alone.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes the file for the user alone before SQLite does so for everybody; what SQLite puts beside it inherits its mode.
fn private_file(file: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map(|_| ())
}

#[cfg(test)]
mod tests;
