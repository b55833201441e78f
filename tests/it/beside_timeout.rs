//! Runs a case with GNU `timeout` and with `pausewatch run`, and compares exit status and output.
use crate::shell::{End, all_of, plain, within_deadline};
use crate::support::skipped;
use std::{
    collections::VecDeque,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
};

/// Options, DURATION, COMMAND and arguments.
pub(crate) type Case = &'static [&'static str];

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    stdout: String,
    /// The messages about signals and commands. Those about the command line have a different wording, so they are left
    /// out.
    said: Vec<String>,
}

pub(crate) fn compare(cases: &[Case]) {
    compare_all(cases.iter().map(|case| (Vec::new(), *case)));
}

/// Runs all cases, with words before the program under test. Cases with an `@` also have another one of it around it.
pub(crate) fn compare_all(cases: impl IntoIterator<Item = (Vec<String>, Case)>) {
    if !timeout_is_gnu() {
        return skipped("gnu-timeout", "timeout is missing or not of GNU coreutils");
    }
    let directory = fixtures();
    let waiting = Mutex::new(cases.into_iter().collect::<VecDeque<_>>());
    let differing = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        // Most of a case is waiting, so several run at once.
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some((before, case)) = { waiting.lock().unwrap().pop_front() } {
                    let theirs = outcome(&mut command(&["timeout"], &before, &for_gnu(case)), directory.path());
                    let ours = outcome(
                        &mut command(&[env!("CARGO_BIN_EXE_pausewatch"), "run"], &before, case),
                        directory.path(),
                    );
                    if ours != theirs {
                        let shown = format!("{before:?} {case:?}\n  timeout {theirs:?}\n  run     {ours:?}");
                        differing.lock().unwrap().push(shown);
                    }
                }
            });
        }
    });
    let differing = differing.into_inner().unwrap();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn command(program: &[&str], before: &[String], case: &[&str]) -> Command {
    let outer: Vec<_> = before.iter().filter_map(|word| word.strip_prefix('@')).collect();
    let outer = if program.len() == 1 { for_gnu(&outer) } else { outer };
    let plain_words = before.iter().map(String::as_str).filter(|word| !word.starts_with('@'));
    let mut words: Vec<_> = plain_words.chain(program.iter().copied()).collect();
    if !outer.is_empty() {
        words.extend(outer);
        words.extend(program);
    }
    words.extend(case);
    let mut command = plain(words[0]);
    command.args(&words[1..]);
    command
}

pub(crate) fn outcome(command: &mut Command, directory: &Path) -> Outcome {
    let command = command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdout, stderr) = (all_of(child.stdout.take().unwrap()), all_of(child.stderr.take().unwrap()));
    let end = within_deadline(&mut child).into();
    let (stdout, stderr) = (stdout.within_deadline(), stderr.within_deadline());
    let ours = |line: &str| line.strip_prefix("timeout: ").or(line.strip_prefix("pausewatch run: ")).map(str::to_owned);
    let about_commands = |line: &String| line.contains(" command ");
    Outcome { end, stdout, said: stderr.lines().filter_map(ours).filter(about_commands).collect() }
}

/// GNU timeout 9.1 does not have the short options `-f` and `-p` yet. Cases put these two first.
fn for_gnu<'a>(case: &[&'a str]) -> Vec<&'a str> {
    let mut args = Vec::new();
    let mut rest = case;
    while let [first, tail @ ..] = rest {
        match *first {
            "-f" => args.push("--foreground"),
            "-p" => args.push("--preserve-status"),
            "-fp" => args.extend(["--foreground", "--preserve-status"]),
            "-fv" => args.extend(["--foreground", "-v"]),
            _ => break,
        }
        rest = tail;
    }
    args.extend(rest);
    args
}

fn timeout_is_gnu() -> bool {
    let version = Command::new("timeout").arg("--version").output();
    version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("GNU coreutils"))
}

fn fixtures() -> tempfile::TempDir {
    use std::{fs, os::unix::fs::PermissionsExt};
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    file("not-executable", "#!/bin/sh\n", 0o644);
    file("no-interpreter", "#!/no/such/interpreter\n", 0o755);
    file("no-shebang", "echo \"$0\" \"$@\"\nexit 5\n", 0o755);
    file("empty", "", 0o755);
    file("parent-waits", "while ! grep -q ') S ' /proc/$PPID/stat; do :; done\n", 0o644);
    // For a subshell: until its shell is stopped.
    file("stopped", "while ! grep -q ') T ' /proc/$$/stat; do :; done\n", 0o644);
    fs::create_dir(directory.path().join("directory")).unwrap();
    directory
}
