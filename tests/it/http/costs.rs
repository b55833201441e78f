//! G7: the limits of gRPC apply to HTTP too, a token is checked before the body is read, and slow or hostile clients do
//! not slow down others.
use super::client::{Connection, Messages, SERVICE, ask, json, json_with, request};
use crate::support::{Process, Running, beside, config, timed};
use pausewatch::server::Config;
use pausewatch::test_support::access::{AccessConfig, Grant, Role};
use pausewatch::test_support::core::scope::Scope;
use pausewatch::test_support::quota::{LimitPair, Limits};
use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const INCREMENT: &str = r#"{"threadId":"t"}"#;
const EVENTS: (&str, &str) = ("accept", "text/event-stream");

fn with_tokens() -> Config {
    let grant = |role| Grant::new("s", role, Scope::of(&["t".to_owned()], &[]).unwrap());
    let given = vec![("a-holder".to_owned(), grant(Role::Holder)), ("a-watcher".to_owned(), grant(Role::Watcher))];
    Config { access: Some(AccessConfig { given, ..AccessConfig::default() }), ..config() }
}

#[tokio::test]
async fn g8_a_token_is_judged_before_the_body_is_read() {
    let running = Running::start(with_tokens()).await;
    for (token, reason) in [(None, "TOKEN_MISSING"), (Some("Bearer nobody's"), "TOKEN_INVALID")] {
        for (method, content_type) in [
            ("IncrementElicitation", "application/json"),
            ("IncrementElicitation", "application/proto"),
            ("IncrementElicitation", "text/plain"),
            ("Nothing", "application/json"),
        ] {
            let mut headers = vec![("content-type", content_type), ("content-length", "100000")];
            headers.extend(token.map(|token| ("authorization", token)));
            // Only the headers are sent.
            let head = request("POST", &format!("{SERVICE}{method}"), &headers, b"");
            let answer = ask(&running.address, &head).await;
            assert_eq!(
                (answer.status, answer.header("www-authenticate")),
                (401, Some("Bearer")),
                "{method} {content_type}"
            );
            assert_eq!(answer.error(), ("unauthenticated".to_owned(), reason.to_owned()));
        }
        let headers = [("authorization", token.unwrap_or("")), EVENTS];
        let events = request("GET", &format!("{SERVICE}WatchPauseState"), &headers, b"");
        assert_eq!(ask(&running.address, &events).await.status, 401);
    }
    let expecting = [("authorization", "Bearer nobody's"), ("expect", "100-continue")];
    let answer = ask(&running.address, &json_with("IncrementElicitation", &expecting, INCREMENT)[..]).await;
    assert_eq!(answer.status, 401, "the body is not requested");
}

#[tokio::test]
async fn a_head_of_too_many_fields_is_refused() {
    let running = Running::start(config()).await;
    let names: Vec<_> = (0..100).map(|i| format!("x-{i}")).collect();
    let headers: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    // Three of the hundred headers are added by the request: `host`, content type and length.
    assert_eq!(ask(&running.address, &json_with("IncrementElicitation", &headers[..90], INCREMENT)).await.status, 200);
    assert_eq!(ask(&running.address, &json_with("IncrementElicitation", &headers, INCREMENT)).await.status, 431);
}

#[tokio::test]
async fn g8_roles_and_threads_hold_as_over_grpc() {
    let running = Running::start(with_tokens()).await;
    let call = async |token: &str, method, body| {
        let token = format!("Bearer {token}");
        ask(&running.address, &json_with(method, &[("authorization", &token)], body)).await
    };
    assert_eq!(call("a-holder", "IncrementElicitation", INCREMENT).await.status, 200);
    assert_eq!(call("a-watcher", "GetPauseState", INCREMENT).await.json()["pauseState"]["count"], 1);
    let role = call("a-watcher", "IncrementElicitation", INCREMENT).await;
    assert_eq!((role.status, role.error().1.as_str()), (403, "ROLE_FORBIDDEN"));
    let thread = call("a-holder", "GetPauseState", r#"{"threadId":"other"}"#).await;
    assert_eq!((thread.status, thread.error().1.as_str()), (403, "THREAD_FORBIDDEN"));
}

#[tokio::test]
async fn g7_calls_and_streams_have_the_limits_of_grpc() {
    let one = LimitPair { in_all: Some(1), per_caller: None };
    let calls = LimitPair { in_all: None, per_caller: Some(5) };
    let running = Running::start(Config { limits: Limits { streams: one, ..Limits::default() }, ..config() }).await;
    let events = json_with("WatchPauseState", &[EVENTS], "{}");
    let mut first = Messages::open(Connection::open(&running.address).await, &events).await;
    first.snapshot().await;
    let second = ask(&running.address, &events).await;
    assert_eq!((second.status, second.error().1.as_str()), (429, "LIMIT_EXCEEDED"));
    assert_eq!(second.header("retry-after"), Some("1"), "{second:?}");

    let running = Running::start(Config { limits: Limits { calls, ..Limits::default() }, ..config() }).await;
    let mut statuses = Vec::new();
    while statuses.last() != Some(&429) {
        statuses.push(ask(&running.address, &request("GET", "/", &[], b"")).await.status);
        assert!(statuses.len() < 10_000, "requests for the page are limited too");
    }
    assert!(statuses.len() > 5, "{statuses:?}");
}

fn serve(more: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]).args(more);
    Process::start(command)
}

/// Whether the server, which says nothing, has kept the connection open.
fn is_open(connection: &TcpStream) -> bool {
    matches!(connection.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[tokio::test]
async fn g7_half_requests_give_way_and_hold_little_memory() {
    let server = serve(&["--max-connections", "200", "--max-connections-per-caller", "100"]);
    let attack = async {
        let mut open = Vec::new();
        for i in 0..400 {
            let mut connection = TcpStream::connect(&server.address).await.unwrap();
            let half: &[u8] = match i % 4 {
                0 => b"",
                1 => b"P",
                2 => b"POST /x HTTP/1.1\r\nhost: localhost\r\n",
                _ => &[b"GET / HTTP/1.1\r\nx: ".as_slice(), &[b'x'; 12 << 10]].concat(),
            };
            let _ = connection.write_all(half).await;
            open.push(connection);
        }
        let last = open.pop();
        let give_way = async {
            while open.len() >= 100 {
                open.retain(is_open);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timed("the end of the older ones", give_way).await;
        assert!(last.is_some_and(|last| is_open(&last)), "the newest one must give way to none");
    };
    let (report, ()) = beside("400 half requests of HTTP/1", &server, attack).await;
    assert!(report.calls > 0 && report.peak < 32 << 20, "{report:?}");
}

#[tokio::test]
async fn g7_a_head_without_end_is_hung_up_on() {
    let server = serve(&[]);
    let attack = async {
        for header in ["x: y\r\n".repeat(20_000), format!("x: {}", "y".repeat(100_000))] {
            let mut connection = TcpStream::connect(&server.address).await.unwrap();
            let _ = connection.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n").await;
            let _ = connection.write_all(header.as_bytes()).await;
            let mut said = Vec::new();
            let _ = timed("the end", connection.read_to_end(&mut said)).await;
            assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&said));
        }
    };
    let (report, ()) = beside("heads of HTTP/1 without end", &server, attack).await;
    assert!(report.peak < 16 << 20, "{report:?}");
}

/// An unread stream gets backpressure, in JSON as in binary.
#[tokio::test]
async fn g7_a_watch_that_is_not_read_holds_little_memory() {
    let server = serve(&[]);
    let mut api = server.api().await;
    for i in 0..500 {
        api.increment(&format!("{i}-{}", "x".repeat(200)), None).await;
    }
    let attack = async {
        let mut open = Vec::new();
        for _ in 0..30 {
            let mut connection = Connection::open(&server.address).await;
            connection.send(&json_with("WatchPauseState", &[EVENTS], r#"{"includeElicitations":true}"#)).await;
            assert_eq!(connection.head().await.status, 200);
            open.push(connection);
        }
        for _ in 0..20 {
            for i in 0..50 {
                api.increment(&format!("{i}-{}", "x".repeat(200)), None).await;
            }
        }
        open.len()
    };
    let (report, open) = beside("30 streams that are not read", &server, attack).await;
    assert_eq!(open, 30);
    assert!(report.peak < 16 << 20, "{report:?}");
}

#[tokio::test]
async fn a_drain_answers_what_is_in_flight_and_waits_for_no_half_request() {
    let running = Running::start(config()).await;
    let mut idle = Connection::open(&running.address).await;
    assert_eq!(idle.ask(&json("IncrementElicitation", INCREMENT)).await.status, 200);
    let mut half_head = Connection::open(&running.address).await;
    assert_eq!(half_head.ask(&json("IncrementElicitation", INCREMENT)).await.status, 200);
    half_head.send(b"POST /x HTTP/1.1\r\nhost: ").await;
    let whole = json("IncrementElicitation", INCREMENT);
    let mut half_body = Connection::open(&running.address).await;
    half_body.send(&whole[..whole.len() - 1]).await;
    let silent = Connection::open(&running.address).await;
    let began = std::time::Instant::now();
    let stopped = running.stop();
    let answer = half_body.answer(true).await;
    assert_eq!((answer.status, answer.error().0.as_str()), (503, "unavailable"), "it has changed nothing");
    for connection in [idle, half_head, half_body, silent] {
        assert!(connection.closed().await.is_empty());
    }
    timed("the drain", stopped).await.unwrap();
    // The drain ends by itself after 4 s; it must have ended earlier. A busy machine takes longer.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
