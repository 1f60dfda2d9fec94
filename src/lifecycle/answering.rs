//! Questions of a server that come while a call or its task is waited for.
//!
//! Whoever can answer is an [`Answerer`]. It may take its time: polls go on meanwhile, and where the server withdraws its
//! question or the task ends, its future is dropped.

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;

use crate::session::{Answer, Inquiry, Question, Session, SessionError};

/// Answers questions: by asking a person, a program, or a list of answers.
pub trait Answerer {
    /// Answers one. The future is dropped where the question is withdrawn.
    fn answer<'a>(&'a self, question: &'a Question) -> LocalBoxFuture<'a, Reply>;

    /// An answer is about to be sent. Whether it may be: somebody elsewhere may have been faster.
    fn claims(&self, _question: &Question, _answer: &Answer) -> bool {
        true
    }

    /// An answer could not be delivered, or nobody waited for its receipt.
    fn failed(&self, _question: &Question, _why: &str) {}
}

/// What became of the attempt to answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// This is the answer.
    Answer(Answer),
    /// Nobody here answers: the task is left to wait for somebody who does. With the reason, where it is another than that
    /// nobody is there; escaped.
    Leave(Option<String>),
    /// Nobody here answers, but somebody elsewhere will.
    Wait,
    /// Somebody elsewhere has answered.
    Settled,
}

/// A question that nobody here answered.
#[derive(Clone, Debug)]
pub struct Unanswered {
    /// Which.
    pub question: Question,
    /// Why, where it is not merely that nobody was there; escaped.
    pub why: Option<String>,
}

/// Leaves everything to others.
impl Answerer for () {
    fn answer<'a>(&'a self, _question: &'a Question) -> LocalBoxFuture<'a, Reply> {
        Box::pin(async { Reply::Leave(None) })
    }
}

/// What became of a question.
#[derive(Debug)]
pub(super) enum Attended {
    /// It was answered.
    Answered(Question, Answer),
    /// The answer could not be delivered.
    Undelivered(Question, SessionError),
    /// The server does not want to know any more.
    Withdrawn(Question),
    /// Nobody here answers it, and nobody elsewhere can.
    Dismissed(Unanswered),
    /// Nobody here answers it.
    Left(Unanswered),
}

/// The questions that are being attended to.
pub(super) struct Attending<'a> {
    session: &'a Session,
    answerer: &'a dyn Answerer,
    under_way: FuturesUnordered<LocalBoxFuture<'a, Attended>>,
}

impl<'a> Attending<'a> {
    pub(super) fn new(session: &'a Session, answerer: &'a dyn Answerer) -> Self {
        Self { session, answerer, under_way: FuturesUnordered::new() }
    }

    /// Whether there is any.
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Takes one on.
    pub(super) fn take(&mut self, inquiry: Inquiry) {
        self.under_way.push(Box::pin(attend(self.session, self.answerer, inquiry)));
    }

    /// What became of the next one; waits for ever where there is none.
    pub(super) async fn next(&mut self) -> Attended {
        match self.under_way.next().await {
            Some(attended) => attended,
            None => std::future::pending().await,
        }
    }
}

async fn attend(session: &Session, answerer: &dyn Answerer, inquiry: Inquiry) -> Attended {
    let question = inquiry.question().clone();
    let withdrawn = inquiry.withdrawn();
    tokio::pin!(withdrawn);
    let reply = tokio::select! {
        biased;
        () = &mut withdrawn => return Attended::Withdrawn(question),
        reply = answerer.answer(&question) => reply,
    };
    match reply {
        Reply::Answer(answer) => match send(session, answerer, inquiry, &answer).await {
            Ok(true) => Attended::Answered(question, answer),
            Ok(false) => Attended::Withdrawn(question),
            Err(error) => Attended::Undelivered(question, error),
        },
        // What the server follows as a task of ours ends with us: nobody could answer it later.
        Reply::Leave(why) if question.as_task.is_some() => {
            match send(session, answerer, inquiry, &question.dismissal()).await {
                Ok(true) => Attended::Dismissed(Unanswered { question, why }),
                Ok(false) => Attended::Withdrawn(question),
                Err(error) => Attended::Undelivered(question, error),
            }
        }
        Reply::Leave(why) => Attended::Left(Unanswered { question, why }),
        Reply::Settled => {
            session.forget(inquiry);
            Attended::Withdrawn(question)
        }
        Reply::Wait => {
            withdrawn.await;
            Attended::Withdrawn(question)
        }
    }
}

/// Sends an answer, unless somebody elsewhere was faster. Whether it was sent.
async fn send(
    session: &Session,
    answerer: &dyn Answerer,
    inquiry: Inquiry,
    answer: &Answer,
) -> Result<bool, SessionError> {
    let question = inquiry.question().clone();
    if !answerer.claims(&question, answer) {
        session.forget(inquiry);
        return Ok(false);
    }
    let mut claim = Claim { answerer, question: &question, is_over: false };
    session.answer(inquiry, answer).await.inspect_err(|error| claim.fails(&error.to_string()))?;
    claim.is_over = true;
    Ok(true)
}

/// An answer that was noted as given. Where it is not known to have arrived, that is taken back.
struct Claim<'a> {
    answerer: &'a dyn Answerer,
    question: &'a Question,
    is_over: bool,
}

impl Claim<'_> {
    fn fails(&mut self, why: &str) {
        self.is_over = true;
        self.answerer.failed(self.question, why);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.fails("nobody waited for its receipt");
        }
    }
}
