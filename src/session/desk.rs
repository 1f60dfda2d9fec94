//! Questions that the server has put and nobody has answered.
//!
//! A question is taken by one subscription at a time: that which follows its task or, where the server does not name one,
//! whichever comes first. One for a task that nobody follows is kept. Who takes a question and leaves without answering puts
//! it back.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};

use super::question::{Question, QuestionId};
use super::receiver::Receiver;
use crate::model::TaskId;

/// Questions kept, at most: a server that asks more than that at once is out of its mind.
const MOST: usize = 256;

/// See above. Copies share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Desk {
    open: Arc<Mutex<Vec<Open>>>,
    /// Those that were answered: a stream that is taken up again may bring them once more.
    answered: Arc<Mutex<HashSet<QuestionId>>>,
    /// What was asked at an address, by the server's name for it, and whether that is complete.
    visits: Arc<Mutex<HashMap<String, bool>>>,
    /// Told of whatever may concern who waits.
    news: Arc<Notify>,
}

#[derive(Debug)]
struct Open {
    question: Question,
    /// It was put to an earlier process; the server may put it anew under another id.
    is_old: bool,
    taken: bool,
    /// Whether the server still wants to know.
    wanted: watch::Sender<bool>,
}

/// A question that was taken. Dropping it puts it back.
#[derive(Debug)]
pub struct Inquiry {
    question: Question,
    wanted: watch::Receiver<bool>,
    desk: Desk,
}

impl Desk {
    /// A new session has begun, whose ids mean other questions.
    pub(super) fn clear(&self) {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for one in self.lock().drain(..) {
            one.wanted.send_replace(false);
        }
    }

    /// Keeps a question. Whether there was room.
    pub(super) fn put(&self, question: Question) -> bool {
        self.add(question, false)
    }

    /// Keeps a question that was put to an earlier process.
    pub(super) fn put_old(&self, question: Question) {
        self.add(question, true);
    }

    fn add(&self, question: Question, is_old: bool) -> bool {
        let mut open = self.lock();
        let was_answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner).contains(&question.id);
        let is_known = |one: &Open| one.question.id == question.id && (!one.is_old || is_old);
        if was_answered || open.iter().any(is_known) {
            return true;
        }
        if open.len() >= MOST {
            return false;
        }
        // The server has put it anew: what it was called before, nobody waits for.
        let is_same = |one: &mut Open| {
            let is_same = one.question.params == question.params || one.question.id == question.id;
            one.is_old && !is_old && is_same
        };
        open.extract_if(.., is_same).for_each(|one| {
            one.wanted.send_replace(false);
        });
        open.push(Open { question, is_old, taken: false, wanted: watch::Sender::new(true) });
        drop(open);
        self.news.notify_waiters();
        true
    }

    /// The server does not want to know any more.
    pub(super) fn withdraw(&self, id: &QuestionId) {
        let mut open = self.lock();
        if let Some(at) = open.iter().position(|one| one.question.id == *id) {
            open.remove(at).wanted.send_replace(false);
        }
    }

    /// Something is asked at an address.
    pub(super) fn expect(&self, elicitation: &str) {
        self.visits().entry(elicitation.to_owned()).or_insert(false);
    }

    /// What was asked at an address is complete. Whether that is news: an unknown name, or one that was complete before, is not.
    pub(super) fn complete(&self, elicitation: &str) -> bool {
        let is_news = self.visits().get_mut(elicitation).is_some_and(|complete| !std::mem::replace(complete, true));
        self.news.notify_waiters();
        is_news
    }

    /// Waits until what was asked at an address is complete.
    pub(super) async fn completed(&self, elicitation: &str) {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if self.visits().get(elicitation).copied().unwrap_or_default() {
                return;
            }
            news.await;
        }
    }

    fn visits(&self) -> std::sync::MutexGuard<'_, HashMap<String, bool>> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a question of this task, or of none.
    pub(super) async fn take(&self, task: impl Fn() -> Option<TaskId>) -> Inquiry {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // Registered before looking, so that nothing is missed in between.
            news.as_mut().enable();
            if let Some(inquiry) = self.try_take(task().as_ref()) {
                return inquiry;
            }
            news.await;
        }
    }

    fn try_take(&self, task: Option<&TaskId>) -> Option<Inquiry> {
        let mut open = self.lock();
        let is_ours = |question: &Question| question.task.is_none() || question.task.as_ref() == task;
        let found = open.iter_mut().find(|one| !one.taken && is_ours(&one.question))?;
        found.taken = true;
        Some(Inquiry { question: found.question.clone(), wanted: found.wanted.subscribe(), desk: self.clone() })
    }

    /// What is open, for whoever wants to know without taking it.
    pub(super) fn questions(&self) -> Vec<Question> {
        self.lock().iter().map(|one| one.question.clone()).collect()
    }

    /// Who waits shall look again.
    pub(super) fn look_again(&self) {
        self.news.notify_waiters();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inquiry {
    /// What is asked.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Makes a task of it where the server wants to follow it as one, once.
    pub(super) fn accept(&mut self, receiver: &Receiver) {
        if self.question.as_task.is_none() {
            receiver.take(&mut self.question, &self.desk);
            let mut open = self.desk.lock();
            if let Some(one) = open.iter_mut().find(|one| one.question.id == self.question.id) {
                one.question.as_task.clone_from(&self.question.as_task);
            }
        }
    }

    /// Waits until the server does not want to know any more.
    pub fn withdrawn(&self) -> impl Future<Output = ()> + 'static {
        let mut wanted = self.wanted.clone();
        async move {
            let _ = wanted.wait_for(|wanted| !wanted).await;
        }
    }

    /// It is answered: nobody else is to take it.
    pub(super) fn settle(self) {
        let mut answered = self.desk.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.insert(self.question.id.clone());
        drop(answered);
        self.desk.withdraw(&self.question.id);
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        let mut open = self.desk.lock();
        if let Some(one) = open.iter_mut().find(|one| one.question.id == self.question.id) {
            one.taken = false;
        }
        drop(open);
        self.desk.news.notify_waiters();
    }
}
