//! The clocks of a thread's commands stop while the thread is paused; those of other threads continue.
use super::client::{Client, exec_server, process_with};
use super::nested::until;
use crate::program::Coordinator;
use crate::support::skipped;
use serde_json::{Value, json};
use std::{
    process::Command,
    time::{Duration, Instant},
};

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_pausewatch")
}

fn shell(command: &str, timeout_ms: u64) -> Value {
    json!({"command": command, "workdir": "/", "timeout_ms": timeout_ms})
}

fn milliseconds(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap_or_else(|| panic!("{field} of {answer}"))
}

/// The main case, with each of the tools that can hold: a pause of 12 s in a command with a limit of 8 s, of which the
/// tool may need some time to start on a busy machine. Meanwhile, the hung command of another thread is killed.
fn story(client: &mut Client, tool: &str) {
    let mark = format!("7{:08}.5", fastrand::u32(..100_000_000));
    let sibling = client.begin("shell", "sibling", shell(&format!("sleep {mark}"), 8_000));
    let asking = client.begin("shell", "asking", shell(&format!("echo before; {tool}; echo after"), 8_000));
    let hung = client.answer(sibling);
    assert!(!client.has_answered(asking), "the hung command was killed only after the pause of the other thread");
    assert_eq!((&hung["timed_out"], &hung["exit_code"], &hung["paused_ms"]), (&json!(true), &json!(124), &json!(0)));
    assert_eq!(process_with(&mark), None);
    let answer = client.answer(asking);
    assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(0), &json!(false)), "{answer}");
    let output = answer["output"].as_str().unwrap();
    assert!(output.starts_with("before\n") && output.ends_with("after\n"), "{output}");
    let of = |field| milliseconds(&answer, field);
    assert!(of("wall_ms") >= 12_000 && of("active_ms") < 8_000, "{answer}");
    assert_eq!(of("wall_ms"), of("active_ms") + of("paused_ms"));
}

/// G1, G3.
#[test]
fn a_hold_fits_into_a_shorter_limit() {
    story(&mut Client::start(exec_server([])), &format!("{} hold --reason why -- sleep 12", program()));
}

/// G1, G3.
#[test]
fn a_pause_by_grpcurl_fits_into_a_shorter_limit() {
    if Command::new("grpcurl").arg("-version").output().is_err() {
        return skipped("grpcurl", "it is not on PATH");
    }
    let call = |method: &str| {
        format!(
            "grpcurl -plaintext -d '{{\"thread_id\": \"'$PAUSEWATCH_THREAD_ID'\"}}' $PAUSEWATCH_ADDRESS \
             pausewatch.v1.ElicitationService/{method} >/dev/null || exit 9"
        )
    };
    // Over TCP, because grpcurl needs another option for Unix sockets.
    let coordinator = Coordinator::start();
    let mut command = exec_server([]);
    command.env("PAUSEWATCH_ADDRESS", &coordinator.address);
    let asks = format!("{}; sleep 12; {}", call("IncrementElicitation"), call("DecrementElicitation"));
    story(&mut Client::start(command), &asks);
}

/// G1, G3.
#[test]
fn a_hold_of_the_python_client_fits_into_a_shorter_limit() {
    let clients = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/python");
    let python = format!("{clients}/.venv/bin/python");
    if !std::path::Path::new(&python).exists() {
        return skipped("python-client", format!("{python} is missing; clients/python/install creates it"));
    }
    let asks =
        format!("PYTHONPATH={clients}/src {python} {clients}/examples/approve.py --answer-after 12 'Push?' || exit 9");
    story(&mut Client::start(exec_server([])), &asks);
}

/// In the first call, which has 5 s to notice the pause, and in a poll.
#[test]
fn yield_time_does_not_run_while_paused() {
    let coordinator = Coordinator::start();
    let mut command = exec_server([]);
    command.env("PAUSEWATCH_ADDRESS", &coordinator.address);
    let mut client = Client::start(command);
    coordinator.answer(["increment"]);
    let line = "echo first; read x; echo second; sleep 600";
    let id = client.begin("exec_command", "t", json!({"command": line, "yield_time_ms": 5_000}));
    // Real time is tested: it passes, and the call must not return.
    std::thread::sleep(Duration::from_secs(8));
    assert!(!client.has_answered(id), "yielded while the person was asked");
    coordinator.answer(["decrement"]);
    let first = client.answer(id);
    let of = |answer, field| milliseconds(answer, field);
    assert!(of(&first, "active_ms") >= 4_900 && of(&first, "paused_ms") > 1_000, "{first}");
    assert_eq!(first["exit_code"], Value::Null);
    assert_eq!(client.output_until(&first, "first\n"), "first\n");

    coordinator.answer(["increment"]);
    let is_paused = |client: &mut Client| client.call("sessions", json!({}))["sessions"][0]["paused"] == true;
    until("the server notices the pause", || is_paused(&mut client).then_some(()));
    let poll = json!({"session_id": first["session_id"], "chars": "go\n", "yield_time_ms": 2_000});
    let id = client.begin("write_stdin", "t", poll);
    std::thread::sleep(Duration::from_secs(4));
    assert!(!client.has_answered(id), "yielded while the person was asked");
    coordinator.answer(["decrement"]);
    let second = client.answer(id);
    assert!(of(&second, "active_ms") >= of(&first, "active_ms") + 1_900, "{first} {second}");
    assert!(of(&second, "paused_ms") > of(&first, "paused_ms"), "{first} {second}");
    assert_eq!(second["exit_code"], Value::Null);
    assert_eq!(client.output_until(&second, "second\n"), "second\n");
}

#[test]
fn a_command_that_ends_while_paused_is_reported_at_once() {
    let coordinator = Coordinator::start();
    let mut command = exec_server([]);
    command.env("PAUSEWATCH_ADDRESS", &coordinator.address);
    let mut client = Client::start(command);
    coordinator.answer(["increment"]);
    let started = Instant::now();
    let ends = client.call("exec_command", json!({"command": "sleep 6; echo ended", "yield_time_ms": 5_000}));
    assert_eq!(
        (&ends["output"], &ends["exit_code"]),
        (&json!("ended\n"), &json!(0)),
        "it does not yield while it is paused"
    );
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(milliseconds(&ends, "active_ms") < 5_000 && milliseconds(&ends, "paused_ms") >= 1_000, "{ends}");
    let shell = client.call("shell", shell("sleep 0.5; echo ended", 100));
    assert_eq!((&shell["output"], &shell["timed_out"]), (&json!("ended\n"), &json!(false)), "{shell}");
}

#[test]
fn a_pause_does_not_change_the_remaining_time() {
    let coordinator = Coordinator::start();
    let mut command = exec_server([]);
    command.env("PAUSEWATCH_ADDRESS", &coordinator.address);
    let mut client = Client::start(command);
    let line = format!("sleep 5; {} hold -- sleep 2; sleep 60", program());
    let answer = client.call("shell", shell(&line, 12_000));
    assert_eq!(answer["timed_out"], true);
    let (active, paused) = (milliseconds(&answer, "active_ms"), milliseconds(&answer, "paused_ms"));
    assert!((12_000..17_000).contains(&active) && paused > 0, "killed after 12 s of active time: {answer}");
}

/// A command that ends when the file `go` is in its directory.
const UNTIL_GO: &str = "sh -c 'until test -e go; do sleep 0.05; done'";

/// Only to a client that sent a progress token, and only while a person is being asked.
#[test]
fn progress_is_sent_while_paused() {
    let mut client = Client::start(exec_server([]));
    let directory = tempfile::tempdir().unwrap();
    let hold = format!("{} hold -- {UNTIL_GO}", program());
    let asking = json!({"command": format!("sleep 0.5; {hold}"), "workdir": directory.path(), "timeout_ms": 60_000});
    let id = client.begin("shell", "t", asking);
    let quiet = client.begin("shell", "other", shell("sleep 2", 60_000));
    let meta = json!({"pausewatch/threadId": "without a token"});
    let asking = json!({"command": hold, "workdir": directory.path(), "timeout_ms": 60_000});
    let without = client.request("tools/call", json!({"name": "shell", "arguments": asking, "_meta": meta}));
    let first = client.wait_for("progress", |message| message["method"] == "notifications/progress");
    assert!(first["params"]["message"].as_str().unwrap().starts_with("a person is being asked"), "{first}");
    assert_eq!(first["params"]["progressToken"], format!("token {id}"));
    let second = client.wait_for("progress", |message| message["method"] == "notifications/progress");
    assert_eq!(second["params"]["progressToken"], format!("token {id}"));
    assert!(second["params"]["progress"].as_f64() > first["params"]["progress"].as_f64(), "{first} {second}");
    std::fs::write(directory.path().join("go"), "").unwrap();
    for call in [quiet, id, without] {
        assert_eq!(client.answer(call)["exit_code"], 0);
    }
    let told = client.come("notifications/progress");
    assert!(told.iter().all(|message| message["params"]["progressToken"] == format!("token {id}")), "{told:?}");
}

/// As MCP requires, also if first the server and then the command asks the person.
#[test]
fn progress_values_rise_within_a_call() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("default.rules");
    std::fs::write(&rules, "prefix_rule(pattern = ['touch'], decision = 'prompt')").unwrap();
    let mut client = Client::start(exec_server(["--rules", rules.to_str().unwrap()]));
    let line = format!("touch made; {} hold --require -- {UNTIL_GO}", program());
    let id = client.begin("shell", "t", json!({"command": line, "workdir": directory.path()}));
    let asked = client.wait_for("question", |message| message["method"] == "elicitation/create");
    let next = |client: &mut Client| {
        let told = client.wait_for("progress", |message| message["method"] == "notifications/progress");
        told["params"]["progress"].as_f64().unwrap()
    };
    let (first, second) = (next(&mut client), next(&mut client));
    client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
    let third = next(&mut client);
    std::fs::write(directory.path().join("go"), "").unwrap();
    assert_eq!(client.answer(id)["exit_code"], 0);
    assert!(first < second && second < third, "{first} {second} {third}");
}

/// A configured coordinator that has gone: limits apply, plus the grace period.
#[test]
fn limits_hold_without_the_coordinator() {
    let mut command = exec_server(["--disconnect-grace", "500ms"]);
    command.env("PAUSEWATCH_ADDRESS", "127.0.0.1:1");
    let answer = Client::start(command).call("shell", shell("sleep 60", 200));
    assert_eq!(answer["timed_out"], true);
    assert!(milliseconds(&answer, "wall_ms") < 60_000, "{answer}");
}

/// A yield ends no command, so it needs no confirmed state.
#[test]
fn the_yield_deadline_does_not_wait_for_an_unreachable_coordinator() {
    let mut command = exec_server(["--disconnect-grace", "10m"]);
    command.env("PAUSEWATCH_ADDRESS", "127.0.0.1:1");
    let mut client = Client::start(command);
    let started = client.call("exec_command", json!({"command": "sleep 600", "yield_time_ms": 100}));
    let session = json!({"session_id": started["session_id"], "chars": "x".repeat(200_000), "yield_time_ms": 100});
    let polled = client.call("write_stdin", session);
    assert!(polled["session_id"].is_string() && milliseconds(&polled, "wall_ms") < 60_000, "{polled}");
}
