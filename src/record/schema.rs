//! The tables, and the way from each version to the next.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::{BUSY, RecordError};

/// What brings version `n` to `n + 1`, from nothing on. Once released a step is never changed.
const STEPS: [&str; 2] = [FIRST, QUESTIONS];

const FIRST: &str = "
    CREATE TABLE tasks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        server TEXT NOT NULL,
        cwd TEXT,
        protocol TEXT NOT NULL,
        session TEXT,
        task_id TEXT,
        tool TEXT NOT NULL,
        arguments TEXT,
        arguments_hash TEXT NOT NULL,
        sent_at INTEGER NOT NULL,
        seen_at INTEGER NOT NULL,
        ttl INTEGER,
        status TEXT,
        message TEXT,
        answered TEXT,
        lost TEXT,
        -- Large ones last: what stands before them is read without them.
        result TEXT,
        error TEXT
    );
    CREATE INDEX tasks_by_task_id ON tasks (task_id);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        task INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        detail TEXT
    );
    CREATE INDEX events_by_task ON events (task);
";

const QUESTIONS: &str = "
    CREATE TABLE questions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        task INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
        question TEXT NOT NULL,
        method TEXT NOT NULL,
        params TEXT NOT NULL,
        asked_at INTEGER NOT NULL,
        settled TEXT
    );
    CREATE UNIQUE INDEX questions_by_task ON questions (task, question);
";

/// Brings the database to the newest version.
pub(super) fn prepare(connection: &mut Connection, file: &Path) -> Result<(), RecordError> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let fault = |source| RecordError::Database { file: file.to_owned(), source };
    connection.pragma_update(None, "foreign_keys", true).map_err(fault)?;
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(fault)?;
    let mut found = version(connection).map_err(fault)?;
    if found < known {
        write_ahead(connection).map_err(fault)?;
        found = migrate(connection).map_err(fault)?;
    }
    if found > known { Err(RecordError::Newer { file: file.to_owned(), found, known }) } else { Ok(()) }
}

/// Turns write-ahead logging on. SQLite does not wait for others at this one switch, so we do.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + BUSY;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            outcome => return outcome,
        }
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// In one transaction, in which the version is read anew: another process may have been faster.
fn migrate(connection: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = version(&transaction)?;
    for step in STEPS.iter().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
        transaction.execute_batch(step)?;
    }
    let to = from.max(i64::try_from(STEPS.len()).unwrap_or(from));
    transaction.pragma_update(None, "user_version", to)?;
    transaction.commit()?;
    Ok(to)
}
