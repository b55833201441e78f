//! The sandbox: what a command can change in it, and how it ends.
use crate::support::{sandboxed, skipped};
use pausewatch::test_support::sandbox::{Enforcement, Sandbox};
use std::{fs, path::Path, process::Output};

fn run(sandbox: &Sandbox, command: &[&str]) -> Output {
    sandboxed(sandbox, command[0], &command[1..]).output().expect("the program starts")
}

fn shell(sandbox: &Sandbox, directory: &Path, script: &str) -> bool {
    let directory = directory.to_str().unwrap();
    run(sandbox, &["sh", "-c", &format!("cd {directory} && {{ {script}; }} 2>/dev/null")]).status.success()
}

#[test]
fn only_files_below_the_writable_roots_can_be_changed() {
    let enforcement = Sandbox::probe();
    if !enforcement.is_any() {
        return skipped("landlock", format!("the sandbox is {enforcement}"));
    }
    let directory = tempfile::tempdir().unwrap();
    let (inside, outside) = (directory.path().join("in"), directory.path().join("out"));
    for directory in [&inside, &outside] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("old"), "old").unwrap();
    }
    fs::write(directory.path().join("file"), "old").unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
    let sandbox = Sandbox::new([inside.clone(), directory.path().join("file")]);
    let script = |script: &str| shell(&sandbox, directory.path(), script);

    for allowed in [
        "echo x > in/new",
        "echo x >> in/old",
        "mkdir -p in/a/b && mv in/new in/a/b/newer && rm -r in/a",
        "cat out/old",
        "echo x > file",
        "echo x > /dev/null",
        "cp out/old in/copy",
        "test -x /bin/sh && ls /",
    ] {
        assert!(script(allowed), "{allowed}");
    }
    let mut forbidden = vec![
        "echo x > out/new",
        "echo x >> out/old",
        "echo x > in/link/new",
        "echo x > in/../out/new",
        "rm out/old",
        "mv out/old in/moved",
        "mv in/old out/moved",
        "ln in/old out/linked",
        "ln -s in out/linked",
        "mkdir out/new",
        "mkfifo out/new",
        // Child processes are restricted as well, and cannot escape.
        "sh -c 'sh -c \"echo x > out/new\"'",
    ];
    match enforcement {
        Enforcement::Full => forbidden.push("truncate -s 0 out/old"),
        enforcement => skipped("landlock", format!("truncating files: the sandbox is {enforcement}")),
    }
    for forbidden in forbidden {
        assert!(!script(forbidden), "{forbidden}");
    }
    assert_eq!(fs::read_to_string(outside.join("old")).unwrap(), "old");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn the_sandbox_keeps_the_exit_status() {
    let sandbox = Sandbox::new([std::env::temp_dir()]);
    let end = |command: &[&str]| {
        let output = run(&sandbox, command);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(end(&["sh", "-c", "exit 7"]), (Some(7), String::new()));
    assert_eq!(end(&["sh", "-c", "kill -TERM $$"]), (None, String::new()));
    let (code, said) = end(&["no-such-program"]);
    assert_eq!(code, Some(127), "{said}");
    assert!(said.starts_with("pausewatch exec-child: no-such-program: failed to run command: "), "{said}");
    assert_eq!(end(&["/"]).0, Some(126));
}

#[test]
fn a_missing_writable_root_prevents_the_command() {
    let output = run(&Sandbox::new(["/no/such/root".into()]), &["echo", "ran"]);
    if !Sandbox::probe().is_any() && cfg!(not(target_os = "linux")) {
        return skipped("landlock", "the sandbox exists on Linux only");
    }
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(output.stdout, b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("pausewatch exec-child: cannot open the writable path /no/such/root: "), "{said}");
}
