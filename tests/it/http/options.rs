//! `--no-http` and `--web-host`, by flag, variable and config file.
use super::client::{Connection, ask, request};
use crate::support::Process;
use std::process::Command;

fn serve() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
    command
}

async fn status(server: &Process, host: &str) -> u16 {
    ask(&server.address, &request("GET", "/", &[("host", host)], b"")).await.status
}

#[tokio::test]
async fn the_names_of_a_server_are_set_by_flag_variable_or_config_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(&file, "[serve]\nweb_host = [\"a.test\", \"b.test\"]\n").unwrap();
    let mut by_flag = serve();
    by_flag.args(["--web-host", "a.test", "--web-host", "b.test"]);
    let mut by_variable = serve();
    by_variable.env("PAUSEWATCH_SERVE_WEB_HOST", "a.test, b.test");
    let mut by_file = serve();
    by_file.arg("--config").arg(&file);
    for command in [by_flag, by_variable, by_file] {
        let what = format!("{command:?}");
        let server = Process::start(command);
        for (host, expected) in [("a.test", 200), ("b.test:80", 200), ("localhost", 200), ("c.test", 421)] {
            assert_eq!(status(&server, host).await, expected, "{host}: {what}");
        }
    }
}

#[tokio::test]
async fn http_is_turned_off_by_flag_variable_or_config_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(&file, "[serve]\nno_http = true\n").unwrap();
    let mut by_flag = serve();
    by_flag.arg("--no-http");
    let mut by_variable = serve();
    by_variable.env("PAUSEWATCH_SERVE_NO_HTTP", "true");
    let mut by_file = serve();
    by_file.arg("--config").arg(&file);
    for command in [by_flag, by_variable, by_file] {
        let what = format!("{command:?}");
        let server = Process::start(command);
        let mut connection = Connection::open(&server.address).await;
        connection.send(&request("GET", "/", &[], b"")).await;
        assert!(!connection.closed().await.starts_with(b"HTTP/1"), "{what}");
        assert_eq!(server.api().await.increment("t", None).await.count, 1, "{what}");
    }
}

#[test]
fn a_name_that_is_none_or_has_no_effect_is_refused() {
    for (arguments, why) in [
        (&["--web-host", "http://a.test"][..], "without scheme and port"),
        (&["--web-host", "a.test:7420"], "without scheme and port"),
        (&["--web-host", "a.test", "--no-http"], "--no-http"),
    ] {
        let refused = serve().args(arguments).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(why), "{arguments:?}: {said}");
    }
}
