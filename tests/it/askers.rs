//! `pausewatch askpass` and `pausewatch pinentry` with stand-ins for the programs that ask a person.
use crate::program::{Coordinator, Process, ended, program};
use crate::pty::Terminal;
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pausewatch");

/// A script in its own directory.
pub(crate) struct Script(tempfile::TempDir);

impl Script {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(directory)
    }

    fn directory(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        fs::read_dir(self.directory()).unwrap().next().unwrap().unwrap().path()
    }
}

fn askpass(coordinator: &Coordinator, script: &Script, prompt: &str) -> Command {
    let mut command = coordinator.command(["askpass", "--", prompt]);
    command.env("PAUSEWATCH_ASKPASS", script.path());
    command
}

#[test]
fn the_thread_is_paused_while_the_person_is_asked() {
    let coordinator = Coordinator::start();
    let script = Script::new("asks", &format!("{PROGRAM} list >&2; printf 's3cret\\n'; exit 3"));
    let asked = ended(&mut askpass(&coordinator, &script, "-Enter passphrase:\n"));
    assert_eq!((asked.code, asked.out.as_str()), (Some(3), "s3cret\n"), "output and code of the real program");
    assert!(asked.err.contains("-Enter passphrase") && asked.err.contains("asks["), "{asked:?}");
    assert!(!asked.err.contains("s3cret"));
    assert_eq!(coordinator.count(), 0);
}

#[test]
fn a_link_is_the_command() {
    let coordinator = Coordinator::start();
    let links = tempfile::tempdir().unwrap();
    let script = Script::new("asks", "echo \"<$1>\"; exit 4");
    for name in ["pausewatch-askpass", "pausewatch-pinentry"] {
        let link = links.path().join(name);
        symlink(PROGRAM, &link).unwrap();
        let mut command = Command::new(&link);
        coordinator.command([]).get_envs().for_each(|(name, value)| _ = value.map(|value| command.env(name, value)));
        command.arg("--display").stdin(Stdio::null());
        let asked = ended(command.env("PAUSEWATCH_ASKPASS", script.path()).env("PAUSEWATCH_PINENTRY", script.path()));
        assert_eq!((asked.code, asked.out.as_str()), (Some(4), "<--display>\n"), "{name}: {asked:?}");
    }
}

#[test]
fn the_credentials_in_a_url_are_in_no_reason() {
    let coordinator = Coordinator::start();
    let script = Script::new("asks", &format!("{PROGRAM} list >&2; echo answer"));
    let asked = ended(&mut askpass(&coordinator, &script, "Password for 'https://ghp_t0ken@h': "));
    assert!(asked.err.contains("Password for 'https://h'") && !asked.err.contains("t0ken"), "{asked:?}");
    let pinentry = Script::new("asks", PINENTRY);
    let mut command = program();
    let data = format!("PAUSEWATCH_ADDRESS={},PAUSEWATCH_THREAD_ID=t", coordinator.address);
    command.arg("pinentry").env("PINENTRY_USER_DATA", data).env("PROGRAM", PROGRAM);
    command.env("PAUSEWATCH_ADDRESS", &coordinator.address);
    let mut pinentry = Process::start(stdin_of({
        command.env("PAUSEWATCH_PINENTRY", pinentry.path());
        command
    }));
    pinentry.line();
    pinentry.write(b"SETDESC https://u:t0ken%40@h/\n");
    pinentry.line();
    pinentry.write(b"GETPIN\n");
    assert_eq!((pinentry.line(), pinentry.line()), ("D s3cret%25".into(), "OK".into()));
    pinentry.write(b"BYE\n");
    let asked = pinentry.end();
    assert!(asked.err.contains("https://h/") && !asked.err.contains("t0ken"), "{asked:?}");
}

#[test]
fn the_usual_program_is_found_and_never_pausewatch_itself() {
    let coordinator = Coordinator::start();
    let links = tempfile::tempdir().unwrap();
    symlink(PROGRAM, links.path().join("ssh-askpass")).unwrap();
    let usual = Script::new("ksshaskpass", "echo usual");
    let path = format!("{}:{}:/usr/bin:/bin", links.path().display(), usual.directory().display());
    let mut command = coordinator.command(["askpass", "Password:"]);
    command.env_remove("PAUSEWATCH_ASKPASS").env("DISPLAY", ":9").env("PATH", path);
    let asked = ended(&mut command);
    assert_eq!((asked.code, asked.out.as_str()), (Some(0), "usual\n"), "{asked:?}");
    // Named directly, and through a script.
    let itself =
        ended(coordinator.command(["askpass", "?"]).env("PAUSEWATCH_ASKPASS", links.path().join("ssh-askpass")));
    assert_eq!((itself.code, itself.out.as_str()), (Some(1), ""));
    assert!(itself.err.contains("is pausewatch itself"), "{itself:?}");
    let circle = Script::new("circle", &format!("exec {PROGRAM} askpass \"$1\""));
    let circular = ended(&mut askpass(&coordinator, &circle, "?"));
    assert_eq!((circular.code, circular.out.as_str()), (Some(1), ""));
    assert!(circular.err.contains("calls pausewatch askpass again"), "{circular:?}");
    let missing = ended(coordinator.command(["askpass", "?"]).env("PAUSEWATCH_ASKPASS", "/proc/nonexistent/asks"));
    assert!(missing.code == Some(1) && missing.err.contains("there is no such program"), "{missing:?}");
}

#[test]
fn without_a_pause_the_person_is_asked_anyway() {
    let script = Script::new("asks", "echo answer");
    for (name, value) in [
        ("PAUSEWATCH_ADDRESS", "unix:/proc/nonexistent/p.sock"),
        ("PAUSEWATCH_CONFIG", "/proc/nonexistent/c.toml"),
        ("PAUSEWATCH_THREAD_ID", "a\n"),
    ] {
        let mut command = program();
        command.args(["askpass", "?"]).env("PAUSEWATCH_ASKPASS", script.path()).env("PAUSEWATCH_THREAD_ID", "t");
        let asked = ended(command.env(name, value));
        assert_eq!((asked.code, asked.out.as_str()), (Some(0), "answer\n"), "{asked:?}");
        assert!(asked.err.starts_with("pausewatch askpass: "), "{asked:?}");
        assert!(asked.err.contains("; asking without a pause"), "{asked:?}");
    }
}

#[test]
fn g2_a_killed_askpass_leaves_a_pause_for_its_lease_only() {
    let coordinator = Coordinator::start();
    let watching = coordinator.watch();
    let script = Script::new("asks", "echo $$; exec sleep 1000");
    let mut command = coordinator.command(["askpass", "--ttl", "1s", "?"]);
    command.env("PAUSEWATCH_ASKPASS", script.path());
    let mut asks = Process::start(command);
    let orphan = asks.line().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
    watching.wait_for(1);
    asks.kill();
    watching.wait_for(0);
    rustix::process::kill_process(orphan, Signal::KILL).unwrap();
}

/// `askpass` at a terminal, and the file that its answer goes to.
struct Asked {
    terminal: Terminal,
    directory: tempfile::TempDir,
}

impl Asked {
    fn by(coordinator: &Coordinator) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" askpass 'Passphrase: ' >\"$1\"", PROGRAM])
            .arg(directory.path().join("answer"));
        coordinator.command([]).get_envs().for_each(|(name, value)| _ = value.map(|value| command.env(name, value)));
        command.env("PATH", "/usr/bin:/bin");
        ["DISPLAY", "WAYLAND_DISPLAY", "PAUSEWATCH_ASKPASS"].iter().for_each(|name| _ = command.env_remove(name));
        Self { terminal: Terminal::start(&command, 80, 24), directory }
    }

    /// Waits until the question has been asked `times` times.
    fn wait_for(&mut self, times: usize) {
        self.terminal.wait_for("prompt", |screen| screen.text().matches("Passphrase:").count() == times);
    }

    fn answer(&self) -> Vec<u8> {
        fs::read(self.directory.path().join("answer")).unwrap()
    }
}

#[test]
fn the_terminal_does_not_show_the_answer() {
    let coordinator = Coordinator::start();
    // Also in an encoding that is not UTF-8.
    for answer in [&b"s3cret\n"[..], b"s3cr\xe9t\n"] {
        let watching = coordinator.watch();
        let mut asked = Asked::by(&coordinator);
        asked.wait_for(1);
        watching.wait_for(1);
        asked.terminal.write(answer);
        asked.terminal.wait_for_end(0);
        let shown = asked.terminal.screen.text();
        assert!(shown.starts_with("Passphrase:") && !shown.contains("s3c"), "{shown}");
        assert!(asked.terminal.is_usual());
        assert_eq!(asked.answer(), answer);
        assert_eq!(coordinator.count(), 0);
    }
}

#[test]
fn the_terminal_does_not_show_the_answer_after_a_stop() {
    let mut asked = Asked::by(&Coordinator::start());
    asked.wait_for(1);
    asked.terminal.write("half\x1a");
    asked.terminal.wait_for_end(148);
    // An interactive shell does this when the job stops.
    asked.terminal.write("stty echo\n");
    asked.terminal.wait_for_end(0);
    assert!(asked.terminal.is_usual());
    asked.terminal.write("fg\n");
    asked.wait_for(2);
    asked.terminal.write("s3cret\n");
    asked.terminal.wait_for("end", |screen| screen.text().matches("ended 0").count() == 2);
    let shown = asked.terminal.screen.text();
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(asked.terminal.is_usual());
    assert_eq!(asked.answer(), b"s3cret\n");
}

#[test]
fn ssh_asks_about_the_key_of_a_host_in_lines_and_shows_the_answer() {
    let coordinator = Coordinator::start();
    let prompt = "The authenticity of host 'h' can't be established.\nED25519 key fingerprint is SHA256:x.\n\
                  Are you sure you want to continue connecting (yes/no/[fingerprint])? ";
    let mut command = coordinator.command(["askpass", prompt]);
    ["DISPLAY", "WAYLAND_DISPLAY", "PAUSEWATCH_ASKPASS"].iter().for_each(|name| _ = command.env_remove(name));
    let mut terminal = Terminal::start(command.env("PATH", "/usr/bin:/bin"), 80, 24);
    terminal.wait_for_text("(yes/no/[fingerprint])?");
    assert!(terminal.is_usual());
    terminal.write("yes\n");
    terminal.wait_for_end(0);
    let text = terminal.screen.text();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    let expected = [
        "The authenticity of host 'h' can't be established.",
        "ED25519 key fingerprint is SHA256:x.",
        "Are you sure you want to continue connecting (yes/no/[fingerprint])? yes",
        "yes",
    ];
    assert_eq!(lines[..4], expected, "{text}");
    assert_eq!(coordinator.count(), 0);
}

/// A pinentry that prints the state of the thread while it asks, and answers.
const PINENTRY: &str = r#"echo "OK Pleased to meet you $*"
while read -r command rest; do
    case $command in
    GETPIN) "$PROGRAM" list >&2; echo "D s3cret%25"; echo OK ;;
    CONFIRM) "$PROGRAM" list >&2; echo "ERR 83886179 cancelled" ;;
    BYE) echo "OK closing"; exit 5 ;;
    *) echo OK ;;
    esac
done"#;

#[test]
fn pinentry_pauses_from_the_question_to_its_answer_and_passes_everything_on() {
    let coordinator = Coordinator::start();
    let script = Script::new("asks", PINENTRY);
    let mut command = program();
    // As gpg-agent starts it: only the user data names the thread.
    let data = format!("USE_CURSES=1,PAUSEWATCH_ADDRESS={},PAUSEWATCH_THREAD_ID=t", coordinator.address);
    command.args(["pinentry", "--ttyname", "/dev/pts/9"]).env("PINENTRY_USER_DATA", data).env("PROGRAM", PROGRAM);
    command.env("PAUSEWATCH_PINENTRY", script.path()).stdin(Stdio::piped());
    command.env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_THREAD_ID", "other");
    let mut pinentry = Process::start(command);
    assert_eq!(pinentry.line(), "OK Pleased to meet you --ttyname /dev/pts/9");
    pinentry.write(b"SETDESC Sign%0Ait\n");
    assert_eq!(pinentry.line(), "OK");
    for (question, answers) in [("GETPIN\n", &["D s3cret%25", "OK"][..]), ("CONFIRM\n", &["ERR 83886179 cancelled"])] {
        pinentry.write(question.as_bytes());
        assert!(answers.iter().all(|answer| pinentry.line() == *answer));
        assert_eq!(coordinator.count(), 0, "the answer arrives after the pause has ended");
        let listed: Vec<_> = (0..4).map(|_| pinentry.error_line()).collect();
        assert!(listed.iter().any(|line| line.starts_with("t ") && line.contains("Sign it")), "{listed:?}");
    }
    pinentry.write(b"BYE\n");
    let ended = pinentry.end();
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(5), "OK closing\n", ""));
}

#[test]
fn pinentry_asks_without_a_thread_and_ends_with_gpg_agent() {
    let script = Script::new("asks", PINENTRY);
    let mut command = program();
    command.arg("pinentry").env("PAUSEWATCH_PINENTRY", script.path()).env("PROGRAM", "true").stdin(Stdio::piped());
    let mut pinentry = Process::start(command);
    pinentry.line();
    pinentry.write(b"GETPIN\n");
    assert_eq!((pinentry.line(), pinentry.line()), ("D s3cret%25".into(), "OK".into()));
    let warned = pinentry.error_line();
    assert!(warned.contains("PAUSEWATCH_THREAD_ID") && warned.contains("without a pause"), "{warned}");
    pinentry.write(b"NOP");
    pinentry.close_stdin();
    assert_eq!(pinentry.end().code, Some(0), "the input of the real pinentry ends too");
}

fn stdin_of(mut command: Command) -> Command {
    command.stdin(Stdio::piped());
    command
}

#[test]
fn a_signal_to_pinentry_reaches_the_real_one_and_closes_the_question() {
    let coordinator = Coordinator::start();
    let script = Script::new("asks", "echo OK; read -r line; echo '# asked'; exec sleep 1000");
    let mut command = coordinator.command(["pinentry"]);
    command.env("PAUSEWATCH_PINENTRY", script.path()).env("PINENTRY_USER_DATA", "PAUSEWATCH_THREAD_ID=t");
    let mut pinentry = Process::start(stdin_of(command));
    pinentry.line();
    pinentry.write(b"GETPIN\n");
    assert_eq!(pinentry.line(), "# asked");
    assert_eq!(coordinator.count(), 1);
    pinentry.signal(Signal::TERM);
    pinentry.end();
    assert_eq!(coordinator.count(), 0);
}
