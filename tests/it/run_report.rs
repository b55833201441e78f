//! `pausewatch run --report` and `--max-wall`.
use crate::program::{Coordinator, Ended, ended, program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs::{self, Permissions},
    io::Read,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{PermissionsExt, symlink},
            net::UnixStream,
            process::ExitStatusExt,
        },
    },
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pausewatch");

/// Runs a command with a report in its own directory.
struct Site(TempDir);

impl Site {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.args(["run", "--private", "--report", "report"]).args(args).current_dir(self.0.path());
        command.env("PAUSEWATCH", PROGRAM);
        command
    }

    fn report(&self) -> Value {
        let text = fs::read_to_string(self.0.path().join("report")).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn reported(&self, args: &[&str]) -> (Ended, Value) {
        let ended = ended(&mut self.run(args));
        assert_eq!(ended.err, "", "{args:?}");
        (ended, self.report())
    }
}

#[test]
fn the_report_says_how_the_command_ended() {
    let site = Site::new();
    for (args, code, why) in [
        (&["60", "sh", "-c", "exit 7"][..], 7, "exited"),
        (&["0", "true"], 0, "exited"),
        (&[".1", "sleep", "60"], 124, "timed_out"),
        (&["--preserve-status", ".1", "sleep", "60"], 143, "timed_out"),
        (&["--max-wall", ".1", "60", "sleep", "60"], 124, "max_wall"),
        (&["--max-wall", ".1", "0", "sleep", "60"], 124, "max_wall"),
        (&["--max-wall", "60", ".1", "sleep", "60"], 124, "timed_out"),
        (&["60", "sh", "-c", "kill -TERM $$"], 143, "signal"),
        (&["-s", "KILL", ".1", "sleep", "60"], 137, "timed_out"),
        // Without a new report, that of the previous run would be mistaken for one of this run.
        (&["60", "no-such-command"], 127, "exited"),
        (&["60", "/"], 126, "exited"),
    ] {
        let ended = ended(&mut site.run(args));
        assert_eq!(ended.err.is_empty(), !(126..=127).contains(&code), "{args:?}: {ended:?}");
        let report = site.report();
        let status = ended.code.unwrap_or_else(|| 128 + ended.status.signal().unwrap());
        assert_eq!((status, &report["exit_code"]), (code, &Value::from(code)), "{args:?}: {report}");
        assert_eq!(report["why"], why, "{args:?}");
        assert_eq!(report["signal"], if why == "signal" { Value::from("TERM") } else { Value::Null });
        let [wall, active, paused] = ["wall_ms", "active_ms", "paused_ms"].map(|key| report[key].as_u64().unwrap());
        assert_eq!((wall, paused, &report["pauses"]), (active, 0, &Value::Array(Vec::new())), "{args:?}: {report}");
        fs::remove_file(site.0.path().join("report")).unwrap();
        assert!(wall >= if why == "exited" || why == "signal" { 0 } else { 100 }, "{args:?}: {report}");
    }
    assert_eq!(fs::read_dir(site.0.path()).unwrap().count(), 0, "no temporary file is left");
}

#[test]
fn a_command_that_is_killed_after_a_signal_from_outside_has_not_timed_out() {
    let site = Site::new();
    let mut run = site.run(&["-k", ".1", "60", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    run.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    assert_eq!(run.wait().unwrap().signal(), Some(9));
    let report = site.report();
    assert_eq!(
        (&report["why"], &report["signal"], &report["exit_code"]),
        (&"signal".into(), &"KILL".into(), &137.into())
    );
}

#[test]
fn the_report_has_the_paused_time_and_the_reasons() {
    let site = Site::new();
    // A watch may miss a short question, so longer ones are tried until one is seen.
    for seconds in ["0.3", "2", "10", "30"] {
        let hold = format!("\"$PAUSEWATCH\" hold --holder git --reason 'Push?' -- sleep {seconds}");
        let (ended, report) = site.reported(&["--thread-id", "t", "60", "sh", "-c", &hold]);
        assert_eq!(ended.code, Some(0));
        if report["pauses"].as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        let expected =
            serde_json::json!([{ "thread_id": "t", "holder": "git", "reason": "Push?", "ended_by": "decremented" }]);
        assert_eq!(report["pauses"], expected);
        let [wall, active, paused] = ["wall_ms", "active_ms", "paused_ms"].map(|key| report[key].as_u64().unwrap());
        assert_eq!(wall, active + paused);
        assert!(paused >= 290 && active < wall, "{report}");
        return;
    }
    panic!("the report shows no pause");
}

/// The server's maximum pause and the wall time limit, in both orders: the earlier one ends the pause, or the command.
#[test]
fn g2_the_report_says_whether_the_servers_maximum_or_the_limit_on_wall_time_was_first() {
    for (max_pause, max_wall, why, ended_by) in
        [("1s", "600", "timed_out", "max_pause"), ("600s", "SECONDS", "max_wall", "decremented")]
    {
        // At the wall time limit, `hold` closes its elicitation.
        let options = ["--listen", "127.0.0.1:0", "--store", "memory", "--max-pause", max_pause];
        let coordinator = Coordinator::start_with(options);
        // A busy machine may leave the question little time, so longer ones are tried until one is seen.
        let seen = ["3", "10", "30"].into_iter().find_map(|seconds| {
            let directory = tempfile::tempdir().unwrap();
            let mut command = coordinator.command(["run", "--report", "report", "--max-wall"]);
            command.arg(max_wall.replace("SECONDS", seconds)).args([seconds, PROGRAM, "hold", "--holder", "git"]);
            command.args(["--ttl", "1h", "--", "sleep", "600"]).current_dir(directory.path());
            let ended = ended(&mut command);
            assert_eq!(ended.code, Some(124), "{ended:?}");
            let report = fs::read_to_string(directory.path().join("report")).unwrap();
            let report: Value = serde_json::from_str(&report).unwrap();
            let is_seen = report["pauses"].as_array().is_some_and(|pauses| !pauses.is_empty());
            (is_seen && report["paused_ms"].as_u64() >= Some(500)).then_some(report)
        });
        let report = seen.expect("the report shows the pause");
        let pause = serde_json::json!({ "thread_id": "t", "holder": "git", "reason": "", "ended_by": ended_by });
        assert_eq!((&report["why"], &report["pauses"][0]), (&why.into(), &pause), "{report}");
        assert!(report["wall_ms"].as_u64() >= Some(3_000), "{report}");
    }
}

/// Without the limit, the command would wait for the person.
#[test]
fn a_pause_does_not_extend_the_limit_on_wall_time() {
    let site = Site::new();
    let hold = [PROGRAM, "hold", "--reason", "Push?", "--", "sleep", "600"];
    let (ended, report) = site.reported(&[&["--max-wall", "2", "60"][..], &hold].concat());
    assert_eq!((ended.code, &report["why"]), (Some(124), &"max_wall".into()));
    assert!(report["wall_ms"].as_u64().unwrap() >= 2_000, "{report}");
}

#[test]
fn a_report_that_cannot_be_written_is_a_warning() {
    let site = Site::new();
    let fifo = site.0.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for target in ["none/report", "fifo", "."] {
        for (args, code) in [(["60", "sh", "-c", "exit 7"], 7), ([".1", "sh", "-c", "sleep 60"], 124)] {
            let ended = ended(site.run(&["--report", target]).args(args));
            assert_eq!(ended.code, Some(code), "{target}: {ended:?}");
            let warning = format!("pausewatch run: warning: the report is not written: {target}: ");
            assert!(ended.err.starts_with(&warning) && ended.err.lines().count() == 1, "{ended:?}");
        }
    }
    let killed = ended(site.run(&["--report", "fifo", "-s", "KILL", ".1", "sleep", "60"]).env("LC_ALL", "C"));
    assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
    for args in [["--report", ""], ["--report", "-"], ["--max-wall", "soon"]] {
        let refused = ended(program().arg("run").args(args).args(["5", "echo", "ran"]));
        assert_eq!((refused.code, refused.out.as_str()), (Some(125), ""), "{refused:?}");
    }
}

#[test]
fn a_report_goes_to_a_descriptor_a_pipe_or_the_file_behind_a_link() {
    let site = Site::new();
    let at = |name: &str| site.0.path().join(name);
    let read = |path: &Path| serde_json::from_str::<Value>(&fs::read_to_string(path).unwrap()).unwrap();
    let run = |script: &str| {
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", script])
            .current_dir(site.0.path())
            .env("PAUSEWATCH", PROGRAM)
            .env("HOME", "/proc/nonexistent");
        let shell = ended(&mut shell);
        assert_eq!((shell.code, shell.err.as_str()), (Some(0), ""), "{shell:?}");
        shell.out
    };
    run(r#""$PAUSEWATCH" run --private --report 3 60 true 3>descriptor"#);
    assert_eq!(read(&at("descriptor"))["why"], "exited");
    let piped = run(r#""$PAUSEWATCH" run --private --report 3 60 sh -c 'exit 3' 3>&1 >/dev/null | cat"#);
    assert_eq!(serde_json::from_str::<Value>(&piped).unwrap()["exit_code"], 3);
    fs::write(at("file"), "older").unwrap();
    symlink("file", at("link")).unwrap();
    run(r#""$PAUSEWATCH" run --private --report link 60 true; "$PAUSEWATCH" run --private --report /dev/null 60 true"#);
    assert_eq!(read(&at("file"))["why"], "exited");
    assert!(at("link").is_symlink());
    fs::set_permissions(at("file"), Permissions::from_mode(0o600)).unwrap();
    symlink("new", at("dangling")).unwrap();
    run(
        r#"umask 022; for to in file dangling; do "$PAUSEWATCH" run --private --report "$to" 60 sh -c 'exit 3'; done || :"#,
    );
    let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((read(&at("file"))["exit_code"].clone(), mode("file")), (json!(3), 0o600));
    assert!(at("dangling").is_symlink());
    assert_eq!((read(&at("new"))["exit_code"].clone(), mode("new")), (json!(3), 0o644));
    assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
}

/// Without this check, a number that the caller did not open could be a socket of `run`, which would get the report.
#[test]
fn a_report_to_a_descriptor_that_cannot_be_written_to_is_bad_usage() {
    let script = r#"
        for n in {3..20}; do eval "exec $n>&-"; done
        for n in {3..20} 99999999999; do "$PAUSEWATCH" run --private --report $n 60 echo ran; echo $?; done
        "$PAUSEWATCH" run --private --report 3 60 echo ran 3</dev/null; echo $?
    "#;
    let mut shell = Command::new("bash");
    let ended = ended(shell.args(["-c", script]).env("PAUSEWATCH", PROGRAM).env("HOME", "/proc/nonexistent"));
    assert_eq!(ended.out, "125\n".repeat(20), "{ended:?}");
    assert_eq!(ended.err.matches("no file descriptor with this number is open").count(), 19, "{ended:?}");
    assert!(
        ended.err.contains("'3' for '--report <FILE|FD>': this file descriptor is not open for writing"),
        "{ended:?}"
    );
}

/// It is not opened again: the caller may have a permission that `run` lacks, and the write position belongs to the
/// caller.
#[test]
fn a_report_is_written_to_the_descriptor_itself() {
    let site = Site::new();
    let file = site.0.path().join("file");
    let script = r#"
        printf '%01000d' 0 >file
        exec 3<>file
        chmod 000 file
        "$PAUSEWATCH" run --private --report 3 60 true
        chmod 600 file
    "#;
    let mut shell = Command::new("sh");
    shell.args(["-euc", script]).current_dir(site.0.path()).env("PAUSEWATCH", PROGRAM).env("HOME", "/proc/nonexistent");
    let shell = ended(&mut shell);
    assert_eq!((shell.code, shell.err.as_str()), (Some(0), ""), "{shell:?}");
    let text = fs::read_to_string(file).unwrap();
    assert_eq!(text.len(), 1_000, "{text}");
    let report: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(report["why"], "exited");
}

/// The pipes between a Node.js program and its children are sockets.
#[test]
fn a_report_goes_to_a_socket() {
    let site = Site::new();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let shell = "\"$PAUSEWATCH\" run --private --report 0 60 sh -c 'exit 3'";
    let mut command = Command::new("sh");
    command.args(["-c", shell]).env("PAUSEWATCH", PROGRAM).env("HOME", "/proc/nonexistent").current_dir(site.0.path());
    let process = command.stdin(OwnedFd::from(theirs)).stderr(Stdio::piped()).spawn().unwrap();
    // The command still has the other end open.
    drop(command);
    let ended = process.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(3), &[][..]), "{ended:?}");
    let mut text = String::new();
    ours.read_to_string(&mut text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["exit_code"], 3);
}

/// A sub-agent with its own thread asks. If its thread were not awaited, that time would be charged.
#[test]
fn g1_the_clock_also_stops_while_a_thread_that_the_command_waits_for_is_paused() {
    let site = Site::new();
    let child = "PAUSEWATCH_THREAD_ID=child \"$PAUSEWATCH\" hold --reason 'Push?' -- sleep 2 && exit 3";
    let (ended, report) = site.reported(&["--also", "child", "--also", "other", "60", "sh", "-c", child]);
    assert_eq!((ended.code, &report["why"]), (Some(3), &"exited".into()), "{report}");
    assert!(report["paused_ms"].as_u64().unwrap() >= 1_990, "{report}");
    for args in [["--thread-id", "t", "--also", "t"], ["--thread-id", "t", "--also", ""]] {
        let refused = ended_with(args);
        assert_eq!((refused.code, refused.out.as_str()), (Some(125), ""), "{refused:?}");
        assert!(refused.err.contains("--also"), "{refused:?}");
    }
}

fn ended_with(args: [&str; 4]) -> Ended {
    ended(program().arg("run").args(args).args(["5", "echo", "ran"]))
}
