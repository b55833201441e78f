//! Floods of what costs the client nothing: log lines, connections, values of a request.
use super::{MIB, assert_bounded, serve};
use crate::support::http2::{PING, Raw, frame};
use crate::support::{Process, beside, timed};
use rustix::process::Signal;
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// h2 warns of each acknowledgement of a ping that it has not sent.
#[tokio::test]
async fn frames_of_a_client_without_a_token_write_no_line_of_the_log_each() {
    const ACK: u8 = 1;
    for levels in ["info", "trace,pausewatch=info", "h2=debug"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]).env("RUST_LOG", levels);
        let mut server = Process::start(command);
        server.listen();
        for _ in 0..3 {
            let mut raw = Raw::open(&server.address, &[]).await.unwrap();
            raw.wait_for_pong().await.expect("it is a connection of HTTP/2");
            let _ = raw.send(&frame(PING, ACK, 0, &[7; 8]).repeat(2_000)).await;
            // Whether the connection stays open or not, the server has now processed everything.
            let _ = raw.wait_for_pong().await;
        }
        server.signal(Signal::TERM);
        let (status, said) = server.end();
        assert!(status.success(), "{said}");
        assert!(
            said.lines().count() < 20,
            "{levels}: {} lines, such as {:?}",
            said.lines().count(),
            said.lines().last()
        );
        assert!(!said.contains("h2::"), "{said}");
    }
}

/// Each of the flood's connections would delay all others by some milliseconds, thousands of them by half a minute.
#[tokio::test]
async fn one_address_with_silent_connections_keeps_no_other_out() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory", "--max-connections", "2"]);
    let server = Process::start(command);
    let to = server.address.parse().unwrap();
    let mut silent = Vec::new();
    // At a limit of one connection, one takes its turn every 250 ms: together, they would take more than two minutes.
    for _ in 0..600 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        silent.push(socket.connect(to).await);
    }
    timed("an answer to another address", async { server.api().await.increment("t", None).await }).await;
    drop(silent);
}

/// A million empty ids are 3 MB, and 100 MB when they are decoded.
#[tokio::test]
async fn requests_of_a_million_values_are_refused_in_bounded_memory() {
    let server = serve();
    let ids = format!(r#"{{"threadIds":[{}]}}"#, vec![r#""""#; 1_000_000].join(","));
    let nested = format!(r#"{{"x":{}{}}}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
    let attack = async {
        for body in [&ids, &nested] {
            let mut calls = tokio::task::JoinSet::new();
            for _ in 0..8 {
                let request = format!(
                    "POST /pausewatch.v1.ElicitationService/WatchPauseState HTTP/1.1\r\nhost: localhost\r\n\
                     content-type: application/connect+json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len() + 5
                );
                let length = u32::try_from(body.len()).unwrap().to_be_bytes();
                let bytes = [request.as_bytes(), &[0], &length, body.as_bytes()].concat();
                let address = server.address.clone();
                calls.spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    stream.write_all(&bytes).await.unwrap();
                    let mut answer = String::new();
                    timed("the refusal", stream.read_to_string(&mut answer)).await.unwrap();
                    answer
                });
            }
            for answer in calls.join_all().await {
                assert!(answer.contains("more than 10,100 values"), "{answer}");
            }
        }
    };
    let (report, ()) = beside("16 requests of a million values", &server, attack).await;
    assert_bounded(&report, 96 * MIB);
}
