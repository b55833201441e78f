//! The processes of the clock of `pausewatch hook claude`, and signals to them: the command has a limit whichever of them is killed or stopped.
use crate::hook_claude::on;
use crate::program::{Coordinator, Process};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::{fs, os::unix::process::ExitStatusExt, thread::sleep, time::Duration};

const ROLES: [&str; 2] = ["clock-watch", "clock-guard"];
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// Longer than any test: the command does not end by its limit.
const LONG_MS: u64 = 600_000;

/// The process of the clock of a shell that has this role.
fn clock_of(shell: Pid, role: &str) -> Pid {
    let wanted = format!("hook\0claude\0{role}\0--shell\0{}\0", shell.as_raw_pid());
    let found = fs::read_dir("/proc").unwrap().flatten().find(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&wanted))
    });
    Pid::from_raw(found.unwrap().file_name().to_str().unwrap().parse().unwrap()).unwrap()
}

/// A command that hangs, on a thread that is paused: the limit alone cannot end it.
fn hanging(coordinator: &Coordinator, limit_ms: u64) -> Process {
    coordinator.answer(["increment"]);
    let shell = Process::start(on(coordinator, "echo started; sleep 1000", limit_ms));
    assert_eq!(shell.line(), "started");
    shell
}

fn clocks_of(shell: &Process) -> [Pid; 2] {
    ROLES.map(|role| clock_of(shell.pid(), role))
}

fn wait_for_end_of(clocks: [Pid; 2]) {
    for clock in clocks {
        while test_kill_process(clock).is_ok() {
            sleep(Duration::from_millis(10));
        }
    }
}

/// Waits until a process is stopped. It can go on at once, so that this is for processes that nobody continues.
fn wait_until_stopped(pid: Pid) {
    let stat = format!("/proc/{}/stat", pid.as_raw_pid());
    while !fs::read_to_string(&stat).unwrap().contains(") T ") {
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_clock_ends_with_its_shell() {
    let coordinator = Coordinator::start();
    let shell = Process::start(on(&coordinator, "echo started; sleep 1000", 600_000));
    shell.line();
    let clock = clock_of(shell.pid(), "clock-watch");
    shell.signal(Signal::KILL);
    // Its standard error ends: only the command, which is killed here, still has it open.
    rustix::process::kill_process_group(shell.pid(), Signal::KILL).unwrap();
    assert_eq!(shell.end().err, "");
    while test_kill_process(clock).is_ok() {
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_signal_that_ends_a_process_of_the_clock_ends_the_command() {
    let coordinator = Coordinator::start();
    for signal in ENDING.into_iter().chain([Signal::KILL]) {
        for (role, by_kill, otherwise) in [
            ("clock-watch", "the clock was killed, so", "the clock got a signal to end, so"),
            ("clock-guard", "the guard of the clock was killed, so", "the guard of the clock got a signal to end, so"),
        ] {
            let shell = hanging(&coordinator, LONG_MS);
            let clocks = clocks_of(&shell);
            kill_process(clock_of(shell.pid(), role), signal).unwrap();
            let ended = shell.end();
            assert_eq!(ended.status.signal(), Some(Signal::TERM.as_raw()), "{role} {signal:?}: {ended:?}");
            let why = if signal == Signal::KILL { by_kill } else { otherwise };
            assert!(ended.err.contains(why), "{role} {signal:?}: {ended:?}");
            wait_for_end_of(clocks);
        }
    }
}

#[test]
fn a_signal_that_ends_both_processes_of_the_clock_ends_the_command() {
    let coordinator = Coordinator::start();
    for signal in ENDING {
        let shell = hanging(&coordinator, LONG_MS);
        let clocks = clocks_of(&shell);
        clocks.iter().for_each(|clock| kill_process(*clock, signal).unwrap());
        let ended = shell.end();
        assert_eq!(ended.status.signal(), Some(Signal::TERM.as_raw()), "{signal:?}: {ended:?}");
        wait_for_end_of(clocks);
    }
}

#[test]
fn the_limit_holds_while_a_process_of_the_clock_is_stopped() {
    let coordinator = Coordinator::start();
    for role in ROLES {
        let shell = hanging(&coordinator, 1);
        let clocks = clocks_of(&shell);
        kill_process(clock_of(shell.pid(), role), Signal::STOP).unwrap();
        coordinator.answer(["decrement"]);
        let ended = shell.end();
        assert_eq!(ended.status.signal(), Some(Signal::TERM.as_raw()), "{role}: {ended:?}");
        assert!(ended.err.ends_with("the command timed out after 0.0s\n"), "{role}: {ended:?}");
        wait_for_end_of(clocks);
    }
}

/// As `pkill -KILL pausewatch` does: by the name of the process.
#[test]
fn killing_all_processes_named_pausewatch_ends_the_command() {
    let coordinator = Coordinator::start();
    let shell = hanging(&coordinator, LONG_MS);
    let is_named =
        |pid: &Pid| fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid())).unwrap().contains("pausewatch");
    let named: Vec<_> = clocks_of(&shell).into_iter().filter(is_named).collect();
    assert!(!named.is_empty());
    named.iter().for_each(|clock| kill_process(*clock, Signal::KILL).unwrap());
    let ended = shell.end();
    assert_eq!(ended.status.signal(), Some(Signal::TERM.as_raw()), "{ended:?}");
}

/// TERM to a stopped process has no effect before KILL.
#[test]
fn a_stopped_command_ends_by_term_at_its_limit() {
    let coordinator = Coordinator::start();
    coordinator.answer(["increment"]);
    let shell = Process::start(on(&coordinator, "echo started; kill -STOP $$; sleep 1000", 1));
    assert_eq!(shell.line(), "started");
    wait_until_stopped(shell.pid());
    coordinator.answer(["decrement"]);
    let ended = shell.end();
    assert_eq!(ended.status.signal(), Some(Signal::TERM.as_raw()), "{ended:?}");
}
