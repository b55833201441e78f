//! Connections that say nothing, and streams above the limit.
use super::{MIB, assert_bounded, serve};
use crate::support::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Raw, call, frame, message, streams};
use crate::support::{Process, beside, timed};
use std::process::Command;

/// A server with few file descriptors, as a large one with many.
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
        // Each connects anew.
        for i in 0..50 {
            timed("a newcomer", async { server.api().await.increment(&format!("newcomer {i}"), None).await }).await;
        }
    };
    let (report, ()) = beside("600 silent connections, with 256 file descriptors", &server, attack).await;
    assert_eq!(speaker.get("first").await.count, 1, "who has spoken stays");
    assert_bounded(&report, 32 * MIB);
}

#[tokio::test]
async fn streams_above_the_limit_are_refused_and_the_others_go_on() {
    let server = serve();
    let attack = async {
        let mut raw = Raw::open(&server.address, &[]).await.unwrap();
        for numbers in streams().take(30_000).collect::<Vec<_>>().chunks(100) {
            let open = |&stream: &u32| {
                let ask = frame(DATA, END_STREAM, stream, &message(3, b"\x0a\x01t"));
                [frame(HEADERS, END_HEADERS, stream, &call("WatchPauseState")), ask].concat()
            };
            raw.send_all(&numbers.iter().flat_map(open).collect::<Vec<_>>()).await;
        }
        raw.wait_for_pong().await.expect("the connection goes on");
        let mut api = server.api().await;
        let all_there = async {
            // Closed again: a thread has at most 1,000 open ones, and a busy machine needs more looks.
            while api.increment("t", None).await.watchers < 10_000 {
                api.try_decrement("t", "", None).await.expect("it was opened");
                // Without it, the server closes a connection that is silent for 50 s.
                raw.wait_for_pong().await.expect("the connection goes on");
            }
        };
        timed("the watches", all_there).await;
        raw.wait_for_pong().await.expect("the connection goes on");
        assert_eq!(api.increment("t", None).await.watchers, 10_000);
    };
    let (report, ()) = beside("30,000 watches on one connection", &server, attack).await;
    assert_bounded(&report, 128 * MIB);
}
