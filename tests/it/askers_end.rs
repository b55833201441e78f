//! Whom `askpass` and `pinentry` ask for: which thread is paused, with which credentials, and until when.
use crate::askers::Script;
use crate::program::{Coordinator, Process, ended, program};
use rustix::process::{Pid, Signal, getuid, kill_process, test_kill_process};
use std::{
    fs,
    process::{Command, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pausewatch");

/// A pinentry that prints the state of all threads while it asks.
const PINENTRY: &str = r#"echo OK
while read -r command rest; do
    case $command in
    GETPIN) "$PROGRAM" list --address "$LISTED" >&2; echo listed >&2; echo OK ;;
    *) echo OK ;;
    esac
done"#;

/// Waits until the process has ended, and its parent has noticed it.
fn wait_until_gone(pid: Pid) {
    let end = std::time::Instant::now() + crate::support::PATIENCE;
    while test_kill_process(pid).is_ok() {
        assert!(std::time::Instant::now() < end, "{pid:?} does not end");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A coordinator that requires the token in a file.
struct Guarded {
    coordinator: Coordinator,
    directory: tempfile::TempDir,
    token: String,
}

impl Guarded {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tokens = directory.path().join("tokens");
        let added = ended(program().args(["token", "add", "--prefix", ""]).arg(&tokens));
        let token = added.out.trim().to_owned();
        fs::write(directory.path().join("token"), &token).unwrap();
        let tokens = tokens.to_str().unwrap();
        let coordinator = Coordinator::start_with(["--listen", "127.0.0.1:0", "--store", "memory", "--tokens", tokens]);
        Self { coordinator, directory, token }
    }

    /// What is written to standard error while pinentry asks, with this user data, environment and `OPTION` line.
    fn asked(&self, data: &str, environment: &[(&str, &str)], option: &str) -> String {
        let script = Script::new("asks", PINENTRY);
        let mut command = program();
        command
            .arg("pinentry")
            .env("PINENTRY_USER_DATA", data.replace("=ADDRESS", &format!("={}", self.coordinator.address)));
        command.envs(environment.iter().copied()).env("PAUSEWATCH_PINENTRY", script.path()).stdin(Stdio::piped());
        // For the list, not for pinentry.
        let list = format!("PAUSEWATCH_TOKEN= PAUSEWATCH_TOKEN_FILE={}", self.directory.path().join("token").display());
        let wrapper = Script::new("list", &format!("exec env {list} {PROGRAM} \"$@\""));
        command.env("PROGRAM", wrapper.path()).env("LISTED", &self.coordinator.address);
        let mut pinentry = Process::start(command);
        pinentry.line();
        for line in [option, "SETDESC Sign?"] {
            pinentry.write(format!("{line}\n").as_bytes());
            assert_eq!(pinentry.line(), "OK");
        }
        pinentry.write(b"GETPIN\n");
        let mut text = String::new();
        loop {
            match pinentry.error_line() {
                line if line == "listed" => break,
                line => text += &(line + "\n"),
            }
        }
        pinentry.close_stdin();
        pinentry.end();
        text
    }
}

#[test]
fn g8_pinentry_gives_no_file_and_no_own_token_to_a_client_of_gpg_agent() {
    let guarded = Guarded::start();
    let (file, token) = (guarded.directory.path().join("token"), guarded.token.as_str());
    let file = file.to_str().unwrap();
    let at_client = "PAUSEWATCH_ADDRESS=ADDRESS;PAUSEWATCH_THREAD_ID=t";
    let elsewhere = ("PAUSEWATCH_ADDRESS", "unix:/proc/nonexistent/p.sock");
    // The address of the client, with the token of the user, or with a file.
    let asked = guarded.asked(at_client, &[elsewhere, ("PAUSEWATCH_TOKEN", token)], "NOP");
    assert!(asked.contains("TOKEN_MISSING") && !asked.contains("Sign?"), "{asked}");
    let asked = guarded.asked(at_client, &[elsewhere, ("PAUSEWATCH_TOKEN_FILE", file)], "NOP");
    assert!(asked.contains("TOKEN_MISSING") && !asked.contains("Sign?"), "{asked}");
    let asked = guarded.asked(&format!("{at_client};PAUSEWATCH_TOKEN_FILE={file}"), &[elsewhere], "NOP");
    assert!(asked.contains("PAUSEWATCH_TOKEN_FILE is ignored") && asked.contains("TOKEN_MISSING"), "{asked}");
    assert!(!asked.contains("Sign?"), "{asked}");
    let asked = guarded.asked(&format!("{at_client};PAUSEWATCH_TLS_CERT=/proc/self/environ"), &[elsewhere], "NOP");
    assert!(asked.contains("PAUSEWATCH_TLS_CERT is ignored") && asked.contains("TOKEN_MISSING"), "{asked}");
    // The valid neighbours: the token of the client, and the own address with the own token.
    let asked = guarded.asked(&format!("{at_client};PAUSEWATCH_TOKEN={token}"), &[elsewhere], "NOP");
    assert!(asked.contains("Sign?"), "{asked}");
    let own = [("PAUSEWATCH_ADDRESS", guarded.coordinator.address.as_str()), ("PAUSEWATCH_TOKEN", token)];
    for data in [at_client, "PAUSEWATCH_THREAD_ID=t"] {
        let asked = guarded.asked(data, &own, "NOP");
        assert!(asked.contains("Sign?"), "{data}: {asked}");
    }
}

#[test]
fn pinentry_takes_the_thread_from_the_process_that_needs_the_key_and_not_from_gpg_agent() {
    let guarded = Guarded::start();
    let address = guarded.coordinator.address.as_str();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let stale = [
        ("PAUSEWATCH_ADDRESS", address),
        ("PAUSEWATCH_TOKEN", &guarded.token),
        ("PAUSEWATCH_THREAD_ID", "stale"),
        ("CODEX_THREAD_ID", "stale"),
    ];
    // gpg-agent's own environment names no thread.
    let asked = guarded.asked("", &stale, "NOP");
    assert!(asked.contains("no thread") && !asked.contains("stale "), "{asked}");
    if !cfg!(target_os = "linux") {
        return;
    }
    let needs_key =
        Process::start(stdin_of_sleep(&[("CODEX_THREAD_ID", "needs-key"), ("PAUSEWATCH_TOKEN_FILE", "/etc/hostname")]));
    let (pid, user) = (needs_key.pid().as_raw_pid(), getuid().as_raw());
    let asked = guarded.asked("", &stale, &format!("OPTION owner={pid}/{user} {host}"));
    assert!(asked.contains("needs-key ") && asked.contains("Sign?"), "{asked}");
    // The user data wins; another user, another host and a process that has ended name no thread.
    let asked = guarded.asked("PAUSEWATCH_THREAD_ID=data", &stale, &format!("OPTION owner={pid}/{user} {host}"));
    assert!(asked.contains("data ") && !asked.contains("needs-key "), "{asked}");
    for owner in [
        format!("{pid}/{} {host}", user + 1),
        format!("{pid}/{user} not-{host}"),
        format!("{}/{user} {host}", i32::MAX),
    ] {
        let asked = guarded.asked("", &stale, &format!("OPTION owner={owner}"));
        assert!(asked.contains("no thread"), "{owner}: {asked}");
    }
    // Its address with its token, not with ours.
    let other = Guarded::start();
    let needs_key = Process::start(stdin_of_sleep(&[
        ("PAUSEWATCH_THREAD_ID", "t"),
        ("PAUSEWATCH_ADDRESS", &other.coordinator.address),
    ]));
    let asked = other.asked("", &stale, &format!("OPTION owner={}/{user} {host}", needs_key.pid().as_raw_pid()));
    assert!(asked.contains("TOKEN_MISSING"), "{asked}");
}

/// A process that lives until it is killed, with only these variables.
fn stdin_of_sleep(environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new("/bin/sleep");
    command.arg("1000").env_clear().envs(environment.iter().copied());
    command
}

#[test]
fn g2_askpass_ends_when_the_program_that_asked_has_ended() {
    let coordinator = Coordinator::start();
    let watching = coordinator.watch();
    // The second one is slow to end, and has its answer from a terminal or a display, not from its parent.
    for script in ["echo $$; exec sleep 1000", "trap '' TERM; echo $$; while :; do sleep 0.1; done"] {
        let script = Script::new("asks", script);
        let mut ssh = Command::new("sh");
        ssh.args(["-c", "\"$0\" askpass '?'; :", PROGRAM]);
        coordinator.command([]).get_envs().for_each(|(name, value)| _ = value.map(|value| ssh.env(name, value)));
        let mut ssh = Process::start({
            ssh.env("PAUSEWATCH_ASKPASS", script.path());
            ssh
        });
        let asks = ssh.line().parse().ok().and_then(Pid::from_raw).unwrap();
        watching.wait_for(1);
        ssh.kill();
        watching.wait_for(0);
        wait_until_gone(asks);
    }
}

#[test]
fn askpass_with_invalid_settings_ends_with_the_program_that_asked_too() {
    let script = Script::new("asks", "echo $$; exec sleep 1000");
    let mut ssh = Command::new("sh");
    ssh.args(["-c", "\"$0\" askpass '?'; :", PROGRAM]).env("PAUSEWATCH_CONFIG", "/proc/nonexistent/c.toml");
    let mut ssh = Process::start({
        ssh.env("PAUSEWATCH_ASKPASS", script.path());
        ssh
    });
    let asks = ssh.line().parse().ok().and_then(Pid::from_raw).unwrap();
    ssh.kill();
    wait_until_gone(asks);
}

#[test]
fn g2_pinentry_ends_when_gpg_agent_or_the_process_that_needs_the_key_has_ended() {
    let coordinator = Coordinator::start();
    let watching = coordinator.watch();
    let script = Script::new(
        "asks",
        "echo OK; while read -r line; do case $line in GETPIN) echo $$; exec sleep 1000;; *) echo OK;; esac; done",
    );
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for is_agent in [true, false] {
        let mut needs_key = Process::start(stdin_of_sleep(&[]));
        let mut agent = Command::new("sh");
        agent.args(["-c", "\"$0\" pinentry <&0; :", PROGRAM]).stdin(Stdio::piped());
        coordinator.command([]).get_envs().for_each(|(name, value)| _ = value.map(|value| agent.env(name, value)));
        let mut agent = Process::start({
            agent.env("PAUSEWATCH_PINENTRY", script.path()).env("PINENTRY_USER_DATA", "PAUSEWATCH_THREAD_ID=t");
            agent
        });
        let owner = needs_key.pid().as_raw_pid();
        assert_eq!(agent.line(), "OK");
        agent.write(format!("OPTION owner={owner}/{} {host}\n", getuid().as_raw()).as_bytes());
        assert_eq!(agent.line(), "OK");
        agent.write(b"GETPIN\n");
        let asks = agent.line().parse().ok().and_then(Pid::from_raw).unwrap();
        watching.wait_for(1);
        if is_agent {
            agent.kill();
        } else if cfg!(target_os = "linux") {
            needs_key.kill();
        } else {
            kill_process(asks, Signal::KILL).unwrap();
        }
        watching.wait_for(0);
        wait_until_gone(asks);
    }
}
