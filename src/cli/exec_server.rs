//! `pausewatch exec-server`: MCP tools that run the commands of a thread.
//!
//! 1. Standard output belongs to MCP; what there is to say goes to standard error.
//! 2. One thread does all: on Linux, commands die with the thread that started them, which is the process then.
use super::{
    connection::{Connection, Thread},
    coordinator::Coordinator,
    exit, failure,
};
use crate::{
    client::check_thread_id,
    mcp::{Config, ExecServer, Launcher, Limits, serve_stdio, usual_shell},
    stopwatch::StopwatchController,
};
use std::{process::ExitCode, sync::Arc, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

/// The arguments of `exec-server`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("address", |arg| arg.help(ADDRESS_HELP)), mut_arg("thread_id", |arg| arg.help(THREAD_HELP)))]
pub struct Args {
    /// The time limit of a `shell` call that names none.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "2m")]
    timeout: Duration,
    /// Commands that may run at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), default_value = "256")]
    max_commands: u16,
    /// Output that is kept of each command until it is asked for, in bytes: its beginning and its end.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..), default_value = "1048576")]
    max_output: u32,
    /// End a command of `exec_command` that nobody has asked for in so long, pauses not counted.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "30m")]
    idle_timeout: Duration,
    /// How long a command that is out of time lives on while the coordinator cannot be asked whether it is paused.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "30s")]
    disconnect_grace: Duration,
    #[command(flatten)]
    thread: Thread,
    #[command(flatten)]
    connection: Connection,
}

const ADDRESS_HELP: &str = "\
Where the coordinator listens: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH [env: PAUSEWATCH_ADDRESS] \
[default: a private one, for as long as this server runs]";
const THREAD_HELP: &str = "\
The thread of calls that name none in `_meta` [env: PAUSEWATCH_THREAD_ID] [default: a new one for each MCP session]";

/// Serves until the client hangs up, SIGTERM, SIGINT or SIGHUP.
pub fn run(args: Args) -> ExitCode {
    super::serve::log("warn");
    super::serve::raise_open_files();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("start: {error}")),
    };
    let served = runtime.block_on(serve(args));
    // Not to wait for standard input.
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&why),
    }
}

async fn serve(args: Args) -> Result<(), String> {
    let handler = |kind| signal(kind).map_err(|error| format!("handle signals: {error}"));
    let (mut terminate, mut interrupt) = (handler(SignalKind::terminate())?, handler(SignalKind::interrupt())?);
    let mut hangup = handler(SignalKind::hangup())?;
    let settings = args.connection.settings().map_err(|why| why.to_string())?;
    let thread_id = args.thread.or(&settings);
    if let Some(thread_id) = &thread_id {
        check_thread_id(thread_id).map_err(|error| error.to_string())?;
    }
    let coordinator = match settings.address {
        Some(_) => Coordinator::configured(settings).map_err(|why| why.to_string())?,
        None => Coordinator::private().await.map_err(|why| format!("start a private coordinator: {why}"))?,
    };
    let coordinator = Arc::new(coordinator);
    let environment = coordinator.clone();
    let limits = Limits {
        timeout: args.timeout,
        commands: args.max_commands.into(),
        output: args.max_output.try_into().unwrap_or(usize::MAX),
        idle: args.idle_timeout,
        ..Limits::default()
    };
    let server = ExecServer::new(Config {
        controller: StopwatchController::with_disconnect_grace(coordinator.client(), args.disconnect_grace),
        environment: Arc::new(move |thread_id| environment.environment(thread_id)),
        launcher: Launcher { program: "/proc/self/exe".into(), shell: usual_shell().to_owned() },
        thread_id,
        limits,
    });
    let served = tokio::select! {
        served = serve_stdio(&server) => served.map_err(|error| error.to_string()),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = hangup.recv() => Ok(()),
    };
    server.shutdown().await;
    drop(coordinator);
    served
}

fn fail(why: &str) -> ExitCode {
    failure::say("exec-server", why);
    ExitCode::from(exit::FAILED)
}
