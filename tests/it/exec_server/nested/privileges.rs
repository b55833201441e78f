//! Other users, other root directories, and programs that change the user.
use super::{Judged, RULES, can_judge, compiled, exec_server, text};
use crate::{exec_server::client::Client, support::skipped};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
};

const NOBODY: u32 = 65_534;

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_set_user_id_program_has_its_privileges_only_after_a_yes() {
    let Some(mut judged) = Judged::start() else { return };
    let program = compiled("identity.c", judged.directory.path());
    if !is_root() {
        return skipped("other-user", "only root can make a program for another user");
    }
    // `sleep` needs an approval, `identity` does not.
    for name in ["sleep", "identity"] {
        let path = judged.path(name);
        if name == "sleep" {
            fs::copy(&program, &path).unwrap();
        }
        chown(&path, Some(NOBODY), None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    }
    let outside = Command::new(judged.path("identity")).output().unwrap();
    if outside.stdout != b"65534\n" {
        return skipped("other-user", "the file system ignores set-user-id bits");
    }
    let answer = judged.run_approved("./identity; ./sleep");
    assert_eq!(answer["output"], "0\n65534\n", "{answer}");
}

#[test]
fn a_program_with_file_capabilities_gets_them_after_a_yes() {
    let Some(mut judged) = Judged::start() else { return };
    // `sleep` needs an approval.
    let program = judged.path("sleep");
    fs::copy("/bin/cat", &program).unwrap();
    let may_get_privileges = |judged: &mut Judged| {
        let answer = judged.run_approved("./sleep /proc/self/status");
        text(&answer, "output").lines().any(|line| line == "NoNewPrivs:\t0")
    };
    assert!(!may_get_privileges(&mut judged), "a program without capabilities is judged further on");
    let set = Command::new("setcap").arg("cap_net_raw+ep").arg(&program).status();
    if !set.is_ok_and(|status| status.success()) {
        return skipped("other-user", "only root can give capabilities to a file, with `setcap`");
    }
    assert!(may_get_privileges(&mut judged));
}

#[test]
fn a_program_with_another_root_directory_is_refused_if_a_rule_is_about_it_and_runs_else() {
    let Some(mut judged) = Judged::start() else { return };
    if !is_root() {
        return skipped("other-user", "only root can change the root directory");
    }
    let root = judged.path("root");
    fs::create_dir(&root).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/exec_server/nested/programs/identity.c");
    for name in ["identity", "rm"] {
        // Static, because the other root has no C library.
        let compiled = Command::new("cc").args(["-static", "-o"]).arg(root.join(name)).arg(source).status().unwrap();
        assert!(compiled.success());
    }
    let answer =
        judged.run("chroot root /identity; chroot root ./identity; chroot root /rm; echo $?; chroot root /no; echo $?");
    let output = text(&answer, "output");
    assert!(output.starts_with("0\n0\n") && output.contains("126\n") && output.ends_with("127\n"), "{answer}");
    assert!(text(&answer, "note").contains("/rm was not executed: it has another root directory"), "{answer}");
}

/// An approved program would get the user and the namespaces of the command's shell.
#[test]
fn a_program_is_not_approved_for_a_process_with_another_user_or_namespace() {
    let Some(mut judged) = Judged::start() else { return };
    let mut assert_refused = |starter: &str, what: &str| {
        // `env` needs an approval, `true` does not.
        if judged.run(&format!("{starter} true; exit $?"))["exit_code"] != 0 {
            return skipped("namespaces", format!("`{starter}` does not work"));
        }
        let answer = judged.run_approved(&format!("{starter} env id -u; echo \"ended with $?\""));
        assert!(!text(&answer, "output").contains("0\n"), "{answer}");
        assert!(text(&answer, "output").contains("ended with 126"), "{answer}");
        let note = format!("env was not executed: its process has another {what}");
        assert!(text(&answer, "note").contains(&note), "{answer}");
    };
    assert_refused("unshare --user", "");
    if is_root() {
        assert_refused("setpriv --reuid=65534 --regid=65534 --clear-groups", "user, group or capabilities");
        assert_refused("setpriv --bounding-set=-net_raw", "user, group or capabilities");
        assert_refused("unshare --net", "namespace (net)");
    }
}

#[test]
fn programs_are_judged_for_other_users_too() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("a.rules");
    fs::write(&rules, RULES).unwrap();
    if !can_judge(&rules) {
        return;
    }
    if !is_root() {
        return skipped("other-user", "these tests run as a user other than root already");
    }
    fs::write(directory.path().join("task"), "#!/bin/sh\nid -u; rm kept; touch made; echo $?\n").unwrap();
    fs::write(directory.path().join("kept"), "").unwrap();
    fs::set_permissions(directory.path().join("task"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let server = exec_server(["--rules", rules.to_str().unwrap(), "--private"]);
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    other.arg(server.get_program()).args(server.get_args()).current_dir("/");
    server.get_envs().for_each(|(name, value)| _ = value.map(|value| other.env(name, value)));
    other.env("XDG_RUNTIME_DIR", directory.path());
    let mut version = Command::new("setpriv");
    version.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(server.get_program()).arg("--version");
    if !version.output().is_ok_and(|ran| ran.status.success()) {
        return skipped("other-user", "the program does not run as another user");
    }
    let mut client = Client::start(other);
    let id = client.begin("shell", "t", json!({"command": "./task", "workdir": directory.path()}));
    let asked = client.wait_for("question", |message| message["method"] == "elicitation/create");
    client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
    let answer = client.answer(id);
    let output = text(&answer, "output");
    assert!(output.starts_with("65534\n") && output.contains("use trash") && output.ends_with("\n0\n"), "{answer}");
    assert!(directory.path().join("made").exists() && directory.path().join("kept").exists(), "{answer}");
}
