//! Systems that cannot judge programs: only the text is judged, and every answer reports that.
use super::{RULES, compiled, exec_server, text};
use crate::{
    exec_server::client::Client,
    program::{ended, program},
};
use nix::libc::{ENOSYS, EPERM, SYS_ptrace, SYS_seccomp};
use serde_json::json;
use std::{fs, path::Path, process::Command};

/// The program with a system call that the kernel refuses.
fn refused(refuse: &Path, call: i64, error: i32, command: &Command) -> Command {
    let mut refused = Command::new(refuse);
    refused.args([call.to_string(), error.to_string()]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => refused.env(name, value),
            None => refused.env_remove(name),
        };
    }
    refused
}

#[test]
fn if_the_kernel_refuses_the_facility_lines_that_are_not_plain_are_asked_about_and_answers_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let (rules, kept) = (directory.path().join("a.rules"), directory.path().join("kept"));
    fs::write(&rules, RULES).unwrap();
    fs::write(&kept, "").unwrap();
    let refuse = compiled("refuse.c", directory.path());
    let rules = rules.to_str().unwrap();
    // As on an old kernel; with Yama's ptrace_scope 2 and 3; and in containers without ptrace.
    for (call, error) in [(SYS_seccomp, ENOSYS), (SYS_ptrace, EPERM)] {
        let server = |options: &[&str]| {
            let mut server = exec_server(["--rules", rules]);
            server.args(options);
            refused(&refuse, call, error, &server)
        };
        let checked = ended(&mut server(&["--check"]));
        assert_eq!(checked.code, Some(0), "{checked:?}");
        assert!(checked.out.contains("\nrules: nested programs are not judged: "), "{checked:?}");
        let mut client = Client::start(server(&[]));
        let arguments = |line: &str| json!({"command": line, "workdir": directory.path()});
        for line in ["rm kept", "true; rm kept", "for f in kept; do rm $f; done", "sudo rm kept"] {
            let answer = client.call("shell", arguments(line));
            assert_eq!(answer["denied"], true, "{line}: {answer}");
        }
        for line in ["$x kept", "sh -c 'r\"m\" kept' x", "echo $(date)", "xargs true", "nice rm kept", "PATH=. ls"] {
            let id = client.begin("shell", "t", arguments(line));
            if line.starts_with("sh ") {
                // A line that is certainly forbidden is refused without a question.
                assert_eq!(client.answer(id)["denied"], true, "{line}");
                continue;
            }
            let asked = client.wait_for("question", |message| message["method"] == "elicitation/create");
            assert!(text(&asked["params"], "message").contains("cannot be judged with certainty"), "{asked}");
            client.respond(&asked, json!({"action": "decline"}));
            assert_eq!(client.answer(id)["denied"], true, "{line}");
        }
        let answer = client.call("shell", arguments("echo a && true | true; ls kept"));
        assert_eq!(answer["output"], "a\nkept\n", "{answer}");
        assert!(text(&answer, "sandbox").contains("; nested programs are not judged: "), "{answer}");
        assert!(kept.exists());

        let mut run = program();
        run.args(["run", "--private", "--rules", rules, "1m", "touch"]).arg(directory.path().join("made"));
        let ran = ended(&mut refused(&refuse, call, error, &run));
        assert!(ran.code == Some(125) && ran.err.contains("cannot judge the programs of COMMAND"), "{ran:?}");
        assert!(!directory.path().join("made").exists());
    }
}
