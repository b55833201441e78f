//! Commands that the rules forbid, leave to a person, or allow outside the sandbox.
use super::client::{Client, exec_server, path_of_the_system, process_with, until_gone};
use crate::program::ended;
use crate::support::skipped;
use pausewatch::test_support::sandbox::Sandbox;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const RULES: &str = r#"
prefix_rule(pattern = ["git", "status"], decision = "prompt", justification = "it is only a test")
prefix_rule(pattern = ["touch"], decision = "prompt")
prefix_rule(pattern = ["rm"], decision = "forbidden", justification = "use trash")
prefix_rule(pattern = ["ls"], decision = "allow")
prefix_rule(pattern = ["cp"], decision = "allow")
"#;

fn rules() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("default.rules");
    fs::write(&path, RULES).unwrap();
    (directory, path.to_str().unwrap().to_owned())
}

fn server(rules: &str) -> Command {
    let mut server = exec_server(["--rules", rules]);
    server.env("PATH", path_of_the_system());
    server
}

fn question(client: &mut Client) -> Value {
    client.wait_for("question", |message| message["method"] == "elicitation/create")
}

fn shell(command: &str, workdir: &Path, timeout_ms: u64) -> Value {
    json!({"command": command, "workdir": workdir, "timeout_ms": timeout_ms})
}

fn milliseconds(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap_or_else(|| panic!("{field} of {answer}"))
}

/// The person takes longer than the command's limit.
#[test]
fn a_command_with_a_limit_of_8_s_is_run_when_the_person_agrees_after_9_s() {
    let (directory, rules) = rules();
    let repository = directory.path().join("repository");
    let made = Command::new("git").args(["init", "-q"]).arg(&repository).status();
    if !made.is_ok_and(|status| status.success()) {
        return skipped("git", "it does not run");
    }
    let mut client = Client::start(server(&rules));
    let id = client.begin("shell", "t", shell("git status", &repository, 8_000));
    let asked = question(&mut client);
    let text = asked["params"]["message"].as_str().unwrap();
    for part in ["    git status\n", repository.to_str().unwrap(), "it is only a test", "default.rules"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let choice = json!({"type": "string", "title": "Run it?", "enum": ["no", "yes"]});
    let form = json!({"type": "object", "properties": {"run": choice}, "required": ["run"]});
    assert_eq!(asked["params"]["requestedSchema"], form);
    std::thread::sleep(Duration::from_secs(9));
    client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
    let answer = client.answer(id);
    assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(0), &json!(false)), "{answer}");
    assert!(answer["output"].as_str().unwrap().contains("No commits yet"), "{answer}");
    assert!(milliseconds(&answer, "paused_ms") >= 8_900 && milliseconds(&answer, "active_ms") < 8_000, "{answer}");
    assert!(answer["sandbox"].is_string(), "only git runs outside: {answer}");
    assert!(!client.come("notifications/progress").is_empty(), "the caller got progress notifications");
}

#[test]
fn a_decline_a_cancel_and_an_invalid_answer_run_nothing() {
    let (directory, rules) = rules();
    let mut client = Client::start(server(&rules));
    for (reply, why) in [
        (json!({"action": "accept", "content": {"run": "no"}}), "the person declined"),
        (json!({"action": "accept", "content": {}}), "this host accepted without the choice of a person"),
        (json!({"action": "accept"}), "this host accepted without the choice of a person"),
        (json!({"action": "cancel"}), "the person gave no answer"),
        (json!({"nothing": "that is known"}), "the answer could not be understood"),
        (json!({"action": "maybe"}), "the answer could not be understood"),
    ] {
        let id = client.begin("shell", "t", shell("touch made", directory.path(), 60_000));
        let asked = question(&mut client);
        client.respond(&asked, reply);
        let answer = client.answer(id);
        assert_eq!((&answer["exit_code"], &answer["denied"]), (&json!(1), &json!(true)), "{answer}");
        let reason = answer["denied_reason"].as_str().unwrap();
        assert!(reason.starts_with(why) && reason.contains("touch"), "{reason}");
    }
    let id = client.begin("shell", "t", shell("touch made", directory.path(), 60_000));
    let asked = question(&mut client);
    // As long as a person needs at least.
    std::thread::sleep(Duration::from_millis(1_100));
    client.respond(&asked, json!({"action": "decline"}));
    let reason = client.answer(id)["denied_reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("the person declined"), "{reason}");
    assert!(!directory.path().join("made").exists());
}

/// `--when-unable` is for clients that cannot ask: a failed question is not an approval.
#[test]
fn when_unable_does_not_apply_to_failed_questions() {
    let (directory, rules) = rules();
    let made = directory.path().join("made");
    for when in ["run", "escalate"] {
        let mut client = Client::start(exec_server(["--rules", &rules, "--when-unable", when]));
        let mut answered = |with: &dyn Fn(&mut Client, &Value)| {
            let id = client.begin("shell", "t", shell("touch made", directory.path(), 60_000));
            let asked = question(&mut client);
            with(&mut client, &asked);
            client.answer(id)
        };
        for code in [-32603, -32602, -1, -32042] {
            let answer = answered(&|client, asked| client.respond_with_error(asked, code));
            let reason = answer["denied_reason"].as_str().unwrap();
            assert!(reason.starts_with("the question was not answered") && reason.contains("touch"), "{reason}");
        }
        for reply in [json!({}), json!({"action": "maybe"}), json!({"action": "decline"}), json!({"action": "accept"})]
        {
            assert_eq!(answered(&|client, asked| client.respond(asked, reply.clone()))["denied"], true, "{reply}");
        }
        assert!(!made.exists());
        // The line is asked about, and then its program.
        let answer = answered(&|client, asked| {
            client.respond_with_error(asked, -32601);
            let asked = question(client);
            client.respond_with_error(&asked, -32601);
        });
        assert_eq!((&answer["denied"], &answer["exit_code"]), (&json!(false), &json!(0)), "{answer}");
        fs::remove_file(&made).unwrap();
    }
}

#[test]
fn a_forbidden_command_is_denied_without_a_question() {
    let (directory, rules) = rules();
    fs::write(directory.path().join("kept"), "").unwrap();
    let mut client = Client::start(server(&rules));
    for tool in ["shell", "exec_command"] {
        let arguments = json!({"command": "echo before; rm kept", "workdir": directory.path()});
        let answer = client.call(tool, arguments);
        assert_eq!((&answer["exit_code"], &answer["denied"], &answer["output"]), (&json!(1), &json!(true), &json!("")));
        assert!(answer["denied_reason"].as_str().unwrap().contains("use trash"), "{answer}");
    }
    assert!(directory.path().join("kept").exists());
    assert!(client.come("elicitation/create").is_empty());
}

/// Several calls of one thread at once: the time of a call without a question is charged meanwhile.
#[test]
fn a_question_pauses_only_the_clock_of_its_own_call() {
    let (directory, rules) = rules();
    let mut client = Client::start(server(&rules));
    let ids = ["one", "two"]
        .map(|file| client.begin("shell", "t", shell(&format!("touch {file}"), directory.path(), 20_000)));
    let asked = [question(&mut client), question(&mut client)];
    let started = Instant::now();
    let hung = client.call("shell", shell("sleep 60", directory.path(), 4_000));
    assert_eq!((&hung["timed_out"], &hung["paused_ms"]), (&json!(true), &json!(0)), "{hung}");
    assert!(started.elapsed() < Duration::from_secs(50), "its limit ended it, not its own end after 60 s");
    for asked in asked.iter().rev() {
        client.respond(asked, json!({"action": "accept", "content": {"run": "yes"}}));
    }
    for id in ids {
        let answer = client.answer(id);
        assert_eq!(answer["exit_code"], 0, "{answer}");
        assert!(milliseconds(&answer, "paused_ms") >= 4_000, "{answer}");
    }
}

#[test]
fn yield_time_does_not_run_during_a_question() {
    let (directory, rules) = rules();
    let mut client = Client::start(server(&rules));
    let line = "touch made; echo made; sleep 60";
    let id = client.begin(
        "exec_command",
        "t",
        json!({"command": line, "workdir": directory.path(), "yield_time_ms": 2_000}),
    );
    let asked = question(&mut client);
    std::thread::sleep(Duration::from_secs(3));
    client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
    let answer = client.answer(id);
    assert!(milliseconds(&answer, "paused_ms") >= 3_000, "{answer}");
    assert!(milliseconds(&answer, "active_ms") >= 1_900, "it had its full 2 s: {answer}");
    assert_eq!(client.output_until(&answer, "made\n"), "made\n");
}

/// No thread stays paused.
#[test]
fn a_cancelled_call_cancels_its_question() {
    let (directory, rules) = rules();
    let mut client = Client::start(server(&rules));
    let id = client.begin("shell", "t", shell("touch made", directory.path(), 60_000));
    let asked = question(&mut client);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    let taken_back = client.wait_for("cancellation", |message| message["method"] == "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
    client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
    let next = client.call("shell", shell("sleep 0.2", directory.path(), 60_000));
    assert_eq!((&next["exit_code"], &next["paused_ms"]), (&json!(0), &json!(0)), "{next}");
    assert!(!directory.path().join("made").exists());
    assert!(client.hang_up().success());
}

/// G2: the clock of the call goes on, and the person does not answer in vain.
#[test]
fn a_question_that_nobody_answers_ends_after_max_pause() {
    let (directory, rules) = rules();
    let mut server = server(&rules);
    server.args(["--max-pause", "1s"]);
    let mut client = Client::start(server);
    let id = client.begin("shell", "t", shell("touch made", directory.path(), 60_000));
    let asked = question(&mut client);
    let answer = client.answer(id);
    let reason = answer["denied_reason"].as_str().unwrap();
    assert!(reason.starts_with("nobody answered the question within --max-pause"), "{reason}");
    assert!(milliseconds(&answer, "paused_ms") >= 900, "{answer}");
    let taken_back = client.wait_for("cancellation", |message| message["method"] == "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
    client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
    assert_eq!(client.call("shell", shell("echo next", directory.path(), 60_000))["output"], "next\n");
    assert!(!directory.path().join("made").exists());
}

#[test]
fn when_unable_decides_for_clients_that_cannot_ask() {
    let (directory, rules) = rules();
    let capabilities = [json!({}), json!({"elicitation": {"url": {}}})];
    for (when, ran) in [("deny", false), ("run", true), ("escalate", true)] {
        for capabilities in &capabilities {
            let command = exec_server(["--rules", &rules, "--when-unable", when]);
            let mut client = Client::with(command, "2025-06-18", capabilities.clone());
            let made = directory.path().join("made");
            let _ = fs::remove_file(&made);
            let answer = client.call("shell", shell("touch made", directory.path(), 60_000));
            assert_eq!(answer["denied"], !ran, "{answer}");
            assert_eq!(made.exists(), ran);
            if !ran {
                let reason = answer["denied_reason"].as_str().unwrap();
                assert!(
                    reason.contains("no person could be asked: this client has no elicitation capability"),
                    "{reason}"
                );
            }
        }
    }
}

/// Calls of 2026-07-28, which are answered with the question.
fn once(client: &mut Client, arguments: &Value, more: Value) -> Value {
    let mut params = json!({"name": "shell", "arguments": arguments, "_meta": {"threadId": "t"}});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    let id = client.request("tools/call", params);
    client.result(id)
}

#[test]
fn in_the_newer_protocol_the_client_repeats_the_call_with_the_answer() {
    let (directory, rules) = rules();
    let mut client = Client::with(server(&rules), "2026-07-28", json!({"elicitation": {"form": {}}}));
    let arguments = shell("touch made", directory.path(), 60_000);
    let asked = once(&mut client, &arguments, json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let approval = &asked["inputRequests"]["approval"];
    assert_eq!(approval["method"], "elicitation/create");
    assert!(approval["params"]["message"].as_str().unwrap().contains("    touch made\n"), "{approval}");
    std::thread::sleep(Duration::from_secs(2));

    let answers = |action: &str| json!({"approval": {"action": action, "content": {"run": "yes"}}});
    let state = asked["requestState"].clone();
    let other = shell("touch other", directory.path(), 60_000);
    let forged = once(&mut client, &other, json!({"requestState": state, "inputResponses": answers("accept")}));
    assert_eq!(forged["isError"], true, "an answer for another command is refused: {forged}");
    let answer = once(&mut client, &arguments, json!({"requestState": state, "inputResponses": answers("accept")}));
    let outcome = &answer["structuredContent"];
    assert_eq!(outcome["exit_code"], 0, "{answer}");
    assert!(milliseconds(outcome, "paused_ms") >= 2_000, "{answer}");
    let again = once(&mut client, &arguments, json!({"requestState": state, "inputResponses": answers("accept")}));
    assert_eq!(again["isError"], true, "an answer works only once: {again}");
    assert!(again["content"][0]["text"].as_str().unwrap().contains("used before"), "{again}");

    for (answers, why) in [(answers("decline"), "declined"), (json!({}), "not be understood")] {
        let asked = once(&mut client, &other, json!({}));
        let reply = json!({"requestState": asked["requestState"], "inputResponses": answers});
        let denied = once(&mut client, &other, reply)["structuredContent"].clone();
        if why == "declined" {
            assert_eq!((&denied["exit_code"], &denied["denied"]), (&json!(1), &json!(true)));
            assert!(denied["denied_reason"].as_str().unwrap().contains(why), "{denied}");
        }
    }
    assert!(directory.path().join("made").exists() && !directory.path().join("other").exists());

    let mut unable = Client::with(server(&rules), "2026-07-28", json!({}));
    let denied = once(&mut unable, &arguments, json!({}));
    assert_eq!(denied["structuredContent"]["denied"], true, "{denied}");
}

fn no_unwritable_directory() {
    skipped("directory", "sandboxed commands can write every directory that this user can write");
}

/// A new directory that sandboxed commands cannot write, with a path short enough for a socket; `None`: this user
/// cannot make one. The clone is not used, because it may be below /tmp, which is writable.
pub(super) fn unwritable_directory() -> Option<TempDir> {
    let writable: Vec<_> = Sandbox::temporary_directories().filter_map(|path| path.canonicalize().ok()).collect();
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let bases =
        [Some(env!("CARGO_TARGET_TMPDIR").into()), named("XDG_RUNTIME_DIR"), named("HOME"), Some("/run".into())];
    let bases = bases.into_iter().flatten().filter_map(|base| base.canonicalize().ok());
    let mut bases =
        bases.filter(|base| !writable.iter().any(|root| base.starts_with(root)) && base.as_os_str().len() <= 60);
    bases.find_map(|base| tempfile::tempdir_in(base).ok())
}

/// Outside its directory and those for temporary files, a command changes nothing unless a rule allows it outside the
/// sandbox. If the kernel cannot enforce that, the result says so.
#[test]
fn without_a_rule_a_command_runs_in_the_sandbox() {
    let Some(outside) = unwritable_directory() else { return no_unwritable_directory() };
    let (directory, rules) = rules();
    let target = outside.path().join("file");
    let write = format!("echo x > {}", target.display());
    let mut client = Client::start(server(&rules));
    let answer = client.call(
        "shell",
        shell(&format!("touch_in() {{ echo y > inside; }}; touch_in; {write}"), directory.path(), 9_000),
    );
    let sandbox = answer["sandbox"].as_str().unwrap().to_owned();
    assert_eq!(fs::read_to_string(directory.path().join("inside")).unwrap_or_default(), "y\n", "{answer}");
    match sandbox.starts_with("enforced") {
        true => assert!(!target.exists() && answer["exit_code"] != 0, "{answer}"),
        false => {
            skipped("landlock", &sandbox);
            assert!(sandbox.starts_with("not enforced: "), "{sandbox}");
        }
    }
    let _ = fs::remove_file(&target);
    let copy = format!("cp inside {}", target.display());
    let answer = client.call("shell", shell(&copy, directory.path(), 9_000));
    let can_leave = answer["sandbox"].as_str().is_some_and(|sandbox| sandbox.ends_with("nested programs are judged"));
    assert!(target.exists() || !can_leave, "a rule allows it: {answer}");
    let writable = outside.path().to_str().unwrap();
    for options in [["--writable", writable], ["--no-sandbox", "--max-commands=9"]] {
        let _ = fs::remove_file(&target);
        let answer = Client::start(exec_server(options)).call("shell", shell(&write, directory.path(), 9_000));
        assert_eq!(answer["exit_code"], 0, "{answer}");
        assert!(target.exists());
    }
}

/// G8. A command that could change the private coordinator's files, or replace its socket, could control other threads.
#[test]
fn a_command_in_the_sandbox_does_not_touch_the_coordinator() {
    let Some(runtime) = unwritable_directory() else { return no_unwritable_directory() };
    let base = runtime.path().canonicalize().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut server = exec_server([]);
    server.env("XDG_RUNTIME_DIR", &base);
    let mut client = Client::start(server);
    let mut output = |line: &str| {
        let line = format!("cd $(dirname ${{PAUSEWATCH_ADDRESS#unix:}}) && {{ {line}; }}");
        let answer = client.call("shell", shell(&line, directory.path(), 20_000));
        let sandbox = answer["sandbox"].as_str().unwrap().to_owned();
        (answer["output"].as_str().unwrap().to_owned(), sandbox)
    };
    let place = output("pwd").0;
    assert!(Path::new(place.trim()).parent() == Some(&*base), "{place}");
    assert_eq!(
        output("ls -A").0,
        "socket\n",
        "the directory has only the socket, and no file that the coordinator reads"
    );
    let (changed, sandbox) = output("{ touch keys.pem || mv socket other || rm socket; } 2>/dev/null && echo changed");
    match sandbox.starts_with("enforced") {
        true => assert_eq!(changed, ""),
        false => skipped("landlock", sandbox),
    }
    let held = output(&format!("{} hold --require -- echo held", env!("CARGO_BIN_EXE_pausewatch"))).0;
    assert_eq!(held, "held\n", "the private coordinator can still be called");
}

#[test]
fn a_terminal_and_hold_work_in_the_sandbox() {
    let (directory, mark) = (tempfile::tempdir().unwrap(), format!("6{:08}.5", fastrand::u32(..100_000_000)));
    let mut client = Client::start(exec_server([]));
    let line = format!(
        "test -t 1 && echo terminal; {} hold -- true && echo held; sleep {mark}",
        env!("CARGO_BIN_EXE_pausewatch")
    );
    let first = client
        .call("exec_command", json!({"command": line, "workdir": directory.path(), "tty": true, "yield_time_ms": 0}));
    assert_eq!(client.output_until(&first, "held\r\n"), "terminal\r\nheld\r\n");
    assert!(process_with(&mark).is_some());
    assert!(client.hang_up().success());
    until_gone(&mark);
}

#[test]
fn an_invalid_rules_file_is_refused_with_its_position() {
    let (directory, _) = rules();
    let path = directory.path().join("bad.rules");
    fs::write(&path, "prefix_rule(pattern = ['ls'])\nprefix_rule(pattern = 7)\n").unwrap();
    let refused = ended(&mut exec_server(["--rules", path.to_str().unwrap()]));
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("bad.rules:2:"), "{}", refused.err);
}

#[test]
fn the_rules_of_the_documentation_work() {
    let page = include_str!("../../../docs/exec-server.md");
    let example = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (directory, _) = rules();
    let path = directory.path().join("page.rules");
    fs::write(&path, example).unwrap();
    let mut client = Client::with(server(path.to_str().unwrap()), "2025-06-18", json!({}));
    for (line, denied) in [("git push origin", "needs approval"), ("rm -rf x", "Use trash-put.")] {
        let answer = client.call("shell", shell(line, directory.path(), 60_000));
        assert!(answer["denied_reason"].as_str().unwrap().contains(denied), "{answer}");
    }
    assert_eq!(client.call("shell", shell("rm x; true", directory.path(), 60_000))["denied"], false);
}
