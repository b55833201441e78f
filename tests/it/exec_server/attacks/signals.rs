//! A signal makes some programs do more than end: SIGUSR1 makes Node.js open a debugger, in which everybody can run code.
use super::{GREET, Place, text, until};
use crate::{exec_server::nested::compiled, support::skipped};
use pausewatch::test_support::sandbox::{Enforcement, Sandbox};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use std::{
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    process::{Command, Stdio},
};

/// Waits for a signal outside, as a program that handles USR1 and TERM.
const WAITS: &str = "#!/bin/sh\ntrap 'echo usr1 >> OUT/made' USR1\ntrap 'echo term >> OUT/made; exit 7' TERM\necho $$ > OUT/pid\nwhile :; do sleep 0.1; done\n";

fn is_scoped() -> bool {
    let enforcement = Sandbox::probe();
    let is_scoped = enforcement == Enforcement::Full;
    if !is_scoped {
        skipped("landlock-scopes", format!("the sandbox is {enforcement}"));
    }
    is_scoped
}

#[test]
fn a_command_cannot_signal_what_runs_outside() {
    let Some(place) = Place::new() else { return };
    if !is_scoped() {
        return;
    }
    let out = place.path("outside");
    place.program("bin/greet", &WAITS.replace("OUT", out.to_str().unwrap()));
    let script = "#!/bin/bash\nwhile ! [ -s OUT/pid ]; do sleep 0.05; done; read -r pid < OUT/pid
        kill -USR1 $pid 2> /dev/null; echo \"to it: $?\"
        kill -USR1 $1; echo \"to its place: $?\"; kill -USR2 $1; kill -34 $1; kill -TERM $1\n";
    place.program("project/task", &script.replace("OUT", out.to_str().unwrap()));
    let answer = place.run(&mut place.client(GREET), "greet & ./task $!; wait $!; echo \"ended: $?\"");
    assert_eq!(text(&answer, "output"), "to it: 1\nto its place: 0\nended: 7\n", "{answer}");
    assert_eq!(place.made().as_deref(), Some("term\n"), "{answer}");
}

/// A limit on its time would end the program, and one on its files would let it fail.
#[test]
fn a_command_cannot_change_the_limits_of_what_runs_outside() {
    let Some(place) = Place::new() else { return };
    let mut victim = Command::new("sleep").arg("1000").spawn().unwrap();
    for rules in ["", GREET] {
        let mut client = place.client(rules);
        let line = format!("ulimit -S -c 0 && prlimit --pid {} --cpu=0:0", victim.id());
        let answer = place.run(&mut client, &line);
        assert_eq!(answer["exit_code"], 1, "{answer}");
        assert!(text(&answer, "output").contains("Operation not permitted"), "{answer}");
    }
    assert_eq!(victim.try_wait().unwrap(), None);
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// Without any rule.
#[test]
fn a_command_cannot_signal_other_programs_of_its_user_but_its_own() {
    let Some(place) = Place::new() else { return };
    if !is_scoped() {
        return;
    }
    let mut victim = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut client = place.client("");
    let line = format!(
        "kill -0 {0}; echo $?; kill -USR1 {0}; echo $?; kill -KILL {0}; echo $?; sleep 1000 & kill $!; wait $!; echo $?",
        victim.id()
    );
    let answer = place.run(&mut client, &format!("{{ {line}; }} 2> /dev/null"));
    assert_eq!(text(&answer, "output"), "1\n1\n1\n143\n", "{answer}");
    assert_eq!(victim.try_wait().unwrap(), None);
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
fn the_tool_ends_what_another_command_cannot() {
    let Some(place) = Place::new() else { return };
    if !is_scoped() {
        return;
    }
    let mut client = place.client("");
    let mut arguments = place.arguments("echo $$ > pid; exec sleep 1000");
    arguments["yield_time_ms"] = json!(0);
    let started = client.call("exec_command", arguments);
    let pid = until("its process id", || {
        fs::read_to_string(place.path("project/pid")).ok().filter(|pid| pid.ends_with('\n'))
    });
    let answer = place.run(&mut client, "kill -KILL $(cat pid) 2> /dev/null; echo $?");
    assert_eq!(answer["output"], "1\n", "{answer}");
    client.call("kill", json!({"session_id": started["session_id"]}));
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    until("its end", || test_kill_process(pid).is_err().then_some(()));
}

#[test]
fn a_command_cannot_connect_to_abstract_sockets_outside() {
    let Some(place) = Place::new() else { return };
    if !is_scoped() {
        return;
    }
    let name = format!("pausewatch-test-{}", fastrand::u64(..));
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let connect = compiled("abstract.c", &place.path("bin"));
    let outside = Command::new(&connect).arg(&name).stdout(Stdio::null()).status().unwrap();
    assert!(outside.success());
    let answer =
        place.run(&mut place.client(""), &format!("abstract {name}; echo $?; abstract {name}-own own; echo $?"));
    assert_eq!(answer["output"], "1\n0\n", "{answer}");
}

/// Killing its place ends an allowed program at once.
#[test]
fn killing_its_place_ends_it() {
    let Some(place) = Place::new() else { return };
    place.program("bin/greet", &WAITS.replace("OUT", place.path("outside").to_str().unwrap()));
    let script = "#!/bin/sh\nwhile ! [ -s OUT/pid ]; do sleep 0.05; done; kill -KILL $1\n";
    place.program("project/task", &script.replace("OUT", place.path("outside").to_str().unwrap()));
    let answer = place.run(&mut place.client(GREET), "greet & ./task $!; wait $!; echo $?");
    assert!(text(&answer, "output").ends_with("137\n"), "{answer}");
    let pid = fs::read_to_string(place.path("outside/pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    until("its end", || kill_process(pid, Signal::CONT).is_err().then_some(()));
}
