//! The command line: from words to settings, from settings to a command, from its outcome to an exit number.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};

use crate::commands::{self, Context, Followed, Interrupts, troubles};
use crate::model::text;
use crate::present::{Exit, Output, Printer, Trouble};
use crate::transport::Keeper;
use crate::transport::http::SharedSession;
use crate::{demo, holder};

mod args;
mod settings;

use args::{Action, App, SessionsAction};

/// How long an interrupted program waits for a reader of stdout.
const AFTER_INTERRUPT: Duration = Duration::from_millis(300);

/// Runs the program.
pub fn main() -> ExitCode {
    let app = match read_words() {
        Ok(app) => app,
        Err(error) => {
            // Help and version go to stdout, mistakes to stderr; a reader that has left is no mistake.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::Usage.number() } else { Exit::Done.number() });
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: cannot start the runtime: {error}");
            return Exit::Unexpected.into();
        }
    };
    let exit = match app.action {
        Action::DemoServer => of_service(runtime.block_on(demo::serve())),
        Action::HoldServer => of_service(runtime.block_on(holder::serve())),
        _ => runtime.block_on(run(app)),
    };
    // Whatever still runs has no more to do, and reading stdin cannot be stopped.
    runtime.shutdown_background();
    exit.into()
}

fn of_service(served: std::io::Result<()>) -> Exit {
    if served.is_ok() { Exit::Done } else { Exit::Unexpected }
}

fn read_words() -> Result<App, clap::Error> {
    let matches = without_empty_variables(App::command()).try_get_matches().map_err(with_argument_tip)?;
    let mut app = App::from_arg_matches(&matches)?;
    let typed = |matches: &clap::ArgMatches| matches.value_source("server") == Some(ValueSource::CommandLine);
    app.global.server_was_typed = typed(&matches) || matches.subcommand().is_some_and(|(_, of_it)| typed(of_it));
    Ok(app)
}

/// A variable that is set to nothing is not set.
fn without_empty_variables(mut command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    command = command.mut_args(|arg| if is_empty(&arg) { arg.env(None::<&'static str>) } else { arg });
    let names: Vec<String> = command.get_subcommands().map(|of_it| of_it.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, without_empty_variables);
    }
    command
}

/// `call bake --loaves 3` is what a user of other tools tries first.
fn with_argument_tip(mut error: clap::Error) -> clap::Error {
    let is_call = std::env::args().any(|word| word == "call");
    if let (ErrorKind::UnknownArgument, true, Some(ContextValue::String(flag))) =
        (error.kind(), is_call, error.get(ContextKind::InvalidArg))
        && let Some(name) = flag.strip_prefix("--")
    {
        let name = name.split('=').next().unwrap_or(name);
        let tip = format!("a tool's argument is written `{name}=…`");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

async fn run(app: App) -> Exit {
    let printer = Printer::new(app.global.voice());
    let keeper = Keeper::default();
    let exit = match prepare(&app, printer.clone(), keeper.clone()) {
        Ok(context) => {
            let interrupts = context.interrupts.clone();
            let exit = tokio::select! {
                biased;
                outcome = perform(&context, app.action) => {
                    outcome.unwrap_or_else(|error| troubles::of_error(&context, &error).show(&printer))
                }
                () = interrupts.last() => {
                    keeper.kill();
                    interrupted(&context)
                }
            };
            let interrupted = interrupts.any();
            context.say_farewell().await;
            // No child outlives us, however we leave.
            tokio::select! {
                () = keeper.drain() => {}
                // An interrupt more ends even the shutdown.
                () = interrupts.last() => keeper.kill(),
            }
            // A reader of stdout may take his time, unless the user has lost patience.
            let whole = tokio::select! {
                whole = printer.finish(interrupted.then_some(AFTER_INTERRUPT)) => whole,
                () = interrupts.another() => false,
            };
            if !whole && !interrupted && exit == Exit::Done { Exit::Unexpected } else { exit }
        }
        Err(trouble) => {
            let exit = trouble.show(&printer);
            printer.finish(Some(AFTER_INTERRUPT)).await;
            exit
        }
    };
    // A reader of stdout that has left had enough: that is not a failure of ours.
    if printer.stdout_is_closed() && matches!(exit, Exit::Unexpected) { Exit::Done } else { exit }
}

fn interrupted(context: &Context) -> Exit {
    let trouble = match context.followed().as_slice() {
        [] => Trouble::new("interrupted", Exit::Interrupted, "interrupted"),
        [Followed { id, ends_with_us: true }] => {
            let message = format!("interrupted; task {id} was ended with its server");
            Trouble::new("cancelled", Exit::Cancelled, message).task(id)
        }
        [Followed { id, .. }] => {
            let message = format!("interrupted; task {id} goes on");
            Trouble::new("still_running", Exit::StillRunning, message).task(id).hint(context.command_for("watch", id))
        }
        many => {
            let message = format!("interrupted; {} go on", text::plural(many.len(), "task"));
            Trouble::new("still_running", Exit::StillRunning, message).hint("mcp-task watch")
        }
    };
    trouble.show(&context.printer)
}

fn prepare(app: &App, printer: Printer, keeper: Keeper) -> Result<Context, Box<Trouble>> {
    let usage = |message: String| Trouble::new("usage", Exit::Usage, message);
    let hint = "-s takes `demo`, a URL or a command line";
    let server = app.global.target().map_err(|error| usage(error.to_string()).hint(hint))?;
    let interrupts = Interrupts::listen()
        .map_err(|error| Trouble::new("unexpected", Exit::Unexpected, format!("cannot listen for Ctrl-C: {error}")))?;
    let progress = app.global.progress(printer.output() == Output::Jsonl);
    let connection = app.global.connection();
    let state_dir = app.global.state_dir().map_err(usage)?;
    Ok(Context {
        printer,
        keeper,
        interrupts,
        server,
        server_was_typed: app.global.server_was_typed,
        connection,
        progress,
        state_dir,
        record_arguments: !app.global.no_record_args,
        hold: app.global.hold(),
        sampling: app.global.sampling().map_err(usage)?,
        roots: app.global.roots().map_err(usage)?,
        http_session: SharedSession::default(),
        old_protocol: None,
        holder: None,
        holding: Arc::default(),
        shared: Arc::default(),
    })
}

async fn perform(context: &Context, action: Action) -> anyhow::Result<Exit> {
    match action {
        Action::Call(call) => commands::call::run(context, call.options().await?).await,
        Action::Tools { name } => commands::tools::run(context, name.as_deref()).await,
        Action::Get { task } => {
            let (context, found) = task.find(context)?;
            commands::get::run(&context, &found).await
        }
        Action::Result { task, no_wait, wait } => {
            let (context, found) = task.find(context)?;
            commands::result::run(&context, &found, !no_wait, &wait.options()?).await
        }
        Action::Watch(watch) => commands::watch::run(context, &watch.options()?).await,
        Action::List(list) => commands::list::run(context, &list.options()).await,
        Action::Log { task } => {
            let found = if task.is_named() { Some(task.find(context)?.1) } else { None };
            commands::log::run(context, found.as_ref())
        }
        Action::Answer(answer) => {
            let options = answer.options().await?;
            let (context, found) = answer.find(context)?;
            commands::answer::run(&context, &found, &options).await
        }
        Action::Cancel { ids, last } => Ok(commands::cancel::run(context, &ids, last).await),
        Action::Sessions { action: SessionsAction::List } => commands::sessions::list(context).await,
        Action::Sessions { action: SessionsAction::Stop { names } } => commands::sessions::stop(context, &names).await,
        Action::DemoServer | Action::HoldServer => Ok(Exit::Unexpected),
    }
}
