//! `pausewatch run` and process groups, signals and terminals.
use crate::shell::{End, Run, all_of, kill, pausewatch, plain, signal, until_state, within_deadline};
use crate::{
    exec_server::client::exec_server,
    program::{ended, program},
    pty::Terminal,
    support::skipped,
};
use std::{
    io::Write,
    process::{Command, Stdio},
};

const KILL: i32 = 9;

#[test]
fn signals_are_passed_on_as_often_as_they_come_and_once_each() {
    let script = "trap 'echo term' TERM; trap 'echo usr1' USR1; echo ready; while :; do sleep .1; done";
    let mut run = Run::start(&["-s", "KILL", "60", "sh", "-c", script]);
    run.expect("ready");
    for (name, line) in [("TERM", "term"), ("TERM", "term"), ("USR1", "usr1"), ("TERM", "term")] {
        // While it passes a signal on, the kernel merges a second one of the same kind.
        run.at_rest();
        run.signal(name);
        run.expect(line);
    }
    run.signal("ALRM");
    assert_eq!(run.ended(), End::Signal(KILL));
    assert_eq!(run.rest(), "", "no signal came twice");
}

#[test]
fn the_whole_group_gets_the_signal() {
    let mut run = Run::start(&["60", "sh", "-c", "(sleep 1000 & echo ready; wait) & wait"]);
    run.expect("ready");
    run.signal("ALRM");
    assert_eq!(run.ended(), End::Code(124));
    assert_eq!(run.rest(), "", "the grandchild held standard output");
}

#[test]
fn the_whole_group_is_killed() {
    let script = "trap '' TERM; (sleep 1000 & echo ready; wait) & wait";
    let mut run = Run::start(&["-k", ".01", "60", "sh", "-c", script]);
    run.expect("ready");
    run.signal("ALRM");
    assert_eq!(run.ended(), End::Signal(KILL));
    assert_eq!(run.rest(), "", "the grandchild held standard output");
}

#[test]
fn in_the_foreground_children_of_the_command_are_not_signalled() {
    let mut run = Run::start(&["-f", "60", "sh", "-c", "sleep 1000 & echo $!; wait"]);
    let grandchild = run.line();
    run.signal("ALRM");
    assert_eq!(run.ended(), End::Code(124));
    assert!(kill(&grandchild, "0"), "the grandchild must survive");
    signal(&grandchild, "KILL");
    assert_eq!(run.rest(), "");
}

#[test]
fn a_command_that_left_the_group_gets_the_signal_too() {
    for (options, end) in [(&[][..], End::Code(124)), (&["-s", "KILL"], End::Signal(KILL))] {
        let mut run = Run::start(&[options, &["60", "setsid", "sh", "-c", "echo ready; exec sleep 1000"]].concat());
        run.expect("ready");
        run.signal("ALRM");
        assert_eq!(run.ended(), end);
        assert_eq!(run.rest(), "");
    }
}

#[test]
fn a_stopped_command_continues_and_ends() {
    let mut run = Run::start(&["60", "sh", "-c", "echo $$; kill -STOP $$; echo not reached"]);
    let command = run.line();
    // The line is printed before the stop.
    until_state(&command, 'T');
    run.signal("ALRM");
    assert_eq!(run.ended(), End::Code(124));
    assert_eq!(run.rest(), "");
}

#[test]
fn signals_ignored_or_blocked_at_the_start_do_not_break_the_limit() {
    // CHLD is ignored: then the kernel would keep no exit status.
    let status = plain("env")
        .args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_pausewatch"), "run", "60", "sh", "-c", "exit 3"])
        .status();
    assert_eq!(End::from(status.unwrap()), End::Code(3));
    let status = plain("env")
        .args(["--block-signal=CHLD", env!("CARGO_BIN_EXE_pausewatch"), "run", "60", "sh", "-c", "exit 3"])
        .status();
    assert_eq!(End::from(status.unwrap()), End::Code(3));
    // HUP is ignored, as with nohup; it stays ignored, also for the command.
    let script = "kill -HUP $PPID; kill -HUP $$; exit 4";
    let status = plain("env")
        .args(["--ignore-signal=HUP", env!("CARGO_BIN_EXE_pausewatch"), "run", "60", "sh", "-c", script])
        .status();
    assert_eq!(End::from(status.unwrap()), End::Code(4));
}

#[test]
fn the_command_starts_with_default_signals() {
    let report = |program: &mut Command| {
        let output = program.args(["60", "grep", "-E", "Sig(Blk|Ign|Cgt)", "/proc/self/status"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let ours = report(pausewatch().arg("run"));
    assert_eq!(ours.lines().count(), 3);
    assert_eq!(ours, report(&mut plain("timeout")));
}

/// The signals 32 and 33, which glibc uses for its threads and does not let programs change (man 7 nptl).
const OF_THE_C_LIBRARY: u64 = 1 << 31 | 1 << 32;

#[test]
fn an_ignored_pipe_signal_stays_ignored_for_the_command() {
    let report = |program: &[&str]| {
        let mut command = plain("env");
        command.arg("--ignore-signal=PIPE").args(program).args(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]);
        let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let mask = |line: &str| u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap() & !OF_THE_C_LIBRARY;
        printed.lines().map(mask).collect::<Vec<_>>()
    };
    let program = env!("CARGO_BIN_EXE_pausewatch");
    let theirs = report(&["timeout", "60"]);
    assert_eq!(theirs, [0, 1 << 12], "timeout keeps the signal settings: only SIGPIPE is ignored");
    assert_eq!(report(&[program, "run", "60"]), theirs);
    assert_eq!(report(&[program, "run", "60", program, "run", "60"]), theirs, "within another");
    assert_eq!(report(&[program, "hold"]), theirs);
    // The shell also runs a file without an interpreter, and a command that cannot be run has the same exit codes and
    // messages.
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "exit 5").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (command, code, error) in [
        (script.to_str().unwrap(), 5, ""),
        ("/no/such", 127, "No such file or directory"),
        ("/", 126, "Permission denied"),
    ] {
        for ours in [&["run", "60"][..], &["hold"]] {
            let output = plain("env").args(["--ignore-signal=PIPE", program]).args(ours).arg(command).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{ours:?} {command}");
            let said = String::from_utf8(output.stderr).unwrap();
            let failed = said.lines().find(|line| line.contains("failed to run"));
            let expected = format!("pausewatch {}: failed to run command ‘{command}’: {error}", ours[0]);
            assert_eq!(failed, (!error.is_empty()).then_some(&*expected));
        }
    }
}

#[test]
fn the_command_ends_when_run_itself_is_killed() {
    for (options, script, said) in [
        (&[][..], "trap 'echo caught; exit' TERM; echo ready; while :; do sleep .1; done", "caught\n"),
        (&["-s", "INT"], "trap 'echo caught; exit' INT; echo ready; while :; do sleep .1; done", "caught\n"),
        (&["-f"], "echo ready; exec sleep 1000", ""),
        (&["-s", "KILL"], "echo ready; exec sleep 1000", ""),
    ] {
        let mut run = Run::start(&[options, &["60", "sh", "-c", script]].concat());
        run.expect("ready");
        run.signal("KILL");
        assert_eq!(run.ended(), End::Signal(KILL));
        assert_eq!(run.rest(), said, "{options:?}: the command holds standard output until it ends");
    }
}

/// The other cases are in `run_terminal.rs`.
#[test]
fn in_the_foreground_the_command_of_a_script_reads_from_the_terminal() {
    let program = env!("CARGO_BIN_EXE_pausewatch");
    let script = format!("stty -echo -onlcr tostop; '{program}' run -f 60 head -n 1; echo status $?");
    let mut terminal = plain("script")
        .args(["-q", "-c", &script, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keyboard = terminal.stdin.take().unwrap();
    keyboard.write_all(b"hello\n").unwrap();
    let screen = all_of(terminal.stdout.take().unwrap());
    within_deadline(&mut terminal);
    let screen = screen.within_deadline();
    // The terminal's echo of the input may come first.
    assert!(["", "hello\r\n"].map(|echo| format!("{echo}hello\nstatus 0\n")).contains(&screen), "{screen:?}");
}

/// Input belongs to the shell until the person brings the job to the foreground.
#[test]
fn a_background_job_asks_only_after_it_has_come_to_the_foreground() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("my.rules");
    std::fs::write(&rules, "prefix_rule(['touch'], decision = 'prompt')").unwrap();
    let rules = rules.to_str().unwrap();
    let checked = ended(&mut exec_server(["--check", "--rules", rules]));
    if !checked.out.contains("\nrules: nested programs are judged\n") {
        return skipped("seccomp-notify", checked.out);
    }
    // Without line editing, the shell sends no escape sequences to the terminal.
    let mut shell = plain("env");
    shell.args(["PS1=ready> ", "bash", "--norc", "--noprofile", "--noediting", "-i"]);
    for (name, value) in program().get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let run = format!("{} run --private --rules {rules}", env!("CARGO_BIN_EXE_pausewatch"));
    let mut terminal = Terminal::start(&shell, 300, 60);
    terminal.wait_for_text("ready>");
    let made = directory.path().join("made").display().to_string();
    terminal.write(format!("{run} 5m touch {made} &\n"));
    terminal.wait_for_text("a question about a program waits");
    for typed in ["y", "echo line $((40 + 2))"] {
        terminal.write(format!("{typed}\n"));
    }
    terminal.wait_for_text("line 42");
    let shown = terminal.screen.text();
    assert!(shown.contains("y: command not found") && !shown.contains("Run it?"), "{shown}");
    // If it is stopped while it asks, and continued in the background, it waits again.
    terminal.write("fg\n");
    terminal.wait_for_text("Run it? [y/N]");
    terminal.write("\u{1a}");
    terminal.wait_for_text("Stopped");
    terminal.write("bg\n");
    terminal
        .wait_for("another notice", |screen| screen.text().matches("a question about a program waits").count() == 2);
    terminal.write("echo line $((40 + 3))\n");
    terminal.wait_for_text("line 43");
    assert!(!std::path::Path::new(&made).exists());
    terminal.write("fg\n");
    terminal.wait_for("another question", |screen| screen.text().matches("Run it? [y/N]").count() == 2);
    terminal.write("y\n");
    terminal.write(format!("ls {made} && echo made $?\n"));
    terminal.wait_for_text("made 0");
    // If COMMAND is a shell, its jobs get the foreground too.
    terminal.write(format!("{run} --foreground 5m bash --norc --noprofile --noediting -i\n"));
    terminal.write(format!("touch {made}\n"));
    terminal.wait_for("a third question", |screen| screen.text().matches("Run it? [y/N]").count() == 3);
    terminal.write("\n");
    terminal.wait_for_text("denied: the person declined");
}
