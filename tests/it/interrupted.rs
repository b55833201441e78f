//! Commands that a signal ends before they know that their thread is paused: they close the elicitation first (G2).
use crate::program::{Coordinator, Ended, Process, program};
use crate::support::DelayedAnswers;
use rustix::process::Signal;
use std::{fs, os::unix::fs::PermissionsExt, os::unix::process::ExitStatusExt, process::Command, process::Stdio};

const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// A command of ours that opens an elicitation on thread `t`, at the coordinator with late answers.
fn late<const N: usize>(answers: &DelayedAnswers, args: [&str; N]) -> Command {
    let mut command = program();
    command.args(args).env("PAUSEWATCH_ADDRESS", &answers.address).env("PAUSEWATCH_THREAD_ID", "t");
    command
}

/// Sends the signal when the thread is paused and the command does not know it yet, and then lets the answer pass.
fn interrupted(command: impl Fn(&DelayedAnswers) -> Command, signal: Signal) -> (Coordinator, Ended) {
    let coordinator = Coordinator::start();
    let watching = coordinator.watch();
    let answers = DelayedAnswers::of(&coordinator.address);
    let process = Process::start(command(&answers));
    watching.wait_for(1);
    process.signal(signal);
    answers.release();
    (coordinator, process.end())
}

#[test]
fn g2_a_signal_before_the_answer_leaves_no_pause_behind() {
    let directory = tempfile::tempdir().unwrap();
    let asks = directory.path().join("asks");
    fs::write(&asks, "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(&asks, fs::Permissions::from_mode(0o755)).unwrap();
    let command = |name: &'static str| {
        let asks = asks.clone();
        move |answers: &DelayedAnswers| match name {
            "hold" => late(answers, ["hold", "--ttl", "10m", "echo", "ran"]),
            "askpass" => {
                let mut command = late(answers, ["askpass", "--ttl", "10m", "?"]);
                command.env("PAUSEWATCH_ASKPASS", &asks);
                command
            }
            name => late(answers, [name]),
        }
    };
    for name in ["increment", "hold", "askpass"] {
        for signal in ENDING {
            let (coordinator, ended) = interrupted(command(name), signal);
            assert_eq!(ended.status.signal(), Some(signal.as_raw()), "{name} {signal:?}: {ended:?}");
            assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""), "{name} {signal:?}");
            assert_eq!(coordinator.count(), 0, "{name} {signal:?}");
        }
    }
}

#[test]
fn a_second_signal_ends_the_wait_for_an_answer() {
    for args in [["hold", "echo", "ran"], ["increment", "--ttl", "1m"]] {
        let coordinator = Coordinator::start();
        let watching = coordinator.watch();
        let answers = DelayedAnswers::of(&coordinator.address);
        let mut process = Process::start(late(&answers, args));
        watching.wait_for(1);
        process.signal(Signal::TERM);
        while !process.has_ended() {
            std::thread::sleep(std::time::Duration::from_millis(50));
            process.signal(Signal::HUP);
        }
        let ended = process.end();
        assert_eq!((ended.status.signal(), ended.out.as_str()), (Some(Signal::TERM.as_raw()), ""), "{ended:?}");
        let warning =
            if args[0] == "hold" { "its lease will end the pause" } else { "the thread may be paused: the same" };
        assert!(ended.err.contains(warning), "{ended:?}");
    }
}

/// Its caller can find out by the same call, so that call must have the same effect as the first one.
#[test]
fn g4_a_signal_does_not_undo_an_increment_whose_request_id_its_caller_knows() {
    let call = ["increment", "--request-id", "r"];
    let (coordinator, ended) = interrupted(|answers| late(answers, call), Signal::TERM);
    assert_eq!(ended.status.signal(), Some(Signal::TERM.as_raw()), "{ended:?}");
    let id = coordinator.answer(call);
    assert_eq!(coordinator.count(), 1);
    assert_eq!(coordinator.answer(["decrement", id.trim()]), "t: running\n");
}

/// The answer is there, but nobody reads a pipe that is full.
#[test]
fn g2_a_signal_before_the_id_is_printed_closes_the_elicitation() {
    let coordinator = Coordinator::start();
    let (unread, full) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while rustix::io::write(&full, &[b' '; 4_096]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    let mut command = coordinator.command(["increment"]);
    command.stdout(full);
    let process = Process::start_as_it_is(command);
    // The warning comes before the id.
    assert!(process.error_line().contains("no exec server watches this thread"));
    assert_eq!(coordinator.count(), 1);
    process.signal(Signal::TERM);
    let ended = process.end();
    assert_eq!(ended.status.signal(), Some(Signal::TERM.as_raw()), "{ended:?}");
    assert_eq!(coordinator.count(), 0);
    drop(unread);
}

/// The real pinentry gets the signal and ends.
#[test]
fn g2_a_signal_to_pinentry_before_the_answer_leaves_no_pause_behind() {
    let directory = tempfile::tempdir().unwrap();
    let asks = directory.path().join("asks");
    fs::write(&asks, "#!/bin/sh\necho OK; exec sleep 1000\n").unwrap();
    fs::set_permissions(&asks, fs::Permissions::from_mode(0o755)).unwrap();
    for signal in ENDING {
        let coordinator = Coordinator::start();
        let watching = coordinator.watch();
        let answers = DelayedAnswers::of(&coordinator.address);
        let mut command = late(&answers, ["pinentry"]);
        command
            .env("PAUSEWATCH_PINENTRY", &asks)
            .env("PINENTRY_USER_DATA", "PAUSEWATCH_THREAD_ID=t")
            .stdin(Stdio::piped());
        let mut pinentry = Process::start(command);
        assert_eq!(pinentry.line(), "OK");
        pinentry.write(b"GETPIN\n");
        watching.wait_for(1);
        pinentry.signal(signal);
        answers.release();
        let ended = pinentry.end();
        assert_eq!(ended.status.signal(), Some(signal.as_raw()), "{ended:?}");
        assert_eq!(coordinator.count(), 0, "{signal:?}");
    }
}
