//! What HTTP/2 and the services of libraries hold is counted too.
use super::{MIB, assert_bounded, serve};
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, LONGEST, Raw, call, call_to, frame, header,
    message, streams,
};
use crate::support::{Process, beside};
use std::process::Command;

const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// Sends this to a server that may stop reading, or close the connection.
async fn flood(raw: &mut Raw, frames: impl Iterator<Item = Vec<u8>>) {
    for part in frames.collect::<Vec<_>>().chunks(10) {
        if raw.send(&part.concat()).await.is_err() {
            return;
        }
    }
}

/// A request whose answer is a refusal, or small, on each of these streams.
fn requests(head: Vec<u8>, streams: impl Iterator<Item = u32>) -> impl Iterator<Item = Vec<u8>> {
    streams.map(move |stream| {
        let ask = frame(DATA, END_STREAM, stream, &message(0, b""));
        [frame(HEADERS, END_HEADERS, stream, &head), ask].concat()
    })
}

/// Messages of reflection name a symbol.
#[tokio::test]
async fn large_requests_of_reflection_and_health_are_refused_before_they_have_come() {
    let server = serve();
    let attack = async {
        let mut connections = Vec::new();
        for path in [REFLECTION, CHECK, "/grpc.health.v1.Health/Watch"] {
            let mut raw = Raw::open(&server.address, &[]).await.unwrap();
            for stream in streams().take(20) {
                raw.send(&frame(HEADERS, END_HEADERS, stream, &call_to(path, "application/grpc"))).await.unwrap();
                let begun = message(4 << 20, &[0x0a; LONGEST - 5]);
                for data in std::iter::once(&begun[..]).chain(std::iter::repeat_n(&[0x0a; LONGEST][..], 60)) {
                    // The server gives no window to a stream that it has refused.
                    if raw.try_send_data(stream, data).await.is_err() {
                        break;
                    }
                }
            }
            connections.push(raw);
        }
    };
    let (report, ()) = beside("60 requests of reflection and health of 1 MiB", &server, attack).await;
    assert_bounded(&report, 16 * MIB);
}

/// A request that is not read would keep 8 KiB of HTTP/2's buffer for each of its bytes.
#[tokio::test]
async fn requests_of_watches_that_wait_take_bounded_memory() {
    let server = serve();
    let attack = async {
        let mut connections = Vec::new();
        for _ in 0..8 {
            let mut raw = Raw::open(&server.address, &[(INITIAL_WINDOW_SIZE, 0)]).await.unwrap();
            let begin = [
                frame(HEADERS, END_HEADERS, 1, &call("Watch")),
                frame(DATA, 0, 1, &message(3, b"\x0a\x01t")),
                frame(HEADERS, END_HEADERS, 3, &call_to(REFLECTION, "application/grpc")),
                frame(DATA, 0, 3, &message(2, b"\x3a\x00")),
            ];
            raw.send(&begin.concat()).await.unwrap();
            // Bytes of further messages, and frames of an unknown kind between them.
            let filler = frame(0x42, 0, 0, &[0; 8_000]);
            for stream in [1, 3] {
                let whole = [message(1_000, &[]), vec![0; 1_000]].concat();
                flood(&mut raw, whole.iter().map(|byte| [frame(DATA, 0, stream, &[*byte]), filler.clone()].concat()))
                    .await;
            }
            connections.push(raw);
        }
    };
    let (report, ()) = beside("16 streams whose next request waits, a byte a frame", &server, attack).await;
    assert_bounded(&report, 32 * MIB);
}

/// Refusals have no body: HTTP/2 alone keeps them.
#[tokio::test]
async fn refusals_that_are_not_read_take_bounded_memory() {
    let server = serve();
    let attack = async {
        let mut connections = Vec::new();
        let encoded = [call("Watch"), header("grpc-encoding", &"\"".repeat(3_900))].concat();
        for (head, count) in [(encoded, 8), (call_to("/none/None", "application/grpc"), 2)] {
            for _ in 0..count {
                let mut raw = Raw::open_deaf(&server.address, &[]).await.unwrap();
                flood(&mut raw, requests(head.clone(), streams().take(1_000))).await;
                connections.push(raw);
            }
        }
    };
    let (report, ()) = beside("10,000 refusals that are not read", &server, attack).await;
    assert_bounded(&report, 32 * MIB);
}

#[tokio::test]
async fn refusals_of_calls_without_a_token_that_are_not_read_take_bounded_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let tokens = directory.path().join("tokens.toml");
    let token = "[[token]]\nsubject = \"s\"\nrole = \"admin\"\nsecret = \"a-secret-of-the-test\"\n";
    std::fs::write(&tokens, token).expect("it is writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--tokens"]).arg(&tokens);
    let server = Process::start(command);
    let before = server.memory();
    let mut connections = Vec::new();
    for _ in 0..66 {
        let mut raw = Raw::open_deaf(&server.address, &[]).await.unwrap();
        flood(&mut raw, requests(call("GetPauseState"), streams().take(600))).await;
        connections.push(raw);
    }
    let grown = server.memory().saturating_sub(before);
    println!("39,600 unread refusals without a token: memory +{:.1} MiB", grown as f64 / MIB as f64);
    assert!(grown < 32 * MIB, "memory grew by {} MiB", grown / MIB);
    let mut raw = Raw::open(&server.address, &[]).await.expect("it accepts");
    flood(&mut raw, requests(call_to(CHECK, "application/grpc"), [1].into_iter())).await;
    raw.wait_for(HEADERS, 2).await.expect("a probe is answered");
}

/// Each was kept in the 8 KiB into which it was encoded.
#[tokio::test]
async fn small_answers_that_are_not_read_take_bounded_memory() {
    let server = serve();
    let attack = async {
        let mut connections = Vec::new();
        for _ in 0..8 {
            let mut raw = Raw::open_deaf(&server.address, &[(INITIAL_WINDOW_SIZE, 0)]).await.unwrap();
            flood(&mut raw, requests(call_to(CHECK, "application/grpc"), streams().take(2_000))).await;
            connections.push(raw);
        }
    };
    let (report, ()) = beside("16,000 answers of health that are not read", &server, attack).await;
    assert_bounded(&report, 48 * MIB);
}

#[tokio::test]
async fn a_request_with_many_header_fields_is_refused() {
    let server = serve();
    for (fields, refused) in [(90, false), (400, true)] {
        let mut raw = Raw::open(&server.address, &[]).await.unwrap();
        let many = (0..fields).flat_map(|i| header(&format!("x{i}"), "")).collect::<Vec<_>>();
        let head = [call("GetPauseState"), many].concat();
        let ask = frame(DATA, END_STREAM, 1, &message(3, b"\x0a\x01t"));
        raw.send(&[frame(HEADERS, END_HEADERS, 1, &head), ask].concat()).await.unwrap();
        raw.wait_for_end(1).await.expect("an answer");
        // A refusal has headers only.
        assert_eq!((raw.count(GOAWAY), raw.count(DATA) == 0), (0, refused), "{fields} fields");
    }
}
