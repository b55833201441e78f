//! `clock-guard`: the parent of the process that has the clock. It ends the shell if that process is killed, and continues it if it is
//! stopped.
use super::{GuardArgs, argument, ending_signals, shell::Shell};
use crate::cli::hook::claude::{
    private_socket,
    report::{clock_failed, say},
};
use crate::client::Settings;
use rustix::process::{Pid, Signal, getppid, kill_process};
use std::{
    env, fs, io,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
};
use tokio::signal::unix::{SignalKind, signal};

/// Another name than `clock-watch` has, so that `pkill -KILL pausewatch` leaves the guard, which then ends the command. At most 15 bytes.
#[cfg(target_os = "linux")]
const PROCESS_NAME: &std::ffi::CStr = c"pw-clock-guard";

/// Waits for the end of the process that has the clock.
pub(crate) fn run(args: &GuardArgs) -> ExitCode {
    // This process leaves the process group of the shell, because the clock signals that group. `setsid` fails if this
    // process already leads a group.
    let _ = rustix::process::setsid();
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(PROCESS_NAME);
    let result = crate::cli::runtime::start();
    let result = result.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(guard(args)));
    result.map_or_else(|why| clock_failed(&why), |()| ExitCode::SUCCESS)
}

async fn guard(args: &GuardArgs) -> Result<(), String> {
    let pid = Pid::from_raw(args.shell).ok_or("--shell is not a process id")?;
    let shell = Shell::of(pid).map_err(|why| format!("the shell {}: {why}", args.shell))?;
    let Some(status) = watch(args).await.map_err(|error| error.to_string())? else {
        say("the guard of the clock got a signal to end, so the command is ended too");
        shell.end();
        return Ok(());
    };
    if status.success() || shell.has_ended() {
        return Ok(());
    }
    if let Some(socket) =
        Settings::from_env().ok().and_then(|settings| private_socket::of_shell(settings.address.as_ref(), pid))
    {
        let _ = fs::remove_file(socket);
    }
    // With an exit code, the clock has reported its failure, and `clock`, which still waits, ends the shell. If `clock` was
    // killed, the shell has gone on to the command.
    let starter_waits = getppid().map(Pid::as_raw_pid) == Some(args.parent);
    if status.code().is_none() || !starter_waits {
        say("the clock was killed, so the command is ended too");
        shell.end();
    }
    Ok(())
}

/// Starts `clock-watch` and waits for its end. `None`: a signal asked this process to end.
async fn watch(args: &GuardArgs) -> io::Result<Option<ExitStatus>> {
    let mut signals = ending_signals()?;
    let mut changes = signal(SignalKind::child())?;
    let mut clock = start(args)?;
    loop {
        if let Some(status) = clock.try_wait()? {
            return Ok(Some(status));
        }
        let is_to_end = tokio::select! {
            _ = changes.recv() => false,
            _ = signals.recv() => true,
        };
        // It may have been stopped; a process that runs takes no notice of this. Its id is its own until its status is read.
        if let Some(pid) = Pid::from_raw(clock.id().cast_signed())
            && clock.try_wait()?.is_none()
        {
            let _ = kill_process(pid, Signal::CONT);
        }
        if is_to_end {
            return Ok(None);
        }
    }
}

fn start(args: &GuardArgs) -> io::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["hook", "claude", "clock-watch", "--shell", &args.shell.to_string()])
        .args(["--limit", &argument(args.limit), "--parent", &std::process::id().to_string()])
        .stdin(Stdio::null());
    command.spawn()
}
