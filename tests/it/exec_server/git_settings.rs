//! git runs programs that its settings name, and commands in the sandbox can write these settings.
use super::{client::Client, client::exec_server, prompts::unwritable_directory};
use crate::support::skipped;
use pausewatch::test_support::sandbox::{Enforcement, Sandbox};
use serde_json::{Value, json};
use std::fs;

/// Makes a repository with a commit, a change, and a program that git's settings can name. `$OUT` is outside the
/// sandbox.
const REPOSITORY: &str = r#"git init -q . && printf '#!/bin/sh\necho x > "%s/$(date +%%s%%N)"\n' "$OUT" > run && chmod +x run &&
echo one > file && git add file && git -c user.name=a -c user.email=a@b commit -qm one && echo two > file"#;

/// Each attack: what a command in the sandbox prepares, and the command that the rules allow.
const ATTACKS: [(&str, &str); 7] = [
    ("git config core.fsmonitor \"$PWD/run\"", "git status"),
    ("git config diff.external \"$PWD/run\"", "git diff"),
    ("echo '* diff=x' > .gitattributes; git config diff.x.textconv \"$PWD/run\"", "git log -p"),
    ("git config core.pager \"$PWD/run\"", "git -p log"),
    ("true", "git log --output=\"$OUT/log\""),
    ("true", "git log --output=OUTSIDE/log"),
    (
        "mkdir sub && echo \"gitdir: $PWD/.git\" > sub/.git && git config core.fsmonitor \"$PWD/run\"",
        "cd sub && git status",
    ),
];

#[test]
fn an_allowed_git_runs_no_program_outside_the_sandbox() {
    let enforcement = Sandbox::probe();
    if enforcement != Enforcement::Full {
        return skipped("landlock", format!("the sandbox is {enforcement}"));
    }
    let Some(outside) = unwritable_directory() else {
        return skipped("directory", "sandboxed commands can write every directory that this user can write");
    };
    let page = include_str!("../../../docs/exec-server.md");
    let example = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let rules = place.path().join("page.rules");
    fs::write(&rules, format!("{example}\nprefix_rule(pattern=[\"cd\"])\n")).unwrap();
    let mut server = exec_server(["--rules", rules.to_str().unwrap()]);
    server.env("OUT", outside.path());
    let mut client = Client::with(server, "2025-06-18", json!({}));
    for (i, (prepare, line)) in ATTACKS.iter().enumerate() {
        let workdir = place.path().join(i.to_string());
        fs::create_dir(&workdir).unwrap();
        let mut run =
            |line: &str| client.call("shell", json!({"command": line, "workdir": workdir, "timeout_ms": 60_000}));
        let prepared = run(&format!("{REPOSITORY} && {{ {prepare}; }}"));
        assert_eq!((&prepared["exit_code"], prepared["sandbox"].is_string()), (&json!(0), true), "{prepared}");
        let answer = run(&line.replace("OUTSIDE", outside.path().to_str().unwrap()));
        let written = fs::read_dir(outside.path()).unwrap().count();
        assert_eq!(written, 0, "`{line}` after `{prepare}` wrote outside: {answer}");
        assert_ne!(answer["sandbox"], Value::Null, "{line}: {answer}");
        assert_eq!(answer["denied"], false, "an allowed command needs no approval: {answer}");
    }
}
