//! Ways out of the sandbox that attackers have found, each beside its honest neighbour, which works.
//!
//! The allowed program is `greet`, a script that writes to a file outside. Whatever a command prepares in its project, nothing else may be
//! written there.
mod approvals;
mod home;
mod interpreters;
mod libraries;
mod lines;
mod links;
mod path;
mod services;
mod signals;
mod streams;
mod terminals;

use super::{
    client::{Client, exec_server, path_of_the_system},
    nested::{text, until},
    prompts::unwritable_directory,
};
use crate::{program::ended, support::skipped};
use serde_json::{Value, json};
use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

const GREET: &str = "prefix_rule(['greet'])";

/// A project, which commands can write, and beside it what they cannot write: programs, the home directory, other files.
struct Place {
    _base: TempDir,
    root: PathBuf,
}

impl Place {
    /// `None`: nothing can leave the sandbox here, or there is none.
    fn new() -> Option<Self> {
        let Some(base) = unwritable_directory() else {
            skipped("directory", "sandboxed commands can write every directory that this user can write");
            return None;
        };
        let place = Self { root: base.path().canonicalize().unwrap(), _base: base };
        for name in ["project", "bin", "home", "outside"] {
            fs::create_dir(place.path(name)).unwrap();
        }
        place.program("bin/greet", &format!("#!/bin/sh\necho \"$*\" >> {}\n", place.path("outside/made").display()));
        let checked = ended(place.server("prefix_rule(['greet'], decision='forbidden')").arg("--check"));
        assert_eq!(checked.code, Some(0), "{checked:?}");
        if !checked.out.starts_with("sandbox: enforced")
            || !checked.out.contains("\nrules: nested programs are judged\n")
        {
            skipped("seccomp-notify", checked.out);
            return None;
        }
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Writes an executable file.
    fn program(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn server(&self, rules: &str) -> Command {
        let file = self.path("outside/my.rules");
        fs::write(&file, rules).unwrap();
        let mut server = exec_server(["--rules", file.to_str().unwrap()]);
        let bin = self.path("bin");
        let system = path_of_the_system();
        let path = [bin].into_iter().chain(env::split_paths(&system));
        server
            .current_dir(self.path("project"))
            .env("HOME", self.path("home"))
            .env("PATH", env::join_paths(path).unwrap());
        env::vars_os()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"XDG_"))
            .for_each(|(name, _)| _ = server.env_remove(name));
        server.env_remove("XDG_RUNTIME_DIR");
        server
    }

    /// A client that cannot ask.
    fn client(&self, rules: &str) -> Client {
        Client::with(self.server(rules), "2025-06-18", json!({}))
    }

    /// With all occurrences of `OUT` replaced by the directory outside.
    fn arguments(&self, line: &str) -> Value {
        let line = line.replace("OUT", self.path("outside").to_str().unwrap());
        json!({"command": line, "workdir": self.path("project"), "timeout_ms": 60_000})
    }

    fn run(&self, client: &mut Client, line: &str) -> Value {
        client.call("shell", self.arguments(line))
    }

    /// Takes what the program has written outside.
    fn made(&self) -> Option<String> {
        let (file, made) = (self.path("outside/made"), fs::read_to_string(self.path("outside/made")).ok());
        let _ = fs::remove_file(file);
        made
    }

    /// Asserts that the line runs `greet` once outside.
    #[track_caller]
    fn assert_leaves(&self, client: &mut Client, line: &str) {
        let answer = self.run(client, line);
        assert_eq!(self.made().map(|made| made.lines().count()), Some(1), "{line}: {answer}");
    }

    /// Asserts that nothing was written outside, and that the result says why.
    #[track_caller]
    fn assert_stays(&self, client: &mut Client, line: &str, why: &str) -> Value {
        let answer = self.run(client, line);
        assert_eq!(self.made(), None, "{line}: {answer}");
        let note = answer["note"].as_str().unwrap_or_default();
        let is_said = why.is_empty() || note.contains("stayed in the sandbox: ") && note.contains(why);
        assert!(is_said, "{line}: {answer}");
        answer
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
