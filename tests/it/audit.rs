//! The audit trail: it has each change with its caller, and nothing else.
use crate::program::{ended, program};
use crate::support::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, Raw, call, frame, message};
use crate::support::{Process, Running, api, config, detail, embedded, event, skipped, states, unix};
use pausewatch::proto::v1::IncrementElicitationRequest;
use pausewatch::server::AuditConfig;
use pausewatch::server::{Config, Server};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tonic::Code;

/// A user without any permissions.
const NOBODY: u32 = 65_534;

fn to(path: &Path) -> Option<AuditConfig> {
    Some(AuditConfig { path: path.to_owned(), max_size: 100 << 20, keep: 10 })
}

fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

#[tokio::test]
async fn each_change_has_a_line_with_who_made_it() {
    let directory = tempfile::tempdir().unwrap();
    let (trail, socket) = (directory.path().join("audit.log"), directory.path().join("p.sock"));
    let listen = vec!["127.0.0.1:0".parse().unwrap(), unix(&socket)];
    let config = Config { listen, audit: to(&trail), ..embedded(&directory.path().join("data")) };
    let running = Running::start(config).await;
    let (mut one, mut other) = (running.api().await, api(&format!("unix:{}", socket.display())).await);
    let opened = one.try_increment("t", "r1", None).await.unwrap().elicitation.unwrap();
    let id = opened.elicitation_id.as_str();
    one.try_increment("t", "r1", None).await.expect("the same again is no change");
    other.try_renew("t", id, Some(Duration::from_secs(60))).await.unwrap();
    other.try_decrement("t", "r2", Some(id)).await.unwrap();
    other.try_decrement("t", "", None).await.expect_err("a refusal is no change");
    let mut watch = one.watch(&["t"]).await;
    states(&mut watch).await;
    one.increment("t", Some(Duration::from_secs(1))).await;
    event(&mut watch).await;
    event(&mut watch).await;
    drop((one, other, watch));
    running.stop().await.unwrap();

    let lines = read(&trail);
    let who = format!("uid:{}", rustix::process::getuid().as_raw());
    let said = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let told: Vec<_> =
        lines.iter().map(|line| (said(line, "event"), said(line, "by"), line["revision"].as_u64())).collect();
    let line = |event: &str, by: &str, revision| (event.to_owned(), by.to_owned(), revision);
    let expected = [
        line("server_started", "", None),
        line("opened", "127.0.0.1", Some(1)),
        line("renewed", &who, None),
        line("closed", &who, Some(2)),
        line("opened", "127.0.0.1", Some(3)),
        line("lease_ended", "", Some(4)),
    ];
    assert_eq!(told, expected);
    let first = &lines[1];
    assert_eq!([said(first, "thread_id"), said(first, "elicitation_id"), said(first, "request_id")], ["t", id, "r1"]);
    assert_eq!([said(first, "holder"), said(first, "reason")], ["a holder", "a reason"]);
    assert_eq!((first["paused"].as_bool(), lines[3]["paused"].as_bool()), (Some(true), Some(false)));
    assert_eq!(said(&lines[3], "request_id"), "r2");
    assert!(lines.iter().all(|line| said(line, "time").ends_with('Z')));
    let mode = std::fs::metadata(&trail).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner can read it");
}

#[tokio::test]
async fn a_trail_that_cannot_be_opened_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing/audit.log");
    let Err(error) = Server::start(Config { audit: to(&path), ..config() }).await else { panic!("it has started") };
    assert!(error.to_string().contains("missing/audit.log"), "{error}");
}

/// Opening a pipe waits for its reader, so the server would neither start nor stop.
#[test]
fn a_trail_that_is_a_named_pipe_or_a_socket_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let (pipe, socket) = (directory.path().join("pipe"), directory.path().join("socket"));
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [&pipe, &socket] {
        let file = directory.path().join("config.toml");
        std::fs::write(&file, format!("[serve]\nstore = 'memory'\nlisten = 'unix:p.sock'\naudit_log = {path:?}\n"))
            .unwrap();
        for arguments in [["serve"].as_slice(), &["config", "check"]] {
            let refused = ended(program().args(arguments).env("PAUSEWATCH_CONFIG", &file).current_dir(&directory));
            assert_eq!(refused.code, Some(1), "{arguments:?}: {refused:?}");
            let said = refused.err.clone() + &refused.out;
            assert!(said.contains("neither a regular file nor a character device"), "{arguments:?}: {refused:?}");
        }
    }
}

/// Somebody else may have created it.
#[test]
fn a_trail_that_others_can_read_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let trail = directory.path().join("audit.log");
    for (mode, warned) in [(0o644, 1), (0o600, 0)] {
        std::fs::write(&trail, "").unwrap();
        std::fs::set_permissions(&trail, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--audit-log"]).arg(&trail);
        let server = Process::start(command);
        server.signal(Signal::TERM);
        let (status, said) = server.end();
        assert!(status.success(), "{said}");
        assert_eq!(said.matches("not for its owner alone").count(), warned, "{mode:o}: {said}");
        assert_eq!(std::fs::metadata(&trail).unwrap().permissions().mode() & 0o777, mode);
    }
}

/// Standard error may be a pipe to the log collector of a container.
#[test]
fn a_trail_may_be_the_pipe_of_standard_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--audit-log", "/dev/stderr"]);
    let server = Process::start(command);
    server.signal(Signal::TERM);
    let (status, said) = server.end();
    assert!(status.success(), "{said}");
    assert!(said.contains(r#""event":"server_started""#), "{said}");
}

/// The program as an ordinary user, because root may write everywhere.
fn as_no_root() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// The server may write the file, but not its directory: the file grows, and the operator is warned once, at the start.
#[tokio::test]
async fn a_trail_that_cannot_be_rotated_goes_on_in_its_file() {
    if let Err(error) = as_no_root().arg("--version").output() {
        return skipped("other-user", format!("the program does not run as another user: {error}"));
    }
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("log");
    let trail = directory.join("audit.log");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(&trail, "").unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&trail, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for directory in [place.path(), &directory] {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    let mut command = as_no_root();
    command.args(["serve", "--store", "memory", "--listen", "127.0.0.1:0", "--audit-max-size", "1KiB", "--audit-log"]);
    command.arg(&trail).env("HOME", "/proc/nonexistent").env_remove("XDG_CONFIG_HOME").env_remove("PAUSEWATCH_CONFIG");
    let mut server = Process::start(command);
    server.listen();
    let mut api = server.api().await;
    for _ in 0..40 {
        api.increment("t", None).await;
    }
    drop(api);
    server.signal(Signal::TERM);
    let (status, said) = tokio::task::spawn_blocking(|| server.end()).await.unwrap();
    assert!(status.success(), "{said}");
    assert_eq!(said.matches("the audit trail goes on in one file").count(), 1, "{said}");
    assert!(!said.contains("cannot be written"), "{said}");
    assert_eq!(read(&trail).len(), 41, "the start and each change");
    let names: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["audit.log"]);
}

/// When the disk is full, lines first wait in memory. Then increments are refused, but decrements still work.
#[tokio::test]
async fn a_trail_that_cannot_be_written_refuses_increments_and_nothing_else() {
    let running = Running::start(Config { audit: to(Path::new("/dev/full")), ..config() }).await;
    let mut api = running.api().await;
    let request = |i: usize| IncrementElicitationRequest {
        thread_id: format!("t{i}"),
        reason: "r".repeat(1_024),
        ..Default::default()
    };
    let mut opened = 0;
    let status = loop {
        match api.0.increment_elicitation(request(opened)).await {
            Ok(_) => opened += 1,
            Err(status) => break status,
        }
    };
    assert!((1_000..10_000).contains(&opened), "{opened} lines of 1.3 KB wait");
    let (reason, metadata) = detail(&status);
    assert_eq!((status.code(), reason.as_str()), (Code::Unavailable, "STORE_UNAVAILABLE"));
    assert_eq!(metadata["why"], "the audit trail cannot be written");
    api.try_decrement("t0", "", None).await.expect("there is room for it");
    assert_eq!(api.get("t0").await.count, 0);
}

/// No part of the trail may be missing without an error.
#[test]
fn a_trail_that_ends_without_its_last_lines_is_reported() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--audit-log", "/dev/full"]);
    let server = Process::start(command);
    server.signal(Signal::TERM);
    let (status, said) = server.end();
    assert!(status.success(), "{said}");
    assert!(said.contains("the audit trail ends without its last lines"), "{said}");
}

/// Also if connections outlast the drain, whose workers then hold the trail to the end of the process.
#[tokio::test]
async fn a_trail_that_ends_after_a_long_drain_is_reported_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--workers", "2"]);
    command.args(["--audit-log", "/dev/full"]);
    let server = Process::start(command);
    let ask = frame(DATA, END_STREAM, 1, &message(3, b"\x0a\x01t"));
    let ask = [frame(HEADERS, END_HEADERS, 1, &call("GetPauseState")), ask].concat();
    let mut unread = Vec::new();
    for _ in 0..4 {
        let mut raw = Raw::open(&server.address, &[(INITIAL_WINDOW_SIZE, 0)]).await.expect("it connects");
        raw.send_all(&ask).await;
        raw.wait_for_pong().await.expect("it is alive");
        unread.push(raw);
    }
    server.signal(Signal::TERM);
    let (status, said) = tokio::task::spawn_blocking(|| server.end()).await.expect("it ends");
    assert!(status.success() && said.contains("connections were still open"), "{said}");
    assert!(said.contains("the audit trail ends without its last lines"), "{said}");
}
