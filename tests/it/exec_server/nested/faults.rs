//! When one of the judging processes is killed, no process is left, and nothing more is executed.
use super::{Judged, exec_server, text, until};
use crate::{
    exec_server::client::{until_gone, until_there},
    program::ended,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;

/// A text that occurs in only one command.
fn mark() -> String {
    format!("7{:08}.5", fastrand::u32(..100_000_000))
}

/// The process whose command line begins with `start` and contains `mark`.
fn find(start: &str, mark: &str) -> Option<Pid> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.contains(start) && line.contains(mark)).then(|| Pid::from_raw(pid))?
    })
}

#[test]
fn without_its_supervisor_a_command_ends_and_executes_nothing_more() {
    let Some(mut judged) = Judged::start() else { return };
    let mark = mark();
    // A process that leaves the session: nothing but the loss of its supervisor stops it from executing programs.
    judged.script(
        "task",
        "#!/bin/sh\nsetsid sh -c 'echo > ready; read x < go; /bin/true 2> /dev/null; echo $? > status' &\nsleep $1\n",
    );
    let go = judged.path("go");
    rustix::fs::mknodat(rustix::fs::CWD, &go, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let line = format!("./task {mark}");
    let id = judged.client.begin("shell", "t", judged.arguments(&line));
    let asked = judged.question();
    judged.client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
    until_there(&format!("sleep {mark}"));
    until("the daemon has a session", || judged.path("ready").exists().then_some(()));
    kill_process(until("the supervisor", || find("exec-supervisor", &mark)), Signal::KILL).unwrap();
    let answer = judged.client.answer(id);
    assert_eq!(answer["exit_code"], 137, "{answer}");
    until_gone(&mark);
    fs::write(&go, "x\n").unwrap();
    let status = until("the daemon goes on", || {
        fs::read_to_string(judged.path("status")).ok().filter(|text| text.ends_with('\n'))
    });
    assert_eq!(status, "126\n", "it could not execute /bin/true");
}

#[test]
fn a_killed_server_leaves_no_process() {
    let Some(mut judged) = Judged::start() else { return };
    let (approved, asked) = (mark(), mark());
    let _ = judged.begin(&format!("sleep {approved} & sleep {asked}; wait"));
    let first = judged.question();
    judged.client.respond(&first, json!({"action": "accept", "content": {"run": "yes"}}));
    let _second = judged.question();
    let ran =
        until("an approved program", || [&approved, &asked].into_iter().find(|mark| find("sleep ", mark).is_some()));
    kill_process(Pid::from_raw(judged.client.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
    until_gone(&format!("sleep {ran}"));
    until_gone(judged.directory.path().to_str().unwrap());
}

#[test]
fn killing_the_place_of_an_approved_program_kills_it() {
    let Some(mut judged) = Judged::start() else { return };
    let mark = mark();
    let answer = judged.run_approved(&format!(
        "sleep {mark} & place=$!
         while ! grep -qs Umask /proc/$(pgrep -f '^sleep {mark}' | head -n 1)/status; do :; done
         kill -KILL $place; wait $place; echo $?"
    ));
    assert!(text(&answer, "output").ends_with("137\n"), "{answer}");
    until_gone(&format!("sleep {mark}"));
}

#[test]
fn what_remains_after_the_end_of_a_command_is_judged_without_a_question() {
    let Some(mut judged) = Judged::start() else { return };
    let kept = judged.kept();
    let go = judged.path("go");
    rustix::fs::mknodat(rustix::fs::CWD, &go, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    judged.script(
        "daemon",
        "#!/bin/sh\necho > ready\nread x < go\n(rm kept; touch made; true; echo \"done $?\") > said 2>&1\n",
    );
    let answer =
        judged.run("setsid ./daemon > /dev/null 2>&1 < /dev/null & while ! [ -e ready ]; do :; done; echo started");
    assert_eq!((&answer["output"], &answer["exit_code"]), (&json!("started\n"), &json!(0)), "{answer}");
    fs::write(&go, "x\n").unwrap();
    let said =
        until("the daemon ends", || fs::read_to_string(judged.path("said")).ok().filter(|said| said.contains("done")));
    assert!(
        said.contains("use trash") && said.contains("the command has ended") && said.ends_with("done 0\n"),
        "{said}"
    );
    assert!(kept.exists() && !judged.path("made").exists());
    assert!(judged.client.come("elicitation/create").is_empty());
    let directory = judged.directory.path().to_str().unwrap();
    until("the supervisor ends", || find("exec-supervisor", directory).is_none().then_some(()));
}

/// A process can have only one listener, so an exec server inside a judged command cannot judge nested programs: it
/// only judges the text.
#[test]
fn where_programs_cannot_be_judged_the_results_say_so() {
    let Some(mut judged) = Judged::start() else { return };
    let kept = judged.kept();
    let inner = format!("{} exec-server --rules nested.rules", env!("CARGO_BIN_EXE_pausewatch"));
    let answer = judged.run(&format!("{inner} --check"));
    let expected = "\nrules: nested programs are not judged: a program that runs this one judges programs already\n";
    assert!(text(&answer, "output").contains(expected), "{answer}");

    let call = |id: u32, line: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "shell", "arguments": {"command": line, "workdir": judged.directory.path()}}})
    };
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    judged.script("remove", "#!/bin/sh\nrm kept\n");
    let messages = [initialize, initialized, call(1, "echo in; ./remove"), call(2, "rm kept"), call(3, "$x")];
    let messages: String = messages.iter().map(|message| format!("{message}\n")).collect();
    fs::write(judged.path("messages"), messages).unwrap();
    let answer = judged.run(&format!("{inner} < messages"));
    let answers: Vec<Value> =
        text(&answer, "output").lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let result = |id: u32| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{answer}"));
    let first = &result(1)["result"]["structuredContent"];
    assert!(text(first, "sandbox").contains("nested programs are not judged: "), "{first}");
    assert!(text(first, "output").contains("use trash"), "the outer exec server still judges: {first}");
    for id in [2, 3] {
        assert_eq!(result(id)["result"]["structuredContent"]["denied"], true, "{answer}");
    }
    assert!(kept.exists());
}

#[test]
fn the_check_says_what_is_enforced() {
    let check = |options: &[&str]| {
        let checked = ended(exec_server(["--check"]).args(options));
        assert_eq!(checked.code, Some(0), "{checked:?}");
        checked.out
    };
    assert!(check(&[]).starts_with("sandbox: ") && check(&[]).contains("\nrules: there are no rules about programs\n"));
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("a.rules");
    fs::write(&rules, "prefix_rule(pattern = ['rm'], decision = 'forbidden')").unwrap();
    let rules = rules.to_str().unwrap();
    fs::write(rules, "prefix_rule(pattern = ['cp'])").unwrap();
    assert!(!check(&["--rules", rules]).contains("there are no rules"), "an allowed program is judged too");
    let off = "sandbox: off (--no-sandbox)\nrules: nested programs are not judged: they are only in the sandbox\n";
    assert_eq!(check(&["--no-sandbox", "--rules", rules]), off);
}

/// Our program cannot be passed to such a process; it is not traced then, so signals reach it.
#[test]
fn a_process_without_free_descriptors_is_refused_and_goes_on() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script(
        "limited",
        "#!/bin/bash\nshopt -s execfail; trap 'echo handled' USR1; ulimit -n 4; exec touch made; kill -USR1 $$; echo after\n",
    );
    let answer = judged.run_approved("./limited");
    let output = answer["output"].as_str().unwrap();
    assert!(output.ends_with("handled\nafter\n"), "{answer}");
    assert!(text(&answer, "note").contains("touch was not executed"), "{answer}");
    assert!(!judged.path("made").exists());
}

/// As JSON, each of these characters takes six bytes.
#[test]
fn a_question_of_any_size_is_answered() {
    let Some(mut judged) = Judged::start() else { return };
    let answer = judged.run("a=$(printf '\\001%.0s' $(seq 16380)); rm \"$a\"; echo $?");
    let output = answer["output"].as_str().unwrap();
    assert!(output.contains("use trash") && output.ends_with("1\n"), "{}", &output[..output.len().min(500)]);
}
