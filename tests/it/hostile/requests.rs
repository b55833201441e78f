//! Requests that are incomplete, too large, or too many.
use super::{A_WHILE, MIB, assert_bounded, assert_budget_is_used_up, serve};
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, LONGEST, PREFACE, Raw, call, frame, message, settings, streams,
};
use crate::support::{beside, states, timed};
use pausewatch::proto::v1::ListPauseStatesRequest;

/// Incomplete messages are kept until they are complete: their total size is bounded.
#[tokio::test]
async fn half_requests_take_bounded_memory() {
    for (rpc, length, sent) in [("WatchPauseState", 3 << 20, 40), ("IncrementElicitation", 60_000, 2)] {
        let server = serve();
        let attack = async {
            let mut connections = Vec::new();
            for _ in 0..4 {
                let mut raw = Raw::open(&server.address, &[]).await.unwrap();
                'streams: for stream in streams().take(400) {
                    let _ = raw.send(&frame(HEADERS, END_HEADERS, stream, &call(rpc))).await;
                    let begun = message(length, &[0x0a; LONGEST - 5]);
                    for data in std::iter::once(&begun[..]).chain(std::iter::repeat_n(&[0x0a; LONGEST][..], sent)) {
                        if raw.send_data(stream, data).await.is_err() {
                            break 'streams;
                        }
                    }
                }
                connections.push(raw);
            }
        };
        let (report, ()) = beside(&format!("1,600 half requests of {rpc}"), &server, attack).await;
        assert_bounded(&report, 256 * MIB);
        assert_budget_is_used_up(server).await;
    }
}

/// The memory of a message may exceed the bytes that were sent.
#[tokio::test]
async fn half_requests_without_a_byte_take_bounded_memory() {
    let server = serve();
    let attack = async {
        let mut connections = Vec::new();
        for _ in 0..9 {
            let mut raw = Raw::open(&server.address, &[]).await.unwrap();
            for numbers in streams().take(1_000).collect::<Vec<_>>().chunks(100) {
                let open = |&stream: &u32| frame(HEADERS, END_HEADERS, stream, &call("GetPauseState"));
                if raw.send(&numbers.iter().flat_map(open).collect::<Vec<_>>()).await.is_err() {
                    break;
                }
            }
            // Whether the connection stays open or not, the server has now processed everything.
            let _ = raw.wait_for_pong().await;
            connections.push(raw);
        }
    };
    let (report, ()) = beside("9,000 half requests without a byte", &server, attack).await;
    assert_bounded(&report, 256 * MIB);
    assert_budget_is_used_up(server).await;
}

/// One byte at a time, and the last ones when all others have come.
#[tokio::test]
async fn slow_requests_do_not_delay_other_clients() {
    let server = serve();
    let attack = async {
        let mut connections = Vec::new();
        for _ in 0..200 {
            connections.push(Raw::connect(&server.address).await.unwrap());
        }
        let head = frame(HEADERS, END_HEADERS, 1, &call("GetPauseState"));
        let whole = [PREFACE, &settings(&[]), &head, &frame(DATA, 0, 1, &message(9, b"\x0a\x07trick"))].concat();
        for byte in &whole {
            for raw in &mut connections {
                raw.send(&[*byte]).await.unwrap();
            }
        }
        for raw in &mut connections {
            raw.send(&frame(DATA, END_STREAM, 1, b"ed")).await.unwrap();
        }
        for raw in &mut connections {
            raw.wait_for(DATA, 1).await.expect("an answer, not a refusal, which has only headers");
        }
    };
    let (report, ()) = beside("200 requests, a byte at a time", &server, attack).await;
    assert_bounded(&report, 16 * MIB);
}

/// A message that announces more than the maximum size is refused before it has arrived.
#[tokio::test]
async fn messages_above_the_limit_are_refused_before_they_have_come() {
    let server = serve();
    let attack = async {
        for (rpc, most) in [("IncrementElicitation", 64 << 10), ("WatchPauseState", 3 << 20)] {
            for (length, refused) in [(most, false), (most + 1, true), (u32::MAX as usize, true)] {
                let mut raw = Raw::open(&server.address, &[]).await.unwrap();
                let open = frame(HEADERS, END_HEADERS, 1, &call(rpc));
                raw.send(&[open, frame(DATA, 0, 1, &message(length, &[0x0a; 1_000]))].concat()).await.unwrap();
                if refused {
                    raw.wait_for(HEADERS, 1).await.expect("it is refused");
                } else {
                    let (_, said) = raw.read_to_end(A_WHILE).await;
                    assert!(!has_frame(&said, HEADERS), "{rpc} of {length} bytes is answered");
                }
            }
        }
    };
    let (report, ()) = beside("messages that say they have 4 GiB", &server, attack).await;
    assert_bounded(&report, 16 * MIB);
}

/// Ten thousand complete requests at once are not an attack.
#[tokio::test]
async fn ten_thousand_calls_at_once_are_answered() {
    let server = serve();
    let mut calls = tokio::task::JoinSet::new();
    for connection in 0..10 {
        let api = server.api().await;
        for thread in 0..1_000 {
            let mut api = api.clone();
            calls.spawn(async move { api.try_increment(&format!("{connection} {thread}"), "", None).await });
        }
    }
    let answers = timed("ten thousand answers", calls.join_all()).await;
    assert!(answers.iter().all(Result::is_ok), "{:?}", answers.iter().find(|answer| answer.is_err()));
}

/// Reading unknown threads leaves no state behind; creating threads costs their size, once.
#[tokio::test]
async fn twenty_thousand_threads_of_one_client() {
    const THREADS: usize = 20_000;
    let server = serve();
    let attack = async {
        let mut api = server.api().await;
        for first in (0..THREADS).step_by(2_000) {
            let ids = (first..first + 2_000).map(|i| format!("unknown {i}")).collect();
            let mut watch = api.try_watch(ids, false).await.unwrap();
            assert_eq!(states(&mut watch).await.len(), 2_000);
            assert_eq!(api.get(&format!("unknown {first}")).await.count, 0);
        }
        let known = ListPauseStatesRequest { include_running: true, page_size: 1_000, ..Default::default() };
        assert!(api.list(known).await.unwrap().pause_states.len() <= 1, "only the honest client's thread is paused");
    };
    let (report, ()) = beside("20,000 unknown threads, 2,000 a watch", &server, attack).await;
    assert_bounded(&report, 12 * MIB);
    let attack = async {
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..50 {
            let mut api = server.api().await;
            callers.spawn(async move {
                for i in 0..THREADS / 50 {
                    api.increment(&format!("thread {caller} {i}"), None).await;
                }
            });
        }
        callers.join_all().await;
    };
    let (report, ()) = beside("20,000 threads with an elicitation each", &server, attack).await;
    assert_bounded(&report, 32 * MIB);
}

/// Whether `bytes` contains a frame of this kind.
fn has_frame(mut bytes: &[u8], kind: u8) -> bool {
    while let [a, b, c, found, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if *found == kind {
            return true;
        }
        bytes = rest.get(5 + length..).unwrap_or_default();
    }
    false
}
