//! `pausewatch run --rules`: the programs of a command are judged without MCP too.
use crate::{
    exec_server::{
        client::exec_server,
        nested::{until, until_settled},
    },
    program::{Ended, Process, ended, program},
    pty::Terminal,
    support::skipped,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

const RULES: &str = r#"
prefix_rule(pattern = ["git", "push"], decision = "prompt", justification = "others see it")
prefix_rule(pattern = ["rm"], decision = "forbidden", justification = "use trash")
"#;

/// A directory with rules, and a `git` that records its arguments.
struct Project(TempDir);

impl Project {
    /// `None`: this system cannot judge programs.
    fn new() -> Option<Self> {
        let project = Self(tempfile::tempdir().unwrap());
        fs::write(project.path("my.rules"), RULES).unwrap();
        fs::create_dir(project.path("bin")).unwrap();
        project.executable("bin/git", &format!("#!/bin/sh\necho \"$*\" >> {}\n", project.path("calls").display()));
        project
            .executable("release", "#!/bin/sh\ngit status\ngit push origin || echo \"failed $?\"\ngit push origin\n");
        let rules = project.path("my.rules");
        let checked = ended(&mut exec_server(["--check", "--rules", rules.to_str().unwrap()]));
        if !checked.out.contains("\nrules: nested programs are judged\n") {
            skipped("seccomp-notify", checked.out);
            return None;
        }
        until_settled(&project.path("release"));
        Some(project)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn executable(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, options: &[&str], command: &[&str]) -> Command {
        let mut run = program();
        let path = std::env::var("PATH").unwrap();
        run.env("PATH", format!("{}:{path}", self.path("bin").display())).current_dir(self.0.path());
        run.args(["run", "--private", "--rules"]).arg(self.path("my.rules")).args(options).args(command);
        run
    }

    fn run(&self, options: &[&str], command: &[&str]) -> Ended {
        ended(&mut self.command(options, command))
    }

    /// The recorded arguments of `git`.
    fn calls(&self) -> String {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.path("calls"));
        calls
    }
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[test]
fn a_program_in_a_makefile_runs_only_after_a_yes_and_is_asked_about_once() {
    let Some(project) = Project::new() else { return };
    fs::write(project.path("Makefile"), "publish:\n\t@./release\n").unwrap();
    let make: &[&str] =
        if has("make") { &["1m", "make", "publish"] } else { &["1m", "sh", "-c", "./release; exit $?"] };
    let asks = "echo \"$PAUSEWATCH_PROGRAM\" >> asked; echo \"$PAUSEWATCH_QUESTION\" > question; exit";
    for (answer, code, calls) in
        [("0", 0, "status\npush origin\npush origin\n"), ("1", 1, "status\n"), ("7", 1, "status\n")]
    {
        let ran = project.run(&["--ask", &format!("{asks} {answer}")], make);
        assert_eq!(project.calls(), calls, "{answer}: {ran:?}");
        assert_eq!(ran.code == Some(0), code == 0, "{answer}: {ran:?}");
        let asked = fs::read_to_string(project.path("asked")).unwrap();
        fs::remove_file(project.path("asked")).unwrap();
        let once = format!("{} push origin\n", project.path("bin/git").display());
        // A failed question is not an answer.
        assert_eq!(asked, if answer == "7" { once.repeat(2) } else { once.clone() }, "{answer}");
        let question = fs::read_to_string(project.path("question")).unwrap();
        for part in
            ["Run this program?", "git push origin", "others see it", "A program executes it in this command:", make[1]]
        {
            assert!(question.contains(part), "{part} in {question}");
        }
        let says = match answer {
            "0" => "",
            "1" => "pausewatch: denied: the person declined; ",
            _ => "pausewatch: denied: the command of --ask failed (exit status: 7); 0 means yes, 1 means no; ",
        };
        assert!(ran.err.contains(says), "{ran:?}");
    }
}

/// A program that the question could not show in full counts as a new one each time.
/// A long argument, which a question cannot show, does not hide those that follow.
#[test]
fn a_program_is_asked_about_if_a_rule_may_be_about_arguments_that_are_cut_off() {
    let Some(project) = Project::new() else { return };
    let long = r#"long=$(printf %017000d 0); "#;
    for (script, calls) in [
        (r#"git -c x.y="$long" push"#, ""),
        (r#"exec -a "$long" git push"#, ""),
        (r#"git commit -m "$long" >/dev/null; [ -s calls ] && echo ran"#, "ran"),
    ] {
        let ran = project.run(&["--ask", "exit 1"], &["1m", "bash", "-c", &format!("{long}{script}")]);
        let called = project.calls();
        assert_eq!((ran.out.trim(), called.is_empty()), (calls, calls.is_empty()), "{script}: {}", ran.err);
        assert_eq!(ran.err.contains("denied"), calls.is_empty(), "{script}: {}", ran.err);
    }
}

#[test]
fn a_yes_to_a_program_with_many_arguments_is_for_that_one_alone() {
    let Some(project) = Project::new() else { return };
    project.executable("many", "#!/bin/sh\ngit push $(seq 10000)\ngit push $(seq 10001)\n");
    let ask = format!("echo asked >> {}", project.path("asked").display());
    project.executable("ask", &format!("#!/bin/sh\n{ask}\n"));
    let ask = project.path("ask");
    let ended = project.run(&["--ask", ask.to_str().unwrap()], &["60", "./many"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fs::read_to_string(project.path("asked")).unwrap(), "asked\nasked\n");
}

#[test]
fn the_clock_stands_still_while_a_person_is_asked() {
    let Some(project) = Project::new() else { return };
    let ran = project.run(&["--ask", "sleep 12", "--report", "report"], &["10", "git", "push"]);
    assert_eq!((ran.code, project.calls().as_str()), (Some(0), "push\n"), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(project.path("report")).unwrap()).unwrap();
    assert!(report["why"] == "exited" && report["paused_ms"].as_u64() >= Some(11_900), "{report}");
}

/// The signals are passed on until the command has ended, so that one of them comes with its end.
#[test]
fn a_signal_at_the_end_of_the_command_does_not_change_its_exit_status() {
    let Some(project) = Project::new() else { return };
    for _ in 0..10 {
        let mut run = project.command(&[], &["600", "sh", "-c", "trap '' USR1; echo ready; sleep .1; exit 7"]);
        let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&run);
        let mut line = String::new();
        BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let status = loop {
            if let Some(status) = run.try_wait().unwrap() {
                break status;
            }
            kill_process(pid, Signal::USR1).unwrap();
            std::thread::sleep(Duration::from_micros(200));
        };
        assert_eq!((line.as_str(), status.code()), ("ready\n", Some(7)));
    }
}

#[test]
fn without_a_terminal_and_ask_a_program_is_denied_and_the_reason_says_what_to_do() {
    let Some(project) = Project::new() else { return };
    let run = project.command(&[], &["1m", "./release"]);
    let mut setsid = Command::new("setsid");
    setsid.arg("--wait").arg(run.get_program()).args(run.get_args()).current_dir(project.0.path());
    run.get_envs().for_each(|(name, value)| _ = value.map(|value| setsid.env(name, value)));
    let ran = ended(&mut setsid);
    assert_eq!((ran.code, project.calls().as_str()), (Some(1), "status\n"), "{ran:?}");
    assert!(ran.err.contains("no person could be asked") && ran.err.contains("`run --ask COMMAND`"), "{ran:?}");
}

#[test]
fn the_command_itself_is_judged_and_ends_as_without_rules() {
    let Some(project) = Project::new() else { return };
    fs::write(project.path("kept"), "").unwrap();
    let ran = project.run(&[], &["1m", "rm", "kept"]);
    assert!(
        ran.code == Some(1) && ran.err.starts_with("pausewatch: denied: ") && project.path("kept").exists(),
        "{ran:?}"
    );
    for (command, code) in [
        (&["1m", "sh", "-c", "exit 7"][..], Some(7)),
        (&["1m", "no-such-program"], Some(127)),
        (&["1m", "./my.rules"], Some(126)),
        (&["0.1", "sleep", "1000"], Some(124)),
        (&["-s", "KILL", "0.1", "sleep", "1000"], None),
        (&["1m", "sh", "-c", "kill -USR1 $$"], None),
    ] {
        let with = project.run(&[], command);
        let without = ended(program().args(["run", "--private"]).args(command).current_dir(project.0.path()));
        assert_eq!((with.code, with.status), (code, without.status), "{command:?}: {with:?}");
        assert_eq!(with.err.replace("exec-child", "run"), without.err, "{command:?}");
    }
    let ran = project.run(&[], &["1m", "sh", "-c", "ps -o pgid= -p $$ | tr -d ' '; ps -o pgid= -p $PPID | tr -d ' '"]);
    let groups: Vec<_> = ran.out.lines().collect();
    assert!(groups.len() == 2 && groups[0] == groups[1], "the supervisor is in the group: {ran:?}");
}

#[test]
fn a_person_is_asked_on_the_terminal() {
    let Some(project) = Project::new() else { return };
    let release = project.path("release");
    let command = project.command(&[], &["1m", release.to_str().unwrap()]);
    for (keys, calls, code) in
        [("y\n", "status\npush origin\npush origin\n", 0), ("\n", "status\n", 1), ("no\n", "status\n", 1)]
    {
        let mut terminal = Terminal::start(&command, 300, 40);
        terminal.wait_for_text("Run it? [y/N]");
        assert!(terminal.screen.text().contains("git push origin"), "{}", terminal.screen.text());
        terminal.write(keys);
        terminal.wait_for_end(code);
        assert_eq!(project.calls(), calls, "{keys:?}");
    }
    // A program that sets the terminal to raw mode, and gets it back in raw mode.
    let mut raw = project.command(&["--foreground"], &["1m", "sh"]);
    raw.args(["-c", "stty raw -echo; git push origin; stty -a > $0; stty sane"]).arg(project.path("modes"));
    let mut terminal = Terminal::start(&raw, 300, 40);
    terminal.wait_for_text("Run it? [y/N]");
    terminal.write("y\r");
    terminal.wait_for_end(0);
    assert_eq!(project.calls(), "push origin\n");
    let modes = fs::read_to_string(project.path("modes")).unwrap();
    assert!(modes.contains("-icanon") && modes.contains("-isig"), "{modes}");
    // Ctrl-C ends it, and the waiting program does not run. The shell outlives it and prints how it ended.
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap : INT; "$@"; echo "it ended with $?""#, "sh"]).arg(command.get_program());
    shell.args(command.get_args());
    command.get_envs().for_each(|(name, value)| _ = value.map(|value| shell.env(name, value)));
    let mut terminal = Terminal::start(&shell, 300, 40);
    terminal.wait_for_text("Run it? [y/N]");
    terminal.write("\u{3}");
    terminal.wait_for_text("it ended with 130");
    assert_eq!(project.calls(), "status\n");
    assert_eq!(terminal.screen.text().matches("Run it?").count(), 1, "{}", terminal.screen.text());
}

/// A program that has its terminal in raw mode gets it back in raw mode.
#[test]
fn a_terminal_is_given_back_when_the_command_is_killed_during_a_question() {
    let Some(project) = Project::new() else { return };
    project.executable("stubborn", "#!/bin/sh\ntrap '' TERM\ngit push origin\n");
    let command = project.command(&["-k", "2"], &["1m", project.path("stubborn").to_str().unwrap()]);
    let mut caller = Command::new("sh");
    caller.args(["-c", r#"stty raw -echo; "$@"; echo $?; stty -a > "$MODES"; stty sane; exit 3"#, "sh"]);
    caller.arg(command.get_program()).args(command.get_args()).env("MODES", project.path("modes"));
    command.get_envs().for_each(|(name, value)| _ = value.map(|value| caller.env(name, value)));
    let mut terminal = Terminal::start_without_jobs(&caller, 300, 40);
    terminal.wait_for_text("Run it? [y/N]");
    // With the signal comes CONT, after which the question is asked again. Two seconds later, KILL follows.
    terminal.signal(Signal::TERM);
    terminal.wait_for_end(3);
    assert!(terminal.screen.text().contains("137"), "{}", terminal.screen.text());
    let modes = fs::read_to_string(project.path("modes")).unwrap();
    assert!(modes.contains("-icanon") && modes.contains("-isig"), "{modes}");
    assert_eq!(project.calls(), "");
}

#[test]
fn the_question_is_asked_again_after_a_stop() {
    let Some(project) = Project::new() else { return };
    let release = project.path("release");
    let mut terminal = Terminal::start(&project.command(&[], &["1m", release.to_str().unwrap()]), 300, 40);
    let asked = |terminal: &mut Terminal, times| {
        terminal.wait_for("question", |screen| screen.text().matches("Run it? [y/N]").count() == times);
    };
    asked(&mut terminal, 1);
    terminal.write("no\x1a");
    terminal.wait_for_end(148);
    terminal.write("fg\n");
    asked(&mut terminal, 2);
    terminal.write("y\n");
    terminal.wait_for_end(0);
    assert_eq!(project.calls(), "status\npush origin\npush origin\n");
}

/// Text from the command could clear the screen, or look like another question.
#[test]
fn a_refusal_shows_the_words_of_the_program_as_they_are() {
    let Some(project) = Project::new() else { return };
    let script = r"git push $(printf '\033[2J\r\nRun it? [y/N] \342\200\256')";
    let refused = project.run(&["--ask", "exit 1"], &["1m", "bash", "-c", script]);
    assert_eq!((refused.code, project.calls().as_str()), (Some(1), ""), "{refused:?}");
    let shown = refused.err.trim_end_matches('\n');
    assert!(shown.contains("denied") && shown.contains(r"\u{1b}[2J"), "{shown}");
    assert!(!shown.contains(|c: char| c.is_control() || c == '\u{202e}'), "{shown:?}");
}

#[test]
fn a_question_is_withdrawn_when_the_command_ends() {
    let Some(project) = Project::new() else { return };
    let command = "git push & while ! [ -s asks ]; do sleep 0.05; done; exit 3";
    let mut run = project.command(&["--ask", "echo $$ > asks; exec sleep 1000"], &["1m", "sh", "-c", command]);
    // The program that asks has the same standard error: this must not wait for its end.
    let status = run.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!((status.code(), project.calls().as_str()), (Some(3), ""));
    let asks = fs::read_to_string(project.path("asks")).unwrap();
    let asks = Pid::from_raw(asks.trim().parse().unwrap()).unwrap();
    until("the end of the command that asks", || rustix::process::test_kill_process(asks).is_err().then_some(()));
}

#[test]
fn where_programs_cannot_be_judged_nothing_runs_and_the_reason_is_said() {
    let Some(project) = Project::new() else { return };
    // A process can have only one listener.
    let inner = format!("{} run --private --rules my.rules 1m touch made", env!("CARGO_BIN_EXE_pausewatch"));
    let ran = project.run(&[], &["1m", "sh", "-c", &format!("{inner}; exit $?")]);
    assert!(!project.path("made").exists() && ran.code == Some(125), "{ran:?}");
    let why = "this system cannot judge the programs of COMMAND: a program that runs this one judges programs already";
    assert!(ran.err.contains(why), "{ran:?}");
    let ran = project.run(&["--rules", "no.rules"], &["1m", "touch", "made"]);
    assert!(!project.path("made").exists() && ran.code == Some(125) && ran.err.contains("no.rules"), "{ran:?}");
    let ran = ended(program().args(["run", "--ask", "true", "1m", "true"]));
    assert!(ran.code == Some(125) && ran.err.contains("--rules"), "{ran:?}");
}

/// If `run` or its supervisor is killed, no process of the command is left.
#[test]
fn a_killed_run_or_supervisor_leaves_no_process() {
    use crate::exec_server::client::until_gone;
    use rustix::process::{Signal, kill_process};
    let Some(project) = Project::new() else { return };
    for victim in ["run", "supervisor"] {
        let mark = format!("7{:08}.25", fastrand::u32(..100_000_000));
        let script = format!("sleep {mark} & sleep {mark}; wait");
        let run = Process::start(project.command(&[], &["1m", "sh", "-c", &script]));
        let sleeps = format!("sleep {mark} ");
        until("the command runs", || find(|line| line == sleeps));
        let supervisor = find(|line| line.contains("exec-supervisor") && line.contains(&mark)).unwrap();
        let pid = if victim == "run" { run.pid() } else { supervisor };
        kill_process(pid, Signal::KILL).unwrap();
        // The streams have ended, so no process of the command has them open.
        let ended = run.end();
        assert_eq!(ended.code, None, "{victim}: {ended:?}");
        until_gone(&mark);
    }
}

/// The kernel resets the parent death signal of such a process.
#[test]
fn a_command_that_has_changed_its_user_is_killed_with_its_supervisor() {
    use crate::exec_server::client::until_gone;
    use rustix::process::{Signal, kill_process};
    let Some(project) = Project::new() else { return };
    if !rustix::process::geteuid().is_root() {
        return skipped("other-user", "only root can change its user");
    }
    let mark = format!("7{:08}.25", fastrand::u32(..100_000_000));
    let run = project.command(&["--foreground"], &["1m", "setpriv", "--reuid=65534", "sleep", &mark]);
    let run = Process::start(run);
    until("the command runs", || find(|line| line == format!("sleep {mark} ")));
    let supervisor = find(|line| line.contains("exec-supervisor") && line.contains(&mark)).unwrap();
    kill_process(supervisor, Signal::KILL).unwrap();
    let ended = run.end();
    assert_eq!(ended.code, None, "{ended:?}");
    until_gone(&mark);
}

/// A process whose command line satisfies `is_it`.
fn find(is_it: impl Fn(&str) -> bool) -> Option<Pid> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        is_it(&String::from_utf8_lossy(&line).replace('\0', " ")).then_some(pid)
    })
}

/// The supervisor of COMMAND and its first program are ours, and so is what stands in for an approved program: Rust's runtime opens
/// /dev/null for each.
#[test]
fn streams_closed_at_the_start_stay_closed_with_rules() {
    let Some(project) = Project::new() else { return };
    let closed = "c=; for n in 0 1 2; do [ -e /proc/self/fd/$n ] || c=$c$n; done; echo $c";
    let seen = |by: &str| project.path(by).display().to_string();
    project.executable("bin/git", &format!("#!/bin/sh\n{closed} > {}\n", seen("git")));
    until_settled(&project.path("bin/git"));
    let line = format!("{closed} > {}; git push", seen("command"));
    for (redirected, numbers) in
        [("", "\n"), ("<&-", "0\n"), (">&-", "1\n"), ("2>&-", "2\n"), ("<&- >&- 2>&-", "012\n")]
    {
        let run = project.command(&["--ask", "exit 0"], &["1m", "sh", "-c", &line]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$0\" \"$@\" {redirected}")]).arg(run.get_program()).args(run.get_args());
        run.get_envs().for_each(|(name, value)| match value {
            Some(value) => _ = shell.env(name, value),
            None => _ = shell.env_remove(name),
        });
        let ran = ended(shell.current_dir(project.0.path()).stdin(Stdio::null()));
        assert_eq!(ran.code, Some(0), "{redirected}: {ran:?}");
        for by in ["command", "git"] {
            let found = fs::read_to_string(project.path(by)).unwrap();
            assert_eq!(found, numbers, "{by}, {redirected}");
            fs::remove_file(project.path(by)).unwrap();
        }
    }
}
