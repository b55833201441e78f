//! `pausewatch hook claude` with a shell as Claude Code starts it: in its own process group, with the command in
//! `eval`.
use crate::program::{Coordinator, Ended, Process, ended, program};
use crate::support::PATIENCE;
use rustix::process::{Signal, test_kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pausewatch");

/// Runs the hook with an event.
pub(crate) fn hook(command: &mut Command, event: &str) -> Ended {
    command.args(["hook", "claude"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(event.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { status: output.status, code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// An event of Claude Code about a call of this tool.
pub(crate) fn tool_event(name: &str, tool: &str, input: &Value) -> Value {
    json!({ "hook_event_name": name, "session_id": "s", "transcript_path": "/t", "tool_name": tool, "tool_input": input })
}

fn session_start(id: &str) -> String {
    json!({ "hook_event_name": "SessionStart", "session_id": id, "transcript_path": "/t", "source": "startup" })
        .to_string()
}

/// The command after the hook has rewritten it.
fn rewritten(command: &str, timeout_ms: u64) -> String {
    let input = json!({ "command": command, "timeout": timeout_ms, "description": "d" });
    let event = tool_event("PreToolUse", "Bash", &input);
    let answer = hook(&mut program(), &event.to_string());
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""));
    let answer: Value = serde_json::from_str(&answer.out).unwrap();
    let input = &answer["hookSpecificOutput"]["updatedInput"];
    assert_eq!((&input["description"], &input["timeout"]), (&json!("d"), &json!(600_000)));
    input["command"].as_str().unwrap().to_owned()
}

/// A shell that runs `script` with the variables of `environment`.
fn script(shell: &str, environment: &Command, script: &str) -> Command {
    let mut shell = Command::new(shell);
    shell.args(["-c", script]);
    for (name, value) in environment.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// A shell that evaluates the rewritten command and then writes its directory to `cwd`.
fn shell(environment: Command, command: &str, timeout_ms: u64, cwd: &Path) -> Command {
    let mut shell = script("bash", &environment, "eval \"$COMMAND\" && pwd -P >| \"$CWD_FILE\"");
    shell.env("COMMAND", rewritten(command, timeout_ms)).env("CWD_FILE", cwd).stdin(Stdio::null());
    shell.process_group(0);
    shell
}

pub(crate) fn on(coordinator: &Coordinator, command: &str, timeout_ms: u64) -> Command {
    shell(coordinator.command([]), command, timeout_ms, Path::new("/dev/null"))
}

#[test]
fn time_of_a_question_does_not_count_and_a_hang_is_ended_at_the_limit() {
    let coordinator = Coordinator::start();
    coordinator.answer(["increment"]);
    let shell = Process::start(on(&coordinator, "echo started; sleep 1000", 1_000));
    assert_eq!(shell.line(), "started");
    // Real time is tested: it passes, and the command must survive.
    sleep(Duration::from_secs(3));
    assert!(test_kill_process(shell.pid()).is_ok());
    coordinator.answer(["decrement"]);
    let ended = shell.end();
    assert_eq!(ended.status.signal(), Some(Signal::TERM.as_raw()), "{ended:?}");
    // On a busy machine, a warning of a late answer may come before.
    assert!(ended.err.ends_with("pausewatch hook claude: the command timed out after 1.0s\n"), "{ended:?}");
}

#[test]
fn a_command_that_asks_for_longer_than_its_limit_finishes() {
    let coordinator = Coordinator::start();
    let asks = format!("{PROGRAM} hold --reason 'Push?' -- sleep 8; echo finished");
    // The thread is paused before the clock starts, so that a busy machine cannot end the command before `hold` runs.
    coordinator.answer(["increment"]);
    let watching = coordinator.watch();
    let shell = Process::start(on(&coordinator, &asks, 6_000));
    watching.wait_for(2);
    coordinator.answer(["decrement"]);
    let ended = shell.end();
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "finished\n", ""));
}

#[test]
fn the_command_runs_in_the_shell_itself() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().canonicalize().unwrap();
    let cwd = place.join("cwd");
    let command =
        format!("f() {{ return $1; }}\ncd '{}'; jobs; sleep 0 & wait; echo out; echo err >&2; f 0", place.display());
    let done = ended(&mut shell(coordinator.command([]), &command, 60_000, &cwd));
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "out\n", "err\n"));
    assert_eq!(fs::read_to_string(&cwd).unwrap().trim_end(), place.to_str().unwrap());
    for (command, code) in [("exit 7", 7), ("f() { return 3; }; f", 3), ("false", 1), ("no-such-command-anywhere", 127)]
    {
        assert_eq!(ended(&mut on(&coordinator, command, 60_000)).code, Some(code), "{command}");
    }
    let heredoc = ended(&mut on(&coordinator, "cat <<'E'\n$x \"y\" 'z'\nE\n# end", 60_000));
    assert_eq!(heredoc.out, "$x \"y\" 'z'\n");
}

#[test]
fn commands_that_ignore_term_are_killed() {
    let coordinator = Coordinator::start();
    let stubborn = "trap '' TERM; echo started; while :; do sleep 1000; done";
    coordinator.answer(["increment"]);
    let shell = Process::start(on(&coordinator, stubborn, 1));
    assert_eq!(shell.line(), "started");
    coordinator.answer(["decrement"]);
    assert_eq!(shell.end().status.signal(), Some(Signal::KILL.as_raw()));
}

#[test]
fn commands_of_a_shell_without_a_group_of_its_own_are_ended_too() {
    let coordinator = Coordinator::start();
    let inner = on(&coordinator, "echo started; sleep 1000; echo never", 1);
    // As in a container: the shell is in the process group of its parent, which must survive.
    let mut outer = script("bash", &inner, "bash -c 'eval \"$COMMAND\"'; echo outer $?");
    let ended = ended(outer.process_group(0));
    assert!(ended.out.ends_with("outer 143\n"), "{ended:?}");
}

/// Claude Code reads the output until then. On a busy machine, the writing thread may be slow; here, the pipe is full.
#[test]
fn a_shell_does_not_end_before_it_is_said_why() {
    let coordinator = Coordinator::start();
    let (mut output, mut full) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while full.write(&[b'.'; 4_096]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    let mut command = on(&coordinator, "exec sleep 1000", 1);
    let mut shell = command.stderr(full).stdout(Stdio::null()).spawn().unwrap();
    drop(command);
    // It would have ended 0.1 s after its limit.
    sleep(Duration::from_millis(700));
    assert_eq!(shell.try_wait().unwrap(), None);
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert!(said.ends_with("the command timed out after 0.0s\n"), "{}", said.trim_start_matches('.'));
    assert_eq!(shell.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
}

/// A program that was started while the others were looked up would run for ever.
#[test]
fn a_command_that_starts_programs_all_the_time_leaves_none() {
    let coordinator = Coordinator::start();
    // A number that no other program uses.
    let long = format!("{}", 1_000_000_000 + std::process::id());
    let starts = format!("i=0; while [ $((i += 1)) -lt 300 ]; do sleep {long} >/dev/null 2>&1 & done; wait");
    let inner = on(&coordinator, &format!("for j in 1 2 3 4; do {{ {starts}; }} & done; wait"), 100);
    let mut outer = script("bash", &inner, "bash -c 'eval \"$COMMAND\"'; echo outer $?");
    let ended = ended(outer.process_group(0));
    assert!(ended.out.ends_with("outer 143\n"), "{ended:?}");
    let is_left = |entry: &fs::DirEntry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == format!("sleep\0{long}\0").as_bytes())
    };
    let deadline = Instant::now() + PATIENCE;
    while fs::read_dir("/proc").unwrap().flatten().any(|entry| is_left(&entry)) {
        assert!(Instant::now() < deadline, "programs are left");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn without_a_clock_the_command_is_not_run() {
    let mut broken = on(&Coordinator::start(), "echo ran", 1_000);
    let ended = ended(broken.env("PAUSEWATCH_CONFIG", "/proc/nonexistent/config.toml"));
    assert_eq!((ended.status.signal(), ended.out.as_str()), (Some(Signal::TERM.as_raw()), ""), "{ended:?}");
    assert!(ended.err.contains("/proc/nonexistent/config.toml") && ended.err.contains("is not run"), "{ended:?}");
}

#[test]
fn without_a_coordinator_the_limit_holds() {
    let mut alone = program();
    alone.env("PAUSEWATCH_ADDRESS", "unix:/proc/nonexistent/p.sock").env("PAUSEWATCH_THREAD_ID", "t");
    let done = ended(&mut shell(alone, "echo ran", 600_000, Path::new("/dev/null")));
    assert_eq!((done.code, done.out.as_str()), (Some(0), "ran\n"));
}

#[test]
fn a_thread_that_cannot_be_paused_is_reported() {
    let coordinator = Coordinator::start();
    let mut command = on(&coordinator, "echo ran", 600_000);
    let done = ended(command.env("PAUSEWATCH_THREAD_ID", "a\tb"));
    assert_eq!((done.code, done.out.as_str()), (Some(0), "ran\n"));
    assert!(done.err.starts_with("pausewatch hook claude: warning: thread_id "), "{done:?}");
    assert!(done.err.ends_with(". The time limit holds and cannot be paused\n"), "{done:?}");
}

/// A session without a configured coordinator: the commands get the address of a private one, which runs in their
/// clock.
#[test]
fn a_session_gets_its_thread_and_a_private_coordinator() {
    let directory = tempfile::tempdir().unwrap();
    let variables = directory.path().join("env.sh");
    let event = session_start("se55-ion1-x");
    let session = || {
        let mut command = program();
        command.env("XDG_RUNTIME_DIR", directory.path()).env("CLAUDE_ENV_FILE", &variables);
        command
    };
    for _ in 0..2 {
        let answer = hook(&mut session(), &event);
        assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (Some(0), "", ""));
    }
    let written = fs::read_to_string(&variables).unwrap();
    assert_eq!(written.lines().count(), 3, "written once: {written}");
    assert!(written.starts_with("export PAUSEWATCH_THREAD_ID='se55-ion1-x'\n"), "{written}");
    let asks = format!("{PROGRAM} hold --require --reason 'Push?' -- {PROGRAM} get --output json; echo finished");
    let mut command = shell(session(), &asks, 60_000, Path::new("/dev/null"));
    command.env("BASH_ENV", &variables);
    let done = ended(&mut command);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
    assert!(done.out.contains("\"count\": 1") && done.out.ends_with("finished\n"), "{done:?}");
    let sockets = directory.path().join("pausewatch-claude");
    while fs::read_dir(&sockets).unwrap().count() > 0 {
        sleep(Duration::from_millis(10));
    }
}

/// The directory of the socket is open to all programs of the user.
#[test]
fn the_private_coordinator_of_a_session_opens_its_thread_for_its_token_only() {
    let directory = tempfile::tempdir().unwrap();
    let variables = directory.path().join("env.sh");
    let event = session_start("its");
    let session = || {
        let mut command = program();
        command.env("XDG_RUNTIME_DIR", directory.path()).env("CLAUDE_ENV_FILE", &variables);
        command
    };
    assert_eq!(hook(&mut session(), &event).err, "");
    for (before, thread, code, why) in [
        ("", "its", "0\n", ""),
        ("", "other", "1\n", "THREAD_FORBIDDEN"),
        ("PAUSEWATCH_TOKEN=0123456789abcdef", "its", "1\n", "TOKEN_INVALID"),
        ("env -u PAUSEWATCH_TOKEN", "its", "1\n", "TOKEN_MISSING"),
    ] {
        let line = format!("{before} {PROGRAM} increment --thread-id {thread} >/dev/null; echo $?");
        let mut command = shell(session(), &line, 60_000, Path::new("/dev/null"));
        let done = ended(command.env("BASH_ENV", &variables));
        assert_eq!(done.out, code, "{before} {thread}: {done:?}");
        assert!(done.err.contains(why), "{before} {thread}: {done:?}");
    }
}

/// A partly written line would break every command of the session.
#[test]
fn variables_that_have_no_room_leave_those_of_other_hooks() {
    let directory = tempfile::tempdir().unwrap();
    let variables = directory.path().join("env.sh");
    let before = format!("export OTHER='{}'", "x".repeat(450));
    fs::write(&variables, &before).unwrap();
    let event = session_start("s");
    let mut session = program();
    session.env("XDG_RUNTIME_DIR", directory.path()).env("CLAUDE_ENV_FILE", &variables);
    // A limit of 512 bytes (sh(1) of POSIX). With the signal ignored, write(2) fails.
    let mut limited = script("sh", &session, "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"");
    limited.arg(PROGRAM);
    let answer = hook(&mut limited, &event);
    assert!(answer.err.contains("env.sh: File too large"), "{answer:?}");
    assert_eq!(fs::read_to_string(&variables).unwrap(), before);
    // With space, the variables have their own lines.
    hook(&mut session, &event);
    let written = fs::read_to_string(&variables).unwrap();
    assert!(written.starts_with(&format!("{before}\nexport PAUSEWATCH_THREAD_ID='s'\n")), "{written}");
}

#[test]
fn configured_settings_are_not_overridden_in_a_session() {
    let directory = tempfile::tempdir().unwrap();
    let variables = directory.path().join("env.sh");
    let event = session_start("s");
    let answer = hook(Coordinator::start().command([]).env("CLAUDE_ENV_FILE", &variables), &event);
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""));
    assert!(!variables.exists());
    // Another user could put a socket there.
    let open = directory.path().join("pausewatch-claude");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let answer = hook(program().env("XDG_RUNTIME_DIR", directory.path()).env("CLAUDE_ENV_FILE", &variables), &event);
    assert_eq!(answer.code, Some(0));
    assert!(answer.err.contains("other users can enter it"), "{answer:?}");
    assert!(!variables.exists());
}
