//! KILL of each process that takes part, at each step; and commands that use more than their share.
use super::{Judged, text, until};
use crate::exec_server::{
    client::until_gone,
    commands::{FORKS_FOR_EVER, has_ended},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;

const SUPERVISOR: &str = "exec-supervisor";

/// The processes whose command lines contain all of these texts.
fn find(parts: &[&str]) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let found = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // The command line of a supervisor contains that of its shell.
        let is_meant = parts.contains(&SUPERVISOR) || !line.contains(SUPERVISOR);
        (is_meant && parts.iter().all(|part| line.contains(part))).then_some(pid)
    });
    found.collect()
}

fn kill_one(parts: &[&str]) {
    let victim = until("the process to kill", || find(parts).pop());
    // It may have ended already.
    let _ = kill_process(victim, Signal::KILL);
}

#[test]
fn processes_that_start_a_copy_and_end_do_not_outlive_their_command_and_daemons_are_judged_on() {
    let Some(mut judged) = Judged::start() else { return };
    let daemon = "setsid sh -c 'read line < fifo; /bin/true; echo $? > executed' > /dev/null 2>&1 < /dev/null &";
    let answer = judged.run(&format!("mkfifo fifo; {daemon}\n{FORKS_FOR_EVER}"));
    assert_eq!(answer["exit_code"], 0, "{answer}");
    assert!(has_ended(judged.directory.path()));
    fs::write(judged.path("fifo"), "go on\n").unwrap();
    let executed =
        until("the daemon", || fs::read_to_string(judged.path("executed")).ok().filter(|text| !text.is_empty()));
    assert_eq!(executed, "0\n");
}

#[test]
fn whatever_is_killed_at_whatever_step_nothing_is_left() {
    for step in ["asked", "approved"] {
        for victim in ["supervisor", "server", "client", "place", "shell"] {
            let Some(mut judged) = Judged::start() else { return };
            let directory = judged.directory.path().to_str().unwrap().to_owned();
            let mark = format!("7{:08}.75", fastrand::u32(..100_000_000));
            judged.script("task", &format!("#!/bin/sh\necho started; sleep {mark}; echo \"more $?\"; sleep 1000\n"));
            let line = format!("./task {mark}; true");
            let arguments = json!({"command": line, "workdir": directory, "timeout_ms": 60_000});
            let id = judged.client.begin("shell", "t", arguments);
            let asked = judged.question();
            if step == "approved" {
                judged.client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
                // The relay and the program.
                until("the program runs", || (find(&[&format!("sleep {mark}")]).len() >= 2).then_some(()));
            }
            match victim {
                "supervisor" => kill_one(&[SUPERVISOR, &mark]),
                "server" => {
                    kill_process(Pid::from_raw(judged.client.pid().cast_signed()).unwrap(), Signal::KILL).unwrap()
                }
                "client" => judged.client.close(),
                // While the question is open, it is the script's child, with its command line; after the approval it is
                // the relay, with that of the program.
                "place" => kill_one(&[
                    if step == "asked" { "/bin/sh ./task" } else { "sleep " },
                    // Other tests have such processes too.
                    &mark,
                ]),
                _ => kill_one(&["bash", "-c", &line]),
            }
            if victim == "place" {
                // The command continues without it, and ends with its client.
                judged.client.close();
            }
            if victim == "supervisor" || victim == "shell" {
                let answer = judged.client.answer(id);
                assert_eq!(answer["exit_code"], 137, "{step} {victim}: {answer}");
                assert!(!text(&answer, "output").contains("more 0"), "{step} {victim}: {answer}");
            }
            until_gone(&mark);
        }
    }
}

#[test]
fn a_command_that_floods_with_programs_and_questions_costs_others_nothing_beyond_its_own_limit() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script(
        "flood",
        "#!/bin/sh\n(while :; do /bin/true; done) & (while :; do /bin/true; done) &
         i=0; while [ $i -lt 150 ]; do touch flooded$i & i=$((i+1)); done; wait\n",
    );
    let flood = judged.client.begin("shell", "flood", judged.arguments("./flood"));
    // Questions beyond the hundred that may wait are denied.
    until("denials", || {
        judged.client.has_answered(flood);
        (!judged.client.come("elicitation/create").is_empty()).then_some(())
    });
    judged.script("task", "#!/bin/sh\nrm kept; touch made; echo $?\n");
    let other = judged.client.begin("shell", "other", judged.arguments("./task"));
    let asked = judged.client.wait_for("question of the other", |message| {
        message["method"] == "elicitation/create" && text(&message["params"], "message").contains("touch made")
    });
    judged.client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
    let answer = judged.client.answer(other);
    assert!(text(&answer, "output").ends_with("\n0\n") && judged.path("made").exists(), "{answer}");
    let cancelled = json!({"requestId": flood, "reason": "enough"});
    judged.client.notify("notifications/cancelled", cancelled);
    until_gone("./flood");
    assert!((0..150).all(|number| !judged.path(&format!("flooded{number}")).exists()));
}
