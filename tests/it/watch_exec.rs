//! `pausewatch watch --exec`: a command per change.
use crate::program::{Coordinator, Process, ended, program};
use rustix::process::{Pid, Signal, test_kill_process};
use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Appends a line for each call to the file `calls`.
const CALL: &str = "echo $PAUSEWATCH_EVENT $PAUSEWATCH_THREAD_ID $PAUSEWATCH_HOLDER $PAUSEWATCH_REASON $(wc -l) $PAUSEWATCH_ENDED_BY >>calls";

fn watch(coordinator: &Coordinator, directory: &Path, args: &[&str]) -> Process {
    let mut command: Command = coordinator.command(["watch", "--output", "json"]);
    let process = Process::start({
        command.args(args).current_dir(directory);
        command
    });
    while !process.line().contains("snapshotComplete") {}
    process
}

/// Waits until the file has `count` lines.
fn calls(directory: &Path, count: usize) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let text = fs::read_to_string(directory.join("calls")).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(Instant::now() < end, "only {lines:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_runs_for_each_change_with_the_reason_and_the_holder() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let at = directory.path();
    let _watch = watch(&coordinator, at, &["--exec", CALL]);
    coordinator.answer(["increment", "--holder", "git", "--reason", "Push?"]);
    assert_eq!(calls(at, 1), ["waiting t git Push? 1"]);
    coordinator.answer(["increment", "--holder", "npm", "--reason", "Publish?"]);
    assert_eq!(calls(at, 2)[1], "waiting t npm Publish? 1");
    coordinator.answer(["decrement"]);
    assert_eq!(calls(at, 3)[2], "waiting t npm Publish? 1");
    coordinator.answer(["decrement"]);
    assert_eq!(
        calls(at, 4)[3],
        "resumed t npm Publish? 1 decremented",
        "the holder and the reason are those of the last pause"
    );
    coordinator.answer(["increment", "--reason", "Again?"]);
    assert!(calls(at, 5)[4].starts_with("waiting t ") && calls(at, 5)[4].ends_with(" Again? 1"));
}

#[test]
fn the_command_gets_the_state_as_json() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let _watch = watch(&coordinator, directory.path(), &["--exec", "cat >state; echo done >>calls"]);
    coordinator.answer(["increment", "--holder", "git", "--reason", "Push?"]);
    calls(directory.path(), 1);
    let state: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(directory.path().join("state")).unwrap()).unwrap();
    assert_eq!((&state["threadId"], &state["count"], &state["paused"]), (&"t".into(), &1.into(), &true.into()));
    assert_eq!(state["elicitations"][0]["reason"], "Push?");
}

/// Without the delay, the first command would be about the short question.
#[test]
fn with_a_delay_only_what_still_waits_is_reported_and_its_end() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let at = directory.path();
    let watching = watch(&coordinator, at, &["--exec", CALL, "--after", "10s"]);
    coordinator.answer(["increment", "--reason", "Short?"]);
    assert!(watching.line().contains("\"count\":1"));
    coordinator.answer(["decrement"]);
    assert!(!watching.line().contains("\"paused\":true"));
    coordinator.answer(["increment", "--holder", "git", "--reason", "Long?"]);
    assert_eq!(calls(at, 1), ["waiting t git Long? 1"]);
    coordinator.answer(["decrement"]);
    assert_eq!(calls(at, 2), ["waiting t git Long? 1", "resumed t git Long? 1 decremented"]);
}

/// Nobody would be told of a question that is asked while another one of the thread waits.
#[test]
fn with_a_delay_each_question_of_a_pause_is_reported_once() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let at = directory.path();
    let _watching = watch(&coordinator, at, &["--exec", CALL, "--after", "1s"]);
    coordinator.answer(["increment", "--holder", "git", "--reason", "First?"]);
    assert_eq!(calls(at, 1), ["waiting t git First? 1"]);
    coordinator.answer(["increment", "--holder", "npm", "--reason", "Second?"]);
    assert_eq!(calls(at, 2)[1], "waiting t npm Second? 1");
    coordinator.answer(["decrement"]);
    coordinator.answer(["decrement"]);
    assert_eq!(calls(at, 3)[2], "resumed t npm Second? 1 decremented");
}

/// Without a separate task, or without the time limit, the watch would stop, or the second thread would never be
/// reported.
#[test]
fn a_command_that_hangs_or_fails_neither_blocks_the_watch_nor_is_reported_twice() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let at = directory.path();
    let hang = format!("{CALL}; [ $PAUSEWATCH_REASON = hang ] && exec sleep 600; exit 3");
    let watching = watch(&coordinator, at, &["--exec", &hang, "--exec-timeout", "10s"]);
    coordinator.answer(["increment", "--holder", "h", "--reason", "hang"]);
    calls(at, 1);
    assert!(watching.line().contains("\"count\":1"));
    for count in 2..6 {
        coordinator.answer(["increment", "--holder", "h", "--reason", "fail"]);
        assert!(watching.line().contains(&format!("\"count\":{count}")), "the watch continues");
    }
    let error = watching.error_line();
    assert!(error.starts_with("pausewatch watch: the command of --exec failed: it did not end within 10s"), "{error}");
    // The command is killed; the changes meanwhile count as one.
    assert_eq!(calls(at, 2)[1], "waiting t h fail 1");
    for _ in 1..6 {
        coordinator.answer(["decrement"]);
    }
    while calls(at, 3).last().is_none_or(|last| !last.starts_with("resumed")) {
        std::thread::sleep(Duration::from_millis(10));
    }
    watching.signal(Signal::TERM);
    let ended = watching.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "reported once");
}

/// A command that waits for the file `go` after its call, or for the end of the test, which removes the directory.
const SLOW: &str = "; while [ -e calls ] && [ ! -e go ]; do sleep 0.02; done";

/// Without the comparison of the pauses, the second question would not be reported.
#[test]
fn a_question_that_is_asked_while_the_command_for_an_earlier_one_runs_is_reported_too() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let at = directory.path();
    let watching =
        watch(&coordinator, at, &["--exec", &format!("{CALL}{SLOW}"), "--after", "1ms", "--exec-timeout", "600s"]);
    coordinator.answer(["increment", "--holder", "git", "--reason", "First?"]);
    assert_eq!(calls(at, 1), ["waiting t git First? 1"]);
    assert!(watching.line().contains("\"count\":1"));
    coordinator.answer(["decrement"]);
    assert!(!watching.line().contains("\"paused\":true"));
    coordinator.answer(["increment", "--holder", "git", "--reason", "Second?"]);
    assert!(watching.line().contains("\"count\":1"));
    fs::write(at.join("go"), "").unwrap();
    assert_eq!(calls(at, 2)[1], "waiting t git Second? 1");
    coordinator.answer(["decrement"]);
    assert_eq!(calls(at, 3)[2], "resumed t git Second? 1 decremented");
}

/// A command that waits for its turn gets the current state of the thread.
#[test]
fn a_thread_that_resumes_before_it_is_its_turn_is_not_reported() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let at = directory.path();
    let mut command: Command = coordinator.command(["watch", "--output", "json", "--exec"]);
    command.arg(format!("{CALL}{SLOW}")).arg("--exec-timeout=600s").env_remove("PAUSEWATCH_THREAD_ID").current_dir(at);
    let watching = Process::start(command);
    while !watching.line().contains("snapshotComplete") {}
    let ask = |thread: &str| coordinator.answer(["increment", "--thread-id", thread, "--holder", "h", "--reason", "r"]);
    for thread in 0..16 {
        ask(&thread.to_string());
    }
    calls(at, 16);
    ask("late");
    while !watching.line().contains("\"late\"") {}
    coordinator.answer(["decrement", "--thread-id", "late"]);
    while !watching.line().contains("\"late\"") {}
    ask("last");
    fs::write(at.join("go"), "").unwrap();
    let all = calls(at, 17);
    assert!(all[16].starts_with("waiting last "), "{all:?}");
}

/// A zombie counts as ended.
fn is_running(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(process).is_ok() && !stat.contains(") Z ")
}

/// Without its process group, the children of a hung command would keep running, one more for each change.
#[test]
fn a_command_that_is_killed_takes_its_children_along() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let at = directory.path();
    let start = |limit: &str| {
        let hang = "sleep 600 & echo $! >>calls; wait";
        watch(&coordinator, at, &["--exec", hang, "--exec-timeout", limit])
    };
    let has_ended = |child: &str| {
        let end = Instant::now() + Duration::from_secs(60);
        let child = Pid::from_raw(child.parse().unwrap()).unwrap();
        while is_running(child) {
            assert!(Instant::now() < end, "{child:?} is still running");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let watching = start("10s");
    coordinator.answer(["increment"]);
    has_ended(&calls(at, 1)[0]);
    drop(watching);
    coordinator.answer(["decrement"]);
    let watching = start("600s");
    coordinator.answer(["increment"]);
    let child = calls(at, 2)[1].clone();
    watching.signal(Signal::TERM);
    assert_eq!(watching.end().code, Some(0));
    has_ended(&child);
}

#[test]
fn options_of_exec_need_it() {
    for args in [["--after", "3s"], ["--exec-timeout", "3s"]] {
        assert_eq!(ended(program().arg("watch").args(args)).code, Some(2));
    }
}
