//! The most of everything at once, at the limits of the manifest for a memory of 1 GiB.
use super::{MIB, assert_bounded};
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, Raw, call, call_to, frame, header, message, streams,
};
use crate::support::{Process, beside};
use std::io;
use std::process::Command;
use tokio::task::JoinSet;

/// The limits in the manifest, as options: without those of calls per second, with which this would take hours.
fn limits() -> Vec<String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/kubernetes/pausewatch.yaml");
    let manifest = std::fs::read_to_string(manifest).expect("it is in the repository");
    let limits = manifest.lines().filter_map(|line| line.trim().split_once(" = "));
    let limits: Vec<_> = limits
        .filter(|(name, _)| name.starts_with("max_") && !name.starts_with("max_calls"))
        .map(|(name, most)| format!("--{}={most}", name.replace('_', "-")))
        .collect();
    assert!(limits.len() >= 6, "{limits:?}");
    limits
}

/// Sends until the server stops to read, or closes the connection, and keeps the connection.
async fn keep(address: &str, frames: impl Iterator<Item = Vec<u8>>) -> io::Result<Raw> {
    let mut raw = Raw::open(address, &[(INITIAL_WINDOW_SIZE, 0)]).await?;
    for part in frames.collect::<Vec<_>>().chunks(50) {
        if raw.send(&part.concat()).await.is_err() {
            break;
        }
    }
    Ok(raw)
}

/// A call with this message on each of these streams. `flags`: of the message.
fn calls(head: &[u8], ask: &[u8], flags: u8, count: usize) -> impl Iterator<Item = Vec<u8>> {
    streams()
        .take(count)
        .map(move |stream| [frame(HEADERS, END_HEADERS, stream, head), frame(DATA, flags, stream, ask)].concat())
}

#[tokio::test]
async fn g7_the_most_of_everything_at_once_fits_in_the_memory_of_the_manifest() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]).args(limits());
    let mut server = Process::start(command);
    server.listen();
    let before = server.memory();
    let address = &server.address;
    let attack = async {
        // Open elicitations on threads of their own.
        let mut callers = JoinSet::new();
        for caller in 0..20 {
            let mut api = server.api().await;
            callers.spawn(async move {
                for i in 0..500 {
                    let _ = api.try_increment(&format!("{caller} {i} {}", "x".repeat(200)), "", None).await;
                }
            });
        }
        callers.join_all().await;
        let mut kept = Vec::new();
        // Watches of 5,000 ids each, up to the limit of a caller and beyond; then small ones, up to their limit.
        let named = |i: usize| [&[0x0a, 20][..], format!("watched thread {i:05}").as_bytes()].concat();
        let ids: Vec<u8> = (0..5_000).flat_map(named).collect();
        let ask = message(ids.len(), &ids);
        let mut raw = Raw::open(address, &[(INITIAL_WINDOW_SIZE, 0)]).await.expect("it accepts");
        for stream in streams().take(30) {
            let _ = raw.send(&frame(HEADERS, END_HEADERS, stream, &call("WatchPauseState"))).await;
            for data in ask.chunks(16_384) {
                let _ = raw.try_send_data(stream, data).await;
            }
            let _ = raw.send(&frame(DATA, END_STREAM, stream, b"")).await;
        }
        kept.push(Ok(raw));
        let watch = message(3, b"\x0a\x01t");
        for _ in 0..17 {
            kept.push(keep(address, calls(&call("WatchPauseState"), &watch, END_STREAM, 1_000)).await);
        }
        // Half requests, with as many header fields as are allowed.
        let fields: Vec<u8> = (0..80).flat_map(|i| header(&format!("x{i}"), &"y".repeat(60))).collect();
        let head = [call("IncrementElicitation"), fields].concat();
        // Answers and refusals that are not read, and requests that wait.
        let health = call_to("/grpc.health.v1.Health/Check", "application/grpc");
        let refused = [call("Watch"), header("grpc-encoding", &"\"".repeat(3_900))].concat();
        let reflection = call_to("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "application/grpc");
        let waiting = [watch.clone(), message(200_000, &[0; 10_000])].concat();
        for _ in 0..6 {
            kept.push(keep(address, calls(&head, &message(60_000, &[0x0a; 1_000]), 0, 1_024)).await);
            kept.push(keep(address, calls(&call("ListPauseStates"), &message(0, b""), END_STREAM, 1_024)).await);
            kept.push(keep(address, calls(&health, &message(0, b""), END_STREAM, 4_000)).await);
            kept.push(keep(address, calls(&refused, &message(0, b""), END_STREAM, 1_024)).await);
            kept.push(keep(address, calls(&reflection, &message(4_096, &[0x1a; 4_000]), 0, 1_024)).await);
            kept.push(keep(address, calls(&call("Watch"), &waiting, 0, 100)).await);
        }
        // Connections with nothing.
        for _ in 0..1_000 {
            kept.push(Raw::connect(address).await);
        }
        kept
    };
    let (report, kept) = beside("the most of everything at once", &server, attack).await;
    assert!(kept.iter().flatten().count() > 1_000);
    assert_bounded(&report, 768 * MIB - before);
}
