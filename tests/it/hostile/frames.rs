//! Frames that are invalid, endless, or cancelled at once.
use super::{MIB, assert_bounded, serve};
use crate::support::beside;
use crate::support::http2::{
    CONTINUATION, END_HEADERS, HEADERS, INITIAL_WINDOW_SIZE, LONGEST, PING, PREFACE, RST_STREAM, Raw, call, frame,
    header, settings, streams,
};
use fastrand::Rng;
use std::time::Duration;

#[tokio::test]
async fn garbage_is_hung_up_on() {
    let server = serve();
    let attack = async {
        let mut random = Rng::with_seed(0x5eed_0030);
        for i in 0..400 {
            let mut garbage: Vec<u8> = (0..4_096).map(|_| random.u8(..)).collect();
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
                    break;
                }
            }
            hung_up += usize::from(raw.read_to_end(Duration::from_secs(20)).await.0);
        }
        hung_up
    };
    let (report, hung_up) = beside("10 connections of 20,000 streams opened and reset", &server, attack).await;
    assert_eq!(hung_up, 10, "each connection is closed");
    assert_bounded(&report, 32 * MIB);
}

/// CVE-2024-27316 and similar ones.
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
            // Each header is within the limit of a frame; together they exceed the limit of a request.
            let large = header("x", &"y".repeat(LONGEST - 200));
            for stream in streams().take(50) {
                let open = [
                    frame(HEADERS, 0, stream, &call("GetPauseState")),
                    frame(CONTINUATION, 0, stream, &large),
                    frame(CONTINUATION, END_HEADERS, stream, &large),
                ];
                raw.send_all(&open.concat()).await;
            }
            raw.wait_for(HEADERS, 50).await.expect("each is refused before its end");
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
