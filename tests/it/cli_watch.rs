//! `pausewatch watch`.
use crate::program::{Coordinator, Process, ended, program};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, pipe};
use std::net::TcpListener;
use std::time::{Duration, Instant};

#[test]
fn watch_prints_each_change_on_a_line() {
    let coordinator = Coordinator::start();
    let watch = Process::start(coordinator.command(["watch"]));
    let without_time = |line: String| line.split_once("  ").unwrap().1.to_owned();
    assert_eq!(without_time(watch.line()), "t  count 0  running  0.0s in all");
    let began = Instant::now();
    coordinator.answer(["increment"]);
    assert!(without_time(watch.line()).starts_with("t  count 1  paused  "));
    coordinator.answer(["decrement"]);
    let resumed = without_time(watch.line());
    let length =
        resumed.strip_prefix("t  count 0  running  ").and_then(|rest| rest.strip_suffix("s in all  decremented"));
    let length = length.unwrap_or_else(|| panic!("{resumed}"));
    assert!(length.parse::<f64>().unwrap() <= began.elapsed().as_secs_f64(), "longer than this test: {resumed}");
    let got = coordinator.answer(["get"]);
    assert_eq!(got, format!("t: running; {length}s paused in all; last pause: decremented\n"));
    let all = coordinator.answer(["list", "--all"]);
    assert!(all.contains("LAST PAUSE") && all.contains("  decremented"), "{all}");
    coordinator.answer(["increment"]);
    for args in [&["get"][..], &["list"], &["list", "--all"]] {
        let mut command = coordinator.command([]);
        let paused = ended(command.args(args)).out;
        assert!(
            paused.lines().any(|line| line.starts_with('t')) && !paused.contains("decremented"),
            "a new pause hides the end of the last one: {paused}"
        );
    }
}

#[test]
fn watch_without_a_thread_shows_all_paused_threads() {
    let coordinator = Coordinator::start();
    for thread in ["a", "b", "c"] {
        coordinator.answer(["increment", "--thread-id", thread]);
    }
    coordinator.answer(["decrement", "--thread-id", "b"]);
    let mut command = coordinator.command(["watch", "--output", "json"]);
    command.env("PAUSEWATCH_THREAD_ID", "");
    let watch = Process::start(command);
    let lines = [watch.line(), watch.line(), watch.line()];
    assert!(lines[0].contains("\"threadId\":\"a\"") && lines[1].contains("\"threadId\":\"c\""), "{lines:?}");
    assert_eq!(lines[2], "{\"snapshotComplete\":{}}");
    assert!(!lines[0].contains("\"elicitations\""), "{lines:?}");

    let one = Process::start(coordinator.command(["watch", "--thread-id", "a", "--include-elicitations"]));
    assert!(one.line().contains("  a  count 1  paused  "));
    assert!(one.line().starts_with("    "));
}

#[test]
fn watch_ends_with_0_on_a_signal() {
    let coordinator = Coordinator::start();
    for signal in [Signal::INT, Signal::TERM] {
        let watch = Process::start(coordinator.command(["watch"]));
        watch.line();
        watch.signal(signal);
        let ended = watch.end();
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{signal:?}");
    }
}

#[test]
fn watch_ends_quietly_when_its_output_is_closed_and_no_thread_changes() {
    let coordinator = Coordinator::start();
    let (reader, writer) = pipe().unwrap();
    let mut command = coordinator.command(["watch"]);
    command.stdout(writer);
    let watch = Process::start_as_it_is(command);
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    let ended = watch.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

#[test]
fn watch_starts_though_replicas_do_not_answer() {
    let coordinator = Coordinator::start_at("127.0.0.1:0");
    // The operating system accepts connections to these, but nothing answers.
    let hanging: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let hanging = hanging.iter().map(|listener| listener.local_addr().unwrap().to_string());
    let addresses = hanging.chain([coordinator.address.clone()]).collect::<Vec<_>>().join(",");
    // Each starts at a random address: half of them try two or three before the one that answers.
    let start = |command: &[&str]| {
        let mut watch = coordinator.command([]);
        watch.args(command).args(["--address", &addresses]);
        (Instant::now(), Process::start(watch))
    };
    let commands = [&["watch"][..], &["list", "--watch"]].repeat(4);
    let watches: Vec<_> = commands.iter().map(|command| (command, start(command))).collect();
    for (command, mut watch) in watches {
        let mut restarts = 0;
        let line = loop {
            let (began, process) = watch;
            if let Some(line) = process.line_unless_ended() {
                break line;
            }
            // On a busy machine, the one that answers may be late too. Each address has 1.5 s.
            let took = began.elapsed();
            assert!(took >= 4 * Duration::from_millis(1_500), "it has not tried all addresses: {:?}", process.end());
            assert!(restarts < 3, "{:?}", process.end());
            restarts += 1;
            watch = start(command);
        };
        assert!(line.contains("running") || line.contains("No thread is paused"), "{line:?}");
    }
}

#[test]
fn watch_reconnects_and_reports_it() {
    let directory = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}/p.sock", directory.path().display());
    let coordinator = Coordinator::start_at(&listen);
    let watch = Process::start(coordinator.command(["watch"]));
    watch.line();
    drop(coordinator);
    let lost = watch.error_line();
    assert!(lost.starts_with(&format!("pausewatch watch: the connection to {listen} is lost: ")), "{lost}");
    assert!(lost.ends_with("; trying again"), "{lost}");
    let coordinator = Coordinator::start_at(&listen);
    assert_eq!(watch.error_line(), "pausewatch watch: connected again");
    coordinator.answer(["increment"]);
    while !watch.line().contains("  count 1  paused  ") {}
}

#[test]
fn watch_reports_a_thread_that_is_refused_after_a_reconnect_and_continues_with_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    let token = ended(program().args(["token", "add", "--prefix", "a", "--prefix", "b"]).arg(&tokens)).out;
    let listen = format!("unix:{}/p.sock", directory.path().display());
    let start =
        || Coordinator::start_with(["--listen", &listen, "--store", "memory", "--tokens", tokens.to_str().unwrap()]);
    let coordinator = start();
    let mut command = coordinator.command(["watch", "--thread-id", "a", "--thread-id", "b", "--output", "json"]);
    command.env("PAUSEWATCH_TOKEN", token.trim_end());
    let watch = Process::start(command);
    while watch.line() != "{\"snapshotComplete\":{}}" {}
    drop(coordinator);
    assert!(watch.error_line().contains(" is lost: "));
    let text = std::fs::read_to_string(&tokens).unwrap();
    assert!(text.contains("[\"a\", \"b\"]"), "{text}");
    std::fs::write(&tokens, text.replace("[\"a\", \"b\"]", "[\"a\"]")).unwrap();
    let _coordinator = start();
    let (refused, connected) = (watch.error_line(), watch.error_line());
    assert!(refused.starts_with("pausewatch watch: thread b is not watched: "), "{refused}");
    assert_eq!(connected, "pausewatch watch: connected again");
    let state = watch.line();
    assert!(state.contains("\"threadId\":\"a\""), "{state}");
    assert_eq!(watch.line(), "{\"snapshotComplete\":{}}");
}

#[test]
fn watch_does_not_repeat_unchanged_states_after_a_reconnect() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let (listen, data) = (format!("unix:{path}/p.sock"), format!("{path}/data"));
    let start = || Coordinator::start_with(["--listen", &listen, "--data-dir", &data]);
    let coordinator = start();
    coordinator.answer(["increment"]);
    let watch = Process::start(coordinator.command(["watch"]));
    assert!(watch.line().contains("  count 1  paused  "));
    drop(coordinator);
    let coordinator = start();
    while watch.error_line() != "pausewatch watch: connected again" {}
    coordinator.answer(["decrement"]);
    let next = watch.line();
    assert!(next.contains("  count 0  running  "), "{next}");
}

#[test]
fn watch_fails_without_a_coordinator_at_the_start() {
    let mut command = program();
    command.args(["watch", "--address", "unix:/proc/nonexistent/p.sock"]);
    assert_eq!(Process::start(command).end().code, Some(1));
    let refused = Coordinator::start().run(["watch", "--thread-id", "a\nb"]);
    assert!(refused.code == Some(1) && refused.err.contains("(INVALID_ARGUMENT INVALID_FIELD)"), "{refused:?}");
}
