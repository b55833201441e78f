//! Bytes of an HTTP/1 connection, through the Connect layer and the gRPC service. State changes only by a POST with a
//! content type that no web page can send without a preflight request. Every answer is valid HTTP that only its own
//! origin may read, and nothing hangs.
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pausewatch::proto::DESCRIPTORS;
use pausewatch::test_support::clock::Manual;
use pausewatch::test_support::coordinator::Coordinator;
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::core::scope::Scope;
use pausewatch::test_support::server::{Elicitations, with_connect};
use pausewatch::test_support::store::Memory;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tonic::body::Body;
use tower::Service;

/// The status codes of hyper's own answers to invalid requests, which no layer of ours adds headers to.
const OF_HYPER: [&str; 4] = ["400", "414", "431", "505"];

pub(super) fn check(input: &[u8]) {
    thread_local! {
        // The clock stands still while anything can run, so waiting takes no time.
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    }
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            check_connection(input).await;
            // Lets the tasks of this coordinator end now; a search of hours would otherwise collect them.
            tokio::task::yield_now().await;
        });
    });
}

async fn check_connection(input: &[u8]) {
    let start = Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 };
    let clock = Arc::new(Manual::new(start, 1));
    let day = Some(Duration::from_secs(24 * 60 * 60));
    let coordinator = Coordinator::start(Box::new(Memory), clock.clone(), day, |_| unreachable!("nothing is kept"));
    let coordinator = Arc::new(coordinator.expect("nothing has to be loaded"));
    let elicitations = Elicitations::new(coordinator.clone(), clock, Arc::default(), None);
    let answers = answers(input, with_connect(elicitations, DESCRIPTORS.to_vec(), 1_000)).await;
    check_answers(&answers);
    let (views, _) = coordinator.hub().list(None, 10_000, true, &Scope::ALL);
    let lower = input.to_ascii_lowercase();
    let has = |text: &[u8]| lower.windows(text.len()).any(|bytes| bytes == text);
    if !(has(b"post ") && (has(b"application/json") || has(b"application/proto")) && has(b"host:")) {
        assert!(views.is_empty(), "{:?}", views[0].thread);
    }
}

/// All bytes that are answered on a connection.
async fn answers<S>(input: &[u8], service: S) -> Vec<u8>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = std::convert::Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let (mut client, server) = tokio::io::duplex(1 << 20);
    let service =
        service_fn(move |request: http::Request<hyper::body::Incoming>| service.clone().call(request.map(Body::new)));
    let serving = tokio::spawn(async move {
        _ = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(server), service).await;
    });
    client.write_all(input).await.expect("there is room");
    client.shutdown().await.expect("it is open");
    let mut answers = Vec::new();
    // A watch never ends.
    _ = timeout(Duration::from_secs(1), client.read_to_end(&mut answers)).await;
    drop(client);
    // Neither does the server's side of the connection, which does not notice that the client has gone.
    serving.abort();
    if let Err(error) = serving.await {
        assert!(error.is_cancelled(), "it panicked: {error}");
    }
    answers
}

fn check_answers(answers: &[u8]) {
    if answers.is_empty() {
        return;
    }
    let text = String::from_utf8_lossy(answers);
    let (head, _) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("the answer has no head: {text}"));
    let status = head.strip_prefix("HTTP/1.1 ").or(head.strip_prefix("HTTP/1.0 ")).expect("an answer of HTTP");
    if head.contains("content-type: ") || !OF_HYPER.contains(&&status[..3]) {
        // The interim answer that asks for the body has no headers.
        let is_interim = status.starts_with("100 ");
        assert!(is_interim || head.contains("x-content-type-options: nosniff"), "{head}");
    }
    assert!(!text.contains("access-control-allow"), "{text}");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let post = |method: &str, headers: &str, body: &[u8]| {
        let length = body.len();
        let head = format!(
            "POST /pausewatch.v1.ElicitationService/{method} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\
             {headers}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    };
    let json = "content-type: application/json";
    let stream = "content-type: application/connect+json\r\nconnect-timeout-ms: 500";
    let get = |target: &str, header: &str| {
        format!("GET /pausewatch.v1.ElicitationService/{target} HTTP/1.1\r\nhost: [::1]:7420\r\n{header}\r\n\r\n")
            .into_bytes()
    };
    let increment = post("IncrementElicitation", json, br#"{"threadId":"t","ttl":"30s","reason":"\u00e4"}"#);
    let decrement = post("DecrementElicitation", json, br#"{"thread_id":"t","elicitationId":null}"#);
    vec![
        [&increment[..], &decrement].concat(),
        increment,
        post("IncrementElicitation", "content-type: application/proto\r\nconnect-protocol-version: 1", b"\n\x01t"),
        post("IncrementElicitation", "content-type: text/plain\r\norigin: http://evil.test", br#"{"threadId":"t"}"#),
        post("WatchPauseState", stream, b"\0\0\0\0\x14{\"threadIds\":[\"t\"]} "),
        post("WatchPauseState", "content-type: application/json\r\naccept: text/event-stream", b"{}"),
        get("GetPauseState?message=%7B%22threadId%22:%22t%22%7D&encoding=json", "sec-fetch-site: same-origin"),
        get("GetPauseState?connect=v1&encoding=proto&base64=1&message=CgF0", "accept-encoding: gzip"),
        get("WatchPauseState", "accept: text/event-stream"),
        get("IncrementElicitation?message=%7B%22threadId%22:%22t%22%7D", "accept: */*"),
        b"POST /pausewatch.v1.ElicitationService/IncrementElicitation HTTP/1.1\r\nhost: localhost\r\n\
          content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n10\r\n{\"threadId\":\"t\"}\r\n0\r\n\r\n"
            .to_vec(),
        b"OPTIONS * HTTP/1.1\r\nhost: evil.test\r\n\r\n".to_vec(),
    ]
}
