//! Asking the person at the terminal.

use std::time::Duration;

use super::NoAnswer;
use crate::commands::Context;
use crate::forms::{Address, Form, secrets};
use crate::lifecycle::Reply;
use crate::model::{TaskId, text};
use crate::present::ask::{self, NoAnswer as Silence};
use crate::present::dialogue::{self, Asker, Consent, Decision, Visit};
use crate::session::{Answer, Question, QuestionKind};

/// How long Ctrl-C may take to end the waiting, which includes asking for cancellation.
const INTERRUPT: Duration = Duration::from_secs(10);

/// Who asks the person, and why.
pub(super) fn asker(context: &Context, tool: Option<&str>, question: &Question, message: &str) -> Asker {
    Asker {
        server: context.server_name().unwrap_or_else(|| "the server".to_owned()),
        tool: tool.map(str::to_owned),
        task: question.task.as_ref().map(TaskId::as_str).map(str::to_owned),
        message: message.to_owned(),
        warnings: Vec::new(),
    }
}

/// Puts a question to the person.
pub(super) async fn ask(context: &Context, tool: Option<&str>, question: &Question) -> Result<Reply, NoAnswer> {
    let asker = |message: &str, warnings: Vec<String>| Asker { warnings, ..asker(context, tool, question, message) };
    let answer = match &question.kind {
        QuestionKind::Sampling => return Ok(Reply::Leave(None)),
        QuestionKind::Form { message, schema } => {
            let form = Form::new(schema);
            let secret = secrets::wanted(message, &form).map(|what| {
                format!("this seems to ask for {what}; a server must not do so here, where others may see the answer")
            });
            let asker = asker(message, secret.into_iter().collect());
            let decision = ask::ask(&context.printer, move |person| dialogue::fill_in(person, &asker, &form)).await;
            decision.map(|decision| match decision {
                Decision::Send(content) => Answer::Accept(Some(content)),
                Decision::Decline => Answer::Decline,
                Decision::Cancel => Answer::Cancel,
            })
        }
        QuestionKind::Url { message, url, .. } => {
            let address = match Address::read(url) {
                Ok(address) => address,
                Err(why) => {
                    context.printer.warn(&format!("the server's question was dismissed: {why}"));
                    return Ok(Reply::Answer(Answer::Cancel));
                }
            };
            let asker = asker(message, address.warnings.clone());
            let visit = Visit { url: address.shown.clone(), host: address.host.clone() };
            let consent = ask::ask(&context.printer, move |person| dialogue::consent(person, &asker, &visit)).await;
            consent.map(|consent| match consent {
                Consent::Open => {
                    open(context, &address);
                    Answer::Accept(None)
                }
                Consent::ByHand => Answer::Accept(None),
                Consent::Decline => Answer::Decline,
                Consent::Cancel => Answer::Cancel,
            })
        }
    };
    match answer {
        Ok(answer) => Ok(Reply::Answer(answer)),
        Err(silence) => silent(silence).await,
    }
}

/// Shows something to the person; whether it may pass.
pub(super) async fn lets_pass(context: &Context, asker: Asker, prompt: &'static str) -> Result<bool, NoAnswer> {
    match ask::ask(&context.printer, move |person| dialogue::lets_pass(person, &asker, prompt)).await {
        Ok(passes) => Ok(passes),
        Err(silence) => silent(silence).await.map(|_| false),
    }
}

/// Waits for the person's word that all is done elsewhere.
pub(super) async fn is_done(context: &Context) -> Result<bool, NoAnswer> {
    let asked = ask::ask(&context.printer, |person| {
        let ways = ["Done: call again", "Cancel"].map(str::to_owned);
        Ok(person.choose("Are you done there?", &ways, 0)? == Some(0))
    });
    match asked.await {
        Ok(done) => Ok(done),
        Err(silence) => silent(silence).await.map(|_| false),
    }
}

/// The person did not answer.
async fn silent(silence: Silence) -> Result<Reply, NoAnswer> {
    match silence {
        Silence::Interrupted | Silence::Stopped => {
            // Whoever was told of it ends the waiting.
            tokio::time::sleep(INTERRUPT).await;
            Ok(Reply::Leave(None))
        }
        error @ Silence::Terminal(_) => Err(error.to_string()),
    }
}

/// Opens an address in the browser. Where there is none, the person has it on the screen.
fn open(context: &Context, address: &Address) {
    let mut options = webbrowser::BrowserOptions::new();
    options.with_suppress_output(true);
    if let Err(error) =
        webbrowser::open_browser_with_options(webbrowser::Browser::Default, address.url.as_str(), &options)
    {
        let why = text::line(&error.to_string()).into_owned();
        context
            .printer
            .warn(&format!("no browser could be opened ({why}); open the address yourself: {}", address.shown));
    }
}
