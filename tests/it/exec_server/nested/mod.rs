//! Nested programs, those that a command starts: the rules apply to them, whatever starts them.
//!
//! The commands run scripts, whose text is not in the command line, so the line alone decides nothing here.
mod denied;
mod escalated;
mod faults;
mod kills;
mod many;
mod own_files;
mod privileges;
mod questions;
mod refused;
mod terminal;
mod views;

use super::client::{Client, exec_server};
use super::prompts::unwritable_directory;
use crate::program::ended;
use crate::support::PATIENCE;
use crate::support::skipped;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime},
};
use tempfile::TempDir;

const RULES: &str = r#"
prefix_rule(pattern = ["rm"], decision = "forbidden", justification = "use trash")
prefix_rule(pattern = ["touch"], decision = "prompt", justification = "it is only a test")
prefix_rule(pattern = [["cat", "env", "sleep"]], decision = "prompt")
prefix_rule(pattern = ["cp"], decision = "allow")
"#;

/// An exec server that judges programs, and a directory for its commands.
struct Judged {
    client: Client,
    directory: TempDir,
}

/// Whether this system can judge programs; if not, the running test is skipped.
fn can_judge(rules: &Path) -> bool {
    let checked = ended(&mut exec_server(["--check", "--rules", rules.to_str().unwrap()]));
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let judged = checked.out.contains("\nrules: nested programs are judged\n");
    if !judged {
        skipped("seccomp-notify", checked.out);
    }
    judged
}

impl Judged {
    /// Starts it with a client that supports elicitation; `None`: this system cannot judge programs.
    fn start() -> Option<Self> {
        Self::with(Client::start, &[])
    }

    fn with(client: impl FnOnce(Command) -> Client, options: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let rules = directory.path().join("nested.rules");
        fs::write(&rules, RULES).unwrap();
        let mut server = exec_server(["--rules", rules.to_str().unwrap()]);
        server.args(options);
        can_judge(&rules).then(|| Self { client: client(server), directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes an executable script.
    fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn arguments(&self, line: &str) -> Value {
        json!({"command": line, "workdir": self.directory.path(), "timeout_ms": 60_000})
    }

    /// Runs a script of `sh` to its end; questions meanwhile stay unanswered.
    fn run(&mut self, script: &str) -> Value {
        let id = self.begin(script);
        self.client.answer(id)
    }

    fn begin(&mut self, script: &str) -> u64 {
        self.script("task", &format!("#!/bin/sh\n{script}\n"));
        self.client.begin("shell", "t", self.arguments("./task"))
    }

    /// Runs a script, and approves every question.
    fn run_approved(&mut self, script: &str) -> Value {
        let id = self.begin(script);
        self.approve_until(id)
    }

    fn approve_until(&mut self, id: u64) -> Value {
        let client = &mut self.client;
        // On a busy machine, hundreds of programs take longer than the limit for one message.
        let end = Instant::now() + 3 * PATIENCE;
        while !client.has_answered(id) {
            assert!(Instant::now() < end, "no answer; there are {:#?}", client.others);
            match client.others.iter().position(|message| message["method"] == "elicitation/create") {
                Some(at) => {
                    let asked = client.others.remove(at);
                    client.respond(&asked, json!({"action": "accept", "content": {"run": "yes"}}));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        client.answer(id)
    }

    fn question(&mut self) -> Value {
        self.client.wait_for("question", |message| message["method"] == "elicitation/create")
    }

    /// A file that exists and must not be removed.
    fn kept(&self) -> PathBuf {
        let kept = self.path("kept");
        fs::write(&kept, "").unwrap();
        kept
    }
}

/// Waits until `found` returns something.
pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the times of this new file show every later change: until then, a person is asked about it each time.
pub(crate) fn until_settled(file: &Path) {
    let data = fs::metadata(file).unwrap();
    let enough = Duration::from_millis(if data.ctime_nsec() == 0 { 3_500 } else { 100 });
    let changed = Duration::new(data.ctime().try_into().unwrap(), data.ctime_nsec().try_into().unwrap());
    let is_old = || SystemTime::now() >= SystemTime::UNIX_EPOCH + changed + enough;
    until("the file gets older", || is_old().then_some(()));
}

pub(super) fn text<'a>(answer: &'a Value, field: &str) -> &'a str {
    answer[field].as_str().unwrap_or_else(|| panic!("{field} of {answer}"))
}

fn source_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/exec_server/nested/programs").join(name)
}

/// Compiles a C program of `programs/`.
pub(super) fn compiled(name: &str, directory: &Path) -> PathBuf {
    let program = directory.join(name.trim_end_matches(".c"));
    // Every machine that compiles this test has `cc`: it is Rust's linker.
    let compiled =
        Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source_of(name)).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}
