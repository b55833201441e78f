//! Programs by paths that lead each process to its own files: `/proc/self`, and links to it. The supervisor must not
//! look at its own files.
use super::{Judged, RULES, can_judge, compiled, text};
use crate::program::{ended, program};
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

/// `say` is a harmless script, and `rm` one that must not run.
fn scripts(directory: &Path) {
    for (name, text) in [("say", "echo said"), ("rm", "echo > removed")] {
        let path = directory.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_program_that_is_named_by_a_file_descriptor_of_its_process_is_judged() {
    let Some(mut judged) = Judged::start() else { return };
    scripts(judged.directory.path());
    symlink("/dev/fd/9", judged.path("link")).unwrap();
    symlink("/proc/self/fd", judged.path("fds")).unwrap();
    symlink("say", judged.path("there")).unwrap();
    // Also by relative paths.
    symlink("../../../../../../../../../proc/self/../thread-self/fd", judged.path("relative")).unwrap();
    let answer = judged.run(
        "exec 8< there 9< rm
         for of in /proc/self/fd /proc/thread-self/fd /dev/fd fds relative /proc//./self/fd; do
             $of/8 || echo \"failed $?\"
             $of/9 && echo ran; echo \"status $?\"
             $of/7; echo \"none $?\"
         done
         ./link; echo \"status $?\"
         cd /proc; self/fd/9; echo \"status $?\"",
    );
    let output = text(&answer, "output");
    let counts = ["said\n", "use trash", "\nstatus 1\n", "\nnone 127\n"].map(|part| output.matches(part).count());
    assert!(counts == [6, 8, 8, 6] && !judged.path("removed").exists(), "{counts:?} {answer}");
}

#[test]
fn a_program_that_is_named_by_a_file_descriptor_of_its_process_is_approved() {
    let Some(mut judged) = Judged::start() else { return };
    let answer = judged.run_approved("exec 9< $(command -v touch); /dev/fd/9 made; echo $?");
    assert!(answer["output"] == "0\n" && judged.path("made").exists(), "{answer}");
}

/// A process that executes `/proc/self/exe` is judged by its own file, not by that of the supervisor.
#[test]
fn a_program_that_executes_itself_is_judged_by_its_own_name() {
    let Some(mut judged) = Judged::start() else { return };
    compiled("itself.c", judged.directory.path());
    for (name, ran) in [("other", true), ("rm", false)] {
        let answer = judged.run(&format!("cp itself begin && ./begin {name}; exit $?"));
        assert_eq!(text(&answer, "output").contains("ran as "), ran, "{answer}");
        assert_eq!(text(&answer, "output").contains("use trash"), !ran, "{answer}");
    }
}

/// In the working directory of the command, the same name is another program than in that of the exec server.
#[test]
fn a_program_below_the_working_directory_of_its_process_is_judged() {
    let Some(mut judged) = Judged::start() else { return };
    scripts(judged.directory.path());
    fs::create_dir(judged.path("below")).unwrap();
    symlink("/proc/self/cwd", judged.path("here")).unwrap();
    symlink("say", judged.path("tool")).unwrap();
    symlink("../rm", judged.path("below/tool")).unwrap();
    let answer = judged.run("here/tool; cd below; for of in ../here /proc/self/cwd; do $of/tool; echo $?; done");
    let output = text(&answer, "output");
    assert!(output.starts_with("said\n") && output.matches("use trash").count() == 2, "{answer}");
    assert!(output.ends_with("\n1\n") && !judged.path("removed").exists(), "{answer}");
}

/// An open question keeps the working directory of its process open in the supervisor, as some file descriptor.
#[test]
fn a_program_below_a_directory_that_its_process_has_opened_is_judged() {
    let Some(mut judged) = Judged::start() else { return };
    scripts(judged.directory.path());
    fs::create_dir(judged.path("below")).unwrap();
    symlink("say", judged.path("tool")).unwrap();
    symlink("../rm", judged.path("below/tool")).unwrap();
    judged.script(
        "numbers",
        "#!/bin/bash
         for number in {3..60}; do eval \"exec $number< below\"; done
         for number in {3..60}; do /proc/self/fd/$number/tool; done 2>&1",
    );
    let id = judged.begin("touch made & while ! [ -e go ]; do :; done; ./numbers; kill $!; exit 0");
    let _question = judged.question();
    fs::write(judged.path("go"), "").unwrap();
    let answer = judged.client.answer(id);
    assert_eq!(text(&answer, "output").matches("use trash").count(), 58, "{answer}");
    assert!(!judged.path("removed").exists(), "{answer}");
}

/// `run --rules` has file descriptors of its caller, which the command may replace.
#[test]
fn a_file_descriptor_that_was_inherited_is_that_of_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("a.rules");
    fs::write(&rules, RULES).unwrap();
    if !can_judge(&rules) {
        return;
    }
    scripts(directory.path());
    symlink("/dev/fd/9", directory.path().join("nine")).unwrap();
    let program = program();
    let mut shell = Command::new("sh");
    let script = "exec 9< say; \"$@\" run --private --rules a.rules 1m sh -c './nine; exec 9< rm; ./nine; echo $?'";
    shell.args(["-c", script, "sh"]).arg(program.get_program()).current_dir(directory.path());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let ran = ended(&mut shell);
    assert!(ran.out == "said\n1\n" && ran.err.contains("use trash"), "{ran:?}");
    assert!(!directory.path().join("removed").exists());
}
