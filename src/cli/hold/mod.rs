//! `pausewatch hold`: an elicitation that is open for exactly as long as a command runs.
//!
//! 1. COMMAND starts only after the increment was acknowledged, so none of its time is charged. Without an acknowledgement
//!    within 5 s, it starts unpaused; with `--require` it does not start.
//! 2. However COMMAND ends, the elicitation is closed before this process ends. If this process is killed, or cannot reach
//!    the coordinator, the lease closes it (G2).
//! 3. This process ends as COMMAND did: with its exit code, or by the same signal. As process 1 of a container it exits with 128 + n.
//! 4. Problems with the elicitation do not affect COMMAND: they are reported on standard error.
//! 5. A signal that ends this process before COMMAND starts also closes the elicitation ([`interrupt`]).
//! 6. A COMMAND that asks a person for another program (`askpass`) ends when that program has ended.
mod command;
mod lease;

pub(super) use lease::{Reporter, close};

use super::connection::{self, Connection, NO_THREAD, Thread};
use super::failure::{call_error, cannot_run, say};
use super::{certificate_warnings, exit, interrupt, other_process::OtherProcess, traces};
use crate::client::{Error, Hold, HoldBuilder, Settings};
use crate::exec::supervise::{ExitAction, Program, SignalListener};
use command::Running;
pub(super) use command::{end_unneeded, in_foreground};
use std::{ffi::OsString, path::Path, process, process::ExitCode, time::Duration};
use uuid::Uuid;

/// The end of a signal came before that of the elicitation.
const INTERRUPTED: &str = "interrupted: if the elicitation is still open, its lease will end the pause";

/// The arguments of `hold`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "pausewatch hold [OPTIONS] [--] COMMAND [ARG]...", after_help = AFTER_HELP)]
pub struct Args {
    /// The question to the person, shown by list, get and watch.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// The name of the program that asks [default: COMMAND[PID]@HOST].
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    /// The lease, 1s to 24h: if pausewatch is killed, the pause ends within this time.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = super::duration::parse_ttl)]
    ttl: Duration,
    /// Do not run COMMAND if its thread cannot be paused.
    #[arg(long)]
    require: bool,
    /// Print on standard error which thread is paused, and where its name and the coordinator were found.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    thread: Thread,
    #[command(flatten)]
    connection: Connection,
    // One list, so that the first argument that is not an option ends the options.
    #[arg(value_name = "COMMAND [ARG]", required = true, trailing_var_arg = true, hide = true)]
    command: Vec<OsString>,
    /// Variables for COMMAND.
    #[arg(skip)]
    variables: Vec<(OsString, OsString)>,
    /// Another command of ours that runs COMMAND under an elicitation: messages name it. It runs COMMAND in any case, because
    /// whoever uses it may not know of the thread that its environment names. The parent of this process waits for the answer.
    #[arg(skip)]
    caller: Option<&'static str>,
}

impl Args {
    /// For `caller`, another command of ours that runs `command` under an elicitation. An invalid setting is a warning too: the
    /// command runs without a pause.
    pub(super) fn around(
        caller: &'static str,
        command: Vec<OsString>,
        reason: String,
        ttl: Duration,
        thread: Thread,
        connection: Connection,
    ) -> Self {
        let (holder, require, verbose, variables) = Default::default();
        let caller = Some(caller);
        Self { reason, holder, ttl, require, verbose, thread, connection, command, variables, caller }
    }

    pub(super) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// The command that messages name.
    fn name(&self) -> &'static str {
        self.caller.unwrap_or("hold")
    }
}

const AFTER_HELP: &str = "\
The thread is paused before COMMAND starts and resumes when COMMAND has ended, however it ends. If the thread cannot be \
paused (no thread is named, or no coordinator responds within 5 s), pausewatch prints a warning and runs COMMAND without a \
pause; with --require it does not run COMMAND.

TERM, HUP, USR1, USR2 and ALRM are passed on to COMMAND; so are INT and QUIT, except from the terminal, which sends them \
to COMMAND directly. Before COMMAND has started, they end pausewatch, which closes the elicitation first, if it was opened: it waits at most \
5 s for that, or until a second signal.

Exit status:
  125  pausewatch itself failed, or --require was not met
  126  COMMAND is found but cannot be executed
  127  COMMAND cannot be found
  else the status of COMMAND; if a signal killed it, pausewatch dies by the same
       signal (shells and containers show 128+n)";

/// Runs the command and returns its exit code, or dies by the signal that killed it.
pub(crate) fn run(args: Args) -> ExitCode {
    let settings = match args.connection.settings() {
        Ok(settings) => Some(settings),
        Err(why) if args.caller.is_none() => return fail(&why.to_string()),
        Err(why) => {
            say(args.name(), &format!("{why}; asking without a pause"));
            None
        }
    };
    settings.iter().for_each(|settings| certificate_warnings::report(args.name(), settings));
    let runtime = match crate::cli::runtime::start() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("start: {error}")),
    };
    let traces = traces::endpoint().and_then(|endpoint| match traces::start(&endpoint) {
        Ok(traces) => traces,
        Err(why) => {
            say(args.name(), &format!("no traces are sent: {why}"));
            None
        }
    });
    let ended = runtime.block_on(hold(args, settings.as_ref(), traces.is_some()));
    runtime.shutdown_background();
    drop(traces);
    match ended {
        Ok(action) => action.carry_out(),
        Err(code) => code,
    }
}

async fn hold(mut args: Args, settings: Option<&Settings>, traced: bool) -> Result<ExitAction, ExitCode> {
    let asker = args.caller.and_then(|_| OtherProcess::parent());
    let mut signals = command::signals().map_err(|error| fail(&format!("catch signals: {error}")))?;
    let opened = match settings {
        Some(settings) => open(&mut args, settings, &mut signals).await.map(Some),
        None => Ok(None),
    };
    let hold = match opened {
        Ok(hold) => hold,
        Err(NotOpen::Interrupted(interrupt::Interrupted { signal, is_undone })) => {
            if !is_undone {
                say(args.name(), INTERRUPTED);
            }
            return Ok(ExitAction::Die { signal, dumped_core: false });
        }
        Err(NotOpen::Refused(why)) if args.caller.is_none() => return Err(fail(&why)),
        Err(NotOpen::Unreachable(why)) if args.require => return Err(fail(&why)),
        Err(NotOpen::Refused(why) | NotOpen::Unreachable(why)) => {
            let goes_on = if args.caller.is_some() { "asking" } else { "running the command" };
            say(args.name(), &format!("{why}; {goes_on} without a pause"));
            None
        }
    };
    let reporter = Reporter(args.name());
    let ended = run_under(hold.as_ref(), args, asker.as_ref(), traced, signals).await;
    if let Some(hold) = hold {
        tokio::select! {
            biased;
            () = close(&hold, reporter) => {}
            () = interrupt::further_signal() => reporter.warn(INTERRUPTED),
        }
    }
    ended
}

async fn run_under(
    hold: Option<&Hold>,
    args: Args,
    asker: Option<&OtherProcess>,
    traced: bool,
    signals: SignalListener,
) -> Result<ExitAction, ExitCode> {
    let own_name = args.name();
    let mut command = args.command.into_iter();
    let name = command.next().expect("clap requires one");
    // The spans of COMMAND become children of the hold's span.
    let traceparent = hold.filter(|_| traced).and_then(Hold::traceparent);
    let traceparent = traceparent.map(|parent| ("TRACEPARENT".into(), parent.into()));
    let env = args.variables.into_iter().chain(traceparent).collect();
    let program = Program { name, args: command.collect(), env, death_signal: None };
    let running = Running::start(&program, signals).map_err(|error| cannot_run(own_name, &program.name, &error))?;
    let ttl = args.ttl;
    let lost = async {
        match hold {
            Some(hold) => lease::report_loss(hold, ttl, Reporter(own_name)).await,
            None => std::future::pending().await,
        }
    };
    let unneeded = async {
        match asker {
            Some(asker) if asker.ended().await.is_ok() => {
                say(own_name, "the program that asked has ended: no longer asking");
            }
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = running.wait(unneeded) => ended.map_err(|error| fail(&format!("wait for the command: {error}"))),
        never = lost => match never {},
    }
}

/// Why the thread is not paused.
enum NotOpen {
    /// An invalid option.
    Refused(String),
    /// Anything else: no coordinator, no thread, a limit.
    Unreachable(String),
    /// A signal ends this process.
    Interrupted(interrupt::Interrupted),
}

async fn open(args: &mut Args, settings: &Settings, signals: &mut SignalListener) -> Result<Hold, NotOpen> {
    let builder = builder(args, settings)?;
    let opened = interrupt::open(
        async || signals.recv().await,
        async || builder.clone().open().await,
        async |hold: &Hold| hold.release().await.map(drop),
    );
    opened.await.map_err(NotOpen::Interrupted)?.map_err(|error| {
        let why = call_error(&error, &settings.address.clone().unwrap_or_default());
        match error {
            Error::InvalidField { .. } => NotOpen::Refused(why),
            _ => NotOpen::Unreachable(why),
        }
    })
}

fn builder(args: &mut Args, settings: &Settings) -> Result<HoldBuilder, NotOpen> {
    let client = connection::client_and_token(settings).map_err(|why| NotOpen::Refused(why.to_string()));
    let (client, token) = client?;
    args.variables.extend(token);
    let thread_id = args.thread.or(settings).ok_or_else(|| NotOpen::Unreachable(NO_THREAD.into()))?;
    let holder = args.holder.clone().unwrap_or_else(|| default_holder(&args.command));
    if args.verbose {
        let (source, address) = (args.thread.source(settings).unwrap_or_default(), settings.address.clone());
        say("hold", &format!("thread {thread_id:?} from {source}, coordinator at {}", address.unwrap_or_default()));
    }
    let builder = client.hold(thread_id).request_id(Uuid::new_v4().to_string());
    Ok(builder.reason(&args.reason).holder(holder).ttl(args.ttl))
}

/// `approve[1234]@laptop`, far below the limit of 256 bytes.
pub(super) fn default_holder(command: &[OsString]) -> String {
    let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(40).collect::<String>();
    let name = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let host = rustix::system::uname();
    format!("{}[{}]@{}", short(&name.to_string_lossy()), process::id(), short(&host.nodename().to_string_lossy()))
}

fn fail(why: &str) -> ExitCode {
    say("hold", why);
    ExitCode::from(exit::OWN_FAILURE)
}
