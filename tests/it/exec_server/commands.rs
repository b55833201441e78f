//! The tools: what they run, what they answer, and that no process is left behind.
use super::client::{Client, exec_server, process_with, until_gone, until_there};
use super::nested::until;
use crate::program::{Coordinator, ended};
use crate::support::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

fn client() -> Client {
    Client::start(exec_server([]))
}

fn shell(command: &str) -> Value {
    json!({"command": command, "workdir": "/"})
}

/// A number of seconds that no other process sleeps for.
fn mark() -> String {
    format!("8{:08}.25", fastrand::u32(..100_000_000))
}

fn milliseconds(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap_or_else(|| panic!("{field} of {answer}"))
}

#[test]
fn the_tools_are_listed_with_their_schemas() {
    let mut client = client();
    let id = client.request("tools/list", json!({}));
    let tools = client.result(id)["tools"].clone();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["shell", "exec_command", "write_stdin", "kill", "sessions"]);
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["command", "workdir"]));
    for tool in tools.as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        assert!(!tool.to_string().contains("\"format\":") && !tool.to_string().contains("\"null\""), "{tool}");
    }
}

#[test]
fn a_result_has_the_exit_code_and_both_streams_in_order() {
    let mut client = client();
    let line = "for i in 1 2 3; do echo out $i; echo err $i >&2; done; cat; exit 3";
    let answer = client.call("shell", shell(line));
    assert_eq!(answer["output"], "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    assert_eq!(
        (&answer["exit_code"], &answer["timed_out"], &answer["denied"]),
        (&json!(3), &json!(false), &json!(false))
    );
    let of = |field| milliseconds(&answer, field);
    assert_eq!(of("wall_ms"), of("active_ms") + of("paused_ms"));
    assert_eq!(of("paused_ms"), 0);
    assert_eq!(client.call("shell", shell("kill -USR1 $$"))["exit_code"], 138);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let answer = client.call("shell", json!({"command": "pwd", "workdir": path}));
    assert_eq!(answer["output"], format!("{}\n", path.display()));
}

/// If the session were not killed, the sleeper with the redirected output would stay.
#[test]
fn a_timed_out_command_is_killed_with_its_children() {
    let (mut client, mark) = (client(), mark());
    let line = format!("sleep {mark} & (trap '' TERM; sleep {mark} >/dev/null 2>&1) & echo started; sleep {mark}");
    let started = Instant::now();
    let answer = client.call("shell", json!({"command": line, "workdir": "/", "timeout_ms": 10_000}));
    assert!(started.elapsed() >= Duration::from_secs(10));
    assert_eq!(process_with(&mark), None);
    assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(124), &json!(true)));
    assert_eq!(answer["output"], "started\n");
    let active = milliseconds(&answer, "active_ms");
    assert!(active >= 10_000, "{active}");
}

/// The shell of the line ends at once; the program that it runs has time until KILL, in any process group.
#[test]
fn every_process_has_the_time_to_clean_up() {
    let mut client = client();
    let program = "sh -c 'end() { trap \"\" TERM; sleep 0.5; echo cleaned up; exit; }; trap end TERM; while :; do sleep 0.1; done'";
    for starts in ["", "set -m;", "timeout 100"] {
        let arguments = json!({"command": format!("{starts} {program}; true"), "workdir": "/", "timeout_ms": 10_000});
        // KILL comes 2 s after TERM, which is not always enough on a busy machine.
        let cleans_up = (0..5).any(|_| {
            let answer = client.call("shell", arguments.clone());
            assert_eq!((&answer["timed_out"], &answer["exit_code"]), (&json!(true), &json!(124)), "{answer}");
            let cleaned_up = answer["output"].as_str().unwrap().ends_with("cleaned up\n");
            assert!(!cleaned_up || milliseconds(&answer, "wall_ms") >= 10_500, "{answer}");
            cleaned_up
        });
        assert!(cleans_up, "{starts}: killed 5 times before it had cleaned up");
    }
}

#[test]
fn a_command_that_ignores_term_is_killed() {
    let (mut client, mark) = (client(), mark());
    let line = format!("trap '' TERM; echo deaf; sleep {mark}; sleep {mark}");
    let answer = client.call("shell", json!({"command": line, "workdir": "/", "timeout_ms": 1_000}));
    assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(124), &json!(true)));
    assert_eq!(process_with(&mark), None);
}

#[test]
fn remaining_processes_end_with_the_command_and_their_output_is_read() {
    let (mut client, mark) = (client(), mark());
    let line = format!("(sleep {mark}; echo never) & (sleep 0.05; echo late) & echo done");
    // They have 0.2 s, in which a busy machine does not always schedule them.
    let outputs = (0..20).map(|_| {
        let answer = client.call("shell", shell(&line));
        assert_eq!((&answer["exit_code"], process_with(&mark)), (&json!(0), None), "{answer}");
        answer["output"].as_str().unwrap().to_owned()
    });
    let outputs: Vec<_> = outputs.take_while(|output| output != "done\nlate\n").collect();
    assert!(outputs.len() < 20 && outputs.iter().all(|output| output == "done\n"), "{outputs:?}");
}

/// A busy machine does not lose output: processes that are ready to run are awaited. That may exceed the maximum wait,
/// so there are several attempts.
#[test]
fn output_of_a_process_that_is_ready_to_run_is_waited_for() {
    let mut client = client();
    let busy = "end=$(($(date +%s%N) + 300000000)); while [ $(date +%s%N) -lt $end ]; do :; done";
    let line = format!("({busy}; echo late) & echo done");
    let read = (0..50).any(|_| client.call("shell", shell(&line))["output"] == "done\nlate\n");
    assert!(read, "50 times, the output after 300 ms of work was lost");
}

/// Without the session killer, each of them would stay: they are outside the command's process group.
#[test]
fn processes_in_groups_of_their_own_end_with_the_command() {
    let mut client = client();
    let run = format!("{} run 100s", env!("CARGO_BIN_EXE_pausewatch"));
    for starts in ["set -m;", "timeout 100", &run] {
        for tool in ["shell", "exec_command"] {
            let (directory, mark) = (tempfile::tempdir().unwrap(), mark());
            let line = format!(
                "mkfifo up; {starts} sh -c 'echo up > up; exec sleep {mark}' >/dev/null 2>&1 & read line < up; exit 3"
            );
            let arguments = json!({"command": line, "workdir": directory.path()});
            assert_eq!(client.call(tool, arguments)["exit_code"], 3, "{line}");
            assert_eq!(process_with(&mark), None, "{tool}: {line}");
        }
    }
}

/// Each copy has exited before it can be killed individually.
pub(super) const FORKS_FOR_EVER: &str = "trap '' TERM; f() { echo >> forks; f & }; f";

/// Whether `forks` no longer grows.
pub(super) fn has_ended(directory: &Path) -> bool {
    let forks = || std::fs::metadata(directory.join("forks")).unwrap().len();
    let before = forks();
    std::thread::sleep(Duration::from_millis(500));
    before == forks()
}

#[test]
fn processes_that_start_a_copy_and_end_do_not_outlive_their_command() {
    let (mut client, directory) = (client(), tempfile::tempdir().unwrap());
    let answer = client.call("shell", json!({"command": FORKS_FOR_EVER, "workdir": directory.path()}));
    assert_eq!(answer["exit_code"], 0, "{answer}");
    assert!(has_ended(directory.path()));
}

#[test]
fn long_output_is_cut_in_the_middle_with_a_note() {
    let mut client = client();
    let answer = client.call("shell", shell("echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last"));
    let output = answer["output"].as_str().unwrap();
    let omitted = milliseconds(&answer, "omitted_bytes");
    assert_eq!(omitted, 6 + 10_000_000 + 1 + 5 - 65_536);
    assert!(output.starts_with("first\nxxx") && output.ends_with("xxx\nlast\n"), "{}", output.len());
    assert!(output.contains(&format!("\n[... {omitted} bytes of output left out ...]\n")));
}

#[test]
fn invalid_calls_are_refused_with_a_remedy() {
    let mut client = client();
    for (tool, arguments, why) in [
        ("shell", json!({"command": "true"}), "missing field `workdir`"),
        ("shell", json!({"command": "true", "workdir": "/", "timeout": 1}), "unknown field `timeout`"),
        (
            "shell",
            json!({"command": "true", "workdir": "/proc/nonexistent"}),
            "workdir \"/proc/nonexistent\": No such file",
        ),
        ("shell", json!({"command": "true", "workdir": "/etc/passwd"}), "is not a directory"),
        ("write_stdin", json!({"session_id": "none"}), "no session \"none\""),
        ("kill", json!({"session_id": 7}), "`sessions` lists"),
    ] {
        let said = client.refused(tool, arguments);
        assert!(said.contains(why), "{said}");
    }
    let id = client.begin("rm", "t", json!({}));
    let error = client.wait_for("error", |message| message["id"] == id)["error"].clone();
    assert_eq!(error["code"], -32602);
    assert!(error["message"].as_str().unwrap().contains("unknown tool \"rm\""), "{error}");
    let unreadable = [
        (json!({"name": "shell", "arguments": "true"}), "params: invalid type: string \"true\""),
        (json!({"arguments": {}}), "params: missing field `name`"),
    ];
    for (params, why) in unreadable {
        let id = client.request("tools/call", params);
        let error = client.wait_for("error", |message| message["id"] == id)["error"].clone();
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
    }
    let id = client.request("tools/rename", json!({}));
    let error = client.wait_for("error", |message| message["id"] == id)["error"].clone();
    assert_eq!(error["code"], -32601, "{error}");
    let id = client.begin("shell", "\n", shell("true"));
    let result = client.result(id);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("thread_id"), "{result}");
}

/// Models write files with here-documents.
#[test]
fn a_line_that_no_shell_can_take_is_refused_with_another_way_to_write_a_file() {
    let mut client = client();
    let directory = tempfile::tempdir().unwrap();
    let text = "0123456789abcdef\n".repeat(20_000);
    let line = format!("cat > file <<'END'\n{text}END\n");
    let refused = client.refused("shell", json!({"command": line, "workdir": directory.path()}));
    let length = format!("`command`: the line has {} bytes", line.len());
    assert!(refused.contains(&length) && refused.contains("`cat > FILE` and `write_stdin`"), "{refused}");
    let started =
        client.call("exec_command", json!({"command": "cat > file", "workdir": directory.path(), "yield_time_ms": 0}));
    let write = json!({"session_id": started["session_id"], "chars": text, "close": true, "yield_time_ms": 60_000});
    assert_eq!(client.call("write_stdin", write)["exit_code"], 0);
    assert_eq!(std::fs::read_to_string(directory.path().join("file")).unwrap(), text);
}

#[test]
fn a_session_yields_takes_input_and_is_reported_once() {
    let mut client = client();
    let line = "echo ready; while read line; do echo got $line; done; echo bye; exit 4";
    let first = client.call("exec_command", json!({"command": line, "yield_time_ms": 0}));
    assert_eq!((&first["exit_code"], client.output_until(&first, "ready\n").as_str()), (&Value::Null, "ready\n"));
    let id = first["session_id"].clone();
    let listed = client.call("sessions", json!({}))["sessions"].clone();
    assert_eq!(
        (&listed[0]["session_id"], &listed[0]["running"], &listed[0]["command"]),
        (&id, &json!(true), &json!(line))
    );
    let poll = |chars: &str, close: bool| {
        // With `close`, the call returns at the end of the command.
        let yield_time_ms = if close { 20_000 } else { 0 };
        json!({"session_id": id, "chars": chars, "close": close, "yield_time_ms": yield_time_ms})
    };
    let second = client.call("write_stdin", poll("one\ntwo\n", false));
    assert_eq!(client.output_until(&second, "got two\n"), "got one\ngot two\n");
    let last = client.call("write_stdin", poll("three\n", true));
    assert_eq!(
        (&last["exit_code"], &last["output"], &last["session_id"]),
        (&json!(4), &json!("got three\nbye\n"), &Value::Null)
    );
    assert!(client.refused("write_stdin", poll("", false)).contains("its end was already reported"));
    assert_eq!(client.call("sessions", json!({}))["sessions"], json!([]));
}

#[test]
fn a_write_that_is_not_read_ends_at_yield_time() {
    let (mut client, mark) = (client(), mark());
    let first = client.call("exec_command", json!({"command": format!("sleep {mark}"), "yield_time_ms": 0}));
    let poll = json!({"session_id": first["session_id"], "chars": "x".repeat(200_000), "yield_time_ms": 100});
    let answer = client.call("write_stdin", poll);
    assert!(answer["note"].as_str().unwrap().contains("of 200000 bytes were written"), "{answer}");
    let killed = client.call("kill", json!({"session_id": first["session_id"]}));
    assert_eq!(killed["exit_code"], 143);
    assert_eq!(process_with(&mark), None);
}

/// A daemon that left the session keeps the read end of its standard input open and reads nothing.
#[test]
fn an_end_is_reported_while_a_write_is_blocked() {
    let (mut client, mark) = (client(), mark());
    let daemon = format!("setsid sh -c 'echo $$; exec sleep {mark} >/dev/null 2>&1' <&0 &");
    let line = format!("{daemon} head -c 1 >/dev/null; exit 3");
    let first = client.call("exec_command", json!({"command": line, "yield_time_ms": 0}));
    let poll = |chars: &str, ms: u64| json!({"session_id": first["session_id"], "chars": chars, "yield_time_ms": ms});
    let mut output = first["output"].as_str().unwrap().to_owned();
    let end = Instant::now() + PATIENCE;
    while !output.ends_with('\n') {
        assert!(Instant::now() < end, "the daemon has not said its number: {output}");
        output += client.call("write_stdin", poll("", 10))["output"].as_str().unwrap();
    }
    let last = client.call("write_stdin", poll(&"x".repeat(200_000), 20_000));
    kill_process(Pid::from_raw(output.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    assert_eq!(last["exit_code"], 3, "{last}");
}

#[test]
fn a_terminal_takes_control_characters() {
    let (mut client, mark) = (client(), mark());
    let line = "test -t 0 && test -t 1 && test -t 2 && stty size; sleep $seconds || echo interrupted";
    let line = format!("trap 'echo caught' INT; seconds={mark}; {line}");
    let first = client.call("exec_command", json!({"command": line, "tty": true, "yield_time_ms": 0}));
    assert_eq!(client.output_until(&first, "\n"), "40 120\r\n");
    // Only `sleep` itself has this text in its command line.
    until_there(&format!("sleep {mark}"));
    let poll = json!({"session_id": first["session_id"], "chars": "\u{3}", "yield_time_ms": 20_000});
    let last = client.call("write_stdin", poll);
    assert_eq!(last["exit_code"], 0, "{last}");
    assert!(last["output"].as_str().unwrap().contains("caught"), "{last}");
    assert_eq!(process_with(&mark), None);
}

/// An interactive shell ignores TERM, and its jobs have their own process groups.
#[test]
fn the_jobs_of_an_interactive_shell_end_with_it() {
    let (mut client, mark) = (client(), mark());
    let first =
        client.call("exec_command", json!({"command": "exec bash --norc -i", "tty": true, "yield_time_ms": 500}));
    let id = first["session_id"].clone();
    let chars = format!("nohup sleep {mark} >/dev/null 2>&1 &\n");
    client.call("write_stdin", json!({"session_id": id, "chars": chars, "yield_time_ms": 500}));
    until_there(&mark);
    client.call("kill", json!({"session_id": id}));
    assert_eq!(process_with(&mark), None);
}

#[test]
fn a_cancelled_call_ends_its_command_and_a_cancelled_poll_does_not() {
    let (mut client, mark, other) = (client(), mark(), mark());
    let id = client.begin("shell", "t", shell(&format!("sleep {mark}")));
    let first = client.call("exec_command", json!({"command": format!("sleep {other}"), "yield_time_ms": 100}));
    until_there(&mark);
    let poll = client.begin("write_stdin", "t", json!({"session_id": first["session_id"], "yield_time_ms": 60_000}));
    for request in [id, poll] {
        client.notify("notifications/cancelled", json!({"requestId": request, "reason": "changed my mind"}));
    }
    until_gone(&mark);
    assert_eq!(client.call("sessions", json!({}))["sessions"][0]["running"], true);
    assert!(process_with(&other).is_some());
}

#[test]
fn the_output_of_a_cancelled_kill_is_there_for_the_next_call() {
    let (mut client, directory) = (client(), tempfile::tempdir().unwrap());
    // A cancellation after the command's end is too late: the output was sent with the answer, which nobody gets.
    let in_time = (0..20).find_map(|attempt| {
        let printed = directory.path().join(attempt.to_string());
        let line = format!("echo kept; echo > {}; sleep 600", printed.display());
        let started = client.call("exec_command", json!({"command": line, "yield_time_ms": 0}));
        until("it has printed", || printed.exists().then_some(()));
        let session = json!({"session_id": started["session_id"]});
        let kill = client.begin("kill", "t", session.clone());
        client.notify("notifications/cancelled", json!({"requestId": kill}));
        let next = client.begin("write_stdin", "t", session);
        let next = client.result(next);
        (next["isError"] == false).then(|| (started, next["structuredContent"].clone()))
    });
    let (started, rest) = in_time.expect("one cancellation of 20 comes in time");
    let output = format!("{}{}", started["output"].as_str().unwrap(), rest["output"].as_str().unwrap());
    assert_eq!((output.as_str(), &rest["exit_code"]), ("kept\n", &json!(143)));
}

#[test]
fn commands_do_not_get_the_files_that_the_server_was_started_with() {
    let server = exec_server([]);
    let mut shell_with_9 = Command::new("sh");
    shell_with_9.args(["-c", "exec \"$@\" 9</dev/null", "sh"]).arg(server.get_program()).args(server.get_args());
    shell_with_9.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir("/");
    let mut client = Client::start(shell_with_9);
    let answer = client.call("shell", shell("exec 8</dev/null; ls /dev/fd/"));
    let descriptors: Vec<_> = answer["output"].as_str().unwrap().lines().collect();
    assert!(descriptors.contains(&"8") && !descriptors.contains(&"9"), "{answer}");
}

/// The server raises its own limit.
#[test]
fn a_command_has_the_limit_of_open_files_that_the_server_was_started_with() {
    let server = exec_server([]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Sn 300; exec \"$@\"", "sh"]).arg(server.get_program()).args(server.get_args());
    limited.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir("/");
    let answer = Client::start(limited).call("shell", shell("ulimit -Sn"));
    assert_eq!(answer["output"], "300\n", "{answer}");
}

#[test]
fn a_command_in_another_directory_finds_a_coordinator_at_a_relative_path() {
    let directory = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}/socket", directory.path().display());
    let _coordinator = Coordinator::start_at(&listen);
    let mut server = exec_server([]);
    server.env("PAUSEWATCH_ADDRESS", "unix:socket").current_dir(directory.path());
    let line = format!("{} get", env!("CARGO_BIN_EXE_pausewatch"));
    let answer = Client::start(server).call("shell", json!({"command": line, "workdir": std::env::temp_dir()}));
    assert_eq!(answer["exit_code"], 0, "{answer}");
}

#[test]
fn no_process_remains_after_end_of_input_or_sigterm() {
    for signal in [None, Some(Signal::TERM), Some(Signal::INT), Some(Signal::HUP)] {
        let (mut client, mark) = (client(), mark());
        let line = format!("trap '' TERM HUP INT; sleep {mark} & sleep {mark} >/dev/null 2>&1");
        client.begin("shell", "t", shell(&line));
        client.call("exec_command", json!({"command": line, "yield_time_ms": 100}));
        client.call("exec_command", json!({"command": line, "tty": true, "yield_time_ms": 100}));
        until_there(&mark);
        let status = match signal {
            None => client.hang_up(),
            Some(signal) => {
                kill_process(Pid::from_raw(client.pid() as i32).unwrap(), signal).unwrap();
                client.ended()
            }
        };
        assert!(status.success(), "{signal:?}: {status}");
        assert_eq!(process_with(&mark), None, "{signal:?}");
    }
}

/// Without the reaper, the sleepers would stay: only their shells die with the server.
#[test]
fn no_process_remains_when_the_server_is_killed() {
    let (mut client, mark) = (client(), mark());
    let line = format!("(trap '' TERM HUP; sleep {mark} >/dev/null 2>&1) & sleep {mark}; true");
    client.begin("shell", "t", shell(&line));
    client.call("exec_command", json!({"command": line, "tty": true, "yield_time_ms": 300}));
    until_there(&mark);
    drop(client);
    until_gone(&mark);
}

/// A command can do this to the reaper where the kernel does not keep its signals in the sandbox.
#[test]
fn a_reaper_that_was_killed_or_stopped_is_replaced() {
    let (mut client, mark) = (client(), mark());
    let line = format!("(trap '' TERM HUP; sleep {mark} >/dev/null 2>&1) & sleep {mark}; true");
    client.call("exec_command", json!({"command": line, "yield_time_ms": 0}));
    until_there(&mark);
    let mut reaper = reaper_of(client.pid(), None);
    for signal in [Signal::KILL, Signal::STOP, Signal::KILL] {
        // On a busy machine, a slow reaper is treated as stopped, and may be gone by now.
        while kill_process(Pid::from_raw(reaper.cast_signed()).unwrap(), signal).is_err() {
            reaper = reaper_of(client.pid(), Some(reaper));
        }
        reaper = reaper_of(client.pid(), Some(reaper));
        assert!(process_with(&mark).is_some(), "the end of the old reaper ends no command");
    }
    let last = format!("9{mark}");
    client.call("exec_command", json!({"command": line.replace(&mark, &last), "yield_time_ms": 0}));
    until_there(&last);
    drop(client);
    until_gone(&mark);
}

/// The reaper of a server, once it differs from `before`.
fn reaper_of(server: u32, before: Option<u32>) -> u32 {
    let end = Instant::now() + PATIENCE;
    loop {
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
        let is_reaper = |pid: &u32| {
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            Some(*pid) != before && line.split('\0').nth(1) == Some("exec-reaper")
        };
        if let Some(reaper) = children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(is_reaper) {
            return reaper;
        }
        assert!(Instant::now() < end, "no reaper but {before:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn requests_before_the_end_of_input_get_responses() {
    let mut client = client();
    let directory = tempfile::tempdir().unwrap();
    let line = "touch started; sleep 0.1; echo done";
    let id = client.begin("shell", "t", json!({"command": line, "workdir": directory.path()}));
    until("it has started", || directory.path().join("started").exists().then_some(()));
    client.close();
    assert_eq!(client.answer(id)["output"], "done\n");
}

#[test]
fn the_number_of_commands_is_limited_and_unreported_ends_are_evicted() {
    let (mut client, mark) = (Client::start(exec_server(["--max-commands", "2"])), mark());
    let hang = json!({"command": format!("sleep {mark}"), "yield_time_ms": 0});
    let first = client.call("exec_command", hang.clone());
    client.call("exec_command", hang.clone());
    let said = client.refused("exec_command", hang.clone());
    assert!(said.contains("the limit of 2 running commands") && said.contains("`kill`"), "{said}");
    client.call("kill", json!({"session_id": first["session_id"]}));
    let directory = tempfile::tempdir().unwrap();
    let line = "until test -e go; do sleep 0.05; done";
    let ends = json!({"command": line, "workdir": directory.path(), "yield_time_ms": 0});
    let ends = client.call("exec_command", ends);
    let id = ends["session_id"].as_str().expect("it is running");
    std::fs::write(directory.path().join("go"), "").unwrap();
    // Until the command has ended, which is not reported.
    let end = Instant::now() + PATIENCE;
    while client.call("sessions", json!({}))["sessions"][1]["running"] == true {
        assert!(Instant::now() < end, "the command is still running");
    }
    client.call("exec_command", hang);
    assert!(client.refused("write_stdin", json!({"session_id": id})).contains("no session"));
}

#[test]
fn an_unused_session_ends_at_the_idle_timeout() {
    let (mut client, mark) = (Client::start(exec_server(["--idle-timeout", "300ms"])), mark());
    let first = client.call("exec_command", json!({"command": format!("sleep {mark}"), "yield_time_ms": 500}));
    assert!(first["session_id"].is_string(), "the session is in use while its command is awaited");
    until_gone(&mark);
}

#[test]
fn zero_means_no_limit() {
    let mut client = Client::start(exec_server(["--timeout", "0", "--idle-timeout", "0"]));
    let answer = client.call("shell", shell("sleep 0.1; echo done"));
    assert_eq!((&answer["exit_code"], &answer["output"]), (&json!(0), &json!("done\n")), "{answer}");
    let first = client.call("exec_command", json!({"command": "read line; echo got $line", "yield_time_ms": 100}));
    let poll = json!({"session_id": first["session_id"], "chars": "it\n", "yield_time_ms": 20_000});
    let last = client.call("write_stdin", poll);
    assert_eq!((&last["exit_code"], &last["output"]), (&json!(0), &json!("got it\n")), "{last}");
}

#[test]
fn callers_and_threads_are_isolated() {
    let mut client = client();
    let line = "echo $PAUSEWATCH_THREAD_ID";
    assert_eq!(client.call("shell", shell(line))["output"], "t\n");
    let mut unnamed = || {
        let id = client.request("tools/call", json!({"name": "shell", "arguments": shell(line)}));
        client.answer(id)["output"].as_str().unwrap().to_owned()
    };
    let own = unnamed();
    assert_eq!(own.trim().len(), 36, "one thread for the session: {own}");
    assert_eq!(unnamed(), own);
    let mut named = Client::start(exec_server(["--thread-id", "named"]));
    let id = named.request("tools/call", json!({"name": "shell", "arguments": shell(line)}));
    assert_eq!(named.answer(id)["output"], "named\n");
}

/// G8. Also with a configured coordinator, if there is a key to sign tokens.
#[test]
fn a_command_can_pause_only_its_own_thread() {
    let program = env!("CARGO_BIN_EXE_pausewatch");
    let directory = tempfile::tempdir().unwrap();
    let [private, public] = ["key.pem", "key.pem.pub"].map(|name| directory.path().join(name));
    let made = ended(crate::program::program().args(["token", "key"]).arg(&private));
    assert_eq!(made.code, Some(0), "{made:?}");
    let keys = ["--listen", "127.0.0.1:0", "--store", "memory", "--jwt-keys", public.to_str().unwrap()];
    let coordinator = Coordinator::start_with(keys);
    let mut configured = exec_server([]);
    configured.env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_TOKEN_KEY", &private);
    for command in [exec_server([]), configured] {
        let mut client = Client::start(command);
        let line = format!(
            "{program} hold --require -- sleep 0.5 || exit 9; \
             {program} get --thread-id other && exit 8; echo key: $PAUSEWATCH_TOKEN_KEY"
        );
        let answer = client.call("shell", json!({"command": line, "workdir": "/", "timeout_ms": 20_000}));
        let output = answer["output"].as_str().unwrap();
        assert_eq!(answer["exit_code"], 0, "{answer}");
        assert!(output.contains("PERMISSION_DENIED") && output.ends_with("key:\n"), "{output}");
        assert!(milliseconds(&answer, "paused_ms") >= 490, "{answer}");
    }
}
