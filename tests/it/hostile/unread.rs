//! Answers and watches that are not read.
use super::{MIB, assert_bounded, assert_budget_is_used_up, serve};
use crate::support::beside;
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, LONGEST, Raw, call, frame, message, streams,
};

#[tokio::test]
async fn answers_that_are_not_read_take_bounded_memory() {
    let server = serve();
    server.api().await.fatten("fat").await;
    let attack = async {
        let mut connections = Vec::new();
        for (rpc, asked) in [
            ("GetPauseState", &b"\x0a\x03fat"[..]),
            ("ListPauseStates", b""),
            ("ListPauses", b""),
            ("WatchPauseState", b"\x0a\x03fat\x10\x01"),
        ] {
            for window in [0, 1] {
                let mut raw = Raw::open(&server.address, &[(INITIAL_WINDOW_SIZE, window)]).await.unwrap();
                for stream in streams().take(400) {
                    let open = frame(HEADERS, END_HEADERS, stream, &call(rpc));
                    let ask = frame(DATA, END_STREAM, stream, &message(asked.len(), asked));
                    if raw.send(&[open, ask].concat()).await.is_err() {
                        break;
                    }
                }
                // Whether the connection stays open or not, the server has now processed everything.
                let _ = raw.wait_for_pong().await;
                connections.push(raw);
            }
        }
    };
    let (report, ()) = beside("2,400 answers of 1.5 MB that are not read", &server, attack).await;
    assert_bounded(&report, 256 * MIB);
    assert_budget_is_used_up(server).await;
}

/// A watch of all threads that is not read needs no memory for each paused thread.
#[tokio::test]
async fn unread_watches_of_all_threads_take_bounded_memory() {
    let server = serve();
    let mut opening = tokio::task::JoinSet::new();
    for part in 0..8 {
        let mut api = server.api().await;
        opening.spawn(async move {
            for thread in 0..500 {
                api.increment(&format!("{part} {thread}"), None).await;
            }
        });
    }
    opening.join_all().await;
    let attack = async {
        let mut connections = Vec::new();
        for _ in 0..4 {
            let mut raw = Raw::open(&server.address, &[(INITIAL_WINDOW_SIZE, 0)]).await.unwrap();
            for numbers in streams().take(1_000).collect::<Vec<_>>().chunks(100) {
                let open = |&stream: &u32| {
                    let ask = frame(DATA, END_STREAM, stream, &message(0, b""));
                    [frame(HEADERS, END_HEADERS, stream, &call("WatchPauseState")), ask].concat()
                };
                raw.send(&numbers.iter().flat_map(open).collect::<Vec<_>>()).await.unwrap();
            }
            raw.wait_for_pong().await.expect("the connection goes on");
            connections.push(raw);
        }
        let watchers = server.api().await.increment("t", None).await.watchers;
        assert_eq!(watchers, 4_000, "all watches are open");
    };
    let (report, ()) = beside("4,000 unread watches of 4,000 paused threads", &server, attack).await;
    assert_bounded(&report, 64 * MIB);
}

/// A request of `Watch` names a thousand threads, and its answer is not read.
#[tokio::test]
async fn unread_confirmations_take_bounded_memory() {
    let server = serve();
    let id = [&b"\x1a\x80\x02"[..], &[b'x'; 256]].concat();
    let ask = message(1_000 * id.len(), &id.repeat(1_000));
    let attack = async {
        let mut raw = Raw::open(&server.address, &[(INITIAL_WINDOW_SIZE, 0)]).await.unwrap();
        let mut sent = 0;
        'streams: for stream in streams().take(700) {
            let _ = raw.send(&frame(HEADERS, END_HEADERS, stream, &call("Watch"))).await;
            for part in ask.chunks(LONGEST) {
                if raw.send_data(stream, part).await.is_err() {
                    break 'streams;
                }
            }
            sent += 1;
        }
        assert!(sent < 700, "the server accepted 700 requests with unread confirmations of 272 kB each");
    };
    let (report, ()) = beside("700 confirmations of 1,000 threads that are not read", &server, attack).await;
    assert_bounded(&report, 256 * MIB);
    assert_budget_is_used_up(server).await;
}
