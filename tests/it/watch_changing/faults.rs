//! Invalid requests, and clients that do not read.
use super::*;
use crate::support::{detail, narrow};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tonic::Code;

/// The field named by the error that ends the stream.
async fn invalid_field(running: &Running, before: Option<v1::WatchRequest>, request: v1::WatchRequest) -> String {
    let mut watch = Watch::open(running).await;
    if let Some(before) = before {
        watch.ask(before, 1).await;
    }
    watch.send(request).await;
    let status = watch.end().await;
    let (reason, metadata) = detail(&status);
    assert_eq!((status.code(), reason.as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
    metadata["field"].clone()
}

#[tokio::test]
async fn an_invalid_request_ends_the_stream_and_names_the_field() {
    let running = Running::start(config()).await;
    let long = "x".repeat(257);
    let many = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
    let default = v1::WatchRequest::default;
    for (field, request) in [
        ("add[1]", add(&["a", ""])),
        ("remove[0]", v1::WatchRequest { remove: ids(&[&long]), ..default() }),
        ("confirm[2]", confirm(&["a", "b", "c\n"])),
        ("add", v1::WatchRequest { add: many(1_001), ..default() }),
        ("confirm", v1::WatchRequest { add: many(500), remove: many(500), confirm: many(1), ..default() }),
        ("token", v1::WatchRequest { token: "x".repeat(16_385), ..default() }),
        ("request", v1::WatchRequest { add: vec![long.repeat(4); 1_000], ..default() }),
    ] {
        assert_eq!(invalid_field(&running, None, request).await, field);
    }
    let most = v1::WatchRequest { add: vec!["x".repeat(256); 500], confirm: vec!["y".repeat(256); 500], ..default() };
    assert_eq!(Watch::open(&running).await.ask(most, 1).await.confirmed.len(), 500, "the largest that is allowed");
    for (field, request) in [
        ("all_threads", v1::WatchRequest { all_threads: true, ..default() }),
        ("include_elicitations", v1::WatchRequest { include_elicitations: true, ..default() }),
        ("observer", v1::WatchRequest { observer: true, ..default() }),
    ] {
        assert_eq!(invalid_field(&running, Some(add(&["a"])), request).await, field);
    }
    assert_eq!(running.api().await.increment("a", None).await.watchers, 0, "all of these streams have ended");
}

/// H3, G7: the requests of an unread stream wait, up to a limit, and the server holds no answers for them.
#[tokio::test]
async fn g7_a_client_that_reads_nothing_is_not_read_from_without_bound() {
    let running = Running::start(config()).await;
    let mut api = narrow(&running.address).await;
    let mut watch = Watch::open_with(&mut api.0, None).await.unwrap();
    let names: Vec<_> = (0..1_000).map(|i| format!("{i:0>250}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let requests = watch.requests.clone().unwrap();
    let confirm = confirm(&names);
    let sent = Arc::<AtomicUsize>::default();
    let counted = sent.clone();
    let flood = tokio::spawn(async move {
        while requests.send(confirm.clone()).await.is_ok() {
            counted.fetch_add(1, Relaxed);
        }
    });
    // Each answer is 300 kB, and the client's window is 64 kB. A well-behaved caller is served meanwhile.
    let mut other = running.api().await;
    for i in 0..1_000 {
        other.increment(&format!("t{i}"), None).await;
    }
    // The requests in the client's queue, in the windows of the connection, and 3 MiB in the server; a server without a
    // limit would accept more and more.
    let sent = sent.load(Relaxed);
    assert!(sent < QUEUE + 32, "{sent} requests were accepted without an answer being read");
    flood.abort();
    assert_eq!(watch.answer(1).await.confirmed.len(), 1_000, "what was answered can still be read");
    // The server has ended the stream if it has received more than the limit meanwhile.
    for number in 2..=3 {
        match watch.next().await {
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                return;
            }
            Ok(Event::SnapshotComplete(complete)) => assert_eq!(complete.requests, number),
            Ok(_) => {}
        }
    }
}
