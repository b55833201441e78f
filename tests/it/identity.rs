//! The thread and the coordinator of a command without options: those of the agent that started it.
use crate::program::{Coordinator, Ended, ended, program};
use crate::support::skipped;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pausewatch");

/// If a variable were ignored, or the order differed, another thread would answer.
#[test]
fn thread_comes_from_our_variable_then_from_those_of_agents() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(&file, "thread_id = 'file'\n").unwrap();
    let ours = ("PAUSEWATCH_THREAD_ID", "ours");
    let (codex, claude) = (("CODEX_THREAD_ID", "codex"), ("CLAUDE_CODE_SESSION_ID", "claude"));
    let empty = [("PAUSEWATCH_THREAD_ID", ""), ("CODEX_THREAD_ID", "")];
    for (variables, thread, source) in [
        (&[ours, codex, claude][..], "ours", "PAUSEWATCH_THREAD_ID"),
        (&[codex, claude], "codex", "CODEX_THREAD_ID"),
        (&[claude], "claude", "CLAUDE_CODE_SESSION_ID"),
        (&[empty[0], empty[1], claude], "claude", "CLAUDE_CODE_SESSION_ID"),
        (&[], "file", "the config file"),
    ] {
        let run = |args: &[&str]| {
            let mut command = program();
            command.args(args).env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_CONFIG", &file);
            ended(command.envs(variables.iter().copied()))
        };
        let shown = run(&["get"]);
        assert!(shown.out.starts_with(&format!("{thread}: running")), "{variables:?}: {shown:?}");
        let held = run(&["hold", "--verbose", "--", PROGRAM, "list"]);
        let expected =
            format!("pausewatch hold: thread \"{thread}\" from {source}, coordinator at {}\n", coordinator.address);
        assert_eq!(held.err, expected);
        assert!(held.out.lines().nth(1).is_some_and(|line| line.starts_with(thread)), "{held:?}");
        let explicit = run(&["hold", "--verbose", "--thread-id", "explicit", "true"]);
        assert!(explicit.err.contains("thread \"explicit\" from --thread-id, "), "{explicit:?}");
    }
    assert_eq!(ended(program().args(["hold", "true"])).err.lines().count(), 1, "without --verbose only the warning");
}

/// Runs a script in its own network namespace, where port 7420 is free.
fn alone(script: &str) -> Option<Ended> {
    let in_network = |script: &str| {
        let mut command = Command::new("sh");
        let directory = tempfile::tempdir().unwrap();
        let unshare = "exec unshare --map-root-user --net --pid --fork --kill-child sh -euc \"$1\"";
        command.args(["-c", unshare, "sh", &format!("ip link set lo up\n{script}")]).current_dir(directory.path());
        let clean = program();
        let removed = clean.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        removed.for_each(|name| _ = command.env_remove(name));
        command.env("HOME", "/proc/nonexistent").env("PAUSEWATCH", PROGRAM).stdin(std::process::Stdio::null());
        ended(command.env("CODEX_THREAD_ID", "t"))
    };
    let tried = in_network("true");
    if tried.code != Some(0) {
        skipped("namespaces", format!("no network of its own: {tried:?}"));
        return None;
    }
    Some(in_network(script))
}

/// Without this, a tool of an agent would pause the thread at the default address, and `run` would not follow it.
#[test]
fn g1_run_with_a_thread_follows_the_coordinator_at_the_default_address() {
    let script = r#"
        show='echo $PAUSEWATCH_ADDRESS $PAUSEWATCH_THREAD_ID'
        echo absent $("$PAUSEWATCH" run 60 sh -c "$show" 2>&1)
        "$PAUSEWATCH" serve --store memory >listening 2>/dev/null &
        until grep -qs listening listening; do sleep .02; done
        echo present $("$PAUSEWATCH" run -v 60 sh -c "$show" 2>&1)
        echo private $("$PAUSEWATCH" run --private -v 60 sh -c "$show" 2>&1)
        echo unnamed $(env -u CODEX_THREAD_ID "$PAUSEWATCH" run 60 sh -c "$show" 2>&1)
        echo server $("$PAUSEWATCH" exec-server -v </dev/null 2>&1)
        echo server, private $("$PAUSEWATCH" exec-server -v --private </dev/null 2>&1)
        echo also $(env -u CODEX_THREAD_ID "$PAUSEWATCH" run --also t 60 sh -c "$show" 2>&1)
        "$PAUSEWATCH" hold sh -c 'until [ -e finished ]; do sleep .02; done' &
        until "$PAUSEWATCH" list | grep -q '^t '; do sleep .02; done
        # Killed with 124 if the pause is not followed: the command takes longer than its limit.
        "$PAUSEWATCH" run .2 sh -c 'sleep 1; echo followed'
        touch finished
    "#;
    let Some(ended) = alone(script) else { return };
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<_> = ended.out.lines().collect();
    assert!(lines[0].starts_with("absent unix:/") && lines[0].ends_with("/socket t"), "{ended:?}");
    assert_eq!(
        lines[1],
        "present pausewatch run: thread \"t\" from CODEX_THREAD_ID, coordinator at 127.0.0.1:7420 127.0.0.1:7420 t"
    );
    let private = "private pausewatch run: thread \"t\" from CODEX_THREAD_ID, a private coordinator unix:/";
    assert!(lines[2].starts_with(private), "{ended:?}");
    assert!(lines[3].starts_with("unnamed unix:/") && !lines[3].ends_with(" t"), "{ended:?}");
    assert_eq!(
        lines[4],
        "server pausewatch exec-server: thread \"t\" from CODEX_THREAD_ID, coordinator at 127.0.0.1:7420"
    );
    assert!(lines[5].ends_with("from CODEX_THREAD_ID, a private coordinator"), "{ended:?}");
    // The thread of COMMAND is a new one; the thread that it waits for is not.
    assert!(lines[6].starts_with("also 127.0.0.1:7420 "), "{ended:?}");
    assert_eq!(lines[7], "followed");
}

#[test]
fn another_program_at_the_default_address_is_reported_and_not_used() {
    let script = r#"
        "$PAUSEWATCH" exec-server --private --http 127.0.0.1:7420 >listening 2>log &
        until grep -qs listening listening; do sleep .02; done
        "$PAUSEWATCH" run 60 sh -c 'echo $PAUSEWATCH_ADDRESS'
    "#;
    let Some(ended) = alone(script) else { return };
    assert!(ended.out.starts_with("unix:/"), "{ended:?}");
    let warning = "pausewatch run: warning: no answer for thread \"t\" from 127.0.0.1:7420: ";
    assert!(ended.err.starts_with(warning) && ended.err.lines().count() == 1, "{ended:?}");
}

#[test]
fn private_and_an_address_exclude_each_other() {
    for command in ["run", "exec-server"] {
        let refused = ended(program().args([command, "--private", "--address", "127.0.0.1:1", "5", "true"]));
        assert_eq!(refused.code, Some(if command == "run" { 125 } else { 2 }), "{refused:?}");
    }
}
