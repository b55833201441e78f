//! Programs whose token expires while a question is open. If the token file is replaced in time, the pause lasts as
//! long as the question; if not, the same program must fail, which shows what the replacement is for.
use crate::exec_server::client::{Client, exec_server};
use crate::program::{Coordinator, Process, ended, program};
use pausewatch::test_support::access::Role;
use pausewatch::test_support::access::mint::{Pair, Signer, Token};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The lifetime of each token in the file.
const TOKEN_TTL: Duration = Duration::from_secs(12);
const REPLACED_EVERY: Duration = Duration::from_secs(1);
/// The disconnect grace and the time limit of commands, each.
const SECOND: &str = "1s";
/// How long the question is open, in seconds: longer than the token, the grace and the limit, and longer than the token
/// and a lease.
const QUESTION: &str = "24";

/// A coordinator that requires signed tokens.
struct Site {
    coordinator: Coordinator,
    signer: Arc<Signer>,
    directory: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pair = Pair::generate().unwrap();
        let keys = directory.path().join("keys.pub");
        std::fs::write(&keys, &pair.public).unwrap();
        let options = ["--store", "memory", "--listen", "127.0.0.1:0", "--jwt-keys", keys.to_str().unwrap()];
        let coordinator = Coordinator::start_with(options);
        Self { coordinator, signer: Arc::new(Signer::from_pem(&pair.private).unwrap()), directory }
    }

    /// A file with a token of this role, replaced in time or never.
    fn token_file(&self, role: Role, is_replaced: bool) -> TokenFile {
        TokenFile::new(&self.directory.path().join("token"), self.signer.clone(), role, is_replaced)
    }

    /// Adds the coordinator, the thread `t` and the token file to a command.
    fn with_file(&self, mut command: Command, file: &TokenFile) -> Command {
        command.env("PAUSEWATCH_ADDRESS", &self.coordinator.address).env("PAUSEWATCH_THREAD_ID", "t");
        command.env("PAUSEWATCH_TOKEN_FILE", &file.path);
        command
    }

    /// Runs a command with a long-lived token; returns its output.
    fn asked<const N: usize>(&self, args: [&str; N]) -> String {
        let token = token(&self.signer, Role::Holder, Duration::from_secs(600));
        let ended = ended(self.coordinator.command(args).env("PAUSEWATCH_TOKEN", token));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out
    }
}

fn token(signer: &Signer, role: Role, ttl: Duration) -> String {
    let content = Token { subject: "s".into(), role, threads: Vec::new(), prefixes: vec![String::new()] };
    signer.sign(&content, SystemTime::now().duration_since(UNIX_EPOCH).unwrap(), ttl).unwrap()
}

/// A file with a token, which a thread replaces until this is dropped.
struct TokenFile {
    path: PathBuf,
    replacing: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl TokenFile {
    fn new(path: &Path, signer: Arc<Signer>, role: Role, is_replaced: bool) -> Self {
        let replace = {
            let (path, new) = (path.to_owned(), path.with_extension("new"));
            move || {
                std::fs::write(&new, token(&signer, role, TOKEN_TTL)).unwrap();
                std::fs::rename(&new, &path).unwrap();
            }
        };
        replace();
        let replacing = is_replaced.then(|| {
            let (ends, ended) = mpsc::channel();
            let replacing = move || {
                while ended.recv_timeout(REPLACED_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                    replace();
                }
            };
            (ends, std::thread::spawn(replacing))
        });
        Self { path: path.to_owned(), replacing }
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        if let Some((ends, replacing)) = self.replacing.take() {
            drop(ends);
            let _ = replacing.join();
        }
    }
}

/// G1.
#[test]
fn run_follows_a_pause_that_is_longer_than_its_token() {
    for (is_replaced, code) in [(true, 0), (false, 124)] {
        let site = Site::new();
        site.asked(["increment"]);
        let file = site.token_file(Role::Watcher, is_replaced);
        let mut command = program();
        command.args(["run", "--disconnect-grace", SECOND, SECOND, "sleep", QUESTION]);
        let ended = Process::start(site.with_file(command, &file)).end();
        assert_eq!(ended.code, Some(code), "replaced: {is_replaced}: {ended:?}");
    }
}

/// G1.
#[test]
fn exec_server_follows_a_pause_that_is_longer_than_its_token() {
    for (is_replaced, timed_out) in [(true, false), (false, true)] {
        let site = Site::new();
        site.asked(["increment"]);
        let file = site.token_file(Role::Watcher, is_replaced);
        let mut command = site.with_file(exec_server(["--disconnect-grace", SECOND]), &file);
        // The server runs in `/` and its command elsewhere; both get the file.
        command.env("PAUSEWATCH_TOKEN_FILE", file.path.strip_prefix("/").unwrap());
        let mut client = Client::start(command);
        let line = format!("sleep {QUESTION}; {} get >/dev/null", env!("CARGO_BIN_EXE_pausewatch"));
        let command = json!({"command": line, "workdir": site.directory.path(), "timeout_ms": 1_000});
        let answer = client.call("shell", command);
        let code = if timed_out { 124 } else { 0 };
        assert_eq!((&answer["timed_out"], &answer["exit_code"]), (&json!(timed_out), &json!(code)), "{answer}");
    }
}

/// G1, G2: the lease of the hold is renewed with the current token.
#[test]
fn hold_keeps_its_pause_for_longer_than_its_token() {
    for (is_replaced, expected) in [(true, "PAUSE_END_DECREMENTED"), (false, "PAUSE_END_EXPIRED")] {
        let site = Site::new();
        let file = site.token_file(Role::Holder, is_replaced);
        let mut command = program();
        command.args(["hold", "--require", "--ttl", "6s", "sleep", QUESTION]);
        let ended = Process::start(site.with_file(command, &file)).end();
        assert_eq!(ended.code, Some(0), "replaced: {is_replaced}: {ended:?}");
        let history: Value = serde_json::from_str(&site.asked(["history", "--output", "json"])).unwrap();
        let ends: Vec<_> = history["pauses"].as_array().unwrap().iter().map(|pause| &pause["endedBy"]).collect();
        assert_eq!(ends, [expected], "replaced: {is_replaced}: {history}");
    }
}
