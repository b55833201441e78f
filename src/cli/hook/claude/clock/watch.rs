//! `clock-watch`: has the clock, and the private coordinator if none is configured.
use super::{READY, WatchArgs, ending_signals, shell::Shell};
use crate::cli::{
    certificate_warnings,
    coordinator::Coordinator,
    duration::show,
    hook::claude::{
        private_socket,
        report::{clock_failed, say},
    },
    lost_link, output,
};
use crate::client::{
    Settings, Token,
    stopwatch::{Stopwatch, StopwatchController},
};
use crate::exec::supervise::{Signal, die_with_parent};
use rustix::process::{Pid, getppid, kill_process};
use std::{process::ExitCode, time::Duration};

/// Extra time after the limit while the coordinator is unreachable, as with `run`.
const DISCONNECT_GRACE: Duration = Duration::from_secs(30);

/// Ends with the shell, or ends the shell at its limit.
pub(crate) fn run(args: &WatchArgs) -> ExitCode {
    let runtime = match crate::cli::runtime::start() {
        Ok(runtime) => runtime,
        Err(error) => return clock_failed(&error.to_string()),
    };
    let result = runtime.block_on(watch(args));
    runtime.shutdown_background();
    result.map_or_else(|why| clock_failed(&why), |()| ExitCode::SUCCESS)
}

async fn watch(args: &WatchArgs) -> Result<(), String> {
    // The handler is installed before the system is asked to send the signal.
    let mut signals = ending_signals().map_err(|error| error.to_string())?;
    die_with_parent(Signal::of(rustix::process::Signal::TERM), args.parent).map_err(|error| error.to_string())?;
    let pid = Pid::from_raw(args.shell).ok_or("--shell is not a process id")?;
    let shell = Shell::of(pid).map_err(|why| format!("the shell {}: {why}", args.shell))?;
    let settings = Settings::from_env().map_err(|why| why.to_string())?;
    let thread_id = settings.thread_id.clone();
    let coordinator = coordinator(settings, pid).await?;
    let stopwatch = Stopwatch::new(args.limit);
    let registered = coordinator.as_ref().zip(thread_id).map(|(coordinator, thread_id)| {
        let controller = StopwatchController::with_disconnect_grace(coordinator.client(), DISCONNECT_GRACE);
        if !coordinator.is_private() {
            lost_link::warn(coordinator.address(), &controller, DISCONNECT_GRACE, say);
        }
        controller.register(&thread_id, &stopwatch)
    });
    if let Some(Err(why)) = &registered {
        say(&format!("warning: {why}. The time limit holds and cannot be paused"));
    }
    output::print(format!("{READY}\n").as_bytes()).map_err(|error| error.to_string())?;
    let ended = tokio::select! {
        biased;
        result = shell.ended() => result.map_err(|error| error.to_string()),
        why = async {
            tokio::select! {
                biased;
                () = stopwatch.expired() => format!("the command timed out after {}", show(args.limit)),
                _ = signals.recv() => match guard_of(args) {
                    Some(_) => "the clock got a signal to end, so the command is ended too".to_owned(),
                    None => "the guard of the clock was killed, so the command is ended too".to_owned(),
                },
            }
        } => {
            say(&why);
            shell.end();
            Ok(())
        }
    };
    // A guard that was stopped would stay for ever.
    guard_of(args).into_iter().for_each(|guard| _ = kill_process(guard, rustix::process::Signal::CONT));
    ended
}

/// The guard, unless it has ended.
fn guard_of(args: &WatchArgs) -> Option<Pid> {
    getppid().filter(|parent| parent.as_raw_pid() == args.parent)
}

/// The configured coordinator, or a private one. `None`: there can be no private one, and the limit cannot be paused.
async fn coordinator(settings: Settings, shell: Pid) -> Result<Option<Coordinator>, String> {
    let private = match private_socket::of_shell(settings.address.as_ref(), shell) {
        Some(socket) => private_socket::directory().map(|_| socket),
        None if settings.address.is_none() => return Ok(None),
        None => {
            certificate_warnings::report("hook claude", &settings);
            return Coordinator::configured(settings, None).map(Some).map_err(|why| why.to_string());
        }
    };
    let served = match private.and_then(|socket| Ok((socket, credentials(&settings)?))) {
        Ok((socket, (token, thread_id))) => Coordinator::private_at(&socket, token, &thread_id).await,
        Err(why) => Err(why),
    };
    Ok(served
        .inspect_err(|why| {
            say(&format!("warning: no private coordinator: {why}. The time limit holds and cannot be paused"));
        })
        .ok())
}

/// The token by which the commands of the shell reach the private coordinator, and the thread that it opens.
fn credentials(settings: &Settings) -> Result<(Token, String), String> {
    let config = settings.config().map_err(|why| why.to_string())?;
    let token = match config.token_source {
        Some(source) => Some(source.token().map_err(|why| why.to_string())?),
        None => config.token,
    };
    let token = token.ok_or("PAUSEWATCH_TOKEN is not set; a new session sets it")?;
    Ok((token, settings.thread_id.clone().ok_or("PAUSEWATCH_THREAD_ID is not set")?))
}
