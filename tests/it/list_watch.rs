//! `pausewatch list --watch`, on a terminal and without one.
use crate::{
    program::{Coordinator, Process, ended, program},
    pty::{Screen, Terminal},
};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;

const EMPTY: &str = "No thread is paused.";

fn list(coordinator: &Coordinator) -> Command {
    let mut command = coordinator.command(["list", "--watch"]);
    command.env_remove("NO_COLOR");
    command
}

/// The words of a thread's row.
fn row(screen: &Screen, thread: &str) -> Option<Vec<String>> {
    let text = screen.text();
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(thread))?;
    Some(line.split_whitespace().map(str::to_owned).collect())
}

/// A duration in whole seconds; `None`: it is drawn only in part.
fn seconds(length: &str) -> Option<u64> {
    let (minutes, rest) = length.split_once('m').unwrap_or(("0", length));
    Some(minutes.parse::<u64>().ok()? * 60 + rest.strip_suffix('s')?.parse::<u64>().ok()?)
}

/// How long the thread is paused, and the rest of its lease.
fn lengths(screen: &Screen, thread: &str) -> Option<(u64, u64)> {
    let row = row(screen, thread)?;
    Some((seconds(row.get(1)?)?, seconds(row.get(2)?)?))
}

#[test]
fn a_row_appears_counts_fits_a_new_size_and_disappears() {
    let coordinator = Coordinator::start();
    let mut terminal = Terminal::start(&list(&coordinator), 80, 24);
    terminal.wait_for_text(EMPTY);
    assert!(terminal.screen.is_other && !terminal.screen.has_cursor && !terminal.screen.wraps && !terminal.is_usual());
    terminal.wait_for_text(&coordinator.address);
    assert!(terminal.screen.has_colors);

    coordinator.answer(["increment", "--holder", "git", "--reason", "Push?", "--ttl", "59s"]);
    terminal
        .wait_for("row", |screen| row(screen, "t").is_some_and(|row| row.ends_with(&["git".into(), "Push?".into()])));
    assert!(terminal.screen.text().starts_with("1 thread paused, 1 open elicitation."));
    let (paused, left) = lengths(&terminal.screen, "t").unwrap();
    terminal.wait_for("row that counts", |screen| {
        lengths(screen, "t").is_some_and(|(later, then)| later >= paused + 2 && then + 2 <= left)
    });

    terminal.resize(40, 24);
    terminal.wait_for("narrow table", |screen| {
        let text = screen.text();
        text.contains("THREAD")
            && !text.contains("HOLDER")
            && row(screen, "t").is_some_and(|row| row.last().is_some_and(|last| last == "Push?"))
    });
    for thread in ["u", "v", "w"] {
        coordinator.answer(["increment", "--thread-id", thread]);
    }
    terminal.resize(80, 5);
    terminal.wait_for_text("more rows not shown");
    for thread in ["u", "v", "w"] {
        coordinator.answer(["decrement", "--thread-id", thread]);
    }
    terminal.resize(80, 24);
    terminal.wait_for("one row", |screen| row(screen, "t").is_some() && row(screen, "w").is_none());
    coordinator.answer(["decrement"]);
    terminal.wait_for("end of the row", |screen| screen.text().contains(EMPTY) && screen.text().lines().count() == 1);
}

#[test]
fn a_thread_that_no_exec_server_watches_is_a_warning() {
    let coordinator = Coordinator::start();
    coordinator.answer(["increment"]);
    coordinator.answer(["increment", "--thread-id", "u"]);
    let watching = coordinator.watch();
    let mut terminal = Terminal::start(&list(&coordinator), 80, 24);
    let watchers = |screen: &Screen, thread| row(screen, thread).and_then(|row| row.get(3).cloned());
    // The stream of `list` itself does not count.
    terminal.wait_for("warning", |screen| {
        let counted = [watchers(screen, "t").as_deref(), watchers(screen, "u").as_deref()] == [Some("1"), Some("0")];
        counted && screen.text().contains("Watched by no exec server: u\n")
    });
    drop(watching);
    terminal.wait_for_text("Watched by no exec server: t, u\n");
}

#[test]
fn the_terminal_is_restored_however_it_ends() {
    let coordinator = Coordinator::start();
    let ctrl_c = "\x03";
    for end in [Ok(Signal::TERM), Ok(Signal::HUP), Ok(Signal::QUIT), Err(ctrl_c), Err("xq")] {
        let mut terminal = Terminal::start(&list(&coordinator), 80, 24);
        terminal.wait_for_text(EMPTY);
        assert!(!terminal.is_usual());
        match end {
            Ok(signal) => terminal.signal(signal),
            Err(keys) => terminal.write(keys),
        }
        terminal.wait_for_end(0);
        assert!(terminal.is_usual(), "{end:?}");
        let Screen { is_other, has_cursor, wraps, .. } = terminal.screen;
        assert_eq!((is_other, has_cursor, wraps), (false, true, true), "{end:?}");
        assert_eq!(terminal.screen.text(), "ended 0", "{end:?}: what was typed is not shown");
    }
}

#[test]
fn a_stopped_job_gives_the_terminal_back_and_draws_again_in_the_foreground() {
    let coordinator = Coordinator::start();
    let mut terminal = Terminal::start(&list(&coordinator), 80, 24);
    terminal.wait_for_text(EMPTY);
    terminal.write("\x1a");
    terminal.wait_for_end(128 + Signal::STOP.as_raw());
    assert!(!terminal.screen.is_other && terminal.screen.has_cursor && terminal.is_usual());
    coordinator.answer(["increment", "--reason", "Push?"]);
    terminal.write("fg\n");
    terminal.wait_for("row", |screen| screen.is_other && row(screen, "t").is_some());
    assert!(!terminal.is_usual());
    terminal.write("q");
    terminal.wait_for_end(0);
    assert!(!terminal.screen.is_other && terminal.screen.has_cursor && terminal.is_usual());
}

/// As with `ssh -t HOST "pausewatch list --watch; ..."`: a stopped program would keep the terminal for ever.
#[test]
fn without_a_shell_that_has_jobs_nothing_stops_it() {
    let coordinator = Coordinator::start();
    let mut terminal = Terminal::start_without_jobs(&list(&coordinator), 80, 24);
    terminal.wait_for_text(EMPTY);
    terminal.write("\x1a");
    coordinator.answer(["increment", "--reason", "Push?"]);
    terminal.wait_for_text("Push?");
    terminal.write("q");
    terminal.wait_for_end(0);
}

#[test]
fn a_lost_connection_is_shown_and_the_rows_stay() {
    let directory = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}/p.sock", directory.path().display());
    let coordinator = Coordinator::start_at(&listen);
    coordinator.answer(["increment", "--reason", "Push?"]);
    let mut terminal = Terminal::start(&list(&coordinator), 80, 24);
    terminal.wait_for_text("Push?");
    drop(coordinator);
    terminal.wait_for_text("Connection lost, since ");
    let is_age = |text: &str| text.split_once("s)").is_some_and(|(age, _)| age.parse::<u64>().is_ok_and(|age| age > 0));
    terminal.wait_for("age", |screen| screen.text().split('(').any(is_age));
    assert!(terminal.screen.text().contains("Push?"));
    // The new coordinator does not know the thread.
    let _coordinator = Coordinator::start_at(&listen);
    terminal
        .wait_for("connection", |screen| screen.text().contains(EMPTY) && !screen.text().contains("Connection lost"));
}

#[test]
fn text_of_strangers_does_not_control_the_terminal() {
    let coordinator = Coordinator::start();
    let hostile = "\u{1b}[2J\u{9b}31m\r\nx  0  running \u{202e}";
    coordinator.answer(["increment", "--reason", hostile, "--holder", hostile]);
    coordinator.answer(["increment", "--thread-id", "u\u{202e}"]);
    let mut terminal = Terminal::start(&list(&coordinator), 200, 24);
    terminal.wait_for_text("\\u{1b}[2J\\u{9b}31m\\r\\nx  0  running \\u{202e}");
    terminal.wait_for_text("u\\u{202e}");
}

#[test]
fn colors_can_be_turned_off() {
    let coordinator = Coordinator::start();
    coordinator.answer(["increment"]);
    let mut command = list(&coordinator);
    command.env("NO_COLOR", "1");
    let mut terminal = Terminal::start(&command, 80, 24);
    terminal.wait_for("row", |screen| row(screen, "t").is_some());
    assert!(!terminal.screen.has_colors);
}

#[test]
fn a_terminal_without_cursor_movement_gets_a_table_per_change() {
    let coordinator = Coordinator::start();
    let mut command = list(&coordinator);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(&command, 80, 24);
    terminal.wait_for_text(EMPTY);
    coordinator.answer(["increment"]);
    terminal.wait_for("row below", |screen| screen.text().contains(EMPTY) && row(screen, "t").is_some());
    assert!(!terminal.screen.is_other && terminal.is_usual());
}

/// The time, and the lines below it, without the empty one.
fn table(watch: &Process) -> (String, Vec<String>) {
    let first = watch.line();
    let (time, totals) = first.split_once("  ").unwrap_or_else(|| panic!("{first}"));
    let mut lines = vec![totals.to_owned()];
    loop {
        match watch.line() {
            line if line.is_empty() => return (time.to_owned(), lines),
            line => lines.push(line),
        }
    }
}

#[test]
fn without_a_terminal_each_change_prints_a_complete_table() {
    let coordinator = Coordinator::start();
    let long = "Push? ".repeat(50);
    let watch = Process::start(list(&coordinator));
    let (time, lines) = table(&watch);
    assert!(time.starts_with("20") && lines == [EMPTY], "{time} {lines:?}");
    coordinator.answer(["increment", "--holder", "git", "--reason", &long]);
    let (_, lines) = table(&watch);
    assert_eq!(lines[0], "1 thread paused, 1 open elicitation.");
    assert!(lines.last().unwrap().ends_with(&format!("git     {}", long.trim_end())), "{lines:?}");
    coordinator.answer(["increment", "--holder", "npm", "--reason", "Publish?"]);
    let (_, lines) = table(&watch);
    assert!(lines[0] == "1 thread paused, 2 open elicitations." && lines.last().unwrap().contains("Publish?"));
    let npm = lines.last().unwrap().clone();
    coordinator.answer(["decrement"]);
    assert_eq!(table(&watch).1.last().unwrap().split_whitespace().last(), npm.split_whitespace().last());
    watch.signal(Signal::TERM);
    let ended = watch.end();
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "", ""));
}

/// Without the version, which has no durations, each list would print a table.
#[test]
fn a_renewal_prints_nothing_without_a_terminal_and_is_shown_on_one() {
    let coordinator = Coordinator::start();
    let id = coordinator.answer(["increment", "--ttl", "20s"]);
    let watch = Process::start(list(&coordinator));
    let mut last = without_lengths(&table(&watch).1);
    let mut terminal = Terminal::start(&list(&coordinator), 80, 24);
    terminal.wait_for("row", |screen| lengths(screen, "t").is_some_and(|(_, left)| left < 20));
    coordinator.answer(["renew", id.trim(), "--ttl", "50s"]);
    terminal.wait_for("longer lease", |screen| lengths(screen, "t").is_some_and(|(_, left)| left > 20));
    // By then the other `list` has also listed the threads again, as it does every 3 s.
    let (paused, _) = lengths(&terminal.screen, "t").unwrap();
    terminal.wait_for("some seconds", |screen| lengths(screen, "t").is_some_and(|(now, _)| now > paused + 4));
    coordinator.answer(["decrement"]);
    loop {
        let lines = table(&watch).1;
        if lines == [EMPTY] {
            break;
        }
        // The terminal is one more watcher, which is a change.
        let next = without_lengths(&lines);
        assert_ne!(next, last);
        last = next;
    }
}

/// A table without its columns PAUSED and LEASE.
fn without_lengths(lines: &[String]) -> Vec<String> {
    let words = |line: &String| {
        let words = line.split_whitespace().enumerate().filter(|(column, _)| ![1, 2].contains(column));
        words.map(|(_, word)| word).collect::<Vec<_>>().join(" ")
    };
    lines.iter().map(words).collect()
}

#[test]
fn of_many_changes_the_last_state_is_printed() {
    let coordinator = Coordinator::start();
    let mut command = list(&coordinator);
    let watch = Process::start({
        command.args(["--output", "json"]);
        command
    });
    let states = |line: String| serde_json::from_str::<Value>(&line).unwrap()["pauseStates"].clone();
    assert_eq!(states(watch.line()), Value::Null);
    const CHANGES: usize = 40;
    for number in 0..CHANGES {
        coordinator.answer(["increment", "--reason", &number.to_string()]);
    }
    let mut lines = 0;
    loop {
        let states = states(watch.line());
        lines += 1;
        let elicitations = states[0]["elicitations"].as_array().unwrap();
        if elicitations.len() == CHANGES {
            assert_eq!(elicitations.last().unwrap()["reason"], (CHANGES - 1).to_string());
            assert!(states[0]["pausedFor"].is_string(), "{states}");
            break;
        }
    }
    assert!(lines <= CHANGES + 1, "{lines}");
}

#[test]
fn without_a_terminal_a_lost_connection_is_reported_on_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let (listen, data) = (format!("unix:{path}/p.sock"), format!("{path}/data"));
    let start = || Coordinator::start_with(["--listen", &listen, "--data-dir", &data]);
    let coordinator = start();
    coordinator.answer(["increment", "--reason", "Push?"]);
    let watch = Process::start(list(&coordinator));
    assert_eq!(table(&watch).1[0], "1 thread paused, 1 open elicitation.");
    drop(coordinator);
    let lost = watch.error_line();
    assert!(lost.starts_with(&format!("pausewatch list: the connection to {listen} is lost: ")), "{lost}");
    let coordinator = start();
    assert_eq!(watch.error_line(), "pausewatch list: connected again");
    coordinator.answer(["decrement"]);
    assert_eq!(table(&watch).1, [EMPTY], "an unchanged table is not repeated");
}

#[test]
fn it_ends_quietly_with_its_reader_and_fails_without_a_coordinator() {
    let coordinator = Coordinator::start();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = list(&coordinator);
    command.stdout(writer);
    let watch = Process::start_as_it_is(command);
    drop(reader);
    let ended_quietly = watch.end();
    assert_eq!((ended_quietly.code, ended_quietly.err.as_str()), (Some(0), ""));
    let refused = ended(program().args(["list", "--watch", "--address", "unix:/proc/nonexistent/p.sock"]));
    assert!(refused.code == Some(1) && refused.err.contains("no response from a coordinator"), "{refused:?}");
    assert_eq!(ended(program().args(["list", "--watch", "--all"])).code, Some(2));
}
