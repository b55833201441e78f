//! What `/metrics` shows: each metric follows what it counts, a strict parser accepts the format, and the page about
//! metrics names all of them.
use crate::support::http2::{DATA, END_HEADERS, HEADERS, RST_STREAM, Raw, call_as, frame};
use crate::support::{Running, Samples, ask, call_path, channel, config, embedded, event, scrape, states, timed};
use pausewatch::server::{Config, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::Service;

const SECOND: Duration = Duration::from_secs(1);

/// A server, and the URL of its metrics.
pub(crate) async fn start(config: Config) -> (Running, String) {
    let config = Config { metrics: Some("127.0.0.1:0".into()), ..config };
    let server = Server::start(config).await.expect("the server starts");
    let url = server.metrics_address().expect("it has metrics");
    (Running::of(server), url)
}

/// Scrapes until `so` holds, because the metrics of a closed stream or connection follow after a moment.
async fn until(url: &str, what: &str, so: impl Fn(&Samples) -> bool) -> Samples {
    timed(what, async {
        loop {
            let samples = scrape(url).await;
            if so(&samples) {
                return samples;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn each_metric_moves_with_its_cause() {
    let directory = tempfile::tempdir().unwrap();
    let (server, url) = start(embedded(directory.path())).await;
    let mut api = server.api().await;
    let before = scrape(&url).await;
    assert_eq!(before.get("pausewatch_calls_total{rpc=\"IncrementElicitation\",code=\"OK\"}"), 0.0);
    assert_eq!(before.get("pausewatch_oldest_pause_seconds"), 0.0);

    let mut watch = api.watch(&["a"]).await;
    states(&mut watch).await;
    api.increment("a", None).await;
    event(&mut watch).await;
    api.increment("a", Some(5 * SECOND)).await;
    api.increment("b", None).await;
    api.try_decrement("b", "", None).await.unwrap();
    assert_eq!(api.try_decrement("b", "", None).await.unwrap_err().code(), Code::FailedPrecondition);
    api.get("a").await;
    // The gauge follows the counter: a scrape between the two updates shows only the first.
    let after = until(&url, "the end of a lease", |now| {
        now.get("pausewatch_elicitations_closed_total{by=\"lease\"}") > 0.0
            && now.get("pausewatch_open_elicitations") < 2.0
    })
    .await;
    let is = |sample: &str, value: f64| assert_eq!(after.get(&format!("pausewatch_{sample}")), value, "{sample}");
    is("calls_total{rpc=\"IncrementElicitation\",code=\"OK\"}", 3.0);
    is("calls_total{rpc=\"DecrementElicitation\",code=\"OK\"}", 1.0);
    is("calls_total{rpc=\"DecrementElicitation\",code=\"FAILED_PRECONDITION\"}", 1.0);
    is("calls_total{rpc=\"WatchPauseState\",code=\"OK\"}", 0.0);
    is("call_duration_seconds_count{rpc=\"DecrementElicitation\"}", 2.0);
    is("call_duration_seconds_count{rpc=\"GetPauseState\"}", 1.0);
    is("call_duration_seconds_count{rpc=\"WatchPauseState\"}", 1.0);
    assert!(after.get("pausewatch_call_duration_seconds_sum{rpc=\"IncrementElicitation\"}") > 0.0);
    is("watchers", 1.0);
    is("connections", 1.0);
    is("connections_accepted_total", 1.0);
    is("threads", 2.0);
    is("paused_threads", 1.0);
    is("paused_threads_unwatched", 0.0);
    is("open_elicitations", 1.0);
    is("elicitations_opened_total", 3.0);
    is("elicitations_closed_total{by=\"decrement\"}", 1.0);
    is("elicitations_closed_total{by=\"lease\"}", 1.0);
    is("pause_duration_seconds_count", 1.0);
    let paused = after.get("pausewatch_pause_duration_seconds_sum");
    assert!(paused > 0.0 && paused.fract() > 0.0, "{paused}: it must not be rounded to whole seconds");
    // Three increments and a decrement, each in its own batch, and the end of a lease.
    is("commit_batch_size_sum", 5.0);
    is("commit_batch_size_count", 5.0);
    is("commit_duration_seconds_count", 5.0);
    is("fsync_duration_seconds_count", 5.0);
    let (commits, fsyncs) = ("pausewatch_commit_duration_seconds_sum", "pausewatch_fsync_duration_seconds_sum");
    assert!(0.0 < after.get(fsyncs) && after.get(fsyncs) < after.get(commits), "an fsync is a part of its commit");
    is("store_writable", 1.0);
    assert!(after.get("pausewatch_oldest_pause_seconds") >= 5.0, "the lease of 5 s has ended since");

    // A slow watch gets only the latest state.
    assert!(after.get("pausewatch_deliveries_total") >= 2.0);
    drop(watch);
    let closed = until(&url, "the end of the watch", |now| now.get("pausewatch_watchers") == 0.0).await;
    assert_eq!(closed.get("pausewatch_calls_total{rpc=\"WatchPauseState\",code=\"CANCELLED\"}"), 1.0);
    assert_eq!(closed.get("pausewatch_paused_threads_unwatched"), 1.0, "nobody would notice that it is paused");
    drop(api);
    until(&url, "the end of the connection", |now| now.get("pausewatch_connections") == 0.0).await;
}

#[tokio::test]
async fn calls_of_what_does_not_exist_are_counted() {
    let (server, url) = start(config()).await;
    let channel = channel(&server.address).await;
    for path in ["/pausewatch.v2.Unheard/Of", "/pausewatch.v1.ElicitationService/UnheardOf", "/"] {
        assert_eq!(call_path(channel.clone(), path, &[]).await.unwrap_err().code(), Code::Unimplemented);
    }
    let other = "pausewatch_calls_total{rpc=\"other\",code=\"UNIMPLEMENTED\"}";
    assert_eq!(scrape(&url).await.get(other), 3.0);
    let (head, _) = ask("GET", &format!("http://{}/nothing", server.address)).await;
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    assert_eq!(scrape(&url).await.get(other), 4.0, "over HTTP/1.1 too");
}

/// Internal errors make an alert fire, so clients must not be able to cause them.
#[tokio::test]
async fn malformed_requests_are_no_internal_errors() {
    let (server, url) = start(config()).await;
    let mut channel = channel(&server.address).await;
    for path in [
        "/pausewatch.v1.ElicitationService/IncrementElicitation",
        "/pausewatch.v1.ElicitationService/WatchPauseState",
        "/grpc.health.v1.Health/Check",
    ] {
        for (message, code) in [
            (&b""[..], Code::InvalidArgument),
            (b"\0\0\0\0\x09\x0a", Code::InvalidArgument),
            (b"\x07\0\0\0\0", Code::InvalidArgument),
            (b"\x01\0\0\0\0", Code::Unimplemented),
        ] {
            let body = Body::new(http_body_util::Full::new(bytes::Bytes::from_static(message)));
            let request = http::Request::post(format!("http://{}{path}", server.address));
            let request = request.header("content-type", "application/grpc").body(body).unwrap();
            std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
            let answer = timed("an answer", channel.call(request)).await.unwrap();
            let status = tonic::Status::from_header_map(answer.headers()).expect("it is refused");
            assert_eq!(status.code(), code, "{path} {message:?}: {status:?}");
        }
    }
    let samples = scrape(&url).await;
    let invalid = "pausewatch_calls_total{rpc=\"IncrementElicitation\",code=\"INVALID_ARGUMENT\"}";
    assert_eq!(samples.get(invalid), 3.0);
    assert!(samples.values.keys().all(|sample| !sample.contains("INTERNAL")), "{:?}", samples.values);
}

/// If a client dies, or cancels its request, before the request is complete, there was no call, and so no error.
#[tokio::test]
async fn requests_that_are_cut_off_are_no_internal_errors_and_change_nothing() {
    let (server, url) = start(config()).await;
    let mut cut = 0.0;
    for reset in [0, 1, 2, 8] {
        for content_type in ["application/grpc", "application/json", "application/proto"] {
            let mut raw = Raw::open(&server.address, &[]).await.unwrap();
            let headers = call_as("IncrementElicitation", content_type);
            // As protobuf this is the thread `t`, without the rest of the message.
            let open = [frame(HEADERS, END_HEADERS, 1, &headers), frame(DATA, 0, 1, b"\x0a\x01t")].concat();
            raw.send(&open).await.unwrap();
            raw.wait_for_pong().await.unwrap();
            raw.send(&frame(RST_STREAM, 0, 1, &u32::to_be_bytes(reset))).await.unwrap();
            cut += 1.0;
            let count = "pausewatch_calls_total{rpc=\"IncrementElicitation\",code=\"INVALID_ARGUMENT\"}";
            until(&url, &format!("the end of the call, {content_type} {reset}"), |now| now.get(count) == cut).await;
        }
    }
    for (headers, body) in
        [("content-length: 9", "{"), ("transfer-encoding: chunked", "5\r\n{"), ("transfer-encoding: chunked", "x\r\n")]
    {
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        let path = "/pausewatch.v1.ElicitationService/IncrementElicitation";
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        timed("an answer", stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("INVALID_FIELD"), "{headers} {body}: {answer}");
    }
    let samples = scrape(&url).await;
    let internal = |sample: &String| ["INTERNAL", "UNKNOWN", "DATA_LOSS"].iter().any(|code| sample.contains(code));
    assert!(!samples.values.keys().any(internal), "{:?}", samples.values);
    assert_eq!(samples.get("pausewatch_elicitations_opened_total"), 0.0);
}

#[tokio::test]
async fn a_watch_that_is_not_read_has_states_overtaken() {
    let (server, url) = start(config()).await;
    let mut slow = crate::support::narrow(&server.address).await;
    // More than its window holds.
    let threads: Vec<_> = (0..2_000).map(|i| format!("{i:0>200}")).collect();
    let _unread = slow.try_watch(threads.clone(), true).await.unwrap();
    let mut api = server.api().await;
    let last = threads.last().unwrap();
    api.increment(last, None).await;
    let before = scrape(&url).await;
    api.increment(last, None).await;
    let after = scrape(&url).await;
    let rise = |name| after.get(name) - before.get(name);
    assert_eq!((rise("pausewatch_conflations_total"), rise("pausewatch_deliveries_total")), (1.0, 0.0));
}

#[tokio::test]
async fn a_drain_ends_watches_as_unavailable_and_can_be_scraped() {
    let (server, url) = start(config()).await;
    let mut watch = server.api().await.watch(&[]).await;
    states(&mut watch).await;
    let Running { address, .. } = &server;
    // During a call that is never complete, the drain waits.
    let mut raw = crate::support::http2::Raw::open(address, &[]).await.unwrap();
    let head = crate::support::http2::call("GetPauseState");
    let begun =
        crate::support::http2::frame(crate::support::http2::HEADERS, crate::support::http2::END_HEADERS, 1, &head);
    raw.send(&begun).await.unwrap();
    raw.wait_for_pong().await.unwrap();
    let served = server.stop();
    let ended = "pausewatch_calls_total{rpc=\"WatchPauseState\",code=\"UNAVAILABLE\"}";
    until(&url, "the drain", |now| now.values.get(ended) == Some(&1.0)).await;
    drop(raw);
    timed("the end of the drain", served).await.unwrap();
}

#[tokio::test]
async fn metrics_are_served_on_loopback_by_default() {
    let off = || Config { metrics: Some("0.0.0.0:0".into()), ..config() };
    let Err(refused) = Server::start(off()).await else {
        panic!("a server must refuse to serve metrics on an address that is not loopback")
    };
    assert!(refused.to_string().contains("--metrics-insecure"), "{refused}");
    let told = Server::start(Config { metrics_insecure: true, ..off() }).await.expect("it was told");
    assert!(told.metrics_address().is_some_and(|url| url.starts_with("http://0.0.0.0:")));
    assert_eq!(Server::start(config()).await.unwrap().metrics_address(), None);
}

#[tokio::test]
async fn metrics_are_sent_to_a_client_that_has_closed_its_side() {
    let (_server, url) = start(config()).await;
    let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/metrics")).expect("as it is printed");
    // Whether the end of the request was seen before the answer was random, so there are several attempts.
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        timed("the metrics", stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.0 200 "), "{answer:?}");
    }
}

/// A web page that is open on this machine may have a name that resolves to this server.
#[tokio::test]
async fn g8_a_web_page_reads_no_metrics() {
    let config = Config { web_hosts: vec!["metrics.lan".into()], ..config() };
    let (_server, url) = start(config).await;
    let host = url.strip_prefix("http://").and_then(|url| url.split('/').next()).unwrap();
    for (headers, status) in [
        (format!("Host: {host}"), 200),
        ("Host: localhost".into(), 200),
        ("Host: metrics.lan:9420".into(), 200),
        ("Host: evil.test".into(), 421),
        (format!("Host: {host}\r\nOrigin: http://evil.test"), 403),
        (format!("Host: {host}\r\nSec-Fetch-Site: cross-site"), 403),
    ] {
        let mut connection = TcpStream::connect(host).await.unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\n{headers}\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{headers}: {answer}");
        assert_eq!(answer.contains("pausewatch_"), status == 200, "{headers}");
    }
}

#[tokio::test]
async fn g7_whoever_holds_connections_to_the_metrics_is_hung_up_on() {
    let (_server, url) = start(config()).await;
    let host = url.strip_prefix("http://").and_then(|url| url.split('/').next()).unwrap();
    let mut silent = Vec::new();
    for _ in 0..600 {
        let mut connection = TcpStream::connect(host).await.unwrap();
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: ").await.unwrap();
        silent.push(connection);
    }
    // Each gets a second for its request, but makes room for later ones: all of them take a few seconds.
    scrape(&url).await;
    for (method, path, status) in
        [("GET", "", 404), ("GET", "metrics/x", 404), ("POST", "metrics", 405), ("HEAD", "metrics", 200)]
    {
        let (head, body) = ask(method, &format!("http://{host}/{path}")).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{method} /{path}: {head}");
        assert_eq!(body.is_empty(), method == "HEAD");
    }
}

#[tokio::test]
async fn the_page_names_every_metric_and_no_other() {
    let (server, url) = start(config()).await;
    server.api().await.increment("a", None).await;
    let Samples { families, values } = scrape(&url).await;
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/observability.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `pausewatch_") || line.starts_with("| `process_"));
    let named: BTreeMap<String, String> = rows
        .map(|row| {
            let cells: Vec<_> = row.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
            (cells[1].split('{').next().unwrap().to_owned(), cells[2].clone())
        })
        .collect();
    assert_eq!(named, families);
    let labels: BTreeSet<_> = values
        .keys()
        .flat_map(|sample| sample.split_once('{').map_or("", |(_, labels)| labels).split("\","))
        .filter_map(|label| label.split_once('=').map(|(name, _)| name))
        .collect();
    assert_eq!(
        labels,
        BTreeSet::from(["by", "code", "le", "limit", "rpc", "version"]),
        "no label has an unlimited number of values"
    );
}
