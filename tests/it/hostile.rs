//! G7 on the wire: clients that speak HTTP/2 badly, or well and with bad intent. The server's memory stays bounded, and
//! another client's calls, from new connections too, are answered meanwhile. `cargo test --test it hostile -- --nocapture`
//! prints what was measured.
use crate::support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, LONGEST, PING, PREFACE, RST_STREAM, Raw,
    call, frame, header, message, settings, streams,
};
use crate::support::{Process, Random, Report, beside, states, timed};
use pausewatch::proto::v1::ListPauseStatesRequest;
use std::process::Command;
use std::time::Duration;

const MIB: usize = 1 << 20;
/// Long enough for the server to close a connection, or to show that it will not.
const A_WHILE: Duration = Duration::from_millis(300);

fn serve() -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
    Process::start(command)
}

fn assert_bounded(report: &Report, most: usize) {
    assert!(report.peak < most, "memory grew by {} MiB; the bound is {} MiB", report.peak / MIB, most / MIB);
    // Each of them was answered. How fast is a question of the machine: `benches/run hostile`.
    assert!(report.calls > 0, "{report:?}");
}

#[tokio::test]
async fn garbage_is_hung_up_on() {
    let server = serve();
    let attack = async {
        let mut random = Random::new(0x5eed_0030);
        for i in 0..400 {
            let mut garbage: Vec<u8> = (0..4_096).map(|_| random.next() as u8).collect();
            match i % 4 {
                0 => garbage.splice(0..0, *b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").for_each(drop),
                1 => garbage.splice(0..0, PREFACE.iter().copied()).for_each(drop),
                2 => garbage.splice(0..0, [PREFACE, &settings(&[])].concat()).for_each(drop),
                _ => {}
            }
            let mut raw = Raw::connect(&server.address).await.unwrap();
            let _ = raw.send(&garbage).await;
            let (closed, _) = raw.read_to_end(Duration::from_secs(10)).await;
            assert!(closed, "connection {i} is still open");
        }
    };
    let (report, ()) = beside("garbage on 400 connections", &server, attack).await;
    assert_bounded(&report, 16 * MIB);
}

/// CVE-2023-44487.
#[tokio::test]
async fn rapid_resets_are_hung_up_on() {
    let server = serve();
    let attack = async {
        let mut hung_up = 0;
        for _ in 0..10 {
            let mut raw = Raw::open(&server.address, &[]).await.unwrap();
            for numbers in streams().take(20_000).collect::<Vec<_>>().chunks(100) {
                let pair = |&stream: &u32| {
                    let open = frame(HEADERS, END_HEADERS, stream, &call("IncrementElicitation"));
                    [open, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
                };
                if raw.send(&numbers.iter().flat_map(pair).collect::<Vec<_>>()).await.is_err() {
                    hung_up += 1;
                    break;
                }
            }
        }
        hung_up
    };
    let (report, hung_up) = beside("10 connections of 20,000 streams opened and reset", &server, attack).await;
    assert_eq!(hung_up, 10, "each is closed before it has sent it all");
    assert_bounded(&report, 32 * MIB);
}

/// CVE-2024-27316 and its like.
#[tokio::test]
async fn headers_that_never_end_are_hung_up_on() {
    let server = serve();
    let attack = async {
        let mut closed = 0;
        for i in 0..20 {
            let mut raw = Raw::open(&server.address, &[]).await.unwrap();
            let _ = raw.send(&frame(HEADERS, 0, 1, &call("GetPauseState"))).await;
            let block = if i % 2 == 0 { header("x", &"y".repeat(LONGEST - 20)) } else { Vec::new() };
            let more = frame(CONTINUATION, 0, 1, &block).repeat(64);
            for _ in 0..200 {
                if raw.send(&more).await.is_err() {
                    break;
                }
            }
            closed += usize::from(raw.read_to_end(Duration::from_secs(10)).await.0);
        }
        closed
    };
    let (report, closed) = beside("20 connections of endless headers", &server, attack).await;
    assert_eq!(closed, 20);
    assert_bounded(&report, 32 * MIB);
}

#[tokio::test]
async fn headers_above_the_limit_are_refused_and_not_kept() {
    let server = serve();
    let attack = async {
        let mut connections = Vec::new();
        for _ in 0..20 {
            let mut raw = Raw::open(&server.address, &[]).await.unwrap();
            // Each is within what a frame may be, and together they are above what a request may have.
            let large = header("x", &"y".repeat(LONGEST - 200));
            for stream in streams().take(50) {
                let open = [
                    frame(HEADERS, 0, stream, &call("GetPauseState")),
                    frame(CONTINUATION, 0, stream, &large),
                    frame(CONTINUATION, END_HEADERS, stream, &large),
                ];
                if raw.send(&open.concat()).await.is_err() {
                    break;
                }
            }
            // Whether it goes on or is closed: the server has seen it all.
            let _ = raw.wait_for_pong().await;
            connections.push(raw);
        }
    };
    let (report, ()) = beside("1,000 requests with 32 KiB of headers, left open", &server, attack).await;
    assert_bounded(&report, 16 * MIB);
}

#[tokio::test]
async fn endless_pings_and_settings_do_not_delay_other_clients() {
    let server = serve();
    let attack = async {
        for flood in [frame(PING, 0, 0, &[7; 8]), settings(&[(INITIAL_WINDOW_SIZE, 65_535)])] {
            let mut raw = Raw::open(&server.address, &[]).await.unwrap();
            let many = flood.repeat(1_000);
            for _ in 0..500 {
                if raw.send(&many).await.is_err() {
                    break;
                }
            }
        }
    };
    let (report, ()) = beside("500,000 pings, and settings, whose answers are not read", &server, attack).await;
    assert_bounded(&report, 32 * MIB);
}

/// The messages that were begun are kept until they are whole: what all of them take together is bounded.
#[tokio::test]
async fn half_requests_take_bounded_memory() {
    let server = serve();
    let attack = async {
        let mut connections = Vec::new();
        for (rpc, length, sent) in [("WatchPauseState", 3 << 20, 40), ("IncrementElicitation", 60_000, 2)] {
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
        }
    };
    let (report, ()) = beside("3,200 half requests of up to 640 KiB", &server, attack).await;
    assert_bounded(&report, 256 * MIB);
}

/// What one takes is not what it has sent.
#[tokio::test]
async fn half_requests_without_a_byte_take_bounded_memory() {
    let server = serve();
    let attack = async {
        let mut connections = Vec::new();
        for _ in 0..6 {
            let mut raw = Raw::open(&server.address, &[]).await.unwrap();
            for numbers in streams().take(9_000).collect::<Vec<_>>().chunks(100) {
                let open = |&stream: &u32| frame(HEADERS, END_HEADERS, stream, &call("GetPauseState"));
                if raw.send(&numbers.iter().flat_map(open).collect::<Vec<_>>()).await.is_err() {
                    break;
                }
            }
            // Whether it goes on or is closed: the server has seen it all.
            let _ = raw.wait_for_pong().await;
            connections.push(raw);
        }
    };
    let (report, ()) = beside("54,000 half requests without a byte", &server, attack).await;
    assert_bounded(&report, 256 * MIB);
}

/// Ten thousand at once are no attack when they come whole.
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

#[tokio::test]
async fn answers_that_are_not_read_take_bounded_memory() {
    let server = serve();
    let mut api = server.api().await;
    let request = pausewatch::proto::v1::IncrementElicitationRequest {
        thread_id: "fat".into(),
        reason: "r".repeat(1_024),
        holder: "h".repeat(256),
        ..Default::default()
    };
    for _ in 0..1_000 {
        api.0.increment_elicitation(request.clone()).await.unwrap();
    }
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
                // Whether it goes on or is closed: the server has seen it all.
                let _ = raw.wait_for_pong().await;
                connections.push(raw);
            }
        }
    };
    let (report, ()) = beside("2,400 answers of 1.5 MB that are not read", &server, attack).await;
    assert_bounded(&report, 256 * MIB);
}

/// A watch of all threads that nobody reads needs no memory for each paused thread.
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
        assert_eq!(watchers, 4_000, "all are open");
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
        assert!(sent < 700, "700 confirmations of 272 kB each were taken and not read");
    };
    let (report, ()) = beside("700 confirmations of 1,000 threads that are not read", &server, attack).await;
    assert_bounded(&report, 256 * MIB);
}

/// A server with few file descriptors, as a large one with many.
#[tokio::test]
async fn silent_connections_are_closed_for_active_ones() {
    let mut command = Command::new("sh");
    let serve = "ulimit -n 256; exec \"$0\" serve --listen 127.0.0.1:0 --store memory";
    command.args(["-c", serve, env!("CARGO_BIN_EXE_pausewatch")]);
    let server = Process::start(command);
    let mut speaker = server.api().await;
    speaker.increment("first", None).await;
    let attack = async {
        let mut connections = Vec::new();
        for i in 0..600 {
            let connected = match i % 3 {
                0 => Raw::connect(&server.address).await,
                1 => Raw::open(&server.address, &[]).await,
                _ => {
                    let mut raw = Raw::open(&server.address, &[]).await;
                    if let Ok(raw) = &mut raw {
                        let _ = raw.send(&frame(HEADERS, 0, 1, &call("GetPauseState"))).await;
                    }
                    raw
                }
            };
            connections.push(connected);
        }
        // Each connects anew.
        for i in 0..50 {
            timed("a newcomer", async { server.api().await.increment(&format!("newcomer {i}"), None).await }).await;
        }
    };
    let (report, ()) = beside("600 silent connections, with 256 file descriptors", &server, attack).await;
    assert_eq!(speaker.get("first").await.count, 1, "who has spoken stays");
    assert_bounded(&report, 32 * MIB);
}

/// A letter at a time, and none of them the last.
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
    };
    let (report, ()) = beside("200 requests, a byte at a time", &server, attack).await;
    assert_bounded(&report, 16 * MIB);
}

/// A message that says it is larger than it may be is refused before it has come.
#[tokio::test]
async fn messages_above_the_limit_are_refused_before_they_have_come() {
    let server = serve();
    let attack = async {
        for (rpc, most) in [("IncrementElicitation", 64 << 10), ("WatchPauseState", 3 << 20)] {
            for (length, refused) in [(most, false), (most + 1, true), (u32::MAX as usize, true)] {
                let mut raw = Raw::open(&server.address, &[]).await.unwrap();
                let open = frame(HEADERS, END_HEADERS, 1, &call(rpc));
                raw.send(&[open, frame(DATA, 0, 1, &message(length, &[0x0a; 1_000]))].concat()).await.unwrap();
                let (_, said) = raw.read_to_end(A_WHILE).await;
                assert_eq!(has_frame(&said, HEADERS), refused, "{rpc} of {length} bytes is answered");
            }
        }
    };
    let (report, ()) = beside("messages that say they have 4 GiB", &server, attack).await;
    assert_bounded(&report, 16 * MIB);
}

/// Whether there is a frame of this kind among `bytes`.
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

/// Asking for threads that nobody has named leaves nothing behind; naming them costs what they are, once.
#[tokio::test]
async fn a_hundred_thousand_threads_of_one_client() {
    const THREADS: usize = 100_000;
    let server = serve();
    let attack = async {
        let mut api = server.api().await;
        for first in (0..THREADS).step_by(10_000) {
            let ids = (first..first + 10_000).map(|i| format!("unknown {i}")).collect();
            let mut watch = api.try_watch(ids, false).await.unwrap();
            assert_eq!(states(&mut watch).await.len(), 10_000);
            assert_eq!(api.get(&format!("unknown {first}")).await.count, 0);
        }
        let known = ListPauseStatesRequest { include_running: true, page_size: 1_000, ..Default::default() };
        assert!(api.list(known).await.unwrap().pause_states.len() <= 1, "none but the honest client's");
    };
    let (report, ()) = beside("100,000 unknown threads, 10,000 a watch", &server, attack).await;
    assert_bounded(&report, 64 * MIB);
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
    let (report, ()) = beside("100,000 threads with an elicitation each", &server, attack).await;
    assert_bounded(&report, 160 * MIB);
}

#[tokio::test]
async fn streams_above_the_limit_are_refused_and_the_others_go_on() {
    let server = serve();
    let attack = async {
        let mut raw = Raw::open(&server.address, &[]).await.unwrap();
        for numbers in streams().take(30_000).collect::<Vec<_>>().chunks(100) {
            let open = |&stream: &u32| {
                let ask = frame(DATA, END_STREAM, stream, &message(3, b"\x0a\x01t"));
                [frame(HEADERS, END_HEADERS, stream, &call("WatchPauseState")), ask].concat()
            };
            raw.send_all(&numbers.iter().flat_map(open).collect::<Vec<_>>()).await;
        }
        raw.wait_for_pong().await.expect("the connection goes on");
        let mut api = server.api().await;
        let all_there = async {
            // Closed again: a thread has at most 1,000 open ones, and a busy machine needs more looks.
            while api.increment("t", None).await.watchers < 10_000 {
                api.try_decrement("t", "", None).await.expect("it was opened");
                // Without it, the server closes a connection that is silent for 50 s.
                raw.wait_for_pong().await.expect("the connection goes on");
            }
        };
        timed("the watches", all_there).await;
        raw.wait_for_pong().await.expect("the connection goes on");
        assert_eq!(api.increment("t", None).await.watchers, 10_000);
    };
    let (report, ()) = beside("30,000 watches on one connection", &server, attack).await;
    assert_bounded(&report, 128 * MIB);
}
