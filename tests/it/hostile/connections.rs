//! Silent connections, and streams above the limit.
use super::{MIB, assert_bounded, serve};
use crate::support::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Raw, call, frame, message, streams};
use crate::support::{Process, beside, timed};
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// A server with few file descriptors behaves like a large one with many.
#[tokio::test]
async fn silent_connections_are_closed_for_active_ones() {
    let mut command = Command::new("sh");
    let serve = "ulimit -n 256; exec \"$0\" serve --listen 127.0.0.1:0 --store memory";
    command.args(["-c", serve, env!("CARGO_BIN_EXE_pausewatch")]);
    let server = Process::start(command);
    let mut speaker = server.api().await;
    speaker.increment("first", None).await;
    let attack = async {
        let mut connections = Vec::new();
        for i in 0..600 {
            let connected = match i % 3 {
                0 => Raw::connect(&server.address).await,
                1 => Raw::open(&server.address, &[]).await,
                _ => {
                    let mut raw = Raw::open(&server.address, &[]).await;
                    if let Ok(raw) = &mut raw {
                        let _ = raw.send(&frame(HEADERS, 0, 1, &call("GetPauseState"))).await;
                    }
                    raw
                }
            };
            connections.push(connected);
        }
        // Each uses a new connection.
        for i in 0..50 {
            timed("a newcomer", async { server.api().await.increment(&format!("newcomer {i}"), None).await }).await;
        }
    };
    let (report, ()) = beside("600 silent connections, with 256 file descriptors", &server, attack).await;
    assert_eq!(speaker.get("first").await.count, 1, "a connection that has made a call stays open");
    assert_bounded(&report, 32 * MIB);
}

/// Refused connections use file descriptors too.
#[tokio::test]
async fn g7_with_few_files_callers_over_the_limit_are_told_so_and_probes_are_answered() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("p.sock");
    let mut command = Command::new("sh");
    let serve = "ulimit -n 256; exec \"$0\" serve --listen 127.0.0.1:0 --listen \"unix:$1\" --store memory";
    command.args(["-c", serve, env!("CARGO_BIN_EXE_pausewatch")]).arg(&socket);
    let server = Process::start(command);
    // A connection with a watch stays open.
    let ask = b"GET /pausewatch.v1.ElicitationService/WatchPauseState HTTP/1.1\r\nhost: localhost\r\n\
                accept: text/event-stream\r\n\r\n";
    let (mut over_tcp, mut over_unix) = (Vec::new(), Vec::new());
    for _ in 0..150 {
        let mut answer = [0; 12];
        let mut tcp = TcpStream::connect(&server.address).await.expect("it listens");
        tcp.write_all(ask).await.expect("it reads");
        timed("an answer over TCP", tcp.read_exact(&mut answer)).await.expect("it answers");
        over_tcp.push((tcp, answer));
        let mut unix = UnixStream::connect(&socket).await.expect("it listens");
        unix.write_all(ask).await.expect("it reads");
        timed("an answer over the Unix socket", unix.read_exact(&mut answer)).await.expect("it answers");
        over_unix.push((unix, answer));
    }
    let last = [over_tcp.last().expect("many").1, over_unix.last().expect("many").1];
    assert_eq!(last, [*b"HTTP/1.1 429"; 2], "there are more connections than allowed");
    let probe = Command::new(env!("CARGO_BIN_EXE_pausewatch")).args(["health", "--address", &server.address]).output();
    assert!(probe.expect("the program starts").status.success(), "it is alive");
}

#[tokio::test]
async fn streams_above_the_limit_are_refused_and_the_others_go_on() {
    let server = serve();
    let attack = async {
        let mut raw = Raw::open(&server.address, &[]).await.unwrap();
        for numbers in streams().take(1_400).collect::<Vec<_>>().chunks(100) {
            let open = |&stream: &u32| {
                let ask = frame(DATA, END_STREAM, stream, &message(3, b"\x0a\x01t"));
                [frame(HEADERS, END_HEADERS, stream, &call("WatchPauseState")), ask].concat()
            };
            raw.send_all(&numbers.iter().flat_map(open).collect::<Vec<_>>()).await;
        }
        raw.wait_for_pong().await.expect("the connection goes on");
        let mut api = server.api().await;
        let all_there = async {
            // Each is closed again: a thread has at most 1,000 open elicitations, and a busy machine needs more
            // attempts.
            while api.increment("t", None).await.watchers < 1_024 {
                api.try_decrement("t", "", None).await.expect("it was opened");
                // Without it, the server closes a connection that is silent for 50 s.
                raw.wait_for_pong().await.expect("the connection goes on");
            }
        };
        timed("the watches", all_there).await;
        raw.wait_for_pong().await.expect("the connection goes on");
        assert_eq!(api.increment("t", None).await.watchers, 1_024);
    };
    let (report, ()) = beside("1,400 watches on one connection", &server, attack).await;
    assert_bounded(&report, 32 * MIB);
}
