//! Systems that refuse system calls. Those that refuse what judging needs cannot judge programs: only the text is judged,
//! and every answer reports that.
use super::{Judged, RULES, compiled, exec_server, privileges::is_root, text};
use crate::{
    exec_server::client::Client,
    program::{ended, program},
    support::skipped,
};
use nix::libc::{self, ENOSYS, EPERM, SYS_ptrace, SYS_seccomp};
use serde_json::json;
use std::{fs, path::Path, process::Command};

/// The program with a system call that the kernel refuses.
fn refused(refuse: &Path, call: i64, error: i32, command: &Command) -> Command {
    let mut refused = Command::new(refuse);
    refused.args([call.to_string(), error.to_string()]);
    started_by(refused, command)
}

/// `starter` with the command as its further arguments, and with the command's variables.
fn started_by(mut starter: Command, command: &Command) -> Command {
    starter.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => starter.env(name, value),
            None => starter.env_remove(name),
        };
    }
    starter
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

/// What Docker's default profile refuses to a container without capabilities, as far as it has to do with processes, files or mounts
/// (`profiles/seccomp/default.json` of moby). It refuses `clone3` with ENOSYS, all others with EPERM.
const REFUSED_IN_CONTAINERS: [i64; 18] = [
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clone3,
    libc::SYS_fanotify_init,
    libc::SYS_fsmount,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
];

#[test]
fn in_a_container_with_dockers_default_profile_and_no_capabilities_programs_are_judged() {
    let directory = tempfile::tempdir().unwrap();
    let refuse = compiled("refuse.c", directory.path());
    let without_capabilities = ["--inh-caps=-all", "--bounding-set=-all"];
    if is_root()
        && !Command::new("setpriv").args(without_capabilities).arg("true").status().is_ok_and(|ran| ran.success())
    {
        return skipped("namespaces", "setpriv cannot drop capabilities");
    }
    let in_container = |mut server: Command| {
        for call in REFUSED_IN_CONTAINERS {
            server = refused(&refuse, call, if call == libc::SYS_clone3 { ENOSYS } else { EPERM }, &server);
        }
        if is_root() {
            let mut setpriv = Command::new("setpriv");
            setpriv.args(without_capabilities);
            server = started_by(setpriv, &server);
        }
        Client::start(server)
    };
    let Some(mut judged) = Judged::with(in_container, &[]) else { return };
    let kept = judged.kept();
    let answer =
        judged.run("grep -Ec '^Cap(Prm|Eff):.0+$' /proc/self/status; unshare --user true; echo $?; sh -c 'rm kept'");
    let output = text(&answer, "output");
    assert!(output.starts_with("2\n"), "{answer}");
    assert!(output.contains("unshare failed: Operation not permitted\n1\n"), "{answer}");
    assert!(output.contains("pausewatch: denied: ") && kept.exists(), "{answer}");
    assert!(text(&answer, "sandbox").ends_with("; nested programs are judged"), "{answer}");
    let answer = judged.run_approved("sh -c 'touch made; echo $?'");
    assert_eq!(answer["output"], "0\n", "{answer}");
    assert!(judged.path("made").exists());
}
