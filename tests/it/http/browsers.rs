//! G8: no web page of another origin can read or change anything, whatever the browser allows it to send. Beside each
//! attack is the same request from the page itself, or from a program, which is answered.
use super::client::{Connection, SERVICE, ask, request};
use crate::support::certs::Authority;
use crate::support::{Running, config, scrape, timed};
use pausewatch::server::{Config, Server, TlsFiles};
use pausewatch::test_support::quota::{LimitPair, Limits};

const BODY: &[u8] = br#"{"threadId":"t"}"#;
const JSON: (&str, &str) = ("content-type", "application/json");

fn increment(headers: &[(&str, &str)]) -> Vec<u8> {
    request("POST", &format!("{SERVICE}IncrementElicitation"), headers, BODY)
}

/// Makes an increment with these headers; returns the status and by how much the count has grown.
async fn tried(running: &Running, headers: &[(&str, &str)]) -> (u16, u32) {
    let mut api = running.api().await;
    let before = api.get("t").await.count;
    let answer = ask(&running.address, &increment(headers)).await;
    (answer.status, api.get("t").await.count - before)
}

/// DNS rebinding: to the browser, a page of `evil.test`, whose name now resolves to 127.0.0.1, has the same origin as
/// the server.
#[tokio::test]
async fn g8_a_name_that_is_not_ours_is_not_answered() {
    let running = Running::start(Config { web_hosts: vec!["PauseWatch.lan".into()], ..config() }).await;
    let own = format!("http://{}", running.address);
    for host in ["localhost", "127.0.0.1:7420", "[::1]:7420", "app.localhost:7420", "pausewatch.LAN:7420"] {
        assert_eq!(tried(&running, &[("host", host), JSON]).await, (200, 1), "{host}");
    }
    assert_eq!(tried(&running, &[("host", &running.address), ("origin", &own), JSON]).await, (200, 1));
    for host in ["evil.test", "evil.test:7420", "127.0.0.1.nip.io", "localhost.evil.test", "other.lan", ""] {
        let origin = format!("http://{host}");
        let rebound = [("host", host), ("origin", &origin), ("sec-fetch-site", "same-origin"), JSON];
        assert_eq!(tried(&running, &rebound).await, (421, 0), "{host}");
        for path in ["/", "/pausewatch.v1.ElicitationService/ListPauseStates", "/metrics"] {
            let read = request("GET", path, &[("host", host)], b"");
            assert_eq!(ask(&running.address, &read).await.status, 421, "{host} {path}");
        }
    }
    let answer = ask(&running.address, &request("GET", "/", &[("host", "evil.test")], b"")).await;
    assert!(
        answer.json()["message"].as_str().unwrap().contains("--web-host"),
        "the message has the remedy: {answer:?}"
    );
    let two = format!("POST {SERVICE}IncrementElicitation HTTP/1.1\r\nhost: localhost\r\nhost: evil.test\r\n\r\n");
    let none = format!("POST {SERVICE}IncrementElicitation HTTP/1.1\r\n\r\n");
    let above = "GET http://evil.test/ HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned();
    for request in [two, none, above] {
        assert_eq!(ask(&running.address, request.as_bytes()).await.status, 421, "{request}");
    }
}

/// `fetch`, with CORS and without, from another site, another port of this machine, a file or a sandboxed frame.
#[tokio::test]
async fn g8_a_page_of_another_origin_changes_nothing_by_fetch() {
    let running = Running::start(config()).await;
    let host = ("host", running.address.as_str());
    let own = format!("http://{}", running.address);
    let page = [host, ("origin", &own), ("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors"), JSON];
    assert_eq!(tried(&running, &page).await, (200, 1), "the page itself");
    assert_eq!(tried(&running, &[host, JSON]).await, (200, 1), "curl");
    for (origin, site) in [
        ("http://evil.test", "cross-site"),
        ("http://localhost:3000", "same-site"),
        ("http://127.0.0.1:3000", "same-site"),
        ("null", "cross-site"),
    ] {
        for mode in ["cors", "no-cors"] {
            let by_fetch = [host, ("origin", origin), ("sec-fetch-site", site), ("sec-fetch-mode", mode), JSON];
            assert_eq!(tried(&running, &by_fetch).await, (403, 0), "{origin} {mode}");
        }
        // Old browsers send only one of the two headers.
        assert_eq!(tried(&running, &[host, ("origin", origin), JSON]).await, (403, 0), "{origin}");
        assert_eq!(tried(&running, &[host, ("sec-fetch-site", site), JSON]).await, (403, 0), "{origin}");
        // The preflight request is refused, and the answer allows nothing.
        let preflight = [
            host,
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type"),
            ("access-control-request-private-network", "true"),
        ];
        let preflight = request("OPTIONS", &format!("{SERVICE}IncrementElicitation"), &preflight, b"");
        let answer = ask(&running.address, &preflight).await;
        assert_eq!(answer.status, 403, "{origin}");
        assert!(answer.header("access-control-allow-origin").is_none(), "{answer:?}");
    }
}

/// Forms, beacons and similar requests are what browsers call simple: without a preflight request, and with one of
/// three content types.
#[tokio::test]
async fn g8_a_form_or_a_beacon_changes_nothing_even_without_the_headers_of_a_browser() {
    let running = Running::start(config()).await;
    let host = ("host", running.address.as_str());
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
        "text/plain;charset=UTF-8",
    ] {
        assert_eq!(tried(&running, &[host, ("content-type", content_type)]).await, (415, 0), "{content_type}");
        let form =
            [host, ("origin", "http://evil.test"), ("sec-fetch-site", "cross-site"), ("content-type", content_type)];
        assert_eq!(tried(&running, &form).await, (403, 0), "{content_type}");
    }
    assert_eq!(tried(&running, &[host]).await, (415, 0), "no content type");
    assert_eq!(tried(&running, &[host, JSON]).await, (200, 1), "JSON");
}

/// Images, scripts, frames, links and `EventSource` send GET.
#[tokio::test]
async fn g8_nothing_changes_by_get_and_another_origin_reads_nothing_by_it() {
    let running = Running::start(config()).await;
    running.api().await.increment("t", None).await;
    let get = async |target: &str, headers: &[(&str, &str)]| {
        let headers = [&[("host", running.address.as_str())], headers].concat();
        let mut connection = Connection::open(&running.address).await;
        connection.send(&request("GET", target, &headers, b"")).await;
        connection.head().await.status
    };
    let call = |method: &str| format!("{SERVICE}{method}?message=%7B%22threadId%22:%22t%22%7D");
    let events = ("accept", "text/event-stream");
    for method in ["IncrementElicitation", "DecrementElicitation", "RenewElicitation"] {
        assert_eq!(get(&call(method), &[]).await, 405, "{method}");
        assert_eq!(get(&call(method), &[events]).await, 405, "{method}");
    }
    for (destination, mode) in [
        ("image", "no-cors"),
        ("script", "no-cors"),
        ("iframe", "navigate"),
        ("document", "navigate"),
        ("empty", "cors"),
        ("object", "navigate"),
    ] {
        for site in ["cross-site", "same-site"] {
            let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", destination)];
            assert_eq!(get(&call("GetPauseState"), &headers).await, 403, "{destination} {site}");
            let events = [&headers[..], &[events]].concat();
            assert_eq!(get(&format!("{SERVICE}WatchPauseState"), &events).await, 403, "{destination} {site}");
            let page = if destination == "document" { 200 } else { 403 };
            assert_eq!(get("/", &headers).await, page, "a link may lead to the page: {destination} {site}");
        }
    }
    let own = [("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")];
    assert_eq!(get(&call("GetPauseState"), &own).await, 200);
    assert_eq!(get(&format!("{SERVICE}WatchPauseState"), &[&own[..], &[events]].concat()).await, 200);
    assert_eq!(get("/", &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")]).await, 200);
    assert_eq!(running.api().await.get("t").await.count, 1);
}

#[tokio::test]
async fn g8_grpc_over_http1_is_refused() {
    let running = Running::start(config()).await;
    for content_type in ["application/grpc", "application/grpc+proto", "application/grpc-web+proto", "Application/Grpc"]
    {
        assert_eq!(tried(&running, &[("content-type", content_type)]).await, (505, 0), "{content_type}");
    }
    running.api().await.increment("t", None).await;
}

/// Refused requests count as calls, but not as invalid tokens: a person who has opened such a page has lost no token.
#[tokio::test]
async fn g7_what_is_refused_for_its_host_or_origin_counts_against_the_rate_of_calls() {
    let limits = Limits { calls: LimitPair { in_all: None, per_caller: Some(1) }, ..Limits::default() };
    let server = Server::start(Config { limits, metrics: Some("127.0.0.1:0".into()), ..config() }).await.unwrap();
    let metrics = server.metrics_address().unwrap();
    let running = Running::of(server);
    for (headers, status) in [
        (&[("host", "evil.test"), JSON][..], 421),
        (&[("origin", "http://evil.test"), JSON], 403),
        (&[("content-type", "application/grpc")], 505),
    ] {
        let mut statuses = std::collections::BTreeSet::new();
        timed("both answers", async {
            while statuses.len() < 2 {
                statuses.insert(ask(&running.address, &increment(headers)).await.status);
            }
        })
        .await;
        assert_eq!(statuses, [status, 429].into(), "{headers:?}");
    }
    let samples = scrape(&metrics).await;
    assert!(samples.get("pausewatch_calls_total{rpc=\"other\",code=\"INVALID_ARGUMENT\"}") >= 3.0);
    assert!(samples.values.keys().all(|sample| !sample.contains("PERMISSION_DENIED")), "{:?}", samples.values);
}

/// A browser sends cookies by itself, and stores addresses in its history.
#[tokio::test]
async fn g8_a_token_is_read_from_its_header_alone() {
    use pausewatch::test_support::access::{AccessConfig, Grant, Role};
    use pausewatch::test_support::core::scope::Scope;
    let grant = Grant::new("s", Role::Holder, Scope::ALL);
    let access = Some(AccessConfig { given: vec![("a-token".into(), grant)], ..AccessConfig::default() });
    let running = Running::start(Config { access, ..config() }).await;
    let status = async |target: &str, headers: &[(&str, &str)]| {
        let request = request("GET", &format!("{SERVICE}{target}"), headers, b"");
        ask(&running.address, &request).await.status
    };
    assert_eq!(status("ListPauseStates", &[("authorization", "Bearer a-token")]).await, 200);
    for query in ["access_token=a-token", "token=a-token", "authorization=Bearer+a-token"] {
        assert_eq!(status(&format!("ListPauseStates?{query}"), &[]).await, 401, "{query}");
    }
    for cookie in ["authorization=Bearer a-token", "token=a-token"] {
        assert_eq!(status("ListPauseStates", &[("cookie", cookie)]).await, 401, "{cookie}");
    }
    let page = ask(&running.address, &request("GET", "/", &[], b"")).await;
    assert_eq!(page.status, 200, "the page itself has no secrets, so it needs no token");
}

#[tokio::test]
async fn g8_with_tls_a_page_in_plain_text_is_another_origin() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("one");
    let ca = authority.write(&directory.path().join("ca.crt"));
    let (cert, key) = authority.issue().write(directory.path(), "server");
    let tls = Some(TlsFiles { cert, key, client_ca: None });
    let running = Running::start(Config { tls, ..config() }).await;
    let address = running.address.strip_prefix("https://").unwrap_or(&running.address).to_owned();
    for (origin, status) in [(format!("https://{address}"), 200), (format!("http://{address}"), 403)] {
        let (mut connection, chosen) = Connection::tls(&address, ca.to_str().unwrap(), &["http/1.1"]).await;
        assert_eq!(chosen.as_deref(), Some(&b"http/1.1"[..]));
        let request = increment(&[("host", &address), ("origin", &origin), JSON]);
        assert_eq!(connection.ask(&request).await.status, status, "{origin}");
    }
}

#[tokio::test]
async fn the_page_loads_its_own_files_and_nothing_else() {
    let running = Running::start(config()).await;
    for (path, media_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
    ] {
        let answer = ask(&running.address, &request("GET", path, &[], b"")).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(media_type)));
        assert_eq!(
            answer.header("content-security-policy").unwrap(),
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        );
        assert!(!answer.body.is_empty());
    }
}
