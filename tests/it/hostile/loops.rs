//! Frames for which HTTP/2 does much, and honest clients that do much at once.
use super::{MIB, assert_bounded, serve};
use crate::support::http2::{
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM, Raw, call, call_to,
    frame, message, settings, streams,
};
use crate::support::{beside, timed};
use pausewatch::client::{Client, DecrementElicitationRequest, Event, IncrementElicitationRequest};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Long enough for any server to close a connection.
const UNTIL_CLOSED: Duration = Duration::from_secs(20);

/// HTTP/2 visits all streams for each of them.
#[tokio::test]
async fn endless_settings_and_goaways_on_many_streams_are_hung_up_on() {
    let server = serve();
    let attack = async {
        for without_token in [true, false] {
            let changed = [settings(&[(INITIAL_WINDOW_SIZE, 1)]), settings(&[(INITIAL_WINDOW_SIZE, 2)])].concat();
            for flood in [changed.repeat(273), frame(GOAWAY, 0, 0, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]).repeat(546)] {
                let mut raw = Raw::open(&server.address, &[]).await.unwrap();
                let head = if without_token {
                    call_to("/grpc.health.v1.Health/Check", "application/grpc")
                } else {
                    call("Watch")
                };
                for numbers in streams().take(1_000).collect::<Vec<_>>().chunks(100) {
                    let open = |&stream: &u32| frame(HEADERS, END_HEADERS, stream, &head);
                    raw.send_all(&numbers.iter().flat_map(open).collect::<Vec<_>>()).await;
                }
                raw.wait_for_pong().await.expect("1,000 streams are not too many");
                let _ = raw.send(&flood).await;
                let (closed, _) = raw.read_to_end(UNTIL_CLOSED).await;
                assert!(closed, "it goes on");
            }
        }
    };
    let (report, ()) = beside("546 SETTINGS, and GOAWAY, on 1,000 streams", &server, attack).await;
    assert_bounded(&report, 64 * MIB);
}

/// HTTP/2 writes a line to the log for each.
#[tokio::test]
async fn unexpected_acknowledgements_are_hung_up_on() {
    let server = serve();
    let attack = async {
        let mut raw = Raw::open(&server.address, &[]).await.unwrap();
        let pong = frame(PING, ACK, 0, &[7; 8]);
        raw.send(&pong.repeat(10)).await.unwrap();
        raw.wait_for_pong().await.expect("a few are a mistake");
        let _ = raw.send(&pong.repeat(20_000)).await;
        assert!(raw.read_to_end(UNTIL_CLOSED).await.0, "it goes on");
    };
    let (report, ()) = beside("20,000 acknowledgements of no PING", &server, attack).await;
    assert_bounded(&report, 16 * MIB);
    assert!(server.heard().len() < 64 << 10, "the log has {} bytes", server.heard().len());
}

/// A client whose user presses Ctrl-C, or whose deadline is over.
#[tokio::test]
async fn g7_a_thousand_calls_cancelled_at_once_do_not_end_the_connection() {
    let server = serve();
    for count in [100, 1_000] {
        let mut raw = Raw::open(&server.address, &[]).await.unwrap();
        let open = |stream| {
            let ask = frame(DATA, END_STREAM, stream, &message(3, b"\x0a\x01t"));
            [frame(HEADERS, END_HEADERS, stream, &call("GetPauseState")), ask].concat()
        };
        let cancel = |stream| frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        let all = streams().take(count).map(open).chain(streams().take(count).map(cancel)).collect::<Vec<_>>();
        raw.send_all(&all.concat()).await;
        let next = 2 * count as u32 + 1;
        raw.send_all(&open(next)).await;
        raw.wait_for_end(next).await.expect("the connection goes on");
        assert_eq!(raw.count(GOAWAY), 0);
    }
}

/// HTTP/2 would queue the calls of a client behind its own watches.
#[tokio::test]
async fn a_client_with_as_many_watches_as_streams_can_call() {
    let server = serve();
    let client = Client::new(&server.address.parse().expect("an address")).expect("a client");
    let mut watches = tokio::task::JoinSet::new();
    let opened = Arc::new(Semaphore::new(0));
    for i in 0..1_024 {
        let (mut watch, opened) = (client.watch(), opened.clone());
        watches.spawn(async move {
            watch.add(&format!("t{i}")).expect("it is valid");
            loop {
                if matches!(watch.next().await, Event::SnapshotComplete) {
                    opened.add_permits(1);
                }
            }
        });
    }
    let increment = IncrementElicitationRequest { thread_id: "t7".into(), ..Default::default() };
    let open = client.increment_elicitation(increment).await.expect("it does not wait");
    let _all = timed("1,024 watches", opened.acquire_many(1_024)).await.expect("it is open");
    let elicitation_id = open.elicitation.map(|elicitation| elicitation.elicitation_id);
    let decrement = DecrementElicitationRequest { thread_id: "t7".into(), elicitation_id, ..Default::default() };
    client.decrement_elicitation(decrement).await.expect("it does not wait");
}

#[tokio::test]
async fn g7_two_hundred_calls_in_one_write_are_answered() {
    let server = serve();
    let mut raw = Raw::open(&server.address, &[]).await.unwrap();
    let open = |stream| {
        // As our client sends it: a message in a frame of its own, then an empty one.
        let ask = frame(DATA, 0, stream, &message(3, b"\x0a\x01t"));
        let end = frame(DATA, END_STREAM, stream, b"");
        [frame(HEADERS, END_HEADERS, stream, &call("GetPauseState")), ask, end].concat()
    };
    raw.send_all(&streams().take(200).flat_map(open).collect::<Vec<_>>()).await;
    for stream in streams().take(200) {
        raw.wait_for_end(stream).await.expect("the connection goes on");
    }
    assert_eq!(raw.count(GOAWAY), 0);
}
