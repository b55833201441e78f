//! `pausewatch token`, and the token that `run` gives its command: from an empty directory to a token that opens one
//! thread.
use crate::program::{Coordinator, Ended, Process, ended, program};
use crate::shell::{End, Run};
use crate::support::PATIENCE;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Site(TempDir);

impl Site {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).into_os_string().into_string().unwrap()
    }

    /// Returns the output of `pausewatch token ARGS`.
    fn token(&self, args: &[&str]) -> String {
        let made = ended(program().arg("token").args(args).current_dir(self.0.path()));
        assert_eq!((made.code, made.err.as_str()), (Some(0), ""), "{made:?}");
        let line = made.out.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'), "one line: {line}");
        line.to_owned()
    }

    fn refused(&self, args: &[&str], code: i32, why: &str) {
        let made = ended(program().arg("token").args(args).current_dir(self.0.path()));
        assert!(made.code == Some(code) && made.out.is_empty() && made.err.contains(why), "{args:?}: {made:?}");
    }

    fn mode(&self, name: &str) -> u32 {
        std::fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o777
    }
}

fn get(coordinator: &Coordinator, token: &str, thread: &str) -> (Option<i32>, String) {
    let mut command = coordinator.command(["get", "--thread-id", thread]);
    let got = ended(command.env("PAUSEWATCH_TOKEN", token));
    assert!(token.is_empty() || !got.err.contains(token), "{got:?}");
    (got.code, got.err)
}

#[test]
fn g8_a_key_signs_tokens_that_a_server_takes() {
    let site = Site::new();
    assert_eq!(site.token(&["key", "issuer.key"]), "issuer.key.pub");
    assert_eq!((site.mode("issuer.key"), site.mode("issuer.key.pub")), (0o600, 0o644));
    let keys = site.path("issuer.key.pub");
    let coordinator = Coordinator::start_with(["--store", "memory", "--listen", "127.0.0.1:0", "--jwt-keys", &keys]);
    let token = site.token(&["create", "--token-key", "issuer.key", "--thread-id", "mine", "--ttl", "1h"]);
    assert_eq!(get(&coordinator, &token, "mine").0, Some(0));
    let (code, refused) = get(&coordinator, &token, "another");
    assert!(code == Some(1) && refused.contains("(PERMISSION_DENIED THREAD_FORBIDDEN)"), "{refused}");
    let (_, missing) = get(&coordinator, "", "mine");
    assert!(missing.contains("(UNAUTHENTICATED TOKEN_MISSING)") && missing.contains("PAUSEWATCH_TOKEN"), "{missing}");
    let expired = site.token(&["create", "--token-key", "issuer.key", "--thread-id", "mine", "--ttl", "1ms"]);
    std::thread::sleep(Duration::from_millis(1_002));
    let (_, refused) = get(&coordinator, &expired, "mine");
    assert!(refused.contains("TOKEN_EXPIRED"), "{refused}");
    let audience = ["create", "--token-key", "issuer.key", "--role", "admin", "--token-audience", "another"];
    let (_, refused) = get(&coordinator, &site.token(&audience), "mine");
    assert!(refused.contains("TOKEN_INVALID") && refused.contains("audience"), "{refused}");
}

#[test]
fn g8_a_static_token_is_added_to_the_file_by_its_digest() {
    let site = Site::new();
    let first = site.token(&["add", "--thread-id", "mine", "--role", "watcher", "tokens.toml"]);
    assert_eq!(site.mode("tokens.toml"), 0o600);
    let tokens = site.path("tokens.toml");
    let coordinator = Coordinator::start_with(["--store", "memory", "--listen", "127.0.0.1:0", "--tokens", &tokens]);
    assert_eq!(get(&coordinator, &first, "mine").0, Some(0));
    let second = site.token(&["add", "--prefix", "team/", "--subject", "the \"team\"", "--ttl", "1d", "tokens.toml"]);
    let file = std::fs::read_to_string(&tokens).unwrap();
    assert!(!file.contains(&first) && !file.contains(&second) && file.contains("expires = 2"), "{file}");
    // The server checks its files every 2 s.
    let deadline = Instant::now() + PATIENCE;
    while get(&coordinator, &second, "team/a").0 != Some(0) {
        assert!(Instant::now() < deadline, "the new token is not accepted");
    }
    assert!(get(&coordinator, &second, "mine").1.contains("THREAD_FORBIDDEN"));
    let increment = ended(coordinator.command(["increment", "--thread-id", "mine"]).env("PAUSEWATCH_TOKEN", &first));
    assert!(increment.err.contains("ROLE_FORBIDDEN") && increment.err.contains("needs holder"), "{increment:?}");
}

/// `token = []` revokes the last token.
#[test]
fn a_token_can_be_added_after_the_last_one_was_revoked() {
    let site = Site::new();
    std::fs::write(site.path("tokens.toml"), "# of the build\ntoken = []\n").unwrap();
    for _ in 0..2 {
        site.token(&["add", "--thread-id", "mine", "tokens.toml"]);
    }
    let file = std::fs::read_to_string(site.path("tokens.toml")).unwrap();
    assert!(file.starts_with("# of the build\n") && file.matches("[[token]]").count() == 2, "{file}");
}

/// A partly written entry would make a server refuse the whole file.
#[test]
fn a_token_that_has_no_room_leaves_the_file_as_it_was() {
    for first_line in ["", "token = []\n"] {
        let site = Site::new();
        let before = format!("{first_line}# {}\n", "x".repeat(400));
        std::fs::write(site.path("tokens.toml"), &before).unwrap();
        // A limit of 512 bytes (sh(1) of POSIX). With the signal ignored, write(2) fails.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" token add --prefix t/ tokens.toml"]);
        let made = ended(command.arg(env!("CARGO_BIN_EXE_pausewatch")).current_dir(site.0.path()));
        assert_eq!((made.code, made.out.as_str()), (Some(1), ""), "{made:?}");
        assert_eq!(made.err, "pausewatch token: write tokens.toml: File too large\n");
        assert_eq!(std::fs::read_to_string(site.path("tokens.toml")).unwrap(), before);
    }
}

#[test]
fn invalid_token_requests_are_refused_with_advice() {
    let site = Site::new();
    site.token(&["key", "k"]);
    let create = |more: &'static [&'static str]| [&["create", "--token-key", "k"], more].concat();
    site.refused(&create(&[]), 2, "--thread-id or --prefix");
    site.refused(&create(&["--role", "admin", "--thread-id", "t"]), 2, "an admin covers every thread");
    site.refused(&create(&["--role", "owner", "--thread-id", "t"]), 2, "expected watcher, holder or admin");
    site.refused(&create(&["--thread-id", "", "--subject", "s"]), 2, "threads[0] is empty");
    site.refused(&["create", "--thread-id", "t"], 2, "PAUSEWATCH_TOKEN_KEY");
    site.refused(&["create", "--token-key", "k.pub", "--thread-id", "t"], 1, "no private key in it");
    site.refused(&["create", "--token-key", "none", "--thread-id", "t"], 1, "token key none: No such file");
    site.refused(&["key", "k"], 1, "make k: File exists");
    site.refused(&["add", "--thread-id", "t", "no/such/file"], 1, "write no/such/file: No such file");
    site.refused(&["add", "tokens"], 2, "--thread-id or --prefix");
    site.refused(&["add", "--ttl", "0", "--thread-id", "t", "tokens"], 2, "the token would never be valid");
    site.refused(&create(&["--thread-id", "t", "--ttl", "0s"]), 2, "the token would never be valid");
    assert!(!PathBuf::from(site.path("tokens")).exists());
}

#[test]
fn file_that_is_no_token_file_is_left_as_it_was() {
    let site = Site::new();
    for (text, why) in [
        (&b"address = \"127.0.0.1:7420\"\n"[..], "token file other: line 1: unknown field `address`"),
        (b"token = \"s3cret-s3cret-s3cret\"\n", "token file other: line "),
        (b"#!/bin/sh\necho no TOML\n", "token file other: line 2: "),
        (b"[[token]]\nsubject = \"s\"\nrole = \"owner\"", "token file other: line 3: unknown variant `owner`"),
        (b"\xff\xfe", "read other: "),
    ] {
        std::fs::write(site.path("other"), text).unwrap();
        site.refused(&["add", "--thread-id", "t", "other"], 1, why);
        assert_eq!(std::fs::read(site.path("other")).unwrap(), text, "{why}");
    }
    // The refusal prints no secret of the file.
    std::fs::write(site.path("other"), "token = \"s3cret-s3cret-s3cret\"\n").unwrap();
    let refused = ended(program().args(["token", "add", "--thread-id", "t", &site.path("other")]));
    assert!(!refused.err.contains("s3cret"), "{refused:?}");
    // The last line of the file may lack its newline.
    std::fs::write(site.path("other"), "# nobody yet").unwrap();
    site.token(&["add", "--thread-id", "t", "other"]);
    site.token(&["add", "--thread-id", "t", "other"]);
}

#[test]
fn key_pair_that_is_not_complete_leaves_no_file() {
    let site = Site::new();
    std::fs::write(site.path("j.pub"), "another").unwrap();
    site.refused(&["key", "j"], 1, "make j.pub: File exists");
    assert!(!PathBuf::from(site.path("j")).exists());
    assert_eq!(std::fs::read_to_string(site.path("j.pub")).unwrap(), "another");
}

/// G8: also with a private coordinator.
#[test]
fn g8_a_command_under_run_has_a_token_that_opens_its_own_thread_alone() {
    let script = "\"$0\" get >/dev/null && \"$0\" increment >/dev/null && \"$0\" list | head -2 | tail -1; \
                  \"$0\" get --thread-id other; PAUSEWATCH_TOKEN= \"$0\" get; exit 7";
    let binary = env!("CARGO_BIN_EXE_pausewatch");
    let run = ended(program().args(["run", "--private", "--thread-id", "mine", "600s", "sh", "-c", script, binary]));
    assert!(run.code == Some(7) && run.out.starts_with("mine "), "{run:?}");
    assert!(run.err.contains("THREAD_FORBIDDEN") && run.err.contains("TOKEN_MISSING"), "{run:?}");
}

#[test]
fn g8_run_signs_a_token_for_its_command_and_keeps_the_key_to_itself() {
    let site = Site::new();
    site.token(&["key", "k"]);
    let keys = site.path("k.pub");
    let coordinator = Coordinator::start_with(["--store", "memory", "--listen", "127.0.0.1:0", "--jwt-keys", &keys]);
    let script = "\"$0\" get >/dev/null && echo own; \"$0\" get --thread-id other; echo [$PAUSEWATCH_TOKEN_KEY]";
    let binary = env!("CARGO_BIN_EXE_pausewatch");
    let args = ["run", "600s", "sh", "-c", script, binary];
    let mut with_key = coordinator.command(args);
    let run = ended(with_key.env("PAUSEWATCH_TOKEN_KEY", site.path("k")));
    assert_eq!(run.out, "own\n[]\n", "{run:?}");
    assert!(run.err.contains("THREAD_FORBIDDEN") && !run.err.contains("warning"), "{run:?}");
    // Also if we have a token that does not open the thread.
    let other = site.token(&["create", "--token-key", "k", "--thread-id", "other"]);
    let run = ended(with_key.env("PAUSEWATCH_TOKEN", other));
    assert!(run.out == "own\n[]\n" && run.err.contains("THREAD_FORBIDDEN") && !run.err.contains("warning"), "{run:?}");
    // Without a key, it passes on its own token.
    let admin = site.token(&["create", "--token-key", "k", "--role", "admin"]);
    let passed = ended(coordinator.command(args).env("PAUSEWATCH_TOKEN", &admin));
    assert!(passed.out.starts_with("own\n") && !passed.err.contains("FORBIDDEN"), "{passed:?}");
    let wrong = ended(coordinator.command(args).env("PAUSEWATCH_TOKEN_KEY", &keys));
    assert!(wrong.code == Some(125) && wrong.err.contains("no private key in it"), "{wrong:?}");
}

/// G1. With the first token alone, the command would be killed with its question open: there is no grace period.
#[test]
fn g1_a_token_file_that_is_replaced_keeps_a_command_paused() {
    let site = Site::new();
    site.token(&["key", "k"]);
    let keys = site.path("k.pub");
    let coordinator = Coordinator::start_with(["--store", "memory", "--listen", "127.0.0.1:0", "--jwt-keys", &keys]);
    let token = |ttl: &str| site.token(&["create", "--token-key", "k", "--thread-id", "t", "--ttl", ttl]);
    let replace = |token: &str| {
        std::fs::write(site.path("new"), token).unwrap();
        std::fs::rename(site.path("new"), site.path("token")).unwrap();
    };
    let until_it_has_ended = |token: &str| {
        let refused = || get(&coordinator, token, "t").1.contains("TOKEN_EXPIRED");
        while !refused() {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let last = token("1h");
    let opened = ended(coordinator.command(["increment", "--thread-id", "t"]).env("PAUSEWATCH_TOKEN", &last));
    assert_eq!(opened.code, Some(0), "{opened:?}");
    let start = |ttl: u32| {
        let signed = Instant::now();
        let first = token(&format!("{ttl}s"));
        replace(&first);
        let args = ["run", "--thread-id", "t", "--disconnect-grace", "0", "5", "sh", "-c", "echo started; read line"];
        let mut run = Run::spawn_with_input(coordinator.command(args).env("PAUSEWATCH_TOKEN_FILE", site.path("token")));
        run.expect("started");
        replace(&last);
        // The token is read again after two thirds of its life. On a busy machine, the file may be replaced too late.
        (signed.elapsed() < Duration::from_secs(ttl.into()) * 2 / 3).then_some((first, run))
    };
    let (first, mut run) = [4, 8, 16].into_iter().find_map(start).expect("a start that takes less than 10 s");
    until_it_has_ended(&first);
    // Longer than the limit: with only the stream's first token, the clock would have continued.
    until_it_has_ended(&token("7s"));
    assert!(run.is_running(), "the question is still open");
    run.write("answered\n");
    assert_eq!(run.ended(), End::Code(0));
}

/// A coordinator that requires the token in the file `token`.
fn with_a_token(site: &Site) -> Coordinator {
    let token = site.token(&["add", "--prefix", "", "tokens"]);
    std::fs::write(site.path("token"), token).unwrap();
    Coordinator::start_with(["--listen", "127.0.0.1:0", "--store", "memory", "--tokens", &site.path("tokens")])
}

/// Runs a script: `$0` is the program, `$1` the file with the token.
fn run_script(script: &str, site: &Site, coordinator: &Coordinator) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_pausewatch"), &site.path("token")]);
    command
        .env("PAUSEWATCH_ADDRESS", &coordinator.address)
        .env("PAUSEWATCH_THREAD_ID", "t")
        .env("HOME", "/proc/nonexistent");
    ended(&mut command)
}

#[test]
fn g2_a_token_in_a_pipe_is_read_once() {
    let site = Site::new();
    let coordinator = with_a_token(&site);
    // A renewal, after 5 s, and the decrement at the end need the token again.
    let hold = r#"cat "$1" | PAUSEWATCH_TOKEN_FILE=/dev/stdin "$0" hold --ttl 15s -- sleep 6"#;
    let ended = run_script(hold, &site, &coordinator);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

/// `run` and `hold` have emptied the pipe, which may be another one for their command.
#[test]
fn a_command_under_run_or_hold_gets_the_token_of_a_pipe() {
    let site = Site::new();
    let coordinator = with_a_token(&site);
    for (caller, state) in [("run 600", "t: running"), ("hold", "t: paused")] {
        let script =
            format!(r#"cat "$1" | PAUSEWATCH_TOKEN_FILE=/dev/stdin "$0" {caller} sh -c '"$0" get </dev/null' "$0""#);
        let ended = run_script(&script, &site, &coordinator);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{caller}: {ended:?}");
        assert!(ended.out.starts_with(state), "{caller}: {ended:?}");
    }
}

#[test]
fn g2_a_pipe_that_nobody_writes_to_stops_nothing_for_ever() {
    let site = Site::new();
    let coordinator = with_a_token(&site);
    let pipe = site.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let run = |args: &[&str], variable: &str| {
        let mut command = coordinator.command([]);
        command.args(args).env(variable, &pipe);
        Process::start(command).end()
    };
    // The limit still applies.
    assert_eq!(run(&["run", "0.1", "sleep", "600"], "PAUSEWATCH_TOKEN_FILE").code, Some(124));
    let why = "pipe: nobody writes to this pipe: waited 5s";
    for (args, variable, code) in [
        (&["get"][..], "PAUSEWATCH_TOKEN_FILE", 1),
        (&["get"], "PAUSEWATCH_CONFIG", 2),
        (&["token", "create", "--thread-id", "t"], "PAUSEWATCH_TOKEN_KEY", 1),
    ] {
        let ended = run(args, variable);
        assert!(ended.code == Some(code) && ended.err.contains(why), "{args:?} {variable}: {ended:?}");
    }
    site.refused(&["add", "--thread-id", "t", "pipe"], 1, "it is not a regular file");
    let endless = ended(coordinator.command(["get"]).env("PAUSEWATCH_TOKEN_FILE", "/dev/zero"));
    assert!(
        endless.code == Some(1) && endless.err.contains("/dev/zero: it has more than 1048576 bytes"),
        "{endless:?}"
    );
}
