//! The working directory of a command: links are resolved, and outside the server's directories a person is asked.
use super::client::{Client, exec_server, path_of_the_system};
use super::prompts::unwritable_directory;
use crate::program::ended;
use crate::support::skipped;
use pausewatch::test_support::sandbox::Sandbox;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::Command,
};
use tempfile::TempDir;

/// A project with a directory `sub`, beside another directory; sandboxed commands cannot write to either.
struct Project {
    _base: TempDir,
    project: PathBuf,
    outside: PathBuf,
}

impl Project {
    fn new() -> Option<Self> {
        let Some(base) = unwritable_directory() else {
            skipped("directory", "sandboxed commands can write every directory that this user can write");
            return None;
        };
        let path = base.path().canonicalize().unwrap();
        let (project, outside) = (path.join("project"), path.join("outside"));
        fs::create_dir_all(project.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        Some(Self { _base: base, project, outside })
    }

    fn server<const N: usize>(&self, options: [&str; N]) -> Command {
        let mut server = exec_server(options);
        server.current_dir(&self.project).env("PATH", path_of_the_system());
        server
    }

    fn write(&self, workdir: &str) -> Value {
        json!({"command": "echo x > new", "workdir": self.project.join(workdir)})
    }
}

/// Replaces the directory, which a command in the sandbox can do.
fn replace(client: &mut Client, project: &Project, name: &str) {
    let line = format!("rmdir {name} && ln -s {} {name}", project.outside.display());
    let answer = client.call("shell", json!({"command": line, "workdir": project.project}));
    assert_eq!(answer["exit_code"], 0, "{answer}");
}

#[test]
fn a_directory_that_was_replaced_by_a_link_to_outside_is_not_writable() {
    let Some(project) = Project::new() else { return };
    let mut client = Client::with(project.server([]), "2025-06-18", json!({}));
    assert_eq!(client.call("shell", project.write("sub"))["exit_code"], 0);
    fs::remove_file(project.project.join("sub/new")).unwrap();
    replace(&mut client, &project, "sub");
    for arguments in [project.write("sub"), project.write("sub/../outside"), project.write("../outside")] {
        let answer = client.call("shell", arguments);
        let reason = answer["denied_reason"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(reason.contains("no person could be asked") && reason.contains("outside"), "{reason}");
    }
    let answer = client.call("exec_command", json!({"command": "echo x > new", "workdir": "sub"}));
    assert_eq!(answer["denied"], true, "{answer}");
    assert!(!project.outside.join("new").exists());
    // The directories that the server was started for need no question.
    let named = project.outside.to_str().unwrap();
    let mut client = Client::with(project.server(["--writable", named]), "2025-06-18", json!({}));
    assert_eq!(client.call("shell", project.write("sub"))["exit_code"], 0);
    assert!(project.outside.join("new").exists());
    let mut client = Client::with(project.server(["--no-sandbox"]), "2025-06-18", json!({}));
    assert_eq!(client.call("shell", project.write("sub"))["exit_code"], 0, "nothing is protected");
}

#[test]
fn a_person_is_asked_about_a_working_directory_outside() {
    let Some(project) = Project::new() else { return };
    let mut client = Client::start(project.server([]));
    replace(&mut client, &project, "sub");
    for (reply, runs) in [("decline", false), ("accept", true)] {
        let id = client.begin("shell", "t", project.write("sub"));
        let asked = client.wait_for("question", |message| message["method"] == "elicitation/create");
        let text = asked["params"]["message"].as_str().unwrap();
        assert!(
            text.contains(&format!("\nin {}\n", project.outside.display())),
            "the question shows the target of the link: {text}"
        );
        client.respond(&asked, json!({"action": reply, "content": {"run": "yes"}}));
        let answer = client.answer(id);
        assert_eq!((answer["denied"] == false, project.outside.join("new").exists()), (runs, runs), "{answer}");
        assert!(!runs || answer["sandbox"].is_string(), "it runs inside the sandbox: {answer}");
    }
}

#[test]
fn an_answer_about_one_directory_is_not_valid_for_another() {
    let Some(project) = Project::new() else { return };
    let mut client = Client::with(project.server([]), "2026-07-28", json!({"elicitation": {"form": {}}}));
    let mut call = |mut params: Value| {
        params["name"] = json!("shell");
        params["arguments"] = project.write("link");
        let id = client.request("tools/call", params);
        client.result(id)
    };
    let (link, other) = (project.project.join("link"), project.outside.join("other"));
    fs::create_dir(&other).unwrap();
    symlink(&other, &link).unwrap();
    let asked = call(json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    fs::remove_file(&link).unwrap();
    symlink(&project.outside, &link).unwrap();
    let answers = json!({"approval": {"action": "accept", "content": {"run": "yes"}}});
    let answer = call(json!({"requestState": asked["requestState"], "inputResponses": answers}));
    assert_eq!(answer["isError"], true, "{answer}");
    assert!(!project.outside.join("new").exists());
}

/// Between the check and the start of the command, a part of the path is replaced by a link.
#[test]
fn a_link_in_a_path_that_was_checked_is_refused() {
    let Some(project) = Project::new() else { return };
    let program = env!("CARGO_BIN_EXE_pausewatch");
    symlink(&project.outside, project.project.join("link")).unwrap();
    let child = |options: &[&str], line: &str| {
        let mut command = Command::new(program);
        command.args(["exec-child", "--parent", &std::process::id().to_string(), "--sandbox"]).args(options);
        command.args(["--", "sh", "-c", line]).current_dir(&project.project).output().unwrap()
    };
    let sub = project.project.join("sub");
    let link = project.project.join("link");
    let (sub, link) = (sub.to_str().unwrap(), link.to_str().unwrap());
    let output = child(&["--workdir", sub, "--writable", sub], "pwd");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{sub}\n"), "{output:?}");
    for options in [&["--workdir", link][..], &["--workdir", &format!("{link}/.")]] {
        let output = child(options, "echo ran");
        assert!(output.stdout.is_empty() && output.status.code() == Some(125), "{output:?}");
    }
    if !Sandbox::probe().is_any() {
        return skipped("landlock", "the kernel has none");
    }
    let output = child(&["--writable", link], "echo ran");
    assert!(output.stdout.is_empty() && output.status.code() == Some(125), "{output:?}");
}

/// After a yes, it runs outside the sandbox where programs are not judged.
#[test]
fn the_shell_is_none_that_commands_can_write() {
    let Some(project) = Project::new() else { return };
    let bin = project.project.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("bash"), "#!/bin/sh\necho planted\n").unwrap();
    fs::set_permissions(bin.join("bash"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut server = project.server([]);
    server.env("PATH", format!("{}:{}", bin.display(), path_of_the_system().into_string().unwrap()));
    let answer = Client::start(server).call("shell", json!({"command": "echo sound", "workdir": project.project}));
    assert_eq!(answer["output"], "sound\n", "{answer}");
}

#[test]
fn rules_that_commands_can_change_are_warned_of() {
    let Some(project) = Project::new() else { return };
    for (place, is_warned) in [(&project.project, true), (&project.outside, false)] {
        let rules = place.join("my.rules");
        fs::write(&rules, "prefix_rule(['cp'])\n").unwrap();
        let checked = ended(&mut project.server(["--check", "--rules", rules.to_str().unwrap()]));
        assert_eq!(checked.code, Some(0), "{checked:?}");
        assert_eq!(checked.err.contains("commands can change these rules"), is_warned, "{checked:?}");
    }
}

#[test]
fn files_of_the_project_with_a_name_outside_it_are_reported() {
    let Some(project) = Project::new() else { return };
    let check = || ended(&mut project.server(["--check"]));
    assert!(!check().out.contains("hard links"));
    fs::write(project.outside.join("a"), "").unwrap();
    fs::hard_link(project.outside.join("a"), project.project.join("b")).unwrap();
    let checked = check();
    let reported = format!(
        "hard links: 1 files in this directory have another name outside it, such as {:?}",
        project.project.join("b")
    );
    assert!(checked.out.contains(&reported), "{checked:?}");
}

#[test]
fn a_command_that_removes_the_directory_for_temporary_files_is_not_the_last_one() {
    let directory = tempfile::tempdir().unwrap();
    let temporary = directory.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let mut server = exec_server([]);
    server.env("TMPDIR", &temporary).current_dir(directory.path());
    let mut client = Client::start(server);
    for line in ["rm -r $TMPDIR", "true"] {
        let answer = client.call("shell", json!({"command": line, "workdir": directory.path()}));
        assert_eq!(answer["exit_code"], 0, "{line}: {answer}");
    }
}

#[test]
fn only_its_own_call_waits_for_a_directory_whose_file_system_does_not_answer() {
    let (directory, server) = (tempfile::tempdir().unwrap(), exec_server([]));
    let mut mounts = Command::new("unshare");
    mounts.args(["-m", "mount", "-t", "tmpfs", "none"]).arg(directory.path());
    let device = fs::File::options().read(true).write(true).open("/dev/fuse");
    let Some(device) = device.ok().filter(|_| ended(&mut mounts).code == Some(0)) else {
        return skipped("fuse", "this user cannot mount a file system of its own");
    };
    // Runs the server in its own mount namespace.
    let script = r#"mount -i -t fuse -o fd=2,rootmode=40000,user_id=0,group_id=0 none "$0" && exec "$@" 2>/dev/null"#;
    let mut mounted = Command::new("unshare");
    mounted.args(["-m", "sh", "-c", script]).arg(directory.path()).arg(server.get_program()).args(server.get_args());
    server.get_envs().for_each(|(name, value)| _ = value.map(|value| mounted.env(name, value)));
    mounted.current_dir("/").stderr(device.try_clone().unwrap());
    let mut client = Client::start(mounted);
    let waits = client.begin("shell", "t", json!({"command": "true", "workdir": directory.path()}));
    assert_eq!(client.call("shell", json!({"command": "echo on", "workdir": "/"}))["output"], "on\n");
    assert!(!client.has_answered(waits));
    // The kernel then answers that the file system is not connected.
    drop(device);
    client.result(waits);
}
