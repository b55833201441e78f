//! With a low limit of open files (`ulimit -n`), each command does its work or says why not; none panics.
use crate::program::{Coordinator, Ended, ended, program};
use std::process::Command;

/// Fewer than about four are too few for the loader of programs.
const LIMITS: [u32; 9] = [4, 5, 6, 7, 8, 9, 10, 12, 16];

fn limited(limit: u32, args: &[&str], coordinator: &Coordinator) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_pausewatch")]);
    let clean = program();
    clean.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| _ = command.env_remove(name));
    command.args(args).env("HOME", "/proc/nonexistent").env("PAUSEWATCH_ASKPASS", "true");
    command.env("PAUSEWATCH_PINENTRY", "true").env("PAUSEWATCH_ADDRESS", &coordinator.address);
    ended(command.env("PAUSEWATCH_THREAD_ID", "t").stdin(std::process::Stdio::null()))
}

#[test]
fn no_command_panics_with_few_open_files() {
    let (coordinator, directory) = (Coordinator::start(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (store, socket, taken) = (path("store"), path("socket"), &coordinator.address);
    for args in [
        &["run", "0", "true"][..],
        &["run", "--private", "0", "true"],
        &["hold", "true"],
        &["hold", "--require", "true"],
        // They end because the address is taken.
        &["serve", "--listen", taken, "--store", "memory"],
        &["serve", "--listen", taken, "--data-dir", &store],
        &["exec-server"],
        &["exec-server", "--check"],
        &["increment", "--ttl", "1s"],
        &["decrement"],
        &["renew", "x"],
        &["get"],
        &["list"],
        &["history"],
        &["follow", "--stdio"],
        &["health"],
        &["health", "--fleet"],
        &["bridge", "codex", "--", "true"],
        &["bridge", "codex", "--socket", &socket],
        &["askpass", "x"],
        &["pinentry"],
        &["hook", "claude"],
        &["backup", "--data-dir", &store, "/dev/null"],
        &["check", "--data-dir", &store],
        &["config"],
    ] {
        for limit in LIMITS {
            let ended = limited(limit, args, &coordinator);
            let is_calm = ended.code.is_some_and(|code| code != 101) && !ended.err.contains("panicked");
            assert!(is_calm, "{args:?} with {limit} files: {ended:?}");
        }
    }
}

#[test]
fn a_command_that_gets_too_few_files_says_what_to_do() {
    let coordinator = Coordinator::start();
    for (args, code) in [(&["run", "0", "true"][..], 125), (&["hold", "true"], 125), (&["get"], 1), (&["health"], 1)] {
        let ended = limited(6, args, &coordinator);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let says = ended.err.lines().count() == 1
            && ended.err.contains("this process may have 6; raise the limit (`ulimit -n`");
        assert!(says, "{ended:?}");
    }
}
