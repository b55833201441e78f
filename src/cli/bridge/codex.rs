//! `pausewatch bridge codex`: the clocks of Codex's commands are stopped while their thread is paused.
use super::follow::{Bridge, End, Input, Plan, inputs};
use super::guard::Guard;
use super::message::Ids;
use super::report::{NAME, say};
use super::{
    connection::{Connection as AppServer, Problem},
    socket, wrapper,
};
use crate::cli::{
    certificate_warnings, connection::Connection, coordinator::Coordinator, duration, exit, interrupt::ending_signals,
    usage,
};
use crate::core::types::ThreadId;
use crate::exec::supervise::{Program, Signal};
use clap::{Args as _, error::ErrorKind};
use rustix::process::Signal as SystemSignal;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// The arguments of `bridge codex`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "pausewatch bridge codex [OPTIONS] -- COMMAND [ARG]...\n       pausewatch bridge codex [OPTIONS] --socket PATH",
    after_help = AFTER_HELP
)]
pub(super) struct Args {
    /// Connect to the app-server that listens on this Unix socket (`codex app-server --listen unix://PATH`), beside its other
    /// clients, instead of running COMMAND.
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    socket: Option<PathBuf>,
    /// The coordinator's thread id is TEXT and Codex's thread id; for tokens that open threads by a prefix.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    thread_prefix: String,
    /// While Codex itself waits for a person (an approval, a question), pause the thread at the coordinator.
    #[arg(long)]
    publish: bool,
    /// How long a thread stays paused while the coordinator is unreachable. A lost connection is noticed
    /// within 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "30s")]
    disconnect_grace: Duration,
    #[command(flatten)]
    connection: Connection,
    /// The app-server, which speaks over standard input and output: `codex app-server`.
    #[arg(value_name = "COMMAND", required_unless_present = "socket", last = true)]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
While the coordinator has a thread of Codex paused, Codex's limits on the thread's commands are paused too (`yield_time_ms` of \
`exec_command`). The coordinator's thread has the id of Codex's thread, which commands see as CODEX_THREAD_ID, and \
which `pausewatch hold -- COMMAND` uses (with --thread-prefix TEXT: `hold --thread-id \"TEXT$CODEX_THREAD_ID\"`). Tested with \
Codex 0.169.0.

Use this command with COMMAND wherever a client starts `codex app-server`. All messages pass through unchanged, except that \
`initialize` asks for the experimental API (capabilities.experimentalApi) if the client does not mention it. The environment of \
COMMAND names the coordinator.

Exit status, with COMMAND:
  125  pausewatch itself failed
  126  COMMAND is found but cannot be executed
  127  COMMAND cannot be found
  else the status of COMMAND
with --socket:
  0    ended by INT, TERM, HUP or QUIT
  1    no app-server listens there, or its version cannot pause threads";

/// Runs the bridge until its app-server or a signal ends it.
pub(super) fn run(args: Args) -> ExitCode {
    if let Err(error) = ThreadId::parse("--thread-prefix", &format!("{}x", args.thread_prefix)) {
        let error = Args::augment_args(clap::Command::new(NAME)).error(ErrorKind::ValueValidation, error.to_string());
        return usage::exit_code(&error, exit::USAGE);
    }
    let runtime = match crate::cli::runtime::start() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("start: {error}"), exit::FAILED),
    };
    let ended = runtime.block_on(bridge(args));
    // This does not wait for a pending read of standard input.
    runtime.shutdown_background();
    ended
}

async fn bridge(args: Args) -> ExitCode {
    let coordinator = args.connection.settings().and_then(|settings| {
        certificate_warnings::report(NAME, &settings);
        Coordinator::configured(settings, None)
    });
    let coordinator = match coordinator {
        Ok(coordinator) => coordinator,
        Err(why) => return fail(&why.to_string(), exit::USAGE),
    };
    let plan = Plan {
        client: coordinator.client(),
        address: coordinator.address().clone(),
        prefix: args.thread_prefix,
        grace: args.disconnect_grace,
        publish: args.publish,
        guard: None,
    };
    if let Some(path) = &args.socket {
        return match beside(path, plan).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => fail(&why, exit::FAILED),
        };
    }
    let mut command = args.command.into_iter();
    let name = command.next().expect("clap requires one");
    // Every command has a thread of its own, which CODEX_THREAD_ID names. Empty: not set.
    let env = coordinator.environment("");
    let program = Program { name, args: command.collect(), env, death_signal: Some(Signal::of(SystemSignal::TERM)) };
    match wrapper::run(&program, plan).await {
        Ok(action) => action.carry_out(),
        Err(code) => code,
    }
}

/// Follows an app-server that runs on its own.
async fn beside(path: &Path, mut plan: Plan) -> Result<(), String> {
    let mut signals = ending_signals().map_err(|error| format!("handle signals: {error}"))?;
    let ids = Ids::new();
    let connection = AppServer::open(path, &ids).await.map_err(|problem| match problem {
        Problem::Lost(why) => {
            let path = path.display();
            format!("no app-server at {path}: {why}; start one with `codex app-server --listen unix://{path}`")
        }
        Problem::Differs(why) => format!("{why}. Use a version that does"),
    })?;
    plan.guard = Some(Guard::start(path).map_err(|error| format!("start the guard: {error}"))?);
    let (sender, receiver) = inputs();
    let stop = sender.clone();
    let signals = async {
        signals.recv().await;
        // This fails if the bridge has already ended; then the result of the bridge counts.
        let _ = stop.send(Input::Stop).await;
        std::future::pending().await
    };
    let connected = async {
        socket::keep_connected(connection, path, &ids, sender).await;
        std::future::pending().await
    };
    tokio::select! {
        end = Bridge::new(plan, ids.clone()).run(receiver, true) => match end {
            End::Stopped => Ok(()),
            End::Unusable => Err("nothing to do with this app-server".to_owned()),
        },
        never = signals => never,
        never = connected => never,
    }
}

fn fail(why: &str, code: u8) -> ExitCode {
    say(why);
    ExitCode::from(code)
}
