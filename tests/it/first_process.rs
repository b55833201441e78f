//! The program as process 1 of a container: the kernel spares it the default action of every signal, and makes it the parent of every
//! orphan.
use crate::program::{Coordinator, Process, ended, program};
use crate::support::skipped;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pausewatch");

/// The commands that run another one.
const AROUND: [&[&str]; 3] = [&["run", "0"], &["hold"], &["bridge", "codex", "--"]];

/// A shell script as process 1, with words as `$0`, `$1` and so on; `None`: this system starts no containers.
fn contained(script: &str, words: &[&str], directory: &Path) -> Option<Command> {
    let start = |script: &str| {
        let command = program();
        let mut unshare = Command::new("unshare");
        command.get_envs().for_each(|(name, value)| match value {
            Some(value) => _ = unshare.env(name, value),
            None => _ = unshare.env_remove(name),
        });
        unshare.args(["--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]);
        unshare.args(words).current_dir(directory).stdin(Stdio::null());
        unshare
    };
    let tried = ended(&mut start("true"));
    if tried.code != Some(0) {
        skipped("namespaces", format!("a container cannot be started: {tried:?}"));
        return None;
    }
    Some(start(script))
}

/// `$0` and the arguments of the program, as process 1.
fn as_first(args: &[&str], coordinator: &Coordinator, directory: &Path) -> Option<Command> {
    let words: Vec<_> = [PROGRAM].iter().chain(args).copied().collect();
    let mut command = contained("exec \"$0\" \"$@\"", &words, directory)?;
    command.env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_THREAD_ID", "t");
    Some(command)
}

/// As with GNU `timeout`: a signal that a process sends itself ends it, but not process 1.
#[test]
fn the_exit_status_of_process_1_names_the_signal_that_killed_its_command() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    for around in AROUND {
        for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("KILL", 137), ("ABRT", 134), ("USR1", 138)] {
            let kill = format!("kill -{name} $$");
            let args = [around, &["sh", "-c", &kill]].concat();
            let Some(mut command) = as_first(&args, &coordinator, directory.path()) else { return };
            let ended = ended(&mut command);
            assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""), "{args:?}: {ended:?}");
        }
        assert_eq!(coordinator.count(), 0);
    }
}

#[test]
fn process_1_that_kills_its_command_at_its_limit_ends_as_elsewhere() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let hangs = "trap '' TERM; while :; do sleep 0.05; done";
    for (options, code) in [(&["-k", ".01"][..], 137), (&["-s", "KILL"], 137), (&["-s", "INT"], 124)] {
        let script = if code == 124 { "exec sleep 1000" } else { hangs };
        let args = [&["run"], options, &[".01", "sh", "-c", script]].concat();
        let Some(mut command) = as_first(&args, &coordinator, directory.path()) else { return };
        let ended = ended(&mut command);
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
    }
}

#[test]
fn process_1_reads_the_exit_status_of_orphans_and_of_its_command() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let file = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    file("orphan", "until grep -q '^PPid:.1$' /proc/$$/status; do :; done; echo $$ > $1.new; mv $1.new $1\n");
    file(
        "command",
        "for i in 1 2 3; do (sh orphan $i.pid &); done
         for i in 1 2 3; do until [ -e $i.pid ]; do sleep 0.02; done; while [ -e /proc/$(cat $i.pid) ]; do sleep 0.02; done; done
         rm *.pid; echo reaped; exit 7\n",
    );
    for around in AROUND {
        let args = [around, &["sh", "command"]].concat();
        let Some(command) = as_first(&args, &coordinator, directory.path()) else { return };
        let first = Process::start(command);
        assert_eq!(first.line(), "reaped", "{args:?}");
        let ended = first.end();
        assert_eq!((ended.code, ended.err.as_str()), (Some(7), ""), "{args:?}");
    }
}

#[test]
fn signals_end_commands_that_wait_as_process_1() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let start = b"{\"do\": \"start\", \"id\": \"1\", \"thread_id\": \"t\", \"limit\": \"1h\"}\n";
    for (args, input, said, signal, code) in [
        (&["health", "--watch"][..], &b""[..], "serving", "TERM", 143),
        (&["health", "--watch"], b"", "serving", "INT", 130),
        (&["follow", "--stdio"], start, "started", "TERM", 143),
        (&["follow", "--stdio"], start, "started", "INT", 130),
        (&["watch", "--output", "json"], b"", "snapshotComplete", "HUP", 129),
        (&["watch", "--output", "json"], b"", "snapshotComplete", "TERM", 0),
        (&["list", "--watch", "--output", "json"], b"", "{", "INT", 0),
        (&["serve", "--listen", "127.0.0.1:0", "--store", "memory"], b"", "listening", "QUIT", 131),
        (&["serve", "--listen", "127.0.0.1:0", "--store", "memory"], b"", "listening", "TERM", 0),
    ] {
        // A signal from inside reaches process 1 as one from outside does: only if it has a handler.
        let script = "mkfifo signals; (read signal < signals; rm signals; kill -s $signal 1) & exec \"$0\" \"$@\"";
        let words: Vec<_> = [PROGRAM].iter().chain(args).copied().collect();
        let Some(mut command) = contained(script, &words, directory.path()) else { return };
        command.env("PAUSEWATCH_ADDRESS", &coordinator.address).stdin(Stdio::piped());
        let mut first = Process::start(command);
        first.write(input);
        while !first.line().contains(said) {}
        fs::write(directory.path().join("signals"), format!("{signal}\n")).unwrap();
        let ended = first.end();
        assert_eq!(ended.code, Some(code), "{args:?} {signal}: {ended:?}");
    }
}
