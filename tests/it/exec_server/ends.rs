//! What a command leaves for its caller when it has ended.
use super::client::{Client, exec_server};
use super::nested::until;
use serde_json::{Value, json};
use std::path::Path;

/// Starts a session, and waits until its command has made the file `ready`.
fn start(client: &mut Client, line: &str, directory: &Path) -> Value {
    let arguments = json!({"command": line, "workdir": directory, "yield_time_ms": 0});
    let started = client.call("exec_command", arguments);
    until("the command is ready", || directory.join("ready").exists().then_some(()));
    json!({"session_id": started["session_id"]})
}

/// Waits until the commands of all sessions have ended.
fn until_ended(client: &mut Client) {
    until("the command has ended", || {
        let sessions = client.call("sessions", json!({}));
        sessions["sessions"].as_array().unwrap().iter().all(|session| session["running"] == false).then_some(())
    });
}

#[test]
fn after_a_cancelled_kill_the_next_call_gets_the_result() {
    let mut client = Client::start(exec_server([]));
    let line = "trap 'sleep 1; echo cleaned up; exit 3' TERM; touch ready; while :; do sleep 0.05; done";
    // On a busy machine the cancellation may come after the end, or the command may not clean up in its 2 s.
    let result = (0..10).find_map(|_| {
        let directory = tempfile::tempdir().unwrap();
        let session = start(&mut client, line, directory.path());
        let kill = client.begin("kill", "t", session.clone());
        client.notify("notifications/cancelled", json!({"requestId": kill}));
        until_ended(&mut client);
        let rest = client.begin("write_stdin", "t", session);
        let rest = client.result(rest)["structuredContent"].clone();
        (rest["exit_code"] == 3).then_some(rest)
    });
    let output = result.expect("one of 10 cancellations comes in time")["output"].clone();
    assert!(output.as_str().unwrap().ends_with("cleaned up\n"), "{output}");
}

#[test]
fn the_result_of_an_unused_session_is_kept_for_the_idle_timeout() {
    let mut client = Client::start(exec_server(["--idle-timeout", "5s"]));
    let directory = tempfile::tempdir().unwrap();
    let session = start(&mut client, "echo kept; touch ready; sleep 600", directory.path());
    until_ended(&mut client);
    let rest = client.call("write_stdin", session.clone());
    assert_eq!((&rest["output"], &rest["exit_code"]), (&json!("kept\n"), &json!(143)), "{rest}");
    let note = rest["note"].as_str().expect("why it has ended");
    assert!(note.contains("no call used it for too long"), "{rest}");
    assert!(client.refused("write_stdin", session).contains("its end was already reported"));
}

/// Several processes write as fast as they can.
#[test]
fn a_flood_of_output_does_not_delay_the_limit() {
    let mut client = Client::start(exec_server([]));
    let line = "for i in 1 2 3 4 5 6; do yes & done; wait";
    let answer = client.call("shell", json!({"command": line, "workdir": "/", "timeout_ms": 1_000}));
    assert_eq!((&answer["timed_out"], &answer["exit_code"]), (&json!(true), &json!(124)));
    assert!(answer["wall_ms"].as_u64() < Some(30_000), "{} ms", answer["wall_ms"]);
}
