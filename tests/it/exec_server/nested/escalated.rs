//! A program that a person approves runs outside the sandbox, in place of the process that wanted to execute it.
use super::{Judged, compiled, text, until, unwritable_directory};
use crate::support::skipped;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;

#[test]
fn an_approved_program_runs_outside_the_sandbox_and_only_it() {
    let Some(mut judged) = Judged::start() else { return };
    let Some(outside) = unwritable_directory() else {
        return skipped("directory", "sandboxed commands can write every directory that this user can write");
    };
    let (made, refused) = (outside.path().join("made"), outside.path().join("refused"));
    let script = |program: &str| format!("{program} {}; echo $?; echo x > {}", made.display(), refused.display());
    for (source, prefix) in [("", ""), ("vfork.c", ""), ("spawn.c", "3 "), ("thread.c", "")] {
        let _ = fs::remove_file(&made);
        let program = match source {
            "" => "touch".to_owned(),
            source => {
                let touch = if source == "vfork.c" { "/bin/touch" } else { "touch" };
                format!("{} {prefix}{touch}", compiled(source, judged.directory.path()).display())
            }
        };
        let answer = judged.run_approved(&script(&program));
        assert!(made.exists() && !text(&answer, "output").contains("changed"), "{source}: {answer}");
        assert!(text(&answer, "output").contains("0\n"), "{source}: {answer}");
        assert!(text(&answer, "sandbox").starts_with("not enforced") || !refused.exists(), "{source}: {answer}");
    }
    // A rule that allows a program does not let it leave the sandbox if it is nested.
    let copy = format!("cp nested.rules {}; exit $?", refused.display());
    let answer = judged.run(&copy);
    assert!(text(&answer, "sandbox").starts_with("not enforced") || answer["exit_code"] == 1, "{answer}");
}

/// A program that a rule allows leaves the sandbox only if it is exactly what the line says.
#[test]
fn an_allowed_program_of_the_line_itself_runs_outside_the_sandbox_if_nothing_changed_it() {
    let Some(mut judged) = Judged::start() else { return };
    let Some(outside) = unwritable_directory() else {
        return skipped("directory", "sandboxed commands can write every directory that this user can write");
    };
    let (kept, made) = (judged.kept(), outside.path().join("made"));
    let (kept, made_path) = (kept.display(), made.display());
    judged.script("task", &format!("#!/bin/sh\ncp {kept} {made_path}\n"));
    judged.script("cp", &format!("#!/bin/sh\necho > {made_path}\n"));
    fs::write(judged.path("sourced"), format!("cp {kept} {made_path}x\n")).unwrap();
    for (line, leaves) in [
        (format!("./task; cp {kept} {made_path}"), true),
        (format!("true && LC_ALL=C cp {kept} {made_path}"), true),
        (format!("cp kept {made_path} | sort"), true),
        (format!("true; sh -c 'cp {kept} {made_path}'"), false),
        (format!("cd /usr; cp {kept} {made_path}"), false),
        (format!("export TASK=1; cp {kept} {made_path}"), false),
        (format!("export LD_PRELOAD=/no/such.so; cp {kept} {made_path}"), false),
        (format!("PATH=.:$PATH; cp {kept} {made_path}"), false),
        (format!("true; nice cp {kept} {made_path}"), false),
        (format!(". ./sourced; cp --version > version; cp {kept} {made_path}"), true),
        (". ./sourced; cp --version > version".to_owned(), false),
    ] {
        let _ = fs::remove_file(&made);
        let id = judged.client.begin("shell", "t", judged.arguments(&line));
        let answer = judged.approve_until(id);
        if text(&answer, "sandbox").starts_with("enforced") {
            assert_eq!(made.exists(), leaves, "{line}: {answer}");
            assert!(!outside.path().join("madex").exists(), "{line}: {answer}");
        }
    }
}

#[test]
fn an_approved_script_without_an_interpreter_is_run_by_the_shell_that_executes_it() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script("touch", "echo \"$# $1 ${BASH_VERSION:+bash}\"; exit 3\n");
    let answer = judged.run_approved("./touch 'a b'; echo $?; bash -c './touch c; echo $?'");
    assert_eq!(answer["output"], "1 a b \n3\n1 c bash\n3\n", "{answer}");
}

#[test]
fn an_approved_program_has_the_streams_directory_environment_and_group_of_its_place_and_nothing_else() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script(
        "show",
        "#!/bin/bash
         pwd; nice; sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status
         echo \"$FOO\"; [ -e /proc/$$/fd/63 ] || echo none; cut -d' ' -f5,6 /proc/self/stat; umask; ulimit -n; ulimit -l; ulimit -i\n",
    );
    let own = judged.run_approved("exec env ./show");
    let limits = text(&own, "output").lines().skip(6).collect::<Vec<_>>().join("\n");
    let answer = judged.run_approved(
        "exec bash -c '
         processor=$(sed -n \"s/^Cpus_allowed_list:.\\([0-9]*\\).*/\\1/p\" /proc/self/status); echo $processor; nice -n 9 nice
         cd /usr; umask 027; ulimit -n 123; ulimit -l 8; ulimit -i 77; export FOO=\"a b\"; cut -d\" \" -f5,6 /proc/self/stat
         exec 63<\"$OLDPWD/nested.rules\"
         nice -n 9 taskset -c $processor env \"$OLDPWD/show\" </dev/null | tr a-z A-Z'",
    );
    let lines: Vec<_> = text(&answer, "output").splitn(4, '\n').collect();
    let [processor, nice, own, rest] = lines[..] else { panic!("{answer}") };
    let limits = limits.to_uppercase();
    assert_eq!(rest, format!("/USR\n{nice}\n{processor}\nA B\nNONE\n{own}\n{limits}\n"), "{answer}");
}

#[test]
fn an_approved_program_ends_its_place_as_it_ends() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script("end", "#!/bin/sh\ncase $1 in [0-9]*) exit $1;; *) kill -$1 $$;; esac\n");
    let answer = judged.run_approved(
        "exec 2>/dev/null
         for how in 0 7 KILL TERM SEGV USR1 HUP; do env ./end $how; echo \"$how $?\"; done
         # A signal to the place reaches the program.
         sleep 1000 & sleeping=$!
         while ! pgrep -g 0 -x sleep >/dev/null; do :; done
         kill $sleeping; wait $sleeping; echo \"sleep $?\"",
    );
    let output = text(&answer, "output");
    assert_eq!(output, "0 0\n7 7\nKILL 137\nTERM 143\nSEGV 139\nUSR1 138\nHUP 129\nsleep 143\n", "{answer}");
}

/// It survives `exec`, so it is one of the process in the original place.
#[test]
fn a_timer_that_was_set_before_ends_an_approved_program() {
    let Some(mut judged) = Judged::start() else { return };
    compiled("alarm.c", judged.directory.path());
    let answer = judged.run_approved("exec 2>/dev/null; ./alarm sleep 1000; echo $?");
    assert_eq!(answer["output"], "142\n", "{answer}");
}

/// It cannot join the process group of another session.
#[test]
fn ctrl_c_in_a_terminal_of_its_own_ends_an_approved_program() {
    let Some(mut judged) = Judged::start() else { return };
    compiled("terminal.c", judged.directory.path());
    judged.script("waits", "#!/bin/sh\n: > started\nread -r line\n");
    let answer = judged.run_approved("./terminal env ./waits");
    assert_eq!(answer["output"], "ended by signal 2\n", "{answer}");
}

#[test]
fn a_program_that_stops_itself_stops_its_place_and_goes_on_with_it() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script("stop", "#!/bin/sh\nkill -STOP $$\nexit 5\n");
    let answer = judged.run_approved(
        "env ./stop & place=$!
         while ! grep -q '^State:.T' /proc/$place/status; do :; done
         kill -CONT $place; wait $place; echo $?",
    );
    assert_eq!(answer["output"], "5\n", "{answer}");
}

#[test]
fn the_place_of_a_stopped_program_goes_on_or_ends_with_it() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script("stop", "#!/bin/sh\necho $$ > program\nkill -STOP $$\nexit 5\n");
    // The command itself cannot signal what runs outside the sandbox.
    let directory = judged.directory.path().to_owned();
    let signals = std::thread::spawn(move || {
        for signal in [Signal::CONT, Signal::KILL] {
            let wanted = directory.join("stopped");
            until("the program has stopped", || wanted.exists().then_some(()));
            let program = fs::read_to_string(directory.join("program")).unwrap();
            fs::remove_file(wanted).unwrap();
            kill_process(Pid::from_raw(program.trim().parse().unwrap()).unwrap(), signal).unwrap();
        }
    });
    let answer = judged.run_approved(
        "exec 2>/dev/null
         for how in 1 2; do
             env ./stop & place=$!
             while ! grep -q '^State:.T' /proc/$place/status; do :; done
             : > stopped; wait $place; echo $?
         done",
    );
    signals.join().unwrap();
    assert_eq!(answer["output"], "5\n137\n", "{answer}");
}

#[test]
fn signals_that_end_stop_or_continue_reach_the_program_once() {
    let Some(mut judged) = Judged::start() else { return };
    let count = compiled("count.c", judged.directory.path());
    // HUP, ALRM, CONT, WINCH. (A background job of this shell ignores INT and QUIT.)
    let answer = judged.run_approved(&format!(
        "exec bash -c '
         for signal in 1 14 18 28; do
             env {} $signal & place=$!
             while ! [ -e ready-$signal ]; do :; done
             kill -$signal $place
             while ! [ -e caught-$signal ]; do :; done
             kill $place; wait $place
         done'",
        count.display()
    ));
    assert_eq!(answer["output"], "1 1\n14 1\n18 1\n28 1\n", "{answer}");
}

#[test]
fn what_an_approved_program_executes_is_judged_too() {
    let Some(mut judged) = Judged::start() else { return };
    let kept = judged.kept();
    judged.script("remove", "#!/bin/sh\ngrep Seccomp: /proc/self/status; rm kept\n");
    let answer = judged.run_approved("env ./remove; exit $?");
    assert!(text(&answer, "output").starts_with("Seccomp:\t2\npausewatch: denied: "), "{answer}");
    assert_eq!(answer["exit_code"], 1, "{answer}");
    assert!(kept.exists());
}

#[test]
fn an_approved_program_gets_all_of_its_arguments() {
    let Some(mut judged) = Judged::start() else { return };
    // 1.5 MB, of which the person sees the beginning.
    let id = judged.begin(&format!(
        "a=0123456789; a=$a$a$a$a$a$a$a$a$a$a; for i in 1 2 3 4 5 6 7 8; do a=\"$a $a\"; done
         env sh -c 'echo $#' sh {}",
        "$a ".repeat(57)
    ));
    let asked = judged.question();
    let message = text(&asked["params"], "message");
    assert!(message.len() < 100_000 && message.contains(" …\n"), "{}", message.len());
    judged.client.others.push(asked);
    assert_eq!(judged.approve_until(id)["output"], "14592\n");
}

/// A program in memory cannot be started from outside: it stays in the sandbox.
#[test]
fn a_program_in_memory_never_leaves_the_sandbox() {
    let Some(mut judged) = Judged::start() else { return };
    let Some(outside) = unwritable_directory() else {
        return skipped("directory", "sandboxed commands can write every directory that this user can write");
    };
    let (memory, made) = (compiled("memory.c", judged.directory.path()), outside.path().join("made"));
    let answer = judged.run_approved(&format!("{} /bin/touch touch {}; exit $?", memory.display(), made.display()));
    if text(&answer, "sandbox").starts_with("enforced") {
        assert!(!made.exists() && answer["exit_code"] == 1, "{answer}");
    }
    assert_eq!(answer["denied"], Value::from(false));
}
