//! Unary calls by POST and by GET, their errors, and that they equal the calls of gRPC.
use super::client::{Answer, SERVICE, ask, json, json_with, request};
use crate::support::{Running, channel, config, scrape, timed};
use bytes::Bytes;
use pausewatch::proto::v1;
use pausewatch::server::{AuditConfig, Config, Server};
use prost::Message;
use serde_json::json;
use tonic::body::Body;
use tonic::codegen::Service;

fn get(target: &str) -> Vec<u8> {
    request("GET", &format!("{SERVICE}{target}"), &[], b"")
}

fn proto(method: &str, message: &impl Message) -> Vec<u8> {
    let headers = [("content-type", "application/proto")];
    request("POST", &format!("{SERVICE}{method}"), &headers, &message.encode_to_vec())
}

#[tokio::test]
async fn a_thread_is_paused_read_and_resumed_by_json() {
    let running = Running::start(config()).await;
    let ask = async |request: &[u8]| ask(&running.address, request).await;
    let opened = ask(&json("IncrementElicitation", r#"{"threadId":"t/ä","reason":"Push?","ttl":"30s"}"#)).await;
    assert_eq!((opened.status, opened.header("content-type")), (200, Some("application/json")), "{opened:?}");
    let opened = opened.json();
    assert_eq!((&opened["count"], &opened["paused"], &opened["watchers"]), (&json!(1), &json!(true), &json!(0)));
    assert!(opened["revision"].is_string(), "a number of 64 bits is a string in JSON");

    let state = ask(&get("GetPauseState?message=%7B%22threadId%22:%22t/%C3%A4%22%7D")).await.json();
    assert_eq!(state["pauseState"]["elicitations"][0]["reason"], "Push?");
    assert_eq!(state["pauseState"]["elicitations"][0]["elicitationId"], opened["elicitation"]["elicitationId"]);
    let list = ask(&get("ListPauseStates")).await.json();
    assert_eq!((&list["pauseStates"][0]["threadId"], &list["nextPageToken"]), (&json!("t/ä"), &json!("")));

    let id = &opened["elicitation"]["elicitationId"];
    let renewed = json!({ "thread_id": "t/ä", "elicitation_id": id, "ttl": "60s" }).to_string();
    assert_eq!(&ask(&json("RenewElicitation", &renewed)).await.json()["elicitation"]["elicitationId"], id);
    let closed = ask(&json("DecrementElicitation", r#"{"threadId":"t/ä"}"#)).await.json();
    assert_eq!((&closed["count"], &closed["paused"]), (&json!(0), &json!(false)), "default values are included");
    assert_eq!(running.api().await.get("t/ä").await.count, 0, "gRPC has the same state");
}

#[tokio::test]
async fn a_call_counts_once_whichever_way_it_comes() {
    let running = Running::start(config()).await;
    let message =
        v1::IncrementElicitationRequest { thread_id: "t".into(), request_id: "r".into(), ..Default::default() };
    let first = ask(&running.address, &proto("IncrementElicitation", &message)).await;
    assert_eq!((first.status, first.header("content-type")), (200, Some("application/proto")));
    let first = v1::IncrementElicitationResponse::decode(&first.body[..]).unwrap();
    let json = ask(&running.address, &json("IncrementElicitation", r#"{"threadId":"t","requestId":"r"}"#)).await;
    assert_eq!(json.json()["revision"], first.revision.to_string());
    let again = running.api().await.0.increment_elicitation(message).await.unwrap().into_inner();
    assert_eq!((first.elicitation, again.count), (again.elicitation, 1));
}

#[tokio::test]
async fn a_read_by_get_takes_proto_and_base64() {
    let running = Running::start(config()).await;
    running.api().await.increment("t", None).await;
    let answer = ask(&running.address, &get("GetPauseState?connect=v1&encoding=proto&base64=1&message=CgF0")).await;
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    let state = v1::GetPauseStateResponse::decode(&answer.body[..]).unwrap().pause_state.unwrap();
    assert_eq!((state.thread_id.as_str(), state.count), ("t", 1));
}

#[tokio::test]
async fn an_error_has_its_code_its_status_and_its_reason() {
    let running = Running::start(config()).await;
    let refused = async |method, body| ask(&running.address, &json(method, body)).await;
    for (method, body, status, code, reason) in [
        ("GetPauseState", r#"{"threadId":""}"#, 400, "invalid_argument", "INVALID_FIELD"),
        ("GetPauseState", r#"{"threadId":7}"#, 400, "invalid_argument", "INVALID_FIELD"),
        ("GetPauseState", r#"{"thread":"t"}"#, 400, "invalid_argument", "INVALID_FIELD"),
        ("GetPauseState", "", 400, "invalid_argument", "INVALID_FIELD"),
        ("GetPauseState", "threadId=t", 400, "invalid_argument", "INVALID_FIELD"),
        ("DecrementElicitation", r#"{"threadId":"t"}"#, 400, "failed_precondition", "NO_OUTSTANDING_ELICITATION"),
        ("RenewElicitation", r#"{"threadId":"t","elicitationId":"e"}"#, 404, "not_found", "ELICITATION_UNKNOWN"),
        ("Nothing", "{}", 404, "unimplemented", ""),
        ("Watch", "{}", 501, "unimplemented", ""),
    ] {
        let answer = refused(method, body).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (status, Some("application/json")),
            "{method} {body}"
        );
        assert_eq!(answer.error(), (code.to_owned(), reason.to_owned()), "{method} {body}: {answer:?}");
    }
    let field = refused("IncrementElicitation", r#"{"threadId":"t","ttl":"0.1s"}"#).await.json();
    assert_eq!(field["details"][0]["debug"]["metadata"]["field"], "ttl");
    assert_eq!(field["details"][1]["type"], "google.rpc.BadRequest");
    let version = [("connect-protocol-version", "1")];
    let newer = ask(&running.address, &json_with("GetPauseState", &version, r#"{"threadId":"t","new":1}"#)).await;
    assert_eq!(newer.status, 200, "the client may use a newer version of the protocol: {newer:?}");
}

#[tokio::test]
async fn a_request_in_another_form_is_refused_with_the_forms_that_are_read() {
    let running = Running::start(config()).await;
    let post = |method: &str, content_type: &str| {
        request("POST", &format!("{SERVICE}{method}"), &[("content-type", content_type)], br#"{"threadId":"t"}"#)
    };
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
        let answer = ask(&running.address, &post("IncrementElicitation", content_type)).await;
        assert_eq!((answer.status, answer.header("accept-post")), (415, Some("application/json, application/proto")));
    }
    for path in ["/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"] {
        let answer =
            ask(&running.address, &request("POST", path, &[("content-type", "application/json")], b"{}")).await;
        assert_eq!((answer.status, answer.header("accept-post")), (415, Some("application/grpc")), "{path}");
    }
    for verb in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let target = format!("{SERVICE}IncrementElicitation?message=%7B%22threadId%22:%22t%22%7D");
        let answer = ask(&running.address, &request(verb, &target, &[], b"")).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{verb}");
    }
    let compressed = json_with("IncrementElicitation", &[("content-encoding", "gzip")], r#"{"threadId":"t"}"#);
    let answer = ask(&running.address, &compressed).await;
    assert_eq!((answer.status, answer.error().0.as_str()), (501, "unimplemented"));
    assert!(answer.json()["message"].as_str().unwrap().contains("gzip"), "{answer:?}");
    assert_eq!(running.api().await.get("t").await.count, 0);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_before_it_is_sent_or_on_its_way() {
    let running = Running::start(config()).await;
    let announced = [("content-type", "application/json"), ("content-length", "10000000")];
    let head = request("POST", &format!("{SERVICE}IncrementElicitation"), &announced, b"");
    let answer = ask(&running.address, &head).await;
    assert_eq!((answer.status, answer.error().0.as_str()), (429, "resource_exhausted"), "the body is not sent");
    let chunked = [("content-type", "application/json"), ("transfer-encoding", "chunked"), ("content-length", "")];
    let head = request("POST", &format!("{SERVICE}IncrementElicitation"), &chunked, b"");
    let head = String::from_utf8(head).unwrap().replace("content-length: \r\n", "");
    let body = format!("{:x}\r\n{}\r\n0\r\n\r\n", 70_000, " ".repeat(70_000));
    let answer = ask(&running.address, &[head.as_bytes(), body.as_bytes()].concat()).await;
    assert_eq!((answer.status, answer.error().0.as_str()), (429, "resource_exhausted"));
    let fits = format!(r#"{{"threadId":"t"}}{}"#, " ".repeat(60_000));
    assert_eq!(ask(&running.address, &json("IncrementElicitation", &fits)).await.status, 200);
}

#[tokio::test]
async fn calls_over_http_are_in_the_metrics_and_in_the_audit_trail() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let audit = Some(AuditConfig { path: path.clone(), max_size: 1 << 20, keep: 1 });
    let server = Server::start(Config { audit, metrics: Some("127.0.0.1:0".into()), ..config() }).await.unwrap();
    let metrics = server.metrics_address().unwrap();
    let running = Running::of(server);
    ask(&running.address, &json("IncrementElicitation", r#"{"threadId":"t"}"#)).await;
    ask(&running.address, &json("IncrementElicitation", r#"{"threadId":""}"#)).await;
    ask(&running.address, &json_with("IncrementElicitation", &[("host", "evil.test")], r#"{"threadId":"t"}"#)).await;
    let samples = scrape(&metrics).await;
    for (rpc, code) in
        [("IncrementElicitation", "OK"), ("IncrementElicitation", "INVALID_ARGUMENT"), ("other", "INVALID_ARGUMENT")]
    {
        let sample = format!("pausewatch_calls_total{{rpc=\"{rpc}\",code=\"{code}\"}}");
        assert_eq!(samples.get(&sample), 1.0, "{rpc} {code}");
    }
    running.stop().await.unwrap();
    let audited = std::fs::read_to_string(path).unwrap();
    let lines: Vec<serde_json::Value> = audited.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["by"] == "127.0.0.1" && line["thread_id"] == "t"), "{audited}");
}

#[tokio::test]
async fn without_http_there_is_grpc_alone() {
    let running = Running::start(Config { http: false, ..config() }).await;
    for request in [json("IncrementElicitation", r#"{"threadId":"t"}"#), request("GET", "/", &[], b"")] {
        let mut connection = super::client::Connection::open(&running.address).await;
        connection.send(&request).await;
        let said = connection.closed().await;
        assert!(!said.starts_with(b"HTTP/1"), "{}", String::from_utf8_lossy(&said));
    }
    let over_http2 = async |content_type: &'static str| {
        let mut channel = channel(&running.address).await;
        let request = http::Request::post(format!("http://{}{SERVICE}IncrementElicitation", running.address));
        let body = Body::new(http_body_util::Full::new(Bytes::from(r#"{"threadId":"t"}"#)));
        let request = request.header("content-type", content_type).body(body).unwrap();
        std::future::poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
        timed("an answer", channel.call(request)).await.unwrap()
    };
    let answer = over_http2("application/json").await;
    assert!(answer.status() == 415 && answer.headers().contains_key("grpc-status"), "{answer:?}");
    assert_eq!(running.api().await.increment("t", None).await.count, 1);
}

/// Asserts that only pages of the same origin may use the answer.
fn is_of_this_origin(answer: &Answer) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    let forbidden = ["access-control-allow-origin", "access-control-allow-private-network", "set-cookie"];
    assert!(forbidden.iter().all(|name| answer.header(name).is_none()), "{answer:?}");
}

#[tokio::test]
async fn every_answer_is_of_this_origin_alone() {
    let running = Running::start(config()).await;
    let statuses = [
        (json("IncrementElicitation", r#"{"threadId":"t"}"#), 200),
        (json("IncrementElicitation", "{}"), 400),
        (json("Nothing", "{}"), 404),
        (request("GET", "/", &[], b""), 200),
        (request("HEAD", "/page.js", &[], b""), 200),
        (request("GET", "/favicon.ico", &[], b""), 404),
        (request("POST", "/", &[], b""), 405),
        (request("POST", "/x", &[], b""), 415),
        (request("GET", "/", &[("host", "evil.test")], b""), 421),
        (request("GET", "/", &[("origin", "null")], b""), 403),
        (request("POST", "/x", &[("content-type", "application/grpc")], b""), 505),
    ];
    for (request, status) in statuses {
        let answer = ask(&running.address, &request).await;
        assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(&request));
        is_of_this_origin(&answer);
    }
}
