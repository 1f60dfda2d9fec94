//! `mcp-task call TOOL [ARG…]`: calls a tool, as a task where it may be, and shows what it comes to.

use std::time::Duration;

use serde_json::{Map, Value};

use super::answering::{self, Answers};
use super::follow::{self, WaitOptions, Watch};
use super::held::Need;
use super::recorder::{Recorded, Recorder};
use super::troubles::{LostCall, SilentCall, UsageError};
use super::{Context, candidates, server, tools, troubles};
use crate::arguments::{self, Item, Schema};
use crate::lifecycle::call::may_have_started;
use crate::lifecycle::{Attendance, CallEnding, Leaving, call};
use crate::model::{Task, duration, text};
use crate::present::{Exit, Output, Stage, Trouble};
use crate::session::{CallMode, CallRequest, Session, TaskWish};

/// How long looking for the task of a call whose answer was lost may take.
const LOOK: Duration = Duration::from_secs(5);

/// How often a call is made where the server refuses it until a person has been somewhere.
const VISITS: u32 = 5;

/// What to call and how.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// The tool.
    pub tool: String,
    /// `key=…` as typed.
    pub arguments: Vec<Item>,
    /// `--input`, read.
    pub input: Map<String, Value>,
    /// Whether the arguments are checked against the tool's schema.
    pub validate: bool,
    /// Plain, as a task, or as it fits.
    pub wish: TaskWish,
    /// How long the server shall keep the task, in milliseconds.
    pub ttl: Option<u64>,
    /// Print the task's id and leave.
    pub detach: bool,
    /// How long the server may be silent before it has answered the call; `None`: for ever.
    pub idle_limit: Option<Duration>,
    /// How to wait.
    pub wait: WaitOptions,
}

/// Runs the command.
///
/// # Errors
/// Where the call cannot be made or its answer does not come. A task that fails is no error.
pub async fn run(context: &Context, options: CallOptions) -> anyhow::Result<Exit> {
    let deadline = options.wait.deadline();
    let name = text::line(&options.tool).into_owned();
    let ready = async {
        // A call that cannot become a task leaves nothing behind that a server would be held for.
        let need = if options.wish == TaskWish::Plain { Need::Look } else { Need::Tasks };
        let session = server::connect(context, need).await?;
        match prepare(context, &session, &options).await {
            Ok(request) => Ok((session, request)),
            Err(error) => {
                session.close(false).await;
                Err(error)
            }
        }
    };
    let Some(ready) = follow::until(deadline, ready).await else {
        let limit = duration::human(options.wait.timeout.unwrap_or_default());
        let message = format!("the server was not ready within {limit}; `{name}` was not called");
        return Ok(Trouble::new("timeout", Exit::Connection, message).show(&context.printer));
    };
    let (session, request) = ready?;
    let recorder = Recorder::of_call(context, &session.profile().version, &request);
    if request.mode == CallMode::Task {
        recorder.sending();
    }
    let mut watch = Watch {
        subscription: session.subscribe(),
        reporter: Box::new(Recorded(recorder.clone(), Stage::new(&context.printer, context.progress).reporter(None))),
        recorder: recorder.clone(),
        answers: Answers::new(context, &options.wait.input, Some(&options.tool), recorder.clone()),
        commands: context.interrupts.hand_to_follower(options.wait.on_interrupt(context)),
    };
    let Watch { subscription, reporter, commands, answers, .. } = &mut watch;
    let mut ending;
    let mut visits = VISITS;
    loop {
        let attendance = Attendance { subscription, reporter: reporter.as_mut(), answerer: answers, commands };
        ending = call(&session, &request, options.idle_limit, deadline, attendance).await;
        // The server has refused the call, and says what it needs first: only a person's word leads to another attempt.
        let CallEnding::Failed(error) = &ending else { break };
        let needed = session.needed_first(error);
        if needed.is_empty() {
            break;
        }
        recorder.forget();
        visits -= 1;
        let met = answers.meet(&session, &needed, options.idle_limit);
        let met = tokio::select! {
            met = follow::until(deadline, met) => met.unwrap_or(Err(None)),
            Some(_) = commands.recv() => {
                drop(watch);
                session.close(false).await;
                let message = format!("interrupted; `{name}` was not called");
                return Ok(Trouble::new("interrupted", Exit::Interrupted, message).show(&context.printer));
            }
        };
        match met {
            Ok(()) if visits > 0 => {}
            Ok(()) => break,
            Err(why) => {
                drop(watch);
                session.close(false).await;
                return Ok(answering::visit_first(&name, &needed, why).show(&context.printer));
            }
        }
        if request.mode == CallMode::Task {
            recorder.sending();
        }
    }
    let task = match ending {
        CallEnding::Task(task) => task,
        CallEnding::Result(result) => {
            recorder.forget();
            let unanswered = watch.answers.left();
            watch.answers.tell_unused();
            drop(watch);
            let exit = follow::show_result(context, None, &result, false, &options.wait)?;
            session.close(false).await;
            return Ok(unanswered.map_or(exit, |question| follow::dismissed(context, &question, exit)));
        }
        CallEnding::Left(Leaving::Asked) => {
            drop(watch);
            recorder.answer_lost("interrupted");
            let message = format!("interrupted; the server was told that nobody waits for `{name}` any more");
            return Ok(Trouble::new("interrupted", Exit::Interrupted, message).show(&context.printer));
        }
        CallEnding::LeftTask(task, ending) => {
            drop(watch);
            recorder.ended(&ending, &task);
            return Ok(troubles::of_ending(context, &ending, &task).show(&context.printer));
        }
        CallEnding::Left(Leaving::Deadline) => {
            drop(watch);
            recorder.answer_lost("not answered in time");
            let limit = duration::human(options.wait.timeout.unwrap_or_default());
            let message =
                format!("`{name}` has not answered within {limit}; the server was told that nobody waits any more");
            return Ok(Trouble::new("timeout", Exit::StillRunning, message).show(&context.printer));
        }
        CallEnding::Silent(limit) => {
            recorder.answer_lost("the server stayed silent");
            return Err(SilentCall { tool: name, limit }.into());
        }
        CallEnding::Failed(error) if may_have_started(&error) => {
            recorder.answer_lost(&error.to_string());
            let candidates = look_for_task(context, &session, &recorder).await;
            return Err(LostCall { tool: name, source: error, candidates }.into());
        }
        CallEnding::Failed(error) => {
            recorder.forget();
            return Err(anyhow::Error::new(error).context(format!("cannot call `{name}`")));
        }
    };
    if options.detach {
        watch.answers.tell_unused_by_detached(&task.id);
        drop(watch);
        match context.printer.output() {
            Output::Text => context.printer.server_text(task.id.as_str()),
            Output::Json => context.printer.raw_json(&task.raw),
            Output::Jsonl => {}
        }
        context.printer.note(&format!("follow it with: {}", context.command_for("watch", &task.id)));
        return Ok(Exit::Done);
    }
    let (ending, task) = follow::to_the_end(context, &session, task, &options.wait, deadline, watch).await;
    let exit = follow::show(context, &ending, &task, &options.wait)?;
    // Others may watch the task in this session, or fetch its result again.
    session.close(true).await;
    Ok(exit)
}

/// Everything that can be found wrong before the call is sent.
async fn prepare(context: &Context, session: &Session, options: &CallOptions) -> anyhow::Result<CallRequest> {
    let tool = tools::find(session, &options.tool).await?;
    let schema = tool.as_ref().map_or(Value::Null, |tool| tool.input_schema.clone());
    let schema = Schema::new(&schema);
    let arguments = arguments::build(options.input.clone(), &options.arguments, &schema)?;
    if options.validate && tool.is_some() {
        for note in arguments::check(&arguments, &schema)? {
            context.printer.warn(&note);
        }
    }
    let mode = session.plan_call(&options.tool, tool.as_ref(), options.wish)?;
    if mode == CallMode::Plain && options.ttl.is_some() {
        context.printer.warn("--ttl has no effect: the tool is called plainly, not as a task");
    }
    if mode == CallMode::Plain && options.detach {
        let message = "--detach needs a task, and this tool is called plainly";
        return Err(UsageError::hinting(message, "leave out --detach").into());
    }
    if options.detach && context.server_is_child() {
        let message = "--detach would leave nothing running: the server is not held, so it ends with this command";
        return Err(UsageError::hinting(message, "leave out --detach or --no-hold").into());
    }
    Ok(CallRequest { tool: options.tool.clone(), arguments: Value::Object(arguments), mode, ttl: options.ttl })
}

/// Tasks that the lost call may have started. They are noted, so that a later command finds them in their session.
async fn look_for_task(context: &Context, session: &Session, recorder: &Recorder) -> Vec<Task> {
    let listed = tokio::time::timeout(LOOK, session.tasks()).await;
    let tasks = candidates::among(context, listed.ok().and_then(Result::ok).flatten().unwrap_or_default());
    recorder.candidates(tasks.iter().map(|task| &task.id));
    tasks
}
