//! Other clients than ours: generated stubs that name a socket by its path, and requests that are not gRPC.
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, frame, header, message, settings,
};
use crate::support::{Running, config, timed};
use pausewatch::proto::v1;
use pausewatch::server::Config;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tonic::body::Body;
use tonic::codegen::{Bytes, http};
use tower::{Service, ServiceExt};

const INCREMENT: &str = "/pausewatch.v1.ElicitationService/IncrementElicitation";

fn increment() -> Vec<u8> {
    let request = v1::IncrementElicitationRequest { thread_id: "t".to_owned(), ..Default::default() }.encode_to_vec();
    message(request.len(), &request)
}

/// What gRPC's C core (Python, Ruby, PHP, C++) and others send with their default settings.
#[tokio::test]
async fn a_path_as_authority_is_taken_over_a_unix_socket() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("p.sock");
    let listen = vec![format!("unix:{}", path.display()).parse().expect("an address")];
    let running = Running::start(Config { listen, ..config() }).await;
    for (count, authority) in [(1, "tmp%2Fp.sock"), (2, "/tmp/p.sock"), (3, "localhost")] {
        let fields =
            [(":path", INCREMENT), (":authority", authority), ("content-type", "application/grpc"), ("te", "trailers")];
        let fields = fields.iter().flat_map(|(name, value)| header(name, value));
        // From HPACK's static table: POST, http.
        let head: Vec<u8> = [0x83, 0x86].into_iter().chain(fields).collect();
        let call = [frame(HEADERS, END_HEADERS, 1, &head), frame(DATA, END_STREAM, 1, &increment())].concat();
        let mut stream = UnixStream::connect(&path).await.expect("it listens");
        stream.write_all(&[PREFACE, &settings(&[]), &call].concat()).await.expect("it reads");
        let kind = timed("an answer", answer(&mut stream)).await;
        assert_eq!(kind, HEADERS, "{authority}");
        assert_eq!(running.api().await.get("t").await.count, count, "{authority}");
    }
}

/// The kind of the first frame that answers or resets the call.
async fn answer(stream: &mut UnixStream) -> u8 {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("the connection goes on");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).await.expect("the connection goes on");
        if [HEADERS, RST_STREAM].contains(&head[3]) {
            return head[3];
        }
    }
}

#[tokio::test]
async fn what_is_not_grpc_is_refused_and_changes_nothing() {
    for http in [false, true] {
        let running = Running::start(Config { http, ..config() }).await;
        let mut channel = crate::support::channel(&running.address).await;
        let paths =
            [INCREMENT, "/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"];
        for (path, content_type) in paths.iter().flat_map(|path| {
            let others = ["text/plain", "application/grpc-web+proto", "application/grpc+json", "application/json"];
            others.map(Some).into_iter().chain([None]).map(move |of| (*path, of))
        }) {
            if http && path == INCREMENT && content_type == Some("application/json") {
                continue; // This is valid Connect.
            }
            let mut request = http::Request::post(format!("http://{}{path}", running.address));
            if let Some(content_type) = content_type {
                request = request.header("content-type", content_type);
            }
            let body = Body::new(http_body_util::Full::new(Bytes::from(increment())));
            let request = request.body(body).expect("a request");
            let answer =
                timed("an answer", channel.ready().await.expect("connected").call(request)).await.expect("an answer");
            assert_eq!(answer.status(), http::StatusCode::UNSUPPORTED_MEDIA_TYPE, "{path} {content_type:?}");
            if !http {
                let message = answer.headers().get("grpc-message").expect("a message").to_str().expect("text");
                assert!(message.contains("application/grpc"), "{message}");
            }
        }
        let mut api = running.api().await;
        assert_eq!(api.get("t").await.count, 0);
        assert_eq!(api.increment("t", None).await.count, 1);
    }
}
