//! Writes into the record what happens to a task, beside whatever shows it.
//!
//! A record that cannot be written is told once and stops nothing: the task is worth more than its trail. Beside the record
//! there is one more that keeps something of a task while nobody watches: the process that holds its server, which is told
//! here for how long it is needed.

use std::cell::RefCell;
use std::rc::Rc;

use sha2::{Digest, Sha256};

use super::{Context, Holding};
use crate::lifecycle::{Ending, Event, Reporter};
use crate::model::{Task, TaskId, TaskOutcome, TaskStatus};
use crate::record::{Keep, NewCall, NotedQuestion, Record, RecordError, RowId, ServerNote, WITHDRAWN};
use crate::session::{CallRequest, Question, SessionError, is_unknown_task};

/// Writes about one task. Clones write about the same one.
#[derive(Clone)]
pub struct Recorder(Rc<RefCell<Inner>>);

struct Inner {
    /// The record could not be written.
    gave_up: bool,
    /// The task had its name before.
    is_known: bool,
    row: Option<RowId>,
    /// What there is to tell of a call that this command makes.
    call: Option<Rc<Call>>,
    context: Context,
}

impl Inner {
    /// Writes, unless that has failed before.
    fn write<T>(&mut self, work: impl FnOnce(&mut Record) -> Result<T, RecordError>) -> Option<T> {
        if self.gave_up {
            return None;
        }
        match self.context.with_record(work) {
            Ok(done) => Some(done),
            Err(error) => {
                self.gave_up = true;
                self.context.printer.warn(&format!("the task is not recorded any further: {error}"));
                None
            }
        }
    }
}

/// What a row needs to know of a call.
struct Call {
    server: ServerNote,
    protocol: String,
    tool: String,
    arguments: Option<String>,
    hash: String,
}

impl Recorder {
    fn new(context: &Context, is_known: bool, row: Option<RowId>, call: Option<Call>) -> Self {
        let context = context.clone();
        Self(Rc::new(RefCell::new(Inner { gave_up: false, is_known, row, call: call.map(Rc::new), context })))
    }

    /// For a call that is about to be sent.
    pub(super) fn of_call(context: &Context, protocol: &str, request: &CallRequest) -> Self {
        let arguments = request.arguments.to_string();
        let hash = Sha256::digest(arguments.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let call = Call {
            server: context.server_note(),
            protocol: protocol.to_owned(),
            tool: request.tool.clone(),
            arguments: context.record_arguments.then_some(arguments),
            hash,
        };
        Self::new(context, false, None, Some(call))
    }

    /// For a task that may be in the record.
    pub(super) fn of_known(context: &Context, row: Option<RowId>) -> Self {
        Self::new(context, row.is_some(), row, None)
    }

    /// For a task that may be that of a call whose answer was never seen. It becomes so with its first sight.
    pub(super) fn of_lost_call(context: &Context, row: RowId) -> Self {
        Self::new(context, false, Some(row), None)
    }

    fn write(&self, work: impl FnOnce(&mut Record, RowId) -> Result<(), RecordError>) {
        let mut inner = self.0.borrow_mut();
        if let Some(row) = inner.row {
            inner.write(|record| work(record, row));
        }
    }

    /// The call is about to be sent as a task.
    pub(super) fn sending(&self) {
        let mut inner = self.0.borrow_mut();
        let (Some(call), None) = (inner.call.clone(), inner.row) else { return };
        let new = NewCall {
            server: &call.server,
            protocol: &call.protocol,
            session: inner.context.session(),
            tool: &call.tool,
            arguments: call.arguments.as_deref(),
            arguments_hash: &call.hash,
        };
        inner.row = inner.write(|record| {
            record.prune(Keep::default())?;
            record.sending(&new)
        });
    }

    /// The server has named the task. Another command may have taken the row for a task of its own meanwhile: that of a
    /// call without an answer goes to whoever comes first.
    fn created(&self, task: &Task) {
        // A plain call may be answered with a task all the same.
        self.sending();
        while self.is_taken_by_another(task) {
            let other = self.other_lost_call(task);
            self.0.borrow_mut().row = other;
            self.sending();
        }
    }

    /// Another call without an answer that may have started the task. A call of our own gets a new row instead.
    fn other_lost_call(&self, task: &Task) -> Option<RowId> {
        let mut inner = self.0.borrow_mut();
        if inner.call.is_some() {
            return None;
        }
        let server = inner.context.server_name();
        let found = inner.write(|record| record.find_candidates(task.id.as_str()))?;
        let other = found.into_iter().find(|(id, call)| *id == task.id && Some(&call.server.name) == server.as_ref());
        other.map(|(_, call)| call.row)
    }

    /// Writes the task into its row, unless that is another task's.
    fn is_taken_by_another(&self, task: &Task) -> bool {
        let mut inner = self.0.borrow_mut();
        let (Some(row), session) = (inner.row, inner.context.session()) else { return false };
        inner.write(|record| record.created(row, task, session.as_deref())) == Some(false)
    }

    /// The call was answered without a task.
    pub(super) fn forget(&self) {
        self.write(Record::forget);
        self.0.borrow_mut().row = None;
    }

    /// The call's answer will not come.
    pub(super) fn answer_lost(&self, why: &str) {
        self.write(|record, row| record.trail(row, "answer lost", Some(why)));
    }

    /// Tasks that the call without an answer may have started.
    pub(super) fn candidates<'a>(&self, tasks: impl IntoIterator<Item = &'a TaskId>) {
        self.write(|record, row| record.add_candidates(row, tasks));
    }

    /// The task can no longer be had.
    pub(super) fn lost(&self, why: &str) {
        self.write(|record, row| record.lost(row, why));
    }

    /// The server would not show the task. Where it does not know it, it is lost.
    pub(super) fn refused(&self, error: &SessionError, session_renewed: bool) {
        if error.rpc().is_some_and(is_unknown_task) {
            let with = if session_renewed { "lost with its session: " } else { "" };
            self.lost(&format!("{with}{error}"));
        }
    }

    /// A sight of the task outside of following it.
    pub(super) fn seen(&self, task: &Task) {
        self.write(|record, row| record.seen(row, task));
        // A result that nobody has fetched yet still needs the server.
        if task.status == TaskStatus::Cancelled {
            self.holding(|holding| holding.release(&task.id));
        }
    }

    fn holding(&self, tell: impl FnOnce(&Holding)) {
        self.0.borrow().context.holding.get().map(tell);
    }

    /// The server has put a question for the task.
    pub(super) fn asked(&self, question: &Question) {
        self.write(|record, row| record.asked(row, &question.id.to_json(), question.method, &question.params));
    }

    /// A question is about to be answered. Whether it may be: where another command was faster, not.
    pub(super) fn claims(&self, question: &Question, action: &str) -> bool {
        let mut inner = self.0.borrow_mut();
        let Some(row) = inner.row else { return true };
        let id = question.id.to_json();
        // A question that the record could not take is nobody else's to answer.
        let claim = |record: &mut Record| Ok(record.settle(row, &id, action)? || !record.is_settled(row, &id)?);
        inner.write(claim).unwrap_or(true)
    }

    /// An answer could not be delivered.
    pub(super) fn unanswered(&self, question: &Question, why: &str) {
        self.write(|record, row| record.reopen(row, &question.id.to_json(), why));
    }

    /// Whether the record tells of it, so that other commands can know.
    pub(super) fn has_row(&self) -> bool {
        self.0.borrow().row.is_some()
    }

    /// Whether a question was settled by another command.
    pub(super) fn is_settled(&self, question: &Question) -> bool {
        let mut inner = self.0.borrow_mut();
        let Some(row) = inner.row else { return false };
        inner.write(|record| record.is_settled(row, &question.id.to_json())).unwrap_or(false)
    }

    /// The questions of the task that nobody has settled.
    pub(super) fn open_questions(&self) -> Vec<NotedQuestion> {
        let mut inner = self.0.borrow_mut();
        let Some(row) = inner.row else { return Vec::new() };
        inner.write(|record| record.open_questions(row)).unwrap_or_default()
    }

    /// Following has ended.
    pub(super) fn ended(&self, ending: &Ending, task: &Task) {
        if !matches!(ending, Ending::Broken(_) | Ending::CancelUnconfirmed | Ending::InputRequired(_) | Ending::Left(_))
        {
            self.holding(|holding| holding.release(&task.id));
        }
        self.write(|record, row| match ending {
            Ending::Done { status, outcome, .. } => record.ended(row, status, outcome),
            Ending::NoResult { status, .. } => record.ended(row, status, &TaskOutcome::Nothing),
            Ending::Cancelled { .. } => record.ended(row, &TaskStatus::Cancelled, &TaskOutcome::Nothing),
            Ending::Lost { error, .. } => record.lost(row, &error.to_string()),
            Ending::Broken(error) if error.is_servers_end() => record.lost(row, &error.to_string()),
            Ending::Broken(error) => record.trail(row, "out of sight", Some(&error.to_string())),
            Ending::CancelUnconfirmed | Ending::InputRequired(_) | Ending::Left(_) => {
                record.seen(row, task)?;
                record.trail(row, "left", None)
            }
        });
    }
}

impl Reporter for Recorder {
    fn report(&mut self, event: &Event) {
        match event {
            Event::Created { task, .. } => {
                if self.0.borrow().is_known {
                    return self.seen(task);
                }
                self.holding(|holding| holding.lease(&task.id, task.ttl));
                self.created(task);
            }
            Event::Changed { task } => self.seen(task),
            Event::CancelAsked { .. } => self.write(|record, row| record.trail(row, "cancel asked", None)),
            Event::CancelRefused { reason, .. } => {
                self.write(|record, row| record.trail(row, "cancel refused", Some(reason)));
            }
            Event::PollFailed { reason, .. } => {
                self.write(|record, row| record.trail(row, "poll failed", Some(reason)))
            }
            Event::Asked { question } => self.asked(question),
            Event::Withdrawn { question } => {
                self.write(|record, row| record.settle(row, &question.id.to_json(), WITHDRAWN).map(|_| ()));
            }
            // Written by whoever answers.
            Event::Answered { .. } | Event::AnswerLost { .. } => {}
            Event::Called { .. } | Event::Progress(_) => {}
        }
    }
}

/// First the record, then the screen: what is shown is on disk.
pub(super) struct Recorded(pub(super) Recorder, pub(super) Box<dyn Reporter>);

impl Reporter for Recorded {
    fn report(&mut self, event: &Event) {
        self.0.report(event);
        self.1.report(event);
    }
}
