//! The questions about programs of a running command: their content, the call that asks them, and how long they take.
use super::{Judged, text, until_settled};
use crate::exec_server::client::Client;
use crate::support::PATIENCE;
use serde_json::{Value, json};
use std::{
    fs,
    time::{Duration, Instant},
};

fn accept(judged: &mut Judged, asked: &Value) {
    judged.client.respond(asked, json!({"action": "accept", "content": {"run": "yes"}}));
}

#[test]
fn only_the_program_in_question_waits_and_the_time_does_not_count() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script("task", "#!/bin/sh\ntouch made; echo $?; touch made; echo $?\n");
    judged.script("other", "#!/bin/sh\nwhile ! [ -e made ]; do echo x >> ran; done\n");
    let id = judged.client.begin(
        "shell",
        "t",
        json!({"command": "./other & ./task; wait", "workdir": judged.directory.path(), "timeout_ms": 10_000}),
    );
    let asked = judged.question();
    let message = text(&asked["params"], "message");
    let directory = judged.directory.path().canonicalize().unwrap();
    for part in [
        "Run this program?\n\n    ",
        "touch made\n",
        directory.to_str().unwrap(),
        "it is only a test",
        "A program executes it in this command:\n\n    ./other & ./task; wait",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let before = fs::metadata(judged.path("ran")).map_or(0, |data| data.len());
    // Longer than the command's limit.
    let end = Instant::now() + Duration::from_secs(11);
    while Instant::now() < end || fs::metadata(judged.path("ran")).map_or(0, |data| data.len()) <= before + 100 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!judged.path("made").exists());
    accept(&mut judged, &asked);
    let answer = judged.client.answer(id);
    // The second time, there is no question.
    assert_eq!((&answer["output"], &answer["timed_out"]), (&json!("0\n0\n"), &json!(false)), "{answer}");
    assert!(answer["paused_ms"].as_u64() >= Some(10_900), "{answer}");
    assert!(!judged.client.come("notifications/progress").is_empty(), "the caller got progress notifications");
}

/// Their texts in the question are the same.
#[test]
fn names_that_are_not_utf_8_are_each_asked_about() {
    let Some(mut judged) = Judged::start() else { return };
    let id = judged.begin("touch \"$(printf 'a\\377')\"; echo $?; touch \"$(printf 'a\\376')\"; echo $?");
    for action in [json!({"action": "accept", "content": {"run": "yes"}}), json!({"action": "decline"})] {
        let asked = judged.question();
        judged.client.respond(&asked, action);
    }
    let answer = judged.client.answer(id);
    assert!(text(&answer, "output").starts_with("0\n") && !text(&answer, "output").ends_with("0\n0\n"), "{answer}");
}

#[test]
fn a_decline_is_remembered_until_the_command_ends() {
    let Some(mut judged) = Judged::start() else { return };
    for _ in 0..2 {
        let id = judged.begin("touch made; echo $?; touch made; echo $?; touch other; echo $?");
        let asked = judged.question();
        judged.client.respond(&asked, json!({"action": "decline"}));
        let other = judged.question();
        assert!(text(&other["params"], "message").contains("touch other\n"));
        accept(&mut judged, &other);
        let answer = judged.client.answer(id);
        let output = text(&answer, "output");
        assert_eq!(output.matches("denied: ").count(), 2, "{answer}");
        assert!(output.contains("1\npausewatch:") && output.ends_with("1\n0\n"), "{answer}");
        assert!(!judged.path("made").exists() && judged.path("other").exists());
    }
}

/// Nobody has said no.
#[test]
fn after_a_question_that_failed_or_was_cancelled_the_next_one_is_asked() {
    let Some(mut judged) = Judged::start() else { return };
    let id = judged.begin("for i in 1 2 3 4; do touch made; echo $?; done");
    let asked = judged.question();
    judged.client.respond_with_error(&asked, -32_603);
    let asked = judged.question();
    judged.client.respond(&asked, json!({"action": "cancel"}));
    let asked = judged.question();
    accept(&mut judged, &asked);
    let answer = judged.client.answer(id);
    let output = text(&answer, "output");
    assert!(output.contains("the question was not answered") && output.contains("cancelled"), "{answer}");
    assert!(output.ends_with("1\n0\n0\n"), "the yes is remembered: {answer}");
}

#[test]
fn a_yes_holds_for_one_environment_only() {
    let Some(mut judged) = Judged::start() else { return };
    let id = judged.begin(
        "touch made; echo $?; touch made; echo $?; BASH_ENV=x touch made; echo $?; BASH_ENV=x touch made; echo $?
         BASH_ENV=y touch made; echo $?",
    );
    for variable in [None, Some("BASH_ENV"), Some("BASH_ENV")] {
        let asked = judged.question();
        let message = text(&asked["params"], "message");
        let with = variable.map_or_else(String::new, |name| format!("\nwith changed environment variables: {name}"));
        let directory = judged.directory.path().canonicalize().unwrap();
        assert!(message.contains(&format!("\nin {}{with}\n\n", directory.display())), "{message}");
        accept(&mut judged, &asked);
    }
    let answer = judged.client.answer(id);
    assert_eq!(answer["output"], "0\n0\n0\n0\n0\n", "{answer}");
}

/// The file belongs to the project, so the command can change it after the yes.
#[test]
fn a_yes_holds_for_one_content_of_the_file_only() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script("sleep", "#!/bin/sh\necho one\n");
    until_settled(&judged.path("sleep"));
    let id = judged.begin("./sleep; ./sleep; echo echo two >> sleep; ./sleep; echo $?");
    let asked = judged.question();
    accept(&mut judged, &asked);
    let changed = judged.question();
    judged.client.respond(&changed, json!({"action": "accept", "content": {"run": "no"}}));
    let answer = judged.client.answer(id);
    let output = text(&answer, "output");
    assert!(output.starts_with("one\none\npausewatch: denied") && output.ends_with("1\n"), "{answer}");
}

#[test]
fn a_yes_holds_for_one_content_of_the_interpreter_only() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script("runs", "#!/bin/sh\necho one\n");
    let interpreter = judged.path("runs");
    judged.script("sleep", &format!("#!{}\n", interpreter.display()));
    until_settled(&judged.path("sleep"));
    let id = judged.begin("./sleep; ./sleep; echo echo two >> runs; ./sleep; echo $?");
    let asked = judged.question();
    accept(&mut judged, &asked);
    let changed = judged.question();
    judged.client.respond(&changed, json!({"action": "accept", "content": {"run": "no"}}));
    let answer = judged.client.answer(id);
    let output = text(&answer, "output");
    assert!(output.starts_with("one\none\npausewatch: denied") && output.ends_with("1\n"), "{answer}");
}

/// G2: the clock of the command goes on.
#[test]
fn a_question_that_nobody_answers_ends_after_max_pause() {
    let Some(mut judged) = Judged::with(Client::start, &["--max-pause", "1s"]) else { return };
    let id = judged.begin("touch made; echo $?; exec tail -f /dev/null");
    let asked = judged.question();
    let is_cancel = |message: &Value| {
        message["method"] == "notifications/cancelled" && message["params"]["requestId"] == asked["id"]
    };
    judged.client.wait_for("cancellation", is_cancel);
    judged.client.notify("notifications/cancelled", json!({"requestId": id}));
    // A command with a limit reaches it, although the question of its program was never answered.
    judged.script("task", "#!/bin/sh\ntouch made; echo $?; exec tail -f /dev/null\n");
    let arguments = json!({"command": "./task", "workdir": judged.directory.path(), "timeout_ms": 5_000});
    let id = judged.client.begin("shell", "t", arguments);
    let answer = judged.client.answer(id);
    assert!(text(&answer, "output").contains("nobody answered the question within --max-pause"), "{answer}");
    assert!(text(&answer, "note").contains("nobody answered the question within --max-pause"), "{answer}");
    assert_eq!(answer["timed_out"], true, "{answer}");
    assert!(answer["paused_ms"].as_u64() >= Some(900), "{answer}");
    assert!(!judged.path("made").exists());
}

#[test]
fn in_the_newer_protocol_a_question_that_nobody_answers_ends_after_max_pause() {
    let client = |server| Client::with(server, "2026-07-28", json!({"elicitation": {"form": {}}}));
    let Some(mut judged) = Judged::with(client, &["--max-pause", "1s"]) else { return };
    judged.script("task", "#!/bin/sh\ntouch made; echo $? > status; exit 5\n");
    let arguments = json!({"command": "./task", "workdir": judged.directory.path(), "timeout_ms": 60_000});
    let asked = once(&mut judged, "shell", &arguments, json!({}));
    let end = Instant::now() + PATIENCE;
    while !judged.path("status").exists() {
        assert!(Instant::now() < end, "the program still waits");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The late yes has no effect any more.
    let answer = once(&mut judged, "shell", &arguments, reply(&asked, "accept"));
    let outcome = &answer["structuredContent"];
    assert!(text(outcome, "note").contains("nobody answered the question within --max-pause"), "{answer}");
    assert_eq!(outcome["exit_code"], 5, "{answer}");
    assert!(!judged.path("made").exists());
}

#[test]
fn two_programs_of_one_command_can_wait_at_once() {
    let Some(mut judged) = Judged::start() else { return };
    let id = judged.begin("touch one & touch two & wait; ls one two");
    for _ in 0..2 {
        let asked = judged.question();
        accept(&mut judged, &asked);
    }
    let answer = judged.client.answer(id);
    assert_eq!(answer["output"], "one\ntwo\n", "{answer}");
}

#[test]
fn the_question_is_withdrawn_when_the_program_that_waits_is_ended() {
    let Some(mut judged) = Judged::start() else { return };
    for how in ["timeout 10 touch made", "touch made & sleep_=$!; sh -c 'read x < go'; kill -KILL $!; wait $!"] {
        let go = judged.path("go");
        let _ = fs::remove_file(&go);
        rustix::fs::mknodat(rustix::fs::CWD, &go, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let id = judged.begin(how);
        let asked = judged.question();
        if how.contains("KILL") {
            fs::write(&go, "x\n").unwrap();
        }
        let is_cancel = |message: &Value| {
            message["method"] == "notifications/cancelled" && message["params"]["requestId"] == asked["id"]
        };
        judged.client.wait_for("cancellation", is_cancel);
        judged.client.answer(id);
        assert!(!judged.path("made").exists(), "{how}");
    }
}

#[test]
fn between_two_calls_a_question_waits_for_the_next_one() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script("task", "#!/bin/sh\nread line; touch made; echo $?; read line\n");
    let arguments = json!({"command": "./task", "workdir": judged.directory.path(), "yield_time_ms": 1});
    let started = judged.client.call("exec_command", arguments);
    let session = text(&started, "session_id").to_owned();
    let write = |chars: &str, yield_time_ms: u64| json!({"session_id": session, "chars": chars, "yield_time_ms": yield_time_ms});
    // The command asks after this call has returned, or during it.
    let id = judged.client.begin("write_stdin", "t", write("x\n", 1));
    let (mut paused, end) = (false, Instant::now() + PATIENCE);
    let asked = loop {
        judged.client.has_answered(id);
        if let Some(asked) = judged.client.come("elicitation/create").pop() {
            break Some(asked);
        }
        if judged.client.has_answered(id) {
            if paused {
                break None;
            }
            let sessions = judged.client.call("sessions", json!({}));
            paused = sessions["sessions"][0]["paused"] == true;
        }
        assert!(Instant::now() < end, "there is no question");
    };
    let (id, asked) = match asked {
        Some(asked) => (id, asked),
        None => {
            judged.client.answer(id);
            let id = judged.client.begin("write_stdin", "t", write("", 2_000));
            (id, judged.question())
        }
    };
    assert!(!judged.path("made").exists());
    accept(&mut judged, &asked);
    let mut output = text(&judged.client.answer(id), "output").to_owned();
    if output.is_empty() {
        let answer = judged.client.call("write_stdin", write("", 2_000));
        output = text(&answer, "output").to_owned();
    }
    assert_eq!(output, "0\n");
    assert!(judged.path("made").exists());
    judged.client.call("kill", json!({"session_id": session}));
}

/// A call of 2026-07-28, which may be answered with a question.
fn once(judged: &mut Judged, tool: &str, arguments: &Value, more: Value) -> Value {
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": {"threadId": "t"}});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    let id = judged.client.request("tools/call", params);
    judged.client.result(id)
}

/// The parameters that answer `asked`.
fn reply(asked: &Value, action: &str) -> Value {
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let message = &asked["inputRequests"]["approval"]["params"]["message"];
    assert!(message.as_str().unwrap().contains("Run this program?"), "{message}");
    json!({"requestState": asked["requestState"], "inputResponses": {"approval": {"action": action, "content": {"run": "yes"}}}})
}

fn newer() -> Option<Judged> {
    Judged::with(|server| Client::with(server, "2026-07-28", json!({"elicitation": {"form": {}}})), &[])
}

/// The directory that the call names matters only for a command that has not started.
#[test]
fn a_command_that_has_removed_its_directory_is_found_again_with_the_answer() {
    let Some(mut judged) = newer() else { return };
    for tool in ["shell", "exec_command"] {
        let directory = judged.path("gone");
        std::fs::create_dir(&directory).unwrap();
        let line = "rmdir \"$PWD\"; cd ..; touch made; echo $?; exit 5";
        judged.script("task", &format!("#!/bin/sh\n{line}\n"));
        let arguments = json!({"command": "../task", "workdir": directory, "timeout_ms": 60_000});
        let asked = once(&mut judged, tool, &arguments, json!({}));
        assert!(!directory.exists());
        let answer = once(&mut judged, tool, &arguments, reply(&asked, "accept"));
        let answer = &answer["structuredContent"];
        assert_eq!((&answer["exit_code"], &answer["output"]), (&5.into(), &"0\n".into()), "{tool}: {answer}");
        std::fs::remove_file(judged.path("made")).unwrap();
    }
}

#[test]
fn in_the_newer_protocol_the_command_hangs_until_the_call_is_repeated_with_the_answer() {
    let Some(mut judged) = newer() else { return };
    judged.script("task", "#!/bin/sh\necho x >> started; touch one; echo $?; touch two; echo $?; exit 5\n");
    for tool in ["shell", "exec_command"] {
        let arguments = json!({"command": "./task", "workdir": judged.directory.path(), "timeout_ms": 60_000});
        let asked = once(&mut judged, tool, &arguments, json!({}));
        let first = reply(&asked, "accept");
        std::thread::sleep(Duration::from_secs(2));
        let other = json!({"command": "./task ", "workdir": judged.directory.path(), "timeout_ms": 60_000});
        let forged = once(&mut judged, tool, &other, first.clone());
        assert_eq!(forged["isError"], true, "an answer for another command is refused: {forged}");
        let asked = once(&mut judged, tool, &arguments, first);
        let second = reply(&asked, "decline");
        let answer = once(&mut judged, tool, &arguments, second.clone());
        let outcome = &answer["structuredContent"];
        assert_eq!(outcome["exit_code"], 5, "{answer}");
        let output = text(outcome, "output");
        assert!(
            output.starts_with("0\npausewatch: denied: ") && output.contains("declined") && output.ends_with("1\n"),
            "{answer}"
        );
        assert!(outcome["paused_ms"].as_u64() >= Some(1_900), "{answer}");
        assert!(judged.path("one").exists() && !judged.path("two").exists());
        let again = once(&mut judged, tool, &arguments, second);
        assert_eq!(again["isError"], true, "an answer works only once: {again}");
        assert_eq!(fs::read_to_string(judged.path("started")).unwrap(), "x\n", "it ran once");
        fs::remove_file(judged.path("started")).unwrap();
        fs::remove_file(judged.path("one")).unwrap();
    }
}

#[test]
fn in_the_newer_protocol_a_repeated_write_does_not_write_again() {
    let Some(mut judged) = newer() else { return };
    judged.script("task", "#!/bin/sh\nread a; touch made; echo \"$? $a\"; read b; echo \"$b\"\n");
    let arguments = json!({"command": "./task", "workdir": judged.directory.path(), "yield_time_ms": 1});
    let started = once(&mut judged, "exec_command", &arguments, json!({}));
    let session = text(&started["structuredContent"], "session_id").to_owned();
    let write = json!({"session_id": session, "chars": "one\n", "yield_time_ms": 20_000, "close": true});
    let asked = once(&mut judged, "write_stdin", &write, json!({}));
    let answer = once(&mut judged, "write_stdin", &write, reply(&asked, "accept"));
    let outcome = &answer["structuredContent"];
    assert_eq!((&outcome["output"], &outcome["exit_code"]), (&json!("0 one\n\n"), &json!(0)), "{answer}");
}

#[test]
fn when_unable_decides_for_clients_that_cannot_ask() {
    for (when, output) in [("deny", "1\n"), ("run", "0\n"), ("escalate", "0\n")] {
        let client = |server| Client::with(server, "2025-06-18", json!({}));
        let Some(mut judged) = Judged::with(client, &["--when-unable", when]) else { return };
        let answer = judged.run("touch made; echo $?");
        assert!(text(&answer, "output").ends_with(output), "{when}: {answer}");
        assert_eq!(judged.path("made").exists(), when != "deny", "{when}");
        if when == "deny" {
            assert!(text(&answer, "output").contains("no person could be asked"), "{answer}");
        }
    }
}
