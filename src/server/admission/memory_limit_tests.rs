use super::super::memory_budget::MemoryBudget;
use super::*;
use crate::coordinator::quota::{Accounts, CallerKey};
use http_body_util::{BodyExt, StreamBody};
use std::time::Duration;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tonic::Code;

/// How the body of a request ends that never comes, within an hour; `None`: it has not ended.
async fn end_of_half_a_request(path: &str, begun: &'static [u8]) -> Option<Code> {
    let connection =
        Arc::<MemoryBudget>::default().connection(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None);
    let reads = tower::service_fn(|request: http::Request<Body>| {
        Box::pin(async move {
            let status = request.into_body().collect().await.map(drop).expect_err("it does not come");
            Ok::<_, Infallible>(status.into_http::<Body>())
        })
    });
    let begun = tokio_stream::once(Ok::<_, Status>(Frame::data(Bytes::from_static(begun))));
    let body = Body::new(StreamBody::new(begun.chain(tokio_stream::pending())));
    let request = http::Request::builder().uri(path).extension(connection).body(body).unwrap();
    let answer = timeout(Duration::from_secs(3_600), MemoryLimit(reads).call(request)).await.ok()?.unwrap();
    Status::from_header_map(answer.headers()).map(|status| status.code())
}

#[tokio::test(start_paused = true)]
async fn g7_half_a_request_is_not_kept_for_ever_but_a_stream_of_requests_is() {
    let ours = ["IncrementElicitation", "GetPauseState", "WatchPauseState"];
    let ours = ours.map(|rpc| format!("/pausewatch.v1.ElicitationService/{rpc}"));
    for path in ours.iter().map(String::as_str).chain(["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"])
    {
        assert_eq!(end_of_half_a_request(path, b"").await, Some(Code::DeadlineExceeded), "{path}");
    }
    for path in ["/pausewatch.v1.ElicitationService/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"]
    {
        assert_eq!(end_of_half_a_request(path, b"").await, None, "{path}");
    }
    let (path, whole) = ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", b"\0\0\0\0\x02\x3a\0");
    assert_eq!(end_of_half_a_request(path, whole).await, None, "it may be silent between requests");
    assert_eq!(end_of_half_a_request(path, &whole[..6]).await, Some(Code::DeadlineExceeded), "half of one");
}

#[tokio::test]
async fn the_requests_of_a_stream_do_not_add_up() {
    let connection =
        Arc::<MemoryBudget>::default().connection(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None);
    let reads = tower::service_fn(|request: http::Request<Body>| {
        Box::pin(async move {
            let mut body = request.into_body();
            while body.frame().await.is_some() {}
            Ok::<_, Infallible>(http::Response::new(Body::empty()))
        })
    });
    let one = Bytes::from(vec![0; 50_000]);
    let requests = tokio_stream::iter(0..4_000).then(move |_| {
        let one = one.clone();
        async move {
            tokio::task::yield_now().await;
            Ok::<_, Status>(Frame::data(one))
        }
    });
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let body = Body::new(StreamBody::new(Box::pin(requests)));
    let request = http::Request::builder().uri(path).extension(connection.clone()).body(body).unwrap();
    MemoryLimit(reads).call(request).await.unwrap();
    assert!(!connection.closing().is_cancelled());
}

#[tokio::test]
async fn a_request_that_does_not_come_whole_is_an_error_of_its_client() {
    type Part = Result<Frame<Bytes>, Status>;
    let end = async |version, parts: Vec<Part>| {
        let connection =
            Arc::<MemoryBudget>::default().connection(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None);
        let reads = tower::service_fn(|request: http::Request<Body>| {
            Box::pin(async move {
                let status = request.into_body().collect().await.map_or_else(|status| status, |_| Status::ok(""));
                Ok::<_, Infallible>(status.into_http::<Body>())
            })
        });
        // As the body of a stream that was reset, it does not say that it is at its end.
        let body = Body::new(StreamBody::new(tokio_stream::iter(parts)));
        let request = http::Request::builder().version(version).extension(connection).body(body).unwrap();
        let answer = MemoryLimit(reads).call(request).await.unwrap();
        Status::from_header_map(answer.headers()).map(|status| status.code())
    };
    let part = || Ok(Frame::data(Bytes::from_static(b"half")));
    for code in [Code::Internal, Code::Unknown, Code::Cancelled] {
        let parts = vec![part(), Err(Status::new(code, "the connection is broken"))];
        assert_eq!(end(http::Version::HTTP_11, parts).await, Some(Code::InvalidArgument), "{code}");
    }
    assert_eq!(end(http::Version::HTTP_2, vec![part()]).await, Some(Code::InvalidArgument));
    assert_eq!(end(http::Version::HTTP_11, vec![part()]).await, Some(Code::Ok));
}

/// The change may have been made already: a refusal would make the caller believe that nothing is open.
#[tokio::test]
async fn g4_a_call_on_a_connection_closed_for_its_memory_is_not_reported_as_refused() {
    let answered = tower::service_fn(|_| std::future::ready(Ok(http::Response::new(Body::empty()))));
    let connection =
        Arc::<MemoryBudget>::default().connection(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None);
    let call = || {
        MemoryLimit(answered).call(http::Request::builder().extension(connection.clone()).body(Body::empty()).unwrap())
    };
    assert_eq!(Status::from_header_map(call().await.unwrap().headers()).map(|status| status.code()), None);
    connection.closing().cancel();
    let refusal = Status::from_header_map(call().await.unwrap().headers());
    assert_eq!(refusal.map(|status| status.code()), Some(Code::Unavailable));
}
