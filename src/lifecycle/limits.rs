//! How long and how often: the patience that following a task has, where neither server nor user says.

use std::time::Duration;

/// How long a server may be out of reach, unless the user says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// A refusal of `tasks/result` within this time means that the server does not let it wait.
pub(super) const FAST: Duration = Duration::from_secs(1);
/// An error that `tasks/result` ends with after this time may be the task's own.
pub(super) const NOT_AT_ONCE: Duration = Duration::from_millis(200);
/// How long the standing question may still be answered once a poll says that the task is unknown.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// How long a task that has ended may take to hand out its result, before it is asked for once more beside.
pub(super) const BESIDE: Duration = Duration::from_secs(10);
/// How long an unanswered question is waited for once another was refused.
pub(super) const LATE: Duration = Duration::from_secs(60);
/// How often a task that has ended is asked for its result.
pub(super) const RESULT_ATTEMPTS: u32 = 4;
/// How many polls in a row may be answered with an error that says nothing clear.
pub(super) const ODD_ANSWERS: u32 = 3;
/// How long a task may ask for input before its question comes to us, as some come in other ways than they were announced.
pub const INPUT_PATIENCE: Duration = Duration::from_secs(3);
/// How long a cancellation may take.
pub(super) const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
/// The longest pause between attempts after failures.
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
