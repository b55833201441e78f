//! HTTP/1.1 and HTTP/2, over TCP, TLS and Unix sockets.
use super::client::{Connection, SERVICE, ask, json, json_with, request};
use crate::support::certs::Authority;
use crate::support::{Running, channel, config, embedded, timed, unix};
use bytes::Bytes;
use http_body_util::BodyExt;
use pausewatch::server::{Config, TlsFiles};
use tonic::body::Body;
use tonic::codegen::Service;

const INCREMENT: &str = r#"{"threadId":"t"}"#;

/// Only processes of the same user can connect to a Unix socket, and web pages cannot.
#[tokio::test]
async fn over_a_unix_socket_any_host_is_answered_and_a_percent_in_the_path_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.sock");
    let running = Running::start(Config { listen: vec![unix(&path)], ..config() }).await;
    for headers in [
        &[("host", "localhost")][..],
        &[("host", "anything.test")],
        &[("host", "")],
        &[("host", "a"), ("origin", "http://b"), ("sec-fetch-site", "cross-site")],
    ] {
        let answer = ask(&running.address, &json_with("IncrementElicitation", headers, INCREMENT)).await;
        assert_eq!(answer.status, 200, "{headers:?}");
    }
    let get = format!("{SERVICE}GetPauseState?message=%7B%22threadId%22:%22t%22%7D");
    let state = ask(&running.address, &request("GET", &get, &[], b"")).await.json();
    assert_eq!(state["pauseState"]["count"], 4);
    let grpc = request("POST", &format!("{SERVICE}GetPauseState"), &[("content-type", "application/grpc")], b"");
    assert_eq!(ask(&running.address, &grpc).await.status, 505);
    assert_eq!(running.api().await.get("t").await.count, 4, "gRPC is on the same socket");
}

#[tokio::test]
async fn a_connection_serves_many_requests_one_after_the_other() {
    let running = Running::start(config()).await;
    let mut connection = Connection::open(&running.address).await;
    for count in 1..=3 {
        assert_eq!(connection.ask(&json("IncrementElicitation", INCREMENT)).await.json()["count"], count);
        assert_eq!(connection.ask(&json("IncrementElicitation", "{}")).await.status, 400);
    }
    // Requests are sent without waiting for answers.
    let pipelined = [json("IncrementElicitation", INCREMENT), json("DecrementElicitation", INCREMENT)].concat();
    assert_eq!(connection.ask(&pipelined).await.json()["count"], 4);
    assert_eq!(connection.answer(true).await.json()["count"], 3);
}

/// The client closes its sending side, as `nc -N` does.
#[tokio::test]
async fn a_client_that_closes_its_side_behind_its_requests_gets_the_answers() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(embedded(directory.path())).await;
    for count in [1, 3] {
        let mut connection = Connection::open(&running.address).await;
        let requests = [json("IncrementElicitation", INCREMENT), json("IncrementElicitation", INCREMENT)].concat();
        connection.send(&requests).await;
        connection.finish().await;
        for count in [count, count + 1] {
            assert_eq!(connection.answer(true).await.json()["count"], count);
        }
        assert_eq!(connection.closed().await, b"", "the connection is closed without further bytes");
    }
}

#[tokio::test]
async fn http2_in_plain_text_has_both() {
    let running = Running::start(config()).await;
    running.api().await.increment("t", None).await;
    let mut channel = channel(&running.address).await;
    let mut send = async |method: &str, headers: &[(&str, &str)]| {
        let mut request = http::Request::post(format!("http://{}{SERVICE}{method}", running.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::new(http_body_util::Full::new(Bytes::from(INCREMENT)))).unwrap();
        std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
        let (head, body) = timed("an answer", channel.call(request)).await.unwrap().into_parts();
        (head.status.as_u16(), timed("its body", body.collect()).await.unwrap().to_bytes())
    };
    let json = ("content-type", "application/json");
    let (status, body) = send("IncrementElicitation", &[json]).await;
    let count = &serde_json::from_slice::<serde_json::Value>(&body).unwrap()["count"];
    assert_eq!((status, count), (200, &serde_json::json!(2)));
    for attack in [("origin", "http://evil.test"), ("sec-fetch-site", "cross-site")] {
        assert_eq!(send("IncrementElicitation", &[json, attack]).await.0, 403, "{attack:?}");
        let grpc = ("content-type", "application/grpc");
        assert_eq!(send("IncrementElicitation", &[grpc, attack]).await.0, 403, "{attack:?}");
    }
    assert_eq!(running.api().await.get("t").await.count, 2);
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_over_http2_either() {
    let running = Running::start(config()).await;
    let mut channel = channel(&running.address).await;
    for (path, status) in [("/", 200), ("/page.js", 200), ("/nothing", 404), (&format!("{SERVICE}GetPauseState"), 405)]
    {
        let mut ask = async |method: &str| {
            let request = http::Request::builder().method(method).uri(format!("http://{}{path}", running.address));
            std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
            let answer = timed("an answer", channel.call(request.body(Body::empty()).unwrap())).await.unwrap();
            let (head, body) = answer.into_parts();
            let body =
                timed("its end", body.collect()).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
            (head.status.as_u16(), head.headers["content-length"].clone(), body.to_bytes())
        };
        let (answered, length, body) = ask("HEAD").await;
        assert_eq!((answered, &body[..]), (status, &b""[..]), "{path}");
        if status == 200 {
            let (_, of_get, body) = ask("GET").await;
            assert!(length == of_get && length.to_str().unwrap() == body.len().to_string(), "{path}: {length:?}");
        }
    }
}

/// The generated code ignores the HTTP method.
#[tokio::test]
async fn grpc_is_called_by_post_alone() {
    let running = Running::start(config()).await;
    let mut channel = channel(&running.address).await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let uri = format!("http://{}{SERVICE}IncrementElicitation", running.address);
        let request = http::Request::builder().method(method).uri(uri).header("content-type", "application/grpc");
        let message = Bytes::from_static(b"\0\0\0\0\x03\x0a\x01t");
        let request = request.body(Body::new(http_body_util::Full::new(message))).unwrap();
        std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
        let answer = timed("an answer", channel.call(request)).await.unwrap();
        assert_eq!(answer.status(), 405, "{method}");
        assert_eq!(answer.headers()["allow"], "POST", "{method}");
    }
    assert_eq!(running.api().await.increment("t", None).await.count, 1);
}

#[tokio::test]
async fn tls_offers_both_and_prefers_http2() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("one");
    let ca = authority.write(&directory.path().join("ca.crt"));
    let (cert, key) = authority.issue().write(directory.path(), "server");
    let tls = || Some(TlsFiles { cert: cert.clone(), key: key.clone(), client_ca: None });
    let running = Running::start(Config { tls: tls(), ..config() }).await;
    let address = |running: &Running| running.address.strip_prefix("https://").unwrap_or(&running.address).to_owned();
    let ca = ca.to_str().unwrap();
    for (offered, chosen) in [
        (&["http/1.1"][..], Some(&b"http/1.1"[..])),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&["h2"], Some(b"h2")),
        (&[], None),
    ] {
        let (mut connection, got) = Connection::tls(&address(&running), ca, offered).await;
        assert_eq!(got.as_deref(), chosen, "{offered:?}");
        if !offered.contains(&"h2") {
            assert_eq!(connection.ask(&json("IncrementElicitation", INCREMENT)).await.status, 200, "{offered:?}");
        }
    }
    let grpc_alone = Running::start(Config { tls: tls(), http: false, ..config() }).await;
    let (_, got) = Connection::tls(&address(&grpc_alone), ca, &["http/1.1", "h2"]).await;
    assert_eq!(got.as_deref(), Some(&b"h2"[..]));
}
