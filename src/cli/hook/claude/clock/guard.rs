//! `clock-guard`: the parent of the process that has the clock. It ends the shell if that process is killed.
use super::{GuardArgs, argument, shell::Shell};
use crate::cli::hook::claude::{
    private_socket,
    report::{clock_failed, say},
};
use crate::client::Settings;
use rustix::process::Pid;
use std::{
    env, fs,
    process::{Command, ExitCode, ExitStatus, Stdio},
};

/// Waits for the end of the process that has the clock.
pub(crate) fn run(args: &GuardArgs) -> ExitCode {
    // This process leaves the process group of the shell, because the clock signals that group. `setsid` fails if this
    // process already leads a group.
    let _ = rustix::process::setsid();
    let result = Pid::from_raw(args.shell).ok_or("--shell is not a process id".into()).and_then(|pid| guard(args, pid));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => clock_failed(&why),
    }
}

fn guard(args: &GuardArgs, pid: Pid) -> Result<(), String> {
    let shell = Shell::of(pid).map_err(|why| format!("the shell {}: {why}", args.shell))?;
    let status = watch(args)?;
    if status.success() || shell.has_ended() {
        return Ok(());
    }
    if let Some(socket) =
        Settings::from_env().ok().and_then(|settings| private_socket::of_shell(settings.address.as_ref(), pid))
    {
        let _ = fs::remove_file(socket);
    }
    // With an exit code, the clock has already reported its failure, and the command was not started or the shell was
    // already ended.
    if status.code().is_none() {
        say("the clock was killed, so the command is ended too");
        shell.end();
    }
    Ok(())
}

fn watch(args: &GuardArgs) -> Result<ExitStatus, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command
        .args(["hook", "claude", "clock-watch", "--shell", &args.shell.to_string()])
        .args(["--limit", &argument(args.limit), "--parent", &std::process::id().to_string()])
        .stdin(Stdio::null());
    command.status().map_err(|error| error.to_string())
}
