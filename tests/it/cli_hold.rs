//! `pausewatch hold`: the pause lasts exactly as long as the command, however either of them ends.
use crate::program::{Coordinator, Ended, Process, ended, program};
use crate::shell::plain;
use crate::support::skipped;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// The path of the program, for the shells in these tests.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pausewatch");

#[test]
fn g1_the_thread_is_paused_before_the_command_starts_and_until_it_has_ended() {
    let coordinator = Coordinator::start();
    let inside = format!("{PROGRAM} get; {PROGRAM} list");
    let shown = coordinator.answer(["hold", "--reason", "Push?", "sh", "-c", &inside]);
    assert!(shown.starts_with("t: paused for "), "{shown}");
    let holder = shown.lines().find_map(|line| line.strip_suffix("  Push?")).unwrap();
    let holder = holder.split("  ").last().unwrap().trim();
    assert!(holder.starts_with("sh[") && holder.contains("]@"), "{holder}");
    assert!(coordinator.answer(["get"]).starts_with("t: running; "));
}

#[test]
fn hold_ends_as_its_command_did() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let not_executable = directory.path().join("file");
    std::fs::write(&not_executable, "").unwrap();
    let hold = |command: &[&str]| {
        let ended = ended(coordinator.command(["hold", "--"]).args(command));
        assert_eq!(coordinator.count(), 0, "{command:?} has left a pause behind");
        ended
    };
    for (command, code) in [
        (["true", "", ""], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "exit 255"], 255),
        (["/proc/nonexistent/command", "", ""], 127),
        (["no-such-command-anywhere", "", ""], 127),
        ([not_executable.to_str().unwrap(), "", ""], 126),
        (["/", "", ""], 126),
    ] {
        let ended = hold(&command);
        assert_eq!(ended.code, Some(code), "{command:?}: {ended:?}");
        assert_eq!(ended.err.is_empty(), !(126..=127).contains(&code), "{ended:?}");
    }
    for (name, signal) in [("TERM", 15), ("KILL", 9), ("INT", 2), ("HUP", 1), ("SEGV", 11)] {
        let Ended { status, err, .. } = hold(&["sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!((status.signal(), err.as_str()), (Some(signal), ""), "it ends by the same signal");
    }
}

#[test]
fn bad_usage_of_hold_is_125_and_runs_nothing() {
    let coordinator = Coordinator::start();
    for args in [
        &["hold"][..],
        &["hold", "--"],
        &["hold", "--nonsense", "echo", "ran"],
        &["hold", "--ttl", "0", "echo", "ran"],
        &["hold", "--reason", &"x".repeat(1_025), "echo", "ran"],
        &["hold", "--address", "localhost", "echo", "ran"],
        &["hold", "--config", "/proc/nonexistent/c.toml", "echo", "ran"],
    ] {
        let ended = ended(coordinator.command([]).args(args));
        assert_eq!((ended.code, ended.out.as_str()), (Some(125), ""), "{args:?}: {ended:?}");
        assert!(!ended.err.is_empty());
    }
    assert_eq!(coordinator.answer(["hold", "echo", "--ran"]), "--ran\n", "the command's options are its own");
}

#[test]
fn without_a_pause_the_command_runs_with_a_warning_unless_it_is_required() {
    let coordinator = Coordinator::start();
    let unreachable = ["--address", "unix:/proc/nonexistent/p.sock", "--thread-id", "t"];
    for (options, why) in
        [(&unreachable[..], "unix:/proc/nonexistent/p.sock"), (&["--address", &coordinator.address], "no thread")]
    {
        let warned = ended(program().arg("hold").args(options).args(["sh", "-c", "echo ran; exit 3"]));
        assert_eq!((warned.code, warned.out.as_str()), (Some(3), "ran\n"));
        assert!(warned.err.contains(why) && warned.err.contains("without a pause"), "{warned:?}");
        assert_eq!(warned.err.lines().count(), 1);
        let required = ended(program().arg("hold").args(options).args(["--require", "echo", "ran"]));
        assert_eq!((required.code, required.out.as_str()), (Some(125), ""));
        assert!(required.err.contains(why), "{required:?}");
    }
    assert_eq!(coordinator.answer(["hold", "--require", "echo", "ran"]), "ran\n");
}

#[test]
fn signals_to_hold_reach_the_command() {
    let coordinator = Coordinator::start();
    for (name, signal) in [("TERM", Signal::TERM), ("HUP", Signal::HUP), ("USR1", Signal::USR1)] {
        let script = format!("trap 'exit 33' {name}; echo ready; while :; do sleep 0.02; done");
        let hold = Process::start(coordinator.command(["hold", "sh", "-c", &script]));
        hold.line();
        assert_eq!(coordinator.count(), 1);
        hold.signal(signal);
        let ended = hold.end();
        assert_eq!((ended.code, ended.err.as_str()), (Some(33), ""), "{name}");
        assert_eq!(coordinator.count(), 0);
    }
}

/// Otherwise the command would never end, and the thread would stay paused.
#[test]
fn a_signal_to_hold_ends_a_stopped_command() {
    let coordinator = Coordinator::start();
    let hold = Process::start(coordinator.command(["hold", "sh", "-c", "echo $$; kill -STOP $$; sleep 1000"]));
    let stat = format!("/proc/{}/stat", hold.line());
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        sleep(Duration::from_millis(10));
    }
    hold.signal(Signal::TERM);
    let ended = hold.end();
    assert_eq!((ended.status.signal(), ended.err.as_str()), (Some(Signal::TERM.as_raw()), ""));
    assert_eq!(coordinator.count(), 0);
}

/// A signal from the terminal goes directly to the command, also in a container (bubblewrap, `unshare`) that keeps the
/// terminal. There the process group is from outside the container, and its id is 0 inside.
#[test]
fn an_interrupt_from_the_terminal_reaches_the_command_once() {
    at_a_terminal("");
    // In a container, the foreground process group of the terminal may have no number inside, and `/dev/tty` may be
    // missing.
    let own_pids = "unshare --map-root-user --pid --fork --kill-child --mount-proc";
    let without_tty = "unshare --map-root-user --mount sh -c 'mount --bind /dev/null /dev/tty && exec \"$@\"' --";
    for contained in [own_pids, without_tty] {
        let tried = ended(plain("sh").args(["-c", &format!("{contained} true")]));
        if tried.code == Some(0) {
            at_a_terminal(contained);
        } else {
            skipped("namespaces", format!("a container cannot be started: {tried:?}"));
        }
    }
}

/// Runs it without a shell of the terminal, which an interrupt would end.
fn at_a_terminal(start: &str) {
    let coordinator = Coordinator::start();
    // `hold` sends USR1 back only after it has handled the interrupt.
    let count = "trap \"n=\\$((n + 1)); kill -USR1 \\$PPID\" INT; trap back=1 USR1; echo ready; until [ $back ]; do :; done; echo times $n";
    let mut script = plain("script");
    script.args([
        "-q",
        "-e",
        "-c",
        &format!("stty -echo -onlcr; exec {start} {PROGRAM} hold sh -c '{count}'"),
        "/dev/null",
    ]);
    script.env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_THREAD_ID", "t").env("SHELL", "/bin/sh");
    script.stdin(Stdio::piped());
    let mut terminal = Process::start(script);
    assert_eq!(terminal.line(), "ready");
    terminal.write(b"\x03");
    let ended = terminal.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "times 1\n"), "{start}: {ended:?}");
}

#[test]
fn the_command_starts_with_the_signals_that_hold_started_with() {
    let coordinator = Coordinator::start();
    let ignored = "grep SigIgn /proc/self/status";
    let nohup = format!("trap '' HUP; {PROGRAM} hold {ignored}");
    for (script, hup) in [(format!("{PROGRAM} hold {ignored}"), 0), (nohup, 1)] {
        let shown =
            ended(coordinator.command([]).env("SCRIPT", &script).args(["hold", "sh", "-c", "eval \"$SCRIPT\""]));
        let mask = shown.out.trim().rsplit('\t').next().unwrap();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        assert_eq!(mask & 1, hup, "{shown:?}");
        let pipe = 1 << (Signal::PIPE.as_raw() - 1);
        assert_eq!(mask & pipe, 0, "a command in a pipe dies when its reader has gone");
    }
}

/// After the command has ended, `hold` tries for 5 s to close the elicitation.
#[test]
fn a_signal_ends_the_wait_for_a_lost_coordinator() {
    // On a busy machine, the 5 s may be over before the signal.
    let is_interrupted = (0..5).any(|_| {
        let coordinator = Coordinator::start();
        let mut command = coordinator.command(["hold", "sh", "-c", "echo $$; read answer; exit 5"]);
        command.stdin(Stdio::piped());
        let mut hold = Process::start(command);
        let shell = Pid::from_raw(hold.line().parse().unwrap()).unwrap();
        drop(coordinator);
        hold.close_stdin();
        while test_kill_process(shell).is_ok() {
            sleep(Duration::from_millis(1));
        }
        while !hold.has_ended() {
            hold.signal(Signal::TERM);
            sleep(Duration::from_millis(20));
        }
        let ended = hold.end();
        let is_interrupted = ended.err.contains("pausewatch hold: interrupted: ");
        assert!(!is_interrupted || ended.code == Some(5), "{ended:?}");
        is_interrupted
    });
    assert!(is_interrupted, "it waited for the coordinator 5 times");
}

#[test]
fn g2_a_killed_hold_ends_its_pause_by_the_lease() {
    let coordinator = Coordinator::start();
    let watching = coordinator.watch();
    let script = "echo $$; exec sleep 1000";
    let mut hold = Process::start(coordinator.command(["hold", "--ttl", "1s", "sh", "-c", script]));
    let orphan = Pid::from_raw(hold.line().parse().unwrap()).unwrap();
    watching.wait_for(1);
    hold.kill();
    watching.wait_for(0);
    kill_process(orphan, Signal::KILL).unwrap();
}

#[test]
fn g2_hold_renews_for_as_long_as_the_command_runs() {
    let coordinator = Coordinator::start();
    let mut command = coordinator.command(["hold", "--ttl", "6s", "sh", "-c", "echo ready; read answer"]);
    command.stdin(Stdio::piped());
    let mut hold = Process::start(command);
    hold.line();
    // Elicitations with the same lease that nobody renews measure the time: two whole ttls.
    let watching = coordinator.watch();
    coordinator.answer(["increment", "--ttl", "6s"]);
    watching.wait_for(2);
    watching.wait_for(1);
    coordinator.answer(["increment", "--ttl", "6s"]);
    watching.wait_for(2);
    watching.wait_for(1);
    hold.close_stdin();
    let ended = hold.end();
    // On a busy machine, a renewal may have been late.
    let has_lost = ["expired", "the pause is over", "may have timed out"].iter().any(|loss| ended.err.contains(loss));
    assert!(!has_lost, "it stayed paused until the end: {ended:?}");
    assert_eq!(coordinator.count(), 0);
}

#[test]
fn a_lease_that_expired_before_the_end_is_reported() {
    let coordinator = Coordinator::start();
    let watching = coordinator.watch();
    let mut command = coordinator.command(["hold", "--ttl", "1s", "sh", "-c", "echo ready; read answer; exit 5"]);
    command.stdin(Stdio::piped());
    let mut hold = Process::start(command);
    hold.line();
    watching.wait_for(1);
    // As if the machine slept, or the network were down: nothing is renewed.
    hold.signal(Signal::STOP);
    watching.wait_for(0);
    hold.signal(Signal::CONT);
    hold.close_stdin();
    let ended = hold.end();
    assert_eq!(ended.code, Some(5));
    assert!(ended.err.contains("the lease expired before the command ended"), "{ended:?}");
}

#[test]
fn a_lost_lease_is_reported_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}/p.sock", directory.path().display());
    let coordinator = Coordinator::start_at(&listen);
    let mut command = coordinator.command(["hold", "--ttl", "6s", "sh", "-c", "echo ready; read answer"]);
    command.stdin(Stdio::piped());
    let mut hold = Process::start(command);
    hold.line();
    drop(coordinator);
    let mut line = hold.error_line();
    // On a busy machine, the lease may have ended before it could be called at risk.
    if line.starts_with("pausewatch hold: cannot renew the lease: ") {
        assert!(line.contains("; trying again. If that fails for ") && line.ends_with("may time out"), "{line}");
        line = hold.error_line();
    }
    assert_eq!(line, "pausewatch hold: no response from the coordinator for 6s: the pause may be over");
    // A new coordinator that has lost all state.
    let _coordinator = Coordinator::start_at(&listen);
    let lost = hold.error_line();
    assert_eq!(lost, "pausewatch hold: the coordinator no longer knows the elicitation: the pause is over");
    hold.close_stdin();
    let ended = hold.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), ""), "`read` found the end of its input");
}

/// Without this, the person would learn only afterwards that the pause is over.
#[test]
fn hold_warns_before_its_lease_ends_and_says_when_it_is_renewed_again() {
    let coordinator = Coordinator::start();
    let mut command = coordinator.command(["hold", "--ttl", "9s", "sh", "-c", "echo ready; read answer; exit 5"]);
    command.stdin(Stdio::piped());
    let mut hold = Process::start(command);
    hold.line();
    coordinator.signal(Signal::STOP);
    let warning = hold.error_line();
    assert!(warning.starts_with("pausewatch hold: cannot renew the lease: "), "{warning}");
    // Its leases end that much later.
    coordinator.signal(Signal::CONT);
    let again = "pausewatch hold: the lease is renewed again: the thread is still paused";
    // On a busy machine, the renewal may have been overdue meanwhile.
    let mut line = hold.error_line();
    if line.contains("no response from the coordinator for 9s") {
        line = hold.error_line();
    }
    assert_eq!(line, again);
    hold.close_stdin();
    let ended = hold.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(5), ""), "each message was printed once");
}

#[test]
fn a_pause_that_another_client_ended_is_reported() {
    let coordinator = Coordinator::start();
    let ended = coordinator.run(["hold", "sh", "-c", &format!("{PROGRAM} decrement")]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "t: running\n"));
    assert!(ended.err.contains("another client closed the elicitation"), "{ended:?}");
}

/// Without this, a person who is about to answer would not be warned that the answer will be too late.
#[test]
fn g2_hold_warns_before_the_maximum_pause_ends_it() {
    let coordinator = Coordinator::start_with(["--listen", "127.0.0.1:0", "--store", "memory", "--max-pause", "2s"]);
    let watching = coordinator.watch();
    let mut command = coordinator.command(["hold", "--ttl", "30s", "sh", "-c", "echo ready; read answer; exit 5"]);
    command.stdin(Stdio::piped());
    let mut hold = Process::start(command);
    hold.line();
    watching.wait_for(1);
    let warning = hold.error_line();
    let left =
        warning.strip_prefix("pausewatch hold: the server ends this pause in ").unwrap_or_else(|| panic!("{warning}"));
    assert!(left.ends_with("s, the longest that it allows: answer before that"), "{warning}");
    watching.wait_for(0);
    hold.close_stdin();
    let ended = hold.end();
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.err.contains("as long as the server allows"), "{ended:?}");
}

#[test]
fn g2_an_invalid_maximum_pause_is_bad_usage() {
    for max_pause in ["0.5s", "soon", "-1s"] {
        let refused = ended(program().args(["serve", "--store", "memory", &format!("--max-pause={max_pause}")]));
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{max_pause}: {refused:?}");
    }
}
