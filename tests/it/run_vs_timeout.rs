//! `pausewatch run` beside GNU `timeout`: every case is run by both, and both must end the same way and write the same.
//!
//! Where a case needs the time to be up at a certain moment, its command sends ALRM to its parent: that is the signal of
//! `timeout`'s own clock. So no case depends on how fast the machine is. `parent-waits` lets GNU timeout come to rest
//! first: a signal that reaches it right after its fork makes it exit and leave the command.
use crate::shell::{End, all_of, pausewatch, plain, within_deadline};
use crate::support::skipped;
use std::{
    collections::VecDeque,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
};

/// Options, DURATION, COMMAND and arguments.
type Case = &'static [&'static str];

const STATUS: &[Case] = &[
    &["10", "true"],
    &["10", "false"],
    &["10", "sh", "-c", "exit 3"],
    &["10", "sh", "-c", "exit 124"],
    &["10", "sh", "-c", "exit 255"],
    &[".1", "sleep", "10"],
    &["-p", ".1", "sleep", "10"],
    &["-f", ".1", "sleep", "10"],
    &["-fp", ".1", "sleep", "10"],
    &["-s", "KILL", ".1", "sleep", "10"],
    &["-p", "-s", "9", ".1", "sleep", "10"],
    &["-f", "-s", "KILL", ".1", "sleep", "10"],
    &["-fv", "-sKILL", "-k9", ".1", "sleep", "10"],
    &["10", "sh", "-c", "kill -TERM $$"],
    &["10", "sh", "-c", "kill -KILL $$"],
    &["10", "sh", "-c", "kill -SEGV $$"],
    &["10", "sh", "-c", "kill -ABRT $$"],
    &["10", "sh", "-c", "kill -PIPE $$"],
    &["10", "sh", "-c", "kill -USR1 $$"],
    &["10", "sh", "-c", "kill -ALRM $$"],
    &["10", "bash", "-c", "kill -s RTMIN+2 $$"],
    &["-p", "10", "sh", "-c", "kill -INT $$"],
    &["-f", "10", "sh", "-c", "kill -HUP $$"],
];

const TIME_IS_UP: &[Case] = &[
    // The command catches the signal and ends as it likes.
    &[
        "10",
        "sh",
        "-c",
        "trap 'echo caught; exit 7' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done",
    ],
    &[
        "-p",
        "10",
        "sh",
        "-c",
        "trap 'echo caught; exit 7' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done",
    ],
    &[
        "-fp",
        "10",
        "sh",
        "-c",
        "trap 'echo caught; exit 7' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done",
    ],
    // It ignores it.
    &["-k", ".1", "10", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done"],
    &["-vk.1", "10", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done"],
    &["-f", "-vk.1", "10", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done"],
    &["-fp", "-k.1", "10", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; while :; do sleep .1; done"],
    &["-k", "0", "10", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-v", "-s", "0", "10", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-vs", "EXIT", "10", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    // Other signals, by all their names.
    &["-vs", "INT", ".1", "sleep", "10"],
    &["-vs", "sigint", ".1", "sleep", "10"],
    &["-vs", "2", ".1", "sleep", "10"],
    &["-vs", "130", ".1", "sleep", "10"],
    &["-p", "-vs", "HUP", ".1", "sleep", "10"],
    &["-vs", "QUIT", ".1", "sleep", "10"],
    &["-vs", "IOT", ".1", "sleep", "10"],
    &["-vs", "ILL", ".1", "sleep", "10"],
    &["-vs", "FPE", ".1", "sleep", "10"],
    &["-vs", "SEGV", ".1", "sleep", "10"],
    &["-vs", "USR1", ".1", "sleep", "10"],
    &["-vs", "PIPE", ".1", "sleep", "10"],
    &["-vs", "ALRM", ".1", "sleep", "10"],
    &["-vs", "IO", ".1", "sleep", "10"],
    &["-vs", "RTMIN", ".1", "sleep", "10"],
    &["-vs", "rtmin+3", ".1", "sleep", "10"],
    &["-vs", "RTMAX-3", ".1", "sleep", "10"],
    &["-vs", "64", ".1", "sleep", "10"],
    &["-p", "-s", "RTMIN+3", ".1", "sleep", "10"],
    // Signals that do not end a command.
    &["-vs", "CONT", "10", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-vs", "URG", "10", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-vs", "TSTP", "10", "sh", "-c", ". ./parent-waits; kill -ALRM $PPID; exit 3"],
    &["-s", "CONT", "-k.1", ".1", "sleep", "10"],
];

const PASSED_ON: &[Case] = &[
    &["10", "sh", "-c", ". ./parent-waits; kill -TERM $PPID; exec sleep 10"],
    &["10", "sh", "-c", ". ./parent-waits; kill -INT $PPID; exec sleep 10"],
    &["10", "sh", "-c", ". ./parent-waits; kill -HUP $PPID; exec sleep 10"],
    &["10", "sh", "-c", ". ./parent-waits; kill -QUIT $PPID; exec sleep 10"],
    &["-p", "10", "sh", "-c", ". ./parent-waits; kill -TERM $PPID; exec sleep 10"],
    &["-f", "10", "sh", "-c", ". ./parent-waits; kill -TERM $PPID; exec sleep 10"],
    &["-v", "10", "sh", "-c", "trap 'exit 7' TERM; . ./parent-waits; kill -TERM $PPID; while :; do sleep .1; done"],
    &[
        "-s",
        "USR2",
        "10",
        "sh",
        "-c",
        "trap 'exit 7' USR2; . ./parent-waits; kill -USR2 $PPID; while :; do sleep .1; done",
    ],
    // Passing a signal on starts the kill-after clock. The other goes on, and then it is KILL's time as well.
    &["-vk.1", "10", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -TERM $PPID; while :; do sleep .1; done"],
    &["-f", "-k.1", "10", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -TERM $PPID; while :; do sleep .1; done"],
    &["-f", "-k9", ".1", "sh", "-c", "trap '' TERM; . ./parent-waits; kill -TERM $PPID; while :; do sleep .1; done"],
];

const DURATIONS: &[Case] = &[
    &["0", "true"],
    &["-k", "0", "0", "sh", "-c", "exit 3"],
    &["0.1s", "sleep", "10"],
    &["1e-1", "sleep", "10"],
    &["0x.2", "sleep", "10"],
    &["0x1p-4s", "sleep", "10"],
    &[".001m", "sleep", "10"],
    &["1e-6d", "sleep", "10"],
    &[" .1", "sleep", "10"],
    &["+.1", "sleep", "10"],
    &["1e-9", "sleep", "10"],
    &["inf", "true"],
    &["infinityd", "true"],
    &["1e400", "true"],
    &["99999999999999999999d", "true"],
    &["-k", "inf", "inf", "true"],
    &["-k", "inf", ".1", "sleep", "10"],
    &["--", "-0", "true"],
    &["--", "-1", "true"],
    &["-1", "true"],
    &["", "true"],
    &["x", "true"],
    &["nan", "true"],
    &["1S", "true"],
    &["1ms", "true"],
    &["1 ", "true"],
    &["1,5", "true"],
    &["0x", "true"],
    &["1e", "true"],
    &["-k", "x", "1", "true"],
    &["-k", "-1", "1", "true"],
];

const COMMAND_LINES: &[Case] = &[
    &[],
    &["5"],
    &["-k", "5"],
    &["-s"],
    &["-x", "5", "true"],
    &["--nonsense", "5", "true"],
    &["--verbose=x", "5", "true"],
    &["-s", "TERMX", "5", "true"],
    &["-s", "", "5", "true"],
    &["-s", "65", "5", "true"],
    &["-s", "32", "5", "true"],
    &["-s", "-1", "5", "true"],
    &["-s", "RTMIN+99", "5", "true"],
    &["--", "5", "true"],
    &["-vv", "5", "true"],
    &["-k1", "-k2", "5", "true"],
    &["--kill-after=1", "--signal=INT", "--verbose", "--foreground", "--preserve-status", "5", "true"],
    &["--kill", "1", "--sig", "INT", "--fore", "--pres", "5", "true"],
    // What follows the command is the command's.
    &["5", "echo", "-k", "1", "--help", "--", "-x"],
    &["5", "sh", "-c", "exit 4", "--help"],
    &["5", "env", "--", "sh", "-c", "exit 4"],
    &["5", "--help"],
    &["5", "-v", "true"],
    // Commands that cannot be run.
    &["5", "no-such-command"],
    &["5", "./no-such-file"],
    &["5", ""],
    &["5", "."],
    &["5", "./directory"],
    &["5", "./not-executable"],
    &["5", "./not-executable/beneath"],
    &["5", "./no-interpreter"],
    // A script without #! is the shell's.
    &["5", "./no-shebang", "a b", "--", "-c"],
    &["5", "./empty"],
];

#[test]
fn status_is_that_of_timeout() {
    compare(STATUS);
}

#[test]
fn a_timed_out_command_ends_as_under_timeout() {
    compare(TIME_IS_UP);
}

#[test]
fn signals_are_passed_on_as_by_timeout() {
    compare(PASSED_ON);
}

#[test]
fn durations_mean_what_they_mean_to_timeout() {
    compare(DURATIONS);
}

#[test]
fn command_lines_mean_what_they_mean_to_timeout() {
    compare(COMMAND_LINES);
}

/// `timeout` takes a `--` after DURATION for the command.
#[test]
fn dashes_may_stand_before_the_command() {
    for args in [&["5", "--", "sh", "-c", "exit 6"][..], &["--", "5", "--", "sh", "-c", "exit 6"]] {
        assert_eq!(outcome(pausewatch().arg("run").args(args), Path::new(".")).end, End::Code(6), "{args:?}");
    }
    assert_eq!(outcome(pausewatch().args(["run", "5", "--", "--", "true"]), Path::new(".")).end, End::Code(127));
}

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    end: End,
    stdout: String,
    /// What is said of signals and of commands; complaints about the command line have their own words.
    said: Vec<String>,
}

fn compare(cases: &[Case]) {
    if !timeout_is_gnu() {
        return skipped("gnu-timeout", "timeout is missing or not of GNU coreutils");
    }
    let directory = fixtures();
    let waiting = Mutex::new(cases.iter().collect::<VecDeque<_>>());
    let differing = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        // Most of a case is waiting.
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(case) = { waiting.lock().unwrap().pop_front() } {
                    let theirs = outcome(plain("timeout").args(for_gnu(case)), directory.path());
                    let ours = outcome(pausewatch().arg("run").args(*case), directory.path());
                    if ours != theirs {
                        differing.lock().unwrap().push(format!("{case:?}\n  timeout {theirs:?}\n  run     {ours:?}"));
                    }
                }
            });
        }
    });
    let differing = differing.into_inner().unwrap();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn outcome(command: &mut Command, directory: &Path) -> Outcome {
    let command = command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdout, stderr) = (all_of(child.stdout.take().unwrap()), all_of(child.stderr.take().unwrap()));
    let end = within_deadline(&mut child).into();
    let (stdout, stderr) = (stdout.within_deadline(), stderr.within_deadline());
    let ours = |line: &str| line.strip_prefix("timeout: ").or(line.strip_prefix("pausewatch run: ")).map(str::to_owned);
    let about_commands = |line: &String| line.contains(" command ");
    Outcome { end, stdout, said: stderr.lines().filter_map(ours).filter(about_commands).collect() }
}

/// GNU timeout 9.1 does not have the short `-f` and `-p` yet. Cases put these two first.
fn for_gnu(case: Case) -> Vec<&'static str> {
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
    fs::create_dir(directory.path().join("directory")).unwrap();
    directory
}
