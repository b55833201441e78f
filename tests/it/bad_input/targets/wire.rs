//! Bytes as the messages of calls, through the gRPC service and the rules: every accepted message is within the limits
//! of the API, and no message within them is refused as a bad field.
//!
//! An input is a sequence of calls: a byte that selects the call, the length in two bytes, the message.
use bytes::Bytes;
use http_body::Frame;
use pausewatch::proto::v1;
use pausewatch::test_support::clock::Manual;
use pausewatch::test_support::coordinator::Coordinator;
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::core::scope::Scope;
use pausewatch::test_support::server::Elicitations;
use pausewatch::test_support::store::Memory;
use prost::Message;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::{Code, Status};
use tonic_types::StatusExt;

const CALLS: [&str; 7] = [
    "IncrementElicitation",
    "DecrementElicitation",
    "RenewElicitation",
    "GetPauseState",
    "ListPauseStates",
    "WatchPauseState",
    "ListPauses",
];
/// Set in the byte that selects the call: the message is sent without the frame that gRPC puts around it.
const UNFRAMED: u8 = 0x80;

pub(super) fn check(input: &[u8]) {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            check_calls(input).await;
            // Nothing waits any more: lets the tasks of this coordinator end now; a search of hours would otherwise
            // collect them.
            tokio::task::yield_now().await;
        });
    });
}

async fn check_calls(mut input: &[u8]) {
    let start = Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 };
    let clock = Arc::new(Manual::new(start, 1));
    let day = Some(Duration::from_secs(24 * 60 * 60));
    let coordinator = Coordinator::start(Box::new(Memory), clock.clone(), day, |_| unreachable!("nothing is kept"));
    let coordinator = Arc::new(coordinator.expect("nothing has to be loaded"));
    let mut service = Elicitations::new(coordinator.clone(), clock.clone(), Arc::default(), None);
    while let [which, high, low, rest @ ..] = input {
        let (message, rest) = rest.split_at(rest.len().min(usize::from(u16::from_be_bytes([*high, *low]))));
        input = rest;
        let call = CALLS[usize::from(which & !UNFRAMED) % CALLS.len()];
        let body = if which & UNFRAMED == 0 { framed(message) } else { message.to_vec() };
        let outcome = answer(&mut service, call, body).await;
        if which & UNFRAMED == 0 {
            check_outcome(call, message, &outcome);
        }
        check_state(&coordinator);
        clock.advance(Duration::from_millis(u64::from(*which)));
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("it came with 16 bits");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// A body that is complete at once.
struct Whole(Option<Bytes>);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// How the call ends; a watch that begins counts as accepted.
async fn answer(service: &mut Elicitations, call: &str, body: Vec<u8>) -> Result<(), Status> {
    let request = http::Request::post(format!("http://h/pausewatch.v1.ElicitationService/{call}"))
        .header("content-type", "application/grpc")
        .body(Body::new(Whole(Some(body.into()))));
    let response = service.call(request.expect("a request")).await.expect("infallible");
    let (head, mut body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&head.headers) {
        return if status.code() == Code::Ok { Ok(()) } else { Err(status) };
    }
    if call == "WatchPauseState" {
        return Ok(());
    }
    let mut trailers = None;
    while let Some(frame) = std::future::poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut body), cx)).await {
        trailers = frame.expect("an answer in memory").into_trailers().ok();
    }
    let status = trailers.as_ref().and_then(Status::from_header_map).expect("an answer ends with a status");
    if status.code() == Code::Ok { Ok(()) } else { Err(status) }
}

fn is_thread(id: &str) -> bool {
    (1..=256).contains(&id.len()) && !id.chars().any(char::is_control)
}

fn is_lease(ttl: &Option<prost_types::Duration>) -> bool {
    let Some(ttl) = ttl else { return true };
    let whole = i128::from(ttl.seconds) * 1_000_000_000 + i128::from(ttl.nanos);
    (0..1_000_000_000).contains(&ttl.nanos) && (1_000_000_000..=86_400_000_000_000).contains(&whole)
}

/// Whether the message can be decoded, and whether its fields are within the limits; `None` for a page token, which
/// only the server can check.
fn is_within(call: &str, message: &[u8]) -> Result<Option<bool>, prost::DecodeError> {
    Ok(match call {
        "IncrementElicitation" => {
            let asked = v1::IncrementElicitationRequest::decode(message)?;
            let texts = asked.request_id.len() <= 128 && asked.reason.len() <= 1_024 && asked.holder.len() <= 256;
            Some(is_thread(&asked.thread_id) && texts && is_lease(&asked.ttl))
        }
        "DecrementElicitation" => {
            let asked = v1::DecrementElicitationRequest::decode(message)?;
            let named = asked.elicitation_id.is_none_or(|id| (1..=64).contains(&id.len()));
            Some(is_thread(&asked.thread_id) && named && asked.request_id.len() <= 128)
        }
        "RenewElicitation" => {
            let asked = v1::RenewElicitationRequest::decode(message)?;
            let named = (1..=64).contains(&asked.elicitation_id.len());
            Some(is_thread(&asked.thread_id) && named && is_lease(&asked.ttl))
        }
        "GetPauseState" => Some(is_thread(&v1::GetPauseStateRequest::decode(message)?.thread_id)),
        "ListPauseStates" => {
            let asked = v1::ListPauseStatesRequest::decode(message)?;
            if asked.page_size < 0 { Some(false) } else { asked.page_token.is_empty().then_some(true) }
        }
        "ListPauses" => {
            let asked = v1::ListPausesRequest::decode(message)?;
            let order = |time: &prost_types::Timestamp| (time.seconds, time.nanos);
            let interval = [&asked.start_time, &asked.end_time].map(|time| time.as_ref().map(order));
            let is_in_order = !matches!(interval, [Some(start), Some(end)] if end < start);
            let are_times = interval.into_iter().flatten().all(|(seconds, nanos)| {
                (-62_135_596_800..=253_402_300_799).contains(&seconds) && (0..1_000_000_000).contains(&nanos)
            });
            let is_thread = asked.thread_id.is_empty() || is_thread(&asked.thread_id);
            match asked.page_size >= 0 && is_thread && are_times && is_in_order {
                true => asked.page_token.is_empty().then_some(true),
                false => Some(false),
            }
        }
        _ => {
            let asked = v1::WatchPauseStateRequest::decode(message)?;
            Some(asked.thread_ids.len() <= 10_000 && asked.thread_ids.iter().all(|id| is_thread(id)))
        }
    })
}

fn check_outcome(call: &str, message: &[u8], outcome: &Result<(), Status>) {
    let reason = outcome.as_ref().err().map(|status| {
        let details = status.get_error_details();
        (status.code(), details.error_info().map(|info| info.reason.clone()).unwrap_or_default())
    });
    let is_bad_field = reason == Some((Code::InvalidArgument, "INVALID_FIELD".to_owned()));
    match is_within(call, message) {
        Err(_) => assert!(is_bad_field, "{call}: an undecodable message was not refused as a bad field: {reason:?}"),
        Ok(Some(true)) => assert!(!is_bad_field, "{call}: {:?}", outcome.as_ref().err()),
        Ok(Some(false)) => assert!(is_bad_field, "{call}: out of limits, and the answer is {reason:?}"),
        Ok(None) => {}
    }
}

/// Asserts that all state of the server is within the limits.
fn check_state(coordinator: &Coordinator) {
    let (views, more) = coordinator.hub().list(None, 10_000, true, &Scope::ALL);
    assert!(!more);
    for view in views {
        assert!(is_thread(view.thread.as_str()), "{:?}", view.thread);
        let header = view.header.expect("listed threads are known");
        assert_eq!(header.pause.since.is_some(), !view.open.is_empty(), "{:?}", view.thread);
        assert!(view.open.len() <= 1_000);
        for shown in &view.open {
            assert!(shown.elicitation.reason.len() <= 1_024 && shown.elicitation.holder.len() <= 256);
        }
    }
}

/// The calls, encoded as an input.
fn sequence(calls: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let call = |(which, message): &(u8, Vec<u8>)| {
        let length = u16::try_from(message.len()).expect("seeds are short");
        [&[*which], &length.to_be_bytes()[..], message].concat()
    };
    calls.iter().flat_map(call).collect()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let increment = |thread: &str, reason: usize, seconds: i64| v1::IncrementElicitationRequest {
        thread_id: thread.into(),
        request_id: "r".into(),
        reason: "y".repeat(reason),
        holder: "h".into(),
        ttl: Some(prost_types::Duration { seconds, nanos: 0 }),
    };
    let decrement = |id: Option<&str>, request_id: usize| v1::DecrementElicitationRequest {
        thread_id: "t".into(),
        elicitation_id: id.map(str::to_owned),
        request_id: "q".repeat(request_id),
    };
    let renew = |id: &str, nanos: i32| v1::RenewElicitationRequest {
        thread_id: "t".into(),
        elicitation_id: id.into(),
        ttl: Some(prost_types::Duration { seconds: 1, nanos }),
    };
    let get = |thread: String| v1::GetPauseStateRequest { thread_id: thread }.encode_to_vec();
    let list = |page_size, token: &str| v1::ListPauseStatesRequest {
        page_size,
        page_token: token.into(),
        include_running: true,
    };
    let watch = |ids: &[&str]| v1::WatchPauseStateRequest {
        thread_ids: ids.iter().map(|&id| id.to_owned()).collect(),
        include_elicitations: true,
        observer: true,
    };
    let pauses = |thread: &str, start: (i64, i32), end: (i64, i32), token: &str| {
        let time = |(seconds, nanos)| Some(prost_types::Timestamp { seconds, nanos });
        let (start_time, end_time) = (time(start), time(end));
        let (thread_id, page_token) = (thread.into(), token.into());
        v1::ListPausesRequest { page_size: 1, page_token, thread_id, start_time, end_time }.encode_to_vec()
    };
    vec![
        sequence(&[
            (0, increment("t", 1, 1).encode_to_vec()),
            (1, decrement(None, 0).encode_to_vec()),
            (6, pauses("t", (-62_135_596_800, 0), (253_402_300_799, 999_999_999), "")),
            (6, pauses("", (1, 0), (1, 0), "")),
        ]),
        sequence(&[(6, pauses("t", (2, 0), (1, 0), "")), (6, pauses("t", (1, -1), (1, 1_000_000_000), ""))]),
        sequence(&[(6, pauses(&"t".repeat(257), (0, 0), (0, 0), &"0".repeat(48)))]),
        sequence(&[
            (0, increment("t", 1_024, 86_400).encode_to_vec()),
            (3, get("t".into())),
            (5, watch(&["t", "u"]).encode_to_vec()),
            (1, decrement(None, 128).encode_to_vec()),
            (1, decrement(None, 0).encode_to_vec()),
            (4, list(0, "").encode_to_vec()),
        ]),
        sequence(&[(0, increment("t", 1_025, 1).encode_to_vec())]),
        sequence(&[(0, increment("t", 0, 86_401).encode_to_vec()), (0, increment("a\nb", 0, 1).encode_to_vec())]),
        sequence(&[(1, decrement(Some(&"e".repeat(64)), 129).encode_to_vec())]),
        sequence(&[
            (1, decrement(Some(""), 0).encode_to_vec()),
            (1, decrement(Some(&"e".repeat(65)), 0).encode_to_vec()),
        ]),
        sequence(&[(2, renew("e", 0).encode_to_vec()), (2, renew("", -1).encode_to_vec())]),
        sequence(&[(3, get("t".repeat(256))), (3, get("t".repeat(257))), (3, get("\u{85}".into()))]),
        sequence(&[(4, list(-1, "").encode_to_vec()), (4, list(i32::MAX, "k74").encode_to_vec())]),
        sequence(&[(5, watch(&["t", ""]).encode_to_vec()), (5, watch(&[]).encode_to_vec())]),
        sequence(&[(UNFRAMED, vec![0, 0xff, 0xff, 0xff, 0xff]), (UNFRAMED | 5, vec![1, 0, 0, 0, 0])]),
    ]
}
