//! The options of `serve` from the command line, the environment and the config file.
use crate::program::{Coordinator, Process, ended, program};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// A directory with a config file.
struct Place(tempfile::TempDir);

impl Place {
    fn with(text: &str) -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        std::fs::write(place.file(), text).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("config.toml")
    }

    fn serve(&self) -> std::process::Command {
        let mut command = program();
        command.args(["serve", "--config"]).arg(self.file()).current_dir(self.0.path());
        command
    }
}

/// The line with which a server says where it listens.
fn listening(command: std::process::Command) -> String {
    Process::start(command).line()
}

#[test]
fn a_flag_goes_over_a_variable_and_that_over_the_file() {
    let place = Place::with("[serve]\nstore = 'memory'\nlisten = ['unix:file.sock']\n");
    assert_eq!(listening(place.serve()), "listening unix:file.sock");
    let mut command = place.serve();
    command.env("PAUSEWATCH_SERVE_LISTEN", "unix:variable.sock, unix:other.sock");
    let process = Process::start(command);
    assert_eq!(
        (process.line(), process.line()),
        ("listening unix:variable.sock".into(), "listening unix:other.sock".into())
    );
    let mut command = place.serve();
    command.args(["--listen", "unix:flag.sock"]).env("PAUSEWATCH_SERVE_LISTEN", "unix:variable.sock");
    assert_eq!(listening(command), "listening unix:flag.sock");
    let mut command = place.serve();
    command.env("PAUSEWATCH_SERVE_LISTEN", "");
    assert_eq!(listening(command), "listening unix:file.sock", "what is empty is not set");
}

#[test]
fn the_start_is_logged_with_every_option_and_where_it_is_from() {
    let place = Place::with("[serve]\nstore = 'memory'\n\nlisten = 'unix:p.sock'\n");
    let mut command = place.serve();
    command.args(["--workers", "2"]).env("PAUSEWATCH_SERVE_ANONYMOUS_TTL", "90s");
    let line = Process::start(command).error_line();
    let file = place.file();
    for part in [
        "workers=2 (command line)".to_owned(),
        "anonymous_ttl=90s (PAUSEWATCH_SERVE_ANONYMOUS_TTL)".to_owned(),
        format!("listen=unix:p.sock ({}, line 4)", file.display()),
        "insecure=false (default)".to_owned(),
    ] {
        assert!(line.contains(&part), "{line:?} does not say {part:?}");
    }
}

#[test]
fn a_server_does_not_start_on_a_file_that_cannot_be_meant() {
    let place = Place::with("[serve]\nlisen = 'unix:p.sock'\nworkers = 'many'\n");
    let refused = ended(&mut place.serve());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let lines: Vec<_> = refused.err.lines().collect();
    let begin =
        format!("pausewatch serve: config file {}: line 2, column 1: unknown field `lisen`", place.file().display());
    assert!(lines[0].starts_with(&begin), "{refused:?}");
    assert!(lines[1].contains("line 3, column 11: workers: "), "{refused:?}");
    let mut command = place.serve();
    command.arg("--config").arg(Path::new("/nonexistent/config.toml"));
    assert_eq!(ended(&mut command).code, Some(2), "twice is bad usage");
    let mut command = program();
    command.args(["serve", "--config", "/nonexistent/config.toml"]);
    let missing = ended(&mut command);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.contains("/nonexistent/config.toml: No such file"), "{missing:?}");
    let mut command = program();
    command.arg("serve").env("PAUSEWATCH_SERVE_WORKERS", "0");
    let refused = ended(&mut command);
    assert_eq!(
        (refused.code, refused.err.contains("PAUSEWATCH_SERVE_WORKERS: 0 is not in")),
        (Some(2), true),
        "{refused:?}"
    );
}

#[test]
fn clients_and_the_server_share_a_file() {
    let coordinator = Coordinator::start();
    let text = format!(
        "address = '{}'\nthread_id = 't'\n[serve]\nstore = 'memory'\nlisten = 'unix:p.sock'\n",
        coordinator.address
    );
    let place = Place::with(&text);
    let mut command = program();
    let got = ended(command.args(["get", "--config"]).arg(place.file()));
    assert_eq!(got.code, Some(0), "{got:?}");
    assert_eq!(listening(place.serve()), "listening unix:p.sock");
}

/// The file of a fleet: what is for its coordinator is not for another one in plain text.
#[test]
fn a_flag_or_a_variable_goes_over_a_file_with_tls() {
    let coordinator = Coordinator::start();
    let fleet = "address = 'https://fleet.example:7420'\ntoken = 's3cret-s3cret'\n";
    let tls = "tls_ca = '/nonexistent/ca.pem'\n";
    for text in [format!("{fleet}{tls}"), fleet.to_owned(), tls.to_owned()] {
        let place = Place::with(&text);
        let (mut flag, mut variable) = (program(), program());
        flag.args(["list", "--address", &coordinator.address]);
        variable.arg("list").env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_TLS_CA", "");
        for mut list in [flag, variable] {
            let listed = ended(list.env("PAUSEWATCH_CONFIG", place.file()));
            assert_eq!(listed.code, Some(0), "{text}: {listed:?}");
        }
    }
}

/// What a private coordinator's command starts calls that one, whatever the config file says of others.
#[test]
fn a_command_of_run_finds_the_private_coordinator_beside_a_file_with_tls() {
    let place = Place::with("tls_ca = '/nonexistent/ca.pem'\n");
    let mut run = program();
    run.env("PAUSEWATCH_CONFIG", place.file()).args([
        "run",
        "20s",
        env!("CARGO_BIN_EXE_pausewatch"),
        "hold",
        "--require",
    ]);
    let held = ended(run.args(["--", env!("CARGO_BIN_EXE_pausewatch"), "get", "--output", "json"]));
    assert_eq!(held.code, Some(0), "{held:?}");
    assert!(held.out.contains("\"paused\": true") || held.out.contains("\"paused\":true"), "{held:?}");
}

#[test]
fn a_hangup_does_not_end_the_server() {
    let place = Place::with("[serve]\nstore = 'memory'\nlisten = 'unix:p.sock'\n");
    let server = Process::start(place.serve());
    server.line();
    server.signal(Signal::HUP);
    while !server.error_line().contains("SIGHUP") {}
    let mut command = program();
    let address = format!("unix:{}", place.0.path().join("p.sock").display());
    let got = ended(command.args(["get", "--thread-id", "t", "--address", &address]));
    assert_eq!(got.code, Some(0), "{got:?}");
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn what_goes_together_may_come_from_different_places() {
    let place = Place::with("[serve]\nstore = 'memory'\nlisten = '127.0.0.1:0'\ntls_cert = 'cert.pem'\n");
    let refused = ended(&mut place.serve());
    assert_eq!((refused.code, refused.err.contains("--tls-cert wants --tls-key too")), (Some(2), true), "{refused:?}");
    let mut command = place.serve();
    let started = ended(command.args(["--tls-key", "key.pem"]));
    assert_eq!((started.code, started.err.contains("cert.pem: No such file")), (Some(1), true), "{started:?}");
}
