//! The exit numbers, a contract with scripts; the README lists them.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Something went wrong that has no number of its own.
    Unexpected = 1,
    /// The command line or the arguments are wrong; nothing was sent.
    Usage = 2,
    /// The server could not be reached, or the connection broke.
    Connection = 3,
    /// The server answered with an error, or broke the protocol.
    Server = 4,
    /// The task failed with a JSON-RPC error.
    TaskFailed = 5,
    /// The tool said `isError`.
    ToolError = 6,
    /// The task was cancelled.
    Cancelled = 7,
    /// The task still runs.
    StillRunning = 8,
    /// The task waits for an answer.
    InputNeeded = 9,
    /// The server does not know the task, or knows it no more.
    TaskUnknown = 10,
    /// The server asks for authorization.
    Unauthorized = 11,
    /// Interrupted before there was a task.
    Interrupted = 130,
}

impl Exit {
    /// The number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The worse of two ends, for a command about several tasks. From good to bad: done, still running, input needed,
    /// cancelled, the tool's error, the task's error, no such task, the server's error, authorization, the connection,
    /// usage, unexpected, interrupted.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.severity() > self.severity() { other } else { self }
    }

    fn severity(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::StillRunning => 1,
            Self::InputNeeded => 2,
            Self::Cancelled => 3,
            Self::ToolError => 4,
            Self::TaskFailed => 5,
            Self::TaskUnknown => 6,
            Self::Server => 7,
            Self::Unauthorized => 8,
            Self::Connection => 9,
            Self::Usage => 10,
            Self::Unexpected => 11,
            Self::Interrupted => 12,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
