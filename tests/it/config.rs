//! The options of `serve` from the command line, the environment and the config file.
use crate::program::{Coordinator, Process, ended, program};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// A directory with a config file.
struct Directory(tempfile::TempDir);

impl Directory {
    fn with(text: &str) -> Self {
        let directory = Directory(tempfile::tempdir().unwrap());
        std::fs::write(directory.file(), text).unwrap();
        directory
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

/// The line with the address that a server prints.
fn listening(command: std::process::Command) -> String {
    Process::start(command).line()
}

#[test]
fn flag_wins_over_variable_and_variable_over_file() {
    let directory = Directory::with("[serve]\nstore = 'memory'\nlisten = ['unix:file.sock']\n");
    assert_eq!(listening(directory.serve()), "listening unix:file.sock");
    let mut command = directory.serve();
    command.env("PAUSEWATCH_SERVE_LISTEN", "unix:variable.sock, unix:other.sock");
    let process = Process::start(command);
    assert_eq!(
        (process.line(), process.line()),
        ("listening unix:variable.sock".into(), "listening unix:other.sock".into())
    );
    let mut command = directory.serve();
    command.args(["--listen", "unix:flag.sock"]).env("PAUSEWATCH_SERVE_LISTEN", "unix:variable.sock");
    assert_eq!(listening(command), "listening unix:flag.sock");
    let mut command = directory.serve();
    command.env("PAUSEWATCH_SERVE_LISTEN", "").env("PAUSEWATCH_DATA_DIR", "");
    assert_eq!(listening(command), "listening unix:file.sock", "an empty variable counts as not set");
}

#[test]
fn startup_logs_every_option_with_its_origin() {
    let directory = Directory::with("[serve]\nstore = 'memory'\n\nlisten = 'unix:p.sock'\n");
    let mut command = directory.serve();
    command.args(["--workers", "2"]).env("PAUSEWATCH_SERVE_ANONYMOUS_TTL", "90s").env("PAUSEWATCH_DATA_DIR", "d");
    let server = Process::start(command);
    let line = server.error_line();
    assert!(server.error_line().contains("serving from store=\"memory\" workers=2"));
    let file = directory.file();
    for part in [
        "workers=2 (command line)".to_owned(),
        "anonymous_ttl=90s (PAUSEWATCH_SERVE_ANONYMOUS_TTL)".to_owned(),
        "data_dir=d (PAUSEWATCH_DATA_DIR)".to_owned(),
        format!("listen=unix:p.sock ({}, line 4)", file.display()),
        "insecure=false (default)".to_owned(),
    ] {
        assert!(line.contains(&part), "{line:?} does not contain {part:?}");
    }
}

#[test]
fn server_does_not_start_with_an_invalid_config_file() {
    let directory = Directory::with("[serve]\nlisen = 'unix:p.sock'\nworkers = 'many'\n");
    let refused = ended(&mut directory.serve());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let lines: Vec<_> = refused.err.lines().collect();
    let begin = format!(
        "pausewatch serve: config file {}: line 2, column 1: unknown field `lisen`",
        directory.file().display()
    );
    assert!(lines[0].starts_with(&begin), "{refused:?}");
    assert!(lines[1].contains("line 3, column 11: workers: "), "{refused:?}");
    let backup = ended(program().args(["backup", "copy", "--config"]).arg(directory.file()));
    assert_eq!((backup.code, backup.err.lines().count()), (Some(2), 2), "{backup:?}");
    let mut command = directory.serve();
    command.arg("--config").arg(Path::new("/proc/nonexistent/config.toml"));
    assert_eq!(ended(&mut command).code, Some(2), "a repeated option is bad usage");
    let mut command = program();
    command.args(["serve", "--config", "/proc/nonexistent/config.toml"]);
    let missing = ended(&mut command);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.contains("/proc/nonexistent/config.toml: No such file"), "{missing:?}");
    let mut command = program();
    command.arg("serve").env("PAUSEWATCH_SERVE_WORKERS", "0");
    let refused = ended(&mut command);
    assert_eq!(
        (refused.code, refused.err.contains("PAUSEWATCH_SERVE_WORKERS: 0 is not in")),
        (Some(2), true),
        "{refused:?}"
    );
}

/// A service manager restarts a server that ends with exit code 1.
#[test]
fn invalid_address_of_metrics_is_bad_usage() {
    let refused = ended(program().args(["serve", "--store", "memory", "--metrics-listen", "9420"]));
    assert_eq!((refused.code, refused.err.contains("--metrics-listen")), (Some(2), true), "{refused:?}");
    assert!(refused.err.contains("expected HOST:PORT"), "{refused:?}");
}

#[test]
fn options_of_a_fleet_that_cannot_work_are_bad_usage() {
    let https = ["--store", "etcd", "--etcd-endpoints", "https://h:2379"];
    let http = ["--store", "etcd", "--etcd-endpoints", "http://h:2379"];
    for (options, more, why) in [
        (&["--store", "etcd", "--etcd-endpoints", "foo"], &[][..], "expected http://HOST:PORT"),
        (&https, &["--etcd-cert", "c"], "--etcd-cert needs --etcd-key too"),
        (&https, &["--etcd-key", "k"], "--etcd-key needs --etcd-cert too"),
        (&http, &["--etcd-ca", "c"], "need https, and --etcd-endpoints has http://h:2379"),
        (&http, &["--insecure", "--listen", "0.0.0.0:0"], "needs --advertise HOST:PORT"),
        (&http, &["--insecure", "--listen", "[::]:0"], "needs --advertise HOST:PORT"),
        (&http, &["--listen", "unix:p.sock"], "needs --advertise HOST:PORT"),
        (&http, &["--advertise", "0.0.0.0:7420"], "expected the address of one machine"),
    ] {
        let refused = ended(program().arg("serve").args(options).args(more));
        assert_eq!((refused.code, refused.err.contains(why)), (Some(2), true), "{options:?} {more:?}: {refused:?}");
    }
    for vain in [["--peer-ca", "c"], ["--advertise", "a:1"], ["--etcd-ca", "c"], ["--etcd-cert", "c"]] {
        let refused = ended(program().args(["serve", "--store", "memory"]).args(vain));
        assert_eq!((refused.code, refused.err.contains("no effect")), (Some(2), true), "{vain:?}: {refused:?}");
    }
    let member = "http://root:s3cret@h:2379";
    let mut command = program();
    command.args(["serve", "--store", "etcd"]).env("PAUSEWATCH_SERVE_ETCD_ENDPOINTS", member);
    let refused = ended(&mut command);
    assert_eq!((refused.code, refused.err.contains("expected no user in it")), (Some(2), true), "{refused:?}");
    assert!(!refused.err.contains("s3cret"), "{refused:?}");
    let refused = ended(program().args(["backup", "--store", "etcd", "--etcd-endpoints", member, "file"]));
    assert_eq!((refused.code, refused.err.contains("expected no user in it")), (Some(2), true), "{refused:?}");
}

#[test]
fn misspelt_variable_is_bad_usage() {
    for (name, meant) in [
        ("PAUSEWATCH_SERVE_JWT_KEY", "is PAUSEWATCH_SERVE_JWT_KEYS meant?"),
        ("PAUSEWATCH_SERVE_DATA_DIR", "is PAUSEWATCH_DATA_DIR meant?"),
        ("PAUSEWATCH_SERVE_TOKENSS", "is PAUSEWATCH_SERVE_TOKENS meant?"),
        ("PAUSEWATCH_SERVE_NONSENSE", "`pausewatch serve --help` has the options"),
    ] {
        let mut command = program();
        let refused = ended(command.args(["serve", "--store", "memory", "--listen", "127.0.0.1:0"]).env(name, "x"));
        assert_eq!(refused.code, Some(2), "{name}: {refused:?}");
        assert!(refused.err.contains(&format!("{name}: there is no such option; {meant}")), "{refused:?}");
    }
    let directory = Directory::with("[serve]\nstore = 'memory'\nlisten = 'unix:p.sock'\n");
    let mut command = directory.serve();
    for name in ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_GRPC", "PORT", "PORT_7420_TCP_ADDR"] {
        command.env(format!("PAUSEWATCH_SERVE_{name}"), "10.0.0.1");
    }
    assert_eq!(listening(command), "listening unix:p.sock", "Kubernetes sets these for a service of that name");
}

/// The server waits for an etcd that does not answer.
#[test]
fn server_that_is_starting_can_be_stopped() {
    let etcd = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", etcd.local_addr().unwrap());
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "etcd", "--etcd-endpoints", &url]);
    let server = Process::start(command);
    let _connection = etcd.accept().unwrap();
    server.signal(Signal::TERM);
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn clients_and_the_server_share_a_file() {
    let coordinator = Coordinator::start();
    let text = format!(
        "address = '{}'\nthread_id = 't'\n[serve]\nstore = 'memory'\nlisten = 'unix:p.sock'\n",
        coordinator.address
    );
    let directory = Directory::with(&text);
    let mut command = program();
    let got = ended(command.args(["get", "--config"]).arg(directory.file()));
    assert_eq!(got.code, Some(0), "{got:?}");
    assert_eq!(listening(directory.serve()), "listening unix:p.sock");
}

/// The config file of a fleet: its settings are not used for another coordinator in plaintext.
#[test]
fn plaintext_flag_or_variable_overrides_a_file_with_tls() {
    let coordinator = Coordinator::start();
    let fleet = "address = 'https://fleet.example:7420'\ntoken = 's3cret-s3cret'\n";
    let tls = "tls_ca = '/proc/nonexistent/ca.pem'\n";
    for text in [format!("{fleet}{tls}"), fleet.to_owned(), tls.to_owned()] {
        let directory = Directory::with(&text);
        let (mut flag, mut variable) = (program(), program());
        flag.args(["list", "--address", &coordinator.address]);
        variable.arg("list").env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_TLS_CA", "");
        for mut list in [flag, variable] {
            let listed = ended(list.env("PAUSEWATCH_CONFIG", directory.file()));
            assert_eq!(listed.code, Some(0), "{text}: {listed:?}");
        }
    }
}

/// Programs within `run` call its private coordinator, even if the config file names another one.
#[test]
fn command_of_run_finds_the_private_coordinator_despite_a_file_with_tls() {
    let directory = Directory::with("tls_ca = '/proc/nonexistent/ca.pem'\n");
    let mut run = program();
    run.env("PAUSEWATCH_CONFIG", directory.file()).args([
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
fn a_command_of_run_finds_a_relative_config_file_from_another_directory() {
    let directory = Directory::with("thread_id = 't'\n");
    let mut run = program();
    run.current_dir(directory.0.path()).env("PAUSEWATCH_CONFIG", "config.toml");
    run.args(["run", "--private", "20s", "sh", "-c", "cd / && \"$0\" get", env!("CARGO_BIN_EXE_pausewatch")]);
    let done = ended(&mut run);
    assert!(done.code == Some(0) && done.out.starts_with("t: running"), "{done:?}");
}

#[test]
fn sighup_does_not_end_the_server() {
    let directory = Directory::with("[serve]\nstore = 'memory'\nlisten = 'unix:p.sock'\n");
    let server = Process::start(directory.serve());
    server.line();
    server.signal(Signal::HUP);
    while !server.error_line().contains("SIGHUP") {}
    let mut command = program();
    let address = format!("unix:{}", directory.0.path().join("p.sock").display());
    let got = ended(command.args(["get", "--thread-id", "t", "--address", &address]));
    assert_eq!(got.code, Some(0), "{got:?}");
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn options_that_need_each_other_may_be_set_in_different_places() {
    let directory = Directory::with("[serve]\nstore = 'memory'\nlisten = '127.0.0.1:0'\ntls_cert = 'cert.pem'\n");
    let refused = ended(&mut directory.serve());
    assert_eq!(
        (refused.code, refused.err.contains("--tls-cert") && refused.err.contains("--tls-key")),
        (Some(2), true),
        "{refused:?}"
    );
    let mut command = directory.serve();
    let started = ended(command.args(["--tls-key", "key.pem"]));
    assert_eq!((started.code, started.err.contains("cert.pem: No such file")), (Some(1), true), "{started:?}");
    let directory =
        Directory::with("[serve]\nstore = 'memory'\nlisten = 'unix:p.sock'\nmetrics_listen = '127.0.0.1:0'\n");
    let mut command = directory.serve();
    command.arg("--metrics-insecure");
    assert_eq!(listening(command), "listening unix:p.sock");
    let refused = ended(program().args(["serve", "--metrics-insecure"]));
    assert_eq!((refused.code, refused.err.contains("--metrics-listen")), (Some(2), true), "{refused:?}");
}
