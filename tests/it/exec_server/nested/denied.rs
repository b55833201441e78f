//! Forbidden programs do not run, and all others run as usual.
use super::{Judged, compiled, source_of, text};
use crate::support::skipped;
use serde_json::Value;
use std::process::Command;

fn assert_denied(answer: &Value) {
    let output = text(answer, "output");
    assert!(output.contains("pausewatch: denied: ") && output.contains("use trash"), "{answer}");
    assert!(text(answer, "note").contains("a program was denied"), "{answer}");
}

#[test]
fn a_forbidden_program_is_denied_wherever_it_is_started() {
    let Some(mut judged) = Judged::start() else { return };
    let kept = judged.kept();
    let rm = ["/bin/rm", "/usr/bin/rm"].into_iter().find(|path| std::path::Path::new(path).exists()).unwrap();
    judged.script("nested", "#!/bin/sh\nsh -c 'sh -c \"rm kept\"'\n");
    judged.script("interpreted", &format!("#!{rm}\n"));
    std::os::unix::fs::symlink(rm, judged.path("link")).unwrap();
    for script in [
        "rm kept; exit $?",
        "exec rm kept",
        "./nested; exit $?",
        "x=r; y=m; $x$y kept; exit $?",
        "echo kept | xargs rm; exit 1",
        "find kept -exec rm {} +; exit 1",
        "nice rm kept; exit $?",
        "./link kept; exit $?",
        "./interpreted; exit $?",
        "(sleep_=1; rm kept) & wait $!; exit $?",
        "echo 'rm kept' | sh; exit $?",
    ] {
        let answer = judged.run(script);
        assert_denied(&answer);
        assert_eq!(
            (&answer["exit_code"], &answer["denied"]),
            (&Value::from(1), &Value::from(false)),
            "{script}: {answer}"
        );
        assert!(kept.exists(), "{script}");
    }
    assert_eq!(judged.client.come("elicitation/create").len(), 0);
}

/// The kernel follows the symbolic link, and the first line of a script that another script names as its interpreter.
#[test]
fn a_script_is_judged_by_the_file_of_its_interpreter_and_by_the_interpreter_of_that() {
    let Some(mut judged) = Judged::start() else { return };
    let kept = judged.kept();
    let rm = ["/bin/rm", "/usr/bin/rm"].into_iter().find(|path| std::path::Path::new(path).exists()).unwrap();
    std::os::unix::fs::symlink(rm, judged.path("link")).unwrap();
    judged.script("inner", &format!("#!{rm} -f\n"));
    let there = judged.directory.path().display().to_string();
    for (name, interpreter) in [
        ("by-link", &*format!("{there}/link")),
        ("relative", "link -f"),
        ("by-script", &format!("{there}/inner")),
        ("by-both", &format!("{there}/by-link")),
    ] {
        judged.script(name, &format!("#!{interpreter}\n"));
        let answer = judged.run(&format!("./{name} kept; exit $?"));
        assert_denied(&answer);
        assert!(kept.exists() && judged.path(name).exists(), "{name}: {answer}");
    }
    judged.script("say", "#!/bin/sh\necho \"$*\"\n");
    judged.script("said", &format!("#!{there}/say -x\n"));
    assert_eq!(judged.run("./said kept; exit $?")["output"], "-x ./said kept\n");
}

#[test]
fn a_forbidden_program_is_denied_to_every_kind_of_process() {
    let Some(mut judged) = Judged::start() else { return };
    let kept = judged.kept();
    for (source, arguments) in [("vfork.c", "/bin/rm kept"), ("spawn.c", "1 rm kept"), ("thread.c", "rm kept")] {
        let program = compiled(source, judged.directory.path());
        let answer = judged.run(&format!("{} {arguments}; exit $?", program.display()));
        assert_denied(&answer);
        assert!(kept.exists() && answer["exit_code"] != 0, "{source}: {answer}");
    }
}

#[test]
fn programs_without_a_rule_run_as_ever() {
    let Some(mut judged) = Judged::start() else { return };
    let answer =
        judged.run("no-such-program; echo $?; ./nested.rules; echo $?; /; echo $?; /bin/true && exec sh -c 'exit 7'");
    assert_eq!(answer["exit_code"], 7, "{answer}");
    let numbers: Vec<_> = text(&answer, "output").lines().filter(|line| line.len() == 3).collect();
    assert_eq!(numbers, ["127", "126", "126"], "{answer}");
    assert_eq!(answer["note"], Value::Null, "{answer}");
    assert!(text(&answer, "sandbox").ends_with("; nested programs are judged"), "{answer}");

    for (source, arguments, output) in [
        ("vfork.c", "/bin/true", "20 of 20 ran\n"),
        ("spawn.c", "20 true", "20 of 20 ran\n"),
        ("thread.c", "echo ran", "ran\n"),
    ] {
        let program = compiled(source, judged.directory.path());
        assert_eq!(judged.run(&format!("{} {arguments}", program.display()))["output"], output);
    }
    let long = "i=0; a=; while [ $i -lt 1000 ]; do a=\"$a 0123456789012345678901234567890123456789\"; i=$((i+1)); done; \
                sh -c 'echo $#' sh $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a $a";
    assert_eq!(judged.run(long)["output"], "30000\n");
}

/// Go starts a program from any of its threads. Until the program runs, its process shares their memory.
#[test]
fn programs_that_go_starts_from_its_threads_are_judged() {
    let Some(mut judged) = Judged::start() else { return };
    let spawn = judged.path("spawn");
    match Command::new("go").args(["build", "-o"]).arg(&spawn).arg(source_of("spawn.go")).output() {
        Ok(built) => assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr)),
        Err(error) => return skipped("go", error),
    }
    let kept = judged.kept();
    assert_eq!(judged.run("./spawn true")["output"], "20 of 20 ran\n");
    let answer = judged.run("./spawn rm kept");
    assert_denied(&answer);
    assert!(kept.exists() && text(&answer, "output").ends_with("\n0 of 20 ran\n"), "{answer}");
    let answer = judged.run_approved("./spawn touch made");
    assert!(judged.path("made").exists() && answer["output"] == "20 of 20 ran\n", "{answer}");
}

/// A program in memory has no path, and other system call interfaces have other numbers.
#[test]
fn unusual_ways_to_execute_a_program_are_judged_too() {
    let Some(mut judged) = Judged::start() else { return };
    let kept = judged.kept();
    let memory = compiled("memory.c", judged.directory.path());
    let answer = judged.run(&format!("{} /bin/rm rm kept; exit $?", memory.display()));
    assert_denied(&answer);
    assert!(kept.exists());
    // This only checks and executes nothing, and kernels before Linux 6.14 refuse it.
    let check = compiled("check.c", judged.directory.path());
    let answer = judged.run(&format!("{} /bin/rm; echo $?", check.display()));
    assert!(["may be executed\n0\n", "Invalid argument\n0\n"].contains(&text(&answer, "output")), "{answer}");
    if cfg!(target_arch = "x86_64") {
        let other = compiled("other_interfaces.c", judged.directory.path());
        let answer = judged.run(&format!("{} /bin/rm kept", other.display()));
        assert_denied(&answer);
        assert!(kept.exists() && text(&answer, "output").contains("x32: Function not implemented\n"), "{answer}");
    }
}

/// A process has at most one tracer, and a supervisor that may not read a process cannot judge it.
#[test]
fn a_program_whose_process_is_traced_or_cannot_be_read_does_not_run_if_a_rule_is_about_it() {
    let Some(mut judged) = Judged::start() else { return };
    let kept = judged.kept();
    let program = compiled("unreadable.c", judged.directory.path());
    let program = program.display();
    let answer = judged.run(&format!("{program} traced rm kept; exit $?"));
    assert_eq!(answer["exit_code"], 126, "{answer}");
    assert!(text(&answer, "output").contains("execvp: Permission denied"), "{answer}");
    assert!(text(&answer, "note").contains("rm was not executed: another process traces it"), "{answer}");
    let answer = judged.run_approved(&format!("{program} traced touch made; exit $?"));
    assert_eq!(answer["exit_code"], 126, "{answer}");
    assert!(text(&answer, "note").contains("touch was not executed: "), "{answer}");
    // Root may read every process, so it judges this one like any other.
    let answer = judged.run(&format!("{program} undumpable rm kept; exit $?"));
    assert!(answer["exit_code"] != 0 && !text(&answer, "note").is_empty(), "{answer}");
    assert!(kept.exists() && !judged.path("made").exists());
    assert_eq!(judged.run(&format!("{program} traced echo ran; exit $?"))["output"], "ran\n");
}

#[test]
fn a_program_that_is_several_programs_is_judged_by_the_name_that_it_is_given() {
    let Some(mut judged) = Judged::start() else { return };
    judged.script("busybox", "#!/bin/sh\necho \"ran $1\"\n");
    let answer = judged.run("./busybox rm x; ./busybox ls");
    let output = text(&answer, "output");
    assert!(output.contains("use trash") && output.ends_with("ran ls\n") && !output.contains("ran rm"), "{answer}");
}
