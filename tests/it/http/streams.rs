//! Streams: messages with prefixes and server-sent events, and how they end.
use super::client::{Connection, Messages, SERVICE, ask, json_with, request};
use crate::support::{Running, config, scrape, timed};
use bytes::Bytes;
use pausewatch::proto::v1;
use pausewatch::server::{Config, Server};
use prost::Message;
use serde_json::json;

const STREAM: (&str, &str) = ("content-type", "application/connect+json");
const EVENTS: (&str, &str) = ("accept", "text/event-stream");

fn prefixed(flags: u8, message: &[u8]) -> Vec<u8> {
    [&[flags], &u32::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

fn watch(headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let headers = [&[STREAM], headers].concat();
    request("POST", &format!("{SERVICE}WatchPauseState"), &headers, body)
}

/// The three ways to open a watch of thread `t` in JSON.
fn watches() -> [Vec<u8>; 3] {
    let by_get = format!("{SERVICE}WatchPauseState?message=%7B%22threadIds%22:[%22t%22]%7D");
    [
        watch(&[], &prefixed(0, br#"{"threadIds":["t"]}"#)),
        json_with("WatchPauseState", &[EVENTS], r#"{"threadIds":["t"]}"#),
        request("GET", &by_get, &[EVENTS], b""),
    ]
}

#[tokio::test]
async fn a_watch_has_a_snapshot_then_changes_then_why_it_ended() {
    for (i, opening) in watches().iter().enumerate() {
        let running = Running::start(config()).await;
        let mut api = running.api().await;
        api.increment("other", None).await;
        let mut messages = Messages::open(Connection::open(&running.address).await, opening).await;
        assert_eq!(messages.state().await, ("t".into(), 0), "default values are included");
        messages.snapshot().await;
        api.increment("t", None).await;
        assert_eq!(messages.state().await, ("t".into(), 1));
        let stopped = running.stop();
        let (kind, end) = timed("the end", messages.next()).await.expect("it says how it ends");
        let (expected, code) = if i == 0 { ("2", &end["error"]["code"]) } else { ("error", &end["code"]) };
        assert_eq!((kind.as_str(), code), (expected, &json!("unavailable")), "{end}");
        assert!(messages.next().await.is_none());
        timed("the drain", stopped).await.unwrap();
    }
}

/// Without this header, nginx buffers messages until it has some kilobytes.
#[tokio::test]
async fn a_watch_asks_proxies_to_pass_on_each_message() {
    let running = Running::start(config()).await;
    for opening in watches() {
        let mut connection = Connection::open(&running.address).await;
        connection.send(&opening).await;
        assert_eq!(connection.head().await.header("x-accel-buffering"), Some("no"));
    }
}

#[tokio::test]
async fn a_watch_in_proto_has_the_bytes_of_grpc() {
    let running = Running::start(config()).await;
    let message =
        v1::WatchPauseStateRequest { thread_ids: vec!["t".into()], include_elicitations: false, ..Default::default() };
    let headers = [("content-type", "application/connect+proto")];
    let body = prefixed(0, &message.encode_to_vec());
    let mut connection = Connection::open(&running.address).await;
    connection.send(&request("POST", &format!("{SERVICE}WatchPauseState"), &headers, &body)).await;
    let head = connection.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/connect+proto")));
    let mut read = Vec::new();
    let mut states = Vec::new();
    while states.len() < 2 {
        read.extend(connection.chunk().await.expect("the stream goes on"));
        while let Some((prefix, rest)) = read.split_first_chunk::<5>() {
            let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
            if rest.len() < length {
                break;
            }
            assert_eq!(prefix[0], 0);
            states.push(v1::WatchPauseStateResponse::decode(Bytes::copy_from_slice(&rest[..length])).unwrap());
            read.drain(..5 + length);
        }
    }
    use v1::watch_pause_state_response::Event;
    assert!(matches!(&states[0].event, Some(Event::PauseState(state)) if state.thread_id == "t"), "{states:?}");
    assert!(matches!(states[1].event, Some(Event::SnapshotComplete(_))), "{states:?}");
}

#[tokio::test]
async fn a_stream_that_is_refused_says_so_in_its_form() {
    let running = Running::start(config()).await;
    for (body, code) in [
        (prefixed(0, br#"{"threadIds":[""]}"#), "invalid_argument"),
        (prefixed(0, b"nothing"), "invalid_argument"),
        (prefixed(0, b""), "invalid_argument"),
        (prefixed(1, b"{}"), "internal"),
        (prefixed(2, b"{}"), "invalid_argument"),
        (prefixed(0, b"{}")[..6].to_vec(), "invalid_argument"),
        (vec![0, 0], "invalid_argument"),
        (vec![0, 0xff, 0xff, 0xff, 0xff, b'{'], "invalid_argument"),
        ([prefixed(0, b"{}"), prefixed(0, b"{}")].concat(), "unimplemented"),
        (vec![], "unimplemented"),
    ] {
        let mut messages = Messages::open(Connection::open(&running.address).await, &watch(&[], &body)).await;
        let (kind, end) = messages.next().await.unwrap();
        assert_eq!((kind.as_str(), &end["error"]["code"]), ("2", &json!(code)), "{:?}", &body[..body.len().min(20)]);
    }
    let announced = watch(&[("content-length", "4000000")], &prefixed(0, b"{}"));
    let mut messages = Messages::open(Connection::open(&running.address).await, &announced).await;
    assert_eq!(messages.next().await.unwrap().1["error"]["code"], "resource_exhausted");
    // Server-sent events have the HTTP status of the error, for `curl -f` and `EventSource`.
    let events = ask(&running.address, &json_with("WatchPauseState", &[EVENTS], r#"{"threadIds":[""]}"#)).await;
    assert_eq!((events.status, events.error().1.as_str()), (400, "INVALID_FIELD"));
    let plain = ask(&running.address, &json_with("WatchPauseState", &[], "{}")).await;
    assert_eq!(plain.status, 415);
    assert!(plain.json()["message"].as_str().unwrap().contains("text/event-stream"), "{plain:?}");
    let compressed = watch(&[("connect-content-encoding", "gzip")], &prefixed(0, b"{}"));
    let mut messages = Messages::open(Connection::open(&running.address).await, &compressed).await;
    assert_eq!(messages.next().await.unwrap().1["error"]["code"], "unimplemented");
}

#[tokio::test]
async fn a_stream_ends_at_its_timeout() {
    let running = Running::start(config()).await;
    let opening = watch(&[("connect-timeout-ms", "300")], &prefixed(0, b"{}"));
    let mut messages = Messages::open(Connection::open(&running.address).await, &opening).await;
    let mut last = None;
    while let Some(message) = messages.next().await {
        last = Some(message);
    }
    let (kind, end) = last.unwrap();
    assert_eq!((kind.as_str(), &end["error"]["code"]), ("2", &json!("deadline_exceeded")));
}

/// G7: a page that is closed uses no more memory.
#[tokio::test]
async fn g7_a_client_that_goes_away_ends_its_watch() {
    let server = Server::start(Config { metrics: Some("127.0.0.1:0".into()), ..config() }).await.unwrap();
    let metrics = server.metrics_address().unwrap();
    let running = Running::of(server);
    for opening in watches() {
        let mut messages = Messages::open(Connection::open(&running.address).await, &opening).await;
        messages.snapshot().await;
        assert_eq!(scrape(&metrics).await.get("pausewatch_watchers"), 1.0);
        drop(messages);
        let gone = async {
            while scrape(&metrics).await.get("pausewatch_watchers") > 0.0 {
                tokio::task::yield_now().await;
            }
        };
        timed("the end of the watch", gone).await;
    }
    let cancelled = "pausewatch_calls_total{rpc=\"WatchPauseState\",code=\"CANCELLED\"}";
    assert_eq!(scrape(&metrics).await.get(cancelled), 3.0);
}
