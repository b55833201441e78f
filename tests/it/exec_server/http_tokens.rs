//! The token over HTTP: where it comes from, and whether a person is asked for its owner.
use super::client::exec_server;
use super::http::Server;
use super::http_approval::{TOKEN, initialize, messages, output, ruled, with_token};
use crate::program::ended;
use serde_json::{Value, json};
use std::{ffi::OsStr, fs, path::Path, process::Stdio};

/// Calls `touch`, which a rule asks about, and says yes if there is a question. Returns whether there was one, and the result.
fn touch(server: &Server, workdir: &Path, headers: &[(&str, &str)]) -> (bool, Value) {
    let answer = server.post(headers, &initialize());
    let session = answer.header("mcp-session-id");
    let mut headers = headers.to_vec();
    headers.extend([("Mcp-Session-Id", &*session), ("MCP-Protocol-Version", "2025-11-25")]);
    assert_eq!(server.post(&headers, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).status, 202);
    let params = json!({"name": "shell", "arguments": {"command": "touch made", "workdir": workdir}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let mut asked = false;
    for message in messages(server.post(&headers, &call)) {
        if message["method"] == "elicitation/create" {
            asked = true;
            let yes = json!({"action": "accept", "content": {"run": "yes"}});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": yes});
            assert_eq!(server.post(&headers, &answer).status, 202);
        } else if let Some(result) = message.get("result") {
            return (asked, result["structuredContent"].clone());
        }
    }
    panic!("no result")
}

#[test]
fn only_with_a_token_that_commands_cannot_read_a_person_is_asked() {
    let (directory, options) = ruled();
    let file = directory.path().join("token");
    fs::write(&file, TOKEN).unwrap();
    let start = |more: &[&str]| {
        let mut command = exec_server(["--http", "127.0.0.1:0"]);
        command.args(&options).args(more);
        command
    };
    let by_file = |file: &Path, more: &[&str]| {
        let mut command = start(&["--http-token-file", file.to_str().unwrap()]);
        command.args(more).stdin(Stdio::null());
        let mut server = Server::of(command);
        server.authorization = Some(format!("Bearer {TOKEN}"));
        server
    };
    let forwarded = [("X-Forwarded-For", "192.0.2.7")];
    let no_token = "only with a token that commands cannot read (--http-token-fd)";
    let unknown = "the caller is on another machine or behind a proxy (--http-trust-proxy)";
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let (writes, to) = (pipe.clone(), TOKEN);
    std::thread::spawn(move || fs::write(writes, to));
    type Case<'a> = (Server, &'a [(&'a str, &'a str)], Option<&'a str>);
    let servers: [Case<'_>; 7] = [
        (Server::start(&[&options[0], &options[1]]), &[], Some(no_token)),
        (by_file(&file, &[]), &[], Some(no_token)),
        (by_file(&file, &["--http-trust-proxy"]), &forwarded, Some(no_token)),
        (with_token(start(&[])), &forwarded, Some(unknown)),
        (with_token(start(&["--http-trust-proxy"])), &forwarded, None),
        (with_token(start(&[])), &[], None),
        (by_file(&pipe, &[]), &[], None),
    ];
    for (at, (server, headers, unable)) in servers.iter().enumerate() {
        let made = directory.path().join("made");
        let (asked, result) = touch(server, directory.path(), headers);
        assert_eq!((asked, made.exists()), (unable.is_none(), unable.is_none()), "{at}: {result}");
        if let Some(why) = unable {
            let reason = result["denied_reason"].as_str().unwrap();
            assert!(reason.starts_with("no person could be asked: ") && reason.contains(why), "{at}: {reason}");
        }
        let _ = fs::remove_file(made);
    }
    // Both who ask nobody say so at the start.
    for (server, why) in
        servers.iter().map(|(server, ..)| server).zip(["there is no token", "commands can read the file"])
    {
        // Another one is about the rules, which are in a directory for temporary files.
        let warnings = [server.process.error_line(), server.process.error_line()].concat();
        assert!(warnings.contains(why) && warnings.contains("nobody is asked"), "{warnings}");
    }
}

#[test]
fn commands_do_not_get_the_variable_with_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = exec_server(["--http", "127.0.0.1:0"]);
    command.env("PAUSEWATCH_HTTP_TOKEN", TOKEN).stdin(Stdio::null());
    let mut server = Server::of(command);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(server.post(&[], &ping).status, 401, "the token is required");
    server.authorization = Some(format!("Bearer {TOKEN}"));
    assert_eq!(output(&server, "env | grep -c 0123456789abcdef", directory.path()), "0\n");
}

#[test]
fn bad_tokens_end_the_server() {
    let refused = |options: &[&str], variable: Option<&OsStr>| {
        let mut command = exec_server(["--http", "127.0.0.1:0"]);
        command.args(options).stdin(Stdio::null());
        if let Some(value) = variable {
            command.env("PAUSEWATCH_HTTP_TOKEN", value);
        }
        let ended = ended(&mut command);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.err
    };
    let short = refused(&[], Some(OsStr::new("short")));
    assert!(short.contains("PAUSEWATCH_HTTP_TOKEN: a token is one line"), "{short}");
    assert!(refused(&["--http-token-fd", "0"], None).contains("a token is one line"));
    assert!(refused(&["--http-token-fd", "999"], None).contains("--http-token-fd 999: "));
    assert!(refused(&["--insecure"], None).contains("requires a token"));
}
